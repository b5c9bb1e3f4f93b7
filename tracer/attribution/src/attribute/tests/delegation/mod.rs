//! For whom a worker works, on recordings written by hand: who is charged, that energy counts once, and that
//! both views agree.
//!
//! Leaves out how waits and wake-ups are seen (`tests/live/attribution/requesters.rs`, live).

mod after_the_call;
mod native_calls;
mod world;

use crate::attribute;

use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
use energy_trace_model::profile::Options;
use energy_trace_model::recording::record::{
    DomainClass, Launched, Launches, Sample, Scope, StackStatus, Wait,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use world::{World, assert_agree, expect, ms};

/// A thread of a native pool works for the only Python thread, which sleeps: the Python stack at which it
/// fell asleep is charged, with the native frames that a sample showed between its functions.
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

/// A Python thread that sleeps all the time and wakes no worker (a progress bar's) gets nothing beside one
/// that does.
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

/// Where no Python thread is there to be charged, the pool stands for itself; a process without Python is
/// left as it is, and so are main threads outside Python.
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

/// A thread of a Python pool works for the thread that gave it its task, while that waits for the result; one
/// that does not wait is not charged.
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

/// What a worker does for one call is no other call's, though its samples are neighbours of those of the other: of
/// calls with few samples, and with many.
#[test]
fn calls_that_take_turns() {
    for samples in [1, 4] {
        let mut world = World::new();
        let process = world.process(None);
        let (main, worker) = (world.thread(process, "python"), world.thread(process, "pool"));
        for turn in 0..10_u64 {
            let at = 10 * turn;
            let (which, long) = if turn % 2 == 0 { ("a", 8) } else { ("b", 4) };
            world.waits(worker, at, "p:run l:worker");
            world.runs(main, at, at + 2, "p:main p:submit");
            world.wakes(main, worker, at + 2);
            world.waits(main, at + 2, &format!("p:main p:call_{which} p:result"));
            for part in 0..samples {
                let (from, each) = (at + 2 + long / samples * part, long / samples);
                world.runs(worker, from, from + each, &format!("p:run l:worker p:task_{which}"));
            }
            world.wakes(worker, main, at + 2 + long);
            if long < 8 {
                world.runs(main, at + 2 + long, at + 10, "p:main p:submit");
            }
        }
        let seen = world.logical();
        let expected = expect(&[
            ("main;submit", 40_000),
            ("main;call_a;result;[on behalf of];run;worker;task_a", 40_000),
            ("main;call_b;result;[on behalf of];run;worker;task_b", 20_000),
        ]);
        let seen: BTreeMap<_, _> = seen.into_iter().filter(|(_, uj)| *uj > 0).collect();
        assert_eq!(seen, expected, "{samples}");
    }
}

/// A thread of a pool that has not been idle yet works for the thread that it wakes with the result, and not for one that waits for that thread
/// to end; where nobody is woken by the pool, those that wait share.
#[test]
fn who_joins_the_asker_asked_for_nothing() {
    let said = |is_told: bool| {
        let mut world = World::new();
        let process = world.process(None);
        let (main, asker) = (world.thread(process, "python"), world.thread(process, "asker"));
        let (worker, other) = (world.thread(process, "pool"), world.thread(process, "pool"));
        world.waits(main, 0, "p:main p:join");
        world.waits(asker, 0, "p:asker p:result");
        world.runs(worker, 0, 100, "p:run l:worker p:task");
        world.runs(other, 0, 40, "p:run l:worker p:task");
        if is_told {
            world.wakes(other, asker, 40);
            world.wakes(worker, asker, 100);
            world.wakes(asker, main, 100);
        }
        let seen = world.logical();
        let of = |who: &str| {
            seen.iter().filter(|(stack, _)| stack.starts_with(who)).map(|(_, uj)| uj).sum::<i64>()
        };
        [of("main;join;[on behalf of]"), of("asker;result;[on behalf of]")]
    };
    assert_eq!(said(true), [0, 100_000]);
    assert_eq!(said(false), [50_000; 2]);
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

/// A data loader's process works for the thread of its parent that next takes a batch from it, not for what
/// that thread does meanwhile.
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

/// A forked process still has the frames in which its parent forked it: what it does begins behind them.
#[test]
fn a_forked_process_begins_at_its_loop() {
    let mut world = World::new();
    let parent = world.process(None);
    let main = world.thread(parent, "python");
    let child = world.process(Some(parent));
    let loader = world.thread(child, "python");
    let forked = "p:main p:start p:multiprocessing.process/BaseProcess._bootstrap l:worker_loop p:decode";
    world.runs(main, 0, 40, "p:main p:train");
    world.runs(loader, 0, 60, forked);
    world.waits(main, 40, "p:main p:next_batch");
    world.wakes(loader, main, 60);
    world.runs(main, 60, 100, "p:main p:train");
    let seen = world.logical();
    assert_eq!(
        seen,
        expect(&[("main;train", 60_000), ("main;next_batch;[on behalf of];worker_loop;decode", 40_000)])
    );
}

/// What helps a loader's process (a thread that hands its files over, a native thread) works for whom that
/// process works for, not for its other threads that happen to sleep.
#[test]
fn helpers_of_a_loader_process() {
    let mut world = World::new();
    let parent = world.process(None);
    let main = world.thread(parent, "python");
    let child = world.process(Some(parent));
    let (loader, server) = (world.thread(child, "python"), world.thread(child, "python"));
    let native = world.thread(child, "omp");
    world.waits(main, 0, "p:main p:next_batch");
    // The first sample of its own came before Python frames could be read.
    world.runs(loader, 0, 10, "n:decode");
    world.runs(loader, 10, 40, "p:loop l:worker_loop p:decode");
    world.waits(loader, 40, "p:loop l:worker_loop p:decode");
    world.waits(server, 0, "p:serve p:accept");
    world.runs(native, 40, 70, "n:gemm");
    world.runs(server, 70, 100, "p:serve p:send");
    world.wakes(loader, main, 100);
    assert_eq!(
        world.logical(),
        expect(&[
            ("main;next_batch;[on behalf of];decode", 10_000),
            ("main;next_batch;[on behalf of];loop;worker_loop;decode", 30_000),
            ("main;next_batch;[on behalf of];loop;worker_loop;decode;[on behalf of];gemm", 30_000),
            ("main;next_batch;[on behalf of];serve;send", 30_000),
        ])
    );
}

/// A worker that nobody was seen to wake, beside a Python thread in a call: another one may have asked as
/// well from its last sample elsewhere to its first one in a call, so that the worker's time there is in
/// equal parts.
#[test]
fn whoever_may_be_in_a_call_may_have_asked() {
    let mut world = World::new();
    let process = world.process(None);
    let (first, second) = (world.thread(process, "python"), world.thread(process, "python"));
    let worker = world.thread(process, "omp");
    let sample = |world: &mut World, thread: ThreadKey, at: u64, stack: &str| {
        let stack = world.stack(stack);
        let (cpu, verdict) = (CpuId::new(thread.get()), StackStatus::Complete);
        world.recording.samples.push(Sample { at: ms(at), cpu, thread, stack, status: verdict });
    };
    sample(&mut world, first, 0, "n:c/start p:main p:fit n:pool/run");
    world.waits(first, 0, "n:c/start p:main p:fit");
    sample(&mut world, second, 30, "n:c/start p:main p:prepare");
    sample(&mut world, second, 70, "n:c/start p:main p:predict n:pool/run");
    sample(&mut world, second, 100, "n:c/start p:main p:predict n:pool/run");
    world.runs(worker, 0, 100, "n:c/clone n:pool/gemm");
    let seen = world.logical();
    let of =
        |call: &str| seen.iter().filter(|(stack, _)| stack.contains(call)).map(|(_, uj)| uj).sum::<i64>();
    // All of 30 ms, half of 70; half of 70.
    assert_eq!([of("fit"), of("predict"), of("prepare")], [65_000, 35_000, 0], "{seen:?}");
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

/// Where nobody was looking, as while a machine stands still, a thread's time is nobody's: neither a worker's
/// requester's, nor where a thread slept next.
#[test]
fn a_pause_is_nobodys() {
    for (name, stack) in [("python", "p:main p:poll"), ("worker", "n:c/clone n:pool/gemm")] {
        let mut world = World::new();
        let process = world.process(None);
        let main = world.thread(process, "python");
        let thread = if name == "python" { main } else { world.thread(process, name) };
        world.waits(main, 0, "p:main p:poll");
        world.wakes(main, thread, 0);
        world.runs(thread, 0, 20, stack);
        world.runs_unseen(thread, 20, 100);
        world.nobody_looks(thread, 20, 100);
        world.waits(main, 100, "p:main p:poll");
        let seen = world.logical();
        assert_eq!(seen.get("[unsampled]"), Some(&80_000), "{seen:?}");
    }
}

prop_compose! {
    fn any_world()(
        threads in prop::collection::vec(0_usize..3, 1..6),
        slices in prop::collection::vec((0_usize..6, 0_u64..100, 1_u64..40), 0..20),
        samples in prop::collection::vec((0_usize..6, 0_u64..100, 0_usize..8), 0..20),
        waits in prop::collection::vec((0_usize..6, 0_u64..100, 0_usize..8), 0..20),
        wakes in prop::collection::vec((0_usize..6, 0_usize..6, 0_u64..100), 0..20),
        pauses in prop::collection::vec((0_usize..6, 0_u64..100, 1_u64..40), 0..4),
    ) -> World {
        const STACKS: [&str; 8] = [
            "p:main", "p:main p:run", "n:start n:gemm", "p:run l:loop", "p:run l:loop p:task n:gemm", "n:gemm",
            "n:c/start p:main p:run n:pool/gemm", "n:c/start n:pool/gemm",
        ];
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
            let (thread, cpu, verdict) = (key(thread), CpuId::new(0), StackStatus::Complete);
            world.recording.samples.push(Sample { at: ms(at), cpu, thread, stack, status: verdict });
        }
        world.recording.samples.sort_by_key(|sample| sample.at);
        waits.into_iter().for_each(|(thread, at, stack)| world.waits(key(thread), at, STACKS[stack]));
        wakes.into_iter().for_each(|(waker, thread, at)| world.wakes(key(waker), key(thread), at));
        pauses.into_iter().for_each(|(thread, from, length)| world.nobody_looks(key(thread), from, from + length));
        world
    }
}

proptest! {
    /// Whatever a recording says: each thread's energy, time and samples are the same in both views, to the
    /// microjoule.
    #[test]
    fn views_agree(world in any_world()) {
        let logical = attribute(&world.recording, &Options::logical());
        assert_agree(&attribute(&world.recording, &Options::default()), &logical);
        for row in &logical.rows {
            prop_assert!(row.stack.is_none_or(|stack| stack.index() < logical.stacks.len()));
        }
        prop_assert!(logical.stacks.iter().all(|node| node.frame.index() < logical.frames.len()));
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

/// What a thread without Python launches on a GPU (autograd's device threads) is charged to the Python thread
/// that waits for it.
#[test]
fn launches_are_charged_to_those_who_wait() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, device) = (world.thread(process, "python"), world.thread(process, "autograd"));
    world.waits(main, 0, "p:main p:backward");
    world.runs(device, 1, 2, "n:engine");
    let domain = &mut world.recording.domains[0];
    (domain.class, domain.scope) = (DomainClass::Gpu, Scope::Gpu(0));
    let stack = world.stack("n:engine n:gemm_grad");
    let work = vec![Launched { thread: device, stack, count: 1, amount: 0 }];
    world.recording.gpu.launches = vec![Launches { device: 0, from: ms(1), until: ms(99), work }];
    let seen = world.logical();
    assert_eq!(seen["main;backward;[on behalf of];engine;gemm_grad"], 100_000);
}
