//! Idle power of a machine that was busy while it was to be measured: what was measured then holds what ran
//! as well.
//!
//! P = idle + w · (busy CPUs), over windows of the run and the measurement before it; where CPUs were as busy
//! all the time this shows nothing, and what servers draw at rest beside what they draw busy says roughly how
//! much of it is idle power:
//!
//! ```text
//! idle ~ N(m, ((P_before − m) / 2)²),   m = P_before · 0.74 n / (0.74 n + 2.76 busy),   n CPUs
//! ```
//!
//! It is at most what was measured, and what the run's lowest windows have. Leaves out machines that were at
//! rest, and GPUs.

use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Watts of a CPU at rest, and those that it adds when busy: averages of servers (Cloud Carbon Footprint).
const CPU_IDLE: f64 = 0.74;
const CPU_BUSY: f64 = 2.76;
/// Shortest window that is looked at by itself.
const WINDOW_NS: u64 = 100_000_000;
/// The part of the time whose power no idle power exceeds.
const LOWEST: f64 = 0.05;
/// Programs draw other power in turns of seconds, which neighbouring windows share: no closer is known, in
/// parts of what was measured.
const CLOSEST: f64 = 0.05;

/// What was measured before the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) power: MicroWatts,
    /// Seconds that it took, the domain's CPUs, and how many of them were busy.
    pub(super) seconds: f64,
    pub(super) cpus: f64,
    pub(super) busy: f64,
}

/// The power of a domain at rest and its standard deviation, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Idle {
    pub(super) power: MicroWatts,
    pub(super) sd: f64,
}

/// A window of the run, or the measurement before it.
#[derive(Clone, Copy, Debug)]
struct Window {
    seconds: f64,
    watts: f64,
    busy: f64,
}

/// Estimates it from what a domain used in a run, and when its CPUs were busy in any order.
pub(super) fn estimate(
    before: Before,
    intervals: &[EnergyInterval],
    busy: impl Iterator<Item = Span>,
) -> Idle {
    let measured = before.power.as_watts();
    let mut windows = windows(intervals, busy);
    let lowest = lowest(&mut windows).unwrap_or(f64::INFINITY);
    windows.push(Window { seconds: before.seconds, watts: measured, busy: before.busy });
    let rest = CPU_IDLE * before.cpus;
    let expected = measured * rest / (rest + CPU_BUSY * before.busy).max(f64::MIN_POSITIVE);
    let prior_sd = ((measured - expected) / 2.0).max(f64::MIN_POSITIVE);
    let (idle, sd) = posterior(&windows, expected, prior_sd);
    let idle = idle.clamp(0.0, measured.min(lowest).max(0.0));
    Idle { power: MicroWatts::from_watts(idle).unwrap_or_default(), sd: sd.max(CLOSEST * measured) }
}

/// Windows of the run, of at least `WINDOW_NS` each, and how many CPUs were busy in them.
#[expect(clippy::cast_precision_loss, reason = "times in seconds")]
fn windows(intervals: &[EnergyInterval], busy: impl Iterator<Item = Span>) -> Vec<Window> {
    let mut spans: Vec<(Span, u64, MicroJoules, u64)> = Vec::new();
    for EnergyInterval { span, energy, .. } in intervals {
        match spans.last_mut() {
            Some((whole, ns, sum, _)) if *ns < WINDOW_NS => {
                (whole.end, *ns, *sum) = (span.end, *ns + span.ns(), *sum + *energy);
            }
            _ => spans.push((*span, span.ns(), *energy, 0)),
        }
    }
    for one in busy {
        let first = spans.partition_point(|(span, ..)| span.end <= one.start);
        for (span, .., busy_ns) in spans.iter_mut().skip(first).take_while(|(span, ..)| span.start < one.end)
        {
            *busy_ns += span.overlap(one).map_or(0, Span::ns);
        }
    }
    let window = |(_, ns, energy, busy_ns): (Span, u64, MicroJoules, u64)| {
        let seconds = ns.max(1) as f64 / 1e9;
        Window { seconds, watts: energy.as_joules() / seconds, busy: busy_ns as f64 / 1e9 / seconds }
    };
    spans.into_iter().map(window).collect()
}

/// The power that no more than `LOWEST` of the time was below.
fn lowest(windows: &mut [Window]) -> Option<f64> {
    windows.sort_by(|one, other| one.watts.total_cmp(&other.watts));
    let enough = LOWEST * windows.iter().map(|window| window.seconds).sum::<f64>();
    let mut so_far = 0.0;
    let found = windows.iter().find(|window| {
        so_far += window.seconds;
        so_far >= enough
    });
    found.map(|window| window.watts)
}

/// Mean and standard deviation of the intercept, which is known to be about `expected` beforehand.
fn posterior(windows: &[Window], expected: f64, expected_sd: f64) -> (f64, f64) {
    let sum =
        |of: &dyn Fn(&Window) -> f64| windows.iter().map(|window| window.seconds * of(window)).sum::<f64>();
    let (s, su, suu) = (sum(&|_| 1.0), sum(&|window| window.busy), sum(&|window| window.busy * window.busy));
    let (sp, sup) = (sum(&|window| window.watts), sum(&|window| window.busy * window.watts));
    let spread = (suu - su * su / s).max(0.0);
    let slope = if spread > 0.0 { (sup - su * sp / s) / spread } else { 0.0 };
    let at = |window: &Window| (sp - slope * su) / s + slope * window.busy;
    let misfit = sum(&|window| (window.watts - at(window)).powi(2));
    let freedom = (windows.len() as f64 - 2.0).max(1.0);
    // The variance of a second's power.
    let noise = (misfit / freedom).max((1e-3 * expected_sd).powi(2));
    let (a, b, d) = (s / noise + expected_sd.powi(-2), su / noise, suu / noise);
    let (p, q) = (sp / noise + expected * expected_sd.powi(-2), sup / noise);
    let determinant = a * d - b * b;
    if determinant <= 0.0 || !determinant.is_finite() {
        return (expected, expected_sd);
    }
    ((d * p - b * q) / determinant, (d / determinant).sqrt().min(expected_sd))
}

#[cfg(test)]
mod tests {
    use super::{Before, Idle, estimate};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::{MicroJoules, MicroWatts};

    const STEP_MS: u64 = 10;

    /// A run of 4 s on two CPUs, so many busy at each step, of 10 W and 8 more for each busy one; 26 W were
    /// measured while both were busy.
    fn found(busy: impl Fn(u64) -> u64) -> Idle {
        let at = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let step = |number: u64| Span::new(at(number * STEP_MS), at((number + 1) * STEP_MS));
        let interval = |number: u64| {
            let mj = STEP_MS * (10 + 8 * busy(number));
            EnergyInterval { span: step(number), energy: MicroJoules::from_uj((mj * 1_000) as i64) }
        };
        let intervals: Vec<EnergyInterval> = (0..400).map(interval).collect();
        let spans = (0..400).flat_map(|number| (0..busy(number)).map(move |_| step(number)));
        let power = MicroWatts::from_watts(26.0).unwrap();
        estimate(Before { power, seconds: 1.0, cpus: 2.0, busy: 2.0 }, &intervals, spans)
    }

    fn assert_near(found: Idle, watts: f64) {
        let power = found.power.as_watts();
        assert!((power - watts).abs() <= 2.0 * found.sd, "{power} ± {} W, not {watts} W", found.sd);
    }

    /// Where the neighbours rest for a part of the run, or the program does, the run shows the idle power;
    /// where they end with the start it does too.
    #[test]
    fn what_the_run_shows() {
        for idle in
            [found(|step| if step % 100 < 30 { 1 } else { 2 }), found(|step| step / 200), found(|_| 1)]
        {
            assert_near(idle, 10.0);
            assert!(idle.sd < 3.0, "{idle:?}");
        }
    }

    /// Where all CPUs are busy all the time nothing shows: a part of what was measured is taken, and it is
    /// known how little that is worth.
    #[test]
    fn what_no_run_shows() {
        let idle = found(|_| 2);
        assert_near(idle, 10.0);
        assert!(idle.power.as_watts() < 15.0 && idle.sd > 5.0, "{idle:?}");
    }

    /// No more than the run's lowest power is idle power, and none is below zero.
    #[test]
    fn never_more_than_there_is() {
        let idle = found(|step| if step < 40 { 0 } else { 2 });
        assert!(idle.power.as_watts() <= 10.0 + 1e-6, "{idle:?}");
        let before = Before { power: MicroWatts::default(), seconds: 1.0, cpus: 2.0, busy: 2.0 };
        assert_eq!(estimate(before, &[], std::iter::empty()).power, MicroWatts::default());
    }

    /// 20 W by steps of 10 ms, which a counter shows as 5 and 35 W in turn, of a CPU that is always as busy: the
    /// lowest power is that of longer windows, and idle power what servers have of 20 W.
    #[test]
    fn short_steps_are_looked_at_together() {
        let at = |step: u64| KtimeNs::from_ns(step * 10_000_000);
        let interval = |step: u64| {
            let mj = if step.is_multiple_of(2) { 50 } else { 350 };
            EnergyInterval {
                span: Span::new(at(step), at(step + 1)),
                energy: MicroJoules::from_uj(mj * 1_000),
            }
        };
        let intervals: Vec<EnergyInterval> = (0..400).map(interval).collect();
        let (power, busy) =
            (MicroWatts::from_watts(20.0).unwrap(), std::iter::once(Span::new(at(0), at(400))));
        let idle = estimate(Before { power, seconds: 1.0, cpus: 4.0, busy: 1.0 }, &intervals, busy);
        let expected = 20.0 * 4.0 * 0.74 / (4.0 * 0.74 + 2.76);
        assert!((idle.power.as_watts() - expected).abs() < 1e-3, "{idle:?}, {expected}");
    }
}
