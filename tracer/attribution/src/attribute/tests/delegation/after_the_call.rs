//! What a worker burns while no call is under way that it serves: a spin belongs to the call before it, until
//! the worker sleeps.
//!
//! The pool's library is known by the modules of native frames: `n:pool/…`. Leaves out calls that are under
//! way (`tests/mod.rs`).

use super::world::World;

/// A worker of the library `pool` in a stack that says so, and a Python thread in a call of it and outside,
/// as samples show them.
const WORKS: &str = "n:c/clone n:pool/loop";
const IN_RUN: &str = "n:c/_start p:main p:run n:pool/run";
const OUTSIDE: &str = "n:c/_start p:main n:random/fill";

/// A worker that spins on after the call that it worked for is charged to that call, with a joint that says
/// that it is over: not to what its caller does next. After it slept, a wake-up of the next call charges
/// that.
#[test]
fn a_spin_after_the_call() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "pool"));
    world.runs(main, 0, 20, IN_RUN);
    world.runs(main, 20, 40, OUTSIDE);
    world.runs(main, 40, 60, OUTSIDE);
    world.runs(main, 60, 80, "n:c/_start p:main p:predict n:pool/run");
    world.runs(main, 80, 100, "n:c/_start p:main p:predict n:pool/run");
    world.wakes(main, worker, 10);
    world.runs(worker, 10, 50, WORKS);
    world.wakes(main, worker, 61);
    world.runs(worker, 61, 80, WORKS);
    let seen = world.logical();
    assert_eq!(seen["main;run;[on behalf of];clone;loop"], 5_000);
    assert_eq!(seen["main;run;[on behalf of, after the call];clone;loop"], 15_000);
    assert_eq!(seen["main;predict;[on behalf of];clone;loop"], 9_737);
    assert_eq!(seen.keys().filter(|stack| stack.contains("clone")).count(), 3, "{seen:?}");
}

/// A spin goes on over the moments in which its worker is pushed off its CPU, and beyond its caller's going
/// to sleep.
#[test]
fn a_spin_that_is_interrupted() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "pool"));
    let other = world.process(None);
    let stranger = world.thread(other, "cc");
    world.runs(main, 0, 20, IN_RUN);
    world.waits(main, 20, "p:main p:sleep");
    world.runs(worker, 10, 50, WORKS);
    world.pushes_off(stranger, worker, 50, 60);
    world.runs(worker, 60, 100, WORKS);
    let seen = world.logical();
    let after = seen["_start;main;run;[on behalf of, after the call];clone;loop"];
    // What `main` does is known half-way between its sample and its wait, at 15 ms.
    assert_eq!(after, 72_500, "{seen:?}");
}

/// Two threads call the same pool by turns while its worker never sleeps: each call is charged for itself,
/// and the spin between two calls belongs to the one before it.
#[test]
fn two_callers_by_turns() {
    let mut world = World::new();
    let process = world.process(None);
    let (a, b) = (world.thread(process, "python"), world.thread(process, "python"));
    let worker = world.thread(process, "pool");
    for (thread, from) in [(a, 0), (b, 40)] {
        let name = if thread == a { "a" } else { "b" };
        world.runs(thread, from, from + 10, &format!("n:c/_start p:{name} p:run n:pool/run"));
        world.runs(thread, from + 10, from + 20, &format!("n:c/_start p:{name} n:random/fill"));
        world.waits(thread, from + 20, &format!("p:{name} p:sleep"));
    }
    world.wakes(a, worker, 1);
    world.runs(worker, 1, 100, WORKS);
    let seen = world.logical();
    let of = |name: &str, joint: &str| seen[&format!("_start;{name};run;{joint};clone;loop")];
    // Whoever ran at the same time halves an interval of 10 mJ with the worker.
    assert_eq!(
        of("a", "[on behalf of]") + of("a", "[on behalf of, after the call]"),
        4_737 + 5_000 + 20_000 + 2_500
    );
    assert!(of("b", "[on behalf of, after the call]") >= 45_000, "{seen:?}");
    assert_eq!(seen.keys().filter(|stack| stack.contains("clone")).count(), 4, "{seen:?}");
}

/// A worker of one caller's own pool spins while another thread is in a call of the same library, which has a
/// pool of its own: who wakes the worker tells whose it is.
#[test]
fn two_pools_of_one_library() {
    let mut world = World::new();
    let process = world.process(None);
    let (a, b) = (world.thread(process, "python"), world.thread(process, "python"));
    let worker = world.thread(process, "pool");
    (0..10).for_each(|at| world.wakes(a, worker, at));
    world.runs(a, 0, 20, "n:c/_start p:a p:run n:pool/run");
    world.runs(a, 20, 60, "n:c/_start p:a n:random/fill");
    world.runs(b, 20, 60, "n:c/_start p:b p:run n:pool/run");
    world.runs(b, 60, 100, "n:c/_start p:b p:run n:pool/run");
    world.runs(worker, 10, 60, WORKS);
    let seen = world.logical();
    assert!(!seen.keys().any(|stack| stack.contains("b;run;[on")), "{seen:?}");
    assert!(seen.contains_key("a;run;[on behalf of, after the call];clone;loop"), "{seen:?}");
}

/// A worker that slept after its call and is then woken by another thread's call works for that one, although
/// the first to wake it was not it.
#[test]
fn woken_by_somebody_else_afterwards() {
    let mut world = World::new();
    let process = world.process(None);
    let (a, b) = (world.thread(process, "python"), world.thread(process, "python"));
    let (worker, other) = (world.thread(process, "pool"), world.thread(process, "pool"));
    world.runs(a, 0, 10, "n:c/_start p:a p:run n:pool/run");
    world.runs(a, 10, 30, "n:c/_start p:a n:random/fill");
    world.runs(a, 30, 100, "n:c/_start p:a n:random/fill");
    world.wakes(a, worker, 1);
    world.runs(worker, 1, 20, WORKS);
    // `b` hands its work to another worker, which wakes this one; then it goes to sleep elsewhere.
    world.runs(b, 40, 50, "n:c/_start p:b p:run n:pool/run");
    world.waits(b, 50, "p:b p:sleep");
    world.wakes(b, other, 44);
    world.wakes(other, worker, 50);
    world.runs(worker, 50, 100, WORKS);
    let seen = world.logical();
    assert_eq!(seen["_start;b;run;[on behalf of, after the call];clone;loop"], 25_000, "{seen:?}");
    assert!(seen["a;run;[on behalf of, after the call];clone;loop"] > 0, "{seen:?}");
    assert!(
        !seen.keys().any(|stack| stack.contains("a;[on behalf of") || stack.contains("sleep;[on")),
        "{seen:?}"
    );
}

/// A worker that wakes by itself, long after any call and while its process does something else, is nobody's.
#[test]
fn a_worker_that_nobody_woke() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "pool"));
    world.runs(main, 0, 10, IN_RUN);
    for from in [10, 40, 70] {
        world.runs(main, from, from + 30, OUTSIDE);
    }
    world.runs(worker, 0, 10, WORKS);
    world.runs(worker, 70, 80, WORKS);
    let seen = world.logical();
    assert_eq!(seen["[pool: pool];clone;loop"], 5_000, "{seen:?}");
}

/// A stack of which Python frames are missing has the pool's library above what is left of them: where workers live
/// is known all the same.
#[test]
fn a_broken_stack_is_no_evidence() {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "pool"));
    world.runs(main, 0, 10, IN_RUN);
    world.runs(main, 10, 15, "n:c/_start n:pool/run p:inner");
    (15..100).step_by(5).for_each(|from| world.runs(main, from, from + 5, OUTSIDE));
    world.wakes(main, worker, 1);
    world.runs(worker, 1, 60, WORKS);
    let seen = world.logical();
    assert!(!seen.keys().any(|stack| stack.contains("main;[on behalf of")), "{seen:?}");
}

/// Work that waited in a queue belongs to the call that put it there, although another call of the same thread is
/// under way when the queue's thread has a worker do it.
#[test]
fn work_from_a_queue() {
    let mut world = World::new();
    let process = world.process(None);
    let main = world.thread(process, "python");
    let (queue, worker) = (world.thread(process, "queue"), world.thread(process, "pool"));
    world.runs(main, 0, 10, IN_RUN);
    world.runs(main, 10, 50, OUTSIDE);
    world.runs(main, 50, 100, "n:c/_start p:main p:predict n:pool/run");
    world.wakes(main, queue, 5);
    world.runs(queue, 5, 100, WORKS);
    world.wakes(queue, worker, 60);
    world.runs(worker, 60, 80, "n:c/clone n:pool/task");
    let seen = world.logical();
    let of_worker = |call: &str| seen.keys().any(|s| s.contains(call) && s.ends_with("clone;task"));
    assert!(of_worker("run;[on behalf of, after the call]") && !of_worker("predict;[on"), "{seen:?}");
}
