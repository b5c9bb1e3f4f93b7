//! The account of one domain: its row of the ledger, and what is known about it.
//!
//! Leaves out how its energy was measured (`metered`) and who is charged with it (`charges`).

use super::basis::Basis;
use super::charges::{Charges, CpuGrounds, Grounds};
use super::metered::Metered;
use crate::timeline::{Lag, Timeline};
use crate::uncertainty::propagation::OwnerCertainty;
use energy_trace_model::profile::{LedgerRow, UnattributedReason};
use energy_trace_model::recording::record::{Domain, Origin, Quality, Reading, Scope};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// A domain's row, each owner's part of its `target` (zero for `Other`), and what a reader must know of them.
pub(crate) struct Account {
    pub(crate) row: LedgerRow,
    pub(crate) of_owner: Vec<MicroJoules>,
    /// The same if all drew the same power.
    pub(crate) by_time: Vec<MicroJoules>,
    pub(crate) certainty: OwnerCertainty,
    pub(crate) timeline: Timeline,
    pub(crate) grounds: Grounds,
    /// Negative energy that went to owners.
    pub(crate) negative: MicroJoules,
    /// How late the log of a foreign meter was, where that showed.
    pub(crate) lag: Option<Lag>,
    /// Standard deviation of the idle energy in joules.
    pub(crate) idle_joules: f64,
    /// The idle power that was estimated, as the machine was busy when it was to be measured.
    pub(crate) busy_before: Option<MicroWatts>,
}

impl Account {
    /// Accounts for one domain.
    pub(crate) fn of(domain: &Domain, readings: &[Reading], basis: &Basis<'_>) -> Self {
        let metered = Metered::of(domain, readings, basis);
        let charges = match domain.scope {
            Scope::Gpu(device) => Charges::by_launches(&metered, device, basis).above_zero(),
            Scope::Socket(_) | Scope::Machine | Scope::Core(..) => {
                Charges::by_cpu_time(domain, &metered, basis).above_zero_if_far_below()
            }
        };
        let mut unattributed = charges.unattributed;
        let doubted: MicroJoules = metered.timeline.doubted.iter().map(|doubted| doubted.energy).sum();
        if doubted != MicroJoules::ZERO {
            unattributed.insert(UnattributedReason::CounterDoubted, doubted);
        }
        let row = LedgerRow {
            domain: domain.name.clone(),
            class: domain.class,
            quality: quality(domain),
            measured: metered.timeline.energy() + doubted,
            target: charges.of_owner.iter().copied().sum(),
            other: charges.other,
            idle: charges.idle,
            uncore: charges.uncore,
            residual: charges.residual,
            unattributed,
        };
        let Charges { of_owner, by_time, certainty, grounds, negative, .. } = charges;
        let Metered { lag, timeline, idle_joules, busy_before, .. } = metered;
        Self { row, of_owner, by_time, certainty, timeline, grounds, negative, lag, idle_joules, busy_before }
    }

    /// What is known of the powers that split it, where CPU time does.
    pub(crate) const fn cpu_grounds(&self) -> Option<&CpuGrounds> {
        match &self.grounds {
            Grounds::CpuTime(grounds) => Some(grounds),
            Grounds::Launches(_) | Grounds::Nothing => None,
        }
    }
}

/// Where a domain's numbers come from. Shares of a counter are at best apportioned: `LedgerRow::split_quality`.
fn quality(domain: &Domain) -> Quality {
    match domain.origin {
        Origin::Counter { quality, .. } => quality,
        Origin::Model { .. } => Quality::Estimated,
    }
}
