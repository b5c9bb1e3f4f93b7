//! The signals that reach energy-trace, with their sender, and whether the command has already had them.
//!
//! A key on the terminal (Ctrl-C, Ctrl-\) signals the whole foreground process group, so the command, which stays in our group, gets it
//! without us; a signal from a process (`kill`) reaches us alone and is passed on. The two differ in `si_code` (sigaction(2)):
//! `SI_KERNEL` for the terminal, `SI_USER` and below for processes. A limit on the size of files (`ulimit -f`) is an error of the write that
//! meets it and not a signal, for as long as it is us who write. Leaves out what a signal means for the recording (`session/`).

use energy_trace_model::ids::Pid;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use std::io;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The signals that are looked at. Ctrl-Z (TSTP) is not among them: it stops both processes, as it should.
const WATCHED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The terminal or the kernel, to the whole process group.
    Terminal,
    /// A process, as our pid namespace numbers it.
    Process(Pid),
}

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Which.
    pub signal: Signal,
    /// From whom.
    pub sender: Sender,
}

impl Arrived {
    /// Whether the command has to be sent this signal because nobody else did. `sent_by_command` says whether a process belongs to the
    /// command: what such a process sends (`kill 0`) it has sent to itself too.
    pub fn needs_passing_on(&self, sent_by_command: impl Fn(Pid) -> bool) -> bool {
        match self.sender {
            Sender::Terminal => false,
            Sender::Process(pid) => !sent_by_command(pid),
        }
    }
}

/// The signals as they arrive, from the moment of `block` on.
#[derive(Debug)]
pub struct Signals {
    arrived: UnboundedReceiver<Arrived>,
    before: Before,
}

/// How signals were when energy-trace was started: so the command gets them.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    mask: SigSet,
    /// Whether it was ignored that a file is larger than its limit.
    too_large_ignored: bool,
}

impl Default for Before {
    /// Nothing blocked, nothing ignored.
    fn default() -> Self {
        Self { mask: SigSet::empty(), too_large_ignored: false }
    }
}

impl Before {
    /// In a forked child, before `exec`. Only system calls.
    ///
    /// # Errors
    /// Those of the system, which has none for these.
    pub(super) fn restore(&self) -> io::Result<()> {
        if !self.too_large_ignored {
            // SAFETY: sets the default, which runs no code of ours.
            unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
        }
        Ok(pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)?)
    }
}

impl Signals {
    /// Blocks the watched signals and starts to read them. Must come before any other thread is started, because threads inherit the
    /// mask and a signal goes to whichever thread has it unblocked.
    pub fn block() -> io::Result<Self> {
        let mut watched = SigSet::empty();
        let ignored_at_start = |signal| is_ignored(signal).unwrap_or(false);
        let interrupt_ignored = ignored_at_start(Signal::SIGINT);
        // What `nohup` and shells told us to ignore stays ignored. SIGINT is the exception: a script's background job has it ignored,
        // and `kill -INT` is still how a script ends a recording; only the terminal's is dropped then.
        for signal in WATCHED.into_iter().filter(|&s| s == Signal::SIGINT || !ignored_at_start(s)) {
            watched.add(signal);
        }
        let mut before = Before { too_large_ignored: ignored_at_start(Signal::SIGXFSZ), ..Before::default() };
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&watched), Some(&mut before.mask))?;
        let descriptor = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC)?;
        let (sender, arrived) = unbounded_channel();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || pass_all(&descriptor, &sender, interrupt_ignored))?;
        Ok(Self { arrived, before })
    }

    /// How signals were before.
    pub const fn before(&self) -> Before {
        self.before
    }

    /// The next signal. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Arrived {
        match self.arrived.recv().await {
            Some(arrived) => arrived,
            // The reading thread is gone: no signal will come any more.
            None => std::future::pending().await,
        }
    }

    /// A signal that is already here.
    pub fn try_next(&mut self) -> Option<Arrived> {
        self.arrived.try_recv().ok()
    }
}

fn pass_all(descriptor: &SignalFd, to: &UnboundedSender<Arrived>, interrupt_ignored: bool) {
    loop {
        match descriptor.read_signal() {
            Ok(Some(info)) => {
                let Some(arrived) = decode_arrived(&info) else { continue };
                let dropped = interrupt_ignored
                    && arrived == Arrived { signal: Signal::SIGINT, sender: Sender::Terminal };
                if !dropped && to.send(arrived).is_err() {
                    return;
                }
            }
            Ok(None) | Err(nix::Error::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn decode_arrived(info: &siginfo) -> Option<Arrived> {
    let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())?;
    // SI_USER is 0, SI_QUEUE, SI_TKILL and the other ways of a process are negative; SI_KERNEL is 0x80 (asm-generic/siginfo.h, v6.1).
    let sender = if info.ssi_code > 0 { Sender::Terminal } else { Sender::Process(Pid::new(info.ssi_pid)) };
    Some(Arrived { signal, sender })
}

fn is_ignored(signal: Signal) -> io::Result<bool> {
    // SAFETY: an all-zero sigaction is a valid value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks, and `action` is writable.
    match unsafe { libc::sigaction(signal as i32, std::ptr::null(), &raw mut action) } {
        0 => Ok(action.sa_sigaction == libc::SIG_IGN),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrived, Sender};
    use energy_trace_model::ids::Pid;
    use nix::sys::signal::Signal;

    /// The terminal's signals and those that the command sent to its own group have reached the command already; another's have not.
    #[test]
    fn each_signal_reaches_the_command_once() {
        let from = |sender| Arrived { signal: Signal::SIGINT, sender };
        let of_command = |pid| pid == Pid::new(7);
        assert!(!from(Sender::Terminal).needs_passing_on(of_command));
        assert!(!from(Sender::Process(Pid::new(7))).needs_passing_on(of_command));
        assert!(from(Sender::Process(Pid::new(8))).needs_passing_on(of_command));
    }
}
