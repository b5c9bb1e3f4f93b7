//! Samples that user space unwinds: raw captures, joined with their samples and walked by the rules of the mapped files.
//!
//! A capture comes just before its sample, from the same CPU. The memory map that the walk goes by is the process's as it was last read;
//! where it is older than the sample and lacks an address, it is read again. Every capture is counted by what became of it. Leaves out
//! the walk (package `unwind`) and what is sent where no capture was needed (`collector`).

use super::generated_code::GeneratedCode;
use crate::processes::registry::Processes;
use crate::tables::unwind_files::{ProcessRules, UnwindFiles};
use energy_trace_bpf::decode::{Capture, EventContext};
use energy_trace_foreign::peeker::{Peeker, TargetMemory};
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid};
use energy_trace_model::recording::record::CopyOutcome;
use energy_trace_unwind::address_space::AddressSpace;
use energy_trace_unwind::cpython::memory::Source as _;
use energy_trace_unwind::merge::WalkedStack;
use energy_trace_unwind::stack_copy::{Anchors, StackCopy, Walked, walk};
use energy_trace_unwind::v8::is_of_v8;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use tracer_ebpf::native::{NativeWalk, place};
use tracer_ebpf::wire::{end, register};

/// Bytes of stacks of one user's, and of all processes, that are kept for another try.
const MOST_OF_ONE: usize = 6 << 20;
const MOST_OF_ALL: usize = 18 << 20;
/// How long one is kept.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How often a file is waited for a moment, for a stack that is wanted at once.
const MOST_WAITS: usize = 50;

/// What became of a sample that may have a capture.
pub(crate) enum Unwound {
    /// It has none, and stands as it is.
    AsItIs,
    /// It was walked.
    Walked(WalkedStack),
    /// Not to the end: a file on the way is still being looked into.
    Later(Box<Waiting>),
}

/// A capture that waits for its sample, or for a file.
pub(crate) struct Waiting {
    head: EventContext,
    base: u64,
    pages: u32,
    registers: [u64; register::COUNT],
    stack: Vec<u8>,
    /// The user of its process, and what was known of files when it was walked last.
    owner: u32,
    news: u64,
}

impl Waiting {
    /// When it was taken.
    pub(crate) const fn at(&self) -> KtimeNs {
        self.head.at
    }
}

/// All captures on their way, and the files that they are walked by.
pub(crate) struct StackCopies {
    /// The last of each CPU; the room of its copy is used again.
    waiting: HashMap<CpuId, Waiting>,
    pub(crate) files: RefCell<UnwindFiles>,
    /// Captures by what became of them.
    pub(crate) counts: BTreeMap<CopyOutcome, u64>,
    /// Bytes that wait for files, by the user of their process.
    kept: HashMap<u32, usize>,
}

impl StackCopies {
    /// None yet; workers of this resolver will look rules up.
    pub(crate) fn new(resolver: Resolver) -> Self {
        let files = RefCell::new(UnwindFiles::new(resolver));
        Self { waiting: HashMap::new(), files, counts: BTreeMap::new(), kept: HashMap::new() }
    }

    /// Takes in a capture.
    pub(crate) fn keep(&mut self, capture: &Capture<'_>) {
        let place = self.waiting.entry(capture.head.cpu).or_insert_with(|| Waiting {
            head: capture.head,
            base: 0,
            pages: 0,
            registers: [0; register::COUNT],
            stack: Vec::new(),
            owner: u32::MAX,
            news: 0,
        });
        place.head = capture.head;
        (place.base, place.pages, place.registers) = (capture.base, capture.pages, capture.registers);
        place.stack.clear();
        place.stack.extend_from_slice(capture.stack);
    }

    /// Unwinds a sample that has a capture. One whose walk ends at a file that is being looked into is given back, where there is room to keep it.
    pub(crate) fn unwind(
        &mut self,
        head: EventContext,
        stack: &WalkedStack,
        (processes, made): (&mut Processes, &GeneratedCode),
    ) -> Unwound {
        let Some(capture) = self.waiting.get(&head.cpu).filter(|c| c.head == head) else {
            return Unwound::AsItIs;
        };
        let sp = capture.registers[register::SP];
        let known = processes.get(head.pid).is_some_and(|p| !p.space.mappings().is_empty());
        if !known && !processes.read_again(head, sp) {
            *self.counts.entry(CopyOutcome::ProcessGone).or_default() += 1;
            return Unwound::Walked(WalkedStack { native_end: end::GONE, ..stack.clone() });
        }
        let anchors = anchors(head.pid, stack, processes);
        let Some(mut walked) = self.walk(capture, (processes, made), &anchors) else {
            return Unwound::AsItIs;
        };
        if lacks_mapping(&walked) && processes.may_read(head.pid, energy_trace_system::clock::now()) {
            if processes.read_again(head, sp) {
                let Some(again) = self.walk(capture, (processes, made), &anchors) else {
                    return Unwound::AsItIs;
                };
                walked = again;
            } else if walked.end == end::UNMAPPED && processes.is_older(head) {
                walked.end = end::GONE;
            }
        }
        let owner = processes.get(head.pid).map_or(u32::MAX, |process| process.owner);
        if walked.end == end::NOT_READY && self.has_room(owner, capture.stack.len()) {
            let capture = self.waiting.remove(&head.cpu);
            return capture.map_or(Unwound::AsItIs, |capture| self.deferred(owner, capture));
        }
        *self.counts.entry(outcome(stack, &walked)).or_default() += 1;
        Unwound::Walked(better(stack, walked))
    }

    fn has_room(&self, owner: u32, bytes: usize) -> bool {
        let own = self.kept.get(&owner).copied().unwrap_or_default();
        own + bytes <= MOST_OF_ONE && self.kept.values().sum::<usize>() + bytes <= MOST_OF_ALL
    }

    fn deferred(&mut self, owner: u32, capture: Waiting) -> Unwound {
        *self.kept.entry(owner).or_default() += capture.stack.len();
        let news = self.files.borrow_mut().news();
        Unwound::Later(Box::new(Waiting { owner, news, ..capture }))
    }

    /// Walks a capture again that was put off, where something was found out since, or nothing is awaited any more. `None`: not yet.
    pub(crate) fn try_again(
        &mut self,
        capture: &mut Waiting,
        stack: &WalkedStack,
        (processes, made): (&Processes, &GeneratedCode),
        now: KtimeNs,
    ) -> Option<WalkedStack> {
        let is_over = now.ns_since(capture.head.at) > PATIENCE_NS;
        let news = self.files.borrow_mut().news();
        if std::mem::replace(&mut capture.news, news) == news && !is_over {
            return None;
        }
        let anchors = anchors(capture.head.pid, stack, processes);
        let walked = self.walk(capture, (processes, made), &anchors);
        let walked = walked.unwrap_or_else(|| Walked { end: end::GONE, ..Walked::default() });
        if walked.end == end::NOT_READY && !is_over {
            return None;
        }
        if let Some(kept) = self.kept.get_mut(&capture.owner) {
            *kept = kept.saturating_sub(capture.stack.len());
        }
        *self.counts.entry(outcome(stack, &walked)).or_default() += 1;
        Some(better(stack, walked))
    }

    /// Walks a capture that was put off now, and waits for files as long as their users have time left: for a stack on which others build at once.
    pub(crate) fn walk_now(
        &mut self,
        capture: &mut Waiting,
        stack: &WalkedStack,
        known: (&Processes, &GeneratedCode),
    ) -> WalkedStack {
        for _ in 0..MOST_WAITS {
            if !self.files.borrow_mut().wait() {
                break;
            }
            if let Some(walked) = self.try_again(capture, stack, known, capture.head.at) {
                return walked;
            }
        }
        let never = KtimeNs::from_ns(u64::MAX);
        self.try_again(capture, stack, known, never).unwrap_or_else(|| stack.clone())
    }

    fn walk(
        &self,
        capture: &Waiting,
        (processes, made): (&Processes, &GeneratedCode),
        anchors: &Anchors,
    ) -> Option<Walked> {
        let pid = capture.head.pid;
        let process = processes.get(pid)?;
        let (space, hotspot) = (&process.space, process.hotspot.as_ref());
        let has_v8 = process.has_v8;
        // Code that is made at run time has no file, and stays as it is for seconds.
        let is_made = |address| {
            let made =
                |mapping| has_v8 && is_of_v8(mapping) || processes.files.is_made(mapping) == Some(true);
            hotspot.is_some_and(|layout| layout.holds(address)) || space.find(address).is_some_and(made)
        };
        let live = TargetMemory::of(&processes.peeker, pid);
        let code = |address| match is_made(address) {
            true => live.word(address),
            false => self.files.borrow_mut().code(pid, space, address, &processes.peeker),
        };
        let memory = StackCopy::new(capture.base, &capture.stack, capture.pages, code);
        let registers = &capture.registers;
        let from = NativeWalk {
            pc: registers[register::PC],
            sp: registers[register::SP],
            fp: registers[register::FP],
            returned: 0,
            callee_saved_at: place::INTERRUPTED,
            others_at: place::INTERRUPTED,
        };
        let (files, key) = (&self.files, process.record.key);
        let made = &|at| made.rule((pid, key), at);
        let mut rules = ProcessRules { pid, space, files, live: &live, registers, hotspot, has_v8, made };
        Some(walk(from, anchors, &mut rules, &memory))
    }

    /// Nothing is unwound any more: the workers that looked rules up end.
    pub(crate) fn finish(&self) {
        self.files.borrow_mut().finish();
    }

    /// How far below the CFA the function at `pc` saved its caller's frame pointer.
    pub(crate) fn saved_fp(&self, pid: Pid, space: &AddressSpace, pc: u64, peeker: &Peeker) -> Option<u32> {
        self.files.borrow_mut().saved_fp(pid, space, pc, peeker)
    }
}

/// Where a walk of this sample may go on.
fn anchors(pid: Pid, stack: &WalkedStack, processes: &Processes) -> Anchors {
    let eval = processes.get(pid).and_then(|p| p.eval);
    Anchors {
        places: stack.python.iter().map(|f| f.anchor).filter(|&a| a != 0).collect(),
        eval_cfa: eval.map_or(0, |e| e.cfa),
        eval_fp: eval.map_or(0, |e| e.fp),
    }
}

/// Whether a walk met an address outside the mappings that are known.
fn lacks_mapping(walked: &Walked) -> bool {
    let unmapped = u64::from(end::UNMAPPED);
    walked.end == end::UNMAPPED || walked.native.iter().any(|frame| frame.pc == unmapped)
}

/// The name under which a capture is counted.
const fn outcome(stack: &WalkedStack, walked: &Walked) -> CopyOutcome {
    match (stack.native_end, walked.end, walked.recovered) {
        (end::FAULT, end::COMPLETE, _) => CopyOutcome::WholeAtSecondTry,
        (_, end::GONE, _) => CopyOutcome::ProcessGone,
        (end::FAULT, ..) => CopyOutcome::CutAtSecondTry,
        (_, end::COMPLETE, 0) => CopyOutcome::Whole,
        (_, end::COMPLETE, _) => CopyOutcome::WholeBridged,
        (_, end::BEYOND_COPY, _) => CopyOutcome::DeeperThanCopy,
        _ => CopyOutcome::Cut,
    }
}

/// The better of what the probes and what user space walked: one that reached the end, else the longer one.
fn better(stack: &WalkedStack, walked: Walked) -> WalkedStack {
    if walked.end != end::COMPLETE && walked.native.len() < stack.native.len() {
        // That the process was gone is why an address of it was not known; and where tables were missing, why it ends is user space's word.
        let is_user_spaces = walked.end == end::GONE || stack.native_end == end::NOT_READY;
        let native_end = if is_user_spaces { walked.end } else { stack.native_end };
        return WalkedStack { native_end, ..stack.clone() };
    }
    WalkedStack {
        native: walked.native,
        native_end: walked.end,
        recovered: walked.recovered,
        guessed: walked.guessed,
        guess_depth: walked.guess_depth,
        kernel: stack.kernel.clone(),
        python: stack.python.clone(),
        python_end: stack.python_end,
    }
}

#[cfg(test)]
mod tests {
    use super::better;
    use energy_trace_unwind::merge::WalkedStack;
    use energy_trace_unwind::stack_copy::Walked;
    use tracer_ebpf::native::NativeFrame;
    use tracer_ebpf::wire::end;

    /// What reached the end is taken, however short; of two that did not, the longer one, user space's where they are equal.
    #[test]
    fn the_better_one() {
        let frames = |count: u64| (0..count).map(|n| NativeFrame { pc: 1000 + n, cfa: 0 }).collect();
        let probes = WalkedStack { native: frames(3), native_end: end::FAULT, ..WalkedStack::default() };
        let ended = |count, end| {
            better(&probes, Walked { native: frames(count), end, ..Walked::default() }).native_end
        };
        assert_eq!(ended(1, end::COMPLETE), end::COMPLETE);
        assert_eq!(ended(2, end::BEYOND_COPY), end::FAULT);
        assert_eq!(ended(3, end::BEYOND_COPY), end::BEYOND_COPY);
        assert_eq!(ended(1, end::GONE), end::GONE);
    }
}
