//! One run of the benchmark on the virtual clock, as numbers.

use super::meters::Metered;
use energy_trace_scenarios::gpu::outcome::{
    Outcome, Tier, by_count, by_duration, errors, imbalance_uj, within,
};
use energy_trace_scenarios::gpu::training::{KINDS, train};
use energy_trace_scenarios::gpu::world::{MS, Maker, SECOND, World};
use serde::Serialize;

/// All of them.
pub(crate) const TIERS: [Tier; 2] = [Tier::Launch, Tier::Kernel];

/// A training loop: what the table calls it, nanoseconds of a launch's call, steps between two waits, streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) name: &'static str,
    call_ns: u64,
    wait_each: u64,
    streams: usize,
    maker: Maker,
    /// How many times longer it runs than others.
    longer: u64,
}

impl Loop {
    const fn new(name: &'static str, call_ns: u64, wait_each: u64, streams: usize) -> Self {
        Self { name, call_ns, wait_each, streams, maker: OURS, longer: 1 }
    }

    const fn of(name: &'static str, call_ns: u64, longer: u64, maker: Maker) -> Self {
        Self { name, call_ns, wait_each: 1, streams: 1, maker, longer }
    }
}

const OURS: Maker = Maker { log_normal: 0.0, data: 0.0, heat: 0.0, follows_ns: 0, same_steps: false };

pub(crate) const LOOPS: [Loop; 4] = [
    Loop::new("a wait each step", 20_000, 1, 1),
    Loop::new("a wait in 4 steps", 20_000, 4, 1),
    Loop::new("host-bound", 500_000, 1, 1),
    Loop::new("two streams", 20_000, 1, 2),
];

/// Worlds of other makers, which do not share what the attribution assumes: durations and watts that hang on the data, a sensor that follows the
/// board's power with 20, 80 or 300 ms, a board that warms up, steps that are all alike.
pub(crate) const OTHER_MAKERS: [Loop; 8] = [
    Loop::of("log-normal, by data", 20_000, 1, Maker { log_normal: 0.5, data: 0.3, ..OURS }),
    Loop::of("log-normal, by data, host-bound", 500_000, 1, Maker { log_normal: 0.5, data: 0.3, ..OURS }),
    Loop::of("slow sensor, 20 ms", 20_000, 1, Maker { follows_ns: 20 * MS, ..OURS }),
    Loop::of("slow sensor", 20_000, 1, Maker { follows_ns: 80 * MS, ..OURS }),
    Loop::of("slow sensor, 300 ms", 20_000, 1, Maker { follows_ns: 300 * MS, ..OURS }),
    Loop::of("warming up, 180 s", 20_000, 3, Maker { heat: 0.15, ..OURS }),
    Loop::of("same steps", 20_000, 1, Maker { same_steps: true, ..OURS }),
    Loop::of("all of these", 20_000, 3, ALL),
];
const ALL: Maker = Maker { log_normal: 0.5, data: 0.3, heat: 0.15, follows_ns: 80 * MS, same_steps: true };

/// What one run says, errors in percent.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Run {
    /// Launch stacks, and how many of them were flagged.
    pub(crate) stacks: usize,
    pub(crate) flagged: usize,
    /// Mean and worst error of those that were not flagged; none where all were.
    pub(crate) known: Option<(f64, f64)>,
    /// The same of all.
    pub(crate) all: (f64, f64),
    pub(crate) by_count: (f64, f64),
    pub(crate) by_duration: (f64, f64),
    /// Truths in their 95 % interval or bounds.
    pub(crate) covered: usize,
    pub(crate) imbalance_uj: i64,
    /// Charged for launches that were captured and never ran, in joules; none where nothing was captured.
    pub(crate) captured: Option<f64>,
}

/// Trains on a virtual GPU and splits its energy as a tier does.
pub(crate) fn run(tier: Tier, metered: &Metered, of: Loop, seed: u64, seconds: u64) -> Run {
    let mut world = World::new(seed);
    (world.streams, world.maker) = (of.streams, of.maker);
    train(&mut world, seconds * of.longer, of.call_ns, of.wait_each);
    let until = world.end();
    neighbour(&mut world, metered.neighbour, until);
    let outcome = Outcome::with(&mut world, &KINDS, metered.meter, 75.0, tier);
    let readings = world.readings(metered.meter);
    let sites = KINDS.len();
    let inside = |site: &usize| {
        let (sure, truth) = (outcome.uncertainty(*site), outcome.truth[*site]);
        within(sure.ci95, truth) || sure.bounds.is_some_and(|bounds| within(bounds, truth))
    };
    let flagged = (0..sites).filter(|&site| !outcome.identified(site)).count();
    Run {
        stacks: sites,
        flagged,
        known: (flagged < sites).then(|| outcome.errors()),
        all: errors(&outcome.charged, &outcome.truth),
        by_count: errors(&by_count(&world, &readings, sites), &outcome.truth),
        by_duration: errors(&by_duration(&world, &readings, sites), &outcome.truth),
        covered: (0..sites).filter(inside).count(),
        imbalance_uj: imbalance_uj(&outcome.profile),
        captured: None,
    }
}

/// Another instance works for 300 to 900 ms, and rests as long.
fn neighbour(world: &mut World, watts: f64, until: u64) {
    let mut at = SECOND;
    while watts > 0.0 && at < until {
        let length = world.random.around(600 * MS, 300 * MS);
        world.strangers.push((at, at + length, watts));
        at += length + world.random.around(600 * MS, 300 * MS);
    }
}
