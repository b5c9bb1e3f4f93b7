//! How far the ends of an interval may put its energy off, because a counter moves in steps.
//!
//! Leaves out by how much it was late at one reading (`timeline::reading_jitter`), where that shows.

use super::evidence::Evidence;
use crate::between_samples::expected_time::{Share, moments};
use crate::between_samples::switching_chain::Chains;
use crate::timeline::reading_jitter::{LATE_NS, UNKNOWN_VARIANCE};

/// How far a counter's edges may put an interval's energy off.
#[derive(Debug)]
pub(crate) struct Edges {
    /// Energy of the idle baseline in a millisecond.
    idle: f64,
    /// Energy above it that the last millisecond of each interval is expected to hold, which the counter may show too late.
    late: Vec<f64>,
    /// Variance (ms²) of how late the counter was at each interval's begin, and at the last one's end (`reading_jitter`).
    unsure: Vec<f64>,
    /// Mean square (ms²) of how late the counter is on average, beside what times were moved for it (`counter_delay`).
    bias: f64,
}

impl Edges {
    /// With the power that functions of these watts are expected to draw.
    pub(crate) fn new(evidence: &Evidence<'_>, shares: &[Share], watts: &[f64], chains: &Chains) -> Self {
        let of_mixes: Vec<(f64, f64)> = chains.mixes().map(|mix| moments(mix, watts)).collect();
        Self::with(evidence, shares, |share| share.moments(watts, &of_mixes).0)
    }

    fn with(evidence: &Evidence<'_>, shares: &[Share], power: impl Fn(&Share) -> f64) -> Self {
        let Evidence { intervals, dynamic, parts, .. } = *evidence;
        let mut late = vec![0.0; intervals.len()];
        for (part, share) in parts.iter().zip(shares) {
            let place = part.interval as usize;
            let Some(interval) = intervals.get(place) else { continue };
            let before_end = interval.span.end.ns_since(part.at).saturating_sub(part.ns / 2);
            let ns = part.ns.min(LATE_NS.saturating_sub(before_end));
            late[place] += part.weight * power(share) * ns as f64 / 1e9;
        }
        let measured: f64 = intervals.iter().map(|interval| interval.energy.as_joules()).sum();
        let above: f64 = dynamic.iter().map(|energy| energy.as_joules()).sum();
        let ns: f64 = intervals.iter().map(|interval| interval.span.ns() as f64).sum();
        Self {
            idle: (measured - above).max(0.0) * LATE_NS as f64 / ns.max(1.0),
            late,
            unsure: evidence.reading_jitter.to_vec(),
            bias: (0.5 - evidence.delay_ns as f64 / LATE_NS as f64).powi(2),
        }
    }

    /// Mean square (J²) of what the ends of an interval, or of several, put its energy off: u A − v B, A and B what the millisecond before
    /// either end held, u and v evenly distributed between nothing and all of it.
    pub(crate) fn variance(&self, before: Option<usize>, last: usize) -> f64 {
        let in_last_ms = |interval: usize| self.idle + self.late.get(interval).copied().unwrap_or(0.0);
        let (a, b) = (before.map_or(self.idle, in_last_ms), in_last_ms(last));
        let unsure = |boundary: usize| self.unsure.get(boundary).copied().unwrap_or(UNKNOWN_VARIANCE);
        a * a * unsure(before.map_or(0, |before| before + 1))
            + b * b * unsure(last + 1)
            + (a - b).powi(2) * self.bias
    }
}

#[cfg(test)]
mod tests {
    use super::Edges;

    /// Power that is the same at both ends blurs an interval less than power at one of them only.
    #[test]
    fn edges_cancel_in_part() {
        let edges = Edges { idle: 0.02, late: vec![0.01, 0.01, 0.0], unsure: vec![], bias: 0.25 };
        assert!((edges.variance(Some(0), 1) - 0.03 * 0.03 / 6.0).abs() < 1e-12);
        assert!(edges.variance(Some(1), 2) > (0.03 * 0.03 + 0.02 * 0.02) / 12.0);
    }
}
