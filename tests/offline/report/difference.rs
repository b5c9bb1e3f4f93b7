//! `diff` on virtual worlds whose truth is known: programs that are equal, and one whose one function draws a tenth more.
//!
//! The same program runs in all runs of a pair of sets, to the nanosecond; samples and readings of it are others. Leaves out programs that
//! differ from run to run (`report`'s own tests).

use energy_trace_attribution::attribute;
use energy_trace_model::profile::{Options, Profile};
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_report::By;
use energy_trace_report::diff::{Change, DiffOptions, Divisor, compare};
use energy_trace_scenarios::cpu::recording;
use energy_trace_scenarios::cpu::scenarios;
use energy_trace_tests::random::Random;

/// The function that is made hotter: of six the one with 12 of 49 W.
const HOT: usize = 4;
/// Runs of each set.
const RUNS: u64 = 4;

fn run(name: &str, pair: u64, seed: u64, heat: f64) -> Profile {
    let all = scenarios::all();
    let scenario = all.iter().find(|scenario| scenario.name == name).unwrap();
    let mut world = (scenario.world)(&mut Random(pair.wrapping_mul(0x9e37_79b9).wrapping_add(11)));
    world.watts[HOT] *= heat;
    let (_, tracks) = world.integrate(&[]);
    let mut recording = recording::of(&world);
    world.observe(&mut recording, &tracks, seed);
    attribute(&recording, &Options::default())
}

/// The functions that a pair of sets shows as changed.
fn changed(name: &str, pair: u64, heat: f64) -> Vec<String> {
    let set = |side: u64, heat| -> Vec<Profile> {
        (0..RUNS).map(|of| run(name, pair, 1 + (2 * pair + side) * RUNS + of, heat)).collect()
    };
    let (before, after) = (set(0, 1.0), set(1, heat));
    let options = DiffOptions {
        files: [&[]; 2],
        commands: [&[]; 2],
        work: Divisor::Counts([1.0; 2]),
        by: By::Function,
        native_frames: NativeFrames::Libraries,
        rows: 0,
        color: false,
        width: None,
    };
    let found = compare([&before, &after], &options).unwrap().changes.into_iter().filter(Change::is_real);
    found.filter_map(|change| change.name).collect()
}

/// Of pairs of sets of equal programs one in twenty at most shows a function as changed; a function that draws a tenth more is found, and no other.
#[track_caller]
fn hold(programs: &[&str], pairs: u64) {
    let of = |heat| {
        let of_one = |name| (0..pairs).map(move |pair| changed(name, pair, heat));
        programs.iter().flat_map(|name| of_one(name)).collect::<Vec<_>>()
    };
    let (equal, hot) = (of(1.0), of(1.1));
    let red = equal.iter().filter(|found| !found.is_empty()).count();
    assert!(red * 20 <= equal.len(), "{equal:?}");
    let found = hot.iter().filter(|found| **found == [format!("f{HOT}")]).count();
    assert!(found * 20 >= hot.len() * 19, "{hot:?}");
}

#[test]
fn noise_is_not_red() {
    hold(&["B1"], 1);
}

#[test]
#[ignore = "slow: cargo xtask test --all"]
fn noise_is_not_red_in_twenty_pairs() {
    hold(&["B1", "B4a"], 10);
}
