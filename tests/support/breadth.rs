//! How many cases of a kind a run tries: all of them, or the one that shows most.
//!
//! Leaves out tests that are slow whatever they try: those are `#[ignore]`d with their reason.

use std::ops::Range;

/// Seeds from `first` on: `all` of them with `cargo xtask test --all`, else `some`.
pub fn seeds(first: u64, some: u64, all: u64) -> Range<u64> {
    let count = std::env::var_os("ENERGY_TRACE_ALL").map_or(some, |_| all);
    first..first + count
}

/// How many cases a property is tried with: `all` with `cargo xtask test --all`, else `some`, which are others in each run.
pub fn cases(some: u32, all: u32) -> u32 {
    std::env::var_os("ENERGY_TRACE_ALL").map_or(some, |_| all)
}

/// Pairs to try: with `cargo xtask test --all` each with each, else the first with the first, the second with the second and so on.
pub fn pairs<A: Copy, B: Copy>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    if std::env::var_os("ENERGY_TRACE_ALL").is_none() {
        return first.iter().copied().zip(second.iter().copied()).collect();
    }
    first.iter().flat_map(|&one| second.iter().map(move |&other| (one, other))).collect()
}

/// The cases to try: all with `cargo xtask test --all`, else the first, the third and so on.
pub fn half_or_all<T>(cases: Vec<T>) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if std::env::var_os("ENERGY_TRACE_ALL").is_some() { 1 } else { 2 })
}

/// The cases to try: all with `cargo xtask test --all` (which sets `ENERGY_TRACE_ALL`), else the first alone, which should be the most telling one.
pub fn some_or_all<T>(cases: &[T]) -> &[T] {
    match std::env::var_os("ENERGY_TRACE_ALL") {
        Some(_) => cases,
        None => cases.get(..1).unwrap_or_default(),
    }
}
