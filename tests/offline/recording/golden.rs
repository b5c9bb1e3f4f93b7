//! Golden files of the formats: a recording of everything, and its JSON report. What they hold is a promise to readers.
//!
//! `BLESS=1 cargo test -p test-programs --test offline recording::golden` writes those of a new version; a recording
//! of a version that has one stays as it is, and so do the keys of its JSON. Leaves out what the numbers mean (`attribution/`).

use super::file::write_all;
use super::records::{frame, records};
use energy_trace_attribution::attribute;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, WorkId};
use energy_trace_model::profile::Options;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::format::FORMAT;
use energy_trace_model::recording::record::{
    CalledOn, CounterValue, CpuOwner, CpuTotals, Domain, DomainClass, Frame, FrameKind, GpuBusy, GpuMeter,
    GpuMeterKind, GpuUse, GpuWait, Host, InstalledPackage, KernelTier, LaunchStacks, Launched, Launches,
    Library, Name, Origin, Reading, Record, Scope, Span, StackNode, Wait, Wake, WorkCounter, WorkFailure,
    WorkReading, WorkSource, WorkUnits,
};
use energy_trace_report::json::{self, JsonOptions, SCHEMA};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many kinds of record there are.
const KINDS: usize = 45;

const fn at(ns: u64) -> KtimeNs {
    KtimeNs::from_ns(ns)
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/golden/format").join(name)
}

fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Every kind of record at least once.
fn every_kind() -> Vec<Record> {
    let mut all = records();
    let end = all.pop();
    all.extend(more_of_the_program());
    all.extend(of_a_gpu());
    all.extend(end);
    all
}

fn counter(name: &str, source: WorkSource) -> WorkCounter {
    WorkCounter { name: name.to_owned(), source }
}

fn looked(ns: u64, value: Result<WorkUnits, WorkFailure>) -> WorkReading {
    WorkReading { at: at(ns), within_ns: 9, value }
}

fn more_of_the_program() -> Vec<Record> {
    let (thread, stack) = (ThreadKey::new(0), StackId::new(0));
    let name = |name: &str| Name { name: name.to_owned(), file: "f.c".to_owned(), line: 3 };
    let installed = InstalledPackage { folder: "/opt/lib/".to_owned(), package: "yaml".to_owned() };
    vec![
        Record::Host(Host { name: "node7".to_owned(), boot: "b".to_owned() }),
        Record::Slept(at(9_500)),
        Record::Inlined(FrameId::new(0), vec![name("put_in")]),
        Record::Renamed(FrameId::new(1), at(5_000), name("cos")),
        Record::CalledOn(FrameId::new(1), CalledOn::Function("fit".to_owned())),
        Record::Library(Library { path: "libm.so".to_owned(), build_id: "00ff".to_owned() }),
        Record::Installed(vec![installed]),
        Record::Work(WorkId::new(0), counter("token", WorkSource::File("/run/tokens".to_owned()))),
        Record::Work(WorkId::new(1), counter("call", WorkSource::Calls("sin".to_owned()))),
        Record::WorkReadings(
            WorkId::new(0),
            vec![looked(3_000, Err(WorkFailure::Missing)), looked(2_000, Ok(WorkUnits::whole(4)))],
        ),
        Record::WorkReadings(WorkId::new(0), vec![looked(1_500, Ok(WorkUnits::ZERO))]),
        Record::Waits(vec![Wait { at: at(3_000), thread, stack }]),
        Record::Wakes(vec![Wake { at: at(5_000), thread, waker: thread }]),
        Record::PoolLoop(FrameId::new(0)),
        Record::ControlGroup(ProcessKey::new(0), "/system.slice/train.service".to_owned()),
        Record::Rank(3),
        Record::Span(thread, at(2_000), Span { trace: 0x4bf9, id: 0xf067 }),
        Record::CpuTotals(vec![CpuTotals {
            cpu: CpuId::new(1),
            start: at(2_000),
            end: at(3_000),
            of: vec![(CpuOwner::Target(thread), 400), (CpuOwner::Other, 70)],
        }]),
    ]
}

fn of_a_gpu() -> Vec<Record> {
    let (gpu, kernel, stack) = (DomainId::new(1), FrameId::new(2), StackId::new(2));
    let thread = ThreadKey::new(0);
    let origin = Origin::measured("nvml", "GPU-7".to_owned(), None);
    let reading = |ns, uj| Reading { at: at(ns), value: CounterValue::MicroJoules(uj) };
    let meter = GpuMeter {
        kind: GpuMeterKind::Counter,
        tick_ns: Some(100_000_000),
        lag_ns: None,
        window_ns: None,
        agreement_permille: Some(1_002),
    };
    let work = vec![Launched { thread, stack, count: 2, amount: 64 }];
    let busy = GpuBusy {
        device: 0,
        thread,
        stack,
        launched: at(2_100),
        from: at(2_200),
        until: at(2_900),
        count: 2,
        busy_ns: 600,
    };
    let tier = KernelTier { pid: 42, cupti: 26, launches: 2, ran: 2, whole: true, ..KernelTier::default() };
    vec![
        Record::Domain(Domain {
            id: gpu,
            name: "gpu-0".to_owned(),
            class: DomainClass::Gpu,
            scope: Scope::Gpu(0),
            origin,
            idle: None,
        }),
        Record::GpuMeter(gpu, GpuMeter { kind: GpuMeterKind::Utilization, ..meter }),
        Record::GpuMeter(gpu, meter),
        Record::Readings(gpu, vec![reading(1_000, 0), reading(9_000, 70)]),
        Record::GpuUses(
            gpu,
            vec![GpuUse { from: at(1_000), to: at(9_000), pid: Pid::new(42), sm_percent: 9 }],
        ),
        Record::Frame(kernel, Frame { kind: FrameKind::Gpu, ..frame("gemm") }),
        Record::Stack(stack, StackNode { parent: Some(StackId::new(0)), frame: kernel }),
        Record::Launches(Launches { device: 0, from: at(2_100), until: at(2_110), work }),
        Record::GpuWaits(vec![GpuWait { thread, device: 0, from: at(2_300), until: at(2_900) }]),
        Record::GpuBusy(vec![busy]),
        Record::KernelTier(tier),
        Record::LaunchStacks(LaunchStacks { own: 1, thinned: 1, none: 0 }),
    ]
}

/// The payloads of a file's chunks, one after the other: where a chunk ends hangs on the clock.
fn payloads(file: &[u8]) -> Vec<u8> {
    let mut rest = &file[13 + usize::from(file[12])..];
    let mut all = Vec::new();
    while let Some(length) = rest.get(1..5).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())) {
        let end = 9 + length as usize;
        all.extend(&rest[9..end]);
        rest = &rest[end..];
    }
    all
}

/// What is written stays as it is for as long as the format keeps its number: no byte of a record may change without
/// a new one. A golden file is never written anew.
#[test]
fn bytes_change_with_the_number() {
    let folder = tempfile::tempdir().unwrap();
    let (path, golden) = (folder.path().join("r.data"), golden(&format!("recording-{FORMAT}.data")));
    write_all(&path, &every_kind());
    if is_blessing() && !golden.exists() {
        fs::copy(&path, &golden).unwrap();
    }
    let [written, golden] = [&path, &golden].map(|path| {
        payloads(
            &fs::read(path).unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 writes it", path.display())),
        )
    });
    assert!(written == golden, "the bytes of a recording have changed: docs/file-format.md, last section");
}

/// The golden recording has every kind of record.
#[test]
fn every_kind_is_there() {
    let seen: HashSet<_> = every_kind().iter().map(std::mem::discriminant).collect();
    assert_eq!(seen.len(), KINDS);
}

/// Every recording of this major version is read whole.
#[test]
fn earlier_formats_are_read() {
    let major = format!("recording-{}.", FORMAT.major);
    let files = fs::read_dir(golden("")).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(&major));
    let read: Vec<_> = files.map(|entry| read(&entry.path()).unwrap()).collect();
    assert!(!read.is_empty());
    for recording in read {
        assert!(
            recording.summary.is_some() && recording.diagnostics.is_empty(),
            "{:?}",
            recording.diagnostics
        );
        assert_eq!((recording.samples.len(), recording.gpu.busy.len()), (2, 1));
    }
}

/// The keys of a JSON value, each with its path.
fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            let path = format!("{path}.{key}");
            keys(value, &path, into);
            into.insert(path);
        }),
        Value::Array(array) => array.iter().for_each(|value| keys(value, &format!("{path}[]"), into)),
        _ => (),
    }
}

/// The JSON of the golden recording. Its keys stay for as long as the schema keeps its number, whatever is blessed.
#[test]
fn json_changes_with_its_schema() {
    let recording = read(&golden(&format!("recording-{FORMAT}.data"))).unwrap();
    let profile = attribute(&recording, &Options::default());
    let mut text = Vec::new();
    json::write(&mut text, &profile, &JsonOptions { pretty: true, ..JsonOptions::default() }).unwrap();
    let path = golden(&format!("{}.json", SCHEMA.trim_start_matches("energy-trace/").replace('/', "-")));
    let known = fs::read(&path).ok();
    if let Some(known) = &known {
        let [known, now] = [known, &text].map(|json| {
            let mut all = BTreeSet::new();
            keys(&serde_json::from_slice(json).unwrap(), "", &mut all);
            all
        });
        let (gone, new) = (known.difference(&now), now.difference(&known));
        let changed: Vec<&String> = gone.chain(new).collect();
        assert!(changed.is_empty(), "keys of {SCHEMA} came or went; docs/contract.md, Stable: {changed:?}");
    }
    if is_blessing() {
        fs::write(&path, &text).unwrap();
    }
    let known =
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 writes it", path.display()));
    assert!(known == text, "{} differs; BLESS=1 takes:\n{}", path.display(), String::from_utf8_lossy(&text));
}
