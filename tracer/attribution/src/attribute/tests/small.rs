//! Small recordings, made by hand: a tenth of a second or a few seconds, with a constant power in each
//! stretch.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid};
use energy_trace_model::profile::options::{Accounting, Method};
use energy_trace_model::profile::{EnergyByClass, Options, OverTime, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, CpuOwner, Domain, DomainClass, Frame, FrameKind, Header, IdleBaseline, IdleOrigin, Jitter,
    Origin, Process, Quality, Reading, Sample, SampleEvent, Scope, Slice, SourceId, StackNode, StackStatus,
    Summary, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};

pub(super) const MS: u64 = 1_000_000;

pub(super) fn ms(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * MS)
}

/// By CPU time alone.
pub(super) fn by_time() -> Options {
    let accounting = Accounting { method: Method::Time, ..Accounting::default() };
    Options { accounting, ..Options::default() }
}

/// Nothing, from one moment to another.
pub(super) fn empty(from_ms: u64, until_ms: u64) -> Recording {
    let header = Header {
        version: "test".to_owned(),
        anchor: WallAnchor { ktime: ms(from_ms), unix_ns: 0 },
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        ..Header::default()
    };
    let summary = Some(Summary { start: ms(from_ms), end: ms(until_ms), ..Summary::default() });
    Recording { header, summary, ..Recording::default() }
}

/// Adds a counter that is read each `step_ms`, and stands at `uj` then; idle is known to draw so much.
pub(super) fn add_counter(
    recording: &mut Recording,
    (class, scope): (DomainClass, Scope),
    idle_uw: Option<u64>,
    step_ms: usize,
    uj: impl Fn(u64) -> u64,
) {
    let id = DomainId::new(u32::try_from(recording.domains.len()).unwrap());
    let origin = Origin::Counter {
        source: SourceId::Powercap,
        place: String::new(),
        max_range: None,
        quality: Quality::Measured,
    };
    let idle = idle_uw.map(|uw| IdleBaseline { power: MicroWatts::from_uw(uw), origin: IdleOrigin::Given });
    let name = format!("{}-{}", class.name(), id.get());
    recording.domains.push(Domain { id, name, class, scope, origin, idle });
    let summary = recording.summary.clone().unwrap();
    let (from, until) = (summary.start.as_ns() / MS, summary.end.as_ns() / MS);
    let reading = |at: u64| Reading { at: ms(at), value: CounterValue::MicroJoules(uj(at)) };
    recording.readings.insert(id, (from..=until).step_by(step_ms).map(reading).collect());
}

/// A socket that has all CPUs.
pub(super) const SOCKET: (DomainClass, Scope) = (DomainClass::Package, Scope::Socket(SocketId::new(0)));

/// Threads of one process, each with a stack of one function of its number.
pub(super) fn add_threads(recording: &mut Recording, count: u32) {
    let key = ProcessKey::new(0);
    let name = "program".to_owned();
    recording.processes.push(Process {
        key,
        pid: Pid::new(7),
        parent: None,
        name: name.clone(),
        command: vec![],
        runtime: None,
    });
    for thread in 0..count {
        let (tid, name) = (Tid::new(7 + thread), name.clone());
        recording.threads.push(Thread { key: ThreadKey::new(thread), process: key, tid, name });
        add_stack(recording, &[(FrameKind::Native, &format!("f{thread}"))]);
    }
}

/// A stack of frames, root first.
pub(super) fn add_stack(recording: &mut Recording, frames: &[(FrameKind, &str)]) -> StackId {
    let mut parent = None;
    for (kind, name) in frames {
        let frame = FrameId::new(u32::try_from(recording.frames.len()).unwrap());
        recording.frames.push(Frame { kind: *kind, ..Frame::special(name) });
        recording.stacks.push(StackNode { parent, frame });
        parent = Some(StackId::new(u32::try_from(recording.stacks.len() - 1).unwrap()));
    }
    parent.unwrap()
}

/// A thread runs on a CPU in its own stack, and is sampled each 5 ms; `None`: another program does.
pub(super) fn runs(recording: &mut Recording, cpu: u32, thread: Option<u32>, from: u64, until: u64) {
    let who = thread.map_or(CpuOwner::Other, |thread| CpuOwner::Target(ThreadKey::new(thread)));
    let cpu = CpuId::new(cpu);
    recording.slices.push(Slice { cpu, who, start: ms(from), end: ms(until) });
    recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
    let sample = |at: u64, thread: u32| Sample {
        at: ms(at),
        cpu,
        thread: ThreadKey::new(thread),
        stack: StackId::new(thread),
        status: StackStatus::Complete,
    };
    let samples = (from + 2..until).step_by(5).filter_map(|at| Some(sample(at, thread?)));
    recording.samples.extend(samples);
    recording.samples.sort_by_key(|sample| sample.at);
}

/// The ledger balances, in each bin too; bins are the row or the domain that they are of; and rows have in
/// each bin what domains charge there.
pub(super) fn assert_adds_up(profile: &Profile, over: &OverTime) {
    for row in &profile.ledger {
        assert_eq!(row.imbalance(), MicroJoules::ZERO, "{row:?}");
    }
    for (number, row) in profile.rows.iter().enumerate() {
        let (mut energy, mut time_ns) = (EnergyByClass::default(), 0);
        for bin in over.of_row(number) {
            energy += bin.energy;
            time_ns += bin.time_ns;
        }
        assert_eq!((energy, time_ns), (row.energy, row.time_ns), "{row:?}");
    }
    for (row, bins) in profile.ledger.iter().zip(&over.domains) {
        assert!(bins.iter().all(|bin| bin.measured == bin.placed() + bin.residual), "{bins:?}");
        let sum = |of: fn(&energy_trace_model::profile::over_time::BinEnergy) -> MicroJoules| {
            bins.iter().map(of).sum::<MicroJoules>()
        };
        let sums =
            [sum(|bin| bin.measured), sum(|bin| bin.target), sum(|bin| bin.other), sum(|bin| bin.idle)];
        assert_eq!(sums, [row.measured, row.target, row.other, row.idle], "{row:?}");
    }
    for class in DomainClass::ALL {
        let mut left = vec![MicroJoules::ZERO; over.bins.count() as usize];
        for (bins, _) in over.domains.iter().zip(&profile.ledger).filter(|(_, row)| row.class == class) {
            left.iter_mut().zip(bins).for_each(|(left, bin)| *left += bin.target);
        }
        over.entries.iter().for_each(|entry| left[entry.bin as usize] -= entry.energy[class]);
        assert!(left.iter().all(|left| *left == MicroJoules::ZERO), "{class:?} {left:?}");
    }
}

/// Whole numbers are as expected, but for rounding to so many.
pub(super) fn near(found: &[i64], expected: &[i64], by: u64) {
    assert_eq!(found.len(), expected.len(), "{found:?} instead of {expected:?}");
    let apart = found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    assert!(apart <= by, "{found:?} instead of {expected:?}");
}
