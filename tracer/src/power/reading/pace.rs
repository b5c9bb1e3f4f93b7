//! When a source is read next: at a fixed rate on average, at random distances.
//!
//! A program's loop of 50 ms that is read each 20 ms is always cut at the same five places, and what runs between two of them is never seen
//! apart; that is aliasing, and it is the same with samples (`probe/sampling`). So each distance is drawn evenly from half to one and a half of the
//! period. Leaves out the readings themselves (`reader`).

use std::time::Duration;
use tokio::time::Instant;

/// No source is read more often than this.
const SHORTEST: Duration = Duration::from_millis(1);

/// When rounds are due.
#[derive(Debug)]
pub(super) struct Pace {
    period: Duration,
    /// Whether distances are random.
    jitter: bool,
    due: Instant,
}

impl Pace {
    /// From now on, each `wanted` on average; even, and as often as it says, where a source has a period of its `own`: its meter's steps are followed one
    /// by one.
    pub(super) fn new(wanted: Duration, own: Option<Duration>, now: Instant) -> Self {
        Self { period: own.unwrap_or(wanted).max(SHORTEST), jitter: own.is_none(), due: now }
    }

    /// When the next round is due. Rounds that were missed are left out.
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        let distance = if self.jitter { self.period.mul_f64(0.5 + fastrand::f64()) } else { self.period };
        self.due = (self.due + distance).max(now);
        self.due
    }

    /// What was said last.
    pub(super) const fn due(&self) -> Instant {
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

    /// A source whose steps are followed is read evenly, as often as it asks for.
    #[test]
    fn steps_are_followed() {
        assert_eq!(distances(Some(PERIOD / 2)), [PERIOD / 2; 1_000]);
        assert_eq!(distances(Some(PERIOD * 2)), [PERIOD * 2; 1_000]);
        assert_eq!(distances(Some(Duration::ZERO)), [super::SHORTEST; 1_000]);
    }

    /// A reader that was away for a second reads once, not fifty times.
    #[test]
    fn missed_rounds_are_left_out() {
        let start = Instant::now();
        let mut pace = Pace::new(PERIOD, Some(PERIOD), start);
        let late = start + Duration::from_secs(1);
        assert_eq!(pace.next(late), late);
        assert_eq!(pace.next(late), late + PERIOD);
    }
}
