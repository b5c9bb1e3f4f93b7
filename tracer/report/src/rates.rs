//! How many units of work were done per joule over time: what tells phases apart beside functions.
//!
//! Units are spread over what was spent since the counter moved last: one that moves now and then has a steady rate, and neither pauses nor
//! neighbours change it. Counters of merged recordings have no readings and no rate. Leaves out phases themselves (`phases.rs`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::WorkReading;

/// Equal intervals of a run, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals<'a> {
    /// When the first one begins.
    pub(crate) start: KtimeNs,
    /// The length of each in nanoseconds.
    pub(crate) length_ns: u64,
    /// What was spent in each.
    pub(crate) spent: &'a [f64],
}

/// Of each counter that moved its name, and for each interval what would have been spent on its units at the highest rate that lasted for so many.
pub(crate) fn rates(profile: &Profile, intervals: Intervals<'_>, lasting: usize) -> Vec<(String, Vec<f64>)> {
    let of_work = profile.work.iter().filter_map(|work| {
        let units = intervals.units(&work.series.readings);
        let highest = intervals.highest(&units, lasting);
        let spent = units.iter().zip(intervals.spent);
        let amounts = spent.map(|(units, spent)| (units / highest).min(*spent)).collect();
        (highest > 0.0).then(|| (work.series.counter.name.clone(), amounts))
    });
    of_work.collect()
}

impl Intervals<'_> {
    /// What was done in each.
    fn units(self, readings: &[WorkReading]) -> Vec<f64> {
        let mut units = vec![0.0; self.spent.len()];
        let mut last: Option<(f64, f64)> = None;
        let numbers =
            readings.iter().filter_map(|read| Some((read.at, read.value.as_ref().ok()?.as_number())));
        for (at, number) in numbers.map(|(at, number)| (self.place(at), number)) {
            if let Some((from, before)) = last.filter(|(_, before)| number > *before) {
                self.add(&mut units, from, at, number - before);
            }
            if last.is_none_or(|(_, before)| number != before) {
                last = Some((at, number));
            }
        }
        units
    }

    /// Where a moment is, in intervals since the start.
    fn place(self, at: KtimeNs) -> f64 {
        at.ns_since(self.start) as f64 / self.length_ns.max(1) as f64
    }

    /// Spreads units over what was spent between two places.
    fn add(self, units: &mut [f64], from: f64, to: f64, done: f64) {
        let spent = |number: usize| {
            let here = to.min(number as f64 + 1.0) - from.max(number as f64);
            here.clamp(0.0, 1.0) * self.spent.get(number).copied().unwrap_or(0.0)
        };
        let numbers = (from as usize).min(units.len())..(to.ceil() as usize).min(units.len());
        let whole: f64 = numbers.clone().map(spent).sum();
        for number in numbers.filter(|_| whole > 0.0) {
            units[number] += done * spent(number) / whole;
        }
    }

    /// The most units for what was spent in so many intervals, in which not much less was spent than elsewhere.
    fn highest(self, units: &[f64], lasting: usize) -> f64 {
        let lasting = lasting.clamp(1, units.len().max(1));
        let enough = self.spent.iter().sum::<f64>() / units.len().max(1) as f64 * lasting as f64 / 2.0;
        let sums = units.windows(lasting).zip(self.spent.windows(lasting));
        let sums = sums.map(|(units, spent)| (units.iter().sum::<f64>(), spent.iter().sum::<f64>()));
        sums.filter(|(_, spent)| *spent > 0.0 && *spent >= enough)
            .map(|(units, spent)| units / spent)
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::{Intervals, rates};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::profile::work::{Work, WorkFindings};
    use energy_trace_model::recording::record::{
        WorkCounter, WorkFailure, WorkReading, WorkSeries, WorkSource, WorkUnits,
    };

    /// The rates of a counter with these numbers, each at a moment in tenths of an interval; `None`: it was not there.
    fn of(spent: [f64; 8], numbers: &[(u64, Option<f64>)]) -> Vec<(String, Vec<f64>)> {
        let reading = |&(tenths, number): &(u64, Option<f64>)| WorkReading {
            at: KtimeNs::from_ns(1_000 + 10 * tenths),
            within_ns: 0,
            value: number.and_then(WorkUnits::from_number).ok_or(WorkFailure::Missing),
        };
        let counter = WorkCounter { name: "token".to_owned(), source: WorkSource::File("/run/n".into()) };
        let series = WorkSeries { counter, readings: numbers.iter().map(reading).collect() };
        let work = Work { series, stretches: vec![], steps: vec![], found: WorkFindings::default() };
        let profile = Profile { work: vec![work], ..Profile::default() };
        rates(&profile, Intervals { start: KtimeNs::from_ns(1_000), length_ns: 100, spent: &spent }, 2)
    }

    /// Units are done by what was spent between two moves, whatever was read between them and however long it took; a counter that falls or is gone for
    /// a while did nothing by it, and one that never moves has no rate.
    #[test]
    fn parts_of_the_highest_rate() {
        let named = |amounts: [f64; 8]| [("token".to_owned(), amounts.to_vec())];
        let all = [1.0; 8];
        let steady = [(0, Some(0.0)), (13, Some(0.0)), (25, Some(5.0)), (40, None), (80, Some(16.0))];
        assert_eq!(of(all, &steady), named(all));
        let halves = [(0, Some(9.0)), (40, Some(13.0)), (60, Some(1.0)), (80, Some(2.0))];
        assert_eq!(of(all, &halves), named([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.5, 0.5]));
        let slowed = [4.0, 4.0, 1.0, 1.0, 0.0, 0.0, 4.0, 4.0];
        assert_eq!(
            of(slowed, &[(0, Some(0.0)), (20, Some(8.0)), (40, Some(10.0)), (80, Some(18.0))]),
            named(slowed)
        );
        assert_eq!(of(all, &[(0, Some(7.0)), (80, Some(7.0))]), []);
        assert_eq!(of(all, &[]), []);
    }

    /// Readings at one moment, before the start and long after the end.
    #[test]
    fn whatever_is_read() {
        let mut odd = of(
            [1.0; 8],
            &[(5, Some(0.0)), (5, Some(3.0)), (1_000_000, Some(4.0)), (u64::MAX / 20, Some(9.0))],
        );
        let parts = odd.pop().map(|(_, parts)| parts).unwrap_or_default();
        assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
        assert_eq!(
            rates(&Profile::default(), Intervals { start: KtimeNs::from_ns(0), length_ns: 0, spent: &[] }, 2),
            []
        );
    }
}
