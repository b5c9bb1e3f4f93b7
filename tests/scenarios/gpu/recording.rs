//! What energy-trace would have recorded of a simulated GPU: launches counted by tick, waits, readings.
//!
//! Ticks are 2 ms and end where a wait ends, as those of the probes do. Leaves out CPU time.

use super::world::{MS, World};
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, Frame, FrameKind, GpuWait, GpuWork, Header, IdleBaseline, IdleOrigin,
    Jitter, Launched, Launches, Origin, Process, Quality, Reading, SampleEvent, Scope, SourceId, StackNode,
    Summary, Thread,
};
use energy_trace_model::units::MicroWatts;
use std::collections::BTreeMap;

pub const BOOT: u64 = 5_000_000 * MS;
const TICK: u64 = 2 * MS;

pub fn at(ns: u64) -> KtimeNs {
    KtimeNs::from_ns(BOOT + ns)
}

/// The stack of a site: `main`, the site, what it launches.
pub fn stack_of(site: usize) -> StackId {
    StackId::new(u32::try_from(1 + 2 * site + 1).unwrap_or(0))
}

/// A recording of a world whose sites launch these kernels; `baseline` is the idle power found before the start.
pub fn recording(
    world: &World,
    kernels: &[&str],
    readings: &[(u64, u64)],
    baseline: Option<f64>,
) -> Recording {
    let (frames, stacks) = stacks(kernels);
    let end = readings.last().map_or(0, |reading| reading.0);
    let reading = |&(read, uj): &(u64, u64)| Reading { at: at(read), value: CounterValue::MicroJoules(uj) };
    let process = ProcessKey::new(0);
    let thread = Thread { key: ThreadKey::new(0), process, tid: Tid::new(7), name: "main".to_owned() };
    Recording {
        header: header(),
        domains: vec![domain(baseline)],
        readings: BTreeMap::from([(DomainId::new(0), readings.iter().map(reading).collect())]),
        processes: vec![Process {
            key: process,
            pid: Pid::new(7),
            parent: None,
            name: "train".to_owned(),
            command: vec![],
            runtime: None,
        }],
        threads: vec![thread],
        frames,
        stacks,
        gpu: GpuWork { launches: launches(world), waits: waits(world), ..GpuWork::default() },
        summary: Some(Summary { start: at(0), end: at(end), ..Summary::default() }),
        ..Recording::default()
    }
}

fn header() -> Header {
    Header {
        anchor: WallAnchor { ktime: at(0), unix_ns: 0 },
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        ..Header::default()
    }
}

fn domain(baseline: Option<f64>) -> Domain {
    let idle = baseline.and_then(MicroWatts::from_watts);
    Domain {
        id: DomainId::new(0),
        name: "gpu-0".to_owned(),
        class: DomainClass::Gpu,
        scope: Scope::Gpu(0),
        origin: Origin::Counter {
            source: SourceId::Nvml,
            place: "GPU-sim".to_owned(),
            max_range: None,
            quality: Quality::Measured,
        },
        idle: idle.map(|power| IdleBaseline {
            power,
            origin: IdleOrigin::Measured { over_ns: 1_000_000_000, busy_percent: None },
        }),
    }
}

fn stacks(kernels: &[&str]) -> (Vec<Frame>, Vec<StackNode>) {
    let frame = |kind, name: &str| Frame {
        kind,
        name: name.to_owned(),
        module: String::new(),
        file: String::new(),
        line: 1,
        first_line: 1,
        address: 0,
    };
    let mut frames = vec![frame(FrameKind::Python, "main")];
    let mut stacks = vec![StackNode { parent: None, frame: FrameId::new(0) }];
    for (site, kernel) in (0_u32..).zip(kernels) {
        frames.push(frame(FrameKind::Python, &format!("site_{site}")));
        frames.push(frame(FrameKind::Gpu, kernel));
        stacks.push(StackNode { parent: Some(StackId::new(0)), frame: FrameId::new(1 + 2 * site) });
        stacks
            .push(StackNode { parent: Some(StackId::new(1 + 2 * site)), frame: FrameId::new(2 + 2 * site) });
    }
    (frames, stacks)
}

fn launches(world: &World) -> Vec<Launches> {
    let mut batches: Vec<Launches> = vec![];
    let (mut until, mut wait) = (0, 0);
    for launch in &world.launches {
        if launch.at >= until {
            while world.waits.get(wait).is_some_and(|(_, end)| *end <= launch.at) {
                wait += 1;
            }
            let tick = (launch.at / TICK + 1) * TICK;
            until = world.waits.get(wait).map_or(tick, |(_, end)| tick.min(*end));
            batches.push(Launches { device: 0, from: at(launch.at), until: at(launch.at), work: vec![] });
        }
        let Some(batch) = batches.last_mut() else { continue };
        batch.until = at(launch.at);
        let stack = stack_of(launch.site);
        match batch.work.iter_mut().find(|launched| launched.stack == stack) {
            Some(launched) => launched.count += 1,
            None => batch.work.push(Launched { thread: ThreadKey::new(0), stack, count: 1, amount: 0 }),
        }
    }
    batches
}

fn waits(world: &World) -> Vec<GpuWait> {
    let wait = |&(from, until): &(u64, u64)| GpuWait {
        thread: ThreadKey::new(0),
        device: 0,
        from: at(from),
        until: at(until),
    };
    world.waits.iter().map(wait).collect()
}
