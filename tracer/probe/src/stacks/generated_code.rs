//! Callers of code that was made at run time (oneDNN's kernels, numba's and XLA's functions): what such code says itself.
//!
//! Where a stack has a gap behind such code, the code is read from the process and looked into by the resolver in the background, which finds how
//! deep its stack is and its rows. The probes are given the rows of each process, and unwind through its code from then on. Until then a guess of theirs is proved
//! where its depth is the code's. The code is compared again with what the process has whenever a stack relies on it: where it is other code
//! meanwhile, the stack ends there. Leaves out what the code means (`energy_trace_unwind::generated_code`), and the probes' tables
//! (`probe/tables/generated_rows.rs`).

use crate::tables::fair_queue::FairQueue;
use crate::tables::generated_rows::{RowsOf, SentRows};
use energy_trace_foreign::files::owner_of_process;
use energy_trace_foreign::peeker::{Peeker, digest};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, ProcessKey};
use energy_trace_model::recording::record::Owner;
use energy_trace_system::host::urgency;
use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::cfi::FullRules;
use energy_trace_unwind::generated_code::{GeneratedFunction, LARGEST};
use energy_trace_unwind::merge::WalkedStack;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::io::Write as _;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tracer_ebpf::native::NativeFrame;
use tracer_ebpf::rows::Rule;
use tracer_ebpf::wire::{FIRST_PC, end};

/// Questions that one process is worth: a network has some hundred kernels.
const MOST_ASKED: u32 = 1024;
/// Stretches of code of which it is not asked again until they have given an answer, and how many of them it is worth: other run-times' code
/// begins anywhere.
const STRETCH: u64 = 256;
const MOST_UNANSWERED: usize = 64;
/// Surroundings of which one question is asked at a time: the answer to one may be that to others.
const NEAR: u64 = 1 << 10;
/// Pieces of code of one owner that may wait to be looked into.
const MOST_WAITING: usize = 8;
/// What looking into one owner's code may take, and the part of the time that it may take beyond: any program can make code that takes long.
const CREDIT: Duration = Duration::from_secs(2);
const SHARE: u32 = 16;
/// Bytes of what code says that are kept of one owner's processes: any program can make as much code as it likes.
pub(super) const MOST_KEPT: usize = 16 << 20;
/// Between two times that the probes are given the rows of a process.
const GIVEN_EVERY_NS: u64 = 100_000_000;
/// Stretches by whose old rows the probes may still unwind; where there are more, all rows of the process are taken for old ones.
const MOST_STALE: usize = 256;

/// What is known of code that was made at run time.
pub(crate) struct GeneratedCode {
    processes: BTreeMap<Pid, Functions>,
    jobs: Sender<Job>,
    answers: Receiver<Answer>,
    /// Code that waits to be looked into, by whose it is.
    waiting: BTreeMap<Owner, usize>,
    /// What was taken for each owner's code, since when.
    spent: BTreeMap<Owner, Duration>,
    begun: Instant,
    /// Bytes of one owner above which nothing more is asked.
    most_kept: usize,
}

/// A process, which program it is, who looks into it, and what the probes knew of it when the stack was taken.
#[derive(Clone, Copy)]
pub(crate) struct ProcessAtSample<'a> {
    pub(crate) pid: Pid,
    pub(crate) key: ProcessKey,
    pub(crate) peeker: &'a Peeker,
    pub(crate) at: KtimeNs,
    pub(crate) told: Option<SentRows>,
}

/// Functions of one program.
#[derive(Default)]
struct Functions {
    of: Option<(ProcessKey, Owner)>,
    /// By where each begins.
    known: BTreeMap<u64, Known>,
    asked: u32,
    /// Stretches that gave no answer, or none yet; of the latter, their surroundings.
    unanswered: BTreeSet<u64>,
    awaited: BTreeSet<u64>,
    /// Some function is not as the probes were told, how often they were given rows, and when last.
    has_news: bool,
    given: u32,
    given_at: KtimeNs,
    /// Stretches whose rows are true no more, until the probes were told of those that were given after these.
    stale: Vec<(Range<u64>, u32)>,
}

/// Code around an address of a program, which begins at `start`.
struct Job {
    pid: Pid,
    key: ProcessKey,
    owner: Owner,
    at: u64,
    start: u64,
    code: Vec<u8>,
}

/// The function that an address of a program is in, with what tells its code from other code.
struct Answer {
    of: (Pid, ProcessKey, Owner),
    at: u64,
    function: Option<(GeneratedFunction, u64)>,
    took: Duration,
}

/// A function, with what tells its code from other code.
struct Known {
    function: GeneratedFunction,
    code: u64,
    /// The probes may unwind by its rows.
    is_given: bool,
    /// When the code was last the same: of what was sampled before, it is not asked again.
    same_at: Cell<KtimeNs>,
}

impl GeneratedCode {
    /// Nothing yet; this worker will look into code, of which about so many bytes may be kept of each owner. Its thread ends when this is dropped.
    pub(crate) fn start(worker: Worker, most_kept: usize) -> io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (found, answers) = channel();
        thread::Builder::new().name("energy-made".into()).spawn(move || {
            urgency::raise();
            for job in FairQueue::over(todo, |job: &Job| Some(job.owner)) {
                let begun = Instant::now();
                let function = look_into(&job, &worker);
                let (of, took) = ((job.pid, job.key, job.owner), begun.elapsed());
                if found.send(Answer { of, at: job.at, function, took }).is_err() {
                    return;
                }
            }
        })?;
        let (waiting, spent, begun) = (BTreeMap::new(), BTreeMap::new(), Instant::now());
        Ok(Self { processes: BTreeMap::new(), jobs, answers, waiting, spent, begun, most_kept })
    }

    /// The stack as far as such code confirms it; `None`: it stands as it is. `made` gives the mapping of an address of such code.
    pub(crate) fn check<'m>(
        &mut self,
        whose: ProcessAtSample<'_>,
        raw: &WalkedStack,
        made: impl Fn(u64) -> Option<&'m Mapping>,
    ) -> Option<WalkedStack> {
        self.take_answers();
        let mut checked = self.of(whose).and_then(|functions| functions.check(whose, raw));
        let gaps: Vec<_> = before_gaps(checked.as_ref().unwrap_or(raw)).collect();
        // From the outermost one on: what is taken out of a stack moves none of those that are left.
        for (place, pc) in gaps.into_iter().rev() {
            let Some(depth) = made(pc).and_then(|mapping| self.depth(whose, mapping, pc)) else { continue };
            let stack = checked.as_ref().unwrap_or(raw);
            match guess_depth(stack, place).map(|guess| guess.cmp(&u64::from(depth))) {
                Some(Ordering::Equal) => checked = Some(without_guess(stack, place)),
                // Within its own frame: an address that was left from another call.
                Some(Ordering::Less) => checked = Some(cut_behind(stack, place)),
                Some(Ordering::Greater) | None => (),
            }
        }
        checked
    }

    /// Whether the code at an address may still be found out: it is being looked into, or was not yet for want of a place.
    pub(crate) fn is_open(&mut self, whose: ProcessAtSample<'_>, at: u64) -> bool {
        self.take_answers();
        self.of(whose).is_some_and(|functions| functions.is_open(at))
    }

    /// What is known of a program.
    fn of(&mut self, whose: ProcessAtSample<'_>) -> Option<&mut Functions> {
        self.processes.get_mut(&whose.pid).filter(|functions| functions.are_of(whose.key))
    }

    /// How far the caller's stack pointer is above that of an instruction.
    fn depth(&mut self, whose: ProcessAtSample<'_>, mapping: &Mapping, at: u64) -> Option<u32> {
        let functions = self.processes.entry(whose.pid).or_default();
        if !functions.are_of(whose.key) {
            let of = Some((whose.key, owner_of_process(whose.pid)));
            *functions = Functions { of, ..Functions::default() };
        }
        if let Some(known) = functions.find(whose, at) {
            return known;
        }
        if let Some((_, owner)) = functions.of.filter(|_| !functions.is_asked_enough(at)) {
            self.ask(whose, owner, mapping, at);
        }
        None
    }

    /// Has the code around an address looked into, where not too much of its owner's waits or is kept already.
    fn ask(&mut self, whose: ProcessAtSample<'_>, owner: Owner, mapping: &Mapping, at: u64) {
        let waiting = self.waiting.get(&owner).copied().unwrap_or_default();
        let spent = self.spent.get(&owner).copied().unwrap_or_default();
        let is_overdrawn = spent > CREDIT + self.begun.elapsed() / SHARE;
        if waiting >= MOST_WAITING || is_overdrawn || self.kept(owner) >= self.most_kept {
            return;
        }
        let Some(functions) = self.processes.get_mut(&whose.pid) else { return };
        functions.asked += 1;
        let start = mapping.start.max(at.saturating_sub(LARGEST));
        let length = mapping.end.min(at.saturating_add(LARGEST)).saturating_sub(start);
        // Where nobody answered in time it is asked again.
        let Ok(code) = whose.peeker.bytes(whose.pid, start, length) else { return };
        functions.unanswered.insert(at / STRETCH);
        let Some(code) = code else { return };
        functions.awaited.insert(at / NEAR);
        let job = Job { pid: whose.pid, key: whose.key, owner, at, start, code };
        *self.waiting.entry(owner).or_default() += usize::from(self.jobs.send(job).is_ok());
    }

    /// Takes in what was found out.
    fn take_answers(&mut self) {
        while let Ok(Answer { of: (pid, key, owner), at, function, took }) = self.answers.try_recv() {
            *self.spent.entry(owner).or_default() += took;
            let waiting = self.waiting.entry(owner).or_default();
            *waiting = waiting.saturating_sub(1);
            let functions = self.processes.get_mut(&pid).filter(|functions| functions.are_of(key));
            let Some(functions) = functions else { continue };
            functions.awaited.remove(&(at / NEAR));
            if let Some((function, code)) = function {
                functions.unanswered.remove(&(at / STRETCH));
                functions.add(function, code);
            }
        }
    }

    /// Bytes that are kept of an owner's processes.
    fn kept(&self, owner: Owner) -> usize {
        let is_of = |functions: &&Functions| functions.of.is_some_and(|(_, of)| of == owner);
        self.processes.values().filter(is_of).map(Functions::bytes).sum()
    }

    /// The rule at an address of a program, where its code has told one that fits a row. Whether it is still the same code, `check` tells.
    pub(crate) fn rule(&self, (pid, key): (Pid, ProcessKey), at: u64) -> Option<Rule> {
        let functions = self.processes.get(&pid).filter(|functions| functions.are_of(key))?;
        functions.holding(at)?.1.function.short_rule(at)
    }

    /// The rows of a program's functions, where they are other ones than the probes have, and their version; not more often than they can be
    /// taken in.
    pub(crate) fn rows(&mut self, whose: ProcessAtSample<'_>) -> Option<(u32, Vec<RowsOf>)> {
        let functions = self.of(whose).filter(|functions| functions.has_news)?;
        if whose.at.ns_since(functions.given_at) < GIVEN_EVERY_NS {
            return None;
        }
        (functions.has_news, functions.given_at) = (false, whose.at);
        functions.given += 1;
        Some((functions.given, functions.rows()))
    }

    /// Forgets a process.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }
}

/// Frames behind which callers are missing or believed without proof: their places and addresses.
fn before_gaps(raw: &WalkedStack) -> impl Iterator<Item = (usize, u64)> {
    let frames = raw.native.iter().map(|frame| frame.pc).enumerate();
    frames.filter(|&(place, pc)| pc >= FIRST_PC && is_before_gap(raw, place))
}

/// Code whose callers are guessed, in such a way that the depth of its stack decides on it.
pub(super) fn guessed(raw: &WalkedStack) -> impl Iterator<Item = u64> {
    before_gaps(raw).filter(|&(place, _)| guess_depth(raw, place).is_some()).map(|(_, pc)| pc)
}

/// How far above the stack pointer in a frame the guess behind it has its caller's; `None`: there is no guess, or that is not known.
fn guess_depth(raw: &WalkedStack, place: usize) -> Option<u64> {
    let gap = raw.native.get(place + 1).filter(|gap| gap.pc == u64::from(end::NO_UNWIND_INFO))?;
    let depth = match place.checked_sub(1) {
        None => u64::from(raw.guess_depth),
        Some(callee) => {
            let callee = raw.native.get(callee).filter(|callee| callee.pc >= FIRST_PC && callee.cfa != 0)?;
            gap.cfa.checked_sub(callee.cfa)?
        }
    };
    (depth > 0).then_some(depth)
}

/// Whether no rule has led on from a frame.
fn is_before_gap(raw: &WalkedStack, place: usize) -> bool {
    let is_cut = raw.native_end == end::NO_UNWIND_INFO;
    raw.native.get(place + 1).map_or(is_cut, |next| next.pc < FIRST_PC)
}

impl Functions {
    fn are_of(&self, program: ProcessKey) -> bool {
        self.of.is_some_and(|(of, _)| of == program)
    }

    /// The function that an address is in, by what was known of it.
    fn holding(&self, at: u64) -> Option<(u64, &Known)> {
        let before = self.known.range(..=at).next_back();
        before.map(|(&begin, known)| (begin, known)).filter(|(_, known)| at < known.function.end)
    }

    /// The depth at an address, or that it is not known, of a function whose code is as it was; `None`: nothing is known of it.
    fn find(&mut self, whose: ProcessAtSample<'_>, at: u64) -> Option<Option<u32>> {
        let (begin, known) = self.holding(at)?;
        match known.is_still(whose) {
            None => Some(None),
            Some(true) => Some(known.function.depth(at)),
            Some(false) => {
                self.drop(begin);
                None
            }
        }
    }

    /// Forgets a function: its code is other code now.
    fn drop(&mut self, begin: u64) {
        let Some(known) = self.known.remove(&begin) else { return };
        self.has_news = true;
        if self.stale.len() >= MOST_STALE {
            self.stale = vec![(0..u64::MAX, self.given)];
        }
        let range = begin..known.function.end;
        self.stale.extend(known.is_given.then_some((range, self.given)));
    }

    /// What is left of a stack whose frames may have been found by rows of functions; `None`: all of it. Where the code is other code, it
    /// ends there; where that cannot be told any more, the caller is a guess.
    fn check(&mut self, whose: ProcessAtSample<'_>, raw: &WalkedStack) -> Option<WalkedStack> {
        self.stale.retain(|&(_, given)| whose.told.is_none_or(|(told, at)| told <= given || whose.at <= at));
        let span = self.span()?;
        let mut left = None;
        for (place, frame) in raw.native.iter().enumerate().filter(|(_, frame)| span.contains(&frame.pc)) {
            if is_before_gap(raw, place) {
                continue;
            }
            if self.stale.iter().any(|(stale, _)| stale.contains(&frame.pc)) {
                return Some(cut_behind(raw, place));
            }
            let Some((begin, known)) = self.holding(frame.pc) else { continue };
            match known.is_still(whose) {
                Some(true) => (),
                Some(false) => {
                    self.drop(begin);
                    return Some(cut_behind(raw, place));
                }
                None => left = left.or_else(|| Some(guessed_behind(raw, place))),
            }
        }
        left
    }

    /// Where all functions are of whose rows the probes may know.
    fn span(&self) -> Option<Range<u64>> {
        let ends = [self.known.first_key_value(), self.known.last_key_value()];
        let ends = ends.into_iter().flatten().map(|(&begin, known)| begin..known.function.end);
        let mut ends = ends.chain(self.stale.iter().map(|(stale, _)| stale.clone()));
        let first = ends.next()?;
        Some(ends.fold(first, |span, of| span.start.min(of.start)..span.end.max(of.end)))
    }

    fn is_open(&self, at: u64) -> bool {
        self.holding(at).is_none() && (self.awaited.contains(&(at / NEAR)) || !self.is_asked_enough(at))
    }

    fn is_asked_enough(&self, at: u64) -> bool {
        self.asked >= MOST_ASKED
            || self.unanswered.len() >= MOST_UNANSWERED
            || self.unanswered.contains(&(at / STRETCH))
            || self.awaited.contains(&(at / NEAR))
    }

    fn add(&mut self, function: GeneratedFunction, code: u64) {
        // Where it lies over others these were taken for functions wrongly, or are gone.
        let over = |(&begin, known): (&u64, &Known)| {
            (begin < function.end && function.begin < known.function.end).then_some(begin)
        };
        let over: Vec<u64> = self.known.iter().filter_map(over).collect();
        over.into_iter().for_each(|begin| self.drop(begin));
        let same_at = Cell::default();
        self.known.insert(function.begin, Known { function, code, is_given: false, same_at });
        self.has_news = true;
    }

    /// The rows of all, in stretches that an offset can tell apart. From now on the probes may unwind by them.
    fn rows(&mut self) -> Vec<RowsOf> {
        let mut out: Vec<RowsOf> = Vec::new();
        for known in self.known.values_mut() {
            known.is_given = true;
            let function = &known.function;
            let rows =
                out.last_mut().and_then(|last| Some((function.rows(last.base, &mut last.full)?, last)));
            match rows {
                Some((rows, last)) => (last.end, _) = (function.end, last.rows.extend(rows)),
                None => {
                    let (base, mut full) = (function.begin, FullRules::default());
                    let rows = function.rows(base, &mut full).unwrap_or_default();
                    out.push(RowsOf { base, end: function.end, rows, full });
                }
            }
        }
        out
    }

    fn bytes(&self) -> usize {
        self.known.values().map(|known| size_of::<Known>() + known.function.bytes()).sum()
    }
}

impl Known {
    /// Whether the process has the same code there; `None`: it does not answer.
    fn is_still(&self, whose: ProcessAtSample<'_>) -> Option<bool> {
        if whose.at < self.same_at.get() {
            return Some(true);
        }
        let (now, &GeneratedFunction { begin, end, .. }) =
            (energy_trace_system::clock::now(), &self.function);
        let still = whose.peeker.is_still(whose.pid, begin, end.saturating_sub(begin), self.code).ok()?;
        if still {
            self.same_at.set(now);
        }
        Some(still)
    }
}

/// The function that an address is in, with what tells its code from other code.
fn look_into(job: &Job, worker: &Worker) -> Option<(GeneratedFunction, u64)> {
    let mut file = File::from(memfd_create("code", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(&job.code).ok()?;
    let label = format!("code that process {} made", job.pid.get());
    let function = worker.generated_function((&label, job.owner), &file, job.start, job.at).ok()??;
    let part = function.begin.checked_sub(job.start)?..function.end.checked_sub(job.start)?;
    let code = job.code.get(usize::try_from(part.start).ok()?..usize::try_from(part.end).ok()?)?;
    Some((function, digest(code)))
}

/// The stack up to this frame, whose caller is not known.
fn cut_behind(raw: &WalkedStack, place: usize) -> WalkedStack {
    let mut cut = raw.clone();
    cut.native.truncate(place + 1);
    cut.native_end = end::NO_UNWIND_INFO;
    if let Some(last) = cut.native.last_mut() {
        last.cfa = 0;
    }
    cut
}

/// The stack with a gap behind this frame.
fn guessed_behind(raw: &WalkedStack, place: usize) -> WalkedStack {
    let mut guessed = raw.clone();
    if let Some(frame) = guessed.native.get_mut(place) {
        let gap = NativeFrame { pc: u64::from(end::NO_UNWIND_INFO), cfa: frame.cfa };
        frame.cfa = 0;
        guessed.native.insert(place + 1, gap);
    }
    guessed.recovered = guessed.recovered.saturating_add(1);
    guessed.guessed = guessed.guessed.saturating_add(1);
    guessed
}

/// The stack without the gap behind this frame.
fn without_guess(raw: &WalkedStack, place: usize) -> WalkedStack {
    let mut proved = raw.clone();
    let gap = proved.native.remove(place + 1);
    if let Some(frame) = proved.native.get_mut(place) {
        frame.cfa = gap.cfa;
    }
    proved.guessed = proved.guessed.saturating_sub(1);
    proved.guess_depth = if place == 0 { 0 } else { proved.guess_depth };
    proved
}

#[cfg(test)]
mod tests {
    use super::{GIVEN_EVERY_NS, GeneratedCode, MOST_KEPT, ProcessAtSample};
    use energy_trace_foreign::peeker::Peeker;
    use energy_trace_foreign::resolver::Resolver;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{Pid, ProcessKey};
    use energy_trace_unwind::address_space::Mapping;
    use energy_trace_unwind::merge::WalkedStack;
    use memmap2::MmapMut;
    use std::time::Duration;
    use tracer_ebpf::native::NativeFrame;
    use tracer_ebpf::wire::end;

    /// push %rax; nop; pop %rax; ret
    const DEEP: [u8; 4] = [0x50, 0x90, 0x58, 0xc3];

    fn frames(native: &[(u64, u64)]) -> Vec<NativeFrame> {
        native.iter().map(|&(pc, cfa)| NativeFrame { pc, cfa }).collect()
    }

    /// A guess of this depth at the caller of an address.
    fn guess(at: u64, guess_depth: u16) -> WalkedStack {
        let native = frames(&[(at, 0), (u64::from(end::NO_UNWIND_INFO), 0x5000), (0x4000, 0x6000)]);
        WalkedStack { native, guessed: 1, guess_depth, ..WalkedStack::default() }
    }

    /// A stack that was unwound through an address.
    fn through(at: u64) -> WalkedStack {
        WalkedStack {
            native: frames(&[(0x3000, 0x4000), (at, 0x5000), (0x4000, 0x6000)]),
            ..WalkedStack::default()
        }
    }

    /// Pages of this process, of which code that was made is known.
    struct World {
        pages: MmapMut,
        made: GeneratedCode,
        peeker: Peeker,
        _resolver: Resolver,
    }

    impl World {
        fn new(pages: usize, most_kept: usize) -> Self {
            let mut memory = MmapMut::map_anon(4096 * pages).unwrap();
            memory.chunks_mut(4096).for_each(|page| page[..4].copy_from_slice(&DEEP));
            let resolver = Resolver::start(false).unwrap();
            let made = GeneratedCode::start(resolver.worker(false), most_kept).unwrap();
            Self { pages: memory, made, peeker: Peeker::start().unwrap(), _resolver: resolver }
        }

        /// Of the second instruction of a page.
        fn at(&self, page: u64) -> u64 {
            self.pages.as_ptr() as u64 + 4096 * page + 1
        }

        /// A stack of this time, while the probes had been told rows so often by then.
        fn check(&mut self, raw: &WalkedStack, at: u64, told: Option<(u32, u64)>) -> Option<WalkedStack> {
            let Self { pages, made, peeker, .. } = self;
            let start = pages.as_ptr() as u64;
            let end = start + pages.len() as u64;
            let mapping = Mapping { start, end, offset: 0, file: None, path: String::new() };
            let whose = whose(peeker, at, told);
            made.check(whose, raw, |pc| (start..end).contains(&pc).then_some(&mapping))
        }

        fn is_open(&mut self, at: u64) -> bool {
            self.made.is_open(whose(&self.peeker, now(), None), at)
        }

        /// The same as `check`, once what is asked about this stack was found out; `None` where nothing comes of it.
        fn found(&mut self, raw: &WalkedStack) -> Option<WalkedStack> {
            let tries = (0..200).map(|_| std::thread::sleep(Duration::from_millis(10)));
            tries.map(|()| self.check(raw, now(), None)).find(Option::is_some).flatten()
        }

        /// Gives the probes rows; their version, and how many rows there are.
        fn give(&mut self, at: u64) -> Option<(u32, usize)> {
            let rows = self.made.rows(whose(&self.peeker, at, None))?;
            Some((rows.0, rows.1.iter().map(|of| of.rows.len()).sum()))
        }
    }

    /// Code was looked at only before.
    fn now() -> u64 {
        energy_trace_system::clock::now().as_ns()
    }

    fn whose(peeker: &Peeker, at: u64, told: Option<(u32, u64)>) -> ProcessAtSample<'_> {
        let told = told.map(|(number, at)| (number, KtimeNs::from_ns(at)));
        let (pid, key) = (Pid::new(std::process::id()), ProcessKey::new(1));
        ProcessAtSample { pid, key, peeker, at: KtimeNs::from_ns(at), told }
    }

    /// A guess is proved where the code says the same, ends where the code says that it lies in its own frame, and is a guess otherwise: by the code
    /// that is there now.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn guesses_that_code_proves() {
        let mut world = World::new(1, MOST_KEPT);
        let at = world.at(0);
        let proved = world.found(&guess(at, 16)).unwrap();
        assert_eq!((proved.native, proved.guessed), (frames(&[(at, 0x5000), (0x4000, 0x6000)]), 0));
        assert_eq!(world.check(&guess(at, 24), now(), None), None);
        let cut = world.check(&guess(at, 8), now(), None).unwrap();
        assert_eq!((cut.native, cut.native_end), (frames(&[(at, 0)]), end::NO_UNWIND_INFO));
        // The same behind a callee, whose own frame says where the stack pointer was.
        let behind = |guess: &WalkedStack| {
            let callee = NativeFrame { pc: 0x3000, cfa: 0x6000 - 16 };
            WalkedStack {
                native: [vec![callee], guess.native.clone()].concat(),
                guess_depth: 0,
                ..guess.clone()
            }
        };
        let mut inner = guess(at, 0);
        inner.native[1].cfa = 0x6000;
        let proved = world.check(&behind(&inner), now(), None).unwrap();
        let whole = frames(&[(0x3000, 0x6000 - 16), (at, 0x6000), (0x4000, 0x6000)]);
        assert_eq!((proved.native, proved.guessed), (whole, 0));
        inner.native[1].cfa = 0x6000 - 8;
        assert_eq!(world.check(&behind(&inner), now(), None).unwrap().native.len(), 2);
        world.pages[..4].copy_from_slice(&[0x90, 0x90, 0x90, 0xc3]);
        assert_eq!(world.check(&guess(at, 16), now(), None), None);
        assert!(world.found(&guess(at, 8)).is_some());
    }

    /// Of programs that make ever more code no more is kept than was allowed: what is known goes on to prove guesses, and nothing is asked.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn code_without_end() {
        for (most_kept, proves) in [(MOST_KEPT, true), (1, false)] {
            let mut world = World::new(2, most_kept);
            let [first, second] = [0, 1].map(|page| world.at(page));
            assert!(world.found(&guess(first, 16)).is_some());
            let asked = world.check(&guess(second, 16), now(), None);
            assert_eq!((asked, world.made.waiting.values().sum::<usize>()), (None, usize::from(proves)));
            assert!(world.check(&guess(first, 16), now(), None).is_some());
        }
    }

    /// A guess waits for its code's turn and for the answer, and for nothing once there is one.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn guesses_that_wait() {
        let mut waits = World::new(1, 0);
        let at = waits.at(0);
        assert!(!waits.is_open(at));
        assert_eq!((waits.check(&guess(at, 16), now(), None), waits.is_open(at)), (None, true));
        let mut answered = World::new(1, MOST_KEPT);
        let at = answered.at(0);
        assert!(answered.found(&guess(at, 16)).is_some());
        assert!(!answered.is_open(at));
    }

    /// A caller that is missing has its callee's code looked into wherever that stands in the stack; the probes are given rows when there are new ones,
    /// and not all the time.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn rows_for_the_probes() {
        let mut world = World::new(1, MOST_KEPT);
        let native = frames(&[(0x3000, 0x4000), (world.at(0), 0)]);
        let cut = WalkedStack { native, native_end: end::NO_UNWIND_INFO, ..WalkedStack::default() };
        assert_eq!((world.check(&cut, now(), None), world.give(GIVEN_EVERY_NS)), (None, None));
        assert!(world.found(&guess(world.at(0), 16)).is_some());
        assert_eq!(world.give(GIVEN_EVERY_NS - 1), None);
        assert_eq!(world.give(GIVEN_EVERY_NS), Some((1, 4)));
        assert_eq!(world.give(3 * GIVEN_EVERY_NS), None);
    }

    /// A stack that the probes have unwound by rows stands while the code is the same. Where it is other code it ends there, also while they still have
    /// the old rows; from when they were told of newer ones it stands again.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn code_that_changed() {
        let mut world = World::new(1, MOST_KEPT);
        let at = world.at(0);
        assert!(world.found(&guess(at, 16)).is_some());
        let given = world.give(GIVEN_EVERY_NS).unwrap().0;
        let (before, told) = (now(), Some((given, 0)));
        assert_eq!(world.check(&through(at), before, told), None);
        world.pages[..4].copy_from_slice(&[0x90, 0x90, 0x90, 0xc3]);
        // The second one seems to be whole: an old row has led to an empty word.
        let ended =
            WalkedStack { native: frames(&[(0x3000, 0x4000), (at, u64::MAX)]), ..WalkedStack::default() };
        // Of what was sampled while the code was the same nothing is asked.
        assert_eq!(world.check(&through(at), before, told), None);
        for raw in [through(at), ended] {
            let cut = world.check(&raw, now(), told).unwrap();
            let expected = (frames(&[(0x3000, 0x4000), (at, 0)]), end::NO_UNWIND_INFO);
            assert_eq!((cut.native, cut.native_end), expected);
        }
        assert!(world.found(&guess(at, 8)).is_some());
        let given = world.give(3 * GIVEN_EVERY_NS).unwrap().0;
        let later = now() + GIVEN_EVERY_NS;
        let told = Some((given, later));
        assert!(world.check(&through(at), later, told).is_some());
        assert_eq!(world.check(&through(at), later + 1, told), None);
    }
}
