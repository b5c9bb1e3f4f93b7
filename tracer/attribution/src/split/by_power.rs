//! Splits a domain's energy by expected times and powers, and says how far the times may put it off.
//!
//! ```text
//! Ē_i = Σ_parts t p_i w_i             p: probability of i in a part of the interval (`between_samples`), t: its time
//! E_i = D · Ē_i / Ē                   the sum is the counter's, in integers
//! Var E_i ≈ C_ii − 2 s C_i + s² C     s = Ē_i / Ē, C: covariance by times: C_ii = Σ v t² p_i (1 − p_i) w_i², C_i = Σ v t² p_i w_i (w_i − w̄), C = Σ C_i
//! ```
//!
//! v is how far the part's time may stray (`markov_bridge`). Time that a column probably had between two samples of others goes to the owners of that
//! column in the same line, by their time.
//!
//! Leaves out how far the powers may put it off (`uncertainty`).

use crate::between_samples::expected_time::{Share, Times, moments};
use crate::between_samples::markov_bridge::Part;
use crate::between_samples::switching_chain::probability;
use crate::power_model::learn::Model;
use crate::power_model::paths::PathTree;
use crate::split::by_time::Shares;
use crate::time::owners::OwnerTime;
use crate::time::pieces::{Mark, NO_LINE, NOBODY};
use energy_trace_model::units::MicroJoules;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Everything that a split needs.
pub(crate) struct Splitter<'a> {
    pub(crate) model: &'a Model,
    pub(crate) tree: &'a PathTree,
    pub(crate) owners: &'a [OwnerTime],
    pub(crate) marks: &'a [Mark],
}

/// The shares, and what is open about each owner's.
#[derive(Debug, Default)]
pub(crate) struct PowerSplit {
    pub(crate) shares: Shares,
    /// Variance (J²) of each owner's energy that comes of times seen only in samples.
    pub(crate) variance: Vec<f64>,
}

/// Who has a part in an interval: an owner, or a column in a line's mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holder {
    Owner(u32),
    Mixed { line: u32, column: u32 },
}

/// What is expected of a holder in an interval: joules, its own variance and its covariance with the interval's (J²).
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    joules: f64,
    own: f64,
    with_all: f64,
}

/// The power from before a part, where power lags: its watts, and which part of the power on average over the part is still that.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    watts: f64,
    part: f64,
}

/// What parts of an interval give to one mix: seconds, those of them that draw their own power alone and beside busy CPUs, joules of the
/// power from before, and sums of v t² r, v t² r² and v t² r w̄.
#[derive(Clone, Copy, Debug, Default)]
struct OfMix {
    time: f64,
    seconds: f64,
    beside: f64,
    before: f64,
    once: f64,
    twice: f64,
    with_mean: f64,
}

/// One interval while it is summed up.
#[derive(Debug, Default)]
struct Interval {
    /// Once merged: one entry a holder, in order.
    expected: Vec<(Holder, Expected)>,
    mixes: BTreeMap<(u32, usize), OfMix>,
}

/// Sums over all intervals.
struct Sums {
    energy: HashMap<Holder, (MicroJoules, f64)>,
    /// Seconds that each line's mix stood for each column.
    mixed: HashMap<(u32, u32), f64>,
    shares: Shares,
    /// Power of each line at the end of its last part, where power lags.
    power: BTreeMap<u32, f64>,
}

impl Splitter<'_> {
    fn column(&self, owner: u32) -> u32 {
        self.model.columns.of_path(self.tree.of_owner(owner))
    }

    /// The power of a column, beside CPUs that are so busy.
    fn watts(&self, column: u32, beside: f64) -> f64 {
        let of = |column: usize| self.model.fit.watts.get(column).copied();
        let alone = of(column as usize).unwrap_or(0.0);
        let crowded = of(column as usize + self.model.design.paths).unwrap_or(alone);
        alone * (1.0 - beside) + crowded * beside
    }

    /// Splits the energy above idle of each interval; `plain` splits one in which nobody is expected to have drawn power.
    pub(crate) fn split(
        &self,
        dynamic: &[MicroJoules],
        parts: &[Part],
        plain: impl Fn(usize) -> (Vec<u32>, Vec<u64>),
    ) -> PowerSplit {
        let owners = self.owners.len();
        let mut sums = Sums {
            energy: HashMap::new(),
            mixed: HashMap::new(),
            shares: Shares { of_owner: vec![MicroJoules::ZERO; owners], ..Shares::default() },
            power: BTreeMap::new(),
        };
        let average = self.model.design.on_average(&self.model.fit.watts);
        let of_mixes: Vec<(f64, f64)> =
            self.model.chains.mixes().iter().map(|mix| moments(mix, &average)).collect();
        let edges = self.edges();
        let mut rest = parts;
        for (i, &whole) in dynamic.iter().enumerate() {
            let (here, later) = rest.split_at(rest.partition_point(|part| part.interval as usize <= i));
            rest = later;
            let interval = self.expect(self.model.design.drift_of(i), here, (&average, &of_mixes), &mut sums);
            let edge = edges.get(i).copied().unwrap_or(0.0);
            interval.give_out(whole, edge, &mut sums, || plain(i));
        }
        self.finish(sums, parts)
    }

    /// Variance (J²) that the counter's edges leave in each interval.
    fn edges(&self) -> Vec<f64> {
        let firsts = self.model.design.windows.first_intervals();
        let ends = firsts.iter().zip(firsts.iter().skip(1));
        let windows = ends.zip(&self.model.edges);
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let of = |((first, behind), edge): ((&usize, &usize), &f64)| {
            let count = behind - first;
            std::iter::repeat_n(edge / count.max(1) as f64, count)
        };
        windows.flat_map(of).collect()
    }

    /// What the parts of an interval are expected to have drawn.
    fn expect(
        &self,
        drift: f64,
        here: &[Part],
        (average, of_mixes): (&[f64], &[(f64, f64)]),
        sums: &mut Sums,
    ) -> Interval {
        let mut interval = Interval::default();
        for part in here {
            let share = Share::of(part, Times::Chain(&self.model.chains), &|owner| self.column(owner));
            let (mean, _) = share.moments(average, of_mixes);
            let scale = drift.powi(2) * share.seconds.powi(2) * share.blend.spread;
            let before = self.before(part, mean, sums);
            self.expect_ends(part, &share, (drift, scale, mean, before), &mut interval);
            if let Some(mix) = share.mix {
                let (r, of) = (share.blend.mix, interval.mixes.entry((part.line, mix)).or_default());
                let seconds = drift * r * share.seconds * (1.0 - before.part);
                of.seconds += seconds * (1.0 - share.beside);
                of.beside += seconds * share.beside;
                of.before += drift * r * share.seconds * before.part * before.watts;
                of.time += drift * r * share.seconds;
                of.once += scale * r;
                of.twice += scale * r * r;
                of.with_mean += scale * r * mean;
            }
        }
        for ((line, mix), of) in std::mem::take(&mut interval.mixes) {
            for &(column, pi) in self.model.chains.mix(Some(mix)) {
                let w = average.get(column as usize).copied().unwrap_or(0.0);
                let (alone, crowded) = (self.watts(column, 0.0), self.watts(column, 1.0));
                let expected = Expected {
                    joules: (of.seconds * alone + of.beside * crowded + of.before) * pi,
                    own: (of.once * pi - of.twice * pi * pi) * w * w,
                    with_all: (of.once * w - of.with_mean) * pi * w,
                };
                interval.add(Holder::Mixed { line, column }, expected, 1.0);
                *sums.mixed.entry((line, column)).or_default() += of.time * pi;
            }
        }
        interval.merge();
        interval
    }

    /// The power that a line still draws from before a part; the part's own then is what the next one has before it.
    fn before(&self, part: &Part, mean: f64, sums: &mut Sums) -> Before {
        let lag_ns = self.model.lag_ns as f64;
        if self.model.lag_ns == 0 || part.line == NO_LINE {
            return Before::default();
        }
        let watts = sums.power.get(&part.line).copied().unwrap_or(mean);
        let left = (-(part.ns as f64) / lag_ns).exp();
        sums.power.insert(part.line, left * watts + (1.0 - left) * mean);
        Before { watts, part: lag_ns / (part.ns as f64).max(1.0) * (1.0 - left) }
    }

    /// Adds the owners of a part's samples. What its mix has of their columns is theirs as well, and is taken off the mix.
    fn expect_ends(
        &self,
        part: &Part,
        share: &Share,
        (drift, scale, mean, before): (f64, f64, f64, Before),
        interval: &mut Interval,
    ) {
        let mix = self.model.chains.mix(share.mix);
        let r = if share.mix.is_some() { share.blend.mix } else { 0.0 };
        let one_column = share.left == share.right;
        let mut ends =
            vec![(share.left, share.blend.left + if one_column { share.blend.right } else { 0.0 })];
        if !one_column {
            ends.push((share.right, share.blend.right));
        }
        for (column, sampled) in ends {
            let (w, drawn) = (self.watts(column, share.beside), r * probability(mix, column));
            let p = sampled + drawn;
            if p <= 0.0 {
                continue;
            }
            let of = |p: f64| Expected {
                joules: drift * share.seconds * p * (w * (1.0 - before.part) + before.watts * before.part),
                own: scale * p * (1.0 - p).max(0.0) * w * w,
                with_all: scale * p * w * (w - mean),
            };
            let of_column = [part.left, part.right]
                .into_iter()
                .filter(|&owner| owner != NOBODY && self.column(owner) == column);
            let mut owners: Vec<u32> = of_column.collect();
            owners.dedup();
            #[expect(clippy::cast_precision_loss, reason = "one or two")]
            for owner in &owners {
                interval.add(Holder::Owner(*owner), of(p), 1.0 / owners.len() as f64);
            }
            if drawn > 0.0 {
                interval.add(Holder::Mixed { line: part.line, column }, of(drawn), -1.0);
            }
        }
    }

    /// Adds that a mix itself is known from a number of samples only, and gives what mixes got to the owners of the same column in the same
    /// line.
    fn finish(&self, mut sums: Sums, parts: &[Part]) -> PowerSplit {
        self.doubt_mixes(&mut sums);
        let owners_of = self.owners_by_line(parts);
        let mut variance = vec![0.0; self.owners.len()];
        let mut shares = sums.shares;
        // In order, so that sums of statistics are the same in every run.
        let mut energy: Vec<_> = sums.energy.into_iter().collect();
        energy.sort_by_key(|(holder, _)| *holder);
        for (holder, (energy, of_holder)) in energy {
            match holder {
                Holder::Owner(owner) => {
                    shares.of_owner.get_mut(owner as usize).into_iter().for_each(|sum| *sum += energy);
                    variance.get_mut(owner as usize).into_iter().for_each(|sum| *sum += of_holder);
                }
                Holder::Mixed { line, column } => {
                    let owners = owners_of.get(&(line, column)).or_else(|| {
                        // No stack of that column in the line: whoever the line's first owner is keeps the sum exact.
                        owners_of
                            .range((line, 0)..(line.saturating_add(1), 0))
                            .next()
                            .map(|(_, owners)| owners)
                    });
                    let owners: Vec<usize> =
                        owners.into_iter().flatten().map(|&owner| owner as usize).collect();
                    self.give_mixed((energy, of_holder), &owners, &mut shares, &mut variance);
                }
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
        let time = |owner: &usize| self.owners[*owner].time_ns.saturating_add(self.owners[*owner].samples);
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
        let mut of_line: BTreeMap<u32, f64> = BTreeMap::new();
        let mut mixed: Vec<_> = sums.mixed.drain().collect();
        mixed.sort_by_key(|(place, _)| *place);
        mixed.iter().for_each(|((line, _), seconds)| *of_line.entry(*line).or_default() += seconds);
        for &((line, column), seconds) in &mixed {
            let all = of_line.get(&line).copied().unwrap_or(0.0);
            if all > 0.0 {
                let p = (seconds / all).clamp(0.0, 1.0);
                let of_share = p * (1.0 - p) / self.model.chains.samples(line as usize).max(1.0);
                let holder = sums.energy.entry(Holder::Mixed { line, column }).or_default();
                holder.1 += of_share * (all * self.watts(column, 0.0)).powi(2);
            }
        }
    }

    /// The owners of each column in each line.
    fn owners_by_line(&self, parts: &[Part]) -> BTreeMap<(u32, u32), BTreeSet<u32>> {
        let ends = parts.iter().filter(|part| part.line != NO_LINE);
        let ends = ends.flat_map(|part| [(part.line, part.left), (part.line, part.right)]);
        let marks = self.marks.iter().map(|mark| (mark.line, mark.owner));
        let mut owners_of: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
        for (line, owner) in marks.chain(ends).filter(|(_, owner)| *owner != NOBODY) {
            owners_of.entry((line, self.column(owner))).or_default().insert(owner);
        }
        owners_of
    }
}

impl Interval {
    fn add(&mut self, holder: Holder, of: Expected, factor: f64) {
        let Expected { joules, own, with_all } = of;
        let of = Expected { joules: factor * joules, own: factor * own, with_all: factor * with_all };
        self.expected.push((holder, of));
    }

    /// One entry a holder.
    fn merge(&mut self) {
        self.expected.sort_by_key(|(holder, _)| *holder);
        self.expected.dedup_by(|(again, of), (kept, sum)| {
            let same = again == kept;
            if same {
                sum.joules += of.joules;
                sum.own += of.own;
                sum.with_all += of.with_all;
            }
            same
        });
    }

    /// Gives its energy to those who are expected to have drawn it.
    fn give_out(
        self,
        whole: MicroJoules,
        edge: f64,
        sums: &mut Sums,
        plain: impl FnOnce() -> (Vec<u32>, Vec<u64>),
    ) {
        let joules: f64 = self.expected.iter().map(|(_, expected)| expected.joules.max(0.0)).sum();
        let split = if joules > 0.0 {
            self.apportion(whole, joules)
        } else {
            let (who, weights) = plain();
            let Some(parts) = whole.split(&weights) else {
                sums.shares.residual += whole;
                return;
            };
            who.into_iter().map(Holder::Owner).zip(parts).collect()
        };
        if whole < MicroJoules::ZERO {
            sums.shares.negative += whole;
        }
        for (holder, part) in split {
            sums.energy.entry(holder).or_default().0 += part;
        }
        self.add_variances(joules, edge, sums);
    }

    /// In whole microjoules: what rounding leaves goes to the largest, so that the sum is exact.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` saturates, and what is cut off is left to the largest"
    )]
    fn apportion(&self, whole: MicroJoules, joules: f64) -> Vec<(Holder, MicroJoules)> {
        let mut left = whole;
        let part = |(holder, expected): &(Holder, Expected)| {
            let part = expected.joules.max(0.0) / joules;
            let energy = MicroJoules::from_uj((whole.as_joules() * part * 1e6).round() as i64);
            left -= energy;
            (*holder, energy, part)
        };
        let mut parts: Vec<_> = self.expected.iter().map(part).collect();
        let largest = parts.iter_mut().max_by(|a, b| a.2.total_cmp(&b.2));
        largest.into_iter().for_each(|largest| largest.1 += left);
        parts.into_iter().map(|(holder, energy, _)| (holder, energy)).collect()
    }

    fn add_variances(&self, joules: f64, edge: f64, sums: &mut Sums) {
        let all: f64 = self.expected.iter().map(|(_, expected)| expected.with_all).sum();
        for (holder, expected) in &self.expected {
            let s = expected.joules.max(0.0) / joules.max(f64::MIN_POSITIVE);
            let by_times = expected.own - 2.0 * s * expected.with_all + s * s * all;
            let sum = sums.energy.entry(*holder).or_default();
            sum.1 += by_times.max(0.0) + edge * s;
        }
    }
}
