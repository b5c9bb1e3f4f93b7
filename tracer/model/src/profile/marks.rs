//! Names of frames in brackets that stand for no code.
//!
//! Leaves out those that a recording has itself (`[no unwind info]`).

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
