//! Records of a small recording, one of each kind that a file may hold. Leaves out what is done with them (`recording/file.rs`).

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{
    BackgroundKey, CpuId, DomainId, FrameId, Pid, ProcessKey, SensorId, SocketId, StackId, ThreadKey, Tid,
};
use energy_trace_model::recording::record::{
    BackgroundProcess, CallCount, CallPlace, CallTimes, CounterValue, CpuOwner, Domain, DomainClass, Frame,
    FrameKind, Frequencies, Header, Input, InputRole, InputSize, InputSizes, Jitter, Name, Origin, Part,
    Process, Project, PublicName, Quality, Reading, Record, Sample, SampleEvent, Scope, Sensor, SensorCost,
    SensorQuantity, SensorReadings, SensorValue, Slice, SourceId, StackNode, StackStatus, Summary, Thread,
    Unsampled,
};
use energy_trace_model::units::{KiloHertz, MicroJoules, MilliCelsius};

pub(crate) fn header() -> Header {
    Header {
        version: "0.1.0".to_owned(),
        command: vec!["python".to_owned(), "train.py".to_owned()],
        anchor: WallAnchor { ktime: KtimeNs::from_ns(1_000), unix_ns: 1_700_000_000_000_000_000 },
        kernel: "6.18.0".to_owned(),
        cpu_model: "a CPU".to_owned(),
        sockets: [(CpuId::new(0), SocketId::new(0))].into(),
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        system_wide: false,
        sources: vec![],
    }
}

pub(crate) fn domain() -> Domain {
    let origin = Origin::Counter {
        source: SourceId::Powercap,
        place: "/sys/class/powercap/intel-rapl:0".to_owned(),
        max_range: Some(MicroJoules::from_uj(262_143_328_850)),
        quality: Quality::Measured,
    };
    Domain {
        id: DomainId::new(0),
        name: "package-0".to_owned(),
        class: DomainClass::Package,
        scope: Scope::Socket(SocketId::new(0)),
        origin,
        idle: None,
    }
}

fn sensor() -> Sensor {
    Sensor {
        id: SensorId::new(0),
        part: Part::Cpu(0),
        quantity: SensorQuantity::Temperature,
        place: "coretemp Package id 0".into(),
        limit: Some(MilliCelsius::from_mc(100_000)),
    }
}

pub(crate) fn frame(name: &str) -> Frame {
    Frame {
        kind: FrameKind::Native,
        name: name.to_owned(),
        module: "libm.so".to_owned(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address: 0x1234,
    }
}

pub(crate) fn slice(start: u64, end: u64) -> Slice {
    let who = CpuOwner::Target(ThreadKey::new(0));
    Slice { cpu: CpuId::new(0), who, start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end) }
}

pub(crate) fn sample(at: u64) -> Sample {
    Sample {
        at: KtimeNs::from_ns(at),
        cpu: CpuId::new(0),
        thread: ThreadKey::new(0),
        stack: StackId::new(1),
        status: StackStatus::Complete,
    }
}

pub(crate) fn unseen(start: u64, end: u64) -> Unsampled {
    Unsampled { cpu: CpuId::new(0), start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end) }
}

pub(crate) fn clock(at: u64, khz: u32) -> Record {
    let of = vec![(CpuId::new(1), KiloHertz::from_khz(khz))];
    Record::Frequencies(Frequencies { at: KtimeNs::from_ns(at), of })
}

pub(crate) fn reading(at: u64, uj: u64) -> Reading {
    Reading { at: KtimeNs::from_ns(at), value: CounterValue::MicroJoules(uj) }
}

/// One of everything, with lists that are out of order as they come from several CPUs.
pub(crate) fn records() -> Vec<Record> {
    let process = Process {
        key: ProcessKey::new(0),
        pid: Pid::new(42),
        parent: None,
        name: "python".to_owned(),
        command: vec![],
        runtime: None,
    };
    let thread = Thread {
        key: ThreadKey::new(0),
        process: ProcessKey::new(0),
        tid: Tid::new(42),
        name: "python".to_owned(),
    };
    let name = Name { name: "sin".to_owned(), file: "sin.c".to_owned(), line: 7 };
    vec![
        Record::Header(header()),
        Record::Domain(domain()),
        Record::Process(process),
        Record::Thread(thread),
        Record::Frame(FrameId::new(0), frame("main")),
        Record::Frame(FrameId::new(1), frame("")),
        Record::Stack(StackId::new(0), StackNode { parent: None, frame: FrameId::new(0) }),
        Record::Stack(StackId::new(1), StackNode { parent: Some(StackId::new(0)), frame: FrameId::new(1) }),
        Record::Slices(vec![slice(5_000, 6_000), slice(2_000, 3_000)]),
        Record::Samples(vec![sample(5_500), sample(2_500)]),
        Record::Readings(DomainId::new(0), vec![reading(1_000, 5), reading(9_000, 80)]),
        Record::Name(FrameId::new(1), name),
        Record::Cores(vec![vec![CpuId::new(0), CpuId::new(1)]]),
        clock(2_000, 800_000),
        clock(1_000, 3_000_000),
        Record::Unsampled(vec![unseen(5_600, 5_700), unseen(2_100, 2_200)]),
        Record::Background(BackgroundProcess {
            key: BackgroundKey::new(0),
            pid: Pid::new(77),
            name: "cc1".to_owned(),
        }),
        Record::Slices(vec![Slice {
            who: CpuOwner::Background(BackgroundKey::new(0)),
            ..slice(6_000, 7_000)
        }]),
    ]
    .into_iter()
    .chain(records_beside())
    .chain([Record::Summary(Summary {
        start: KtimeNs::from_ns(1_000),
        end: KtimeNs::from_ns(9_000),
        ..Summary::default()
    })])
    .collect()
}

/// What is known beside stacks and energy.
fn records_beside() -> Vec<Record> {
    vec![
        Record::PublicNames(vec![PublicName {
            module: "torch.nn.modules.conv".into(),
            name: "Conv2d".into(),
            public: "torch.nn.Conv2d".into(),
        }]),
        Record::Calls(vec![CallCount {
            frame: FrameId::new(1),
            calls: 7,
            nested: 2,
            times: Some(CallTimes { p50_ns: 1, p95_ns: 2, p99_ns: 3 }),
        }]),
        Record::Sensor(sensor()),
        Record::SensorReadings(SensorReadings {
            at: KtimeNs::from_ns(3_000),
            of: vec![(SensorId::new(0), Some(SensorValue::Temperature(MilliCelsius::from_mc(-1_500))))],
        }),
        Record::SensorReadings(SensorReadings {
            at: KtimeNs::from_ns(2_000),
            of: vec![(SensorId::new(0), None)],
        }),
        Record::SensorCost(SensorCost { rounds: 2, failed: 1, cpu_ns: 9 }),
        Record::Project(Project { folder: "/x".into(), committed_s: Some(-5), ..Project::default() }),
        Record::InputSizes(vec![InputSizes {
            frame: FrameId::new(1),
            caller: Some(CallPlace { file: "/x/train.py".into(), line: 3 }),
            inputs: vec![Input {
                name: "x".into(),
                role: InputRole::Argument,
                of_type: "numpy.ndarray".into(),
                size: InputSize::Array { shape: vec![Some(2), None], dtype: "int8".into(), bytes: None },
            }],
            seen: 4,
        }]),
    ]
}
