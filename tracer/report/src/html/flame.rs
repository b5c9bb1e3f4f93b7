//! The stacks that the page's flame graph draws: frames of one kind and name are one label, as in the SVG.
//!
//! Leaves out energies and the picture, which the page makes.

use super::trees::Tree;
use super::views::name_shown;
use crate::apart::told_apart;
use crate::flame_colors::hue;
use crate::fold::Interner;
use crate::folded::LabelKind;
use crate::functions::MISSING;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::Frame;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::shown::shown;
use energy_trace_names::{file_name, frame_name, part_of};
use serde::Serialize;

/// Labels by their numbers.
type Labels = Interner<(LabelKind, String)>;

/// The tree of stacks, the node of each row, and labels side by side: name, class of colour, and where the first such frame is.
#[derive(Default, Serialize)]
pub(super) struct Flame {
    tree: Tree,
    nodes: Vec<u32>,
    names: Vec<String>,
    kinds: Vec<&'static str>,
    places: Vec<String>,
}

impl Flame {
    pub(super) fn of(profile: &Profile) -> Self {
        let mut flame = Self::default();
        let mut labels = Interner::new();
        let mut of_frame: Vec<Option<u32>> = vec![None; profile.frames.len()];
        let names = told_apart(profile, frame_name);
        let (unsampled, missing) = (SyntheticFrame::Unsampled.frame(), Frame::special(MISSING));
        for row in &profile.rows {
            let path = flame.path(profile, row, ([&unsampled, &missing], &names), &mut of_frame, &mut labels);
            let node = flame.tree.node(path);
            flame.nodes.push(node);
        }
        flame
    }

    fn path(
        &mut self,
        profile: &Profile,
        row: &ProfileRow,
        ([unsampled, missing], names): ([&Frame; 2], &[String]),
        of_frame: &mut [Option<u32>],
        labels: &mut Labels,
    ) -> Vec<u32> {
        let part = part_of(profile, row.on_behalf_of.unwrap_or(row.thread));
        let mut path: Vec<u32> = part.map(|label| self.part(label, labels)).into_iter().collect();
        let holders = path.len();
        let Some(stack) = row.stack else {
            path.push(self.label(unsampled, &unsampled.name, labels));
            return path;
        };
        for (id, frame) in profile.ranges_of(stack).chain(profile.frames_of(stack)) {
            let known = of_frame.get(id.index()).copied().flatten();
            let label = known.unwrap_or_else(|| {
                let name = names.get(id.index()).map_or(MISSING, String::as_str);
                self.label(frame, name, labels)
            });
            of_frame.get_mut(id.index()).into_iter().for_each(|slot| *slot = Some(label));
            path.push(label);
        }
        if path.len() == holders {
            path.push(self.label(missing, &missing.name, labels));
        }
        path
    }

    /// The number of a frame's label, new or old.
    fn label(&mut self, frame: &Frame, name: &str, labels: &mut Labels) -> u32 {
        self.number(LabelKind::Frame(frame.kind), name, || place(frame), labels)
    }

    /// The number of the label of a recording that was merged with others.
    fn part(&mut self, label: &str, labels: &mut Labels) -> u32 {
        self.number(LabelKind::Holder, label, String::new, labels)
    }

    fn number(
        &mut self,
        kind: LabelKind,
        name: &str,
        place: impl Fn() -> String,
        labels: &mut Labels,
    ) -> u32 {
        let number = labels.number((kind, name.to_owned()));
        if number == self.names.len() {
            self.names.push(name_shown(name));
            self.kinds.push(hue(kind).class());
            self.places.push(place());
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// `file.py:12`, or the library.
fn place(frame: &Frame) -> String {
    let place = match (frame.file.is_empty(), frame.line) {
        (true, _) => file_name(&frame.module).to_owned(),
        (false, 0) => file_name(&frame.file).to_owned(),
        (false, line) => format!("{}:{line}", file_name(&frame.file)),
    };
    shown(&place).into_owned()
}
