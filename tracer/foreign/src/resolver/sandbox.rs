//! What a resolver process cannot do, by the kernel's word: open a file, reach a network, change anything, take all memory.
//!
//! Three walls: a user that nobody else has, without capabilities (`roles/renounce.rs`), Landlock (no file system, no network, where the kernel
//! has it: 5.13), and seccomp (the system calls of a parser). Files of its own in memory, which the symbol library opens by number, pass
//! through Landlock, as they lie in no file system that anybody sees. Leaves out what the processes do.

use crate::arch::{OLD_CALLS, TARGET};
use energy_trace_model::collections::Fill as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, Scope, path_beneath_rules,
};
use nix::sys::resource::{Resource, setrlimit};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// Memory that a worker may write to, in bytes: the rows and symbols of the largest libraries take a tenth.
const MOST_MEMORY: u64 = 2 << 30;
/// The same where debug information is read.
const MOST_MEMORY_FOR_LINES: u64 = 8 << 30;
/// Bytes of a file in memory: a copy of the symbols lies at the places that they have in their file.
const LONGEST_FILE: u64 = 16 << 30;
/// Open files.
const MOST_FILES: u64 = 4096;

/// Puts this process first in the row of those that are killed when memory runs out, while it may write there.
pub(super) fn go_first_without_memory() {
    // A process that could not be put there is only less polite.
    let _denied = std::fs::write("/proc/self/oom_score_adj", "500");
}

/// What a confined thread may do all the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed<'a> {
    /// Folders below which it reads.
    pub readable: &'a [&'a str],
    /// A folder below which it also writes files and makes folders.
    pub writable: Option<&'a Path>,
    /// A port that it connects to.
    pub port: Option<u16>,
}

/// Closes the file system and the network, but for what is allowed, for this thread and all that it starts.
///
/// # Errors
/// When the system refuses any of it; a kernel without Landlock is none.
pub fn confine(allowed: &Allowed<'_>) -> io::Result<()> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let making = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::MakeDir;
    let writing = reading | making | AccessFs::RemoveFile | AccessFs::RemoveDir;
    let ports = allowed.port.map(|port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp)));
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V5)))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(allowed.readable, reading)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(allowed.writable, writing)))
        .and_then(|rules| rules.add_rules(ports))
        .map_err(io::Error::other)?;
    ruleset.restrict_self().map(drop).map_err(io::Error::other)
}

/// The version of Landlock that this kernel has; `None` where it has none, or it is switched off (Documentation/userspace-api/landlock.rst, v6.1).
pub fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel reads no memory and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).ok()
}

/// What leads nowhere.
const NOWHERE: &str = "/dev/null";

/// Standard input, output and error lead nowhere from now on.
pub(crate) fn leave_terminal() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open(NOWHERE);
    // As an error of the process that is started it would not say what is missing.
    let null = null.map_err(|error| io::Error::new(error.kind(), format!("{NOWHERE}: {error}")))?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Limits this process, and allows it the system calls of a parser and no others: any other one ends it.
///
/// # Errors
/// When the system refuses.
pub(super) fn close_worker(lines: bool) -> io::Result<()> {
    let memory = if lines { MOST_MEMORY_FOR_LINES } else { MOST_MEMORY };
    let limits = [
        (Resource::RLIMIT_DATA, memory),
        (Resource::RLIMIT_FSIZE, LONGEST_FILE),
        (Resource::RLIMIT_NOFILE, MOST_FILES),
        (Resource::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        lower(resource, most)?;
    }
    let filter = filter().map_err(io::Error::other)?;
    apply_filter(&filter).map_err(io::Error::other)
}

/// A limit that is lower already stays.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let (_, hard) = nix::sys::resource::getrlimit(resource)?;
    let most = most.min(hard);
    Ok(setrlimit(resource, most, most)?)
}

/// System calls without conditions: memory, the channel, files that are open, time, the end.
const CALLS: [i64; 39] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_ppoll,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fcntl,
    libc::SYS_futex,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sched_getaffinity,
    libc::SYS_restart_syscall,
];

/// Of this process alone: a child that it forks would need its own.
fn filter() -> Result<seccompiler::BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.into_iter().chain(OLD_CALLS).map(|call| (call, Vec::new())).fill_map();
    // Opened to be read; no memory that can be executed.
    let writing = u64::from((libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC).cast_unsigned());
    rules.insert(libc::SYS_openat, vec![without(2, writing)?]);
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    rules.insert(libc::SYS_mmap, vec![without(2, executable)?]);
    rules.insert(libc::SYS_mprotect, vec![without(2, executable)?]);
    // A signal to itself: how an abort ends it.
    let itself = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![only(0, itself)?]);
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, TARGET)?;
    filter.try_into()
}

/// Allows a call whose argument is this.
fn only(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
}

/// Allows a call whose argument has none of these bits.
fn without(argument: u8, bits: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let none = SeccompCmpOp::MaskedEq(bits);
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, none, 0)?])
}

#[cfg(test)]
mod tests {
    use super::{apply_filter, filter};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus};

    const TO: &str = "ENERGY_TRACE_TEST_SIGNAL_TO";

    /// A worker may send a signal to itself, as an abort does, and ends at once when it sends one to another process of the same user.
    #[test]
    fn signals_to_itself_alone() {
        if let Ok(to) = std::env::var(TO) {
            send_as_a_worker(to.parse().unwrap_or_else(|_| std::process::id()));
        }
        let itself = sent_to("itself");
        assert!(itself.success(), "{itself}");
        let other = sent_to(&std::process::id().to_string());
        assert_eq!(other.signal(), Some(libc::SIGSYS), "{other}");
    }

    /// How a worker ends that sends one: this test in a process of its own.
    fn sent_to(whom: &str) -> ExitStatus {
        let own = std::env::current_exe().unwrap();
        let mut again = Command::new(own);
        again.args(["signals_to_itself_alone", "--nocapture"]).env(TO, whom);
        again.output().unwrap().status
    }

    fn send_as_a_worker(to: u32) -> ! {
        apply_filter(&filter().unwrap()).unwrap();
        // SAFETY: the signal is none, so that whoever it is for does not notice; then this process ends.
        unsafe {
            let sent = libc::syscall(libc::SYS_tgkill, to, to, 0);
            libc::_exit(i32::from(sent != 0 && to != std::process::id()))
        }
    }
}
