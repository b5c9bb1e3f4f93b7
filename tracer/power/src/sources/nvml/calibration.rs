//! How a meter behaves, from what was read of it: its step, its lag, the part of each step that its sensor looks at.
//!
//! Step: the median time between two changes. Lag and window: the energy of each step against the mean of the driver's own power samples
//! over `[edge − lag − window, edge − lag]`, for all lags on a grid and windows of a whole, a half and a quarter step; the pair with the
//! largest squared correlation counts. A lag is therefore one against the driver's samples. Without load that changes nothing can be
//! said. Leaves out reading (`watch.rs`).

use energy_trace_model::clock::KtimeNs;

/// Readings of a meter in time order.
pub(super) type Track = Vec<(KtimeNs, u64)>;

/// Fewer steps than this say nothing.
const ENOUGH_TICKS: usize = 4;
const ENOUGH_STEPS: usize = 30;
/// The least squared correlation that is believed.
const GOOD: f64 = 0.8;
/// A smaller window must be better by this.
const GAIN: f64 = 0.02;
/// Steps whose energy varies less than this (standard deviation over mean) show no load.
const VARIES: f64 = 0.05;
const LAG_STEP_NS: u64 = 5_000_000;
const LAG_REACH_NS: u64 = 250_000_000;

/// Where a meter changed: half-way between the last reading of the old value and the first of the new one, and the new value.
pub(super) fn edges(track: &Track) -> Track {
    let changed = track.windows(2).filter_map(|pair| match pair {
        &[(before, old), (after, new)] if new != old => Some((before.midpoint(after), new)),
        _ => None,
    });
    changed.collect()
}

/// The time between two steps in nanoseconds; `None` when it stepped too seldom.
pub(super) fn tick_ns(track: &Track) -> Option<u64> {
    let edges = edges(track);
    let mut spaces: Vec<u64> = edges.windows(2).map(|pair| pair[1].0.ns_since(pair[0].0)).collect();
    spaces.sort_unstable();
    (spaces.len() >= ENOUGH_TICKS).then(|| spaces[spaces.len() / 2])
}

/// How late a counter is against the driver's samples, and what part of each step it saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) lag_ns: u64,
    pub(super) window_ns: u64,
    /// The squared correlation.
    pub(super) r2: f64,
}

/// Fits lag and window of a counter with this step. `ring` are the driver's samples: when each was taken, and the mean power since the one
/// before.
pub(super) fn fit(edges: &Track, ring: &Track, tick_ns: u64) -> Option<Fit> {
    let near = |ns: u64| ns.abs_diff(tick_ns) * 2 <= tick_ns;
    let steps: Vec<(u64, f64)> = edges
        .windows(2)
        .filter(|pair| near(pair[1].0.ns_since(pair[0].0)) && pair[1].1 > pair[0].1)
        .map(|pair| (pair[1].0.as_ns(), real(pair[1].1 - pair[0].1)))
        .collect();
    if steps.len() < ENOUGH_STEPS || !varies(&steps) {
        return None;
    }
    let power = Integral::new(ring);
    let mut best: Option<Fit> = None;
    for window_ns in [tick_ns, tick_ns / 2, tick_ns / 4] {
        let lags = (0..=LAG_REACH_NS / LAG_STEP_NS).map(|n| n * LAG_STEP_NS);
        let fits = lags.filter_map(|lag_ns| {
            let seen = steps.iter().filter_map(|&(edge, energy)| {
                let end = edge.checked_sub(lag_ns)?;
                Some((power.between(end.checked_sub(window_ns)?, end)?, energy))
            });
            Some(Fit { lag_ns, window_ns, r2: r_squared(seen)? })
        });
        let found = fits.max_by(|a, b| a.r2.total_cmp(&b.r2));
        if let Some(found) = found
            && best.is_none_or(|best| found.r2 >= best.r2 + GAIN)
        {
            best = Some(found);
        }
    }
    best.filter(|best| best.r2 >= GOOD)
}

fn varies(steps: &[(u64, f64)]) -> bool {
    let count = real(steps.len() as u64);
    let mean = steps.iter().map(|s| s.1).sum::<f64>() / count;
    let variance = steps.iter().map(|s| (s.1 - mean).powi(2)).sum::<f64>() / count;
    mean > 0.0 && variance.sqrt() / mean >= VARIES
}

/// The squared correlation of pairs; 0 where it is negative, `None` where there are too few or nothing varies.
fn r_squared(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut n, mut x, mut y, mut xx, mut yy, mut xy) = (0_usize, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (a, b) in pairs {
        (n, x, y) = (n + 1, x + a, y + b);
        (xx, yy, xy) = (xx + a * a, yy + b * b, xy + a * b);
    }
    let count = real(n as u64);
    let (vx, vy, cov) = (xx - x * x / count, yy - y * y / count, xy - x * y / count);
    (n >= ENOUGH_STEPS && vx > 0.0 && vy > 0.0).then(|| if cov > 0.0 { cov * cov / (vx * vy) } else { 0.0 })
}

/// The integral of a sampled power, as corners of a rising line.
struct Integral(Vec<(u64, f64)>);

impl Integral {
    fn new(ring: &Track) -> Self {
        let mut corners: Vec<(u64, f64)> = Vec::with_capacity(ring.len());
        let mut sum = 0.0;
        for &(at, mw) in ring {
            let at = at.as_ns();
            if let Some(&(before, _)) = corners.last() {
                if at <= before {
                    continue;
                }
                sum += real(mw) * real(at - before);
            }
            corners.push((at, sum));
        }
        Self(corners)
    }

    /// The energy between two moments; `None` where the samples do not reach.
    fn between(&self, from: u64, to: u64) -> Option<f64> {
        Some(self.until(to)? - self.until(from)?)
    }

    fn until(&self, moment: u64) -> Option<f64> {
        let after = self.0.partition_point(|corner| corner.0 < moment);
        let &(t1, e1) = self.0.get(after)?;
        if t1 == moment {
            return Some(e1);
        }
        let &(t0, e0) = self.0.get(after.checked_sub(1)?)?;
        Some(e0 + (e1 - e0) * real(moment - t0) / real(t1 - t0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a statistic, not an account: 53 bits are plenty")]
const fn real(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::{Track, edges, fit, tick_ns};
    use energy_trace_model::clock::KtimeNs;

    const MS: u64 = 1_000_000;

    /// Power in watts in each millisecond: stretches of irregular length and height.
    fn watts(ms: u64) -> u64 {
        60 + (ms / 37 * 2_654_435_761 % 97) * 4
    }

    fn energy_mj(from: u64, to: u64) -> u64 {
        (from..to).map(watts).sum()
    }

    /// A counter of steps of `tick` ms that sees the last `window` ms of each and is `lag` ms late, read every 7 ms for ten seconds.
    fn counter(tick: u64, window: u64, lag: u64) -> Track {
        let value = |ms: u64| {
            let steps = ms.saturating_sub(lag) / tick;
            (0..steps).map(|n| energy_mj((n + 1) * tick - window, (n + 1) * tick) * tick / window).sum()
        };
        (0..10_000).step_by(7).map(|ms| (KtimeNs::from_ns(ms * MS), value(ms))).collect()
    }

    fn ring() -> Track {
        let mean = |ms: u64| energy_mj(ms - 10, ms) * 1000 / 10;
        (10..10_000).step_by(10).map(|ms| (KtimeNs::from_ns(ms * MS), mean(ms))).collect()
    }

    /// Step, lag and window of simulated meters are found, each to what the readings can show.
    #[test]
    fn meters_are_recognised() {
        for (tick, window, lag) in [(100, 100, 30), (100, 25, 40), (100, 50, 0)] {
            let track = counter(tick, window, lag);
            let found_tick = tick_ns(&track).unwrap();
            assert!(found_tick.abs_diff(tick * MS) <= 7 * MS, "{found_tick}");
            let fit = fit(&edges(&track), &ring(), tick * MS).unwrap();
            assert_eq!(fit.window_ns, window * MS, "{fit:?}");
            assert!(fit.lag_ns.abs_diff(lag * MS) <= 8 * MS, "{fit:?} for a lag of {lag} ms");
        }
    }

    /// Constant power shows neither lag nor window, and a meter that stands still no step.
    #[test]
    fn nothing_is_made_up() {
        let steady: Track = (0..5000).map(|ms| (KtimeNs::from_ns(ms * MS), ms / 100 * 6_000)).collect();
        assert_eq!(fit(&edges(&steady), &ring(), 100 * MS), None);
        let still: Track = (0..5000).map(|ms| (KtimeNs::from_ns(ms * MS), 42)).collect();
        assert_eq!(tick_ns(&still), None);
        assert_eq!(fit(&edges(&counter(100, 100, 0)), &Track::new(), 100 * MS), None);
    }
}
