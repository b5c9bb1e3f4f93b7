//! The GPU accuracy benchmark: each meter and tier against the truth, beside splits that know no energies.
//!
//! `cargo xtask bench gpu-accuracy`. First on a virtual clock, through the shipped attribution; then, where asked for, live on the simulated
//! GPU. Leaves out every assertion about accuracy: those are tests (`gpu_accuracy.rs`).

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    dead_code,
    reason = "a program for the terminal, which shares its simulation with a test"
)]

#[path = "../../scenarios/gpu/mod.rs"]
mod gpu;
mod live;
mod measure;
mod meters;
mod table;

use measure::{LOOPS, TIERS};
use table::Line;

/// What was asked for.
struct Options {
    seeds: u64,
    seconds: u64,
    live: live::Options,
    only: Option<String>,
    json: Option<String>,
}

impl Options {
    fn read() -> Self {
        let live =
            live::Options { runs: 0, seconds: 20, cells: vec![], keep: None, again: false, stacks: false };
        let mut options = Self { seeds: 5, seconds: 60, live, only: None, json: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "--seeds" => options.seeds = value().parse().unwrap_or(options.seeds),
                "--seconds" => options.seconds = value().parse().unwrap_or(options.seconds),
                "--live" => options.live.runs = value().parse().unwrap_or(options.live.runs),
                "--live-seconds" => options.live.seconds = value().parse().unwrap_or(options.live.seconds),
                "--cell" => options.live.cells.push(value()),
                "--keep" => options.live.keep = Some(value().into()),
                "--again" => options.live.again = true,
                "--stacks" => options.live.stacks = true,
                "--only" => options.only = Some(value()),
                "--json" => options.json = Some(value()),
                // What `cargo bench` adds.
                _ => {}
            }
        }
        options
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    }
}

fn main() {
    let options = Options::read();
    let mut lines = virtual_clock(&options);
    println!("\n{}", table::goals(&lines));
    if options.live.runs > 0 {
        println!("Live, on the simulated GPU:\n\n{}", table::HEAD.trim_end());
        for line in live::lines(&options.live, |name| options.wants(name)) {
            println!("{}", line.text());
            lines.push(line);
        }
    }
    if let Some(file) = &options.json {
        let json = serde_json::to_string_pretty(&lines).unwrap_or_default();
        if let Err(error) = std::fs::write(file, json + "\n") {
            println!("cannot write {file}: {error}");
        }
    }
}

fn virtual_clock(options: &Options) -> Vec<Line> {
    if options.seeds == 0 {
        return vec![];
    }
    println!("{}", table::HEAD.trim_end());
    let mut lines = vec![];
    let meters = meters::all();
    let wanted = || meters.iter().filter(|metered| options.wants(metered.name));
    for (tier, metered) in TIERS.iter().flat_map(|&tier| wanted().map(move |metered| (tier, metered))) {
        for of in LOOPS {
            let run = |seed| measure::run(tier, metered, of, seed, options.seconds);
            let runs = (1..=options.seeds).map(run).collect();
            let (meter, workload) = (metered.name.to_owned(), of.name.to_owned());
            let line = Line { tier, meter, workload, live: false, runs };
            println!("{}", line.text());
            lines.push(line);
        }
    }
    lines
}
