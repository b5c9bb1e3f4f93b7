//! Names of frames in brackets that stand for no code, or for code whose name is not known.
//!
//! Leaves out those that nobody asks for by name (`[no unwind info]`).

use crate::recording::record::{Frame, FrameKind};

/// Time on a CPU that no sample saw.
pub const UNSAMPLED: &str = "[unsampled]";
/// Whether a frame stands for time that no sample saw.
pub fn is_unsampled(frame: &Frame) -> bool {
    frame.kind == FrameKind::Special && frame.name == UNSAMPLED
}

/// The frame between the one who asked and the one who works.
pub const ON_BEHALF_OF: &str = "[on behalf of]";
/// The same where the call is over, and its worker spins on or still works.
pub const AFTER_THE_CALL: &str = "[on behalf of, after the call]";

/// A Python function whose code object was gone before it was read.
pub const PYTHON_GONE: &str = "[unknown: Python function that is gone]";
/// A Python function of a program that has more names than are kept.
pub const PYTHON_CROWDED_OUT: &str = "[unknown: Python function, too many names]";
/// Whether a frame stands for a Python function without a name.
pub fn is_nameless_python(frame: &Frame) -> bool {
    frame.kind == FrameKind::Special && [PYTHON_GONE, PYTHON_CROWDED_OUT].contains(&&*frame.name)
}
