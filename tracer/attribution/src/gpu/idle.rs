//! What a GPU draws beyond its baseline whenever nothing runs, because a program has it open.
//!
//! A baseline measured before the start is that of a GPU that nobody uses; with a context its clocks go up and it draws tens of watts more
//!. That is nobody's launch. It shows in windows between launches: what the lowest of
//! these agree on is idle power from the first launch to the end of the last. What is above it there was somebody else's work.

use super::batches::{Batches, Stretch};
use super::meter::{Meter, Step, Window};
use crate::timeline::EnergyInterval;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Fewer windows without launches say nothing.
const FEWEST: usize = 5;
/// How far from launches such a window is, in seconds.
const FAR: f64 = 0.01;
/// How far apart windows may be that agree: watts, and parts of the power.
const AGREE: (f64, f64) = (3.0, 0.15);
/// The part of these windows that must agree.
const COMMON: f64 = 0.15;
/// Less than this is not worth a name, and more is no idle power of any board.
const LEAST_WATTS: f64 = 1.0;
const MOST_WATTS: f64 = 100.0;

/// Takes it from the energy above the baseline of each interval, and returns its sum.
pub(super) fn take(
    steps: &[Step],
    intervals: &[EnergyInterval],
    windows: &[Window],
    batches: &Batches,
    meter: Meter,
    dynamic: &mut [MicroJoules],
) -> MicroJoules {
    let Some(open) = batches.extent() else { return MicroJoules::ZERO };
    let Some(power) = watts_between(windows, batches, meter, open).and_then(MicroWatts::from_watts) else {
        return MicroJoules::ZERO;
    };
    let mut sum = MicroJoules::ZERO;
    for ((step, interval), energy) in steps.iter().zip(intervals).zip(dynamic) {
        let Stretch { from, until } = meter.looked(step.time);
        if from >= open.from && until <= open.until {
            let idle = power.over_ns(interval.span.ns());
            *energy -= idle;
            sum += idle;
        }
    }
    sum
}

/// The power of windows between the first and the last launch in which nothing was executed, in watts.
fn watts_between(windows: &[Window], batches: &Batches, meter: Meter, open: Stretch) -> Option<f64> {
    let empty = |window: &&Window| {
        let Stretch { from, until } = meter.looked(window.time);
        let mut units = 0.0;
        batches.between(from - FAR, until + FAR, |_, part| units += part);
        from >= open.from && until <= open.until && units <= 0.0
    };
    let watts = |window: &Window| window.joules / window.time.length().max(1e-9);
    let mut watts: Vec<f64> = windows.iter().filter(empty).map(watts).collect();
    if watts.len() < FEWEST {
        return None;
    }
    watts.sort_by(f64::total_cmp);
    let low = watts[watts.len() / 10];
    let alike = |watts: &&f64| (*watts - low).abs() <= AGREE.0.max(AGREE.1 * low);
    let alike: Vec<f64> = watts.iter().filter(alike).copied().collect();
    let enough = alike.len() >= FEWEST && alike.len() as f64 >= COMMON * watts.len() as f64;
    let middle = alike.get(alike.len() / 2).copied().unwrap_or(0.0);
    (enough && (LEAST_WATTS..=MOST_WATTS).contains(&middle)).then_some(middle)
}
