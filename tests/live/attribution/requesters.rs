//! For whom workers work, live: BPF programs load, and a Python program has its work done by others.
//!
//! Who asks is known by construction: in each part of the program one function waits for everything that its workers do. Leaves out the
//! rules themselves (`tracer/attribution/src/attribute/tests/delegation`).

use energy_trace_attribution::attribute;
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_tests::place::{Place, Talk, assert_code};
use energy_trace_tests::process::tests_dir;
use std::process::Command;

/// Nanoseconds on a CPU of stacks in which `worker` occurs, and of those of them in which `asker` does too, before a joint.
fn shares(profile: &Profile, worker: &str, asker: &str) -> (u64, u64) {
    let (mut all, mut asked) = (0, 0);
    for row in &profile.rows {
        let Some(stack) = row.stack else { continue };
        let names: Vec<&str> = profile.frames_of(stack).map(|(_, frame)| frame.name.as_str()).collect();
        if !names.contains(&worker) {
            continue;
        }
        all += row.time_ns;
        let joint = names.iter().position(|name| *name == SyntheticFrame::OnBehalfOf.name());
        if joint.is_some_and(|joint| names[..joint].contains(&asker)) {
            asked += row.time_ns;
        }
    }
    (all, asked)
}

/// Asks a worker process until its stdin is closed. The worker ends with it.
const RUNNING_POOL: &str = r#"
import ctypes, multiprocessing, os, threading, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def ask_processes(going):
    ends_with_parent = lambda: ctypes.CDLL(None).prctl(1, 9)
    with multiprocessing.get_context("fork").Pool(1, ends_with_parent) as pool:
        pool.apply(burn, (0.05,))
        print("runs", flush=True)
        while going.is_set():
            pool.apply(burn, (0.05,))

going = threading.Event()
going.set()
threading.Thread(target=lambda: (os.read(0, 1), going.clear())).start()
ask_processes(going)
"#;

/// A pool of processes that ran before the recording began: what its workers burn is charged to who waits for it all the same.
#[test]
fn workers_that_ran_already() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    place.write("pool.py", 0o644, RUNNING_POOL);
    let mut command = Command::new("/usr/bin/python3");
    command.arg(place.path("pool.py"));
    let mut running = Talk::spawn(command);
    assert_eq!(running.line(), "runs\n");
    let pid = running.0.id().to_string();
    assert_code(&place.run(&["record", "--power", "model", "--no-svg", "--duration", "2", "-p", &pid]), 0);
    running.end();
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let (burnt, asked) = shares(&attribute(&recording, &Options::logical()), "burn", "ask_processes");
    assert!(burnt > 0 && asked >= burnt / 5 * 4, "{asked} of {burnt} ns");
}

/// A pool's threads are new and never idle, and two threads wait: one for results, one for that thread's end.
const JOINED: &str = r#"
import concurrent.futures, threading, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def ask():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(burn, 0.3) for _ in range(6)]:
            task.result()

thread = threading.Thread(target=ask)
thread.start()
thread.join()
"#;

/// A thread that joins the one that asked is charged with nothing of what that one's pool burns.
#[test]
fn who_joins_asks_for_nothing() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    place.write("joined.py", 0o644, JOINED);
    let script = place.path("joined.py");
    let words =
        ["record", "--power", "model", "--no-svg", "--", "/usr/bin/python3", script.to_str().unwrap()];
    assert_code(&place.run(&words), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let (burnt, asked) = shares(&attribute(&recording, &Options::logical()), "burn", "ask");
    assert!(burnt > 0 && asked >= burnt / 5 * 4, "{asked} of {burnt} ns");
}

/// Threads without Python, a `ThreadPoolExecutor` and worker processes: most of what they burn is charged to the function that waits for
/// it, and each thread's sums are those of the physical view.
#[test]
fn workers_are_charged_to_those_who_wait() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = tests_dir().join("workloads/requesters.py");
    let python = ["record", "--power", "model", "--no-svg", "-F", "499", "--", "/usr/bin/python3"];
    let arguments: Vec<&str> = python.into_iter().chain([script.to_str().unwrap(), "1.5"]).collect();
    assert_code(&place.run(&arguments), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let logical = attribute(&recording, &Options::logical());
    assert_eq!(logical.ledger, attribute(&recording, &Options::default()).ledger);
    for (worker, asker) in [("ask_native", "ask_native"), ("burn", "ask_threads"), ("burn", "ask_processes")]
    {
        let (all, asked) = shares(&logical, worker, asker);
        assert!(asked > 0, "nothing is charged to {asker} (of {all} ns in {worker})");
    }
    let (burnt, by_threads) = shares(&logical, "burn", "ask_threads");
    let (_, by_processes) = shares(&logical, "burn", "ask_processes");
    assert!(by_threads + by_processes >= burnt / 5 * 4, "{by_threads} + {by_processes} of {burnt} ns");
    // Little stands below a pool's own name: what its threads do while the one who asked is not waiting, as on a loaded machine.
    let pools: u64 = logical
        .rows
        .iter()
        .filter(|row| {
            let mut frames = row.stack.into_iter().flat_map(|stack| logical.frames_of(stack));
            frames.any(|(_, frame)| frame.name.starts_with("[pool: "))
        })
        .map(|row| row.time_ns)
        .sum();
    let (native, _) = shares(&logical, SyntheticFrame::OnBehalfOf.name(), "ask_native");
    assert!(pools <= native / 3, "{pools} ns in pools, {native} ns on behalf of somebody");
}
