//! Where kernels cannot be timed, or not all of them: what is said, and that launches are counted all the same.

use super::{
    DomainClass, LIMIT, MicroJoules, Recorded, assert_ran, machine, ran, record, record_mix, recorder,
};
use energy_trace_model::profile::ProfileRow;
use energy_trace_tests::gpu::{Gpu, Meter, Prologue, Scenario, one_gpu};
use energy_trace_tests::process::{Guard, tests_dir};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Launches are counted and have the energy, no kernel is timed, and this is said, on the screen too.
#[track_caller]
fn assert_fell_back(recorded: &Recorded, why: &str) {
    let text = recorded.text("gpu-kernel-fallback");
    assert!(text.contains(why), "{:?}", recorded.profile.diagnostics);
    assert!(recorded.printed.contains(&text), "{}", recorded.printed);
    assert!(recorded.recording.gpu.busy.is_empty() && !recorded.recording.gpu.launches.is_empty());
    assert!(recorded.warning("gpu-by-launches").is_some());
}

/// A tool for `CUDA_INJECTION64_PATH`, compiled from this source.
fn tool(gpu: &Gpu, source: &Path) -> PathBuf {
    let to = gpu.machine().join("libtool.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&to, source]).status().unwrap();
    assert!(built.success());
    to
}

/// Without CUPTI, and with one of another major version, launches are counted and the reason is said.
#[test]
fn no_cupti_and_a_wrong_one() {
    let gpu = machine("V100");
    std::fs::remove_file(gpu.libraries().join("libcupti.so.13")).unwrap();
    std::fs::remove_file(gpu.libraries().join("libcupti.so")).unwrap();
    assert_fell_back(&record_mix(&gpu, &["3"]), "no libcupti was found");
    let scenario = Scenario { cupti: 11, ..one_gpu(Meter::model("V100").unwrap()) };
    let old = Gpu::new(&scenario, Prologue::Push).unwrap();
    assert_fell_back(&record_mix(&old, &["3"]), "CUPTI says version 11");
}

/// A profiler that was in `CUDA_INJECTION64_PATH` is started first; it takes CUPTI, which is said, and launches are counted.
#[test]
fn another_profiler_has_the_slot() {
    let gpu = machine("V100");
    let profiler = tool(&gpu, &tests_dir().join("workloads/gpu_profiler.c"));
    let recorded = record_with(&gpu, &profiler, &["3"]);
    assert_fell_back(&recorded, "another profiler");
    assert!(recorded.text("gpu-injection-chained").contains("libtool.so"));
}

/// A tool there that leaves CUPTI alone runs, and kernels are timed beside it.
#[test]
fn another_tool_runs_beside() {
    let gpu = machine("V100");
    let (source, mark) = (gpu.machine().join("tool.c"), gpu.machine().join("mark"));
    let code = format!(
        "#include <stdio.h>\nint InitializeInjection(void) {{ fclose(fopen(\"{}\", \"w\")); return 1; }}\n",
        mark.display()
    );
    std::fs::write(&source, code).unwrap();
    let recorded = record_with(&gpu, &tool(&gpu, &source), &["1"]);
    assert_ran(&recorded, &gpu.truth().unwrap());
    assert!(mark.exists() && recorded.warning("gpu-injection-chained").is_some());
    assert!(recorded.warning("gpu-kernel-fallback").is_none());
}

fn record_with(gpu: &Gpu, injected: &Path, arguments: &[&str]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = recorder(&data, &["--"]);
    command.arg(gpu.workload("gpu_mix", &[]).unwrap()).args(arguments).env("CUDA_INJECTION64_PATH", injected);
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    Recorded::read(&data, &done.stderr)
}

/// Into a process that runs nothing is injected: its launches are counted, and it is said what to start instead. A graph that it captured
/// before has the name of the function that replays it and not its kernels, which is said too.
#[test]
fn attached_to_a_process() {
    let gpu = machine("V100");
    let mut program = gpu.command(gpu.workload("gpu_mix", &[]).unwrap());
    let running = Guard::spawn(program.args(["60", "graph"])).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = recorder(&data, &["--duration", "3s", "-p", &running.pid().to_string()]);
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    let recorded = Recorded::read(&data, &done.stderr);
    assert_fell_back(&recorded, "not into processes that run");
    let start = "energy-trace record --gpu kernel -- PROGRAM";
    assert!(recorded.text("gpu-kernel-fallback").contains(start));
    let graphs = "have no kernels: [GPU graph]; for these start the program with energy-trace";
    assert!(recorded.printed.contains(graphs), "{}", recorded.printed);
    let is_replay = |row: &&ProfileRow| {
        let frames = row.stack.map(|stack| recorded.recording.frames_of(stack).map(|(_, frame)| &frame.name));
        let names: Vec<&String> = frames.into_iter().flatten().collect();
        names.last().is_some_and(|name| *name == "[GPU graph]") && names.iter().any(|name| *name == "replay")
    };
    let replays = recorded.profile.rows.iter().filter(is_replay).map(|row| row.energy[DomainClass::Gpu]);
    assert!(replays.sum::<MicroJoules>() > MicroJoules::ZERO, "{:?}", recorded.joules());
}

/// Without a GPU, and without the library beside the program, a recording is made and the reason said.
#[test]
fn nothing_to_inject_into_and_nothing_to_inject() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = recorder(&data, &["--", "true"]);
    let done = Guard::spawn(command.env("LD_LIBRARY_PATH", folder.path())).unwrap().finish(LIMIT).unwrap();
    assert_eq!(done.status.code(), Some(125), "--power nvml alone has nothing to read: {}", done.stderr);
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command
        .args(["record", "-v", "--no-svg", "--as-root", "--gpu", "kernel", "-o"])
        .arg(&data)
        .args(["--", "true"]);
    let done = Guard::spawn(&mut command).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success() && done.stderr.contains("no GPU has a counter here"), "{}", done.stderr);
    let gpu = machine("V100");
    let alone = Path::new(env!("CARGO_TARGET_TMPDIR")).join("energy-trace-alone");
    let _from_before = std::fs::remove_file(&alone);
    std::fs::hard_link(env!("CARGO_BIN_EXE_energy-trace"), &alone).unwrap();
    let mut command = Command::new(&alone);
    command
        .args(["record", "-v", "--no-svg", "--as-root", "--power", "nvml", "--gpu", "kernel", "-o"])
        .arg(&data);
    command.arg("--").arg(gpu.workload("gpu_mix", &[]).unwrap()).arg("3");
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    std::fs::remove_file(&alone).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    assert_fell_back(&Recorded::read(&data, &done.stderr), "libenergy_trace_cupti.so is neither beside");
}

/// A program that is killed inside a kernel: what came before is counted and true, what may be missing is said, and nothing hangs.
#[test]
fn killed_inside_a_kernel() {
    let gpu = machine("V100");
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let script = format!("{} 60 & sleep 2; kill -9 $!; wait; true", program.display());
    let recorded = record(&gpu, Path::new("/bin/sh"), &["-c", &script]);
    let (seen, should) = (recorded.busy(), ran(&gpu.truth().unwrap()));
    let count = |sums: &std::collections::BTreeMap<super::Key, (u64, u64)>| -> u64 {
        sums.values().map(|(_, count)| count).sum()
    };
    let (seen, should) = (count(&seen), count(&should));
    println!("{seen} of {should} kernels are recorded");
    assert!(seen <= should && seen * 2 > should, "{seen} of {should}");
    assert!(recorded.text("gpu-kernels-missing").contains("before it reported the last tenth"));
}

/// A child that is forked in the middle disturbs nothing.
#[test]
fn forked_in_the_middle() {
    let gpu = machine("V100");
    let recorded = record_mix(&gpu, &["1", "fork"]);
    assert_ran(&recorded, &gpu.truth().unwrap());
    assert!(recorded.warning("gpu-kernels-missing").is_none());
}

/// A recording that ends before its command: the command runs on undisturbed, and what came until then is counted.
#[test]
fn the_command_runs_on() {
    let gpu = machine("V100");
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = recorder(&data, &["--duration", "1s", "--"]);
    command.arg(gpu.workload("gpu_mix", &[]).unwrap()).arg("3");
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    let recorded = Recorded::read(&data, &done.stderr);
    let count = |sums: &std::collections::BTreeMap<super::Key, (u64, u64)>| -> u64 {
        sums.values().map(|(_, count)| count).sum()
    };
    let truth = gpu.truth().unwrap();
    // What runs while the tracer is being stopped may be recorded too: the kernel takes the probes away when it comes to it.
    let end = recorded.recording.summary.as_ref().unwrap().end.as_ns();
    let later: Vec<_> = truth.iter().filter(|launch| launch.start_ns > end).cloned().collect();
    let (seen, later) = (count(&recorded.busy()), count(&ran(&later)));
    let all = count(&ran(&truth));
    println!("{seen} of {all} recorded, {later} launched after its end");
    assert!(seen > 100 && later > 100, "{seen} of {all}, {later} after the end");
}

/// Under `sudo` the command runs as the user, who can load the library and reach the socket.
#[test]
fn as_the_invoking_user() {
    let gpu = machine("V100");
    let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(gpu.machine()).status().unwrap();
    assert!(open.success());
    let folder = tempfile::tempdir().unwrap();
    // Files are made as that user.
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--no-svg", "--power", "nvml", "--gpu", "kernel", "-o"]).arg(&data);
    command.arg("--").arg(gpu.workload("gpu_mix", &[]).unwrap()).arg("1");
    command.envs([("SUDO_UID", "65534"), ("SUDO_GID", "65534"), ("SUDO_USER", "nobody")]);
    let done = Guard::spawn(gpu.env(&mut command)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    assert_ran(&Recorded::read(&data, &done.stderr), &gpu.truth().unwrap());
}
