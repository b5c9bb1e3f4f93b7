//! The recorder's side of `et-work`: what it reads becomes records.
//!
//! Nothing that it says is believed but its form: a time or a counter that makes no sense is left out when the recording is read. Nobody
//! waits for it longer than a moment. Leaves out the process's own side (`role.rs`).

use super::calls::calls_of;
use super::message::{Answer, MOST, Request};
use super::role;
use crate::plan::RecordPlan;
use crate::tracee::Target;
use energy_trace_model::ids::{Pid, WorkId};
use energy_trace_model::recording::record::{Record, WorkFailure, WorkReading, WorkSource};
use energy_trace_probe::UnitsOfCalls;
use energy_trace_sentences::{NoPython, no_such_functions};
use energy_trace_system::clock::now;
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_system::roles::child::{Child, fork_role};
use energy_trace_system::threads::on_thread;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the process may take to hear that it is to begin.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the last readings are waited for: those of whoever answers come within a tenth of a second, on a busy machine within a second.
const LAST: Duration = Duration::from_secs(2);

/// The process, before anything is read.
#[derive(Debug)]
pub struct WorkReader {
    child: Child,
    /// The counters that it reads.
    read: Vec<WorkId>,
    /// Those that are calls, and memory for numbers of calls of machine code.
    calls: Option<(Vec<WorkId>, File)>,
    /// What each counts, where it is said at once that there is no such function (a screen has a line for it), and whether the program ran already.
    said: Vec<WorkSource>,
    is_attached: bool,
}

/// Readings that become records.
#[derive(Debug)]
pub struct WorkReadings {
    channel: Channel,
    stopping: Arc<AtomicBool>,
    done: oneshot::Receiver<()>,
}

impl WorkReader {
    /// Forks the process, if there is anything to read. Must be called while this process has one thread.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn fork(plan: &RecordPlan) -> io::Result<Option<Self>> {
        let read: Vec<WorkId> = (0..).zip(&plan.work).map(|(id, _)| WorkId::new(id)).collect();
        if read.is_empty() {
            return Ok(None);
        }
        let ids = calls_of(&plan.work);
        let memory = || memfd_create("calls", MFdFlags::MFD_CLOEXEC).map(File::from);
        let calls = if ids.is_empty() { None } else { Some((ids, memory()?)) };
        let child = fork_role(c"et-work", |parent| role::serve(plan, &parent))?;
        let sources = plan.work.iter().map(|counter| counter.source.clone());
        let said = if plan.live { Vec::new() } else { sources.collect() };
        let is_attached = !matches!(plan.target, Target::Command(_));
        Ok(Some(Self { child, read, calls, said, is_attached }))
    }

    /// Where numbers of calls of machine code are to be put.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn units_of_calls(&self) -> io::Result<UnitsOfCalls> {
        let Some((ids, file)) = &self.calls else { return Ok(UnitsOfCalls::default()) };
        Ok(UnitsOfCalls::new(ids.clone(), file.try_clone()?))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.child.id()
    }

    /// Begins to read, and what the command prints where that comes as copies, and what processes tell of their calls. Readings go to `records`.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(
        self,
        copies: Option<OwnedFd>,
        (told, is_old): (Option<OwnedFd>, Arc<AtomicBool>),
        records: Sender<Record>,
    ) -> io::Result<WorkReadings> {
        let channel = Channel::over(self.child.channel.as_fd().try_clone_to_owned()?);
        let native = self.calls.as_ref().map(|(_, file)| file.as_fd());
        let files = [copies.as_ref().map(AsFd::as_fd), native, told.as_ref().map(AsFd::as_fd)];
        let passed: Vec<BorrowedFd<'_>> = files.into_iter().flatten().collect();
        // That it is gone shows when it is listened to.
        let _ = channel.send(&Request::Start(files.map(|file| file.is_some())), &passed, Some(PATIENCE));
        drop((copies, told));
        let stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopping);
        let done = on_thread("work", move || self.listen(&records, &stops, &is_old))?;
        Ok(WorkReadings { channel, stopping, done })
    }

    fn listen(self, records: &Sender<Record>, stops: &AtomicBool, is_old: &AtomicBool) {
        if self.take_all(records, is_old).is_err() {
            let stops = stops.load(Ordering::Relaxed);
            let failure = if stops { WorkFailure::TimedOut } else { WorkFailure::ReaderLost };
            for id in self.read {
                let lost = WorkReading { at: now(), within_ns: 0, value: Err(failure.clone()) };
                let _ = records.send(Record::WorkReadings(id, vec![lost]));
            }
        }
        self.child.end(Duration::ZERO);
    }

    /// Takes readings until the process is done, or the channel ends.
    fn take_all(&self, records: &Sender<Record>, is_old: &AtomicBool) -> Result<(), ChannelError> {
        loop {
            match self.child.channel.receive(MOST, None)?.0 {
                Answer::Done => return Ok(()),
                Answer::Readings(readings) => self.pass_on(readings, records, is_old),
            }
        }
    }

    fn pass_on(&self, readings: Vec<(WorkId, WorkReading)>, records: &Sender<Record>, is_old: &AtomicBool) {
        let missing = readings.iter().filter(|(_, reading)| reading.value == Err(WorkFailure::Missing));
        let calls = missing.filter_map(|(id, _)| match self.said.get(id.index()) {
            Some(WorkSource::Calls(words)) => Some(words.as_str()),
            _ => None,
        });
        let calls: Vec<&str> = calls.collect();
        if !calls.is_empty() {
            let why = match (self.is_attached, is_old.load(Ordering::Relaxed)) {
                (true, _) => NoPython::Attached,
                (false, true) => NoPython::Old,
                (false, false) => NoPython::Uncalled,
            };
            log::warn!("{}", no_such_functions(&calls, why));
        }
        let mut of: BTreeMap<WorkId, Vec<WorkReading>> = BTreeMap::new();
        for (id, reading) in readings.into_iter().filter(|(id, _)| self.read.contains(id)) {
            of.entry(id).or_default().push(reading);
        }
        for (id, readings) in of {
            // The writer may be gone; then the recording ends anyway.
            let _ = records.send(Record::WorkReadings(id, readings));
        }
    }
}

impl WorkReadings {
    /// Has everything be read once more, and ends the process. Takes a moment at the most.
    pub async fn stop(self) {
        let Self { channel, stopping, mut done } = self;
        stopping.store(true, Ordering::Relaxed);
        let _ = channel.send(&Request::Stop, &[], Some(LAST));
        if tokio::time::timeout(LAST, &mut done).await.is_err() {
            // Somebody keeps it from answering: whoever listens to it hears the end.
            channel.shut();
            let _ = tokio::time::timeout(LAST, done).await;
        }
    }
}
