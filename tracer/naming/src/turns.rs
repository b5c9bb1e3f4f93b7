//! In which order files are looked into: in turn by whose they are, who has kept workers busy for the shortest time first.
//!
//! A user with thousands of files, or with a few that take long, keeps the names of nobody else waiting. Leaves out the looking.

use energy_trace_model::recording::record::Owner;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Does something with each of these, in turn. `spent`: how much time an owner's have taken so far.
pub fn in_turn<T, R>(
    all: impl IntoIterator<Item = (Owner, T)>,
    spent: impl Fn(Owner) -> Duration,
    mut each: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut left: BTreeMap<Owner, VecDeque<T>> = BTreeMap::new();
    for (owner, one) in all {
        left.entry(owner).or_default().push_back(one);
    }
    let mut done = Vec::new();
    while let Some(owner) = left.keys().copied().min_by_key(|owner| spent(*owner)) {
        match left.get_mut(&owner).and_then(VecDeque::pop_front) {
            Some(next) => done.push(each(next)),
            None => _ = left.remove(&owner),
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::{Owner, in_turn};
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::time::Duration;

    /// Whoever has files that take long waits for the others, whatever order they came in; each has its turn.
    #[test]
    fn who_took_least_is_next() {
        let (slow, quick) = (Owner::User(1), Owner::User(2));
        let spent: RefCell<HashMap<Owner, Duration>> = RefCell::default();
        let files =
            (0..4).map(|number| (slow, (slow, number))).chain((0..4).map(|number| (quick, (quick, number))));
        let took = |owner| Duration::from_secs(if owner == slow { 30 } else { 1 });
        let order = in_turn(
            files,
            |owner| spent.borrow().get(&owner).copied().unwrap_or_default(),
            |(owner, number)| {
                *spent.borrow_mut().entry(owner).or_default() += took(owner);
                (owner, number)
            },
        );
        let quick_ones = [0, 1, 2, 3].map(|number| (quick, number));
        assert_eq!(order[0], (slow, 0));
        assert_eq!(order[1..5], quick_ones);
        assert_eq!(order[5..], [1, 2, 3].map(|number| (slow, number)));
    }
}
