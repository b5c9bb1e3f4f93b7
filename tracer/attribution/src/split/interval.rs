//! One interval's energy, given out to those who are expected to have drawn it.
//!
//! Leaves out what is expected (`by_power`).

use super::by_power::Sums;
use energy_trace_model::units::MicroJoules;
use std::ops::Range;

/// What is expected of a recipient in an interval: joules, its own variance and its covariance with the
/// interval's (J²).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    pub(super) joules: f64,
    pub(super) own: f64,
    pub(super) with_all: f64,
}

impl Expected {
    pub(super) fn add(&mut self, of: Self, factor: f64) {
        self.joules += factor * of.joules;
        self.own += factor * of.own;
        self.with_all += factor * of.with_all;
    }

    /// Of the part `s` of an interval, of whose variance `all` is.
    fn variance(&self, s: f64, all: f64) -> f64 {
        (self.own - 2.0 * s * self.with_all + s * s * all).max(0.0)
    }
}

/// What slices of an interval give to one mix: seconds, those of them that draw their own power alone and
/// contended, joules of the power from before, and sums of v t² r, v t² r² and v t² r w̄.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfMix {
    pub(super) time: f64,
    pub(super) seconds: f64,
    pub(super) contention: f64,
    pub(super) before: f64,
    pub(super) once: f64,
    pub(super) twice: f64,
    pub(super) with_mean: f64,
}

/// One interval while it is summed up.
pub(super) struct Interval {
    /// By recipient; nothing but for those that are there.
    pub(super) expected: Vec<Expected>,
    /// A bit for each recipient, set for those that are there.
    bits: Vec<u64>,
    /// Those, in order; many follow each other.
    there: Vec<Range<usize>>,
    pub(super) mixes: Vec<((u32, usize), OfMix)>,
}

impl Interval {
    pub(super) fn new(recipients: usize) -> Self {
        Self {
            expected: vec![Expected::default(); recipients],
            bits: vec![0; recipients.div_ceil(64)],
            there: vec![],
            mixes: vec![],
        }
    }

    pub(super) fn add(&mut self, recipient: usize, of: Expected, factor: f64) {
        let Some(expected) = self.expected.get_mut(recipient) else { return };
        expected.add(of, factor);
        self.bits[recipient / 64] |= 1 << (recipient % 64);
    }

    /// Adds to recipients that follow each other.
    pub(super) fn add_all(&mut self, first: usize, of: impl ExactSizeIterator<Item = Expected>) {
        let recipients = first..first + of.len();
        let Some(expected) = self.expected.get_mut(recipients.clone()) else { return };
        expected.iter_mut().zip(of).for_each(|(expected, of)| expected.add(of, 1.0));
        recipients.for_each(|recipient| self.bits[recipient / 64] |= 1 << (recipient % 64));
    }

    /// What slices give to a mix; slices come track by track.
    pub(super) fn of_mix(&mut self, track: u32, mix: usize) -> &mut OfMix {
        let key = (track, mix);
        if self.mixes.last().is_none_or(|(last, _)| *last != key) {
            self.mixes.push((key, OfMix::default()));
        }
        let last = self.mixes.len() - 1;
        &mut self.mixes[last].1
    }

    /// Gives its energy to those who are expected to have drawn it, and makes room for the next one.
    pub(super) fn give_out(
        &mut self,
        whole: MicroJoules,
        edge: f64,
        sums: &mut Sums,
        plain: impl FnOnce() -> (Vec<u32>, Vec<u64>),
    ) {
        self.put_in_order();
        let (joules, all) = self.sums();
        let is_split = if joules > 0.0 {
            self.apportion(whole, (joules, all), edge, sums);
            true
        } else {
            let (who, weights) = plain();
            let parts = whole.split(&weights);
            who.into_iter()
                .zip(parts.iter().flatten())
                .for_each(|(o, part)| sums.shares.of_owner[o as usize] += *part);
            if parts.is_some() {
                self.add_variances(all, sums);
            }
            parts.is_some()
        };
        if !is_split {
            sums.shares.residual += whole;
        } else if whole < MicroJoules::ZERO {
            sums.shares.negative += whole;
        }
        self.there.drain(..).for_each(|recipients| self.expected[recipients].fill(Expected::default()));
    }

    /// Finds those that are there, in order.
    fn put_in_order(&mut self) {
        for (word, bits) in self.bits.iter_mut().enumerate() {
            let mut rest = std::mem::take(bits);
            while rest != 0 {
                let (from, behind) = (rest.trailing_zeros(), (rest | (rest - 1)).trailing_ones());
                let (first, end) = (64 * word + from as usize, 64 * word + behind as usize);
                match self.there.last_mut() {
                    Some(last) if last.end == first => last.end = end,
                    _ => self.there.push(first..end),
                }
                rest &= u64::MAX.checked_shl(behind).unwrap_or(0);
            }
        }
    }

    /// Joules and covariances with the interval's of all that are there.
    fn sums(&self) -> (f64, f64) {
        let there = self.there.iter().flat_map(|recipients| &self.expected[recipients.clone()]);
        there.fold((0.0, 0.0), |sum, of| (sum.0 + of.joules.max(0.0), sum.1 + of.with_all))
    }

    /// In whole microjoules: what rounding leaves goes to the largest, so that the sum is exact. `edge` is
    /// the variance that the counter leaves.
    fn apportion(&self, whole: MicroJoules, (joules, all): (f64, f64), edge: f64, sums: &mut Sums) {
        let (mut left, mut largest) = (whole, None);
        let whole = whole.as_joules();
        for recipients in &self.there {
            let of_owner = &mut sums.shares.of_owner[recipients.clone()];
            let variance = &mut sums.variance[recipients.clone()];
            let expected = recipients.clone().zip(&self.expected[recipients.clone()]);
            for (((recipient, expected), of_owner), variance) in expected.zip(of_owner).zip(variance) {
                let part = expected.joules.max(0.0) / joules;
                let energy = MicroJoules::from_uj(rounded(whole * part * 1e6));
                left -= energy;
                *of_owner += energy;
                *variance += expected.variance(part, all) + edge * part;
                if largest.is_none_or(|(most, _): (f64, usize)| part >= most) {
                    largest = Some((part, recipient));
                }
            }
        }
        largest.into_iter().for_each(|(_, recipient)| sums.shares.of_owner[recipient] += left);
    }

    /// Where nobody is expected to have drawn anything.
    fn add_variances(&self, all: f64, sums: &mut Sums) {
        for recipient in self.there.iter().cloned().flatten() {
            sums.variance[recipient] += self.expected[recipient].variance(0.0, all);
        }
    }
}

/// The nearest integer, of two the one away from zero; `f64::round` is a call into the C library on
/// processors without SSE 4.1.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates, and what is cut off is left to the largest"
)]
#[expect(clippy::cast_precision_loss, reason = "an integer that came of a float")]
const fn rounded(x: f64) -> i64 {
    let whole = x as i64;
    let rest = x - whole as f64;
    whole.saturating_add((rest >= 0.5) as i64 - (rest <= -0.5) as i64)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    /// As `f64::round`, also of halves and their neighbours, beyond what an integer holds and of what is no
    /// number.
    #[test]
    fn as_round() {
        let halves = (-9..9).map(|i| f64::from(i) + 0.5);
        let near = halves.flat_map(|half| [half.next_down(), half, half.next_up()]);
        let large = [4_503_599_627_370_495.5, 9.1e15, 1e18, 9.3e18, f64::MAX, f64::INFINITY];
        let all = near.chain(large).chain(large.map(|x| -x)).chain([0.0, -0.0, 0.2, -0.7, f64::NAN]);
        for x in all {
            assert_eq!(rounded(x), x.round() as i64, "{x}");
        }
    }
}
