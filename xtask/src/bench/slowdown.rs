//! How much slower a program runs while it is profiled: energy-trace beside py-spy, perf and bpftrace, on one process in one run.
//!
//! Every window with a profiler lies between two windows without one, and is compared with those. A profiler is given time to start
//! before its window begins: what is measured is its steady state. Work per CPU second says what it adds to the program's own thread;
//! work per wall second also what it takes from it by stopping it, or by using the CPUs.

use super::figures::median;
use super::paced::{Pace, Paced, Round};
use crate::setup::Purpose;
use crate::workspace::Workspace;
use crate::{frameworks, product};
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `cargo xtask bench slowdown`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often each profiler gets a window.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Length of a window, in seconds.
    #[arg(long, default_value_t = 4.0)]
    window: f64,
    /// How long a profiler has to start before its window, in seconds.
    #[arg(long, default_value_t = 4.0)]
    settle: f64,
    /// Samples a second.
    #[arg(long, default_values_t = [99, 999])]
    hz: Vec<u32>,
    /// Only these programs: torch, python.
    #[arg(long)]
    only: Vec<String>,
}

const PROGRAMS: [Pace; 2] = [
    Pace { name: "torch training", word: "torch", example: "torch_training.py", steps: 1 },
    Pace { name: "pure Python", word: "python", example: "torch_training.py", steps: 40 },
];

/// What runs beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Profiler {
    Ours,
    PySpy,
    Perf,
    Bpftrace,
}

const PROFILERS: [(Profiler, &str); 4] = [
    (Profiler::Ours, "energy-trace"),
    (Profiler::PySpy, "py-spy record --native"),
    (Profiler::Perf, "perf record --call-graph dwarf"),
    (Profiler::Bpftrace, "bpftrace profile, ustack + kstack"),
];

/// Slow-downs of one profiler in percent, a window each.
#[derive(Debug, Default)]
struct Slower {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// Where programs and files are.
struct Place<'a> {
    workspace: &'a Workspace,
    py_spy: PathBuf,
    folder: PathBuf,
}

pub(crate) fn chore(workspace: &Workspace, options: &Options) -> Result<()> {
    product::build(workspace, Purpose::Build)?;
    frameworks::make_environments(workspace)?;
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let place = Place { workspace, py_spy: frameworks::install_peers(workspace)?, folder };
    for pace in
        PROGRAMS.iter().filter(|p| options.only.is_empty() || options.only.iter().any(|w| w == p.word))
    {
        for &hz in &options.hz {
            print(pace, hz, &measure(&place, options, pace, hz)?);
        }
    }
    Ok(())
}

/// All windows of one program at one rate.
fn measure(place: &Place<'_>, options: &Options, pace: &Pace, hz: u32) -> Result<BTreeMap<Profiler, Slower>> {
    eprintln!("bench: {} at {hz} Hz", pace.name);
    let python = frameworks::python_of(place.workspace, pace.example)?;
    let mut paced = Paced::start(place.workspace.root(), &python, pace)?;
    while paced.rounds()? < 60 {
        sleep(Duration::from_millis(100));
    }
    let mut slower: BTreeMap<Profiler, Slower> = BTreeMap::new();
    let mut before = window(&mut paced, options.window)?;
    for _ in 0..options.rounds {
        for (profiler, name) in PROFILERS {
            let mut running = start(place, profiler, paced.pid(), hz)?;
            sleep(Duration::from_secs_f64(options.settle));
            let with = window(&mut paced, options.window)?;
            if let Some(status) = running.try_wait()? {
                bail!(
                    "{name} ended too early: {status}; {} says why",
                    place.folder.join("profiler.log").display()
                );
            }
            stop(&mut running)?;
            let after = window(&mut paced, options.window)?;
            let entry = slower.entry(profiler).or_default();
            entry.wall.push(100.0 * (with.wall / f64::midpoint(before.wall, after.wall) - 1.0));
            entry.cpu.push(100.0 * (with.cpu / f64::midpoint(before.cpu, after.cpu) - 1.0));
            before = after;
        }
    }
    Ok(slower)
}

/// Lets the program run for a window; its median round.
fn window(paced: &mut Paced, seconds: f64) -> Result<Round> {
    let from = now_ns()?;
    sleep(Duration::from_secs_f64(seconds));
    paced.rounds()?;
    paced.round(from, now_ns()?).context("the program is too slow for these windows; give a longer --window")
}

/// `CLOCK_MONOTONIC`.
fn now_ns() -> Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    u64::try_from(now.as_nanos()).context("a clock beyond 500 years")
}

/// Starts a profiler of `pid`, with its own defaults but for the rate.
fn start(place: &Place<'_>, profiler: Profiler, pid: u32, hz: u32) -> Result<Child> {
    let (pid, hz) = (pid.to_string(), hz.to_string());
    let out = |name: &str| place.folder.join(name);
    let mut command = match profiler {
        Profiler::Ours => {
            let mut command = Command::new(place.workspace.binary());
            command.args(["record", "--no-svg", "--power", "none", "-p", &pid, "-F", &hz, "-o"]);
            command.arg(out("slowdown.data"));
            command
        }
        Profiler::PySpy => {
            let mut command = Command::new(&place.py_spy);
            command.args(["record", "--native", "--format", "raw", "--duration", "3600"]);
            command.args(["--pid", &pid, "--rate", &hz, "--output"]).arg(out("slowdown.raw"));
            command
        }
        Profiler::Perf => {
            let mut command = Command::new("perf");
            command.args(["record", "--event", "cpu-clock", "--call-graph", "dwarf", "--pid", &pid]);
            command.args(["--freq", &hz, "--output"]).arg(out("slowdown.perf"));
            command
        }
        Profiler::Bpftrace => {
            let mut command = Command::new("bpftrace");
            command
                .arg("-e")
                .arg(format!("profile:hz:{hz} /pid == {pid}/ {{ @[ustack, kstack] = count(); }}"));
            command
        }
    };
    let log = File::create(out("profiler.log")).context("cannot write the profiler's log")?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// Ends a profiler: asked to first, because one that stops its target lets go of it only then; at once where it is slow to finish.
fn stop(running: &mut Child) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT)?;
    let asked = Instant::now();
    while running.try_wait()?.is_none() {
        if asked.elapsed() > PATIENCE {
            running.kill()?;
            running.wait()?;
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of a chore")]
fn print(pace: &Pace, hz: u32, slower: &BTreeMap<Profiler, Slower>) {
    println!("\n{} at {hz} Hz: slower by %, median (least .. most) over windows", pace.name);
    println!("{:<36}{:>28}{:>28}", "", "per CPU second", "per wall second");
    for (profiler, name) in PROFILERS {
        if let Some(Slower { wall, cpu }) = slower.get(&profiler) {
            println!("{name:<36}{:>28}{:>28}", cell(cpu), cell(wall));
        }
    }
}

fn cell(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2} .. {most:.2})", median(values.to_vec()))
}
