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
use super::constants::{END_SD, HELD, LEAST_ERROR, NEAR_END, SEEN};
use super::meter::{Meter, Window, looks_of};
use crate::numerics::normal_equations::{NormalEquations, eigen};
use nalgebra::linalg::SymmetricEigen;
use nalgebra::{DMatrix, DVector};

/// The mean of f (1 − f) for f between 0 and 1.
const BRIDGE: f64 = 1.0 / 6.0;

/// Errors of rows, and what is seen in spite of them.
#[derive(Clone, Debug)]
pub(super) struct FeatureErrors {
    /// Variance of a window's error in each column.
    errors: DVector<f64>,
    /// Keeps what is seen: columns × columns.
    keep: DMatrix<f64>,
    /// Directions of parts that are not seen, of length one.
    unseen: Vec<DVector<f64>>,
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
            batches.between(end - NEAR_END / 2.0, end + NEAR_END / 2.0, |cell, units| {
                let Coarse { piece, stretch } = coarse[cell.column];
                let part = (units / NEAR_END).min(1.0);
                let order = part * (1.0 - part) * stretch * piece.min(stretch) * BRIDGE;
                errors[cell.column] += (order + (END_SD * part).powi(2)) * counted * counted;
            });
        }
    }
    errors.iter_mut().for_each(|sum| *sum /= windows.len().max(1) as f64);
    errors
}

impl FeatureErrors {
    /// From the normal equations of this many windows that all count once, and their errors.
    pub(super) fn new(all: &NormalEquations, windows: usize, errors: &[f64]) -> Self {
        let (n, windows) = (errors.len(), windows.max(1) as f64);
        let least = |c: usize| LEAST_ERROR * all.gram[(c, c)] / windows;
        let errors = DVector::from_fn(n, |c, _| errors[c].max(least(c)).max(f64::MIN_POSITIVE));
        let root = errors.map(|error| (error * windows).sqrt());
        let scaled = DMatrix::from_fn(n, n, |i, j| all.gram[(i, j)] / (root[i] * root[j]));
        let Some(SymmetricEigen { eigenvalues, eigenvectors }) = eigen(scaled) else {
            return Self { errors, keep: DMatrix::identity(n, n), unseen: vec![] };
        };
        let (seen, unseen): (Vec<usize>, Vec<usize>) = (0..n).partition(|&v| eigenvalues[v] > SEEN);
        let seen = eigenvectors.select_columns(&seen);
        let onto = &seen * seen.transpose();
        let keep = DMatrix::from_fn(n, n, |i, j| root[i] * onto[(i, j)] / root[j]);
        let direction = |v: usize| unit(eigenvectors.column(v).component_div(&root));
        Self { errors, keep, unseen: unseen.into_iter().map(direction).collect() }
    }

    /// Takes out of normal equations what errors may have made.
    pub(super) fn clean(&self, normal: &mut NormalEquations) {
        // What is believed is that every part is 1: directions that are not seen say neither more nor less.
        let away = &normal.target - normal.gram.column_sum();
        normal.gram = &self.keep * &normal.gram * self.keep.transpose();
        normal.target = &self.keep * away + normal.gram.column_sum();
    }

    /// The parts that solve cleaned equations, none below `floor`, and where they are believed to be (1) in the directions that are not seen.
    pub(super) fn solve(&self, normal: &NormalEquations, floor: f64) -> DVector<f64> {
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
        let firm = HELD * normal.gram.diagonal().iter().copied().fold(0.0, f64::max);
        for direction in &self.unseen {
            let free = unit(direction.map_with_location(|i, _, part| if low[i] { 0.0 } else { part }));
            normal.gram.ger(firm, &free, &free, 1.0);
            normal.target.axpy(firm * free.sum(), &free, 1.0);
        }
    }

    /// The same for rows whose columns are multiplied.
    pub(super) fn scaled(&self, by: &[f64]) -> Self {
        let by = DVector::from_column_slice(by);
        let keep = self.keep.map_with_location(|i, j, keep| keep * by[i] / by[j]);
        let divided = |direction: &DVector<f64>| unit(direction.component_div(&by));
        let errors = self.errors.component_mul(&by).component_mul(&by);
        Self { errors, keep, unseen: self.unseen.iter().map(divided).collect() }
    }

    /// What errors make of what is seen, columns × columns, for this much trust.
    pub(super) fn blurred(&self, trust: f64) -> DMatrix<f64> {
        self.keep.map_with_location(|_, j, keep| keep * self.errors[j] * trust)
    }
}

/// The same direction with length one.
fn unit(direction: DVector<f64>) -> DVector<f64> {
    let length = direction.norm().max(f64::MIN_POSITIVE);
    direction / length
}

#[cfg(test)]
mod tests {
    use super::super::batches::{Batch, Stretch};
    use super::super::features::Cell;
    use super::{
        BRIDGE, Batches, Coarse, DMatrix, DVector, END_SD, FeatureErrors, Meter, NormalEquations, Window,
        errors_of,
    };
    use crate::tests::vectors::{Vectors, near};

    /// Two columns share the time around both ends of a window, a quarter and three: by the formula at the head, r (1 − r) stretch piece / 6 + (σ r)²
    /// at each end.
    #[test]
    fn errors_at_the_ends_of_windows() {
        let time = Stretch { from: 0.0, until: 4.0 };
        let cell = |column, units| Cell { owner: 1, column, units };
        let cells = vec![cell(0, 1.0), cell(1, 3.0)];
        let batches = Batches::new(vec![Batch { launched: time, executed: time, blur: 0.0, cells }]);
        let window = Window { time: Stretch { from: 1.0, until: 3.0 }, ticks: 1, joules: 0.0 };
        let coarse = [Coarse { piece: 2e-4, stretch: 5e-3 }, Coarse { piece: 9e-3, stretch: 6e-3 }];
        let found = errors_of(&[window], &batches, Meter::PROMPT, &coarse);
        let should = |part: f64, stretch: f64, piece: f64| {
            2.0 * (part * (1.0 - part) * stretch * piece / 6.0 + (END_SD * part).powi(2))
        };
        assert!((found[0] / should(0.25, 5e-3, 2e-4) - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            (found[1] / should(0.75, 6e-3, 6e-3) - 1.0).abs() < 1e-6,
            "no piece is longer than its stretch"
        );
    }

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
            plain.add_dense_row(&row, joules, 1.0);
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
            normal.add_dense_row(&row, 1.1 * both - 0.1 * begins, 1e4);
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

    /// What is seen in spite of errors, what is left of the equations, and what errors make of that (NumPy's eigenvectors); and the same for columns that
    /// are multiplied.
    #[test]
    fn as_numpy() {
        let vectors = Vectors::of("gpu_errors");
        let (gram, errors) = (vectors.matrix("gram"), vectors.list("errors"));
        let target = DVector::from_vec(vectors.list("target"));
        let normal = NormalEquations { gram: gram.clone(), target };
        let found = FeatureErrors::new(&normal, vectors.number("windows") as usize, &errors);
        let mut clean = normal.clone();
        found.clean(&mut clean);
        near(clean.gram.as_slice(), vectors.matrix("clean").as_slice(), 1e-8);
        near(clean.target.as_slice(), &vectors.list("cleaned"), 1e-8);
        near(found.blurred(7.0).as_slice(), vectors.matrix("blurred").as_slice(), 1e-8);
        let unseen = vectors.table("unseen");
        assert_eq!(found.unseen.len(), unseen.len());
        let along: f64 = found.unseen[0].iter().zip(&unseen[0]).map(|(a, b)| a * b).sum();
        assert!((along.abs() - 1.0).abs() < 1e-8, "{:?}", found.unseen);
        let by = [2.0, 0.1, 5.0];
        let scaled = DMatrix::from_fn(3, 3, |i, j| gram[(i, j)] * by[i] * by[j]);
        let of_scaled: Vec<f64> = errors.iter().zip(by).map(|(error, by)| error * by * by).collect();
        let normal = NormalEquations { gram: scaled, target: normal.target };
        let again = FeatureErrors::new(&normal, vectors.number("windows") as usize, &of_scaled);
        let scaled = found.scaled(&by);
        near(scaled.keep.as_slice(), again.keep.as_slice(), 1e-6);
        near(scaled.errors.as_slice(), again.errors.as_slice(), 1e-9);
        assert!((scaled.unseen[0].dot(&again.unseen[0]).abs() - 1.0).abs() < 1e-6);
    }

    /// The mean of f (1 − f), by SciPy.
    #[test]
    fn of_a_bridge() {
        assert!((BRIDGE - Vectors::of("constants").number("bridge")).abs() < 1e-12);
    }
}
