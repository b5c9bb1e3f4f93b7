//! What programs say under numbers that they choose themselves: as much of it is kept as there is room for.
//!
//! Leaves out how much that is, and what becomes of what is not kept.

use energy_trace_model::recording::record::Owner;
use std::collections::HashMap;
use std::hash::Hash;

/// Places that owners share: one has no more of them than are left for all others.
pub(super) struct Shares {
    left: usize,
    of: HashMap<Owner, usize>,
}

impl Shares {
    pub(super) fn new(places: usize) -> Self {
        Self { left: places, of: HashMap::new() }
    }

    pub(super) fn has_room(&self, owner: Owner) -> bool {
        self.of.get(&owner).copied().unwrap_or_default() < self.left
    }

    /// Takes one; false where none is left for this owner.
    pub(super) fn take(&mut self, owner: Owner) -> bool {
        let has_room = self.has_room(owner);
        if has_room {
            *self.of.entry(owner).or_default() += 1;
            self.left -= 1;
        }
        has_room
    }
}

/// Keeps what has a place already, and what is new while fewer than `most` are there.
pub(super) fn keep<K: Eq + Hash, V>(
    kept: &mut HashMap<K, V>,
    most: usize,
    key: K,
    value: impl FnOnce() -> V,
) {
    if kept.len() < most || kept.contains_key(&key) {
        kept.insert(key, value());
    }
}

#[cfg(test)]
mod tests {
    use super::{Owner, Shares};

    /// Whoever takes all that there is leaves half of it for others, and they half of that.
    #[test]
    fn shares_of_owners() {
        let mut shares = Shares::new(256);
        let mut taken = |owner| (0..1000).filter(|_| shares.take(owner)).count();
        assert_eq!([Owner::User(1), Owner::Root, Owner::User(1)].map(&mut taken), [128, 64, 0]);
        assert!(!shares.has_room(Owner::Root) && shares.has_room(Owner::User(2)));
    }
}
