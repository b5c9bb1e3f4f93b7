//! Which stacks are expected to draw the same power: those that execute the same function.
//!
//! A stack's class is its innermost Python function, or where there is none the function of its innermost frame. Frames are places
//! (a line, an address), so places of one function are put together by comparing their function's name, module and first line; the names
//! are compared, never read.

use crate::time::owners::{Owner, OwnerTime};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::FrameKind;
use std::collections::HashMap;

/// Number of a class.
pub(crate) type ClassId = usize;

/// Other processes, but for those that are told apart: one class.
pub(crate) const OTHER_CLASS: ClassId = 0;
/// Time of the target that no sample saw: one class.
const UNSAMPLED_CLASS: ClassId = 1;

/// What has a class of its own.
#[derive(PartialEq, Eq, Hash)]
enum Kind<'a> {
    Function(FrameKind, &'a str, &'a str, u32),
    Background(u32),
}

/// The class of each owner, by the owner's number.
pub(crate) fn classes_of(recording: &Recording, owners: &[OwnerTime]) -> Vec<ClassId> {
    let mut numbers: HashMap<Kind<'_>, ClassId> = HashMap::new();
    let mut number = |kind| {
        let next = numbers.len() + 2;
        *numbers.entry(kind).or_insert(next)
    };
    let class = |owner: &OwnerTime| match owner.owner {
        Owner::Other => OTHER_CLASS,
        Owner::Background(group) => number(Kind::Background(group)),
        Owner::Target(_, None) => UNSAMPLED_CLASS,
        Owner::Target(_, Some(stack)) => {
            // What the compiler put into a function is that function: debug information must not change who draws what.
            let mut frames =
                recording.frames_of(stack).rev().filter(|(_, frame)| frame.kind != FrameKind::Inlined);
            let innermost = frames.next();
            let python =
                innermost.into_iter().chain(frames).find(|(_, frame)| frame.kind == FrameKind::Python);
            let Some((_, frame)) = python.or(innermost) else { return UNSAMPLED_CLASS };
            number(Kind::Function(frame.kind, &frame.module, &frame.name, frame.first_line))
        }
    };
    owners.iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::classes_of;
    use crate::time::owners::{Owner, OwnerTime};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::recording::Recording;
    use energy_trace_model::recording::record::{Frame, FrameKind, Header, StackNode};

    fn frame(kind: FrameKind, name: &str, line: u32) -> Frame {
        let (name, module, file) = (name.to_owned(), "m".to_owned(), String::new());
        Frame { kind, name, module, file, line, first_line: 1, address: u64::from(line) }
    }

    /// A recording with one stack for each list of frames, outermost first.
    fn recording(stacks: &[&[Frame]]) -> (Recording, Vec<StackId>) {
        let header = Header { sample_hz: 99, ..Header::default() };
        let (mut frames, mut nodes, mut leaves) = (vec![], vec![], vec![]);
        for stack in stacks {
            let mut parent = None;
            for frame in *stack {
                nodes.push(StackNode { parent, frame: FrameId::new(u32::try_from(frames.len()).unwrap()) });
                frames.push(frame.clone());
                parent = Some(StackId::new(u32::try_from(nodes.len() - 1).unwrap()));
            }
            leaves.extend(parent);
        }
        let recording = Recording {
            header,
            frames,
            stacks: nodes,
            requests: energy_trace_model::recording::Requests::default(),
            gpu: energy_trace_model::recording::record::GpuWork::default(),
            ..Recording::default()
        };
        (recording, leaves)
    }

    /// Places of one function are one class, whoever called it; under Python the innermost Python function decides.
    #[test]
    fn one_class_a_function() {
        use FrameKind::{Native, Python};
        let (recording, leaves) = recording(&[
            &[frame(Native, "main", 1), frame(Native, "sin", 10)],
            &[frame(Native, "sin", 11)],
            &[frame(Native, "cos", 10)],
            &[frame(Python, "fit", 20), frame(Native, "sin", 10)],
            &[frame(Python, "fit", 21), frame(Native, "cos", 10)],
        ]);
        let owner =
            |stack| OwnerTime { owner: Owner::Target(ThreadKey::new(0), stack), time_ns: 0, samples: 0 };
        let mut owners = vec![OwnerTime { owner: Owner::Other, ..owner(None) }, owner(None)];
        owners.extend(leaves.into_iter().map(|stack| owner(Some(stack))));
        assert_eq!(classes_of(&recording, &owners), [0, 1, 2, 2, 3, 4, 4]);
    }
}
