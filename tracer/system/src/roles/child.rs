//! Forks a role's process: a name of its own, one socket to its parent, no other files, no signals but those that cannot be blocked, and
//! an end that comes with its parent's. Later, when there are threads, a role is a new process of the same program.
//!
//! Leaves out giving up privileges (`renounce.rs`), which the role does first of all.

use super::channel::Channel;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};
use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A role's process, from its parent's side. Its end is its own affair: it comes when the channel is closed.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    /// To speak with it.
    pub channel: Channel,
}

/// What a role's process has of its parent.
#[derive(Debug)]
pub struct Parent {
    /// `None`: a thread started it, which may end before the process does.
    pid: Option<Pid>,
    /// To speak with it.
    pub channel: Channel,
}

/// Between two looks whether a process has ended.
const POLL: Duration = Duration::from_millis(2);
/// The status of a role that panicked; nobody reads others.
const PANICKED: i32 = 101;

/// Forks a process that does `role` and ends with the status that it gives.
///
/// Must be called while this process has one thread: what other threads hold locked stays locked in the child.
///
/// # Errors
/// When no process or socket can be had.
pub fn fork_role(name: &CStr, role: impl FnOnce(Parent) -> i32) -> io::Result<Child> {
    let (ours, theirs) = Channel::pair()?;
    let parent = nix::unistd::getpid();
    // SAFETY: the process has one thread, as the caller promises, so that the child finds every lock as it should be.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Child { pid: child, channel: ours }),
        ForkResult::Child => {
            drop(ours);
            let status = settle(name, &theirs)
                .map(|()| run(role, Parent { pid: Some(parent), channel: theirs }))
                .unwrap_or(PANICKED);
            // SAFETY: ends this process at once, without what its parent had registered for its own end.
            unsafe { libc::_exit(status) }
        }
    }
}

/// Starts this program anew as a role, whose name is all that it is told: `executed_role` is what it does then. May be called from any thread.
///
/// # Errors
/// When no process or socket can be had.
pub fn execute_role(name: &str) -> io::Result<Child> {
    let (ours, theirs) = Channel::pair()?;
    let mut role = Command::new("/proc/self/exe");
    role.arg0(name).arg(name).env_clear().stdin(Stdio::from(theirs.into_socket()));
    let started = role.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(Child { pid: Pid::from_raw(started.id().cast_signed()), channel: ours })
}

/// Does `role` and gives its status, where this process was started as one of that name; else nothing.
pub fn executed_role(name: &CStr, role: impl FnOnce(Parent) -> i32) -> Option<i32> {
    // Twice, as nobody calls a program by accident.
    if !std::env::args_os().map(OsString::into_vec).eq([name, name].map(CStr::to_bytes)) {
        return None;
    }
    let settled = io::stdin().as_fd().try_clone_to_owned().map(Channel::over);
    let settled = settled.and_then(|channel| settle(name, &channel).map(|()| channel));
    Some(settled.map_or(PANICKED, |channel| run(role, Parent { pid: None, channel })))
}

fn run(role: impl FnOnce(Parent) -> i32, parent: Parent) -> i32 {
    catch_unwind(AssertUnwindSafe(|| role(parent))).unwrap_or(PANICKED)
}

/// Name, signals and files of a new child.
fn settle(name: &CStr, channel: &Channel) -> io::Result<()> {
    nix::sys::prctl::set_name(name)?;
    // Signals of the terminal are the recorder's to answer.
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    close_others(channel)
}

/// Closes every file behind the standard three but this one.
fn close_others(channel: &Channel) -> io::Result<()> {
    let kept = channel.as_fd().as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: closes numbers that nobody in this new process uses: its code has only the channel.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl Parent {
    /// Has the kernel end this process with its parent. Must come after every change of users, which undoes it (prctl(2),
    /// `PR_SET_PDEATHSIG`). The kernel takes a thread for the parent: one that was started by any of them reads the end of its channel instead.
    ///
    /// # Errors
    /// When the parent has ended already.
    pub fn die_with_it(&self) -> io::Result<()> {
        let Some(parent) = self.pid else { return Ok(()) };
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

impl Child {
    /// Its process.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// The same, as the rest of the house has it.
    pub fn id(&self) -> energy_trace_model::ids::Pid {
        energy_trace_model::ids::Pid::new(self.pid.as_raw().cast_unsigned())
    }

    /// The channel alone: somebody else will speak with it, and its process is collected by number.
    pub fn into_channel(self) -> Channel {
        self.channel
    }

    /// Ends the process and collects it: it reads the end of its channel and goes, and where somebody keeps it from that (its user may have
    /// stopped it) it is killed after `patience`.
    pub fn end(self, patience: Duration) {
        self.channel.shut();
        let end = Instant::now() + patience;
        while Instant::now() < end && self.runs() {
            std::thread::sleep(POLL);
        }
        if self.runs() {
            // It is not collected yet, so the number is its own.
            let _ = kill(self.pid, Signal::SIGKILL);
            let _status = waitpid(self.pid, None);
        }
    }

    /// Whether somebody has stopped it (SIGSTOP): it answers nobody until it is continued.
    pub fn is_stopped(&self) -> bool {
        let looks = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        matches!(waitid(Id::Pid(self.pid), looks), Ok(WaitStatus::Stopped(..)))
    }

    /// Continues it where it was stopped.
    pub fn resume(&self) {
        // It is not collected yet, so the number is its own.
        let _ = kill(self.pid, Signal::SIGCONT);
    }

    /// Whether it still runs; one that has ended is collected.
    pub fn runs(&self) -> bool {
        matches!(waitpid(self.pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }
}
