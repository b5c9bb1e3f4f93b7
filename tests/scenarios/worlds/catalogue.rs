//! Which worlds there are, by name, and what is asked of each.
//!
//! Leaves out how they are made (`loops.rs`, `trees.rs`, `crowds.rs`).

use super::counter::{Counter, Updates};
use super::power::Physics;
use super::recording::World;
use super::{MS, SECOND, crowds, loops, trees};
use energy_trace_tests::random::Random;

/// What a world is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Models may be tuned on two thirds of its seeds.
    Tuning,
    /// Nobody looks at it before the model is done.
    HeldOut,
}

/// One world.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub what: &'static str,
    pub used: Use,
    /// Fewer runs than others have, where it is long.
    pub most_seeds: usize,
    pub world: fn(&mut Random) -> World,
}

const fn world(name: &'static str, what: &'static str, world: fn(&mut Random) -> World) -> Entry {
    Entry { name, what, used: Use::Tuning, most_seeds: usize::MAX, world }
}

/// All worlds, in the order of the table.
pub fn all() -> Vec<Entry> {
    [of_loops(), of_trees(), of_contention(), of_threads(), of_meters(), held_out()].concat()
}

fn of_loops() -> Vec<Entry> {
    vec![
        world("W1a", "training loop of 10 ms, constant", |r| loops::of(r, 1e7, 0.0)),
        world("W1b", "training loop of 10 ms, log-normal ± 20 %", |r| loops::of(r, 1e7, 0.2)),
        world("W1c", "loop of 12:30:60 ms ± 5 %, 5, 15, 40 W", loops::of_102_ms),
        world("W1d", "training loop of 50 ms, constant", |r| loops::of(r, 5e7, 0.0)),
        world("W1e", "training loop of 50 ms, log-normal ± 30 %", |r| loops::of(r, 5e7, 0.3)),
        world("W1f", "training loop of 1 s, constant", |r| loops::of(r, 1e9, 0.0)),
        world("W1g", "training loop of 1 s, log-normal ± 30 %", |r| loops::of(r, 1e9, 0.3)),
        world("W1h", "training loop of 50 ms, 2 s long", |r| loops::lasting(r, 2)),
        Entry {
            most_seeds: 3,
            ..world("W1i", "training loop of 50 ms, 10 min long", |r| loops::lasting(r, 600))
        },
        world("W1j", "phases of 25 ms in random order, 5, 15, 40 W", loops::own_25_ms),
        world("W1k", "inference loop of 41 ms, two models under one call", loops::inference),
        world("W1l", "requests: 8 ms at 20 W, 1 ms at 40 W, 4 ms asleep, ± 10 %", loops::requests),
        world("W2a", "W1j, one Python leaf under all", loops::shared_25_ms),
        world("W2b", "W1c, one Python leaf under all", loops::shared_102_ms),
        world("W2d", "phases of 300 ms, 5, 15, 40 W, in each three functions in turns of 0.3 ms", |r| {
            loops::with_fast_leaves(r, 3e8, 3e5, [1.0; 3])
        }),
        world("W2e", "as W2d; of the three, one draws half and one twice as much", |r| {
            loops::with_fast_leaves(r, 3e8, 3e5, [1.0, 0.5, 2.0])
        }),
        world("W2f", "as W2e, phases of 25 ms, turns of 2 ms", |r| {
            loops::with_fast_leaves(r, 2.5e7, 2e6, [1.0, 0.5, 2.0])
        }),
        world("W2c", "loop of 50 ms ± 30 %, one native leaf under five callers", loops::shared_training),
    ]
}

fn of_trees() -> Vec<Entry> {
    vec![
        world("W3", "callers × shared leaves, each pair its own watts", trees::by_caller_and_leaf),
        world("W4", "200 leaves, watts by leaf alone", trees::by_leaf),
        world("W5a", "training loop of 50 ms, watts by data ± 15 % each 50 ms", loops::with_data),
        world("W5b", "training loop of 200 ms, power lags 5 ms", |r| loops::with_ramps(r, 5e6)),
        world("W5c", "training loop of 200 ms, power lags 50 ms", |r| loops::with_ramps(r, 5e7)),
        world("W5d", "W3, all power drifts ± 15 %", |r| {
            trees::with(r, Physics { drift: 0.15, ..Physics::default() })
        }),
        world("W5e", "W3, steps of frequency to 0.55, not recorded", |r| {
            trees::with(r, Physics { frequencies: &[1.0, 0.85, 0.7, 0.55], ..Physics::default() })
        }),
        world("W5f", "W3, drift ± 10 %, data ± 10 %, lag of 20 ms", trees::moving),
        world("W8", "W3, all draw 20 W", trees::equal),
        world("W9", "turns of 0.5 ms, 5 and 40 W: must be flagged", trees::fast_turns),
    ]
}

fn of_contention() -> Vec<Entry> {
    vec![
        world("W7a", "W3, preempted in turns of 3 ms by bursts of 3 to 45 W", crowds::preempted),
        world("W7b", "W1j beside two strangers of 12 W in bursts of 300 ms", crowds::phases_beside_strangers),
        world("W7c", "W1c beside two strangers of 12 W in bursts of 300 ms", crowds::loop_beside_strangers),
        world("W7f", "W1d ± 10 % beside two of 12 W in bursts on other CPUs", crowds::loop_beside_busy_cpus),
        world("W7d", "W3, the CPU taken away for 4 to 20 ms, 2 times a second", |r| {
            crowds::paused(r, 4..20, 5e8)
        }),
        world("W7e", "W3, the CPU taken away for 0.5 s, each 4 s", |r| crowds::paused(r, 480..520, 4e9)),
    ]
}

fn lasting(seconds: u64, world: World) -> World {
    World { length: seconds * SECOND, ..world }
}

fn of_threads() -> Vec<Entry> {
    vec![
        world("W6a", "2 threads on one CPU each, that rest", |r| crowds::independent(r, 2, 2)),
        world("W6b", "8 threads on 8 CPUs", |r| crowds::independent(r, 8, 8)),
        Entry {
            most_seeds: 3,
            ..world("W6c", "64 threads on 32 CPUs, 8 s", |r| lasting(8, crowds::independent(r, 64, 32)))
        },
        world("W6d", "team of 8, barriers with spinning", |r| crowds::team(r, 8, true)),
        world("W6e", "team of 8, barriers asleep", |r| crowds::team(r, 8, false)),
        Entry {
            most_seeds: 3,
            ..world("W6f", "team of 64, barriers asleep, 4 s", |r| lasting(4, crowds::team(r, 64, false)))
        },
        world("W6g", "2 threads in lockstep, 18 and 6 W: must be flagged", crowds::lockstep),
        world("W6h", "6 threads, half of it bound by memory", crowds::memory_bound),
        world("W6i", "4 threads on siblings, not recorded", crowds::siblings),
        world("W6j", "3 threads, shared parts of 12 W", crowds::uncore),
    ]
}

fn of_meters() -> Vec<Entry> {
    fn metered(random: &mut Random, counter: Counter) -> World {
        World { counter, ..trees::by_caller_and_leaf(random) }
    }
    vec![
        world("W10a", "W3, units of 61 µJ", |r| {
            metered(r, Counter { unit_uj: 61.04, ..Counter::default() })
        }),
        world("W10b", "W3, updates after 1.0 or 1.9 ms, lag of 5 ms", |r| {
            metered(r, Counter { updates: Updates::Uneven, lag_ns: 5 * MS, ..Counter::default() })
        }),
        world("W10c", "W3, lag of 20 ms", |r| metered(r, Counter { lag_ns: 20 * MS, ..Counter::default() })),
        world("W10d", "W3, lag of 50 ms", |r| metered(r, Counter { lag_ns: 50 * MS, ..Counter::default() })),
        world("W10e", "W3, 30 % of samples lost", |r| World {
            lost_percent: 30,
            ..trees::by_caller_and_leaf(r)
        }),
        world("W10f", "W3, updates after 6 to 10 ms", |r| {
            metered(r, Counter { updates: Updates::Rare, ..Counter::default() })
        }),
    ]
}

fn held_out() -> Vec<Entry> {
    vec![
        Entry {
            used: Use::HeldOut,
            ..world("H2", "2 threads, a stranger of changing watts, pauses, drift", crowds::held_out)
        },
        Entry {
            used: Use::HeldOut,
            ..world("H3", "requests of three kinds, 15 to 45 ms, by one leaf, watts by data", loops::held_out)
        },
    ]
}

/// Seeds that nobody tunes on: a third of them.
pub const fn is_held_out(seed: u64) -> bool {
    seed % 3 == 2
}

impl Entry {
    /// Whether nobody tunes on this run: seeds, and whole worlds.
    pub fn is_held_out(&self, seed: u64) -> bool {
        self.used == Use::HeldOut || is_held_out(seed)
    }

    /// Its name with what it is.
    pub fn title(&self) -> String {
        let mark = if self.used == Use::HeldOut { " (held out)" } else { "" };
        format!("{} {}{mark}", self.name, self.what)
    }
}
