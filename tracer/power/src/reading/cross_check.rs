//! Two readers of the same registers, compared before the start: what powercap says of a domain against what perf says.
//!
//! Both are the kernel's, over one hardware counter, with units that each scales for itself; tools have shipped with one of them wrong by
//! a factor. Leaves out which of the two is right: a reader is told, and nothing is corrected.

use crate::source::{Attempt, PowerSource};
use energy_trace_counters::grown;

/// How far apart they may be: two updates of 1 ms within a second are 0.2 %, and the two are not read at one moment.
const TOLERANCE_PERCENT: f64 = 5.0;
/// Less energy than this says nothing about a scale.
const ENOUGH_UJ: u64 = 100_000;

/// The second reader, and what both said at the beginning.
pub(crate) struct CrossCheck {
    witness: Box<dyn PowerSource>,
    begun: Option<Vec<Pair>>,
}

/// One domain, read by both.
struct Pair {
    domain: String,
    first_uj: u64,
    witness_uj: u64,
}

/// What the comparison of one domain came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Agreement {
    /// The domain.
    pub(crate) domain: String,
    /// Energy by the source that is used, in microjoules.
    pub(crate) first_uj: u64,
    /// Energy by the witness, in microjoules.
    pub(crate) witness_uj: u64,
}

impl Agreement {
    /// By how many percent the witness differs.
    fn percent(&self) -> f64 {
        100.0 * (self.witness_uj as f64 / self.first_uj.max(1) as f64 - 1.0)
    }

    /// The same in thousandths.
    pub(crate) fn permille(&self) -> i64 {
        (self.percent() * 10.0).round_ties_even() as i64
    }

    /// Whether the two cannot be counting the same.
    pub(crate) fn is_broken(&self) -> bool {
        self.percent().abs() > TOLERANCE_PERCENT
    }
}

impl CrossCheck {
    pub(crate) fn new(witness: Box<dyn PowerSource>) -> Self {
        Self { witness, begun: None }
    }

    /// Reads both for the first time.
    pub(crate) fn begin(&mut self, first: &mut dyn PowerSource) {
        self.begun = Some(self.read_pairs(first));
    }

    /// Reads both again: what each domain spent meanwhile. A counter that went back, or spent next to nothing, is left out.
    pub(crate) fn compare(&mut self, first: &mut dyn PowerSource) -> Vec<Agreement> {
        let now = self.read_pairs(first);
        let before = self.begun.take().unwrap_or_default();
        let agreement = |pair: Pair| {
            let earlier = before.iter().find(|earlier| earlier.domain == pair.domain)?;
            let first_uj = grown(earlier.first_uj, pair.first_uj)?;
            let witness_uj = grown(earlier.witness_uj, pair.witness_uj)?;
            (first_uj >= ENOUGH_UJ).then_some(Agreement { domain: pair.domain, first_uj, witness_uj })
        };
        now.into_iter().filter_map(agreement).collect()
    }

    fn read_pairs(&mut self, first: &mut dyn PowerSource) -> Vec<Pair> {
        let (ours, theirs) = (read_named(first), read_named(self.witness.as_mut()));
        let pair = |(domain, first_uj): (String, u64)| {
            let (_, witness_uj) = *theirs.iter().find(|(name, _)| *name == domain)?;
            Some(Pair { domain, first_uj, witness_uj })
        };
        ours.into_iter().filter_map(pair).collect()
    }
}

/// The counters of a source by the name of their domain, those that can be read.
fn read_named(source: &mut dyn PowerSource) -> Vec<(String, u64)> {
    let mut attempts: Vec<Attempt> = Vec::new();
    source.read(&mut attempts);
    let names = source.domains().iter().map(|domain| domain.name.clone());
    names.zip(attempts).filter_map(|(name, attempt)| Some((name, attempt.counter_uj.ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Agreement, CrossCheck};
    use crate::{Attempt, PowerSource};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{DomainId, SocketId};
    use energy_trace_model::recording::record::{Domain, DomainClass, Origin, Quality, Scope, SourceId};

    /// Counters whose values were thought of before.
    struct Script {
        domains: Vec<Domain>,
        rounds: Vec<Vec<u64>>,
    }

    impl PowerSource for Script {
        fn domains(&self) -> &[Domain] {
            &self.domains
        }

        fn read(&mut self, attempts: &mut Vec<Attempt>) {
            let values = self.rounds.remove(0);
            attempts
                .extend(values.into_iter().map(|uj| Attempt { at: KtimeNs::from_ns(0), counter_uj: Ok(uj) }));
        }
    }

    fn script(names: &[&str], rounds: &[&[u64]]) -> Script {
        let origin = Origin::Counter {
            source: SourceId::Powercap,
            place: String::new(),
            max_range: None,
            quality: Quality::Measured,
        };
        let domain = |name: &&str| Domain {
            id: DomainId::default(),
            name: (*name).to_owned(),
            class: DomainClass::Package,
            scope: Scope::Socket(SocketId::new(0)),
            origin: origin.clone(),
            idle: None,
        };
        Script {
            domains: names.iter().map(domain).collect(),
            rounds: rounds.iter().map(|r| r.to_vec()).collect(),
        }
    }

    fn compared(ours: &mut Script, theirs: Script) -> Vec<Agreement> {
        let mut check = CrossCheck::new(Box::new(theirs));
        check.begin(ours);
        check.compare(ours)
    }

    /// Domains are matched by name and not by place; a factor is found, a per mille is not.
    #[test]
    fn factors_are_found() {
        let mut ours = script(&["package-0", "dram-0"], &[&[500, 70], &[10_000_500, 2_000_070]]);
        let theirs = script(&["dram-0", "package-0"], &[&[0, 0], &[500_000, 10_010_000]]);
        let found = compared(&mut ours, theirs);
        assert_eq!(found.iter().map(|a| a.is_broken()).collect::<Vec<_>>(), [false, true]);
        assert!((found[1].percent() + 75.0).abs() < 0.1);
    }

    /// A counter that turned over, one that spent nothing and one that only one of them has are no evidence.
    #[test]
    fn no_evidence() {
        let mut ours = script(&["package-0", "dram-0", "psys"], &[&[9_000_000, 0, 0], &[5, 10, 9_000_000]]);
        let theirs = script(&["package-0", "dram-0"], &[&[0, 0], &[4_000_000, 900_000]]);
        assert_eq!(compared(&mut ours, theirs), []);
    }
}
