//! How many files may be open at once (`ulimit -n`): as many as the hard limit lets, for this program alone, and how many are kept for what.
//!
//! Files of programs stay open until their functions have names, and a program that maps thousands must not leave too few for all else. Leaves
//! out how the limit is raised (`own_limit.rs`), and whose files they are (`foreign/pool.rs`).

use nix::sys::resource::{Resource, getrlimit};

/// Open files that are left to maps, sensors, events, and files that come and go.
const RESERVED: u64 = 256;
/// More than this is never needed: a file that is kept open takes a kilobyte of the kernel's memory.
const MOST: u64 = 1 << 16;
/// What there is in any case.
const LEAST: u64 = 64;

/// What this program's own limit is to be.
pub(super) const WANTED: u64 = RESERVED + MOST;

/// How many files may be kept open for names: half of what is not reserved.
pub fn for_names() -> usize {
    part_of(limit(), 2)
}

/// How many for unwinding in user space: a quarter. The last one is for jitdumps, root folders of containers, and files that wait to be read.
pub fn for_unwinding() -> usize {
    part_of(limit(), 4)
}

/// How many files of one owner may wait to be read: a tenth, as several may have some.
pub fn for_readers() -> usize {
    part_of(limit(), 10)
}

fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

fn part_of(limit: u64, parts: u64) -> usize {
    let most = (limit.saturating_sub(RESERVED).min(MOST) / parts).max(LEAST);
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::part_of;

    /// Whatever the limit is, some files may be kept, no more than are of use, and as many are left to others.
    #[test]
    fn what_is_left() {
        let half = |limit| part_of(limit, 2);
        assert_eq!([80, 1024, 1 << 20, u64::MAX].map(half), [64, 384, 1 << 15, 1 << 15]);
        assert_eq!(part_of(1024, 4), 192);
    }
}
