//! Recordings without slices (`--slices no`): what is lost of the energy of processes and functions beside recordings with them.
//!
//! Both have ten readings and 19 samples a second, and truth of their own. Leaves out how sums lie between readings (`model`, `totals`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::CpuTotals;
use energy_trace_scenarios::cpu::measure::{Outcome, run_changed};
use energy_trace_scenarios::cpu::scenarios::{self, Scenario};
use energy_trace_scenarios::cpu::summed::{sum, thin, totals};

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
    for name in ["B11", "B11b"] {
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
