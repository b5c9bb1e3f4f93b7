//! Recorded programs with drawn watts through the shipped attribution: the same table as that of the simulated worlds.
//!
//! `cargo xtask bench accuracy --traced`, or with traces at hand `cargo bench -p energy-trace-scenarios --bench traced -- FOLDER`. Links the pure
//! packages alone. Leaves out how traces are recorded (`tests/benches/src/traces.rs`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use energy_trace_model::recording::file;
use energy_trace_scenarios::traced;
use energy_trace_scenarios::traced::{Kind, Trace};
use energy_trace_scenarios::worlds::catalogue::is_held_out;
use energy_trace_scenarios::worlds::measure::Outcome;
use energy_trace_scenarios::worlds::recording::Recorder;
use energy_trace_scenarios::worlds::summary::Summary;
use energy_trace_scenarios::worlds::table;
use energy_trace_scenarios::worlds::unflagged::Unflagged;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The program that nobody tunes on.
const HELD_OUT: &str = "tf1";

/// What is asked for.
struct Options {
    folder: PathBuf,
    only: Option<String>,
    from: u64,
    seeds: u64,
    held_out: bool,
    rates: Vec<u64>,
    read_hz: Option<u64>,
    jitter: f64,
    details: bool,
    /// Leaves out the processes that ran beside the programs.
    alone: bool,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            folder: PathBuf::from("target/traces"),
            only: None,
            from: 0,
            seeds: 3,
            held_out: false,
            rates: vec![],
            read_hz: None,
            jitter: 0.5,
            details: false,
            alone: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|n| n.parse().ok());
            match argument.as_str() {
                "--seeds" => options.seeds = number().unwrap_or(options.seeds),
                "--from" => options.from = number().unwrap_or(options.from),
                "--rate" => options.rates.extend(number()),
                "--read-hz" => options.read_hz = number(),
                "--periodic" => options.jitter = 0.0,
                "--held-out" => options.held_out = true,
                "--alone" => options.alone = true,
                "--details" => options.details = true,
                "--world" | "--only" => options.only = arguments.next(),
                // What `cargo bench` adds.
                "--bench" => {}
                folder => options.folder = PathBuf::from(folder),
            }
        }
        if options.rates.is_empty() {
            options.rates = vec![99, 499];
        }
        options
    }

    /// The traces in the folder, by name.
    fn traces(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "data"))
            .filter(|path| self.only.as_ref().is_none_or(|only| name_of(path).starts_with(only)))
            .collect();
        paths.sort();
        paths
    }

    fn seeds_of(&self, name: &str) -> Vec<u64> {
        let unseen = |seed: &u64| name == HELD_OUT || is_held_out(*seed);
        (self.from..self.from + self.seeds).filter(|seed| unseen(seed) == self.held_out).collect()
    }
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// All seeds of a trace with one kind of watts at one rate, on all CPUs.
fn outcomes(trace: &Trace, kind: Kind, recorder: Recorder, seeds: &[u64]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![]);
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = traced::run(trace, kind, recorder, *seed);
            done.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|outcome| outcome.seed);
    done
}

fn main() {
    let options = Options::parse();
    print!("{}", table::HEAD);
    let mut unflagged = Unflagged::default();
    for path in options.traces() {
        let name = name_of(&path);
        let seeds = options.seeds_of(&name);
        let Some(trace) = file::read(&path).ok().and_then(Trace::of).filter(|_| !seeds.is_empty()) else {
            continue;
        };
        let trace = if options.alone { trace.alone() } else { trace };
        for kind in Kind::ALL {
            for &hz in &options.rates {
                let recorder =
                    Recorder { jitter: options.jitter, read_hz: options.read_hz, ..Recorder::usual(hz) };
                let outcomes = outcomes(&trace, kind, recorder, &seeds);
                outcomes.iter().for_each(|outcome| unflagged.add(outcome));
                let runs: Vec<Summary> = outcomes.iter().map(Summary::from).collect();
                let (seen, held_out) =
                    if options.held_out { (&[][..], &runs[..]) } else { (&runs[..], &[][..]) };
                println!("{}", table::line(&format!("{name}, {}", kind.name()), hz, seen, held_out));
                if options.details {
                    print!("{}", table::details(&outcomes));
                }
            }
        }
    }
    println!("\n{unflagged}");
}
