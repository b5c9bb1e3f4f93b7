//! Worlds of other makers: simulated programs and machines that share no assumption with the attribution, held against an exact truth.
//!
//! * `draw`, `stacks`, `programs`: what runs; `schedule`: on which CPU, and when; `power`: what it draws, and the truth.
//! * `counter`, `sampler`, `recording`: what a recorder sees of it.
//! * `real`: what recorded counters and recorded power do, as figures.
//! * `catalogue` and the files beside it: which worlds there are.
//! * `nodes`, `measure`, `summary`, `unflagged`, `table`: how far a profile is from the truth; they know recordings, not worlds.
//!
//! * `floors`: what bounds errors from below, whoever attributes.
//!
//! Leaves out attribution, and worlds made of recorded programs.

pub mod catalogue;
pub mod counter;
mod crowds;
pub mod draw;
pub mod floors;
mod loops;
pub mod measure;
mod nodes;
pub mod power;
mod programs;
pub mod real;
pub mod recording;
pub mod sampler;
pub mod schedule;
pub mod stacks;
pub mod summary;
pub mod table;
mod trees;
pub mod unflagged;

use energy_trace_tests::random::Random;

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;
/// The virtual clock does not begin at zero, as no machine's does.
pub const BOOT: u64 = 7_000 * SECOND;

/// A stretch of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

/// One run of a world through the attribution, held against the truth.
pub fn run(entry: &catalogue::Entry, recorder: recording::Recorder, seed: u64) -> measure::Outcome {
    let recorded = record(entry, recorder, seed);
    measure::measure(&recorded.recording, &recorded.truth, seed)
}

/// A world and its recording.
pub fn record(entry: &catalogue::Entry, recorder: recording::Recorder, seed: u64) -> recording::Recorded {
    let name = entry.name.bytes().fold(17_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(name));
    let world = (entry.world)(&mut random);
    recording::record(world, recorder, random.next_word())
}
