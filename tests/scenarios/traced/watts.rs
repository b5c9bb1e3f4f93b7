//! Watts for the stacks of a recorded program, drawn from stated distributions. Leaves out time (`trace.rs`).

use super::super::worlds::draw::log_normal;
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_tests::random::Random;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Mean power of a stack in watts.
const MEAN: f64 = 14.0;
/// Mean power of a background process.
const BACKGROUND_MEAN: f64 = 10.0;
/// Standard deviations of the logarithm: of a function, of one caller of it, of a call that the user wrote.
const FUNCTION: f64 = 0.5;
const CALLER: f64 = 0.3;
const CALL: f64 = 0.5;

/// What decides about a stack's power; each factor is log-normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its innermost function.
    Leaf,
    /// Its innermost function, and who calls that.
    LeafAndCaller,
    /// The line of Python that is being executed, with all lines that led there; in threads without Python the innermost function.
    Call,
    /// Nothing: all stacks draw the same, so that errors are those of times.
    Even,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Even, Self::Leaf, Self::LeafAndCaller, Self::Call];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "all alike",
            Self::Leaf => "by leaf",
            Self::LeafAndCaller => "by leaf and caller",
            Self::Call => "by Python call",
        }
    }
}

/// The watts of one world.
pub struct Drawn {
    stacks: Vec<f64>,
    seed: u64,
}

impl Drawn {
    /// Draws them for all stacks of a recording.
    pub fn new(recording: &Recording, kind: Kind, seed: u64) -> Self {
        let watts = |stack| {
            let frames: Vec<&Frame> =
                recording.frames_of(StackId::new(stack)).map(|(_, frame)| frame).collect();
            of_frames(&frames, kind, seed)
        };
        Self { stacks: (0..recording.stacks.len() as u32).map(watts).collect(), seed }
    }

    pub fn watts(&self, stack: StackId) -> f64 {
        self.stacks.get(stack.index()).copied().unwrap_or(MEAN)
    }

    pub fn background(&self, key: u32) -> f64 {
        BACKGROUND_MEAN * factor((key, "background"), FUNCTION, self.seed)
    }
}

/// Watts of a stack, outermost frame first.
fn of_frames(frames: &[&Frame], kind: Kind, seed: u64) -> f64 {
    let function = |frame: &&Frame| (frame.kind, frame.module.clone(), frame.name.clone(), frame.first_line);
    let leaf = frames.last().map(function);
    let of_leaf = MEAN * factor(&leaf, FUNCTION, seed);
    match kind {
        Kind::Even => MEAN,
        Kind::Leaf => of_leaf,
        Kind::LeafAndCaller => {
            let caller = frames.iter().rev().map(function).find(|caller| Some(caller) != leaf.as_ref());
            of_leaf * factor((leaf, caller), CALLER, seed)
        }
        Kind::Call => {
            let python = frames.iter().filter(|frame| frame.kind == FrameKind::Python);
            let lines: Vec<_> = python.map(|frame| (function(frame), frame.line)).collect();
            if lines.is_empty() { of_leaf } else { MEAN * factor(lines, CALL, seed) }
        }
    }
}

/// A log-normal factor of mean 1 that belongs to `what`.
fn factor(what: impl Hash, sigma: f64, seed: u64) -> f64 {
    // The same for all runs of one build, which is as long as figures are compared.
    let mut hasher = DefaultHasher::new();
    (what, seed).hash(&mut hasher);
    log_normal(&mut Random(hasher.finish()), 1.0, sigma)
}
