//! A program that says how fast it works, while it works.
//!
//! It prints a line for each round: the clock, its thread's CPU time, the rounds so far (`paced.py`). A window's rate is the median over
//! the rounds in it: where a virtual machine takes the CPU away for some milliseconds, one round is slow and not the window.

use super::figures::median;
use anyhow::{Context as _, Result, bail};
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

/// How long a round took in a window, in nanoseconds: the medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    /// Of the clock.
    pub(crate) wall: f64,
    /// Of its thread's CPU time.
    pub(crate) cpu: f64,
}

/// The program, running. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Paced {
    child: Child,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Paced {
    /// Starts it with a Python that has what it imports.
    pub(crate) fn start(root: &Path, python: &Path, pace: &Pace) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg(root.join("xtask/src/bench/paced.py")).args([pace.word, &pace.steps.to_string()]);
        command.env("PYTHONPATH", root.join("examples")).env("OMP_WAIT_POLICY", "passive");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", python.display()))?;
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

    /// The median round between two moments of `CLOCK_MONOTONIC`; none where hardly any round lies between them.
    pub(crate) fn round(&self, from_ns: u64, to_ns: u64) -> Option<Round> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        median_round(&lines, from_ns, to_ns)
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

fn median_round(lines: &[Line], from_ns: u64, to_ns: u64) -> Option<Round> {
    const FEWEST: usize = 5;
    let inside: Vec<&Line> = lines.iter().filter(|line| (from_ns..to_ns).contains(&line.at_ns)).collect();
    if inside.len() <= FEWEST {
        return None;
    }
    let rounds = |of: fn(&Line) -> u64| -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a round is far shorter than 2^53 ns")]
        median(inside.windows(2).map(|pair| of(pair[1]).saturating_sub(of(pair[0])) as f64).collect())
    };
    Some(Round { wall: rounds(|line| line.at_ns), cpu: rounds(|line| line.cpu_ns) })
}

#[cfg(test)]
mod tests {
    use super::{Line, Round, median_round, parse_line};

    /// The median round of a window; a round that lost the CPU does not move it, rounds outside do not count.
    #[test]
    fn rounds_of_a_window() {
        let lines: Vec<Line> = [0, 10, 20, 30, 530, 540, 550, 560, 9000]
            .iter()
            .map(|&at_ns| Line { at_ns, cpu_ns: at_ns / 2 })
            .collect();
        assert_eq!(median_round(&lines, 5, 600), Some(Round { wall: 10.0, cpu: 5.0 }));
        assert_eq!(median_round(&lines, 5, 35), None);
    }

    /// A line holds two numbers and more; anything else is no line.
    #[test]
    fn lines_of_the_program() {
        assert_eq!(parse_line("5 3 9"), Some(Line { at_ns: 5, cpu_ns: 3 }));
        assert_eq!(parse_line("warming up"), None);
    }
}
