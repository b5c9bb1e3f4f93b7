//! What an agent's process cannot do, by the kernel's word: write anywhere but below its spool, read anything
//! else but `/proc` and the names of pods, reach a network but at its collector's port, run a program, look
//! into others.
//!
//! Three barriers, as a resolver has (`foreign/resolver/sandbox`): a user without capabilities that nobody
//! else has (with a spool, its owner); Landlock, where the kernel has it; and seccomp, which here names what
//! is refused: who serves pages needs more calls than a parser. Its socket listens before.

use super::groups::PODS;
use crate::plan::AgentPlan;
use energy_trace_foreign::resolver::{Allowed, confine};
use energy_trace_model::collections::Fill as _;
use energy_trace_system::roles::own_user::OwnUser;
use energy_trace_system::roles::renounce::{Identity, renounce};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Calls that are refused; `socket` and `connect` are too where there is no collector.
const REFUSED: [i64; 24] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_personality,
];

/// Gives up all privileges, and becomes a user that nobody else has, or whoever owns the spool, where the
/// process is root's.
///
/// # Errors
/// When the system refuses.
pub(crate) fn become_user(plan: &AgentPlan) -> io::Result<()> {
    match plan.spool.as_ref().and_then(|spool| spool.owner) {
        Some((uid, gid)) => renounce(Some(&Identity { uid, gid, groups: Vec::new() })),
        None => renounce(OwnUser::find().identity()),
    }
}

/// Shuts this thread, and those that it starts, off from all that it does not need: it may write below
/// `spool` and connect to `port`.
///
/// # Errors
/// When the system refuses any of it; a kernel without Landlock is none.
pub(super) fn enter_sandbox(spool: Option<&Path>, port: Option<u16>) -> io::Result<()> {
    confine(&Allowed { readable: &["/proc", PODS], writable: spool, port })?;
    apply_filter(&filter(port.is_some()).map_err(io::Error::other)?).map_err(io::Error::other)
}

fn filter(connects: bool) -> Result<BpfProgram, BackendError> {
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().map(|call| (call, Vec::new())).fill_map();
    if connects {
        rules.insert(libc::SYS_socket, sockets_but_tcp()?);
    } else {
        rules.extend([libc::SYS_socket, libc::SYS_connect].map(|call| (call, Vec::new())));
    }
    let target = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?.try_into()
}

/// Of other families than the internet's, and of any type but a stream.
fn sockets_but_tcp() -> Result<Vec<SeccompRule>, BackendError> {
    let condition = |argument, operation, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
    };
    let families = [libc::AF_INET, libc::AF_INET6].map(|family| condition(0, SeccompCmpOp::Ne, family));
    let mut rules = vec![SeccompRule::new(families.into_iter().collect::<Result<_, _>>()?)?];
    let types = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP];
    for of in types {
        // The rest of the word are flags.
        rules.push(SeccompRule::new(vec![condition(1, SeccompCmpOp::MaskedEq(0xf), of)?])?);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::enter_sandbox;
    use energy_trace_foreign::resolver::landlock_version;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    /// In the sandbox only `/proc` can be read; nothing is written, run or reached, and a socket that listens goes on.
    #[test]
    fn only_proc_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        let closed = std::thread::spawn(move || {
            enter_sandbox(None, None).unwrap();
            let accepted = listener.accept().is_ok();
            let read = std::fs::read("/proc/1/cgroup").is_ok() && std::fs::read("/proc/self/stat").is_ok();
            let refused = [
                File::create(&place).is_err(),
                std::fs::read("/etc/passwd").is_err() || !has_landlock(),
                TcpStream::connect(address).is_err(),
                TcpListener::bind("127.0.0.1:0").is_err(),
                Command::new("true").spawn().is_err(),
            ];
            (accepted, read, refused)
        });
        let _connection = TcpStream::connect(address).unwrap();
        let (accepted, read, refused) = closed.join().unwrap();
        assert!(accepted && read, "{accepted} {read}");
        // A kernel without Landlock lets root create files.
        assert!(refused.iter().skip(usize::from(!has_landlock())).all(|&refused| refused), "{refused:?}");
    }

    /// With a spool and a collector files are made there and nowhere else, and a TCP socket is had, which
    /// connects to that port alone; names are looked up no more.
    #[test]
    fn spool_and_collector() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [collector, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [spool, elsewhere] = folders.each_ref().map(|folder| folder.path().to_owned());
        let done = std::thread::spawn(move || {
            enter_sandbox(Some(&spool), Some(collector.port())).unwrap();
            let (made, renamed) = (spool.join("a/b"), spool.join("a/c"));
            let works = std::fs::create_dir(spool.join("a")).is_ok()
                && std::fs::write(&made, "x").is_ok()
                && std::fs::rename(&made, &renamed).is_ok()
                && std::fs::read_dir(spool.join("a")).is_ok_and(|files| files.count() == 1)
                && std::fs::remove_file(&renamed).is_ok()
                && std::fs::remove_dir(spool.join("a")).is_ok();
            let refused = [
                std::fs::write(elsewhere.join("x"), "x").is_err(),
                TcpStream::connect(other).is_err(),
                UdpSocket::bind("127.0.0.1:0").is_err(),
                UnixDatagram::unbound().is_err(),
                TcpListener::bind("127.0.0.1:0").is_err(),
                Command::new("true").spawn().is_err(),
            ];
            (works, TcpStream::connect(collector).is_ok(), refused)
        });
        let (works, connects, refused) = done.join().unwrap();
        // Which ports may be reached is Landlock's affair from version 4 on.
        let known = landlock_version().unwrap_or(0);
        let checked = refused.iter().enumerate().filter(|(at, _)| match at {
            0 => known > 0,
            1 => known >= 4,
            _ => true,
        });
        assert!(
            works && connects && checked.clone().all(|(_, refused)| *refused),
            "{works} {connects} {refused:?}"
        );
    }

    fn has_landlock() -> bool {
        landlock_version().is_some()
    }
}
