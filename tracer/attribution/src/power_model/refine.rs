//! Fits the powers again with what stationary windows say beyond their expected times.

use super::counter_edges::Edges;
use super::design::Design;
use super::evidence::Evidence;
use super::fit::{FLOOR, Fit};
use super::stationary_windows::{LEAST, SPREAD, StationaryWindows};
use crate::between_samples::markov_bridge::Rate;
use crate::between_samples::switching_chain::Chains;

const ROUNDS: usize = 10;

/// Fits the watts again with what steady windows say; not where these stray so far that functions do not draw the same power each time.
pub(crate) fn refine(
    fit: &mut Fit,
    design: &Design,
    chains: &Chains,
    rates: &[Rate],
    evidence: &Evidence<'_>,
) {
    let mut stationary = StationaryWindows::new(design, evidence.parts, chains, rates);
    let before = fit.watts.clone();
    if !stationary.logarithm.iter().any(|logarithm| *logarithm > LEAST.ln()) {
        return;
    }
    for _ in 0..ROUNDS {
        let edges = Edges::new(evidence, &design.shares, &fit.watts, chains);
        stationary.spread = stationary.spread.min(SPREAD.0.powi(2));
        stationary.expect((&fit.watts, fit.noise), design, &design.variances(&fit.watts, chains), &edges);
        fit.stationary = Some(stationary);
        fit.watts = fit.normal(design, |_| true).coordinate_descent(fit.mean, FLOOR * fit.mean).data.into();
        let Some(again) = fit.stationary.take() else { return };
        stationary = again;
    }
    if stationary.spread > SPREAD.0.powi(2) {
        fit.watts = before;
    } else {
        fit.stationary = Some(stationary);
    }
}
