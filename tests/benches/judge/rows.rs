//! The rows of the table: everything, everything but one part, and no powers at all; with how long each part is.
//!
//! Lines are of product code, without tests. Those of whole files are counted, those of parts of files were counted by hand (`about`).

use energy_trace_attribution::{LeftOut, Part};
use energy_trace_model::profile::Options;
use energy_trace_model::profile::options::{Accounting, Method};
use std::path::Path;

/// One row.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) left_out: LeftOut,
    method: Method,
    /// Lines of the part; `None` of everything.
    pub(crate) lines: Option<usize>,
}

impl Row {
    pub(crate) fn options(&self) -> Options {
        let accounting = Accounting { method: self.method, ..Accounting::default() };
        Options { accounting, ..Options::default() }
    }
}

/// Everything first, and beside it those without a part that is asked for, or without several together: `bridge+lag`.
pub(crate) fn all(without: &[String]) -> Vec<Row> {
    let row = |name: String, left_out, method, lines| Row { name, left_out, method, lines };
    let names = Part::ALL.map(name_of);
    let asked = if without.is_empty() { &names[..] } else { without };
    let of_parts = |name: &String| {
        let of_name = |name: &str| Part::ALL.into_iter().find(|part| name_of(*part) == name);
        let parts: Option<Vec<Part>> = name.split('+').map(of_name).collect();
        let parts = parts?;
        let left_out = parts.iter().fold(LeftOut::NOTHING, |others, part| others.and(*part));
        let lines = parts.into_iter().map(lines_of).sum();
        Some(row(name.clone(), left_out, Method::Weighted, Some(lines)))
    };
    let everything = row("everything".to_owned(), LeftOut::NOTHING, Method::Weighted, None);
    let by_time = row("all powers (by CPU time)".to_owned(), LeftOut::NOTHING, Method::Time, None);
    std::iter::once(everything).chain(asked.iter().filter_map(of_parts)).chain([by_time]).collect()
}

/// As it is typed: `LocalMixes` is `local-mixes`.
fn name_of(part: Part) -> String {
    let mut name = String::new();
    for letter in format!("{part:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Whole files below `tracer`, and lines of others.
const fn about(part: Part) -> (&'static [&'static str], usize) {
    match part {
        Part::Bridge => (
            &[
                "attribution/src/between_samples/markov_bridge.rs",
                "attribution/src/between_samples/switching_chain.rs",
            ],
            190,
        ),
        Part::LocalMixes => (&[], 75),
        Part::SleepMixing => (&[], 60),
        Part::Balance => (&["attribution/src/between_samples/balance.rs"], 40),
        Part::CautiousRate => (&[], 5),
        Part::Reliability => (&[], 110),
        Part::HardlyReliable => (&[], 25),
        Part::Pairs => {
            (&["attribution/src/power_model/pairs.rs", "attribution/src/power_model/distances.rs"], 55)
        }
        Part::BackgroundPowers => (&["cpu-time/src/time/background.rs"], 10),
        Part::Prior => (&["attribution/src/power_model/prior.rs"], 0),
        Part::Huber => (&[], 6),
        Part::Fluctuation => (&[], 20),
        Part::TimesInWeights => (&[], 60),
        Part::CounterEdges => (&["attribution/src/power_model/counter_edges.rs"], 40),
        Part::CounterDelay => (&["attribution/src/power_model/corrections/counter_delay.rs"], 10),
        Part::Lag => (&["attribution/src/power_model/corrections/lag.rs"], 150),
        Part::LagDoubt => (&[], 25),
        Part::Drift => (&["attribution/src/power_model/corrections/drift.rs"], 40),
        Part::DriftDoubt => (&[], 12),
        Part::Contention => (&["attribution/src/power_model/corrections/contention.rs"], 110),
        Part::ContentionDoubt => (&[], 20),
        Part::SharedParts => (&["attribution/src/power_model/corrections/shared_parts.rs"], 40),
        Part::ClockSpeed => {
            (&["attribution/src/power_model/corrections/clock_speed.rs", "cpu-time/src/time/dvfs.rs"], 20)
        }
        Part::SharedCores => {
            (&["attribution/src/power_model/corrections/shared_cores.rs", "cpu-time/src/time/smt.rs"], 20)
        }
        Part::NearestSample => (&[], 15),
        Part::HalfSamples => (&["attribution/src/power_model/corrections/sample_times.rs"], 60),
        Part::LongerWindows => (&["attribution/src/power_model/corrections/window_length.rs"], 25),
        Part::Sandwich => (&["cpu-time/src/numerics/sandwich.rs"], 20),
        Part::Birge => (&[], 15),
        Part::FluctuationInIntervals => (&[], 20),
        Part::WindowChain => (&[], 18),
        Part::SharedPaths => (&["attribution/src/uncertainty/path_variance.rs"], 90),
        Part::TimesInIntervals => (&[], 90),
    }
}

/// Product lines of a part.
fn lines_of(part: Part) -> usize {
    let (files, others) = about(part);
    let tracer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tracer");
    let of_file = |file: &&str| {
        let text = std::fs::read_to_string(tracer.join(file)).unwrap_or_default();
        text.lines().take_while(|line| *line != "#[cfg(test)]").count()
    };
    files.iter().map(of_file).sum::<usize>() + others
}
