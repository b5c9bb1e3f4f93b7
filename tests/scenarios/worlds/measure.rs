//! How far a profile is from the truth: errors, flags, intervals and the ledger, for any recording whose joules by stack are known.
//!
//! Leaves out where recording and truth come from.

use super::nodes::{FunctionKey, Node, Nodes, function_key};
use energy_trace_attribution::{LeftOut, attribute_without};
use energy_trace_certainty::{HowSure as _, Uncertainty};
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::{EnergyByClass, Options, Profile, ProfileRow};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_report::functions::functions;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A node counts in errors and coverage from this part of the target's energy on, true or shown.
const SMALL: f64 = 0.01;
/// A function counts as large from here on.
const LARGE: f64 = 0.05;
/// An interval whose half is more than this part of the energy is wide.
const WIDE: f64 = 0.25;
/// Flags by which the report tells that a number may be far off.
const DOUBTS: [&str; 3] = ["unidentified", "low-samples", "stolen-time"];

/// What was truly spent above idle.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Joules of each stack; a path may have several stacks of which one has all of it.
    pub stacks: Vec<(StackId, f64)>,
}

/// One node against the truth, in joules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Its innermost function.
    pub name: String,
    /// Whether it is a function over all its callers.
    pub is_function: bool,
    pub truth: f64,
    pub shown: f64,
    pub by_time: f64,
    pub ci95: (f64, f64),
    pub bounds: Option<(f64, f64)>,
    /// Whether the report flags it.
    pub flagged: bool,
}

impl Held {
    /// Relative error in percent.
    pub fn error(&self) -> f64 {
        100.0 * (self.shown - self.truth).abs() / self.truth
    }

    /// The same of a split by CPU time.
    pub fn time_error(&self) -> f64 {
        100.0 * (self.by_time - self.truth).abs() / self.truth
    }

    /// Whether the truth lies in the interval.
    pub fn in_interval(&self) -> bool {
        self.lies_in(self.ci95)
    }

    /// Whether the truth lies in the interval or the bounds.
    pub fn covered(&self) -> bool {
        self.in_interval() || self.bounds.is_some_and(|bounds| self.lies_in(bounds))
    }

    fn lies_in(&self, (low, high): (f64, f64)) -> bool {
        low <= self.truth && self.truth <= high
    }

    /// Whether the truth is more than twice as far away as the interval reaches.
    pub fn far_outside(&self) -> bool {
        let (low, high) = self.ci95;
        self.truth > self.shown + 2.0 * (high - self.shown)
            || self.truth < self.shown - 2.0 * (self.shown - low)
    }

    /// Whether it is that, and not flagged.
    pub fn is_far(&self) -> bool {
        !self.flagged && self.far_outside()
    }

    /// Whether its interval says little.
    pub fn wide(&self) -> bool {
        self.ci95.1 - self.ci95.0 > 2.0 * WIDE * self.shown.abs()
    }
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: u64,
    /// Nodes with 1 % of the target's energy or more, true or shown.
    pub nodes: Vec<Held>,
    /// The target's energy, true and shown, in joules.
    pub target: (f64, f64),
    /// The interval of that, bounds included.
    #[serde(default)]
    pub target_ci95: (f64, f64),
    /// Parts of the target's own energy by function that is flagged, and that is not but has a wide interval.
    pub flagged: f64,
    pub wide: f64,
    /// What the ledger and the rows do not add up to, in microjoules.
    pub imbalance_uj: i64,
    /// CPU time to attribute, in seconds; 0 where the kernel does not say.
    #[serde(default)]
    pub seconds: f64,
}

impl Outcome {
    /// Whether a node has this part of the target's true energy.
    fn has(&self, node: &Held, part: f64) -> bool {
        node.truth >= part * self.target.0
    }

    /// The largest error of a function with 5 % of the energy that is not flagged, in percent.
    pub fn worst_function(&self) -> f64 {
        let large = self.nodes.iter().filter(|node| node.is_function && self.has(node, LARGE));
        large.filter(|node| !node.flagged).map(Held::error).fold(0.0, f64::max)
    }

    /// Errors of all nodes with 1 % of the true energy, flagged or not.
    pub fn errors(&self, of: fn(&Held) -> f64) -> Vec<f64> {
        self.nodes.iter().filter(|node| self.has(node, SMALL)).map(of).collect()
    }
}

/// Attributes a recording and holds the profile against the truth.
pub fn measure(recording: &Recording, truth: &Truth, seed: u64) -> Outcome {
    without(recording, truth, (&Options::default(), LeftOut::NOTHING), seed)
}

/// The same by these options and without some parts.
pub fn without(
    recording: &Recording,
    truth: &Truth,
    (options, left_out): (&Options, LeftOut),
    seed: u64,
) -> Outcome {
    let before = cpu_seconds();
    let profile = attribute_without(recording, options, left_out);
    let seconds = cpu_seconds() - before;
    Outcome { seconds, seed, ..hold(&profile, recording, truth) }
}

/// What this thread has run so far: with others on the machine, the clock on the wall says little.
fn cpu_seconds() -> f64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    account.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn in_joules((low, high): (MicroJoules, MicroJoules)) -> (f64, f64) {
    (low.as_joules(), high.as_joules())
}

/// Holds a profile in the physical view against the truth.
pub fn hold(profile: &Profile, recording: &Recording, truth: &Truth) -> Outcome {
    let known = truth.stacks.iter().map(|(stack, _)| *stack);
    let nodes = Nodes::of(recording, known.chain(profile.rows.iter().filter_map(|row| row.stack)));
    let mut joules = vec![0.0; nodes.leaves.len()];
    for (stack, spent) in &truth.stacks {
        nodes.path(*stack).into_iter().for_each(|path| joules[path] += spent);
    }
    let mut rows = vec![vec![]; nodes.leaves.len()];
    for (number, row) in profile.rows.iter().enumerate() {
        row.stack.and_then(|stack| nodes.path(stack)).into_iter().for_each(|path| rows[path].push(number));
    }
    let whole = joules.iter().sum::<f64>();
    let flags = flags_of(profile);
    let mut outcome = Outcome { imbalance_uj: imbalance(profile), ..Outcome::default() };
    let shown: MicroJoules = profile.rows.iter().map(|row| package(row.energy)).sum();
    outcome.target = (whole, shown.as_joules());
    outcome.target_ci95 =
        in_joules(profile.certainty.of_all(|_, class| class == DomainClass::Package, shown).ci95);
    for node in &nodes.all {
        let true_joules: f64 = node.paths.iter().map(|path| joules[*path]).sum();
        let of_node: Vec<usize> = node.paths.iter().flat_map(|path| rows[*path].iter().copied()).collect();
        let shown: MicroJoules = of_node.iter().map(|row| package(profile.rows[*row].energy)).sum();
        if true_joules.max(shown.as_joules()) < SMALL * whole {
            continue;
        }
        let held = Held {
            flagged: flags.get(&node.function).is_some_and(|flagged| *flagged),
            ..held(node, true_joules, &of_node, profile)
        };
        outcome.nodes.push(Held { flagged: held.flagged || held.bounds.is_some(), ..held });
    }
    (outcome.flagged, outcome.wide) = doubted(profile, &nodes, &rows, &flags);
    outcome
}

/// Relative errors in percent of joules by stack, for nodes with 1 % of the target's true energy.
pub fn errors_of(shown: &Truth, recording: &Recording, truth: &Truth) -> Vec<f64> {
    let nodes = Nodes::of(recording, truth.stacks.iter().chain(&shown.stacks).map(|(stack, _)| *stack));
    let by_path = |of: &Truth| {
        let mut joules = vec![0.0; nodes.leaves.len()];
        for (stack, spent) in &of.stacks {
            nodes.path(*stack).into_iter().for_each(|path| joules[path] += spent);
        }
        joules
    };
    let (shown, truth) = (by_path(shown), by_path(truth));
    let sum = |of: &[f64], node: &Node<'_>| node.paths.iter().map(|path| of[*path]).sum::<f64>();
    let whole: f64 = truth.iter().sum();
    let large = nodes.all.iter().filter(|node| sum(&truth, node) >= SMALL * whole);
    large.map(|node| 100.0 * (sum(&shown, node) / sum(&truth, node) - 1.0).abs()).collect()
}

fn held(node: &Node<'_>, truth: f64, rows: &[usize], profile: &Profile) -> Held {
    let sum = |of: fn(&ProfileRow) -> EnergyByClass| -> MicroJoules {
        rows.iter().map(|row| package(of(&profile.rows[*row]))).sum()
    };
    let energy = sum(|row| row.energy);
    let sure = certainty(profile, rows, energy);
    Held {
        name: node.function.2.to_owned(),
        is_function: node.is_function,
        truth,
        shown: energy.as_joules(),
        by_time: sum(|row| row.by_time).as_joules(),
        ci95: in_joules(sure.ci95),
        bounds: sure.bounds.map(in_joules),
        flagged: false,
    }
}

fn certainty(profile: &Profile, rows: &[usize], energy: MicroJoules) -> Uncertainty {
    profile.certainty.of(rows, |class| class == DomainClass::Package, energy)
}

fn package(energy: EnergyByClass) -> MicroJoules {
    energy[DomainClass::Package]
}

/// Which functions the report flags.
fn flags_of(profile: &Profile) -> HashMap<FunctionKey<'_>, bool> {
    let mut by_name = HashMap::new();
    for function in functions(profile) {
        let doubted = function.row.flags.iter().any(|flag| DOUBTS.contains(flag));
        by_name.insert((function.kind, function.module, function.symbol), doubted);
    }
    let flag = |frame| {
        let key: FunctionKey<'_> = function_key(frame);
        let names = [frame.name.clone(), format!("{}.{}", frame.module, frame.name)];
        let found = names.into_iter().find_map(|name| by_name.get(&(frame.kind, frame.module.clone(), name)));
        (key, found.copied().unwrap_or(false))
    };
    profile.frames.iter().map(flag).collect()
}

/// Which part of the energy, by the function that spent it itself, is flagged, and which is not but has a wide interval.
fn doubted(
    profile: &Profile,
    nodes: &Nodes<'_>,
    rows: &[Vec<usize>],
    flags: &HashMap<FunctionKey<'_>, bool>,
) -> (f64, f64) {
    let (mut all, mut flagged, mut wide) = (0.0, 0.0, 0.0);
    let mut own: HashMap<FunctionKey<'_>, Vec<usize>> = HashMap::new();
    for (leaf, rows) in nodes.leaves.iter().zip(rows) {
        own.entry(*leaf).or_default().extend(rows);
    }
    for (function, rows) in own {
        let energy: MicroJoules = rows.iter().map(|row| package(profile.rows[*row].energy)).sum();
        let sure = certainty(profile, &rows, energy);
        let joules = energy.as_joules();
        all += joules;
        if sure.bounds.is_some() || flags.get(&function).is_some_and(|flagged| *flagged) {
            flagged += joules;
        } else if (sure.ci95.1 - sure.ci95.0).as_joules() > 2.0 * WIDE * joules.abs() {
            wide += joules;
        }
    }
    (flagged / f64::max(all, 1e-9), wide / f64::max(all, 1e-9))
}

fn imbalance(profile: &Profile) -> i64 {
    let ledger: i64 = profile.ledger.iter().map(|row| row.imbalance().as_uj().abs()).sum();
    let target: MicroJoules = profile.ledger.iter().map(|row| row.target).sum();
    let rows: MicroJoules = profile.rows.iter().map(|row| package(row.energy)).sum();
    ledger + (rows - target).as_uj().abs()
}
