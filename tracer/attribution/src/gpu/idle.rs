//! What a GPU draws beyond its baseline whenever nothing runs, because a program has it open.
//!
//! A baseline measured before the start is that of a GPU that nobody uses; with a context its clocks go up and it draws tens of watts more
//!. That is nobody's launch. It shows in windows between launches: what the lowest of
//! these agree on is idle power from the first launch to the end of the last. What is above it there was somebody else's work.

use super::batches::{Batches, Stretch};
use super::constants::{FAR_FROM_WORK, FEWEST_EMPTY, IDLE_AGREES, IDLE_COMMON, LEAST_IDLE};
use super::meter::{Meter, Step, Window};
use crate::timeline::EnergyInterval;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Takes it from the energy above the baseline of each interval, and returns its sum. `most`: more watts are no idle power.
pub(super) fn take(
    steps: &[Step],
    intervals: &[EnergyInterval],
    windows: &[Window],
    batches: &Batches,
    meter: Meter,
    most: f64,
    dynamic: &mut [MicroJoules],
) -> MicroJoules {
    let Some(open) = batches.extent() else { return MicroJoules::ZERO };
    let Some(power) = watts_between(windows, batches, meter, open, most).and_then(MicroWatts::from_watts)
    else {
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
fn watts_between(
    windows: &[Window],
    batches: &Batches,
    meter: Meter,
    open: Stretch,
    most: f64,
) -> Option<f64> {
    let empty = |window: &&Window| {
        let Stretch { from, until } = meter.looked(window.time);
        let mut units = 0.0;
        batches.between(from - FAR_FROM_WORK, until + FAR_FROM_WORK, |_, part| units += part);
        from >= open.from && until <= open.until && units <= 0.0
    };
    let watts = |window: &Window| window.joules / window.time.length().max(1e-9);
    let mut watts: Vec<f64> = windows.iter().filter(empty).map(watts).collect();
    if watts.len() < FEWEST_EMPTY {
        return None;
    }
    watts.sort_by(f64::total_cmp);
    let low = watts[watts.len() / 10];
    let alike = |watts: &&f64| (*watts - low).abs() <= IDLE_AGREES.0.max(IDLE_AGREES.1 * low);
    let alike: Vec<f64> = watts.iter().filter(alike).copied().collect();
    let enough = alike.len() >= FEWEST_EMPTY && alike.len() as f64 >= IDLE_COMMON * watts.len() as f64;
    let middle = alike.get(alike.len() / 2).copied().unwrap_or(0.0);
    (enough && (LEAST_IDLE..=most).contains(&middle)).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::features::Cell;
    use super::{Batches, Meter, Stretch, Window, watts_between};

    fn work(from: f64, until: f64) -> Batch {
        let executed = Stretch { from, until };
        let cells = vec![Cell { owner: 1, column: 0, units: 1.0 }];
        Batch { launched: executed, executed, blur: 0.0, cells }
    }

    /// Windows of half a second between the first launch and the end of the last; those in which nothing ran say 20 W, but for one in which
    /// somebody else worked. Windows at work or beyond the launches say nothing.
    #[test]
    fn what_windows_without_work_agree_on() {
        let batches = Batches::new(vec![work(0.0, 1.0), work(9.0, 10.0)]);
        let open = batches.extent().unwrap();
        let window = |i: u32| {
            let from = f64::from(i) / 2.0;
            let watts = match i {
                0..2 | 18.. => 300.0,
                7 => 90.0,
                _ => 20.0,
            };
            Window { time: Stretch { from, until: from + 0.5 }, ticks: 1, joules: watts * 0.5 }
        };
        let windows: Vec<Window> = (0..24).map(window).collect();
        let found = |windows: &[Window]| watts_between(windows, &batches, Meter::PROMPT, open, 100.0);
        assert_eq!(found(&windows), Some(20.0));
        assert_eq!(found(&windows[..6]), None, "too few of them");
        let apart: Vec<Window> = (0..24).map(|i| Window { joules: f64::from(i * i), ..window(i) }).collect();
        assert_eq!(found(&apart), None, "no power that they agree on");
    }

    /// Powers within 15 % of the lowest tenth agree, however far apart they are in watts: of six windows of 80 W and eight of 88 W the middle is 88.
    #[test]
    fn agreement_goes_by_parts() {
        let batches = Batches::new(vec![work(0.0, 1.0), work(9.0, 10.0)]);
        let open = batches.extent().unwrap();
        let window = |i: u32| {
            let (from, watts) = (2.0 + f64::from(i) / 4.0, if i < 6 { 80.0 } else { 88.0 });
            Window { time: Stretch { from, until: from + 0.25 }, ticks: 1, joules: watts * 0.25 }
        };
        let windows: Vec<Window> = (0..14).map(window).collect();
        assert_eq!(watts_between(&windows, &batches, Meter::PROMPT, open, 100.0), Some(88.0));
    }
}
