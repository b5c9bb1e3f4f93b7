//! The expected time of each class in a part of an interval.
//!
//! Leaves out the sums over windows (`power_model::design`).

use super::markov_bridge::Rate;
use super::markov_bridge::{Blend, Part};
use super::switching_chain::Chains;
use crate::time::pieces::{NO_LINE, NOBODY};

/// What a part adds to its window: probabilities of its samples' columns and of its thread's mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) window: u32,
    pub(crate) left: usize,
    pub(crate) right: usize,
    pub(crate) mix: Option<usize>,
    pub(crate) blend: Blend,
    /// Its time in seconds, less where the core is shared (`smt`).
    pub(crate) seconds: f64,
}

/// Mean and mean square of the watts of a mix.
pub(crate) fn moments(mix: &[f64], watts: &[f64]) -> (f64, f64) {
    mix.iter().zip(watts).fold((0.0, 0.0), |(mean, square), (pi, w)| (mean + pi * w, square + pi * w * w))
}

impl Share {
    /// Mean and mean square of the power in it, given those of all mixes.
    pub(crate) fn moments(&self, watts: &[f64], of_mixes: &[(f64, f64)]) -> (f64, f64) {
        let (left, right) = (watts[self.left], watts[self.right]);
        let mix = self.mix.and_then(|mix| of_mixes.get(mix).copied()).unwrap_or_default();
        let Blend { left: p, right: q, mix: r, .. } = self.blend;
        (p * left + q * right + r * mix.0, p * left * left + q * right * right + r * mix.1)
    }
}

/// One part's share at its thread's rate.
#[expect(clippy::cast_precision_loss, reason = "a statistic: exactness is the ledger's")]
pub(crate) fn share(
    part: &Part,
    window: u32,
    chains: &Chains,
    rates: &[Rate],
    column: &impl Fn(u32) -> usize,
) -> Share {
    let left = column(part.left);
    let right = if part.right == NOBODY { left } else { column(part.right) };
    let rate = rates.get(part.line as usize).copied().unwrap_or_default();
    let alike = left == right && part.right != NOBODY && part.line != NO_LINE;
    let same = alike.then(|| chains.mix(part.line, part.at).get(left).copied().unwrap_or(1.0));
    let blend = chains.rake(part, (left, right), Blend::new(part, rate, same));
    let mix = chains.mix_number(part.line, part.at);
    Share { window, left, right, mix, blend, seconds: part.weight * part.ns as f64 / 1e9 }
}
