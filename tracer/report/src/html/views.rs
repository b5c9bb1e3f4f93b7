//! What the page's tables are of: for each kind of row its labels, which label each stack has, and how sure a label's energy is.
//!
//! Labels are those of `report --by`. Leaves out energies: the page sums them up for the range that is chosen.

use super::trees::Tree;
use crate::By;
use crate::apart::{self, told_apart};
use crate::call_rows::{Made, made_name, made_path, made_short_name, short_call};
use crate::calls::{CallTable, Step};
use crate::fold::{Interner, Spent, fold};
use crate::functions::{FunctionTable, MISSING};
use crate::inside::{Inside, weight};
use crate::own_rows::{Own, OwnCode, is_python_program};
use crate::ranges::{self, Labels, has_ranges};
use crate::rows::mark;
use crate::uncertainty::Uncertainties;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::shown::shown;
use energy_trace_names::{place_name, process_row_name, shorten, thread_row_name};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Functions with a smaller part of the program's energy have no interval in the page.
const SMALLEST: i64 = 500;

/// What is no row of the program's own code, in its tables.
const NOT_OWN: &str = "[code of packages and of the interpreter]";

/// Longer names lose their middle in the page.
pub(super) const LONGEST: usize = 160;

/// One table. The order of labels in a stack does not matter here, but for the last: so each stack is the set of its labels, those that are
/// in most stacks first, which shares more and counts recursion once.
#[derive(Serialize)]
pub(super) struct View {
    by: &'static str,
    title: &'static str,
    /// Whether those with the most energy in total come first, and not those with the most of their own.
    by_total: bool,
    names: Vec<String>,
    tree: Tree,
    /// The node of each row, and the label that its energy is own energy of.
    nodes: Vec<u32>,
    own: Vec<u32>,
    /// The 95 % interval of labels over the whole run, in microjoules.
    intervals: BTreeMap<usize, [i64; 2]>,
    /// What is doubtful about a label's number over the whole run, in one character, as in the text.
    marks: BTreeMap<usize, &'static str>,
    /// A label that is no row.
    hidden: Option<usize>,
    /// Inside of which other labels one lies, as it stands behind its name.
    inside: BTreeMap<usize, String>,
}

/// All tables, in the order of their tabs.
pub(super) fn views(profile: &Profile) -> Vec<View> {
    let python = native_frames::folded(profile, NativeFrames::None);
    let lines = |profile: &Profile, title| of_frames(profile, (By::Line, title), apart::lines(profile));
    let mut views = Vec::new();
    let is_python = is_python_program(&python);
    if is_python {
        views.push(own(&python, (By::Line, "Lines of this program"), Own::Lines));
    }
    views.extend([api(profile), calls(profile)]);
    if is_python {
        views.push(own(&python, (By::Python, "Functions of this program"), Own::Functions));
    }
    views.push(of_frames(&python, (By::Python, "Python functions"), told_apart(&python, place_name)));
    views.push(functions(profile));
    views.push(lines(if is_python { &python } else { profile }, "Lines"));
    if is_python {
        views.push(lines(profile, "Lines with native code"));
    }
    views.push(of_frames(profile, (By::Library, "Libraries"), apart::libraries(profile)));
    views.extend([threads(profile), processes(profile)]);
    if has_ranges(profile) {
        views.push(ranges(profile));
    }
    views
}

/// The program's own code, with all that it calls.
fn own(python: &Profile, what: (By, &'static str), own: Own) -> View {
    let code = OwnCode::of(python, own);
    let rest = code.names().len();
    let names = || code.names().iter().cloned().chain([NOT_OWN.to_owned()]).collect();
    let path = |row: &ProfileRow, path: &mut Vec<usize>| {
        code.path(row, path);
        if code.is_called(row) {
            path.push(rest);
        }
    };
    let inside = |label: usize, inside: &Inside| code.inside(label, inside);
    let view = view(python, what, path, names, inside);
    let hidden = view.names.iter().position(|name| name == NOT_OWN);
    View { by_total: true, hidden, ..view }
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
    lies_in: impl Fn(usize, &Inside) -> String,
) -> View {
    let mut paths = Vec::with_capacity(profile.rows.len());
    let (mut inside, weight) = (Inside::default(), weight(profile));
    let groups = fold(profile, |row, labels| {
        path(row, labels);
        inside.add(labels, weight(row));
        paths.push(labels.clone());
    });
    // By how many rows have a label, the most first.
    let mut order: Vec<usize> = groups.keys().copied().collect();
    order.order_by_key(|label| std::cmp::Reverse(groups.get(label).map_or(0, |(_, rows)| rows.len())));
    let ranks: HashMap<usize, u32> = (0..).zip(&order).map(|(rank, &label)| (label, rank)).collect();
    let rank = |label: &usize| ranks.get(label).copied().unwrap_or(0);
    let (mut tree, mut nodes, mut own) = (Tree::default(), vec![], vec![]);
    for path in &paths {
        let set: BTreeSet<u32> = path.iter().map(rank).fill_set();
        nodes.push(tree.node(set));
        own.push(path.last().map_or(0, rank));
    }
    let all = names();
    let names = order.iter().map(|&label| all.get(label).map_or_else(String::new, |name| name_shown(name)));
    let inside =
        groups.keys().map(|label| (rank(label) as usize, shown(&lies_in(*label, &inside)).into_owned()));
    let inside = inside.filter(|(_, text)| !text.is_empty()).fill_map();
    let sure = how_sure(profile, groups);
    let intervals = sure
        .iter()
        .filter_map(|(label, (interval, _))| Some((rank(label) as usize, (*interval)?)))
        .fill_map();
    let marks = sure.iter().filter(|(_, (_, mark))| !mark.is_empty());
    let marks = marks.map(|(label, (_, mark))| (rank(label) as usize, *mark)).fill_map();
    let by_total = matches!(by, By::Api | By::Call | By::Range);
    View {
        by: by.name(),
        title,
        by_total,
        names: names.collect(),
        tree,
        nodes,
        own,
        intervals,
        marks,
        hidden: None,
        inside,
    }
}

/// Of labels that lie in nothing, or of which nobody asks.
fn in_nothing(_: usize, _: &Inside) -> String {
    String::new()
}

/// The interval of a label and its mark, the interval of those alone that have enough of the whole for anybody to ask.
type HowSure = (Option<[i64; 2]>, &'static str);

fn how_sure(profile: &Profile, groups: BTreeMap<usize, (Spent, Vec<usize>)>) -> BTreeMap<usize, HowSure> {
    let uncertainties = Uncertainties::new(profile);
    let choice = uncertainties.choice;
    let whole = crate::run::target(profile, choice).as_uj();
    let is_modelled = crate::run::is_modelled(profile, choice);
    let is_known = !is_modelled && !profile.certainty.domains.is_empty();
    let sure = |(label, (spent, rows)): (usize, (Spent, Vec<usize>))| {
        let is_large =
            crate::run::chosen(&spent.total.energy, choice).as_uj().saturating_mul(SMALLEST) >= whole;
        let found = (is_known && is_large).then(|| uncertainties.uncertainty(&spent.total, &rows)).flatten();
        let flags = uncertainties.flags(&spent.total, found.as_ref());
        let interval = found.map(|found| [found.ci95.0.as_uj(), found.ci95.1.as_uj()]);
        (label, (interval, mark(&flags, is_modelled)))
    };
    groups.into_iter().map(sure).fill_map()
}

fn functions(profile: &Profile) -> View {
    let table = FunctionTable::new(profile);
    let names = || (0..).zip(table.behind()).map(|(number, behind)| table.name(number) + &behind).collect();
    view(profile, (By::Function, "Functions"), |row, path| table.path(row, path), names, in_nothing)
}

/// Rows of what each frame is called.
fn of_frames(profile: &Profile, what: (By, &'static str), of_frames: Vec<String>) -> View {
    let mut names = Interner::new();
    let unsampled = names.number(SyntheticFrame::Unsampled.name().to_owned());
    let missing = names.number(MISSING.to_owned());
    let of_frame: Vec<usize> = of_frames.into_iter().map(|name| names.number(name)).collect();
    let path = |row: &ProfileRow, path: &mut Vec<usize>| {
        let Some(stack) = row.stack else { return path.push(unsampled) };
        let frames = profile.frames_of(stack);
        path.extend(frames.map(|(frame, _)| of_frame.get(frame.index()).copied().unwrap_or(missing)));
        if path.is_empty() {
            path.push(missing);
        }
    };
    view(profile, what, path, || names.labels().to_vec(), in_nothing)
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
    let name = |label: usize| {
        table.labels().get(label).map_or_else(String::new, |label| short_call(&label.name).to_owned())
    };
    let inside = |label: usize, inside: &Inside| inside.of(label, name);
    let path = |_: &ProfileRow, path: &mut Vec<usize>| path.extend(paths.next().unwrap_or_default());
    view(profile, (By::Api, "API calls"), path, names, inside)
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
    let inside = |label: usize, inside: &Inside| {
        let beside = made.labels().get(label);
        inside.of(label, |holder| match (made.labels().get(holder), beside) {
            (Some(holder), Some(beside)) => made_short_name(holder, beside, table.labels()),
            _ => String::new(),
        })
    };
    let path = |_: &ProfileRow, path: &mut Vec<usize>| path.extend(paths.next().unwrap_or_default());
    view(profile, (By::Call, "Calls by line"), path, names, inside)
}

fn threads(profile: &Profile) -> View {
    let names = profile.threads.iter().map(|thread| thread_row_name(profile, thread));
    let names = || names.chain([MISSING.to_owned()]).collect();
    let known = profile.threads.len();
    let path = |row: &ProfileRow, path: &mut Vec<usize>| path.push(row.thread.index().min(known));
    view(profile, (By::Thread, "Threads"), path, names, in_nothing)
}

fn processes(profile: &Profile) -> View {
    let names = profile.processes.iter().map(|process| process_row_name(profile, process));
    let names = || names.chain([MISSING.to_owned()]).collect();
    let known = profile.processes.len();
    let of_row =
        |row: &ProfileRow| profile.threads.get(row.thread.index()).map(|thread| thread.process.index());
    let path = |row: &ProfileRow, path: &mut Vec<usize>| path.push(of_row(row).unwrap_or(known).min(known));
    view(profile, (By::Process, "Processes"), path, names, in_nothing)
}

fn ranges(profile: &Profile) -> View {
    let (mut labels, mut paths) = (Labels::new(), Vec::new());
    for row in &profile.rows {
        let mut path = Vec::new();
        ranges::path(profile, row, &mut labels, &mut path);
        paths.push(path);
    }
    let mut paths = paths.into_iter();
    let names = || labels.labels().to_vec();
    let path = |_: &ProfileRow, path: &mut Vec<usize>| path.extend(paths.next().unwrap_or_default());
    view(profile, (By::Range, "Ranges"), path, names, in_nothing)
}
