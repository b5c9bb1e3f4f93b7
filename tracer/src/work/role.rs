//! The process that reads counters of work: gives up what it may do, then looks ten times a second (an agent's: twice) until it is told to stop,
//! or its parent is gone.
//!
//! Leaves out the parent's side (`client.rs`).

use super::calls::{Calls, calls_of};
use super::exposition::Metric;
use super::file;
use super::http::{PATIENCE, Page};
use super::lines::{Lines, expression};
use super::message::{Answer, BATCH, MOST, Request};
use super::telling::Telling;
use super::watch::{Piece, Printed};
use crate::plan::RecordPlan;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::WorkId;
use energy_trace_model::recording::record::{WorkCounter, WorkFailure, WorkReading, WorkSource, WorkUnits};
use energy_trace_system::clock::now;
use energy_trace_system::roles::channel::ChannelError;
use energy_trace_system::roles::child::Parent;
use energy_trace_system::roles::own_user::OwnUser;
use energy_trace_system::roles::renounce::renounce;
use nix::unistd::{Uid, geteuid};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at a source.
const PERIOD: Duration = Duration::from_millis(100);
/// How often sources are looked at.
#[derive(Clone, Copy)]
struct Pace {
    period: Duration,
    /// A look is followed by a rest of so many times its own CPU time: whoever makes a page decides what reading it takes.
    rest: u32,
}
const OF_RECORD: Pace = Pace { period: PERIOD, rest: 0 };
/// Windows are longer, and it asks for ever: pages cost whoever makes them.
const OF_AGENT: Pace = Pace { period: Duration::from_millis(500), rest: 200 };
/// No rest is longer.
const LONGEST_REST: Duration = Duration::from_secs(20);
/// How long a look may take before that is told.
const SLOW: Duration = Duration::from_secs(1);
/// Who looks for longer is not waited for at the end.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long last looks are waited for: less than the parent waits for all of it.
const LAST: Duration = Duration::from_secs(1);
/// Readings that wait for the parent, which may be stopped (Ctrl-Z): who has more waits, and bytes that are printed are passed over.
const WAITING: usize = 4096;

/// What a thread tells.
type Told = (WorkId, WorkReading);
/// A way to look at a source: what each of its counters has now.
type Look = Box<dyn FnMut() -> Vec<Result<WorkUnits, WorkFailure>> + Send>;

/// The process's life. Returns its exit status, which nobody reads.
pub(super) fn serve(plan: &RecordPlan, parent: &Parent) -> i32 {
    let identity = match &plan.agent {
        Some(_) => OwnUser::find().identity().cloned(),
        None => plan.owner.as_ref().map(|user| user.role()),
    };
    // Before it is another one.
    let runs_command = plan.run_as.as_ref().map_or_else(geteuid, |user| user.uid);
    let ready = renounce(identity.as_ref()).and_then(|()| parent.die_with_it());
    i32::from(ready.is_err() || read(plan, parent, runs_command).is_err())
}

fn read(plan: &RecordPlan, parent: &Parent, runs_command: Uid) -> Result<(), ChannelError> {
    let (request, files) = parent.channel.receive(MOST, None)?;
    let (Request::Start(passed), mut files) = (request, files.into_iter()) else { return Ok(()) };
    let [copies, native, of_python] = passed.map(|is_there| if is_there { files.next() } else { None });
    let (sender, told) = sync_channel::<Event>(WAITING);
    let pace = if plan.agent.is_some() { OF_AGENT } else { OF_RECORD };
    let mut looks = looks(&plan.work);
    let of_calls = calls_of(&plan.work);
    if !of_calls.is_empty() {
        let mut calls = Calls::new(of_calls.clone(), native, of_python, runs_command.as_raw());
        let late = sender.clone();
        let look = move || calls.look(|id, reading| drop(late.send(Event::Told((id, reading)))));
        looks.push((of_calls, Box::new(look)));
    }
    let looks = looks.into_iter();
    let mut readers: Vec<Reader> =
        looks.map(|(ids, look)| Reader::start(ids, look, pace, sender.clone())).collect();
    readers.extend(Reader::watch(plan, copies, &sender));
    drop(sender);
    loop {
        pass_on(parent, &told, PERIOD)?;
        readers.iter().map(Reader::slow).try_for_each(|told| send(parent, &told))?;
        if parent.channel.is_answering(Duration::ZERO)? {
            let (Request::Start(_) | Request::Stop, _) = parent.channel.receive(MOST, None)?;
            break;
        }
    }
    let waits = readers.iter().filter(|reader| reader.look_again()).count();
    last_looks(parent, &told, waits)?;
    parent.channel.send(&Answer::Done, &[], None)
}

/// How files and pages are looked at: metrics of one page together.
fn looks(counters: &[WorkCounter]) -> Vec<(Vec<WorkId>, Look)> {
    let mut looks: Vec<(Vec<WorkId>, Look)> = Vec::new();
    let mut pages: BTreeMap<&str, (Vec<WorkId>, Vec<Metric>)> = BTreeMap::new();
    for (id, counter) in (0..).map(WorkId::new).zip(counters) {
        match &counter.source {
            WorkSource::File(path) => {
                let path = PathBuf::from(path);
                looks.push((vec![id], Box::new(move || vec![file::look(&path)])));
            }
            WorkSource::Prometheus { url, metric } => {
                let Some(metric) = Metric::parse(metric) else { continue };
                let page = pages.entry(url).or_default();
                page.0.push(id);
                page.1.push(metric);
            }
            WorkSource::Calls(_) | WorkSource::Stdout(_) => (),
        }
    }
    for (url, (ids, metrics)) in pages {
        let mut page = Page::new(url, metrics, PATIENCE);
        looks.push((ids, Box::new(move || page.look())));
    }
    looks
}

/// Sends what is told within a while.
fn pass_on(parent: &Parent, told: &Receiver<Event>, within: Duration) -> Result<(), ChannelError> {
    let end = Instant::now() + within;
    let mut batch = Vec::new();
    while batch.len() < BATCH {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Told(one)) => batch.push(one),
            Ok(Event::Last) => (),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                break;
            }
        }
    }
    send(parent, &batch)
}

/// Sends what is told until every reader that can has looked for the last time.
fn last_looks(parent: &Parent, told: &Receiver<Event>, mut waits: usize) -> Result<(), ChannelError> {
    let end = Instant::now() + LAST;
    let mut batch = Vec::new();
    while waits > 0 {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Told(one)) => batch.push(one),
            Ok(Event::Last) => waits -= 1,
            Err(_) => break,
        }
    }
    batch.extend(told.try_iter().filter_map(|event| match event {
        Event::Told(one) => Some(one),
        Event::Last => None,
    }));
    send(parent, &batch)
}

fn send(parent: &Parent, told: &[Told]) -> Result<(), ChannelError> {
    told.chunks(BATCH).try_for_each(|some| parent.channel.send(&Answer::Readings(some.to_vec()), &[], None))
}

/// What comes from a reader's thread.
enum Event {
    Told(Told),
    /// It has looked for the last time.
    Last,
}

/// What a thread is at.
#[derive(Default)]
struct Looking {
    /// Since when it looks, where it does.
    since: Option<KtimeNs>,
    /// Whether it was told that this takes long.
    is_told: bool,
}

impl Looking {
    /// Whether it has looked for longer than this.
    fn is_longer(&self, than: Duration, at: KtimeNs) -> bool {
        self.since.is_some_and(|since| u128::from(at.ns_since(since)) > than.as_nanos())
    }
}

/// A thread that looks at a source.
struct Reader {
    ids: Vec<WorkId>,
    looking: Arc<Mutex<Looking>>,
    /// Has it look at once, for the last time.
    again: Sender<()>,
}

impl Reader {
    fn start(ids: Vec<WorkId>, mut look: Look, pace: Pace, told: SyncSender<Event>) -> Self {
        let looking = Arc::default();
        let (again, wanted) = channel();
        let is = Arc::clone(&looking);
        let failed = told.clone();
        let mut tellings: Vec<(WorkId, Telling)> = ids.iter().map(|id| (*id, Telling::default())).collect();
        let started = std::thread::Builder::new().name("work".into()).spawn(move || {
            let mut is_last = false;
            loop {
                let next = Instant::now() + pace.period;
                let (began, spent) = (now(), thread_time());
                set(&is, Some(began));
                let values = look();
                set(&is, None);
                let rest = thread_time().saturating_sub(spent).saturating_mul(pace.rest).min(LONGEST_REST);
                let next = next.max(Instant::now() + rest);
                let times = (began, now());
                let was_told = tellings.iter_mut().zip(values).all(|((id, telling), value)| {
                    let reading = telling.tell(times, value);
                    reading.is_none_or(|reading| told.send(Event::Told((*id, reading))).is_ok())
                });
                if is_last || !was_told {
                    let _nobody_may_listen = told.send(Event::Last);
                    return;
                }
                is_last = wanted.recv_timeout(next.saturating_duration_since(Instant::now()))
                    != Err(RecvTimeoutError::Timeout);
            }
        });
        if let Err(error) = started {
            tell_failure(&failed, &ids, &WorkFailure::System { error: error.to_string() });
        }
        Self { ids, looking, again }
    }

    /// Looks for numbers in what the command prints, if any counter wants that.
    fn watch(plan: &RecordPlan, copies: Option<OwnedFd>, told: &SyncSender<Event>) -> Option<Self> {
        let of_output = (0..).zip(&plan.work).filter_map(|(id, counter)| match &counter.source {
            WorkSource::Stdout(pattern) => Some((WorkId::new(id), expression(pattern).ok()?)),
            _ => None,
        });
        let of_output: Vec<(WorkId, Regex)> = of_output.collect();
        let ids: Vec<WorkId> = of_output.iter().map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return None;
        }
        let of_failure = ids.clone();
        let (again, wanted) = channel();
        let told = told.clone();
        let failed = told.clone();
        let started = std::thread::Builder::new().name("work".into()).spawn(move || {
            let printed = copies.map_or_else(Printed::of_own_stdout, |copies| Ok(Printed::Copies(copies)));
            match printed {
                Ok(printed) => watch(printed, of_output, &wanted, &told),
                Err(error) => tell_failure(&told, &of_failure, &file::failure(&error)),
            }
            let _nobody_may_listen = told.send(Event::Last);
        });
        if let Err(error) = started {
            tell_failure(&failed, &ids, &WorkFailure::System { error: error.to_string() });
        }
        Some(Self { ids, looking: Arc::default(), again })
    }

    /// Asks for a last look, and says whether that comes at once: not where the thread has looked for long, or is gone.
    fn look_again(&self) -> bool {
        let is_slow = locked(&self.looking).is_longer(AT_ONCE, now());
        self.again.send(()).is_ok() && !is_slow
    }

    /// That it looks for too long, once.
    fn slow(&self) -> Vec<Told> {
        let (mut looking, at) = (locked(&self.looking), now());
        if looking.is_told || !looking.is_longer(SLOW, at) {
            return Vec::new();
        }
        looking.is_told = true;
        let reading = WorkReading { at, within_ns: 0, value: Err(WorkFailure::TimedOut) };
        self.ids.iter().map(|id| (*id, reading.clone())).collect()
    }
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, Duration::from)
}

/// Tells the numbers that are printed, until a last look is wanted or there will be nothing more.
fn watch(
    mut printed: Printed,
    of_output: Vec<(WorkId, Regex)>,
    wanted: &Receiver<()>,
    told: &SyncSender<Event>,
) {
    let within_ns = printed.within_ns();
    let mut all: Vec<(WorkId, Lines)> =
        of_output.into_iter().map(|(id, expression)| (id, Lines::new(expression, within_ns))).collect();
    loop {
        let is_last = wanted.try_recv() != Err(TryRecvError::Empty);
        if !is_last {
            printed.wait();
        }
        let (mut is_quiet, mut is_over) = (true, is_last);
        loop {
            match printed.next() {
                Ok(Some(piece)) => {
                    is_quiet = false;
                    all.iter_mut().for_each(|(id, lines)| take_in(lines, &piece, *id, told));
                }
                Ok(None) => break,
                Err(_) => {
                    is_over = true;
                    break;
                }
            }
        }
        for (id, lines) in all.iter_mut().filter(|_| is_quiet || is_over) {
            let due = if is_over { lines.end() } else { lines.rest().into_iter().collect() };
            due.into_iter().for_each(|one| drop(told.send(Event::Told((*id, one)))));
        }
        if is_over {
            return;
        }
    }
}

fn take_in(lines: &mut Lines, piece: &Piece, id: WorkId, told: &SyncSender<Event>) {
    if piece.is_behind_gap {
        lines.skip();
    }
    for reading in lines.push(piece.at, &piece.bytes) {
        // Who does not listen any more ends the process soon.
        let _ = told.send(Event::Told((id, reading)));
    }
}

fn tell_failure(told: &SyncSender<Event>, ids: &[WorkId], failure: &WorkFailure) {
    let reading = WorkReading { at: now(), within_ns: 0, value: Err(failure.clone()) };
    for id in ids {
        let _nobody_may_listen = told.send(Event::Told((*id, reading.clone())));
    }
}

fn set(looking: &Mutex<Looking>, since: Option<KtimeNs>) {
    *locked(looking) = Looking { since, is_told: false };
}

fn locked(looking: &Mutex<Looking>) -> MutexGuard<'_, Looking> {
    looking.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{
        Duration, Event, OF_RECORD, Reader, Receiver, Sender, WorkId, WorkUnits, channel, sync_channel,
    };

    /// A reader of one counter in the middle of its first look, what it tells, and what ends its looks by being dropped.
    fn looking() -> (Reader, Receiver<Event>, Sender<()>) {
        let ((begins, begun), (goes, on)) = (channel(), channel::<()>());
        let (sender, told) = sync_channel(16);
        let look = move || {
            let _nobody_may_listen = begins.send(());
            let _over = on.recv();
            vec![Ok(WorkUnits::whole(3))]
        };
        let reader = Reader::start(vec![WorkId::new(0)], Box::new(look), OF_RECORD, sender);
        begun.recv().unwrap();
        (reader, told, goes)
    }

    /// Who is in the middle of a look when the end comes is waited for, and looks once more; before, what it had not told by then was lost.
    #[test]
    fn a_last_look_during_another() {
        let (reader, told, goes) = looking();
        assert!(reader.look_again());
        drop(goes);
        let events: Vec<Event> = told.iter().collect();
        assert!(matches!(events[..], [Event::Told(_), Event::Told(_), Event::Last]), "{}", events.len());
    }

    /// Who has looked for long is not waited for, also where it was told already that it does.
    #[test]
    fn a_look_that_never_ends() {
        let (reader, _told, goes) = looking();
        while reader.slow().is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(reader.slow().is_empty());
        assert!(!reader.look_again());
        drop(goes);
    }
}
