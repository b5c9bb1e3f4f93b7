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
//! from one function to the next, better than samples 10 ms apart do: with the watts given, the split of its time that fits D best is
//! found and used for the energy (`settle`). It is the least-squares change of the times, Δτ_c = R (w_c − w̄) / Σ (w − w̄)², R being what the
//! prediction lacks. No time moves by more than half a sample period, which is how far samples can be wrong.

use super::class::ClassId;
use super::intensity::Intensity;
use super::occupancy::Presence;
use super::time::{Owner, OwnerId, OwnerTime};
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
    let mut rest = presences;
    for (i, &energy) in dynamic.iter().enumerate() {
        let (here, later) = rest.split_at(rest.partition_point(|presence| presence.interval <= i));
        rest = later;
        let Some(parts) = energy.split(&weigher.weights(energy, here, owners)) else {
            shares.residual += energy;
            continue;
        };
        if energy < MicroJoules::ZERO {
            shares.negative += energy;
        }
        for (presence, part) in here.iter().zip(parts) {
            if let Some(sum) = shares.of_owner.get_mut(presence.owner as usize) {
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
    /// The weight of each presence in one interval.
    fn weights(&self, energy: MicroJoules, here: &[Presence], owners: &[OwnerTime]) -> Vec<u64> {
        let plain = || here.iter().map(|presence| presence.ns).collect();
        let Intensity::Known(watts) = self.intensity else { return plain() };
        let watts_of = |owner: OwnerId| {
            let class = self.class_of.get(owner as usize);
            class.and_then(|&class| watts.get(class)).copied().unwrap_or(1.0)
        };
        let of_each: Vec<f64> = here.iter().map(|presence| watts_of(presence.owner)).collect();
        let seconds = if lone_thread(here, owners) {
            settle(energy.as_joules(), here, &of_each, self.half_period_ns)
        } else {
            here.iter().map(|presence| seconds(presence.ns)).collect()
        };
        let weights: Vec<u64> = seconds.iter().zip(&of_each).map(|(s, w)| whole(s * w * 1e9)).collect();
        if weights.iter().all(|&weight| weight == 0) { plain() } else { weights }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A weight as an integer. `as` saturates, and takes what is no number for 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturation is meant")]
fn whole(weight: f64) -> u64 {
    (weight * UNIT).min(9e18) as u64
}

/// Whether those present are one thread of the target, with or without others beside it.
fn lone_thread(here: &[Presence], owners: &[OwnerTime]) -> bool {
    let thread = |presence: &Presence| match owners.get(presence.owner as usize)?.owner {
        Owner::Target(thread, _) => Some(thread),
        Owner::Other => None,
    };
    let mut threads = here.iter().filter_map(thread);
    threads.next().is_some_and(|first| threads.all(|thread| thread == first))
}

/// Times in seconds, as recorded but for the borders within the thread, which move to where the energy puts them. Others' time is exact
/// and stays (owner 0 comes first, if it is there).
fn settle(joules: f64, here: &[Presence], watts: &[f64], half_period_ns: u64) -> Vec<f64> {
    let mut times: Vec<f64> = here.iter().map(|presence| seconds(presence.ns)).collect();
    let predicted: f64 = times.iter().zip(watts).map(|(s, w)| s * w).sum();
    let first = usize::from(here.first().is_some_and(|presence| presence.owner == super::time::OTHER));
    let (Some(own), Some(watts)) = (times.get_mut(first..), watts.get(first..)) else { return times };
    #[expect(clippy::cast_precision_loss, reason = "a handful of owners")]
    let mean = watts.iter().sum::<f64>() / watts.len() as f64;
    let spread: f64 = watts.iter().map(|w| (w - mean).powi(2)).sum();
    if spread <= (1e-3 * mean).powi(2) {
        return times;
    }
    let wanted = (joules - predicted) / spread;
    let reach = |scale: f64, (time, w): (&f64, &f64)| {
        let change = wanted * (w - mean);
        let limit = if change < 0.0 { time.min(seconds(half_period_ns)) } else { seconds(half_period_ns) };
        if change.abs() * scale > limit { limit / change.abs() } else { scale }
    };
    let scale = own.iter().zip(watts).fold(1.0, reach);
    own.iter_mut().zip(watts).for_each(|(time, w)| *time = (*time + scale * wanted * (w - mean)).max(0.0));
    times
}
