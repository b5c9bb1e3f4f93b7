//! What the page's tables are of: for each kind of row its labels, which label each stack has, and how sure a label's energy is.
//!
//! Labels are those of `report --by`. Leaves out energies: the page sums them up for the range that is chosen.

use super::trees::Tree;
use crate::By;
use crate::call_rows::{Made, made_name, made_path};
use crate::calls::{CallTable, Step};
use crate::fold::{Interner, Spent, fold};
use crate::functions::{FunctionTable, MISSING};
use crate::names::{library_name, line_name, place_name, process_row_name, shorten, thread_row_name};
use crate::native_frames::{self, NativeFrames};
use crate::shown::shown;
use crate::uncertainty::Uncertainties;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::mark::Mark;
use energy_trace_model::recording::record::Frame;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Functions with a smaller part of the program's energy have no interval in the page.
const SMALLEST: i64 = 500;

/// Longer names lose their middle in the page.
pub(super) const LONGEST: usize = 160;

/// One table. The order of labels in a stack does not matter here, but for the last: so each stack is the set of its labels, those that are
/// in most stacks first, which shares more and counts recursion once.
#[derive(Serialize)]
pub(super) struct View {
    by: &'static str,
    title: &'static str,
    names: Vec<String>,
    tree: Tree,
    /// The node of each row, and the label that its energy is own energy of.
    nodes: Vec<u32>,
    own: Vec<u32>,
    /// The 95 % interval of labels over the whole run, in microjoules.
    intervals: BTreeMap<usize, [i64; 2]>,
}

/// All tables, in the order of their tabs.
pub(super) fn views(profile: &Profile) -> Vec<View> {
    let python = native_frames::folded(profile, NativeFrames::None);
    vec![
        api(profile),
        calls(profile),
        of_frames(&python, (By::Python, "Python functions"), place_name),
        functions(profile),
        of_frames(profile, (By::Line, "Lines"), line_name),
        of_frames(profile, (By::Library, "Libraries"), library_name),
        threads(profile),
        processes(profile),
    ]
}

/// A name as the page shows it.
pub(super) fn name_shown(name: &str) -> String {
    shorten(&shown(name), LONGEST)
}

/// A table of the paths that `path` writes for each row.
fn view(
    profile: &Profile,
    (by, title): (By, &'static str),
    mut path: impl FnMut(&ProfileRow, &mut Vec<usize>),
    names: impl FnOnce() -> Vec<String>,
) -> View {
    let mut paths = Vec::with_capacity(profile.rows.len());
    let groups = fold(profile, |row, labels| {
        path(row, labels);
        paths.push(labels.clone());
    });
    // By how many rows have a label, the most first.
    let mut order: Vec<usize> = groups.keys().copied().collect();
    order.sort_by_key(|label| std::cmp::Reverse(groups.get(label).map_or(0, |(_, rows)| rows.len())));
    let ranks: HashMap<usize, u32> = (0..).zip(&order).map(|(rank, &label)| (label, rank)).collect();
    let rank = |label: &usize| ranks.get(label).copied().unwrap_or(0);
    let (mut tree, mut nodes, mut own) = (Tree::default(), vec![], vec![]);
    for path in &paths {
        let set: BTreeSet<u32> = path.iter().map(rank).collect();
        nodes.push(tree.node(set));
        own.push(path.last().map_or(0, rank));
    }
    let all = names();
    let names = order.iter().map(|&label| all.get(label).map_or_else(String::new, |name| name_shown(name)));
    let intervals = intervals(profile, groups).into_iter();
    let intervals = intervals.map(|(label, interval)| (rank(&label) as usize, interval)).collect();
    View { by: by.name(), title, names: names.collect(), tree, nodes, own, intervals }
}

/// The intervals of labels that have enough of the whole for anybody to ask.
fn intervals(profile: &Profile, groups: BTreeMap<usize, (Spent, Vec<usize>)>) -> BTreeMap<usize, [i64; 2]> {
    let uncertainties = Uncertainties::new(profile);
    let choice = uncertainties.choice;
    let whole = crate::run::target(profile, choice).as_uj();
    if crate::run::is_modelled(profile, choice) || profile.certainty.domains.is_empty() {
        return BTreeMap::new();
    }
    let large = groups.into_iter().filter(|(_, (spent, _))| {
        crate::run::chosen(&spent.total.energy, choice).as_uj().saturating_mul(SMALLEST) >= whole
    });
    let known = large.filter_map(|(label, (spent, rows))| {
        let (low, high) = uncertainties.uncertainty(&spent.total, &rows)?.ci95;
        Some((label, [low.as_uj(), high.as_uj()]))
    });
    known.collect()
}

fn functions(profile: &Profile) -> View {
    let table = FunctionTable::new(profile);
    let names = || (0..table.count()).map(|number| table.name(number)).collect();
    view(profile, (By::Function, "Functions"), |row, path| table.path(row, path), names)
}

/// Rows of what `name` makes of each frame.
fn of_frames(profile: &Profile, what: (By, &'static str), name: impl Fn(&Frame) -> String) -> View {
    let mut names = Interner::new();
    let unsampled = names.number(Mark::Unsampled.name().to_owned());
    let missing = names.number(MISSING.to_owned());
    let of_frame: Vec<usize> = profile.frames.iter().map(|frame| names.number(name(frame))).collect();
    let path = |row: &ProfileRow, path: &mut Vec<usize>| {
        let Some(stack) = row.stack else { return path.push(unsampled) };
        let frames = profile.frames_of(stack);
        path.extend(frames.map(|(frame, _)| of_frame.get(frame.index()).copied().unwrap_or(missing)));
        if path.is_empty() {
            path.push(missing);
        }
    };
    view(profile, what, path, || names.labels().to_vec())
}

fn api(profile: &Profile) -> View {
    let mut table = CallTable::new(profile);
    let mut steps = Vec::new();
    let mut paths = Vec::new();
    for row in &profile.rows {
        table.steps(row, &mut steps);
        paths.push(steps.iter().map(|step: &Step| step.label).collect::<Vec<_>>());
    }
    let mut paths = paths.into_iter();
    let names = || table.labels().iter().map(|label| label.name.clone()).collect();
    view(profile, (By::Api, "API calls"), |_, path| path.extend(paths.next().unwrap_or_default()), names)
}

/// The program's lines and what each called.
fn calls(profile: &Profile) -> View {
    let mut table = CallTable::new(profile);
    let (mut made, mut steps): (Interner<Made>, Vec<Step>) = (Interner::new(), Vec::new());
    let mut paths = Vec::new();
    for row in &profile.rows {
        table.steps(row, &mut steps);
        let mut path = Vec::new();
        made_path(profile, &steps, &mut made, &mut path);
        paths.push(path);
    }
    let mut paths = paths.into_iter();
    let names = || made.labels().iter().map(|made| made_name(made, table.labels())).collect();
    view(profile, (By::Call, "Calls by line"), |_, path| path.extend(paths.next().unwrap_or_default()), names)
}

fn threads(profile: &Profile) -> View {
    let names = profile.threads.iter().map(|thread| thread_row_name(profile, thread));
    let names = || names.chain([MISSING.to_owned()]).collect();
    let known = profile.threads.len();
    let path = |row: &ProfileRow, path: &mut Vec<usize>| path.push(row.thread.index().min(known));
    view(profile, (By::Thread, "Threads"), path, names)
}

fn processes(profile: &Profile) -> View {
    let names = profile.processes.iter().map(|process| process_row_name(profile, process));
    let names = || names.chain([MISSING.to_owned()]).collect();
    let known = profile.processes.len();
    let of_row =
        |row: &ProfileRow| profile.threads.get(row.thread.index()).map(|thread| thread.process.index());
    let path = |row: &ProfileRow, path: &mut Vec<usize>| path.push(of_row(row).unwrap_or(known).min(known));
    view(profile, (By::Process, "Processes"), path, names)
}
