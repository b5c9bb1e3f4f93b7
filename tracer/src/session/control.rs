//! What a signal and the command's end mean for the recording.
//!
//! The first SIGINT stops the recording, the second ends energy-trace at once. Other signals belong to the command while there is one;
//! without a command, TERM, HUP and QUIT stop the recording as SIGINT does. Every signal that only we have got is passed on.

use super::error::SessionError;
use crate::tracee::attach::ProcessTree;
use crate::tracee::launch::{CommandEnd, Running};
use crate::tracee::signals::{Arrived, Before, Signals};
use energy_trace_model::ids::Pid;
use nix::sys::signal::Signal;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// So long nothing is said of a command that does not end.
const SILENCE: Duration = Duration::from_secs(2);

/// Signals and the command, from the set-up to the end.
#[derive(Debug)]
pub(super) struct Control {
    signals: Signals,
    command: Option<Running>,
    /// How the command ended, once it has.
    end: Option<CommandEnd>,
    interrupts: u32,
    last: Option<Instant>,
}

/// Who wants it twice cannot say so sooner. `timeout` sends one signal to its child, and the same to the child's group.
const AT_ONCE: Duration = Duration::from_millis(20);

/// What has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// The command has ended.
    CommandEnded,
    /// Somebody wants the recording to stop. The count includes this time.
    Interrupt(Signal, u32),
}

impl Control {
    pub(super) const fn new(signals: Signals) -> Self {
        Self { signals, command: None, end: None, interrupts: 0, last: None }
    }

    /// How the command gets signals.
    pub(super) const fn signals_for_command(&self) -> Before {
        self.signals.before()
    }

    /// From now on signals are the command's too.
    pub(super) fn command_runs(&mut self, command: Running) {
        self.command = Some(command);
    }

    /// How the command ended, once it has.
    pub(super) const fn end(&self) -> Option<CommandEnd> {
        self.end
    }

    /// Its status.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        self.end.map(|end| end.status)
    }

    /// Whether there is a command that still runs.
    pub(super) const fn command_is_running(&self) -> bool {
        self.command.is_some()
    }

    /// Has the command end, as Ctrl-C would, where there is one that still runs; one that takes no notice of that is asked by SIGTERM. Counts as an
    /// interrupt: Ctrl-C after it does not wait.
    pub(super) fn interrupt_command(&mut self) {
        if let Some(command) = &self.command {
            let is_deaf = command.ignores(Signal::SIGINT);
            command.signal(if is_deaf { Signal::SIGTERM } else { Signal::SIGINT });
        }
        self.interrupts += 1;
    }

    /// The next thing that matters. May be dropped and called again.
    pub(super) async fn event(&mut self) -> Result<Event, SessionError> {
        loop {
            tokio::select! {
                arrived = self.signals.next() => {
                    if let Some(event) = self.take(arrived) {
                        return Ok(event);
                    }
                }
                ended = ended(&mut self.command) => {
                    self.command = None;
                    let failed = |source| SessionError::System { doing: "wait for the command", source };
                    self.end = Some(ended.map_err(failed)?);
                    return Ok(Event::CommandEnded);
                }
            }
        }
    }

    /// Works through the set-up: any signal that ends a process ends it.
    pub(super) async fn set_up<T>(&mut self, work: impl Future<Output = T>) -> Result<T, SessionError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                event = self.event() => {
                    if let Event::Interrupt(signal, _) = event? {
                        return Err(SessionError::Ended(signal));
                    }
                }
            }
        }
    }

    /// Signals that came while the set-up could not look.
    pub(super) fn check(&mut self) -> Result<(), SessionError> {
        while let Some(arrived) = self.signals.try_next() {
            if let Some(Event::Interrupt(signal, _)) = self.take(arrived) {
                return Err(SessionError::Ended(signal));
            }
        }
        Ok(())
    }

    /// Works through the end: signals reach the command, and the second interrupt ends energy-trace.
    pub(super) async fn finish<T>(&mut self, work: impl Future<Output = T>) -> Result<T, SessionError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                event = self.event() => {
                    if let Event::Interrupt(signal, 2..) = event? {
                        return Err(SessionError::Ended(signal));
                    }
                }
            }
        }
    }

    /// Waits for the command, if there is one that still runs.
    pub(super) async fn wait(&mut self) -> Result<(), SessionError> {
        while self.command.is_some() {
            if let Event::Interrupt(signal, 2..) = self.event().await? {
                return Err(SessionError::Ended(signal));
            }
        }
        Ok(())
    }

    /// The same before somebody who sees nothing any more: after a while it is said what is waited for.
    pub(super) async fn wait_and_say(&mut self) -> Result<(), SessionError> {
        let Some(pid) = self.command.as_ref().map(Running::pid) else { return Ok(()) };
        tokio::select! {
            ended = self.wait() => return ended,
            () = tokio::time::sleep(SILENCE) => (),
        }
        log::warn!("the program (process {pid}) was asked to end and still runs; Ctrl-C leaves it running");
        self.wait().await
    }

    fn take(&mut self, arrived: Arrived) -> Option<Event> {
        if let Some(command) = &self.command
            && arrived.needs_passing_on(|sender| is_below(sender, command.pid()))
        {
            command.signal(arrived.signal);
        }
        if !stops(arrived.signal, self.command.is_some()) {
            return None;
        }
        if self.last.is_some_and(|last| last.elapsed() < AT_ONCE) {
            return None;
        }
        self.last = Some(Instant::now());
        self.interrupts += 1;
        Some(Event::Interrupt(arrived.signal, self.interrupts))
    }
}

/// Whether a signal stops the recording.
const fn stops(signal: Signal, command_runs: bool) -> bool {
    match signal {
        Signal::SIGINT => true,
        Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT => !command_runs,
        _ => false,
    }
}

fn is_below(pid: Pid, ancestor: Pid) -> bool {
    pid == ancestor || ProcessTree::read_at(Path::new("/proc")).is_ok_and(|tree| tree.is_below(pid, ancestor))
}

async fn ended(command: &mut Option<Running>) -> io::Result<CommandEnd> {
    match command {
        Some(command) => command.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::stops;
    use nix::sys::signal::Signal;

    /// With a command, only SIGINT stops the recording: the rest is the command's to answer. Without one, all that end a process do.
    #[test]
    fn who_a_signal_is_for() {
        assert!(stops(Signal::SIGINT, true));
        assert!(!stops(Signal::SIGTERM, true));
        assert!(stops(Signal::SIGTERM, false));
        assert!(!stops(Signal::SIGUSR1, false));
    }
}
