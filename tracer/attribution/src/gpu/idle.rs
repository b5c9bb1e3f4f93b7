//! What a GPU draws beyond its baseline whenever nothing runs, because a program has it open.
//!
//! A baseline measured before the start is that of a GPU that nobody uses; with a context its clocks go up
//! and it draws tens of watts more (an H200 78 W and 120 W), from the context's creation until some time
//! after its end (1.4 s there). That is nobody's launch. Windows in which nothing runs show it: those between
//! launches, or where there are too few, those just before the first launch and after the last. What the
//! lowest of these agree on is idle power for as long as the device is open. What is above it in such windows
//! was somebody else's work. Where no launches are known, pauses are stretches without units of work.

use super::batches::{Batches, TimeRange};
use super::constants::{
    AFTER_WORK, BEFORE_WORK, FAR_FROM_WORK, FEWEST_AROUND, FEWEST_EMPTY, IDLE_AGREES, IDLE_COMMON,
    LEAST_IDLE, LEAST_OPEN, MOST_IDLE,
};
use super::meter::{Meter, Step, Window, steps_of, time_range_of, windows_of};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Power of a device that is open and at rest, beyond its baseline, in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Open {
    pub(super) watts: f64,
    /// How far the windows that show it lie apart at most, to either side.
    pub(super) doubt: f64,
}

/// What windows show of it, if they show it; nothing where the device is at rest between or after launches.
/// `most`: more watts are no idle power.
pub(super) fn open_power(windows: &[Window], batches: &Batches, meter: Meter, most: f64) -> Option<Open> {
    let open = batches.extent()?;
    let quiet = |window: &&Window| is_quiet(meter.looked(window.time), batches);
    let inside = windows.iter().filter(quiet).filter(|window| is_in(meter.looked(window.time), open));
    let mut inside: Vec<f64> = inside.map(watts).collect();
    if inside.len() >= FEWEST_EMPTY {
        inside.sort_by(f64::total_cmp);
        if let Some(found) = agreed_by_lowest(&inside, most) {
            return Some(found);
        }
    }
    let around = TimeRange { from: open.from - BEFORE_WORK, until: open.until + AFTER_WORK };
    // The ends of a recording are readings, and no steps of the counter.
    let inner = windows.get(1..windows.len().saturating_sub(1)).unwrap_or_default();
    let around = inner.iter().filter(quiet).filter(|window| is_in(meter.looked(window.time), around));
    let is_after = |window: &Window| meter.looked(window.time).from >= open.until;
    let (resting, awake): (Vec<&Window>, Vec<&Window>) =
        around.partition(|window| watts(window) < LEAST_OPEN);
    let mut awake: Vec<f64> = awake.into_iter().map(watts).collect();
    awake.sort_by(f64::total_cmp);
    let rests = resting.iter().filter(|window| is_after(window)).count() >= FEWEST_AROUND;
    let found = awake.iter().find_map(|&low| agreed(&awake, low, FEWEST_AROUND, most));
    found.or_else(|| rests.then(Open::default))
}

/// The power at rest of a device of which no launches are known, in watts: what windows agree on that lie in stretches without work, where that is
/// less than what it draws elsewhere, and no more than `then`, which it drew before the start.
pub(crate) fn power_without_work(
    intervals: &[EnergyInterval],
    (still, start): (&[Span], KtimeNs),
    then: f64,
) -> Option<f64> {
    let still: Vec<TimeRange> = still.iter().map(|span| time_range_of(*span, start)).collect();
    let joules: Vec<f64> = intervals.iter().map(|interval| interval.energy.as_joules()).collect();
    let windows = windows_of(&steps_of(intervals, start), &joules);
    let is_still = |window: &&Window| still.iter().any(|still| is_in(window.time, *still));
    let (at_rest, elsewhere): (Vec<&Window>, Vec<&Window>) = windows.iter().partition(is_still);
    let [at_rest, elsewhere] = [at_rest, elsewhere].map(|windows| {
        let mut watts: Vec<f64> = windows.into_iter().map(watts).collect();
        watts.sort_by(f64::total_cmp);
        watts
    });
    let found = agreed_by_lowest(&at_rest, most_at_rest(then))?.watts;
    let working = elsewhere.get(elsewhere.len() / 2)?;
    (found > 0.0 && found * (1.0 + IDLE_AGREES.1) < *working).then_some(found)
}

/// Up to how many watts what pauses show is idle power, where a device in use drew `then` before the start: it may have been in a pause too.
pub(super) fn most_at_rest(then: f64) -> f64 {
    (then * (1.0 + IDLE_AGREES.1)).min(MOST_IDLE)
}

fn watts(window: &Window) -> f64 {
    window.joules / window.time.length().max(1e-9)
}

/// What the lowest of these windows agree on, in order of their power. A few may be lower: where a counter's step is seen late, a window has too little
/// and the next one too much.
fn agreed_by_lowest(watts: &[f64], most: f64) -> Option<Open> {
    let lows = watts.get(watts.len() / 10..=watts.len() / 2)?;
    lows.iter().find_map(|&low| agreed(watts, low, FEWEST_EMPTY, most))
}

/// What those windows agree on whose power is about `low`, if they are enough.
fn agreed(watts: &[f64], low: f64, fewest: usize, most: f64) -> Option<Open> {
    let reach = IDLE_AGREES.0.max(IDLE_AGREES.1 * low);
    let alike: Vec<f64> = watts.iter().filter(|watts| (**watts - low).abs() <= reach).copied().collect();
    let enough = alike.len() >= fewest && alike.len() as f64 >= IDLE_COMMON * watts.len() as f64;
    let middle = alike.get(alike.len() / 2).copied().unwrap_or(0.0);
    let doubt = (alike.last()? - middle).max(middle - alike.first()?);
    let watts = if middle < LEAST_IDLE { 0.0 } else { middle };
    (enough && middle <= most).then_some(Open { watts, doubt })
}

fn is_quiet(looked: TimeRange, batches: &Batches) -> bool {
    let mut units = 0.0;
    batches.between(looked.from - FAR_FROM_WORK, looked.until + FAR_FROM_WORK, |_, part| units += part);
    units <= 0.0
}

fn is_in(inner: TimeRange, outer: TimeRange) -> bool {
    inner.from >= outer.from && inner.until <= outer.until
}

/// Takes it from the energy above the baseline of each interval while the device is open, and returns its
/// sum.
pub(super) fn take(
    steps: &[Step],
    intervals: &[EnergyInterval],
    batches: &Batches,
    meter: Meter,
    open: Open,
    dynamic: &mut [MicroJoules],
) -> MicroJoules {
    let (Some(extent), Some(power)) = (batches.extent(), MicroWatts::from_watts(open.watts)) else {
        return MicroJoules::ZERO;
    };
    let idle: Vec<MicroJoules> = intervals.iter().map(|interval| power.over_ns(interval.span.ns())).collect();
    let looked: Vec<TimeRange> = steps.iter().map(|step| meter.looked(step.time)).collect();
    let mut sum = MicroJoules::ZERO;
    let mut give = |place: usize, energy: MicroJoules, dynamic: &mut [MicroJoules]| {
        dynamic[place] -= energy;
        sum += energy;
    };
    for place in 0..steps.len() {
        if is_in(looked[place], extent) {
            give(place, idle[place], dynamic);
        }
    }
    // Open beyond its work: as long as it draws at least half of that.
    let beyond = |place: &usize, dynamic: &[MicroJoules]| dynamic[*place] + dynamic[*place] >= idle[*place];
    let first = looked.partition_point(|looked| looked.from < extent.from);
    let last = looked.partition_point(|looked| looked.until <= extent.until);
    let before: Vec<usize> = (0..first).rev().take_while(|place| beyond(place, dynamic)).collect();
    let after: Vec<usize> = (last..steps.len()).take_while(|place| beyond(place, dynamic)).collect();
    for place in before.into_iter().chain(after) {
        give(place, idle[place].min(dynamic[place]), dynamic);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::features::Cell;
    use super::{
        Batches, EnergyInterval, KtimeNs, Meter, MicroJoules, Open, Span, Step, TimeRange, Window,
        open_power, power_without_work, take,
    };

    fn work(from: f64, until: f64) -> Batch {
        let executed = TimeRange { from, until };
        let cells = vec![Cell { owner: 1, column: 0, units: 1.0 }];
        Batch { launched: executed, executed, blur: 0.0, cells }
    }

    fn found(windows: &[Window], batches: &Batches) -> Option<f64> {
        open_power(windows, batches, Meter::PROMPT, 100.0).map(|open| open.watts.round())
    }

    /// Windows of half a second between the first launch and the end of the last; those in which nothing ran
    /// say 20 W, but for one in which somebody else worked. Windows at work or beyond the launches say
    /// nothing.
    #[test]
    fn what_windows_without_work_agree_on() {
        let batches = Batches::new(vec![work(0.0, 1.0), work(9.0, 10.0)]);
        let window = |i: u32| {
            let from = f64::from(i) / 2.0;
            let watts = match i {
                0..2 | 18.. => 300.0,
                7 => 90.0,
                _ => 20.0,
            };
            Window { time: TimeRange { from, until: from + 0.5 }, ticks: 1, joules: watts * 0.5 }
        };
        let windows: Vec<Window> = (0..24).map(window).collect();
        assert_eq!(found(&windows, &batches), Some(20.0));
        assert_eq!(found(&windows[..5], &batches), None, "too few of them");
        let apart: Vec<Window> = (0..24).map(|i| Window { joules: f64::from(i * i), ..window(i) }).collect();
        assert_eq!(found(&apart, &batches), None, "no power that they agree on");
    }

    /// 60 W at rest by a counter whose steps are seen late three times: a window has 48 W then, and the next one 72.
    #[test]
    fn steps_that_are_seen_late() {
        let batches = Batches::new(vec![work(0.0, 1.0), work(9.0, 10.0)]);
        let late = |i: u32| match i {
            4 | 8 | 12 => 48.0,
            5 | 9 | 13 => 72.0,
            _ => 60.0,
        };
        let window = |i: u32| TimeRange { from: f64::from(i) / 2.0, until: f64::from(i + 1) / 2.0 };
        let window = |i| Window { time: window(i), ticks: 1, joules: late(i) / 2.0 };
        assert_eq!(found(&(0..20).map(window).collect::<Vec<_>>(), &batches), Some(60.0));
    }

    /// Of stretches without units those windows say what the device draws at rest that agree, though it works on for a while in each; where it
    /// works all the time, where they are too few, and where it would be more than it may be, nothing is known.
    #[test]
    fn stretches_without_units() {
        let at = |tenths: u64| KtimeNs::from_ns(tenths * 100_000_000);
        let intervals = |rest: f64, work: f64| -> Vec<EnergyInterval> {
            let watts = |tenth: u64| if tenth % 40 < 25 { work } else { rest };
            let step = |tenth| EnergyInterval {
                span: Span::new(at(tenth), at(tenth + 1)),
                energy: MicroJoules::from_uj((watts(tenth) * 1e5) as i64),
            };
            (0..200).map(step).collect()
        };
        let still: Vec<Span> = (0..5).map(|turn| Span::new(at(40 * turn + 20), at(40 * turn + 40))).collect();
        let found = |watts: (f64, f64), still: &[Span], then| {
            power_without_work(&intervals(watts.0, watts.1), (still, at(0)), then).map(f64::round)
        };
        let served = (60.0, 300.0);
        assert_eq!([found(served, &still, 300.0), found(served, &still, 59.0)], [Some(60.0); 2]);
        assert_eq!(found((60.0, 66.0), &still, 150.0), None);
        assert_eq!((found(served, &still, 50.0), found((160.0, 300.0), &still, 300.0)), (None, None));
        assert_eq!(
            (found(served, &[], 150.0), found(served, &[Span::new(at(26), at(29))], 150.0)),
            (None, None)
        );
    }

    /// Powers within 15 % of the lowest tenth agree, however far apart they are in watts: of six windows of
    /// 80 W and eight of 88 W the middle is 88, and the lowest is 8 W below.
    #[test]
    fn agreement_goes_by_parts() {
        let batches = Batches::new(vec![work(0.0, 1.0), work(9.0, 10.0)]);
        let window = |i: u32| {
            let (from, watts) = (2.0 + f64::from(i) / 4.0, if i < 6 { 80.0 } else { 88.0 });
            Window { time: TimeRange { from, until: from + 0.25 }, ticks: 1, joules: watts * 0.25 }
        };
        let windows: Vec<Window> = (0..14).map(window).collect();
        let open = open_power(&windows, &batches, Meter::PROMPT, 100.0);
        assert_eq!(open, Some(Open { watts: 88.0, doubt: 8.0 }));
    }

    /// A step of 100 ms of a program that works without a pause, each with its watts above the baseline: at
    /// rest, a context (42 W), work, the context freed (70 W), open still (45 W, as it is warm now), at rest
    /// again.
    const WATTS: [f64; 20] = [
        0.0, 0.0, 0.0, 20.0, 42.0, 42.0, 300.0, 310.0, 290.0, 300.0, 300.0, 70.0, 70.0, 45.0, 45.0, 45.0,
        45.0, 0.0, 0.0, 0.0,
    ];

    fn at(step: usize) -> f64 {
        step as f64 / 10.0
    }

    fn without_a_pause() -> (Vec<Window>, Batches) {
        let window = |(i, watts): (usize, &f64)| Window {
            time: TimeRange { from: at(i), until: at(i + 1) },
            ticks: 1,
            joules: watts * 0.1,
        };
        let windows = WATTS.iter().enumerate().map(window).collect();
        (windows, Batches::new(vec![work(0.605, 1.095)]))
    }

    /// Where a program works without a pause, what windows before and after its work agree on counts: not the
    /// step in which the context was made, nor what freeing it took, nor a device at rest. Without those
    /// after the work there are too few.
    #[test]
    fn windows_around_work() {
        let (windows, batches) = without_a_pause();
        assert_eq!(found(&windows, &batches), Some(45.0));
        assert_eq!(found(&windows[..14], &batches), None);
        // A device whose power does not rise with a context is at rest at its baseline after its work.
        let resting =
            |window: &Window| Window { joules: if window.joules < 8.0 { 0.0 } else { 30.0 }, ..*window };
        assert_eq!(found(&windows.iter().map(resting).collect::<Vec<_>>(), &batches), Some(0.0));
    }

    /// It is taken from all steps with work, and from those around it no more than they show: up to where the
    /// device is at rest.
    #[test]
    fn taken_while_open() {
        let (windows, batches) = without_a_pause();
        let span =
            |i: u64| Span::new(KtimeNs::from_ns(i * 100_000_000), KtimeNs::from_ns((i + 1) * 100_000_000));
        let intervals: Vec<EnergyInterval> =
            (0..20).map(|i| EnergyInterval { span: span(i), energy: MicroJoules::ZERO }).collect();
        let steps: Vec<Step> = windows.iter().map(|window| Step { time: window.time, ticks: 1 }).collect();
        let joules = |watts: f64| MicroJoules::from_uj((watts * 1e5) as i64);
        let mut dynamic: Vec<MicroJoules> = WATTS.iter().copied().map(joules).collect();
        let before: MicroJoules = dynamic.iter().copied().sum();
        let open = Open { watts: 44.0, doubt: 3.0 };
        let idle = take(&steps, &intervals, &batches, Meter::PROMPT, open, &mut dynamic);
        let left: MicroJoules = dynamic.iter().copied().sum();
        assert_eq!(idle + left, before);
        let expected = [
            0.0, 0.0, 0.0, 20.0, 0.0, 0.0, 256.0, 266.0, 246.0, 256.0, 256.0, 26.0, 26.0, 1.0, 1.0, 1.0, 1.0,
            0.0, 0.0, 0.0,
        ];
        assert_eq!(dynamic, expected.map(joules));
    }
}
