//! A power reading that is a mean over time is held from one update to the next, and is read several times
//! meanwhile: those readings are one step.
//!
//! ```text
//! power read     |aaaaaabbbbbbbb|      the counter is made of these by the trapezoidal rule
//! intervals      | a | a |ab| b | b |
//! steps          | a     ...|b ...     from the first reading of an update to the first of the next
//! ```
//!
//! A step's energy is that of its intervals, exactly; its power is what the update said, without the piece of
//! the trapezoid between two updates. Taken apart into intervals, each would stand for a mean that ended up
//! to an update earlier than the one it shows. Leaves out where readings cannot be told from updates because
//! they are as rare.

use super::constants::{ALIKE_READINGS, LONGER_STEP, SAME_POWER};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::units::MicroJoules;

/// Steps of a meter that holds its power.
#[derive(Debug, Default)]
pub(super) struct SampleAndHold {
    pub(super) intervals: Vec<EnergyInterval>,
    /// Energy above idle of each.
    pub(super) dynamic: Vec<MicroJoules>,
    /// What the update's power is above that of the whole step, in watts.
    pub(super) more: Vec<f64>,
}

impl SampleAndHold {
    /// From intervals and their energy above idle; `None` where updates are not to be seen.
    pub(super) fn of(intervals: &[EnergyInterval], dynamic: &[MicroJoules]) -> Option<Self> {
        let firsts = firsts(intervals)?;
        let mut held = Self::default();
        for (place, &first) in firsts.iter().enumerate() {
            let end = firsts.get(place + 1).copied().unwrap_or(intervals.len());
            let span = Span::new(intervals[first].span.start, intervals[end - 1].span.end);
            let energy = intervals[first..end].iter().map(|interval| interval.energy).sum();
            let step = EnergyInterval { span, energy };
            held.more.push(intervals[first].watts() - step.watts());
            held.intervals.push(step);
            held.dynamic.push(dynamic[first..end].iter().copied().sum());
        }
        Some(held)
    }
}

fn are_alike(a: &EnergyInterval, b: &EnergyInterval) -> bool {
    let (one, other) = (a.watts(), b.watts());
    a.span.end == b.span.start && (one - other).abs() <= SAME_POWER.0.max(SAME_POWER.1 * one.abs())
}

/// The first interval of each step: the first after a gap, and the first of two alike after a change.
fn firsts(intervals: &[EnergyInterval]) -> Option<Vec<usize>> {
    let alike = |at: usize| intervals.get(at..at + 2).is_some_and(|pair| are_alike(&pair[0], &pair[1]));
    if (0..intervals.len()).filter(|&at| alike(at)).count() as f64 <= ALIKE_READINGS * intervals.len() as f64
    {
        return None;
    }
    let begins = |at: usize| {
        let Some(before) = at.checked_sub(1) else { return true };
        let gap = intervals[before].span.end != intervals[at].span.start;
        gap || (!alike(before) && alike(at))
    };
    let changes: Vec<usize> = (0..intervals.len()).filter(|&at| begins(at)).collect();
    let start = |at: &usize| intervals[*at].span.start;
    let mut lengths: Vec<u64> =
        changes.windows(2).map(|pair| start(&pair[1]).ns_since(start(&pair[0]))).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 4).copied()? as f64;
    let mut firsts: Vec<usize> = vec![];
    for at in 0..intervals.len() {
        let change = changes.binary_search(&at).is_ok();
        let next = changes.get(changes.partition_point(|&change| change <= at));
        let passed = firsts.last().map_or(0, |first| start(&at).ns_since(start(first))) as f64;
        let remains = next.map_or(0, |next| start(next).ns_since(start(&at))) as f64;
        if change || (passed >= usual && remains >= (LONGER_STEP - 1.0) * usual) {
            firsts.push(at);
        }
    }
    Some(firsts)
}

#[cfg(test)]
mod tests {
    use super::SampleAndHold;
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroJoules;

    fn interval(ms: u64, watts: i64) -> EnergyInterval {
        let at = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        EnergyInterval { span: Span::new(at(ms), at(ms + 20)), energy: MicroJoules::from_uj(watts * 20_000) }
    }

    /// Five readings of each update, the first of them half the update before: a step begins behind that,
    /// keeps its intervals' energy, and its power is the update's. A gap begins a step, and power that stays
    /// for two updates is two steps.
    #[test]
    fn readings_of_an_update_are_a_step() {
        let powers = [100, 100, 100, 150, 200, 200, 200, 200, 230, 260, 260, 260, 260, 260, 260, 260, 260];
        let mut intervals: Vec<EnergyInterval> =
            (0..).zip(powers).map(|(i, watts)| interval(20 * i, watts)).collect();
        intervals.extend([0, 20, 40].map(|ms| interval(1_000 + ms, 260)));
        let dynamic: Vec<MicroJoules> = intervals.iter().map(|interval| interval.energy).collect();
        let held = SampleAndHold::of(&intervals, &dynamic).unwrap();
        let lengths: Vec<u64> = held.intervals.iter().map(|step| step.span.ns() / 20_000_000).collect();
        assert_eq!(lengths, [4, 5, 4, 4, 3]);
        assert_eq!(held.dynamic.iter().copied().sum::<MicroJoules>(), dynamic.iter().copied().sum());
        let powers = held.intervals.iter().zip(&held.more).map(|(step, more)| step.watts() + more);
        assert_eq!(powers.map(f64::round).collect::<Vec<_>>(), [100.0, 200.0, 260.0, 260.0, 260.0]);
    }

    /// Where each reading shows another power, updates cannot be told.
    #[test]
    fn rare_readings_are_no_updates() {
        let intervals: Vec<EnergyInterval> =
            (0_u64..30).map(|i| interval(20 * i, i64::try_from(100 + i * i % 7).unwrap())).collect();
        let dynamic = vec![MicroJoules::ZERO; 30];
        assert!(SampleAndHold::of(&intervals, &dynamic).is_none());
    }
}
