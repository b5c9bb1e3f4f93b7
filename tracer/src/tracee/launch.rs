//! Starts a command and holds it before its first instruction, so that sampling can begin first.
//!
//! The command keeps our stdin, stdout, stderr, working directory, environment and process group. A thread of its own forks it (the
//! standard library's `spawn` returns only after `exec`) and waits for its end. The child says its pid through one pipe and waits at
//! another, the gate:
//!
//! ```text
//!   launch()                child
//!   fork  ───────────────►  become the user, write pid, read gate … blocked
//!   ◄─────────── pid
//!   follow(pid), start
//!   release(): one byte ─►  exec
//!   gate closed (we died or gave up): end of file ─► exit without a word
//! ```
//!
//! The command is not tied to us in any other way: when energy-trace is killed, it runs on.

use super::become_user::become_user;
use super::signals::Before;
use super::user::InvokingUser;
use energy_trace_model::ids::Pid;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::unistd::pipe2;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a child that is not let run may take to end, and between two looks whether it has.
const TO_END: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(1);

/// Why there is no child to release.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Pipe, thread or fork failed, or the child could not become the invoking user.
    #[error("cannot prepare the command: {0}")]
    Prepare(#[from] io::Error),
    /// The command line is empty.
    #[error("no command to run")]
    NoCommand,
    /// The child ended before it reported its pid.
    #[error("the command's process was killed before it could start")]
    Gone,
}

/// A child that waits before its first instruction. Dropped, it ends without a word, and is collected.
#[derive(Debug)]
pub struct Held {
    command: Running,
    executed: oneshot::Receiver<io::Result<()>>,
    gate: Gate,
}

/// Where it waits, and the thread that waits for it.
#[derive(Debug)]
struct Gate {
    end: Option<File>,
    thread: Option<JoinHandle<()>>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its status.
    pub status: ExitStatus,
    /// CPU time of it, of its children that were waited for, and of theirs, by the kernel's account.
    pub cpu_ns: u64,
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    pidfd: Option<OwnedFd>,
    ended: oneshot::Receiver<io::Result<CommandEnd>>,
}

/// Whether the command may use the terminal.
#[derive(Debug, Default)]
pub enum Terminal {
    /// It has what we have.
    #[default]
    Theirs,
    /// We draw there: what would go to it or come from it goes to `/dev/null`, or its stdout to where that
    /// was said; files and pipes stay.
    NotTheirs(Option<OwnedFd>),
    /// It has what we have, but its stdout goes there.
    StdoutTo(OwnedFd),
}

/// Forks `words` and holds it at the gate, as `run_as`, with `environment` set beside its own, and with signals as they were `before`.
pub fn launch(
    words: &[OsString],
    run_as: Option<&InvokingUser>,
    environment: &[(&str, OsString)],
    before: Before,
    terminal: Terminal,
) -> Result<Held, LaunchError> {
    let (program, arguments) = words.split_first().ok_or(LaunchError::NoCommand)?;
    let (ready_read, ready_write) = pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)?;
    let (gate_read, gate_write) = pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    if let Some(user) = run_as {
        command.envs(user.corrections(|variable| std::env::var_os(variable)));
    }
    give_terminal(&mut command, terminal);
    let user = run_as.cloned();
    let [ready, gate, gate_of_parent] = [&ready_write, &gate_read, &gate_write].map(AsRawFd::as_raw_fd);
    let hold = move || {
        become_user(user.as_ref())?;
        before.restore()?;
        wait_at_gate(ready, gate, gate_of_parent);
        Ok(())
    };
    // SAFETY: between fork and exec `hold` makes only system calls on numbers and memory that were set up before the fork; it does not
    // allocate, lock or unwind.
    unsafe { command.pre_exec(hold) };

    let (executed_sender, mut executed) = oneshot::channel();
    let (ended_sender, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("command".into()).spawn(move || {
        let spawned = command.spawn();
        drop((ready_write, gate_read));
        // Nobody listens any more after a second SIGINT.
        match spawned {
            Err(error) => drop(executed_sender.send(Err(error))),
            Ok(child) => {
                let _ = executed_sender.send(Ok(()));
                let _ = ended_sender.send(wait(&child));
            }
        }
    })?;
    let Some(pid) = read_pid(ready_read) else {
        // `spawn` failed before the gate, or the child was killed on its way: either way the thread is about to end.
        let _ = thread.join();
        return Err(match executed.try_recv() {
            Ok(Err(error)) => LaunchError::Prepare(error),
            _ => LaunchError::Gone,
        });
    };
    let command = Running { pid, pidfd: open_pidfd(pid).ok(), ended };
    Ok(Held { command, executed, gate: Gate { end: Some(File::from(gate_write)), thread: Some(thread) } })
}

fn give_terminal(command: &mut Command, terminal: Terminal) {
    let stdout = match terminal {
        Terminal::Theirs => None,
        Terminal::NotTheirs(stdout) => {
            keep_off_terminal(command);
            stdout
        }
        Terminal::StdoutTo(end) => Some(end),
    };
    if let Some(stdout) = stdout {
        command.stdout(stdout);
    }
}

fn keep_off_terminal(command: &mut Command) {
    if io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    if io::stdout().is_terminal() {
        command.stdout(Stdio::null());
    }
    if io::stderr().is_terminal() {
        command.stderr(Stdio::null());
    }
}

impl Held {
    /// The command's process.
    pub const fn pid(&self) -> Pid {
        self.command.pid
    }

    /// Lets the command run; the error is `exec`'s.
    pub async fn release(mut self) -> io::Result<Running> {
        self.gate.open()?;
        let thread_is_gone = |_| Err(io::Error::other("the thread that starts the command is gone"));
        self.executed.await.unwrap_or_else(thread_is_gone)?;
        Ok(self.command)
    }
}

impl Gate {
    /// Nobody waits for the thread from now on.
    fn open(&mut self) -> io::Result<()> {
        let Some(mut end) = self.end.take() else { return Ok(()) };
        end.write_all(&[1])?;
        self.thread = None;
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.end = None;
        let until = Instant::now() + TO_END;
        // Its user may have stopped it.
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }
}

impl Running {
    /// The command's process.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the command's end. May be dropped and called again until it has answered once.
    pub async fn ended(&mut self) -> io::Result<CommandEnd> {
        let thread_is_gone = |_| Err(io::Error::other("the thread that waits for the command is gone"));
        (&mut self.ended).await.unwrap_or_else(thread_is_gone)
    }

    /// Whether it takes no notice of a signal; of one that has ended nothing is known.
    pub fn ignores(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        ignored(&status) >> (signal as i32 - 1) & 1 == 1
    }

    /// Passes a signal on. The process is named by its pidfd, so a pid that was given to somebody else is never hit; a command that
    /// has ended or may not be signalled is nobody's error.
    pub fn signal(&self, signal: Signal) {
        let Some(pidfd) = &self.pidfd else { return };
        // SAFETY: the pidfd is open, a null siginfo means the default, and no flag is set.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                pidfd.as_raw_fd(),
                signal as i32,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
    }
}

/// Waits for a child's end, and takes its account.
fn wait(child: &Child) -> io::Result<CommandEnd> {
    let mut status = 0;
    // SAFETY: all of it is integers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are valid for writing, and the child is this thread's process's.
        let done = unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage) };
        let error = io::Error::last_os_error();
        match done {
            -1 if error.kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(error),
            _ => {
                let cpu_ns = time_ns(usage.ru_utime).saturating_add(time_ns(usage.ru_stime));
                return Ok(CommandEnd { status: ExitStatus::from_raw(status), cpu_ns });
            }
        }
    }
}

const fn time_ns(time: libc::timeval) -> u64 {
    let us =
        time.tv_sec.cast_unsigned().saturating_mul(1_000_000).saturating_add(time.tv_usec.cast_unsigned());
    us.saturating_mul(1_000)
}

/// The set of ignored signals in `/proc/PID/status` (proc(5)), a bit each.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// The exit status as a shell shows it: the command's own, or 128 + the signal that ended it.
pub fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(125);
    // A status is 8 bits wide (wait(2)), and 128 + 64 fits too.
    u8::try_from(code).unwrap_or(125)
}

/// Which signal ended the command, as a shell says it; `None`: none, Ctrl-C, or as nobody read any more what it wrote.
pub fn ended_by(status: ExitStatus) -> Option<String> {
    let number = status.signal()?;
    let signal = Signal::try_from(number).ok();
    let what = match signal {
        Some(Signal::SIGINT | Signal::SIGPIPE) => return None,
        Some(Signal::SIGSEGV) => " (segmentation fault)",
        Some(Signal::SIGBUS) => " (bus error)",
        Some(Signal::SIGILL) => " (illegal instruction)",
        Some(Signal::SIGFPE) => " (arithmetic error)",
        Some(Signal::SIGABRT) => " (aborted)",
        _ => "",
    };
    let name = signal.map_or_else(|| format!("signal {number}"), |signal| signal.as_str().to_owned());
    Some(format!("the command was ended by {name}{what}"))
}

/// A handle on a process that stays its own when the pid is reused.
pub(super) fn open_pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two numbers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.get(), 0) };
    match RawFd::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor for us, and nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn read_pid(ready: OwnedFd) -> Option<Pid> {
    let mut bytes = [0; 4];
    File::from(ready).read_exact(&mut bytes).ok()?;
    Some(Pid::new(u32::from_ne_bytes(bytes)))
}

/// In the child: says its pid, then waits for one byte. End of file means that energy-trace is gone or gave up.
fn wait_at_gate(ready: RawFd, gate: RawFd, gate_of_parent: RawFd) {
    let mut byte = 0_u8;
    // SAFETY: the descriptors are open in this child (it has copies of all of the parent's), the buffers live on this stack, and
    // close, write, read, getpid and _exit are async-signal-safe (signal-safety(7)).
    unsafe {
        // The child's own copy of the writing end would keep the gate from ever reading end of file.
        libc::close(gate_of_parent);
        let pid = libc::getpid().to_ne_bytes();
        if libc::write(ready, pid.as_ptr().cast(), pid.len()) != 4 {
            libc::_exit(125);
        }
        loop {
            match libc::read(gate, (&raw mut byte).cast(), 1) {
                1 => return,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(125),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Terminal, ended_by, ignored, launch, shell_status};
    use crate::tracee::signals::Before;
    use nix::sys::signal::Signal;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn shell(script: &str) -> Vec<std::ffi::OsString> {
        ["/bin/sh", "-c", script].map(Into::into).to_vec()
    }

    /// Signal 2 is the second bit (proc(5)); what cannot be read ignores nothing.
    #[test]
    fn ignored_signals() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001002\n"), 0x1002);
        assert_eq!((ignored(""), ignored("SigIgn:\tx\n")), (0, 0));
    }

    /// A crash is told by its signal; an exit status is the command's own, as is what the user or a closed pipe does.
    #[test]
    fn signals_that_end_a_command() {
        let by = |status| ended_by(ExitStatus::from_raw(status));
        let crashed = "the command was ended by SIGSEGV (segmentation fault)";
        assert_eq!(by(libc::SIGSEGV | 0x80).as_deref(), Some(crashed), "with a core dump");
        assert_eq!(by(libc::SIGKILL).as_deref(), Some("the command was ended by SIGKILL"));
        assert_eq!(by(40).as_deref(), Some("the command was ended by signal 40"));
        assert_eq!([0, 139 << 8, libc::SIGINT, libc::SIGPIPE].map(by), [const { None }; 4]);
    }

    /// Held, the child has not executed anything: it is still a copy of us, and its file does not exist; released, it runs.
    #[tokio::test]
    async fn nothing_runs_before_the_release() {
        let dir = tempfile::tempdir().unwrap();
        let proof = dir.path().join("ran");
        let held = launch(
            &shell(&format!("echo > {}; exit 7", proof.display())),
            None,
            &[],
            Before::default(),
            Terminal::Theirs,
        )
        .unwrap();
        let exe = |pid| std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(exe(held.pid().to_string()), exe("self".into()));
        assert!(!proof.exists());
        let end = held.release().await.unwrap().ended().await.unwrap();
        assert_eq!(shell_status(end.status), 7);
        assert!(proof.exists());
    }

    /// A child that is dropped instead of released ends by itself and has run nothing.
    #[tokio::test]
    async fn dropped_it_ends_without_running() {
        let dir = tempfile::tempdir().unwrap();
        let proof = dir.path().join("ran");
        let held = launch(
            &shell(&format!("echo > {}", proof.display())),
            None,
            &[],
            Before::default(),
            Terminal::Theirs,
        )
        .unwrap();
        drop(held.gate);
        assert_eq!(shell_status(held.command.ended.await.unwrap().unwrap().status), 125);
        assert!(!proof.exists());
    }

    /// What cannot be executed is an error of `exec`, after the release.
    #[tokio::test]
    async fn exec_errors_come_back() {
        let held =
            launch(&["/nonexistent/tool".into()], None, &[], Before::default(), Terminal::Theirs).unwrap();
        assert_eq!(held.release().await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    /// What cannot even be forked (a NUL in an argument) is an error at once.
    #[tokio::test]
    async fn preparation_errors_come_at_once() {
        let error = launch(&["echo".into(), "a\0b".into()], None, &[], Before::default(), Terminal::Theirs)
            .unwrap_err();
        assert!(matches!(error, super::LaunchError::Prepare(_)), "{error}");
    }

    /// A signal that is passed on reaches the command, and the status says which one it was.
    #[tokio::test]
    async fn signals_are_passed_on() {
        let mut running = launch(&shell("kill -STOP $$"), None, &[], Before::default(), Terminal::Theirs)
            .unwrap()
            .release()
            .await
            .unwrap();
        running.signal(Signal::SIGKILL);
        assert_eq!(shell_status(running.ended().await.unwrap().status), 128 + 9);
    }

    /// The account is that of the command and of children it waited for: a loop in a child is in it, and more of the loop is more.
    #[tokio::test]
    async fn the_account_has_children() {
        let cpu_ns = async |turns: u32| {
            let script = format!("(i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done); exit 0");
            let held = launch(&shell(&script), None, &[], Before::default(), Terminal::Theirs).unwrap();
            held.release().await.unwrap().ended().await.unwrap().cpu_ns
        };
        assert!(cpu_ns(2_000_000).await > 10 * cpu_ns(1_000).await);
    }

    /// Statuses map as a shell maps them.
    #[test]
    fn statuses_of_a_shell() {
        assert_eq!(shell_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(shell_status(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(shell_status(ExitStatus::from_raw(Signal::SIGTERM as i32)), 143);
    }
}
