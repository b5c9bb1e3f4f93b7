//! A recording that is read while it is written: windows have together what the file has, whatever pieces its bytes come in.

use super::records::{domain, frame, header, reading};
use energy_trace_attribution::attribute;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::profile::Options;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::{RecordingWriter, read};
use energy_trace_model::recording::live::IncrementalReader;
use energy_trace_model::recording::record::{
    CpuOwner, CpuTotals, Process, Record, Sample, Slice, StackNode, StackStatus, Summary, Thread,
};
use energy_trace_model::units::MicroJoules;
use std::fs::{self, File};

const MS: u64 = 1_000_000;
const END_MS: u64 = 1_000;

const fn at(ms: u64) -> KtimeNs {
    KtimeNs::from_ns(ms * MS)
}

/// A second of a thread that runs for 30 of each 40 ms and is told of when it stops, at 10 W, sampled each 10 ms.
fn records() -> Vec<Record> {
    let mut start = header();
    start.anchor.ktime = at(0);
    let name = "t".to_owned();
    let process = Process {
        key: ProcessKey::new(0),
        pid: Pid::new(7),
        parent: None,
        name: name.clone(),
        command: vec![],
        runtime: None,
    };
    let thread = Thread { key: ThreadKey::new(0), process: ProcessKey::new(0), tid: Tid::new(7), name };
    let mut records = vec![
        Record::Header(start),
        Record::Domain(domain()),
        Record::Process(process),
        Record::Thread(thread),
        Record::Frame(FrameId::new(0), frame("work")),
        Record::Stack(StackId::new(0), StackNode { parent: None, frame: FrameId::new(0) }),
    ];
    for step in 0..=END_MS / 10 {
        let now = step * 10;
        records.push(Record::Readings(DomainId::new(0), vec![reading(now * MS, 5_000_000 + now * 10_000)]));
        let (cpu, thread) = (CpuId::new(0), ThreadKey::new(0));
        if step % 4 == 3 {
            let who = CpuOwner::Target(thread);
            records.push(Record::Slices(vec![Slice { cpu, who, start: at(now - 30), end: at(now) }]));
        } else if now < END_MS {
            let (stack, status) = (StackId::new(0), StackStatus::Complete);
            records.push(Record::Samples(vec![Sample { at: at(now), cpu, thread, stack, status }]));
        }
    }
    let (start, end) = (at(0), at(END_MS));
    records.push(Record::Summary(Summary { start, end, ..Summary::default() }));
    records
}

/// The same second without slices: what was summed comes each 40 ms.
fn summed() -> Vec<Record> {
    let sum = |record| match record {
        Record::Slices(slices) => {
            let one = |slice: &Slice| CpuTotals {
                cpu: slice.cpu,
                start: KtimeNs::from_ns(slice.start.as_ns().saturating_sub(10 * MS)),
                end: slice.end,
                of: vec![(slice.who, slice.end.ns_since(slice.start))],
            };
            Record::CpuTotals(slices.iter().map(one).collect())
        }
        other => other,
    };
    records().into_iter().map(sum).collect()
}

fn file_of(records: &[Record]) -> (Vec<u8>, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let mut writer = RecordingWriter::over(File::create(&path).unwrap(), &path).unwrap();
    for record in records {
        writer.write(record).unwrap();
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    (fs::read(&path).unwrap(), read(&path).unwrap())
}

fn file() -> (Vec<u8>, Recording) {
    file_of(&records())
}

/// Time, samples and joules of all windows are those of the whole, and each window balances.
#[test]
fn windows_are_the_whole() {
    assert_windows_are_the_whole(file());
}

/// So they are where CPU time was summed, and where it lies within a sum is made up once.
#[test]
fn windows_of_sums_are_the_whole() {
    let (bytes, whole) = file_of(&summed());
    assert!(whole.totals.is_empty() && whole.slices.len() > 70, "{}", whole.slices.len());
    assert_windows_are_the_whole((bytes, whole));
}

fn assert_windows_are_the_whole((bytes, whole): (Vec<u8>, Recording)) {
    let whole = attribute(&whole, &Options::default());
    for piece in [1, 7, 100, 4_096, bytes.len()] {
        let mut live = IncrementalReader::default();
        let (mut time, mut samples, mut measured) = (0, 0, MicroJoules::ZERO);
        let mut add = |window: Recording| {
            let profile = attribute(&window, &Options::default());
            assert!(profile.ledger.iter().all(|row| row.imbalance() == MicroJoules::ZERO));
            time += profile.rows.iter().map(|row| row.time_ns).sum::<u64>();
            samples += profile.rows.iter().map(|row| row.samples).sum::<u64>();
            measured += profile.ledger[0].measured;
        };
        let mut next = 150;
        for piece in bytes.chunks(piece) {
            live.push(piece).unwrap();
            // What ended up to 50 ms ago has been told of.
            while live.last() > at(next + 50) {
                add(live.window(at(next)).unwrap());
                next += 150;
            }
        }
        add(live.window(at(END_MS)).unwrap());
        assert!(live.window(at(END_MS)).is_none());
        assert_eq!(time, whole.rows.iter().map(|row| row.time_ns).sum::<u64>(), "pieces of {piece}");
        assert_eq!(samples, whole.rows.iter().map(|row| row.samples).sum::<u64>());
        // Each window rounds at most one microjoule where it cuts an interval.
        let apart = measured - whole.ledger[0].measured;
        assert!(apart.as_uj().abs() <= 8, "{apart}");
    }
}

/// What is no recording, and what is damaged, is an error and no panic.
#[test]
fn nonsense_is_refused() {
    assert!(IncrementalReader::default().push(&[7; 4_096]).is_err());
    let (mut bytes, _) = file();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    let mut live = IncrementalReader::default();
    let found = bytes.chunks(64).try_for_each(|piece| live.push(piece));
    assert!(found.is_err());
}
