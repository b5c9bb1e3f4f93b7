//! Power over time, and what each path of functions truly spent: exact integrals of pieces of constant power.
//!
//! Power of a CPU is what its code draws, times what nobody records: drift with temperature, steps of frequency, a busy sibling, memory that
//! several CPUs share. Leaves out what a counter shows of it (`counter.rs`).

use super::draw::normal;
use super::schedule::{Bound, Piece, Who};
use super::{MS, real};
use energy_trace_tests::random::Random;

/// Length of the steps in which drift and idle power move.
const STEP: u64 = 10_000_000;

/// What else decides about power.
#[derive(Clone, Copy, Debug)]
pub struct Physics {
    pub idle_watts: f64,
    /// How far idle power strays (first-order autoregression, half a second), in parts.
    pub idle_noise: f64,
    /// Whether it strays as that of a real machine instead.
    pub recorded_idle: bool,
    /// Power of the shared parts while any CPU is busy.
    pub uncore_watts: f64,
    /// How far a common factor wanders (first-order autoregression, five seconds), in parts.
    pub drift: f64,
    /// Frequency steps among these factors, each for about a second and a half; none: one factor.
    pub frequencies: &'static [f64],
    /// Memory-bound code draws 1 / (1 + this × (others − 1)) with so many others.
    pub memory: f64,
    /// CPUs 2n and 2n + 1 are siblings: both busy, each draws this part.
    pub sibling: f64,
}

impl Default for Physics {
    fn default() -> Self {
        Self {
            idle_watts: 20.0,
            idle_noise: 0.01,
            recorded_idle: false,
            uncore_watts: 0.0,
            drift: 0.0,
            frequencies: &[],
            memory: 0.0,
            sibling: 1.0,
        }
    }
}

/// Watts of the whole socket until each moment in nanoseconds.
pub type Track = Vec<(u64, f64)>;

/// What was spent.
pub struct Spent {
    /// Joules of each path of the target, until the recording's end.
    pub paths: Vec<f64>,
    pub track: Track,
}

/// Integrates; nothing after `length` is the target's, but the track goes on to `end`.
pub fn integrate(
    pieces: &[Piece],
    cpus: u32,
    paths: usize,
    physics: &Physics,
    length: u64,
    end: u64,
    random: &mut Random,
) -> Spent {
    let steps = Steps::draw(physics, end, random);
    let mut moments: Vec<(u64, Option<usize>, u32)> = vec![(length, None, 0), (end, None, 0)];
    for (number, piece) in pieces.iter().enumerate() {
        moments.push((piece.to, None, piece.cpu + 1));
        moments.push((piece.from, Some(number), piece.cpu + 1));
    }
    moments.extend((1..end / STEP).map(|step| (step * STEP, None, 0)));
    // The end of one piece comes before the begin of the next.
    moments.sort_unstable_by_key(|moment| (moment.0, moment.1.is_some(), moment.2));
    let mut spent = Spent { paths: vec![0.0; paths], track: vec![] };
    let mut busy: Vec<Option<&Piece>> = vec![None; cpus as usize];
    let mut now = 0;
    for (at, begins, cpu) in moments {
        if at > now {
            let watts = charge(&busy, physics, steps.at(now), (now, at.min(length)), &mut spent.paths);
            spent.track.push((at, watts));
            now = at;
        }
        if let Some(slot) = (cpu as usize).checked_sub(1).and_then(|cpu| busy.get_mut(cpu)) {
            *slot = begins.map(|number| &pieces[number]);
        }
    }
    spent
}

/// Charges a stretch in which nothing changes to its paths; returns the socket's watts.
fn charge(
    busy: &[Option<&Piece>],
    physics: &Physics,
    (factor, idle): (f64, f64),
    (from, to): (u64, u64),
    paths: &mut [f64],
) -> f64 {
    let works = |piece: &&Piece| !piece.stolen;
    let in_memory = |piece: &&Piece| piece.bound == Bound::Memory;
    let memory = busy.iter().flatten().copied().filter(works).filter(in_memory).count();
    let shared = 1.0 / (1.0 + physics.memory * (memory as f64 - 1.0).max(0.0));
    let seconds = to.saturating_sub(from) as f64 / 1e9;
    let (mut all, mut any) = (idle, false);
    for (cpu, piece) in busy.iter().enumerate() {
        let Some(piece) = piece.filter(works) else { continue };
        any = true;
        let sibling = busy.get(cpu ^ 1).copied().flatten().filter(works);
        let mut watts = factor * piece.watts * sibling.map_or(1.0, |_| physics.sibling);
        if piece.bound == Bound::Memory {
            watts *= shared;
        }
        all += watts;
        if let Who::Thread(_) = piece.who {
            paths[piece.path as usize] += watts * seconds;
        }
    }
    all + if any { physics.uncore_watts } else { 0.0 }
}

/// Values for each step: the common factor, and idle watts.
struct Steps(Vec<(f64, f64)>);

impl Steps {
    fn draw(physics: &Physics, end: u64, random: &mut Random) -> Self {
        let (mut drift, mut idle) = (normal(random), normal(random));
        let mut frequency = 1.0;
        let begin = if physics.recorded_idle { random.below(100_000) * MS } else { 0 };
        let keep = |seconds: f64| (-(STEP as f64) / 1e9 / seconds).exp();
        let wander = |value: &mut f64, keep: f64, random: &mut Random| {
            *value = keep * *value + (1.0 - keep * keep).sqrt() * normal(random);
        };
        let step = |number: u64| {
            wander(&mut drift, keep(5.0), random);
            wander(&mut idle, keep(0.5), random);
            if random.unit() < STEP as f64 / 1.5e9 && !physics.frequencies.is_empty() {
                frequency = physics.frequencies[random.below(physics.frequencies.len() as u64) as usize];
            }
            let factor = (1.0 + physics.drift * drift).max(0.1) * frequency;
            let strays = if physics.recorded_idle {
                real::idle(begin + number * STEP)
            } else {
                1.0 + physics.idle_noise * idle
            };
            (factor, physics.idle_watts * strays)
        };
        Self((0..=end / STEP).map(step).collect())
    }

    fn at(&self, now: u64) -> (f64, f64) {
        self.0[((now / STEP) as usize).min(self.0.len() - 1)]
    }
}
