//! Splits a domain's energy by expected times and watts, and says how far that may be off.
//!
//! ```text
//! q_i = Σ_parts t p_i w_i / Σ_parts t Σ_j p_j w_j        p: probability of function i in a part of the interval (`bridge.rs`), t: its time
//! E_i = D q_i                                            in integers, the whole always conserved
//! Var (D q_i − truth) = Σ_parts (V_ii − 2 q_i V_i) + q_i² V      V_ii = v t² p_i (1 − p_i) w_i², V_i = v t² p_i w_i (w_i − w̄), V = Σ V_i
//! ```
//!
//! v is how far a part's time may stray from its mean. The shares depend on samples only, not on D: so what the counter shows too late or
//! too early, and what borders between functions do to D, falls on all alike and is zero on average. An interval's energy could say more
//! about borders (450 mJ in 20 ms are 10 ms at 40 W and 10 ms at 5 W), but shares that follow D count its errors twice: with them functions
//! of many watts had up to 8 % too much (scenario B6).
//!
//! Time that a function probably had between two samples of others goes to the stacks of that function in the same thread, by their time.

use super::bridge::{NOBODY, Part};
use super::class::ClassId;
use super::design::share;
use super::intensity::Model;
use super::share::{Shares, whole};
use super::time::{Owner, OwnerTime};
use crate::ids::ThreadKey;
use crate::units::MicroJoules;
use std::collections::BTreeMap;

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
    stray: f64,
    holders: Vec<Holder>,
    /// Seconds of each column that come of the thread's mix.
    mixed: Vec<(usize, f64)>,
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
pub(super) struct Splitter<'a> {
    pub(super) model: &'a Model,
    pub(super) class_of: &'a [ClassId],
    pub(super) owners: &'a [OwnerTime],
}

/// Weights of an interval by slot: an owner, or a column of a thread's mix.
#[derive(Default)]
struct Slots {
    weights: Vec<f64>,
    used: Vec<usize>,
}

impl Slots {
    fn add(&mut self, slot: usize, weight: f64) {
        if let Some(sum) = self.weights.get_mut(slot) {
            if *sum == 0.0 && weight > 0.0 {
                self.used.push(slot);
            }
            *sum += weight.max(0.0);
        }
    }

    fn take(&mut self) -> (Vec<usize>, Vec<u64>) {
        let mut used = std::mem::take(&mut self.used);
        used.sort_unstable();
        let weight = |&slot: &usize| whole(std::mem::take(&mut self.weights[slot]) * 1e9);
        let weights = used.iter().map(weight).collect();
        (used, weights)
    }
}

/// The shares, and for each owner the variance (J²) of its energy that comes of times seen only in samples.
pub(super) struct Settled {
    pub(super) shares: Shares,
    pub(super) variance: Vec<f64>,
}

/// Where the doubt about times adds up: by slot, and how long each thread's mix stood for each column.
struct Doubts {
    variance: Vec<f64>,
    mixed: Vec<f64>,
    columns: usize,
}

impl Doubts {
    fn add(&mut self, slot: usize, variance: f64) {
        self.variance.get_mut(slot).into_iter().for_each(|sum| *sum += variance);
    }

    /// A variance of an interval's energy, to those who share it.
    fn add_edge(&mut self, variance: f64, who: &[usize], weights: &[u64]) {
        let sum = weights.iter().fold(0.0, |sum, &weight| sum + weight as f64).max(1.0);
        for (&slot, &weight) in who.iter().zip(weights) {
            self.add(slot, variance * weight as f64 / sum);
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

impl Splitter<'_> {
    fn column(&self, owner: u32) -> usize {
        let class = self.class_of.get(owner as usize);
        class.and_then(|&class| self.model.column_of.get(class)).copied().unwrap_or(0)
    }

    /// Splits the energy above idle of each interval; `plain` splits one that the model has nothing to say about.
    pub(super) fn split(
        &self,
        dynamic: &[MicroJoules],
        steps: &[f64],
        parts: &[Part],
        plain: impl Fn(usize) -> (Vec<u32>, Vec<u64>),
    ) -> Settled {
        let (owners, columns) = (self.owners.len(), self.model.design.columns);
        let slots = owners + self.model.chains.threads() * columns;
        let mut energy = vec![MicroJoules::ZERO; slots];
        let mut doubts = Doubts { variance: vec![0.0; slots], mixed: vec![0.0; slots - owners], columns };
        let mut scratch = Slots { weights: vec![0.0; slots], used: vec![] };
        let mut shares = Shares::default();
        let mut rest = parts;
        for (i, &whole) in dynamic.iter().enumerate() {
            let (here, later) = rest.split_at(rest.partition_point(|part| part.interval as usize <= i));
            rest = later;
            let speed = self.model.design.speed_of(i);
            self.weigh(speed, here, &mut scratch, &mut doubts);
            let (mut who, mut weights) = scratch.take();
            doubts.add_edge((LATE_SECONDS * steps.get(i).copied().unwrap_or(0.0)).powi(2), &who, &weights);
            if weights.iter().all(|weight| *weight == 0) {
                let (plain_who, plain_weights) = plain(i);
                (who, weights) = (plain_who.into_iter().map(|owner| owner as usize).collect(), plain_weights);
            }
            let Some(split) = whole.split(&weights) else {
                shares.residual += whole;
                continue;
            };
            if whole < MicroJoules::ZERO {
                shares.negative += whole;
            }
            for (slot, part) in who.into_iter().zip(split) {
                energy[slot] += part;
            }
        }
        let mixed = energy.split_off(owners);
        shares.of_owner = energy;
        let mut variance = doubts.finish(self.model, owners);
        let of_mixes = variance.split_off(owners);
        self.share_out_mixes(&mixed, &of_mixes, parts, &mut shares, &mut variance);
        Settled { shares, variance }
    }

    /// Writes an interval's weights into `slots`, and how far the shares may be off into `doubts`.
    fn weigh(&self, speed: f64, here: &[Part], slots: &mut Slots, doubts: &mut Doubts) {
        let watts: Vec<f64> = self.model.fit.watts.iter().map(|watts| speed * watts).collect();
        let times: Vec<PartTimes> = here.iter().map(|part| self.times_of(part)).collect();
        for (part, times) in here.iter().zip(&times) {
            for &Holder { place, column, p } in &times.holders {
                slots.add(place, watts[column] * p * times.seconds);
            }
            doubts.add_mixes(part.thread, times);
        }
        let all = slots.used.iter().map(|&slot| slots.weights[slot]).sum::<f64>();
        let share = |slot: usize| slots.weights.get(slot).filter(|_| all > 0.0).map_or(0.0, |own| own / all);
        let mut variance = 0.0;
        for times in &times {
            let (mean, square) = times.moments(&watts);
            let scale = times.seconds.powi(2) * times.stray;
            variance += scale * (square - mean * mean).max(0.0);
            for &Holder { place, column, p } in &times.holders {
                let own = scale * p * (1.0 - p).max(0.0) * watts[column].powi(2);
                let with_all = scale * p * watts[column] * (watts[column] - mean);
                doubts.add(place, own - 2.0 * share(place) * with_all);
            }
        }
        slots.used.iter().for_each(|&slot| doubts.add(slot, share(slot).powi(2) * variance));
    }

    /// Who may have had a part's time.
    fn times_of(&self, part: &Part) -> PartTimes {
        let Model { chains, rates, design, .. } = self.model;
        let share = share(part, 0, chains, rates, &|owner| self.column(owner));
        let (mut left, mut right) = (share.blend.left, share.blend.right);
        let mut times =
            PartTimes { seconds: share.seconds, stray: share.blend.stray, holders: vec![], mixed: vec![] };
        if share.blend.mix > LEAST_MIX {
            let first = self.owners.len() + part.thread as usize * design.columns;
            for (column, pi) in chains.mix(part.thread, part.at).iter().enumerate() {
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
        let mut thread_of: Vec<Option<ThreadKey>> = vec![None; self.model.chains.threads()];
        for part in parts {
            if let (Some(slot), Some(Owner::Target(thread, _))) = (
                thread_of.get_mut(part.thread as usize),
                self.owners.get(part.left as usize).map(|owner| owner.owner),
            ) {
                *slot = Some(thread);
            }
        }
        let mut owners_of: BTreeMap<(ThreadKey, usize), Vec<usize>> = BTreeMap::new();
        for (number, owner) in self.owners.iter().enumerate() {
            if let Owner::Target(thread, Some(_)) = owner.owner {
                let column = self.column(u32::try_from(number).unwrap_or(u32::MAX));
                owners_of.entry((thread, column)).or_default().push(number);
            }
        }
        for (slot, (&energy, doubt)) in mixed.iter().zip(of_mixes).enumerate() {
            if energy == MicroJoules::ZERO && *doubt == 0.0 {
                continue;
            }
            let (thread, column) = (slot / columns, slot % columns);
            let owners =
                thread_of.get(thread).copied().flatten().and_then(|key| owners_of.get(&(key, column)));
            let owners = owners.map_or(&[][..], Vec::as_slice);
            let time =
                |owner: &usize| self.owners[*owner].time_ns.saturating_add(self.owners[*owner].samples);
            let weights: Vec<u64> = owners.iter().map(time).collect();
            let sum = weights.iter().fold(0.0, |sum, weight| sum + *weight as f64).max(1.0);
            owners.iter().zip(&weights).for_each(|(&o, &weight)| variance[o] += doubt * weight as f64 / sum);
            match energy.split(&weights) {
                Some(split) => owners.iter().zip(split).for_each(|(&o, part)| shares.of_owner[o] += part),
                // No stack of that function has time: whoever the thread's first owner is keeps the sum exact.
                None => {
                    let any = thread_of.get(thread).copied().flatten();
                    let any =
                        any.and_then(|key| owners_of.range((key, 0)..).next()).and_then(|o| o.1.first());
                    match any {
                        Some(&owner) => shares.of_owner[owner] += energy,
                        None => shares.residual += energy,
                    }
                }
            }
        }
    }
}
