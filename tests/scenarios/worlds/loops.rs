//! Worlds of one thread that does the same stages over and over in a fixed order, as training and inference do.
//!
//! Leaves out worlds without such an order (`trees.rs`).

use super::programs::{Stage, asleep_after, cycle, in_turns, on_data, ramping, shuffled};
use super::recording::World;
use super::schedule::{Task, Who};
use super::stacks::{Path, Stacks};
use super::{MS, SECOND};
use energy_trace_tests::random::Random;
use std::collections::HashMap;

/// A generator of its own for a part of a world.
pub(super) fn fork(random: &mut Random) -> Random {
    Random(random.next_word())
}

/// The one thread of a program on the first CPU.
pub(super) fn main_thread(program: super::schedule::Program) -> Task {
    Task { who: Who::Thread(0), cpus: 0..1, team: 0, program }
}

/// Functions of the three stages, and how long each runs (ms), at how many watts.
const THREE: [(&str, f64, f64); 3] =
    [("p:train/load", 12.0, 5.0), ("p:train/forward", 30.0, 15.0), ("p:train/backward", 60.0, 40.0)];

/// The path of one of three stages with these innermost functions.
fn below(stacks: &mut Stacks, stage: usize, leaf: &str) -> Path {
    stacks.path(&format!("p:train/main {} {leaf}", THREE[stage].0))
}

/// Three stages of 12, 30 and 60 ms at 5, 15 and 40 W, each below a function of its own with this innermost frame.
fn three(stacks: &mut Stacks, leaf: fn(usize) -> &'static str) -> Vec<Stage> {
    let stage = |number: usize| {
        Stage::new(below(stacks, number, leaf(number)), THREE[number].1 * 1e6, THREE[number].2)
    };
    (0..3).map(stage).collect()
}

/// A loop of 102 ms with leaves of its own for each stage, ± 5 %.
pub(super) fn of_102_ms(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = three(&mut world.stacks, |n| ["n:libz/inflate", "n:libblas/gemm", "n:libblas/axpy"][n]);
    world.tasks = vec![main_thread(cycle(stages, 0.05, fork(random)))];
    world
}

/// The same with one innermost function below all.
pub(super) fn shared_102_ms(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = three(&mut world.stacks, |_| "p:runtime/run");
    world.tasks = vec![main_thread(cycle(stages, 0.05, fork(random)))];
    world
}

/// Loading, forward, loss, backward and step of a training: their parts of the loop, and watts.
const TRAINING: [(&str, f64, f64); 5] = [
    ("p:train/main p:data/load n:libz/inflate", 0.12, 9.0),
    ("p:train/main p:model/forward p:torch.nn/call n:libtorch/conv n:libblas/gemm", 0.3, 34.0),
    ("p:train/main p:model/loss n:libtorch/softmax", 0.06, 18.0),
    ("p:train/main p:torch/backward n:libtorch/engine n:libtorch/conv_backward", 0.42, 42.0),
    ("p:train/main p:optim/step p:optim/update n:libtorch/addcmul", 0.1, 14.0),
];

/// The stages of a training with this length.
fn training(stacks: &mut Stacks, loop_ns: f64) -> Vec<Stage> {
    let stage = |(path, part, watts): (&str, f64, f64)| Stage::new(stacks.path(path), part * loop_ns, watts);
    TRAINING.map(stage).to_vec()
}

/// A training loop; `sigma` is the standard deviation of the logarithm of each stage's duration, 0 for constant ones.
pub(super) fn of(random: &mut Random, loop_ns: f64, sigma: f64) -> World {
    let mut world = World::new(1);
    let stages = training(&mut world.stacks, loop_ns);
    world.tasks = vec![main_thread(cycle(stages, sigma, fork(random)))];
    world
}

/// A training loop of 50 ms for so many seconds.
pub(super) fn lasting(random: &mut Random, seconds: u64) -> World {
    World { length: seconds * SECOND, ..of(random, 5e7, 0.1) }
}

/// The table: three functions of 5, 15 and 40 W that call the same one, in random order, 25 ms each.
pub(super) fn shared_25_ms(random: &mut Random) -> World {
    let mut world = World::new(1);
    let mut stages = three(&mut world.stacks, |_| "p:runtime/run");
    stages.iter_mut().for_each(|stage| stage.mean_ns = 2.5e7);
    world.tasks = vec![main_thread(shuffled(stages, 0.05, fork(random)))];
    world
}

/// Own loops, 25 ms, random order.
pub(super) fn own_25_ms(random: &mut Random) -> World {
    let mut world = World::new(1);
    let mut stages = three(&mut world.stacks, |n| ["n:libz/inflate", "n:libblas/gemm", "n:libblas/axpy"][n]);
    stages.iter_mut().for_each(|stage| stage.mean_ns = 2.5e7);
    world.tasks = vec![main_thread(shuffled(stages, 0.05, fork(random)))];
    world
}

/// A training whose stages are five models, each run by the same call: `InferenceSession.run` and the same native leaf below it.
pub(super) fn shared_training(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stage = |(number, (_, part, watts)): (usize, (&str, f64, f64))| {
        let stage = ["encode", "attend", "rank", "decode", "log"][number];
        let path = format!("p:serve/main p:serve/{stage} p:onnxruntime/run n:libonnx/Run n:libonnx/gemm");
        Stage::new(world.stacks.path(&path), part * 5e7, watts)
    };
    let stages = TRAINING.into_iter().enumerate().map(stage).collect();
    world.tasks = vec![main_thread(cycle(stages, 0.3, fork(random)))];
    world
}

/// Slow phases, each of three functions that take turns far faster than samples come: two native ones and one of the C library, as any
/// loop that also reads the clock. `parts` are what each of the three draws of its phase's watts.
pub(super) fn with_fast_leaves(random: &mut Random, phase_ns: f64, turn_ns: f64, parts: [f64; 3]) -> World {
    let mut world = World::new(1);
    let mut stages = three(&mut world.stacks, |_| "n:work/run");
    let leaves = ["n:work/compute", "n:libc/clock_gettime n:vdso/clock_gettime", "n:work/collect"];
    let mut turns = HashMap::new();
    for (number, stage) in stages.iter().enumerate() {
        let of = |(leaf, part)| (below(&mut world.stacks, number, &format!("n:work/run {leaf}")), part);
        turns.insert(stage.path, leaves.into_iter().zip(parts).map(of).collect());
    }
    stages.iter_mut().for_each(|stage| stage.mean_ns = phase_ns);
    let phases = cycle(stages, 0.05, fork(random));
    world.tasks = vec![main_thread(in_turns(phases, turns, turn_ns, fork(random)))];
    world
}

/// A training loop of 50 ms whose watts depend on data.
pub(super) fn with_data(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stages = training(&mut world.stacks, 5e7);
    world.tasks = vec![main_thread(on_data(cycle(stages, 0.1, fork(random)), 0.15, fork(random)))];
    world
}

/// A training loop of 200 ms whose power follows the code with this lag.
pub(super) fn with_ramps(random: &mut Random, lag_ns: f64) -> World {
    let mut world = World::new(1);
    let stages = training(&mut world.stacks, 2e8);
    world.tasks = vec![main_thread(ramping(cycle(stages, 0.1, fork(random)), lag_ns))];
    world
}

/// Four stages of 4 to 18 ms, three of them below one call of one of two models, ± 7 %.
pub(super) fn inference(random: &mut Random) -> World {
    let mut world = World::new(1);
    let stage = |(ms, watts, path): (f64, f64, &str)| Stage::new(world.stacks.path(path), ms * 1e6, watts);
    let stages = [
        (11.0, 11.0, "p:infer/main p:infer/tokenize n:libtok/merge"),
        (8.0, 24.0, "p:infer/main p:infer/small p:tf/execute n:libtf/Run n:libtf/matmul"),
        (18.0, 39.0, "p:infer/main p:infer/large p:tf/execute n:libtf/Run n:libtf/matmul"),
        (4.0, 17.0, "p:infer/main p:infer/large p:tf/execute n:libtf/Run n:libtf/softmax"),
    ]
    .map(stage)
    .to_vec();
    world.tasks = vec![main_thread(cycle(stages, 0.07, fork(random)))];
    world
}

/// Two functions one after the other, and a sleep: the short one is always the last before it.
pub(super) fn requests(random: &mut Random) -> World {
    let mut world = World::new(1);
    let mut stage = |path: &str, ms: f64, watts: f64| Stage::new(world.stacks.path(path), ms * 1e6, watts);
    let stages = vec![
        stage("p:serve/main p:serve/parse n:libjson/decode", 8.0, 20.0),
        stage("p:serve/main p:serve/answer n:libz/deflate", 1.0, 40.0),
    ];
    let program = asleep_after(stages.len(), 4 * MS, cycle(stages, 0.1, fork(random)));
    world.tasks = vec![main_thread(program)];
    world
}

/// Requests of three kinds in random order, each parsed, computed and answered by functions that all kinds share; ± 25 %, watts by data ± 8 %.
pub(super) fn held_out(random: &mut Random) -> World {
    let mut world = World::new(1);
    let kinds = [("search", 14.0, 28.0), ("rank", 26.0, 43.0), ("translate", 33.0, 35.0)];
    let stage = |(kind, ms, watts): (&str, f64, f64)| {
        let path = format!("p:web/serve p:web/{kind} p:engine/call n:libengine/run n:libengine/kernel");
        Stage::new(world.stacks.path(&path), ms * 1e6, watts)
    };
    let mut stages: Vec<Stage> = kinds.map(stage).into();
    let parse = world.stacks.path("p:web/serve p:web/parse n:libjson/decode");
    let answer = world.stacks.path("p:web/serve p:web/answer p:json/dumps n:libjson/encode");
    stages.extend([Stage::new(parse, 6e6, 12.0), Stage::new(answer, 9e6, 16.0)]);
    let program = shuffled(stages, 0.25, fork(random));
    world.tasks = vec![main_thread(on_data(program, 0.08, fork(random)))];
    world
}
