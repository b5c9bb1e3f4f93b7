//! The windows of a domain: intervals between readings, put together where they are shorter than 7 ms,
//! because the counter's own steps (1 ms) say little about less; and how much of a slice's energy a lag shows
//! in later ones.
//!
//! Leaves out who ran in them (`design`).

use crate::between_samples::interval_slices::IntervalSlice;
use crate::timeline::EnergyInterval;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;
use std::ops::Range;

/// Shorter intervals are put together.
const SHORTEST_NS: u64 = 7_000_000;

/// The windows of a domain, without times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    pub(crate) joules: Vec<f64>,
    /// Length of each window in nanoseconds.
    pub(crate) ns: Vec<u64>,
    /// Where each ends.
    ends: Vec<KtimeNs>,
    /// The window of each interval, in order.
    pub(super) of_interval: Vec<u32>,
}

impl Windows {
    /// Of intervals and their energy above idle.
    pub(crate) fn of_intervals(intervals: &[EnergyInterval], dynamic: &[MicroJoules]) -> Self {
        let mut windows = Self::default();
        let mut end = None;
        for (interval, energy) in intervals.iter().zip(dynamic) {
            let follows = end == Some(interval.span.start);
            match (windows.joules.last_mut(), windows.ns.last_mut()) {
                (Some(joules), Some(ns)) if follows && *ns < SHORTEST_NS => {
                    *joules += energy.as_joules();
                    *ns = ns.saturating_add(interval.span.ns());
                    windows.ends.pop();
                }
                _ => {
                    windows.joules.push(energy.as_joules());
                    windows.ns.push(interval.span.ns());
                }
            }
            windows.ends.push(interval.span.end);
            end = Some(interval.span.end);
            windows.of_interval.push(u32::try_from(windows.joules.len() - 1).unwrap_or(u32::MAX));
        }
        windows
    }

    /// Number of windows.
    pub(crate) const fn len(&self) -> usize {
        self.joules.len()
    }

    /// When a window was.
    pub(super) fn span(&self, window: usize) -> Option<(KtimeNs, KtimeNs)> {
        let (end, ns) = (*self.ends.get(window)?, *self.ns.get(window)?);
        Some((KtimeNs::from_ns(end.as_ns().saturating_sub(ns)), end))
    }

    /// The window of an interval.
    pub(crate) fn of(&self, interval: u32) -> Option<u32> {
        self.of_interval.get(interval as usize).copied()
    }

    /// The intervals of some windows.
    pub(super) fn intervals(&self, windows: &Range<usize>) -> Range<usize> {
        let until = |window: usize| self.of_interval.partition_point(|of| (*of as usize) < window);
        until(windows.start)..until(windows.end)
    }

    /// Number of intervals.
    pub(crate) const fn intervals_count(&self) -> usize {
        self.of_interval.len()
    }

    /// The first interval of each window, and behind them the number of intervals.
    pub(crate) fn first_intervals(&self) -> Vec<usize> {
        let firsts =
            (0..self.len()).map(|window| self.of_interval.partition_point(|of| (*of as usize) < window));
        firsts.chain([self.of_interval.len()]).collect()
    }

    /// What of a slice's energy is shown after its window.
    pub(super) fn late(&self, window: usize, slice: &IntervalSlice, lag_ns: f64) -> f64 {
        let end = self.ends.get(window).copied().unwrap_or_default();
        let after = end.ns_since(slice.at).saturating_sub(slice.ns / 2);
        shown_later(lag_ns, slice.ns as f64, after as f64)
    }

    /// What of the energy that was left at the end of the window before, a lag leaves at the beginning and at
    /// the end of a window.
    pub(super) fn left(&self, window: usize, lag_ns: f64) -> (f64, f64) {
        let end = |window: Option<usize>| window.and_then(|window| self.ends.get(window)).copied();
        let Some((end, before)) = end(Some(window)).zip(end(window.checked_sub(1))) else {
            return (0.0, 0.0);
        };
        let (ns, since) = (self.ns[window] as f64, end.ns_since(before) as f64);
        let begin = (-(since - ns).max(0.0) / lag_ns).exp();
        (begin, begin * (-ns / lag_ns).exp())
    }

    /// Neighbouring windows that are so long together, as ranges.
    pub(crate) fn blocks(&self, block_ns: u64) -> Vec<Range<usize>> {
        let mut blocks: Vec<Range<usize>> = vec![];
        let mut filled = u64::MAX;
        for (window, ns) in self.ns.iter().enumerate() {
            match blocks.last_mut() {
                Some(block) if filled < block_ns => block.end = window + 1,
                _ => {
                    blocks.push(window..window + 1);
                    filled = 0;
                }
            }
            filled = filled.saturating_add(*ns);
        }
        blocks
    }
}

/// What of a slice's energy a first-order lag shows after `after_ns` behind its end: τ (e^(−after / τ) −
/// e^(−(after + ns) / τ)) / ns.
pub(super) fn shown_later(lag_ns: f64, ns: f64, after_ns: f64) -> f64 {
    if lag_ns <= 0.0 {
        0.0
    } else {
        (lag_ns / ns.max(1.0)) * (-after_ns / lag_ns).exp() * -(-ns / lag_ns).exp_m1()
    }
}
