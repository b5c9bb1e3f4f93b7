//! The scenarios B1 to B13 of the accuracy benchmark: what runs, how it is sampled and read, and what is asked of the answer.
//!
//! A minute each, six functions of 2 to 16 W (`WIDE`) or 6 to 12 W (`MILD`) above 20 W idle, samples at 199 Hz a CPU with 30 % jitter,
//! readings each 20 ms of a counter that moves each millisecond, unless the scenario says otherwise. Leaves out who asks whom in B13 (`asks.rs`).

use super::asks;
use super::engine::{Counter, MS, Outage, SECOND, Sampler, Stretch, Swing, Who, World, dwell};
use energy_trace_tests::random::Random;

pub const WIDE: [f64; 6] = [2.0, 4.0, 6.0, 9.0, 12.0, 16.0];
pub const MILD: [f64; 6] = [6.0, 7.0, 8.0, 9.0, 10.0, 12.0];
pub const MINUTE: u64 = 60 * SECOND;

/// What is asked of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// The run shows how much each function draws.
    Identifiable,
    /// It does not, or not well: that must be flagged.
    Unidentifiable,
    /// Workers' energy is charged to the Python call that asked: at least so many percent of it to the right one.
    Parent { percent: f64 },
    /// Something else goes wrong: conservation and honest intervals are asked.
    Hostile,
}

/// One scenario.
pub struct Scenario {
    pub name: &'static str,
    pub what: &'static str,
    pub asked: Asked,
    pub world: fn(&mut Random) -> World,
}

const fn scenario(
    name: &'static str,
    what: &'static str,
    asked: Asked,
    world: fn(&mut Random) -> World,
) -> Scenario {
    Scenario { name, what, asked, world }
}

/// All of them, in the order of the table.
pub fn all() -> Vec<Scenario> {
    use Asked::{Hostile, Identifiable, Parent, Unidentifiable};
    vec![
        scenario("B1", "one thread, phases of 1 s", Identifiable, |r| one(phases(r, 1e9), WIDE)),
        scenario("B2", "one thread, phases of 0.5 ms, mix changes each 2 s, 499 Hz", Identifiable, b2),
        scenario("B3a", "one thread, phases of 0.5 ms, one mix", Unidentifiable, |r| {
            one(phases(r, 5e5), WIDE)
        }),
        scenario("B3b", "4 threads, one function each, no pause", Unidentifiable, |r| fixed(r, 0.0)),
        scenario("B3c", "training loop, step of 9 ms", Unidentifiable, training),
        scenario("B4a", "4 threads on a socket, phases of 20 ms", Identifiable, |r| {
            one(threads(r, 4, 2e7, 0.0), WIDE)
        }),
        scenario("B4b", "4 threads, one function each, pauses", Identifiable, |r| fixed(r, 0.4)),
        scenario("B4c", "as B4a, 6 to 12 W", Identifiable, |r| one(threads(r, 4, 2e7, 0.0), MILD)),
        scenario("B5", "2 sockets, 6 threads, phases of 10 ms, migration each 50 ms", Identifiable, b5),
        scenario("B6", "one thread, phases of 5 ms, pauses for half of the time", Identifiable, |r| {
            one(threads(r, 1, 5e6, 0.5), WIDE)
        }),
        scenario("B7", "as B4a, frequency swings between half and whole, not recorded", Identifiable, |r| {
            b7(r, false, false)
        }),
        scenario("B7b", "as B7, the frequencies recorded", Identifiable, |r| b7(r, false, true)),
        scenario("B7c", "as B7b, each CPU its own frequency", Identifiable, |r| b7(r, true, true)),
        scenario("B8", "as B4a, 15.3 µJ, wrap each 7 s, failed and jittery readings", Identifiable, b8),
        scenario("B8b", "as B8, 16 s without a reading: two wraps unseen", Identifiable, b8b),
        scenario("B9", "as B4a, readings 0 to 5 ms late, some 100 ms, out of order", Identifiable, b9),
        scenario("B9b", "as B5, one socket not read for 8 s, its counter begins anew", Identifiable, b9b),
        scenario("B10a", "as B4a, 30 % of samples lost", Identifiable, b10a),
        scenario("B11", "2 processes beside a stranger on 40 % of the socket", Identifiable, b11),
        scenario("B11b", "2 processes beside strangers of 16, 5 and 1 W", Identifiable, b11b),
        scenario("B12a", "as B4a on 2 cores with 2 hyperthreads each (15 %), not recorded", Hostile, |r| {
            hyperthreads(r, 0.15, false)
        }),
        scenario("B12b", "as B4b, 8 W hidden uncore", Hostile, b12b),
        scenario("B12c", "as B12a, the cores recorded", Identifiable, |r| hyperthreads(r, 0.15, true)),
        scenario("B12d", "as B12c, 30 % instead of 15", Identifiable, |r| hyperthreads(r, 0.3, true)),
        scenario(
            "B13a",
            "on behalf of: 4 workers, one Python thread that asks",
            Parent { percent: 98.0 },
            asks::one_caller,
        ),
        scenario(
            "B13b",
            "on behalf of: the same pool, two that ask at once",
            Parent { percent: 90.0 },
            asks::two_callers,
        ),
        scenario("B13c", "as B13b, nobody recorded who woke whom", Hostile, asks::unheard_callers),
    ]
}

pub fn one(stretches: Vec<Stretch>, watts: [f64; 6]) -> World {
    World {
        stretches,
        length: MINUTE,
        socket_of: vec![0; 6],
        watts: watts.to_vec(),
        process_of: vec![0; 6],
        idle_watts: 20.0,
        uncore_watts: 0.0,
        smt: None,
        cores_known: false,
        swing: None,
        counter: Counter::default(),
        sampler: Sampler { hz: 199, jitter: 0.3, lost_percent: 0 },
        asks: None,
    }
}

/// One thread that goes from function to function, each drawn anew by `next`, pausing for part of the time.
fn walk(
    random: &mut Random,
    thread: u32,
    pause: f64,
    mut next: impl FnMut(&mut Random) -> (usize, f64),
) -> Vec<Stretch> {
    let mut stretches = vec![];
    let mut from = 0;
    while from < MINUTE {
        if pause > 0.0 && random.unit() < pause {
            from += dwell(random, 2e7);
            continue;
        }
        let (function, mean_ns) = next(random);
        let to = (from + dwell(random, mean_ns)).min(MINUTE);
        stretches.push(Stretch { cpu: thread, from, to, who: Who::Target { thread, function }, watts: None });
        from = to;
    }
    stretches
}

fn phases(random: &mut Random, mean_ns: f64) -> Vec<Stretch> {
    walk(random, 0, 0.0, |random| (random.below(6) as usize, mean_ns))
}

fn threads(random: &mut Random, count: u32, mean_ns: f64, pause: f64) -> Vec<Stretch> {
    let of = |thread| walk(random, thread, pause, |random| (random.below(6) as usize, mean_ns));
    (0..count).flat_map(of).collect()
}

fn fixed(random: &mut Random, pause: f64) -> World {
    let of = |(thread, function)| walk(random, thread, pause, |_| (function, 5e7));
    one((0..).zip([0, 2, 3, 5]).flat_map(of).collect(), WIDE)
}

/// Three of six functions at a time.
fn b2(random: &mut Random) -> World {
    let (mut mix, mut left) = ([0, 1, 2], 0.0);
    let stretches = walk(random, 0, 0.0, |random| {
        left -= 5e5;
        if left <= 0.0 {
            left = dwell(random, 2e9) as f64;
            let first = random.below(6) as usize;
            let second = (first + 1 + random.below(5) as usize) % 6;
            let third = (0..6).cycle().skip(random.below(6) as usize).find(|f| *f != first && *f != second);
            mix = [first, second, third.unwrap_or(0)];
        }
        (mix[random.below(3) as usize], 5e5)
    });
    let world = one(stretches, WIDE);
    World { sampler: Sampler { hz: 499, ..world.sampler }, ..world }
}

fn training(random: &mut Random) -> World {
    let means = [2e6, 1.5e6, 4e6, 3e5, 1e6, 5e5];
    let mut step = 0;
    let stretches = walk(random, 0, 0.0, |_| {
        step += 1;
        ((step - 1) % 6, means[(step - 1) % 6])
    });
    one(stretches, WIDE)
}

/// Six CPUs, three on each socket; pairs of threads change places across the sockets.
fn b5(random: &mut Random) -> World {
    let mut stretches = vec![];
    let walks: Vec<Vec<Stretch>> =
        (0..6).map(|thread| walk(random, thread, 0.0, |random| (random.below(6) as usize, 1e7))).collect();
    let mut places = vec![];
    let mut at = 0;
    let mut cpus: Vec<u32> = (0..6).collect();
    while at < MINUTE {
        let to = at + random.around(50 * MS, 30 * MS);
        places.push((at, to, cpus.clone()));
        let (a, b) = (random.below(6) as usize, random.below(6) as usize);
        cpus.swap(a, b);
        at = to;
    }
    for (thread, walk) in walks.iter().enumerate() {
        let mut place = 0;
        for stretch in walk {
            let mut from = stretch.from;
            while from < stretch.to {
                while places[place].1 <= from {
                    place += 1;
                }
                let to = stretch.to.min(places[place].1);
                stretches.push(Stretch {
                    cpu: places[place].2[thread],
                    from,
                    to,
                    who: stretch.who,
                    watts: None,
                });
                from = to;
            }
        }
    }
    World { socket_of: vec![0, 0, 0, 1, 1, 1], ..one(stretches, WIDE) }
}

fn b7(random: &mut Random, each: bool, recorded: bool) -> World {
    let swing = Some(Swing { period: 3 * SECOND, each, recorded });
    World { swing, ..one(threads(random, 4, 2e7, 0.0), WIDE) }
}

fn b8(random: &mut Random) -> World {
    let counter = Counter {
        unit_nj: 15_259,
        update_jitter: 3 * MS / 10,
        stuck_every: 17,
        range_uj: 370_000_000,
        ..Counter::default()
    };
    World { counter, ..one(threads(random, 4, 2e7, 0.0), WIDE) }
}

/// The counter turns over twice while nobody looks.
fn b8b(random: &mut Random) -> World {
    let from = 10 * SECOND + random.below(30 * SECOND);
    let world = b8(random);
    let outage = Some(Outage { socket: 0, from, to: from + 16 * SECOND, anew: false });
    World { counter: Counter { outage, ..world.counter }, ..world }
}

fn b9b(random: &mut Random) -> World {
    let from = 10 * SECOND + random.below(30 * SECOND);
    let world = b5(random);
    let outage = Some(Outage { socket: 1, from, to: from + 8 * SECOND, anew: true });
    World { counter: Counter { outage, ..world.counter }, ..world }
}

fn b9(random: &mut Random) -> World {
    let counter = Counter { read_jitter: 5 * MS, late_every: 50, shuffled: true, ..Counter::default() };
    World { counter, ..one(threads(random, 4, 2e7, 0.0), WIDE) }
}

fn b10a(random: &mut Random) -> World {
    let world = one(threads(random, 4, 2e7, 0.0), WIDE);
    World { sampler: Sampler { lost_percent: 30, ..world.sampler }, ..world }
}

/// Two threads of two processes, and a stranger of 12 W in bursts on two other CPUs: 40 % of five CPUs' time.
fn b11(random: &mut Random) -> World {
    let mut stretches = threads(random, 2, 2e7, 0.2);
    for cpu in 2..4 {
        let who = Who::Background { key: 0, watts: 12 };
        stretches.extend(bursts(random, cpu, (4 * MS, 3 * MS), (6 * MS, 4 * MS), who));
    }
    World { process_of: vec![0, 1], ..one(stretches, WIDE) }
}

/// Bursts of a stranger on a CPU: busy and quiet by turns, each for a time of this mean and spread in nanoseconds.
fn bursts(random: &mut Random, cpu: u32, busy: (u64, u64), quiet: (u64, u64), who: Who) -> Vec<Stretch> {
    let mut stretches = vec![];
    let mut from = random.around(quiet.0, quiet.1);
    while from < MINUTE {
        let to = (from + random.around(busy.0, busy.1)).min(MINUTE);
        stretches.push(Stretch { cpu, from, to, who, watts: None });
        from = to + random.around(quiet.0, quiet.1);
    }
    stretches
}

/// As B11 with another hot stranger (16 W) and, on each of the strangers' CPUs, kernel threads of 1 W: they run while the hot
/// ones do not.
fn b11b(random: &mut Random) -> World {
    let mut stretches = threads(random, 2, 2e7, 0.2);
    let turns = (20 * MS, 20 * MS * 2 / 3);
    for (cpu, watts) in [(2, 16), (3, 5)] {
        let hot = bursts(random, cpu, turns, turns, Who::Background { key: cpu - 2, watts });
        let mut quiet = 0;
        for stretch in &hot {
            let mut from = quiet + random.below(2 * MS);
            while from < stretch.from {
                let to = (from + random.around(MS, 900_000)).min(stretch.from);
                stretches.push(Stretch {
                    cpu,
                    from,
                    to,
                    who: Who::Background { key: 2, watts: 1 },
                    watts: None,
                });
                from = to + random.below(2 * MS);
            }
            quiet = stretch.to;
        }
        stretches.extend(hot);
    }
    World { process_of: vec![0, 1], ..one(stretches, WIDE) }
}

fn hyperthreads(random: &mut Random, eta: f64, cores_known: bool) -> World {
    World { smt: Some(eta), cores_known, ..one(threads(random, 4, 2e7, 0.4), WIDE) }
}

fn b12b(random: &mut Random) -> World {
    World { uncore_watts: 8.0, ..fixed(random, 0.4) }
}
