//! Worlds of several threads, and of other processes beside the program.
//!
//! Leaves out what one thread does (`loops.rs`, `trees.rs`).

use super::loops::{self, fork, main_thread, of_102_ms, own_25_ms};
use super::programs::{Stage, bursts, cycle, member, mixture, resting};
use super::recording::World;
use super::schedule::{Bound, Program, Task, Who, pauses};
use super::trees::{BY_BOTH, shared_leaves};
use super::{MS, SECOND};
use energy_trace_tests::random::Random;
use std::ops::Range;

/// Another process in bursts.
pub(super) fn stranger(
    world: &mut World,
    key: u32,
    cpus: Range<u32>,
    (busy_ns, idle_ns): (f64, f64),
    watts: (f64, f64),
    random: &mut Random,
) {
    let path = world.stacks.path("n:other/main");
    let program = bursts(path, busy_ns, idle_ns, watts, fork(random));
    world.tasks.push(Task { who: Who::Stranger(key), cpus, team: 1_000 + key, program });
}

/// One thread on one CPU with two other processes that run in bursts of 60 ms.
pub(super) fn preempted(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = shared_leaves(&mut world.stacks, BY_BOTH, random);
    world.tasks = vec![main_thread(mixture(stages, fork(random)))];
    stranger(&mut world, 0, 0..1, (6e7, 2.5e8), (5.0, 45.0), random);
    stranger(&mut world, 1, 0..1, (6e7, 4e8), (3.0, 20.0), random);
    world
}

/// The six programs of the issue: a world with two others of 12 W in bursts of 300 ms on the same CPU.
pub(super) fn beside_strangers(random: &mut Random, world: fn(&mut Random) -> World) -> World {
    let mut world = world(random);
    for key in 0..2 {
        stranger(&mut world, key, 0..1, (3e8, 6e8), (12.0, 12.0), random);
    }
    world
}

/// Phases of 25 ms beside strangers.
pub(super) fn phases_beside_strangers(random: &mut Random) -> World {
    beside_strangers(random, own_25_ms)
}

/// A loop of 102 ms beside strangers.
pub(super) fn loop_beside_strangers(random: &mut Random) -> World {
    beside_strangers(random, of_102_ms)
}

/// A training loop of 50 ms on a CPU of its own beside two others of 12 W, each in bursts of 300 ms on another CPU.
pub(super) fn loop_beside_busy_cpus(random: &mut Random) -> World {
    let mut world = World { cpus: 3, ..loops::of(random, 5e7, 0.1) };
    for key in 0..2 {
        stranger(&mut world, key, 1 + key..2 + key, (3e8, 6e8), (12.0, 12.0), random);
    }
    world
}

/// One thread whose CPU is taken away for so long, once in `every` nanoseconds.
pub(super) fn paused(random: &mut Random, ms: Range<u64>, every: f64) -> World {
    let mut world = World::new(1);
    let stages = shared_leaves(&mut world.stacks, BY_BOTH, random);
    world.tasks = vec![main_thread(mixture(stages, fork(random)))];
    world.steals = pauses(random, 0..1, ms.start * MS..ms.end * MS, every, world.length);
    world
}

/// Threads, each on a CPU of its own if there are enough, that run this and rest for a part of the time.
fn crowd(
    random: &mut Random,
    (threads, cpus): (u32, u32),
    rest: Option<(f64, f64)>,
    mut program: impl FnMut(&mut World, &mut Random, u32) -> Program,
) -> World {
    let mut world = World::new(cpus);
    for thread in 0..threads {
        let mut program = program(&mut world, random, thread);
        if let Some((awake_ns, asleep_ns)) = rest {
            program = resting(program, awake_ns, asleep_ns, fork(random));
        }
        // The first choice is the thread's own CPU.
        let own = thread % cpus;
        world.tasks.push(Task { who: Who::Thread(thread), cpus: own..own + 1, team: thread, program });
    }
    world
}

/// Independent threads that share callers and leaves.
pub(super) fn independent(random: &mut Random, threads: u32, cpus: u32) -> World {
    let mut stages = vec![];
    crowd(random, (threads, cpus), Some((1.5e8, 1e8)), |world, random, _| {
        if stages.is_empty() {
            stages = shared_leaves(&mut world.stacks, BY_BOTH, random);
            stages.iter_mut().for_each(|stage| stage.watts *= 0.4);
        }
        mixture(stages.clone(), fork(random))
    })
}

/// A team that runs parallel regions together and meets at barriers, spinning or asleep, with a main thread in serial parts between them.
pub(super) fn team(random: &mut Random, threads: u32, spins: bool) -> World {
    let common = random.next_word();
    let mut world = crowd(random, (threads, threads), None, |world, random, thread| {
        let outer = if thread == 0 {
            "p:app/main p:model/forward n:libgomp/parallel"
        } else {
            "n:libc/start n:libgomp/worker"
        };
        let kernels = [("gemm", 9e6, 7.0), ("im2col", 4e6, 4.0), ("relu", 2e6, 3.0), ("pool", 5e6, 5.0)];
        let stages = kernels
            .map(|(name, ns, watts)| {
                Stage::new(world.stacks.path(&format!("{outer} n:libtorch/{name}")), ns, watts)
            })
            .to_vec();
        let spin = (world.stacks.path(&format!("{outer} n:libgomp/barrier")), 2.0);
        member(stages, spins.then_some(spin), Random(common), fork(random))
    });
    world.tasks.iter_mut().for_each(|task| task.team = 0);
    world
}

/// Two threads that always run together, each in a function of its own: nothing tells their watts apart.
pub(super) fn lockstep(random: &mut Random) -> World {
    let common = random.next_word();
    crowd(random, (2, 2), None, |world, _, thread| {
        let watts = [18.0, 6.0][thread as usize];
        let path = world
            .stacks
            .path(["p:app/main p:app/hot n:libm/hot", "p:app/main p:app/cool n:libm/cool"][thread as usize]);
        let work = cycle(vec![Stage::new(path, 3e7, watts)], 0.0, Random(0));
        resting(work, 1.5e8, 1e8, Random(common))
    })
}

/// Threads half of whose functions are bound by memory: the more of those run at once, the less each draws.
pub(super) fn memory_bound(random: &mut Random) -> World {
    let mut stages: Vec<Stage> = vec![];
    let mut world = crowd(random, (6, 6), Some((1.2e8, 1.2e8)), |world, random, _| {
        if stages.is_empty() {
            let path = |world: &mut World, name: &str| {
                world.stacks.path(&format!("p:app/main p:app/work n:libk/{name}"))
            };
            for (name, watts) in [("dot", 9.0), ("hash", 6.0), ("sort", 4.0)] {
                stages.push(Stage::new(path(world, name), 2e7, watts));
            }
            for (name, watts) in [("copy", 8.0), ("gather", 5.0), ("axpy", 7.0)] {
                stages.push(Stage { bound: Bound::Memory, ..Stage::new(path(world, name), 2e7, watts) });
            }
        }
        mixture(stages.clone(), fork(random))
    });
    world.physics.memory = 0.15;
    world
}

/// Four threads on two cores of two hardware threads each, which nobody recorded.
pub(super) fn siblings(random: &mut Random) -> World {
    let mut world = independent(random, 4, 4);
    world.physics.sibling = 0.6;
    world
}

/// Eight threads and shared parts of the socket that draw 12 W while any of them runs.
pub(super) fn uncore(random: &mut Random) -> World {
    let mut world = independent(random, 3, 3);
    world.physics.uncore_watts = 12.0;
    world
}

/// Two threads on two CPUs beside a stranger of changing watts, pauses of 5 to 15 ms, drift.
pub(super) fn held_out(random: &mut Random) -> World {
    let mut world = independent(random, 2, 2);
    stranger(&mut world, 0, 0..2, (1.2e8, 3e8), (6.0, 24.0), random);
    world.steals = pauses(random, 1..2, 5 * MS..15 * MS, 6e8, world.length);
    world.physics.drift = 0.05;
    world.length = 40 * SECOND;
    world
}
