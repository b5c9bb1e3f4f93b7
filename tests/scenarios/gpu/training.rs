//! A training step's kernels and phases, launched into a simulated GPU. Leaves out the GPU (`world`) and what becomes of its energy (`outcome`).

use super::world::{Kind, MS, SECOND, World};

/// A kernel of so many microseconds and watts above idle.
pub const fn kind(name: &'static str, us: u64, watts: f64) -> Kind {
    Kind { name, ns: us * 1_000, watts }
}

/// Invented; a training step of a small convolutional network in kernels of very different length and power.
pub const KINDS: [Kind; 6] = [
    kind("gemm", 400, 480.0),
    kind("conv", 120, 320.0),
    kind("relu", 60, 150.0),
    kind("attention", 900, 420.0),
    kind("copy_", 30, 90.0),
    kind("adam", 200, 250.0),
];
/// Share of each kind in the time of each phase of a training step, and the phase's length.
const PHASES: [(u64, [f64; 6]); 3] = [
    (45, [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]),
    (60, [0.2, 0.1, 0.1, 0.5, 0.05, 0.05]),
    (25, [0.0, 0.05, 0.35, 0.0, 0.3, 0.3]),
];

/// A training step: phases of changing length and mix, each kind at the site of its own number, `call_ns` for a launch.
pub fn step(world: &mut World, call_ns: u64) {
    world.new_data(KINDS.len());
    if world.maker.same_steps {
        return same_step(world, call_ns);
    }
    for (ms, shares) in PHASES {
        let mixed = shares.map(|share| share * (0.6 + 0.8 * world.random.unit()));
        let counts: Vec<f64> = mixed.iter().zip(KINDS).map(|(share, kind)| share / kind.ns as f64).collect();
        let all: f64 = counts.iter().sum();
        let length = world.random.around(ms * MS, ms * MS / 5);
        let mut worked = 0;
        while worked < length {
            let mut choice = world.random.unit() * all;
            let chosen = counts.iter().position(|count| {
                choice -= count;
                choice < 0.0
            });
            let site = chosen.unwrap_or(0);
            world.launch(site, KINDS[site], call_ns);
            worked += KINDS[site].ns.max(call_ns);
        }
    }
}

/// A step that launches the same numbers of all kernels, in the same order: each phase's in turn.
fn same_step(world: &mut World, call_ns: u64) {
    for (ms, shares) in PHASES {
        for (site, (share, kind)) in shares.into_iter().zip(KINDS).enumerate() {
            let count = (share * (ms * MS) as f64 / kind.ns.max(call_ns) as f64) as usize;
            (0..count).for_each(|_| world.launch(site, kind, call_ns));
        }
    }
}

/// Trains for this long.
pub fn training(seed: u64, seconds: u64, call_ns: u64, wait_each: u64) -> World {
    training_in(1, seed, seconds, call_ns, wait_each)
}

/// The same in one stream or two.
pub fn training_in(streams: usize, seed: u64, seconds: u64, call_ns: u64, wait_each: u64) -> World {
    let mut world = World::new(seed);
    world.streams = streams;
    train(&mut world, seconds, call_ns, wait_each);
    world
}

/// Trains in a world for this long.
pub fn train(world: &mut World, seconds: u64, call_ns: u64, wait_each: u64) {
    world.sleep(200 * MS);
    let mut steps = 0;
    while world.end() < seconds * SECOND {
        step(world, call_ns);
        steps += 1;
        if steps % wait_each == 0 {
            world.synchronize();
        }
    }
    world.synchronize();
}
