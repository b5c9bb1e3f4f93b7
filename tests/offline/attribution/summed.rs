//! Recordings without slices (`--slices no`): what is lost of the energy of processes and functions beside recordings with them.
//!
//! Both have ten readings and 19 samples a second, and truth of their own. Leaves out how sums lie between readings (`model`, `totals`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::CpuTotals;
use energy_trace_scenarios::cpu::measure::{Outcome, run_changed};
use energy_trace_scenarios::cpu::scenarios::{self, Scenario};
use energy_trace_scenarios::cpu::summed::{sum, sum_over, thin, totals};
use energy_trace_tests::breadth::some_or_all;
use std::time::Duration;

const HZ: u32 = 19;
const SEEDS: u64 = 3;

fn scenario(name: &str) -> Scenario {
    scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap()
}

/// As it is recorded with slices, and without them.
fn both(scenario: &Scenario, seed: u64) -> [Outcome; 2] {
    let changed = |change: &dyn Fn(&mut Recording)| {
        run_changed(scenario, seed, |recording| {
            thin(recording, HZ, seed);
            change(recording);
        })
    };
    [changed(&|_| ()), changed(&sum)]
}

/// Means over seeds of what `of` says of recordings with slices and without.
fn means(name: &str, of: fn(&Outcome) -> f64) -> [f64; 2] {
    let scenario = scenario(name);
    let runs: Vec<[Outcome; 2]> = (1..=SEEDS).map(|seed| both(&scenario, seed)).collect();
    assert!(runs.iter().flatten().all(|outcome| outcome.imbalance_uj == 0), "{name}");
    [0, 1].map(|which| runs.iter().map(|run| of(&run[which])).sum::<f64>() / SEEDS as f64)
}

fn sorted(mut totals: Vec<CpuTotals>) -> Vec<CpuTotals> {
    totals.iter_mut().for_each(|of_cpu| of_cpu.of.sort_by_key(|(who, ns)| (format!("{who:?}"), *ns)));
    totals
}

/// Between two readings each process has the time that it had, to the nanosecond, however it is laid out.
#[test]
fn times_between_readings_stay() {
    for name in ["B11", "B11b"] {
        let _ran = run_changed(&scenario(name), 1, |recording| {
            thin(recording, HZ, 1);
            let before = sorted(totals(recording));
            sum(recording);
            let after = sorted(totals(recording));
            assert!(before.len() > 500);
            let times = |totals: &[CpuTotals]| {
                totals.iter().map(|of_cpu| (of_cpu.cpu, of_cpu.of.clone())).collect::<Vec<_>>()
            };
            assert!(times(&before) == times(&after), "{name}");
        });
    }
}

/// Processes beside strangers have their energy as with slices, within one part in a hundred.
#[test]
fn processes_have_their_energy() {
    for name in some_or_all(&["B11", "B11b"]) {
        let [with, without] = means(name, |outcome| outcome.process);
        println!("{name}: processes {with:.2} % from the truth with slices, {without:.2} % without");
        assert!(without < with + 1.0, "{name}: {with} {without}");
    }
}

/// What functions lose, scenario by scenario; prints a table.
#[test]
#[ignore = "slow: cargo xtask test --all"]
fn functions_lose_little() {
    println!(
        "scenario: total variation of functions, worst function, worst process, in percent, with slices and without"
    );
    for name in ["B1", "B2", "B4a", "B4b", "B5", "B6", "B11", "B11b", "B12b"] {
        let [tv, worst, process] =
            [(|o| o.tv) as fn(&Outcome) -> f64, |o| o.worst, |o| o.process].map(|of| means(name, of));
        println!("{name}: {tv:.1?} {worst:.1?} {process:.1?}");
        assert!(tv[1] < tv[0] + 5.0, "{name}");
    }
}

/// Sums of so many milliseconds at least: an agent takes those of a second where it has thousands of tasks to
/// ask.
const LENGTHS: [u64; 3] = [0, 200, 1_000];

/// Percent from the truth by each length: functions together, and the worst process.
fn by_length(name: &str) -> [[f64; 2]; 3] {
    LENGTHS.map(|ms| {
        let run = |seed| {
            run_changed(&scenario(name), seed, |recording| {
                thin(recording, HZ, seed);
                sum_over(recording, Duration::from_millis(ms));
            })
        };
        let runs: Vec<Outcome> = (1..=SEEDS).map(run).collect();
        assert!(runs.iter().all(|outcome| outcome.imbalance_uj == 0), "{name}");
        [|o: &Outcome| o.tv, |o: &Outcome| o.process]
            .map(|of| runs.iter().map(of).sum::<f64>() / SEEDS as f64)
    })
}

/// Processes that pause for parts of a second have their energy by sums of a second, though power is read ten
/// times in each: before such readings were left out the worst was 48 % off.
#[test]
fn longer_sums_keep_processes() {
    let [short, _, long] = by_length("B4b");
    assert!(long[1] < short[1] + 3.0, "{short:?} {long:?}");
}

/// What longer sums cost, scenario by scenario; prints a table.
#[test]
#[ignore = "slow: cargo xtask test --all"]
fn longer_sums_lose_little() {
    println!("sums of {LENGTHS:?} ms: percent from the truth, functions together and the worst process");
    for name in ["B1", "B2", "B4a", "B4b", "B5", "B6", "B11", "B11b", "B12b"] {
        let found = by_length(name);
        println!("{name}: {found:.1?}");
        assert!(found[2][1] < found[0][1] + 15.0, "{name}");
    }
}
