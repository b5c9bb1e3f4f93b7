//! The GPU accuracy benchmark on a virtual clock: each meter and tier against the truth, beside splits that know no energies.
//!
//! `cargo xtask bench gpu-accuracy`. Links the shipped attribution and nothing else of the product. Leaves out the live runs (`live_main`), and
//! every assertion about accuracy: those are tests (`gpu_accuracy.rs`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

mod measure;
mod meters;
mod table;

use measure::{LOOPS, OTHER_MAKERS, TIERS};
use table::Line;

/// What was asked for.
struct Options {
    seeds: u64,
    seconds: u64,
    only: Option<String>,
    /// Loops whose name has this in it.
    of_loop: Option<String>,
    json: Option<String>,
}

impl Options {
    fn read() -> Self {
        let mut options = Self { seeds: 5, seconds: 60, only: None, of_loop: None, json: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "--seeds" => options.seeds = value().parse().unwrap_or(options.seeds),
                "--seconds" => options.seconds = value().parse().unwrap_or(options.seconds),
                "--only" => options.only = Some(value()),
                "--loop" => options.of_loop = Some(value()),
                "--json" => options.json = Some(value()),
                // What `cargo bench` adds.
                _ => {}
            }
        }
        options
    }

    fn wants_loop(&self, name: &str) -> bool {
        self.of_loop.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    }
}

fn main() {
    let options = Options::read();
    let lines = virtual_clock(&options);
    println!("\n{}", table::goals(&lines));
    if let Some(file) = &options.json {
        table::write(&lines, file);
    }
}

fn virtual_clock(options: &Options) -> Vec<Line> {
    println!("{}", table::HEAD.trim_end());
    let mut lines = vec![];
    let meters = meters::all();
    let wanted = || meters.iter().filter(|metered| options.wants(metered.name));
    for (tier, metered) in TIERS.iter().flat_map(|&tier| wanted().map(move |metered| (tier, metered))) {
        let others = OTHER_MAKERS.iter().filter(|_| metered.everywhere);
        for &of in LOOPS.iter().chain(others).filter(|of| options.wants_loop(of.name)) {
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
