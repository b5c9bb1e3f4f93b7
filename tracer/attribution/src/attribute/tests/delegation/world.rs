//! A recording that is written by hand, and its energy by stack in both views.

use crate::attribute;

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::profile::Options;
use energy_trace_model::profile::{Profile, View};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, CpuOwner, Domain, DomainClass, Frame, FrameKind, Header, Jitter, Origin, Process, Quality,
    Reading, Sample, SampleEvent, Scope, Slice, SourceId, StackNode, StackStatus, Summary, Thread, Unsampled,
    Wait, Wake,
};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
/// A watt, read every 10 ms for 100 ms.
const WHOLE_UJ: i64 = 100_000;

pub(super) fn ms(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * MS)
}

/// A recording that grows by calls; one CPU for each thread, so that slices never meet.
#[derive(Debug)]
pub(super) struct World {
    pub(super) recording: Recording,
}

impl World {
    pub(super) fn new() -> Self {
        let header = Header {
            version: "test".to_owned(),
            anchor: WallAnchor { ktime: ms(0), unix_ns: 0 },
            sample_hz: 99,
            jitter: Jitter::NONE,
            sample_event: Some(SampleEvent::CpuClock),
            ..Header::default()
        };
        let id = DomainId::new(0);
        let origin = Origin::Counter {
            source: SourceId::Powercap,
            place: String::new(),
            max_range: None,
            quality: Quality::Measured,
        };
        let domain = Domain {
            id,
            name: "package-0".to_owned(),
            class: DomainClass::Package,
            scope: Scope::Machine,
            origin,
            idle: None,
        };
        let reading = |n: u64| Reading { at: ms(n * 10), value: CounterValue::MicroJoules(n * 10_000) };
        let recording = Recording {
            header,
            domains: vec![domain],
            readings: BTreeMap::from([(id, (0..=10).map(reading).collect())]),
            summary: Some(Summary { start: ms(0), end: ms(100), ..Summary::default() }),
            ..Recording::default()
        };
        Self { recording }
    }

    pub(super) fn process(&mut self, parent: Option<ProcessKey>) -> ProcessKey {
        let number = u32::try_from(self.recording.processes.len()).unwrap();
        let (key, pid) = (ProcessKey::new(number), Pid::new(100 * (number + 1)));
        let name = "python".to_owned();
        self.recording.processes.push(Process { key, pid, parent, name, command: vec![], runtime: None });
        key
    }

    /// A thread; the first of a process is its main thread.
    pub(super) fn thread(&mut self, process: ProcessKey, name: &str) -> ThreadKey {
        let key = ThreadKey::new(u32::try_from(self.recording.threads.len()).unwrap());
        let before = self.recording.threads.iter().filter(|thread| thread.process == process).count();
        let tid = Tid::new(100 * (process.get() + 1) + u32::try_from(before).unwrap());
        self.recording.threads.push(Thread { key, process, tid, name: name.to_owned() });
        key
    }

    /// A stack of `p:name` (Python), `l:name` (the loop of a pool, Python) and `n:name` or `n:library/name`
    /// (native) frames, root first.
    pub(super) fn stack(&mut self, text: &str) -> StackId {
        let mut parent = None;
        for word in text.split(' ') {
            let (kind, name) = word.split_once(':').unwrap();
            let frame = self.frame(kind, name);
            let node = StackNode { parent, frame };
            let known = self.recording.stacks.iter().position(|n| *n == node);
            let at = known.unwrap_or_else(|| {
                self.recording.stacks.push(node);
                self.recording.stacks.len() - 1
            });
            parent = Some(StackId::new(u32::try_from(at).unwrap()));
        }
        parent.unwrap()
    }

    pub(super) fn frame(&mut self, kind: &str, name: &str) -> FrameId {
        let python = kind != "n";
        let (module, name) = name.split_once('/').unwrap_or(("", name));
        let frame = Frame {
            kind: if python { FrameKind::Python } else { FrameKind::Native },
            name: name.to_owned(),
            module: module.to_owned(),
            file: String::new(),
            line: 0,
            first_line: 0,
            address: 0,
        };
        let known = self.recording.frames.iter().position(|f| *f == frame);
        let at = known.unwrap_or_else(|| {
            self.recording.frames.push(frame);
            self.recording.frames.len() - 1
        });
        let id = FrameId::new(u32::try_from(at).unwrap());
        if kind == "l" {
            self.recording.requests.pool_loops.insert(id);
        }
        id
    }

    /// A thread runs, and is sampled in the middle.
    pub(super) fn runs(&mut self, thread: ThreadKey, from: u64, to: u64, stack: &str) {
        let stack = self.stack(stack);
        self.runs_unseen(thread, from, to);
        let at = ms(from).midpoint(ms(to));
        let verdict = StackStatus::Complete;
        self.recording.samples.push(Sample {
            at,
            cpu: CpuId::new(thread.get()),
            thread,
            stack,
            status: verdict,
        });
        self.recording.samples.sort_by_key(|sample| sample.at);
    }

    pub(super) fn runs_unseen(&mut self, thread: ThreadKey, from: u64, to: u64) {
        let (cpu, who) = (CpuId::new(thread.get()), CpuOwner::Target(thread));
        self.recording.slices.push(Slice { cpu, who, start: ms(from), end: ms(to) });
        self.recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
    }

    /// No sample comes on a thread's CPU though many are due.
    pub(super) fn nobody_looks(&mut self, thread: ThreadKey, from: u64, to: u64) {
        let cpu = CpuId::new(thread.get());
        self.recording.unsampled.push(Unsampled { cpu, start: ms(from), end: ms(to) });
    }

    /// A thread has another one's CPU for a while.
    pub(super) fn pushes_off(&mut self, thread: ThreadKey, other: ThreadKey, from: u64, to: u64) {
        let (cpu, who) = (CpuId::new(other.get()), CpuOwner::Target(thread));
        self.recording.slices.push(Slice { cpu, who, start: ms(from), end: ms(to) });
        self.recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
    }

    pub(super) fn waits(&mut self, thread: ThreadKey, at: u64, stack: &str) {
        let stack = self.stack(stack);
        self.recording.requests.waits.push(Wait { at: ms(at), thread, stack });
        self.recording.requests.waits.sort_by_key(|wait| wait.at);
    }

    pub(super) fn wakes(&mut self, waker: ThreadKey, thread: ThreadKey, at: u64) {
        self.recording.requests.wakes.push(Wake { at: ms(at), thread, waker });
        self.recording.requests.wakes.sort_by_key(|wake| wake.at);
    }

    /// Energy by stack in the logical view, in µJ, having checked that both views agree.
    pub(super) fn logical(&self) -> BTreeMap<String, i64> {
        let logical = attribute(&self.recording, &Options::logical());
        assert_eq!(logical.options.view, View::Logical);
        assert_agree(&attribute(&self.recording, &Options::default()), &logical);
        assert_eq!(logical.rows.iter().map(|row| uj(row.energy.total())).sum::<i64>(), WHOLE_UJ);
        // How sure it is, is known of the same energy: who has a part of an owner's has that part of its doubts.
        let of_rows = logical.certainty.domains.iter().flat_map(|domain| domain.energy.iter().flatten());
        let known: f64 = of_rows.map(|part| part.joules).sum();
        assert!((known * 1e6 - WHOLE_UJ as f64).abs() < 1.0, "{known} J");
        let mut stacks = BTreeMap::new();
        for row in &logical.rows {
            *stacks.entry(text(&logical, row.stack)).or_default() += uj(row.energy.total());
        }
        stacks
    }
}

pub(super) fn uj(energy: MicroJoules) -> i64 {
    energy.as_uj()
}

pub(super) fn text(profile: &Profile, stack: Option<StackId>) -> String {
    let Some(stack) = stack else { return "[unsampled]".to_owned() };
    profile.frames_of(stack).map(|(_, frame)| frame.name.clone()).collect::<Vec<_>>().join(";")
}

/// Ledgers, and each thread's energy, time and samples, are the same.
pub(super) fn assert_agree(physical: &Profile, logical: &Profile) {
    assert_eq!(physical.ledger, logical.ledger);
    let sums = |profile: &Profile| {
        let mut sums: BTreeMap<ThreadKey, (Vec<i64>, u64, u64)> = BTreeMap::new();
        for row in &profile.rows {
            let sum = sums.entry(row.thread).or_insert_with(|| (vec![0; 4], 0, 0));
            sum.0.iter_mut().zip(row.energy.iter()).for_each(|(sum, (_, energy))| *sum += uj(energy));
            sum.1 += row.time_ns;
            sum.2 += row.samples;
        }
        sums
    };
    assert_eq!(sums(physical), sums(logical));
}

pub(super) fn expect(stacks: &[(&str, i64)]) -> BTreeMap<String, i64> {
    stacks.iter().map(|&(stack, uj)| (stack.to_owned(), uj)).collect()
}
