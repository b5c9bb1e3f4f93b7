//! The accuracy benchmark's table is true: what stands in the repository is what the attribution of today gives.
//!
//! `cargo xtask bench accuracy --write` makes the table anew; look at the difference before it is committed. Here the first seeds of each
//! scenario are run again and compared number by number, and the table is compared with what the recorded numbers say.

use energy_trace_attribution::attribute;
use energy_trace_model::profile::Options;
use energy_trace_scenarios::cpu::engine::blind_of;
use energy_trace_scenarios::cpu::measure::{self, Outcome};
use energy_trace_scenarios::cpu::recording;
use energy_trace_scenarios::cpu::scenarios::{self, Asked};
use energy_trace_scenarios::cpu::table;
use energy_trace_sentences::diagnostic;
use energy_trace_tests::random::Random;
use std::collections::BTreeMap;
use std::path::Path;

/// Seeds that are run again; the table has more.
const AGAIN: usize = 1;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn recorded() -> BTreeMap<String, Vec<Outcome>> {
    serde_json::from_str(&fixture("accuracy_table.json")).unwrap()
}

/// The page has the table that the recorded outcomes make, scenario by scenario, and no other.
#[test]
fn table_is_what_was_recorded() {
    let outcomes = recorded();
    let lines = scenarios::all()
        .iter()
        .map(|scenario| table::line(scenario, &outcomes[scenario.name]) + "\n")
        .collect::<String>();
    assert_eq!(kept_table("scenarios"), format!("{}{lines}", table::HEAD));
}

/// The table that `bench accuracy --write` left on a page of `docs/results`, below the line that says when and where.
pub(crate) fn kept_table(page: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(page).with_extension("md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, rest) = text.split_once("<!-- cargo xtask bench accuracy --write -->\n").expect("a block");
    let (block, _) = rest.split_once("<!-- end -->").expect("its end");
    let (measured, table) = block.split_once("\n\n").expect("a line above the table");
    let is_whole =
        measured.starts_with("Measured ") && measured.contains(" at `") && measured.contains(" on ");
    assert!(is_whole, "no date, commit or machine: {measured}");
    table.to_owned()
}

/// Two numbers are one but for the last digits, which another machine's logarithm may change.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 + 0.01 * other.abs()
}

/// Scenarios that every test run repeats: one that a run shows, one that it does not, and one with delegated work; the others are slow.
const QUICK: [&str; 3] = ["B1", "B3b", "B13a"];

/// Attribution gives today what was recorded; energy and every row sum to the microjoule.
fn repeat(wanted: impl Fn(&str) -> bool) {
    let outcomes = recorded();
    let scenarios: Vec<_> = scenarios::all().into_iter().filter(|scenario| wanted(scenario.name)).collect();
    assert!(scenarios.len() >= QUICK.len());
    for scenario in scenarios {
        for before in outcomes[scenario.name].iter().take(AGAIN) {
            let now = measure::run(&scenario, before.seed);
            assert_eq!(now.imbalance_uj, 0, "{}", scenario.name);
            let pairs = [
                (now.tv, before.tv),
                (now.worst, before.worst),
                (now.time_tv, before.time_tv),
                (now.time_worst, before.time_worst),
                (now.process, before.process),
                (now.width, before.width),
                (now.right_parent, before.right_parent),
            ];
            let close = pairs.iter().all(|&(now, before)| same(now, before));
            assert!(close, "{}: {now:?} was {before:?}; `cargo xtask bench accuracy --write`", scenario.name);
        }
    }
}

#[test]
fn recorded_outcomes_are_still_true() {
    repeat(|name| QUICK.contains(&name));
}

#[test]
#[ignore = "slow: cargo xtask test --all"]
fn all_recorded_outcomes_are_still_true() {
    repeat(|name| !QUICK.contains(&name));
}

/// Flagged in 95 % of runs, with bounds that hold the truth in 95 %.
fn flags(name: &str, all: &[Outcome]) {
    let flagged = all.iter().filter(|outcome| outcome.bounded > 0).count();
    assert!(flagged * 100 >= all.len() * 95, "{name}: {flagged}");
    let (bounded, inside): (u64, u64) =
        all.iter().fold((0, 0), |sum, o| (sum.0 + o.bounded, sum.1 + o.in_bounds));
    assert!(inside * 100 >= bounded * 95, "{name}: {inside} of {bounded}");
}

/// Intervals that hold the truth in at least so many percent of a scenario's functions. How many there are, and how many of them do.
fn covers(name: &str, all: &[Outcome], least: u64) -> (u64, u64) {
    let (functions, covered): (u64, u64) =
        all.iter().fold((0, 0), |sum, o| (sum.0 + o.functions, sum.1 + o.covered));
    assert!(covered * 100 >= functions * least, "{name}: {covered} of {functions}");
    (functions, covered)
}

/// The goals that hold, held: conservation everywhere; where a run shows joules, worst functions and processes; where it does not, flags
/// and bounds with the truth in them; never much worse than a split by CPU time.
#[test]
fn goals_that_hold() {
    let outcomes = recorded();
    let mut coverage = vec![];
    for scenario in scenarios::all() {
        let all = &outcomes[scenario.name];
        let median = |of: fn(&Outcome) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        assert!(all.len() >= 20 && all.iter().all(|outcome| outcome.imbalance_uj == 0), "{}", scenario.name);
        assert!(median(|o| o.tv) <= median(|o| o.time_tv) + 1.0, "{}", scenario.name);
        match scenario.asked {
            Asked::Identifiable => {
                assert!(median(|o| o.process) <= 2.0, "{}", scenario.name);
                // These are flagged where they are off: samples do not show the order of functions of 0.5 ms (B2), the counter's
                // millisecond hides which function a short phase was (B6), and power follows a frequency that nobody recorded (B7).
                let (usual, most) = match scenario.name {
                    "B2" => (8.0, 15.0),
                    "B6" => (5.0, 9.0),
                    "B7" => (3.5, 8.5),
                    _ => (3.0, 7.0),
                };
                let worst = all.iter().map(|outcome| outcome.worst).fold(0.0, f64::max);
                assert!(median(|o| o.worst) <= usual, "{}: {}", scenario.name, median(|o| o.worst));
                assert!(worst <= most, "{}: {worst}", scenario.name);
                coverage.push(covers(scenario.name, all, 90));
            }
            Asked::Parent { percent } => {
                let least = all.iter().map(|outcome| outcome.right_parent).fold(100.0, f64::min);
                assert!(least >= percent, "{}: {least}", scenario.name);
                assert!(median(|o| o.process) <= 2.0, "{}", scenario.name);
                coverage.push(covers(scenario.name, all, 90));
            }
            Asked::Unidentifiable => flags(scenario.name, all),
            // Nothing says which of two calls is to be charged: bounds are asked beside intervals.
            Asked::Hostile if scenario.name == "B13c" => {
                flags(scenario.name, all);
                coverage.push(covers(scenario.name, all, 90));
            }
            Asked::Hostile => coverage.push(covers(scenario.name, all, 90)),
        }
    }
    let (functions, covered) = coverage.iter().fold((0, 0), |sum, (f, c)| (sum.0 + f, sum.1 + c));
    assert!(covered * 100 >= functions * 90, "{covered} of {functions}");
}

/// Frequencies that are recorded are of use: functions' joules are nearer to the truth with them than without, also where each CPU has its own.
#[test]
fn recorded_frequencies_help() {
    let outcomes = recorded();
    let worst = |name: &str| outcomes[name].iter().map(|outcome| outcome.worst).fold(0.0, f64::max);
    let tv = |name: &str| outcomes[name].iter().map(|outcome| outcome.tv).sum::<f64>();
    for name in ["B7b", "B7c"] {
        assert!(worst(name) < worst("B7") && tv(name) < tv("B7"), "{name}");
    }
}

/// Joules of a socket up to a moment.
fn joules_at(track: &[(u64, f64)], at: u64) -> f64 {
    let next = track.partition_point(|point| point.0 < at).clamp(1, track.len() - 1);
    let ((from, before), (to, after)) = (track[next - 1], track[next]);
    before + (after - before) * (at - from) as f64 / (to - from) as f64
}

/// Two wraps that nobody saw, and a counter that begins anew after an outage, are gaps with a reason; outside of them the ledger has what each
/// socket spent, to a thousandth, and nothing of what was spent inside.
#[test]
fn outages_are_gaps() {
    let reasons = [("B8b", "package-0", "turned over unseen"), ("B9b", "package-1", "the counter went back")];
    for (name, domain, reason) in reasons {
        let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap();
        let world = (scenario.world)(&mut Random(5));
        let (_, tracks) = world.integrate(&[]);
        let mut recording = recording::of(&world);
        world.observe(&mut recording, &tracks, 5);
        let profile = attribute(&recording, &Options::default());
        let named = |text: &str| text.contains(domain) && text.contains(reason);
        assert!(
            profile.diagnostics.iter().any(|d| d.code() == "no-reading" && named(&diagnostic(d))),
            "{name}"
        );
        let blind = blind_of(&recording);
        assert_eq!(blind.len(), 1, "{name}");
        for ((socket, track), row) in (0..).zip(&tracks).zip(&profile.ledger) {
            let unseen: f64 = blind
                .iter()
                .filter(|(of, ..)| *of == socket)
                .map(|&(_, from, to)| joules_at(track, to) - joules_at(track, from))
                .sum();
            assert!(socket != blind[0].0 || unseen > 100.0, "{name}: nothing was hidden");
            let seen = joules_at(track, world.length) - unseen;
            let error = row.measured.as_joules() / seen - 1.0;
            assert!(error.abs() < 1e-3, "{name}, socket {socket}: {} of {seen} J", row.measured);
        }
    }
}
