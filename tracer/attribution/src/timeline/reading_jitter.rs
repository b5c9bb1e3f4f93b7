//! How late a counter was at each reading, by what windows show in which nothing ran.
//!
//! A counter that moves each millisecond shows at a reading what was spent until up to a millisecond before. What one window lacks by that
//! the next one has too much. Where nothing ran only the idle baseline was spent, so that such a window shows by how much the lateness at
//! its begin and at its end differ; a row of such windows ties many readings together, each of which is late by 0 to 1 ms.
//!
//! ```text
//! d_i = D_i / P = u_i − u_i+1 + ε_i       u ~ (½, a) ms,  ε ~ (b, q)       P: idle energy in a millisecond
//! cov (d_i, d_i+1) = −a,                  var d_i = 2 a + q                of windows that follow each other
//! ```
//!
//! The second line gives a and q: where a is not that of a counter that moves each millisecond (1/12) nothing is corrected, and the more a
//! baseline wanders by itself (q) the less. Each u is what its neighbours on both sides say (belief propagation on a chain: Pearl,
//! Probabilistic reasoning in intelligent systems, 1988), and P (û − ½) goes from one window to the other, in whole microjoules: the sum of
//! all windows stays. Leaves out windows in which something ran, whose power is not known yet, and that a counter's steps are even.

use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::units::MicroJoules;

/// A counter that moves each millisecond is up to one late.
pub(crate) const LATE_NS: u64 = 1_000_000;
/// Variance (ms²) of a lateness of which nothing is known.
pub(crate) const UNKNOWN_VARIANCE: f64 = 1.0 / 12.0;
/// Fewer pairs of windows that follow each other show nothing.
const FEWEST: f64 = 50.0;
/// The least variance (ms²) of what a window shows: a counter has a unit, and no baseline is even.
const LEAST: f64 = 1e-4;

/// A belief about a lateness: mean and variance.
#[derive(Clone, Copy, Debug)]
struct Belief {
    mean: f64,
    variance: f64,
}

impl Belief {
    const BEFORE: Self = Self { mean: 0.5, variance: UNKNOWN_VARIANCE };

    fn and(self, other: Self) -> Self {
        let variance = 1.0 / (1.0 / self.variance + 1.0 / other.variance);
        Self { mean: variance * (self.mean / self.variance + other.mean / other.variance), variance }
    }
}

/// Moves energy between neighbouring intervals so that each has what was spent in it, as far as that can be told; `dynamic` is the energy
/// above idle, `idle` the baseline's over all of them. Gives the variance (ms²) of the lateness that is left at each interval's begin, and at
/// the last one's end.
pub(crate) fn correct(
    intervals: &[EnergyInterval],
    idle: MicroJoules,
    dynamic: &mut [MicroJoules],
    busy: impl Iterator<Item = Span>,
) -> Vec<f64> {
    let ns = intervals.iter().fold(0_u64, |sum, interval| sum.saturating_add(interval.span.ns()));
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    let in_late = idle.as_joules() * LATE_NS as f64 / ns.max(1) as f64;
    let quiet = quiet(intervals, busy);
    let seen: Vec<Option<f64>> = quiet
        .iter()
        .zip(dynamic.iter())
        .map(|(quiet, energy)| quiet.then_some(energy.as_joules() / in_late).filter(|d| d.is_finite()))
        .collect();
    let Some((bias, noise)) = wander(&seen) else { return vec![UNKNOWN_VARIANCE; intervals.len() + 1] };
    let follows = |i: usize| match intervals.get(i.wrapping_sub(1)..=i) {
        Some([before, here]) => before.span.end == here.span.start,
        _ => false,
    };
    let beliefs = beliefs(&seen, bias, noise, follows);
    let mut unsure = vec![UNKNOWN_VARIANCE; beliefs.len()];
    for (boundary, belief) in beliefs.iter().enumerate().filter(|(i, _)| follows(*i)) {
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates; any whole number keeps the sum")]
        let late = MicroJoules::from_uj(((belief.mean - 0.5) * in_late * 1e6).round() as i64);
        dynamic[boundary - 1] += late;
        dynamic[boundary] -= late;
        unsure[boundary] = belief.variance;
    }
    unsure
}

/// The intervals in which nothing ran, nor just before.
fn quiet(intervals: &[EnergyInterval], busy: impl Iterator<Item = Span>) -> Vec<bool> {
    let mut quiet = vec![true; intervals.len()];
    for span in busy {
        let first = intervals.partition_point(|interval| interval.span.end <= span.start);
        let here = intervals.iter().zip(&mut quiet).skip(first);
        here.take_while(|(interval, _)| interval.span.start.ns_since(span.end) < LATE_NS)
            .for_each(|(_, quiet)| *quiet = false);
    }
    quiet
}

/// The mean of what quiet windows show, and its variance beside lateness; `None` where lateness does not show.
fn wander(seen: &[Option<f64>]) -> Option<(f64, f64)> {
    let pairs = || seen.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?)));
    let (count, sum) = pairs().fold((0.0, 0.0), |(count, sum), (a, b)| (count + 1.0, sum + a + b));
    if count < FEWEST {
        return None;
    }
    let bias = sum / (2.0 * count);
    let (product, square) = pairs().fold((0.0, 0.0), |(product, square), (a, b)| {
        let (a, b) = (a - bias, b - bias);
        (product + a * b, square + f64::midpoint(a * a, b * b))
    });
    let (late, noise) = (-product / count, (square + 2.0 * product) / count);
    (late > 0.5 * UNKNOWN_VARIANCE && late < 2.0 * UNKNOWN_VARIANCE).then_some((bias, noise.max(LEAST)))
}

/// What is believed of the lateness at each begin, and at the last end.
fn beliefs(seen: &[Option<f64>], bias: f64, noise: f64, follows: impl Fn(usize) -> bool) -> Vec<Belief> {
    let mut beliefs = vec![Belief::BEFORE; seen.len() + 1];
    let through =
        |belief: Belief, d: f64| Belief { mean: belief.mean + d, variance: belief.variance + noise };
    for (i, d) in seen.iter().enumerate() {
        if let Some(d) = d {
            let before = if follows(i) { beliefs[i] } else { Belief::BEFORE };
            beliefs[i + 1] = Belief::BEFORE.and(through(before, bias - d));
        }
    }
    let mut behind: Option<Belief> = None;
    for (i, d) in seen.iter().enumerate().rev() {
        let end = behind.map_or(Belief::BEFORE, |message| Belief::BEFORE.and(message));
        behind = d.map(|d| through(end, d - bias));
        if let Some(message) = behind {
            beliefs[i] = beliefs[i].and(message);
        }
        if !follows(i) {
            behind = None;
        }
    }
    beliefs
}

#[cfg(test)]
mod tests {
    use super::{EnergyInterval, MicroJoules, Span, UNKNOWN_VARIANCE, correct};
    use energy_trace_model::clock::KtimeNs;

    const WINDOW_NS: u64 = 20_000_000;
    /// Of 20 W, in microjoules a millisecond.
    const IDLE_UJ: f64 = 20_000.0;

    fn intervals(count: u64) -> Vec<EnergyInterval> {
        let at = |i: u64| KtimeNs::from_ns(i * WINDOW_NS);
        let interval = |i| EnergyInterval { span: Span::new(at(i), at(i + 1)), energy: MicroJoules::ZERO };
        (0..count).map(interval).collect()
    }

    /// Even draws from nothing to one.
    fn draws() -> impl FnMut() -> f64 {
        let mut seed = 7_u64;
        move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(seed >> 32).unwrap()) / f64::from(u32::MAX)
        }
    }

    /// One window in five is busy (with 50 mJ): what readings' lateness put into the wrong one goes back in good part, as is said, and
    /// the sum stays.
    #[test]
    fn quiet_windows_show_lateness() {
        let (intervals, mut draw) = (intervals(1_000), draws());
        let late: Vec<f64> = (0..=1_000).map(|_| draw()).collect();
        let truth = |i: usize| if i % 5 == 2 { 50_000.0 } else { 0.0 };
        let of = |i: usize| MicroJoules::from_uj((truth(i) + IDLE_UJ * (late[i] - late[i + 1])) as i64);
        let mut dynamic: Vec<MicroJoules> = (0..1_000).map(of).collect();
        let before = dynamic.clone();
        let busy = (0..1_000).skip(2).step_by(5).map(|i: usize| intervals[i].span);
        // A busy window ends just where a quiet one begins: that one shows nothing, three others do.
        let idle = MicroJoules::from_uj(1_000 * 20 * 20_000);
        let unsure = correct(&intervals, idle, &mut dynamic, busy);
        assert_eq!(before.iter().copied().sum::<MicroJoules>(), dynamic.iter().copied().sum());
        let wrong = |energies: &[MicroJoules]| -> f64 {
            let error = |i: usize| ((energies[i].as_joules() * 1e6 - truth(i)) / IDLE_UJ).powi(2);
            (2..1_000).step_by(5).map(error).sum::<f64>() / 200.0
        };
        let said: f64 = (2..995).step_by(5).map(|i| unsure[i] + unsure[i + 1]).sum::<f64>() / 199.0;
        let (was, is) = (wrong(&before), wrong(&dynamic));
        assert!(is < 0.8 * was && (is / said - 1.0).abs() < 0.25, "{was} {is} {said}");
    }

    /// A baseline that wanders by itself, with no lateness in it, moves nothing; nor do windows in all of which something runs.
    #[test]
    fn what_is_not_lateness_moves_nothing() {
        let (intervals, mut draw) = (intervals(1_000), draws());
        let wander = |_| MicroJoules::from_uj((IDLE_UJ * (draw() - 0.5)) as i64);
        let energies: Vec<MicroJoules> = (0..1_000).map(wander).collect();
        let idle = MicroJoules::from_uj(1_000 * 20 * 20_000);
        for busy in [vec![], vec![Span::new(intervals[0].span.start, intervals[999].span.end)]] {
            let mut dynamic = energies.clone();
            let unsure = correct(&intervals, idle, &mut dynamic, busy.into_iter());
            assert_eq!(dynamic, energies);
            assert!(unsure.len() == 1_001 && unsure.iter().all(|variance| *variance == UNKNOWN_VARIANCE));
        }
    }
}
