//! Launches on the simulated GPU as energy-trace sees them, against the simulator's own log: every launch once, in its stack.
//!
//! Runs the real binary as root; BPF programs load, and probe the simulator's libcuda and libcudart. Counts are exact whatever the machine
//! does. Leaves out how well joules are split (`gpu_accuracy.rs`).

use super::seen::{LIMIT, assert_counts, report, seen, total, truth};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{DomainClass, FrameKind, LaunchStacks};
use energy_trace_model::recording::record::{LaunchDiagnostic, RecordingDiagnostic};
use energy_trace_sentences::recorded;
use energy_trace_tests::breadth::some_or_all;
use energy_trace_tests::gpu::{Gpu, Meter, Prologue, Scenario, one_gpu};
use energy_trace_tests::process::{Guard, tests_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

fn machine(model: &str, prologue: Prologue) -> Gpu {
    let meter = Meter::model(model).unwrap().full_duty();
    Gpu::new(&one_gpu(meter), prologue).unwrap()
}

/// One whose programs spin while they wait.
fn spun(model: &str) -> Gpu {
    let meter = Meter::model(model).unwrap().full_duty();
    Gpu::new(&Scenario { spin: true, ..one_gpu(meter) }, Prologue::EndbrPush).unwrap()
}

/// Records a command on the simulated GPU.
fn record(gpu: &Gpu, folder: &Path, program: &Path, arguments: &[&str]) -> PathBuf {
    let data = folder.join("energy-trace.data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--no-svg", "--as-root", "--power", "nvml", "--power-hz", "50", "-o"]).arg(&data);
    command.arg("--").arg(program).args(arguments);
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    data
}

fn record_workload(gpu: &Gpu, folder: &Path, name: &str, arguments: &[&str]) -> Recording {
    let program = gpu.workload(name, &[]).unwrap();
    read(&record(gpu, folder, &program, arguments)).unwrap()
}

/// Each launch through the runtime is counted once although it passes both libraries, in its own stack and under the kernel's name,
/// whatever their functions begin with.
#[test]
fn launches_are_counted_once_in_their_stacks() {
    for &prologue in some_or_all(&[Prologue::EndbrPush, Prologue::Push, Prologue::Jump]) {
        let (gpu, folder) = (machine("IDEAL", prologue), tempfile::tempdir().unwrap());
        let recording = record_workload(&gpu, folder.path(), "gpu_mix", &["2"]);
        assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
        let warnings = &recording.summary.unwrap().diagnostics;
        // The simulator's jump goes through memory, which no kernel emulates.
        assert!(
            prologue == Prologue::Jump || !warnings.iter().any(|warning| warning.code().starts_with("gpu-")),
            "{warnings:?}"
        );
    }
}

/// What is captured is not counted; what is replayed is counted in the stacks that captured it, below the one that replays.
#[test]
fn replays_belong_to_the_stacks_that_captured() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_mix", &["2", "graph"]);
    let counts = seen(&recording);
    assert_counts(&counts, &truth(&gpu.truth().unwrap()));
    assert!(counts[&("forward".to_owned(), "gemm".to_owned())] > 4);
    let in_graphs = recording.gpu.launches.iter().flat_map(|batch| &batch.work).filter_map(|launched| {
        let frames: Vec<_> =
            recording.frames_of(launched.stack).map(|(_, frame)| frame.name.clone()).collect();
        frames
            .iter()
            .position(|name| name == "[GPU graph]")
            .map(|mark| (frames[..mark].to_vec(), frames.len() - mark))
    });
    for (above, below) in in_graphs {
        assert!(above.iter().any(|name| name == "replay") && below > 2, "{above:?}");
    }
}

/// What one function launches belongs to the range in which it is launched.
#[test]
fn launches_belong_to_ranges() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    let data = folder.path().join("energy-trace.data");
    command.args(["record", "--no-svg", "--as-root", "--ranges", "--power", "nvml", "-o"]).arg(&data);
    command.arg("--").arg(program).args(["1", "ranges"]);
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    let recording = read(&data).unwrap();
    let in_range = |name: &str| -> u64 {
        let launched = recording.gpu.launches.iter().flat_map(|batch| &batch.work);
        let is_in = |stack| {
            let mut frames = recording.frames_of(stack);
            frames.next().is_some_and(|(_, frame)| frame.kind == FrameKind::Range && frame.name == name)
        };
        launched.filter(|launched| is_in(launched.stack)).map(|launched| launched.count).sum()
    };
    let (prefill, decode) = (in_range("prefill"), in_range("decode"));
    // One of the first launches was seen in the other range (650 and 1954).
    assert!(prefill > 10 && decode.abs_diff(3 * prefill) <= 8, "{prefill} and {decode}");
    assert_eq!(prefill + decode, gpu.truth().unwrap().len() as u64);
}

/// A copy to memory that is not pinned is where a decode loop waits: nearly each replay of its graph ends with one.
#[test]
fn a_copy_back_is_a_wait() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_mix", &["1", "decode"]);
    let copies = seen(&recording)[&("download".to_owned(), "[GPU copy]".to_owned())];
    let waits = recording.gpu.waits.len() as u64;
    assert!(copies > 50 && waits * 10 > copies * 9 && waits <= copies + 10, "{waits} of {copies}");
}

/// Graphs that calls build, from nodes of every kind, child graphs and copies: each node's work counts for the stack that put it in, in every
/// replay, and nothing for the building. New work in a node, and the work of another graph in the place of the whole, count for who made them from then on.
#[test]
fn built_and_changed_graphs_belong_to_who_put_the_work_in() {
    for &mode in some_or_all(&["update", "built", "set", "swap"]) {
        let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
        let recording = record_workload(&gpu, folder.path(), "gpu_built", &["1", mode]);
        let (seen, truth) = (seen(&recording), truth(&gpu.truth().unwrap()));
        assert_eq!(seen, truth, "{mode}");
        assert!(!seen.contains_key(&("replay".to_owned(), "[GPU graph]".to_owned())) && seen.len() > 2);
    }
}

/// A captured node that is given new work: it is not known which it was, so replays count as before and that is said; no launch is lost.
#[test]
fn new_work_in_a_captured_node_is_said() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_built", &["1", "found"]);
    let (seen, truth) = (seen(&recording), truth(&gpu.truth().unwrap()));
    let key = |site: &str, what: &str| (site.to_owned(), what.to_owned());
    let (old, new) = (key("forward", "gemm"), key("update", "adam"));
    assert_eq!((total(&seen), seen[&old]), (total(&truth), truth[&old] + truth[&new]));
    let warnings = &recording.summary.unwrap().diagnostics;
    let times_1 = RecordingDiagnostic::from(LaunchDiagnostic::GraphChanged { times: 1 });
    assert!(warnings.contains(&times_1), "{warnings:?}");
}

/// A driver that is loaded late and whose functions are found by `cuGetProcAddress` is seen, with the kernels' names and the device.
#[test]
fn a_driver_that_is_found_late_is_seen() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_driver", &["2"]);
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    assert!(recording.gpu.launches.iter().all(|batch| batch.device == 0));
    assert!(!recording.gpu.waits.is_empty());
}

/// Functions that are asked for by a kernel of a library, as cuBLAS does, have that kernel's name.
#[test]
fn functions_of_kernels_have_their_names() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let program = gpu.workload("gpu_driver", &[]).unwrap();
    let arguments = ["GPU_DRIVER_KERNELS=1", program.to_str().unwrap(), "1"];
    let recording = read(&record(&gpu, folder.path(), Path::new("env"), &arguments)).unwrap();
    let counts = seen(&recording);
    assert_counts(&counts, &truth(&gpu.truth().unwrap()));
    assert!(counts.keys().all(|(_, kernel)| !kernel.contains("unknown")), "{counts:?}");
}

/// Instructions that the kernel must step through are probed all the same, counted right, and warned of by name.
#[test]
fn slow_probes_are_named() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrSub), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_mix", &["1"]);
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    let warnings = recording.summary.unwrap().diagnostics;
    let slow = warnings.iter().find(|warning| warning.code() == "gpu-slow-probes").map(recorded).unwrap();
    assert!(slow.contains("cuLaunchKernel"), "{slow}");
}

/// Kernels that are launched into two streams are counted as ever, and their stacks are flagged: what ran side by side is not known.
#[test]
fn several_streams_are_said() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let recording = record_workload(&gpu, folder.path(), "gpu_mix", &["2", "streams"]);
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    let warnings = recording.summary.unwrap().diagnostics;
    assert!(warnings.iter().any(|warning| warning.code() == "gpu-streams"), "{warnings:?}");
}

/// Once the driver is seen to see all, the probes on the runtime are taken away in the middle of the run; no launch is counted twice or never.
#[test]
fn probes_on_the_runtime_go() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let data = folder.path().join("energy-trace.data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "-v", "--no-svg", "--as-root", "--power", "nvml", "-o"]).arg(&data);
    command.arg("--").arg(gpu.workload("gpu_mix", &[]).unwrap()).arg("4");
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stderr.contains("on runtimes are taken away"), "{}", done.stderr);
    assert_counts(&seen(&read(&data).unwrap()), &truth(&gpu.truth().unwrap()));
}

/// At 20,000 launches a second none is lost, and the stack of the one place that launches is known. Most have no stack of their own: how many is
/// said, in the recording, in the report, in its details and in JSON.
#[test]
fn many_launches_are_counted() {
    let (gpu, folder) = (machine("IDEAL", Prologue::EndbrPush), tempfile::tempdir().unwrap());
    let data = record(&gpu, folder.path(), &gpu.workload("gpu_mix", &[]).unwrap(), &["2", "rate", "20000"]);
    let recording = read(&data).unwrap();
    let (seen, truth) = (seen(&recording), truth(&gpu.truth().unwrap()));
    assert_counts(&seen, &truth);
    assert!(seen[&("rate".to_owned(), "tiny".to_owned())] > 10_000, "{seen:?}");
    let LaunchStacks { own, thinned, none } = recording.gpu.stacks;
    println!("{own} launches with their own stack, {thinned} thinned, {none} without");
    assert_eq!(own + thinned + none, total(&truth));
    assert!(own > 0 && thinned > own);
    let told = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
        let done =
            Guard::spawn(command.arg("report").args(arguments).arg(&data)).unwrap().finish(LIMIT).unwrap();
        done.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = format!("GPU launches {own} had their own stack taken; {thinned} came faster than 1,000");
    assert!(told(&[]).contains(&said) && told(&["--format", "json"]).contains("gpu-stacks-thinned"));
    assert!(told(&["-v"]).contains(&format!("stacks of GPU launches, of-the-place:thinned: {thinned}")));
    assert!(told(&["--format", "json"]).contains(&format!("\"of-the-place:thinned\":{thinned}")));
}

/// Python: each function launches in its own stack, the backward pass on its worker thread; joules balance, and waiting costs CPU time
/// that is marked.
#[test]
fn python_launches_in_python_stacks() {
    let (gpu, folder) = (spun("H100"), tempfile::tempdir().unwrap());
    let script = tests_dir().join("workloads/gpu_train.py");
    let arguments = [script.to_str().unwrap(), "10"];
    let data = record(&gpu, folder.path(), Path::new("/usr/bin/python3"), &arguments);
    let recording = read(&data).unwrap();
    assert_eq!(total(&seen(&recording)), total(&truth(&gpu.truth().unwrap())));
    let mut seen = seen(&recording);
    seen.retain(|(site, _), _| site != "no site");
    assert!(total(&seen) * 50 > total(&truth(&gpu.truth().unwrap())) * 49, "{seen:?}");
    assert!(seen.contains_key(&("gemm_backward".to_owned(), "gemm_grad".to_owned())), "{seen:?}");
    let report = report(&data);
    let row = report.ledger.iter().find(|row| row.domain == "gpu-0").unwrap();
    println!("{row:?}");
    assert_eq!(row.target_uj + row.other_uj + row.idle_uj + row.residual_uj, row.measured_uj);
    let active: f64 = gpu.truth().unwrap().iter().map(|launch| launch.uj).sum();
    let error = row.target_uj as f64 / active - 1.0;
    assert!(error.abs() < 0.1, "{error}: {row:?}");
    assert!(report.functions.iter().any(|function| function.name == "[GPU wait]"));
}

/// A thread that spins until the GPU is done: its CPU joules stand below `[GPU wait]`, at the stack that waits, and not below what launched.
#[test]
fn waiting_costs_the_cpu_and_says_so() {
    let (gpu, folder) = (spun("IDEAL"), tempfile::tempdir().unwrap());
    let data = folder.path().join("energy-trace.data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--no-svg", "--as-root", "--power", "nvml", "--power", "model", "-o"]).arg(&data);
    command.arg("--").arg(gpu.workload("gpu_driver", &[]).unwrap()).arg("3");
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    let recording = read(&data).unwrap();
    let profile =
        energy_trace_attribution::attribute(&recording, &energy_trace_model::profile::Options::default());
    let (mut waiting, mut all) = (0.0, 0.0);
    for row in &profile.rows {
        let joules = row.energy[DomainClass::Package].as_joules();
        let frames = row.stack.iter().flat_map(|stack| recording.frames_of(*stack));
        let names: Vec<&str> = frames.map(|(_, frame)| frame.name.as_str()).collect();
        all += joules;
        if names.last() == Some(&"[GPU wait]")
            && names.iter().any(|name| ["attention", "linear"].contains(name))
        {
            waiting += joules;
        }
    }
    // The kernels take hundreds of microseconds, their launches a few.
    println!("{waiting:.2} of {all:.2} J of the CPU while waiting for the GPU");
    assert!(waiting > 0.5 * all && all > 0.0);
}
