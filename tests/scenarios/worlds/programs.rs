//! What threads do: loops of stages in a fixed order, mixtures, teams, bursts of other processes; and how their watts move.
//!
//! Leaves out the worlds that are made of these (`catalogue.rs` and the files beside it).

use super::MS;
use super::draw::{even, exponential, log_normal, normal, pick};
use super::schedule::{Bound, Program, Run, Step};
use super::stacks::Path;
use energy_trace_tests::random::Random;
use std::collections::HashMap;

/// A path of functions that runs for about so long at so many watts.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    pub path: Path,
    pub mean_ns: f64,
    pub watts: f64,
    pub bound: Bound,
}

impl Stage {
    pub const fn new(path: Path, mean_ns: f64, watts: f64) -> Self {
        Self { path, mean_ns, watts, bound: Bound::Compute }
    }

    fn run(&self, sigma: f64, random: &mut Random) -> Step {
        let ns = if sigma > 0.0 { log_normal(random, self.mean_ns, sigma) } else { self.mean_ns };
        Step::Run(Run { path: self.path, ns: ns as u64, watts: self.watts, bound: self.bound })
    }
}

/// The stages one after the other, forever; `sigma` is the standard deviation of the logarithm of each duration.
pub fn cycle(stages: Vec<Stage>, sigma: f64, mut random: Random) -> Program {
    let mut next = 0;
    Box::new(move |_| {
        let stage = &stages[next];
        next = (next + 1) % stages.len();
        stage.run(sigma, &mut random)
    })
}

/// The stages in random order, none twice in a row.
pub fn shuffled(stages: Vec<Stage>, sigma: f64, mut random: Random) -> Program {
    let mut last = 0;
    Box::new(move |_| {
        let others = stages.len() as u64 - 1;
        last = (last + 1 + random.below(others) as usize) % stages.len();
        stages[last].run(sigma, &mut random)
    })
}

/// Stages of log-normal length between 0.3 and 200 ms, drawn from a mix that is another one about each 0.8 s.
pub fn mixture(stages: Vec<Stage>, mut random: Random) -> Program {
    let (mut mix, mut until) = (vec![], 0);
    Box::new(move |now| {
        if now >= until {
            until = now + log_normal(&mut random, 8e8, 0.4) as u64;
            // Few of them at a time, unevenly.
            mix = stages.iter().map(|_| (1.6 * normal(&mut random)).exp()).collect();
        }
        let stage = &stages[pick(&mut random, &mix)];
        let ns = log_normal(&mut random, stage.mean_ns, 1.0).clamp(3e5, 2e8);
        Step::Run(Run { path: stage.path, ns: ns as u64, watts: stage.watts, bound: stage.bound })
    })
}

/// Sleeps for so long after each so many runs.
pub fn asleep_after(runs: usize, ns: u64, mut inner: Program) -> Program {
    let mut done = 0;
    Box::new(move |now| {
        if done == runs {
            done = 0;
            return Step::Sleep(ns);
        }
        done += 1;
        inner(now)
    })
}

/// Sleeps now and then: after `awake_ns` of work, for `asleep_ns`, both exponentially distributed.
pub fn resting(mut inner: Program, awake_ns: f64, asleep_ns: f64, mut random: Random) -> Program {
    let mut left = exponential(&mut random, awake_ns);
    Box::new(move |now| {
        if left <= 0.0 {
            left = exponential(&mut random, awake_ns);
            return Step::Sleep(exponential(&mut random, asleep_ns) as u64);
        }
        let step = inner(now);
        if let Step::Run(run) = step {
            left -= run.ns as f64;
        }
        step
    })
}

/// What a run of a program really is: its function calls these, with this part of its watts each, in turns of this mean length, none twice in a row.
pub fn in_turns(
    inner: Program,
    leaves: HashMap<Path, Vec<(Path, f64)>>,
    mean_ns: f64,
    mut random: Random,
) -> Program {
    let mut last = 0;
    in_parts(inner, move |run| {
        let Some(leaves) = leaves.get(&run.path) else { return *run };
        last = (last + 1 + random.below(leaves.len() as u64 - 1) as usize) % leaves.len();
        let ns = run.ns.min(log_normal(&mut random, mean_ns, 0.5) as u64 + 1);
        let (path, part) = leaves[last];
        Run { path, ns, watts: part * run.watts, ..*run }
    })
}

/// Hands out the runs of a program in parts; `part` says what the first part of what is left of a run is.
fn in_parts(mut inner: Program, mut part: impl FnMut(&Run) -> Run + 'static) -> Program {
    let mut rest: Option<Run> = None;
    Box::new(move |now| {
        let run = match rest.take() {
            Some(run) => run,
            None => match inner(now) {
                Step::Run(run) => run,
                other => return other,
            },
        };
        let first = part(&run);
        if first.ns < run.ns {
            rest = Some(Run { ns: run.ns - first.ns, ..run });
        }
        Step::Run(Run { ns: first.ns.min(run.ns), ..first })
    })
}

/// Watts depend on data: a new log-normal factor each 50 ms of work.
pub fn on_data(inner: Program, sigma: f64, mut random: Random) -> Program {
    let (mut factor, mut left) = (1.0, 0);
    in_parts(inner, move |run| {
        if left == 0 {
            (factor, left) = (log_normal(&mut random, 1.0, sigma), 50 * MS);
        }
        let ns = run.ns.min(left);
        left -= ns;
        Run { ns, watts: factor * run.watts, ..*run }
    })
}

/// Power follows the code with a first-order lag.
pub fn ramping(inner: Program, lag_ns: f64) -> Program {
    let mut level: Option<f64> = None;
    in_parts(inner, move |run| {
        let begin = level.unwrap_or(run.watts);
        let off = begin - run.watts;
        let ns = if off.abs() < 0.01 * run.watts { run.ns } else { run.ns.min(MS) };
        let gone = -(-(ns as f64) / lag_ns).exp_m1();
        level = Some(run.watts + off * (1.0 - gone));
        Run { ns, watts: run.watts + off * gone * lag_ns / (ns as f64).max(1.0), ..*run }
    })
}

/// Another process in bursts of this mean length; each burst draws watts of its own from this range.
pub fn bursts(path: Path, busy_ns: f64, idle_ns: f64, watts: (f64, f64), mut random: Random) -> Program {
    let mut sleeps = true;
    Box::new(move |_| {
        sleeps = !sleeps;
        if sleeps {
            return Step::Sleep(exponential(&mut random, idle_ns) as u64);
        }
        let ns = exponential(&mut random, busy_ns).max(2e5) as u64;
        let watts = even(&mut random, watts.0, watts.1.max(watts.0 + 1e-9));
        Step::Run(Run { path, ns, watts, bound: Bound::Compute })
    })
}

/// A member of a team that runs the same kernel as all others, each a little longer or shorter, and meets them after it.
pub fn member(
    kernels: Vec<Stage>,
    spin: Option<(Path, f64)>,
    mut common: Random,
    mut own: Random,
) -> Program {
    let mut meets = true;
    Box::new(move |_| {
        meets = !meets;
        if meets {
            return Step::Meet(spin);
        }
        let kernel = &kernels[common.below(kernels.len() as u64) as usize];
        let ns = log_normal(&mut common, kernel.mean_ns, 0.5) * even(&mut own, 0.7, 1.1);
        Step::Run(Run { path: kernel.path, ns: ns as u64, watts: kernel.watts, bound: kernel.bound })
    })
}
