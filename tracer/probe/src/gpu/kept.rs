//! What programs say under numbers that they choose themselves: as much of it is kept as there is room for.
//!
//! Leaves out how much that is, and what becomes of what is not kept.

use std::collections::HashMap;
use std::hash::Hash;

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
