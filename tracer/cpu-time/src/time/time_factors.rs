//! By how much more or less CPU time owners have than lies next to their samples.
//!
//! Moments belong to the nearest sample (`tracks`), which gives a short function that always runs before a sleep too
//! little: on one side of it nothing is nearer. What samples stand for (`sample_distances`) is right on average, and
//! the whole time of a thread, or of what it did for somebody, is known exactly. So each owner has its part of that
//! whole by what its samples stand for, and within each interval of the counter its time is scaled alike.

use super::owners::{OwnerTime, Presence};

/// So often factors are fitted again to what came of them.
const ROUNDS: usize = 4;
/// By how much less or more a moment may count: what samples show is never impossible.
const FACTORS: (f64, f64) = (0.1, 10.0);

/// By owner: of what whole it has a part, and by what its moments are multiplied.
#[derive(Clone, Debug, Default)]
pub struct TimeFactors {
    whole: Vec<u32>,
    factor: Vec<f64>,
    wholes: usize,
}

/// Sums over those of one whole, while some are scaled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    ns: u64,
    scaled: f64,
}

impl TimeFactors {
    /// Gives owners their time: of the sum of each whole by their samples' `weights` (by owner), but those without
    /// samples what they have. `whole` is the number of each owner's, from 0 without gaps.
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn share_out(owners: &mut [OwnerTime], weights: &[f64], whole: Vec<u32>) -> Self {
        let wholes = whole.iter().max().map_or(0, |last| *last as usize + 1);
        let mut left = vec![Left::default(); wholes];
        let weight_of = |number: usize, owner: &OwnerTime| match owner.time_ns {
            0 => 0.0,
            _ => weights.get(number).copied().unwrap_or(0.0),
        };
        for (number, (owner, &whole)) in owners.iter().zip(&whole).enumerate() {
            let of_owner = weight_of(number, owner);
            if of_owner > 0.0 {
                left[whole as usize].add(owner.time_ns, of_owner);
            }
        }
        let mut factor = vec![1.0; owners.len()];
        for (number, (owner, &whole)) in owners.iter_mut().zip(&whole).enumerate() {
            let (of_owner, whole) = (weight_of(number, owner), whole as usize);
            if of_owner > 0.0 {
                let before = owner.time_ns;
                owner.time_ns = left[whole].take(of_owner);
                factor[number] = owner.time_ns as f64 / before as f64;
            }
        }
        Self { whole, factor, wholes }
    }

    /// The same for intervals of which these are some: an interval that one owner has alone leaves nothing to scale, so
    /// that the others scale more, until sums over all of them are right.
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    #[must_use]
    pub fn fitted(&self, intervals: &[Vec<Presence>]) -> Self {
        let sums = |factors: &Self| {
            let (mut sums, mut room, mut scaled) = (vec![0.0; self.factor.len()], self.room(), vec![]);
            for present in intervals {
                scaled.clone_from(present);
                factors.scale(&mut scaled, &mut room);
                for presence in &scaled {
                    sums.get_mut(presence.owner as usize)
                        .into_iter()
                        .for_each(|sum| *sum += presence.ns as f64);
                }
            }
            sums
        };
        let own = sums(&Self::default());
        let mut fitted = self.clone();
        for _ in 0..ROUNDS {
            let found = sums(&fitted);
            for (number, factor) in
                fitted.factor.iter_mut().enumerate().filter(|(number, _)| found[*number] > 0.0)
            {
                *factor =
                    (*factor * own[number] * self.factor[number] / found[number]).clamp(FACTORS.0, FACTORS.1);
            }
        }
        fitted
    }

    /// By what an owner's moments are multiplied.
    pub fn of(&self, owner: usize) -> f64 {
        self.factor.get(owner).copied().unwrap_or(1.0)
    }

    /// Room for `scale`.
    pub fn room(&self) -> Vec<Sum> {
        vec![Sum::default(); self.wholes]
    }

    /// Scales the times of those present in an interval; each whole keeps its sum. `room` is nothing before and after.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times"
    )]
    pub fn scale(&self, present: &mut [Presence], room: &mut [Sum]) {
        let at = |presence: &Presence| self.whole.get(presence.owner as usize).map(|whole| *whole as usize);
        let scaled = |presence: &Presence| presence.ns as f64 * self.of(presence.owner as usize);
        for presence in &*present {
            if let Some(sum) = at(presence).and_then(|at| room.get_mut(at)) {
                *sum = Sum { ns: sum.ns + presence.ns, scaled: sum.scaled + scaled(presence) };
            }
        }
        for presence in &mut *present {
            let sum = at(presence).and_then(|at| room.get(at)).filter(|sum| sum.scaled > 0.0);
            if let Some(sum) = sum {
                presence.ns = (scaled(presence) * sum.ns as f64 / sum.scaled).round() as u64;
            }
        }
        for presence in &*present {
            at(presence).and_then(|at| room.get_mut(at)).into_iter().for_each(|sum| *sum = Sum::default());
        }
    }
}

/// What is left of a whole while it is shared out.
#[derive(Clone, Copy, Default)]
struct Left {
    owners: u32,
    ns: u64,
    weight: f64,
}

impl Left {
    fn add(&mut self, ns: u64, weight: f64) {
        *self = Self { owners: self.owners + 1, ns: self.ns + ns, weight: self.weight + weight };
    }

    /// The part of a weight; the last one has all that is left.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times"
    )]
    fn take(&mut self, weight: f64) -> u64 {
        let of_all = self.ns as f64 * (weight / self.weight.max(weight));
        let part = if self.owners <= 1 { self.ns } else { (of_all.round() as u64).min(self.ns) };
        *self =
            Self { owners: self.owners.saturating_sub(1), ns: self.ns - part, weight: self.weight - weight };
        part
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnerTime, Presence, TimeFactors};
    use crate::time::owners::Owner;

    fn factors() -> (Vec<u64>, TimeFactors) {
        let owner = |time_ns| OwnerTime { owner: Owner::Other, time_ns, samples: 1 };
        let mut owners = [60, 30, 10, 100, 7, 0].map(owner);
        // Two wholes; the third owner has no sample, and the last no time.
        let factors =
            TimeFactors::share_out(&mut owners, &[2.0, 1.0, 0.0, 5.0, 5.0, 9.0], vec![0, 0, 0, 1, 1, 1]);
        (owners.map(|owner| owner.time_ns).to_vec(), factors)
    }

    /// Each whole is shared out by weights and keeps its sum; who has no sample keeps what it has.
    #[test]
    fn wholes_are_shared_out() {
        let (times, factors) = factors();
        assert_eq!(times, [60, 30, 10, 54, 53, 0]);
        assert_eq!([0, 2, 3, 5, 99].map(|owner| factors.of(owner)), [1.0, 1.0, 0.54, 1.0, 1.0]);
    }

    /// In an interval times are scaled, and the sum of each whole stays; one alone keeps its own.
    #[test]
    fn intervals_keep_their_sums() {
        let (_, factors) = factors();
        let scaled = |present: &[(u32, u64)]| {
            let presence = |&(owner, ns): &(u32, u64)| Presence { interval: 0, owner, ns };
            let mut present: Vec<Presence> = present.iter().map(presence).collect();
            let mut room = factors.room();
            factors.scale(&mut present, &mut room);
            factors.scale(&mut present[..0], &mut room);
            present.iter().map(|presence| presence.ns).collect::<Vec<_>>()
        };
        assert_eq!(scaled(&[(3, 100)]), [100]);
        assert_eq!(scaled(&[(0, 40), (3, 93), (4, 7), (99, 5)]), [40, 49, 51, 5]);
    }
}
