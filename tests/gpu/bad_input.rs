//! GPUs, drivers and programs that are not as one wishes: the launch tier counts what it can, says what it cannot, and never disturbs the program.
//!
//! Runs the real binary as root on the simulated GPU. Leaves out CUPTI (`gpu/library.rs`) and meters (`gpu/meter.rs`).

use super::seen::{LIMIT, assert_counts, by_kind, report, seen, total, truth};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::LossReason;
use energy_trace_sentences::recorded;
use energy_trace_tests::breadth::some_or_all;
use energy_trace_tests::gpu::{Device, Gpu, Meter, Prologue, Scenario, VARIABLE, one_gpu};
use energy_trace_tests::process::{Finished, Guard};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn scenario(model: &str) -> Scenario {
    one_gpu(Meter::model(model).unwrap().full_duty())
}

fn machine(model: &str) -> Gpu {
    Gpu::new(&one_gpu(Meter::model(model).unwrap().full_duty()), Prologue::EndbrPush).unwrap()
}

/// A recording that is to be made.
struct Run {
    folder: tempfile::TempDir,
    command: Command,
}

impl Run {
    /// energy-trace with NVML, before a program that finds the GPU's libraries or does not.
    fn new(gpu: &Gpu, finds: bool, program: &Path, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
        command.args([
            "record",
            "--no-svg",
            "--as-root",
            "--power",
            "nvml",
            "--power-hz",
            "50",
            "--nvml-lib",
        ]);
        command.arg(gpu.libraries().join("libnvidia-ml.so.1"));
        command.arg("-o").arg(folder.path().join("energy-trace.data")).arg("--").arg(program).args(arguments);
        command.env(VARIABLE, gpu.machine()).env_remove("LD_LIBRARY_PATH");
        if finds {
            gpu.env(&mut command);
        }
        Self { folder, command }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("energy-trace.data")
    }

    fn finish(&mut self) -> Finished {
        Guard::spawn(&mut self.command).unwrap().finish(LIMIT).unwrap()
    }

    /// Runs it; it has to end well.
    fn recording(&mut self) -> Recording {
        let done = self.finish();
        assert!(done.status.success(), "{}", done.stderr);
        read(&self.data()).unwrap()
    }
}

fn warned(recording: &Recording, code: &str) -> Option<String> {
    let warnings = &recording.summary.as_ref().unwrap().diagnostics;
    warnings.iter().find(|warning| warning.code() == code).map(recorded)
}

/// All of the ledger's rows balance, and the functions have together what the targets have.
#[track_caller]
fn assert_balanced(data: &Path) {
    let report = report(data);
    assert!(!report.ledger.is_empty());
    assert!(report.ledger.iter().all(|row| row.imbalance_uj() == 0), "{:?}", report.ledger);
    let target: i64 = report.ledger.iter().map(|row| row.target_uj).sum();
    assert_eq!(report.self_uj("gpu"), target);
}

/// A program that finds no driver ends as it does alone, and the GPU's energy is said to be nobody's; without NVML it is said why.
#[test]
fn no_driver_library() {
    let gpu = machine("IDEAL");
    let program = gpu.workload("gpu_driver", &[]).unwrap();
    let mut run = Run::new(&gpu, false, &program, &["1"]);
    let done = run.finish();
    assert_eq!(done.status.code(), Some(4), "{}", done.stderr);
    assert!(read(&run.data()).unwrap().gpu.launches.is_empty());
    let row = &report(&run.data()).ledger[0];
    assert!(row.target_uj == 0 && row.idle_uj > 0, "{row:?}");
    let mut none = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    none.args(["record", "--power", "nvml", "--nvml-lib", "/nonexistent/libnvidia-ml.so.1", "--", "true"]);
    let refused = Guard::spawn(none.current_dir(run.folder.path())).unwrap().finish(LIMIT).unwrap();
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("no NVIDIA driver is installed"), "{}", refused.stderr);
}

/// Libraries without the newer calls: launches are counted by those that there are, and power takes the place of the counter.
#[test]
fn libraries_are_too_old_for_some_calls() {
    let missing = [
        "cuLaunchKernelEx",
        "cuLaunchKernelEx_ptsz",
        "cuGetProcAddress_v2",
        "cuGraphInstantiateWithParams",
        "cudaLaunchKernelExC",
        "cudaLaunchKernelExC_ptsz",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetProcessUtilization",
    ];
    let gpu = Gpu::without(&scenario("V100"), Prologue::EndbrPush, &missing).unwrap();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut run = Run::new(&gpu, true, &program, &["2"]);
    let recording = run.recording();
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    assert!(warned(&recording, "gpu-no-counter").is_some_and(|text| text.contains("an estimate")));
    assert!(recording.readings.values().next().unwrap().len() > 50);
    assert_balanced(&run.data());
}

/// A GPU whose meter is lost while a program uses it: launches are counted to the end, its energy up to then, and it is said.
#[test]
fn the_gpu_vanishes() {
    let meter = Meter { lost_after_s: Some(7.0), ..Meter::model("V100").unwrap().full_duty() };
    let gpu = Gpu::new(&one_gpu(meter), Prologue::EndbrPush).unwrap();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut run = Run::new(&gpu, true, &program, &["9"]);
    let recording = run.recording();
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    assert!(warned(&recording, "gpu-lost").is_some_and(|text| text.contains("fell off the bus")));
    let all: f64 = gpu.truth().unwrap().iter().map(|launch| launch.uj).sum();
    let row = &report(&run.data()).ledger[0];
    // On a machine so slow that it was lost before the first step of its counter there is nothing to charge.
    assert!((row.target_uj as f64) < all, "{row:?}");
    assert_balanced(&run.data());
}

/// Libraries and a program without a symbol table: each launch is counted under its kernel's name.
#[test]
fn everything_is_stripped() {
    for &prologue in some_or_all(&[Prologue::EndbrPush, Prologue::Push]) {
        let gpu = Gpu::new(&scenario("IDEAL"), prologue).unwrap();
        let program = gpu.workload("gpu_mix", &[]).unwrap();
        let files = ["libcuda.so.1", "libcudart.so.12"].map(|file| gpu.libraries().join(file));
        let strip = Command::new("strip").args(files).arg(&program).status().unwrap();
        assert!(strip.success());
        let recording = Run::new(&gpu, true, &program, &["2"]).recording();
        assert_eq!(by_kind(&seen(&recording)), by_kind(&truth(&gpu.truth().unwrap())));
    }
}

/// A driver that is loaded by its path in the middle of the run, from where nobody looks before, is probed when it is mapped; that this was
/// late is said.
#[test]
fn the_driver_is_loaded_late() {
    let gpu = machine("IDEAL");
    let program = gpu.workload("gpu_driver", &[]).unwrap();
    let mut run = Run::new(&gpu, false, &program, &["2"]);
    run.command.env("GPU_DRIVER_LIBRARY", gpu.libraries().join("libcuda.so.1")).env("GPU_DRIVER_REST", "1.5");
    let recording = run.recording();
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
    let late = warned(&recording, "gpu-probes-late").unwrap();
    println!("{late}");
    assert!(late.contains("libcuda.so.1"), "{late}");
}

/// What a program calls its first GPU is found by number and by UUID: the launches and the joules are those of the right device.
#[test]
fn devices_are_reordered() {
    let mut two = scenario("IDEAL");
    two.devices.push(Device { meter: Meter::model("IDEAL").unwrap(), ..Device::default() });
    for &visible in some_or_all(&["1,0", "GPU-51349000-0000-4000-8000-000000000001"]) {
        let gpu = Gpu::new(&two, Prologue::EndbrPush).unwrap();
        let program = gpu.workload("gpu_driver", &[]).unwrap();
        let mut run = Run::new(&gpu, true, &program, &["2"]);
        run.command.env("CUDA_VISIBLE_DEVICES", visible);
        let recording = run.recording();
        assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
        assert!(gpu.truth().unwrap().iter().all(|launch| launch.gpu == 1));
        assert!(recording.gpu.launches.iter().all(|batch| batch.device == 1), "{visible}");
        let report = report(&run.data());
        let target = |domain: &str| {
            report.ledger.iter().filter(|row| row.domain == domain).map(|row| row.target_uj).sum::<i64>()
        };
        assert!(target("gpu-0") == 0 && target("gpu-1") > 1_000_000, "{:?}", report.ledger);
    }
}

/// A program that is killed inside a kernel: the recording is whole, and what was launched until then is in it.
#[test]
fn the_program_is_killed_inside_a_kernel() {
    let gpu = machine("V100");
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut run = Run::new(&gpu, true, &program, &["100"]);
    let guard = Guard::spawn(&mut run.command).unwrap();
    let begun = || gpu.truth().unwrap_or_default().first().map(|launch| launch.pid);
    let pid = loop {
        std::thread::sleep(Duration::from_millis(200));
        if let Some(pid) = begun() {
            break pid;
        }
    };
    std::thread::sleep(Duration::from_secs(2));
    // SAFETY: kill takes two numbers; the pid is that of a child of energy-trace, which has not been waited for: nobody but us ends it.
    unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGKILL) };
    let done = guard.finish(LIMIT).unwrap();
    assert_eq!(done.status.code(), Some(128 + libc::SIGKILL), "{}", done.stderr);
    let recording = read(&run.data()).unwrap();
    let (seen, truth) = (total(&seen(&recording)), total(&truth(&gpu.truth().unwrap())));
    // The last call may have been counted and not logged, or the other way round.
    assert!(seen.abs_diff(truth) <= 1 && truth > 100, "{seen} of {truth}");
    assert_balanced(&run.data());
}

/// A child that is forked in the middle and uses no GPU changes no count.
#[test]
fn a_child_is_forked_after_the_start_of_cuda() {
    let gpu = machine("IDEAL");
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let recording = Run::new(&gpu, true, &program, &["2", "fork"]).recording();
    assert!(recording.processes.len() > 1);
    assert_counts(&seen(&recording), &truth(&gpu.truth().unwrap()));
}

/// At 20,000 launches a second stacks are thinned and energy is not: all launches are counted, none is lost, and the joules balance.
#[test]
fn thinning_is_of_stacks() {
    let gpu = machine("V100");
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut run = Run::new(&gpu, true, &program, &["3", "rate", "20000"]);
    let recording = run.recording();
    let truth = truth(&gpu.truth().unwrap());
    assert_counts(&seen(&recording), &truth);
    assert!(total(&truth) > 20_000);
    let lost = &recording.summary.as_ref().unwrap().lost;
    assert!(
        !lost.contains_key(&LossReason::GpuCalls) && !lost.contains_key(&LossReason::UnknownGpu),
        "{lost:?}"
    );
    assert_balanced(&run.data());
}
