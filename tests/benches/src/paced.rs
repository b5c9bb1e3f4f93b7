//! A program that says how fast it works, while it works.
//!
//! It prints a line for each round: the clock, its thread's CPU time, the rounds so far (`paced.py`). A window's rate by the clock is the
//! median over the rounds in it: where a virtual machine takes the CPU away for some milliseconds, one round is slow and not the window.

use super::figures::median;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// What tables call it.
    pub(crate) name: &'static str,
    /// What `paced.py` calls it.
    pub(crate) word: &'static str,
    /// The example whose environment it needs.
    pub(crate) example: &'static str,
    /// Steps in a round: so many that a round is longer than the gap between two samples at 99 Hz.
    pub(crate) steps: u32,
}

/// One line of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    at_ns: u64,
    cpu_ns: u64,
}

/// How long a round took by the clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wall {
    /// The median of many.
    Median(f64),
    /// Longer than this: hardly any ended in the window.
    AtLeast(f64),
}

impl Wall {
    pub(crate) fn ns(self) -> f64 {
        match self {
            Self::Median(ns) | Self::AtLeast(ns) => ns,
        }
    }
}

/// The program, running. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Paced {
    child: Child,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Paced {
    /// Starts it on the first CPU with a Python that has what it imports.
    pub(crate) fn start(root: &Path, python: &Path, pace: &Pace) -> Result<Self> {
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", "0"])
            .arg(python)
            .arg(root.join("tests/benches/src/paced.py"))
            .args([pace.word, &pace.steps.to_string()]);
        command.env("PYTHONPATH", root.join("examples")).env("OMP_WAIT_POLICY", "passive");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot start taskset for {}", python.display()))?;
        let out = child.stdout.take().context("no output to read")?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend(parse_line(&line));
            }
        });
        Ok(Self { child, lines })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many rounds it has done; an error when it has ended.
    pub(crate) fn rounds(&mut self) -> Result<usize> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the workload ended: {status}");
        }
        Ok(self.lines.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// Stops it until it is resumed.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// How long a round took by the clock, between two moments of `CLOCK_MONOTONIC`.
    pub(crate) fn wall(&self, from_ns: u64, to_ns: u64) -> Wall {
        wall(&self.inside(from_ns, to_ns), to_ns.saturating_sub(from_ns))
    }

    /// CPU time of its thread for a round in nanoseconds, the mean between two moments; none where fewer than two rounds lie between them.
    pub(crate) fn cpu_ns(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        mean_cpu_ns(&self.inside(from_ns, to_ns))
    }

    fn inside(&self, from_ns: u64, to_ns: u64) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| (from_ns..to_ns).contains(&line.at_ns)).copied().collect()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).context("the workload has ended")
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse_line(line: &str) -> Option<Line> {
    let mut words = line.split(' ').map(str::parse);
    Some(Line { at_ns: words.next()?.ok()?, cpu_ns: words.next()?.ok()? })
}

#[expect(clippy::cast_precision_loss, reason = "a window is far shorter than 2^53 ns")]
fn wall(lines: &[Line], window_ns: u64) -> Wall {
    const FEWEST: usize = 5;
    if lines.len() <= FEWEST {
        return Wall::AtLeast(window_ns as f64 / (lines.len() + 1) as f64);
    }
    let rounds = lines.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64);
    Wall::Median(median(rounds.collect()))
}

#[expect(clippy::cast_precision_loss, reason = "a window is far shorter than 2^53 ns")]
fn mean_cpu_ns(lines: &[Line]) -> Option<f64> {
    let (first, last) = (lines.first()?, lines.last()?);
    let rounds = lines.len() - 1;
    (rounds >= 2).then(|| last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / rounds as f64)
}

#[cfg(test)]
mod tests {
    use super::{Line, Wall, mean_cpu_ns, parse_line, wall};

    fn lines(at_ns: &[u64]) -> Vec<Line> {
        at_ns.iter().map(|&at_ns| Line { at_ns, cpu_ns: at_ns / 2 }).collect()
    }

    /// The median round of a window by the clock; a round that lost the CPU does not move it. Too few give a lower bound.
    #[test]
    fn rounds_by_the_clock() {
        assert_eq!(wall(&lines(&[10, 20, 30, 530, 540, 550, 560]), 600), Wall::Median(10.0));
        assert_eq!(wall(&lines(&[10, 300]), 600), Wall::AtLeast(200.0));
    }

    /// CPU time is the mean over all rounds; of one round there is none.
    #[test]
    fn rounds_by_cpu_time() {
        assert_eq!(mean_cpu_ns(&lines(&[10, 20, 30, 530, 540, 550, 560])), Some(275.0 / 6.0));
        assert_eq!(mean_cpu_ns(&lines(&[10, 20])), None);
    }

    /// A line holds two numbers and more; anything else is no line.
    #[test]
    fn lines_of_the_program() {
        assert_eq!(parse_line("5 3 9"), Some(Line { at_ns: 5, cpu_ns: 3 }));
        assert_eq!(parse_line("warming up"), None);
    }
}
