//! A simulated world of functions with known watts: what its counters show, what a timer samples, what `sched_switch` sees.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, CpuOwner, Domain, DomainClass, Frame, FrameKind, Header, IdleBaseline, IdleOrigin, Jitter,
    Origin, Process, Quality, Reading, Sample, SampleEvent, Scope, Slice, SourceId, StackNode, StackStatus,
    Summary, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_tests::random::Random;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;
const BOOT: u64 = 5_000 * SECOND;
const IDLE_WATTS: f64 = 20.0;
/// Watts of the three functions, by number.
pub(crate) const FUNCTIONS: [f64; 3] = [5.0, 15.0, 40.0];

/// What one CPU did in a stretch of time: a function of the target's thread, or a stranger.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) cpu: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// `None` is a stranger.
    pub(crate) function: Option<usize>,
    pub(crate) thread: u32,
    pub(crate) watts: f64,
}

/// A world in time order of its stretches on each CPU. CPU and socket have the same number, except that CPU 2 is on socket 0.
pub(crate) struct World {
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) length: u64,
    pub(crate) sockets: u32,
}

const fn socket_of(cpu: u32) -> u32 {
    cpu % 2
}

impl World {
    /// Exact joules of each function.
    pub(crate) fn truth(&self) -> [f64; 3] {
        let mut joules = [0.0; 3];
        for stretch in &self.stretches {
            if let Some(function) = stretch.function {
                joules[function] += stretch.watts * (stretch.to - stretch.from) as f64 / 1e9;
            }
        }
        joules
    }

    /// What a counter of this socket shows at each reading.
    fn readings(&self, socket: u32, random: &mut Random) -> Vec<Reading> {
        let mut changes: Vec<(u64, f64)> = vec![];
        for stretch in self.stretches.iter().filter(|s| socket_of(s.cpu) == socket) {
            changes.push((stretch.from, stretch.watts));
            changes.push((stretch.to, -stretch.watts));
        }
        changes.sort_by_key(|change| change.0);
        let (mut watts, mut joules, mut now, mut change) = (IDLE_WATTS, 0.0, 0_u64, 0);
        let mut readings = vec![];
        let (mut tick, mut due) = (0, 0);
        let mut shown = 0;
        while due <= self.length + 20 * MS {
            let read_at = due + random.below(200_000);
            while tick <= read_at {
                while changes.get(change).is_some_and(|c| c.0 <= tick) {
                    joules += watts * (changes[change].0 - now) as f64 / 1e9;
                    (now, watts) = (changes[change].0, watts + changes[change].1);
                    change += 1;
                }
                joules += watts * (tick - now) as f64 / 1e9;
                now = tick;
                shown = (joules * 1e6 / 61.0) as u64 * 61;
                tick += random.around(MS, MS / 10);
            }
            readings.push(Reading {
                at: KtimeNs::from_ns(BOOT + read_at),
                value: CounterValue::MicroJoules(shown),
            });
            due += 20 * MS;
        }
        readings
    }

    /// What a timer on each CPU sees of the target.
    fn samples(&self, hz: u64, random: &mut Random) -> Vec<Sample> {
        let mut samples = vec![];
        for cpu in 0..4 {
            let mut at = random.below(SECOND / hz);
            for stretch in self.stretches.iter().filter(|s| s.cpu == cpu) {
                while at < stretch.to {
                    if at >= stretch.from
                        && let Some(function) = stretch.function
                    {
                        samples.push(Sample {
                            at: KtimeNs::from_ns(BOOT + at),
                            cpu: CpuId::new(cpu),
                            thread: ThreadKey::new(stretch.thread),
                            stack: StackId::new(function as u32),
                            status: StackStatus::Complete,
                        });
                    }
                    at += random.around(SECOND / hz, 100_000);
                }
            }
        }
        samples.sort_by_key(|sample| sample.at);
        samples
    }

    /// What `sched_switch` sees: a thread going from one function to the next is no switch.
    fn slices(&self) -> Vec<Slice> {
        let mut slices: Vec<Slice> = vec![];
        for stretch in &self.stretches {
            let who = stretch
                .function
                .map_or(CpuOwner::Other, |_| CpuOwner::Target(ThreadKey::new(stretch.thread)));
            let (start, end) = (KtimeNs::from_ns(BOOT + stretch.from), KtimeNs::from_ns(BOOT + stretch.to));
            let cpu = CpuId::new(stretch.cpu);
            match slices.iter_mut().rev().find(|s| s.cpu == cpu) {
                Some(before) if before.end == start && before.who == who => before.end = end,
                _ => slices.push(Slice { cpu, who, start, end }),
            }
        }
        slices
    }

    pub(crate) fn recording(&self, seed: u64, hz: u64) -> Recording {
        let mut random = Random(seed);
        let sockets = (0..4).map(|cpu| (CpuId::new(cpu), SocketId::new(socket_of(cpu)))).collect();
        let readings = (0..self.sockets).map(|s| (DomainId::new(s), self.readings(s, &mut random))).collect();
        let thread = |key| Thread {
            key: ThreadKey::new(key),
            process: ProcessKey::new(0),
            tid: Tid::new(42 + key),
            name: "phases".to_owned(),
        };
        let process = Process {
            key: ProcessKey::new(0),
            pid: Pid::new(42),
            parent: None,
            name: "phases".to_owned(),
            command: vec![],
            runtime: None,
        };
        Recording {
            header: header(sockets, hz),
            domains: (0..self.sockets).map(package).collect(),
            readings,
            processes: vec![process],
            threads: vec![thread(0), thread(1)],
            frames: (0..3).map(|f| frame(&format!("f{f}"))).collect(),
            stacks: (0..3).map(|f| StackNode { parent: None, frame: FrameId::new(f) }).collect(),
            build_ids: [].into(),
            slices: self.slices(),
            samples: self.samples(hz, &mut random),
            summary: Some(Summary {
                start: KtimeNs::from_ns(BOOT + MS),
                end: KtimeNs::from_ns(BOOT + self.length),
                ..Summary::default()
            }),
            ..Recording::default()
        }
    }
}

fn header(sockets: std::collections::BTreeMap<CpuId, SocketId>, hz: u64) -> Header {
    Header {
        version: "test".to_owned(),
        command: vec![],
        anchor: WallAnchor { ktime: KtimeNs::from_ns(BOOT), unix_ns: 0 },
        kernel: String::new(),
        cpu_model: String::new(),
        sockets,
        sample_hz: u32::try_from(hz).unwrap(),
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        system_wide: false,
        sources: vec![],
    }
}

fn package(socket: u32) -> Domain {
    Domain {
        id: DomainId::new(socket),
        name: format!("package-{socket}"),
        class: DomainClass::Package,
        scope: Scope::Socket(SocketId::new(socket)),
        origin: Origin::Counter {
            source: SourceId::Powercap,
            place: String::new(),
            max_range: Some(MicroJoules::from_uj(262_143_328_788)),
            quality: Quality::Measured,
        },
        idle: Some(IdleBaseline {
            power: MicroWatts::from_watts(IDLE_WATTS).unwrap(),
            origin: IdleOrigin::Given,
        }),
    }
}

fn frame(name: &str) -> Frame {
    Frame {
        kind: FrameKind::Native,
        name: name.to_owned(),
        module: "phases".to_owned(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address: 0,
    }
}
