//! A counter as RAPL is, and a thread that reads it as a thread is scheduled.
//!
//! It moves about each millisecond by whole units, follows power with a first-order lag, and returns to zero after 2³² units. A reading is
//! mostly some 50 µs late, sometimes up to 20 ms, and its time is half-way between just before and just after the read, as the product's is;
//! now and then the reader loses its CPU between the two. Leaves out power itself (`power.rs`).

use super::draw::{even, exponential};
use super::power::Track;
use super::real::Chip;
use super::{BOOT, MS};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{CounterValue, Reading};
use energy_trace_tests::random::Random;

/// When the counter moves.
#[derive(Clone, Copy, Debug)]
pub enum Updates {
    /// Each millisecond, ± 0.1.
    EachMillisecond,
    /// After 1.0 or 1.9 ms.
    Uneven,
    /// After 6 to 10 ms.
    Rare,
    /// As a real one does.
    Recorded(Chip),
}

/// How the counter is made and read.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Its unit in microjoules.
    pub unit_uj: f64,
    pub updates: Updates,
    /// Time constant of its lag in nanoseconds.
    pub lag_ns: u64,
    /// Readings per second.
    pub read_hz: u64,
    /// How far the time between two readings strays, in parts of itself: 0.5 for half to one and a half.
    pub read_jitter: f64,
    /// Whether the reader is scheduled late.
    pub late: bool,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            unit_uj: 15.26,
            updates: Updates::EachMillisecond,
            lag_ns: 0,
            read_hz: 100,
            read_jitter: 0.5,
            late: true,
        }
    }
}

impl Counter {
    /// The largest value that it shows.
    pub fn range_uj(&self) -> u64 {
        (self.unit_uj * f64::from(u32::MAX)) as u64
    }

    /// What is read until `end`; it turns over once in about every other run.
    pub fn readings(&self, track: &Track, end: u64, random: &mut Random) -> Vec<Reading> {
        let mut shown = Shown::of(self, track, random);
        let (period, mut due, mut last) = (1_000_000_000 / self.read_hz, 0, 0);
        let mut readings = vec![];
        while due < end {
            let read = (due + self.lateness(random)).max(last + 5_000);
            let around = if self.late && random.below(2_000) == 0 { random.below(4 * MS) } else { 6_000 };
            // The value is of one moment, its time of the middle of the call.
            let off = random.below(around) as i64 - around as i64 / 2;
            let value = CounterValue::MicroJoules(shown.at(read, random));
            readings.push(Reading { at: KtimeNs::from_ns(BOOT.saturating_add_signed(off) + read), value });
            last = read + around;
            // A reader that is late leaves out what it missed.
            due = (due + self.until_next(period, random)).max(read.saturating_sub(period));
        }
        readings
    }

    fn until_next(&self, period: u64, random: &mut Random) -> u64 {
        (period as f64 * (1.0 + self.read_jitter * (2.0 * random.unit() - 1.0))) as u64
    }

    fn lateness(&self, random: &mut Random) -> u64 {
        if !self.late {
            return 0;
        }
        let often = exponential(random, 5e4);
        let rare = if random.below(50) == 0 { even(random, 1e6, 2e7) } else { 0.0 };
        (often + rare) as u64
    }
}

/// What the counter shows, moved forward in time.
struct Shown<'a> {
    counter: &'a Counter,
    track: &'a Track,
    place: usize,
    now: u64,
    joules: f64,
    /// Watts that the counter believes, behind the true ones.
    watts: f64,
    tick: u64,
    /// Number of updates, and when the first was due.
    updates: (u64, u64),
    units: u64,
    start: u64,
}

impl<'a> Shown<'a> {
    fn of(counter: &'a Counter, track: &'a Track, random: &mut Random) -> Self {
        let mut now = 0;
        let energy = |&(until, watts): &(u64, f64)| {
            let joules = watts * (until - now) as f64 / 1e9;
            now = until;
            joules
        };
        let all: f64 = track.iter().map(energy).sum();
        let all_units = (all * 1e6 / counter.unit_uj) as u64;
        let start = (1_u64 << 32).saturating_sub(random.below(2 * all_units.max(1)));
        let watts = track.first().map_or(0.0, |first| first.1);
        let tick = random.below(MS);
        let updates = (0, tick);
        Self { counter, track, place: 0, now: 0, joules: 0.0, watts, tick, updates, units: 0, start }
    }

    /// Its value in microjoules.
    fn at(&mut self, read: u64, random: &mut Random) -> u64 {
        while self.tick <= read {
            self.integrate(self.tick);
            self.units = (self.joules * 1e6 / self.counter.unit_uj) as u64;
            self.tick = self.tick_after(random);
        }
        let units = (self.start + self.units) & u64::from(u32::MAX);
        (units as f64 * self.counter.unit_uj) as u64
    }

    /// When it moves next.
    fn tick_after(&mut self, random: &mut Random) -> u64 {
        let (number, first) = self.updates;
        self.updates.0 += 1;
        match self.counter.updates {
            Updates::EachMillisecond => self.tick + random.around(MS, MS / 10),
            Updates::Rare => self.tick + random.around(8 * MS, 2 * MS),
            Updates::Uneven => self.tick + [MS, 19 * MS / 10][random.below(2) as usize],
            Updates::Recorded(chip) => chip.update(number, first, random).max(self.tick + 1),
        }
    }

    fn integrate(&mut self, to: u64) {
        while self.now < to && self.place < self.track.len() {
            let (until, watts) = self.track[self.place];
            let next = until.min(to);
            self.add(watts, (next - self.now) as f64 / 1e9);
            self.now = next;
            self.place += usize::from(next == until);
        }
    }

    /// A stretch of constant true power: believed power approaches it exponentially.
    fn add(&mut self, watts: f64, seconds: f64) {
        let lag = self.counter.lag_ns as f64 / 1e9;
        if lag <= 0.0 {
            self.joules += watts * seconds;
            return;
        }
        let gone = -(-seconds / lag).exp_m1();
        self.joules += watts * seconds + (self.watts - watts) * lag * gone;
        self.watts += (watts - self.watts) * gone;
    }
}
