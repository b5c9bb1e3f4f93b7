//! The rows of API calls: each call once, the outermost or innermost of each stack, the tree of calls, or calls by the program's line.
//!
//! Every unit of energy is own energy of exactly one row, whatever the level. Leaves out which calls a stack has (`calls`).

use super::calls::{CallTable, Kind, Label, Step};
use super::fold::{Interner, fold};
use super::inside::{Inside, weight};
use super::row::{CallSite, Row};
use super::uncertainty::Uncertainties;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Frame;
use energy_trace_names::{CALLS, file_name};

/// Stands for a row that a damaged recording lacks.
static MISSING_ROW: Label = Label { name: String::new(), kind: Kind::Rest, without_name: None };

/// Which of the calls on a stack are rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// Every call: own energy to the innermost of a stack, total energy to each.
    #[default]
    All,
    /// The outermost of each stack: what the program called.
    Outer,
    /// The innermost of each stack.
    Inner,
    /// Every call below its caller.
    Tree,
}

impl Level {
    /// Its word in JSON, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Outer => "outer",
            Self::Inner => "inner",
            Self::Tree => "tree",
        }
    }
}

/// Rows of calls.
pub(crate) fn api_rows(profile: &Profile, level: Level, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let mut table = CallTable::new(profile);
    if level == Level::Tree {
        return tree_rows(profile, table, uncertainties);
    }
    let (mut steps, mut inside, weight) = (Vec::new(), Inside::default(), weight(profile));
    let groups = fold(profile, |row, path| {
        table.steps(row, &mut steps);
        let mut labels = steps.iter().map(|step| step.label);
        match level {
            Level::Outer => path.extend(labels.take(1)),
            Level::Inner => path.extend(labels.next_back()),
            Level::All | Level::Tree => path.extend(labels),
        }
        inside.add(path, weight(row));
    });
    let label = |number: usize| table.labels().get(number).unwrap_or(&MISSING_ROW);
    let row = |(number, spent): (usize, _)| {
        let Label { name, kind, .. } = label(number).clone();
        let inside = inside.of(number, |holder| short_call(&label(holder).name).to_owned());
        Row { kind: Some(kind), inside, ..Row::new(name, spent, uncertainties) }
    };
    groups.into_iter().map(row).collect()
}

/// A call behind another row's name: `Module.__call__`.
pub(crate) fn short_call(name: &str) -> &str {
    let dot = name.rmatch_indices('.').nth(1);
    dot.and_then(|(at, _)| name.get(at + 1..)).unwrap_or(name)
}

/// A row a path of calls, each below its caller.
fn tree_rows(profile: &Profile, mut table: CallTable<'_>, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let (mut paths, mut steps): (Interner<Vec<usize>>, Vec<Step>) = (Interner::new(), Vec::new());
    let groups = fold(profile, |row, path| {
        table.steps(row, &mut steps);
        let labels: Vec<usize> = steps.iter().map(|step| step.label).collect();
        path.extend(
            (1..=labels.len()).map(|length| paths.number(labels.get(..length).unwrap_or_default().to_vec())),
        );
    });
    let label = |number: &usize| table.labels().get(*number).unwrap_or(&MISSING_ROW);
    let row = |(number, spent): (usize, _)| {
        let path = paths.labels().get(number).map(Vec::as_slice).unwrap_or_default();
        let (last, above) =
            path.split_last().map_or((&MISSING_ROW, path), |(last, above)| (label(last), above));
        let callers = above.iter().rev().map(|number| label(number).name.clone()).collect();
        Row { kind: Some(last.kind), callers, ..Row::new(last.name.clone(), spent, uncertainties) }
    };
    groups.into_iter().map(row).collect()
}

/// What a row by call stands for: where the call was made (file and line), and what was called.
pub type Made = (String, u32, usize);

/// Rows of the program's lines and what each called: the calls that packages make on their own are part of the program's.
pub(crate) fn site_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let mut table = CallTable::new(profile);
    let (mut made, mut steps): (Interner<Made>, Vec<Step>) = (Interner::new(), Vec::new());
    let (mut inside, weight) = (Inside::default(), weight(profile));
    let groups = fold(profile, |row, path| {
        table.steps(row, &mut steps);
        made_path(profile, &steps, &mut made, path);
        inside.add(path, weight(row));
    });
    let missing = (String::new(), 0, usize::MAX);
    let made = |number: usize| made.labels().get(number).unwrap_or(&missing);
    let label = |number: usize| table.labels().get(number).unwrap_or(&MISSING_ROW);
    let row = |(number, spent): (usize, _)| {
        let (file, line, call) = made(number);
        let short = |holder: usize| made_short_name(made(holder), made(number), table.labels());
        let row = Row::new(label(*call).name.clone(), spent, uncertainties);
        site_row(file, *line, label(*call), Row { inside: inside.of(number, short), ..row })
    };
    groups.into_iter().map(row).collect()
}

/// The rows by call that a stack is part of: the calls of the program on it, or what it is where there are none.
pub fn made_path(profile: &Profile, steps: &[Step], made: &mut Interner<Made>, path: &mut Vec<usize>) {
    let by_program = steps.iter().filter(|step| step.caller.is_some());
    path.extend(by_program.map(|step| made.number(made_of(profile, step))));
    if path.is_empty() {
        path.extend(steps.first().map(|step| made.number(made_of(profile, step))));
    }
}

/// What an entry of a stack is as a row by call.
pub(crate) fn made_of(profile: &Profile, step: &Step) -> Made {
    let caller: Option<&Frame> = step.caller.and_then(|frame| profile.frames.get(frame.index()));
    caller.map_or((String::new(), 0, step.label), |frame| (frame.file.clone(), frame.line, step.label))
}

/// The name of a row by call.
pub(crate) fn made_name((file, line, label): &Made, labels: &[Label]) -> String {
    let label = labels.get(*label).unwrap_or(&MISSING_ROW);
    if file.is_empty() { label.name.clone() } else { site_name(file, *line, label) }
}

/// The same behind another row's name: its line, with the file where that is another one.
pub(crate) fn made_short_name((file, line, label): &Made, beside: &Made, labels: &[Label]) -> String {
    match file {
        file if file.is_empty() => labels.get(*label).unwrap_or(&MISSING_ROW).name.clone(),
        file if *file == beside.0 => format!(":{line}"),
        file => format!("{}:{line}", file_name(file)),
    }
}

fn site_name(file: &str, line: u32, label: &Label) -> String {
    format!("{}:{line}{CALLS}{}", file_name(file), label.name)
}

fn site_row(file: &str, line: u32, label: &Label, row: Row) -> Row {
    if file.is_empty() {
        return Row { kind: Some(label.kind), ..row };
    }
    let name = site_name(file, line, label);
    let site = Some(CallSite { file: file.to_owned(), line, api: label.name.clone() });
    Row { kind: Some(label.kind), name, site, special: label.kind != Kind::Call, ..row }
}

/// Puts the rows of a tree in order: below each its own, those with the most energy first.
pub(crate) fn in_tree_order(rows: Vec<Row>, energy: impl Fn(&Row) -> i64) -> Vec<Row> {
    let path = |row: &Row| -> Vec<String> { row.callers.iter().rev().chain([&row.name]).cloned().collect() };
    let weights: std::collections::HashMap<Vec<String>, i64> =
        rows.iter().map(|row| (path(row), energy(row))).collect();
    let mut rows = rows;
    rows.order_by_cached_key(|row| {
        let path = path(row);
        let key = (1..=path.len()).map(|length| {
            let above = path.get(..length).unwrap_or_default();
            (std::cmp::Reverse(weights.get(above).copied().unwrap_or(0)), above.last().cloned())
        });
        key.collect::<Vec<_>>()
    });
    rows
}
