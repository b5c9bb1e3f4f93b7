//! Hands out blocks of the mapping pool. Their sizes are powers of two, so that the probes' search needs no end check.
//!
//! A freed block waits behind all others of its size before it is used again: a probe may still be looking at it. New ones have a limit for each
//! owner of processes: whoever makes mappings without end leaves room for others.

use energy_trace_foreign::files::Quota;
use energy_trace_model::recording::record::Owner;
use std::collections::{HashMap, VecDeque};
use tracer_ebpf::wire::{AddressSpace, MAX_PLACES, POOL_PLACES};

/// Places of a block that is used again as soon as two of its size wait: a process whose mappings change all the time would else take the
/// whole pool, in blocks that are of no use to others.
const SCARCE: u32 = 2048;

pub(crate) struct Pool {
    fresh: Quota,
    used: u32,
    /// Blocks handed out so far: the generation of the last one.
    taken: u32,
    free: HashMap<u32, VecDeque<u32>>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { fresh: Quota::of_all(POOL_PLACES as usize), used: 0, taken: 0, free: HashMap::new() }
    }
}

impl Pool {
    /// A block for this many mappings of a process of this owner; `None` when the pool is used up, the owner has too much of it, or they are too
    /// many.
    pub(crate) fn take(&mut self, owner: Owner, mappings: usize) -> Option<AddressSpace> {
        let places = u32::try_from(mappings.max(1).next_power_of_two()).ok().filter(|&p| p <= MAX_PLACES)?;
        let waiting = self.free.get(&places).map_or(0, VecDeque::len);
        let is_scarce = places >= SCARCE && waiting >= 2;
        let first = if !is_scarce && self.fresh.take(owner, places as usize) {
            self.used += places;
            self.used - places
        } else {
            self.free.get_mut(&places)?.pop_front()?
        };
        self.taken = self.taken.wrapping_add(1).max(1);
        Some(AddressSpace { first, places, generation: self.taken })
    }

    /// Gives a block back.
    pub(crate) fn give(&mut self, block: AddressSpace) {
        self.free.entry(block.places).or_default().push_back(block.first);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PLACES, Owner, Pool};

    const ONE: Owner = Owner::User(1);

    /// Blocks do not overlap, and a freed one comes back only when the pool is used up.
    #[test]
    fn blocks() {
        let mut pool = Pool::default();
        let first = pool.take(ONE, 5).unwrap();
        assert_eq!((first.first, first.places), (0, 8));
        pool.give(first);
        let second = pool.take(ONE, 8).unwrap();
        assert_eq!(second.first, 8);
        assert!(first.generation != 0 && first.generation != second.generation);
        while pool.take(ONE, 2048).is_some() {}
        while pool.take(ONE, 8).is_some_and(|b| b.first != 0) {}
        assert!(pool.take(ONE, 3000).is_none());
    }

    /// A user whose processes take all blocks that they can get, and give them back in sizes that nobody else needs, leaves blocks for others.
    #[test]
    fn nobody_takes_all() {
        let mut pool = Pool::default();
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take(ONE, MAX_PLACES as usize)).collect();
        assert!(taken.len() > 4, "{}", taken.len());
        taken.drain(..).for_each(|block| pool.give(block));
        while pool.take(ONE, 64).is_some() {}
        assert!((0..20).all(|_| pool.take(Owner::User(2), 1000).is_some()));
    }

    /// A process with very many mappings that change all the time leaves room for others; more than can be searched are refused.
    #[test]
    fn large_blocks() {
        let mut pool = Pool::default();
        let mut own = pool.take(ONE, MAX_PLACES as usize).unwrap();
        for _ in 0..100 {
            let next = pool.take(ONE, MAX_PLACES as usize).unwrap();
            assert_ne!(next.first, own.first);
            pool.give(own);
            own = next;
        }
        assert!(pool.used <= 4 * MAX_PLACES && pool.take(ONE, 100).is_some());
        assert!(pool.take(ONE, MAX_PLACES as usize + 1).is_none());
    }
}
