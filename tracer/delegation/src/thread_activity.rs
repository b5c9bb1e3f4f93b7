//! What each Python thread was doing at every moment, also while it slept.
//!
//! Two kinds of fact say it: samples (it ran in this stack) and waits (it went to sleep in this stack, until
//! its next slice). Between two facts the nearer one holds. Leaves out threads without Python frames: they
//! are never asked for.

use energy_trace_counters::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{ProcessKey, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CpuOwner, FrameKind, StackStatus};
use std::cell::OnceCell;

/// A stretch in which a thread did one thing: up to the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) start: KtimeNs,
    pub(super) stack: StackId,
    /// It sleeps.
    pub(super) waits: bool,
}

/// What is known of a stack without reading a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StackTraits {
    /// It has Python frames.
    pub(super) python: bool,
    /// Below a pool's loop: somebody else asked for it.
    pub(super) pooled: bool,
    /// The innermost Python frame is a pool's loop: there is no task.
    pub(super) idle: bool,
}

/// What is known for sure: that a thread was in a stack from one moment to another. Between two of these it
/// may have been anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownStack {
    pub(super) start: KtimeNs,
    end: KtimeNs,
    pub(super) stack: StackId,
}

/// What one thread did when.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadActivity {
    phases: Vec<Phase>,
    known: Vec<KnownStack>,
    /// When it was last seen.
    end: KtimeNs,
}

/// What one thread is, by how often it was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadTraits {
    /// Its last sample without Python frames.
    without_python: Option<KtimeNs>,
    /// Facts with Python frames, those of them below a pool's loop, and samples without Python frames.
    pub(super) python: u64,
    pub(super) pooled: u64,
    pub(super) native: u64,
}

impl ThreadActivity {
    /// What the thread does at a moment, and until when; `None` before it was first and after it was last
    /// seen.
    pub(super) fn at(&self, at: KtimeNs) -> Option<(Phase, KtimeNs)> {
        let next = self.phases.partition_point(|phase| phase.start <= at);
        let phase = self.phases.get(next.checked_sub(1)?)?;
        let until = self.phases.get(next).map_or(self.end, |next| next.start);
        (at < until).then_some((*phase, until))
    }

    /// What is known last before a moment (or at it) and first after it, and until when that holds.
    pub(super) fn around(&self, at: KtimeNs) -> ([Option<KnownStack>; 2], KtimeNs) {
        let next = self.known.partition_point(|known| known.start <= at);
        let before = next.checked_sub(1).and_then(|last| self.known.get(last)).copied();
        if let Some(now) = before.filter(|before| at < before.end) {
            return ([before; 2], now.end);
        }
        let after = self.known.get(next).copied();
        ([before, after], after.map_or(KtimeNs::from_ns(u64::MAX), |after| after.start))
    }

    /// All phases in time order, each with its end.
    pub(super) fn phases(&self) -> impl Iterator<Item = (Phase, KtimeNs)> + '_ {
        let ends = self.phases.iter().skip(1).map(|next| next.start).chain([self.end]);
        self.phases.iter().copied().zip(ends)
    }

    /// When the thread is first seen, if that is later.
    pub(super) fn begins_after(&self, at: KtimeNs) -> Option<KtimeNs> {
        self.phases.first().map(|first| first.start).filter(|&start| start > at)
    }

    /// The last phase that began at a moment or before it and fits.
    pub(super) fn last(&self, at: KtimeNs, fits: impl Fn(&Phase) -> bool) -> Option<Phase> {
        let next = self.phases.partition_point(|phase| phase.start <= at);
        self.phases.get(..next)?.iter().rev().find(|phase| fits(phase)).copied()
    }
}

impl ThreadTraits {
    fn count(&mut self, made: StackTraits) {
        self.python += u64::from(made.python);
        self.pooled += u64::from(made.pooled);
        self.native += u64::from(!made.python);
    }

    /// Whether it is mostly below a pool's loop.
    pub(super) const fn is_pooled(self) -> bool {
        self.pooled * 2 > self.python
    }

    /// Whether it is a Python thread, rather than one that now and then calls Python.
    pub(super) const fn is_python(self) -> bool {
        self.python > self.native
    }
}

/// All threads, by key; and all stacks, by id.
pub(super) struct Threads<'r> {
    recording: &'r Recording,
    span: Span,
    /// Found out when somebody asks: it is as much as samples, and where every thread works for itself nobody
    /// does.
    activity: OnceCell<Vec<ThreadActivity>>,
    of_threads: Vec<ThreadTraits>,
    traits: Vec<StackTraits>,
    process: Vec<Option<ProcessKey>>,
    main: Vec<bool>,
}

/// A fact about a thread: from `start` on, and until `end` for sure.
struct Fact {
    start: KtimeNs,
    end: KtimeNs,
    stack: StackId,
    waits: bool,
}

impl<'r> Threads<'r> {
    /// From a recording and its time.
    pub(super) fn of(recording: &'r Recording, span: Span) -> Self {
        let traits = all_traits(recording);
        let made = |stack: StackId| traits.get(stack.index()).copied().unwrap_or_default();
        let mut of_threads = vec![ThreadTraits::default(); recording.threads.len()];
        for sample in &recording.samples {
            let Some(thread) = of_threads.get_mut(sample.thread.index()) else { continue };
            let made = made(sample.stack);
            thread.count(made);
            if !made.python && !matches!(sample.status, StackStatus::PythonLost(_)) {
                thread.without_python = thread.without_python.max(Some(sample.at));
            }
        }
        for wait in &recording.requests.waits {
            let thread = of_threads.get_mut(wait.thread.index());
            thread.into_iter().for_each(|thread| thread.count(made(wait.stack)));
        }
        let pid = |process: ProcessKey| recording.processes.get(process.index()).map(|p| p.pid.get());
        Self {
            recording,
            span,
            activity: OnceCell::new(),
            of_threads,
            traits,
            process: recording.threads.iter().map(|thread| Some(thread.process)).collect(),
            main: recording.threads.iter().map(|t| pid(t.process) == Some(t.tid.get())).collect(),
        }
    }

    /// What all threads did.
    fn find_activity(&self) -> Vec<ThreadActivity> {
        let Self { recording, span, .. } = *self;
        let slices = Slices::of(recording);
        let mut facts: Vec<Vec<Fact>> = recording.threads.iter().map(|_| Vec::new()).collect();
        for sample in recording.samples.iter().filter(|sample| self.traits(sample.stack).python) {
            if let Some(facts) = facts.get_mut(sample.thread.index()) {
                facts.push(Fact { start: sample.at, end: sample.at, stack: sample.stack, waits: false });
            }
        }
        for wait in &recording.requests.waits {
            let Some(facts) = facts.get_mut(wait.thread.index()) else { continue };
            let end = slices.resumed(wait.thread, wait.at).unwrap_or(span.end).max(wait.at);
            facts.push(Fact { start: wait.at, end, stack: wait.stack, waits: true });
        }
        let of_threads = facts.into_iter().zip(&slices.ends).zip(&self.of_threads);
        of_threads
            .map(|((facts, left), thread)| ThreadActivity::settled(facts, *left, thread.without_python))
            .collect()
    }

    /// What a thread did when.
    pub(super) fn activity(&self, thread: ThreadKey) -> Option<&ThreadActivity> {
        self.activity.get_or_init(|| self.find_activity()).get(thread.index())
    }

    /// What a thread is.
    pub(super) fn of_thread(&self, thread: ThreadKey) -> Option<ThreadTraits> {
        self.of_threads.get(thread.index()).copied()
    }

    pub(super) fn traits(&self, stack: StackId) -> StackTraits {
        self.traits.get(stack.index()).copied().unwrap_or_default()
    }

    pub(super) fn process(&self, thread: ThreadKey) -> Option<ProcessKey> {
        self.process.get(thread.index()).copied().flatten()
    }

    /// Whether it is its process's first thread.
    pub(super) fn is_main(&self, thread: ThreadKey) -> bool {
        self.main.get(thread.index()).copied().unwrap_or(false)
    }

    /// Threads that have been seen with Python frames.
    pub(super) fn with_python(&self) -> impl Iterator<Item = ThreadKey> + '_ {
        let keys = (0..).map(ThreadKey::new);
        keys.zip(&self.of_threads).filter(|(_, thread)| thread.python > 0).map(|(key, _)| key)
    }
}

impl ThreadActivity {
    /// Facts become phases that follow each other; `left` is when the thread last left a CPU,
    /// `without_python` its last sample without Python frames.
    fn settled(mut facts: Vec<Fact>, left: KtimeNs, without_python: Option<KtimeNs>) -> Self {
        let mut this = Self::default();
        facts.sort_by_key(|fact| (fact.start, fact.end));
        let mut reached: Option<KtimeNs> = None;
        for fact in &facts {
            // Half-way between the end of one and the start of the next.
            let start = reached.map_or(fact.start, |reached| reached.midpoint(fact.start).min(fact.start));
            this.know(fact);
            this.push(Phase { start, stack: fact.stack, waits: false });
            if fact.waits {
                this.push(Phase { start: fact.start, stack: fact.stack, waits: true });
                this.push(Phase { start: fact.end, stack: fact.stack, waits: false });
            }
            reached = Some(reached.map_or(fact.end, |reached| reached.max(fact.end)));
        }
        // The interpreter may end before its thread does.
        let last = reached.unwrap_or_default();
        let left = without_python.map_or(left, |bare| if bare > last { last.midpoint(bare) } else { left });
        Self { end: last.max(left), ..this }
    }

    /// Adds a fact in time order to what is known; one after another of the same stack are one.
    fn know(&mut self, &Fact { start, end, stack, .. }: &Fact) {
        match self.known.last_mut() {
            Some(last) if last.stack == stack => last.end = last.end.max(end),
            _ => self.known.push(KnownStack { start, end, stack }),
        }
    }

    /// Adds a phase in time order; one that lasts no time or says nothing new is left out.
    fn push(&mut self, phase: Phase) {
        if let Some(last) = self.phases.last() {
            if phase.start < last.start || (phase.stack, phase.waits) == (last.stack, last.waits) {
                return;
            }
            if phase.start == last.start {
                self.phases.pop();
            }
        }
        self.phases.push(phase);
    }
}

/// When threads came onto a CPU, and when they last left one.
struct Slices {
    starts: Vec<Vec<KtimeNs>>,
    ends: Vec<KtimeNs>,
}

impl Slices {
    fn of(recording: &Recording) -> Self {
        let mut starts = vec![Vec::new(); recording.threads.len()];
        let mut ends = vec![KtimeNs::default(); recording.threads.len()];
        for slice in &recording.slices {
            let CpuOwner::Target(thread) = slice.who else { continue };
            if let (Some(starts), Some(end)) = (starts.get_mut(thread.index()), ends.get_mut(thread.index()))
            {
                starts.push(slice.start);
                *end = slice.end.max(*end);
            }
        }
        starts.iter_mut().for_each(|starts| starts.sort_unstable());
        Self { starts, ends }
    }

    /// When a thread that left its CPU next came onto one.
    fn resumed(&self, thread: ThreadKey, left: KtimeNs) -> Option<KtimeNs> {
        let starts = self.starts.get(thread.index())?;
        starts.get(starts.partition_point(|&start| start < left)).copied()
    }
}

/// What each stack is made of. A caller's stack is older than its callee's, so one pass suffices.
fn all_traits(recording: &Recording) -> Vec<StackTraits> {
    let mut made: Vec<StackTraits> = Vec::with_capacity(recording.stacks.len());
    for node in &recording.stacks {
        let mut this = node.parent.and_then(|parent| made.get(parent.index())).copied().unwrap_or_default();
        if recording.frames.get(node.frame.index()).is_some_and(|frame| frame.kind == FrameKind::Python) {
            let is_loop = recording.requests.pool_loops.contains(&node.frame);
            this = StackTraits { python: true, pooled: this.pooled || is_loop, idle: is_loop };
        }
        made.push(this);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::{
        Fact, KnownStack, KtimeNs, Phase, Recording, Slices, Span, StackId, StackTraits, ThreadActivity,
        ThreadTraits, Threads,
    };
    use energy_trace_model::ids::{CpuId, FrameId, ProcessKey, ThreadKey, Tid};
    use energy_trace_model::recording::record::{
        CpuOwner, Frame, FrameKind, PythonLoss, Sample, Slice, StackNode, StackStatus, Thread, Wait,
    };

    fn at(ns: u64) -> KtimeNs {
        KtimeNs::from_ns(ns)
    }

    fn fact(start: u64, end: u64, stack: u32) -> Fact {
        Fact { start: at(start), end: at(end), stack: StackId::new(stack), waits: end > start }
    }

    fn settled(facts: Vec<Fact>, left: u64, without_python: Option<u64>) -> ThreadActivity {
        ThreadActivity::settled(facts, at(left), without_python.map(at))
    }

    /// Start, stack, whether it waits, and end of each phase.
    fn phases(thread: &ThreadActivity) -> Vec<(u64, u32, bool, u64)> {
        let plain = |(phase, end): (Phase, KtimeNs)| {
            (phase.start.as_ns(), phase.stack.get(), phase.waits, end.as_ns())
        };
        thread.phases().map(plain).collect()
    }

    /// A sample at 10, a wait from 20 to 40 in another stack and a sample at 60 as the first: stacks change
    /// half-way, the wait lasts as long as it did, and the thread was last seen when it left its CPU at 70.
    fn thread() -> ThreadActivity {
        settled(vec![fact(60, 60, 1), fact(20, 40, 2), fact(10, 10, 1)], 70, None)
    }

    #[test]
    fn facts_become_phases() {
        let five = [
            (10, 1, false, 15),
            (15, 2, false, 20),
            (20, 2, true, 40),
            (40, 2, false, 50),
            (50, 1, false, 70),
        ];
        assert_eq!(phases(&thread()), five);
        // What begins at one moment with a wait is the wait; what lasts no time is left out.
        let waits = settled(vec![fact(10, 30, 1), fact(30, 30, 1)], 0, None);
        assert_eq!(phases(&waits), [(10, 1, true, 30), (30, 1, false, 30)]);
        // Facts within another one do not go back in time.
        let within = settled(vec![fact(10, 40, 1), fact(20, 20, 2)], 50, None);
        assert!(phases(&within).is_sorted_by_key(|phase| phase.0), "{:?}", phases(&within));
    }

    /// A phase holds from its start until the next one's; before the first and behind the last nothing does.
    #[test]
    fn moments() {
        let thread = thread();
        let of = |ns| thread.at(at(ns)).map(|(phase, until)| (phase.start.as_ns(), until.as_ns()));
        assert_eq!([of(9), of(10), of(14), of(15)], [None, Some((10, 15)), Some((10, 15)), Some((15, 20))]);
        assert_eq!([of(69), of(70)], [Some((50, 70)), None]);
        let begins = |ns| thread.begins_after(at(ns)).map(KtimeNs::as_ns);
        assert_eq!([begins(9), begins(10)], [Some(10), None]);
        let wait = |ns| thread.last(at(ns), |phase| phase.waits).map(|phase| phase.start.as_ns());
        assert_eq!([wait(19), wait(20), wait(69)], [None, Some(20), Some(20)]);
    }

    /// Between two facts both are known, within a wait that alone; behind the last one it is known for ever.
    /// Facts of one stack that follow each other are one.
    #[test]
    fn what_is_known_around() {
        let thread = thread();
        let around = |ns| {
            let (known, until) = thread.around(at(ns));
            (known.map(|known| known.map(|KnownStack { start, .. }| start.as_ns())), until.as_ns())
        };
        assert_eq!(around(5), ([None, Some(10)], 10));
        assert_eq!(around(15), ([Some(10), Some(20)], 20));
        assert_eq!(around(30), ([Some(20), Some(20)], 40));
        assert_eq!(around(40), ([Some(20), Some(60)], 60));
        assert_eq!(around(60), ([Some(60), None], u64::MAX));
        let same = settled(vec![fact(10, 10, 1), fact(20, 20, 1), fact(30, 30, 2)], 0, None);
        let (known, until) = same.around(at(15));
        assert_eq!(
            (known.map(|known| known.map(|known| known.end.as_ns())), until.as_ns()),
            ([Some(20); 2], 20)
        );
    }

    /// A sample without Python frames behind the last fact ends what is known half-way to it; one before
    /// changes nothing.
    #[test]
    fn the_interpreter_ends_first() {
        let end = |without_python| settled(vec![fact(60, 60, 1)], 70, without_python).end.as_ns();
        assert_eq!([end(None), end(Some(50)), end(Some(60)), end(Some(64))], [70, 70, 70, 62]);
        assert_eq!(settled(vec![fact(60, 60, 1)], 10, None).end.as_ns(), 60);
    }

    /// More than half of the facts below a pool's loop are a pool's thread, and more with Python frames than
    /// without a Python thread.
    #[test]
    fn kinds_of_threads() {
        let counted = |python: u64, pooled: u64, native: u64| {
            let mut thread = ThreadTraits::default();
            let made = |python, pooled| StackTraits { python, pooled, idle: false };
            (0..pooled).for_each(|_| thread.count(made(true, true)));
            (pooled..python).for_each(|_| thread.count(made(true, false)));
            (0..native).for_each(|_| thread.count(made(false, false)));
            (thread.is_pooled(), thread.is_python())
        };
        assert_eq!([counted(2, 1, 1), counted(3, 2, 3)], [(false, true), (true, false)]);
        assert_eq!([counted(6, 2, 5), counted(1, 0, 2)], [(false, true), (false, false)]);
    }

    /// From a recording: a wait lasts until its thread comes onto a CPU again. A sample whose Python frames
    /// were lost is none without Python.
    #[test]
    fn from_a_recording() {
        let frame = |kind| Frame { kind, ..Frame::special("f") };
        let node = |frame| StackNode { parent: None, frame: FrameId::new(frame) };
        let (process, key) = (ProcessKey::new(0), ThreadKey::new(0));
        let sample = |ns, stack, status| {
            let (cpu, thread, stack) = (CpuId::new(0), key, StackId::new(stack));
            Sample { at: at(ns), cpu, thread, stack, status }
        };
        let slice = |start, end| Slice {
            cpu: CpuId::new(0),
            who: CpuOwner::Target(key),
            start: at(start),
            end: at(end),
        };
        let mut recording = Recording {
            frames: vec![frame(FrameKind::Python), frame(FrameKind::Native)],
            stacks: vec![node(0), node(1)],
            threads: vec![Thread { key, process, tid: Tid::new(1), name: String::new() }],
            slices: vec![slice(0, 20), slice(50, 90)],
            samples: vec![sample(10, 0, StackStatus::Complete), sample(80, 1, StackStatus::Complete)],
            ..Recording::default()
        };
        let wait = Wait { at: at(20), thread: key, stack: StackId::new(0) };
        recording.requests.waits = vec![wait];
        let of = |recording: &Recording| {
            let threads = Threads::of(recording, Span::new(at(0), at(100)));
            let activity = threads.activity(key).unwrap().clone();
            let counts = threads.of_thread(key).map(|thread| (thread.python, thread.native));
            assert_eq!(counts, Some((2, 1)));
            assert_eq!(threads.with_python().collect::<Vec<_>>(), [key]);
            phases(&activity)
        };
        let until = |end| [(10, 0, false, 20), (20, 0, true, 50), (50, 0, false, end)];
        assert_eq!(of(&recording), until(65));
        recording.samples[1].status = StackStatus::PythonLost(PythonLoss::TooDeep);
        assert_eq!(of(&recording), until(90));
        let slices = Slices::of(&recording);
        let resumed = |left| slices.resumed(key, at(left)).map(KtimeNs::as_ns);
        assert_eq!([resumed(0), resumed(1), resumed(50), resumed(51)], [Some(0), Some(50), Some(50), None]);
    }
}
