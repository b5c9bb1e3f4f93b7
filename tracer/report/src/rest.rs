//! What a run measured beside the program's stacks: other programs, idle, and what was charged to nobody.
//!
//! As stacks of their own, for who asks for them, and as sums. Leaves out the program itself (`folded.rs`).

use super::{DomainChoice, run};
use energy_trace_model::profile::options::IdlePolicy;
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// What stands beside the program's stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Other programs, and what was charged to nobody.
    pub others: bool,
    /// The idle baseline.
    pub idle: bool,
}

impl Rest {
    /// All that was measured: stacks with this sum to the ledger.
    pub const ALL: Self = Self { others: true, idle: true };
}

const OTHERS: &str = "[other processes]";
/// Roots of all GPUs together, each device on top.
const GPU_IDLE: &str = "[GPU idle]";
const GPU_OTHERS: &str = "[GPU untraced]";

/// A stack that is no program's: its names, root first, the energy, and the time in nanoseconds over which it counts.
pub(crate) type Part = (Vec<String>, MicroJoules, u64);

/// The chosen parts, summed over domains where their names are the same. With `--idle exclude` there are no idle ones.
pub fn parts(profile: &Profile, domain: DomainChoice, rest: Rest) -> Vec<Part> {
    let idle = rest.idle && profile.options.accounting.idle != IdlePolicy::Exclude;
    let mut parts: BTreeMap<Vec<String>, MicroJoules> = BTreeMap::new();
    for row in run::ledger_of(profile, domain) {
        let of_others = rest.others.then(|| of_others(row)).into_iter().flatten();
        let of_idle = idle.then(|| (idle_names(row), row.idle));
        for (names, energy) in of_others.chain(of_idle) {
            *parts.entry(names).or_default() += energy;
        }
    }
    let (duration, others) = (profile.run.duration_ns(), profile.run.other_ns);
    let part = |(names, energy): (Vec<String>, _)| {
        let time_ns = if names == [OTHERS] { others } else { duration };
        (names, energy, time_ns)
    };
    parts.into_iter().map(part).collect()
}

fn of_others(row: &LedgerRow) -> Vec<(Vec<String>, MicroJoules)> {
    let others = match row.class {
        DomainClass::Gpu => vec![GPU_OTHERS.to_owned(), row.domain.clone()],
        _ => vec![OTHERS.to_owned()],
    };
    let nobody = |name: &str, energy| (vec![name.to_owned()], energy);
    let mut parts =
        vec![(others, row.other), nobody("[uncore]", row.uncore), nobody("[residual]", row.residual)];
    let unattributed = row.unattributed.iter();
    parts.extend(
        unattributed.map(|(why, energy)| nobody(&format!("[unattributed: {}]", why.name()), *energy)),
    );
    parts
}

fn idle_names(row: &LedgerRow) -> Vec<String> {
    match row.class {
        DomainClass::Gpu => vec![GPU_IDLE.to_owned(), row.domain.clone()],
        _ => vec![format!("[idle {}]", row.domain)],
    }
}

/// Sums over a choice of domains: measured = program + others + idle + nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) measured: MicroJoules,
    pub(crate) program: MicroJoules,
    pub(crate) others: MicroJoules,
    pub(crate) idle: MicroJoules,
    /// Uncore, residual, unattributed.
    pub(crate) nobody: MicroJoules,
}

impl Sums {
    pub(crate) fn of(profile: &Profile, domain: DomainChoice) -> Self {
        let mut sums = Self::default();
        for row in run::ledger_of(profile, domain) {
            sums.measured += row.measured;
            sums.program += row.target;
            sums.others += row.other;
            sums.idle += row.idle;
            sums.nobody += row.measured - row.target - row.other - row.idle;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::{DomainChoice, DomainClass, MicroJoules, Profile, Rest, Sums, parts};
    use energy_trace_model::profile::LedgerRow;
    use energy_trace_model::recording::record::Quality;
    use std::collections::BTreeMap;

    fn profile() -> Profile {
        let uj = MicroJoules::from_uj;
        let row = |domain: &str, class, idle, other| LedgerRow {
            domain: domain.to_owned(),
            class,
            quality: Quality::Measured,
            measured: uj(idle + other + 100),
            target: uj(99),
            other: uj(other),
            idle: uj(idle),
            uncore: uj(0),
            residual: uj(1),
            unattributed: BTreeMap::new(),
        };
        let gpus = [row("gpu-0", DomainClass::Gpu, 5, 2), row("gpu-1", DomainClass::Gpu, 6, 3)];
        let ledger = [vec![row("package-0", DomainClass::Package, 7, 4)], gpus.to_vec()].concat();
        Profile { ledger, ..Profile::default() }
    }

    fn lines(rest: Rest) -> Vec<String> {
        let parts = parts(&profile(), DomainChoice::Total, rest).into_iter();
        let drawn = parts.filter(|(_, energy, _)| *energy > MicroJoules::ZERO);
        drawn.map(|(names, energy, _)| format!("{} {}", names.join(";"), energy.as_uj())).collect()
    }

    /// What GPUs drew for nobody and for others has one root for all of them, with the device on top; CPUs' names are as they were. Each
    /// half comes alone when it alone is asked for.
    #[test]
    fn gpus_stay_apart_under_one_root() {
        let idle = ["[GPU idle];gpu-0 5", "[GPU idle];gpu-1 6", "[idle package-0] 7"];
        let others =
            ["[GPU untraced];gpu-0 2", "[GPU untraced];gpu-1 3", "[other processes] 4", "[residual] 3"];
        assert_eq!(lines(Rest { idle: true, others: false }), idle);
        assert_eq!(lines(Rest { idle: false, others: true }), others);
        assert_eq!(lines(Rest::ALL).len(), 7);
        assert!(lines(Rest::default()).is_empty());
    }

    /// The sums hold everything once.
    #[test]
    fn sums_are_whole() {
        let sums = Sums::of(&profile(), DomainChoice::Total);
        assert_eq!(
            [sums.measured, sums.program, sums.others, sums.idle, sums.nobody].map(MicroJoules::as_uj),
            [327, 297, 9, 18, 3]
        );
    }
}
