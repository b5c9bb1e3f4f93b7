//! In which native call a thread's workers were asked: `torch.matmul` in machine code, which the Python
//! frames of a wait do not show.
//!
//! A wait holds Python frames only. What samples of the same Python frames have below them, as far as they
//! all agree and where they reach a library that the worker lives in, is the way to the place where work was
//! handed out; what ran there itself is no part of it. A sample whose frames others have too, and more below,
//! was taken on the same way and does not shorten it. Where a line makes several such calls they agree up to
//! the interpreter alone, and nothing is said. Names are compared, never read.

use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use std::collections::{BTreeSet, HashMap};

/// What samples show of native calls.
pub(super) struct NativeCalls<'a> {
    recording: &'a Recording,
    /// By Python frames: the native ones below them, each way once.
    below: HashMap<Vec<FrameId>, Vec<Vec<FrameId>>>,
    /// Libraries in which threads without Python frames were seen, by thread.
    library_use: HashMap<ThreadKey, BTreeSet<&'a str>>,
    /// Libraries above Python frames: everybody's.
    everybodys: BTreeSet<&'a str>,
}

impl<'a> NativeCalls<'a> {
    pub(super) fn of(recording: &'a Recording, seen: &[(ThreadKey, StackId)]) -> Self {
        let (below, library_use) = (HashMap::new(), HashMap::new());
        let mut this = Self { recording, below, library_use, everybodys: BTreeSet::new() };
        seen.iter().for_each(|&(thread, stack)| this.learn(thread, stack));
        this
    }

    fn learn(&mut self, thread: ThreadKey, stack: StackId) {
        let (mut python, mut natives) = (Vec::new(), Vec::new());
        for (id, frame) in self.recording.frames_of(stack) {
            match frame.kind {
                FrameKind::Python => {
                    if python.is_empty() {
                        self.everybodys.extend(modules(self.recording, &natives));
                    }
                    python.push(id);
                    natives.clear();
                }
                FrameKind::Native | FrameKind::Inlined => natives.push(id),
                // Where frames are missing, another sample may know more.
                FrameKind::Special => return,
                FrameKind::Range => (),
                FrameKind::Kernel | FrameKind::Gpu => break,
            }
        }
        if python.is_empty() {
            self.library_use.entry(thread).or_default().extend(modules(self.recording, &natives));
        } else if !natives.is_empty() {
            self.below.entry(python).or_default().push(natives);
        }
    }

    /// The native frames below these Python frames in which the worker was asked; none where samples do not
    /// agree.
    pub(super) fn of_worker(&self, worker: ThreadKey, python: &[FrameId]) -> &[FrameId] {
        let (Some(ways), Some(library_use)) = (self.below.get(python), self.library_use.get(&worker)) else {
            return &[];
        };
        let is_home = |module: &str| library_use.contains(module) && !self.everybodys.contains(module);
        let reaches = |way: &&Vec<FrameId>| modules(self.recording, way).any(is_home);
        let ways: Vec<&Vec<FrameId>> = ways.iter().filter(reaches).collect();
        let Some(&longest) = ways.iter().max_by_key(|way| way.len()) else { return &[] };
        // What was innermost ran itself.
        let agreed = ways.iter().fold(longest.len() - 1, |agreed, way| {
            let alike = self.alike(longest, way);
            if alike == way.len() { agreed } else { agreed.min(alike) }
        });
        longest.get(..agreed).unwrap_or_default()
    }

    /// Frames that two ways have in common.
    fn alike(&self, one: &[FrameId], other: &[FrameId]) -> usize {
        one.iter().zip(other).take_while(|(one, other)| self.are_one(**one, **other)).count()
    }

    /// Whether two frames are of one function.
    fn are_one(&self, one: FrameId, other: FrameId) -> bool {
        let function = |id: FrameId| {
            let Frame { name, module, .. } = self.recording.frames.get(id.index())?;
            (!name.is_empty()).then_some((name, module))
        };
        one == other || function(one).is_some_and(|function_of_one| function(other) == Some(function_of_one))
    }
}

/// The libraries of native frames; code that was made at run time is in none.
fn modules<'a>(recording: &'a Recording, frames: &[FrameId]) -> impl Iterator<Item = &'a str> {
    let module = |id: &FrameId| recording.frames.get(id.index()).map(|frame| frame.module.as_str());
    let modules = frames.iter().filter_map(module);
    modules.filter(|module| !module.is_empty() && !module.starts_with('['))
}
