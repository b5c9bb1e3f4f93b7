//! What is learned about frames after stacks with them were recorded, and how it changes the stacks.
//!
//! A recording only grows, and names are found at its end. Two findings make one frame several: functions that the compiler put into
//! another at its address become frames of their own above it, and code that was put in the place of other code gives the frame another
//! name from that time on. Both are worked into the stacks when a recording is read, so that whoever uses it afterwards sees plain
//! stacks. Leaves out where names come from (`symbolize/`).

use super::record::{Frame, FrameKind, Name, StackNode};
use super::tables::Recording;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::{FrameId, StackId};
use std::collections::{BTreeMap, HashMap};

/// Inlined functions at one place that are believed; compilers come to some dozens.
const MOST_INLINED: usize = 100;

/// Findings about frames.
#[derive(Debug, Default)]
pub(super) struct LateNames {
    inlined: BTreeMap<FrameId, Vec<Name>>,
    renamed: BTreeMap<FrameId, Vec<(KtimeNs, Name)>>,
}

impl LateNames {
    /// Functions that the compiler put into the frame's function at its address, the outermost first.
    pub(super) fn add_inlined(&mut self, frame: FrameId, mut names: Vec<Name>) {
        names.truncate(MOST_INLINED);
        self.inlined.insert(frame, names);
    }

    /// From a moment on the frame has another name.
    pub(super) fn add_renamed(&mut self, frame: FrameId, at: KtimeNs, name: Name) {
        self.renamed.entry(frame).or_default().push((at, name));
    }

    /// Works the findings into the stacks.
    pub(super) fn apply(self, to: &mut Recording) {
        if self.inlined.is_empty() && self.renamed.is_empty() {
            return;
        }
        let mut samples = std::mem::take(&mut to.samples);
        let mut launches = std::mem::take(&mut to.gpu.launches);
        let mut busy = std::mem::take(&mut to.gpu.busy);
        let mut rewriting = Rewriting::new(self, to);
        for sample in &mut samples {
            sample.stack = rewriting.stack_at(sample.stack, sample.at);
        }
        for batch in &mut launches {
            for launched in &mut batch.work {
                launched.stack = rewriting.stack_at(launched.stack, batch.from);
            }
        }
        for one in &mut busy {
            one.stack = rewriting.stack_at(one.stack, one.launched);
        }
        to.gpu.busy = busy;
        to.samples = samples;
        to.gpu.launches = launches;
    }
}

/// The stacks of a recording while they are rewritten. New frames and stacks come behind the old ones, so that ids stay what they are and
/// a caller's stack stays older than its callee's.
struct Rewriting<'a> {
    recording: &'a mut Recording,
    /// The frames above a frame.
    above: HashMap<FrameId, Vec<FrameId>>,
    /// The frames in a frame's place, from each moment on.
    instead: HashMap<FrameId, Vec<(KtimeNs, FrameId)>>,
    known: HashMap<StackNode, StackId>,
    /// Of each old stack: what it becomes, or `None` where that depends on the time.
    becomes: Vec<Option<StackId>>,
}

impl<'a> Rewriting<'a> {
    fn new(names: LateNames, recording: &'a mut Recording) -> Self {
        let mut made = HashMap::new();
        let above = |(frame, names): (FrameId, Vec<Name>)| {
            let names = names.into_iter();
            (frame, names.map(|name| make_inlined(recording, &mut made, frame, name)).collect())
        };
        let above = names.inlined.into_iter().map(above).collect();
        let instead = |(frame, mut names): (FrameId, Vec<(KtimeNs, Name)>)| {
            names.order_by_key(|(at, _)| *at);
            let names = names.into_iter();
            (frame, names.map(|(at, name)| (at, make_renamed(recording, frame, name))).collect())
        };
        let instead = names.renamed.into_iter().map(instead).collect();
        let mut out = Self { recording, above, instead, known: HashMap::new(), becomes: Vec::new() };
        out.rewrite_timeless();
        out
    }

    /// Rewrites all stacks that are the same at all times, callers first.
    fn rewrite_timeless(&mut self) {
        for index in 0..self.recording.stacks.len() {
            let node = self.recording.stacks[index];
            let parent = match node.parent {
                None => Some(None),
                Some(parent) => self.becomes.get(parent.index()).copied().flatten().map(Some),
            };
            let timeless = !self.instead.contains_key(&node.frame);
            let stack = match parent.filter(|_| timeless) {
                Some(parent) if parent == node.parent && !self.above.contains_key(&node.frame) => {
                    Some(StackId::new(u32::try_from(index).unwrap_or(u32::MAX)))
                }
                Some(parent) => Some(self.push(parent, node.frame)),
                None => None,
            };
            self.becomes.push(stack);
        }
    }

    /// What a stack becomes that was seen at a moment.
    fn stack_at(&mut self, seen: StackId, at: KtimeNs) -> StackId {
        // From the leaf up to the first stack that is the same at all times, and back.
        let mut frames = Vec::new();
        let mut next = Some(seen);
        let mut below = None;
        while let Some(stack) = next {
            if let Some(Some(known)) = self.becomes.get(stack.index()) {
                below = Some(*known);
                break;
            }
            let Some(node) = self.recording.stacks.get(stack.index()) else { break };
            frames.push(node.frame);
            next = node.parent;
        }
        for frame in frames.into_iter().rev() {
            let renamed = self.instead.get(&frame).and_then(|names| {
                let before = names.partition_point(|(since, _)| *since <= at);
                names[..before].last().map(|&(_, frame)| frame)
            });
            below = Some(match renamed {
                Some(renamed) => self.intern(StackNode { parent: below, frame: renamed }),
                None => self.push(below, frame),
            });
        }
        below.unwrap_or(seen)
    }

    /// The stack of a frame and of the functions that were put into it.
    fn push(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let mut stack = self.intern(StackNode { parent, frame });
        for inlined in self.above.get(&frame).cloned().unwrap_or_default() {
            stack = self.intern(StackNode { parent: Some(stack), frame: inlined });
        }
        stack
    }

    fn intern(&mut self, node: StackNode) -> StackId {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        let id = StackId::new(u32::try_from(self.recording.stacks.len()).unwrap_or(u32::MAX));
        self.recording.stacks.push(node);
        self.known.insert(node, id);
        id
    }
}

/// The frame of a function that was put into another; the same for all places that have the same file and line.
fn make_inlined(
    recording: &mut Recording,
    made: &mut HashMap<Frame, FrameId>,
    into: FrameId,
    name: Name,
) -> FrameId {
    let module = recording.frames.get(into.index()).map(|frame| frame.module.clone()).unwrap_or_default();
    let Name { name, file, line } = name;
    let frame = Frame { kind: FrameKind::Inlined, name, module, file, line, first_line: 0, address: 0 };
    *made.entry(frame).or_insert_with_key(|frame| push_frame(recording, frame.clone()))
}

/// A frame under another name.
fn make_renamed(recording: &mut Recording, of: FrameId, name: Name) -> FrameId {
    let Some(old) = recording.frames.get(of.index()).cloned() else { return of };
    let Name { name, file, line } = name;
    push_frame(recording, Frame { name, file, line, ..old })
}

fn push_frame(recording: &mut Recording, frame: Frame) -> FrameId {
    let id = FrameId::new(u32::try_from(recording.frames.len()).unwrap_or(u32::MAX));
    recording.frames.push(frame);
    id
}

#[cfg(test)]
mod tests {
    use super::LateNames;
    use crate::clock::KtimeNs;
    use crate::ids::{CpuId, FrameId, StackId, ThreadKey};
    use crate::recording::Recording;
    use crate::recording::record::{Frame, FrameKind, Header, Name, Sample, StackNode, StackStatus};

    fn name(name: &str, line: u32) -> Name {
        Name { name: name.into(), file: "f.cc".into(), line }
    }

    /// Frames `main` and `f`; `f` under `main`, and `f` under itself; one sample in each stack at each time.
    fn recording(times: &[u64]) -> Recording {
        let header = Header { sample_hz: 99, ..Header::default() };
        let frame = |name: &str| Frame {
            kind: FrameKind::Native,
            name: name.into(),
            module: "/lib.so".into(),
            file: String::new(),
            line: 0,
            first_line: 0,
            address: 7,
        };
        let node = |parent: Option<u32>, frame| StackNode {
            parent: parent.map(StackId::new),
            frame: FrameId::new(frame),
        };
        let sample = |at, stack| Sample {
            at: KtimeNs::from_ns(at),
            cpu: CpuId::new(0),
            thread: ThreadKey::new(0),
            stack: StackId::new(stack),
            status: StackStatus::Complete,
        };
        Recording {
            header,
            frames: vec![frame("main"), frame("f")],
            stacks: vec![node(None, 0), node(Some(0), 1), node(Some(1), 1)],
            samples: times.iter().flat_map(|&at| [sample(at, 1), sample(at, 2)]).collect(),
            ..Recording::default()
        }
    }

    /// The names of each sample's stack, root first; inlined functions in round brackets.
    fn stacks(recording: &Recording) -> Vec<String> {
        let text = |(_, frame): (FrameId, &Frame)| match frame.kind {
            FrameKind::Inlined => format!("({}:{})", frame.name, frame.line),
            _ => frame.name.clone(),
        };
        let stack =
            |sample: &Sample| recording.frames_of(sample.stack).map(text).collect::<Vec<_>>().join(" ");
        recording.samples.iter().map(stack).collect()
    }

    /// Functions that were put into `f` stand above each `f`, wherever that is, and stacks without `f` stay.
    #[test]
    fn inlined_functions_become_frames() {
        let mut recording = recording(&[5]);
        recording.samples.push(Sample { stack: StackId::new(0), ..recording.samples[0] });
        let mut late = LateNames::default();
        late.add_inlined(FrameId::new(1), vec![name("g", 3), name("h", 4)]);
        late.apply(&mut recording);
        let f = "f (g:3) (h:4)";
        assert_eq!(stacks(&recording), [format!("main {f}"), format!("main {f} {f}"), "main".into()]);
        let inlined = recording.frames.last().unwrap();
        assert_eq!((inlined.module.as_str(), inlined.file.as_str()), ("/lib.so", "f.cc"));
        // Each function is one frame, and the old stacks are as they were.
        assert_eq!((recording.frames.len(), recording.stacks[1].parent), (4, Some(StackId::new(0))));
        for (id, node) in recording.stacks.iter().enumerate() {
            assert!(node.parent.is_none_or(|parent| parent.index() < id));
        }
    }

    /// A frame has the name of the sample's time.
    #[test]
    fn names_follow_time() {
        let mut recording = recording(&[5, 10, 25]);
        let mut late = LateNames::default();
        late.add_renamed(FrameId::new(1), KtimeNs::from_ns(20), name("h", 0));
        late.add_renamed(FrameId::new(1), KtimeNs::from_ns(10), name("g", 0));
        late.apply(&mut recording);
        let expected = ["main f", "main f f", "main g", "main g g", "main h", "main h h"];
        assert_eq!(stacks(&recording), expected);
    }

    /// Without findings nothing changes.
    #[test]
    fn nothing_found() {
        let mut changed = recording(&[1]);
        LateNames::default().apply(&mut changed);
        assert_eq!(changed, recording(&[1]));
    }
}
