//! Starts recordings for the conductor, with the privileges that they need. Reads no file but which children a recorder has, and runs only
//! what it was told before the first run: whoever could speak in the conductor's name later gets nothing else run.
//!
//! Leaves out what is run when (`conductor`).

use super::order::{Answer, Order};
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_system::roles::child::Child;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, killpg, sigaction};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
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
/// A recorder that has not begun its program by then is told to end as one that takes too long.
const LONGEST_START: Duration = Duration::from_mins(2);
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
    let mut ender = Ender::new(Pid::from_raw(child.id().cast_signed()), limit);
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

/// Ends a run that takes too long, or that nobody wants any more: first by asking, then without. Somebody who asks twice does not wait.
struct Ender {
    pid: Pid,
    limit: Option<Duration>,
    started: Instant,
    /// When the program began, which is after the recorder is ready.
    begun: Option<Instant>,
    timed_out: bool,
    /// When it was asked.
    asked: Option<Instant>,
    killed: bool,
}

impl Ender {
    fn new(pid: Pid, limit: Option<Duration>) -> Self {
        let started = Instant::now();
        Self { pid, limit, started, begun: None, timed_out: false, asked: None, killed: false }
    }

    fn look(&mut self) {
        match self.asked {
            None => self.ask_where_it_is_time(),
            Some(when) if !self.killed && (when.elapsed() > GRACE || ASKED.load(Ordering::Relaxed) > 1) => {
                self.killed = true;
                // Who has ended meanwhile takes no signal.
                let _ = killpg(self.pid, Signal::SIGKILL);
            }
            Some(_) => (),
        }
    }

    fn ask_where_it_is_time(&mut self) {
        let too_long = self.is_too_long();
        if too_long || is_asked() {
            self.timed_out = too_long;
            self.asked = Some(Instant::now());
            // The recorder passes it on to the program. One that has just ended takes no signal.
            let _ = kill(self.pid, Signal::SIGTERM);
        }
    }

    /// Whether the program has had its time: the recorder's own start is none of it.
    fn is_too_long(&mut self) -> bool {
        let Some(limit) = self.limit else { return false };
        if self.begun.is_none() && has_begun(self.pid) {
            self.begun = Some(Instant::now());
        }
        match self.begun {
            Some(begun) => begun.elapsed() >= limit,
            None => self.started.elapsed() >= limit + LONGEST_START,
        }
    }
}

/// Whether a recorder's program runs: a child of it that is not this same program any more.
fn has_begun(recorder: Pid) -> bool {
    let file = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).map(|of| (of.dev(), of.ino())).ok();
    let own = file("self");
    let threads = fs::read_dir(format!("/proc/{recorder}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let pids = children.iter().flat_map(|pids| pids.split_whitespace());
    pids.filter_map(file).any(|program| Some(program) != own)
}
