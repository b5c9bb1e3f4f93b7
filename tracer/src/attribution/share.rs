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
//! Where weights are known and one thread of the target alone was on the domain's CPUs, the counter also says *when* that thread went
//! from one function to the next (`border.rs`).

use super::border::{Settler, Surroundings, seconds};
use super::class::{ClassId, OTHER_CLASS};
use super::intensity::Intensity;
use super::occupancy::Presence;
use super::time::{OwnerId, OwnerTime};
use crate::timeline::EnergyInterval;
use crate::units::{MicroJoules, MicroWatts};

/// Weights are integers of this many parts of the mean: exact sums, and the same result on every machine.
const UNIT: f64 = 65_536.0;

/// Energy of each interval that is the idle baseline's, in order. Rounded as a running total, so that the sum is the rounded whole.
pub(super) fn idle_of(power: MicroWatts, intervals: &[EnergyInterval]) -> Vec<MicroJoules> {
    let (mut covered, mut charged) = (0_u64, MicroJoules::ZERO);
    let mut next = |interval: &EnergyInterval| {
        covered = covered.saturating_add(interval.span.ns());
        let now = power.over_ns(covered);
        now - std::mem::replace(&mut charged, now)
    };
    intervals.iter().map(&mut next).collect()
}

/// What a domain's dynamic energy was split into.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// Energy of each owner, by its number; as long as the list of owners.
    pub(super) of_owner: Vec<MicroJoules>,
    /// Energy of intervals in which nobody ran.
    pub(super) residual: MicroJoules,
    /// Negative energy that went to owners: the idle baseline was above the counter while they ran.
    pub(super) negative: MicroJoules,
}

/// Splits the energy above idle of each interval (`dynamic`) among those present in it.
pub(super) fn split(
    dynamic: &[MicroJoules],
    presences: &[Presence],
    owners: &[OwnerTime],
    weigher: &Weigher<'_>,
) -> Shares {
    let mut shares = Shares { of_owner: vec![MicroJoules::ZERO; owners.len()], ..Shares::default() };
    let (mut before, mut rest) = (&[][..], presences);
    for (i, &energy) in dynamic.iter().enumerate() {
        let (here, later) = rest.split_at(rest.partition_point(|presence| presence.interval <= i));
        let (after, _) = later.split_at(later.partition_point(|presence| presence.interval <= i + 1));
        let (who, weights) = weigher.weights(energy, Surroundings { before, here, after }, owners);
        (before, rest) = (here, later);
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

/// Decides what a nanosecond of each owner weighs.
#[derive(Debug)]
pub(super) struct Weigher<'a> {
    /// Watts of each class, where they are known.
    pub(super) intensity: &'a Intensity,
    /// The class of each owner.
    pub(super) class_of: &'a [ClassId],
    /// How far a border between two samples can be off, in nanoseconds.
    pub(super) half_period_ns: u64,
}

impl Weigher<'_> {
    /// Who shares an interval's energy, and with what weight.
    fn weights(
        &self,
        energy: MicroJoules,
        around: Surroundings<'_>,
        owners: &[OwnerTime],
    ) -> (Vec<OwnerId>, Vec<u64>) {
        let plain = || around.here.iter().map(|presence| (presence.owner, presence.ns)).unzip();
        let Intensity::Known(watts) = self.intensity else { return plain() };
        let watts_of = |class: ClassId| watts.get(class).copied().unwrap_or(1.0);
        let class = |owner: OwnerId| self.class_of.get(owner as usize).copied().unwrap_or(OTHER_CLASS);
        let sampled = || around.here.iter().map(|presence| (presence.owner, seconds(presence.ns))).collect();
        let Self { class_of, half_period_ns, .. } = *self;
        let settler = Settler { owners, class_of, watts_of, half_period_ns };
        let times = settler.settle(energy.as_joules(), around).unwrap_or_else(sampled);
        let weight = |&(owner, time): &(OwnerId, f64)| (owner, whole(time * watts_of(class(owner)) * 1e9));
        let (who, weights): (Vec<_>, Vec<_>) = times.iter().map(weight).unzip();
        if weights.iter().all(|&weight| weight == 0) { plain() } else { (who, weights) }
    }
}

/// A weight as an integer. `as` saturates, and takes what is no number for 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturation is meant")]
fn whole(weight: f64) -> u64 {
    (weight * UNIT) as u64
}

#[cfg(test)]
mod tests {
    use super::{Intensity, MicroJoules, MicroWatts, OwnerTime, Presence, Weigher, idle_of, split};
    use crate::attribution::time::Owner;
    use crate::clock::KtimeNs;
    use crate::ids::{StackId, ThreadKey};
    use crate::timeline::{EnergyInterval, Span};

    fn target(thread: u32, stack: u32) -> OwnerTime {
        let owner = Owner::Target(ThreadKey::new(thread), Some(StackId::new(stack)));
        OwnerTime { owner, time_ns: 0, samples: 0 }
    }

    fn other() -> OwnerTime {
        OwnerTime { owner: Owner::Other, time_ns: 0, samples: 0 }
    }

    /// Shares in µJ of intervals with these energies, given each owner's ms in each and its watts; each owner is a class of its own.
    fn shares(energies: &[i64], owners: &[OwnerTime], ms: &[&[u64]], watts: &[f64]) -> Vec<i64> {
        let mut presences = vec![];
        for (interval, ms) in ms.iter().enumerate() {
            for (owner, &ms) in (0..).zip(*ms).filter(|(_, ms)| **ms > 0) {
                presences.push(Presence { interval, owner, ns: ms * 1_000_000 });
            }
        }
        let class_of: Vec<usize> = (0..owners.len()).collect();
        let intensity = Intensity::Known(watts.to_vec());
        let weigher = Weigher { intensity: &intensity, class_of: &class_of, half_period_ns: 5_000_000 };
        let dynamic: Vec<_> = energies.iter().copied().map(MicroJoules::from_uj).collect();
        let split = split(&dynamic, &presences, owners, &weigher);
        let given: Vec<_> = split.of_owner.iter().map(|part| part.as_uj()).collect();
        assert_eq!(given.iter().sum::<i64>() + split.residual.as_uj(), energies.iter().sum::<i64>());
        given
    }

    /// Two threads at once share by watts × time.
    #[test]
    fn threads_share_by_weight() {
        let owners = [other(), target(0, 0), target(1, 1)];
        assert_eq!(shares(&[900_000], &owners, &[&[0, 20, 20]], &[1.0, 5.0, 40.0]), [0, 100_000, 800_000]);
    }

    /// One thread's border between 40 W and 5 W lies where the energy puts it: 450 mJ in 20 ms are 10 ms of each, whatever samples say. No
    /// border moves by more than half a sample period: 17 and 3 ms become 12 and 8 (60 and 320 mJ), and the rest goes in proportion.
    #[test]
    fn the_counter_settles_borders() {
        let owners = [other(), target(0, 0), target(0, 1)];
        assert_eq!(shares(&[450_000], &owners, &[&[0, 13, 7]], &[1.0, 5.0, 40.0]), [0, 50_000, 400_000]);
        assert_eq!(shares(&[520_000], &owners, &[&[0, 17, 3]], &[1.0, 5.0, 40.0]), [0, 82_105, 437_895]);
    }

    /// A border that samples put at an interval's end may lie before it: 135 mJ in 20 ms of 5 W are 1 ms of the 40 W that come next.
    #[test]
    fn borders_cross_intervals() {
        let owners = [other(), target(0, 0), target(0, 1)];
        let ms: [&[u64]; 2] = [&[0, 20, 0], &[0, 0, 20]];
        assert_eq!(shares(&[135_000, 800_000], &owners, &ms, &[1.0, 5.0, 40.0]), [0, 95_000, 840_000]);
        // Further away than half a sample period it cannot be: the interval's energy is its owner's.
        let far: [&[u64]; 2] = [&[0, 20, 0], &[0, 10, 10]];
        assert_eq!(shares(&[135_000, 450_000], &owners, &far, &[1.0, 5.0, 40.0]), [0, 185_000, 400_000]);
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
