//! How a study was made, as a paragraph for a paper, and whether the machine's load changed what it found.
//!
//! Leaves out what it found (`study.rs`).

use crate::data::{Grade, Measured, Program, Run, Study};
use energy_trace_model::collections::Fill as _;
use energy_trace_statistics::location::median;
use std::collections::BTreeMap;

/// Facts of the machine, which have their own place in the paragraph.
const OF_MACHINE: [&str; 4] = ["cpu", "kernel", "energy_trace", "git_commit"];
/// CPUs that others keep busy while a program runs, from which on it is said.
const BUSY: f64 = 0.1;
/// By so much the power of runs of one program differs before it is said.
const UNEVEN: f64 = 1.15;

/// Rounds, rests, machine, versions, meter and statistics of a study.
pub(crate) fn methods(study: &Study) -> String {
    let sentences = [design(study), machine(study), software(study), meter(study), noted(study)];
    let sentences = sentences.into_iter().flatten().chain([STATISTICS.to_owned()]);
    sentences.collect::<Vec<_>>().join(" ")
}

const STATISTICS: &str = "Shown are medians with half of the interquartile range; ratios of medians have percentile bootstrap intervals \
    over rounds; programs are compared by Wilcoxon's signed-rank test over rounds, with Holm's correction for all pairs of programs, of \
    calls and functions for all of these together; effects are Vargha and Delaney's Â12.";

fn design(study: &Study) -> Option<String> {
    let design = &study.design;
    let rounds = match study.rounds {
        1 => "in one round".to_owned(),
        rounds => format!(
            "once in each of {rounds} rounds, in random order, each second round in the reverse order of the one before it"
        ),
    };
    let warm_ups = match design.warm_ups {
        0 => "no run to warm up".to_owned(),
        1 => "one run of each before, which does not count".to_owned(),
        runs => format!("{runs} runs of each before, which do not count"),
    };
    let rest = if design.rest_s > 0.0 {
        format!("; {} s of rest before each run", design.rest_s)
    } else {
        "; no rest before runs".to_owned()
    };
    let stable = design
        .stable
        .map(|part| format!(", until power was the same within {} %", (part * 1000.0).round() / 10.0));
    let programs = study.programs.len();
    Some(format!(
        "{programs} programs ran {rounds} (seed {}); {warm_ups}{rest}{}.",
        study.seed,
        stable.unwrap_or_default()
    ))
}

fn counted(study: &Study) -> impl Iterator<Item = &Run> {
    study.runs.iter().filter(|run| run.counts())
}

fn measured(study: &Study) -> impl Iterator<Item = &Measured> {
    counted(study).filter_map(|run| run.measured.as_ref())
}

/// Each text once, in the order in which they came.
fn each(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

fn machine(study: &Study) -> Option<String> {
    let fact = |name: &str| each(counted(study).filter_map(|run| run.facts.get(name).cloned())).join(" and ");
    let (cpu, kernel, version) = (fact("cpu"), fact("kernel"), fact("energy_trace"));
    let kernel = (!kernel.is_empty()).then(|| format!("Linux {kernel}"));
    let version = (!version.is_empty()).then(|| format!("energy-trace {version}"));
    let parts: Vec<String> =
        [Some(cpu).filter(|cpu| !cpu.is_empty()), kernel, version].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("The machine: {}.", parts.join(", ")))
}

/// Interpreters, and what programs printed of themselves: once where it is the same of all.
fn software(study: &Study) -> Option<String> {
    let mut facts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let of_program = |at: usize| counted(study).filter(move |run| run.program == Some(at));
    for at in 0..study.programs.len() {
        let interpreters =
            of_program(at).filter_map(|run| run.measured.as_ref()).flat_map(|of| of.runtimes.clone());
        facts.entry("interpreter").or_default().push(each(interpreters).join(", "));
        let names: Vec<&String> = counted(study).flat_map(|run| run.facts.keys()).collect();
        for name in names.into_iter().fill_set() {
            if !OF_MACHINE.contains(&name.as_str()) || name == "git_commit" {
                let values = each(of_program(at).filter_map(|run| run.facts.get(name).cloned()));
                facts.entry(name).or_default().push(values.join(", "));
            }
        }
    }
    let said: Vec<String> =
        facts.into_iter().filter_map(|(name, values)| fact(study, name, &values)).collect();
    (!said.is_empty()).then(|| format!("Versions: {}.", said.join("; ")))
}

fn fact(study: &Study, name: &str, values: &[String]) -> Option<String> {
    let each =
        || values.iter().map(String::as_str).zip(&study.programs).filter(|(value, _)| !value.is_empty());
    let (first, _) = each().next()?;
    if values.iter().all(|value| value == first) {
        return Some(format!("{name} {first}"));
    }
    let side =
        |program: &Program| study.compared.as_ref().and_then(|name| program.variables.get(name).cloned());
    // What is compared decides it, mostly.
    let decides = each().all(|(value, one)| each().all(|(of, two)| side(one) != side(two) || value == of));
    let named = |of: &Program| side(of).filter(|_| decides).unwrap_or_else(|| of.label.clone());
    let said: Vec<String> = of_values(each().map(|(value, of)| (value, named(of))))
        .iter()
        .map(|(value, names)| format!("{value} ({})", listed(names)))
        .collect();
    Some(format!("{name} {}", said.join(", ")))
}

/// The names that have each value, each once.
fn of_values<'a>(each: impl Iterator<Item = (&'a str, String)>) -> Vec<(&'a str, Vec<String>)> {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    for (value, name) in each {
        match all.iter_mut().find(|(of, _)| *of == value) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => all.push((value, vec![name])),
        }
    }
    all
}

/// Names, of which some may hold commas.
fn listed(names: &[String]) -> String {
    let between = if names.iter().any(|name| name.contains(',')) { "; " } else { ", " };
    names.join(between)
}

fn meter(study: &Study) -> Option<String> {
    let meters = each(measured(study).flat_map(|of| of.meters.clone())).join("; ");
    let grade = measured(study).filter_map(|of| of.grade).max()?;
    let what = match grade {
        Grade::Estimated => "Energy is estimated, as CPU time times a model's watts",
        Grade::Measured | Grade::Apportioned => {
            "Energy is that of counters, divided among programs by energy-trace"
        }
    };
    let from = if meters.is_empty() { String::new() } else { format!(": {meters}") };
    let options = study.design.record.join(" ");
    let options =
        if options.is_empty() { String::new() } else { format!(" Runs were recorded with {options}.") };
    Some(format!("{what}{from}; it is the program's, above the machine's idle power.{options}"))
}

fn noted(study: &Study) -> Option<String> {
    let notes: Vec<String> = study.noted.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    (!notes.is_empty()).then(|| format!("{}.", notes.join("; ")))
}

/// Programs whose power differs from run to run while others kept CPUs busy: they waited for them. One sentence, however many they are.
pub(crate) fn load(study: &Study) -> Option<String> {
    let loads: Vec<Load<'_>> = (0..study.programs.len()).filter_map(|at| Load::of(study, at)).collect();
    let uneven = loads.iter().max_by(|one, other| one.ratio().total_cmp(&other.ratio()))?;
    let Load { label, low, high, .. } = uneven;
    let busy = loads.iter().map(|of| of.others.1).fold(0.0, f64::max);
    let others: Vec<f64> = loads.iter().map(|of| of.others.0).collect();
    let who = match loads.len() {
        1 => "it".to_owned(),
        all if all == study.programs.len() => "all programs".to_owned(),
        _ => listed(&loads.iter().map(|of| of.label.to_owned()).collect::<Vec<_>>()),
    };
    let (most, those) = if loads.len() > 1 { (", the most of all,", "their") } else { ("", "its") };
    Some(format!(
        "{label}: power was {low:.2} to {high:.2} W{most} while other programs kept {:.1} CPUs busy (median), up to {busy:.1}: {who} waited for \
         them, so {those} time and power are those of a busy machine, and joules are worth more than either",
        median(&others)
    ))
}

/// The power of a program's runs, and how many CPUs others kept busy meanwhile: median and most.
struct Load<'a> {
    label: &'a str,
    low: f64,
    high: f64,
    others: (f64, f64),
}

impl<'a> Load<'a> {
    /// Where the load made a difference.
    fn of(study: &'a Study, program: usize) -> Option<Self> {
        let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
        let runs: Vec<&Measured> =
            runs.filter_map(|run| run.measured.as_ref()).filter(|of| of.seconds > 0.0).collect();
        let others: Vec<f64> =
            runs.iter().filter_map(|of| Some(of.other_cpu_seconds? / of.seconds)).collect();
        let watts = runs.iter().filter(|of| of.grade.is_some()).map(|of| of.joules / of.seconds);
        let (low, high) =
            watts.fold((f64::INFINITY, 0.0_f64), |(low, high), watts| (low.min(watts), high.max(watts)));
        let busy = others.iter().copied().fold(0.0, f64::max);
        let label = &study.programs.get(program)?.label;
        (busy > BUSY && high > low * UNEVEN).then(|| Self {
            label,
            low,
            high,
            others: (median(&others), busy),
        })
    }

    fn ratio(&self) -> f64 {
        self.high / self.low
    }
}
