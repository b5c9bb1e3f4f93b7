//! For whom a thread works: the rules, by evidence and without names.
//!
//! A thread without Python frames (OpenMP, Eigen, XLA, autograd) works for a Python thread of its process:
//!
//! 1. the only one that has a task;
//! 2. of several, the one at the end of its chain of wake-ups: who woke it last, who had woken that one
//!    before, …;
//! 3. where the chain leads nowhere: those that wake such threads at all, of these those that wait, in equal
//!    parts. A Python thread that runs is the master of an OpenMP region, which works in it like the others;
//!    one that waits has handed its work over. Of a worker that nobody was seen to wake, all that are in its
//!    code may be the one, and all that may be there between two moments at which that is known.
//!
//! Before that, Python threads are left out that are outside the code that the worker lives in
//! (`call_context`) and run, and those that hardly ever wake it. If nobody is left, a call that is over is
//! charged (`native_rules`): a worker spins on, or finishes what it was given, after the call that asked for
//! it, and what its caller does next is not to blame.
//!
//! A Python thread below a pool's loop (`ThreadPoolExecutor`, …) works for the thread that woke it from its
//! idle wait, if that thread now waits; else for those Python threads of its process that wait, of these those
//! that a pool's thread wakes next (`Thread.join` is woken by the thread that it waits for). A submitter
//! that does not wait is not charged. A process whose main thread is below a pool's loop (a `DataLoader`'s
//! worker) works, with all threads that it has for itself, for the thread of its parent that next takes a
//! result from it: the one that it wakes.
//!
//! Interrupts make wrong wake-ups (`Wake::waker`). Rule 2 therefore stops at threads that have no task, and
//! rule 3 leaves out wakers that are rare beside others.

use super::awake::Awake;
use super::call_context::{Code, LibrarySetId, RARE};
use super::thread_activity::{Phase, StackTraits, ThreadTraits, Threads};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{ProcessKey, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Wake-ups that a chain is followed.
const CHAIN: usize = 64;
/// Pools that work for pools that work for pools.
const NESTED: u32 = 4;

/// A thread at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requester {
    pub(super) thread: ThreadKey,
    pub(super) at: KtimeNs,
    /// What it asked for then goes on after its call.
    pub(super) over: bool,
}

impl Requester {
    pub(super) const fn new(thread: ThreadKey, at: KtimeNs) -> Self {
        Self { thread, at, over: false }
    }
}

/// One step from the one who asked to the one who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestHop {
    /// This thread in this stack.
    In(ThreadKey, StackId),
    /// This thread in this stack, which it has left since.
    After(ThreadKey, StackId),
    /// The thread itself, in this stack.
    Itself(StackId),
    /// Nobody is known who asked this thread.
    Pool(ThreadKey),
}

/// Who asked: each path from the outermost one, all of equal worth; and until when that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequesterSet {
    pub(super) paths: Vec<Vec<RequestHop>>,
    pub(super) until: KtimeNs,
}

/// Why a thread's time may be somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It works for itself.
    Own,
    /// It works for itself, and no sample saw it, but where it sleeps before and after says what it is in.
    Unseen,
    /// It has no Python frames, in a process with Python.
    Native,
    /// It is below a pool's loop.
    Pooled,
}

/// Who woke whom, and who has Python.
pub(super) struct RequesterIndex<'a> {
    pub(super) threads: &'a Threads<'a>,
    pub(super) code: Code,
    pub(super) awake: Awake,
    of_process: HashMap<ProcessKey, Vec<ThreadKey>>,
    parents: Vec<Option<ProcessKey>>,
    /// Processes that are a pool's workers.
    workers: HashSet<ProcessKey>,
    /// Who woke a thread, in time order.
    wakes: HashMap<ThreadKey, Vec<Requester>>,
    /// Whom a process woke in its parent, in time order.
    results: HashMap<ProcessKey, Vec<Requester>>,
    /// How often a Python thread woke threads without Python frames.
    hands_over: HashMap<ThreadKey, u64>,
    /// How often chains of wake-ups led from a Python thread to a thread without Python frames.
    pub(super) callers: HashMap<ThreadKey, HashMap<ThreadKey, u64>>,
}

impl<'a> RequesterIndex<'a> {
    pub(super) fn new(recording: &Recording, threads: &'a Threads<'_>) -> Self {
        let code = Code::of(recording, threads);
        let awake = Awake::of(recording, |thread| code.library_set(thread).is_some());
        let mut this = Self {
            threads,
            code,
            awake,
            of_process: HashMap::new(),
            parents: recording.processes.iter().map(|process| process.parent).collect(),
            workers: HashSet::new(),
            wakes: HashMap::new(),
            results: HashMap::new(),
            hands_over: HashMap::new(),
            callers: HashMap::new(),
        };
        for thread in threads.with_python() {
            if let Some(process) = threads.process(thread) {
                this.of_process.entry(process).or_default().push(thread);
                let pooled = threads.of_thread(thread).is_some_and(ThreadTraits::is_pooled);
                if pooled && threads.is_main(thread) && this.parent(process).is_some() {
                    this.workers.insert(process);
                }
            }
        }
        for wake in &recording.requests.wakes {
            let waker = Requester::new(wake.waker, wake.at);
            this.wakes.entry(wake.thread).or_default().push(waker);
            let (from, to) = (threads.process(wake.waker), threads.process(wake.thread));
            if from == to && this.is_python(wake.waker) && !this.is_python(wake.thread) {
                *this.hands_over.entry(wake.waker).or_default() += 1;
            }
            if let Some(from) = from
                && to.is_some()
                && this.parent(from) == to
                && this.is_python(wake.thread)
            {
                let taker = Requester::new(wake.thread, wake.at);
                this.results.entry(from).or_default().push(taker);
            }
        }
        this.count_callers(recording);
        this
    }

    fn count_callers(&mut self, recording: &Recording) {
        let mut callers: HashMap<ThreadKey, HashMap<ThreadKey, u64>> = HashMap::new();
        for wake in
            recording.requests.wakes.iter().filter(|wake| self.code.library_set(wake.thread).is_some())
        {
            if let Some(caller) = self.chain(wake.thread, wake.at) {
                *callers.entry(wake.thread).or_default().entry(caller.thread).or_default() += 1;
            }
        }
        self.callers = callers;
    }

    /// Why the time of a thread in a stack (`None`: no sample saw it) may be somebody else's.
    pub(super) fn role(&self, thread: ThreadKey, stack: Option<StackId>) -> Role {
        let Some(of_thread) = self.threads.of_thread(thread) else { return Role::Own };
        let made = match stack {
            Some(stack) => self.threads.traits(stack),
            None => StackTraits { python: of_thread.is_python(), pooled: of_thread.is_pooled(), idle: false },
        };
        let process = self.threads.process(thread);
        if made.pooled {
            Role::Pooled
        } else if stack.is_none() && of_thread.is_python() {
            Role::Unseen
        } else if made.python || of_thread.is_python() || self.threads.is_main(thread) {
            // In a pool's worker even where Python frames are missing, as they are in its first moments.
            let helps = process.is_some_and(|process| self.workers.contains(&process));
            if helps && !(self.threads.is_main(thread) && made.python) { Role::Pooled } else { Role::Own }
        } else if process.is_some_and(|process| self.of_process.contains_key(&process)) {
            Role::Native
        } else {
            Role::Own
        }
    }

    /// Who asked for what a thread does at a moment.
    pub(super) fn who(&self, role: Role, thread: ThreadKey, at: KtimeNs) -> RequesterSet {
        if role != Role::Unseen {
            return self.answer(role, thread, at, 0);
        }
        match self.phase(Requester::new(thread, at)) {
            Some((phase, until)) => {
                RequesterSet { paths: vec![vec![RequestHop::Itself(phase.stack)]], until }
            }
            None => {
                let begin = self.threads.activity(thread).and_then(|activity| activity.begins_after(at));
                RequesterSet { paths: vec![vec![]], until: begin.unwrap_or(NEVER) }
            }
        }
    }

    fn answer(&self, role: Role, thread: ThreadKey, at: KtimeNs, depth: u32) -> RequesterSet {
        let (requesters, mut until) = match role {
            Role::Own | Role::Unseen => (Vec::new(), NEVER),
            Role::Native => self.of_native(thread, at),
            Role::Pooled => self.of_pooled(thread, at),
        };
        let mut paths = Vec::new();
        for requester in requesters {
            let Some((phase, _)) = self.phase(requester) else { continue };
            if self.threads.traits(phase.stack).pooled && depth < NESTED {
                let above = self.answer(Role::Pooled, requester.thread, requester.at, depth + 1);
                if requester.at == at {
                    until = until.min(above.until);
                }
                let step = step(requester, phase.stack);
                paths.extend(above.paths.into_iter().map(|mut path| {
                    path.push(step);
                    path
                }));
            } else {
                paths.push(vec![step(requester, phase.stack)]);
            }
        }
        if paths.is_empty() {
            paths.push(vec![RequestHop::Pool(thread)]);
        }
        RequesterSet { paths, until }
    }

    fn of_native(&self, thread: ThreadKey, at: KtimeNs) -> (Vec<Requester>, KtimeNs) {
        let Some(process) = self.threads.process(thread) else { return (Vec::new(), at) };
        let (mut all, mut until) = self.candidates(process, thread, at);
        if let Some(library_set) =
            self.code.library_set(thread).filter(|library_set| self.is_anybodys(thread, *library_set))
        {
            until = until.min(self.take_in(&mut all, library_set));
        }
        let mut all = match self.in_a_call(thread, at, all) {
            Ok(all) => all,
            Err(over) => return (over.into_iter().collect(), until),
        };
        if all.len() > 1
            && let Some(found) = self.chain(thread, at)
            && all.iter().any(|(requester, _)| requester.thread == found.thread)
        {
            all.retain(|(requester, _)| requester.thread == found.thread);
        }
        if all.len() > 1 {
            let often = |requester: &Requester| self.hands_over.get(&requester.thread).copied().unwrap_or(0);
            let most = all.iter().map(|(requester, _)| often(requester)).max().unwrap_or(0);
            prefer(&mut all, |(requester, _)| {
                often(requester) > 0 && often(requester).saturating_mul(RARE) >= most
            });
            let serves = self.workers.contains(&process);
            prefer(&mut all, |(_, phase)| self.threads.traits(phase.stack).pooled == serves);
            // Of several in its code, one that runs may just have asked: only wake-ups tell.
            let heard = self.is_heard(thread) || self.code.library_set(thread).is_none();
            prefer(&mut all, |(_, phase)| phase.waits || !heard);
        }
        (all.into_iter().map(|(requester, _)| requester).collect(), until)
    }

    /// Whether anybody was seen to wake a thread.
    pub(super) fn is_heard(&self, thread: ThreadKey) -> bool {
        self.wakes.contains_key(&thread)
    }

    /// When a Python thread woke workers of its process, with where these live, in time order.
    pub(super) fn wakes_of_workers(&self) -> BTreeMap<ThreadKey, Vec<(LibrarySetId, KtimeNs)>> {
        let mut all: BTreeMap<ThreadKey, Vec<(LibrarySetId, KtimeNs)>> = BTreeMap::new();
        for (&thread, wakes) in &self.wakes {
            let Some(library_set) = self.code.library_set(thread) else { continue };
            let here = |wake: &&Requester| {
                self.is_python(wake.thread)
                    && self.threads.process(wake.thread) == self.threads.process(thread)
            };
            for wake in wakes.iter().filter(here) {
                all.entry(wake.thread).or_default().push((library_set, wake.at));
            }
        }
        all.values_mut().for_each(|wakes| wakes.sort_by_key(|(_, at)| *at));
        all
    }

    /// Who last woke a thread.
    pub(super) fn woken_by(&self, thread: ThreadKey, at: KtimeNs) -> Option<Requester> {
        let wakes = self.wakes.get(&thread)?;
        wakes.get(wakes.partition_point(|wake| wake.at <= at).checked_sub(1)?).copied()
    }

    /// The Python thread at the end of the chain of wake-ups that led to a thread's running, and when it woke
    /// the first of them.
    pub(super) fn chain(&self, thread: ThreadKey, at: KtimeNs) -> Option<Requester> {
        let mut requester = Requester::new(thread, at);
        for _ in 0..CHAIN {
            requester = self.woken_by(requester.thread, requester.at)?;
            if self.is_python(requester.thread) {
                return Some(requester);
            }
        }
        None
    }

    fn of_pooled(&self, thread: ThreadKey, at: KtimeNs) -> (Vec<Requester>, KtimeNs) {
        let Some(process) = self.threads.process(thread) else { return (Vec::new(), at) };
        let (mut all, mut until) = self.candidates(process, thread, at);
        all.retain(|(_, phase)| !self.threads.traits(phase.stack).pooled);
        if all.is_empty() || self.threads.is_main(thread) || self.workers.contains(&process) {
            return self.of_process_in_pool(process, at);
        }
        let submitter = self.woke_from_idle(thread, at);
        if let Some(submitter) = submitter.filter(|&submitter| self.is_master(submitter)) {
            all.retain(|(requester, _)| requester.thread == submitter);
        }
        all.retain(|(_, phase)| phase.waits);
        if all.len() > 1 {
            // One that joins a thread is woken by that one's end, and waits for no pool.
            let next = |(requester, _): &(Requester, Phase)| self.next_wake(requester.thread, at);
            until = all.iter().filter_map(next).map(|wake| wake.at).fold(until, KtimeNs::min);
            let is_of_pool = |waker| self.threads.of_thread(waker).is_some_and(ThreadTraits::is_pooled);
            prefer(&mut all, |one| next(one).is_some_and(|wake| is_of_pool(wake.thread)));
        }
        (all.into_iter().map(|(requester, _)| requester).collect(), until)
    }

    /// Who wakes a thread next.
    fn next_wake(&self, thread: ThreadKey, at: KtimeNs) -> Option<Requester> {
        let wakes = self.wakes.get(&thread)?;
        wakes.get(wakes.partition_point(|wake| wake.at <= at)).copied()
    }

    /// Who gave a thread of a pool its task: the first to wake it from its last idle wait. (Later ones hand
    /// it the interpreter lock.)
    fn woke_from_idle(&self, thread: ThreadKey, at: KtimeNs) -> Option<ThreadKey> {
        let is_idle = |phase: &Phase| phase.waits && self.threads.traits(phase.stack).idle;
        let idle = self.threads.activity(thread)?.last(at, is_idle)?;
        let wakes = self.wakes.get(&thread)?;
        let first = wakes.get(wakes.partition_point(|wake| wake.at < idle.start))?;
        (first.at <= at).then_some(first.thread)
    }

    /// Who takes the result of a process that is a pool's worker: the next in its parent that it wakes, else
    /// the last; else who waits there.
    fn of_process_in_pool(&self, process: ProcessKey, at: KtimeNs) -> (Vec<Requester>, KtimeNs) {
        let results = self.results.get(&process).map_or(&[][..], Vec::as_slice);
        let next = results.partition_point(|taker| taker.at < at);
        if let Some(taker) = results.get(next).or_else(|| results.last()) {
            let until = results.get(next).map_or(NEVER, |next| next.at + ONE);
            // It slept until it was woken.
            let before = Requester::new(taker.thread, KtimeNs::from_ns(taker.at.as_ns().saturating_sub(1)));
            return (vec![before], until);
        }
        let Some(parent) = self.parent(process) else { return (Vec::new(), NEVER) };
        let (mut all, until) = self.candidates(parent, ThreadKey::new(u32::MAX), at);
        all.retain(|(_, phase)| phase.waits && !self.threads.traits(phase.stack).pooled);
        (all.into_iter().map(|(requester, _)| requester).collect(), until)
    }

    /// Python threads of a process that have a task at a moment, but for one; and until when what they do
    /// stays the same.
    fn candidates(
        &self,
        process: ProcessKey,
        but: ThreadKey,
        at: KtimeNs,
    ) -> (Vec<(Requester, Phase)>, KtimeNs) {
        let mut until = NEVER;
        let mut found = Vec::new();
        for &thread in self.of_process.get(&process).map_or(&[][..], Vec::as_slice) {
            let requester = Requester::new(thread, at);
            let Some((phase, end)) = self.phase(requester).filter(|_| thread != but) else {
                let begin = self.threads.activity(thread).and_then(|activity| activity.begins_after(at));
                until = until.min(begin.unwrap_or(NEVER));
                continue;
            };
            until = until.min(end);
            if !self.threads.traits(phase.stack).idle {
                found.push((requester, phase));
            }
        }
        (found, until)
    }

    /// Python threads of a thread's process.
    pub(super) fn in_process(&self, thread: ThreadKey) -> &[ThreadKey] {
        let process = self.threads.process(thread);
        process.and_then(|process| self.of_process.get(&process)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn phase(&self, requester: Requester) -> Option<(Phase, KtimeNs)> {
        self.threads.activity(requester.thread)?.at(requester.at)
    }

    fn is_python(&self, thread: ThreadKey) -> bool {
        self.threads.of_thread(thread).is_some_and(ThreadTraits::is_python)
    }

    /// A Python thread that is in no pool.
    fn is_master(&self, thread: ThreadKey) -> bool {
        self.threads.of_thread(thread).is_some_and(|thread| thread.is_python() && !thread.is_pooled())
    }

    fn parent(&self, process: ProcessKey) -> Option<ProcessKey> {
        self.parents.get(process.index()).copied().flatten()
    }
}

const ONE: std::time::Duration = std::time::Duration::from_nanos(1);
const NEVER: KtimeNs = KtimeNs::from_ns(u64::MAX);

const fn step(requester: Requester, stack: StackId) -> RequestHop {
    if requester.over {
        RequestHop::After(requester.thread, stack)
    } else {
        RequestHop::In(requester.thread, stack)
    }
}

/// Keeps what fits, where anything does.
pub(super) fn prefer<T>(all: &mut Vec<T>, fits: impl Fn(&T) -> bool) {
    if all.iter().any(&fits) {
        all.retain(fits);
    }
}
