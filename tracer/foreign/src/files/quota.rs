//! Room of which nothing comes back, and whose it is: nobody takes so much that too little is left for all who come later.
//!
//! Leaves out what takes it.

use energy_trace_model::recording::record::Owner;
use std::collections::BTreeMap;

/// What each owner has taken.
#[derive(Debug)]
pub struct Quota {
    left: usize,
    /// So many times what is left an owner may have.
    times: usize,
    of: BTreeMap<Owner, usize>,
}

impl Quota {
    /// So much for the first who comes, and half of the rest for each that follows.
    pub const fn for_first(much: usize) -> Self {
        Self { left: 2 * much, times: 1, of: BTreeMap::new() }
    }

    /// Three quarters of so much for the first who comes, and three quarters of the rest for each that follows.
    pub const fn of_all(much: usize) -> Self {
        Self { left: much, times: 3, of: BTreeMap::new() }
    }

    /// Whether there is room for some of this owner's.
    pub fn has_room(&self, owner: Owner, much: usize) -> bool {
        let own = self.of.get(&owner).copied().unwrap_or_default();
        let fits = |left: usize| own.saturating_add(much) <= left.saturating_mul(self.times);
        self.left.checked_sub(much).is_some_and(fits)
    }

    /// Takes some for this owner; false where they have too much of it.
    pub fn take(&mut self, owner: Owner, much: usize) -> bool {
        let fits = self.has_room(owner, much);
        if fits {
            self.left -= much;
            *self.of.entry(owner).or_default() += much;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::{Owner, Quota};

    /// The first has what is said, whoever comes later has their part of the rest, and what is too much for one is none for the next.
    #[test]
    fn nobody_takes_all() {
        let mut quota = Quota::for_first(1000);
        let mut has = |owner| (0..).take_while(|_| quota.take(owner, 1)).count();
        assert_eq!(has(Owner::User(1)), 1000);
        assert_eq!(has(Owner::User(2)), 500);
        assert_eq!(has(Owner::Root), 250);
        assert_eq!(has(Owner::User(1)), 0);
        assert!(!Quota::for_first(10).take(Owner::Root, usize::MAX));
        let mut quota = Quota::of_all(1600);
        let mut has = |owner| (0..).take_while(|_| quota.take(owner, 1)).count();
        assert_eq!([has(Owner::Root), has(Owner::User(1))], [1200, 300]);
        assert_eq!(quota.left, 100);
    }
}
