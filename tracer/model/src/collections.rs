//! Sorting lists, and filling maps and sets, by code that all kinds of lists share.
//!
//! The standard library compiles a sort of its own for each kind of list and of key, some 5 kB each; `collect` into a B-tree sorts too. All
//! of them were a ninth of the program. What is here gives the same results: for lists that are short, or mostly in order already. Leaves
//! out lists of millions in disorder, which the standard library sorts faster.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Lists that are put in order; what is equal stays as it was.
pub trait Order<T> {
    /// As `sort_by`.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// As `sort_by_cached_key`.
    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);

    /// As `sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|one, other| key(one).cmp(&key(other)));
    }

    /// As `sort`.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let swaps = swaps_in_order(self.len(), &|one, other| compare(&self[one], &self[other]));
        swaps.into_iter().enumerate().for_each(|(at, from)| self.swap(at, from));
    }

    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let keys: Vec<K> = self.iter().map(key).collect();
        let swaps = swaps_in_order(self.len(), &|one, other| keys[one].cmp(&keys[other]));
        swaps.into_iter().enumerate().for_each(|(at, from)| self.swap(at, from));
    }
}

/// For each position, from the first on, the position to swap it with; after all swaps the list is sorted. Empty if it is sorted already.
/// `compare` compares the elements at two positions.
fn swaps_in_order(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    if (1..length).all(|at| compare(at - 1, at).is_le()) {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|&one, &other| compare(one, other));
    for at in 0..length {
        // The element of an earlier position has been swapped away: follow it.
        let mut from = order[at];
        while from < at {
            from = order[from];
        }
        order[at] = from;
    }
    order
}

/// What is collected into maps and sets, one after the other; of equal keys the last value counts.
pub trait Fill: Iterator + Sized {
    /// As `collect`.
    fn fill_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }

    /// As `collect`.
    fn fill_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }
}

impl<I: Iterator> Fill for I {}

#[cfg(test)]
mod tests {
    use super::{Fill as _, Order as _};
    use std::collections::BTreeMap;

    /// Lists of few keys in many orders are as the standard library's stable sorts make them.
    #[test]
    fn as_the_standard_library() {
        for seed in 0..200_usize {
            let list: Vec<(usize, usize)> =
                (0..seed % 70).map(|at| (at * (seed | 1) * 7_919 % 23 % (seed % 9 + 1), at)).collect();
            let mut sorted = list.clone();
            sorted.sort_by_key(|(key, _)| *key);
            let (mut by_key, mut cached, mut whole) = (list.clone(), list.clone(), list.clone());
            by_key.order_by_key(|(key, _)| *key);
            cached.order_by_cached_key(|(key, _)| key.to_string());
            whole.order();
            assert_eq!((&by_key, &whole), (&sorted, &sorted), "{list:?}");
            assert!(cached.is_sorted_by_key(|(key, at)| (key.to_string(), *at)), "{cached:?}");
            let (map, set) = (list.iter().copied().fill_map(), list.iter().map(|(key, _)| *key).fill_set());
            assert_eq!(map, list.iter().copied().collect::<BTreeMap<_, _>>());
            assert!(map.into_keys().eq(set));
        }
    }
}
