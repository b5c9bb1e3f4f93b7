//! In whose code a thread is: which libraries a worker lives in, and when a Python thread was inside them.
//!
//! A thread without Python frames works for calls into the library that it lives in: ONNX Runtime's workers
//! for calls into ONNX Runtime, OpenMP's for calls into libgomp. A Python thread that is elsewhere (draws
//! random numbers, runs bytecode) asks for nothing at that moment, whatever a worker does meanwhile: it spins
//! in wait for the next piece, or finishes what an earlier call began. Samples show it: the modules of the
//! native frames below Python, without a name of anything. Libraries that stand above the outermost Python
//! frame (the interpreter, the C library) are everybody's and tell nothing.
//!
//! Leaves out who of several is chosen (`requesters`), and how it is known when a worker slept (`awake`).

use super::thread_activity::{ThreadTraits, Threads};
use energy_trace_counters::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{FrameKind, StackStatus};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Libraries that a worker lives in: position in `Code::homes`.
pub(super) type LibrarySetId = usize;
/// Position of a library among all that were seen.
type Library = u32;
/// Position of a chain of Python frames among all that were seen.
pub(super) type Python = u32;

/// What is this much rarer than another, or than all, is chance: a waker, a library above the outermost Python frame.
pub(super) const RARE: u64 = 10;

/// Where a Python thread is, seen from a worker's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallContext {
    /// In a call of its code.
    Inside,
    /// Elsewhere.
    Outside,
    /// Samples saw it, but with gaps, in which there may be anything.
    Unclear,
    /// No sample saw it: it only slept there.
    Unseen,
}

/// What native code was seen below a chain of Python frames.
#[derive(Clone, Debug, Default)]
struct Below {
    libraries: BTreeSet<Library>,
    /// A sample saw it, and one without gaps.
    seen: bool,
    whole: bool,
}

/// Where workers live, and who called there when.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// By stack: its Python frames, where it has any.
    python: Vec<Option<Python>>,
    /// By Python frames.
    below: Vec<Below>,
    library_sets: Vec<BTreeSet<Library>>,
    /// By thread.
    library_set: Vec<Option<LibrarySetId>>,
    /// When a Python thread was in the code of a home, in time order.
    calls: HashMap<(ThreadKey, LibrarySetId), Vec<Span>>,
}

impl Code {
    pub(super) fn of(recording: &Recording, threads: &Threads<'_>) -> Self {
        let mut this = Self { python: pythons(recording), ..Self::default() };
        let seen = Seen::of(recording, threads, &this.python);
        this.below = seen.below;
        this.below.iter_mut().for_each(|below| below.libraries.retain(|it| !seen.everybodys.contains(it)));
        this.library_set = vec![None; recording.threads.len()];
        for (thread, library_use) in seen.library_use {
            let library_set: BTreeSet<Library> =
                library_use.often().filter(|it| !seen.everybodys.contains(it)).collect();
            if library_set.is_empty() {
                continue;
            }
            let known = this.library_sets.iter().position(|other| *other == library_set);
            let id = known.unwrap_or(this.library_sets.len());
            if known.is_none() {
                this.library_sets.push(library_set);
            }
            if let Some(of_thread) = this.library_set.get_mut(thread.index()) {
                *of_thread = Some(id);
            }
        }
        this.find_calls(threads);
        this
    }

    fn find_calls(&mut self, threads: &Threads<'_>) {
        if self.library_sets.is_empty() {
            return; // No worker asks, and what threads did when need not be found out.
        }
        for thread in threads.with_python() {
            let Some(activity) = threads.activity(thread) else { continue };
            for library_set in 0..self.library_sets.len() {
                let mut calls: Vec<Span> = Vec::new();
                for (phase, end) in activity
                    .phases()
                    .filter(|(phase, _)| self.call_context(library_set, phase.stack) == CallContext::Inside)
                {
                    match calls.last_mut() {
                        Some(last) if last.end == phase.start => last.end = end,
                        _ => calls.push(Span { start: phase.start, end }),
                    }
                }
                self.calls.insert((thread, library_set), calls);
            }
        }
    }

    /// Where a thread lives, if its samples show that.
    pub(super) fn library_set(&self, thread: ThreadKey) -> Option<LibrarySetId> {
        self.library_set.get(thread.index()).copied().flatten()
    }

    /// Where the Python frames of a stack lead, by all samples of them.
    pub(super) fn call_context(&self, library_set: LibrarySetId, stack: StackId) -> CallContext {
        let below = self.python_of(stack).and_then(|python| self.below.get(python as usize));
        let (Some(below), Some(library_set)) = (below, self.library_sets.get(library_set)) else {
            return CallContext::Unseen;
        };
        match (below.libraries.is_disjoint(library_set), below.seen, below.whole) {
            (false, ..) => CallContext::Inside,
            (true, _, true) => CallContext::Outside,
            (true, true, false) => CallContext::Unclear,
            (true, false, false) => CallContext::Unseen,
        }
    }

    /// Which Python frames a stack has, where it has any.
    pub(super) fn python_of(&self, stack: StackId) -> Option<Python> {
        self.python.get(stack.index()).copied().flatten()
    }

    /// When a Python thread was in a home's code.
    pub(super) fn calls(&self, thread: ThreadKey, library_set: LibrarySetId) -> &[Span] {
        self.calls.get(&(thread, library_set)).map_or(&[], Vec::as_slice)
    }

    /// A thread's last call into a home's code that was over at a moment.
    pub(super) fn last_call(
        &self,
        thread: ThreadKey,
        library_set: LibrarySetId,
        at: KtimeNs,
    ) -> Option<Span> {
        let calls = self.calls(thread, library_set);
        calls.get(calls.partition_point(|call| call.end <= at).checked_sub(1)?).copied()
    }

    /// A thread's call into a home's code that is next to a moment, before or after it, and how far off it
    /// is.
    pub(super) fn nearest_call(
        &self,
        thread: ThreadKey,
        library_set: LibrarySetId,
        at: KtimeNs,
    ) -> Option<(Span, u64)> {
        let calls = self.calls(thread, library_set);
        let next = calls.partition_point(|call| call.end <= at);
        let far = |call: &Span| {
            let (after, before) =
                (at.as_ns().saturating_sub(call.end.as_ns()), call.start.as_ns().saturating_sub(at.as_ns()));
            (*call, after.max(before))
        };
        let around = [next.checked_sub(1).and_then(|last| calls.get(last)), calls.get(next)];
        around.into_iter().flatten().map(far).min_by_key(|(_, far)| *far)
    }
}

/// How often a thread was seen in which library.
#[derive(Debug, Default)]
struct LibraryUse {
    samples: u64,
    libraries: BTreeMap<Library, u64>,
}

impl LibraryUse {
    /// Libraries that at least half of the samples show: a maths library that now and then is called is no
    /// home.
    fn often(&self) -> impl Iterator<Item = Library> + '_ {
        self.libraries.iter().filter(|&(_, &n)| n * 2 >= self.samples).map(|(&library, _)| library)
    }
}

/// What samples show.
#[derive(Default)]
struct Seen<'a> {
    numbers: HashMap<&'a str, Library>,
    below: Vec<Below>,
    /// Stand above the outermost Python frame, in a tenth of the samples of Python threads or more. A stack of which
    /// Python frames are missing shows others there.
    everybodys: BTreeSet<Library>,
    library_use: BTreeMap<ThreadKey, LibraryUse>,
}

impl<'a> Seen<'a> {
    fn of(recording: &'a Recording, threads: &Threads<'_>, pythons: &[Option<Python>]) -> Self {
        let chains = pythons.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        let mut this = Self { below: vec![Below::default(); chains], ..Self::default() };
        let nothing = Libraries::default();
        let mut known: Vec<Option<Libraries>> = recording.stacks.iter().map(|_| None).collect();
        // By stack, samples of threads with Python frames, which are Python threads or not.
        let mut learned = vec![[0_u64; 2]; pythons.len()];
        for sample in &recording.samples {
            let of_stack = || Libraries::of(recording, sample.stack, &mut this.numbers);
            let libraries = known.get_mut(sample.stack.index());
            let libraries = libraries.map_or(&nothing, |libraries| libraries.get_or_insert_with(of_stack));
            let is_python = threads.of_thread(sample.thread).is_some_and(ThreadTraits::is_python);
            match pythons.get(sample.stack.index()).copied().flatten() {
                Some(python) => {
                    // It has Python frames, so it is there.
                    let learned = &mut learned[sample.stack.index()];
                    let is_new = learned.iter().sum::<u64>() == 0;
                    learned[usize::from(is_python)] += 1;
                    if is_new && let Some(below) = this.below.get_mut(python as usize) {
                        below.libraries.extend(&libraries.below);
                        below.whole |= libraries.whole;
                        below.seen = true;
                    }
                }
                None if !is_python && !matches!(sample.status, StackStatus::PythonLost(_)) => {
                    let library_use = this.library_use.entry(sample.thread).or_default();
                    library_use.samples += 1;
                    libraries.above.iter().for_each(|&it| *library_use.libraries.entry(it).or_default() += 1);
                }
                _ => (),
            }
        }
        this.everybodys = everybodys(&learned, &known);
        this
    }
}

/// Libraries above the outermost Python frame, in how many samples of Python threads by stack.
fn everybodys(samples: &[[u64; 2]], libraries: &[Option<Libraries>]) -> BTreeSet<Library> {
    let (mut all, mut above) = (0, BTreeMap::<Library, u64>::new());
    for (&[_, count], libraries) in samples.iter().zip(libraries).filter(|([_, count], _)| *count > 0) {
        all += count;
        let libraries = libraries.iter().flat_map(|libraries| &libraries.above);
        libraries.for_each(|&library| *above.entry(library).or_default() += count);
    }
    above.retain(|_, count| count.saturating_mul(RARE) >= all);
    above.into_keys().collect()
}

/// The libraries of one stack: above its outermost Python frame (all, where it has none), and below it.
#[derive(Debug, Default)]
struct Libraries {
    above: BTreeSet<Library>,
    below: BTreeSet<Library>,
    /// No frames are missing.
    whole: bool,
}

impl Libraries {
    fn of<'a>(recording: &'a Recording, stack: StackId, numbers: &mut HashMap<&'a str, Library>) -> Self {
        let mut this = Self { whole: true, ..Self::default() };
        let mut python = false;
        for (_, frame) in recording.frames_of(stack) {
            match frame.kind {
                FrameKind::Python => python = true,
                FrameKind::Special => this.whole = false,
                // Code made at run time is in no library.
                FrameKind::Native | FrameKind::Inlined
                    if !frame.module.is_empty() && !frame.module.starts_with('[') =>
                {
                    let next = Library::try_from(numbers.len()).unwrap_or(Library::MAX);
                    let library = *numbers.entry(&frame.module).or_insert(next);
                    if python {
                        this.below.insert(library)
                    } else {
                        this.above.insert(library)
                    };
                }
                FrameKind::Native
                | FrameKind::Inlined
                | FrameKind::Kernel
                | FrameKind::Gpu
                | FrameKind::Range => (),
            }
        }
        this
    }
}

/// By stack, which Python frames it has. A caller's stack is older than its callee's, so one pass suffices.
fn pythons(recording: &Recording) -> Vec<Option<Python>> {
    let mut numbers: HashMap<(Option<Python>, FrameId), Python> = HashMap::new();
    let mut pythons: Vec<Option<Python>> = Vec::with_capacity(recording.stacks.len());
    for node in &recording.stacks {
        let above = node.parent.and_then(|parent| pythons.get(parent.index())).copied().flatten();
        let is_python =
            recording.frames.get(node.frame.index()).is_some_and(|frame| frame.kind == FrameKind::Python);
        let next = Python::try_from(numbers.len()).unwrap_or(Python::MAX);
        pythons.push(if is_python {
            Some(*numbers.entry((above, node.frame)).or_insert(next))
        } else {
            above
        });
    }
    pythons
}

#[cfg(test)]
mod tests {
    use super::LibraryUse;

    /// Of ten samples five make a library a thread's home, four do not.
    #[test]
    fn half_of_the_samples_make_a_home() {
        let found = LibraryUse { samples: 10, libraries: [(7, 5), (8, 4)].into() };
        assert_eq!(found.often().collect::<Vec<_>>(), [7]);
    }
}
