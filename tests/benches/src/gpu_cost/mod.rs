//! `bench gpu-cost`: what a launch costs the program, by tier, and how much slower a launch-bound loop gets.
//!
//! A loop with a fixed amount of work before each launch runs, each time as a process of its own, alone, with empty probes (the trap
//! alone), and below energy-trace. `driver` and `runtime` are libraries that do nothing, so that what is seen is the probes; `simulated` is the
//! whole simulated GPU, for the tier that needs CUPTI. The loop has a CPU to itself. Runs of all kinds are interleaved, and compared by the
//! CPU time of the launching thread, the median over rounds of 50 ms, because virtual machines lose wall time. Where they also change their
//! pace, by a factor of two within minutes, the last two columns hold still: there a call's time is compared with that of the loop's own work in the same round,
//! and put in nanoseconds by what that work took alone. `BPF ns` is the kernel's own count of the programs (bpf_stats), its
//! bookkeeping included. Leaves out what the GPU does.

#![expect(clippy::print_stdout, reason = "the table is the result")]

mod floor;
mod tracer;

use super::figures::{median, spread};
use anyhow::{Context as _, Result, ensure};
use floor::Empty;
use simgpu::faces::Prologue;
use simgpu::meter::Meter;
use simgpu::scenario::WORKLOADS;
use simgpu::{Place, Scenario, VARIABLE};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xtask::command::{is_root, run};
use xtask::product;
use xtask::workspace::Workspace;

/// What to measure, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Launches a second of the loop when nobody looks.
    #[arg(long, default_values_t = [1_000, 10_000, 50_000])]
    rate: Vec<u32>,
    /// Only these layers: driver, runtime, simulated.
    #[arg(long)]
    only: Vec<String>,
    /// Measure this build of energy-trace instead of the one of this tree.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What runs beside the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    EmptyProbes,
    Ours(&'static str),
}

const KINDS: [(Beside, &str); 5] = [
    (Beside::Nothing, "nothing"),
    (Beside::EmptyProbes, "empty probes"),
    (Beside::Ours("device"), "--gpu device"),
    (Beside::Ours("launch"), "--gpu launch"),
    (Beside::Ours("kernel"), "--gpu kernel"),
];
/// How long a run is not looked at: energy-trace reads files and makes tables first.
const SETTLE_NS: u64 = 1_500_000_000;
/// The layer that is a whole simulated GPU.
const SIMULATED: &str = "simulated";

/// Where everything is.
struct Bench {
    binary: PathBuf,
    folder: PathBuf,
}

/// One run: nanoseconds of CPU and of the clock for a launch; of the probes' program for a run of it, and its runs for a launch.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    cpu: f64,
    wall: f64,
    /// The loop's own work by the clock, and how many times that the rest takes.
    work: f64,
    rest: f64,
    bpf: Option<(f64, f64)>,
    /// CPU time of energy-trace itself for a launch.
    tracer: Option<f64>,
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    ensure!(is_root(), "energy-trace loads BPF programs: run this as root");
    let binary = product::given_or_built(workspace, options.binary.as_deref())?;
    let bench = Bench { binary, folder: workspace.target().join("bench/gpu_cost") };
    bench.prepare(workspace)?;
    println!("{HEAD}");
    for layer in ["driver", "runtime", SIMULATED] {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == layer) {
            continue;
        }
        for &rate in &options.rate {
            bench.compare(options, layer, rate)?;
        }
    }
    println!(
        "\nGoal: at most 1,000 ns a launch for the launch tier, where functions begin with an instruction that the kernel emulates."
    );
    Ok(())
}

const HEAD: &str = "\
| layer | launches/s | beside | CPU ns a launch | added ns (least .. most) | slower by CPU time % | by the clock % | BPF ns a run, runs a launch | energy-trace's own CPU ns a launch | added ns a launch by the loop's own pace (least .. most) | slower % by that |
|---|---|---|---|---|---|---|---|---|---|---|";

impl Bench {
    /// Builds the simulated GPU and the loop.
    fn prepare(&self, workspace: &Workspace) -> Result<()> {
        run(workspace.cargo().args(["build", "--quiet", "--release", "--package", "simgpu"]))?;
        let libraries = self.libraries();
        simgpu::faces::build(
            &libraries,
            &workspace.target().join("release/libsimgpu.so"),
            Prologue::EndbrPush,
        )?;
        let linked = ["libcudart.so.12", "libcuda.so.1", "libsimgpu.so"]
            .map(|file| libraries.join(file).display().to_string());
        let linked = linked.each_ref().map(String::as_str);
        let source = workspace.root().join("tests/workloads/gpu_pace.c");
        simgpu::faces::compile(&source, &self.folder.join("gpu_pace"), &libraries, &linked)?;
        self.prepare_null(workspace)
    }

    /// Builds the libraries that do nothing.
    fn prepare_null(&self, workspace: &Workspace) -> Result<()> {
        let (source, folder) = (workspace.root().join("tests/workloads/gpu_null.c"), self.null());
        fs::create_dir_all(&folder)?;
        let flags = ["-shared", "-fPIC", "-O1", "-fcf-protection=full", "-fno-omit-frame-pointer", "-o"];
        let compile = |library: &str, more: &[&str]| {
            let mut cc = Command::new("cc");
            cc.args(flags).arg(folder.join(library)).arg(&source).args(more);
            run(cc.arg(format!("-Wl,-soname,{library}")))
        };
        compile("libcuda.so.1", &["-DDRIVER"])?;
        let driver = folder.join("libcuda.so.1").display().to_string();
        compile("libcudart.so.12", &[driver.as_str()])
    }

    fn null(&self) -> PathBuf {
        self.folder.join("null")
    }

    /// Where the loop finds its libraries.
    fn libraries_of(&self, layer: &str) -> PathBuf {
        if layer == SIMULATED { self.libraries() } else { self.null() }
    }

    fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    fn compare(&self, options: &Options, layer: &str, rate: u32) -> Result<()> {
        let steps = self.steps(layer, rate)?;
        let kinds: Vec<_> = KINDS.iter().filter(|(beside, _)| self.has(*beside, layer)).collect();
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); kinds.len()];
        for _ in 0..options.rounds.max(1) {
            for ((beside, _), runs) in kinds.iter().zip(&mut runs) {
                runs.push(self.run(*beside, layer, steps, rate, options.seconds)?);
            }
        }
        let alone = &runs[0];
        for ((_, name), runs) in kinds.iter().zip(&runs) {
            println!("| {layer} | {rate} | {name} | {} |", cells(alone, runs));
        }
        Ok(())
    }

    /// Steps of work before each launch, so that the loop alone launches at this rate.
    fn steps(&self, layer: &str, rate: u32) -> Result<u64> {
        let ns = |steps| Ok::<f64, anyhow::Error>(self.run(Beside::Nothing, layer, steps, rate, 0.5)?.cpu);
        let (without, with) = (ns(0)?, ns(20_000)?);
        let step = ((with - without) / 20_000.0).max(0.05);
        Ok(((1e9 / f64::from(rate) - without) / step).max(0.0) as u64)
    }

    /// Whether this build of energy-trace knows the tier.
    fn has(&self, beside: Beside, layer: &str) -> bool {
        let Beside::Ours(tier) = beside else { return true };
        if tier == "kernel" && layer != SIMULATED {
            return false;
        }
        let mut command = Command::new(&self.binary);
        command.args([
            "record",
            "--power",
            "none",
            "--no-svg",
            "-o",
            "/dev/null",
            "--gpu",
            tier,
            "--",
            "true",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.code() != Some(2))
    }

    /// One run of the loop.
    fn run(&self, beside: Beside, layer: &str, steps: u64, rate: u32, seconds: f64) -> Result<Run> {
        // In memory: the simulator writes a line for each launch.
        let machine = PathBuf::from(format!("/dev/shm/energy-trace-gpu-cost-{}", std::process::id()));
        let _old = fs::remove_dir_all(&machine);
        let model = Meter::model("A100").context("a model of the simulated GPU")?;
        Place::create(&machine, &Scenario::new(model, &WORKLOADS)).context("cannot make the machine")?;
        let libraries = self.libraries_of(layer);
        let driver = (libraries.join("libcuda.so.1"), "cuLaunchKernel");
        let runtime = (libraries.join("libcudart.so.12"), "cudaLaunchKernel");
        let functions = [(driver.0.as_path(), driver.1), (runtime.0.as_path(), runtime.1)];
        let _probes = if beside == Beside::EmptyProbes { Some(Empty::attach(&functions)?) } else { None };
        let child = self.command(beside, layer, steps, rate, seconds, &machine).spawn()?;
        let watch = matches!(beside, Beside::Ours(_)).then_some(seconds);
        finish(child, watch, &machine)
    }

    fn command(
        &self,
        beside: Beside,
        layer: &str,
        steps: u64,
        rate: u32,
        seconds: f64,
        machine: &Path,
    ) -> Command {
        let last = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1;
        let mut command = Command::new("env");
        if let Beside::Ours(tier) = beside {
            command.arg(&self.binary);
            command.args(["record", "--power", "nvml", "--no-svg", "--as-root", "--gpu", tier, "--nvml-lib"]);
            command.arg(self.libraries().join("libnvidia-ml.so.1"));
            command.arg("-o").arg(self.folder.join("energy-trace.data")).arg("--");
        }
        command.args(["chrt", "-f", "10", "taskset", "-c", &last.to_string()]);
        command.arg(self.folder.join("gpu_pace"));
        let round = (rate / 20).max(20).to_string();
        // What is measured begins when energy-trace has read what it needs.
        let seconds = seconds + SETTLE_NS as f64 / 1e9;
        let through = if layer == SIMULATED { "runtime" } else { layer };
        command.args([&seconds.to_string(), through, &steps.to_string(), &round]);
        command.env("LD_LIBRARY_PATH", self.libraries_of(layer)).env(VARIABLE, machine);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }
}

/// Waits for a run; where energy-trace is what runs, looks at its counters meanwhile.
fn finish(child: Child, watch: Option<f64>, machine: &Path) -> Result<Run> {
    let pid = child.id();
    let watcher =
        watch.map(|seconds| std::thread::spawn(move || tracer::watch(pid, Duration::from_secs_f64(seconds))));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "a run of the loop ended with {}", output.status);
    let watched = watcher.and_then(|watcher| watcher.join().ok()).flatten();
    let mut of_loop = rounds(&String::from_utf8_lossy(&output.stdout))?;
    let _large = fs::remove_dir_all(machine);
    if let Some(seen) = watched {
        let launches = seen.seconds * 1e9 / of_loop.wall;
        of_loop.bpf =
            (seen.runs > 0).then(|| (seen.run_ns as f64 / seen.runs as f64, seen.runs as f64 / launches));
        of_loop.tracer = Some(seen.cpu_ns as f64 / launches);
    }
    Ok(of_loop)
}

/// The median round of a loop, for a launch.
fn rounds(text: &str) -> Result<Run> {
    let parse = |line: &str| -> Option<[u64; 4]> {
        let mut words = line.split(' ').map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??, words.next()??])
    };
    let lines: Vec<[u64; 4]> = text.lines().filter_map(parse).collect();
    let from = lines.first().context("the loop said nothing")?[0] + SETTLE_NS;
    let settled: Vec<_> = lines.iter().filter(|line| line[0] >= from).collect();
    let each = |field: usize| {
        let pairs = settled.windows(2);
        pairs.map(move |pair| {
            (pair[1][field] - pair[0][field]) as f64 / (pair[1][2] - pair[0][2]).max(1) as f64
        })
    };
    ensure!(settled.len() > 3, "the loop is too slow for runs of this length");
    let rest = each(0).zip(each(3)).map(|(wall, work)| (wall - work) / work.max(1.0));
    let (wall, cpu) = (median(each(0).collect()), median(each(1).collect()));
    Ok(Run { wall, cpu, work: median(each(3).collect()), rest: median(rest.collect()), ..Run::default() })
}

fn cells(alone: &[Run], runs: &[Run]) -> String {
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.cpu).collect());
    let wall = |runs: &[Run]| median(runs.iter().map(|run| run.wall).collect());
    let added: Vec<f64> = runs.iter().zip(alone).map(|(run, alone)| run.cpu - alone.cpu).collect();
    let [added, least, most] = spread(&added);
    let bpf: Vec<(f64, f64)> = runs.iter().filter_map(|run| run.bpf).collect();
    let of_bpf = |of: fn(&(f64, f64)) -> f64| median(bpf.iter().map(of).collect());
    let bpf = if bpf.is_empty() {
        "–".to_owned()
    } else {
        format!("{:.0}, {:.2}", of_bpf(|bpf| bpf.0), of_bpf(|bpf| bpf.1))
    };
    let tracer: Vec<f64> = runs.iter().filter_map(|run| run.tracer).collect();
    let tracer = if tracer.is_empty() { "–".to_owned() } else { format!("{:.0}", median(tracer)) };
    format!(
        "{:.0} | {added:.0} ({least:.0} .. {most:.0}) | {:.2} | {:.2} | {bpf} | {tracer} | {}",
        cpu(runs),
        100.0 * (cpu(runs) / cpu(alone) - 1.0),
        100.0 * (wall(runs) / wall(alone) - 1.0),
        by_pace(alone, runs),
    )
}

/// What is added to a launch, and to the whole loop, where the loop's own work in the same round is the clock.
fn by_pace(alone: &[Run], runs: &[Run]) -> String {
    let middle = |of: fn(&Run) -> f64, runs: &[Run]| median(runs.iter().map(of).collect());
    let (work, rest) = (middle(|run| run.work, alone), middle(|run| run.rest, alone));
    let added: Vec<f64> = runs.iter().zip(alone).map(|(run, alone)| (run.rest - alone.rest) * work).collect();
    let [added, least, most] = spread(&added);
    let slower = (middle(|run| run.rest, runs) - rest) / (1.0 + rest);
    format!("{added:.0} ({least:.0} .. {most:.0}) | {:.2}", 100.0 * slower)
}

#[cfg(test)]
mod tests {
    use super::rounds;

    /// The median round once the start is over, for a launch; a round that lost the CPU does not move it.
    #[test]
    fn rounds_of_a_loop() {
        let line = |i: u64, late: u64| {
            format!(
                "{} {} {} {}\n",
                5_000_000_000 + i * 1_000_000_000 + late,
                i * 900,
                i * 10,
                i * 250_000_000
            )
        };
        let text: String = (0..8).map(|i| line(i, if i > 5 { 400_000_000 } else { 0 })).collect();
        let run = rounds(&text).unwrap();
        assert_eq!((run.cpu, run.wall), (90.0, 1e8));
        assert_eq!((run.work, run.rest), (25e6, 3.0));
        assert!(rounds("warming up\n").is_err());
    }
}
