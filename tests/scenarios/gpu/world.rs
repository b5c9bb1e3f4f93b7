//! A simulated GPU on a virtual clock: a host that launches ahead, a queue, kernels with known watts, and a meter that is late.
//!
//! Kernels of a stream run one after the other in the order of their launches, each with its own duration (± 15 %) and power. Power is additive;
//! kernels of two streams do not slow each other down. `Maker` is what another maker's world has beyond that: durations and watts that hang on the
//! data, heat, a sensor that follows its board slowly.

use energy_trace_tests::random::Random;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// Launches that the driver queues before a call blocks.
const QUEUE: usize = 1024;

/// A kernel.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub ns: u64,
    pub watts: f64,
}

/// One launch, and what became of it.
#[derive(Clone, Copy)]
pub struct Launch {
    pub at: u64,
    pub site: usize,
    pub from: u64,
    pub until: u64,
    pub watts: f64,
}

impl Launch {
    pub fn joules(&self) -> f64 {
        self.watts * (self.until - self.from) as f64 / 1e9
    }
}

/// What a world has that the attribution does not assume.
#[derive(Clone, Copy, Debug, Default)]
pub struct Maker {
    /// Standard deviation of the logarithm of a launch's duration; 0: evenly ± 15 %.
    pub log_normal: f64,
    /// The same of a factor that a step's data give to each kernel's durations, and by its root to its watts.
    pub data: f64,
    /// The part by which all power grows as the board warms up (time constant: 40 s).
    pub heat: f64,
    /// Time constant of a sensor that follows the board's power slowly, in nanoseconds.
    pub follows_ns: u64,
    /// Whether each step launches the same numbers of all kernels.
    pub same_steps: bool,
}

/// The time constant of a board's warming, in nanoseconds.
const WARMING_NS: f64 = 40e9;

/// How a counter shows energy.
#[derive(Clone, Copy, Debug)]
pub struct MeterModel {
    pub name: &'static str,
    pub tick: u64,
    pub lag: u64,
    /// The part of a tick that it looks at.
    pub duty: f64,
    /// Standard deviation of a step, in parts.
    pub noise: f64,
    /// How often it is read.
    pub poll: u64,
    /// 0: a counter. Else there is none, and power is read that is the mean of so long.
    pub averaged: u64,
}

/// A host, a queue and what ran.
pub struct World {
    pub random: Random,
    pub host: u64,
    /// When each stream is done.
    free: [u64; 2],
    /// Streams in use, 1 or 2: sites of odd numbers launch into the second one, which runs beside the first.
    pub streams: usize,
    pub launches: Vec<Launch>,
    /// From call to return.
    pub waits: Vec<(u64, u64)>,
    /// What runs beside the target.
    pub strangers: Vec<(u64, u64, f64)>,
    pub idle_watts: f64,
    pub maker: Maker,
    /// What the step's data do to the durations of each site's kernel.
    data: Vec<f64>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let (launches, waits, strangers) = (Vec::new(), Vec::new(), Vec::new());
        let (random, free, streams) = (Random(seed), [0; 2], 1);
        Self {
            random,
            host: 0,
            free,
            streams,
            launches,
            waits,
            strangers,
            idle_watts: 75.0,
            maker: Maker::default(),
            data: vec![],
        }
    }

    /// A step with new data begins.
    pub fn new_data(&mut self, sites: usize) {
        if self.maker.data > 0.0 {
            self.data = (0..sites).map(|_| (self.maker.data * self.normal()).exp()).collect();
        }
    }

    /// A standard normal number, nearly: the sum of twelve even ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0
    }

    /// How long a kernel takes, in nanoseconds.
    fn duration(&mut self, site: usize, kind: Kind) -> u64 {
        let Maker { log_normal, .. } = self.maker;
        if log_normal <= 0.0 {
            return self.random.around(kind.ns, kind.ns * 15 / 100);
        }
        // The mean is the kind's.
        let factor = (log_normal * self.normal() - log_normal * log_normal / 2.0).exp();
        (kind.ns as f64 * factor * self.data.get(site).copied().unwrap_or(1.0)) as u64
    }

    /// What a kernel draws that starts then.
    fn watts(&self, site: usize, kind: Kind, from: u64) -> f64 {
        let warm = 1.0 + self.maker.heat * (1.0 - (-(from as f64) / WARMING_NS).exp());
        kind.watts * warm * self.data.get(site).map_or(1.0, |data| data.sqrt())
    }

    /// Launches a kernel; the call takes the host this long, or until the queue has room.
    pub fn launch(&mut self, site: usize, kind: Kind, call_ns: u64) {
        let full = self.launches.len().checked_sub(QUEUE).and_then(|first| self.launches.get(first));
        self.host = self.host.max(full.map_or(0, |first| first.from));
        let stream = site % self.streams;
        let from = self.free[stream].max(self.host + 4_000);
        let until = from + self.duration(site, kind);
        let watts = self.watts(site, kind, from);
        self.launches.push(Launch { at: self.host, site, from, until, watts });
        (self.free[stream], self.host) = (until, self.host + call_ns);
    }

    /// Waits until everything is done.
    pub fn synchronize(&mut self) {
        let until = self.end() + 5_000;
        self.waits.push((self.host, until));
        self.host = until;
    }

    pub fn sleep(&mut self, ns: u64) {
        self.host += ns;
    }

    /// When everything was done.
    pub fn end(&self) -> u64 {
        self.free[0].max(self.free[1]).max(self.host)
    }

    /// Joules of each site, exactly.
    pub fn truth(&self, sites: usize) -> Vec<f64> {
        let mut joules = vec![0.0; sites];
        self.launches.iter().for_each(|launch| joules[launch.site] += launch.joules());
        joules
    }

    /// What the counter shows at each reading: time and microjoules.
    pub fn readings(&mut self, meter: MeterModel) -> Vec<(u64, u64)> {
        let power = Power::of(self);
        let end = self.end() + 3 * meter.tick;
        if meter.averaged > 0 {
            return self.summed(&power, meter, end);
        }
        let mut steps = vec![];
        let (mut shown, mut at) = (1e9, 0);
        while at <= end {
            let until = at.saturating_sub(meter.lag);
            let looked = (meter.duty * meter.tick as f64) as u64;
            let from = until.saturating_sub(looked);
            let error = 1.0 + meter.noise * (self.random.unit() + self.random.unit() - 1.0) * 2.449;
            shown += (power.joules_at(until) - power.joules_at(from)) / meter.duty * error * 1e6;
            steps.push((at, (shown / 1000.0) as u64 * 1000));
            at += meter.tick;
        }
        let mut readings = vec![];
        let mut due = 0;
        while due <= end {
            let read_at = due + self.random.below(500_000);
            let step = steps.partition_point(|(at, _)| *at <= read_at).max(1) - 1;
            readings.push((read_at, steps[step].1));
            due += meter.poll;
        }
        readings
    }

    /// Power readings, summed up by the trapezoidal rule, as the product does.
    fn summed(&mut self, power: &Power, meter: MeterModel, end: u64) -> Vec<(u64, u64)> {
        let (mut readings, mut uj) = (vec![], 0.0);
        let mut before = (0, (self.idle_watts * 1000.0).round());
        for due in (0..=end).step_by(meter.poll.max(1) as usize) {
            let read_at = due + self.random.below(500_000);
            let until = (read_at.saturating_sub(meter.lag) / meter.tick) * meter.tick;
            // Before the start it idled.
            let (from, before_start) =
                (until.saturating_sub(meter.averaged), meter.averaged.saturating_sub(until));
            let joules = power.joules_at(until) - power.joules_at(from);
            let watts = (joules * 1e9 + self.idle_watts * before_start as f64) / meter.averaged as f64;
            let milliwatts = (watts * 1000.0).round();
            uj += milliwatts.midpoint(before.1) * (read_at - before.0) as f64 / 1e6;
            readings.push((read_at, uj as u64));
            before = (read_at, milliwatts);
        }
        readings
    }
}

/// Power over time: at its changes the energy so far, the watts from then on, and what a slow sensor makes of the watts before.
struct Power {
    changes: Vec<(u64, f64, f64, f64)>,
    /// Seconds.
    follows: f64,
}

impl Power {
    fn of(world: &World) -> Self {
        let mut changes = vec![(0, world.idle_watts)];
        let launches = world.launches.iter().map(|launch| (launch.from, launch.until, launch.watts));
        for (from, until, watts) in launches.chain(world.strangers.iter().copied()) {
            changes.extend([(from, watts), (until, -watts)]);
        }
        changes.sort_by_key(|change| change.0);
        let (mut joules, mut watts, mut now) = (0.0, 0.0, 0);
        let (follows, mut seen) = (world.maker.follows_ns as f64 / 1e9, world.idle_watts);
        let sum = |(at, change): (u64, f64)| {
            let seconds = (at - now) as f64 / 1e9;
            joules += watts * seconds;
            seen = if now > 0 { followed(seen, watts, seconds, follows) } else { seen };
            (now, watts) = (at, watts + change);
            (at, joules, watts, seen)
        };
        Self { changes: changes.into_iter().map(sum).collect(), follows }
    }

    /// The energy up to a time, as the sensor sees it: one that follows slowly lacks τ times the power that it shows then.
    fn joules_at(&self, at: u64) -> f64 {
        let last = self.changes.partition_point(|(since, ..)| *since <= at).max(1) - 1;
        let (since, joules, watts, seen) = self.changes[last];
        let seconds = (at - since) as f64 / 1e9;
        joules + watts * seconds - self.follows * followed(seen, watts, seconds, self.follows)
    }
}

/// What a first-order sensor shows that showed `seen` when the power became `watts`.
fn followed(seen: f64, watts: f64, seconds: f64, follows: f64) -> f64 {
    if follows > 0.0 { watts + (seen - watts) * (-seconds / follows).exp() } else { seen }
}
