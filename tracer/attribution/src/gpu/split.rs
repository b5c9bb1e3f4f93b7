//! Splits each interval's energy above idle among those whose launches it holds, to the microjoule.
//!
//! What the launches in an interval are predicted to take are its weights; the energy itself is the
//! counter's. Where the counter shows far more than the launches explain, another process was at work: the
//! excess goes to it. Where there are no launches and none near, energy beyond the noise is another
//! process's, and the rest a residual. Neighbouring intervals are shared out together, because what a meter
//! has too much in one (it looked at the hungry part of it, or was read late) it has too little in another.
//! Leaves out idle power.

use super::batches::{Batches, TimeRange};
use super::constants::{DEVIATIONS, EXCESS, LONG_INTERVAL, NEAR_LAUNCHES};
use crate::split::by_time::Shares;
use crate::time::owners::OTHER;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// What is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// What the counter shows.
    Counted,
    /// What launches are known to take.
    Predicted,
}

/// Weights of an interval, and what is predicted for it.
#[derive(Debug, Default)]
struct Weights {
    of_owner: BTreeMap<u32, f64>,
    joules: f64,
}

/// Joules of a unit of each column, up to each moment (in seconds); the last ones hold for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs(pub(super) Vec<(f64, Vec<f64>)>);

impl Costs {
    /// What holds at a time.
    pub(super) fn at(&self, time: f64) -> &[f64] {
        let now = self.0.iter().find(|(until, _)| time < *until).or(self.0.last());
        now.map_or(&[], |(_, joules)| joules)
    }
}

impl Weights {
    fn add(&mut self, other: Self) {
        self.joules += other.joules;
        for (owner, joules) in other.of_owner {
            *self.of_owner.entry(owner).or_default() += joules;
        }
    }
}

/// What the split needs to know.
#[derive(Clone, Copy)]
pub(super) struct Splitter<'a> {
    pub(super) batches: &'a Batches,
    /// Joules of a unit of each column.
    pub(super) costs: &'a Costs,
    /// When the launches ran that each interval shows.
    pub(super) shown: &'a [TimeRange],
    /// Intervals are shared out together until they are this long, in seconds.
    pub(super) block: f64,
    /// The meter looks at a part of each step only.
    pub(super) partial: bool,
    /// Standard deviation of a window in watts, where what launches cost is known.
    pub(super) noise: Option<f64>,
    pub(super) total: Total,
}

impl Splitter<'_> {
    /// Splits the energy above idle of each interval among this many owners.
    pub(super) fn split(&self, dynamic: &[MicroJoules], owners: usize) -> Shares {
        let mut split = Shares::nothing(owners);
        let (mut shared, mut of_block, mut seconds) = (MicroJoules::ZERO, Weights::default(), 0.0);
        for (&energy, &shown) in dynamic.iter().zip(self.shown) {
            let weights = self.weights(shown);
            if weights.joules <= 0.0 && self.is_near(shown) {
                shared += energy;
                continue;
            }
            let (ours, theirs) = self.ours(energy, &weights, shown);
            split.give(OTHER, theirs);
            if weights.joules > 0.0 {
                (shared, seconds) = (shared + ours, seconds + shown.length());
                of_block.add(weights);
            } else {
                split.residual += ours;
            }
            if seconds >= self.block {
                self.share(&mut split, std::mem::take(&mut shared), &std::mem::take(&mut of_block));
                seconds = 0.0;
            }
        }
        self.share(&mut split, shared, &of_block);
        split
    }

    fn share(&self, split: &mut Shares, energy: MicroJoules, weights: &Weights) {
        let ours = if self.total == Total::Predicted { from_joules(weights.joules) } else { energy };
        split.unobserved += energy - ours;
        split.share(ours, weights);
    }

    /// Whether launches ran just before or after: the meter's lag is not known better than that.
    fn is_near(&self, shown: TimeRange) -> bool {
        let mut near = false;
        if shown.length() > LONG_INTERVAL {
            return false;
        }
        self.batches.between(shown.from - NEAR_LAUNCHES, shown.until + NEAR_LAUNCHES, |_, _| near = true);
        near
    }

    fn weights(&self, shown: TimeRange) -> Weights {
        let mut weights = Weights::default();
        let joules = self.costs.at(shown.from.midpoint(shown.until));
        self.batches.between(shown.from, shown.until, |cell, units| {
            let energy = units * joules.get(cell.column).copied().unwrap_or(0.0);
            *weights.of_owner.entry(cell.owner).or_default() += energy;
            weights.joules += energy;
        });
        weights
    }

    /// What of an interval's energy is the target's or nobody's, and what is another process's.
    fn ours(&self, energy: MicroJoules, weights: &Weights, shown: TimeRange) -> (MicroJoules, MicroJoules) {
        // A meter that looks at a part of each step may have looked at the hungriest part of this one.
        let partial = self.partial && weights.joules > 0.0;
        let Some(watts) = self.noise.filter(|_| !partial) else { return (energy, MicroJoules::ZERO) };
        let limit = EXCESS * weights.joules + DEVIATIONS * watts * shown.length();
        if energy.as_joules() <= limit {
            return (energy, MicroJoules::ZERO);
        }
        let ours = from_joules(weights.joules).min(energy);
        (ours, energy - ours)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates; a prediction")]
fn from_joules(joules: f64) -> MicroJoules {
    MicroJoules::from_uj((joules * 1e6).round() as i64)
}

/// A part of one as an integer weight. `as` saturates, and takes what is no number for 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturation is meant")]
fn weight(part: f64) -> u64 {
    (part * (1_u64 << 36) as f64) as u64
}

impl Shares {
    fn give(&mut self, owner: u32, energy: MicroJoules) {
        match self.of_owner.get_mut(owner as usize) {
            Some(sum) => *sum += energy,
            None => self.residual += energy,
        }
    }

    fn share(&mut self, energy: MicroJoules, weights: &Weights) {
        let parts: Vec<u64> =
            weights.of_owner.values().map(|joules| weight(joules / weights.joules.max(1e-12))).collect();
        let Some(energies) = energy.split(&parts) else {
            self.residual += energy;
            return;
        };
        if energy < MicroJoules::ZERO {
            self.negative += energy;
        }
        for (&owner, energy) in weights.of_owner.keys().zip(energies) {
            self.give(owner, energy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::features::Cell;
    use super::{Batches, Costs, MicroJoules, Splitter, TimeRange, Total};

    fn uj(uj: i64) -> MicroJoules {
        MicroJoules::from_uj(uj)
    }

    /// Launches of 2 and 1 J share by what they are predicted to take; what is far beyond is another
    /// process's, and so is energy without launches that is more than noise.
    #[test]
    fn energy_beyond_the_prediction_is_not_ours() {
        let cell = |owner, column| Cell { owner, column, units: 1.0 };
        let launched = TimeRange { from: 0.0, until: 1.0 };
        let batch = |from: f64| {
            let executed = TimeRange { from, until: from + 0.9 };
            Batch { launched, executed, blur: 1e-3, cells: vec![cell(1, 0), cell(2, 1)] }
        };
        let batches = Batches::new(vec![batch(0.05), batch(1.05)]);
        let shown = [0.0, 1.0, 2.0, 3.0].map(|from| TimeRange { from, until: from + 1.0 });
        let costs = Costs(vec![(9.0, vec![2.0, 1.0])]);
        let splitter = Splitter {
            batches: &batches,
            costs: &costs,
            shown: &shown,
            block: 1.0,
            partial: false,
            noise: Some(0.1),
            total: Total::Counted,
        };
        let energies = [uj(3_300_001), uj(9_000_000), uj(700_000), uj(-70)];
        let split = splitter.split(&energies, 3);
        assert_eq!(
            split.of_owner,
            [uj(6_000_000 + 700_000), uj(2_200_001 + 2_000_000), uj(1_100_000 + 1_000_000)]
        );
        assert_eq!((split.residual, split.negative, split.unobserved), (uj(-70), uj(0), uj(0)));
        // A meter that looks at a part of each step may have seen too much: what is beyond is theirs, but not
        // where nothing was launched.
        let partial = Splitter { partial: true, ..splitter }.split(&energies, 3);
        assert_eq!(partial.of_owner, [uj(700_000), uj(2_200_001 + 6_000_000), uj(1_100_000 + 3_000_000)]);
        // Predicted, launches have what they are known to take; the rest of what is theirs is nobody's.
        let split = Splitter { total: Total::Predicted, ..splitter }.split(&energies, 3);
        assert_eq!(split.of_owner, [uj(6_000_000 + 700_000), uj(4_000_000), uj(2_000_000)]);
        assert_eq!((split.residual, split.unobserved), (uj(-70), uj(300_001)));
    }
}
