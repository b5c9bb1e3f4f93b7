//! Folds the rows of a profile into groups: what a group spent itself, and what it spent with everything below it.
//!
//! One engine for functions, API calls, libraries, threads, processes and stacks; they differ only in the labels of a row. Leaves out
//! what the labels mean (`functions.rs`, `rows.rs`).

use energy_trace_model::profile::{EnergyByClass, Profile, ProfileRow};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Energy, time on a CPU in nanoseconds, and samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Energy by class of domain.
    pub energy: EnergyByClass,
    /// The same if all who ran at one time drew the same power.
    pub by_time: EnergyByClass,
    /// Time on a CPU in nanoseconds.
    pub time_ns: u64,
    /// Stack samples.
    pub samples: u64,
}

impl AddAssign<&ProfileRow> for Cost {
    fn add_assign(&mut self, row: &ProfileRow) {
        self.energy += row.energy;
        self.by_time += row.by_time;
        self.time_ns = self.time_ns.saturating_add(row.time_ns);
        self.samples = self.samples.saturating_add(row.samples);
    }
}

/// What one group spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Where the group is innermost. Over all groups this sums to the whole, exactly.
    pub own: Cost,
    /// Where the group is anywhere in the stack, once a stack however often it occurs there (recursion).
    pub total: Cost,
}

/// Folds all rows, and says in which rows each group is anywhere, each once. `labels` writes the groups of a row, root first, into the
/// (empty) vector; a row without a group is left out.
pub fn fold<K: Copy + Ord>(
    profile: &Profile,
    mut labels: impl FnMut(&ProfileRow, &mut Vec<K>),
) -> BTreeMap<K, (Spent, Vec<usize>)> {
    let mut groups: BTreeMap<K, (Spent, Vec<usize>)> = BTreeMap::new();
    let mut path = Vec::new();
    for (number, row) in profile.rows.iter().enumerate() {
        path.clear();
        labels(row, &mut path);
        if let Some(&innermost) = path.last() {
            groups.entry(innermost).or_default().0.own += row;
        }
        path.sort_unstable();
        path.dedup();
        for &group in &path {
            let (spent, rows) = groups.entry(group).or_default();
            spent.total += row;
            rows.push(number);
        }
    }
    groups
}

/// Gives each distinct label a number, in the order of first use.
#[derive(Debug)]
pub struct Interner<T> {
    numbers: std::collections::HashMap<T, usize>,
    labels: Vec<T>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { numbers: std::collections::HashMap::new(), labels: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    /// Without any label.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a label, new or old.
    pub(crate) fn number(&mut self, label: T) -> usize {
        let next = self.labels.len();
        *self.numbers.entry(label).or_insert_with_key(|label| {
            self.labels.push(label.clone());
            next
        })
    }

    /// The labels, at their numbers.
    pub fn labels(&self) -> &[T] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::{EnergyByClass, Profile, ProfileRow, fold};
    use energy_trace_model::ids::{StackId, ThreadKey};
    use energy_trace_model::recording::record::DomainClass;
    use energy_trace_model::units::MicroJoules;

    fn profile(weights: &[i64]) -> Profile {
        let row = |(number, &uj): (usize, &i64)| {
            let mut energy = EnergyByClass::default();
            energy[DomainClass::Package] = MicroJoules::from_uj(uj);
            let stack = Some(StackId::new(u32::try_from(number).unwrap()));
            ProfileRow {
                thread: ThreadKey::new(0),
                stack,
                energy,
                by_time: energy,
                time_ns: 10,
                samples: 1,
                on_behalf_of: None,
            }
        };
        Profile { rows: weights.iter().enumerate().map(row).collect(), ..Profile::default() }
    }

    /// A group that is twice in a stack counts once in its total, and own energy goes to the innermost group alone.
    #[test]
    fn recursion_counts_once() {
        let stacks: [&[char]; 2] = [&['a', 'b', 'a'], &['a', 'b']];
        let groups = fold(&profile(&[100, 7]), |row, path| {
            path.extend_from_slice(stacks[row.stack.unwrap().index()]);
        });
        let package = |name| {
            let spent = groups[&name].0;
            [spent.own, spent.total].map(|cost| cost.energy[DomainClass::Package].as_uj())
        };
        assert_eq!(package('a'), [100, 107]);
        assert_eq!(package('b'), [7, 107]);
        assert_eq!(groups[&'a'].0.total.time_ns, 20);
        assert_eq!(groups[&'b'].0.own.samples, 1);
        assert_eq!((&groups[&'a'].1, &groups[&'b'].1), (&vec![0, 1], &vec![0, 1]));
    }
}
