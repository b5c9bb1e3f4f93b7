//! For whom a worker works, on recordings written by hand: who is charged, that energy counts once, and that both views agree.
//!
//! Leaves out how waits and wake-ups are seen (`tests/requesters.rs`, live).

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, wherever that happens")]

use energy_trace::attribution::{attribute, attribute_logically};
use energy_trace::clock::{KtimeNs, WallAnchor};
use energy_trace::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace::profile::energy_profile::{EnergyProfile, View};
use energy_trace::profile::record::{
    CounterValue, Domain, DomainClass, Frame, FrameKind, Header, Occupant, Origin, Process, Quality, Reading,
    Sample, Scope, Slice, StackNode, Summary, Thread, Verdict, Wait, Wake,
};
use energy_trace::profile::recording::{Recording, Requests};
use energy_trace::units::MicroJoules;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
/// A watt, read every 10 ms for 100 ms.
const WHOLE_UJ: i64 = 100_000;

fn ms(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * MS)
}

/// A recording that grows by calls; one CPU for each thread, so that slices never meet.
#[derive(Debug)]
struct World {
    recording: Recording,
}

impl World {
    fn new() -> Self {
        let header = Header {
            version: "test".to_owned(),
            command: vec![],
            anchor: WallAnchor { ktime: ms(0), unix_ns: 0 },
            kernel: String::new(),
            cpu_model: String::new(),
            sockets: BTreeMap::new(),
            sample_hz: 99,
            sample_event: "cpu-clock".to_owned(),
            system_wide: false,
            sources: vec![],
        };
        let id = DomainId::new(0);
        let origin = Origin::Counter {
            source: "test".to_owned(),
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
            processes: vec![],
            threads: vec![],
            frames: vec![],
            stacks: vec![],
            slices: vec![],
            samples: vec![],
            requests: Requests::default(),
            summary: Some(Summary { start: ms(0), end: ms(100), ..Summary::default() }),
            warnings: vec![],
        };
        Self { recording }
    }

    fn process(&mut self, parent: Option<ProcessKey>) -> ProcessKey {
        let number = u32::try_from(self.recording.processes.len()).unwrap();
        let (key, pid) = (ProcessKey::new(number), Pid::new(100 * (number + 1)));
        let name = "python".to_owned();
        self.recording.processes.push(Process { key, pid, parent, name, command: vec![], runtime: None });
        key
    }

    /// A thread; the first of a process is its main thread.
    fn thread(&mut self, process: ProcessKey, name: &str) -> ThreadKey {
        let key = ThreadKey::new(u32::try_from(self.recording.threads.len()).unwrap());
        let before = self.recording.threads.iter().filter(|thread| thread.process == process).count();
        let tid = Tid::new(100 * (process.get() + 1) + u32::try_from(before).unwrap());
        self.recording.threads.push(Thread { key, process, tid, name: name.to_owned() });
        key
    }

    /// A stack of `p:name` (Python), `l:name` (the loop of a pool, Python) and `n:name` (native) frames, root first.
    fn stack(&mut self, text: &str) -> StackId {
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

    fn frame(&mut self, kind: &str, name: &str) -> FrameId {
        let python = kind != "n";
        let frame = Frame {
            kind: if python { FrameKind::Python } else { FrameKind::Native },
            name: name.to_owned(),
            module: String::new(),
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
    fn runs(&mut self, thread: ThreadKey, from: u64, to: u64, stack: &str) {
        let stack = self.stack(stack);
        self.runs_unseen(thread, from, to);
        let at = ms(from).midpoint(ms(to));
        let verdict = Verdict::Complete;
        self.recording.samples.push(Sample { at, cpu: CpuId::new(thread.get()), thread, stack, verdict });
        self.recording.samples.sort_by_key(|sample| sample.at);
    }

    fn runs_unseen(&mut self, thread: ThreadKey, from: u64, to: u64) {
        let (cpu, who) = (CpuId::new(thread.get()), Occupant::Target(thread));
        self.recording.slices.push(Slice { cpu, who, start: ms(from), end: ms(to) });
        self.recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
    }

    fn waits(&mut self, thread: ThreadKey, at: u64, stack: &str) {
        let stack = self.stack(stack);
        self.recording.requests.waits.push(Wait { at: ms(at), thread, stack });
        self.recording.requests.waits.sort_by_key(|wait| wait.at);
    }

    fn wakes(&mut self, waker: ThreadKey, thread: ThreadKey, at: u64) {
        self.recording.requests.wakes.push(Wake { at: ms(at), thread, waker });
        self.recording.requests.wakes.sort_by_key(|wake| wake.at);
    }

    /// Energy by stack in the logical view, in µJ, having checked that both views agree.
    fn logical(&self) -> BTreeMap<String, i64> {
        let mut joined = self.recording.clone();
        let logical = attribute_logically(&mut joined);
        assert_eq!(logical.view, View::Logical);
        assert_agree(&attribute(&self.recording), &logical);
        assert_eq!(logical.rows.iter().map(|row| uj(row.energy.total())).sum::<i64>(), WHOLE_UJ);
        let mut stacks = BTreeMap::new();
        for row in &logical.rows {
            *stacks.entry(text(&joined, row.stack)).or_default() += uj(row.energy.total());
        }
        stacks
    }
}

fn uj(energy: MicroJoules) -> i64 {
    energy.as_uj()
}

fn text(recording: &Recording, stack: Option<StackId>) -> String {
    let Some(stack) = stack else { return "[unsampled]".to_owned() };
    recording.frames_of(stack).map(|(_, frame)| frame.name.clone()).collect::<Vec<_>>().join(";")
}

/// Ledgers, and each thread's energy, time and samples, are the same.
fn assert_agree(physical: &EnergyProfile, logical: &EnergyProfile) {
    assert_eq!(physical.ledger, logical.ledger);
    let sums = |profile: &EnergyProfile| {
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

fn expect(stacks: &[(&str, i64)]) -> BTreeMap<String, i64> {
    stacks.iter().map(|&(stack, uj)| (stack.to_owned(), uj)).collect()
}

/// A thread of a native pool works for the only Python thread, which sleeps: the Python stack at which it fell asleep is charged, with the
/// native frames that a sample showed between its functions.
#[test]
fn the_sleeper_is_charged() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "eigen"));
    world.runs(main, 0, 10, "n:_start p:main p:step");
    world.waits(main, 10, "p:main p:run");
    world.runs(worker, 10, 100, "n:clone n:gemm");
    let seen = world.logical();
    assert_eq!(
        seen,
        expect(&[("_start;main;step", 10_000), ("_start;main;run;[on behalf of];clone;gemm", 90_000)])
    );
}

/// The master of an OpenMP region runs in it: its helper is charged to what the master does, as that changes.
#[test]
fn the_master_is_charged() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "omp"));
    world.runs(main, 0, 50, "p:main p:forward n:gemm");
    world.runs(main, 50, 100, "p:main p:backward n:gemm");
    world.runs(worker, 0, 100, "n:clone n:gemm");
    world.wakes(main, worker, 1);
    // Each interval of 10 mJ is halved between the two threads that run.
    let seen = world.logical();
    // What main does is not known before its first sample, at 25 ms; it changes half-way between its samples.
    assert_eq!(
        seen,
        expect(&[
            ("main;forward;gemm", 25_000),
            ("main;backward;gemm", 25_000),
            ("[pool: omp];clone;gemm", 12_500),
            ("main;forward;[on behalf of];clone;gemm", 12_500),
            ("main;backward;[on behalf of];clone;gemm", 25_000),
        ])
    );
}

/// Two Python threads wait at once: the chain of wake-ups through another worker decides.
#[test]
fn the_chain_of_wakeups_decides() {
    let mut world = World::new();
    let process = world.process(None);
    let (a, b) = (world.thread(process, "python"), world.thread(process, "python"));
    let (first, second) = (world.thread(process, "eigen"), world.thread(process, "eigen"));
    world.waits(a, 0, "p:a p:run");
    world.waits(b, 0, "p:b p:run");
    world.wakes(b, first, 1);
    world.wakes(first, second, 2);
    world.runs(second, 2, 100, "n:gemm");
    assert_eq!(world.logical(), expect(&[("b;run;[on behalf of];gemm", 100_000)]));
}

/// Without wake-ups, those that wait share equally, to the microjoule.
#[test]
fn several_that_wait_share_equally() {
    let mut world = World::new();
    let process = world.process(None);
    for name in ["p:a p:run", "p:b p:run", "p:c p:run"] {
        let thread = world.thread(process, "python");
        world.waits(thread, 0, name);
    }
    let worker = world.thread(process, "eigen");
    world.runs(worker, 0, 100, "n:gemm");
    let seen = world.logical();
    let shares = ["a", "b", "c"].map(|name| seen[&format!("{name};run;[on behalf of];gemm")]);
    assert_eq!(shares, [33_334, 33_333, 33_333]);
}

/// A Python thread that sleeps all the time and wakes no worker (a progress bar's) gets nothing beside one that does.
#[test]
fn those_that_hand_over_work_come_first() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, bar) = (world.thread(process, "python"), world.thread(process, "bar"));
    let (first, second) = (world.thread(process, "eigen"), world.thread(process, "eigen"));
    world.waits(main, 0, "p:main p:run");
    world.waits(bar, 0, "p:bar p:sleep");
    world.wakes(main, first, 1);
    world.runs(second, 0, 100, "n:gemm");
    assert_eq!(world.logical(), expect(&[("main;run;[on behalf of];gemm", 100_000)]));
}

/// Where no Python thread is there to be charged, the pool stands for itself; a process without Python is left as it is, and so are main
/// threads outside Python.
#[test]
fn nobody_to_charge() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "eigen"));
    world.runs(main, 0, 10, "n:_start n:finalize");
    world.runs(main, 10, 20, "n:_start p:main");
    world.runs(main, 20, 30, "n:_start n:finalize");
    world.runs(worker, 30, 60, "n:gemm");
    let other = world.process(None);
    let (_, stranger) = (world.thread(other, "cc"), world.thread(other, "cc"));
    world.runs(stranger, 60, 100, "n:compile");
    let seen = world.logical();
    assert_eq!(
        seen,
        expect(&[
            ("_start;finalize", 20_000),
            ("_start;main", 10_000),
            ("[pool: eigen];gemm", 30_000),
            ("compile", 40_000),
        ])
    );
}

/// A thread of a Python pool works for the thread that gave it its task, while that waits for the result; one that does not wait is not
/// charged.
#[test]
fn a_python_pool() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, other) = (world.thread(process, "python"), world.thread(process, "python"));
    let worker = world.thread(process, "pool");
    world.waits(other, 0, "p:other p:sleep");
    world.runs(main, 0, 10, "p:main p:submit");
    world.waits(worker, 0, "p:run l:worker");
    world.wakes(main, worker, 9);
    world.waits(main, 10, "p:main p:result");
    world.runs(worker, 10, 60, "p:run l:worker p:task");
    world.runs(main, 60, 70, "p:main p:print");
    world.runs(worker, 70, 100, "p:run l:worker p:late");
    world.waits(worker, 100, "p:run l:worker");
    // From here on main does something else.
    world.runs_unseen(main, 70, 71);
    let seen = world.logical();
    assert_eq!(seen["main;result;[on behalf of];run;worker;task"], 50_000);
    assert!(seen["[pool: pool];run;worker;late"] > 28_000, "{seen:?}");
}

/// Pools nest: an OpenMP thread works for a pool's Python thread, which works for the one that waits for it.
#[test]
fn pools_nest() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, pool) = (world.thread(process, "python"), world.thread(process, "pool"));
    let worker = world.thread(process, "omp");
    world.waits(main, 0, "p:main p:result");
    world.waits(pool, 0, "p:run l:worker p:task");
    world.wakes(pool, worker, 1);
    world.runs(worker, 0, 100, "n:gemm");
    let seen = world.logical();
    assert_eq!(seen["main;result;[on behalf of];run;worker;task;[on behalf of];gemm"], 100_000, "{seen:?}");
}

/// A data loader's process works for the thread of its parent that next takes a batch from it, not for what that thread does meanwhile.
#[test]
fn a_loader_process() {
    let mut world = World::new();
    let parent = world.process(None);
    let main = world.thread(parent, "python");
    let child = world.process(Some(parent));
    let loader = world.thread(child, "python");
    world.runs(main, 0, 40, "p:main p:train");
    world.runs(loader, 0, 60, "p:loop l:worker_loop p:decode");
    world.waits(main, 40, "p:main p:next_batch");
    world.wakes(loader, main, 60);
    world.runs(main, 60, 100, "p:main p:train");
    let seen = world.logical();
    assert_eq!(
        seen,
        expect(
            &[("main;train", 60_000), ("main;next_batch;[on behalf of];loop;worker_loop;decode", 40_000),]
        )
    );
}

/// Time of a Python thread that no sample saw stands below the Python stack in which it next fell asleep.
#[test]
fn unseen_time_has_its_callers() {
    let mut world = World::new();
    let process = world.process(None);
    let main = world.thread(process, "python");
    world.waits(main, 0, "p:main p:poll");
    world.runs_unseen(main, 0, 100);
    world.waits(main, 100, "p:main p:poll");
    assert_eq!(world.logical(), expect(&[("main;poll;[unsampled]", 100_000)]));
}

prop_compose! {
    fn any_world()(
        threads in prop::collection::vec(0_usize..3, 1..6),
        slices in prop::collection::vec((0_usize..6, 0_u64..100, 1_u64..40), 0..20),
        samples in prop::collection::vec((0_usize..6, 0_u64..100, 0_usize..6), 0..20),
        waits in prop::collection::vec((0_usize..6, 0_u64..100, 0_usize..6), 0..20),
        wakes in prop::collection::vec((0_usize..6, 0_usize..6, 0_u64..100), 0..20),
    ) -> World {
        const STACKS: [&str; 6] =
            ["p:main", "p:main p:run", "n:start n:gemm", "p:run l:loop", "p:run l:loop p:task n:gemm", "n:gemm"];
        let mut world = World::new();
        let parent = world.process(None);
        let processes = [parent, world.process(Some(parent)), world.process(Some(parent))];
        let keys: Vec<ThreadKey> = threads.iter().map(|&at| world.thread(processes[at], "t")).collect();
        let key = |at: usize| keys[at % keys.len()];
        for (thread, from, length) in slices {
            world.runs_unseen(key(thread), from, from + length);
        }
        for (thread, at, stack) in samples {
            let stack = world.stack(STACKS[stack]);
            let (thread, cpu, verdict) = (key(thread), CpuId::new(0), Verdict::Complete);
            world.recording.samples.push(Sample { at: ms(at), cpu, thread, stack, verdict });
        }
        world.recording.samples.sort_by_key(|sample| sample.at);
        waits.into_iter().for_each(|(thread, at, stack)| world.waits(key(thread), at, STACKS[stack]));
        wakes.into_iter().for_each(|(waker, thread, at)| world.wakes(key(waker), key(thread), at));
        world
    }
}

proptest! {
    /// Whatever a recording says: each thread's energy, time and samples are the same in both views, to the microjoule.
    #[test]
    fn views_agree(world in any_world()) {
        let mut joined = world.recording.clone();
        let logical = attribute_logically(&mut joined);
        assert_agree(&attribute(&world.recording), &logical);
        for row in &logical.rows {
            prop_assert!(row.stack.is_none_or(|stack| stack.index() < joined.stacks.len()));
        }
        prop_assert!(joined.stacks.iter().all(|node| node.frame.index() < joined.frames.len()));
    }
}

/// Ids that no table has, as in a recording that was damaged, change nothing.
#[test]
fn nonsense_is_survived() {
    let mut world = World::new();
    let process = world.process(None);
    let main = world.thread(process, "python");
    world.runs(main, 0, 100, "p:main");
    let strange = ThreadKey::new(77);
    world.wakes(strange, main, 5);
    world.wakes(main, strange, 5);
    world.recording.requests.waits.push(Wait { at: ms(50), thread: strange, stack: StackId::new(99) });
    world.recording.requests.waits.push(Wait { at: ms(60), thread: main, stack: StackId::new(99) });
    assert_eq!(world.logical(), expect(&[("main", 100_000)]));
}
