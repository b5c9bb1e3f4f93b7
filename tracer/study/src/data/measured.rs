//! The numbers of one run, from its profile. Leaves out what programs print of themselves.

use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality, SensorQuantity};
use energy_trace_model::units::MicroJoules;
use energy_trace_names as names;
use energy_trace_names::native_frames;
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_report::apart::by_file;
use energy_trace_report::fold::fold;
use energy_trace_report::summary_rows::innermost;
use energy_trace_report::work::{WorkDone, works};
use energy_trace_report::{By, Kind, rows, run, thermal};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Functions and calls below one in so many joules of the run are left out.
const CRUMB: f64 = 1_000.0;

/// How good joules are, as in a report's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// A counter's.
    Measured,
    /// A counter's, divided.
    Apportioned,
    /// CPU time times a model's watts.
    Estimated,
}

/// The numbers of one run. Energies are in joules and the program's alone unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// From the start of the program to its end.
    pub seconds: f64,
    /// Energy of the program above the idle baseline; what a report leads with.
    pub joules: f64,
    /// The same by class of domain.
    pub by_class: BTreeMap<String, f64>,
    /// What the counters say for the whole machine, idle included.
    pub machine_joules: f64,
    /// The idle baseline.
    pub idle_joules: f64,
    /// Energy of other programs.
    pub other_joules: f64,
    /// How good they are; `None` without energy.
    pub grade: Option<Grade>,
    /// CPU time of the program.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// CPU time of other programs while it ran; filled in by who has the recording.
    #[serde(default)]
    pub other_cpu_seconds: Option<f64>,
    /// Where energy comes from, a source each, with its parameters; filled in by who has the recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<String>,
    /// The interpreters of its processes; likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<String>,
    /// Temperatures in degrees Celsius and clocks in megahertz during the run, by columns of the data set: `celsius_max:cpu-0`.
    #[serde(default)]
    pub conditions: BTreeMap<String, f64>,
    /// API calls, with what they call.
    pub calls: BTreeMap<String, f64>,
    /// Functions, their own energy.
    pub functions: BTreeMap<String, f64>,
    /// Functions and API calls that the program counted, with what they call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted: BTreeMap<String, f64>,
    /// Units of work, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, Units>,
}

/// How many units of work a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// As its counter says.
    pub done: f64,
    /// Joules of one, of the time in which they were done; `None` where nobody knows.
    pub joules_each: Option<f64>,
    /// Whether it may have done more: joules of one are an upper bound then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl Measured {
    /// Those of a profile; with those of functions and API calls of these names.
    pub fn of(profile: &Profile, counted: &BTreeSet<String>) -> Self {
        let choice = run::headline(profile);
        let sum = |of: fn(&energy_trace_model::profile::LedgerRow) -> MicroJoules| {
            run::ledger_of(profile, choice).map(of).sum::<MicroJoules>().as_joules()
        };
        let joules = run::target(profile, choice).as_joules();
        let energy = |energy: &EnergyByClass| run::chosen(energy, choice).as_joules();
        let calls = rows::rows(profile, By::Api).into_iter().filter(|row| row.kind == Some(Kind::Call));
        let calls: Vec<(String, f64)> =
            calls.map(|row| (row.name, energy(&row.spent.total.energy))).collect();
        Self {
            seconds: profile.run.end.ns_since(profile.run.start) as f64 / 1e9,
            joules,
            by_class: by_class(profile),
            machine_joules: sum(|row| row.measured),
            idle_joules: sum(|row| row.idle),
            other_joules: sum(|row| row.other),
            grade: run::split_quality(profile, choice).map(grade),
            cpu_seconds: Some(seconds(profile.rows.iter().map(|row| row.time_ns))),
            other_cpu_seconds: None,
            meters: Vec::new(),
            runtimes: Vec::new(),
            conditions: conditions(profile),
            work: work(profile),
            counted: of_counted(profile, counted, &calls),
            calls: without_crumbs(calls, joules),
            functions: without_crumbs(functions(profile), joules),
        }
    }
}

fn seconds(ns: impl Iterator<Item = u64>) -> f64 {
    ns.fold(0, u64::saturating_add) as f64 / 1e9
}

/// Mean and extreme of each temperature, and the mean of each clock but those of memory.
fn conditions(profile: &Profile) -> BTreeMap<String, f64> {
    let mut columns = BTreeMap::new();
    for gauge in thermal::gauges(profile) {
        let Some(found) = gauge.between(profile.run.start, profile.run.end) else { continue };
        let mut put = |what: &str, value: f64| {
            columns.insert(format!("{what}:{}", gauge.part), (value * 1e3).round() / 1e3)
        };
        match gauge.quantity {
            SensorQuantity::Temperature => {
                put("celsius_mean", found.mean);
                put("celsius_max", found.max);
            }
            SensorQuantity::Clock => {
                put("mhz_mean", found.mean);
            }
            SensorQuantity::MemoryClock | SensorQuantity::Slowdown | SensorQuantity::HeatSlowdowns => (),
        }
    }
    columns
}

const fn grade(quality: Quality) -> Grade {
    match quality {
        Quality::Measured => Grade::Measured,
        Quality::Apportioned => Grade::Apportioned,
        Quality::Estimated => Grade::Estimated,
    }
}

fn by_class(profile: &Profile) -> BTreeMap<String, f64> {
    let seen = |class: &DomainClass| profile.ledger.iter().any(|row| row.class == *class);
    let target = |class| {
        let of_class = profile.ledger.iter().filter(|row| row.class == class);
        of_class.map(|row| row.target).sum::<MicroJoules>().as_joules()
    };
    let classes = DomainClass::ALL.into_iter().filter(seen);
    classes.map(|class| (class.name().to_owned(), target(class))).fill_map()
}

fn functions(profile: &Profile) -> Vec<(String, f64)> {
    let choice = run::headline(profile);
    let profile = &*short_names::chosen(profile, true);
    let profile = &*native_frames::folded(profile, native_frames::NativeFrames::Libraries);
    let rows = innermost(profile, by_file(profile, names::frame_name)).into_iter();
    rows.map(|row| (row.name, run::chosen(&row.cost.energy, choice).as_joules())).collect()
}

fn work(profile: &Profile) -> BTreeMap<String, Units> {
    let choice = run::headline(profile);
    let units = |done: &WorkDone<'_>| {
        let each = done.uj_per_unit(run::chosen(&done.energy, choice));
        let joules_each = each.map(|uj| uj / 1e6);
        Units { done: done.units.as_number(), joules_each, at_least: done.at_least }
    };
    let named = |done: &WorkDone<'_>| (shown(done.name()).into_owned(), units(done));
    works(profile).iter().map(named).fill_map()
}

/// Energy of all stacks with a function of that name, which may stand without its module; else of the API call of that name. What no sample
/// shows is left out: that is not nothing.
fn of_counted(
    profile: &Profile,
    wanted: &BTreeSet<String>,
    calls: &[(String, f64)],
) -> BTreeMap<String, f64> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let choice = run::headline(profile);
    let names: Vec<&String> = wanted.iter().collect();
    let of_frame: Vec<Option<usize>> = profile
        .frames
        .iter()
        .map(|frame| names.iter().position(|name| is_named(&names::frame_name(frame), name)))
        .collect();
    let groups = fold(profile, |row, path| {
        let frames = row.stack.into_iter().flat_map(|stack| profile.frames_of(stack));
        path.extend(frames.filter_map(|(frame, _)| of_frame.get(frame.index()).copied().flatten()));
    });
    let of_functions = groups.into_iter().filter_map(|(at, (spent, _))| {
        Some(((*names.get(at)?).clone(), run::chosen(&spent.total.energy, choice).as_joules()))
    });
    let of_calls = calls.iter().filter(|(name, _)| wanted.contains(name)).cloned();
    of_calls.chain(of_functions).fill_map()
}

/// Whether a function's name is this one, or ends with it behind its module.
fn is_named(function: &str, wanted: &str) -> bool {
    let before = function.strip_suffix(wanted);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.') || before.ends_with("::"))
}

fn without_crumbs(rows: impl IntoIterator<Item = (String, f64)>, whole: f64) -> BTreeMap<String, f64> {
    let mut kept: BTreeMap<String, f64> = BTreeMap::new();
    let rows = rows.into_iter().filter(|(_, joules)| joules.abs() * CRUMB >= whole.abs() && *joules != 0.0);
    rows.for_each(|(name, joules)| *kept.entry(shown(&name).into_owned()).or_default() += joules);
    kept
}
