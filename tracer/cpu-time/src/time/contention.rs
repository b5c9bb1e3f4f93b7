//! How many other CPUs of a domain were busy beside a time: turbo that ends, memory that they share, parts of a socket that they divide,
//! cores that are shared on a machine that does not say by whom.
//!
//! Leaves out what that makes of power, which each column shows for itself (`power_model`).

use crate::numerics::search::partition_near;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;

/// The usual most are exceeded in this part of the busy time.
const EXCEEDED: f64 = 0.01;

/// When a CPU begins to be busy, and when one ends, in order.
pub fn changes(busy: impl Iterator<Item = Span>) -> Vec<(KtimeNs, bool)> {
    let mut changes: Vec<(KtimeNs, bool)> =
        busy.flat_map(|busy| [(busy.start, true), (busy.end, false)]).collect();
    // Those of each CPU are in order, which a stable sort makes use of.
    changes.sort();
    changes
}

/// How many CPUs of a domain were busy when.
#[derive(Debug)]
pub struct Contention {
    /// Moments at which the number changes, the number from then on, and the sum of busy times before.
    steps: Vec<(KtimeNs, u64, u64)>,
    /// The usual most.
    most: u64,
}

impl Contention {
    /// Of the times in which a domain's CPUs were busy, in any order; `None` where hardly ever two were at once.
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
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = busy,
                _ => steps.push((at, busy, sum)),
            }
        }
        let all = lasted.iter().skip(1).fold(0_u64, |all, ns| all.saturating_add(*ns)) as f64;
        let mut above = 0.0;
        let most = (2..lasted.len()).rev().find(|&number| {
            above += lasted[number] as f64;
            above > EXCEEDED * all
        })?;
        Some(Self { steps, most: most as u64 })
    }

    /// Of how many other CPUs a time had the company, in parts of the usual most; for times of which each lies near the one before.
    pub fn beside(&self) -> impl FnMut(Span) -> f64 + '_ {
        let mut near = 0;
        move |span| self.beside_near(span, &mut near)
    }

    #[expect(clippy::cast_precision_loss, reason = "a part of one")]
    fn beside_near(&self, span: Span, near: &mut usize) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::{Contention, KtimeNs, Span};

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// A time has the company of whoever else was busy in it, as far as they were.
    #[test]
    fn beside_others() {
        let busy = [span(0, 100), span(0, 50), span(25, 75)];
        let contention = Contention::of(busy.into_iter()).unwrap();
        let mut beside = contention.beside();
        let mut beside = |from, to| beside(span(from, to));
        assert_eq!([beside(0, 100), beside(25, 50), beside(80, 100)], [0.5, 1.0, 0.0]);
    }

    /// One CPU has no company, nor have two that meet for a moment.
    #[test]
    fn alone() {
        assert!(Contention::of([span(0, 100), span(100, 200)].into_iter()).is_none());
        assert!(Contention::of([span(0, 1_000), span(995, 2_000)].into_iter()).is_none());
    }
}
