//! Two copies of one program on one CPU, of which one is profiled.
//!
//! They take turns of a few milliseconds, so that whatever else slows the CPU (a neighbour of the virtual machine in the shared caches, its
//! clock) slows both alike: the ratio of their CPU time for a round is far steadier than either. What a profiler does by stopping the program
//! is no CPU time; for that one of the two runs alone.

use crate::paced::{Pace, Paced, Wall};
use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Rounds until both are warm.
const WARM: usize = 30;

pub(super) struct Twins {
    profiled: Paced,
    other: Paced,
    window: Duration,
}

/// What one pair of windows has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// CPU time of a round of the profiled one, in those of the other; none where it did next to nothing.
    pub(super) cpu: Option<f64>,
    /// A round of the profiled one, alone.
    pub(super) wall: Wall,
}

impl Twins {
    pub(super) fn start(root: &Path, python: &Path, pace: &Pace, window: f64) -> Result<Self> {
        let (profiled, other) = (Paced::start(root, python, pace)?, Paced::start(root, python, pace)?);
        let mut twins = Self { profiled, other, window: Duration::from_secs_f64(window) };
        while twins.profiled.rounds()?.min(twins.other.rounds()?) < WARM {
            sleep(Duration::from_millis(100));
        }
        Ok(twins)
    }

    /// The process that a profiler is to look at.
    pub(super) fn pid(&self) -> u32 {
        self.profiled.pid()
    }

    /// A window of both, then one of the profiled one alone.
    pub(super) fn look(&mut self) -> Result<Seen> {
        let cpu = self.ratio()?;
        self.other.pause()?;
        let (from, until) = self.pass()?;
        self.other.resume()?;
        Ok(Seen { cpu, wall: self.profiled.wall(from, until) })
    }

    /// A window of both: the CPU time of a round of the profiled one, in those of the other.
    pub(super) fn ratio(&mut self) -> Result<Option<f64>> {
        let (from, until) = self.pass()?;
        let other = self.other.cpu_ns(from, until).context("too slow a program; give a longer --window")?;
        Ok(self.profiled.cpu_ns(from, until).map(|profiled| profiled / other))
    }

    /// Lets a window pass; its begin and end.
    fn pass(&mut self) -> Result<(u64, u64)> {
        let from = now_ns()?;
        sleep(self.window);
        self.profiled.rounds()?;
        self.other.rounds()?;
        Ok((from, now_ns()?))
    }
}

/// `CLOCK_MONOTONIC`.
fn now_ns() -> Result<u64> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    u64::try_from(now.as_nanos()).context("a clock beyond 500 years")
}
