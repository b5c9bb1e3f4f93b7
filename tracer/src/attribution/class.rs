//! Which stacks are expected to draw the same power: those that execute the same function.
//!
//! A stack's class is its innermost Python function, or where there is none the function of its innermost frame. Frames are places
//! (a line, an address), so places of one function are put together by comparing their function's name, module and first line; the names
//! are compared, never read.

use super::time::{Owner, OwnerTime};
use crate::profile::record::FrameKind;
use crate::profile::recording::Recording;
use std::collections::HashMap;

/// Number of a class.
pub(super) type ClassId = usize;

/// Other processes: one class.
pub(super) const OTHER_CLASS: ClassId = 0;
/// Time of the target that no sample saw: one class.
const UNSAMPLED_CLASS: ClassId = 1;

/// The class of each owner, by the owner's number.
pub(super) fn classes_of(recording: &Recording, owners: &[OwnerTime]) -> Vec<ClassId> {
    let mut numbers: HashMap<(FrameKind, &str, &str, u32), ClassId> = HashMap::new();
    let class = |owner: &OwnerTime| match owner.owner {
        Owner::Other => OTHER_CLASS,
        Owner::Target(_, None) => UNSAMPLED_CLASS,
        Owner::Target(_, Some(stack)) => {
            let mut frames = recording.frames_of(stack).rev();
            let innermost = frames.next();
            let python =
                innermost.into_iter().chain(frames).find(|(_, frame)| frame.kind == FrameKind::Python);
            let Some((_, frame)) = python.or(innermost) else { return UNSAMPLED_CLASS };
            let next = numbers.len() + 2;
            *numbers.entry((frame.kind, &frame.module, &frame.name, frame.first_line)).or_insert(next)
        }
    };
    owners.iter().map(class).collect()
}
