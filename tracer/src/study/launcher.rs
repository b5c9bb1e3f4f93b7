//! Starts recordings for the conductor, with the privileges that they need. Reads no file, and runs only what it was told before the first
//! run: whoever could speak in the conductor's name later gets nothing else run.
//!
//! Leaves out what is run when (`conductor`).

use super::order::{Answer, Order};
use crate::roles::channel::{Channel, ChannelError};
use crate::roles::child::Child;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, killpg, sigaction};
use nix::unistd::Pid;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest message of the conductor: suites of thousands of commands fit.
const MOST_BYTES: usize = 16 << 20;
/// Between two looks whether a run has ended.
const POLL: Duration = Duration::from_millis(20);
/// A program that was told to end gets this long, and its recording after it.
const GRACE: Duration = Duration::from_secs(10);
/// Status of a launcher whose conductor is gone.
const LOST: u8 = 125;

/// Signals that ask for an end, so far.
static ASKED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// Serves the conductor until it ends, and returns its exit status.
///
/// # Errors
/// When signals cannot be watched, or the conductor sends what is no order.
pub fn serve(conductor: Child, options: &[String]) -> Result<u8, ChannelError> {
    watch_signals()?;
    let status = answer_all(&conductor.channel, options);
    conductor.end(GRACE);
    match status {
        Err(ChannelError::Closed) => Ok(LOST),
        status => status,
    }
}

fn watch_signals() -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler changes an atomic number and does nothing else.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

fn answer_all(channel: &Channel, options: &[String]) -> Result<u8, ChannelError> {
    let mut programs: Option<Vec<Vec<String>>> = None;
    loop {
        let (order, files) = channel.receive::<Order>(MOST_BYTES, None)?;
        let answer = match order {
            Order::End(status) => return Ok(status),
            Order::Programs(told) if programs.is_none() => {
                programs = Some(told);
                continue;
            }
            Order::Programs(_) => return Err(ChannelError::Malformed("programs twice")),
            _ if is_asked() => Answer::Interrupted,
            Order::Rest { ms } => rest(Duration::from_millis(ms)),
            Order::Run { program, recording, limit_ms } => {
                let command = usize::try_from(program).ok().and_then(|at| programs.as_ref()?.get(at));
                let (Some(command), Ok(files)) = (command, <[OwnedFd; 2]>::try_from(files)) else {
                    return Err(ChannelError::Malformed("a run of nothing"));
                };
                let mut recorder = recorder(options, &recording, command);
                run(&mut recorder, files, limit_ms.map(Duration::from_millis))
            }
        };
        channel.send(&answer, &[], None)?;
    }
}

fn rest(time: Duration) -> Answer {
    let end = Instant::now() + time;
    while Instant::now() < end && !is_asked() {
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
    }
    if is_asked() { Answer::Interrupted } else { Answer::Rested }
}

/// This same program, recording a command.
fn recorder(options: &[String], recording: &str, command: &[String]) -> Command {
    let mut recorder = Command::new("/proc/self/exe");
    recorder.args(["record", "--quiet", "--no-svg"]).args(options);
    recorder.arg(format!("--output={recording}")).arg("--").args(command);
    recorder
}

fn run(recorder: &mut Command, [out, err]: [OwnedFd; 2], limit: Option<Duration>) -> Answer {
    // A group of its own: keys of the terminal reach the launcher alone, which passes them on once.
    let started = recorder
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::from(out))
        .stderr(Stdio::from(err))
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return Answer::NotStarted(error.to_string()),
    };
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut ender = Ender { pid, deadline: limit.map(|limit| Instant::now() + limit), ..Ender::default() };
    loop {
        match child.try_wait() {
            Ok(Some(_)) if is_asked() => return Answer::Interrupted,
            Ok(Some(status)) => {
                return Answer::Ended { status: as_number(status), timed_out: ender.timed_out };
            }
            Ok(None) => ender.look(),
            Err(error) => return Answer::NotStarted(error.to_string()),
        }
        std::thread::sleep(POLL);
    }
}

fn as_number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Ends a run that takes too long, or that nobody wants any more: first by asking, then without.
struct Ender {
    pid: Pid,
    deadline: Option<Instant>,
    timed_out: bool,
    /// When it was asked.
    asked: Option<Instant>,
    killed: bool,
}

impl Default for Ender {
    fn default() -> Self {
        Self { pid: Pid::from_raw(0), deadline: None, timed_out: false, asked: None, killed: false }
    }
}

impl Ender {
    fn look(&mut self) {
        let too_long = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        match self.asked {
            None if too_long || is_asked() => {
                self.timed_out = too_long;
                self.asked = Some(Instant::now());
                // The recorder passes it on to the program. One that has just ended takes no signal.
                let _ = kill(self.pid, Signal::SIGTERM);
            }
            Some(when) if when.elapsed() > GRACE && !self.killed => {
                self.killed = true;
                let _ = killpg(self.pid, Signal::SIGKILL);
            }
            _ => (),
        }
    }
}
