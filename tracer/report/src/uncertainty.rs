//! How sure a group's energy is, and what that looks like.
//!
//! Attribution knows it for any set of rows (`profile::certainty`). A profile that says nothing about its certainty, as one that was not
//! attributed, gets the sampling error alone (`sampling_error.rs`).

use super::fold::Cost;
use super::missing::is_idle_contradicted;
use super::{DomainChoice, run, sampling_error};
use energy_trace_certainty::{HowSure as _, Uncertainty};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;

/// The flag of a number from too few samples.
pub(crate) const LOW_SAMPLES: &str = "low-samples";
/// The flag of a number that the run does not show.
pub(crate) const UNIDENTIFIED: &str = "unidentified";
/// Fewer samples than this make a number too uncertain to act on.
const FEW_SAMPLES: u64 = 100;
/// Fewer samples than 7 in 10 of those that a CPU time should have: the timer did not run as long as the thread did.
const STOLEN: (u64, u64) = (7, 10);
/// Whether samples are missing is asked from so many on.
const STOLEN_FROM: u64 = 50;

/// Says how sure a number is: its interval, its bounds and its flags.
pub(crate) struct Uncertainties<'a> {
    profile: &'a Profile,
    /// The energy that intervals are of.
    pub(crate) choice: DomainChoice,
    samples: u64,
    hz: u64,
}

impl<'a> Uncertainties<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        let samples = profile.rows.iter().map(|row| row.samples).fold(0, u64::saturating_add);
        Self { profile, choice: run::headline(profile), samples, hz: profile.run.header.sample_hz.into() }
    }

    /// How sure the cost of these rows is.
    /// `None`: of a part of a run nobody knows it.
    pub(crate) fn uncertainty(&self, cost: &Cost, rows: &[usize]) -> Option<Uncertainty> {
        self.profile.part.is_none().then(|| self.uncertainty_in(self.choice, cost, rows))
    }

    fn uncertainty_in(&self, choice: DomainChoice, cost: &Cost, rows: &[usize]) -> Uncertainty {
        let energy = run::chosen(&cost.energy, choice);
        if self.profile.certainty.domains.is_empty() {
            return Uncertainty {
                ci95: sampling_error::interval(energy, cost.samples, self.samples),
                bounds: None,
            };
        }
        self.profile.certainty.of(rows, |class| choice.includes(class), energy)
    }

    /// Words for the reader about a group.
    pub(crate) fn flags(&self, cost: &Cost, uncertainty: Option<&Uncertainty>) -> Vec<&'static str> {
        let estimated = cost.energy.iter().any(|(class, energy)| {
            let worst = run::quality(self.profile, DomainChoice::Class(class));
            energy != MicroJoules::ZERO && worst == Some(Quality::Estimated)
        });
        let due = u128::from(cost.time_ns) * u128::from(self.hz) / 1_000_000_000;
        let seen = u128::from(cost.samples);
        let stolen =
            due >= u128::from(STOLEN_FROM) && seen * u128::from(STOLEN.1) < due * u128::from(STOLEN.0);
        let flags = [
            (LOW_SAMPLES, is_few(cost.samples)),
            ("estimated", estimated),
            (UNIDENTIFIED, uncertainty.is_some_and(|uncertainty| uncertainty.bounds.is_some())),
            ("stolen-time", cost.samples > 0 && stolen),
            ("dram:time", cost.energy[DomainClass::Dram] != MicroJoules::ZERO),
        ];
        flags.into_iter().filter(|&(_, holds)| holds).map(|(flag, _)| flag).collect()
    }
}

/// Whether a number from so many samples is too uncertain to act on.
pub(crate) fn is_few(samples: u64) -> bool {
    (1..FEW_SAMPLES).contains(&samples)
}

/// How sure the energy of the whole program is: beside other programs, no counter says whose it was. `None` of a part of a run, where energy is a
/// model's, where idle power is wrong, and where nothing was found out.
pub(crate) fn of_program(profile: &Profile) -> Option<Uncertainty> {
    let choice = run::headline(profile);
    let is_known =
        profile.part.is_none() && !profile.certainty.domains.is_empty() && !run::is_modelled(profile, choice);
    let is_known = is_known && !is_idle_contradicted(profile);
    let included = |_, class| choice.includes(class);
    is_known.then(|| profile.certainty.of_all(included, run::target(profile, choice)))
}

/// How sure a total is, with what a model's watts may be off: that is the same for all that one machine runs,
/// so it is in no difference and in no share.
pub(crate) fn of_total(profile: &Profile) -> Option<Uncertainty> {
    let counted = of_program(profile);
    let Some((less, more)) = off_by_model(profile).filter(|_| profile.part.is_none()) else {
        return counted;
    };
    let total = run::target(profile, run::headline(profile));
    let mut sure = counted.unwrap_or(Uncertainty { ci95: (total, total), bounds: None });
    sure.ci95 = (sure.ci95.0 - less, sure.ci95.1 + more);
    Some(sure)
}

/// The same of a part of the program, such as a call: from the least to the most by the watts of a model, which are off by as much for all that the program
/// does. As it is where no domain has a model's.
pub(crate) fn times_model(
    profile: &Profile,
    (least, most): (MicroJoules, MicroJoules),
) -> (MicroJoules, MicroJoules) {
    let total = run::target(profile, run::headline(profile));
    let Some((less, more)) = off_by_model(profile) else { return (least, most) };
    let times = |energy: MicroJoules, of_total: MicroJoules| {
        let uj = i128::from(energy.as_uj()) * i128::from(of_total.as_uj()) / i128::from(total.as_uj().max(1));
        MicroJoules::from_uj(i64::try_from(uj).unwrap_or(i64::MAX))
    };
    (times(least, total - less), times(most, total + more))
}

/// By how much the program's total may be too large and too small for a model's watts. `None` where no domain has any.
fn off_by_model(profile: &Profile) -> Option<(MicroJoules, MicroJoules)> {
    let rows = run::ledger_of(profile, run::headline(profile));
    let off = rows
        .filter_map(|row| of_model(profile, row).map(|(low, high)| (row.target - low, high - row.target)));
    off.reduce(|one, other| (one.0 + other.0, one.1 + other.1))
}

/// The range of an estimate's joules in one domain. None where a counter or sensor has them, and where the
/// watts were given.
fn of_model(profile: &Profile, row: &LedgerRow) -> Option<(MicroJoules, MicroJoules)> {
    let mut sources = profile.run.header.sources.iter();
    let source = sources.find(|source| source.domains.contains(&row.domain))?;
    let times = |part: u64| {
        let uj = i128::from(row.target.as_uj()) * i128::from(part) / 1_000;
        MicroJoules::from_uj(i64::try_from(uj).unwrap_or(i64::MAX))
    };
    let [low, high] = source.range_of(&row.domain)?.map(times);
    Some((low, high))
}

/// The same of its energy in one domain, by the domain's place in the ledger.
pub(crate) fn of_program_in(profile: &Profile, domain: usize) -> Option<Uncertainty> {
    let row = profile.ledger.get(domain)?;
    if row.quality == Quality::Estimated {
        let range = of_model(profile, row).filter(|_| profile.part.is_none());
        return range.map(|ci95| Uncertainty { ci95, bounds: None });
    }
    let is_known = profile.part.is_none() && domain < profile.certainty.domains.len();
    let is_known = is_known && !is_idle_contradicted(profile);
    is_known.then(|| profile.certainty.of_all(|place, _| place == domain, row.target))
}

/// The interval of some rows for a tooltip, with its unit; empty where nothing is known or in doubt.
pub(crate) fn tooltip(profile: &Profile, choice: DomainChoice, rows: &[usize]) -> String {
    if profile.certainty.domains.is_empty() || rows.is_empty() {
        return String::new();
    }
    let energy = |row: &usize| {
        profile.rows.get(*row).map_or(MicroJoules::ZERO, |row| run::chosen(&row.energy, choice))
    };
    let energy = rows.iter().map(energy).sum();
    let sure = profile.certainty.of(rows, |class| choice.includes(class), energy);
    match sure.bounds {
        Some((low, high)) => format!(", not identified: {low} to {high}"),
        None if sure.ci95.0 == sure.ci95.1 => String::new(),
        None => format!(", 95 %: {} to {}", sure.ci95.0, sure.ci95.1),
    }
}
