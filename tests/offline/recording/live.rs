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
use std::collections::HashSet;
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

/// A process that runs for some milliseconds in this window, with its thread and a sample.
fn short_lived(number: u32, from: u64) -> Vec<Record> {
    let (key, thread, name) = (ProcessKey::new(number), ThreadKey::new(number), "p".repeat(100));
    let pid = Pid::new(1_000 + number % 500);
    let parent = number.checked_sub(1).map(ProcessKey::new);
    let process = Process { key, pid, parent, name: name.clone(), command: vec![], runtime: None };
    let (cpu, stack, status) = (CpuId::new(0), StackId::new(0), StackStatus::Complete);
    let who = CpuOwner::Target(thread);
    vec![
        Record::Process(process),
        Record::Thread(Thread { key: thread, process: key, tid: Tid::new(pid.get()), name }),
        Record::ControlGroup(key, format!("/g{number}")),
        Record::Samples(vec![Sample { at: at(from), cpu, thread, stack, status }]),
        Record::Slices(vec![Slice { cpu, who, start: at(from), end: at(from + 1) }]),
    ]
}

/// A hundred windows in which processes come and go: tables stay as small as what lives, all of the time
/// and energy is there, and each process is told of once, by a number that nobody else has. What comes from
/// who was forgotten is counted, and its time is others'.
#[test]
fn what_has_ended_is_forgotten() {
    const EACH: u32 = 50;
    const WINDOWS: u64 = 120;
    let mut start = header();
    start.anchor.ktime = at(0);
    let mut opening = vec![Record::Header(start), Record::Domain(domain())];
    opening.extend([Record::Frame(FrameId::new(0), frame("work")), node(0)]);
    let mut live = IncrementalReader::default();
    push(&mut live, &opening);
    let (mut time, mut told, mut most, mut most_code) = (0, 0, 0, 0);
    for window in 0..WINDOWS {
        let (from, first) = (window * 100, u32::try_from(window).unwrap() * EACH);
        push(
            &mut live,
            &[Record::Readings(DomainId::new(0), vec![reading(from * MS, 5_000_000 + from * 10_000)])],
        );
        // The recorder forgets code now and then, and gives out its numbers again.
        let code = u32::try_from(window % 20).unwrap();
        let name = format!("work {}", window / 20);
        push(&mut live, &[Record::Frame(FrameId::new(code), frame(&name)), node(code)]);
        let of = (0..EACH).flat_map(|number| short_lived(first + number, from + u64::from(number)));
        push(&mut live, &of.collect::<Vec<_>>());
        let cut = live.window(at(from + 90)).unwrap();
        time += attribute(&cut, &Options::default()).rows.iter().map(|row| row.time_ns).sum::<u64>();
        let new = live.new_processes();
        assert!(
            new.iter().zip(first..).all(|(new, number)| new.number == number) && new.len() == EACH as usize
        );
        told += new.len() as u64;
        let numbers: Vec<_> = cut.processes.iter().map(|process| live.number_of(process.key)).collect();
        let names = cut.samples.iter().map(|sample| &cut.frames_of(sample.stack).next().unwrap().1.name);
        assert!(names.clone().all(|found| *found == name), "{name}: {:?}", names.collect::<HashSet<_>>());
        assert!(numbers.is_sorted() && numbers.last() == Some(&Some(first + EACH - 1)));
        // The last one lives on.
        live.forget_ended(&|number| number != first + EACH - 1);
        let [processes, threads, frames, stacks] = live.known();
        (most, most_code) = (most.max(processes + threads), most_code.max(frames.max(stacks)));
    }
    let all = WINDOWS * u64::from(EACH);
    assert_eq!((told, time, most, most_code), (all, all * MS, 2, 20));
    let (old, next) = (short_lived(7, WINDOWS * 100), live.strays());
    push(&mut live, &old[3..]);
    assert_eq!((next, live.strays()), (0, 1));
    let cut = live.window(at(WINDOWS * 100 + 90)).unwrap();
    assert!(
        cut.samples.is_empty() && cut.slices.iter().any(|slice| slice.who == CpuOwner::Other),
        "{:?}",
        cut.slices
    );
}

/// A stack of one frame, both of this number.
const fn node(number: u32) -> Record {
    Record::Stack(StackId::new(number), StackNode { parent: None, frame: FrameId::new(number) })
}

/// Records as they come.
fn push(live: &mut IncrementalReader, records: &[Record]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let mut writer = RecordingWriter::over(File::create(&path).unwrap(), &path).unwrap();
    let opening = fs::read(&path).unwrap().len();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.flush().unwrap();
    let bytes = fs::read(&path).unwrap();
    let is_first = matches!(records.first(), Some(Record::Header(_)));
    live.push(&bytes[if is_first { 0 } else { opening }..]).unwrap();
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
