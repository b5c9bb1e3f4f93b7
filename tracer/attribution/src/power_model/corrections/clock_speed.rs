//! Power that goes with a CPU's clock: at a slower one the same function draws less.
//!
//! ```text
//! power at f = (f / f0)^α · power at f0
//! ```
//!
//! Switching power goes with f V², and the voltage falls with the clock as far as it can: α lies between 1
//! (one voltage) and 3 (voltage in proportion; Mudge: Power, a first-class architectural design constraint,
//! 2001). The run itself shows α: with the right one its energies are likeliest. If they are not clearly
//! likelier than without, α is 0, that is, clocks make no difference. What they leave, a factor common to all
//! CPUs, belongs to `drift`. Leaves out how fast clocks ran (`time::dvfs`).

use super::trial::{Candidate, LEAST_GAIN, Trial};
use crate::between_samples::interval_slices::IntervalSlices;
use crate::power_model::settings::{Circumstances, Settings};
use crate::time::dvfs::differ;

/// What the exponent may be, at most.
const MOST: f64 = 3.0;
/// The search goes by whole exponents first, then by halves and quarters about the best.
const STEPS: [f64; 2] = [0.5, 0.25];

/// Where clocks differ they make no difference, as long as the run shows none.
pub(super) fn usual(settings: &mut Settings, slices: &IntervalSlices<'_>) {
    settings.exponent = differ(slices.clocks()).then_some(0.0);
}

/// What a time weighs at its clock.
pub(super) fn weight(settings: &Settings, here: &Circumstances) -> f64 {
    let exponent = settings.exponent.unwrap_or(0.0);
    if exponent == 0.0 { 1.0 } else { here.clock.powf(exponent) }
}

/// Takes the exponent with which energies are likeliest, where they are clearly likelier than without.
pub(super) fn detect<'p>(trial: &Trial<'_, 'p>, best: &mut Candidate<'p>) -> bool {
    let settings = best.adjusted.settings;
    if settings.exponent.is_none() {
        return false;
    }
    let with =
        |exponent: f64| best.adjusted.clone().weighed(Settings { exponent: Some(exponent), ..settings });
    let likelihood = |exponent: f64| trial.candidate(with(exponent)).likelihood;
    let exponent = likeliest(likelihood);
    let is_clear = likelihood(exponent) > likelihood(0.0) + LEAST_GAIN;
    if is_clear {
        *best = trial.candidate(with(exponent));
    }
    is_clear
}

/// The exponent with the largest `gain`, between nothing and the most that there may be.
fn likeliest(gain: impl Fn(f64) -> f64) -> f64 {
    let mut tried: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    let best_of =
        |tried: &[(f64, f64)]| tried.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    tried.extend([1.0, 2.0, 3.0].map(|whole| (whole, gain(whole))));
    for step in STEPS {
        let (about, _) = best_of(&tried);
        let sides = [about - step, about + step].into_iter().filter(|side| (0.0..=MOST).contains(side));
        tried.extend(sides.map(|side| (side, gain(side))));
    }
    let (best, top) = best_of(&tried);
    let at = |side: f64| tried.iter().find(|(exponent, _)| *exponent == side).map(|(_, gain)| top - gain);
    let finest = STEPS[STEPS.len() - 1];
    // The top of a parabola through the three.
    match (at(best - finest), at(best + finest)) {
        (Some(below), Some(above)) if below + above > 0.0 => {
            (best + 0.5 * finest * (below - above) / (below + above)).clamp(0.0, MOST)
        }
        _ => best,
    }
}

#[cfg(test)]
mod tests {
    use super::likeliest;

    /// The search finds the exponent, within its limits.
    #[test]
    fn exponents_are_found() {
        for (is, found) in [(2.4, 2.4), (1.0, 1.0), (0.3, 0.3), (5.0, 3.0), (-1.0, 0.0)] {
            let exponent = likeliest(|exponent| is * is - (exponent - is).powi(2));
            assert!((exponent - found).abs() < 1e-9, "{exponent} for {is}");
        }
    }
}
