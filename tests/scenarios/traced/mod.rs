//! Worlds made of recorded programs: real stacks, real order, real schedules, with watts drawn for them.
//!
//! A program recorded at a high rate is the truth (`trace`), each stack gets watts (`watts`), and what a recorder at a lower rate would have seen
//! of it is attributed (`run`). The machine around it, the counter and the measures are those of the worlds of other makers. Leaves out how
//! programs are recorded (`cargo xtask bench accuracy --traced`).

mod trace;
mod watts;

pub use trace::Trace;
pub use watts::{Drawn, Kind};

use super::worlds::counter::{Counter, Updates};
use super::worlds::measure::{self, Outcome, Truth};
use super::worlds::power::{Physics, integrate};
use super::worlds::real::{self, Chip};
use super::worlds::recording::{Recorder, package};
use super::worlds::sampler::{Sampler, unsampled};
use super::worlds::stacks::Stacks;
use super::worlds::{BOOT, MS};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{DomainId, StackId};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Header, Summary};
use energy_trace_tests::random::Random;

/// Readings go on for so long after the recording's time.
const AFTER: u64 = 60 * MS;
/// How far a factor common to all code wanders, as with temperature, in parts.
const DRIFT: f64 = 0.1;

/// The machine that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A counter as it is described, and power with a common drift.
    Described,
    /// A counter that moves, and power that varies, as recorded ones did.
    Real(Chip),
}

impl Machine {
    fn physics(self) -> Physics {
        let idle_watts = 12.0;
        match self {
            Self::Described => Physics { idle_watts, drift: DRIFT, ..Physics::default() },
            Self::Real(_) => Physics { idle_watts, recorded_idle: true, ..Physics::default() },
        }
    }

    fn counter(self) -> Counter {
        match self {
            Self::Described => Counter::default(),
            Self::Real(chip) => {
                Counter { unit_uj: 61.04, updates: Updates::Recorded(chip), ..Counter::default() }
            }
        }
    }
}

/// A traced program as it would have been recorded, and what its stacks truly spent.
pub fn record(
    trace: &Trace,
    (kind, machine): (Kind, Machine),
    recorder: Recorder,
    seed: u64,
) -> (Recording, Truth) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(kind as u64));
    let pieces = trace.pieces(&Drawn::new(&trace.recording, kind, random.next_word()));
    let pieces = if machine == Machine::Described { pieces } else { real::vary(&pieces, &mut random) };
    let physics = machine.physics();
    let end = trace.length + AFTER;
    let paths = trace.recording.stacks.len() as u32;
    let spent = integrate(&pieces, trace.cpus(), paths as usize, &physics, trace.length, end, &mut random);
    let sampler = Sampler { hz: recorder.hz, jitter: recorder.jitter, lost_percent: 0 };
    let samples = sampler.samples(&pieces, &each_its_own(paths), &mut random);
    let counter = recorder.counter(machine.counter());
    let of_stack = |(stack, joules): (u32, &f64)| (StackId::new(stack), *joules);
    let truth =
        Truth { stacks: (0..).zip(&spent.paths).map(of_stack).filter(|(_, joules)| *joules > 0.0).collect() };
    let (sample_hz, jitter) = (recorder.hz as u32, recorder.header_jitter());
    let header = Header { sample_hz, jitter, ..trace.recording.header.clone() };
    let recording = Recording {
        header,
        domains: vec![package(physics.idle_watts, counter.range_uj())],
        readings: [(DomainId::new(0), counter.readings(&spent.track, end, &mut random))].into(),
        unsampled: unsampled(&trace.recording.slices, &samples, recorder.hz),
        samples,
        summary: Some(Summary {
            start: KtimeNs::from_ns(BOOT),
            end: KtimeNs::from_ns(BOOT + trace.length),
            ..Summary::default()
        }),
        ..trace.recording.clone()
    };
    (recording, truth)
}

/// One run through the attribution, held against the truth.
pub fn run(trace: &Trace, kind: Kind, recorder: Recorder, seed: u64) -> Outcome {
    let (recording, truth) = record(trace, (kind, Machine::Described), recorder, seed);
    measure::measure(&recording, &truth, seed)
}

/// The stacks of a recording, each of them a path of its own.
fn each_its_own(count: u32) -> Stacks {
    let mut stacks = Stacks::default();
    stacks.paths = (0..count).map(|stack| vec![StackId::new(stack)]).collect();
    stacks
}
