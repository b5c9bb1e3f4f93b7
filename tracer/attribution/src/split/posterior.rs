//! Splits a domain's energy by expected times and watts, and says how far that may be off.
//!
//! ```text
//! Ē_i = Σ_parts t p_i w_i           p: probability of function i in a part of the interval (`markov_bridge`), t: its time
//! Var E_i = Σ_parts v t² p_i (1 − p_i) w_i²        Cov (E_i, E) = Σ_parts v t² p_i w_i (w_i − w̄)        v: how far its time may stray
//! ```
//!
//! What the interval's energy adds to that is `posterior_update`. The sum is the counter's, in integers.
//!
//! Time that a function probably had between two samples of others goes to the stacks of that function in the same thread, by their time.

use crate::between_samples::expected_time::share;
use crate::between_samples::markov_bridge::Part;
use crate::power_model::classes::ClassId;
use crate::power_model::counter_edges::Edges;
use crate::power_model::learn::Model;
use crate::power_model::stationary_windows::unchanged;
use crate::split::by_time::Shares;
use crate::split::posterior_update::{PosteriorShare, Slots};
use crate::time::owners::{OwnerId, OwnerTime};
use crate::time::pieces::{Mark, NO_LINE, NOBODY};
use energy_trace_model::units::MicroJoules;
use std::collections::{BTreeMap, BTreeSet};

/// A counter that moves each millisecond is up to one late: where power steps, that much of the step is in the wrong interval.
const LATE_SECONDS: f64 = 1e-3;
/// Less of a mix than this is left out.
const LEAST_MIX: f64 = 1e-4;

/// Who may have had a part's time.
struct Holder {
    /// Slot of an owner or of a thread's mix.
    place: usize,
    column: usize,
    p: f64,
}

/// Probabilities of a part's time.
struct PartTimes {
    seconds: f64,
    spread: f64,
    holders: Vec<Holder>,
    /// Seconds of each column that come of the thread's mix.
    mixed: Vec<(usize, f64)>,
    /// Columns of its samples, and how probably it was the one or the other throughout (`steady::hold`).
    left: usize,
    right: usize,
    unchanged: (f64, bool),
}

impl PartTimes {
    /// The mean and mean square of the watts.
    fn moments(&self, watts: &[f64]) -> (f64, f64) {
        self.holders.iter().fold((0.0, 0.0), |(mean, square), &Holder { column, p, .. }| {
            (mean + p * watts[column], square + p * watts[column].powi(2))
        })
    }
}

/// Everything that a split needs beside the model.
pub(crate) struct Splitter<'a> {
    pub(crate) model: &'a Model,
    pub(crate) class_of: &'a [ClassId],
    pub(crate) owners: &'a [OwnerTime],
    pub(crate) marks: &'a [Mark],
    pub(crate) edges: Edges,
}

/// The shares, and for each owner the variance (J²) of its energy that comes of times seen only in samples.
pub(crate) struct PosteriorSplit {
    pub(crate) shares: Shares,
    pub(crate) variance: Vec<f64>,
}

/// Where the doubt about times adds up: by slot, and how long each thread's mix stood for each column.
struct Variances {
    variance: Vec<f64>,
    mixed: Vec<f64>,
    columns: usize,
}

impl Variances {
    fn add(&mut self, slot: usize, variance: f64) {
        self.variance.get_mut(slot).into_iter().for_each(|sum| *sum += variance);
    }

    /// The doubts about an interval's settlements, and the variance of its own energy, to those who share it.
    fn add_posterior(&mut self, posterior: &[PosteriorShare], edge: f64) {
        let sum = posterior.iter().map(|one| one.joules.abs()).sum::<f64>().max(f64::MIN_POSITIVE);
        for one in posterior {
            self.add(one.place, one.variance + edge * one.joules.abs() / sum);
        }
    }

    /// Counts the time that a thread's mix stands for.
    fn add_mixes(&mut self, thread: u32, times: &PartTimes) {
        for (column, seconds) in &times.mixed {
            let place = thread as usize * self.columns + column;
            self.mixed.get_mut(place).into_iter().for_each(|sum| *sum += seconds);
        }
    }

    /// Adds that a mix itself is known from a number of samples only.
    fn finish(mut self, model: &Model, owners: usize) -> Vec<f64> {
        for (thread, seconds) in self.mixed.chunks(self.columns).enumerate() {
            let all: f64 = seconds.iter().sum();
            for (column, seconds) in seconds.iter().enumerate().filter(|_| all > 0.0) {
                let p = seconds / all;
                let of_share = p * (1.0 - p) / model.chains.samples(thread).max(1.0);
                self.variance[owners + thread * self.columns + column] +=
                    of_share * (all * model.fit.watts[column]).powi(2);
            }
        }
        self.variance
    }
}

/// Settlements in whole microjoules: what rounding leaves goes to the largest, so that the sum is exact. `None` where there are none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates, and what is cut off is left to the largest"
)]
fn apportion(whole: MicroJoules, posterior: &[PosteriorShare]) -> Option<Vec<(usize, MicroJoules)>> {
    let largest =
        (0..posterior.len()).max_by(|&a, &b| posterior[a].joules.total_cmp(&posterior[b].joules))?;
    let mut left = whole;
    let round = |one: &PosteriorShare| {
        let energy = MicroJoules::from_uj((one.joules * 1e6).round() as i64);
        left -= energy;
        (one.place, energy)
    };
    let mut parts: Vec<_> = posterior.iter().map(round).collect();
    parts[largest].1 += left;
    Some(parts)
}

impl Splitter<'_> {
    fn column(&self, owner: u32) -> usize {
        let class = self.class_of.get(owner as usize);
        class.and_then(|&class| self.model.column_of.get(class)).copied().unwrap_or(0)
    }

    /// Splits the energy above idle of each interval; `plain` splits one that the model has nothing to say about.
    pub(crate) fn split(
        &self,
        dynamic: &[MicroJoules],
        steps: &[f64],
        parts: &[Part],
        plain: impl Fn(usize) -> (Vec<u32>, Vec<u64>),
    ) -> PosteriorSplit {
        let (owners, columns) = (self.owners.len(), self.model.design.columns);
        let slots = owners + self.model.chains.lines() * columns;
        let mut energy = vec![MicroJoules::ZERO; slots];
        let mut variances =
            Variances { variance: vec![0.0; slots], mixed: vec![0.0; slots - owners], columns };
        let mut scratch = Slots::new(slots);
        let mut shares = Shares::default();
        let fit = &self.model.fit;
        let spread = fit.stationary.as_ref().map(|stationary| stationary.spread);
        let mut rest = parts;
        for (i, &whole) in dynamic.iter().enumerate() {
            let (here, later) = rest.split_at(rest.partition_point(|part| part.interval as usize <= i));
            rest = later;
            let drift = self.model.design.drift_of(i);
            self.weigh(drift, here, &mut scratch, &mut variances);
            let edge = self.edges.variance(i.checked_sub(1), i);
            let posterior = scratch.posterior_update(whole.as_joules(), edge, fit.noise, spread);
            let step = (LATE_SECONDS * steps.get(i).copied().unwrap_or(0.0)).powi(2);
            variances.add_posterior(&posterior, step);
            let split = apportion(whole, &posterior).or_else(|| {
                let (who, weights) = plain(i);
                Some(who.into_iter().map(|owner| owner as usize).zip(whole.split(&weights)?).collect())
            });
            let Some(split) = split else {
                shares.residual += whole;
                continue;
            };
            if whole < MicroJoules::ZERO {
                shares.negative += whole;
            }
            for (slot, part) in split {
                energy[slot] += part;
            }
        }
        let mixed = energy.split_off(owners);
        shares.of_owner = energy;
        let mut variance = variances.finish(self.model, owners);
        let of_mixes = variance.split_off(owners);
        self.share_out_mixes(&mixed, &of_mixes, parts, &mut shares, &mut variance);
        PosteriorSplit { shares, variance }
    }

    /// Writes an interval's expected energies into `slots`, and how long mixes stand for its threads into `variances`.
    fn weigh(&self, drift: f64, here: &[Part], slots: &mut Slots, variances: &mut Variances) {
        let watts: Vec<f64> = self.model.fit.watts.iter().map(|watts| drift * watts).collect();
        for part in here {
            let times = self.times_of(part);
            let (mean, _) = times.moments(&watts);
            let scale = times.seconds.powi(2) * times.spread;
            for &Holder { place, column, p } in &times.holders {
                let Some(slot) = slots.at(place) else { continue };
                slot.expected += watts[column] * p * times.seconds;
                slot.own += scale * p * (1.0 - p).max(0.0) * watts[column].powi(2);
                slot.with_all += scale * p * watts[column] * (watts[column] - mean);
            }
            let (logarithm, is_right) = times.unchanged;
            slots.logarithm += logarithm;
            let (owner, column) = if is_right { (part.right, times.right) } else { (part.left, times.left) };
            let slot = slots.at(owner as usize);
            slot.into_iter().for_each(|slot| slot.unchanged += watts[column] * times.seconds);
            variances.add_mixes(part.line, &times);
        }
    }

    /// Who may have had a part's time.
    fn times_of(&self, part: &Part) -> PartTimes {
        let Model { chains, rates, design, .. } = self.model;
        let share = share(part, 0, chains, rates, &|owner| self.column(owner));
        let (mut left, mut right) = (share.blend.left, share.blend.right);
        let mut times = PartTimes {
            seconds: share.seconds,
            spread: share.blend.spread,
            holders: vec![],
            mixed: vec![],
            left: share.left,
            right: share.right,
            unchanged: unchanged(part, &share, rates, chains),
        };
        if share.blend.mix > LEAST_MIX {
            let first = self.owners.len() + part.line as usize * design.columns;
            for (column, pi) in chains.drawn(part.line, part.at).iter().enumerate() {
                let p = share.blend.mix * pi;
                times.mixed.push((column, share.seconds * p));
                if column == share.left {
                    left += p;
                } else if column == share.right && part.right != NOBODY {
                    right += p;
                } else if p > 0.0 {
                    times.holders.push(Holder { place: first + column, column, p });
                }
            }
        }
        if share.left == share.right && part.right != NOBODY && part.right != part.left {
            // Two stacks of one function: half each.
            (left, right) = (f64::midpoint(left, right), f64::midpoint(left, right));
        }
        for (owner, column, p) in [(part.left, share.left, left), (part.right, share.right, right)] {
            if p > 0.0 && owner != NOBODY {
                times.holders.push(Holder { place: owner as usize, column, p });
            }
        }
        times
    }

    /// Gives what a thread's mix got to the stacks of the same function.
    fn share_out_mixes(
        &self,
        mixed: &[MicroJoules],
        of_mixes: &[f64],
        parts: &[Part],
        shares: &mut Shares,
        variance: &mut [f64],
    ) {
        let columns = self.model.design.columns;
        let ends = parts.iter().filter(|part| part.line != NO_LINE);
        let ends = ends.flat_map(|part| [(part.line, part.left), (part.line, part.right)]);
        let marks = self.marks.iter().map(|mark| (mark.line, mark.owner));
        let mut owners_of: BTreeMap<(u32, usize), BTreeSet<OwnerId>> = BTreeMap::new();
        for (line, owner) in marks.chain(ends).filter(|(_, owner)| *owner != NOBODY) {
            owners_of.entry((line, self.column(owner))).or_default().insert(owner);
        }
        for (slot, (&energy, variance_by_time)) in mixed.iter().zip(of_mixes).enumerate() {
            if energy == MicroJoules::ZERO && *variance_by_time == 0.0 {
                continue;
            }
            let (line, column) = (u32::try_from(slot / columns).unwrap_or(NO_LINE), slot % columns);
            let owners = owners_of.get(&(line, column)).into_iter().flatten();
            let owners: Vec<usize> = owners.map(|&owner| owner as usize).collect();
            let time =
                |owner: &usize| self.owners[*owner].time_ns.saturating_add(self.owners[*owner].samples);
            let weights: Vec<u64> = owners.iter().map(time).collect();
            let sum = weights.iter().fold(0.0, |sum, weight| sum + *weight as f64).max(1.0);
            owners
                .iter()
                .zip(&weights)
                .for_each(|(&o, &weight)| variance[o] += variance_by_time * weight as f64 / sum);
            match energy.split(&weights) {
                Some(split) => owners.iter().zip(split).for_each(|(&o, part)| shares.of_owner[o] += part),
                // No stack of that function has time: whoever the line's first owner is keeps the sum exact.
                None => {
                    let any = owners_of.range((line, 0)..(line + 1, 0)).next().and_then(|of| of.1.first());
                    match any {
                        Some(&owner) => shares.of_owner[owner as usize] += energy,
                        None => shares.residual += energy,
                    }
                }
            }
        }
    }
}
