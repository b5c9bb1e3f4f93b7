//! When a source is read next: at a fixed rate on average, at random distances.
//!
//! A program's loop of 50 ms that is read each 10 ms is always cut at the same five places, and what runs between two of them is never seen
//! apart; that is aliasing, and it is the same with samples (`probe/sampling`). So each distance is drawn evenly from half to one and a half of the
//! period, or from four to six fifths where a meter's steps are followed. Leaves out the readings themselves (`reader`).

use std::time::Duration;
use tokio::time::Instant;

/// No source is read more often than this.
const SHORTEST: Duration = Duration::from_millis(1);

/// How far distances are from the period, as parts of it: of a source that is read anyhow, and of one whose steps are followed. Readings that are two and a
/// half to a step, each at the same distance from the next, would show steps that are not there.
const FREE: f64 = 0.5;
const FOLLOWING: f64 = 0.2;

/// When rounds are due.
#[derive(Debug)]
pub(super) struct Pace {
    period: Duration,
    /// How far distances are from it at most, as a part of it.
    jitter: f64,
    due: Instant,
}

impl Pace {
    /// From now on, each `wanted` on average; as often as it says, and less at random, where a source has a period of its `own`: its meter's steps are
    /// followed one by one.
    pub(super) fn new(wanted: Duration, own: Option<Duration>, now: Instant) -> Self {
        let jitter = if own.is_some() { FOLLOWING } else { FREE };
        Self { period: own.unwrap_or(wanted).max(SHORTEST), jitter, due: now }
    }

    /// When the next round is due. Rounds that were missed are left out.
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        let distance = self.period.mul_f64(1.0 + self.jitter * (2.0 * fastrand::f64() - 1.0));
        self.due = (self.due + distance).max(now);
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Pace};

    const PERIOD: Duration = Duration::from_millis(20);

    /// Distances of a thousand rounds that come in time.
    fn distances(own: Option<Duration>) -> Vec<Duration> {
        let mut now = Instant::now();
        let mut pace = Pace::new(PERIOD, own, now);
        let mut distance = || {
            let due = pace.next(now);
            let distance = due - now;
            now = due;
            distance
        };
        (0..1_000).map(|_| distance()).collect()
    }

    /// Distances lie evenly between half a period and one and a half: mean 1, standard deviation 1/√12 = 0.289.
    #[test]
    fn distances_are_random() {
        let parts: Vec<f64> =
            distances(None).iter().map(|distance| distance.as_secs_f64() / PERIOD.as_secs_f64()).collect();
        let mean = parts.iter().sum::<f64>() / 1_000.0;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / 1_000.0;
        // Five standard errors of a thousand.
        assert!((mean - 1.0).abs() < 0.046 && (variance.sqrt() - 0.289).abs() < 0.03, "{mean} {variance}");
        assert!(parts.iter().all(|part| (0.5..=1.5).contains(part)));
    }

    /// A source whose steps are followed is read as often as it asks for, within a fifth.
    #[test]
    fn steps_are_followed() {
        for (own, period) in
            [(PERIOD / 2, PERIOD / 2), (PERIOD * 2, PERIOD * 2), (Duration::ZERO, super::SHORTEST)]
        {
            let distances = distances(Some(own));
            let mean = distances.iter().sum::<Duration>().as_secs_f64() / 1_000.0 / period.as_secs_f64();
            assert!((mean - 1.0).abs() < 0.02, "{mean}");
            assert!(
                distances
                    .iter()
                    .all(|distance| *distance >= period.mul_f64(0.8) && *distance <= period.mul_f64(1.2))
            );
            assert!(distances.iter().any(|distance| *distance > period.mul_f64(1.15)));
        }
    }

    /// A reader that was away for a second reads once, not fifty times.
    #[test]
    fn missed_rounds_are_left_out() {
        let start = Instant::now();
        let mut pace = Pace::new(PERIOD, Some(PERIOD), start);
        let late = start + Duration::from_secs(1);
        assert_eq!(pace.next(late), late);
        let next = pace.next(late);
        assert!(next >= late + PERIOD.mul_f64(0.8) && next <= late + PERIOD.mul_f64(1.2));
    }
}
