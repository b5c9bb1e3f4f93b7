//! What became of one domain's energy: the one result that charging fills in and that rows, findings and bins
//! are made of.
//!
//! Leaves out how the energy was metered and who charges it (`charging`).

use crate::power_model::learn::PowerModel;
use crate::power_model::settings::Settings;
use crate::timeline::{EnergyInterval, Lag, Timeline};
use crate::uncertainty::propagation::OwnerCertainty;
use energy_trace_model::profile::diagnostics::GpuSplit;
use energy_trace_model::profile::{LedgerRow, UnattributedReason};
use energy_trace_model::recording::record::Domain;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Shares below zero are more than noise when they are more than one in so many of the whole.
const FAR_BELOW: i64 = 100;

/// A domain's energy before anybody is charged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metered {
    /// How late the log of a foreign meter was, where that showed.
    pub(crate) lag: Option<Lag>,
    pub(crate) timeline: Timeline,
    /// The idle baseline's energy, and its standard deviation in joules.
    pub(crate) idle: MicroJoules,
    pub(crate) idle_joules: f64,
    /// The idle power that was estimated, as the machine was busy when it was to be measured.
    pub(crate) busy_before: Option<MicroWatts>,
    /// Energy above idle of each interval.
    pub(crate) dynamic: Vec<MicroJoules>,
    /// What a GPU's counter said after the recording's end, and the energy above idle: it is nobody's, but
    /// shows what the device draws at rest.
    pub(crate) after: Vec<(EnergyInterval, MicroJoules)>,
}

/// What a domain's energy was divided by.
pub(crate) enum SplitBasis {
    /// CPU time, and powers where they are known.
    CpuTime(Box<CpuBasis>),
    /// Launches on a GPU: how, and the names of those that cannot be told apart.
    Launches(GpuSplit, Vec<Vec<String>>),
    /// Nothing: no launches on the GPU are recorded.
    Nothing,
}

/// What is known about the powers that divide CPU time.
pub(crate) struct CpuBasis {
    pub(crate) power_model: PowerModel,
    /// Whether its powers split the energy.
    pub(crate) weighted: bool,
    /// The corrections that they were learned with.
    pub(crate) settings: Settings,
}

/// What became of a domain's energy.
pub(crate) struct DomainResult {
    /// Its row of the ledger.
    pub(crate) row: LedgerRow,
    /// Each owner's part of the row's `target`; zero for all but the target's.
    pub(crate) of_owner: Vec<MicroJoules>,
    /// The same if all drew the same power.
    pub(crate) by_time: Vec<MicroJoules>,
    /// Negative energy that went to owners.
    pub(crate) negative: MicroJoules,
    pub(crate) certainty: OwnerCertainty,
    pub(crate) basis: SplitBasis,
    pub(crate) metered: Metered,
}

impl DomainResult {
    /// Nobody is charged with anything yet: all energy above idle is still to be given to somebody.
    pub(crate) fn uncharged(domain: &Domain, metered: Metered, owners: usize) -> Self {
        let doubted: MicroJoules = metered.timeline.doubted.iter().map(|doubted| doubted.energy).sum();
        let unattributed =
            (doubted != MicroJoules::ZERO).then_some((UnattributedReason::CounterDoubted, doubted));
        let row = LedgerRow {
            measured: metered.timeline.energy() + doubted,
            idle: metered.idle,
            unattributed: unattributed.into_iter().collect(),
            ..LedgerRow::empty(domain.name.clone(), domain.class, domain.quality())
        };
        Self {
            row,
            of_owner: vec![MicroJoules::ZERO; owners],
            by_time: vec![MicroJoules::ZERO; owners],
            negative: MicroJoules::ZERO,
            certainty: OwnerCertainty::default(),
            basis: SplitBasis::Nothing,
            metered,
        }
    }

    /// Charges nobody with what is above idle.
    pub(crate) fn leave(&mut self, why: UnattributedReason) {
        let above_idle = self.metered.dynamic.iter().copied().sum();
        self.row.unattributed.insert(why, above_idle);
    }

    /// What is known of the powers that split it, where CPU time does.
    pub(crate) const fn cpu_basis(&self) -> Option<&CpuBasis> {
        match &self.basis {
            SplitBasis::CpuTime(basis) => Some(basis),
            SplitBasis::Launches(..) | SplitBasis::Nothing => None,
        }
    }

    /// A CPU's shares keep their sign where it is noise. Where the program or others would be below zero, or
    /// shares below zero are more than a hundredth of all, the baseline was too high: nobody gives energy
    /// back then either.
    pub(crate) fn lift_if_far_below_zero(&mut self) {
        let target: MicroJoules = self.of_owner.iter().copied().sum();
        let below = |energy: MicroJoules| energy.min(MicroJoules::ZERO);
        let negative =
            self.of_owner.iter().map(|energy| below(*energy)).sum::<MicroJoules>() + below(self.row.other);
        let whole = target + self.row.other + self.row.idle;
        let is_far = negative.as_uj().saturating_mul(-FAR_BELOW) > whole.as_uj();
        if below(target) < MicroJoules::ZERO || below(self.row.other) < MicroJoules::ZERO || is_far {
            self.lift_above_zero();
        }
    }

    /// Nobody gives a GPU's energy back. Where its idle baseline was above the counter, shares below zero are
    /// taken from the others', and what is below zero of all together from the baseline: it was less.
    pub(crate) fn lift_above_zero(&mut self) {
        let mut energies = self.of_owner.clone();
        energies.push(self.row.other);
        let whole: MicroJoules = energies.iter().copied().sum();
        let mut lifted = MicroJoules::not_below_zero(energies);
        self.row.idle += whole.min(MicroJoules::ZERO);
        self.row.other = lifted.pop().unwrap_or_default();
        if let Some(energy) = self.row.unattributed.get_mut(&UnattributedReason::NoLaunchData) {
            self.row.idle += (*energy).min(MicroJoules::ZERO);
            *energy = (*energy).max(MicroJoules::ZERO);
        }
        // Where owners are charged by time alone, both are the same.
        let is_by_time = self.by_time == self.of_owner;
        self.by_time = if is_by_time {
            lifted.clone()
        } else {
            MicroJoules::not_below_zero(std::mem::take(&mut self.by_time))
        };
        self.of_owner = lifted;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{DomainResult, Metered, MicroJoules, UnattributedReason};
    use energy_trace_model::ids::DomainId;
    use energy_trace_model::recording::record::{Domain, DomainClass, Origin, Scope};

    fn uj(energies: &[i64]) -> Vec<MicroJoules> {
        energies.iter().copied().map(MicroJoules::from_uj).collect()
    }

    /// A package of which this was metered, and nothing is charged.
    pub(crate) fn package(metered: Metered, owners: usize) -> DomainResult {
        let origin = Origin::measured("powercap", String::new(), None);
        let (class, scope, name) = (DomainClass::Package, Scope::Machine, "package-0".to_owned());
        let domain = Domain { id: DomainId::new(0), name, class, scope, origin, idle: None };
        DomainResult::uncharged(&domain, metered, owners)
    }

    /// With these shares, others' energy and the baseline's.
    fn charged(of_owner: &[i64], other: i64, idle: i64) -> DomainResult {
        let mut result =
            package(Metered { idle: MicroJoules::from_uj(idle), ..Metered::default() }, of_owner.len());
        result.of_owner = uj(of_owner);
        result.row.other = MicroJoules::from_uj(other);
        result
    }

    fn found(result: DomainResult) -> (Vec<MicroJoules>, i64, i64) {
        (result.of_owner, result.row.other.as_uj(), result.row.idle.as_uj())
    }

    /// Shares above zero stay as they are. One below zero is taken from the others by their size, the
    /// baseline keeps what it has; if all together are below zero, they are nothing, and the baseline was
    /// less. Owners, others and the baseline have 1,000 µJ.
    #[test]
    fn nobody_gives_energy_back() {
        let lifted = |of_owner: &[i64], other| {
            let mut result = charged(of_owner, other, 1_000 - of_owner.iter().sum::<i64>() - other);
            result.lift_above_zero();
            found(result)
        };
        assert_eq!(lifted(&[0, 300, 0], 100), (uj(&[0, 300, 0]), 100, 600));
        assert_eq!(lifted(&[0, 300, -40], 100), (uj(&[0, 270, 0]), 90, 640));
        assert_eq!(lifted(&[0, 300, 20], -160), (uj(&[0, 150, 10]), 0, 840));
        assert_eq!(lifted(&[0, 30, -500], 100), (uj(&[0, 0, 0]), 0, 1_000));
        assert_eq!(lifted(&[], -7), (vec![], 0, 1_000));
    }

    /// What a CPU's owners have, given these shares and 1,000 µJ of idle power: noise stays; the program or
    /// others below zero are lifted, and so are shares far below.
    #[test]
    fn a_baseline_that_was_too_high() {
        let lifted = |of_owner: &[i64], other| {
            let mut result = charged(of_owner, other, 1_000);
            result.lift_if_far_below_zero();
            found(result)
        };
        assert_eq!(lifted(&[0, 300, -9], 100), (uj(&[0, 300, -9]), 100, 1_000));
        assert_eq!(lifted(&[0, 300, -40], 100), (uj(&[0, 270, 0]), 90, 1_000));
        assert_eq!(lifted(&[0, 300], -1), (uj(&[0, 299]), 0, 1_000));
        assert_eq!(lifted(&[0, -30, 20], -5), (uj(&[0, 0, 0]), 0, 985));
    }

    /// Nor does a GPU on which no launches are known.
    #[test]
    fn no_launches_and_a_baseline_that_is_too_high() {
        let mut result = charged(&[0], 0, 900);
        result.row.unattributed = [(UnattributedReason::NoLaunchData, MicroJoules::from_uj(-30))].into();
        result.lift_above_zero();
        assert_eq!(
            (result.row.idle.as_uj(), result.row.unattributed.values().copied().sum()),
            (870, MicroJoules::ZERO)
        );
    }
}
