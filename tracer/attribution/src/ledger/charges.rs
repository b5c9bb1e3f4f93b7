//! Who is charged with a domain's energy: by CPU time and learned powers, or by launches on a GPU.
//!
//! Leaves out the row that this makes (`account`).

use super::basis::Basis;
use super::metered::Metered;
use super::powers::Powers;
use crate::gpu::{Charged, Gpu, Learned};
use crate::power_model::learn::PowerModel;
use crate::split::by_power::{PowerSplit, Splitter};
use crate::split::by_time::{Shares, by_time, split};
use crate::split::idle::distribute_idle;
use crate::time::occupancy::{Presence, presences};
use crate::time::owners::{OTHER, Owner};
use crate::uncertainty::propagation::{self, OwnerCertainty};
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::options::Method;
use energy_trace_model::recording::record::Domain;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

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
        let gpu = Gpu { recording, device, launchers, start, intervals };
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

    /// By CPU time, and by powers where the run shows them and the reader did not choose otherwise.
    pub(super) fn by_cpu_time(domain: &Domain, metered: &Metered, basis: &Basis<'_>) -> Self {
        let owners = basis.time.owners.len();
        let present = presences(&metered.timeline.intervals, &basis.segments_of(domain));
        let powers = Powers::learn(domain, metered, basis);
        let plain = split(&powers.dynamic, &present, owners);
        let split = split_by_powers(&powers, &present, basis);
        let weighted =
            matches!(powers.model, PowerModel::Known(_)) && basis.accounting.method == Method::Weighted;
        let certain = propagation::Basis {
            power_model: &powers.model,
            split: split.as_ref(),
            weighted,
            time: basis.time,
            tree: basis.tree,
        };
        let by_power = split.as_ref().filter(|_| weighted).map(|split| &split.shares);
        let charged = &by_power.unwrap_or(&plain).of_owner;
        let certainty = propagation::certainty(&certain, charged, seconds_of(&present, owners));
        let shares = match split {
            Some(split) if weighted => split.shares,
            _ => plain.clone(),
        };
        let uncore = powers.uncore;
        let grounds = CpuGrounds {
            weighted,
            eta: powers.aligned.eta,
            exponent: powers.aligned.exponent,
            power_model: powers.model,
        };
        let grounds = Grounds::CpuTime(Box::new(grounds));
        Self { certainty, uncore, grounds, ..Self::with_idle(shares, plain, metered, &present, basis) }
    }

    /// Hands out the idle baseline as was chosen, and puts together what is not the target's.
    fn with_idle(
        shares: Shares,
        plain: Shares,
        metered: &Metered,
        present: &[Presence],
        basis: &Basis<'_>,
    ) -> Self {
        let (owners, policy) = (&basis.time.owners, basis.accounting.idle);
        let (mut of_owner, mut by_time) = (shares.of_owner, plain.of_owner);
        let idle = distribute_idle(policy, metered.idle, &mut of_owner, present, owners);
        distribute_idle(policy, metered.idle, &mut by_time, present, owners);
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

/// The split by expected times and powers, where there are powers.
fn split_by_powers(powers: &Powers<'_>, present: &[Presence], basis: &Basis<'_>) -> Option<PowerSplit> {
    let model = powers.model.model()?;
    let splitter = Splitter { model, tree: basis.tree, owners: &basis.time.owners, marks: &basis.time.marks };
    Some(splitter.split(&powers.dynamic, &powers.aligned.parts, |interval| by_time(present, interval)))
}

/// CPU seconds of each owner.
fn seconds_of(present: &[Presence], owners: usize) -> Vec<f64> {
    let mut ns = vec![0_u64; owners];
    for presence in present {
        ns.get_mut(presence.owner as usize)
            .into_iter()
            .for_each(|sum| *sum = sum.saturating_add(presence.ns));
    }
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    ns.into_iter().map(|ns| ns as f64 / 1e9).collect()
}
