//! How quantities grow with a size, such as rows of data: what is spent at any size, and what one unit more adds.
//!
//! Programs that differ in the size alone are a sweep. Lines are drawn through each round, so that what its runs share is in the interval.
//! Leaves out how it looks (`study_tables/sweep.rs`).

use super::quantities::{Kind, Quantity, counted_quantities, part_quantities, whole_quantities};
use super::results::values;
use super::{Run, Study};
use energy_trace_model::collections::Order as _;
use energy_trace_statistics::location::median;
use energy_trace_statistics::regression::{Growth, lines};
use std::collections::BTreeMap;

/// One quantity of programs that differ in the size alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What they have in common.
    pub name: String,
    /// What the quantity is of.
    pub kind: Kind,
    /// Its name.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// What each size came to, the smallest first.
    pub points: Vec<SweepPoint>,
    /// The line.
    pub found: Growth,
}

/// The runs of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The size.
    pub size: f64,
    /// The median.
    pub median: f64,
    /// Every run that counts.
    pub values: Vec<f64>,
}

/// All sweeps of a study: energy, time and metrics of runs, then calls, the largest first. Nothing where no variable is a size.
pub fn sweeps(study: &Study) -> Vec<Sweep> {
    let Some(against) = &study.against else { return Vec::new() };
    let mut families: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for (at, program) in study.programs.iter().enumerate() {
        let Some(size) = program.variables.get(against).and_then(|size| size.parse().ok()) else { continue };
        let others = program.variables.iter().filter(|(name, _)| *name != against);
        let name = others.map(|(_, value)| value.clone()).collect::<Vec<_>>().join(" ");
        match families.iter_mut().find(|(family, _)| *family == name) {
            Some((_, programs)) => programs.push((at, size)),
            None => families.push((name, vec![(at, size)])),
        }
    }
    families.iter().flat_map(|(name, programs)| family(study, name, programs)).collect()
}

fn family(study: &Study, name: &str, programs: &[(usize, f64)]) -> Vec<Sweep> {
    let is_ours = |run: &&Run| run.counts() && programs.iter().any(|(at, _)| run.program == Some(*at));
    let runs: Vec<&Run> = study.runs.iter().filter(is_ours).collect();
    let whole = whole_quantities(study, &runs).into_iter().chain(counted_quantities(&runs));
    let calls = part_quantities(study, &runs).into_iter().filter(|of| of.kind == Kind::Call);
    whole.chain(calls).filter_map(|quantity| sweep(study, name, programs, quantity)).collect()
}

fn sweep(study: &Study, name: &str, programs: &[(usize, f64)], quantity: Quantity<'_>) -> Option<Sweep> {
    let mut rounds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut points = Vec::new();
    for &(program, size) in programs {
        let of_rounds = values(study, program, &quantity);
        for (&round, &value) in &of_rounds {
            rounds.entry(round).or_default().push((size, value));
        }
        let values: Vec<f64> = of_rounds.into_values().collect();
        points.push(SweepPoint { size, median: median(&values), values });
    }
    points.order_by(|one, other| one.size.total_cmp(&other.size));
    let found = lines(&rounds.into_values().collect::<Vec<_>>())?;
    let Quantity { kind, name: quantity, unit, .. } = quantity;
    Some(Sweep { name: name.to_owned(), kind, quantity, unit, points, found })
}
