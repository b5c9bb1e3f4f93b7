//! What is asked of runs: energy and time of whole ones, what programs print, calls, functions.
//!
//! Leaves out what becomes of the numbers (`results`, `sweeps`).

use super::{Measured, Run, Study};
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_names::BEHIND;
use energy_trace_statistics::location::median;
use std::collections::{BTreeMap, BTreeSet};

/// Functions and calls are asked whose largest value is at least one in so many joules.
const CRUMB: f64 = 100.0;

/// What a quantity is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The whole run.
    Run,
    /// One call of what the program counted, on average.
    Counted,
    /// An API call, with what it calls.
    Call,
    /// A function's own energy.
    Function,
}

/// A quantity's value in a run; `None` where the run does not have it.
type Value<'a> = Box<dyn Fn(&Run) -> Option<f64> + 'a>;

pub(super) struct Quantity<'a> {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Empty for a program's own metric.
    pub(super) unit: String,
    pub(super) value: Value<'a>,
}

/// The work of a run: what it printed or was counted of it where that is divided by, else one.
fn work(study: &Study, run: &Run) -> Option<f64> {
    let Some(name) = &study.per else { return Some(1.0) };
    let counted = || Some(run.measured.as_ref()?.work.get(name)?.done);
    run.metrics.get(name).copied().or_else(counted).filter(|work| *work > 0.0)
}

/// `J`, or `J / steps`.
fn unit(study: &Study, of: &str) -> String {
    study.per.as_ref().map_or_else(|| of.to_owned(), |metric| format!("{of} / {metric}"))
}

/// Energy and time of whole runs, and what they print.
pub(super) fn whole_quantities<'a>(study: &'a Study, runs: &[&Run]) -> Vec<Quantity<'a>> {
    let whole = |name: &str, of: &str, value: fn(&Measured) -> Option<f64>| Quantity {
        kind: Kind::Run,
        name: name.to_owned(),
        unit: unit(study, of),
        value: Box::new(move |run| Some(value(run.measured.as_ref()?)? / work(study, run)?)),
    };
    let has_energy = runs.iter().any(|run| run.joules().is_some());
    let mut found = if has_energy {
        vec![
            whole("energy of the program", "J", |of| of.grade.map(|_| of.joules)),
            whole("energy of the machine", "J", |of| of.grade.map(|_| of.machine_joules)),
        ]
    } else {
        Vec::new()
    };
    found.push(whole("time", "s", |of| Some(of.seconds)));
    let measured = runs.iter().filter_map(|run| run.measured.as_ref()).filter(|_| has_energy);
    let classes: BTreeSet<String> = measured.flat_map(|of| of.by_class.keys().cloned()).fill_set();
    let classes = if classes.len() > 1 { classes } else { BTreeSet::new() };
    found.extend(classes.into_iter().map(|class| Quantity {
        kind: Kind::Run,
        name: format!("energy of the program, {class}"),
        unit: unit(study, "J"),
        value: Box::new(move |run| {
            Some(run.measured.as_ref()?.by_class.get(&class).copied()? / work(study, run)?)
        }),
    }));
    found.extend(unit_quantities(runs).filter(|_| has_energy));
    let metrics: BTreeSet<String> = runs.iter().flat_map(|run| run.metrics.keys().cloned()).fill_set();
    found.extend(metrics.into_iter().map(|metric| Quantity {
        kind: Kind::Run,
        name: metric.clone(),
        unit: String::new(),
        value: Box::new(move |run| run.metrics.get(&metric).copied()),
    }));
    found
}

/// Energy of a unit of work, of the time in which units were done.
fn unit_quantities<'a>(runs: &[&Run]) -> impl Iterator<Item = Quantity<'a>> + use<'a> {
    let measured = runs.iter().filter_map(|run| run.measured.as_ref());
    let mut names: BTreeMap<String, bool> = BTreeMap::new();
    for (name, units) in measured.flat_map(|of| &of.work) {
        *names.entry(name.clone()).or_default() |= units.at_least;
    }
    names.into_iter().map(|(name, at_most)| Quantity {
        kind: Kind::Run,
        name: format!("energy per {name}{}", if at_most { ", at most" } else { "" }),
        unit: "J".to_owned(),
        value: Box::new(move |run| {
            run.measured.as_ref()?.work.get(&name)?.joules_each.filter(|_| run.joules().is_some())
        }),
    })
}

/// Energy of one call of what programs counted themselves, in the order of names. A run in which no sample shows it has no value.
pub(super) fn counted_quantities<'a>(runs: &[&Run]) -> Vec<Quantity<'a>> {
    let names: BTreeSet<String> = runs.iter().flat_map(|run| run.counts.keys().cloned()).fill_set();
    let each = names.into_iter().map(|name| Quantity {
        kind: Kind::Counted,
        name: name.clone(),
        unit: "J".to_owned(),
        value: Box::new(move |run| {
            let joules = run.measured.as_ref()?.counted.get(&name)?;
            run.counts.get(&name).filter(|count| **count > 0.0).map(|count| joules / count)
        }),
    });
    each.collect()
}

/// Calls and functions that matter, the largest first. A program that has one in some of its runs has 0 in the others; one that never has it has no
/// value: there is nothing to hold against what others spend in it.
pub(super) fn part_quantities<'a>(study: &'a Study, runs: &[&Run]) -> Vec<Quantity<'a>> {
    let whole =
        median(&runs.iter().filter_map(|run| Some(run.measured.as_ref()?.joules)).collect::<Vec<_>>());
    let of = |kind, parts: Parts| {
        let one = in_one_file(runs, parts);
        let mut found: BTreeMap<String, Part> = BTreeMap::new();
        for run in runs {
            for (name, joules) in run.measured.iter().flat_map(|of| in_all_runs(parts(of), &one)) {
                found.entry(name.to_owned()).or_default().add(run.program, joules);
            }
        }
        let mut named: Vec<(String, Part)> =
            found.into_iter().filter(|(_, part)| part.most * CRUMB >= whole).collect();
        named.order_by(|one, other| other.1.most.total_cmp(&one.1.most));
        named.into_iter().map(move |(name, part)| {
            let (named, one) = (name.clone(), one.clone());
            let value = Box::new(move |run: &Run| {
                let joules = in_all_runs(parts(run.measured.as_ref()?), &one).get(&*named).copied();
                let joules = joules.or_else(|| part.programs.contains(&run.program).then_some(0.0))?;
                Some(joules / work(study, run)?)
            });
            Quantity { kind, name, unit: unit(study, "J"), value }
        })
    };
    of(Kind::Call, |of| &of.calls).chain(of(Kind::Function, |of| &of.functions)).collect()
}

/// Calls or functions of a run.
type Parts = fn(&Measured) -> &BTreeMap<String, f64>;

/// Names that a run has from one file, while another has them from several: there they are one.
fn in_one_file(runs: &[&Run], parts: Parts) -> BTreeSet<String> {
    let names = || runs.iter().filter_map(|run| run.measured.as_ref()).flat_map(|of| parts(of).keys());
    let several: BTreeSet<&str> = names().filter_map(|name| Some(name.rsplit_once(BEHIND)?.0)).fill_set();
    names().filter(|name| several.contains(name.as_str())).cloned().fill_set()
}

/// The parts of a run by names that mean the same in all.
fn in_all_runs<'a>(parts: &'a BTreeMap<String, f64>, one: &BTreeSet<String>) -> BTreeMap<&'a str, f64> {
    let mut found = BTreeMap::new();
    for (name, joules) in parts {
        let short = name.rsplit_once(BEHIND).map(|(name, _)| name).filter(|name| one.contains(*name));
        *found.entry(short.unwrap_or(name)).or_default() += joules;
    }
    found
}

/// What the runs say of one call or function.
#[derive(Default)]
struct Part {
    /// The largest value, in joules.
    most: f64,
    /// Programs with a run that has it.
    programs: BTreeSet<Option<usize>>,
}

impl Part {
    fn add(&mut self, program: Option<usize>, joules: f64) {
        self.most = self.most.max(joules);
        self.programs.insert(program);
    }
}
