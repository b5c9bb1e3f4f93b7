//! Whether a recording makes the machine stand still: push times from inside the BPF programs, and a watchdog on each CPU.
//!
//! The load is a hundred Python threads that sleep and wake. Runs without a recording and with one take turns, so that what the host takes
//! away falls on both. Counted is from the program's first word on: opening the first hardware event of a guest pauses it once by itself.
//! Asserts nothing: the table is for the reader. Leaves out what recording costs (`cost`, `slowdown`).

#![expect(clippy::print_stdout, reason = "the table is the result")]

mod watchdog;

use self::watchdog::{Gaps, LONG_MS, Watchdog};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracer_ebpf::wire::push;
use xtask::product;
use xtask::workspace::Workspace;

/// `cargo xtask bench freeze`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each kind.
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Length of a run, in seconds.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Samples a second.
    #[arg(long, default_values_t = [99, 499, 999])]
    hz: Vec<u32>,
    /// The program to record with; built anew where it is not named.
    #[arg(long)]
    program: Option<PathBuf>,
}

const LIMIT: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// Pushes of one ring that took a millisecond or more: those from this limit on.
const SLOW_NS: u64 = 1_000_000;

/// How a run is recorded; `None`: not at all.
type Way = Option<(&'static str, u32)>;

/// What runs of one kind showed.
#[derive(Debug, Default)]
struct Seen {
    runs: u32,
    /// Runs in which a CPU stood still.
    still: u32,
    gaps: Gaps,
    samples: u64,
    lost: u64,
    of_samples: Pushes,
    of_events: Pushes,
    /// The lowest limit after a run, where it fell.
    limit: Option<u64>,
}

/// Pushes into one ring.
#[derive(Clone, Copy, Debug, Default)]
struct Pushes {
    count: u64,
    slow: u64,
    longest_ns: u64,
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = product::given_or_built(workspace, options.program.as_deref())?;
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let script = workspace.root().join("tests/benches/src/freeze/threads.py");
    let has_cycles =
        ["cpu", "cpu_core"].iter().any(|pmu| Path::new("/sys/bus/event_source/devices").join(pmu).exists());
    if !has_cycles {
        eprintln!(
            "bench: this machine shows no hardware counters: only the CPU clock, whose interrupts a lock keeps off, can be measured"
        );
    }
    let events: &[&'static str] = if has_cycles { &["cycles", "cpu-clock"] } else { &["cpu-clock"] };
    let mut ways: Vec<(Way, Seen)> = vec![(None, Seen::default())];
    ways.extend(
        events
            .iter()
            .flat_map(|&event| options.hz.iter().map(move |&hz| (Some((event, hz)), Seen::default()))),
    );
    let watchdog = Watchdog::start()?;
    for run in 0..options.runs {
        for (way, seen) in &mut ways {
            eprintln!("bench: run {} of {}, {}", run + 1, options.runs, name_of(*way));
            seen.add(&watchdog, *way, &program, &script, &folder, options.seconds)?;
        }
    }
    print(&ways);
    Ok(())
}

fn name_of(way: Way) -> String {
    way.map_or("not recorded".into(), |(event, hz)| format!("{event}, {hz} Hz"))
}

impl Seen {
    fn add(
        &mut self,
        watchdog: &Watchdog,
        way: Way,
        program: &Path,
        script: &Path,
        folder: &Path,
        seconds: f64,
    ) -> Result<()> {
        let before = read_limit()?;
        let data = folder.join("freeze.data");
        let mut command = match way {
            None => Command::new("python3"),
            Some((event, hz)) => recording(program, &data, event, hz),
        };
        let mut child = command
            .arg(script)
            .arg(seconds.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut word = String::new();
        BufReader::new(child.stdout.take().context("no output to read")?).read_line(&mut word)?;
        watchdog.begin();
        let status = child.wait()?;
        let gaps = watchdog.gaps();
        if !status.success() {
            bail!("a run ended with {status}");
        }
        self.runs += 1;
        self.still += u32::from(gaps.long > 0);
        self.gaps.long += gaps.long;
        self.gaps.longest_ns = self.gaps.longest_ns.max(gaps.longest_ns);
        let after = read_limit()?;
        if after != before {
            self.limit = Some(self.limit.map_or(after, |limit| limit.min(after)));
        }
        if way.is_some() { self.add_report(&report(program, &data)?) } else { Ok(()) }
    }

    fn add_report(&mut self, report: &Value) -> Result<()> {
        let sampling = &report["meta"]["sampling"];
        self.samples += sampling["samples"].as_u64().unwrap_or(0);
        self.lost += sampling["lost"].as_u64().unwrap_or(0);
        let warnings = report["meta"]["warnings"].as_array().context("a report has warnings")?;
        let told = warnings.iter().find(|warning| warning["code"] == "push-times");
        let told = told.and_then(|warning| warning["text"].as_str()).context("no push times were told")?;
        let (samples, events) = told.split_once("; ").context("push times of two rings")?;
        self.of_samples.add(samples);
        self.of_events.add(events);
        Ok(())
    }
}

impl Pushes {
    /// Adds `samples LONGEST COUNT…`, the counts by `push::LIMITS_NS`.
    fn add(&mut self, told: &str) {
        let mut numbers = told.split(' ').filter_map(|word| word.parse::<u64>().ok());
        self.longest_ns = self.longest_ns.max(numbers.next().unwrap_or(0));
        let shorter_than = push::LIMITS_NS.into_iter().map(Some).chain([None]);
        for (limit, count) in shorter_than.zip(numbers) {
            self.count += count;
            self.slow += if limit.is_none_or(|limit| limit > SLOW_NS) { count } else { 0 };
        }
    }

    fn told(self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of at most seconds")]
        let longest = self.longest_ns as f64 / 1e3;
        format!("{} / {} / {longest:.0} µs", self.count, self.slow)
    }
}

fn recording(program: &Path, data: &Path, event: &str, hz: u32) -> Command {
    let mut command = Command::new(program);
    command.args(["record", "-q", "--power", "none", "--no-svg", "--push-times", "--sample-event", event]);
    command.args(["-F", &hz.to_string()]).arg("-o").arg(data).args(["--", "python3"]);
    command
}

fn report(program: &Path, data: &Path) -> Result<Value> {
    let output = Command::new(program).arg("report").arg(data).args(["--format", "json"]).output()?;
    serde_json::from_slice(&output.stdout).context("the report is no JSON")
}

fn read_limit() -> Result<u64> {
    let text = fs::read_to_string(LIMIT).with_context(|| format!("cannot read {LIMIT}"))?;
    Ok(text.trim().parse()?)
}

fn print(ways: &[(Way, Seen)]) {
    println!(
        "| recorded by | runs | runs with a gap of {LONG_MS} ms or more | such gaps | longest gap | samples | events lost | pushes of samples: all / 1 ms or more / longest | \
         pushes of other events | kernel.perf_event_max_sample_rate |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (way, seen) in ways {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of at most minutes")]
        let longest = seen.gaps.longest_ns as f64 / 1e6;
        let limit = seen.limit.map_or("unchanged".into(), |limit| format!("fell to {limit}"));
        let (samples, events) = match way {
            Some(_) => (seen.of_samples.told(), seen.of_events.told()),
            None => ("–".into(), "–".into()),
        };
        println!(
            "| {} | {} | {} | {} | {longest:.0} ms | {} | {} | {samples} | {events} | {limit} |",
            name_of(*way),
            seen.runs,
            seen.still,
            seen.gaps.long,
            seen.samples,
            seen.lost
        );
    }
}

#[cfg(test)]
mod tests {
    use super::Pushes;

    /// The words of a recording: the longest push, then counts below 1 µs, 10 µs, 100 µs, 1 ms and so on; slow ones are those of a millisecond.
    #[test]
    fn pushes_are_read() {
        let mut pushes = Pushes::default();
        pushes.add("samples 250000001 5 4 3 2 1 1 1 1");
        assert_eq!((pushes.count, pushes.slow, pushes.longest_ns), (18, 4, 250_000_001));
    }
}
