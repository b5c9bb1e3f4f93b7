//! What code without unwind information costs, by the library that it is in: there callers are missing, or guessed.
//!
//! Leaves out why it has none, and stacks that end early for other reasons.

use super::{DomainChoice, run};
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Frame;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Energy of stacks in which the mark stands, by the file of the function that it stands before; the most first.
pub(crate) fn by_library(profile: &Profile, choice: DomainChoice) -> Vec<(String, MicroJoules)> {
    let mut sums = BTreeMap::<String, MicroJoules>::new();
    for row in &profile.rows {
        if let Some(library) = row.stack.and_then(|stack| library_of(profile, stack)) {
            *sums.entry(library).or_default() += run::chosen(&row.energy, choice);
        }
    }
    let mut sums: Vec<(String, MicroJoules)> = sums.into_iter().collect();
    sums.order_by_key(|(library, energy)| (std::cmp::Reverse(*energy), library.clone()));
    sums
}

/// The file of the function before which the mark stands, the innermost where there are several; `None` where none stands.
fn library_of(profile: &Profile, stack: StackId) -> Option<String> {
    let mut inner: Option<&Frame> = None;
    for (_, frame) in profile.frames_of(stack).rev() {
        if SyntheticFrame::NoUnwindInfo.is(frame) {
            return Some(inner.map_or_else(|| frame.name.clone(), name_of));
        }
        inner = Some(frame);
    }
    None
}

/// A file's own name; code that was made at run time has none, and is called as its rows are.
fn name_of(frame: &Frame) -> String {
    match frame.module.rsplit('/').next() {
        Some(file) if !file.is_empty() => file.to_owned(),
        _ => frame.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{DomainChoice, MicroJoules, Profile, by_library};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::profile::{EnergyByClass, ProfileRow};
    use energy_trace_model::recording::record::{DomainClass, Frame, FrameKind, StackNode};
    use energy_trace_model::recording::synthetic_frame::SyntheticFrame;

    /// Of stacks `main; [no unwind info]; kernel`, `main; kernel` and `[no unwind info]`, those with the mark are counted: to the kernel's
    /// library, and to nobody.
    #[test]
    fn the_function_behind_the_mark_pays() {
        let native = |name: &str, module: &str| Frame {
            module: module.to_owned(),
            ..Frame { kind: FrameKind::Native, name: name.to_owned(), ..SyntheticFrame::NoUnwindInfo.frame() }
        };
        let frames = vec![
            native("main", "/bin/app"),
            SyntheticFrame::NoUnwindInfo.frame(),
            native("kernel", "/usr/lib/libblis.so.4"),
        ];
        let node = |parent: Option<u32>, frame| StackNode {
            parent: parent.map(StackId::new),
            frame: FrameId::new(frame),
        };
        let stacks = vec![node(None, 0), node(Some(0), 1), node(Some(1), 2), node(Some(0), 2), node(None, 1)];
        let row = |stack, uj| {
            let mut energy = EnergyByClass::default();
            energy[DomainClass::Package] = MicroJoules::from_uj(uj);
            ProfileRow {
                thread: ThreadKey::new(0),
                stack: Some(StackId::new(stack)),
                energy,
                by_time: energy,
                time_ns: 1,
                samples: 1,
                on_behalf_of: None,
            }
        };
        let rows = vec![row(2, 5), row(3, 70), row(4, 1), row(2, 3)];
        let profile = Profile { frames, stacks, rows, ..Profile::default() };
        let found = by_library(&profile, DomainChoice::Total);
        let found: Vec<(&str, i64)> =
            found.iter().map(|(library, energy)| (library.as_str(), energy.as_uj())).collect();
        assert_eq!(found, [("libblis.so.4", 8), ("[no unwind info]", 1)]);
    }
}
