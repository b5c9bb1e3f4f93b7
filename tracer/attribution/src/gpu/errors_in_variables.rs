//! What windows show of columns that nearly always run in the same proportions: less than it looks like.
//!
//! A meter's looks begin and end somewhere among kernels whose order is known to a cell of a millisecond, or to the stretch in which some were
//! put together. So a window's units are off by a piece or two at each end. Where columns go up and down with each other, these errors are all that
//! there is of one direction, and least squares takes them for an observation: it draws parts towards zero and is sure of it.
//!
//! ```text
//! s_c = mean over windows of Σ_ends r_c (1 − r_c) · stretch_c · piece_c / 6 + (σ r_c)²
//!                                                  errors' variance (of a Brownian bridge, on average, and of the end's time); r_c: c's part of
//!                                                  the time around the end
//! P: directions v with vᵀ G v > 8 n vᵀ S v         of the others nothing is believed to be seen
//! ```
//!
//! What is not seen stays as it was believed before, with that belief's doubts, and is held there (`solve`): else a column that no power above zero
//! explains would be made good by others, in a direction that costs nothing. Elsewhere parts are drawn to that by n S G⁻¹ (Fuller: Measurement error
//! models, 1987, §1.2), which is a doubt (`uncertainty`) and is not made good, as S is no more than an estimate. Leaves out the fit (`launch_energies`).

use super::batches::Batches;
use super::meter::{Meter, Window, looks_of};
use crate::numerics::normal_equations::{NormalEquations, eigen};

/// So near to an end it matters what runs, in seconds.
const NEAR: f64 = 1e-3;
/// A direction in which units vary less than so many times as much as their errors do is not seen.
const SEEN: f64 = 8.0;
/// How well it is known when a look begins and ends: standard deviation in seconds. (The lag is looked for in steps of this length.)
const END: f64 = 2.5e-4;
/// What is not seen is held by so many times what is known best.
const HELD: f64 = 10.0;
/// The mean of f (1 − f) for f between 0 and 1.
const BRIDGE: f64 = 1.0 / 6.0;
/// Errors are at least this part of what there is, so that they can be divided by.
const LEAST: f64 = 1e-9;

/// Errors of rows, and what is seen in spite of them.
#[derive(Clone, Debug)]
pub(super) struct FeatureErrors {
    /// Variance of a window's error in each column.
    errors: Vec<f64>,
    /// Keeps what is seen, row by row.
    keep: Vec<f64>,
    /// Directions of parts that are not seen, of length one.
    unseen: Vec<Vec<f64>>,
}

/// How coarse what is known of a column is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coarse {
    /// Units of one kernel.
    pub(super) piece: f64,
    /// The stretch in which nothing is known of the order, in seconds.
    pub(super) stretch: f64,
}

/// Variance of the error of a window's units in each column.
pub(super) fn errors_of(windows: &[Window], batches: &Batches, meter: Meter, coarse: &[Coarse]) -> Vec<f64> {
    let mut errors = vec![0.0; coarse.len()];
    for (look, counted) in windows.iter().flat_map(|window| looks_of(window, meter)) {
        for end in [look.from, look.until] {
            batches.between(end - NEAR / 2.0, end + NEAR / 2.0, |cell, units| {
                let Coarse { piece, stretch } = coarse[cell.column];
                let part = (units / NEAR).min(1.0);
                let order = part * (1.0 - part) * stretch * piece.min(stretch) * BRIDGE;
                errors[cell.column] += (order + (END * part).powi(2)) * counted * counted;
            });
        }
    }
    errors.iter_mut().for_each(|sum| *sum /= windows.len().max(1) as f64);
    errors
}

impl FeatureErrors {
    /// From the normal equations of this many windows that all count once, and their errors.
    pub(super) fn new(all: &NormalEquations, windows: usize, errors: &[f64]) -> Self {
        let n = errors.len();
        let errors: Vec<f64> = (0..n)
            .map(|c| {
                errors[c].max(LEAST * all.gram[c * n + c] / windows.max(1) as f64).max(f64::MIN_POSITIVE)
            })
            .collect();
        let root: Vec<f64> = errors.iter().map(|error| (error * windows.max(1) as f64).sqrt()).collect();
        let scaled = (0..n * n).map(|at| all.gram[at] / (root[at / n] * root[at % n])).collect();
        let (values, vectors) = eigen(scaled, n);
        let seen: Vec<usize> = (0..n).filter(|&v| values[v] > SEEN).collect();
        let onto =
            |i: usize, j: usize| seen.iter().map(|&v| vectors[i * n + v] * vectors[j * n + v]).sum::<f64>();
        let keep = (0..n * n).map(|at| root[at / n] * onto(at / n, at % n) / root[at % n]).collect();
        let unseen = (0..n).filter(|v| !seen.contains(v));
        let direction = |v: usize| unit((0..n).map(|i| vectors[i * n + v] / root[i]));
        Self { errors, keep, unseen: unseen.map(direction).collect() }
    }

    /// Takes out of normal equations what errors may have made.
    pub(super) fn clean(&self, normal: &mut NormalEquations) {
        let n = self.errors.len();
        // What is believed is that every part is 1: directions that are not seen say neither more nor less.
        let away: Vec<f64> = (0..n).map(|i| normal.target[i] - row_sum(&normal.gram, n, i)).collect();
        let half = product(&self.keep, &normal.gram, n, |k, j| k * n + j);
        normal.gram = product(&half, &self.keep, n, |k, j| j * n + k);
        for i in 0..n {
            let kept: f64 = (0..n).map(|k| self.keep[i * n + k] * away[k]).sum();
            normal.target[i] = kept + row_sum(&normal.gram, n, i);
        }
    }

    /// The parts that solve cleaned equations, none below `floor`, and where they are believed to be (1) in the directions that are not seen.
    pub(super) fn solve(&self, normal: &NormalEquations, floor: f64) -> Vec<f64> {
        let mut low = vec![false; self.errors.len()];
        loop {
            let mut held = normal.clone();
            self.hold(&mut held, &low);
            let parts = held.solve(1.0, floor);
            let more: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] <= floor && !low[i]).collect();
            if more.is_empty() {
                return parts;
            }
            // What ends at the floor must not draw others along.
            more.into_iter().for_each(|i| low[i] = true);
        }
    }

    /// Holds all but `low` parts.
    fn hold(&self, normal: &mut NormalEquations, low: &[bool]) {
        let n = self.errors.len();
        let firm = HELD * (0..n).map(|i| normal.gram[i * n + i]).fold(0.0, f64::max);
        for direction in &self.unseen {
            let direction = unit(direction.iter().zip(low).map(|(part, low)| if *low { 0.0 } else { *part }));
            let believed: f64 = direction.iter().sum();
            normal.add_row(&direction, believed, firm);
        }
    }

    /// The same for rows whose columns are multiplied.
    pub(super) fn scaled(&self, by: &[f64]) -> Self {
        let n = self.errors.len();
        let errors = self.errors.iter().zip(by).map(|(error, by)| error * by * by).collect();
        let keep = (0..n * n).map(|at| self.keep[at] * by[at / n] / by[at % n]).collect();
        let divided = |direction: &Vec<f64>| unit(direction.iter().zip(by).map(|(part, by)| part / by));
        Self { errors, keep, unseen: self.unseen.iter().map(divided).collect() }
    }

    /// What errors make of what is seen, row by row, for this much trust.
    pub(super) fn blurred(&self, trust: f64) -> Vec<f64> {
        let n = self.errors.len();
        (0..n * n).map(|at| self.keep[at] * self.errors[at % n] * trust).collect()
    }
}

/// The same direction with length one.
fn unit(direction: impl Iterator<Item = f64>) -> Vec<f64> {
    let direction: Vec<f64> = direction.collect();
    let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    direction.into_iter().map(|part| part / length).collect()
}

fn row_sum(matrix: &[f64], n: usize, row: usize) -> f64 {
    matrix[row * n..(row + 1) * n].iter().sum()
}

/// The product of two square matrices; `at` says where an element of the second one is.
fn product(a: &[f64], b: &[f64], n: usize, at: impl Fn(usize, usize) -> usize) -> Vec<f64> {
    let cell = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * b[at(k, j)]).sum::<f64>();
    (0..n * n).map(|place| cell(place / n, place % n)).collect()
}

#[cfg(test)]
mod tests {
    use super::{FeatureErrors, NormalEquations};

    /// A column is a tenth of another in every window but for errors of rows: parts are drawn to nonsense without the errors' variance, and stay
    /// where they were believed with it; their sum is found. A third column that goes its own way is found too.
    #[test]
    fn errors_are_no_observations() {
        let mut random = 5_u64;
        let mut error = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(random >> 32).unwrap()) / f64::from(u32::MAX) - 0.5
        };
        let (mut plain, mut ones) = (NormalEquations::new(3), 0);
        for window in 0..400 {
            let (both, own) = (f64::from(window % 7), f64::from(window % 5));
            let joules = 1.05 * both + 0.5 * 0.1 * both + 2.0 * own;
            let row = [both, 0.1 * both + 0.1 * error(), own + 0.1 * error()];
            plain.add_row(&row, joules, 1.0);
            ones += 1;
        }
        let believed = |mut normal: NormalEquations| {
            normal.add_prior(1.0, 1e-3);
            normal.factor().unwrap().solve(&normal.target)
        };
        let variance = 0.01 / 12.0;
        let grain = FeatureErrors::new(&plain, ones, &[1e-9, variance, variance]);
        let mut clean = plain.clone();
        grain.clean(&mut clean);
        let (plain, clean) = (believed(plain), believed(clean));
        assert!(plain[1] < 0.3, "{plain:?}");
        assert!((clean[1] - 1.0).abs() < 0.05 && (clean[0] + 0.1 * clean[1] - 1.1).abs() < 0.01, "{clean:?}");
        assert!((clean[2] - 2.0).abs() < 0.01, "{clean:?}");
    }

    /// A column is a tenth of another in every window, and a third, tiny one comes only with the first windows of a step, of which the meter
    /// shows too little. No energy above zero explains that. Without holding what is not seen the tenth makes it good with many times its energy.
    #[test]
    fn what_is_not_seen_makes_nothing_good() {
        let mut normal = NormalEquations::new(3);
        for window in 0..400_u32 {
            let both = f64::from(window % 7) + 1.0;
            let begins = f64::from(u32::from(window % 9 == 0));
            let row = [both, 0.1 * both * (1.0 - 0.02 * begins), 0.01 * begins];
            normal.add_row(&row, 1.1 * both - 0.1 * begins, 1e4);
        }
        let mut once = normal.clone();
        once.gram.iter_mut().for_each(|sum| *sum *= 1e-4);
        let grain = FeatureErrors::new(&once, 400, &[1e-3, 1e-3, 1e-7]);
        assert_eq!(grain.unseen.len(), 1, "{:?}", grain.unseen);
        grain.clean(&mut normal);
        normal.add_prior(1.0, 1.0);
        let loose = normal.solve(1.0, 1e-3);
        let held = grain.solve(&normal, 1e-3);
        assert!((loose[1] - 1.0).abs() > 0.5, "{loose:?}");
        assert!((held[1] - 1.0).abs() < 0.2 && (held[0] - 1.0).abs() < 0.05, "{held:?}");
    }
}
