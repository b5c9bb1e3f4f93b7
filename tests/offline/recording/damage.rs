//! What a cut or a hole leaves of a recording: all that is before it, up to a second. Leaves out single bytes (`file.rs`).

use super::records::{reading, records, sample, slice};
use energy_trace_attribution::attribute;
use energy_trace_model::ids::DomainId;
use energy_trace_model::profile::Options;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::{RecordingWriter, read};
use energy_trace_model::recording::record::Record;
use energy_trace_sentences::recorded;
use std::fs;

const SECOND: u64 = 1_000_000_000;
/// Time of the recording that is damaged, in which every 5 ms a sample, a reading and slices come.
const LASTS: u64 = 10 * SECOND;
const STEP: u64 = SECOND / 200;

/// The bytes of a recording of ten seconds, of which each takes as many.
fn whole() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = RecordingWriter::over(file.reopen().unwrap(), file.path()).unwrap();
    let first = records().into_iter().take_while(|record| !matches!(record, Record::Slices(_)));
    let mut write = |record: Record| writer.write(&record).unwrap();
    first.for_each(&mut write);
    for at in (0..LASTS).step_by(STEP as usize) {
        let slices = (0..10).map(|i| slice(at + i * STEP / 10, at + (i + 1) * STEP / 10));
        write(Record::Slices(slices.collect()));
        write(Record::Samples(vec![sample(at)]));
        write(Record::Readings(DomainId::new(0), vec![reading(at, at / 10_000)]));
    }
    writer.finish().unwrap();
    fs::read(file.path()).unwrap()
}

fn read_bytes(bytes: &[u8]) -> Recording {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    read(file.path()).unwrap()
}

/// Holds against each other what a damaged recording has and what it should: all before that place, up to a second.
fn expect_up_to(recording: &Recording, part: f64) {
    let due = (part * LASTS as f64) as u64;
    let due = due.saturating_sub(SECOND) / STEP;
    let (samples, readings) = (recording.samples.len(), recording.readings.values().flatten().count());
    assert!(samples as u64 >= due, "{samples} samples of {due} at {part}");
    assert!(readings as u64 >= due, "{readings} readings of {due} at {part}");
    let said = recorded(&recording.diagnostics[0]);
    assert!(said.contains(" s after the start"), "{said}");
    let ledger = attribute(recording, &Options::default()).ledger;
    assert_eq!(ledger.len(), 1);
    for row in ledger {
        assert_eq!(row.imbalance().as_uj(), 0, "at {part}");
    }
}

/// A recording that is cut at any place keeps what is before it up to a second, and what it keeps grows with its length.
#[test]
fn a_cut_recording_keeps_what_was_before() {
    let whole = whole();
    assert!((100_000..400_000).contains(&whole.len()), "{} bytes: as a short run's", whole.len());
    let mut before = 0;
    for fiftieth in (2..50).step_by(2) {
        let recording = read_bytes(&whole[..whole.len() * fiftieth / 50]);
        expect_up_to(&recording, fiftieth as f64 / 50.0);
        assert!(recording.samples.len() >= before);
        before = recording.samples.len();
    }
}

/// A hole of zeros, as a crash leaves it, costs what comes after it and nothing before.
#[test]
fn a_hole_keeps_what_was_before() {
    let whole = whole();
    for fiftieth in [5, 20, 49] {
        let at = whole.len() * fiftieth / 50;
        let mut holed = whole.clone();
        holed[at..at + 100].fill(0);
        expect_up_to(&read_bytes(&holed), fiftieth as f64 / 50.0);
    }
}
