//! How long the attribution takes, and how much memory, by the number of samples: eight threads on eight CPUs and 64 on 32, that rest now and then, sampled at
//! 499 Hz.
//!
//! `cargo bench -p energy-trace-attribution --bench size [-- SAMPLES…]` (default: 100,000 and 1,000,000). Links the pure packages alone. Leaves out
//! reading a recording from its file, and how right the result is (`accuracy`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(dead_code, reason = "the worlds are shared with the accuracy benchmark")]

#[path = "../scenarios/worlds/mod.rs"]
mod worlds;

use energy_trace_attribution::attribute;
use energy_trace_model::profile::Options;
use energy_trace_tests::random::Random;
use std::time::Instant;
use worlds::SECOND;
use worlds::recording::{Recorder, record};

const HZ: u64 = 499;
/// Worlds, their threads, and about how many samples each gives in a second.
const SHAPES: [(&str, u64, u64); 2] = [("W6b", 8, 2_500), ("W6c", 64, 14_500)];

fn main() {
    let asked: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![100_000, 1_000_000] } else { asked };
    println!(
        "| samples | threads | slices | readings | columns | seconds | samples/s | peak memory beyond the recording, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for samples in sizes {
        SHAPES.iter().for_each(|shape| measure(shape, samples));
    }
}

/// Prints a line of the table.
fn measure(&(name, threads, a_second): &(&str, u64, u64), samples: u64) {
    let Some(entry) = worlds::catalogue::all().into_iter().find(|entry| entry.name == name) else { return };
    let mut world = (entry.world)(&mut Random(1));
    world.length = samples * SECOND / a_second;
    let recording = record(world, Recorder::usual(HZ), 1).recording;
    // Forgets the peak of making the recording.
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        println!("the peak is that of the whole program: {error}");
    }
    let before = resident_mib();
    let began = Instant::now();
    let profile = attribute(&recording, &Options::default());
    let seconds = began.elapsed().as_secs_f64();
    let readings: usize = recording.readings.values().map(Vec::len).sum();
    let columns: usize = profile.certainty.domains.iter().map(|domain| domain.columns.len()).sum();
    let (samples, slices) = (recording.samples.len(), recording.slices.len());
    let memory = peak_mib().saturating_sub(before);
    let rate = samples as f64 / seconds;
    println!(
        "| {samples} | {threads} | {slices} | {readings} | {columns} | {seconds:.2} | {rate:.0} | {memory} |"
    );
}

/// A line of /proc/self/status in MiB; 0 where there is none.
fn status_mib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().find_map(|word| word.parse::<u64>().ok()));
    kib.unwrap_or(0) / 1024
}

fn resident_mib() -> u64 {
    status_mib("VmRSS:")
}

fn peak_mib() -> u64 {
    status_mib("VmHWM:")
}
