//! Worlds of many callers and many leaves: who calls decides about watts, or what is called, or both.
//!
//! Leaves out loops (`loops.rs`) and other threads and processes (`crowds.rs`).

use super::draw::{log_normal, normal};
use super::loops::{fork, main_thread};
use super::power::Physics;
use super::programs::{Stage, cycle, mixture, on_data, ramping};
use super::recording::World;
use super::stacks::Stacks;
use energy_trace_tests::random::Random;

/// Outer frames of the callers, of different depth, Python and native mixed.
const CALLERS: [&str; 5] = [
    "p:app/main p:app/train p:model/forward p:torch.nn/call n:libtorch/dispatch",
    "p:app/main p:app/train p:model/backward n:libtorch/engine n:libtorch/evaluate n:libtorch/dispatch",
    "p:app/main p:data/load",
    "p:app/main p:app/train p:optim/step p:optim/group p:optim/update p:torch/wrap n:libtorch/dispatch",
    "p:app/main p:app/report n:libjson/encode",
];
pub(super) const MEAN_WATTS: f64 = 20.0;

/// The path of a leaf under a caller; half of the leaves are reached through one more native frame, a few are Python.
fn path_of(stacks: &mut Stacks, caller: usize, leaf: usize) -> u32 {
    let inner = match leaf % 4 {
        0 => format!("n:libblas/kernel_{leaf}"),
        1 => format!("n:libtorch/apply n:libtorch/kernel_{leaf}"),
        2 => format!("n:libtorch/parallel n:libtorch/loop n:libm/kernel_{leaf}"),
        _ => format!("p:ops/kernel_{leaf}"),
    };
    stacks.path(&format!("{} {inner}", CALLERS[caller % CALLERS.len()]))
}

/// How watts depend on the stack: standard deviations, in parts of the mean, by caller, by leaf, and by both together.
#[derive(Clone, Copy)]
pub(super) struct Watts {
    pub(super) caller: f64,
    pub(super) leaf: f64,
    pub(super) both: f64,
}

pub(super) const BY_BOTH: Watts = Watts { caller: 0.3, leaf: 0.35, both: 0.2 };
const EQUAL: Watts = Watts { caller: 0.0, leaf: 0.0, both: 0.0 };

/// Three or four callers of 5 to 20 leaves each, of twenty that they share.
pub(super) fn shared_leaves(stacks: &mut Stacks, watts: Watts, random: &mut Random) -> Vec<Stage> {
    let callers = 3 + random.below(2) as usize;
    let leaves: Vec<f64> = (0..20).map(|_| watts.leaf * normal(random)).collect();
    let mut stages = vec![];
    for caller in 0..callers {
        let own = watts.caller * normal(random);
        let first = random.below(20);
        for leaf in (first..first + 5 + random.below(16)).map(|leaf| leaf as usize % 20) {
            let parts = 1.0 + own + leaves[leaf] + watts.both * normal(random);
            let path = path_of(stacks, caller, leaf);
            let mean = log_normal(random, 8e6, 0.8);
            stages.push(Stage::new(path, mean, MEAN_WATTS * parts.max(0.15)));
        }
    }
    stages
}

pub(super) fn by_caller_and_leaf(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = shared_leaves(&mut world.stacks, BY_BOTH, random);
    world.tasks = vec![main_thread(mixture(stages, fork(random)))];
    world
}

/// Two hundred leaves, each under one or two of five callers, and watts by leaf alone.
pub(super) fn by_leaf(random: &mut Random) -> World {
    let mut world = World::new(1);
    let mut stages = vec![];
    for leaf in 0..200 {
        let watts = MEAN_WATTS * (1.0 + 0.35 * normal(random)).max(0.15);
        let (caller, mean) = (random.below(5) as usize, log_normal(random, 8e6, 0.8));
        for caller in caller..=caller + random.below(2) as usize {
            stages.push(Stage::new(path_of(&mut world.stacks, caller, leaf), mean, watts));
        }
    }
    world.tasks = vec![main_thread(mixture(stages, fork(random)))];
    world
}

/// As `by_caller_and_leaf`; power drifts, depends on data, and follows the code with a lag of 20 ms.
pub(super) fn moving(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = shared_leaves(&mut world.stacks, BY_BOTH, random);
    let program = on_data(mixture(stages, fork(random)), 0.1, fork(random));
    world.tasks = vec![main_thread(ramping(program, 2e7))];
    world.physics.drift = 0.1;
    world
}

/// A mixture of callers and leaves on a machine of this kind.
pub(super) fn with(random: &mut Random, physics: Physics) -> World {
    World { physics, ..by_caller_and_leaf(random) }
}

/// All draw the same.
pub(super) fn equal(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = shared_leaves(&mut world.stacks, EQUAL, random);
    world.tasks = vec![main_thread(mixture(stages, fork(random)))];
    world
}

/// Two functions in turns of half a millisecond: samples cannot tell which of them ran when.
pub(super) fn fast_turns(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = vec![
        Stage::new(world.stacks.path("p:app/main p:app/step n:libm/cool"), 5e5, 5.0),
        Stage::new(world.stacks.path("p:app/main p:app/step n:libm/hot"), 5e5, 40.0),
    ];
    world.tasks = vec![main_thread(cycle(stages, 0.02, fork(random)))];
    world
}
