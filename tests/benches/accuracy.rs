//! The accuracy benchmark: every world and every scenario through the shipped attribution, many seeds, beside a split by CPU time alone.
//!
//! `cargo xtask bench accuracy`, or faster after a change of the attribution `cargo bench -p energy-trace-attribution --bench accuracy -- --world W3`.
//! Links the pure packages alone. Leaves out the comparison with the tables in the repository: that is a test (`accuracy_table.rs`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

#[path = "../scenarios/cpu/mod.rs"]
mod cpu;
#[path = "../scenarios/worlds/mod.rs"]
mod worlds;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use worlds::catalogue::{Entry, Use, is_held_out};
use worlds::measure::Outcome;
use worlds::recording::Recorder;

/// What is asked for.
struct Options {
    /// Worlds (W…, H…) and scenarios (B…) whose name begins so.
    only: Option<String>,
    from: u64,
    /// Of worlds 6, of scenarios 20.
    seeds: Option<u64>,
    /// Shows the seeds and worlds that nobody tunes on, and nothing else.
    held_out: bool,
    rates: Vec<u64>,
    read_hz: Option<u64>,
    jitter: f64,
    /// Each seed and each node that is flagged or missed.
    details: bool,
    write: Option<PathBuf>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self {
            only: None,
            from: 0,
            seeds: None,
            held_out: false,
            rates: vec![],
            read_hz: None,
            jitter: 0.5,
            details: false,
            write: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|n| n.parse().ok());
            match argument.as_str() {
                "--seeds" => options.seeds = number(),
                "--from" => options.from = number().unwrap_or(options.from),
                "--rate" => options.rates.extend(number()),
                "--read-hz" => options.read_hz = number(),
                "--periodic" => options.jitter = 0.0,
                "--held-out" => options.held_out = true,
                "--details" => options.details = true,
                "--world" | "--only" => options.only = arguments.next(),
                "--write" => options.write = arguments.next().map(PathBuf::from),
                // What `cargo bench` adds.
                _ => {}
            }
        }
        if options.rates.is_empty() {
            options.rates = vec![99, 499];
        }
        options
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    }
}

/// One world at one sampling rate, with its seeds.
struct Line {
    entry: Entry,
    hz: u64,
    seeds: Vec<u64>,
}

fn lines(options: &Options) -> Vec<Line> {
    let mut lines = vec![];
    for entry in worlds::catalogue::all().into_iter().filter(|entry| options.wants(entry.name)) {
        let count = options.seeds.unwrap_or(6).min(entry.most_seeds);
        let unseen = |seed: &u64| entry.used == Use::HeldOut || is_held_out(*seed);
        let seeds: Vec<u64> =
            (options.from..options.from + count).filter(|seed| unseen(seed) == options.held_out).collect();
        let of_rate = |&hz: &u64| Line { entry, hz, seeds: seeds.clone() };
        lines.extend(options.rates.iter().map(of_rate).filter(|line| !line.seeds.is_empty()));
    }
    lines
}

/// Runs all seeds of all lines on all CPUs, and prints each line as soon as it and those before it are done.
fn run(options: &Options, lines: &[Line]) -> Vec<Vec<Outcome>> {
    let jobs: Vec<(usize, u64)> = lines
        .iter()
        .enumerate()
        .flat_map(|(at, line)| line.seeds.iter().map(move |seed| (at, *seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<(Vec<Vec<Outcome>>, usize)> = Mutex::new((vec![vec![]; lines.len()], 0));
    let work = || {
        while let Some(&(at, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let line = &lines[at];
            let recorder = Recorder { hz: line.hz, jitter: options.jitter, read_hz: options.read_hz };
            let outcome = worlds::run(&line.entry, recorder, seed);
            let Ok(mut done) = done.lock() else { return };
            done.0[at].push(outcome);
            while done.1 < lines.len() && done.0[done.1].len() == lines[done.1].seeds.len() {
                let shown = done.1;
                done.0[shown].sort_by_key(|outcome| outcome.seed);
                print_line(options, &lines[shown], &done.0[shown]);
                done.1 += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    done.into_inner().map(|done| done.0).unwrap_or_default()
}

fn print_line(options: &Options, line: &Line, outcomes: &[Outcome]) {
    let title = format!("{} {}", line.entry.name, line.entry.what);
    println!("{}", worlds::table::line(&title, line.hz, outcomes));
    if options.details {
        print!("{}", worlds::table::details(outcomes));
    }
}

/// The scenarios that draw what the attribution assumes: a cheap check that nothing gets lost.
fn scenarios(options: &Options) -> (String, BTreeMap<&'static str, Vec<cpu::measure::Outcome>>) {
    let (mut text, mut all) = (cpu::table::HEAD.to_owned(), BTreeMap::new());
    for scenario in cpu::scenarios::all().into_iter().filter(|scenario| options.wants(scenario.name)) {
        if all.is_empty() {
            print!("\n{text}");
        }
        let seeds = options.from..options.from + options.seeds.unwrap_or(20);
        let outcomes: Vec<_> = seeds.map(|seed| cpu::measure::run(&scenario, seed)).collect();
        let line = cpu::table::line(&scenario, &outcomes);
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
        all.insert(scenario.name, outcomes);
    }
    (text, all)
}

fn main() {
    let options = Options::parse();
    let lines = lines(&options);
    if !lines.is_empty() {
        print!("{}", worlds::table::HEAD);
    }
    let _outcomes = run(&options, &lines);
    let (text, all) = scenarios(&options);
    if let Some(folder) = &options.write {
        let json = serde_json::to_string(&all).unwrap_or_default();
        let files = [("accuracy_table.md", text), ("accuracy_table.json", json + "\n")];
        for (name, content) in files {
            if let Err(error) = std::fs::write(folder.join(name), content) {
                println!("cannot write {}/{name}: {error}", folder.display());
            }
        }
    }
}
