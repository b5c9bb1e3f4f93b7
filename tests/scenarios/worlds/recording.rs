//! A world and how it is recorded: from programs on CPUs to the recording that the attribution gets, and the truth beside it.
//!
//! Leaves out which worlds there are (`catalogue.rs`).

use super::counter::Counter;
use super::draw::normal;
use super::measure::Truth;
use super::power::{Physics, integrate};
use super::sampler::{Sampler, slices, unsampled};
use super::schedule::{Piece, Steal, Task, Who, schedule};
use super::stacks::Stacks;
use super::{BOOT, MS, SECOND};
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{
    BackgroundKey, CpuId, DomainId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid,
};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    BackgroundProcess, Domain, DomainClass, Header, IdleBaseline, IdleOrigin, Jitter, Origin, Process,
    Quality, SampleEvent, Scope, SourceId, Summary, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_tests::random::Random;

/// Programs begin so long after the recording does.
const BEGIN: u64 = 50 * MS;
/// Readings go on for so long after the recording's time.
const AFTER: u64 = 60 * MS;

/// Programs on a machine.
pub struct World {
    pub stacks: Stacks,
    pub tasks: Vec<Task>,
    pub cpus: u32,
    /// In nanoseconds.
    pub length: u64,
    pub physics: Physics,
    pub counter: Counter,
    pub steals: Vec<Steal>,
    pub lost_percent: u64,
}

impl World {
    /// A quiet machine with one socket, for half a minute.
    pub fn new(cpus: u32) -> Self {
        Self {
            stacks: Stacks::default(),
            tasks: vec![],
            cpus,
            length: 30 * SECOND,
            physics: Physics::default(),
            counter: Counter::default(),
            steals: vec![],
            lost_percent: 0,
        }
    }
}

/// How a world is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    /// Samples per CPU and second.
    pub hz: u64,
    /// How far the sampling period strays, in periods.
    pub jitter: f64,
    /// Readings of the counter per second; `None`: the world's own.
    pub read_hz: Option<u64>,
    /// How far the time between readings strays, in parts of itself.
    pub read_jitter: f64,
}

impl Recorder {
    /// As the product records.
    pub const fn usual(hz: u64) -> Self {
        Self { hz, jitter: 0.5, read_hz: None, read_jitter: 0.5 }
    }

    /// A counter as it is read.
    pub fn counter(self, counter: Counter) -> Counter {
        let read_hz = self.read_hz.unwrap_or(counter.read_hz);
        Counter { read_hz, read_jitter: self.read_jitter, ..counter }
    }

    /// The jitter of its samples, as a recording's header has it.
    pub fn header_jitter(self) -> Jitter {
        Jitter::from_permille((self.jitter * 1_000.0) as u16)
    }
}

/// What really happened, and what was recorded of it.
pub struct Recorded {
    pub recording: Recording,
    pub truth: Truth,
    /// What really ran.
    pub pieces: Vec<Piece>,
    /// The stack in `truth` of each path.
    pub stack_of: Vec<StackId>,
}

/// Runs a world and records it.
pub fn record(world: World, recorder: Recorder, seed: u64) -> Recorded {
    let World { stacks, tasks, cpus, length, physics, counter, steals, lost_percent } = world;
    let mut random = Random(seed ^ 0x0b5e_7ed0);
    let counter = recorder.counter(counter);
    let end = length + AFTER;
    let pieces = schedule(tasks, cpus, &steals, BEGIN, end, seed);
    let spent = integrate(&pieces, cpus, stacks.count(), &physics, length, end, &mut random);
    let sampler = Sampler { hz: recorder.hz, jitter: recorder.jitter, lost_percent };
    let samples = sampler.samples(&pieces, &stacks, &mut random);
    let slices = slices(&pieces);
    let truth = Truth {
        stacks: (0..).zip(&spent.paths).map(|(path, joules)| (stacks.stack(path, 0), *joules)).collect(),
    };
    let idle = physics.idle_watts * (1.0 + 0.3 * physics.idle_noise * normal(&mut random));
    let recording = Recording {
        header: header(cpus, recorder),
        domains: vec![package(idle, counter.range_uj())],
        readings: [(DomainId::new(0), counter.readings(&spent.track, end, &mut random))].into(),
        processes: vec![process()],
        threads: threads(&pieces),
        frames: stacks.frames.clone(),
        stacks: stacks.nodes.clone(),
        background: strangers(&pieces),
        unsampled: unsampled(&slices, &samples, recorder.hz),
        samples,
        slices,
        summary: Some(Summary {
            start: KtimeNs::from_ns(BOOT),
            end: KtimeNs::from_ns(BOOT + length),
            ..Summary::default()
        }),
        ..Recording::default()
    };
    let stack_of = truth.stacks.iter().map(|(stack, _)| *stack).collect();
    Recorded { recording, truth, pieces, stack_of }
}

fn header(cpus: u32, recorder: Recorder) -> Header {
    Header {
        version: "virtual".to_owned(),
        command: vec![],
        anchor: WallAnchor { ktime: KtimeNs::from_ns(BOOT), unix_ns: 0 },
        kernel: String::new(),
        cpu_model: String::new(),
        sockets: (0..cpus).map(|cpu| (CpuId::new(cpu), SocketId::new(0))).collect(),
        sample_hz: recorder.hz as u32,
        jitter: recorder.header_jitter(),
        sample_event: Some(SampleEvent::CpuClock),
        system_wide: false,
        sources: vec![],
    }
}

/// The socket; its idle power was measured for a second before the start.
pub fn package(idle_watts: f64, range_uj: u64) -> Domain {
    Domain {
        id: DomainId::new(0),
        name: "package-0".to_owned(),
        class: DomainClass::Package,
        scope: Scope::Socket(SocketId::new(0)),
        origin: Origin::Counter {
            source: SourceId::Powercap,
            place: String::new(),
            max_range: Some(MicroJoules::from_uj(range_uj as i64)),
            quality: Quality::Measured,
        },
        idle: Some(IdleBaseline {
            power: MicroWatts::from_uw((idle_watts * 1e6) as u64),
            origin: IdleOrigin::Measured { over_ns: SECOND, busy_percent: Some(1) },
        }),
    }
}

fn process() -> Process {
    Process {
        key: ProcessKey::new(0),
        pid: Pid::new(40),
        parent: None,
        name: "python3".to_owned(),
        command: vec![],
        runtime: None,
    }
}

fn threads(pieces: &[Piece]) -> Vec<Thread> {
    let number = |piece: &Piece| match piece.who {
        Who::Thread(thread) => Some(thread + 1),
        Who::Stranger(_) => None,
    };
    let count = pieces.iter().filter_map(number).max().unwrap_or(0);
    let thread = |key| Thread {
        key: ThreadKey::new(key),
        process: ProcessKey::new(0),
        tid: Tid::new(40 + key),
        name: format!("t{key}"),
    };
    (0..count).map(thread).collect()
}

fn strangers(pieces: &[Piece]) -> Vec<BackgroundProcess> {
    let number = |piece: &Piece| match piece.who {
        Who::Stranger(key) => Some(key + 1),
        Who::Thread(_) => None,
    };
    let count = pieces.iter().filter_map(number).max().unwrap_or(0);
    let stranger = |key| BackgroundProcess {
        key: BackgroundKey::new(key),
        pid: Pid::new(900 + key),
        name: format!("s{key}"),
    };
    (0..count).map(stranger).collect()
}
