//! What each Python thread was doing at every moment, also while it slept.
//!
//! Two kinds of fact say it: samples (it ran in this stack) and waits (it went to sleep in this stack, until its next slice). Between two
//! facts the nearer one holds. Leaves out threads without Python frames: they are never asked for.

use crate::timeline::Span;
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

/// What is known for sure: that a thread was in a stack from one moment to another. Between two of these it may have been anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) start: KtimeNs,
    end: KtimeNs,
    pub(super) stack: StackId,
}

/// What one thread did when.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadActivity {
    phases: Vec<Phase>,
    known: Vec<Known>,
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
    /// What the thread does at a moment, and until when; `None` before it was first and after it was last seen.
    pub(super) fn at(&self, at: KtimeNs) -> Option<(Phase, KtimeNs)> {
        let next = self.phases.partition_point(|phase| phase.start <= at);
        let phase = self.phases.get(next.checked_sub(1)?)?;
        let until = self.phases.get(next).map_or(self.end, |next| next.start);
        (at < until).then_some((*phase, until))
    }

    /// What is known last before a moment (or at it) and first after it, and until when that holds.
    pub(super) fn around(&self, at: KtimeNs) -> ([Option<Known>; 2], KtimeNs) {
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
    /// Found out when somebody asks: it is as much as samples, and where every thread works for itself nobody does.
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
    /// Facts become phases that follow each other; `left` is when the thread last left a CPU, `without_python` its last sample without Python frames.
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
            _ => self.known.push(Known { start, end, stack }),
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
