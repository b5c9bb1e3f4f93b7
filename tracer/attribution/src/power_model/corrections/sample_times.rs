//! The assumption that a chain tells what threads did between two samples: nothing corrects it, but other
//! times show how much rests on it.
//!
//! Leaves out the chain (`between_samples`).

use crate::between_samples::balance::balanced;
use crate::between_samples::expected_time::Times;
use crate::between_samples::switching_chain::Chains;
use crate::numerics::normal_equations::NormalEquations;
use crate::numerics::parallel::both;
use crate::parts::Part;
use crate::power_model::design::{Design, DesignOptions};
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::Model;
use crate::time::inter_sample::SamplePoint;

/// Joules of each column if each moment were the nearest sample's, and if only every other sample had been
/// taken, with windows that count for as much. What half of the samples change is about what twice as many
/// would (Cook, Stefanski: Simulation-extrapolation estimation in parametric measurement error models, 1994).
pub(super) fn doubt(model: &Model, evidence: &Evidence<'_>) -> Vec<Vec<f64>> {
    let Model { columns, design, fit, prior, .. } = model;
    if let Some(by_pairs) = &fit.by_pairs {
        let energies = design.energies(&fit.watts);
        let of = |(probability, equations): &(f64, NormalEquations)| {
            let other = design.energies(&fit.powers(equations.clone(), prior));
            let apart = |(here, other): (&f64, f64)| here + probability.sqrt() * (other - here);
            energies.iter().zip(other).map(apart).collect()
        };
        return by_pairs.delays.iter().map(of).collect();
    }
    let of_owners = columns.of_owners(evidence.tree);
    let column = |owner: u32| of_owners.of(owner);
    let Evidence { slices, settings, .. } = *evidence;
    let energies = |times: Times<'_>, thinned: Option<(&[SamplePoint], bool)>| {
        let contended = settings.contended;
        let options =
            DesignOptions { slices, thinned, times, paths: columns.len(), contended, with_variances: false };
        let mut other = Design::of(&design.windows, &options, settings.lag_ns, column);
        other.rescale(&design.drift);
        let watts = fit.solve(&other, prior);
        other.energies(&watts)
    };
    let thinned = |odd: bool| {
        let of_some = (evidence.points, Some(odd));
        let chains = Chains::of_some(of_some, settings.left_out, evidence.start, column);
        let thinned = Some((evidence.points, odd));
        let chains = balanced(chains, slices, thinned, column);
        energies(Times::Chain(&chains), thinned)
    };
    let halves = || (thinned(true), thinned(false));
    let asked = |part: Part| !settings.left_out.has(part);
    let (nearest, halves) = both(
        || asked(Part::NearestSample).then(|| energies(Times::Nearest, None)),
        || asked(Part::HalfSamples).then(halves),
    );
    let mean = |(odd, even): (Vec<f64>, Vec<f64>)| {
        odd.iter().zip(&even).map(|(odd, even)| f64::midpoint(*odd, *even)).collect()
    };
    nearest.into_iter().chain(halves.map(mean)).collect()
}
