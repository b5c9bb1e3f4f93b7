//! The recording of a virtual world: everything in it that is not observed but known beforehand.

use super::engine::{BOOT, Stretch, Who, World};
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{
    BackgroundKey, CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, ThreadKey, Tid,
};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    BackgroundProcess, Domain, DomainClass, Frame, FrameKind, Header, IdleBaseline, IdleOrigin, Jitter,
    Origin, Process, Quality, SampleEvent, Scope, SourceId, StackNode, Summary, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::collections::BTreeMap;

/// An empty recording of the world: one stack a function, one domain a socket.
pub fn of(world: &World) -> Recording {
    let sockets = (0..).zip(&world.socket_of).map(|(cpu, s)| (CpuId::new(cpu), SocketId::new(*s))).collect();
    let count = world.socket_of.iter().max().map_or(1, |most| most + 1);
    let functions = world.watts.len() as u32;
    let processes = world.process_of.iter().max().map_or(1, |most| most + 1);
    Recording {
        background: strangers(world),
        cores: cores(world),
        header: header(sockets, world.sampler.hz),
        domains: (0..count).map(|socket| package(socket, world)).collect(),
        processes: (0..processes).map(process).collect(),
        threads: (0..).zip(&world.process_of).map(|(key, process)| thread(key, *process)).collect(),
        frames: (0..functions).map(frame).collect(),
        stacks: (0..functions).map(|f| StackNode { parent: None, frame: FrameId::new(f) }).collect(),
        summary: Some(Summary {
            start: KtimeNs::from_ns(BOOT),
            end: KtimeNs::from_ns(BOOT + world.length),
            ..Summary::default()
        }),
        ..Recording::default()
    }
}

/// CPUs 2n and 2n + 1 share a core, where the world has such cores and says so.
fn cores(world: &World) -> Vec<Vec<CpuId>> {
    let count = if world.cores_known && world.smt.is_some() { world.socket_of.len() as u32 / 2 } else { 0 };
    (0..count).map(|core| vec![CpuId::new(2 * core), CpuId::new(2 * core + 1)]).collect()
}

fn header(sockets: BTreeMap<CpuId, SocketId>, hz: u64) -> Header {
    Header {
        version: "virtual".to_owned(),
        command: vec![],
        anchor: WallAnchor { ktime: KtimeNs::from_ns(BOOT), unix_ns: 0 },
        kernel: String::new(),
        cpu_model: String::new(),
        sockets,
        sample_hz: hz as u32,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        system_wide: false,
        sources: vec![],
    }
}

fn package(socket: u32, world: &World) -> Domain {
    Domain {
        id: DomainId::new(socket),
        name: format!("package-{socket}"),
        class: DomainClass::Package,
        scope: Scope::Socket(SocketId::new(socket)),
        origin: Origin::Counter {
            source: SourceId::Powercap,
            place: String::new(),
            max_range: Some(MicroJoules::from_uj(world.counter.range_uj as i64)),
            quality: Quality::Measured,
        },
        idle: Some(IdleBaseline {
            power: MicroWatts::from_uw((world.idle_watts * 1e6) as u64),
            origin: IdleOrigin::Given,
        }),
    }
}

fn process(key: u32) -> Process {
    Process {
        key: ProcessKey::new(key),
        pid: Pid::new(40 + key),
        parent: None,
        name: format!("p{key}"),
        command: vec![],
        runtime: None,
    }
}

fn thread(key: u32, process: u32) -> Thread {
    Thread {
        key: ThreadKey::new(key),
        process: ProcessKey::new(process),
        tid: Tid::new(400 + key),
        name: format!("t{key}"),
    }
}

fn strangers(world: &World) -> Vec<BackgroundProcess> {
    let key = |stretch: &Stretch| match stretch.who {
        Who::Background { key, .. } => Some(key),
        Who::Target { .. } => None,
    };
    let count = world.stretches.iter().filter_map(key).max().map_or(0, |most| most + 1);
    let one = |key| BackgroundProcess {
        key: BackgroundKey::new(key),
        pid: Pid::new(900 + key),
        name: format!("s{key}"),
    };
    (0..count).map(one).collect()
}

fn frame(function: u32) -> Frame {
    Frame {
        kind: FrameKind::Native,
        name: format!("f{function}"),
        module: "virtual".to_owned(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address: 0,
    }
}
