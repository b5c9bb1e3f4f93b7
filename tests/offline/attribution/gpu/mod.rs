//! Accuracy of the launch tier against a simulated GPU, on a virtual clock that no busy machine can upset.
//!
//! A host launches kernels of known power and waits now and then; a counter shows their energy late, in steps, with noise. What attribution
//! makes of launches counted by 2 ms and of the counter is compared with the exact joules of each launch stack, beside two splits that
//! know no energies: each step of the counter by launches, and by durations (which this tier does not even have).

mod kernels;
mod without_launches;

use energy_trace_attribution::attribute;
use energy_trace_model::profile::UnattributedReason;
use energy_trace_scenarios::gpu::outcome::{Outcome, by_count, by_duration, errors, within};
use energy_trace_scenarios::gpu::recording::recording;
use energy_trace_scenarios::gpu::training::{KINDS, kind, step, training, training_in};
use energy_trace_scenarios::gpu::world::{MS, MeterModel, SECOND, World};
use energy_trace_sentences::diagnostic;

use energy_trace_model::profile::Options;
use energy_trace_model::units::MicroJoules;
use energy_trace_tests::breadth::{pairs, seeds};

const V100: MeterModel = MeterModel {
    name: "V100",
    tick: 20 * MS,
    lag: 12 * MS,
    duty: 1.0,
    noise: 0.005,
    poll: 10 * MS,
    averaged: 0,
};
const A100: MeterModel = MeterModel {
    name: "A100",
    tick: 100 * MS,
    lag: 25 * MS,
    duty: 0.25,
    noise: 0.005,
    poll: 20 * MS,
    averaged: 0,
};
const H100: MeterModel = MeterModel {
    name: "H100",
    tick: 100 * MS,
    lag: 40 * MS,
    duty: 1.0,
    noise: 0.005,
    poll: 20 * MS,
    averaged: 0,
};
const METERS: [MeterModel; 3] = [V100, A100, H100];

/// Runs training through a meter and shows how that went, beside splits that know no energies.
fn shown(what: &str, mut world: World, meter: MeterModel) -> Outcome {
    let outcome = Outcome::of(&mut world, &KINDS, meter, 75.0);
    let readings = world.readings(meter);
    let (mean, worst) = outcome.errors();
    let all = errors(&outcome.charged, &outcome.truth);
    let known = (0..KINDS.len()).filter(|&site| outcome.identified(site)).count();
    let by_count = errors(&by_count(&world, &readings, KINDS.len()), &outcome.truth);
    let by_time = errors(&by_duration(&world, &readings, KINDS.len()), &outcome.truth);
    println!(
        "{what:20} {:4}: {known} of 6 identified, {mean:4.1} % mean {worst:5.1} % worst; all {:4.1} / {:5.1} %; by count {:3.0} / {:4.0} %, \
         by duration {:3.0} / {:4.0} %",
        meter.name, all.0, all.1, by_count.0, by_count.1, by_time.0, by_time.1
    );
    assert!(all.0 < 0.5 * by_count.0.min(by_time.0), "{what} on {}", meter.name);
    outcome
}

/// On each meter, with a queue a whole step deep, one several steps deep or one that is never full, the launch stacks that are not flagged
/// are within 5 % on average and 15 % at worst, most energy is not flagged, and nine of ten truths lie in their interval.
#[test]
fn launch_stacks_are_known_or_flagged() {
    let (mut inside, mut all) = (0, 0);
    let cases =
        [("a wait each step", 20_000, 1), ("a wait in 4 steps", 20_000, 4), ("host-bound", 500_000, 1)];
    for (meter, (what, call_ns, wait_each)) in pairs(&METERS, &cases) {
        let mut means = Vec::new();
        for seed in seeds(1, 1, 3) {
            let outcome = shown(what, training(seed, 60, call_ns, wait_each), meter);
            let (mean, worst) = outcome.errors();
            assert!(worst <= 15.0, "{what} on {}", meter.name);
            means.push(mean);
            let known = (0..KINDS.len()).filter(|&site| outcome.identified(site));
            let known: f64 = known.map(|site| outcome.charged[site]).sum();
            // Where nobody waits for several steps, less is to be seen.
            let enough = if wait_each == 1 { 0.7 } else { 0.3 };
            assert!(known > enough * outcome.charged.iter().sum::<f64>(), "{what} on {}", meter.name);
            let (of_outcome, sites) = outcome.covered();
            (inside, all) = (inside + of_outcome, all + sites);
        }
        assert!(means.iter().sum::<f64>() / means.len() as f64 <= 5.0, "{what} on {}", meter.name);
    }
    println!("{inside} of {all} truths lie in their 95 % interval");
    assert!(inside * 10 >= all * 9, "{inside} of {all}");
}

/// A meter that has nothing but power averaged over a second shows launch stacks all the same, as what it is a mean over is known.
#[test]
fn averaged_power_is_taken_apart() {
    let averaged = MeterModel { name: "averaged", averaged: SECOND, ..A100 };
    for seed in 1..4 {
        let outcome = shown("averaged", training(seed, 60, 20_000, 1), averaged);
        let (mean, worst) = outcome.errors();
        assert!(mean <= 6.0 && worst <= 15.0);
        assert!((0..KINDS.len()).filter(|&site| outcome.identified(site)).count() > 2);
    }
}

/// Kernels of two streams run side by side: counted launches do not tell which took how much, and say so.
#[test]
fn two_streams_are_flagged() {
    let mut world = training_in(2, 1, 30, 20_000, 1);
    let outcome = Outcome::of(&mut world, &KINDS, H100, 75.0);
    assert!((0..KINDS.len()).all(|site| !outcome.identified(site)));
    assert!(world.launches.windows(2).any(|pair| pair[1].from < pair[0].until), "side by side");
}

/// On a board with MIG the meter shows other instances' work too: whatever it looks like, nothing is said to be known.
#[test]
fn instances_of_a_board_are_flagged() {
    let mig = MeterModel { name: "MIG", ..A100 };
    let mut world = training(1, 30, 20_000, 1);
    world.strangers = (0..15).map(|i| (2 * i * SECOND, (2 * i + 1) * SECOND, 120.0)).collect();
    let outcome = Outcome::of(&mut world, &KINDS, mig, 75.0);
    assert!((0..KINDS.len()).all(|site| !outcome.identified(site)));
    let told =
        outcome.profile.diagnostics.iter().find(|found| found.code() == "gpu-by-launches").map(diagnostic);
    assert!(told.is_some_and(|told| told.contains("others on its board")));
}

/// Two kernels that always run one after the other are flagged as not to be told apart; their sum is right.
#[test]
fn kernels_that_always_run_together_are_flagged() {
    let kinds = [kind("attention", 900, 420.0), kind("softmax", 300, 150.0), kind("gemm", 500, 300.0)];
    let mut world = World::new(5);
    while world.end() < 60 * SECOND {
        for _ in 0..20 + world.random.below(60) {
            world.launch(0, kinds[0], 20_000);
            world.launch(1, kinds[1], 20_000);
        }
        for _ in 0..world.random.below(200) {
            world.launch(2, kinds[2], 20_000);
        }
        world.synchronize();
    }
    let outcome = Outcome::of(&mut world, &kinds, H100, 75.0);
    assert!(!outcome.identified(0) && !outcome.identified(1), "{:?}", outcome.profile.diagnostics);
    let told = outcome
        .profile
        .diagnostics
        .iter()
        .find(|found| found.code() == "gpu-launches-not-identifiable")
        .map(diagnostic);
    assert!(told.is_some_and(|told| told.contains("attention") && told.contains("softmax")));
    let together = |joules: &[f64]| joules[0] + joules[1];
    let error = together(&outcome.charged) / together(&outcome.truth) - 1.0;
    assert!(error.abs() < 0.05, "{error}");
}

/// A replayed graph whose kernels draw and last very differently, beside one that is launched by itself: the graph's are flagged, and each truth lies
/// in its interval or bounds, though a launch of one takes a hundred times what a launch of another does.
#[test]
fn kernels_of_a_graph_may_have_anything_of_its_sum() {
    let kinds = [
        kind("gemm", 900, 400.0),
        kind("relu", 40, 150.0),
        kind("gemm_grad", 500, 350.0),
        kind("adam", 300, 200.0),
    ];
    for meter in METERS {
        let mut world = World::new(8);
        while world.end() < 60 * SECOND {
            for _ in 0..20 + world.random.below(40) {
                for site in [0, 1, 0, 1, 1, 2] {
                    world.launch(site, kinds[site], 500);
                }
            }
            for _ in 0..world.random.below(200) {
                world.launch(3, kinds[3], 20_000);
            }
            world.synchronize();
        }
        let outcome = Outcome::of(&mut world, &kinds, meter, 75.0);
        for (site, kind) in kinds.iter().enumerate() {
            let sure = outcome.uncertainty(site);
            let (range, truth) = (sure.bounds.unwrap_or(sure.ci95), outcome.truth[site]);
            assert!(within(range, truth), "{} {}: {truth} J in {range:?}", meter.name, kind.name);
            assert!(sure.bounds.is_some() || site == 3, "{} {}", meter.name, kind.name);
        }
    }
}

/// A run that ends while the GPU works: what a mean over a second has not shown of the last work is in the interval.
#[test]
fn the_last_work_is_in_the_interval() {
    let kinds = [kind("gemm", 900, 400.0)];
    let mut world = World::new(9);
    while world.end() < 20 * SECOND {
        world.launch(0, kinds[0], 20_000);
        world.synchronize();
    }
    let meter = MeterModel { name: "averaged", averaged: SECOND, duty: 1.0, ..H100 };
    let outcome = Outcome::of(&mut world, &kinds, meter, 75.0);
    let (range, truth) = (outcome.uncertainty(0).ci95, outcome.truth[0]);
    assert!(within(range, truth), "{truth} J in {range:?}");
}

/// Another process that draws 200 W in every other pause of the target is not charged to it but to others; both are within 5 %.
#[test]
fn strangers_in_pauses_are_not_ours() {
    let mut world = World::new(6);
    let mut stranger = 0.0;
    while world.end() < 60 * SECOND {
        for _ in 0..8 {
            step(&mut world, 20_000);
            world.synchronize();
        }
        if world.random.below(2) == 0 {
            let from = world.end() + 50 * MS;
            world.strangers.push((from, from + 900 * MS, 200.0));
            stranger += 180.0;
        }
        world.sleep(SECOND);
    }
    let outcome = Outcome::of(&mut world, &KINDS, H100, 75.0);
    let row = &outcome.profile.ledger[0];
    let (ours, should) = (row.target.as_joules(), outcome.truth.iter().sum::<f64>());
    println!("strangers: other {} of {stranger} J, target {ours:.0} of {should:.0} J", row.other);
    assert!((ours / should - 1.0).abs() < 0.05, "{ours} instead of {should}");
    assert!((row.other.as_joules() / stranger - 1.0).abs() < 0.1, "{} instead of {stranger}", row.other);
}

/// A GPU that draws 45 W more from the moment that a program has it open than before: that is idle power, not the launches'.
#[test]
fn an_open_gpu_is_idle_power() {
    let mut world = World::new(7);
    world.sleep(500 * MS);
    while world.end() < 60 * SECOND {
        for _ in 0..8 {
            step(&mut world, 20_000);
            world.synchronize();
        }
        world.sleep(600 * MS);
    }
    let outcome = Outcome::of(&mut world, &KINDS, H100, 30.0);
    let (mean, worst) = outcome.errors();
    println!("open GPU: {mean:.1} % mean, {worst:.1} % worst; idle {}", outcome.profile.ledger[0].idle);
    assert!(mean <= 5.0 && worst <= 15.0);
    let idle = outcome.profile.ledger[0].idle.as_joules() / (75.0 * world.end() as f64 / 1e9);
    assert!((idle - 1.0).abs() < 0.05, "{idle}");
}

/// A kernel whose power doubles half-way through a long run is charged what it took all the same.
#[test]
fn power_that_changes_is_learned_again() {
    let mut world = training(8, 200, 20_000, 1);
    for launch in world.launches.iter_mut().filter(|launch| launch.site == 1 && launch.from > 100 * SECOND) {
        launch.watts *= 2.0;
    }
    let outcome = Outcome::of(&mut world, &KINDS, H100, 75.0);
    let (mean, worst) = outcome.errors();
    println!("changing power: {mean:.1} % mean, {worst:.1} % worst");
    assert!(mean <= 5.0 && worst <= 15.0);
}

/// A run too short to learn from is split as if all power were the same, and everything in it is flagged; without launches nothing is
/// charged at all.
#[test]
fn short_runs_and_runs_without_launches_say_so() {
    let outcome = Outcome::of(&mut training(9, 2, 20_000, 1), &KINDS, H100, 75.0);
    assert!((0..KINDS.len()).all(|site| !outcome.identified(site)));
    assert!(outcome.has("gpu-by-launches"));
    let mut idle = World::new(10);
    idle.sleep(5 * SECOND);
    let readings = idle.readings(H100);
    let profile = attribute(&recording(&idle, &[], &readings, Some(60.0)), &Options::default());
    assert_eq!(profile.ledger[0].imbalance(), MicroJoules::ZERO);
    assert!(
        profile.rows.is_empty()
            && profile.ledger[0].unattributed.contains_key(&UnattributedReason::NoLaunchData)
    );
    assert!(profile.diagnostics.iter().any(|found| found.code() == "gpu-unattributed"));
}
