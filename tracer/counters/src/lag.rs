//! How late a foreign meter's log is: its clock may be off, and a PDU or a BMC answers with what it measured
//! a while ago.
//!
//! Power follows work. The log is therefore shifted until its energy goes best with the time that CPUs were
//! busy: the shift with the largest squared correlation r² between the energy of each interval and the busy
//! time in it, first on a grid, then between its points. Clock offset and delay are one number here: nothing
//! in a log tells them apart. Leaves out whether a shift is worth making for a domain (the caller asks for
//! logs only; counters of this machine are read on its one clock), and meters that smooth.

use super::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{CounterValue, Reading};

/// How far a log is shifted at most, either way.
const REACH_NS: i64 = 10_000_000_000;
/// The grid's step: shorter than any meter's own interval.
const STEP_NS: i64 = 20_000_000;
/// Fewer intervals say nothing.
const ENOUGH: usize = 20;
/// The least r² of a shift that is believed, and the least that it must gain over no shift at all.
const GOOD: f64 = 0.5;
const GAIN: f64 = 0.05;
/// Power that strays by less than this part of it (a standard deviation) is steady: what it seems to follow is its
/// rounding.
const STEADY: f64 = 0.01;

/// A shift that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// How much later the log is than what it measured, in nanoseconds; negative: earlier.
    pub late_ns: i64,
    /// r² with the shift.
    pub fit: f64,
    /// r² without.
    pub unshifted: f64,
}

/// Finds the shift of a log; `None` where no shift is clearly better than none. `busy` are the times that
/// CPUs were busy, one span for each CPU and stretch, in any order.
pub fn fit_lag(readings: &[Reading], busy: impl Iterator<Item = Span>, span: Span) -> Option<Lag> {
    let work = BusyTime::new(busy);
    let steps = steps_of(readings);
    let reach = REACH_NS.min(i64::try_from(span.ns() / 4).unwrap_or(REACH_NS));
    let score = |late_ns: i64| r_squared(&steps, &work, late_ns, span);
    let unshifted = score(0)?;
    let best_of = |candidates: &mut dyn Iterator<Item = i64>| {
        let scored = candidates.filter_map(|late_ns| Some((late_ns, score(late_ns)?)));
        scored.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (coarse, _) = best_of(&mut (-reach / STEP_NS..=reach / STEP_NS).map(|n| n * STEP_NS))?;
    let (late_ns, fit) = best_of(&mut (-10..=10).map(|n| coarse + n * STEP_NS / 10))?;
    (fit >= GOOD && fit >= unshifted + GAIN).then_some(Lag { late_ns, fit, unshifted })
}

/// The readings as they would be without their lag; those from before the clock's start are left out.
pub fn shift(readings: &[Reading], lag: Lag) -> Vec<Reading> {
    let earlier = |reading: &Reading| {
        let at = reading.at.as_ns().checked_add_signed(lag.late_ns.checked_neg()?)?;
        Some(Reading { at: KtimeNs::from_ns(at), ..*reading })
    };
    readings.iter().filter_map(earlier).collect()
}

/// Intervals between good readings: from, to, energy in microjoules. A counter that goes back makes none.
fn steps_of(readings: &[Reading]) -> Vec<(i64, i64, f64)> {
    let good: Vec<(i64, u64)> = readings
        .iter()
        .filter_map(|reading| match reading.value {
            CounterValue::MicroJoules(uj) => Some((reading.at.as_ns().cast_signed(), uj)),
            CounterValue::Failed => None,
        })
        .collect();
    let step = |pair: &[(i64, u64)]| match pair {
        &[(from, before), (to, after)] if to > from => Some((from, to, real(after.checked_sub(before)?))),
        _ => None,
    };
    good.windows(2).filter_map(step).collect()
}

/// The squared correlation of energy and busy time, both per nanosecond so that intervals of any length count
/// alike; `None` where there are too few intervals, or nothing varies.
fn r_squared(steps: &[(i64, i64, f64)], work: &BusyTime, late_ns: i64, span: Span) -> Option<f64> {
    let (start, end) = (span.start.as_ns().cast_signed(), span.end.as_ns().cast_signed());
    let (mut n, mut x, mut y, mut xx, mut yy, mut xy) = (0_usize, 0.0, 0.0, 0.0, 0.0, 0.0);
    for &(from, to, energy) in steps {
        let (from, to) = (from.saturating_sub(late_ns), to.saturating_sub(late_ns));
        if from < start || to > end {
            continue;
        }
        let ns = real(to.abs_diff(from));
        let (busy, power) = ((work.until(to) - work.until(from)) / ns, energy / ns);
        n += 1;
        x += busy;
        y += power;
        xx += busy * busy;
        yy += power * power;
        xy += busy * power;
    }
    let count = real(n as u64);
    let (vx, vy, cov) = (xx - x * x / count, yy - y * y / count, xy - x * y / count);
    let is_steady = vy * count <= (STEADY * y).powi(2);
    // A shift that makes hotter intervals idle is no match, however well it correlates.
    (n >= ENOUGH && vx > 0.0 && !is_steady).then(|| if cov > 0.0 { cov * cov / (vx * vy) } else { 0.0 })
}

#[expect(clippy::cast_precision_loss, reason = "a statistic, not an account: 53 bits are plenty")]
const fn real(n: u64) -> f64 {
    n as f64
}

/// Busy CPU time up to a moment, as corners of a rising line.
struct BusyTime {
    /// Moments at which the number of busy CPUs changes, in order.
    at: Vec<i64>,
    /// Busy nanoseconds up to each of them.
    busy: Vec<f64>,
}

impl BusyTime {
    fn new(spans: impl Iterator<Item = Span>) -> Self {
        let mut changes: Vec<(i64, i32)> = spans
            .flat_map(|span| [(span.start.as_ns().cast_signed(), 1), (span.end.as_ns().cast_signed(), -1)])
            .collect();
        changes.sort_unstable();
        let (mut at, mut busy): (Vec<i64>, Vec<f64>) = (Vec::new(), Vec::new());
        let (mut running, mut sum, mut last) = (0, 0.0, 0);
        for (moment, change) in changes {
            sum += f64::from(running) * real(moment.abs_diff(if at.is_empty() { moment } else { last }));
            (running, last) = (running + change, moment);
            if at.last() == Some(&moment) {
                continue;
            }
            at.push(moment);
            busy.push(sum);
        }
        Self { at, busy }
    }

    fn until(&self, moment: i64) -> f64 {
        let after = self.at.partition_point(|&corner| corner <= moment);
        let corner = |n: usize| Some((*self.at.get(n)?, *self.busy.get(n)?));
        match (after.checked_sub(1).and_then(corner), corner(after)) {
            (Some((t0, b0)), Some((t1, b1))) => {
                b0 + (b1 - b0) * real(moment.abs_diff(t0)) / real(t1.abs_diff(t0))
            }
            (Some((_, all)), None) => all,
            (None, _) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lag, fit_lag, shift};
    use crate::Span;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::recording::record::{CounterValue, Reading};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn span(from_ms: u64, to_ms: u64) -> Span {
        Span { start: KtimeNs::from_ns(from_ms * MS), end: KtimeNs::from_ns(to_ms * MS) }
    }

    /// Busy from 20 s on, for 700 ms of each stretch of irregular length.
    fn busy() -> Vec<Span> {
        let starts = [0_u64, 1900, 3200, 5500, 6800, 9100, 11_300, 12_400, 14_900, 17_000, 18_100];
        starts.iter().map(|&start| span(20_000 + start, 20_700 + start)).collect()
    }

    /// A meter of 5 W and 20 W more while busy, read each 100 ms, whose log is late.
    fn log(busy: &[Span], late_ms: i64) -> Vec<Reading> {
        let mut uj = 0;
        (0..220_i64)
            .map(|n| {
                let truth = span(19_000 + 100 * n as u64, 19_100 + 100 * n as u64);
                let at = truth.start.as_ns().checked_add_signed(late_ms * MS as i64).unwrap();
                let reading = Reading { at: KtimeNs::from_ns(at), value: CounterValue::MicroJoules(uj) };
                let worked: u64 = busy.iter().filter_map(|b| b.overlap(truth)).map(Span::ns).sum();
                uj += 5 * truth.ns() / 1000 + 20 * worked / 1000;
                reading
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        /// Any lag within reach is found to a tenth of the meter's interval, and shifting by it gives the
        /// true times back.
        #[test]
        fn lags_are_found(late_ms in prop_oneof![-3000_i64..-200, 200_i64..3000]) {
            let busy = busy();
            let late = log(&busy, late_ms);
            let lag = fit_lag(&late, busy.iter().copied(), span(20_000, 39_000)).unwrap();
            prop_assert!((lag.late_ns / MS as i64 - late_ms).abs() <= 10, "{lag:?}, truth {late_ms} ms");
            prop_assert!(lag.fit > 0.99);
            let moved = shift(&late, lag);
            prop_assert!(moved[5].at.as_ns().abs_diff(19_500 * MS) <= 10 * MS);
        }
    }

    /// A log that is in time, one that knows nothing of the work or next to nothing, and one of a few rows are left alone.
    #[test]
    fn no_reason_to_shift() {
        let busy = busy();
        let all = || busy.iter().copied();
        assert_eq!(fit_lag(&log(&busy, 0), all(), span(20_000, 39_000)), None);
        assert_eq!(fit_lag(&log(&[], 0), all(), span(20_000, 39_000)), None);
        assert_eq!(fit_lag(&log(&busy, 500)[..12], all(), span(20_000, 39_000)), None);
        assert_eq!(fit_lag(&[], all(), span(20_000, 39_000)), None);
        // 5 W, and 20 mW more while busy.
        let faint = (0..).zip(log(&busy, 500)).map(|(n, reading)| match reading.value {
            CounterValue::MicroJoules(uj) => {
                let value = CounterValue::MicroJoules(n * 500_000 + (uj - n * 500_000) / 1000);
                Reading { value, ..reading }
            }
            CounterValue::Failed => reading,
        });
        assert_eq!(fit_lag(&faint.collect::<Vec<_>>(), all(), span(20_000, 39_000)), None);
    }

    /// Readings that would lie before the clock's start go away instead of wrapping round.
    #[test]
    fn before_the_start() {
        let reading = Reading { at: KtimeNs::from_ns(5), value: CounterValue::MicroJoules(1) };
        let lag = Lag { late_ns: 10, fit: 1.0, unshifted: 0.0 };
        assert_eq!(shift(&[reading], lag), []);
    }
}
