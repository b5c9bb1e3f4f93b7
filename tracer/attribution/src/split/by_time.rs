//! Splits a domain's energy among those who ran, interval by interval.
//!
//! ```text
//! E = idle + uncore + Σ shares + residual             exact, in integer microjoules
//! idle     = P_idle · dt                              rounded as a running total; uncore is 0 until it can be calibrated
//! D        = E − idle − uncore                        signed, never clamped: clamping at 10 ms readings biased by +14 %
//! share_j  = D · π_j τ_j / Σ_i π_i τ_i                 τ: CPU time in the interval, π: weight (1, or the class's watts)
//! residual = D where nobody ran
//! ```
//!
//! Rounding is by largest remainder (`MicroJoules::split`), so the shares of an interval sum to its D and all intervals to the counter.
//!
//! Here is the split by time alone, which every report shows beside the weighted one; `posterior` has the weighted one.

use crate::time::occupancy::Presence;
use crate::time::owners::OwnerId;
use crate::timeline::EnergyInterval;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Energy of each interval that is the idle baseline's, in order. Rounded as a running total, so that the sum is the rounded whole.
pub(crate) fn idle_of(power: MicroWatts, intervals: &[EnergyInterval]) -> Vec<MicroJoules> {
    let (mut covered, mut charged) = (0_u64, MicroJoules::ZERO);
    let mut next = |interval: &EnergyInterval| {
        covered = covered.saturating_add(interval.span.ns());
        let now = power.over_ns(covered);
        now - std::mem::replace(&mut charged, now)
    };
    intervals.iter().map(&mut next).collect()
}

/// What a domain's dynamic energy was split into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Energy of each owner, by its number; as long as the list of owners.
    pub(crate) of_owner: Vec<MicroJoules>,
    /// Energy of intervals in which nobody ran.
    pub(crate) residual: MicroJoules,
    /// Negative energy that went to owners: the idle baseline was above the counter while they ran.
    pub(crate) negative: MicroJoules,
}

/// Splits the energy above idle of each interval (`dynamic`) among those present in it, by their time.
pub(crate) fn split(dynamic: &[MicroJoules], presences: &[Presence], owners: usize) -> Shares {
    let mut shares = Shares { of_owner: vec![MicroJoules::ZERO; owners], ..Shares::default() };
    for (i, &energy) in dynamic.iter().enumerate() {
        let (who, weights) = by_time(presences, i);
        let Some(parts) = energy.split(&weights) else {
            shares.residual += energy;
            continue;
        };
        if energy < MicroJoules::ZERO {
            shares.negative += energy;
        }
        for (owner, part) in who.into_iter().zip(parts) {
            if let Some(sum) = shares.of_owner.get_mut(owner as usize) {
                *sum += part;
            }
        }
    }
    shares
}

/// Who was present in an interval, and for how long. `presences` are ordered by interval.
pub(crate) fn by_time(presences: &[Presence], interval: usize) -> (Vec<OwnerId>, Vec<u64>) {
    let from = presences.partition_point(|presence| (presence.interval as usize) < interval);
    let here = presences.iter().skip(from).take_while(|presence| presence.interval as usize == interval);
    here.map(|presence| (presence.owner, presence.ns)).unzip()
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, MicroWatts, Presence, idle_of, split};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;

    /// Those present share an interval's energy by their time, below zero too; what nobody was there for is left.
    #[test]
    fn present_owners_share_by_time() {
        let present = |interval, owner, ns| Presence { interval, owner, ns };
        let presences = [present(0, 0, 30), present(0, 1, 10), present(2, 1, 5)];
        let shares = split(&[400, 70, -9].map(MicroJoules::from_uj), &presences, 2);
        assert_eq!(shares.of_owner, [300, 100 - 9].map(MicroJoules::from_uj));
        assert_eq!((shares.residual.as_uj(), shares.negative.as_uj()), (70, -9));
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
