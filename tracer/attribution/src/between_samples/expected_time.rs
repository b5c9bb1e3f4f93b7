//! The expected time of each column in a slice of an interval.
//!
//! Leaves out the sums over windows (`power_model::design`).

use super::interval_slices::IntervalSlice;
use super::markov_bridge::BridgeWeights;
use super::switching_chain::{Chains, probability};
use crate::parts::Part;
use crate::time::inter_sample::{NO_TRACK, NOBODY};

/// What times between samples are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times<'a> {
    /// A chain that forgets.
    Chain(&'a Chains),
    /// The nearest sample.
    Nearest,
}

impl<'a> Times<'a> {
    /// The chains, where these are asked.
    fn chains(self) -> Option<&'a Chains> {
        match self {
            Self::Chain(chains) => Some(chains).filter(|chains| !chains.left_out.has(Part::Bridge)),
            Self::Nearest => None,
        }
    }
}

/// What a slice adds to its window: the probabilities of its samples' columns and of its track's mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnWeights {
    pub(crate) left: u32,
    pub(crate) right: u32,
    /// The number of the mix; `None` where it has no part.
    pub(crate) mix: Option<usize>,
    pub(crate) bridge: BridgeWeights,
    /// Its time in seconds, less where the core is shared (`smt`).
    pub(crate) seconds: f64,
    /// How busy other CPUs were meanwhile.
    pub(crate) contention: f64,
}

impl ColumnWeights {
    /// The weights of one slice; `column` is that of an owner.
    pub(crate) fn of(slice: &IntervalSlice, times: Times<'_>, column: &impl Fn(u32) -> u32) -> Self {
        let left = column(slice.left);
        let right = if slice.right == NOBODY { left } else { column(slice.right) };
        let seconds = slice.seconds();
        let Some(chains) = times.chains() else {
            return Self {
                left,
                right,
                mix: None,
                bridge: BridgeWeights::nearest(slice),
                seconds,
                contention: slice.contention,
            };
        };
        let mix = chains.mix_number(slice.track, slice.at);
        let alike = left == right && slice.right != NOBODY && slice.track != NO_TRACK;
        let same = alike.then(|| probability(chains.mix(mix), left));
        let bridge = BridgeWeights::new(slice, chains.rate(slice.track), same);
        let mix = mix.filter(|_| bridge.mix > LEAST_MIX);
        Self { left, right, mix, bridge, seconds, contention: slice.contention }
    }

    /// Mean and mean square of the power in it, given those of all mixes.
    pub(crate) fn moments(&self, watts: &[f64], of_mixes: &[(f64, f64)]) -> (f64, f64) {
        let of = |column: u32| watts.get(column as usize).copied().unwrap_or(0.0);
        let (left, right) = (of(self.left), of(self.right));
        let mix = self.mix.and_then(|mix| of_mixes.get(mix).copied()).unwrap_or_default();
        let BridgeWeights { left: p, right: q, mix: r, .. } = self.bridge;
        (p * left + q * right + r * mix.0, p * left * left + q * right * right + r * mix.1)
    }
}

/// Less of a mix than this is none.
const LEAST_MIX: f64 = 1e-6;
