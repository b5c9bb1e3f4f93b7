//! Writes what the fuzz targets start from: `seeds FOLDER` makes a folder for each target with small inputs of the right form.
//!
//! They are made here, of literals and of this machine's own libraries, so that no binary files lie in the repository. Each begins with the
//! bytes that the target's parameters take (numbers as they are, a zero for an empty list), and ends with the data.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{
    CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, BackgroundKey, ThreadKey, Tid,
};
use energy_trace_model::recording::file::RecordingWriter;
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, Frame, FrameKind, Header, Library, Name, CpuOwner, Origin, Process,
    Quality, Reading, Record, Jitter, SampleEvent, Sample, Scope, Slice, SourceId, StackNode, BackgroundProcess, Summary, Thread, Unsampled, StackStatus,
};
use energy_trace_unwind::elf::{ElfFacts, read_eh_frame};
use energy_trace_cupti::wire;
use energy_trace_fuzz::before_records;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const LIBRARIES: [&str; 3] = [
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/lib/x86_64-linux-gnu/libdl.so.2",
    "/lib/x86_64-linux-gnu/libm.so.6",
];
/// Bytes of a library that are of use: its headers, notes and first tables.
const MOST: usize = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("seeds FOLDER")?);
    let put = |target: &str, name: &str, parameters: &[u8], data: &[u8]| -> Result<(), Box<dyn Error>> {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("seed-{name}")), [parameters, data].concat())?;
        Ok(())
    };
    for (name, path) in ["a", "b", "c"].iter().zip(LIBRARIES) {
        let Ok(bytes) = fs::read(path) else { continue };
        put("elf_file", name, &[0; 16], &bytes[..bytes.len().min(MOST)])?;
        let file = fs::File::open(path)?;
        if let (Ok(Some(section)), Ok(facts)) = (read_eh_frame(&file), ElfFacts::read(&file, &[])) {
            let parameters = [section.svma.to_le_bytes(), facts.base.to_le_bytes()].concat();
            put("eh_frame", name, &parameters, &section.data[..section.data.len().min(4000)])?;
        }
    }
    let tables: [(&str, &[u8]); 3] = [
        ("lnotab", &[6, 1, 8, 2, 4, 0xfe, 0, 0x7f]),
        ("ranges", &[2, 0, 8, 1, 6, 0x80, 4, 0xff]),
        ("locations", &[0x80, 1, 2, 0xd8, 4, 0x10, 0xf3, 1, 2, 3, 4, 0xe8, 5, 0xf8]),
    ];
    for (name, table) in tables {
        put("line_tables", name, &[10, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0], table)?;
    }
    put("maps", "a", &[0; 8], MAPS.as_bytes())?;
    put("perf_map", "a", &[0], b"1000 20 py::f:/t.py\n0x10 8 jit_conv.12\nnonsense\n1008 8 g\n")?;
    put("jitdump", "a", &[1, 0, 0], &dump())?;
    put("wire", "a", &[0; 8], &[0; 64])?;
    put("wire", "sample", &[0; 8], &[&[1, 0, 0, 0][..], &[0; 300]].concat())?;
    for (target, parameters) in [("code_object", 17), ("debug_offsets", 17)] {
        let words: Vec<u8> = (0..400_u64).flat_map(|word| (word * 8 % 200).to_le_bytes()).collect();
        put(target, "a", &vec![0; parameters], &words)?;
    }
    for target in ["native_walk", "python_walk"] {
        let words: Vec<u8> = (0..200_u64).flat_map(|word| (word * 8).to_le_bytes()).collect();
        put(target, "a", &[], &words)?;
    }
    put("replay", "a", &[], b"time_s,package-0_J,dram_W\n0,1.5,2\n1.25,3,2.5\n# remark\n2,4,3\n")?;
    put("replay", "wall", &[], b"unix_s,package-0_uJ\n1700000000.5,1\n1700000001,200\n")?;
    put("powercap", "a", &[0, 0], b"package-0\n0")?;
    put("cupti_socket", "a", &[], &frames())?;
    let facts = postcard_like();
    (0..5).try_for_each(|kind| put("channel", &format!("{kind}"), &[kind, 1], &facts))?;
    resolver(&put)?;
    let recording = recording(&folder)?;
    put("recording", "raw", &[1], &recording)?;
    put("recording", "records", &[0], &recording[before_records()..])?;
    put("report", "records", &[], &recording[before_records()..])
}

const MAPS: &str = "55d0c0001000-55d0c0005000 r-xp 00001000 fe:00 1234   /usr/bin/my program\n\
    7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n\
    7f0000100000-7f0000110000 r-xp 00002000 fe:00 99    /tmp/gone.so (deleted)\n\
    7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0    [vdso]\n";

/// Frames of an injected library: who it is, a name, a tick, the end.
fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = wire::Frame::Hello { pid: 7, cupti: 130_000, trouble: "no CUPTI".into() };
    let tick = wire::Frame::Tick(wire::Tick { at_ns: 1, launches: 2, ..wire::Tick::default() });
    for frame in [hello, wire::Frame::Name(1, "gemm".into()), tick, wire::Frame::End] {
        wire::encode(&frame, &mut bytes);
    }
    bytes
}

/// Bytes such as an answer of the resolver has: a choice, lengths, text, numbers.
fn postcard_like() -> Vec<u8> {
    [&[0, 3][..], b"abc", &[1, 0x80, 1, 0, 0, 2, 5, 6]].concat()
}

/// For the resolver: the parameters lie before the bytes or behind them, so these are but near to what it takes.
fn resolver(
    put: &impl Fn(&str, &str, &[u8], &[u8]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    for kind in 0..7 {
        let library = fs::read(LIBRARIES[1]).unwrap_or_default();
        let data = match kind {
            5 => b"1000 20 py::f:/t.py\n0x10 8 jit_conv.12\n".to_vec(),
            6 => [&b"DTiJ"[..], &[1, 0, 0, 0, 40, 0, 0, 0], &[0; 28], &dump()].concat(),
            _ => library[..library.len().min(MOST)].to_vec(),
        };
        put("resolver", &format!("{kind}"), &[&[kind, 0][..], &[0; 21]].concat(), &data)?;
    }
    Ok(())
}

/// Records of a jitdump: code loaded, loaded over, and moved.
fn dump() -> Vec<u8> {
    let record = |kind: u32, at: u64, words: &[u64], name: &[u8]| {
        let body = [words.iter().flat_map(|word| word.to_ne_bytes()).collect(), name.to_vec()].concat();
        let size = 16 + body.len() as u32;
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &at.to_ne_bytes(), &body].concat()
    };
    let load = |at, number, name| record(0, at, &[1 << 32 | 1, 0x1000, 0x1000, 0x20, number], name);
    let moved = record(1, 30, &[1 << 32 | 1, 0x10, 0x1000, 0x10, 0x20, 1], b"");
    [load(10, 1, b"f\0code"), load(20, 2, b"g.3\0code"), moved].concat()
}

/// A whole recording, with a record of nearly every kind.
fn recording(folder: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let path = folder.join("recording.data");
    let mut writer = RecordingWriter::over(fs::File::create(&path)?, &path)?;
    for record in records() {
        writer.write(&record)?;
    }
    writer.finish()?;
    let bytes = fs::read(&path)?;
    fs::remove_file(&path)?;
    Ok(bytes)
}

fn records() -> Vec<Record> {
    let (at, name) =
        (KtimeNs::from_ns, |name: &str, line| Name { name: name.into(), file: "f.c".into(), line });
    let frame = |kind, name: &str| Frame {
        kind,
        name: name.into(),
        module: "/lib/l.so".into(),
        file: String::new(),
        line: 3,
        first_line: 1,
        address: 0x1234,
    };
    let node = |parent, frame| StackNode { parent, frame: FrameId::new(frame) };
    let (process, thread, stack) = (ProcessKey::new(0), ThreadKey::new(0), StackId::new(1));
    let slice = |start, end| Slice {
        cpu: CpuId::new(0),
        who: CpuOwner::Target(thread),
        start: at(start),
        end: at(end),
    };
    let sample = |ns| Sample { at: at(ns), cpu: CpuId::new(0), thread, stack, status: StackStatus::Complete };
    let reading = |ns, uj| Reading { at: at(ns), value: CounterValue::MicroJoules(uj) };
    vec![
        Record::Header(header()),
        Record::Domain(domain()),
        Record::Process(Process {
            key: process,
            pid: Pid::new(7),
            parent: None,
            name: "p".into(),
            command: vec![],
            runtime: None,
        }),
        Record::Thread(Thread { key: thread, process, tid: Tid::new(7), name: "t".into() }),
        Record::Frame(FrameId::new(0), frame(FrameKind::Python, "f")),
        Record::Frame(FrameId::new(1), frame(FrameKind::Native, "")),
        Record::Stack(StackId::new(0), node(None, 0)),
        Record::Stack(stack, node(Some(StackId::new(0)), 1)),
        Record::Slices(vec![slice(10, 1000), slice(1500, 3000)]),
        Record::Samples(vec![sample(500), sample(2000)]),
        Record::Background(BackgroundProcess { key: BackgroundKey::new(0), pid: Pid::new(9), name: "s".into() }),
        Record::Slices(vec![Slice { who: CpuOwner::Background(BackgroundKey::new(0)), ..slice(1000, 1400) }]),
        Record::Unsampled(vec![Unsampled { cpu: CpuId::new(0), start: at(1600), end: at(1900) }]),
        Record::Readings(DomainId::new(0), vec![reading(0, 5), reading(4000, 900)]),
        Record::Name(FrameId::new(1), name("g", 2)),
        Record::Inlined(FrameId::new(1), vec![name("h", 3)]),
        Record::Renamed(FrameId::new(1), at(1500), name("i", 4)),
        Record::Library(Library { path: "/lib/l.so".into(), build_id: "0011".into() }),
        Record::Summary(Summary { start: at(0), end: at(4000), ..Summary::default() }),
    ]
}

fn header() -> Header {
    let at = KtimeNs::from_ns;
    Header {
        version: "0".into(),
        command: vec!["c".into()],
        anchor: WallAnchor { ktime: at(5), unix_ns: 5 },
        kernel: "6".into(),
        cpu_model: "m".into(),
        sockets: BTreeMap::from([(CpuId::new(0), SocketId::new(0))]),
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::Cycles),
        system_wide: false,
        sources: vec![],
    }
}

fn domain() -> Domain {
    Domain {
        id: DomainId::new(0),
        name: "package-0".into(),
        class: DomainClass::Package,
        scope: Scope::Machine,
        origin: Origin::Counter {
            source: SourceId::Powercap,
            place: "p".into(),
            max_range: None,
            quality: Quality::Measured,
        },
        idle: None,
    }
}
