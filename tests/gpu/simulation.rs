//! The simulated GPU itself: what its log says is what its energy is made of, nothing runs in a capture, and calls pass the libraries as in
//! reality. Leaves out energy-trace.

use energy_trace_tests::gpu::{Device, Gpu, Launch, Meter, Place, Prologue, by_tag, one_gpu};
use energy_trace_tests::process::{Guard, tests_dir};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use simgpu::clock::now_ns;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

fn run(gpu: &Gpu, program: &Path, arguments: &[&str]) {
    let ended = Guard::spawn(gpu.command(program).args(arguments)).unwrap().finish(LIMIT).unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

fn gpu() -> Gpu {
    Gpu::new(&one_gpu(Meter::model("IDEAL").unwrap()), Prologue::EndbrPush).unwrap()
}

/// Energy above idle of the only device until now.
fn active_uj(place: &Place) -> f64 {
    place.shared.active_uj(0, now_ns())
}

/// The device's energy above idle is the sum of what the log says, to a millionth.
#[test]
fn log_and_energy_agree() {
    let gpu = gpu();
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.5"]);
    let launches = gpu.truth().unwrap();
    let logged: f64 = launches.iter().map(|l| l.uj).sum();
    let energy = active_uj(gpu.place());
    assert!(logged > 1e6, "{logged}");
    assert!((energy / logged - 1.0).abs() < 1e-6, "{energy} {logged}");
    let sums = by_tag(&launches);
    for key in [
        ("forward", "gemm"),
        ("backward", "relu"),
        ("upload", "h2d"),
        ("download", "d2h"),
        ("clear", "memset"),
    ] {
        assert!(sums.contains_key(&(key.0.to_owned(), key.1.to_owned())), "{key:?} is not in {sums:?}");
    }
}

/// Within a stream nothing overlaps, and each launch takes what the scenario says.
#[test]
fn streams_are_queues() {
    let gpu = gpu();
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.3"]);
    let launches = gpu.truth().unwrap();
    for pair in launches.windows(2) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?}");
    }
    let gemm = launches.iter().find(|l| l.name == "gemm").unwrap();
    assert_eq!((gemm.end_ns - gemm.start_ns, gemm.uj.round()), (300_000, 90_000.0));
}

/// A capture runs nothing; a replay runs all of it, under the tags of the capture.
#[test]
fn captures_run_later() {
    let gpu = gpu();
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.4", "graph"]);
    let launches = gpu.truth().unwrap();
    let (replayed, eager): (Vec<_>, Vec<_>) = launches.iter().partition(|l| l.tag == "replay");
    assert!(eager.iter().all(|l| l.tag == "optimizer" && l.capture_tag.is_empty()), "{eager:?}");
    assert!(!replayed.is_empty() && replayed.len().is_multiple_of(10), "{}", replayed.len());
    let count = |tag: &str| replayed.iter().filter(|l| l.capture_tag == tag).count();
    assert_eq!(count("forward"), 4 * count("backward"));
}

/// Building a graph runs nothing; a replay runs each node as it was added, and from a change on as it was changed, under the tag of who did.
#[test]
fn built_graphs_run_later() {
    let count = |launches: &[Launch], tag: &str, name: &str| {
        launches.iter().filter(|launch| launch.capture_tag == tag && launch.name == name).count()
    };
    let built = gpu();
    run(&built, &built.workload("gpu_built", &[]).unwrap(), &["0.3", "built"]);
    let launches = built.truth().unwrap();
    assert!(launches.iter().all(|launch| launch.tag == "replay") && launches.len().is_multiple_of(5));
    let replays = launches.len() / 5;
    for (tag, name) in
        [("upload", "h2d"), ("clear", "memset"), ("dense", "gemm"), ("wide", "relu"), ("activate", "relu")]
    {
        assert_eq!(count(&launches, tag, name), replays, "{tag} {name}");
    }
    let set = gpu();
    run(&set, &set.workload("gpu_built", &[]).unwrap(), &["0.3", "set"]);
    let launches = set.truth().unwrap();
    let (old, new) = (count(&launches, "dense", "gemm"), count(&launches, "update", "adam"));
    assert!(old > 0 && new > 0 && old + new == count(&launches, "linear", "gemm"), "{old}, {new}");
}

/// Streams that fill the device wait for each other, and the sum of the shares is never above one.
#[test]
fn shares_are_kept() {
    let gpu = gpu();
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.2", "streams"]);
    let mut launches = gpu.truth().unwrap();
    launches.sort_by_key(|l| l.start_ns);
    assert!(launches.iter().any(|l| l.stream != launches[0].stream));
    for pair in launches.windows(2) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?}");
    }
}

/// The driver is found late and by `cuGetProcAddress`; two processes share the device.
#[test]
fn two_processes_share() {
    let gpu = gpu();
    let program = gpu.workload("gpu_driver", &["-fcf-protection"]).unwrap();
    let both = [0, 1].map(|_| Guard::spawn(gpu.command(&program).arg("0.4")).unwrap());
    for one in both {
        let ended = one.finish(LIMIT).unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
    let launches = gpu.truth().unwrap();
    let mut pids: Vec<u32> = launches.iter().map(|l| l.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2);
    let logged: f64 = launches.iter().map(|l| l.uj).sum();
    assert!((active_uj(gpu.place()) / logged - 1.0).abs() < 1e-6);
    let busy = gpu.place().shared.busy(0, 0, u64::MAX);
    assert_eq!(busy.len(), 2);
    let kernels: u64 = launches.iter().map(|l| l.end_ns - l.start_ns).sum();
    assert_eq!(busy.iter().map(|b| b.1).sum::<u64>(), kernels);
}

/// A forked child has no GPU and disturbs nobody.
#[test]
fn forked() {
    let gpu = gpu();
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.4", "fork"]);
    let launches = gpu.truth().unwrap();
    assert!(launches.iter().all(|l| l.pid == launches[0].pid));
}

/// Without a machine a program sees no device, and its error.
#[test]
fn no_machine() {
    let gpu = gpu();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let ended = Guard::spawn(gpu.command(&program).env_remove("SIMGPU_DIR")).unwrap().finish(LIMIT).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("says 100"), "{ended:?}");
}

/// Python launches through ctypes, and its backward pass from a thread of its own.
#[test]
fn python_with_a_device_thread() {
    let gpu = gpu();
    let script = tests_dir().join("workloads/gpu_train.py");
    run(&gpu, Path::new("python3"), &[script.to_str().unwrap(), "0.5"]);
    let launches = gpu.truth().unwrap();
    let tids = |tag: &str| {
        let own = launches.iter().filter(|l| l.tag == tag);
        own.map(|l| l.tid).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((tids("forward").len(), tids("gemm_backward").len()), (1, 1));
    assert!(tids("forward").is_disjoint(&tids("gemm_backward")));
}

/// `CUDA_VISIBLE_DEVICES` reorders: what the program calls its first device is the machine's second.
#[test]
fn devices_are_reordered() {
    let mut scenario = one_gpu(Meter::default());
    scenario.devices = vec![Device::default(), Device::default()];
    let gpu = Gpu::new(&scenario, Prologue::Jump).unwrap();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut command = gpu.command(&program);
    let ended =
        Guard::spawn(command.arg("0.1").env("CUDA_VISIBLE_DEVICES", "1,0")).unwrap().finish(LIMIT).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let launches = gpu.truth().unwrap();
    assert!(!launches.is_empty() && launches.iter().all(|l| l.gpu == 1));
}

/// The functions of a face begin as was asked, and the launch functions of both libraries are there.
#[test]
fn prologues() {
    for (prologue, first) in [
        (Prologue::EndbrPush, [0xf3, 0x0f, 0x1e, 0xfa, 0x55]),
        (Prologue::Push, [0x55, 0x48, 0x89, 0xe5, 0x5d]),
        (Prologue::Sub, [0x48, 0x83, 0xec, 0x08, 0x48]),
    ] {
        let gpu = Gpu::new(&one_gpu(Meter::default()), prologue).unwrap();
        for (library, function) in
            [("libcuda.so.1", "cuLaunchKernel"), ("libcudart.so.12", "cudaLaunchKernel")]
        {
            let bytes = std::fs::read(gpu.libraries().join(library)).unwrap();
            let file = object::File::parse(&*bytes).unwrap();
            let symbol = file.dynamic_symbols().find(|s| s.name() == Ok(function)).unwrap();
            let text = file.section_by_name(".text").unwrap();
            let begun = text.data_range(symbol.address(), 5).unwrap().unwrap();
            assert_eq!(begun, first, "{library} {prologue:?}");
        }
    }
}

/// From the first context on a device takes what its scenario says on top.
#[test]
fn contexts_raise_the_idle_power() {
    let mut scenario = one_gpu(Meter::default());
    scenario.devices[0].context_watts = 20.0;
    let gpu = Gpu::new(&scenario, Prologue::Push).unwrap();
    let place = gpu.place();
    let power_w =
        |from: u64, to: u64| (place.energy_uj(0, to) - place.energy_uj(0, from)) / ((to - from) as f64 / 1e3);
    let start = place.shared.start_ns();
    let before = now_ns();
    assert!((power_w(start, before) - 60.0).abs() < 1e-6);
    run(&gpu, &gpu.workload("gpu_mix", &[]).unwrap(), &["0.1"]);
    let after = now_ns();
    assert!((power_w(after, after + 1_000_000_000) - 80.0).abs() < 1e-6);
}
