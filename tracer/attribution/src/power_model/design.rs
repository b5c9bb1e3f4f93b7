//! The regression's view of a domain: in each window the energy above idle and the expected time of each class.
//!
//! Windows are intervals between readings, put together where they are shorter than 15 ms, because the counter's own steps (1 ms) say
//! little about less. Leaves out solving (`power_model`).

use crate::between_samples::expected_time::{Share, moments, share};
use crate::between_samples::markov_bridge::{Part, Rate};
use crate::between_samples::switching_chain::Chains;
use crate::timeline::EnergyInterval;
use energy_trace_model::units::MicroJoules;

/// Shorter intervals are put together.
const SHORTEST_NS: u64 = 15_000_000;

/// All windows of a domain.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    pub(crate) columns: usize,
    pub(crate) joules: Vec<f64>,
    /// Length of each window in nanoseconds.
    pub(crate) ns: Vec<u64>,
    /// Expected seconds of each column, window by window.
    pub(crate) seconds: Vec<f64>,
    pub(crate) shares: Vec<Share>,
    /// The window of each interval.
    pub(crate) window_of: Vec<u32>,
    /// How much more than its average all power was in each window (`drift`); already in `seconds`.
    pub(crate) drift: Vec<f64>,
}

/// The windows, without times.
pub(crate) fn windows_of(
    intervals: &[EnergyInterval],
    dynamic: &[MicroJoules],
) -> (Vec<u32>, Vec<f64>, Vec<u64>) {
    let (mut window_of, mut joules, mut ns) = (Vec::new(), Vec::<f64>::new(), Vec::<u64>::new());
    let mut end = None;
    for (interval, energy) in intervals.iter().zip(dynamic) {
        let follows = end == Some(interval.span.start);
        match (joules.last_mut(), ns.last_mut()) {
            (Some(joules), Some(ns)) if follows && *ns < SHORTEST_NS => {
                *joules += energy.as_joules();
                *ns = ns.saturating_add(interval.span.ns());
            }
            _ => {
                joules.push(energy.as_joules());
                ns.push(interval.span.ns());
            }
        }
        end = Some(interval.span.end);
        window_of.push(u32::try_from(joules.len() - 1).unwrap_or(u32::MAX));
    }
    (window_of, joules, ns)
}

impl Design {
    /// With the times that each thread's rate makes of its samples. `column` is that of an owner.
    pub(crate) fn new(
        (window_of, joules, ns): (Vec<u32>, Vec<f64>, Vec<u64>),
        parts: &[Part],
        chains: &Chains,
        rates: &[Rate],
        columns: usize,
        column: impl Fn(u32) -> usize,
    ) -> Self {
        let mut seconds = vec![0.0; joules.len() * columns];
        let mut shares = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(&window) = window_of.get(part.interval as usize) else { continue };
            let share = share(part, window, chains, rates, &column);
            let row = &mut seconds[window as usize * columns..][..columns];
            row[share.left] += share.seconds * share.blend.left;
            row[share.right] += share.seconds * share.blend.right;
            if share.blend.mix > 0.0 {
                let mix = chains.drawn(part.line, part.at);
                row.iter_mut().zip(mix).for_each(|(sum, pi)| *sum += share.seconds * share.blend.mix * pi);
            }
            shares.push(share);
        }
        let drift = vec![1.0; joules.len()];
        Self { columns, joules, ns, seconds, shares, window_of, drift }
    }

    pub(crate) fn row(&self, window: usize) -> &[f64] {
        self.seconds.get(window * self.columns..(window + 1) * self.columns).unwrap_or_default()
    }

    /// Each window's row, and its energy in joules.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.joules.iter().enumerate().map(|(window, &joules)| (self.row(window), joules))
    }

    /// How much more than its average all power was in an interval.
    pub(crate) fn drift_of(&self, interval: usize) -> f64 {
        let window = self.window_of.get(interval).copied().unwrap_or(u32::MAX);
        self.drift.get(window as usize).copied().unwrap_or(1.0)
    }

    /// Takes all power in each window to be so many times what it was taken to be.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        for (window, factor) in factors.iter().enumerate() {
            self.drift[window] *= factor;
            let row = self.seconds.get_mut(window * self.columns..(window + 1) * self.columns);
            row.into_iter().flatten().for_each(|seconds| *seconds *= factor);
        }
    }

    /// Number of windows.
    pub(crate) const fn len(&self) -> usize {
        self.joules.len()
    }

    /// Variance of each window's energy (J²), given its samples, for functions that draw `watts`.
    pub(crate) fn variances(&self, watts: &[f64], chains: &Chains) -> Vec<f64> {
        let moments: Vec<(f64, f64)> = chains.mixes().map(|mix| moments(mix, watts)).collect();
        let mut variances = vec![0.0; self.len()];
        for share in self.shares.iter().filter(|share| share.blend.spread > 0.0) {
            let (mean, square) = share.moments(watts, &moments);
            if let Some(sum) = variances.get_mut(share.window as usize) {
                let seconds = share.seconds * self.drift[share.window as usize];
                *sum += seconds.powi(2) * share.blend.spread * (square - mean * mean).max(0.0);
            }
        }
        variances
    }
}

/// What windows or parts of them are expected to hold for functions that draw `watts`.
pub(crate) fn predicted(seconds: &[f64], watts: &[f64]) -> f64 {
    seconds.iter().zip(watts).map(|(seconds, watts)| seconds * watts).sum()
}
