//! Mixes under which each column has as much time as its samples stand for.
//!
//! Where a chain forgets asleep, its mix stands for what runs next to a sleep. But that may always be the same:
//! of a loop that reads, answers and waits, the answer is always the last. Then one column has too much time in
//! sum, and another too little. If each moment is the nearest sample's, sums have much less of such an error
//! (single windows have more). So mixes are scaled until sums agree.
//!
//! Leaves out tracks that forget nothing asleep: the time before a sleep and the time behind it are one stretch
//! between two samples, whose middle is as often too early as too late.

use super::expected_time::{ColumnWeights, Times};
use super::interval_slices::{IntervalSlice, IntervalSlices};
use super::markov_bridge::{BridgeWeights, SleepMixing};
use super::switching_chain::{Chains, place};
use crate::parts::Part;
use crate::time::inter_sample::{NO_TRACK, SamplePoint};

/// Intervals that are summed up, at most, evenly over the run: more say nothing new.
const MOST_INTERVALS: usize = 20_000;
/// By how much more or less a column may be drawn: what samples show is never impossible.
const FACTORS: (f64, f64) = (0.1, 10.0);

/// Seconds of tracks that forget asleep.
struct Sums<'a> {
    chains: &'a Chains,
    /// What each column has by nearest samples more than by the chain without its mixes, one track's columns
    /// behind another's.
    missing: Vec<f64>,
    /// What is drawn from each mix.
    of_mixes: Vec<f64>,
}

/// Chains with such mixes. `thinned` are all sample points, if only the odd ones or only the even ones are
/// taken; `column` is that of an owner.
pub(crate) fn balanced(
    chains: Chains,
    slices: &IntervalSlices<'_>,
    thinned: Option<(&[SamplePoint], bool)>,
    column: impl Fn(u32) -> u32,
) -> Chains {
    let forgets = |track: u32| track != NO_TRACK && chains.rate(track).asleep != SleepMixing::Nothing;
    if chains.left_out.has(Part::Balance) || !(0..).take(chains.len()).any(forgets) {
        return chains;
    }
    let missing = vec![0.0; chains.first_column(u32::MAX)];
    let mut sums = Sums { chains: &chains, missing, of_mixes: vec![0.0; chains.mixes()] };
    for interval in (0..slices.intervals()).step_by(slices.intervals().div_ceil(MOST_INTERVALS).max(1)) {
        for slice in slices.of_interval(interval).filter(|slice| forgets(slice.track)) {
            let slice = thinned.map_or(slice, |(points, odd)| slice.thinned(points, odd));
            sums.add(&slice, &column);
        }
    }
    let factors = sums.factors();
    chains.scaled(&factors)
}

impl Sums<'_> {
    fn add(&mut self, slice: &IntervalSlice, column: &impl Fn(u32) -> u32) {
        let weights = ColumnWeights::of(slice, Times::Chain(self.chains), column);
        let (nearest, chain) = (BridgeWeights::nearest(slice), weights.bridge);
        self.add_missing(slice.track, weights.left, (nearest.left - chain.left) * weights.seconds);
        self.add_missing(slice.track, weights.right, (nearest.right - chain.right) * weights.seconds);
        if let Some(sum) = weights.mix.and_then(|mix| self.of_mixes.get_mut(mix)) {
            *sum += chain.mix * weights.seconds;
        }
    }

    fn add_missing(&mut self, track: u32, column: u32, seconds: f64) {
        let at = place(self.chains.columns_of(track as usize), column);
        let sum = at.and_then(|at| self.missing.get_mut(self.chains.first_column(track) + at));
        sum.into_iter().for_each(|sum| *sum += seconds);
    }

    /// By how much more each column has to be drawn.
    fn factors(self) -> Vec<f64> {
        let of = |(missing, drawn): (f64, f64)| match drawn {
            0.0 => 1.0,
            _ => (missing / drawn).clamp(FACTORS.0, FACTORS.1),
        };
        self.missing.into_iter().zip(self.chains.drawn(&self.of_mixes)).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Chains, ColumnWeights, IntervalSlice, IntervalSlices, SamplePoint, Times, balanced};
    use energy_trace_model::clock::KtimeNs;

    const RUNS: u64 = 500;

    fn ns(us: u64) -> u64 {
        us * 1_000
    }

    /// Runs of 3 ms and a sleep, with a sample of column 0 after 2 ms and one of column 1 after 2.9 ms.
    fn points(sleep_us: u64) -> Vec<SamplePoint> {
        let point = |run: u64, us: u64, owner| SamplePoint {
            track: 0,
            at: KtimeNs::from_ns(ns(run * (3_000 + sleep_us) + us)),
            cpu_ns: ns(run * 3_000 + us),
            owner,
        };
        (0..RUNS).flat_map(|run| [point(run, 2_000, 0), point(run, 2_900, 1)]).collect()
    }

    /// What lies before, between and behind the samples of each run.
    fn slices(sleep_us: u64) -> Vec<IntervalSlice> {
        let slice = |run: u64, from: u64, us: u64| IntervalSlice {
            track: 0,
            at: KtimeNs::from_ns(ns(run * (3_000 + sleep_us) + from + us / 2)),
            ns: ns(us),
            gap: 0,
            ..IntervalSlice::nobodys()
        };
        let of_run = |run: u64| {
            let [mut before, mut behind] = [(0, 2_000), (2_900, 100)].map(|(from, us)| IntervalSlice {
                left: 1,
                right: 0,
                ..slice(run, from, us)
            });
            (before.before_ns, before.slept_before_ns) = (ns(100), ns(sleep_us));
            (behind.after_ns, behind.slept_after_ns) = (ns(2_000), ns(sleep_us));
            [before, IntervalSlice { left: 0, right: 1, ..slice(run, 2_000, 900) }, behind]
        };
        (0..RUNS).flat_map(of_run).collect()
    }

    /// The part of all time that column 1 has by these chains.
    fn part_of_last(chains: &Chains, slices: &[IntervalSlice]) -> f64 {
        let of = |slice: &IntervalSlice| {
            let weights = ColumnWeights::of(slice, Times::Chain(chains), &|owner| owner);
            let in_mix =
                chains.mix(weights.mix).iter().find(|(column, _)| *column == 1).map_or(0.0, |of| of.1);
            let at = |column: u32, part: f64| if column == 1 { part } else { 0.0 };
            let bridge = weights.bridge;
            weights.seconds
                * (at(weights.left, bridge.left) + at(weights.right, bridge.right) + bridge.mix * in_mix)
        };
        let all: f64 = slices.iter().map(IntervalSlice::seconds).sum();
        slices.iter().map(of).sum::<f64>() / all
    }

    /// Half of the samples are of the column that runs last, and half of the time is its own, though less of it
    /// lies next to its samples.
    #[test]
    fn sums_agree_with_samples() {
        let (points, slices) = (points(5_000), slices(5_000));
        let chains = Chains::new(&points, KtimeNs::default(), |owner| owner);
        let before = part_of_last(&chains, &slices);
        let chains = balanced(chains, &IntervalSlices::of_slices(&slices), None, |owner| owner);
        let after = part_of_last(&chains, &slices);
        assert!(before < 0.48 && (after - 0.5).abs() < 0.002, "{before} {after}");
    }

    /// Mixes of a track that does not sleep stay as they are.
    #[test]
    fn who_does_not_sleep_is_balanced() {
        let chains = Chains::new(&points(0), KtimeNs::default(), |owner| owner);
        let before = chains.mix(Some(0)).to_vec();
        let chains = balanced(chains, &IntervalSlices::of_slices(&slices(0)), None, |owner| owner);
        assert_eq!(chains.mix(Some(0)), before);
    }
}
