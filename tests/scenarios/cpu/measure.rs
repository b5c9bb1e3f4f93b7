//! One run of a scenario through the shipped attribution, held against the truth.

use super::asks::{group_of, is_right};
use super::engine::blind_of;
use super::recording;
use super::scenarios::Scenario;
use energy_trace_attribution::attribute;
use energy_trace_certainty::HowSure as _;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::{EnergyByClass, Profile, ProfileRow};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_tests::random::Random;
use serde::{Deserialize, Serialize};

/// What one run says, in percent unless it is a count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: u64,
    /// Total variation between the functions' charged and true energies, by their sum.
    pub tv: f64,
    /// The largest relative error of a function with at least 5 % of the energy.
    pub worst: f64,
    /// The same two for a split by CPU time alone.
    pub time_tv: f64,
    pub time_worst: f64,
    /// The largest relative error of a process.
    pub process: f64,
    /// Functions (of at least 1 % of the energy), and how many have the truth in their interval, or in their bounds.
    pub functions: u64,
    pub covered: u64,
    /// Functions with bounds, and how many of those have the truth in them.
    pub bounded: u64,
    pub in_bounds: u64,
    /// Mean width of the intervals, in percent of the energy.
    pub width: f64,
    /// What the ledger and the rows do not add up to, in microjoules.
    pub imbalance_uj: i64,
    /// How much of the workers' energy is charged to the Python call that it was spent for; 0 where nobody works for another.
    #[serde(default)]
    pub right_parent: f64,
}

/// Runs a scenario once.
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    run_changed(scenario, seed, |_| ())
}

/// The same, the recording changed before it is attributed.
pub fn run_changed(scenario: &Scenario, seed: u64, change: impl FnOnce(&mut Recording)) -> Outcome {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(11));
    let world = (scenario.world)(&mut random);
    let (_, tracks) = world.integrate(&[]);
    let mut recording = recording::of(&world);
    world.observe(&mut recording, &tracks, seed);
    let mut truth = world.integrate(&blind_of(&recording)).0;
    change(&mut recording);
    let physical = attribute(&recording, &Options::default());
    let profile = match &world.asks {
        None => physical.clone(),
        Some(asks) => {
            truth.functions.clone_from(&asks.truth);
            attribute(&recording, &Options::logical())
        }
    };
    let group = |row: &ProfileRow| match &world.asks {
        None => row.stack.map(StackId::index),
        Some(_) => row.stack.and_then(|stack| group_of(&profile, stack)),
    };
    let mut outcome = Outcome { seed, imbalance_uj: imbalance(&profile), ..Outcome::default() };
    let charged = by_group(truth.functions.len(), &profile, group, |row| row.energy);
    let by_time = by_group(truth.functions.len(), &physical, group, |row| row.by_time);
    (outcome.tv, outcome.worst) = errors(&charged, &truth.functions);
    (outcome.time_tv, outcome.time_worst) = errors(&by_time, &truth.functions);
    outcome.right_parent = right_parent(&profile);
    let mut processes = vec![0.0; truth.processes.len()];
    for row in &profile.rows {
        let process = recording.threads[row.thread.index()].process.index();
        processes[process] += row.energy[DomainClass::Package].as_joules();
    }
    outcome.process = errors(&processes, &truth.processes).1;
    uncertainties(&mut outcome, &profile, group, &truth.functions);
    outcome
}

/// How much of the workers' energy, in percent, stands below the call that it was spent for.
fn right_parent(profile: &Profile) -> f64 {
    let (mut right, mut all) = (0.0, 0.0);
    for row in &profile.rows {
        let Some(is_right) = row.stack.and_then(|stack| is_right(profile, stack)) else { continue };
        let joules = row.energy[DomainClass::Package].as_joules();
        all += joules;
        right += if is_right { joules } else { 0.0 };
    }
    if all > 0.0 { 100.0 * right / all } else { 0.0 }
}

/// Joules of each function, or of each Python call where workers are charged to calls.
fn by_group(
    count: usize,
    profile: &Profile,
    group: impl Fn(&ProfileRow) -> Option<usize>,
    of: fn(&ProfileRow) -> EnergyByClass,
) -> Vec<f64> {
    let mut joules = vec![0.0; count];
    for row in &profile.rows {
        if let Some(sum) = group(row).and_then(|group| joules.get_mut(group)) {
            *sum += of(row)[DomainClass::Package].as_joules();
        }
    }
    joules
}

/// Total variation, and the worst relative error of what is at least 5 % of the whole, in percent.
fn errors(charged: &[f64], truth: &[f64]) -> (f64, f64) {
    let sum: f64 = truth.iter().sum();
    let distance: f64 = charged.iter().zip(truth).map(|(is, should)| (is - should).abs()).sum();
    let large = charged.iter().zip(truth).filter(|(_, should)| **should >= 0.05 * sum);
    let worst = large.map(|(is, should)| (is - should).abs() / should).fold(0.0, f64::max);
    (50.0 * distance / sum, 100.0 * worst)
}

fn imbalance(profile: &Profile) -> i64 {
    let ledger: i64 = profile.ledger.iter().map(|row| row.imbalance().as_uj().abs()).sum();
    let target: MicroJoules = profile.ledger.iter().map(|row| row.target).sum();
    let rows = |of: fn(&ProfileRow) -> EnergyByClass| -> MicroJoules {
        profile.rows.iter().map(|row| of(row)[DomainClass::Package]).sum()
    };
    ledger + (rows(|row| row.energy) - target).as_uj().abs()
}

/// Intervals and bounds of each function against the truth.
fn uncertainties(
    outcome: &mut Outcome,
    profile: &Profile,
    group: impl Fn(&ProfileRow) -> Option<usize>,
    truth: &[f64],
) {
    let sum: f64 = truth.iter().sum();
    let mut widths = 0.0;
    for (function, should) in truth.iter().enumerate().filter(|(_, should)| **should >= 0.01 * sum) {
        let of_function = |row: &ProfileRow| group(row) == Some(function);
        let rows: Vec<usize> =
            (0..profile.rows.len()).filter(|&row| of_function(&profile.rows[row])).collect();
        let energy = rows.iter().map(|&row| profile.rows[row].energy[DomainClass::Package]).sum();
        let sure = profile.certainty.of(&rows, |class| class == DomainClass::Package, energy);
        let within = |(low, high): (MicroJoules, MicroJoules)| {
            low.as_joules() <= *should && *should <= high.as_joules()
        };
        outcome.functions += 1;
        outcome.covered += u64::from(within(sure.ci95) || sure.bounds.is_some_and(within));
        outcome.bounded += u64::from(sure.bounds.is_some());
        outcome.in_bounds += u64::from(sure.bounds.is_some_and(within));
        widths += (sure.ci95.1 - sure.ci95.0).as_joules() / should;
    }
    outcome.width = 100.0 * widths / outcome.functions.max(1) as f64;
}
