//! Fits the powers again with what stationary windows say beyond their expected times.

use super::counter_edges::Edges;
use super::design::Design;
use super::evidence::Evidence;
use super::fit::{FLOOR, Fit};
use super::stationary_windows::{LEAST, STRAY, Steady};
use crate::between_samples::markov_bridge::Rate;
use crate::between_samples::switching_chain::Chains;

const ROUNDS: usize = 10;

/// Fits the watts again with what steady windows say; not where these stray so far that functions do not draw the same power each time.
pub(crate) fn sharpen(
    fit: &mut Fit,
    design: &Design,
    chains: &Chains,
    rates: &[Rate],
    evidence: &Evidence<'_>,
) {
    let mut steady = Steady::new(design, evidence.parts, chains, rates);
    let before = fit.watts.clone();
    if !steady.logarithm.iter().any(|logarithm| *logarithm > LEAST.ln()) {
        return;
    }
    for _ in 0..ROUNDS {
        let edges = Edges::new(evidence, &design.shares, &fit.watts, chains);
        steady.stray = steady.stray.min(STRAY.0.powi(2));
        steady.expect((&fit.watts, fit.noise), design, &design.variances(&fit.watts, chains), &edges);
        fit.steady = Some(steady);
        fit.watts = fit.normal(design, |_| true).descend(fit.mean, FLOOR * fit.mean);
        let Some(again) = fit.steady.take() else { return };
        steady = again;
    }
    if steady.stray > STRAY.0.powi(2) {
        fit.watts = before;
    } else {
        fit.steady = Some(steady);
    }
}
