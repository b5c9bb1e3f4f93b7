//! The expected time of each column in a part of an interval.
//!
//! Leaves out the sums over windows (`power_model::design`).

use super::markov_bridge::Blend;
use super::parts::Part;
use super::switching_chain::{Chains, probability};
use crate::time::pieces::{NO_LINE, NOBODY};

/// What times between samples are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times<'a> {
    /// A chain that forgets.
    Chain(&'a Chains),
    /// The nearest sample.
    Nearest,
}

/// What a part adds to its window: probabilities of its samples' columns and of its line's mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) left: u32,
    pub(crate) right: u32,
    /// The number of the mix; `None` where it has no part.
    pub(crate) mix: Option<usize>,
    pub(crate) blend: Blend,
    /// Its time in seconds, less where the core is shared (`smt`).
    pub(crate) seconds: f64,
    /// How busy other CPUs were beside it.
    pub(crate) beside: f64,
}

impl Share {
    /// One part's share; `column` is that of an owner.
    pub(crate) fn of(part: &Part, times: Times<'_>, column: &impl Fn(u32) -> u32) -> Self {
        let left = column(part.left);
        let right = if part.right == NOBODY { left } else { column(part.right) };
        let seconds = part.seconds();
        let Times::Chain(chains) = times else {
            return Self {
                left,
                right,
                mix: None,
                blend: Blend::nearest(part),
                seconds,
                beside: part.beside,
            };
        };
        let mix = chains.mix_number(part.line, part.at);
        let alike = left == right && part.right != NOBODY && part.line != NO_LINE;
        let same = alike.then(|| probability(chains.mix(mix), left));
        let blend = Blend::new(part, chains.rate(part.line), same);
        let mix = mix.filter(|_| blend.mix > LEAST_MIX);
        Self { left, right, mix, blend, seconds, beside: part.beside }
    }

    /// Mean and mean square of the power in it, given those of all mixes.
    pub(crate) fn moments(&self, watts: &[f64], of_mixes: &[(f64, f64)]) -> (f64, f64) {
        let of = |column: u32| watts.get(column as usize).copied().unwrap_or(0.0);
        let (left, right) = (of(self.left), of(self.right));
        let mix = self.mix.and_then(|mix| of_mixes.get(mix).copied()).unwrap_or_default();
        let Blend { left: p, right: q, mix: r, .. } = self.blend;
        (p * left + q * right + r * mix.0, p * left * left + q * right * right + r * mix.1)
    }
}

/// Less of a mix than this is none.
const LEAST_MIX: f64 = 1e-6;
