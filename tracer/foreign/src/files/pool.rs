//! Things of which there is room for a number only, and whose they are: where all is taken, who has most gives up the oldest of theirs.
//!
//! Leaves out what the things are.

use energy_trace_model::recording::record::Owner;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// What is kept, by owner.
#[derive(Debug)]
pub struct Pool<Key> {
    most: usize,
    /// The oldest first.
    of: BTreeMap<Owner, VecDeque<Key>>,
    owners: HashMap<Key, Owner>,
}

/// What became of one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room<Key> {
    /// There was room.
    Free,
    /// There is room once this is gone, which was that owner's.
    Instead(Owner, Key),
    /// Nobody has more than this owner: there is none.
    None,
}

impl<Key: Clone + Eq + Hash> Pool<Key> {
    /// Room for so many.
    pub fn new(most: usize) -> Self {
        Self { most, of: BTreeMap::new(), owners: HashMap::new() }
    }

    /// How many there is room for.
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Keeps one more, which is not kept yet.
    pub fn add(&mut self, owner: Owner, key: Key) -> Room<Key> {
        let room = if self.owners.len() < self.most { Room::Free } else { self.make_room(owner) };
        if room != Room::None {
            self.put(owner, key);
        }
        room
    }

    fn put(&mut self, owner: Owner, key: Key) {
        self.of.entry(owner).or_default().push_back(key.clone());
        self.owners.insert(key, owner);
    }

    fn make_room(&mut self, wanted_by: Owner) -> Room<Key> {
        let own = self.count(wanted_by);
        let Some((&largest, keys)) = self.of.iter_mut().max_by_key(|(_, keys)| keys.len()) else {
            return Room::None;
        };
        if keys.len() <= own {
            return Room::None;
        }
        let Some(oldest) = keys.pop_front() else { return Room::None };
        self.owners.remove(&oldest);
        Room::Instead(largest, oldest)
    }

    /// Keeps only these.
    pub fn retain(&mut self, is_kept: impl Fn(&Key) -> bool) {
        self.owners.retain(|key, _| is_kept(key));
        self.of.values_mut().for_each(|keys| keys.retain(&is_kept));
    }

    /// Somebody uses what is kept: it is theirs if they have less than whose it was. False where it is not kept.
    pub fn share(&mut self, by: Owner, key: &Key) -> bool {
        let Some(&owner) = self.owners.get(key) else { return false };
        if by != owner && self.count(by) + 1 < self.count(owner) {
            if let Some(keys) = self.of.get_mut(&owner) {
                keys.retain(|kept| kept != key);
            }
            self.put(by, key.clone());
        }
        true
    }

    fn count(&self, owner: Owner) -> usize {
        self.of.get(&owner).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::{Owner, Pool, Room};

    const ONE: Owner = Owner::User(1);
    const OTHER: Owner = Owner::User(2);

    /// Whoever fills the pool gives up the oldest for others until they have as much, and gets no more than that back.
    #[test]
    fn who_has_most_gives() {
        let mut pool = Pool::new(4);
        for key in 0..4 {
            assert_eq!(pool.add(ONE, key), Room::Free);
        }
        assert_eq!(pool.add(ONE, 9), Room::None);
        assert_eq!(pool.add(OTHER, 10), Room::Instead(ONE, 0));
        assert_eq!(pool.add(OTHER, 11), Room::Instead(ONE, 1));
        assert_eq!(pool.add(OTHER, 12), Room::None);
        assert_eq!(pool.add(ONE, 13), Room::None);
        assert_eq!(pool.add(Owner::Root, 14), Room::Instead(OTHER, 10));
        assert!(!pool.share(Owner::Root, &10) && pool.share(Owner::Root, &11));
        pool.retain(|key| *key != 3);
        assert_eq!(pool.add(OTHER, 15), Room::Free);
    }

    /// What others use too is theirs: it does not go when the one who brought it has too much.
    #[test]
    fn what_is_shared_stays() {
        let mut pool = Pool::new(3);
        for key in 0..3 {
            pool.add(ONE, key);
        }
        assert!(pool.share(OTHER, &0));
        assert_eq!(pool.add(Owner::Root, 7), Room::Instead(ONE, 1));
        assert!(pool.share(ONE, &0));
    }
}
