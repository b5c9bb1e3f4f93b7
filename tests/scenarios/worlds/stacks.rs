//! Stacks of a simulated program, from the names of their functions.
//!
//! A function is seen at several places (lines, addresses), as in a real recording: each path has several stacks that differ in the place of
//! the innermost frame, and a caller's place tells which function it calls. Leaves out when they run.

use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};
use std::collections::HashMap;

/// How many places of a path's innermost function samples see.
const PLACES: u32 = 3;

/// The number of a path of functions.
pub type Path = u32;

/// Frames and stacks of a recording, as they are made.
#[derive(Default)]
pub struct Stacks {
    pub frames: Vec<Frame>,
    pub nodes: Vec<StackNode>,
    known_frames: HashMap<Frame, u32>,
    known_nodes: HashMap<StackNode, u32>,
    /// The stacks of each path, by the place of its innermost function.
    pub paths: Vec<Vec<StackId>>,
    known_paths: HashMap<String, Path>,
}

impl Stacks {
    /// The path of these functions, outermost first: `p:train/main n:libtorch.so/gemm` (Python or native, module, name).
    pub fn path(&mut self, text: &str) -> Path {
        if let Some(known) = self.known_paths.get(text) {
            return *known;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut caller = None;
        for pair in words.windows(2) {
            caller = Some(self.node(caller, frame(pair[0], hash(pair[1]) % 40)));
        }
        let innermost = words.last().copied().unwrap_or("n:/nowhere");
        let stacks = (0..PLACES).map(|place| self.node(caller, frame(innermost, 50 + place))).collect();
        self.paths.push(stacks);
        let path = self.paths.len() as Path - 1;
        self.known_paths.insert(text.to_owned(), path);
        path
    }

    /// The stack of a path at one of its places.
    pub fn stack(&self, path: Path, place: u64) -> StackId {
        let stacks = &self.paths[path as usize];
        stacks[place as usize % stacks.len()]
    }

    /// How many paths there are.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    fn node(&mut self, parent: Option<StackId>, frame: Frame) -> StackId {
        let next = self.frames.len() as u32;
        let id = *self.known_frames.entry(frame.clone()).or_insert(next);
        if id == next {
            self.frames.push(frame);
        }
        let node = StackNode { parent, frame: FrameId::new(id) };
        let next = self.nodes.len() as u32;
        let id = *self.known_nodes.entry(node).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        StackId::new(id)
    }
}

/// A function at one of its places.
fn frame(word: &str, place: u32) -> Frame {
    let (kind, rest) = word.split_once(':').unwrap_or(("n", word));
    let (module, name) = rest.rsplit_once('/').unwrap_or(("", rest));
    let python = kind == "p";
    let begin = 1 + hash(rest) % 900;
    Frame {
        kind: if python { FrameKind::Python } else { FrameKind::Native },
        name: name.to_owned(),
        module: module.to_owned(),
        file: if python { format!("{module}.py") } else { String::new() },
        line: if python { begin + place } else { 0 },
        first_line: if python { begin } else { 0 },
        address: if python { 0 } else { u64::from(begin * 4096 + place * 16) },
    }
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
