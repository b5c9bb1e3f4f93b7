//! How far apart samples of one thread are, and of which columns: what follows a sample, and what went before it.
//!
//! Pairs of samples are counted once, by distance, half of the run and group of it; tables for any delay of a
//! counter, and without any one group, are made from these. Leaves out what they say of powers (`pairs`).

use nalgebra::DVector;

/// Bins of the mean distance of samples; the longest one has no more than so many in all.
const BINS: f64 = 10.0;
const MOST_BINS: f64 = 400.0;
/// Distances, in mean ones, up to which a sample says something of a window, which is no longer than this (s).
pub(super) const NEAR: f64 = 5.0;
pub(super) const LONGEST: f64 = 0.022;
/// Samples are farther apart than this on average (s): nobody samples faster.
const SHORTEST: f64 = 5e-5;
/// So many pairs are counted at most: 0.1 s.
const MOST_PAIRS: f64 = 4e6;
/// The least part of all samples that is as near as one to three bins, in parts of what chance gives.
const FEWEST_NEAR: f64 = 0.1;
/// How often samples so near are alike beyond chance, at least: else stages are shorter than any distance.
pub(super) const ALIKE: f64 = 0.6;
/// Samples that are added to those from each column, at each distance, of the usual mix: where errors make
/// instruments weaker, and where they make powers wrong.
const MIXED: f64 = 3.0;
const HARDLY_MIXED: f64 = 0.1;
/// Up to so many mean distances samples of the same columns stand in for those beside one.
pub(super) const BESIDE: f64 = 0.5;
/// Where in a counter's step its readings are looked at.
const IN_STEP: [f64; 5] = [-0.8, -0.4, 0.0, 0.4, 0.8];
/// Groups of which one at a time is left out, in pieces of at most this length (s).
pub(super) const GROUPS: usize = 32;
const PIECE: f64 = 1.0;

/// A thread's samples on its CPU clock (s), with their columns, and each column's part.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub(super) at: Vec<f64>,
    pub(super) column: Vec<usize>,
    pub(super) parts: DVector<f64>,
    pub(super) mean: f64,
    piece: f64,
}

impl Samples {
    pub(super) fn of(at: Vec<f64>, column: Vec<usize>, columns: usize) -> Self {
        let mut parts = DVector::zeros(columns);
        column.iter().for_each(|of| parts[*of] += 1.0 / at.len() as f64);
        let seconds = at[at.len() - 1] - at[0];
        let mean = seconds / at.len() as f64;
        Self { piece: PIECE.min(seconds / (4 * GROUPS) as f64), mean, at, column, parts }
    }

    /// How many were taken until then.
    pub(super) fn until(&self, at: f64) -> usize {
        self.at.partition_point(|sample| *sample < at)
    }

    fn piece(&self, at: f64) -> usize {
        ((at - self.at[0]) / self.piece).max(0.0) as usize
    }

    /// In which half of the run a moment is.
    pub(super) fn half(&self, at: f64) -> usize {
        self.piece(at) % 2
    }

    /// In which group of pieces.
    pub(super) fn group(&self, at: f64) -> usize {
        self.piece(at) / 2 % GROUPS
    }
}

/// Pairs of samples by distance.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    pub(super) bin: f64,
    count: usize,
    /// How often samples are so far apart (1/s).
    pub(super) often: Vec<f64>,
    /// By half, group and distance: how often which column follows which.
    seen: Vec<Vec<f32>>,
}

/// Sums over distances, from the farthest before, of what of each column is there beyond its part (s).
pub(super) struct Table {
    bin: f64,
    middle: f64,
    columns: usize,
    sums: Vec<f64>,
}

impl Distances {
    /// `None` where too few are near to each other, or near ones are not alike.
    pub(super) fn of(samples: &Samples) -> Option<Self> {
        let mean = Some(samples.mean).filter(|mean| *mean > SHORTEST)?;
        let columns = samples.parts.len();
        let longest = NEAR * mean + LONGEST;
        let bin = (mean / BINS).max(longest / MOST_BINS);
        let count = (longest / bin) as usize + 2;
        let every = (samples.at.len() as f64 * longest / mean / MOST_PAIRS).ceil().max(1.0) as usize;
        let firsts = samples.at.len().div_ceil(every) as f64;
        let mut pairs = vec![0.0; count];
        let mut seen = vec![vec![0.0; count * columns * columns]; 2 * GROUPS];
        for first in (0..samples.at.len()).step_by(every) {
            let (at, from) = (samples.at[first], samples.column[first]);
            let seen = &mut seen[samples.half(at) * GROUPS + samples.group(at)];
            for (later, to) in samples.at[first + 1..].iter().zip(&samples.column[first + 1..]) {
                let apart = ((later - at) / bin) as usize;
                if apart >= count {
                    break;
                }
                pairs[apart] += 1.0;
                seen[(apart * columns + from) * columns + to] += 1.0;
            }
        }
        let often: Vec<f64> = pairs.iter().map(|pairs| pairs / (firsts * bin)).collect();
        let enough = often.get(1..4)?.iter().sum::<f64>() / 3.0 >= FEWEST_NEAR / mean
            && often[1..].iter().all(|often| *often > 0.2 * FEWEST_NEAR / mean);
        let same = |of: &Vec<f32>| -> f64 {
            (columns..3 * columns).map(|row| f64::from(of[row * columns + row % columns])).sum()
        };
        let by_chance = samples.parts.norm_squared();
        let near = seen.iter().map(same).sum::<f64>() / (pairs[1] + pairs[2]);
        let alike = (near - by_chance) / (1.0 - by_chance);
        (enough && alike >= ALIKE).then_some(Self { bin, count, often, seen })
    }

    /// What follows samples of each half, and of each half what is beside them, with readings so late on average
    /// (s), without a group.
    pub(super) fn tables(&self, samples: &Samples, delay: f64, without: Option<usize>) -> [[Table; 2]; 2] {
        let halves = [0, 1].map(|half| {
            let mut seen = vec![0.0; self.seen[0].len()];
            for group in (0..GROUPS).filter(|group| Some(*group) != without) {
                let of = &self.seen[half * GROUPS + group];
                seen.iter_mut().zip(of).for_each(|(sum, of)| *sum += f64::from(*of));
            }
            seen
        });
        let steps = delay / self.bin;
        let near = BESIDE * samples.mean / self.bin;
        [(MIXED, f64::INFINITY), (HARDLY_MIXED, near)].map(|(mixed, near)| {
            [0, 1].map(|half: usize| self.table(&halves[half], &samples.parts, mixed).in_step(steps, near))
        })
    }

    fn table(&self, seen: &[f64], parts: &DVector<f64>, mixed: f64) -> Table {
        let (columns, count) = (parts.len(), self.count);
        let pairs = |at: usize, from: usize, to: usize, before: bool| {
            let (from, to) = if before { (to, from) } else { (from, to) };
            seen[(at.min(count - 1) * columns + from) * columns + to]
        };
        let mut sums = vec![0.0; (2 * count + 1) * columns * columns];
        for from in 0..columns {
            let smooth = |at: usize, before: bool| -> Vec<f64> {
                let of = |to| {
                    let of = |at| pairs(at, from, to, before);
                    0.25 * (of(at.saturating_sub(1)) + of(at + 1)) + 0.5 * of(at)
                };
                let of: Vec<f64> = (0..columns).map(of).collect();
                let all = of.iter().sum::<f64>() + mixed;
                of.iter().zip(parts.iter()).map(|(of, part)| (of + mixed * part) / all - part).collect()
            };
            for place in 0..2 * count {
                let before = place < count;
                let apart = if before { count - 1 - place } else { place - count };
                let beyond = smooth(apart.max(1), before);
                for to in 0..columns {
                    let here = f64::from(u8::from(from == to)) - parts[to];
                    let beyond = if apart == 0 { (2.0 * here + beyond[to]) / 3.0 } else { beyond[to] };
                    let row = |place: usize| (place * columns + from) * columns + to;
                    sums[row(place + 1)] = sums[row(place)] + beyond * self.bin;
                }
            }
        }
        Table { bin: self.bin, middle: count as f64, columns, sums }
    }
}

impl Table {
    /// Places before and behind so far from a sample, and how much of each.
    fn places(&self, after: f64) -> (usize, f64) {
        let place = (after + self.middle).clamp(0.0, 2.0 * self.middle - 0.001);
        (place as usize, place.fract())
    }

    /// The mean over a counter's steps, which are so many bins long by half, of what is within so many bins.
    fn in_step(self, steps: f64, near: f64) -> Self {
        let size = self.columns * self.columns;
        let mut sums = vec![0.0; self.sums.len()];
        for (place, sums) in sums.chunks_mut(size).enumerate() {
            for step in IN_STEP {
                let (at, part) = self.places((place as f64 - self.middle + step * steps).clamp(-near, near));
                let of = &self.sums[at * size..(at + 2) * size];
                let (before, behind) = of.split_at(size);
                for ((sum, before), behind) in sums.iter_mut().zip(before).zip(behind) {
                    *sum += (before * (1.0 - part) + behind * part) / IN_STEP.len() as f64;
                }
            }
        }
        Self { sums, ..self }
    }

    /// Adds what a sample of a column says of the time until so long after it.
    pub(super) fn add(&self, column: usize, after: f64, factor: f64, sum: &mut [f64]) {
        let (at, part) = self.places(after / self.bin);
        let row = |at: usize| &self.sums[(at * self.columns + column) * self.columns..][..self.columns];
        for ((sum, before), behind) in sum.iter_mut().zip(row(at)).zip(row(at + 1)) {
            *sum += factor * (before * (1.0 - part) + behind * part);
        }
    }

    /// Adds what a sample of a column says of the moment so long after it (in parts of it).
    pub(super) fn add_moment(&self, column: usize, after: f64, factor: f64, sum: &mut [f64]) {
        let at = self.places(after / self.bin).0;
        let row = |at: usize| &self.sums[(at * self.columns + column) * self.columns..][..self.columns];
        for ((sum, before), behind) in sum.iter_mut().zip(row(at)).zip(row(at + 1)) {
            *sum += factor * (behind - before) / self.bin;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Distances, GROUPS, Samples, Table};
    use nalgebra::DVector;

    /// Of 128 s in pieces of one, halves have one piece each in turn, and groups two: by the time since the first sample.
    #[test]
    fn halves_and_groups() {
        let at: Vec<f64> = (0..=128).map(|second| 10.0 + f64::from(second)).collect();
        let samples = Samples::of(at, vec![0; 129], 1);
        assert_eq!([9.0, 10.5, 11.5, 12.5].map(|at| samples.half(at)), [0, 0, 1, 0]);
        assert_eq!([10.5, 11.5, 12.5, 74.5].map(|at| samples.group(at)), [0, 0, 1, 0]);
    }

    /// Where no pair was seen a sample says that it was there for two thirds of a bin to either side, and nothing beyond: what
    /// follows is the usual mix.
    #[test]
    fn without_pairs_the_usual_mix_follows() {
        let seen = vec![vec![0.0; 16]; 2 * GROUPS];
        let distances = Distances { bin: 1.0, count: 4, often: vec![], seen };
        let table = distances.table(&[0.0; 16], &DVector::from_vec(vec![0.25, 0.75]), 3.0);
        let until = |after| {
            let mut sum = [0.0; 2];
            table.add(0, after, 1.0, &mut sum);
            sum.map(|sum| (sum * 1e9).round() / 1e9)
        };
        assert_eq!([until(-3.0), until(-1.0)], [[0.0; 2]; 2]);
        assert_eq!([until(0.0), until(1.0), until(3.0)], [[0.5, -0.5], [1.0, -1.0], [1.0, -1.0]]);
    }

    /// The mean over a counter's steps of what goes evenly is what is in their middle.
    #[test]
    fn steps_of_a_counter() {
        let even = Table { bin: 1.0, middle: 4.0, columns: 1, sums: (0..9).map(f64::from).collect() };
        let stepped = even.in_step(1.0, f64::INFINITY);
        (2_u32..7).for_each(|place| {
            let here = stepped.sums[place as usize];
            assert!((here - f64::from(place)).abs() < 1e-12, "{place}: {here}");
        });
    }
}
