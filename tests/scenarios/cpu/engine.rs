//! A world on a virtual clock: functions with known watts on CPUs, and what a counter, a sampling timer and `sched_switch` see of it.
//!
//! The truth is the exact integral of each function's watts. Leaves out which worlds there are (`scenarios.rs`).

use super::asks::Asks;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{BackgroundKey, CpuId, DomainId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CounterValue, CpuOwner, Reading, Sample, Slice, StackStatus};
use energy_trace_model::units::KiloHertz;
use energy_trace_tests::random::Random;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
/// The virtual clock does not begin at zero, as no machine's does.
pub const BOOT: u64 = 5_000 * SECOND;
/// Power changes with frequency in steps of this length.
const FREQUENCY_STEP: u64 = MS;

/// Nanoseconds, exponentially distributed, at least 50 µs.
pub fn dwell(random: &mut Random, mean_ns: f64) -> u64 {
    ((-(1.0 - random.unit()).ln() * mean_ns) as u64).max(50_000)
}

/// Who is on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A thread of the target in a function.
    Target { thread: u32, function: usize },
    /// Another process, by its number, which draws this many watts.
    Background { key: u32, watts: u32 },
}

/// What one CPU did from one moment to another.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    pub who: Who,
    /// What it draws, where that is not what its function or process always draws.
    pub watts: Option<f64>,
}

/// How the counter is made and read.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its unit in nanojoules.
    pub unit_nj: u64,
    /// How far an update strays from its millisecond, in nanoseconds.
    pub update_jitter: u64,
    /// How late a reading is, at most.
    pub read_jitter: u64,
    /// One reading in so many comes a hundred milliseconds late; 0: none.
    pub late_every: u64,
    /// One reading in so many finds the counter as it was at the reading before; 0: none.
    pub stuck_every: u64,
    /// The counter turns over after so many microjoules.
    pub range_uj: u64,
    /// Readings are handed over out of order.
    pub shuffled: bool,
    /// When a socket's counter cannot be read.
    pub outage: Option<Outage>,
}

/// A time in which nobody reads a socket's counter.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub socket: u32,
    pub from: u64,
    pub to: u64,
    /// Afterwards the counter begins at zero, as when its driver was loaded again.
    pub anew: bool,
}

/// Who is on a CPU, and the watts that it draws there.
type Running = (Who, f64);
/// A socket, and a time of which its readings say nothing.
pub type Blind = (u32, u64, u64);
/// Readings further apart leave out what was between them: an outage, not a late reading.
const OUTAGE: u64 = SECOND;

impl Default for Counter {
    fn default() -> Self {
        Self {
            unit_nj: 61_035,
            update_jitter: MS / 10,
            read_jitter: 200_000,
            late_every: 0,
            stuck_every: 0,
            range_uj: 262_143_328_788,
            shuffled: false,
            outage: None,
        }
    }
}

/// How the timer samples.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    pub hz: u64,
    /// How far a sample strays from its due time, in periods.
    pub jitter: f64,
    /// How many samples get lost, in percent.
    pub lost_percent: u64,
}

/// Clocks that swing between half and whole; power goes with them to the power of 2.5.
#[derive(Clone, Copy, Debug)]
pub struct Swing {
    /// In nanoseconds.
    pub period: u64,
    /// Each CPU has a period and a phase of its own: some are slow while others are fast.
    pub each: bool,
    /// The machine has cpufreq, which is read ten times a second.
    pub recorded: bool,
}

impl Swing {
    /// A CPU's clock at a moment, in parts of its highest.
    fn clock(self, cpu: u32, at: u64) -> f64 {
        let number = if self.each { f64::from(cpu) } else { 0.0 };
        let turns = at as f64 / self.period as f64 / (1.0 + 0.3 * number) + 0.37 * number;
        0.75 + 0.25 * (std::f64::consts::TAU * turns).sin()
    }

    /// What cpufreq shows of a CPU: the mean clock of the scheduler's last tick, in steps of 25 MHz of at most 3 GHz.
    fn read(self, cpu: u32, length: u64, random: &mut Random) -> Vec<(KtimeNs, KiloHertz)> {
        let mut due = 0;
        let mut next = || {
            let at = due + random.below(5 * MS);
            due += 100 * MS;
            (at < length + 100 * MS).then(|| {
                let mean = self.clock(cpu, at.saturating_sub(2 * MS + random.below(4 * MS)));
                let khz = (mean * 120.0).round() as u32 * 25_000;
                (KtimeNs::from_ns(BOOT + at), KiloHertz::from_khz(khz))
            })
        };
        std::iter::from_fn(&mut next).collect()
    }
}

/// Everything that happens.
pub struct World {
    pub stretches: Vec<Stretch>,
    pub length: u64,
    /// The socket of each CPU.
    pub socket_of: Vec<u32>,
    /// Watts of each function.
    pub watts: Vec<f64>,
    /// The process of each thread.
    pub process_of: Vec<u32>,
    pub idle_watts: f64,
    /// Power of a socket's shared parts while any of its CPUs is busy.
    pub uncore_watts: f64,
    /// CPUs 2n and 2n + 1 are siblings: both busy, each draws (1 + this) / 2 of its watts.
    pub smt: Option<f64>,
    /// The machine says which CPUs are siblings.
    pub cores_known: bool,
    /// How the CPUs' clocks change, where they do.
    pub swing: Option<Swing>,
    pub counter: Counter,
    pub sampler: Sampler,
    /// Who asks whom for work, where that is the question.
    pub asks: Option<Asks>,
}

/// What really was spent, in joules above idle.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub functions: Vec<f64>,
    pub processes: Vec<f64>,
}

/// A socket's energy over time: joules at moments between which power is even.
pub type Track = Vec<(u64, f64)>;

/// The outages that the readings of a recording have.
pub fn blind_of(recording: &Recording) -> Vec<Blind> {
    let mut blind = vec![];
    for (socket, readings) in &recording.readings {
        let mut good: Vec<u64> = readings
            .iter()
            .filter(|reading| reading.value != CounterValue::Failed)
            .map(|reading| reading.at.as_ns() - BOOT)
            .collect();
        good.sort_unstable();
        let outages = good.windows(2).filter(|pair| pair[1] - pair[0] > OUTAGE);
        blind.extend(outages.map(|pair| (socket.get(), pair[0], pair[1])));
    }
    blind
}

impl World {
    /// Integrates every socket; what was spent in `blind` is no part of the truth that a report could know.
    pub fn integrate(&self, blind: &[Blind]) -> (Truth, Vec<Track>) {
        let processes = self.process_of.iter().max().map_or(0, |most| *most as usize + 1);
        let sockets = self.socket_of.iter().max().map_or(1, |most| most + 1);
        let mut truth = Truth { functions: vec![0.0; self.watts.len()], processes: vec![0.0; processes] };
        let tracks = (0..sockets).map(|socket| self.integrate_socket(socket, blind, &mut truth)).collect();
        (truth, tracks)
    }

    fn integrate_socket(&self, socket: u32, blind: &[Blind], truth: &mut Truth) -> Track {
        let mut changes: Vec<(u64, u32, Option<Running>)> = vec![];
        for stretch in self.stretches.iter().filter(|s| self.socket_of[s.cpu as usize] == socket) {
            let watts = stretch.watts.unwrap_or_else(|| self.watts_of(stretch.who));
            changes.push((stretch.from, stretch.cpu, Some((stretch.who, watts))));
            changes.push((stretch.to, stretch.cpu, None));
        }
        if self.swing.is_some() {
            let steps = (0..self.length / FREQUENCY_STEP).map(|i| (i * FREQUENCY_STEP, u32::MAX, None));
            changes.extend(steps);
        }
        let blind: Vec<Blind> = blind.iter().copied().filter(|&(of, ..)| of == socket).collect();
        changes
            .extend(blind.iter().flat_map(|&(_, from, to)| [(from, u32::MAX, None), (to, u32::MAX, None)]));
        let mut unknown = truth.clone();
        // A CPU's end of one stretch comes before its begin of the next.
        changes.sort_by_key(|change| (change.0, change.2.is_some()));
        changes.push((self.length + 200 * MS, u32::MAX, None));
        let mut now: Vec<Option<Running>> = vec![None; self.socket_of.len()];
        let (mut at, mut joules) = (0, 0.0);
        let mut track = vec![(0, 0.0)];
        for (next, cpu, who) in changes {
            if next > at {
                let seen = !blind.iter().any(|&(_, from, to)| from <= at && at < to);
                joules += self.spend(&now, at, next, if seen { &mut *truth } else { &mut unknown });
                track.push((next, joules));
                at = next;
            }
            if let Some(slot) = now.get_mut(cpu as usize) {
                *slot = who;
            }
        }
        track
    }

    /// What a socket spends while nothing changes, charged to the truth.
    fn spend(&self, now: &[Option<Running>], from: u64, to: u64, truth: &mut Truth) -> f64 {
        let seconds = (to - from) as f64 / 1e9;
        let mut power = self.idle_watts;
        if now.iter().any(Option::is_some) {
            power += self.uncore_watts;
        }
        for (cpu, running) in now.iter().enumerate() {
            let Some((who, watts)) = running else { continue };
            let sibling = now.get(cpu ^ 1).is_some_and(Option::is_some);
            let shared = self.smt.filter(|_| sibling).map_or(1.0, |eta| (1.0 + eta) / 2.0);
            let speed = self.swing.map_or(1.0, |swing| swing.clock(cpu as u32, from).powf(2.5));
            let watts = speed * shared * watts;
            power += watts;
            if let Who::Target { thread, function } = who {
                truth.functions[*function] += watts * seconds;
                truth.processes[self.process_of[*thread as usize] as usize] += watts * seconds;
            }
        }
        power * seconds
    }

    fn watts_of(&self, who: Who) -> f64 {
        match who {
            Who::Target { function, .. } => self.watts[function],
            Who::Background { watts, .. } => f64::from(watts),
        }
    }

    /// What a socket's counter shows at each reading.
    fn readings(&self, socket: u32, track: &Track, random: &mut Random) -> Vec<Reading> {
        let c = &self.counter;
        let outage = c.outage.filter(|outage| outage.socket == socket);
        let mut before = 0;
        let (mut readings, mut shown, mut tick, mut place, mut number) = (vec![], 0_u64, 0_u64, 0, 0_u64);
        let (mut due, mut last) = (0, 0);
        while due <= self.length + 40 * MS {
            number += 1;
            let late = c.late_every > 0 && number.is_multiple_of(c.late_every);
            let at = (due + random.below(c.read_jitter) + if late { 100 * MS } else { 0 }).max(last + 1);
            last = at;
            while tick <= at {
                while track.get(place + 1).is_some_and(|next| next.0 <= tick) {
                    place += 1;
                }
                let (from, joules) = track[place];
                let joules = track.get(place + 1).map_or(joules, |next| {
                    joules + (next.1 - joules) * (tick - from) as f64 / (next.0 - from) as f64
                });
                let units = (joules * 1e9 / c.unit_nj as f64) as u64;
                shown = (units * c.unit_nj / 1000) % (c.range_uj + (c.range_uj / u64::from(u32::MAX)).max(1));
                tick += random.around(MS, c.update_jitter);
            }
            let stuck = c.stuck_every > 0 && number.is_multiple_of(c.stuck_every);
            due += 20 * MS;
            if outage.is_some_and(|outage| (outage.from..outage.to).contains(&at)) {
                before = if outage.is_some_and(|outage| outage.anew) { shown } else { 0 };
                continue;
            }
            let value = if stuck { CounterValue::Failed } else { CounterValue::MicroJoules(shown - before) };
            readings.push(Reading { at: KtimeNs::from_ns(BOOT + at), value });
        }
        if c.shuffled {
            readings.chunks_mut(3).for_each(<[Reading]>::reverse);
        }
        readings
    }

    /// What a timer on each CPU sees of the target.
    fn samples(&self, random: &mut Random) -> Vec<Sample> {
        let Sampler { hz, jitter, lost_percent } = self.sampler;
        let period = SECOND / hz;
        let spread = (jitter * period as f64) as u64;
        let mut samples = vec![];
        for cpu in 0..self.socket_of.len() as u32 {
            let mut due = random.below(period) + spread;
            let mut at = due;
            let mut of_cpu: Vec<&Stretch> = self.stretches.iter().filter(|s| s.cpu == cpu).collect();
            of_cpu.sort_by_key(|stretch| stretch.from);
            for stretch in of_cpu {
                while at < stretch.to {
                    if at >= stretch.from
                        && let Who::Target { thread, function } = stretch.who
                        && random.below(100) >= lost_percent
                    {
                        samples.push(Sample {
                            at: KtimeNs::from_ns(BOOT + at),
                            cpu: CpuId::new(cpu),
                            thread: ThreadKey::new(thread),
                            stack: StackId::new(function as u32),
                            status: StackStatus::Complete,
                        });
                    }
                    due += period;
                    at = random.around(due, spread);
                }
            }
        }
        samples.sort_by_key(|sample| sample.at);
        samples
    }

    /// What `sched_switch` sees: a thread going from one function to the next is no switch.
    fn slices(&self) -> Vec<Slice> {
        let mut ordered: Vec<&Stretch> = self.stretches.iter().collect();
        ordered.sort_by_key(|stretch| (stretch.cpu, stretch.from));
        let mut slices: Vec<Slice> = vec![];
        for stretch in ordered {
            let who = match stretch.who {
                Who::Target { thread, .. } => CpuOwner::Target(ThreadKey::new(thread)),
                Who::Background { key, .. } => CpuOwner::Background(BackgroundKey::new(key)),
            };
            let (start, end) = (KtimeNs::from_ns(BOOT + stretch.from), KtimeNs::from_ns(BOOT + stretch.to));
            let cpu = CpuId::new(stretch.cpu);
            match slices.last_mut() {
                Some(before) if (before.cpu, before.end, before.who) == (cpu, start, who) => before.end = end,
                _ => slices.push(Slice { cpu, who, start, end }),
            }
        }
        slices
    }

    /// Fills in what was seen of the world.
    pub fn observe(&self, recording: &mut Recording, tracks: &[Track], seed: u64) {
        let mut random = Random(seed ^ 0x5eed);
        for (socket, track) in (0..).zip(tracks) {
            recording.readings.insert(DomainId::new(socket), self.readings(socket, track, &mut random));
        }
        recording.samples = self.samples(&mut random);
        recording.slices = self.slices();
        if let Some(swing) = self.swing.filter(|swing| swing.recorded) {
            let of_cpu = |cpu| (CpuId::new(cpu), swing.read(cpu, self.length, &mut random));
            recording.clocks = (0..self.socket_of.len() as u32).map(of_cpu).collect();
        }
        self.asks.iter().for_each(|asks| asks.observe(recording));
    }
}
