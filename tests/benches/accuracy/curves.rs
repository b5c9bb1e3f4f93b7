//! Error against reading rate and against sampling rate, in four worlds, beside two estimators that are told half of the truth.
//!
//! Leaves out what reading and sampling cost: that is measured on a machine (`cargo xtask bench cost`, `sources`).

use crate::options::Options;
use crate::parallel;
use energy_trace_scenarios::worlds::catalogue::{Entry, all};
use energy_trace_scenarios::worlds::floors::{with_true_times, with_true_watts};
use energy_trace_scenarios::worlds::measure::{Held, errors_of, measure};
use energy_trace_scenarios::worlds::record;
use energy_trace_scenarios::worlds::recording::Recorder;
use energy_trace_scenarios::worlds::table::{median, most};

/// A loop, the same leaf under all of a loop, a tree, a crowded CPU.
const WORLDS: [&str; 4] = ["W1e", "W2b", "W3", "W7a"];
const HEAD: &str = "\
| world | readings/s | samples/s | period | nodes ≥ 1 %: median (most) | with true times | with true watts |
|---|---|---|---|---|---|---|";

struct Line {
    entry: Entry,
    recorder: Recorder,
    seeds: Vec<u64>,
}

/// Errors in percent: shown, with true times, with true watts.
type Errors = [Vec<f64>; 3];

/// Prints both curves.
pub(crate) fn show(options: &Options) {
    println!("{HEAD}");
    let entries: Vec<Entry> =
        all().into_iter().filter(|entry| WORLDS.contains(&entry.name) && options.wants(entry.name)).collect();
    let mut lines = vec![];
    for entry in entries {
        let line = |recorder| Line {
            entry,
            recorder,
            seeds: options.seeds(4).filter(|s| !entry.is_held_out(*s)).collect(),
        };
        lines.extend(recorders().into_iter().map(line));
    }
    parallel::each(&lines, |line| &line.seeds, one, print);
}

fn recorders() -> Vec<Recorder> {
    let read = |hz| Recorder { read_hz: Some(hz), ..Recorder::usual(499) };
    let sampled = |hz, jitter| Recorder { jitter, read_hz: Some(100), ..Recorder::usual(hz) };
    let by_rate = [99, 299, 499, 999].map(|hz| [sampled(hz, 0.5), sampled(hz, 0.0)]);
    [20, 50, 100, 200, 500, 1000].map(read).into_iter().chain(by_rate.into_iter().flatten()).collect()
}

fn one(line: &Line, seed: u64) -> Errors {
    let recorded = record(&line.entry, line.recorder, seed);
    let (recording, truth) = (&recorded.recording, &recorded.truth);
    [
        measure(recording, truth, seed).errors(Held::error),
        errors_of(&with_true_times(&recorded), recording, truth),
        errors_of(&with_true_watts(&recorded), recording, truth),
    ]
}

fn print(line: &Line, outcomes: &[Errors]) {
    let both = |which: usize| {
        let all: Vec<f64> = outcomes.iter().flat_map(|errors| errors[which].iter().copied()).collect();
        format!("{:.2} ({:.1})", median(all.clone()), most(&all))
    };
    let Recorder { hz, jitter, read_hz, .. } = line.recorder;
    let period = if jitter > 0.0 { "± 50 %" } else { "even" };
    println!(
        "| {} | {} | {hz} | {period} | {} | {} | {} |",
        line.entry.name,
        read_hz.unwrap_or_default(),
        both(0),
        both(1),
        both(2)
    );
}
