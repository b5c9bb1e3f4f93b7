//! What two runs are compared in: functions themselves, or Python functions, API calls, lines and their calls with all that they call.
//!
//! Lines move when a file is edited. So a line is the same one on both sides where it is as far from the beginning of its function. Functions
//! of one name that lie in several files of a run are as many parts, called by their files. Leaves out what counts as a change (`diff.rs`).

use super::By;
use super::diff::DiffOptions;
use super::fold::Cost;
use super::own_rows::{Own, is_python_program, own_rows};
use super::rows::{Row, frame_rows, rows};
use super::summary_rows::innermost;
use super::uncertainty::Uncertainties;
use energy_trace_certainty::Uncertainty;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use energy_trace_names::{CALLS, file_name, frame_name, line_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Something of a run that has a counterpart in others.
pub(crate) struct Part {
    /// The same in all runs.
    pub(crate) key: String,
    /// What it is called in this one.
    pub(crate) name: String,
    pub(crate) cost: Cost,
    pub(crate) uncertainty: Option<Uncertainty>,
}

/// What is compared where nobody says: Python functions, where a run is of a Python program. A shorter one may be mostly start-up.
pub fn usual(sides: [&[Profile]; 2]) -> By {
    let is_python =
        |profile: &Profile| is_python_program(&native_frames::folded(profile, NativeFrames::None));
    if sides.into_iter().flatten().any(is_python) { By::Python } else { By::Function }
}

/// Whether a part holds what it calls.
pub(crate) const fn is_inclusive(by: By) -> bool {
    !matches!(by, By::Function)
}

/// The parts of a run.
pub(crate) fn parts(profile: &Profile, options: &DiffOptions<'_>) -> Vec<Part> {
    let profile = &*short_names::chosen(profile, true);
    let python = || native_frames::folded(profile, NativeFrames::None);
    match options.by {
        By::Python => {
            let python = python();
            let rows = frame_rows(&python, &Uncertainties::new(&python), frame_name);
            whole_rows(rows, |row| row.name.clone())
        }
        By::Api => whole_rows(rows(profile, By::Api), |row| row.name.clone()),
        By::Call => {
            let places = Places::of(profile);
            whole_rows(rows(profile, By::Call), |row| places.of_call(row))
        }
        By::Line => {
            let places = Places::of(profile);
            whole_rows(own_rows(&python(), Own::Lines), |row| places.of_line(row))
        }
        _ => {
            let profile = &*native_frames::folded(profile, options.native_frames);
            let rows = innermost(profile, name_and_file).into_iter();
            let part = |row: super::summary_rows::TopRow| Part {
                key: row.name.clone(),
                name: row.name,
                cost: row.cost,
                uncertainty: row.uncertainty,
            };
            rows.map(part).collect()
        }
    }
}

/// Stands between a function's name and its file; no name that is recorded holds it.
const FILE: char = '\0';

/// A function, and the file that it lies in.
fn name_and_file(frame: &Frame) -> String {
    let file = match frame.kind {
        FrameKind::Python => &frame.file,
        FrameKind::Native | FrameKind::Inlined => &frame.module,
        FrameKind::Kernel | FrameKind::Gpu | FrameKind::Special | FrameKind::Range => {
            return frame_name(frame);
        }
    };
    format!("{}{FILE}{}", frame_name(frame).replace(FILE, ""), file_name(file))
}

/// Which functions of one name are told apart by their files: those of names that a run has from several files, each in a file that both sides
/// have. All others of a name are one: a file that was renamed is still the same, and a thousand small ones are not a thousand rows.
#[derive(Default)]
pub(crate) struct ByFile<'a> {
    several: BTreeSet<&'a str>,
    sides: BTreeMap<&'a str, [bool; 2]>,
}

impl<'a> ByFile<'a> {
    /// Takes in the parts of a run of this side, of which those that are large enough are rows. They are sorted: those of one name stand beside
    /// each other.
    pub(crate) fn add(&mut self, side: usize, parts: impl Iterator<Item = (&'a str, bool)>) {
        let mut before = None;
        for (key, is_large) in parts {
            let Some((name, _)) = key.split_once(FILE) else { continue };
            if before.replace(name) == Some(name) {
                self.several.insert(name);
            }
            if is_large {
                self.sides.entry(key).or_default()[side] = true;
            }
        }
    }

    /// What a part is called, in all runs; `None` for one without a file.
    pub(crate) fn named(&self, key: &str) -> Option<String> {
        let (name, file) = key.split_once(FILE)?;
        let is_alone =
            self.several.contains(name) && self.sides.get(key) == Some(&[true; 2]) && !file.is_empty();
        Some(if is_alone { format!("{name}  ({file})") } else { name.to_owned() })
    }
}

/// Rows with all that they call. Marks between who asks and who works hold what others hold.
fn whole_rows(rows: Vec<Row>, key: impl Fn(&Row) -> String) -> Vec<Part> {
    let marks = [SyntheticFrame::OnBehalfOf, SyntheticFrame::OnBehalfOfAfterCall].map(SyntheticFrame::name);
    let rows = rows.into_iter().filter(|row| !marks.contains(&row.name.as_str()));
    let part = |row: Row| Part {
        key: key(&row),
        name: row.name,
        cost: row.spent.total,
        uncertainty: row.uncertainty,
    };
    rows.map(part).collect()
}

/// Where lines are in their functions.
struct Places<'a> {
    by_name: HashMap<String, String>,
    by_line: HashMap<(&'a str, u32), String>,
}

impl<'a> Places<'a> {
    fn of(profile: &'a Profile) -> Self {
        let mut places = Self { by_name: HashMap::new(), by_line: HashMap::new() };
        for frame in profile.frames.iter().filter(|frame| frame.kind == FrameKind::Python) {
            places.by_name.insert(line_name(frame), place(frame));
            places.by_line.entry((&frame.file, frame.line)).or_insert_with(|| place(frame));
        }
        places
    }

    fn of_line(&self, row: &Row) -> String {
        self.by_name.get(&row.name).unwrap_or(&row.name).clone()
    }

    fn of_call(&self, row: &Row) -> String {
        let Some(site) = &row.site else { return row.name.clone() };
        let place = self.by_line.get(&(site.file.as_str(), site.line));
        place.map_or_else(|| row.name.clone(), |place| format!("{place}{CALLS}{}", site.api))
    }
}

/// A function, and how far below its beginning.
fn place(frame: &Frame) -> String {
    let below = frame.line.saturating_sub(frame.first_line);
    format!("{} {} +{below}", frame_name(frame), file_name(&frame.file))
}

/// What a part is called that both sides have: as in the second, with its line in the first where it has moved.
pub(crate) fn name_of_both(a: Option<&str>, b: Option<&str>) -> String {
    match (a, b) {
        (Some(a), Some(b)) if a != b => match line_of(a) {
            Some(line) => format!("{b}  (in A :{line})"),
            None => b.to_owned(),
        },
        (a, b) => b.or(a).unwrap_or_default().to_owned(),
    }
}

/// The number behind the file of a line, or of a line and its call.
fn line_of(name: &str) -> Option<&str> {
    let place = name.split_once(CALLS).map_or(name, |(place, _)| place);
    let (_, line) = place.rsplit_once(':')?;
    line.bytes().all(|byte| byte.is_ascii_digit()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::{ByFile, usual};
    use crate::By;
    use crate::tests::training_runs::measured_training;

    /// A name from several files is as many parts; one that a run has from one file alone is one, wherever that lies; and so are files that one
    /// side alone has, and small ones.
    #[test]
    fn functions_of_several_files() {
        let shown = |a: &[&str], b: &[&str], key: &str| {
            let mut files = ByFile::default();
            for (side, keys) in [a, b].into_iter().enumerate() {
                files.add(side, keys.iter().map(|key| (*key, !key.contains("small"))));
            }
            files.named(key)
        };
        let own = |key| shown(&["main\0old", "work\0old"], &["main\0new", "work\0new"], key);
        assert_eq!((own("work\0old").unwrap(), own("[unsampled]")), ("work".to_owned(), None));
        let both = ["work\0a.so", "work\0b.so", "work\0c-1.so", "work\0small.so"];
        let several =
            |key| shown(&both, &["work\0a.so", "work\0b.so", "work\0c-2.so", "work\0small.so"], key).unwrap();
        assert_eq!([several("work\0a.so"), several("work\0b.so")], ["work  (a.so)", "work  (b.so)"]);
        assert_eq!(["work\0c-1.so", "work\0c-2.so", "work\0small.so"].map(several), ["work"; 3]);
    }

    /// A run that is too short to be mostly Python is held against a longer one by Python functions all the same.
    #[test]
    fn one_python_program_is_enough() {
        let (python, mut short) = (measured_training(), measured_training());
        short.rows.clear();
        let sides = [[python], [short]];
        assert_eq!(usual([&sides[0], &sides[1]]), By::Python);
        assert_eq!(usual([&sides[1], &sides[0]]), By::Python);
        assert_eq!(usual([&sides[1], &sides[1]]), By::Function);
    }
}
