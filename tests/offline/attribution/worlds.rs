//! The simulator of the worlds keeps the laws of physics and of recorders, and estimators that are told half of the truth find the rest.
//!
//! Leaves out how well the attribution does in these worlds (`worlds_table.rs`).

use energy_trace_attribution::attribute;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::recording::record::{CounterValue, CpuOwner, Origin};
use energy_trace_scenarios::worlds::catalogue::{Entry, all};
use energy_trace_scenarios::worlds::floors::{with_true_times, with_true_watts};
use energy_trace_scenarios::worlds::measure::errors_of;
use energy_trace_scenarios::worlds::real::{Chip, vary};
use energy_trace_scenarios::worlds::recording::{Recorded, Recorder};
use energy_trace_scenarios::worlds::schedule::{Bound, Piece, Who};
use energy_trace_scenarios::worlds::table::{median, most};
use energy_trace_scenarios::worlds::{MS, SECOND, record, run};
use energy_trace_tests::random::Random;
use std::collections::BTreeSet;

const USUAL: Recorder = Recorder::usual(499);

fn entry(name: &str) -> Entry {
    all().into_iter().find(|entry| entry.name == name).unwrap()
}

/// What the counter shows between its first and its last reading in joules, wraps undone.
fn metered(recorded: &Recorded) -> f64 {
    let recording = &recorded.recording;
    let Origin::Counter { max_range: Some(range), .. } = &recording.domains[0].origin else { unreachable!() };
    let values: Vec<i64> = recording
        .readings
        .values()
        .next()
        .unwrap()
        .iter()
        .map(|reading| reading.value)
        .map(|value| match value {
            CounterValue::MicroJoules(uj) => uj as i64,
            CounterValue::Failed => unreachable!(),
        })
        .collect();
    let step = |pair: &[i64]| (pair[1] - pair[0]).rem_euclid(range.as_uj() + 1);
    values.windows(2).map(step).sum::<i64>() as f64 / 1e6
}

/// Without strangers and shared parts, the counter shows the truth and idle power, however it lags and wraps.
#[test]
fn counters_show_what_was_spent() {
    for name in ["W1c", "W5f", "W6e", "W7d", "W10a", "W10b", "W10d"] {
        for seed in 0..2 {
            let recorded = record(&entry(name), USUAL, seed);
            let readings = recorded.recording.readings.values().next().unwrap();
            let seconds = readings[readings.len() - 1].at.ns_since(readings[0].at) as f64 / 1e9;
            let truth: f64 = recorded.truth.stacks.iter().map(|(_, joules)| joules).sum();
            let expected = truth + 20.0 * seconds;
            let error = metered(&recorded) / expected - 1.0;
            assert!(error.abs() < 0.01, "{name}, seed {seed}: {error}");
        }
    }
}

/// Some runs see a wrap, and some do not.
#[test]
fn counters_turn_over() {
    let wraps = |seed| {
        let recorded = record(&entry("W1c"), USUAL, seed);
        let readings = recorded.recording.readings.values().next().unwrap().clone();
        let value = |value| if let CounterValue::MicroJoules(uj) = value { uj } else { 0 };
        readings.windows(2).any(|pair| value(pair[1].value) < value(pair[0].value))
    };
    let seen: BTreeSet<bool> = (0..6).map(wraps).collect();
    assert_eq!(seen.len(), 2);
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// Real counters move each millisecond, the one of Ice Lake with 0.27 ms of standard deviation, the other with 0.04, as published recordings of
/// them do; an update that is late makes the next step shorter.
#[test]
fn recorded_counters_move_as_they_did() {
    for (chip, deviation) in [(Chip::IceLake, 0.27), (Chip::Broadwell, 0.042)] {
        let mut random = Random(7);
        let updates: Vec<f64> =
            (0..10_000).map(|number| chip.update(number, SECOND, &mut random) as f64 / MS as f64).collect();
        let steps: Vec<f64> = updates.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (mean, found) = moments(&steps);
        assert!(
            (mean - 1.0).abs() < 0.01 && (found / deviation - 1.0).abs() < 0.2,
            "{chip:?}: {mean}, {found}"
        );
        let product = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
        let correlation = steps.windows(2).map(product).sum::<f64>() / steps.len() as f64 / found.powi(2);
        assert!((-0.55..-0.35).contains(&correlation), "{chip:?}: {correlation}");
    }
}

/// What runs draws its own power on average and some percent more or less from one moment to the next; no time is lost.
#[test]
fn recorded_power_varies() {
    let piece = |from, to, path| Piece {
        cpu: 0,
        from: from * MS,
        to: to * MS,
        who: Who::Thread(0),
        path,
        watts: 20.0,
        bound: Bound::Compute,
        stolen: false,
    };
    let pieces: Vec<Piece> = (0..2_000).map(|k| piece(k * 30, (k + 1) * 30, (k % 2) as u32)).collect();
    for seed in 0..4 {
        let varied = vary(&pieces, &mut Random(seed));
        assert!(varied.windows(2).all(|pair| pair[0].to == pair[1].from) && varied.len() > pieces.len());
        assert_eq!((varied[0].from, varied[varied.len() - 1].to), (0, 60_000 * MS));
        let (mean, deviation) = moments(&varied.iter().map(|piece| piece.watts).collect::<Vec<f64>>());
        assert!((mean / 20.0 - 1.0).abs() < 0.01 && (0.1..1.0).contains(&deviation), "{mean}, {deviation}");
    }
}

/// Samples come at the rate that was asked for, in the slices of their thread; slices of one CPU follow each other.
#[test]
fn recorders_see_what_ran() {
    for name in ["W3", "W6b", "W7a"] {
        let recorded = record(&entry(name), USUAL, 1);
        let recording = &recorded.recording;
        let target = recording.slices.iter().filter(|slice| matches!(slice.who, CpuOwner::Target(_)));
        let seconds: f64 = target.map(|slice| slice.end.ns_since(slice.start) as f64 / 1e9).sum();
        let expected = 499.0 * seconds;
        let off = recording.samples.len() as f64 - expected;
        assert!(off.abs() < 4.0 * expected.sqrt(), "{name}: {off} of {expected}");
        for sample in &recording.samples {
            let inside = |slice: &&energy_trace_model::recording::record::Slice| {
                slice.cpu == sample.cpu && slice.start <= sample.at && sample.at < slice.end
            };
            let slice = recording.slices.iter().find(inside).unwrap();
            assert_eq!(slice.who, CpuOwner::Target(sample.thread), "{name}");
        }
        for pair in recording.slices.windows(2).filter(|pair| pair[0].cpu == pair[1].cpu) {
            assert!(pair[0].end <= pair[1].start, "{name}");
        }
        let last = recording.samples.iter().map(|sample| sample.at.as_ns()).max().unwrap();
        assert!(last > energy_trace_scenarios::worlds::BOOT + 29 * SECOND, "{name}");
    }
}

/// Where a CPU is taken away no sample comes, and half a second of it is marked as unseen.
#[test]
fn pauses_are_silent() {
    let recorded = record(&entry("W7e"), USUAL, 1);
    let stolen: Vec<_> = recorded.pieces.iter().filter(|piece| piece.stolen).collect();
    assert!(stolen.len() >= 4);
    let at = |ns| energy_trace_scenarios::worlds::BOOT + ns;
    for piece in stolen {
        let inside = |ns: u64| at(piece.from) <= ns && ns < at(piece.to);
        assert!(!recorded.recording.samples.iter().any(|sample| inside(sample.at.as_ns())));
    }
    assert!(recorded.recording.unsampled.len() >= 4);
}

/// A loop with samples that tell much: known times give the joules nearly, and so do known watts.
#[test]
fn half_of_the_truth_finds_the_rest() {
    let recorded = record(&entry("W1c"), USUAL, 0);
    for (shown, limit) in [(with_true_times(&recorded), 5.0), (with_true_watts(&recorded), 5.0)] {
        let errors = errors_of(&shown, &recorded.recording, &recorded.truth);
        assert!(errors.len() >= 3 && most(&errors) < limit, "{errors:?}");
        assert!(median(errors) > 0.0);
    }
}

/// The stages of a loop of 10 ms are hidden at 99 Hz; those that the report names show them: each that has 5 % of the energy is within
/// 5 %, and not flagged.
#[test]
fn rates_that_are_named_show_a_short_loop() {
    let entry = entry("W1a");
    let usual = Recorder::usual(99);
    let profile = attribute(&record(&entry, usual, 0).recording, &Options::default());
    let rates = |found: &Diagnostic| match found {
        Diagnostic::ShortLoop { hz, power_hz, .. } => Some((u64::from(*hz), power_hz.map(u64::from))),
        _ => None,
    };
    let (hz, read_hz) = profile.diagnostics.iter().find_map(rates).expect("rates");
    assert!(run(&entry, usual, 0).flagged > 0.99);
    let shown = run(&entry, Recorder { read_hz, ..Recorder::usual(hz) }, 0);
    assert!(
        shown.flagged < 0.2 && shown.worst_function() < 5.0,
        "{} {}",
        shown.flagged,
        shown.worst_function()
    );
}
