//! Which intervals powers are learned from: all, or of a long run as many as are enough, in stretches spread
//! over it.
//!
//! What a function draws does not depend on how long somebody watches, and what a regression leaves open
//! after five minutes is what its assumptions leave open. So the time that learning takes ends to grow there,
//! while energy itself is split in every interval of the run. Stretches are long enough for lags and drifts
//! to be followed in them, and begin at places that keep step with no program: in the k-th of as many equal
//! parts of the run, at the fractional part of k times the golden ratio (a low-discrepancy sequence:
//! Niederreiter, Random number generation and quasi-Monte Carlo methods, 1992, §3). Leaves out what is
//! learned (`learn`).

/// Intervals that are learned from, at most: five minutes of a hundred a second.
const MOST_INTERVALS: usize = 30_000;
/// Slices of intervals that are looked at, at most; but `FEWEST_INTERVALS` of a machine with however many
/// CPUs.
const MOST_SLICES: usize = 2_000_000;
const FEWEST_INTERVALS: usize = 10_000;
/// Intervals of a stretch: four seconds.
const TOGETHER: usize = 400;
/// The golden ratio's fractional part, in parts of 2³².
const GOLDEN: u64 = 0x9e37_79b9;

/// Positions of the intervals that are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrainingSubset {
    /// `None`: all.
    stretches: Option<Vec<usize>>,
    /// Number of all intervals.
    all: usize,
}

impl TrainingSubset {
    /// Of so many intervals, which hold so many slices.
    pub(crate) fn of(intervals: usize, slices: usize) -> Self {
        let by_slices = intervals.saturating_mul(MOST_SLICES) / slices.max(1);
        Self::at_most(intervals, by_slices.clamp(FEWEST_INTERVALS, MOST_INTERVALS))
    }

    pub(crate) fn at_most(all: usize, most: usize) -> Self {
        if all <= most {
            return Self { stretches: None, all };
        }
        let (there, wanted) = ((all / TOGETHER) as u64, (most / TOGETHER) as u64);
        let first = |k: u64| {
            let (from, to) = (k * there / wanted, (k + 1) * there / wanted);
            let within = (((k * GOLDEN) & 0xffff_ffff) * (to - from)) >> 32;
            usize::try_from(from + within).unwrap_or(0) * TOGETHER
        };
        Self { stretches: Some((0..wanted).map(first).collect()), all }
    }

    /// Whether every interval is looked at.
    pub(crate) const fn is_all(&self) -> bool {
        self.stretches.is_none()
    }

    /// The positions of those that are looked at, in order.
    fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let all = if self.is_all() { 0..self.all } else { 0..0 };
        let some = self.stretches.iter().flatten().flat_map(|&first| first..first + TOGETHER);
        all.chain(some)
    }

    /// What belongs to the intervals that are looked at.
    pub(crate) fn take<T: Copy>(&self, of_all: &[T]) -> Vec<T> {
        self.positions().filter_map(|at| of_all.get(at).copied()).collect()
    }

    /// The other way round: what belongs to each interval, `usual` to those that are not looked at.
    pub(crate) fn spread(&self, of_some: Vec<f64>, usual: f64) -> Vec<f64> {
        if self.is_all() {
            return of_some;
        }
        let mut of_all = vec![usual; self.all];
        for (at, value) in self.positions().zip(of_some) {
            of_all.get_mut(at).into_iter().for_each(|of| *of = value);
        }
        of_all
    }

    /// What part of the run is looked at.
    #[expect(clippy::cast_precision_loss, reason = "a part of one")]
    pub(crate) fn part(&self) -> f64 {
        if self.is_all() { 1.0 } else { self.positions().count() as f64 / self.all.max(1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{FEWEST_INTERVALS, MOST_INTERVALS, TOGETHER, TrainingSubset};

    /// Five minutes at a hundred intervals a second are looked at whole; of more as many, of wide machines
    /// fewer.
    #[test]
    fn long_runs_are_looked_at_in_part() {
        assert!(TrainingSubset::of(MOST_INTERVALS, 1_000_000).is_all());
        let count = |intervals, slices| TrainingSubset::of(intervals, slices).positions().count();
        assert_eq!(count(200_000, 12_000_000), MOST_INTERVALS);
        assert_eq!(count(40_000, 12_000_000), FEWEST_INTERVALS);
        assert_eq!(count(40_000, 4_000_000), 20_000);
        assert_eq!(count(0, 0), 0);
    }

    /// Stretches of four seconds lie in every part of the run, each once, at no common distance.
    #[test]
    fn stretches_are_spread() {
        let subset = TrainingSubset::at_most(400_000, 40_000);
        let firsts = subset.stretches.clone().unwrap();
        assert_eq!(firsts.len(), 100);
        for (k, first) in firsts.iter().enumerate() {
            assert!((k * 4_000..(k + 1) * 4_000).contains(first) && first % TOGETHER == 0);
        }
        let mut apart: Vec<usize> = firsts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        apart.sort_unstable();
        apart.dedup();
        assert!(apart.len() > 2, "{apart:?}");
        assert!((subset.part() - 0.1).abs() < 1e-9);
    }

    /// What is taken comes back to its place, and the usual everywhere else.
    #[test]
    fn taken_and_spread() {
        let subset = TrainingSubset::at_most(1_000, 400);
        let numbers: Vec<f64> = (0..1_000_u32).map(f64::from).collect();
        let taken = subset.take(&numbers);
        assert_eq!(taken.len(), 400);
        let spread = subset.spread(taken, -1.0);
        let there = spread.iter().zip(&numbers).filter(|(spread, number)| spread == number).count();
        assert_eq!((there, spread.iter().filter(|spread| **spread == -1.0).count()), (400, 600));
        assert_eq!(TrainingSubset::at_most(3, 400).spread(vec![1.0, 2.0, 3.0], 0.0), [1.0, 2.0, 3.0]);
    }
}
