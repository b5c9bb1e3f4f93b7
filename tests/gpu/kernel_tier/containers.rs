//! Programs below a root and in a mount namespace of their own, as containers have them: they find other copies of the GPU's libraries, and the
//! injected library must come to where they are.
//!
//! Leaves out container runtimes, which start programs outside of energy-trace's own tree.

use super::{Key, LIMIT, Recorded, assert_ran, machine, recorder};
use energy_trace_tests::gpu::{Gpu, VARIABLE};
use energy_trace_tests::process::{Guard, tests_dir};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The words that run `gpu_driver` so, which rests half a second before it loads the driver, and again before its first call.
fn contained(gpu: &Gpu, run: &str) -> Vec<String> {
    let script = tests_dir().join("workloads/contained.sh");
    let program = gpu.workload("gpu_driver", &[]).unwrap();
    let words = ["unshare".into(), "-m".into(), "sh".into(), script, run.into(), gpu.libraries()];
    let words = words.into_iter().chain([gpu.machine().to_owned(), program, "1".into()]);
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}

/// A command for which only NVML is at hand here, beside the simulated machine.
fn with_rest<'a>(gpu: &Gpu, command: &'a mut Command) -> &'a mut Command {
    command.env(VARIABLE, gpu.machine()).env("GPU_DRIVER_REST", "0.5").env_remove("LD_LIBRARY_PATH")
}

fn finish(mut command: Command, data: &Path) -> Recorded {
    let done = Guard::spawn(&mut command).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    Recorded::read(data, &done.stderr)
}

/// Launches of each kernel and stack, as the launch tier counted them.
fn launches(recorded: &Recorded) -> u64 {
    let counts = recorded.recording.gpu.launches.iter().flat_map(|batch| &batch.work);
    counts.map(|launched| launched.count).sum()
}

fn kernel_tier(gpu: &Gpu, run: &str) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = recorder(&data, &["--nvml-lib"]);
    command.arg(gpu.libraries().join("libnvidia-ml.so.1")).arg("--").args(contained(gpu, run));
    with_rest(gpu, &mut command);
    finish(command, &data)
}

/// The library is put below the program's root: each kernel is recorded with its time, and every launch is counted. (On a machine that is busy the
/// probes may be said to be late, by less than the program takes to its first launch.)
#[test]
fn kernels_below_another_root() {
    let gpu = machine("H100");
    let recorded = kernel_tier(&gpu, "mode=755");
    let truth = gpu.truth().unwrap();
    assert_ran(&recorded, &truth);
    assert_eq!(launches(&recorded), truth.len() as u64);
    for code in ["gpu-kernel-fallback", "gpu-probes-failed"] {
        assert!(recorded.warning(code).is_none(), "{:?}", recorded.warning(code));
    }
    let busy = recorded.busy();
    let key: Key = ("linear".to_owned(), "matmul".to_owned());
    assert!(busy.contains_key(&key), "{busy:?}");
}

/// Where that root's folder lets no code run (or cannot be written to) this is said, and launches are counted.
#[test]
fn where_the_library_cannot_be() {
    let gpu = machine("V100");
    let recorded = kernel_tier(&gpu, "noexec");
    let text = recorded.text("gpu-kernel-fallback");
    assert!(text.contains("lets no code run") && text.contains("below the root of process"), "{text:?}");
    assert!(recorded.recording.gpu.busy.is_empty());
    assert_eq!(launches(&recorded), gpu.truth().unwrap().len() as u64);
}

/// A program in a container that runs already: every launch is counted by probes on the libraries that it maps, wherever they lie.
#[test]
fn attached_to_a_container() {
    let gpu = machine("H100");
    let words = contained(&gpu, "mode=755");
    let mut program = Command::new(&words[0]);
    let running =
        Guard::spawn(with_rest(&gpu, program.args(&words[1..])).env("GPU_DRIVER_REST", "2")).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("energy-trace.data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--no-svg", "--power", "nvml", "--nvml-lib"]);
    command.arg(gpu.libraries().join("libnvidia-ml.so.1")).arg("-o").arg(&data);
    command.args(["-p", &running.pid().to_string()]);
    with_rest(&gpu, &mut command);
    let recorded = finish(command, &data);
    assert_eq!(launches(&recorded), gpu.truth().unwrap().len() as u64);
}
