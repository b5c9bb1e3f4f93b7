//! What two runs are compared in: functions themselves, or Python functions, API calls, lines and their calls with all that they call.
//!
//! Lines move when a file is edited. So a line is the same one on both sides where it is as far from the beginning of its function. Functions
//! of one name that lie in several files of a run, and instances of a template, are as many parts. Leaves out what counts as a change (`diff.rs`).

use super::By;
use super::apart::{self, PathDepths};
use super::diff::DiffOptions;
use super::fold::Cost;
use super::functions::file_of;
use super::missing::read_ns;
use super::own_rows::{Own, is_python_program, own_rows};
use super::row::Row;
use super::rows::{frame_rows, rows};
use super::summary_rows::innermost;
use super::uncertainty::Uncertainties;
use energy_trace_certainty::Uncertainty;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use energy_trace_names::{CALLS, file_name, frame_name};
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
pub(crate) fn parts(profile: &Profile, options: &DiffOptions<'_>, depths: &PathDepths) -> Vec<Part> {
    let short = &*short_names::chosen(profile, true);
    let python = || native_frames::folded(profile, NativeFrames::None);
    match options.by {
        By::Python => {
            let python = python();
            let names = in_files(&python).into_iter().map(|(name, file)| {
                let suffix = depths.suffix(&name, &file, 0);
                name + &suffix
            });
            let rows = frame_rows(&python, &Uncertainties::new(&python), names.collect());
            whole_rows(rows, |row| row.name.clone())
        }
        By::Api => whole_rows(rows(short, By::Api), |row| row.name.clone()),
        By::Call => {
            let places = Places::of(profile, depths);
            whole_rows(rows(short, By::Call), |row| places.of_call(row))
        }
        By::Line => {
            let places = Places::of(profile, depths);
            whole_rows(own_rows(&python(), Own::Lines), |row| places.of_line(row))
        }
        _ => {
            let profile = &*native_frames::folded(profile, options.native_frames);
            let rows = innermost(profile, keys(profile, depths)).into_iter();
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

/// Stands between what a function is called: its name without templates' arguments, with them, and with its file; no name that is recorded
/// holds it.
const OR: char = '\0';

/// How much of a file's path tells functions of one name apart: the same in all runs, whatever else samples of one of them show.
pub(crate) fn path_depths(sides: [&[Profile]; 2]) -> PathDepths {
    let mut depths = PathDepths::default();
    sides.into_iter().flatten().for_each(|profile| depths.add(&in_files(profile)));
    depths
}

/// Each frame's function and its file. Lines are no part of it: they move.
fn in_files(profile: &Profile) -> Vec<(String, String)> {
    profile.frames.iter().map(|frame| (without_marks(frame), file_of(frame).to_owned())).collect()
}

/// A name in which nothing stands between names.
fn without_marks(frame: &Frame) -> String {
    frame_name(frame).replace(OR, "")
}

/// What the functions of a profile's frames are called, the shortest name first.
pub(crate) fn keys(profile: &Profile, depths: &PathDepths) -> Vec<String> {
    let short = short_names::chosen(profile, true);
    let key = |(short, (full, file)): (&Frame, (String, String))| {
        format!("{}{OR}{full}{OR}{full}{}", without_marks(short), depths.suffix(&full, &file, 1))
    };
    short.frames.iter().zip(in_files(profile)).map(key).collect()
}

/// What the function of a key is called where these are the names of all.
pub(crate) fn called<'a>(key: &'a str, names: &'a BTreeSet<&str>) -> &'a str {
    let rest = |name: &str| names.get(&*format!("{name}{OTHER_FILES}")).copied();
    let known = key.rsplit(OR).find_map(|name| names.get(name).copied().or_else(|| rest(name)));
    known.or_else(|| key.split(OR).next()).unwrap_or(key)
}

/// Stands behind the name of functions that are not told apart, where others of that name are.
pub(crate) const OTHER_FILES: &str = "  (other files)";

/// Which functions are told apart by the longest names of their keys: those of which a run has several that differ in nothing else, each of them
/// on both sides. All others are one: a file that was renamed is still the same, and a thousand small ones are not a thousand rows.
#[derive(Default)]
pub(crate) struct LongestNames<'a> {
    several: BTreeSet<&'a str>,
    sides: BTreeMap<&'a str, [bool; 2]>,
}

impl<'a> LongestNames<'a> {
    /// Takes in the parts of a run of this side, of which those that are large enough are rows. They are sorted: those of one name stand beside
    /// each other.
    pub(crate) fn add(&mut self, side: usize, parts: impl Iterator<Item = (&'a str, bool)>) {
        let mut before = None;
        for (key, is_large) in parts {
            let Some((name, _)) = key.rsplit_once(OR) else { continue };
            if before.replace(name) == Some(name) {
                self.several.insert(name);
            }
            if is_large {
                self.sides.entry(key).or_default()[side] = true;
            }
        }
    }

    /// A key with one name less, in all runs; `None` for one that has no other.
    pub(crate) fn with_one_less(&self, key: &str) -> Option<String> {
        let (shorter, name) = key.rsplit_once(OR)?;
        if !self.several.contains(shorter) || self.sides.get(key) != Some(&[true; 2]) {
            return Some(shorter.to_owned());
        }
        let shortest = shorter.rsplit_once(OR).map(|(shortest, _)| format!("{shortest}{OR}"));
        Some(shortest.unwrap_or_default() + name)
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
    fn of(profile: &'a Profile, depths: &PathDepths) -> Self {
        let mut places = Self { by_name: HashMap::new(), by_line: HashMap::new() };
        let frames = profile.frames.iter().zip(apart::lines(profile));
        for (frame, name) in frames.filter(|(frame, _)| frame.kind == FrameKind::Python) {
            let suffix = depths.suffix(&without_marks(frame), file_of(frame), 0);
            let place = place(frame) + &suffix;
            places.by_line.entry((&frame.file, frame.line)).or_insert_with(|| place.clone());
            places.by_name.insert(name, place);
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

/// Whether both are of one recording, whatever its files are called, and wherever a copy of it ends.
pub fn is_same_recording(one: &Profile, other: &Profile) -> bool {
    let is_cut = [one, other].into_iter().any(|of| read_ns(of).is_some());
    let is_whole = one.run == other.run && one.ledger == other.ledger;
    // It began at the same nanosecond.
    is_whole || (is_cut && one.run.header == other.run.header)
}

#[cfg(test)]
mod tests {
    use super::{LongestNames, usual};
    use crate::By;
    use crate::tests::training_runs::measured_training;

    /// A name from several files is as many parts; one that a run has from one file alone is one, wherever that lies; and so are files that one
    /// side alone has, and small ones. Of instances of a template the same holds, with the short name for the rest.
    #[test]
    fn functions_of_several_files() {
        let shown = |a: &[&str], b: &[&str], key: &str| {
            let mut longest = LongestNames::default();
            for (side, keys) in [a, b].into_iter().enumerate() {
                longest.add(side, keys.iter().map(|key| (*key, !key.contains("small"))));
            }
            longest.with_one_less(key)
        };
        let own = |key| shown(&["main\0old", "work\0old"], &["main\0new", "work\0new"], key);
        assert_eq!((own("work\0old").unwrap(), own("[unsampled]")), ("work".to_owned(), None));
        let both = ["f\0work\0a.so", "f\0work\0b.so", "f\0work\0c-1.so", "f\0work\0small.so"];
        let other = ["f\0work\0a.so", "f\0work\0b.so", "f\0work\0c-2.so", "f\0work\0small.so"];
        let several = |key: &str| shown(&both, &other, &format!("f\0work\0{key}")).unwrap();
        assert_eq!([several("a.so"), several("b.so")], ["f\0a.so", "f\0b.so"]);
        assert_eq!(["c-1.so", "c-2.so", "small.so"].map(several), ["f\0work"; 3]);
        let instances = |key| shown(&["f<…>\0f<1>"], &["f<…>\0f<1>", "f<…>\0f<2>"], key).unwrap();
        assert_eq!(["f<…>\0f<1>", "f<…>\0f<2>"].map(instances), ["f<1>", "f<…>"]);
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
