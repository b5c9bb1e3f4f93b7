//! The columns of a study's data sets, one row a run: what every study has, then variables, metrics, classes, temperatures and clocks, calls,
//! what was counted, units of work, facts, notes.
//!
//! Leaves out how they are written (`dataset`).

use crate::data::{Measured, Run, Study, Units};
use crate::sentences;
use energy_trace_export::parquet_file::{Kind, Values};
use energy_trace_model::collections::Fill as _;
use energy_trace_names::shown::shown;
use std::collections::{BTreeMap, BTreeSet};

/// A value of a run.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// A column: its name, what its values are, and one a run, where there is one.
pub(super) struct Column {
    pub(super) head: String,
    pub(super) kind: Kind,
    values: Vec<Option<Entry>>,
}

impl Column {
    /// The value of a row as text; empty where there is none.
    pub(super) fn text(&self, row: usize) -> String {
        match self.values.get(row) {
            Some(Some(Entry::Text(text))) => text.clone(),
            Some(Some(Entry::Whole(number))) => number.to_string(),
            Some(Some(Entry::Real(number))) => number.to_string(),
            _ => String::new(),
        }
    }

    /// All values, as a table has them.
    pub(super) fn values(&self) -> Values<'_> {
        match self.kind {
            Kind::Whole | Kind::Moment => Values::Whole(self.each(|entry| match entry {
                Entry::Whole(number) => Some(*number),
                _ => None,
            })),
            Kind::Real => Values::Real(self.each(|entry| match entry {
                Entry::Real(number) => Some(*number),
                _ => None,
            })),
            Kind::Text | Kind::Texts => Values::Text(self.each(|entry| match entry {
                Entry::Text(text) => Some(text.as_str()),
                _ => None,
            })),
        }
    }

    fn each<'a, T>(&'a self, of: impl Fn(&'a Entry) -> Option<T>) -> Vec<Option<T>> {
        self.values.iter().map(|entry| entry.as_ref().and_then(&of)).collect()
    }
}

/// Where a value of a run stands that not every study has, in the order of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Variable,
    Metric,
    Class,
    /// Temperatures and clocks, whose names are those of their columns.
    Condition,
    Call,
    Count,
    Counted,
    Units,
    UnitJoules,
    Fact,
    Note,
}

impl Family {
    fn head(self, name: &str) -> String {
        let of = match self {
            Self::Variable => "var",
            Self::Metric => "metric",
            Self::Class => "joules",
            Self::Condition => return shown(name).into_owned(),
            Self::Call => "call_joules",
            Self::Count => "calls",
            Self::Counted => "counted_joules",
            Self::Units => "units",
            Self::UnitJoules => "unit_joules",
            Self::Fact => "fact",
            Self::Note => "note",
        };
        format!("{of}:{}", shown(name))
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Variable | Self::Fact | Self::Note => Kind::Text,
            _ => Kind::Real,
        }
    }
}

/// All columns of a study. No two have the same name.
pub(super) fn columns(study: &Study) -> Vec<Column> {
    let mut columns: Vec<Column> = FIXED
        .iter()
        .map(|(head, kind, of)| {
            let values = study.runs.iter().map(|run| of(study, run)).collect();
            Column { head: (*head).to_owned(), kind: *kind, values }
        })
        .collect();
    let rows: Vec<_> = study.runs.iter().map(|run| more(study, run)).collect();
    let keys: BTreeSet<&(Family, String)> = rows.iter().flat_map(BTreeMap::keys).fill_set();
    for key in keys {
        let (family, name) = key;
        let values = rows.iter().map(|row| row.get(key).cloned()).collect();
        columns.push(Column { head: family.head(name), kind: family.kind(), values });
    }
    tell_apart(&mut columns);
    columns
}

/// Names that are the same once what cannot be shown is written out get a number.
fn tell_apart(columns: &mut [Column]) {
    let mut seen = BTreeSet::new();
    for column in columns {
        let name = column.head.clone();
        let mut number = 2;
        while !seen.insert(column.head.clone()) {
            column.head = format!("{name} ({number})");
            number += 1;
        }
    }
}

type Of = fn(&Study, &Run) -> Option<Entry>;

/// Columns of every data set.
const FIXED: [(&str, Kind, Of); 18] = [
    ("run", Kind::Whole, |_, run| i64::try_from(run.number).ok().map(Entry::Whole)),
    ("round", Kind::Whole, |_, run| Some(Entry::Whole(run.round.into()))),
    ("purpose", Kind::Text, |_, run| text(sentences::purpose_word(run.purpose))),
    ("program", Kind::Text, |study, run| text(&study.programs.get(run.program?)?.label)),
    ("group", Kind::Text, |study, run| text(&study.programs.get(run.program?)?.group)),
    ("outcome", Kind::Text, |_, run| text(&sentences::outcome(&run.outcome))),
    ("seconds", Kind::Real, |_, run| measured(run, |of| of.seconds)),
    ("joules", Kind::Real, |_, run| measured(run, |of| of.joules)),
    ("machine_joules", Kind::Real, |_, run| measured(run, |of| of.machine_joules)),
    ("idle_joules", Kind::Real, |_, run| measured(run, |of| of.idle_joules)),
    ("other_joules", Kind::Real, |_, run| measured(run, |of| of.other_joules)),
    ("cpu_seconds", Kind::Real, |_, run| run.measured.as_ref()?.cpu_seconds.map(Entry::Real)),
    ("other_cpu_seconds", Kind::Real, |_, run| run.measured.as_ref()?.other_cpu_seconds.map(Entry::Real)),
    ("meter", Kind::Text, |_, run| text(&run.measured.as_ref()?.meters.join("; "))),
    ("energy", Kind::Text, |_, run| text(sentences::grade_word(run.measured.as_ref()?.grade))),
    ("busy_cpus_before", Kind::Real, |_, run| run.busy_cpus.map(Entry::Real)),
    ("celsius_before", Kind::Real, |_, run| run.celsius.map(Entry::Real)),
    ("stable_before", Kind::Text, |_, run| text(&run.stable?.to_string())),
];

/// Foreign text; an empty one is none.
fn text(text: &str) -> Option<Entry> {
    (!text.is_empty()).then(|| Entry::Text(shown(text).into_owned()))
}

fn measured(run: &Run, of: impl Fn(&Measured) -> f64) -> Option<Entry> {
    run.measured.as_ref().map(|measured| Entry::Real(of(measured)))
}

/// What a run has that not every study has.
fn more(study: &Study, run: &Run) -> BTreeMap<(Family, String), Entry> {
    let mut all = BTreeMap::new();
    let mut texts = |family, of: &BTreeMap<String, String>| {
        let named = of.iter().filter_map(|(name, value)| Some(((family, name.clone()), text(value)?)));
        all.extend(named);
    };
    if let Some(program) = run.program.and_then(|at| study.programs.get(at)) {
        texts(Family::Variable, &program.variables);
    }
    texts(Family::Fact, &run.facts);
    texts(Family::Note, &study.noted);
    let mut numbers = |family, of: &BTreeMap<String, f64>| {
        all.extend(of.iter().map(|(name, value)| ((family, name.clone()), Entry::Real(*value))));
    };
    numbers(Family::Metric, &run.metrics);
    numbers(Family::Count, &run.counts);
    if let Some(of) = &run.measured {
        numbers(Family::Class, &of.by_class);
        numbers(Family::Condition, &of.conditions);
        numbers(Family::Call, &of.calls);
        numbers(Family::Counted, &of.counted);
        numbers(Family::Units, &of.work.iter().map(|(name, of)| (name.clone(), of.done)).collect());
        let joules = |(name, of): (&String, &Units)| Some((name.clone(), of.joules_each?));
        numbers(Family::UnitJoules, &of.work.iter().filter_map(joules).collect());
    }
    all
}
