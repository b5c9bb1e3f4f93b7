//! Who is charged with a domain's energy: by CPU time and learned powers, or by launches on a GPU.
//!
//! Leaves out the row that this makes (`account`).

use super::basis::Basis;
use super::metered::Metered;
use super::powers::Powers;
use crate::gpu::{Charged, Gpu, Learned};
use crate::numerics::parallel::both;
use crate::power_model::excerpt::Excerpt;
use crate::power_model::learn::PowerModel;
use crate::split::by_power::{PowerSplit, Splitter};
use crate::split::by_time::{ByTime, Shares, present_in};
use crate::split::idle::distribute_idle;
use crate::time::owners::{OTHER, Owner};
use crate::timeline::EnergyInterval;
use crate::uncertainty::propagation::{self, OwnerCertainty};
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::options::Method;
use energy_trace_model::recording::record::Domain;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Shares below zero are more than noise when they are more than one in so many of the whole.
const FAR_BELOW: i64 = 100;

/// What a domain's energy was divided by.
pub(crate) enum Grounds {
    /// CPU time, and powers where they are known.
    CpuTime(Box<CpuGrounds>),
    /// Launches on a GPU.
    Launches(Learned),
    /// Nothing: no launches on the GPU are recorded.
    Nothing,
}

/// What is known about the powers that divide CPU time.
pub(crate) struct CpuGrounds {
    pub(crate) power_model: PowerModel,
    /// Whether its powers split the energy.
    pub(crate) weighted: bool,
    /// η of hardware threads that shared a core (`time::smt`); `None` where none did.
    pub(crate) eta: Option<f64>,
    /// The exponent by which power goes with the clock (`time::dvfs`); `None` where clocks are not known, do not differ or did not help.
    pub(crate) exponent: Option<f64>,
}

/// A domain's energy by who is charged with it.
pub(super) struct Charges {
    /// Each owner's energy; zero for all but the target's.
    pub(super) of_owner: Vec<MicroJoules>,
    /// The same if all drew the same power.
    pub(super) by_time: Vec<MicroJoules>,
    pub(super) other: MicroJoules,
    /// The idle baseline that stays one.
    pub(super) idle: MicroJoules,
    pub(super) uncore: MicroJoules,
    pub(super) residual: MicroJoules,
    pub(super) unattributed: BTreeMap<UnattributedReason, MicroJoules>,
    /// Negative energy that went to owners.
    pub(super) negative: MicroJoules,
    pub(super) certainty: OwnerCertainty,
    pub(super) grounds: Grounds,
}

impl Charges {
    /// CPU time says nothing about a GPU: its energy goes to those who launched, where launches were recorded.
    pub(super) fn by_launches(metered: &Metered, device: u32, basis: &Basis<'_>) -> Self {
        let intervals = &metered.timeline.intervals;
        let (recording, launchers, start) = (basis.recording, basis.launchers, basis.span.start);
        let gpu = Gpu { recording, device, launchers, start, intervals, after: &metered.after };
        let Some(charged) = gpu.charge(&metered.dynamic, basis.time.owners.len()) else {
            let above_idle = metered.dynamic.iter().copied().sum();
            let unattributed = [(UnattributedReason::NoLaunchData, above_idle)].into();
            return Self { unattributed, ..Self::nobody(metered.idle, basis.time.owners.len()) };
        };
        let Charged { mut of_owner, by_prior, residual, negative, unobserved, idle, certainty, learned } =
            charged;
        let blind = (UnattributedReason::SensorBlindSpot, unobserved);
        let unattributed = Some(blind).filter(|(_, energy)| *energy != MicroJoules::ZERO);
        Self {
            other: std::mem::take(&mut of_owner[OTHER as usize]),
            of_owner,
            by_time: by_prior,
            idle: metered.idle + idle,
            uncore: MicroJoules::ZERO,
            residual,
            unattributed: unattributed.into_iter().collect(),
            negative,
            certainty,
            grounds: Grounds::Launches(learned),
        }
    }

    /// Nobody is charged with anything yet.
    fn nobody(idle: MicroJoules, owners: usize) -> Self {
        Self {
            of_owner: vec![MicroJoules::ZERO; owners],
            by_time: vec![MicroJoules::ZERO; owners],
            other: MicroJoules::ZERO,
            idle,
            uncore: MicroJoules::ZERO,
            residual: MicroJoules::ZERO,
            unattributed: BTreeMap::new(),
            negative: MicroJoules::ZERO,
            certainty: OwnerCertainty::default(),
            grounds: Grounds::Nothing,
        }
    }

    /// A CPU's shares keep their sign where it is noise. Where the program or others would be below zero, or shares below zero are more than a
    /// hundredth of all, the baseline was too high: nobody gives energy back then either.
    pub(super) fn above_zero_if_far_below(self) -> Self {
        let target: MicroJoules = self.of_owner.iter().copied().sum();
        let below = |energy: MicroJoules| energy.min(MicroJoules::ZERO);
        let negative =
            self.of_owner.iter().map(|energy| below(*energy)).sum::<MicroJoules>() + below(self.other);
        let whole = target + self.other + self.idle;
        let is_far = negative.as_uj().saturating_mul(-FAR_BELOW) > whole.as_uj();
        if below(target) < MicroJoules::ZERO || below(self.other) < MicroJoules::ZERO || is_far {
            self.above_zero()
        } else {
            self
        }
    }

    /// Nobody gives a GPU's energy back. Where its idle baseline was above the counter, shares below zero are taken from the others', and what is below
    /// zero of all together from the baseline: it was less.
    pub(super) fn above_zero(self) -> Self {
        let mut of_owner = self.of_owner.clone();
        of_owner.push(self.other);
        let whole: MicroJoules = of_owner.iter().copied().sum();
        let mut of_owner = not_below_zero(of_owner);
        let mut idle = self.idle + whole.min(MicroJoules::ZERO);
        let other = of_owner.pop().unwrap_or_default();
        let mut unattributed = self.unattributed;
        if let Some(energy) = unattributed.get_mut(&UnattributedReason::NoLaunchData) {
            idle += (*energy).min(MicroJoules::ZERO);
            *energy = (*energy).max(MicroJoules::ZERO);
        }
        // Where owners are charged by time alone, both are the same.
        let is_by_time = self.by_time == self.of_owner;
        let by_time = if is_by_time { of_owner.clone() } else { not_below_zero(self.by_time) };
        Self { of_owner, other, idle, unattributed, by_time, ..self }
    }

    /// By CPU time, and by powers where the run shows them and the reader did not choose otherwise.
    pub(super) fn by_cpu_time(domain: &Domain, metered: &Metered, basis: &Basis<'_>) -> Self {
        let owners = basis.time.owners.len();
        let segments = basis.segments_of(domain);
        let by_time =
            |dynamic: &[MicroJoules]| ByTime::of(dynamic, &metered.timeline.intervals, &segments, owners);
        let (plain, powers) = both(|| by_time(&metered.dynamic), || Powers::learn(domain, metered, basis));
        let plain = if powers.dynamic == metered.dynamic { plain } else { by_time(&powers.dynamic) };
        let split = split_by_powers(domain, metered, &powers, basis);
        let weighted =
            matches!(powers.model, PowerModel::Known(_)) && basis.accounting.method == Method::Weighted;
        let by_power = split.as_ref().filter(|_| weighted);
        let charged = &by_power.map_or(&plain.shares, |split| &split.whole.shares).of_owner;
        let certain = propagation::Basis {
            power_model: &powers.model,
            split: split.as_ref().map(|split| &split.whole),
            learned_from: by_power.and_then(|split| split.of_excerpt.as_ref()).unwrap_or(charged),
            part: powers.excerpt.part(),
            weighted,
            time: basis.time,
            tree: basis.tree,
        };
        let certainty = propagation::certainty(&certain, charged, seconds(&plain.ns));
        let shares = match split {
            Some(split) if weighted => split.whole.shares,
            _ => plain.shares.clone(),
        };
        let uncore = powers.uncore;
        let grounds = CpuGrounds {
            weighted,
            eta: powers.aligned.eta,
            exponent: powers.aligned.exponent,
            power_model: powers.model,
        };
        let grounds = Grounds::CpuTime(Box::new(grounds));
        Self { certainty, uncore, grounds, ..Self::with_idle(shares, plain, metered, basis) }
    }

    /// Hands out the idle baseline as was chosen, and puts together what is not the target's.
    fn with_idle(shares: Shares, plain: ByTime, metered: &Metered, basis: &Basis<'_>) -> Self {
        let (owners, policy) = (&basis.time.owners, basis.accounting.idle);
        let (mut of_owner, mut by_time) = (shares.of_owner, plain.shares.of_owner);
        let idle = distribute_idle(policy, metered.idle, &mut of_owner, &plain.ns, owners);
        distribute_idle(policy, metered.idle, &mut by_time, &plain.ns, owners);
        let mut other = MicroJoules::ZERO;
        for (number, owner) in owners.iter().enumerate() {
            if !matches!(owner.owner, Owner::Target(..)) {
                other += std::mem::take(&mut of_owner[number]);
                by_time[number] = MicroJoules::ZERO;
            }
        }
        let (residual, negative) = (shares.residual, shares.negative);
        Self { of_owner, by_time, other, residual, negative, ..Self::nobody(idle, 0) }
    }
}

/// The same sum, or zero if that is below, of which those above zero have what is left.
fn not_below_zero(energies: Vec<MicroJoules>) -> Vec<MicroJoules> {
    if energies.iter().all(|energy| *energy >= MicroJoules::ZERO) {
        return energies;
    }
    let sum: MicroJoules = energies.iter().copied().sum();
    let weights: Vec<u64> =
        energies.iter().map(|energy| u64::try_from(energy.as_uj()).unwrap_or(0)).collect();
    let shares = sum.max(MicroJoules::ZERO).split(&weights);
    shares.unwrap_or_else(|| vec![MicroJoules::ZERO; weights.len()])
}

/// A split by expected times and powers.
struct Split {
    whole: PowerSplit,
    /// What owners have of the intervals that powers were learned from; `None` where these are all, or where it makes no difference.
    of_excerpt: Option<Vec<MicroJoules>>,
}

/// The split by expected times and powers, where there are powers.
fn split_by_powers(
    domain: &Domain,
    metered: &Metered,
    powers: &Powers<'_>,
    basis: &Basis<'_>,
) -> Option<Split> {
    let model = powers.model.model()?;
    let (tree, owners, marks) = (basis.tree, basis.time.owners.as_slice(), basis.time.marks.as_slice());
    let excerpt = &powers.excerpt;
    let splitter = Splitter { model, tree, owners, marks, excerpt };
    let intervals = metered.timeline.intervals.as_slice();
    let segments = &basis.segments_of(domain);
    let present = |intervals: &[EnergyInterval], at: usize| {
        intervals.get(at).map_or_else(Default::default, |interval| present_in(interval.span, segments))
    };
    let parts = powers.parts_in(domain, intervals);
    let whole = splitter.split(&powers.dynamic, parts, |at| present(intervals, at));
    let of_excerpt = || {
        let (all, there) = (&Excerpt::default(), excerpt.take(intervals));
        let splitter = Splitter { excerpt: all, ..splitter };
        let parts = powers.parts_in(domain, &there);
        splitter.split(powers.looked_at(), parts, |at| present(&there, at)).shares.of_owner
    };
    let of_excerpt = (model.lag_ns > 0 && !excerpt.is_all()).then(of_excerpt);
    Some(Split { whole, of_excerpt })
}

/// CPU seconds of each owner.
fn seconds(ns: &[u64]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    ns.iter().map(|&ns| ns as f64 / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::{Charges, MicroJoules, UnattributedReason};

    fn uj(energies: &[i64]) -> Vec<MicroJoules> {
        energies.iter().copied().map(MicroJoules::from_uj).collect()
    }

    /// What owners, others and the baseline have of 1,000 µJ, given shares of which these are the last one's.
    fn charged(of_owner: &[i64], other: i64) -> (Vec<MicroJoules>, i64, i64) {
        let idle = 1_000 - of_owner.iter().sum::<i64>() - other;
        let before = Charges {
            of_owner: uj(of_owner),
            other: MicroJoules::from_uj(other),
            ..Charges::nobody(MicroJoules::from_uj(idle), 0)
        };
        let Charges { of_owner, other, idle, .. } = before.above_zero();
        (of_owner, other.as_uj(), idle.as_uj())
    }

    /// Shares above zero stay as they are. One below zero is taken from the others by their size, the baseline keeps what it has; if all together are
    /// below zero, they are nothing, and the baseline was less.
    #[test]
    fn nobody_gives_energy_back() {
        assert_eq!(charged(&[0, 300, 0], 100), (uj(&[0, 300, 0]), 100, 600));
        assert_eq!(charged(&[0, 300, -40], 100), (uj(&[0, 270, 0]), 90, 640));
        assert_eq!(charged(&[0, 300, 20], -160), (uj(&[0, 150, 10]), 0, 840));
        assert_eq!(charged(&[0, 30, -500], 100), (uj(&[0, 0, 0]), 0, 1_000));
        assert_eq!(charged(&[], -7), (vec![], 0, 1_000));
    }

    /// What a CPU's owners have, given these shares and 1,000 µJ of idle power: noise stays; the program or others below zero are lifted, and so are shares
    /// far below.
    #[test]
    fn a_baseline_that_was_too_high() {
        let lifted = |of_owner: &[i64], other| {
            let before = Charges {
                of_owner: uj(of_owner),
                other: MicroJoules::from_uj(other),
                ..Charges::nobody(MicroJoules::from_uj(1_000), 0)
            };
            let after = before.above_zero_if_far_below();
            (after.of_owner, after.other.as_uj(), after.idle.as_uj())
        };
        assert_eq!(lifted(&[0, 300, -9], 100), (uj(&[0, 300, -9]), 100, 1_000));
        assert_eq!(lifted(&[0, 300, -40], 100), (uj(&[0, 270, 0]), 90, 1_000));
        assert_eq!(lifted(&[0, 300], -1), (uj(&[0, 299]), 0, 1_000));
        assert_eq!(lifted(&[0, -30, 20], -5), (uj(&[0, 0, 0]), 0, 985));
    }

    /// Nor does a GPU on which no launches are known.
    #[test]
    fn no_launches_and_a_baseline_that_is_too_high() {
        let mut before = Charges::nobody(MicroJoules::from_uj(900), 1);
        before.unattributed = [(UnattributedReason::NoLaunchData, MicroJoules::from_uj(-30))].into();
        let after = before.above_zero();
        assert_eq!(
            (after.idle.as_uj(), after.unattributed.values().copied().sum()),
            (870, MicroJoules::ZERO)
        );
    }
}
