//! Splits a domain's energy by expected times and powers, and says how far the times may put it off.
//!
//! ```text
//! Ē_i = Σ_slices t p_i w_i            p: probability of i in a slice (`between_samples`), t: its time
//! E_i = D · Ē_i / Ē                   the sum is the counter's, in integers
//! Var E_i ≈ C_ii − 2 s C_i + s² C     s = Ē_i / Ē, C: covariance by times:
//!                               C_ii = Σ v t² p_i (1 − p_i) w_i², C_i = Σ v t² p_i w_i (w_i − w̄), C = Σ C_i
//! ```
//!
//! v is how far the slice's time may stray (`markov_bridge`). Time that a column probably had between two
//! samples of others goes to the owners of that column in the same track, by their time.
//!
//! Leaves out how far the powers may put it off (`uncertainty`).

use super::interval::{Expected, Interval};
use crate::between_samples::expected_time::{ColumnWeights, Times};
use crate::between_samples::interval_slices::{IntervalSlice, IntervalSlices};
use crate::between_samples::switching_chain::place;
use crate::numerics::parallel::map_ranges;
use crate::power_model::columns::OwnerColumns;
use crate::power_model::learn::Model;
use crate::power_model::paths::PathTree;
use crate::power_model::training_subset::TrainingSubset;
use crate::split::by_time::Shares;
use crate::time::inter_sample::{NO_TRACK, NOBODY, SamplePoint};
use crate::time::owners::OwnerTime;
use energy_trace_model::units::MicroJoules;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Everything that a split needs.
#[derive(Clone, Copy)]
pub(crate) struct Splitter<'a> {
    pub(crate) model: &'a Model,
    pub(crate) tree: &'a PathTree,
    pub(crate) owners: &'a [OwnerTime],
    pub(crate) points: &'a [SamplePoint],
    /// The intervals that the model was learned from.
    pub(crate) subset: &'a TrainingSubset,
}

/// The shares, and what is open about each owner's.
#[derive(Debug, Default)]
pub(crate) struct PowerSplit {
    pub(crate) shares: Shares,
    /// Variance (J²) of each owner's energy that comes of times seen only in samples.
    pub(crate) variance: Vec<f64>,
}

/// The power from before a slice, where power lags: its watts, and which part of the power on average over
/// the slice is still that.
#[derive(Clone, Copy, Debug, Default)]
struct EarlierPower {
    watts: f64,
    part: f64,
}

/// What intervals gave, by recipient: first the owners, then the columns of each track's mixes.
pub(super) struct Sums {
    pub(super) shares: Shares,
    pub(super) variance: Vec<f64>,
    /// Seconds that each track's mix stood for each column.
    pub(super) mixed: Vec<f64>,
    /// Power of each track at the end of its last slice, where power lags.
    pub(super) power: BTreeMap<u32, f64>,
    /// Owners beside slices, with the track.
    pub(super) ends: BTreeSet<(u32, u32)>,
}

impl Sums {
    fn new(recipients: usize) -> Self {
        Self {
            shares: Shares::nothing(recipients),
            variance: vec![0.0; recipients],
            mixed: vec![0.0; recipients],
            power: BTreeMap::new(),
            ends: BTreeSet::new(),
        }
    }

    /// Takes in those of later intervals.
    fn add(mut self, later: Self) -> Self {
        self.shares.add(later.shares);
        self.variance.iter_mut().zip(later.variance).for_each(|(sum, variance)| *sum += variance);
        self.mixed.iter_mut().zip(later.mixed).for_each(|(sum, seconds)| *sum += seconds);
        self.ends.extend(later.ends);
        self
    }
}

/// Owners beside slices, with the track, while they are found.
struct TrackOwners {
    found: BTreeSet<(u32, u32)>,
    /// The track in which each owner was last seen: mostly it is the only one.
    track_of: Vec<u32>,
}

impl TrackOwners {
    fn new(owners: usize) -> Self {
        Self { found: BTreeSet::new(), track_of: vec![NO_TRACK; owners] }
    }

    fn add(&mut self, slice: &IntervalSlice) {
        for owner in [slice.left, slice.right] {
            let track = self.track_of.get_mut(owner as usize);
            if let Some(track) = track.filter(|track| slice.track != NO_TRACK && **track != slice.track) {
                *track = slice.track;
                self.found.insert((slice.track, owner));
            }
        }
    }
}

/// Splits are made of so many chunks of intervals side by side.
const TASKS: usize = 16;
/// Intervals whose energy is split together where times in one are not known.
const TOGETHER: usize = 25;
/// Intervals whose slices are there at once.
const AT_ONCE: usize = 1_024;

/// What is the same for all intervals.
struct Pass<'a> {
    splitter: &'a Splitter<'a>,
    /// Power of each call path on average, and mean and mean square of that of each mix.
    average: Vec<f64>,
    of_mixes: Vec<(f64, f64)>,
    /// Power of each call path on average, alone, and contended.
    powers: Vec<[f64; 3]>,
    /// Variance (J²) that the counter's edges leave in each interval.
    edges: Vec<f64>,
    /// By how much more than its average all power was in each.
    drifts: Vec<f64>,
    columns: OwnerColumns,
}

impl Splitter<'_> {
    /// The power of a column while other CPUs are so busy.
    fn watts(&self, column: u32, contention: f64) -> f64 {
        let of = |column: usize| self.model.fit.watts.get(column).copied();
        let alone = of(column as usize).unwrap_or(0.0);
        let contended = of(column as usize + self.model.design.paths).unwrap_or(alone);
        alone * (1.0 - contention) + contended * contention
    }

    /// Splits the energy above idle of each interval. `slices` finds the slices in some intervals, and
    /// `plain` splits an interval in which nobody is expected to have drawn power.
    pub(crate) fn split<'p>(
        &self,
        dynamic: &[MicroJoules],
        slices: impl Fn(Range<usize>) -> IntervalSlices<'p> + Sync,
        plain: impl Fn(usize) -> (Vec<u32>, Vec<u64>) + Sync,
    ) -> PowerSplit {
        let pass = self.pass();
        // A lag goes on from one interval to the next.
        let chunks = if self.model.settings.lag_ns > 0 { 1 } else { TASKS };
        let length = dynamic.len().div_ceil(chunks);
        let steps = 5 * self.points.len() + 50 * dynamic.len();
        let chunk = |some| pass.chunk(some, dynamic, &slices, &plain);
        let sums = map_ranges(dynamic.len(), length, steps, chunk);
        let nothing = || Sums::new(pass.recipients());
        pass.finish(sums.into_iter().reduce(Sums::add).unwrap_or_else(nothing))
    }

    fn pass(&self) -> Pass<'_> {
        let average = self.model.design.on_average(&self.model.fit.watts);
        let of_mixes = self.model.chains.moments(&average);
        let columns = self.model.columns.of_owners(self.tree);
        let powers = |(column, &average)| [average, self.watts(column, 0.0), self.watts(column, 1.0)];
        let powers = (0..).zip(&average).map(powers).collect();
        Pass {
            splitter: self,
            average,
            of_mixes,
            powers,
            edges: self.edges(),
            drifts: self.drifts(),
            columns,
        }
    }

    /// By how much more than its average all power was in each interval; nobody followed it where nothing was
    /// learned from.
    fn drifts(&self) -> Vec<f64> {
        let design = &self.model.design;
        let intervals = 0..design.windows.intervals_count();
        self.subset.spread(intervals.map(|interval| design.drift_of(interval)).collect(), 1.0)
    }

    /// Variance (J²) that the counter's edges leave in each interval; the mean of all others where nothing
    /// was learned from.
    fn edges(&self) -> Vec<f64> {
        let firsts = self.model.design.windows.first_intervals();
        let ends = firsts.iter().zip(firsts.iter().skip(1));
        let windows = ends.zip(&self.model.edges);
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let of = |((first, behind), edge): ((&usize, &usize), &f64)| {
            let count = behind - first;
            std::iter::repeat_n(edge / count.max(1) as f64, count)
        };
        let edges: Vec<f64> = windows.flat_map(of).collect();
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let mean = edges.iter().sum::<f64>() / edges.len().max(1) as f64;
        self.subset.spread(edges, mean)
    }
}

impl Pass<'_> {
    /// The first recipient of a track's mixes.
    fn first_of(&self, track: u32) -> usize {
        self.splitter.owners.len() + self.splitter.model.chains.first_column(track)
    }

    /// How many recipients there are.
    fn recipients(&self) -> usize {
        self.first_of(NO_TRACK)
    }

    /// Splits some intervals.
    fn chunk<'p>(
        &self,
        intervals: Range<usize>,
        dynamic: &[MicroJoules],
        slices: &impl Fn(Range<usize>) -> IntervalSlices<'p>,
        plain: &impl Fn(usize) -> (Vec<u32>, Vec<u64>),
    ) -> Sums {
        let count = self.recipients();
        let mut sums = Sums::new(count);
        let mut interval = Interval::new(count);
        let mut ends = TrackOwners::new(self.splitter.owners.len());
        let together = if self.splitter.model.columns.by_pairs().is_some() { TOGETHER } else { 1 };
        let mut whole = MicroJoules::ZERO;
        for first in intervals.clone().step_by(AT_ONCE) {
            let some = first..intervals.end.min(first + AT_ONCE);
            let slices = slices(some.clone());
            for number in some {
                let of = |list: &[f64], usual| list.get(number).copied().unwrap_or(usual);
                let here = slices.of_interval(number - first);
                let here = here.inspect(|slice| ends.add(slice));
                self.expect(of(&self.drifts, 1.0), here, &mut interval, &mut sums);
                whole += dynamic[number];
                if together > 1 && (number + 1) % together > 0 && number + 1 < intervals.end {
                    continue;
                }
                let whole = std::mem::take(&mut whole);
                interval.give_out(whole, of(&self.edges, 0.0), &mut sums, || plain(number));
            }
        }
        sums.ends = ends.found;
        sums
    }

    /// What the slices of an interval are expected to have drawn.
    fn expect(
        &self,
        drift: f64,
        here: impl Iterator<Item = IntervalSlice>,
        interval: &mut Interval,
        sums: &mut Sums,
    ) {
        let (model, column) = (self.splitter.model, |owner| self.columns.of(owner));
        for slice in here {
            let weights = ColumnWeights::of(&slice, Times::Chain(&model.chains), &column);
            let (mean, _) = weights.moments(&self.average, &self.of_mixes);
            let scale = drift.powi(2) * weights.seconds.powi(2) * weights.bridge.spread;
            let before = self.before(&slice, mean, sums);
            self.expect_ends(&slice, &weights, (drift, scale, mean, before), interval);
            if let Some(mix) = weights.mix {
                let (r, of) = (weights.bridge.mix, interval.of_mix(slice.track, mix));
                let seconds = drift * r * weights.seconds * (1.0 - before.part);
                of.seconds += seconds * (1.0 - weights.contention);
                of.contention += seconds * weights.contention;
                of.before += drift * r * weights.seconds * before.part * before.watts;
                of.time += drift * r * weights.seconds;
                of.once += scale * r;
                of.twice += scale * r * r;
                of.with_mean += scale * r * mean;
            }
        }
        let mut mixes = std::mem::take(&mut interval.mixes);
        for ((track, mix), of) in mixes.drain(..) {
            let (first, mix) = (self.first_of(track), model.chains.mix(Some(mix)));
            let expected = mix.iter().map(|&(column, pi)| {
                let [w, alone, contended] = self.powers.get(column as usize).copied().unwrap_or_default();
                Expected {
                    joules: (of.seconds * alone + of.contention * contended + of.before) * pi,
                    own: (of.once * pi - of.twice * pi * pi) * w * w,
                    with_all: (of.once * w - of.with_mean) * pi * w,
                }
            });
            interval.add_all(first, expected);
            sums.mixed[first..].iter_mut().zip(mix).for_each(|(sum, (_, pi))| *sum += of.time * pi);
        }
        interval.mixes = mixes;
    }

    /// The power that a track still draws from before a slice; the slice's own then is what the next one has
    /// before it.
    fn before(&self, slice: &IntervalSlice, mean: f64, sums: &mut Sums) -> EarlierPower {
        let lag_ns = self.splitter.model.settings.lag_ns as f64;
        if self.splitter.model.settings.lag_ns == 0 || slice.track == NO_TRACK {
            return EarlierPower::default();
        }
        let watts = sums.power.get(&slice.track).copied().unwrap_or(mean);
        let left = (-(slice.ns as f64) / lag_ns).exp();
        sums.power.insert(slice.track, left * watts + (1.0 - left) * mean);
        EarlierPower { watts, part: lag_ns / (slice.ns as f64).max(1.0) * (1.0 - left) }
    }

    /// Adds the owners of a slice's samples. What its mix has of their columns is theirs as well, and is
    /// taken off the mix.
    fn expect_ends(
        &self,
        slice: &IntervalSlice,
        weights: &ColumnWeights,
        (drift, scale, mean, before): (f64, f64, f64, EarlierPower),
        interval: &mut Interval,
    ) {
        let mix = self.splitter.model.chains.mix(weights.mix);
        let r = if weights.mix.is_some() { weights.bridge.mix } else { 0.0 };
        let one_column = weights.left == weights.right;
        let left = weights.bridge.left + if one_column { weights.bridge.right } else { 0.0 };
        let ends =
            [Some((weights.left, left)), (!one_column).then_some((weights.right, weights.bridge.right))];
        for (column, sampled) in ends.into_iter().flatten() {
            let place = place(mix, column);
            let drawn = r * place.map_or(0.0, |place| mix[place].1);
            let (w, p) = (self.splitter.watts(column, weights.contention), sampled + drawn);
            if p <= 0.0 {
                continue;
            }
            let of = |p: f64| Expected {
                joules: drift * weights.seconds * p * (w * (1.0 - before.part) + before.watts * before.part),
                own: scale * p * (1.0 - p).max(0.0) * w * w,
                with_all: scale * p * w * (w - mean),
            };
            let sampled = [(slice.left, weights.left), (slice.right, weights.right)];
            let is_here =
                |(owner, of): (u32, u32)| (owner != NOBODY && of == column).then_some(owner as usize);
            let owners = sampled.map(is_here);
            match owners {
                [Some(one), Some(other)] if one != other => {
                    interval.add(one, of(p), 0.5);
                    interval.add(other, of(p), 0.5);
                }
                [one, other] => one.or(other).into_iter().for_each(|owner| interval.add(owner, of(p), 1.0)),
            }
            if let Some(place) = place.filter(|_| drawn > 0.0) {
                interval.add(self.first_of(slice.track) + place, of(drawn), -1.0);
            }
        }
    }

    /// Adds that a mix itself is known from a number of samples only, and gives what mixes got to the owners
    /// of the same column in the same track.
    fn finish(&self, mut sums: Sums) -> PowerSplit {
        self.doubt_mixes(&mut sums);
        let owners_of = self.owners_by_track(&sums.ends);
        let owners = self.splitter.owners.len();
        let (mut shares, mut variance) = (sums.shares, sums.variance);
        let (mixed, of_mixed) = (shares.of_owner.split_off(owners), variance.split_off(owners));
        for track in 0..self.splitter.model.chains.len() {
            let number = u32::try_from(track).unwrap_or(NO_TRACK);
            let first = self.first_of(number) - owners;
            for (recipient, &(column, _)) in (first..).zip(self.splitter.model.chains.columns_of(track)) {
                // Where no stack of that column is in the track, its first owner keeps the sum exact.
                let of_track = || owners_of.range((number, 0)..(number.saturating_add(1), 0)).next();
                let here = owners_of.get(&(number, column)).or_else(|| of_track().map(|(_, owners)| owners));
                let here: Vec<usize> = here.into_iter().flatten().map(|&owner| owner as usize).collect();
                self.give_mixed((mixed[recipient], of_mixed[recipient]), &here, &mut shares, &mut variance);
            }
        }
        PowerSplit { shares, variance }
    }

    /// To owners, by their time.
    #[expect(clippy::cast_precision_loss, reason = "parts of a time")]
    fn give_mixed(
        &self,
        (energy, of_holder): (MicroJoules, f64),
        owners: &[usize],
        shares: &mut Shares,
        variance: &mut [f64],
    ) {
        let of = |owner: &usize| &self.splitter.owners[*owner];
        let time = |owner: &usize| of(owner).time_ns.saturating_add(of(owner).samples);
        let weights: Vec<u64> = owners.iter().map(time).collect();
        let sum = weights.iter().fold(0.0, |sum, weight| sum + *weight as f64).max(1.0);
        owners.iter().zip(&weights).for_each(|(&o, &weight)| variance[o] += of_holder * weight as f64 / sum);
        match energy.split(&weights) {
            Some(split) => owners.iter().zip(split).for_each(|(&o, part)| shares.of_owner[o] += part),
            None => match owners.first() {
                Some(&owner) => shares.of_owner[owner] += energy,
                None => shares.residual += energy,
            },
        }
    }

    fn doubt_mixes(&self, sums: &mut Sums) {
        let chains = &self.splitter.model.chains;
        for track in 0..chains.len() {
            let first = self.first_of(u32::try_from(track).unwrap_or(NO_TRACK));
            let columns = chains.columns_of(track);
            let all: f64 = sums.mixed[first..first + columns.len()].iter().sum();
            if all <= 0.0 {
                continue;
            }
            for (recipient, &(column, _)) in (first..).zip(columns) {
                let p = (sums.mixed[recipient] / all).clamp(0.0, 1.0);
                let of_share = p * (1.0 - p) / chains.samples(track).max(1.0);
                sums.variance[recipient] += of_share * (all * self.splitter.watts(column, 0.0)).powi(2);
            }
        }
    }

    /// The owners of each column in each track.
    fn owners_by_track(&self, ends: &BTreeSet<(u32, u32)>) -> BTreeMap<(u32, u32), BTreeSet<u32>> {
        let mut owners_of: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
        let mut add = |track, owner| {
            owners_of.entry((track, self.columns.of(owner))).or_default().insert(owner);
        };
        let mut track_of = vec![NO_TRACK; self.splitter.owners.len()];
        for point in self.splitter.points {
            if let Some(track) = track_of.get_mut(point.owner as usize).filter(|track| **track != point.track)
            {
                *track = point.track;
                add(point.track, point.owner);
            }
        }
        ends.iter().for_each(|&(track, owner)| add(track, owner));
        owners_of
    }
}

#[cfg(test)]
mod tests;
