//! What the accuracy benchmark is asked for. `cargo xtask bench accuracy --help` says it to people; leaves out wrong words.

use energy_trace_scenarios::worlds::recording::Recorder;
use std::ops::Range;
use std::path::PathBuf;

/// What is asked for.
#[derive(Default)]
pub(crate) struct Options {
    /// Worlds (W…, H…) and scenarios (B…) whose name begins so.
    only: Option<String>,
    from: u64,
    seeds: Option<u64>,
    /// The seeds and worlds that nobody tunes on, and nothing else.
    pub(crate) held_out: bool,
    rates: Vec<u64>,
    read_hz: Option<u64>,
    /// How far the sampling period strays, in periods, and the time between readings.
    jitter: f64,
    read_jitter: f64,
    /// Each node that is far from the truth or missed.
    pub(crate) details: bool,
    /// Errors by reading rate and by sampling rate instead.
    pub(crate) curves: bool,
    /// The folder for tables.
    pub(crate) write: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse() -> Self {
        let mut options = Self { jitter: 0.5, read_jitter: 0.5, ..Self::default() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|n| n.parse().ok());
            match argument.as_str() {
                "--seeds" => options.seeds = number(),
                "--from" => options.from = number().unwrap_or(options.from),
                "--rate" => options.rates.extend(number()),
                "--read-hz" => options.read_hz = number(),
                "--periodic" => options.jitter = 0.0,
                "--even-readings" => options.read_jitter = 0.0,
                "--held-out" => options.held_out = true,
                "--curves" => options.curves = true,
                "--details" => options.details = true,
                "--world" => options.only = arguments.next(),
                "--write" => options.write = arguments.next().map(PathBuf::from),
                // What `cargo bench` adds.
                _ => {}
            }
        }
        options
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    }

    /// The seeds, so many where no number was given.
    pub(crate) fn seeds(&self, usual: u64) -> Range<u64> {
        self.from..self.from + self.seeds.unwrap_or(usual)
    }

    /// Whether a run is shown that is held out, or is not. What is written has both.
    pub(crate) fn shows(&self, is_held_out: bool) -> bool {
        self.write.is_some() || is_held_out == self.held_out
    }

    /// How a world is recorded at this sampling rate.
    pub(crate) fn recorder(&self, hz: u64) -> Recorder {
        let Self { jitter, read_hz, read_jitter, .. } = *self;
        Recorder { hz, jitter, read_hz, read_jitter }
    }

    /// Samples per CPU and second.
    pub(crate) fn rates(&self) -> &[u64] {
        if self.rates.is_empty() { &[99, 499] } else { &self.rates }
    }
}
