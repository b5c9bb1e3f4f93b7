//! Joined stacks: `<Python stack of who asked>;[on behalf of];<the worker's own stack>`.
//!
//! New frames and stacks are kept apart, with numbers that go on behind the recording's, until the view takes
//! them. The stack of who asked ends at its innermost Python frame, or at the native call below it in which
//! the worker was asked (`native_calls`). A wait holds Python frames only: the native frames between them are
//! taken from a sample of the same thread that came through the same functions, so that both stand on one
//! tower.

use super::native_calls::NativeCalls;
use super::requesters::RequestHop;
use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use std::collections::HashMap;

/// Position of a Python function below others of one thread.
type Place = u32;

/// Makes joined stacks of one recording.
pub(super) struct JoinedStacks<'a> {
    recording: &'a Recording,
    /// Frames that the recording lacks: the joint, what stands for unsampled time, the joint after the call,
    /// pools.
    frames: Vec<Frame>,
    stacks: Vec<StackNode>,
    known: HashMap<StackNode, StackId>,
    pools: HashMap<String, FrameId>,
    requesters: HashMap<(ThreadKey, StackId), Vec<FrameId>>,
    natives: Natives<'a>,
    calls: NativeCalls<'a>,
}

impl<'a> JoinedStacks<'a> {
    /// `seen` is which threads samples show in which stacks.
    pub(super) fn new(recording: &'a Recording, seen: &[(ThreadKey, StackId)]) -> Self {
        let nodes = (0..).map(StackId::new).zip(&recording.stacks);
        Self {
            recording,
            frames: [
                SyntheticFrame::OnBehalfOf,
                SyntheticFrame::Unsampled,
                SyntheticFrame::OnBehalfOfAfterCall,
            ]
            .map(SyntheticFrame::frame)
            .into(),
            stacks: Vec::new(),
            known: nodes.map(|(id, &node)| (node, id)).collect(),
            pools: HashMap::new(),
            requesters: HashMap::new(),
            natives: Natives::of(recording, seen),
            calls: NativeCalls::of(recording, seen),
        }
    }

    /// The stack of who asked, up to the joint.
    pub(super) fn above(&mut self, worker: ThreadKey, path: &[RequestHop]) -> Option<StackId> {
        let mut stack = None;
        for &step in path {
            match step {
                RequestHop::In(thread, own) | RequestHop::After(thread, own) => {
                    let joint = self.new_frame(if matches!(step, RequestHop::In(..)) { 0 } else { 2 });
                    for frame in self.requester(thread, own) {
                        stack = Some(self.call(stack, frame));
                    }
                    for frame in self.native_call(worker, own) {
                        stack = Some(self.call(stack, frame));
                    }
                    stack = Some(self.call(stack, joint));
                }
                RequestHop::Itself(own) => {
                    for frame in self.requester(worker, own) {
                        stack = Some(self.call(stack, frame));
                    }
                }
                RequestHop::Pool(thread) => {
                    let frame = self.pool(thread);
                    stack = Some(self.call(stack, frame));
                }
            }
        }
        stack
    }

    /// A worker's own stack (`None`: no sample saw it) below that of who asked.
    pub(super) fn join(&mut self, above: Option<StackId>, own: Option<StackId>) -> StackId {
        let frames = match own {
            Some(own) if above.is_some() => self.own_work(own),
            Some(own) => self.recording.frames_of(own).map(|(frame, _)| frame).collect(),
            None => vec![self.new_frame(1)],
        };
        let joined = frames.into_iter().fold(above, |stack, frame| Some(self.call(stack, frame)));
        joined.or(own).unwrap_or_default()
    }

    /// The frames of what a worker does. A forked process still has those that it was forked in: they are its
    /// parent's, and over.
    fn own_work(&self, own: StackId) -> Vec<FrameId> {
        let frames: Vec<(FrameId, &Frame)> = self.recording.frames_of(own).collect();
        let forked = frames.iter().rposition(|(_, frame)| is_start_of_fork(frame)).map_or(0, |at| at + 1);
        let work = frames.get(forked..).filter(|work| !work.is_empty()).unwrap_or(&frames);
        work.iter().map(|(frame, _)| *frame).collect()
    }

    /// What the recording lacks of the stacks that were made.
    pub(super) fn into_new(self) -> (Vec<Frame>, Vec<StackNode>) {
        (self.frames, self.stacks)
    }

    fn call(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let id = StackId::new(number(self.recording.stacks.len() + self.stacks.len()));
        self.stacks.push(node);
        self.known.insert(node, id);
        id
    }

    fn new_frame(&self, at: usize) -> FrameId {
        FrameId::new(number(self.recording.frames.len() + at))
    }

    fn pool(&mut self, thread: ThreadKey) -> FrameId {
        let name = self.recording.threads.get(thread.index()).map_or("", |thread| &thread.name);
        if let Some(&frame) = self.pools.get(name) {
            return frame;
        }
        let frame = self.new_frame(self.frames.len());
        self.frames.push(Frame::special(&format!("[pool: {name}]")));
        self.pools.insert(name.to_owned(), frame);
        frame
    }

    /// The native call below who asked's Python frames in which the worker was asked.
    fn native_call(&self, worker: ThreadKey, stack: StackId) -> Vec<FrameId> {
        let frames = self.recording.frames_of(stack).filter(|(_, frame)| frame.kind == FrameKind::Python);
        let python: Vec<FrameId> = frames.map(|(id, _)| id).collect();
        self.calls.of_worker(worker, &python).to_vec()
    }

    /// The frames of who asked: the ranges that it is in, its Python frames and what native frames lie between them.
    fn requester(&mut self, thread: ThreadKey, stack: StackId) -> Vec<FrameId> {
        if let Some(known) = self.requesters.get(&(thread, stack)) {
            return known.clone();
        }
        let ranges = self.recording.frames_of(stack).filter(|(_, frame)| frame.kind == FrameKind::Range);
        let mut frames: Vec<FrameId> = ranges.map(|(id, _)| id).collect();
        let mut place = None;
        for (id, frame) in self.recording.frames_of(stack).filter(|(_, f)| f.kind == FrameKind::Python) {
            place = self.natives.below(thread, place, frame);
            frames.extend_from_slice(self.natives.before(place));
            frames.push(id);
        }
        self.requesters.insert((thread, stack), frames.clone());
        frames
    }
}

/// Whether a frame is the function of `multiprocessing` in which a forked process begins.
fn is_start_of_fork(frame: &Frame) -> bool {
    frame.kind == FrameKind::Python
        && frame.module == "multiprocessing.process"
        && frame.name.ends_with("_bootstrap")
}

/// The outermost place of a thread.
const ROOT: Place = 0;

/// Native frames that samples show between Python functions, by thread.
struct Natives<'a> {
    places: HashMap<(ThreadKey, Place, Function<'a>), Place>,
    /// What lies before the function of each place.
    before: Vec<Vec<FrameId>>,
}

/// A function whatever its line: kind apart, what `Frame` says of it. Compared, never read.
type Function<'a> = (&'a str, &'a str, &'a str, u32);

impl<'a> Natives<'a> {
    fn of(recording: &'a Recording, seen: &[(ThreadKey, StackId)]) -> Self {
        let mut this = Self { places: HashMap::new(), before: vec![Vec::new()] };
        let waiting: std::collections::HashSet<ThreadKey> =
            recording.requests.waits.iter().map(|wait| wait.thread).collect();
        for &(thread, stack) in seen.iter().filter(|(thread, _)| waiting.contains(thread)) {
            this.learn(recording, thread, stack);
        }
        this
    }

    fn learn(&mut self, recording: &'a Recording, thread: ThreadKey, stack: StackId) {
        let mut place = ROOT;
        let mut natives = Vec::new();
        for (id, frame) in recording.frames_of(stack) {
            match frame.kind {
                FrameKind::Python => {
                    let next = number(self.before.len());
                    place = *self.places.entry((thread, place, function(frame))).or_insert(next);
                    if place == next {
                        self.before.push(std::mem::take(&mut natives));
                    }
                    natives.clear();
                }
                // Where frames are missing, another sample may know more.
                FrameKind::Special => return,
                FrameKind::Range => (),
                FrameKind::Native | FrameKind::Inlined | FrameKind::Kernel | FrameKind::Gpu => {
                    natives.push(id);
                }
            }
        }
    }

    /// The place of a function below a place; `None` once samples have not come there.
    fn below(&self, thread: ThreadKey, place: Option<Place>, frame: &'a Frame) -> Option<Place> {
        self.places.get(&(thread, place.unwrap_or(ROOT), function(frame))).copied()
    }

    fn before(&self, place: Option<Place>) -> &[FrameId] {
        place.and_then(|place| self.before.get(place as usize)).map_or(&[], Vec::as_slice)
    }
}

fn function(frame: &Frame) -> Function<'_> {
    (&frame.name, &frame.module, &frame.file, frame.first_line)
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
