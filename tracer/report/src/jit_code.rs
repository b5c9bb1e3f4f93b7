//! Time in code that programs made at run time and wrote no names of, where it is much: its functions share one row.
//!
//! Leaves out the sentence, and how such a program is asked for names (`sentences::jit`), and such code below Python functions, whose rows say
//! what ran.

use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_model::recording::synthetic_frame::program_of_jit;
use std::collections::BTreeMap;

/// The least share of the time that is worth a warning: one in so many.
const LEAST: u64 = 20;

/// What the reader should know of functions without names.
pub(crate) fn jit_not_named(profile: &Profile) -> Option<Diagnostic> {
    let (mut times, mut of_ns) = (BTreeMap::<&str, u64>::new(), 0_u64);
    for row in &profile.rows {
        of_ns = of_ns.saturating_add(row.time_ns);
        if let Some(program) = row.stack.and_then(|stack| program_in(profile, stack)) {
            let time = times.entry(program).or_default();
            *time = time.saturating_add(row.time_ns);
        }
    }
    let much = times.into_iter().filter(|(_, ns)| *ns > of_ns / LEAST);
    let mut programs: Vec<(String, u64)> = much.map(|(program, ns)| (program.to_owned(), ns)).collect();
    programs.order_by_key(|(program, ns)| (std::cmp::Reverse(*ns), program.clone()));
    (!programs.is_empty()).then_some(Diagnostic::JitNotNamed { programs, of_ns })
}

/// Whose nameless code is innermost in a stack, that of the kernel aside; `None` below Python functions.
fn program_in(profile: &Profile, stack: StackId) -> Option<&str> {
    let mut user = profile.frames_of(stack).map(|(_, frame)| frame).filter(|f| f.kind != FrameKind::Kernel);
    let program = program_of_jit(user.next_back()?)?;
    (!user.any(|frame| frame.kind == FrameKind::Python)).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::{Diagnostic, Profile, jit_not_named};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::profile::{EnergyByClass, ProfileRow};
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};
    use energy_trace_model::recording::synthetic_frame::SyntheticFrame;

    /// Of 100 s, 60 are in nameless code of node and 10 in the kernel below it; what has a name, stands below Python, or is less than a twentieth
    /// is not told.
    #[test]
    fn much_time_in_nameless_code_is_told() {
        let frame = |kind, name: &str, module: &str| Frame {
            kind,
            name: name.to_owned(),
            module: module.to_owned(),
            ..SyntheticFrame::Unsampled.frame()
        };
        let frames = vec![
            frame(FrameKind::Native, "[jit: node]", "[jit]"),
            frame(FrameKind::Kernel, "read", ""),
            frame(FrameKind::Native, "f", "[jit]"),
            frame(FrameKind::Python, "g", ""),
            frame(FrameKind::Native, "[jit: python3]", "[jit]"),
            frame(FrameKind::Native, "[jit: java]", "[jit]"),
        ];
        let node = |parent: Option<u32>, frame| StackNode {
            parent: parent.map(StackId::new),
            frame: FrameId::new(frame),
        };
        let stacks = vec![
            node(None, 0),
            node(Some(0), 1),
            node(None, 2),
            node(None, 3),
            node(Some(3), 4),
            node(None, 5),
        ];
        let row = |(stack, time_ns)| ProfileRow {
            thread: ThreadKey::new(0),
            stack: Some(StackId::new(stack)),
            energy: EnergyByClass::default(),
            by_time: EnergyByClass::default(),
            time_ns,
            samples: 1,
            on_behalf_of: None,
        };
        let of = |times: [u64; 4]| {
            let rows = [0, 1, 2, 4].into_iter().zip(times).chain([(5, 3)]).map(row).collect();
            jit_not_named(&Profile {
                frames: frames.clone(),
                stacks: stacks.clone(),
                rows,
                ..Profile::default()
            })
        };
        let programs = vec![("node".to_owned(), 70)];
        assert_eq!(of([60, 10, 13, 14]), Some(Diagnostic::JitNotNamed { programs, of_ns: 100 }));
        assert_eq!(of([3, 0, 47, 47]), None);
    }
}
