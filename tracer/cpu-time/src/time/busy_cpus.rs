//! When CPUs of a domain were busy together: how many others beside a time, and whether any in an interval.
//!
//! Leaves out what that makes of power (`power_model::corrections`).

use crate::numerics::search::partition_near;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;

/// The usual most are exceeded in this part of the busy time.
const EXCEEDED: f64 = 0.01;

/// When a CPU begins to be busy, and when one ends, in order.
fn changes(busy: impl Iterator<Item = Span>) -> Vec<(KtimeNs, bool)> {
    let mut changes: Vec<(KtimeNs, bool)> =
        busy.flat_map(|busy| [(busy.start, true), (busy.end, false)]).collect();
    // Those of each CPU are in order, which a stable sort makes use of.
    changes.sort();
    changes
}

/// How many CPUs of a domain were busy when.
#[derive(Debug)]
pub struct BusyCpus {
    /// Moments at which the number changes, the number from then on, and the sum of busy times before.
    steps: Vec<(KtimeNs, u64, u64)>,
    /// The usual most.
    most: u64,
}

impl BusyCpus {
    /// Of the times in which a domain's CPUs were busy, in any order; `None` where hardly ever two were at
    /// once.
    #[expect(clippy::cast_precision_loss, reason = "a part of one")]
    pub fn of(busy: impl Iterator<Item = Span>) -> Option<Self> {
        let changes = changes(busy);
        let mut steps: Vec<(KtimeNs, u64, u64)> = Vec::with_capacity(changes.len());
        let (mut busy, mut sum, mut lasted) = (0_u64, 0_u64, Vec::<u64>::new());
        for (at, begins) in changes {
            if let Some(&(before, ..)) = steps.last() {
                let ns = at.ns_since(before);
                sum = sum.saturating_add(ns.saturating_mul(busy));
                let place = usize::try_from(busy).unwrap_or(0);
                lasted.resize(lasted.len().max(place + 1), 0);
                lasted[place] = lasted[place].saturating_add(ns);
            }
            busy = if begins { busy + 1 } else { busy.saturating_sub(1) };
            steps.push((at, busy, sum));
        }
        let all = lasted.iter().skip(1).fold(0_u64, |all, ns| all.saturating_add(*ns)) as f64;
        let mut above = 0.0;
        let most = (2..lasted.len()).rev().find(|&number| {
            above += lasted[number] as f64;
            above > EXCEEDED * all
        })?;
        Some(Self { steps, most: most as u64 })
    }

    /// Of how many other CPUs a time had the company, in parts of the usual most; for times of which each
    /// lies near the one before.
    pub fn contention(&self) -> impl FnMut(Span) -> f64 + '_ {
        let mut near = 0;
        move |span| self.contention_near(span, &mut near)
    }

    #[expect(clippy::cast_precision_loss, reason = "a part of one")]
    fn contention_near(&self, span: Span, near: &mut usize) -> f64 {
        let mut until = |at: KtimeNs| {
            *near = partition_near(&self.steps, *near, |step| step.0 <= at);
            let place = near.checked_sub(1).and_then(|place| self.steps.get(place));
            let Some(&(since, busy, sum)) = place else { return 0 };
            sum.saturating_add(at.ns_since(since).saturating_mul(busy))
        };
        let before = until(span.start);
        let others = until(span.end).saturating_sub(before).saturating_sub(span.ns());
        (others as f64 / (span.ns().max(1) * (self.most - 1).max(1)) as f64).min(1.0)
    }
}

/// How busy the CPUs of a domain were together in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Time in which any was busy.
    pub any_ns: u64,
    /// Time, times the number of pairs of CPUs that were busy at once.
    pub pairs_ns: u64,
}

/// The activity in each interval, of the times in which the domain's CPUs were busy, in any order.
pub fn activity(intervals: &[EnergyInterval], busy: impl Iterator<Item = Span>) -> Vec<Activity> {
    let changes = changes(busy);
    let mut activity = vec![Activity::default(); intervals.len()];
    let (mut busy, mut first) = (0_u64, 0);
    for pair in changes.windows(2) {
        let &[(start, begins), (end, _)] = pair else { continue };
        busy = if begins { busy + 1 } else { busy.saturating_sub(1) };
        let span = Span { start, end };
        if busy == 0 || start == end {
            continue;
        }
        while intervals.get(first).is_some_and(|interval| interval.span.end <= span.start) {
            first += 1;
        }
        for (i, interval) in intervals.iter().enumerate().skip(first) {
            if interval.span.start >= span.end {
                break;
            }
            let ns = interval.span.overlap(span).map_or(0, Span::ns);
            activity[i].any_ns = activity[i].any_ns.saturating_add(ns);
            activity[i].pairs_ns =
                activity[i].pairs_ns.saturating_add(ns.saturating_mul(busy * (busy - 1) / 2));
        }
    }
    activity
}

#[cfg(test)]
mod tests {
    use super::{Activity, BusyCpus, EnergyInterval, KtimeNs, Span, activity};
    use energy_trace_model::units::MicroJoules;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// A time has the company of whoever else was busy in it, as far as they were.
    #[test]
    fn contended_ratio() {
        let busy = [span(0, 100), span(0, 50), span(25, 75)];
        let busy_cpus = BusyCpus::of(busy.into_iter()).unwrap();
        let mut contention = busy_cpus.contention();
        let mut contention = |from, to| contention(span(from, to));
        assert_eq!([contention(0, 100), contention(25, 50), contention(80, 100)], [0.5, 1.0, 0.0]);
    }

    /// One CPU has no company, nor have two that meet for a moment.
    #[test]
    fn alone() {
        assert!(BusyCpus::of([span(0, 100), span(100, 200)].into_iter()).is_none());
        assert!(BusyCpus::of([span(0, 1_000), span(995, 2_000)].into_iter()).is_none());
    }

    /// Two CPUs that are busy at once are busy once, and a pair for as long.
    #[test]
    fn any_core_counts_once() {
        let interval = |from, to| EnergyInterval { span: span(from, to), energy: MicroJoules::ZERO };
        let busy = [span(0, 12), span(5, 15), span(28, 33)];
        let found = activity(&[interval(0, 10), interval(10, 20), interval(20, 30)], busy.into_iter());
        let of = |any_ns, pairs_ns| Activity { any_ns, pairs_ns };
        assert_eq!(found, [of(10, 5), of(5, 2), of(2, 0)]);
    }
}
