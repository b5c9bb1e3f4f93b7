//! Splits a domain's energy among those who ran, interval by interval.
//!
//! ```text
//! E = idle + uncore + Σ shares + residual             exact, in integer microjoules
//! idle     = P_idle · dt                    rounded as a running total; uncore is 0 until it is calibrated
//! D        = E − idle − uncore              signed, never clamped: at 10 ms readings that biased by +14 %
//! share_j  = D · π_j τ_j / Σ_i π_i τ_i      τ: CPU time in the interval, π: weight (1, or the class's watts)
//! residual = D where nobody ran
//! ```
//!
//! Rounding is by largest remainder (`MicroJoules::split`), so the shares of an interval sum to its D and all
//! intervals to the counter.
//!
//! Here is the split by time alone, which every report shows beside the weighted one (`by_power`).

use crate::time::occupancy::{Presence, each_presence};
use crate::time::on_cpus::OfDomain;
use crate::time::owners::{OwnerId, Segment};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Energy of each interval that is the idle baseline's, in order. Rounded as a running total, so that the sum
/// is the rounded whole.
pub(crate) fn idle_of(power: MicroWatts, intervals: &[EnergyInterval]) -> Vec<MicroJoules> {
    let (mut covered, mut charged) = (0_u64, MicroJoules::ZERO);
    let mut next = |interval: &EnergyInterval| {
        covered = covered.saturating_add(interval.span.ns());
        let now = power.over_ns(covered);
        now - std::mem::replace(&mut charged, now)
    };
    intervals.iter().map(&mut next).collect()
}

/// What a domain's energy above idle was split into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Energy of each owner, by its number; as long as the list of owners.
    pub(crate) of_owner: Vec<MicroJoules>,
    /// Energy of intervals in which nobody ran.
    pub(crate) residual: MicroJoules,
    /// Negative energy that went to owners: the idle baseline was above the counter while they ran.
    pub(crate) negative: MicroJoules,
    /// What a GPU's counter shows beyond what launches are known to take.
    pub(crate) unobserved: MicroJoules,
}

impl Shares {
    /// Nothing, of so many owners.
    pub(crate) fn nothing(owners: usize) -> Self {
        Self { of_owner: vec![MicroJoules::ZERO; owners], ..Self::default() }
    }

    /// Takes in those of later intervals.
    pub(crate) fn add(&mut self, later: Self) {
        self.of_owner.iter_mut().zip(later.of_owner).for_each(|(sum, energy)| *sum += energy);
        self.residual += later.residual;
        self.negative += later.negative;
        self.unobserved += later.unobserved;
    }
}

/// The split of a domain's energy by time, and the time that it went by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByTime {
    pub(crate) shares: Shares,
    /// Time of each owner in all intervals.
    pub(crate) ns: Vec<u64>,
}

/// Splits are made of so many chunks of intervals side by side.
const TASKS: usize = 16;

impl ByTime {
    /// Splits the energy above idle of each interval (`dynamic`) among so many owners by the time of those
    /// present in it.
    pub(crate) fn of(
        dynamic: &[MicroJoules],
        intervals: &[EnergyInterval],
        segments: &OfDomain<'_, Segment>,
        owners: usize,
    ) -> Self {
        let spans: Vec<Span> = intervals.iter().map(|interval| interval.span).collect();
        let length = spans.len().div_ceil(TASKS);
        let chunks = segments.in_chunks_of(length, &spans, |chunk| {
            let mut sums = Self::nothing(owners);
            let mut weights = vec![];
            each_presence(segments, chunk, |interval, present| {
                let energy = dynamic.get(interval).copied().unwrap_or_default();
                sums.split(energy, present, &mut weights);
            });
            sums
        });
        chunks.into_iter().fold(Self::nothing(owners), Self::add)
    }

    fn nothing(owners: usize) -> Self {
        Self { shares: Shares::nothing(owners), ns: vec![0; owners] }
    }

    /// Takes in those of later intervals.
    fn add(mut self, later: Self) -> Self {
        self.shares.add(later.shares);
        self.ns.iter_mut().zip(later.ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        self
    }

    /// Splits one interval's energy.
    fn split(&mut self, energy: MicroJoules, present: &[Presence], weights: &mut Vec<u64>) {
        weights.clear();
        for presence in present {
            weights.push(presence.ns);
            let sum = self.ns.get_mut(presence.owner as usize);
            sum.into_iter().for_each(|sum| *sum = sum.saturating_add(presence.ns));
        }
        let Some(parts) = energy.split(weights) else {
            self.shares.residual += energy;
            return;
        };
        if energy < MicroJoules::ZERO {
            self.shares.negative += energy;
        }
        for (presence, part) in present.iter().zip(parts) {
            let sum = self.shares.of_owner.get_mut(presence.owner as usize);
            sum.into_iter().for_each(|sum| *sum += part);
        }
    }
}

/// Who was present in an interval, and for how long.
pub(crate) fn present_in(interval: Span, segments: &OfDomain<'_, Segment>) -> (Vec<OwnerId>, Vec<u64>) {
    let mut found = (vec![], vec![]);
    each_presence(segments, segments.within(&[interval], 0), |_, present| {
        found = present.iter().map(|presence| (presence.owner, presence.ns)).unzip();
    });
    found
}

#[cfg(test)]
mod tests {
    use super::{ByTime, MicroJoules, MicroWatts, OfDomain, Segment, idle_of, present_in};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::CpuId;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// Those present share an interval's energy by their time, below zero too; what nobody was there for is
    /// left.
    #[test]
    fn present_owners_share_by_time() {
        let segment = |from, to, owner| Segment { cpu: CpuId::new(0), span: span(from, to), owner };
        let segments = [segment(0, 30, 0), segment(30, 40, 1), segment(200, 205, 1)];
        let segments = OfDomain::new(&segments, |_| true);
        let dynamic = [400, 70, -9].map(MicroJoules::from_uj);
        let interval =
            |i: u64| EnergyInterval { span: span(100 * i, 100 * (i + 1)), energy: MicroJoules::ZERO };
        let found = ByTime::of(&dynamic, &[0, 1, 2].map(interval), &segments, 2);
        assert_eq!(found.shares.of_owner, [300, 100 - 9].map(MicroJoules::from_uj));
        assert_eq!((found.shares.residual.as_uj(), found.shares.negative.as_uj()), (70, -9));
        assert_eq!(found.ns, [30, 15]);
        assert_eq!(present_in(span(0, 100), &segments), (vec![0, 1], vec![30, 10]));
        assert_eq!(present_in(span(100, 200), &segments), (vec![], vec![]));
    }

    /// The idle baseline is rounded once, not once an interval.
    #[test]
    fn idle_is_rounded_as_a_whole() {
        let interval = |i: u64| EnergyInterval {
            span: Span { start: KtimeNs::from_ns(i * 400), end: KtimeNs::from_ns((i + 1) * 400) },
            energy: MicroJoules::ZERO,
        };
        let intervals: Vec<_> = (0..1000).map(interval).collect();
        let power = MicroWatts::from_watts(1.0).unwrap();
        assert_eq!(idle_of(power, &intervals).into_iter().sum::<MicroJoules>(), power.over_ns(400_000));
    }
}
