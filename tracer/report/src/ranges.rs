//! Rows of the ranges that a program marks, each by its path: `step > forward` is `forward` where it is within `step`.
//!
//! Own energy is of the innermost range, total energy of all within it too. In the logical view a worker is in the ranges of whoever asked for
//! its work, and its own are within them. Leaves out how ranges are seen (`tracer/probe`).

use super::fold::{Interner, Spent, fold};
use super::row::Row;
use super::run::chosen;
use super::uncertainty::Uncertainties;
use energy_trace_certainty::Uncertainty;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::ranges::OUTSIDE_OF_RANGES;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_model::units::MicroJoules;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Between a range and one within it.
const WITHIN: &str = " > ";

/// The labels of ranges, by their numbers.
pub(crate) type Labels = Interner<String>;

/// Whether a profile has ranges.
pub(crate) fn has_ranges(profile: &Profile) -> bool {
    profile.frames.iter().any(|frame| frame.kind == FrameKind::Range)
}

/// Writes the labels of the ranges that a row is in, the outermost one first.
pub(crate) fn path(profile: &Profile, row: &ProfileRow, labels: &mut Labels, path: &mut Vec<usize>) {
    let mut whole = String::new();
    for step in steps(profile, row) {
        if !whole.is_empty() {
            whole.push_str(WITHIN);
        }
        whole.push_str(&step);
        path.push(labels.number(whole.clone()));
    }
    if path.is_empty() {
        path.push(labels.number(OUTSIDE_OF_RANGES.to_owned()));
    }
}

/// A row for each path of ranges.
pub(crate) fn range_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let mut labels = Labels::new();
    let groups = fold(profile, |row, labels_of_row| path(profile, row, &mut labels, labels_of_row));
    let row = |(number, spent): (usize, (Spent, Vec<usize>))| {
        Row::new(labels.labels().get(number).cloned().unwrap_or_default(), spent, uncertainties)
    };
    groups.into_iter().map(row).collect()
}

/// What ranges of this name used, wherever they are, or those of this path; `None` where no sample shows one.
pub(crate) fn used(profile: &Profile, typed: &str) -> Option<(MicroJoules, Option<Uncertainty>)> {
    let uncertainties = Uncertainties::new(profile);
    let groups: BTreeMap<(), _> = fold(profile, |row, found| {
        found.extend(is_in(profile, row, typed).then_some(()));
    });
    let (spent, rows) = groups.into_values().next()?;
    let energy = chosen(&spent.total.energy, uncertainties.choice);
    Some((energy, uncertainties.uncertainty(&spent.total, &rows)))
}

/// Whether a row is in such a range.
fn is_in(profile: &Profile, row: &ProfileRow, typed: &str) -> bool {
    let names = steps(profile, row);
    let is_path = (1..=names.len()).any(|depth| names.get(..depth).unwrap_or_default().join(WITHIN) == typed);
    is_path || names.iter().any(|name| *name == typed || without_domain(name) == typed)
}

/// The ranges that a row is in, the outermost one first. One right within another of its name is no step of its own: a function that calls itself
/// would have a row for each depth.
fn steps<'a>(profile: &'a Profile, row: &ProfileRow) -> Vec<Cow<'a, str>> {
    let ranges = row.stack.into_iter().flat_map(|stack| profile.ranges_of(stack));
    let mut steps: Vec<Cow<'_, str>> = ranges.map(|(_, frame)| step(&frame.name)).collect();
    steps.dedup();
    steps
}

/// A range's name as a step of a path: in quotes where it would look like several.
fn step(name: &str) -> Cow<'_, str> {
    let is_path_like = format!(" {name} ").contains(WITHIN);
    if is_path_like { format!("{name:?}").into() } else { name.into() }
}

/// A name without its domain: `read` of `Loader:read`.
fn without_domain(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{has_ranges, range_rows, step, used};
    use crate::By;
    use crate::row::Row;
    use crate::table::{self, TableOptions};
    use crate::uncertainty::Uncertainties;
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::profile::{EnergyByClass, LedgerRow, Profile, ProfileRow};
    use energy_trace_model::recording::ranges::OUTSIDE_OF_RANGES;
    use energy_trace_model::recording::record::{DomainClass, Frame, Quality, StackNode};
    use energy_trace_model::units::MicroJoules;

    /// Stacks of one function: in no range, in `step`, in `step > Loader:read`, in `Loader:read` alone; each with another energy.
    fn profile() -> Profile {
        let node = |parent: Option<u32>, frame| StackNode {
            parent: parent.map(StackId::new),
            frame: FrameId::new(frame),
        };
        let row = |(stack, uj): (u32, i64)| {
            let mut energy = EnergyByClass::default();
            energy[DomainClass::Package] = MicroJoules::from_uj(uj);
            let stack = Some(StackId::new(stack));
            let (thread, by_time) = (ThreadKey::new(0), energy);
            ProfileRow { thread, stack, energy, by_time, time_ns: 10, samples: 1, on_behalf_of: None }
        };
        let mut whole = LedgerRow::empty("package-0".to_owned(), DomainClass::Package, Quality::Measured);
        whole.target = MicroJoules::from_uj(1111);
        Profile {
            frames: vec![Frame::special("f"), Frame::range("step"), Frame::range("Loader:read")],
            stacks: vec![
                node(None, 0),
                node(None, 1),
                node(Some(1), 0),
                node(Some(1), 2),
                node(Some(3), 0),
                node(None, 2),
                node(Some(5), 0),
            ],
            rows: [(0, 1), (2, 10), (4, 100), (6, 1000)].map(row).into(),
            ledger: vec![whole],
            ..Profile::default()
        }
    }

    /// A table without any range says how ranges are recorded, one with ranges does not.
    #[test]
    fn nothing_was_marked() {
        let options = TableOptions { by: By::Range, ..TableOptions::default() };
        let said = |profile: &Profile| {
            let mut out = Vec::new();
            table::write(&mut out, profile, &options).unwrap();
            String::from_utf8(out).unwrap().contains("record --ranges")
        };
        let without = Profile { frames: Vec::new(), stacks: Vec::new(), rows: Vec::new(), ..profile() };
        assert!(said(&without) && !said(&profile()));
    }

    /// Each range has what ran in it and what ran within that, by its path; frames of code do not have ranges among them.
    #[test]
    fn nested() {
        let profile = profile();
        assert!(has_ranges(&profile) && !has_ranges(&Profile::default()));
        let mut rows: Vec<(String, i64, i64)> = range_rows(&profile, &Uncertainties::new(&profile))
            .into_iter()
            .map(|row| {
                let [own, total] =
                    [row.spent.own, row.spent.total].map(|cost| cost.energy[DomainClass::Package].as_uj());
                (row.name, own, total)
            })
            .collect();
        rows.sort();
        let row = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(
            rows,
            [
                row("Loader:read", 1000, 1000),
                row(OUTSIDE_OF_RANGES, 1, 1),
                row("step", 10, 110),
                row("step > Loader:read", 100, 100)
            ]
        );
        let names: Vec<&str> = profile.frames_of(StackId::new(4)).map(|(_, frame)| &*frame.name).collect();
        assert_eq!(names, ["f"]);
    }

    /// A range within itself is one row, which has all levels as its own energy, and once in total.
    #[test]
    fn recursion() {
        let mut profile = profile();
        profile.frames[2] = Frame::range("step");
        let row = |row: Row| {
            (row.name, [row.spent.own, row.spent.total].map(|cost| cost.energy[DomainClass::Package].as_uj()))
        };
        let rows: Vec<_> = range_rows(&profile, &Uncertainties::new(&profile)).into_iter().map(row).collect();
        let all = |name: &str, uj| (name.to_owned(), [uj, uj]);
        assert_eq!(rows, [all(OUTSIDE_OF_RANGES, 1), all("step", 1110)]);
        let uj = |name| used(&profile, name).map(|(energy, _)| energy.as_uj());
        assert_eq!([uj("step"), uj("step > step")], [Some(1110), None]);
    }

    /// A name that holds what stands between two ranges is no path.
    #[test]
    fn a_name_like_a_path() {
        let names = ["a > b", "a >", "> b", ">", "a>b", "\"a\"", "é >  b"].map(step);
        assert_eq!(names, ["\"a > b\"", "\"a >\"", "\"> b\"", "\">\"", "a>b", "\"a\"", "\"é >  b\""]);
        let mut profile = profile();
        profile.frames[2] = Frame::range("step > x");
        let uj = |name| used(&profile, name).map(|(energy, _)| energy.as_uj());
        assert_eq!(
            [uj("step > x"), uj("\"step > x\""), uj("step > \"step > x\"")],
            [None, Some(1100), Some(100)]
        );
    }

    /// A name that a spreadsheet would compute is text in CSV, alone and as the outermost range of a path; one that looks like a path stands in
    /// quotes, which no spreadsheet computes.
    #[test]
    fn formulas() {
        let names = |outer: &str| {
            let (mut profile, mut out) = (profile(), Vec::new());
            profile.frames[1] = Frame::range(outer);
            crate::csv::write_rows(&mut out, &profile, By::Range, crate::Level::All).unwrap();
            let mut lines = csv::Reader::from_reader(&out[..]);
            let mut names: Vec<String> = lines.records().map(|line| line.unwrap()[0].to_owned()).collect();
            names.sort();
            names
        };
        let [inner, outside] = ["Loader:read".to_owned(), OUTSIDE_OF_RANGES.to_owned()];
        for formula in ["=cmd|' /C calc'!A0", " =1+1", "@SUM(1)", "-2+3|x"] {
            let wanted =
                [format!("'{formula}"), format!("'{formula} > Loader:read"), inner.clone(), outside.clone()];
            assert_eq!(names(formula), wanted);
        }
        assert!(names("=a > b").iter().all(|name| !name.starts_with('=')), "{:?}", names("=a > b"));
    }

    /// A name is that of a range anywhere, with or without its domain, or a path.
    #[test]
    fn names() {
        let uj = |name| used(&profile(), name).map(|(energy, _)| energy.as_uj());
        assert_eq!([uj("step"), uj("Loader:read"), uj("read")], [Some(110), Some(1100), Some(1100)]);
        assert_eq!([uj("step > Loader:read"), uj("f"), uj("ste"), uj("")], [Some(100), None, None, None]);
    }
}
