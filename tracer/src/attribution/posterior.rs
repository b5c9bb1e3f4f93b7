//! Splits a domain's energy by what functions draw and by where the counter puts the borders between them.
//!
//! Samples give each part of an interval expected times of functions, and a variance: the border between two samples may be anywhere. The
//! interval's energy D says more: 450 mJ in 20 ms are 10 ms at 40 W and 10 ms at 5 W, wherever samples put the border. The expectation
//! given both is the linear update (Kalman's) of the times x of a part with mean power m:
//!
//! ```text
//! x_i + v · p_i (w_i − m) · (D − ŵ) / (Σ_parts v · Var w + s²)        v: variance scale of the part, ŵ: energy expected in the interval
//! ```
//!
//! never below zero. Energy is then split by x_i w_i, in integers, the whole always conserved. This moves energy only: the times
//! that are reported stay as sampled.
//!
//! Time that a function probably had between two samples of others goes to the stacks of that function in the same thread, by their time.

use super::bridge::{NOBODY, Part};
use super::class::ClassId;
use super::design::{moments, share};
use super::intensity::Model;
use super::share::{Shares, whole};
use super::time::{Owner, OwnerTime};
use crate::ids::ThreadKey;
use crate::units::MicroJoules;
use std::collections::BTreeMap;

/// An interval's energy never settles more than this leaves of a variance: the counter's watts are not that sure.
const LEFT_OPEN: f64 = 0.05;

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

    fn add_mix(&mut self, thread: u32, column: usize, seconds: f64) {
        let place = thread as usize * self.columns + column;
        self.mixed.get_mut(place).into_iter().for_each(|sum| *sum += seconds);
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
        parts: &[Part],
        plain: impl Fn(usize) -> (Vec<u32>, Vec<u64>),
    ) -> Settled {
        let (owners, columns) = (self.owners.len(), self.model.design.columns);
        let slots = owners + self.model.chains.threads() * columns;
        let mut energy = vec![MicroJoules::ZERO; slots];
        let mut doubts = Doubts { variance: vec![0.0; slots], mixed: vec![0.0; slots - owners], columns };
        let mut scratch = Slots { weights: vec![0.0; slots], used: vec![] };
        let mut shares = Shares::default();
        let of_mixes: Vec<_> =
            self.model.chains.mixes().map(|mix| moments(mix, &self.model.fit.watts)).collect();
        let mut rest = parts;
        for (i, &whole) in dynamic.iter().enumerate() {
            let (here, later) = rest.split_at(rest.partition_point(|part| part.interval as usize <= i));
            rest = later;
            self.weigh(whole.as_joules(), here, &of_mixes, &mut scratch, &mut doubts);
            let (mut who, mut weights) = scratch.take();
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

    /// Writes an interval's weights into `slots`.
    fn weigh(
        &self,
        joules: f64,
        here: &[Part],
        of_mixes: &[(f64, f64)],
        slots: &mut Slots,
        doubts: &mut Doubts,
    ) {
        let Model { chains, rates, fit, .. } = self.model;
        let column = |owner| self.column(owner);
        let shares: Vec<_> = here.iter().map(|part| share(part, 0, chains, rates, &column)).collect();
        let (mut expected, mut stray) = (0.0, 0.0);
        for share in &shares {
            let (mean, square) = share.moments(&fit.watts, of_mixes);
            expected += share.seconds * mean;
            stray += share.seconds.powi(2) * share.blend.stray * (square - mean * mean).max(0.0);
        }
        let gain = (joules - expected) / (stray + fit.noise);
        let open = (fit.noise / (stray + fit.noise)).max(LEFT_OPEN);
        for (part, share) in here.iter().zip(&shares) {
            let (mean, _) = share.moments(&fit.watts, of_mixes);
            let scale = share.seconds.powi(2) * share.blend.stray;
            let weight = |column: usize, p: f64| {
                let watts = fit.watts[column];
                watts * p * (share.seconds + scale * (watts - mean) * gain).max(0.0)
            };
            let mut left = share.blend.left;
            let mut right = share.blend.right;
            if share.blend.mix > 0.0 {
                let first = self.owners.len() + part.thread as usize * self.model.design.columns;
                for (c, pi) in chains.mix(part.thread, part.at).iter().enumerate() {
                    let p = share.blend.mix * pi;
                    doubts.add_mix(part.thread, c, share.seconds * p);
                    if c == share.left {
                        left += p;
                    } else if c == share.right && part.right != NOBODY {
                        right += p;
                    } else {
                        slots.add(first + c, weight(c, p));
                        doubts.add(first + c, scale * p * (1.0 - p).max(0.0) * fit.watts[c].powi(2) * open);
                    }
                }
            }
            if share.left == share.right && part.right != NOBODY && part.right != part.left {
                // Two stacks of one function: half each.
                let both = left + right;
                (left, right) = (both / 2.0, both / 2.0);
            }
            slots.add(part.left as usize, weight(share.left, left));
            if part.right != NOBODY && right > 0.0 {
                slots.add(part.right as usize, weight(share.right, right));
            }
            for (owner, column, p) in [(part.left, share.left, left), (part.right, share.right, right)] {
                let own = scale * p * (1.0 - p).max(0.0) * fit.watts[column].powi(2);
                doubts.add(owner as usize, own * open);
            }
        }
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
            let owners = thread_of.get(thread).copied().flatten().and_then(|key| owners_of.get(&(key, column)));
            let owners = owners.map_or(&[][..], Vec::as_slice);
            let time = |owner: &usize| self.owners[*owner].time_ns.saturating_add(self.owners[*owner].samples);
            let weights: Vec<u64> = owners.iter().map(time).collect();
            let sum = weights.iter().fold(0.0, |sum, weight| sum + *weight as f64).max(1.0);
            owners.iter().zip(&weights).for_each(|(&o, &weight)| variance[o] += doubt * weight as f64 / sum);
            match energy.split(&weights) {
                Some(split) => owners.iter().zip(split).for_each(|(&o, part)| shares.of_owner[o] += part),
                // No stack of that function has time: whoever the thread's first owner is keeps the sum exact.
                None => {
                    let any = thread_of.get(thread).copied().flatten();
                    let any = any.and_then(|key| owners_of.range((key, 0)..).next()).and_then(|o| o.1.first());
                    match any {
                        Some(&owner) => shares.of_owner[owner] += energy,
                        None => shares.residual += energy,
                    }
                }
            }
        }
    }
}
