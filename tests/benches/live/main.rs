//! The closed loops as a benchmark: real BPF programs and simulated power counters, what the program says beside what was really spent.
//!
//! `cargo xtask bench live [--table | --short] [--load] [--runs N] [--repeats N] [--seconds N] [--only NAME] [--keep FOLDER] [--again FOLDER]`. Needs root, BPF, /dev/fuse, two
//! CPUs and util-linux. A program that fails says so in its line. Leaves out the virtual clock (`benches/accuracy.rs`), which no busy machine can upset.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod outcome;
mod programs;
mod repeats;

use anyhow::{Context as _, ensure};
use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::meter::Truth;
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::Guard;
use energy_trace_tests::report::Report;
use programs::Program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// What was typed.
struct Typed {
    seconds: u32,
    runs: u32,
    repeats: u32,
    table: bool,
    short: bool,
    load: bool,
    only: Option<String>,
    keep: Option<PathBuf>,
    again: Option<PathBuf>,
}

fn main() {
    let typed = typed();
    if typed.repeats > 0 {
        return repeat(&typed);
    }
    if let Some(folder) = &typed.again {
        return again(folder);
    }
    let programs = match () {
        () if typed.table => programs::table(typed.seconds, typed.load),
        () if typed.short => programs::short_loops(typed.seconds),
        () => programs::loops(typed.seconds),
    };
    println!("{}", outcome::HEAD);
    for program in &programs {
        if typed.only.as_ref().is_some_and(|only| !program.name.starts_with(only)) {
            continue;
        }
        for number in 1..=typed.runs {
            let keep = typed.keep.as_deref().map(|folder| kept_as(folder, program, &typed, number));
            match run(program, keep.as_deref()) {
                Ok(line) => println!("| {} | {line} |", program.name),
                Err(error) => println!("| {} | failed: {error:#} | | | | | | | |", program.name),
            }
        }
    }
}

/// The table of recordings that were kept, by the product of today.
fn again(folder: &Path) {
    println!("{}", outcome::HEAD);
    let mut kept: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "data"))
        .collect();
    kept.sort();
    for data in kept {
        let line = std::fs::read_to_string(data.with_extension("truth.json"))
            .context("its truth")
            .and_then(|text| Ok(serde_json::from_str(&text)?))
            .and_then(|truth| line(&data, &truth));
        let name = data.file_stem().unwrap_or_default().to_string_lossy();
        println!(
            "| {name} | {} |",
            line.unwrap_or_else(|error| format!("failed: {error:#} | | | | | | | |"))
        );
    }
}

/// Runs the same work again and again, and prints how far its functions' joules differ.
fn repeat(typed: &Typed) {
    let program = programs::repeated(typed.load);
    let mut runs = vec![];
    for number in 1..=typed.repeats {
        let keep = typed.keep.as_deref().map(|folder| kept_as(folder, &program, typed, number));
        match record(&program, keep.as_deref())
            .and_then(|(data, truth)| Ok((truth, report(&data.path(), &[])?)))
        {
            Ok(run) => runs.push(run),
            Err(error) => println!("run {number} failed: {error:#}"),
        }
    }
    print!("{}", repeats::table(&runs));
}

fn typed() -> Typed {
    let mut arguments = std::env::args().skip(1);
    let mut typed = Typed {
        seconds: 20,
        runs: 1,
        repeats: 0,
        table: false,
        short: false,
        load: false,
        only: None,
        keep: None,
        again: None,
    };
    while let Some(argument) = arguments.next() {
        let mut number = |or: u32| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(or);
        match argument.as_str() {
            "--seconds" => typed.seconds = number(typed.seconds),
            "--runs" => typed.runs = number(typed.runs),
            "--repeats" => typed.repeats = number(typed.repeats),
            "--table" => typed.table = true,
            "--short" => typed.short = true,
            "--load" => typed.load = true,
            "--only" => typed.only = arguments.next(),
            "--again" => typed.again = arguments.next().map(PathBuf::from),
            "--keep" => typed.keep = arguments.next().map(PathBuf::from),
            // What `cargo bench` adds.
            _ => {}
        }
    }
    typed
}

/// Where a run's files lie, without their endings.
fn kept_as(folder: &Path, program: &Program, typed: &Typed, number: u32) -> PathBuf {
    let words: Vec<&str> =
        program.name.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let load = if typed.load { "-load" } else { "" };
    folder.join(format!("{}{load}-{number}", words.join("-")))
}

/// Runs a program and returns its line of the table.
fn run(program: &Program, keep: Option<&Path>) -> anyhow::Result<String> {
    let (data, truth) = record(program, keep)?;
    line(&data.path(), &truth)
}

/// The line of a recording.
fn line(data: &Path, truth: &Truth) -> anyhow::Result<String> {
    let weighted = report(data, &[])?;
    let by_time = report(data, &["--attribution", "time"])?;
    Ok(outcome::line(truth, &weighted, &by_time))
}

/// Records a program; the recording and the truth are also left in `keep`.data and `keep`.truth.json.
fn record(program: &Program, keep: Option<&Path>) -> anyhow::Result<(Kept, Truth)> {
    let options = Options { sockets: program.sockets, step_uj: 61, update_us: 1_000, ..Options::default() };
    let simulation = Simulation::start(&options)?;
    let data = Kept(tempfile::tempdir()?);
    let start = |words: &Vec<String>| {
        let mut command = Command::new(&words[0]);
        Guard::spawn(command.args(&words[1..]).env(SOCKET_VARIABLE, simulation.socket()))
    };
    let beside = program.beside.iter().map(start).collect::<Result<Vec<_>, _>>();
    let beside = beside.context("the background processes")?;
    let mut command = Command::new(programs::product());
    command.args(["record", "--no-svg", "--idle-watts", "10", "-F", &program.sample_hz.to_string()]);
    command.args(["--power", "powercap", "--path.sysfs"]);
    command.arg(simulation.sysfs()).arg("-o").arg(data.path()).arg("--").args(&program.target);
    for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(variable);
    }
    let finished = Guard::spawn(command.env(SOCKET_VARIABLE, simulation.socket()))?.finish(LIMIT)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    let truth = simulation.truth();
    drop(beside);
    if let Some(keep) = keep {
        std::fs::create_dir_all(keep.parent().unwrap_or(keep)).context("the folder")?;
        std::fs::copy(data.path(), keep.with_extension("data")).context("the recording")?;
        std::fs::write(keep.with_extension("truth.json"), serde_json::to_string(&truth)?)
            .context("the truth")?;
    }
    Ok((data, truth))
}

/// A recording in a folder of its own, which goes with it.
struct Kept(tempfile::TempDir);

impl Kept {
    fn path(&self) -> PathBuf {
        self.0.path().join("energy-trace.data")
    }
}

/// The report of a recording.
fn report(data: &Path, options: &[&str]) -> anyhow::Result<Report> {
    let mut command = Command::new(programs::product());
    let report =
        Guard::spawn(command.args(["report", "--format", "json"]).args(options).arg(data))?.finish(LIMIT)?;
    Ok(Report::parse(&report.stdout)?)
}
