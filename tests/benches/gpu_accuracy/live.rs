//! The closed loop of the benchmark: the product as it is, on the simulated GPU, against its log of every launch.
//!
//! Needs root and BPF. Leaves out the virtual clock.

use super::measure::{Run, TIERS};
use super::table::Line;
use energy_trace_attribution::attribute;
use energy_trace_certainty::{HowSure as _, Uncertainty};
use energy_trace_model::profile::{self, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{CounterValue, DomainClass};
use energy_trace_model::units::MicroJoules;
use energy_trace_scenarios::gpu::outcome::{Tier, errors, imbalance_uj, within};
use energy_trace_sentences::diagnostic;
use energy_trace_tests::gpu::{Gpu, Launch, Meter, SITES, launched, site_of, timed, truth_of};
use energy_trace_tests::process::Guard;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);
/// Stacks with less than this part of the energy are left out.
const LEAST: f64 = 0.01;
const MODELS: [&str; 5] = ["V100", "A100", "H100", "MIG", "AVERAGED"];
/// Modes of `gpu_mix`.
const MODES: [&str; 3] = ["eager", "graph", "capture"];

/// Who launched, and what.
type Key = (String, String);

/// What was asked for.
pub(crate) struct Options {
    pub(crate) runs: u32,
    pub(crate) seconds: u32,
    /// Parts of the names of cells, `kernel/V100/eager`; none: all cells.
    pub(crate) cells: Vec<String>,
    /// Where recordings and the simulator's logs are kept.
    pub(crate) keep: Option<PathBuf>,
    /// Whether what is there is judged again instead of running anything.
    pub(crate) again: bool,
    /// Whether each stack is shown.
    pub(crate) stacks: bool,
}

/// All lines of the tiers that the product has.
pub(crate) fn lines(options: &Options, wanted: impl Fn(&str) -> bool) -> Vec<Line> {
    let mut lines = vec![];
    for tier in TIERS.into_iter().filter(|tier| options.again || is_offered(*tier)) {
        for model in MODELS.into_iter().filter(|model| wanted(model)) {
            for mode in MODES {
                let name = format!("{}/{model}/{mode}", tier.word());
                let any = options.cells.iter().any(|cell| name.contains(cell.as_str()));
                if !any && !options.cells.is_empty() {
                    continue;
                }
                let runs = (0..options.runs).filter_map(|n| run(tier, (model, mode), n, options)).collect();
                lines.push(Line {
                    tier,
                    meter: model.to_owned(),
                    workload: mode.to_owned(),
                    live: true,
                    runs,
                });
            }
        }
    }
    lines
}

/// Whether the product knows the word.
fn is_offered(tier: Tier) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--power", "none", "--no-svg", "-o", "/dev/null", "--gpu", tier.word()]);
    let done = Guard::spawn(command.args(["--", "true"])).unwrap().finish(LIMIT).unwrap();
    done.status.code() != Some(2)
}

/// Runs a cell, or judges a run again that was kept; `None` where there is none.
fn run(tier: Tier, (model, mode): (&str, &str), number: u32, options: &Options) -> Option<Run> {
    let name = format!("{}-{model}-{mode}-{number}", tier.word());
    let kept = options.keep.as_ref().map(|folder| folder.join(&name));
    let scratch = tempfile::tempdir().unwrap();
    let folder = kept.unwrap_or_else(|| scratch.path().to_owned());
    let data = folder.join("energy-trace.data");
    if !options.again {
        std::fs::create_dir_all(&folder).unwrap();
        let gpu = Gpu::with_meter(Meter::model(model).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
        command
            .args(["record", "--no-svg", "--as-root", "--power", "nvml", "--gpu", tier.word(), "-o"])
            .arg(&data);
        let seconds = options.seconds.to_string();
        command.arg("--").arg(gpu.workload("gpu_mix", &[]).unwrap()).args([&seconds, mode]);
        let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
        assert!(done.status.success(), "{}", done.stderr);
        std::fs::copy(gpu.machine().join("truth.csv"), folder.join("truth.csv")).unwrap();
    }
    if !data.exists() {
        return None;
    }
    let (recording, launches) = (read(&data).unwrap(), truth_of(&folder).unwrap());
    let profile = attribute(&recording, &profile::Options::default());
    if options.stacks {
        println!("{name}:");
        profile.diagnostics.iter().for_each(|found| println!("  {}: {}", found.code(), diagnostic(found)));
    }
    Some(uncertainties(&recording, &profile, &launches, names_of(tier), options.stacks))
}

/// What a tier's frames name a launch.
fn names_of(tier: Tier) -> fn(&Launch) -> Key {
    match tier {
        Tier::Launch => launched,
        Tier::Kernel => timed,
    }
}

fn uncertainties(
    recording: &Recording,
    profile: &Profile,
    launches: &[Launch],
    key_of: fn(&Launch) -> Key,
    shown: bool,
) -> Run {
    let truth = truth(launches, key_of);
    let all: f64 = truth.values().sum();
    let large: Vec<&Key> =
        truth.iter().filter(|(_, joules)| **joules >= LEAST * all).map(|(key, _)| key).collect();
    let rows = rows_by_key(recording, profile);
    let none = vec![];
    let rows_of = |key: &Key| rows.get(key).unwrap_or(&none);
    let energy = |rows: &[usize]| -> MicroJoules {
        rows.iter().map(|&row| profile.rows[row].energy[DomainClass::Gpu]).sum()
    };
    let sure = |key: &Key| {
        let rows = rows_of(key);
        profile.certainty.of(rows, |class| class == DomainClass::Gpu, energy(rows))
    };
    let charged =
        |keys: &[&Key]| keys.iter().map(|key| energy(rows_of(key)).as_joules()).collect::<Vec<f64>>();
    let should = |keys: &[&Key]| keys.iter().map(|key| truth[*key]).collect::<Vec<f64>>();
    let known: Vec<&Key> = large.iter().copied().filter(|key| sure(key).bounds.is_none()).collect();
    let of = |keys: &[&Key]| errors(&charged(keys), &should(keys));
    let inside = |key: &&&Key| {
        let (sure, truth) = (sure(key), truth[**key]);
        within(sure.ci95, truth) || sure.bounds.is_some_and(|bounds| within(bounds, truth))
    };
    if shown {
        println!("  counter {} J above idle, truth {all:.1} J", above_idle(profile));
        large
            .iter()
            .for_each(|key| println!("  {}", stack_text(key, truth[*key], energy(rows_of(key)), &sure(key))));
    }
    let naive = |weight: fn(&Launch) -> (u64, f64)| {
        let joules = naive(recording, launches, key_of, weight);
        let of = |key: &&Key| joules.get(*key).copied().unwrap_or(0.0);
        errors(&large.iter().map(of).collect::<Vec<_>>(), &should(&large))
    };
    Run {
        stacks: large.len(),
        flagged: large.len() - known.len(),
        known: (!known.is_empty()).then(|| of(&known)),
        all: of(&large),
        by_count: naive(|launch| (launch.start_ns, 1.0)),
        by_duration: naive(|launch| (launch.start_ns, (launch.end_ns - launch.start_ns) as f64)),
        covered: large.iter().filter(inside).count(),
        imbalance_uj: imbalance_uj(profile),
        captured: captured(&rows, &truth, &energy),
    }
}

/// One stack: what it took, what it was charged, its interval.
fn stack_text(key: &Key, truth: f64, charged: MicroJoules, sure: &Uncertainty) -> String {
    let (low, high) = sure.ci95;
    let part = |energy: MicroJoules| 100.0 * (energy.as_joules() / truth - 1.0);
    let flagged = if sure.bounds.is_some() { "flagged" } else { "" };
    let outside = if part(low) > 0.0 || part(high) < 0.0 { "OUTSIDE" } else { "" };
    format!(
        "{:12} {:20} {truth:8.2} J: {:+6.2} %, from {:+7.2} to {:+7.2} % {flagged} {outside}",
        key.0,
        key.1,
        part(charged),
        part(low),
        part(high)
    )
}

/// What the counter shows above the baseline, in joules.
fn above_idle(profile: &Profile) -> f64 {
    let row = profile.ledger.iter().find(|row| row.class == DomainClass::Gpu);
    row.map_or(0.0, |row| (row.measured - row.idle).as_joules())
}

/// Joules at keys at which nothing ever ran, although the program went there: what it captured and never launched.
fn captured(
    rows: &BTreeMap<Key, Vec<usize>>,
    truth: &BTreeMap<Key, f64>,
    energy: &impl Fn(&[usize]) -> MicroJoules,
) -> Option<f64> {
    let never = rows.iter().filter(|(key, _)| SITES.contains(&key.0.as_str()) && !truth.contains_key(*key));
    Some(never.map(|(_, rows)| energy(rows).as_joules()).sum::<f64>() + 0.0)
}

/// Rows of the profile by the innermost function that launches, and what it launches.
fn rows_by_key(recording: &Recording, profile: &Profile) -> BTreeMap<Key, Vec<usize>> {
    let mut rows = BTreeMap::<Key, Vec<usize>>::new();
    for (place, row) in profile.rows.iter().enumerate() {
        let Some(stack) = row.stack.filter(|_| row.energy[DomainClass::Gpu] != MicroJoules::ZERO) else {
            continue;
        };
        let frames: Vec<&str> = recording.frames_of(stack).map(|(_, frame)| frame.name.as_str()).collect();
        let site = site_of(frames.iter().copied());
        let what = frames.last().copied().unwrap_or_default();
        rows.entry((site.to_owned(), what.to_owned())).or_default().push(place);
    }
    rows
}

fn truth(launches: &[Launch], key_of: fn(&Launch) -> Key) -> BTreeMap<Key, f64> {
    let mut joules = BTreeMap::new();
    launches.iter().for_each(|launch| *joules.entry(key_of(launch)).or_default() += launch.uj / 1e6);
    joules
}

/// Splits each step of the meter by the weights of the launches whose moment is in it.
fn naive(
    recording: &Recording,
    launches: &[Launch],
    key_of: fn(&Launch) -> Key,
    of: fn(&Launch) -> (u64, f64),
) -> BTreeMap<Key, f64> {
    let good = |reading: &energy_trace_model::recording::record::Reading| match reading.value {
        CounterValue::MicroJoules(uj) => Some((reading.at.as_ns(), uj)),
        CounterValue::Failed => None,
    };
    let mut seen: Vec<(u64, u64)> = recording.readings.values().flatten().filter_map(good).collect();
    seen.dedup_by_key(|reading| reading.1);
    let idle = recording.domains.first().and_then(|domain| domain.idle.as_ref());
    let idle_watts = idle.map_or(0.0, |idle| idle.power.as_watts());
    let mut sorted: Vec<&Launch> = launches.iter().collect();
    sorted.sort_by_key(|launch| of(launch).0);
    let mut joules = BTreeMap::new();
    for pair in seen.windows(2) {
        let &[(from, before), (until, after)] = pair else { continue };
        let idle = idle_watts * (until - from) as f64 / 1e9;
        let dynamic = (after.saturating_sub(before) as f64 / 1e6 - idle).max(0.0);
        let index = |at: u64| sorted.partition_point(|launch| of(launch).0 < at);
        let here = &sorted[index(from)..index(until)];
        let all: f64 = here.iter().map(|launch| of(launch).1).sum();
        for launch in here {
            *joules.entry(key_of(launch)).or_default() += dynamic * of(launch).1 / all;
        }
    }
    joules
}
