//! What an agent's page of metrics shows: the energy of a machine since the agent's start, by domain and
//! workload, added up window by window.
//!
//! ```text
//!  window    target = Σ processes ──► workloads ──5 minutes after their end──► ended
//!            idle, uncore, residual, other, unattributed ──────────────────► ledger
//!  always    Σ workloads + ended + Σ ledger = the domain's counter, to the microjoule
//! ```
//!
//! Counters only grow: where noise leaves a part of a window below zero it is taken from the others of that
//! window, and a residual below zero, which says that the baseline was too high, from the baseline. Leaves
//! out the page itself (`agent_page`) and where windows come from.

use super::agent_work::WorkTotals;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::diagnostics::GapReason;
use energy_trace_model::profile::{DomainByProcess, LedgerRow};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::workload::Workload;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Workloads that have a series of their own; what comes beyond goes together.
pub const MOST_WORKLOADS: usize = 2_000;
/// So long after its end a workload keeps its series.
pub const ENDED_AFTER: Duration = Duration::from_mins(5);
/// Parts of the ledger beside what workloads have, in the order in which they are kept.
pub(crate) const PARTS: [&str; 5] = ["idle", "uncore", "residual", "other", "unattributed"];
const IDLE: usize = 0;
const RESIDUAL: usize = 2;

/// Whose energy it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// What the path of its control group says, and the namespace of its pod where that is known.
    Known(Workload, Option<String>),
    /// It had ended before anybody could look.
    Unseen,
    /// There are too many.
    Other,
}

/// A domain since the start.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: String,
    pub(crate) class: DomainClass,
    pub(crate) quality: Quality,
    /// All of it.
    pub(crate) energy: MicroJoules,
    pub(crate) parts: [MicroJoules; PARTS.len()],
    /// That of workloads that have no series any more.
    pub(crate) ended: MicroJoules,
    /// For so long it is known what was drawn, in nanoseconds.
    pub(crate) covered_ns: u64,
    /// For so long it is not, and why.
    pub(crate) missing_ns: BTreeMap<GapReason, u64>,
    /// Whether the last window was divided by learned powers.
    pub(crate) by_power: bool,
}

/// A workload since it was first seen.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// By domain, in their order; shorter where later ones have nothing.
    pub(crate) energy: Vec<MicroJoules>,
    /// When it last lived.
    lived: KtimeNs,
}

/// All windows so far.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub(crate) domains: Vec<Domain>,
    pub(crate) workloads: BTreeMap<Who, Held>,
    /// How many windows there were.
    pub(crate) windows: u64,
    /// Units of work.
    pub work: WorkTotals,
}

impl Totals {
    /// How many windows there were.
    pub const fn windows(&self) -> u64 {
        self.windows
    }

    /// Adds a window that ends then. `who` says whose process it is, and `living` are those of whom a process lives.
    pub fn add(
        &mut self,
        window: &[DomainByProcess],
        until: KtimeNs,
        who: &dyn Fn(ProcessKey) -> Who,
        living: &BTreeSet<Who>,
    ) {
        self.windows += 1;
        let of_workloads: Vec<_> = window.iter().map(|domain| by_workload(domain, who)).collect();
        self.admit(&of_workloads, until);
        for (domain, of_workload) in window.iter().zip(of_workloads) {
            self.add_domain(domain, of_workload);
        }
        for (who, held) in &mut self.workloads {
            if living.contains(who) {
                held.lived = until;
            }
        }
        self.end_workloads(until);
    }

    /// Makes series for those who have energy and none yet, the largest first, as long as there may be more.
    fn admit(&mut self, of_workloads: &[BTreeMap<Who, MicroJoules>], until: KtimeNs) {
        let mut all: BTreeMap<&Who, MicroJoules> = BTreeMap::new();
        for (who, energy) in of_workloads.iter().flatten() {
            *all.entry(who).or_default() += *energy;
        }
        let mut all: Vec<(&Who, MicroJoules)> = all.into_iter().collect();
        all.order_by_key(|(_, energy)| Reverse(*energy));
        for (who, _) in all {
            if let Some(held) = self.workloads.get_mut(who) {
                held.lived = until;
            } else if self.workloads.len() < MOST_WORKLOADS || !matches!(who, Who::Known(..)) {
                self.workloads.insert(who.clone(), Held { energy: Vec::new(), lived: until });
            }
        }
    }

    fn add_domain(&mut self, window: &DomainByProcess, of_workload: BTreeMap<Who, MicroJoules>) {
        let (whos, shares): (Vec<Who>, Vec<MicroJoules>) = of_workload.into_iter().unzip();
        let settled = settled(&window.row, shares);
        let number = self.number_of(&window.row);
        let Some(domain) = self.domains.get_mut(number) else { return };
        domain.quality = window.row.quality;
        domain.covered_ns = domain.covered_ns.saturating_add(window.covered_ns);
        for (why, ns) in &window.missing_ns {
            let sum = domain.missing_ns.entry(*why).or_default();
            *sum = sum.saturating_add(*ns);
        }
        domain.by_power = window.by_power;
        domain.energy += settled.iter().copied().sum();
        let (parts, shares) = settled.split_at(PARTS.len().min(settled.len()));
        domain.parts.iter_mut().zip(parts).for_each(|(part, energy)| *part += *energy);
        for (who, &energy) in whos.into_iter().zip(shares) {
            self.charge(who, number, energy);
        }
    }

    fn charge(&mut self, who: Who, domain: usize, energy: MicroJoules) {
        let who = if self.workloads.contains_key(&who) { who } else { Who::Other };
        let nothing = Held { energy: Vec::new(), lived: KtimeNs::default() };
        let held = self.workloads.entry(who).or_insert(nothing);
        if held.energy.len() <= domain {
            held.energy.resize(domain + 1, MicroJoules::ZERO);
        }
        if let Some(sum) = held.energy.get_mut(domain) {
            *sum += energy;
        }
    }

    /// The domain of a row of the ledger, by its name.
    fn number_of(&mut self, row: &LedgerRow) -> usize {
        let known = self.domains.iter().position(|domain| domain.name == row.domain);
        known.unwrap_or_else(|| {
            self.domains.push(Domain {
                name: row.domain.clone(),
                class: row.class,
                quality: row.quality,
                energy: MicroJoules::ZERO,
                parts: [MicroJoules::ZERO; PARTS.len()],
                ended: MicroJoules::ZERO,
                covered_ns: 0,
                missing_ns: BTreeMap::new(),
                by_power: false,
            });
            self.domains.len() - 1
        })
    }

    /// Those who have not lived for a while lose their series, not their energy.
    fn end_workloads(&mut self, now: KtimeNs) {
        let has_ended = |who: &Who, held: &Held| {
            matches!(who, Who::Known(..)) && now.ns_since(held.lived) >= ENDED_AFTER.as_nanos() as u64
        };
        let domains = &mut self.domains;
        self.workloads.retain(|who, held| {
            let ended = has_ended(who, held);
            if ended {
                domains.iter_mut().zip(&held.energy).for_each(|(domain, energy)| domain.ended += *energy);
            }
            !ended
        });
    }
}

fn by_workload(domain: &DomainByProcess, who: &dyn Fn(ProcessKey) -> Who) -> BTreeMap<Who, MicroJoules> {
    let mut found: BTreeMap<Who, MicroJoules> = BTreeMap::new();
    for (process, energy) in &domain.of_process {
        *found.entry(who(*process)).or_default() += *energy;
    }
    found
}

/// The parts of the ledger, then the shares, none below zero. Their sum is what was measured.
fn settled(row: &LedgerRow, shares: Vec<MicroJoules>) -> Vec<MicroJoules> {
    let unattributed = row.unattributed.values().copied().sum();
    let mut parts = vec![row.idle, row.uncore, row.residual, row.other, unattributed];
    let too_much = row.residual.min(MicroJoules::ZERO);
    for (part, energy) in [(IDLE, too_much), (RESIDUAL, -too_much)] {
        if let Some(of) = parts.get_mut(part) {
            *of += energy;
        }
    }
    parts.extend(shares);
    MicroJoules::not_below_zero(parts)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ENDED_AFTER, MOST_WORKLOADS, PARTS, Totals, Who};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::ProcessKey;
    use energy_trace_model::profile::diagnostics::GapReason;
    use energy_trace_model::profile::{DomainByProcess, LedgerRow, UnattributedReason};
    use energy_trace_model::recording::record::{DomainClass, Quality};
    use energy_trace_model::units::MicroJoules;
    use energy_trace_names::workload::Workload;
    use std::collections::BTreeSet;

    pub(crate) fn uj(uj: i64) -> MicroJoules {
        MicroJoules::from_uj(uj)
    }

    pub(crate) fn pod(number: u32) -> Who {
        let workload = Workload { pod_uid: Some(format!("pod-{number:05}")), ..Workload::default() };
        Who::Known(workload, None)
    }

    /// A window of a domain: its residual and unattributed energy, 1,000 µJ of idle, 30 of others, and shares of processes.
    pub(crate) fn window(
        name: &str,
        (residual, unattributed): (i64, i64),
        shares: &[i64],
    ) -> DomainByProcess {
        let of_process = (0..).map(ProcessKey::new).zip(shares.iter().map(|share| uj(*share))).collect();
        let target = uj(shares.iter().sum());
        let mut row = LedgerRow {
            measured: target + uj(1_030 + residual + unattributed),
            target,
            other: uj(30),
            idle: uj(1_000),
            residual: uj(residual),
            ..LedgerRow::empty(name.to_owned(), DomainClass::Package, Quality::Measured)
        };
        row.unattributed.insert(UnattributedReason::CounterDoubted, uj(unattributed));
        assert_eq!(row.imbalance(), MicroJoules::ZERO);
        DomainByProcess {
            row,
            of_process,
            covered_ns: 1,
            missing_ns: [(GapReason::NoReading, 2)].into(),
            by_power: false,
        }
    }

    const fn at(seconds: u64) -> KtimeNs {
        KtimeNs::from_ns(seconds * 1_000_000_000)
    }

    /// What all parts of each domain have together.
    pub(crate) fn sums(totals: &Totals) -> Vec<MicroJoules> {
        let of_domain = |(number, domain): (usize, &super::Domain)| {
            let workloads = totals.workloads.values().filter_map(|held| held.energy.get(number)).copied();
            workloads.chain(domain.parts).chain([domain.ended]).sum()
        };
        totals.domains.iter().enumerate().map(of_domain).collect()
    }

    fn of(totals: &Totals, who: &Who) -> i64 {
        totals.workloads.get(who).map_or(-1, |held| held.energy.first().map_or(0, |energy| energy.as_uj()))
    }

    /// Whatever windows hold, each domain's parts are its counter, and none of them ever shrinks.
    #[test]
    fn the_sum_rule() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut totals = Totals::default();
        let mut measured = [MicroJoules::ZERO; 2];
        let mut before: Vec<[MicroJoules; PARTS.len()]> = vec![[MicroJoules::ZERO; PARTS.len()]; 2];
        for second in 0..2_000 {
            let names = ["package-0", "dram-0"];
            let windows = names.map(|name| {
                let shares: Vec<i64> = (0..20).map(|_| random.i64(-20..500)).collect();
                window(name, (random.i64(-1_500..50), random.i64(0..9)), &shares)
            });
            let moved = random.u32(0..30);
            let who = |process: ProcessKey| pod(process.get() + moved * 3);
            totals.add(&windows, at(second), &who, &BTreeSet::new());
            for (sum, window) in measured.iter_mut().zip(&windows) {
                *sum += window.row.measured.max(MicroJoules::ZERO);
            }
            assert_eq!(totals.domains.iter().map(|domain| domain.energy).collect::<Vec<_>>(), measured);
            assert_eq!(sums(&totals), measured);
            for (before, domain) in before.iter_mut().zip(&totals.domains) {
                assert!(before.iter().zip(&domain.parts).all(|(before, now)| before <= now));
                *before = domain.parts;
            }
        }
    }

    /// Noise below zero is taken from those above; a residual below zero from the baseline.
    #[test]
    fn nothing_shrinks() {
        let mut totals = Totals::default();
        totals.add(&[window("p", (-100, 0), &[500, -70])], at(1), &|key| pod(key.get()), &BTreeSet::new());
        let domain = &totals.domains[0];
        assert_eq!(domain.energy, uj(1_360));
        assert_eq!((domain.parts[2], of(&totals, &pod(1))), (uj(0), 0));
        let (idle, first) = (domain.parts[0].as_uj(), of(&totals, &pod(0)));
        assert!((855..=860).contains(&idle) && (474..=478).contains(&first), "{idle} {first}");
    }

    /// Who lives keeps its series without using anything; who does not loses it after a while, and begins anew.
    #[test]
    fn ended_workloads() {
        let mut totals = Totals::default();
        let later = ENDED_AFTER.as_secs();
        totals.add(&[window("p", (0, 0), &[5, 7])], at(0), &|key| pod(key.get()), &BTreeSet::new());
        let living = BTreeSet::from([pod(0)]);
        totals.add(&[window("p", (0, 0), &[])], at(later - 1), &|_| Who::Unseen, &living);
        assert_eq!((of(&totals, &pod(0)), of(&totals, &pod(1))), (5, 7));
        totals.add(&[window("p", (0, 0), &[])], at(later), &|_| Who::Unseen, &living);
        assert_eq!((of(&totals, &pod(0)), of(&totals, &pod(1)), totals.domains[0].ended), (5, -1, uj(7)));
        totals.add(&[window("p", (0, 0), &[0, 3])], at(later), &|key| pod(key.get()), &living);
        assert_eq!((of(&totals, &pod(1)), totals.domains[0].ended), (3, uj(7)));
    }

    /// Beyond so many workloads the rest is together, the largest have their own, and nothing is lost.
    #[test]
    fn too_many_workloads() {
        let mut totals = Totals::default();
        let shares: Vec<i64> = (1..=3_000).collect();
        totals.add(&[window("p", (0, 0), &shares)], at(0), &|key| pod(key.get()), &BTreeSet::new());
        assert_eq!(totals.workloads.len(), MOST_WORKLOADS + 1);
        assert_eq!((of(&totals, &pod(2_999)), of(&totals, &pod(999))), (3_000, -1));
        assert_eq!(of(&totals, &Who::Other), 1_000 * 1_001 / 2);
        assert_eq!(sums(&totals), [totals.domains[0].energy]);
    }
}
