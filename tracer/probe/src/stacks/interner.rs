//! Gives frames and stacks their numbers, and tells the recording of each new one.

use super::pool_loops::is_pool_loop;
use crate::records::RecordSender;
use energy_trace_foreign::files::Quota;
use energy_trace_model::ids::{FrameId, StackId, Tid};
use energy_trace_model::recording::names::{LONGEST_NAME, is_cut};
use energy_trace_model::recording::record::{
    CalledOn, Frame, FrameKind, Owner, OwnerDiagnostic, Record, RecordingDiagnostic, StackNode,
};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Bytes that names of Python functions of one owner may take in a recording: more than a hundred thousand functions have.
const MOST_PYTHON_BYTES: usize = 32 << 20;
/// Stacks of one owner's samples, counted with all that they lie in: a training has some ten thousand, the imports of TensorFlow a hundred thousand.
const MOST_STACKS: usize = 1 << 20;
/// Frames and stacks that are kept of a recording that never ends.
const LARGE_FRAMES: u32 = 20_000;
const LARGE_STACKS: usize = 100_000;
/// Frames that it goes on with.
const MOST_MOVED: usize = LARGE_FRAMES as usize / 4;
/// Places for the last stacks of threads, two for each; threads whose numbers have the same remainder share them.
const LANES: usize = 32;

/// What the thread of a stack did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It ran.
    Running,
    /// It fell asleep.
    Asleep,
}

/// Frames and stacks of a recording so far.
pub(crate) struct Interner {
    /// The way to the recording.
    pub(crate) records: RecordSender,
    frames: HashMap<Frame, FrameId>,
    /// Those of functions that were called on something that tells more.
    called_on: HashMap<(Frame, CalledOn), FrameId>,
    next_frame: u32,
    /// Room for the names of Python functions, and how often one more found none.
    python_room: Quota,
    crowded_out: u64,
    /// Names that were cut.
    cut: Cell<u64>,
    /// Room for stacks, and how many samples found none for theirs.
    stack_room: Quota,
    without_callers: u64,
    /// Looked up for every frame of every sample: a hash that is fast, and no secret from anybody.
    stacks: foldhash::HashMap<StackNode, StackId>,
    /// The same by their numbers.
    nodes: Vec<StackNode>,
    /// The last stacks of some threads, outermost frame first, each with the stack up to it.
    last: [Vec<(FrameId, StackId)>; LANES],
    /// Frames of ranges.
    ranges: HashSet<FrameId>,
    /// Native, kernel and GPU frames, whose names are found at the end.
    pub(crate) unnamed: Vec<(FrameId, Frame)>,
}

impl Interner {
    pub(crate) fn new(records: RecordSender) -> Self {
        Self {
            records,
            frames: HashMap::new(),
            called_on: HashMap::new(),
            next_frame: 0,
            python_room: Quota::for_first(MOST_PYTHON_BYTES),
            crowded_out: 0,
            cut: Cell::new(0),
            stack_room: Quota::for_first(MOST_STACKS),
            without_callers: 0,
            stacks: foldhash::HashMap::default(),
            nodes: Vec::new(),
            last: Default::default(),
            ranges: HashSet::new(),
            unnamed: Vec::new(),
        }
    }

    /// Whether more is known than a recording should grow by that never ends.
    pub(crate) fn is_large(&self) -> bool {
        self.next_frame > LARGE_FRAMES || self.nodes.len() > LARGE_STACKS
    }

    /// Forgets all, and gives out the first numbers again: to whoever reads while it is written those before
    /// are others. Of some stacks the innermost frame is kept, as far as these are few: their new numbers.
    pub(crate) fn begin_anew(&mut self, kept: &BTreeSet<StackId>) -> HashMap<StackId, StackId> {
        let new = Self::new(self.records.clone());
        let Self { crowded_out, without_callers, .. } = *self;
        let new = Self { crowded_out, without_callers, cut: self.cut.clone(), ..new };
        let old = std::mem::replace(self, new);
        let mut of_frames: HashMap<FrameId, Vec<StackId>> = HashMap::new();
        for &stack in kept {
            let node = old.nodes.get(stack.get() as usize);
            node.into_iter().for_each(|node| of_frames.entry(node.frame).or_default().push(stack));
        }
        let mut moved = HashMap::new();
        for (frame, stacks) in old
            .frames
            .into_iter()
            .filter_map(|(frame, id)| Some((frame, of_frames.remove(&id)?)))
            .take(MOST_MOVED)
        {
            let mark = self.frame(SyntheticFrame::LaunchStackNotTaken.frame());
            let (above, frame) = (self.stack_on(None, mark), self.frame(frame));
            let new = self.stack_on(Some(above), frame);
            moved.extend(stacks.into_iter().map(|stack| (stack, new)));
        }
        moved
    }

    /// All frames, in no order, and on what their functions were called.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&Frame, Option<&CalledOn>)> + Clone {
        let plain = self.frames.keys().map(|frame| (frame, None));
        plain.chain(self.called_on.keys().map(|(frame, on)| (frame, Some(on))))
    }

    pub(crate) fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frames.get(&frame) {
            return id;
        }
        let id = self.new_function(&frame);
        if frame.name.is_empty()
            && !matches!(frame.kind, FrameKind::Python | FrameKind::Special | FrameKind::Range)
        {
            self.unnamed.push((id, frame.clone()));
        }
        if frame.kind == FrameKind::Range {
            self.ranges.insert(id);
        }
        self.frames.insert(frame, id);
        id
    }

    fn new_function(&mut self, frame: &Frame) -> FrameId {
        let id = self.new_frame(frame.clone());
        if is_pool_loop(frame) {
            self.send(Record::PoolLoop(id));
        }
        id
    }

    /// A Python function of a program of this owner, and on what it was called; one mark for all that come when the owner's names have taken their
    /// room.
    pub(crate) fn python_frame(&mut self, owner: Owner, frame: Frame, on: Option<CalledOn>) -> FrameId {
        let Some(on) = on else { return self.plain_function(owner, frame) };
        let key = (frame, on);
        if let Some(&id) = self.called_on.get(&key) {
            return id;
        }
        if !self.has_room(owner, &key.0) {
            return self.frame(SyntheticFrame::PythonCrowdedOut.frame());
        }
        let id = self.new_function(&key.0);
        self.send(Record::CalledOn(id, key.1.clone()));
        self.called_on.insert(key, id);
        id
    }

    fn plain_function(&mut self, owner: Owner, frame: Frame) -> FrameId {
        if self.frames.contains_key(&frame) || self.has_room(owner, &frame) {
            return self.frame(frame);
        }
        self.frame(SyntheticFrame::PythonCrowdedOut.frame())
    }

    /// Whether there is room for the names of a new function; it is taken then, and who found none is counted.
    fn has_room(&mut self, owner: Owner, frame: &Frame) -> bool {
        let bytes = frame.name.len() + frame.file.len() + frame.module.len();
        let fits = self.python_room.take(owner, bytes);
        self.crowded_out += u64::from(!fits);
        fits
    }

    /// What the reader must know of names that found no room.
    pub(crate) fn diagnostics(&self) -> Option<RecordingDiagnostic> {
        (self.crowded_out > 0).then(|| RecordingDiagnostic::PythonNamesLimited {
            mib: (MOST_PYTHON_BYTES >> 20) as u64,
            times: self.crowded_out,
            mark: SyntheticFrame::PythonCrowdedOut.name().to_owned(),
        })
    }

    /// The same of stacks.
    pub(crate) fn cut_stacks(&self) -> Option<RecordingDiagnostic> {
        let (samples, most) = (self.without_callers, MOST_STACKS as u64);
        (samples > 0).then(|| OwnerDiagnostic::StacksCut { samples, most }.into())
    }

    /// The same of names that were too long, which is known once all were sent.
    pub(crate) fn cut_names(&self) -> Option<RecordingDiagnostic> {
        let (names, longest) = (self.cut.get(), LONGEST_NAME as u64);
        (names > 0).then(|| OwnerDiagnostic::NamesCut { names, longest }.into())
    }

    /// A frame that is not the same as any other, though it may look so. Nobody else finds its name.
    pub(crate) fn new_frame(&mut self, frame: Frame) -> FrameId {
        let id = FrameId::new(self.next_frame);
        self.next_frame = self.next_frame.saturating_add(1);
        self.send(Record::Frame(id, frame));
        id
    }

    /// The stack of these frames of a thread, innermost first. Most of them were in the last one of the same thread, when it did the same:
    /// to compare them in order costs less than to look up each. Where its owner's stacks have taken their room, the innermost frame alone.
    pub(crate) fn stack(
        &mut self,
        (owner, tid): (Owner, Tid),
        state: ThreadState,
        frames: &[FrameId],
    ) -> Option<StackId> {
        let lane = (tid.get() as usize * 2 + usize::from(state == ThreadState::Asleep)) % LANES;
        let mut last = std::mem::take(self.last.get_mut(lane)?);
        let same = frames.iter().rev().zip(&last).take_while(|(frame, (known, _))| *frame == known).count();
        last.truncate(same);
        let mut fits = true;
        for &frame in frames.iter().rev().skip(same) {
            let node = StackNode { parent: last.last().map(|&(_, id)| id), frame };
            let id = match self.stacks.get(&node) {
                Some(&id) => id,
                None if self.stack_room.take(owner, 1) => self.new_stack(node),
                None => {
                    fits = false;
                    break;
                }
            };
            last.push((frame, id));
        }
        let whole = last.last().map(|&(_, id)| id);
        let stack = if fits { whole } else { self.without_callers(frames) };
        if let Some(place) = self.last.get_mut(lane) {
            *place = last;
        }
        stack
    }

    /// The innermost frame below a mark.
    fn without_callers(&mut self, frames: &[FrameId]) -> Option<StackId> {
        self.without_callers += 1;
        let mark = self.frame(SyntheticFrame::TooDeep.frame());
        let above = self.stack_on(None, mark);
        Some(self.stack_on(Some(above), *frames.first()?))
    }

    /// A stack with one more frame, its innermost.
    pub(crate) fn stack_on(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        match self.stacks.get(&node) {
            Some(&id) => id,
            None => self.new_stack(node),
        }
    }

    /// The same without ranges.
    fn code_of(&self, stack: StackId) -> Vec<FrameId> {
        self.frames_of(stack).into_iter().filter(|frame| !self.ranges.contains(frame)).collect()
    }

    /// The frames of a stack, outermost first.
    fn frames_of(&self, stack: StackId) -> Vec<FrameId> {
        let mut frames = Vec::new();
        let mut at = Some(stack);
        while let Some(node) = at.and_then(|id| self.nodes.get(id.get() as usize)) {
            frames.push(node.frame);
            at = node.parent;
        }
        frames.reverse();
        frames
    }

    /// A stack with the frames of another one below it, from where the two part. It stays in its own ranges.
    pub(crate) fn below(&mut self, stack: StackId, other: StackId) -> StackId {
        let [above, frames] = [stack, other].map(|stack| self.code_of(stack));
        let same = above.iter().zip(&frames).take_while(|(one, two)| one == two).count();
        frames.iter().skip(same).fold(stack, |stack, &frame| self.stack_on(Some(stack), frame))
    }

    fn new_stack(&mut self, node: StackNode) -> StackId {
        let id = StackId::new(u32::try_from(self.stacks.len()).unwrap_or(u32::MAX));
        self.stacks.insert(node, id);
        self.nodes.push(node);
        self.send(Record::Stack(id, node));
        id
    }

    /// To the recording.
    pub(crate) fn send(&self, record: Record) {
        let cut = match &record {
            Record::Frame(_, frame) => u64::from(is_cut(&frame.name)),
            Record::Name(_, name) | Record::Renamed(_, _, name) => u64::from(is_cut(&name.name)),
            Record::Inlined(_, names) => names.iter().filter(|name| is_cut(&name.name)).count() as u64,
            _ => 0,
        };
        self.cut.set(self.cut.get().saturating_add(cut));
        self.records.send(record);
    }
}

/// A frame without lines.
pub(crate) fn bare(kind: FrameKind, name: &str, module: &str, address: u64) -> Frame {
    Frame {
        kind,
        name: name.into(),
        module: module.into(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address,
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, FrameKind, Interner, MOST_STACKS, Owner, RecordSender, ThreadState, bare};
    use energy_trace_model::ids::{FrameId, StackId, Tid};
    use std::collections::{BTreeSet, HashMap};
    use std::sync::mpsc::channel;

    /// Names of one user's Python functions take their room and no more; those that are known keep their number, the others are counted, and other
    /// users have room of their own.
    #[test]
    fn names_without_end() {
        let (records, _written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let frame = |number: usize| {
            let name = format!("{number}_{}", "n".repeat(1 << 20));
            Frame { kind: FrameKind::Python, file: "f".into(), ..bare(FrameKind::Python, &name, "m", 0) }
        };
        let of = Owner::User(1);
        let first = interner.python_frame(of, frame(0), None);
        let ids: Vec<FrameId> =
            (1..100).map(|number| interner.python_frame(of, frame(number), None)).collect();
        assert!((30..33).contains(&interner.next_frame), "{}", interner.next_frame);
        assert_eq!(interner.crowded_out, 100 - u64::from(interner.next_frame - 1));
        assert_eq!(ids[97], ids[98]);
        assert_eq!(interner.python_frame(of, frame(0), None), first);
        let other = interner.python_frame(Owner::User(2), frame(100), None);
        assert!(other != ids[98], "another user's function found no room");
    }

    /// One user's stacks without number take their room and no more: those that are known are the same still, of others the innermost frame is kept,
    /// counted, and another user's stacks are whole.
    #[test]
    fn stacks_without_end() {
        let (records, written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let frames = |number: u32| [0, number % 7, number].map(FrameId::new);
        let of = |uid| (Owner::User(uid), Tid::new(uid));
        let mut stack = |uid, number| interner.stack(of(uid), ThreadState::Running, &frames(number)).unwrap();
        let first = stack(1, 0);
        (1..u32::try_from(MOST_STACKS).unwrap()).for_each(|number| _ = stack(1, number));
        assert_eq!(
            (stack(1, 0), stack(1, u32::MAX), stack(1, u32::MAX - 7)),
            (first, stack(1, u32::MAX), stack(1, u32::MAX))
        );
        let (other, _) = (stack(2, u32::MAX), drop(written));
        assert_ne!(other, stack(1, u32::MAX - 7));
        assert!(interner.stacks.len() < MOST_STACKS + 8, "{}", interner.stacks.len());
        assert!(interner.without_callers > 0 && interner.cut_stacks().is_some());
    }

    /// What was forgotten is told of again, by the first numbers, and what was counted stays.
    #[test]
    fn anew() {
        let (records, written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let [one, two] = ["one", "two"].map(|name| interner.frame(bare(FrameKind::Native, "", name, 7)));
        let of = (Owner::Root, Tid::new(1));
        let first = interner.stack(of, ThreadState::Running, &[two, one]);
        interner.crowded_out = 3;
        assert!(!interner.is_large() && interner.unnamed.len() == 2);
        assert!(interner.begin_anew(&BTreeSet::new()).is_empty());
        assert!(interner.unnamed.is_empty() && interner.diagnostics().is_some());
        let again = interner.frame(bare(FrameKind::Native, "", "two", 7));
        let stack = interner.stack(of, ThreadState::Running, &[again]);
        assert_eq!((one, again, first, stack), (again, one, Some(StackId::new(1)), Some(StackId::new(0))));
        drop(interner);
        assert_eq!(written.iter().count(), 2 + 2 + 2);
    }

    /// Stacks of graphs keep what is launched when all else is forgotten: those of one kernel are one.
    #[test]
    fn what_goes_on() {
        let (records, _written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let [gemm, main, relu] =
            ["gemm", "main", "relu"].map(|name| interner.frame(bare(FrameKind::Gpu, name, "", 0)));
        let top = interner.stack_on(None, main);
        let [one, two, other] = [(Some(top), gemm), (None, gemm), (Some(top), relu)]
            .map(|(on, frame)| interner.stack_on(on, frame));
        let moved = interner.begin_anew(&[one, two, other, StackId::new(99)].into());
        assert_eq!((moved.len(), moved[&one]), (3, moved[&two]));
        assert_ne!(moved[&one], moved[&other]);
        let gemm = interner.frame(bare(FrameKind::Gpu, "gemm", "", 0));
        assert_eq!(interner.frames_of(moved[&one]).last(), Some(&gemm));
    }

    /// Of a stack that is put below another one those frames are left out with which both begin.
    #[test]
    fn stacks_below_stacks() {
        let (records, _written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let of = |interner: &mut Interner, frames: &[u32]| {
            let on = |stack, &frame: &u32| Some(interner.stack_on(stack, FrameId::new(frame)));
            frames.iter().fold(None, on).unwrap()
        };
        let [replay, captured, other] =
            [&[1, 2, 3, 9][..], &[1, 2, 5, 3], &[7]].map(|of_| of(&mut interner, of_));
        assert_eq!(interner.below(replay, captured), of(&mut interner, &[1, 2, 3, 9, 5, 3]));
        assert_eq!(interner.below(replay, other), of(&mut interner, &[1, 2, 3, 9, 7]));
        assert_eq!(interner.below(replay, replay), replay);
    }

    /// Whatever stacks came before, in whichever threads: equal frames are one stack, and others are another.
    #[test]
    fn stacks_by_their_frames() {
        let (records, _written) = channel();
        let mut interner = Interner::new(RecordSender::new(records));
        let mut known: HashMap<Vec<u32>, StackId> = HashMap::new();
        for step in 0_u32..2000 {
            let random = step.wrapping_mul(2_654_435_761) >> 16;
            let frames: Vec<u32> = (0..random % 5).map(|level| random >> (3 + 2 * level) & 3).collect();
            let ids: Vec<FrameId> = frames.iter().rev().map(|&frame| FrameId::new(frame)).collect();
            let state = if step % 3 == 0 { ThreadState::Asleep } else { ThreadState::Running };
            let stack = interner.stack((Owner::Root, Tid::new(step % 40)), state, &ids);
            assert_eq!(stack.is_none(), frames.is_empty());
            if let Some(stack) = stack {
                assert_eq!(*known.entry(frames).or_insert(stack), stack);
            }
        }
        let mut stacks: Vec<StackId> = known.values().copied().collect();
        stacks.sort_unstable();
        stacks.dedup();
        assert!(stacks.len() == known.len() && known.len() > 50, "{}", known.len());
    }
}
