//! The injected part of the kernel tier on the simulated GPU: every launch with the device time that it really took, and all that can be
//! wrong with CUPTI. Leaves out the stacks of launches, and energy.

use energy_trace_cupti::wire::{Frame, Tick, decode};
use energy_trace_cupti::{NEXT, SOCKET};
use energy_trace_tests::gpu::{Gpu, Launch, Meter, Prologue, Scenario, one_gpu};
use energy_trace_tests::process::{Finished, Guard, tests_dir};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

fn gpu() -> Gpu {
    Gpu::new(&one_gpu(Meter::default()), Prologue::EndbrPush).unwrap()
}

/// Where cargo put the library: beside the test, or in `deps` beside it.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = program.ancestors().skip(1).take(2).flat_map(|f| [f.to_owned(), f.join("deps")]);
    let mut files = folders.map(|folder| folder.join("libenergy_trace_cupti.so"));
    files.find(|file| file.exists()).expect("libenergy_trace_cupti.so beside the tests")
}

/// A listener for one program, and the program's command.
struct Traced {
    listener: UnixListener,
    command: Command,
}

impl Traced {
    fn new(gpu: &Gpu, arguments: &[&str]) -> Self {
        let socket = gpu.machine().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let program = gpu.workload("gpu_mix", &[]).unwrap();
        let mut command = gpu.command(&program);
        command.args(arguments).env("CUDA_INJECTION64_PATH", library()).env(SOCKET, &socket);
        Self { listener, command }
    }

    /// Runs it to its end and returns what it said.
    fn run(mut self) -> (Finished, Vec<Frame>) {
        let guard = Guard::spawn(&mut self.command).unwrap();
        let (stream, _) = self.listener.accept().unwrap();
        let reader = std::thread::spawn(move || frames(stream));
        (guard.finish(LIMIT).unwrap(), reader.join().unwrap())
    }
}

fn frames(mut stream: UnixStream) -> Vec<Frame> {
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    stream.read_to_end(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    while let Some((frame, length)) = decode(rest).unwrap() {
        frames.push(frame);
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "a frame was cut");
    frames
}

/// Count and nanoseconds by correlation number and name, from the frames.
fn told(frames: &[Frame]) -> BTreeMap<(u32, String), (u64, u64)> {
    let mut names = BTreeMap::new();
    let mut sums = BTreeMap::<(u32, String), (u64, u64)>::new();
    for frame in frames {
        match frame {
            Frame::Name(number, name) => drop(names.insert(*number, name.clone())),
            Frame::Tick(tick) => {
                for sum in &tick.sums {
                    let total = sums.entry((sum.correlation, names[&sum.name].clone())).or_default();
                    *total = (total.0 + u64::from(sum.count), total.1 + sum.busy_ns);
                }
            }
            Frame::Hello { .. } | Frame::End => {}
        }
    }
    sums
}

/// The same from the truth.
fn truth(launches: &[Launch]) -> BTreeMap<(u32, String), (u64, u64)> {
    let mut sums = BTreeMap::<(u32, String), (u64, u64)>::new();
    for launch in launches {
        let name = match launch.kind.as_str() {
            "kernel" => launch.name.clone(),
            "h2d" => "[copy H2D]".to_owned(),
            "d2h" => "[copy D2H]".to_owned(),
            "d2d" => "[copy D2D]".to_owned(),
            other => format!("[{other}]"),
        };
        let total = sums.entry((launch.correlation, name)).or_default();
        *total = (total.0 + 1, total.1 + launch.end_ns - launch.start_ns);
    }
    sums
}

fn last_tick(frames: &[Frame]) -> &Tick {
    let mut last_first = frames.iter().rev();
    last_first
        .find_map(|frame| if let Frame::Tick(tick) = frame { Some(tick) } else { None })
        .expect("a tick")
}

fn trouble(frames: &[Frame]) -> &str {
    match &frames[0] {
        Frame::Hello { trouble, .. } => trouble,
        other => unreachable!("{other:?} is no hello"),
    }
}

/// Every launch, copy and set is told of with exactly the device time that it took, and so are the kernels of replayed graphs.
#[test]
fn exact_device_times() {
    for mode in ["eager", "graph", "streams"] {
        let gpu = gpu();
        let (ended, frames) = Traced::new(&gpu, &["1", mode]).run();
        assert!(ended.status.success(), "{ended:?}");
        assert!(matches!(&frames[0], Frame::Hello { cupti: 130_000, trouble, .. } if trouble.is_empty()));
        assert_eq!(frames.last(), Some(&Frame::End));
        let launches = gpu.truth().unwrap();
        let (found, expected) = (told(&frames), truth(&launches));
        assert!(expected.len() > 100, "{}", expected.len());
        assert_eq!(found, expected, "{mode}");
        let last = last_tick(&frames);
        assert_eq!((last.dropped, last.untimed), (0, 0));
    }
}

/// Times are on the one clock: each launch's interval lies where the truth has it, but for how long the two clocks take to read.
#[test]
fn one_clock() {
    let gpu = gpu();
    let (_, frames) = Traced::new(&gpu, &["0.5"]).run();
    assert_on_one_clock(&gpu, &frames);
}

#[track_caller]
fn assert_on_one_clock(gpu: &Gpu, frames: &[Frame]) {
    let truth: BTreeMap<u32, u64> =
        gpu.truth().unwrap().iter().map(|l| (l.correlation, l.start_ns)).collect();
    let ticks = frames.iter().filter_map(|f| if let Frame::Tick(tick) = f { Some(tick) } else { None });
    let mut apart: Vec<u64> =
        ticks.flat_map(|t| &t.sums).map(|sum| sum.start_ns.abs_diff(truth[&sum.correlation])).collect();
    apart.sort_unstable();
    // The median: a virtual CPU that stands still between the two readings moves single ones.
    assert!(apart[apart.len() / 2] < 50_000, "{} ns", apart[apart.len() / 2]);
}

/// Twenty thousand launches a second: none is lost, and each is told of once though it passes two libraries.
#[test]
fn many_launches() {
    let gpu = gpu();
    let (ended, frames) = Traced::new(&gpu, &["2", "rate", "20000"]).run();
    assert!(ended.status.success(), "{ended:?}");
    let launches = gpu.truth().unwrap();
    assert_eq!(told(&frames), truth(&launches));
    assert_eq!(last_tick(&frames).launches, launches.len() as u64);
    assert_eq!(last_tick(&frames).dropped, 0);
}

/// A child that is forked in the middle disturbs nothing.
#[test]
fn forked() {
    let gpu = gpu();
    let (ended, frames) = Traced::new(&gpu, &["0.6", "fork"]).run();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(told(&frames), truth(&gpu.truth().unwrap()));
}

/// A program that is killed inside a kernel leaves whole frames, all of them true, and no goodbye.
#[test]
fn killed() {
    let gpu = gpu();
    let mut traced = Traced::new(&gpu, &["60"]);
    let guard = Guard::spawn(&mut traced.command).unwrap();
    let (stream, _) = traced.listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, mut bytes) = (stream, Vec::new());
        // A cut frame at the end is what a kill may leave.
        let _ = stream.read_to_end(&mut bytes);
        let (mut frames, mut rest) = (Vec::new(), bytes.as_slice());
        while let Ok(Some((frame, length))) = decode(rest) {
            frames.push(frame);
            rest = &rest[length..];
        }
        frames
    });
    std::thread::sleep(Duration::from_millis(1500));
    guard.signal(libc::SIGKILL).unwrap();
    guard.finish(LIMIT).unwrap();
    let (found, expected) = (told(&reader.join().unwrap()), truth(&gpu.truth().unwrap()));
    assert!(!found.is_empty());
    assert!(found.iter().all(|(key, sum)| expected.get(key) == Some(sum)));
}

/// A tracer that goes away, or was never there, does not disturb the program.
#[test]
fn no_listener() {
    let gpu = gpu();
    let mut traced = Traced::new(&gpu, &["1"]);
    let guard = Guard::spawn(&mut traced.command).unwrap();
    drop(traced.listener.accept().unwrap());
    let ended = guard.finish(LIMIT).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    drop(traced.listener);
    traced.command.env(SOCKET, "/nonexistent/socket");
    let ended = Guard::spawn(&mut traced.command).unwrap().finish(LIMIT).unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// Without CUPTI, and with one that is too old, the program runs and the tracer is told why nothing is recorded.
#[test]
fn no_cupti() {
    let gpu = gpu();
    std::fs::remove_file(gpu.libraries().join("libcupti.so.13")).unwrap();
    std::fs::remove_file(gpu.libraries().join("libcupti.so")).unwrap();
    let (ended, frames) = Traced::new(&gpu, &["0.2"]).run();
    assert!(ended.status.success(), "{ended:?}");
    assert!(trouble(&frames).contains("no libcupti was found"), "{frames:?}");
    assert_eq!(frames.len(), 1);
    let scenario = Scenario { cupti: 11, ..one_gpu(Meter::default()) };
    let old = Gpu::new(&scenario, Prologue::Push).unwrap();
    let (ended, frames) = Traced::new(&old, &["0.2"]).run();
    assert!(ended.status.success(), "{ended:?}");
    assert!(trouble(&frames).contains("CUPTI says version 11"), "{frames:?}");
}

/// A tool that was in `CUDA_INJECTION64_PATH` before is started first; where it takes CUPTI's slot, that is said.
#[test]
fn slot_is_taken() {
    let gpu = gpu();
    let other = gpu.machine().join("libprofiler.so");
    let source = tests_dir().join("workloads/gpu_profiler.c");
    compile_library(&source, &other);
    let mut traced = Traced::new(&gpu, &["0.2"]);
    traced.command.env(NEXT, &other);
    let (ended, frames) = traced.run();
    assert!(ended.status.success(), "{ended:?}");
    assert!(trouble(&frames).contains("another profiler has CUPTI's only slot"), "{frames:?}");
}

/// From CUPTI 13.2 on the other profiler is named.
#[test]
fn who_has_the_slot() {
    let scenario = Scenario { cupti: 130_200, ..one_gpu(Meter::default()) };
    let gpu = Gpu::new(&scenario, Prologue::EndbrPush).unwrap();
    let other = gpu.machine().join("libprofiler.so");
    compile_library(&tests_dir().join("workloads/gpu_profiler.c"), &other);
    let mut traced = Traced::new(&gpu, &["0.2"]);
    traced.command.env(NEXT, &other).env("PROFILER_NAME", "tests");
    let (ended, frames) = traced.run();
    assert!(ended.status.success(), "{ended:?}");
    assert!(trouble(&frames).contains("only slot, CUPTI for tests:"), "{frames:?}");
    // Alone under its own name it times kernels as ever.
    let (_, frames) = Traced::new(&Gpu::new(&scenario, Prologue::EndbrPush).unwrap(), &["0.3"]).run();
    assert!(trouble(&frames).is_empty() && !told(&frames).is_empty());
}

/// From CUPTI 13.3 on, with a driver from r610 on, a profiler that lets others be beside it and this library both get all records, ours on our
/// clock, whether each has its own (13.4) or not. One that wants the slot for itself has it, and is named.
#[test]
fn beside_another_profiler() {
    for cupti in [130_300, 130_400] {
        let scenario = Scenario { cupti, driver: "610.43".into(), ..one_gpu(Meter::default()) };
        let gpu = Gpu::new(&scenario, Prologue::EndbrPush).unwrap();
        let (other, said) = (gpu.machine().join("libprofiler.so"), gpu.machine().join("said"));
        compile_library(&tests_dir().join("workloads/gpu_profiler.c"), &other);
        let mut traced = Traced::new(&gpu, &["0.5"]);
        traced.command.env(NEXT, &other).env("PROFILER_BESIDE", &said);
        let (ended, frames) = traced.run();
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(trouble(&frames), "");
        let launches = gpu.truth().unwrap();
        assert_eq!(told(&frames), truth(&launches));
        assert_on_one_clock(&gpu, &frames);
        let kernels: Vec<&Launch> = launches.iter().filter(|launch| launch.kind == "kernel").collect();
        let ns: u64 = kernels.iter().map(|kernel| kernel.end_ns - kernel.start_ns).sum();
        assert_eq!(std::fs::read_to_string(&said).unwrap(), format!("{} {ns}", kernels.len()));
        let again = Gpu::new(&scenario, Prologue::EndbrPush).unwrap();
        let mut traced = Traced::new(&again, &["0.2"]);
        traced.command.env(NEXT, &other).env("PROFILER_NAME", "tests");
        assert!(trouble(&traced.run().1).contains("only slot, CUPTI for tests:"));
    }
}

fn compile_library(source: &Path, to: &Path) {
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([to, source]).status().unwrap();
    assert!(built.success());
}
