//! What a counter did not say of a run: for how long, why, and how much it may have been.
//!
//! Leaves out its sentence (`sentences/counters.rs`).

use crate::run;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, GapReason};
use energy_trace_model::profile::{LedgerRow, Profile};
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

/// Nanoseconds of the run in which a domain was not measured.
pub(crate) fn unread_ns(profile: &Profile, row: &LedgerRow) -> u64 {
    let of_row = |what: &DomainDiagnostic| match what {
        DomainDiagnostic::NoReading { missing_ns, .. } => Some(*missing_ns),
        _ => None,
    };
    found_of(profile, &row.domain).find_map(of_row).unwrap_or(0)
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
