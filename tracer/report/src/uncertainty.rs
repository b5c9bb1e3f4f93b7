//! How sure a group's energy is, and what that looks like.
//!
//! Attribution knows it for any set of rows (`profile::certainty`). A profile that says nothing about its certainty, as one that was not
//! attributed, gets the sampling error alone (`sampling_error.rs`).

use super::fold::Cost;
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
            (LOW_SAMPLES, (1..FEW_SAMPLES).contains(&cost.samples)),
            ("estimated", estimated),
            (UNIDENTIFIED, uncertainty.is_some_and(|uncertainty| uncertainty.bounds.is_some())),
            ("stolen-time", cost.samples > 0 && stolen),
            ("dram:time", cost.energy[DomainClass::Dram] != MicroJoules::ZERO),
        ];
        flags.into_iter().filter(|&(_, holds)| holds).map(|(flag, _)| flag).collect()
    }
}

/// How sure the energy of the whole program is: beside other programs, no counter says whose it was. `None` of a part of a run, where energy is a
/// model's, and where nothing was found out.
pub(crate) fn of_program(profile: &Profile) -> Option<Uncertainty> {
    let choice = run::headline(profile);
    let is_known =
        profile.part.is_none() && !profile.certainty.domains.is_empty() && !run::is_modelled(profile, choice);
    let included = |_, class| choice.includes(class);
    is_known.then(|| profile.certainty.of_all(included, run::target(profile, choice)))
}

/// How sure a total is, with what a model's watts may be off: that is the same for all that one machine runs,
/// so it is in no difference and in no share.
pub(crate) fn of_total(profile: &Profile) -> Option<Uncertainty> {
    let choice = run::headline(profile);
    let total = run::target(profile, choice);
    let counted = of_program(profile);
    let rows = run::ledger_of(profile, choice);
    let modelled = rows.filter_map(|row| Some((row, of_model(profile, row)?))).collect::<Vec<_>>();
    if modelled.is_empty() || profile.part.is_some() {
        return counted;
    }
    let mut sure = counted.unwrap_or(Uncertainty { ci95: (total, total), bounds: None });
    for (row, (low, high)) in modelled {
        sure.ci95 = (sure.ci95.0 - (row.target - low), sure.ci95.1 + (high - row.target));
    }
    Some(sure)
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
