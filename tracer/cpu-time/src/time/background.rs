//! Which other processes are told apart: those that run enough for their own watts to matter.
//!
//! Nobody asks what a background process's energy is, but what it is taken to be is taken from the target. A
//! hot process and kernel threads that draw next to nothing in one class have one wattage between them: too
//! little where the hot one runs, too much elsewhere, and the mean of both wherever one of them runs alone
//! more often than the other. So each large background process is an owner of its own; processes that are
//! small but many and have one name (a build's compilers) are one together; the rest stays together, because
//! watts of who hardly ran are not known. Leaves out the watts (`power_model`) and the sum of all background
//! processes, which is what the ledger shows.

use crate::time::owners::Owner;
use energy_trace_model::ids::BackgroundKey;
use energy_trace_model::recording::record::{BackgroundProcess, CpuOwner, Slice};
use std::collections::BTreeMap;

/// Background processes with less than this part of all time on CPUs stay together. With five times as much
/// the target's energy beside busy neighbours was off by twice as much and its interval held too rarely; with
/// half of it nothing is better (docs/results/recorded-programs.md).
const LEAST: f64 = 0.002;
/// How many are told apart at most: the largest.
const MOST: usize = 100;

/// The group of each background process.
#[derive(Debug, Default)]
pub struct BackgroundProcesses {
    group_of: Vec<Option<u32>>,
}

impl BackgroundProcesses {
    /// From all slices of a recording and its table of background processes.
    #[expect(clippy::cast_precision_loss, reason = "parts of a sum")]
    pub fn of(slices: &[Slice], background: &[BackgroundProcess]) -> Self {
        let mut times = vec![0_u64; background.len()];
        let mut all = 0_u64;
        for slice in slices {
            let ns = slice.end.ns_since(slice.start);
            all = all.saturating_add(ns);
            if let CpuOwner::Background(key) = slice.who
                && let Some(time) = times.get_mut(key.index())
            {
                *time = time.saturating_add(ns);
            }
        }
        let large = |ns: u64| ns as f64 >= LEAST * all as f64 && ns > 0;
        let (alone, rest): (Vec<usize>, Vec<usize>) = (0..times.len()).partition(|&key| large(times[key]));
        let mut groups: Vec<(u64, Vec<usize>)> =
            alone.into_iter().map(|key| (times[key], vec![key])).collect();
        let mut by_name: BTreeMap<&str, (u64, Vec<usize>)> = BTreeMap::new();
        for key in rest {
            let (time, keys) = by_name.entry(&background[key].name).or_default();
            *time = time.saturating_add(times[key]);
            keys.push(key);
        }
        groups.extend(by_name.into_values().filter(|(time, _)| large(*time)));
        groups.sort_by_key(|(time, keys)| (std::cmp::Reverse(*time), keys.first().copied()));
        let mut group_of = vec![None; background.len()];
        for (group, (_, keys)) in (0..).zip(groups.into_iter().take(MOST)) {
            keys.into_iter().for_each(|key| group_of[key] = Some(group));
        }
        Self { group_of }
    }

    /// Who owns a background process's time.
    pub fn owner(&self, key: BackgroundKey) -> Owner {
        self.group_of.get(key.index()).copied().flatten().map_or(Owner::Other, Owner::Background)
    }
}

#[cfg(test)]
mod tests {
    use super::{BackgroundProcesses, Owner};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{BackgroundKey, CpuId, Pid};
    use energy_trace_model::recording::record::{BackgroundProcess, CpuOwner, Slice};

    /// Large ones stand alone, small ones of one name together if that is enough, all others together; a key
    /// without a record is nobody's.
    #[test]
    fn large_alone_and_small_by_name() {
        let names = ["hot", "cc1", "cc1", "kworker", "cool"];
        let background: Vec<BackgroundProcess> = (0..)
            .zip(names)
            .map(|(key, name)| BackgroundProcess {
                key: BackgroundKey::new(key),
                pid: Pid::new(key),
                name: name.to_owned(),
            })
            .collect();
        let times = [5_000, 12, 12, 15, 200, 4_761];
        let mut from = 0;
        let slices: Vec<Slice> = (0..)
            .zip(times)
            .map(|(key, ns)| {
                let (start, end) = (KtimeNs::from_ns(from), KtimeNs::from_ns(from + ns));
                from += ns;
                Slice { cpu: CpuId::new(0), who: CpuOwner::Background(BackgroundKey::new(key)), start, end }
            })
            .collect();
        let found = BackgroundProcesses::of(&slices, &background);
        let owners: Vec<Owner> = (0..6).map(|key| found.owner(BackgroundKey::new(key))).collect();
        let group = Owner::Background;
        assert_eq!(owners, [group(0), group(2), group(2), Owner::Other, group(1), Owner::Other]);
    }
}
