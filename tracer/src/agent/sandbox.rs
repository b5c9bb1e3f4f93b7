//! What an agent's process cannot do, by the kernel's word: write anywhere, read anything but `/proc` and the names of pods, reach a network,
//! run a program, look into others.
//!
//! Three barriers, as a resolver has (`foreign/resolver/sandbox`): a user that nobody else has, without capabilities; Landlock, where the kernel
//! has it; and seccomp, which here names what is refused: who serves pages needs more calls than a parser. Its socket listens before.

use super::groups::PODS;
use energy_trace_foreign::resolver::confine;
use energy_trace_system::roles::own_user::OwnUser;
use energy_trace_system::roles::renounce::renounce;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::io;

/// Calls that are refused.
const REFUSED: [i64; 26] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_connect,
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

/// Gives up all privileges, and becomes a user that nobody else has where the process is root's.
///
/// # Errors
/// When the system refuses.
pub(crate) fn become_nobody() -> io::Result<()> {
    renounce(OwnUser::find().identity())
}

/// Shuts this thread, and those that it starts, off from all that it does not need.
///
/// # Errors
/// When the system refuses any of it; a kernel without Landlock is none.
pub(super) fn enter_sandbox() -> io::Result<()> {
    confine(&["/proc", PODS])?;
    apply_filter(&filter()?).map_err(io::Error::other)
}

fn filter() -> io::Result<BpfProgram> {
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let target = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target);
    filter.and_then(TryInto::try_into).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::enter_sandbox;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    /// In the sandbox only `/proc` can be read; nothing is written, run or reached, and a socket that listens goes on.
    #[test]
    fn only_proc_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        let closed = std::thread::spawn(move || {
            enter_sandbox().unwrap();
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

    fn has_landlock() -> bool {
        energy_trace_foreign::resolver::landlock_version().is_some()
    }
}
