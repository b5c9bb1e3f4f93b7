//! What two runs are compared in: functions themselves, or Python functions, API calls, lines and their calls with all that they call.
//!
//! Lines move when a file is edited. So a line is the same one on both sides where it is as far from the beginning of its function. Functions
//! of one name that lie in several files of a run are as many parts, called by their files; a file that each side has alone is the same one
//! under another name. Leaves out what counts as a change (`diff.rs`).

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

/// What parts with a file are called: by their names alone, where no run has a name from several files.
pub(crate) struct Files {
    /// Of a name that a run has from several files: those that each side has, in all its runs.
    of_name: BTreeMap<String, [BTreeSet<String>; 2]>,
}

impl Files {
    /// Of the keys of all runs of both sides.
    pub(crate) fn of<'a>(runs: [impl Iterator<Item = Vec<&'a str>>; 2]) -> Self {
        let mut of_name: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
        let mut several = BTreeSet::new();
        for (side, keys) in
            runs.into_iter().enumerate().flat_map(|(side, runs)| runs.map(move |keys| (side, keys)))
        {
            let mut before = None;
            // Sorted: those of one name stand beside each other.
            for (name, file) in keys.into_iter().filter_map(|key| key.split_once(FILE)) {
                if before.replace(name) == Some(name) {
                    several.insert(name);
                }
                of_name.entry(name.to_owned()).or_default()[side].insert(file.to_owned());
            }
        }
        of_name.retain(|name, _| several.contains(&**name));
        Self { of_name }
    }

    /// The key and the name of a part of this side; `None` for one without a file.
    pub(crate) fn named(&self, key: &str, side: usize) -> Option<(String, String)> {
        let (name, file) = key.split_once(FILE)?;
        let Some(files) = self.of_name.get(name) else { return Some((name.to_owned(), name.to_owned())) };
        let only = |side: usize| {
            let mut only = files[side].difference(&files[1 - side]);
            only.next().filter(|_| only.next().is_none())
        };
        let other = only(side).filter(|only| *only == file).and_then(|_| only(1 - side));
        let of_both = other.map_or(file, |other| if side == 0 { other } else { file });
        let shown = if file.is_empty() { name.to_owned() } else { format!("{name}  ({file})") };
        Some((format!("{name}{FILE}{of_both}"), shown))
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
    use super::{Files, usual};
    use crate::By;
    use crate::tests::training_runs::measured_training;

    /// A name from several files is as many parts; one that a run has from one file alone is one, wherever that lies; a file that each side has
    /// alone is one under two names.
    #[test]
    fn functions_of_several_files() {
        let files = |a: &'static [&'static str], b: &'static [&'static str]| {
            Files::of([a, b].map(|keys| std::iter::once(keys.to_vec())))
        };
        let same =
            |files: &Files, [a, b]: [&str; 2]| files.named(a, 0).unwrap().0 == files.named(b, 1).unwrap().0;
        let shown = |files: &Files, key| files.named(key, 0).unwrap().1;
        let own = files(&["main\0old", "work\0old"], &["main\0new", "work\0new"]);
        assert!(same(&own, ["work\0old", "work\0new"]) && shown(&own, "work\0old") == "work");
        assert_eq!(own.named("[unsampled]", 1), None);
        let several = files(&["work\0a.so", "work\0b.so", "work\0old"], &["work\0a.so", "work\0new"]);
        assert!(same(&several, ["work\0a.so"; 2]) && shown(&several, "work\0b.so") == "work  (b.so)");
        assert!(!same(&several, ["work\0old", "work\0new"]));
        let renamed = files(&["work\0a.so", "work\0old"], &["work\0a.so", "work\0new"]);
        assert!(same(&renamed, ["work\0old", "work\0new"]) && shown(&renamed, "work\0old") == "work  (old)");
        assert!(!same(&renamed, ["work\0a.so", "work\0new"]));
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
