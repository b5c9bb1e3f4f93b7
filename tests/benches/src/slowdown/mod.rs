//! How much slower a program runs while it is profiled: energy-trace beside py-spy, perf and bpftrace, on one process in one run.
//!
//! Every window with a profiler lies between two windows without one, and is compared with those. A profiler is given time to start
//! before its window begins: what is measured is its steady state. Work per CPU second says what it adds to the program's own thread, beside
//! a twin of the program on the same CPU (`twins.rs`); work per wall second, of the program alone, also what it takes by stopping it.
//! Timers that interrupt every process of a CPU slow the twin too: an empty timer's cost is measured in the same way and added.

mod profilers;
mod twins;

use self::profilers::{Profiler, Running};
use self::twins::{Seen, Twins};
use super::figures::{median, spread};
use super::paced::{Pace, Wall};
use super::perf_event::EmptyEvent;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;
use xtask::{frameworks, product};

/// `cargo xtask bench slowdown`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often each profiler gets its windows.
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
    /// Only these profilers.
    #[arg(long, value_enum, default_values_t = Profiler::ALL)]
    profilers: Vec<Profiler>,
}

const PROGRAMS: [Pace; 2] = [
    Pace { name: "torch training", word: "torch", example: "torch_training.py", steps: 1 },
    Pace { name: "pure Python", word: "python", example: "torch_training.py", steps: 40 },
];

/// Between two empty timer interrupts: so many a second that they can be measured.
const EMPTY_PERIOD_NS: u64 = 50_000;

/// Slow-downs of one profiler in percent, a window each.
#[derive(Debug, Default)]
struct Slower {
    cpu: Vec<f64>,
    wall: Vec<f64>,
    /// Whether a window was too short for the program's rounds, so that it was slower than the figure.
    at_least: bool,
}

/// Where programs and files are.
struct Place<'a> {
    workspace: &'a Workspace,
    py_spy: PathBuf,
    folder: PathBuf,
}

impl Place<'_> {
    /// What a profiler says.
    fn log(&self) -> PathBuf {
        self.folder.join("profiler.log")
    }
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    product::build(workspace, Purpose::Build)?;
    frameworks::make_environments(workspace)?;
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let place = Place { workspace, py_spy: frameworks::install_peers(workspace)?, folder };
    for pace in
        PROGRAMS.iter().filter(|p| options.only.is_empty() || options.only.iter().any(|w| w == p.word))
    {
        let python = frameworks::python_of(workspace, pace.example)?;
        let mut twins = Twins::start(workspace.root(), &python, pace, options.window)?;
        eprintln!("bench: {}, an empty timer", pace.name);
        let empty_ns = empty_timer_ns(&mut twins, options.rounds)?;
        for &hz in &options.hz {
            eprintln!("bench: {} at {hz} Hz", pace.name);
            print(pace, hz, empty_ns, &measure(&place, options, &mut twins, hz)?);
        }
    }
    Ok(())
}

/// What one interrupt of a timer costs before anybody does anything in it, in nanoseconds: the median over windows.
fn empty_timer_ns(twins: &mut Twins, rounds: u32) -> Result<f64> {
    let slow = "the program does nothing beside an empty timer";
    let mut each = Vec::new();
    let mut before = twins.ratio()?.context(slow)?;
    for _ in 0..rounds {
        let timer = EmptyEvent::timer(twins.pid(), EMPTY_PERIOD_NS)?;
        let with = twins.ratio()?.context(slow)?;
        drop(timer);
        let after = twins.ratio()?.context(slow)?;
        let without = f64::midpoint(before, after);
        #[expect(clippy::cast_precision_loss, reason = "a constant of five digits")]
        each.push((1.0 - without / with) * EMPTY_PERIOD_NS as f64);
        before = after;
    }
    Ok(median(each))
}

/// All windows of one program at one rate.
fn measure(
    place: &Place<'_>,
    options: &Options,
    twins: &mut Twins,
    hz: u32,
) -> Result<BTreeMap<Profiler, Slower>> {
    let mut slower: BTreeMap<Profiler, Slower> = BTreeMap::new();
    let mut before = twins.look()?;
    for _ in 0..options.rounds {
        for &profiler in &options.profilers {
            let running = Running::start(place, profiler, twins.pid(), hz)?;
            sleep(Duration::from_secs_f64(options.settle));
            let with = twins.look()?;
            running.stop(place).with_context(|| profiler.name())?;
            let after = twins.look()?;
            slower.entry(profiler).or_default().add(before, with, after);
            before = after;
        }
    }
    Ok(slower)
}

impl Slower {
    /// The windows with a profiler, and those before and after it without.
    fn add(&mut self, before: Seen, with: Seen, after: Seen) {
        let percent =
            |with: f64, before: f64, after: f64| 100.0 * (with / f64::midpoint(before, after) - 1.0);
        if let (Some(before), Some(with), Some(after)) = (before.cpu, with.cpu, after.cpu) {
            self.cpu.push(percent(with, before, after));
        }
        self.wall.push(percent(with.wall.ns(), before.wall.ns(), after.wall.ns()));
        self.at_least |= matches!(with.wall, Wall::AtLeast(_));
    }
}

#[expect(clippy::print_stdout, reason = "the result of a task")]
fn print(pace: &Pace, hz: u32, empty_ns: f64, slower: &BTreeMap<Profiler, Slower>) {
    println!("\n{} at {hz} Hz: slower by %, median (least .. most) over windows", pace.name);
    println!("{:<36}{:>28}{:>28}", "", "per CPU second", "per wall second, alone");
    let empty = 100.0 * f64::from(hz) * empty_ns / 1e9;
    for (profiler, Slower { cpu, wall, at_least }) in slower {
        let added = if profiler.interrupts_all() { empty } else { 0.0 };
        let cpu: Vec<f64> = cpu.iter().map(|percent| percent + added).collect();
        let wall = format!("{}{}", if *at_least { ">= " } else { "" }, cell(wall));
        println!("{:<36}{:>28}{wall:>28}", profiler.name(), cell(&cpu));
    }
    println!(
        "An empty timer costs {empty_ns:.0} ns an interrupt; {empty:.2} % are added for those that interrupt every process of a CPU."
    );
}

fn cell(values: &[f64]) -> String {
    if values.is_empty() {
        return "it stands still".to_owned();
    }
    let [median, least, most] = spread(values);
    format!("{median:.2} ({least:.2} .. {most:.2})")
}
