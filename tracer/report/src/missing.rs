//! What a counter did not say of a run: for how long, why, and how much it may have been; and what it said of GPUs, and nobody is charged with.
//!
//! Leaves out its sentence (`sentences/counters.rs`).

use crate::run;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, GapReason};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::RecordingDiagnostic;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Power while nobody knew it may have been so many times the mean of when it was known.
const TIMES_MEAN: i64 = 2;

/// The time that a domain's energy is not known of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The domain.
    pub domain: String,
    /// For how long.
    pub ns: u64,
    /// Of how much.
    pub of_ns: u64,
    /// Why, and for how long each.
    pub reasons: BTreeMap<GapReason, u64>,
    /// What may have been used then; `None`: nobody knows, as less than half of the run is known.
    most: Option<MicroJoules>,
}

impl Missing {
    /// Of the domains that a run's joules are made of. While the machine slept the program used nothing.
    pub(crate) fn all(profile: &Profile) -> impl Iterator<Item = Self> {
        let rows = run::ledger_of(profile, run::headline(profile));
        rows.flat_map(|row| {
            found_of(profile, &row.domain).filter_map(|what| Self::of(&row.domain, what, row.measured))
        })
    }

    fn of(domain: &str, what: &DomainDiagnostic, known: MicroJoules) -> Option<Self> {
        let DomainDiagnostic::NoReading { of_ns, reasons, .. } = what else { return None };
        let mut reasons = reasons.clone();
        let slept = reasons.remove(&GapReason::Slept).unwrap_or(0);
        let ns = reasons.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let known_ns = of_ns.saturating_sub(ns).saturating_sub(slept);
        let most = i128::from(known.as_uj()) * i128::from(TIMES_MEAN) * i128::from(ns);
        let most = (known_ns >= ns).then(|| most / i128::from(known_ns.max(1)));
        let most = most.and_then(|most| i64::try_from(most).ok()).map(MicroJoules::from_uj);
        (ns > 0).then(|| Self { domain: domain.to_owned(), ns, of_ns: *of_ns, reasons, most })
    }

    /// Whether more than this may have been used.
    pub(crate) fn may_be_more_than(&self, left: MicroJoules) -> bool {
        self.most.is_none_or(|most| most > left)
    }
}

/// What GPUs drew above idle whose launches nobody can record (all but NVIDIA's): it may be the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncharged {
    /// The GPUs.
    pub domains: Vec<String>,
    /// How much.
    pub energy: MicroJoules,
}

impl Uncharged {
    /// Of the domains that a run's joules are made of; `None` where that is nothing.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        let rows = run::ledger_of(profile, run::headline(profile));
        let found = rows.map(|row| (row.domain.clone(), run::without_launches(profile, row)));
        let (domains, energies): (Vec<_>, Vec<_>) = found.filter(|(_, of)| *of > MicroJoules::ZERO).unzip();
        (!domains.is_empty()).then(|| Self { domains, energy: energies.into_iter().sum() })
    }
}

/// How much was read of a recording that ends before its run did, where that is known.
pub(crate) fn read_ns(profile: &Profile) -> Option<Option<u64>> {
    profile.diagnostics.iter().find_map(|found| match found {
        Diagnostic::Recorded(RecordingDiagnostic::RecordingCut { whole_ns, .. }) => Some(*whole_ns),
        Diagnostic::Recorded(RecordingDiagnostic::ReaderDied) => Some(None),
        _ => None,
    })
}

/// Why it is not known how much a budget's energy was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKnown {
    /// A counter said nothing for a while.
    Gap(Missing),
    /// A GPU's energy that nobody is charged with.
    Uncharged(Uncharged),
    /// The recording ends before the run did; after how many nanoseconds, where that is known.
    Cut(Option<u64>),
}

impl NotKnown {
    /// Where it decides whether a budget is kept of which so much is left: any part of a program may be what launched on a GPU.
    pub(crate) fn of(profile: &Profile, left: MicroJoules) -> Option<Self> {
        let gap = Missing::all(profile).find(|missing| missing.may_be_more_than(left)).map(Self::Gap);
        let uncharged = || Uncharged::of(profile).filter(|of| of.energy > left);
        let cut = || read_ns(profile).map(Self::Cut);
        gap.or_else(|| uncharged().map(Self::Uncharged)).or_else(cut)
    }
}

/// Nanoseconds of the run in which a domain was not measured.
pub(crate) fn unread_ns(profile: &Profile, row: &LedgerRow) -> u64 {
    let of_row = |what: &DomainDiagnostic| match what {
        DomainDiagnostic::NoReading { missing_ns, .. } => Some(*missing_ns),
        _ => None,
    };
    found_of(profile, &row.domain).find_map(of_row).unwrap_or(0)
}

/// Whether idle power of a domain comes to more than it showed in all: then no energy above it is known.
pub(crate) fn is_idle_contradicted(profile: &Profile) -> bool {
    let mut rows = run::ledger_of(profile, run::headline(profile));
    let is_it =
        |what: &DomainDiagnostic| matches!(what, DomainDiagnostic::IdleAboveCounter { run: Some(_), .. });
    rows.any(|row| found_of(profile, &row.domain).any(is_it))
}

/// What was found of a domain.
pub(crate) fn found_of<'p>(
    profile: &'p Profile,
    name: &'p str,
) -> impl Iterator<Item = &'p DomainDiagnostic> {
    profile.diagnostics.iter().filter_map(move |found| match found {
        Diagnostic::Domain { domain, what } if domain == name => Some(what),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{DomainDiagnostic, GapReason, MicroJoules, Missing};

    const S: u64 = 1_000_000_000;

    /// Of 10 s with 80 J, what is missing is at most twice the mean of the rest; where it is more than the rest, nobody knows. Sleep is no time.
    #[test]
    fn at_most() {
        let most = |reasons: &[(GapReason, u64)]| {
            let reasons = reasons.iter().map(|&(why, s)| (why, s * S)).collect();
            let what = DomainDiagnostic::NoReading { missing_ns: 0, of_ns: 10 * S, reasons };
            let missing = Missing::of("package-0", &what, MicroJoules::from_uj(80_000_000))?;
            Some((missing.ns / S, missing.most.map(|most| most.as_uj() / 1_000_000)))
        };
        use GapReason::{Slept, StoodStill, WentBack};
        assert_eq!(most(&[(StoodStill, 2)]), Some((2, Some(40))));
        assert_eq!(most(&[(StoodStill, 1), (WentBack, 1)]), Some((2, Some(40))));
        assert_eq!(most(&[(StoodStill, 6)]), Some((6, None)));
        assert_eq!(most(&[(Slept, 5)]), None);
        assert_eq!(most(&[(Slept, 5), (StoodStill, 1)]), Some((1, Some(40))));
    }
}
