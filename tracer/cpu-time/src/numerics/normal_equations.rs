//! Weighted normal equations of a least-squares problem, with a prior and a floor: the regression kernel of
//! watts and of energies per launch.
//!
//! ```text
//! G = Xᵀ W X + Λ,   t = Xᵀ W y + Λ μ,   w = argmin ½ wᵀ G w − tᵀ w  with every w ≥ floor
//!                                                                Λ, μ: precision and mean of the prior
//! ```
//!
//! Factors, inverses and eigenvalues are nalgebra's. Leaves out where rows and weights come from.

use nalgebra::linalg::SymmetricEigen;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// Eigenvalues below this part of the largest are rounding.
const NOTHING: f64 = 1e-12;
/// What is added to cosines on the diagonal where columns may depend on each other: less than this no
/// tolerance is.
const LEAST_TOLERANCE: f64 = 1e-8;
/// QR steps of an eigendecomposition for each row; it takes one or two (Golub, Van Loan: Matrix computations,
/// §8.3).
const STEPS_OF_QR: usize = 60;
/// Sweeps of coordinate descent, and how little they move, in parts of the start, where it ends.
const SWEEPS: usize = 2_000;
const SETTLED: f64 = 1e-9;

/// Weighted normal equations of a least-squares problem.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalEquations {
    /// XᵀWX, and the prior's precision: symmetric, size × size.
    pub gram: DMatrix<f64>,
    /// XᵀWy, and what the prior adds: size.
    pub target: DVector<f64>,
}

impl NormalEquations {
    /// Without rows.
    pub fn new(size: usize) -> Self {
        Self { gram: DMatrix::zeros(size, size), target: DVector::zeros(size) }
    }

    fn size(&self) -> usize {
        self.target.len()
    }

    /// Adds one observation: what it has of some unknowns, each named once, and none of the others.
    pub fn add_row(&mut self, row: &[(usize, f64)], value: f64, weight: f64) {
        for &(i, x) in row {
            let scaled = weight * x;
            self.target[i] += scaled * value;
            row.iter().for_each(|&(j, other)| self.gram[(j, i)] += scaled * other);
        }
    }

    /// The sums of many observations: what each has of some unknowns, in their order; its value; and its
    /// weight.
    pub fn of_rows<R: AsRef<[(usize, f64)]>>(size: usize, rows: impl Iterator<Item = (R, f64, f64)>) -> Self {
        let mut sums = Self::new(size);
        let mut dense = vec![0.0; size];
        for (row, value, weight) in rows {
            let row = row.as_ref();
            row.iter().for_each(|&(i, x)| dense[i] = x);
            for (at, &(i, x)) in row.iter().enumerate() {
                let scaled = weight * x;
                sums.target[i] += scaled * value;
                let below = &mut sums.gram.as_mut_slice()[i * size..][..size];
                if 2 * row.len() > size {
                    let below = below[i..].iter_mut().zip(&dense[i..]);
                    below.for_each(|(sum, other)| *sum += scaled * other);
                } else {
                    row[at..].iter().for_each(|&(j, other)| below[j] += scaled * other);
                }
            }
            row.iter().for_each(|&(i, _)| dense[i] = 0.0);
        }
        sums.gram.fill_upper_triangle_with_lower_triangle();
        sums
    }

    /// Adds another's sums, times `factor`.
    pub fn add(&mut self, other: &Self, factor: f64) {
        self.gram.iter_mut().zip(&other.gram).for_each(|(sum, x)| *sum += factor * x);
        self.target.iter_mut().zip(&other.target).for_each(|(sum, x)| *sum += factor * x);
    }

    /// Adds the belief that each unknown is `mean`, with this precision (1 / variance).
    pub fn add_prior(&mut self, mean: f64, precision: f64) {
        (0..self.size()).for_each(|i| self.add_prior_of(i, mean, precision));
    }

    /// Adds the belief that one unknown is `mean`, with this precision (1 / variance).
    pub fn add_prior_of(&mut self, i: usize, mean: f64, precision: f64) {
        self.gram[(i, i)] += precision;
        self.target[i] += precision * mean;
    }

    /// Adds the belief that the unknowns are `mean`, with this inverse of their covariance.
    pub fn add_joint_prior(&mut self, mean: &DVector<f64>, precision: &DMatrix<f64>) {
        self.gram += precision;
        self.target += precision * mean;
    }

    /// The least squares with every unknown at `floor` or above: the equations are solved, unknowns that
    /// would fall below are held at it and the others solved again (active set), and coordinate descent lets
    /// go of those that were held too early. `start` is the usual size of an unknown, and what it is where
    /// nothing is known of it.
    pub fn solve(&self, start: f64, floor: f64) -> DVector<f64> {
        let mut free: Vec<usize> = (0..self.size()).collect();
        while !free.is_empty() {
            let mut found = DVector::from_element(self.size(), floor);
            free.iter().for_each(|&i| found[i] = 0.0);
            let rest = (&self.target - &self.gram * &found).select_rows(&free);
            let Some(factor) = self.gram.select_rows(&free).select_columns(&free).cholesky() else { break };
            let solved = factor.solve(&rest);
            if solved.iter().all(|value| *value >= floor) {
                free.iter().zip(&solved).for_each(|(&i, &value)| found[i] = value);
                return self.descend(found, start, floor);
            }
            let above = free.iter().zip(&solved).filter(|(_, value)| **value >= floor);
            free = above.map(|(&i, _)| i).collect();
        }
        self.coordinate_descent(start, floor)
    }

    /// Coordinate descent from `start`: for few columns that do not nearly depend on each other.
    pub fn coordinate_descent(&self, start: f64, floor: f64) -> DVector<f64> {
        self.descend(DVector::from_element(self.size(), start), start, floor)
    }

    fn descend(&self, mut found: DVector<f64>, start: f64, floor: f64) -> DVector<f64> {
        for _ in 0..SWEEPS {
            let mut moved = 0.0_f64;
            for i in 0..self.size() {
                let column = self.gram.column(i);
                let diagonal = column[i];
                if diagonal <= 0.0 {
                    continue;
                }
                let others = column.dot(&found) - diagonal * found[i];
                let better = ((self.target[i] - others) / diagonal).max(floor);
                moved = moved.max((better - found[i]).abs());
                found[i] = better;
            }
            if moved < SETTLED * start.abs() {
                break;
            }
        }
        found
    }

    /// The cosine between two columns of X; 0 where there is nothing in one.
    pub fn cosine(&self, i: usize, j: usize) -> f64 {
        let length = |i: usize| self.gram[(i, i)].sqrt();
        self.gram[(i, j)] / (length(i) * length(j)).max(f64::MIN_POSITIVE)
    }

    /// The condition number of X with each column scaled to length one; endless where columns depend on each
    /// other, 1 where there is nothing. Columns without any observation have no part in it.
    pub fn condition(&self) -> f64 {
        let seen: Vec<usize> = (0..self.size()).filter(|&i| self.gram[(i, i)] > 0.0).collect();
        if seen.is_empty() {
            return 1.0;
        }
        let cosines = DMatrix::from_fn(seen.len(), seen.len(), |i, j| self.cosine(seen[i], seen[j]));
        let Some(SymmetricEigen { eigenvalues, .. }) = eigen(cosines) else { return f64::INFINITY };
        let (least, most) = (eigenvalues.min(), eigenvalues.max());
        if least > NOTHING * most { (most / least).sqrt() } else { f64::INFINITY }
    }

    /// What of each column's sum of squares the other columns do not tell, in parts of it: the tolerance,
    /// which is the inverse of the variance inflation factor (Belsley, Kuh and Welsch, Regression
    /// diagnostics, 1980, §3.2), here without taking means off. About 1e-8 where they tell all; 1 where there
    /// is nothing.
    pub fn tolerances(&self) -> Vec<f64> {
        let squares = self.gram.diagonal().map(|square| if square > 0.0 { square } else { 1.0 });
        let scaled = DMatrix::from_fn(self.size(), self.size(), |i, j| {
            let own = if i == j && self.gram[(i, j)] <= 0.0 { 1.0 } else { 0.0 };
            let ridge = if i == j { LEAST_TOLERANCE } else { 0.0 };
            self.gram[(i, j)] / (squares[i] * squares[j]).sqrt() + own + ridge
        });
        let inverse = Cholesky::new(scaled).map(|factor| factor.inverse());
        (0..self.size())
            .map(|i| inverse.as_ref().map_or(0.0, |inverse| (1.0 / inverse[(i, i)]).min(1.0)))
            .collect()
    }

    /// The Cholesky factor of the gram matrix; `None` unless it is positive definite.
    pub fn factor(&self) -> Option<Cholesky<f64, Dyn>> {
        Cholesky::new(self.gram.clone())
    }
}

/// The eigenvalues of a symmetric matrix, in no order, and their vectors as columns; `None` where it has
/// none, as it is not of numbers.
pub fn eigen(matrix: DMatrix<f64>) -> Option<SymmetricEigen<f64, Dyn>> {
    let steps = STEPS_OF_QR * matrix.nrows().max(1);
    let of_numbers = matrix.iter().all(|x| x.is_finite());
    of_numbers.then(|| SymmetricEigen::try_new(matrix, f64::EPSILON, steps)).flatten()
}

#[cfg(test)]
mod tests {
    use super::{NormalEquations, eigen};
    use nalgebra::{DMatrix, DVector};

    fn near(found: &[f64], expected: &[f64], by: f64) {
        assert_eq!(found.len(), expected.len());
        let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart <= by, "{found:?} instead of {expected:?}");
    }

    /// One observation with something of each unknown, zeros included.
    fn dense(normal: &mut NormalEquations, row: &[f64], value: f64, weight: f64) {
        let row: Vec<(usize, f64)> = row.iter().copied().enumerate().collect();
        normal.add_row(&row, value, weight);
    }

    /// Six observations of five unknowns, with weights.
    fn six() -> NormalEquations {
        let rows = [
            ([1.0, 2.0, 0.0, 0.5, 0.0], 12.0, 2.0),
            ([3.0, 1.0, 0.0, 0.0, 1.0], 11.0, 1.0),
            ([1.0, 1.0, 4.0, 0.0, 0.0], 7.0, 0.5),
            ([0.0, 2.0, 1.0, 3.0, 0.0], -2.0, 1.0),
            ([2.0, 0.0, 0.0, 1.0, 5.0], 9.0, 3.0),
            ([1.0, 0.0, 2.0, 0.0, 1.0], 4.0, 1.0),
        ];
        let mut normal = NormalEquations::new(5);
        rows.iter().for_each(|(row, value, weight)| dense(&mut normal, row, *value, *weight));
        normal
    }

    /// What is left of each column after the least-squares fit of the others, in parts of it (NumPy on the
    /// same rows, W = diag (weight): `r = Y[:, c] - others @ lstsq(others, Y[:, c])[0]; r @ r / Y[:, c] @
    /// Y[:, c]` with `Y = sqrt(W) X`); a column that is the sum of others leaves nothing, one without
    /// observations is whole.
    #[test]
    fn tolerances_of_columns() {
        near(
            &six().tolerances(),
            &[0.119_994_111_8, 0.170_819_927_4, 0.864_468_637_9, 0.208_420_569_6, 0.099_300_957_9],
            1e-7,
        );
        let mut normal = NormalEquations::new(4);
        for i in 0..9 {
            let (a, b) = (f64::from(i), f64::from(i * i % 5));
            dense(&mut normal, &[a, b, a + b, 0.0], 1.0, 1.0);
        }
        let found = normal.tolerances();
        assert!(found[..3].iter().all(|part| *part < 1e-6) && found[3] == 1.0, "{found:?}");
    }

    /// NumPy 2 and SciPy 1 on the same rows X, y, W = diag (weight), with Λ = I / 4 and μ = 1.5:
    /// `G = X.T @ W @ X + I/4; t = X.T @ W @ y + 1.5/4`; `np.linalg.solve(G, t)`; `np.linalg.inv(G)[0]`;
    /// `d = sqrt(diag(G)); e = np.linalg.eigvalsh(G / outer(d, d)); sqrt(e[-1] / e[0])`;
    /// `L = cholesky(G); scipy.optimize.lsq_linear(L.T, solve(L, t), bounds=(0.1, inf), method="bvls").x`.
    #[test]
    fn as_numpy_and_scipy() {
        let mut normal = six();
        near(normal.target.as_slice(), &[118.5, 58.5, 20.0, 33.0, 150.0], 1e-12);
        near(normal.gram.row(3).transpose().as_slice(), &[7.0, 8.0, 3.0, 12.5, 15.0], 1e-12);
        normal.add_prior(1.5, 0.25);
        let factor = normal.factor().unwrap();
        let solved = [1.219_133_12, 6.012_374, 0.021_132_96, -4.401_177_32, 2.186_245_88];
        near(factor.solve(&normal.target).as_slice(), &solved, 1e-7);
        let inverse = [0.278_048_8, -0.240_930_38, -0.030_376_57, 0.187_988_47, -0.154_974_79];
        near(factor.inverse().column(0).as_slice(), &inverse, 1e-7);
        near(&[normal.condition()], &[7.102_310_416_939_553], 1e-9);
        let bounded = [3.846_962_68, 2.081_330_09, 0.1, 0.1, 0.204_491_12];
        near(normal.solve(1.0, 0.1).as_slice(), &bounded, 1e-7);
        near(normal.coordinate_descent(1.0, 0.1).as_slice(), &bounded, 1e-7);
    }

    /// A sparse row is a dense one with zeros; sums of parts are the sum of all; a prior of each unknown is
    /// the prior of all.
    #[test]
    fn adds_up() {
        let mut sparse = NormalEquations::new(5);
        sparse.add_row(&[(4, 2.0), (1, -3.0)], 7.0, 0.5);
        let mut full = NormalEquations::new(5);
        dense(&mut full, &[0.0, -3.0, 0.0, 0.0, 2.0], 7.0, 0.5);
        assert_eq!(sparse, full);
        assert_eq!((full.gram[(1, 4)], full.gram[(4, 1)], full.target[1]), (-3.0, -3.0, -10.5));
        let mut sum = six();
        sum.add(&full, -2.0);
        assert_eq!((sum.gram[(1, 4)], sum.target[4]), (1.0 + 6.0, 150.0 - 14.0));
        let (mut all, mut each) = (six(), six());
        all.add_prior(2.0, 3.0);
        (0..5).for_each(|i| each.add_prior_of(i, 2.0, 3.0));
        assert_eq!(all, each);
        assert_eq!((all.gram[(2, 2)], all.target[2]), (16.0, 26.0));
    }

    /// Many rows at once are the same as one after the other, be they full or nearly empty.
    #[test]
    fn many_rows() {
        let full: Vec<(usize, f64)> = (0..5).map(|i| (i, 1.5 - i as f64)).collect();
        let rows = [(&full[..], 3.0, 0.5), (&full[1..3], -1.0, 2.0), (&full[4..], 7.0, 1.0)];
        let mut sums = NormalEquations::new(5);
        rows.iter().for_each(|(row, value, weight)| sums.add_row(row, *value, *weight));
        let found = NormalEquations::of_rows(5, rows.into_iter());
        near(found.target.as_slice(), sums.target.as_slice(), 1e-12);
        near(found.gram.as_slice(), sums.gram.as_slice(), 1e-12);
    }

    /// Values and vectors of a matrix make it again, and vectors stand at right angles; what is no number has
    /// none.
    #[test]
    fn eigenvectors() {
        let a = DMatrix::from_row_slice(3, 3, &[4.0, 1.0, -2.0, 1.0, 3.0, 0.5, -2.0, 0.5, 900.0]);
        let found = eigen(a.clone()).unwrap();
        let vectors = &found.eigenvectors;
        assert!(
            (vectors * DMatrix::from_diagonal(&found.eigenvalues) * vectors.transpose() - a).norm() < 1e-9
        );
        assert!((vectors.transpose() * vectors - DMatrix::identity(3, 3)).norm() < 1e-12);
        assert!(eigen(DMatrix::from_element(2, 2, f64::NAN)).is_none());
        assert!(eigen(DMatrix::from_element(2, 2, f64::INFINITY)).is_none());
    }

    /// Columns at right angles have the condition number 1, whatever their lengths; two columns at an angle φ
    /// have cot (φ / 2); a column that is the sum of two others has none.
    #[test]
    fn condition_numbers() {
        let of = |rows: &[[f64; 3]]| {
            let mut normal = NormalEquations::new(3);
            rows.iter().for_each(|row| dense(&mut normal, row, 0.0, 1.0));
            normal.condition()
        };
        assert!((of(&[[1.0, 0.0, 0.0], [0.0, 300.0, 0.0], [0.0, 0.0, 1e-4]]) - 1.0).abs() < 1e-9);
        let angle = 0.1_f64;
        let two = of(&[[1.0, angle.cos(), 0.0], [0.0, angle.sin(), 0.0]]);
        assert!((two - 1.0 / (angle / 2.0).tan()).abs() < 1e-6, "{two}");
        assert_eq!(of(&[[1.0, 0.0, 1.0], [0.0, 2.0, 2.0], [3.0, 1.0, 4.0], [2.0, 7.0, 9.0]]), f64::INFINITY);
        assert_eq!(of(&[]), 1.0);
    }

    /// The cosine of columns at an angle is its cosine; of a column without observations 0.
    #[test]
    fn cosines() {
        let mut normal = NormalEquations::new(3);
        dense(&mut normal, &[2.0, 3.0, 0.0], 0.0, 4.0);
        dense(&mut normal, &[0.0, 3.0, 0.0], 0.0, 4.0);
        assert!((normal.cosine(0, 1) - 0.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(normal.cosine(0, 2), 0.0);
    }

    /// Two columns that are nearly the same are told apart, which descent does not do in its time; where one
    /// would fall below the floor, the other has its part.
    #[test]
    fn nearly_dependent_columns_are_solved() {
        let of = |watts: [f64; 2]| {
            let mut normal = NormalEquations::new(2);
            for i in 0..1_000 {
                let x = 1.0 + f64::from(i % 10);
                let row = [x, x * (1.0 + 1e-4 * f64::from(i % 7))];
                dense(&mut normal, &row, row[0] * watts[0] + row[1] * watts[1], 1.0);
            }
            normal
        };
        let normal = of([2.0, 0.5]);
        let (settled, descended) = (normal.solve(1.0, 1e-3), normal.coordinate_descent(1.0, 1e-3));
        near(settled.as_slice(), &[2.0, 0.5], 1e-4);
        assert!((descended[0] - 2.0).abs() > 0.1, "{descended:?}");
        let low = of([3.0, -0.5]).solve(1.0, 1e-3);
        assert!(low[1] <= 1e-3 && (low[0] + low[1] - 2.5).abs() < 0.01, "{low:?}");
    }

    /// An unknown that the equations put below the floor only because another one is there too comes up
    /// again: alone above zero, it is what its own equation says, and the slopes of the others point below
    /// the floor.
    #[test]
    fn what_was_held_too_early_is_let_go() {
        let gram = DMatrix::from_row_slice(3, 3, &[4.42, -2.11, -0.44, -2.11, 1.55, 0.0, -0.44, 0.0, 1.44]);
        let normal = NormalEquations { gram, target: DVector::from_row_slice(&[-1.1, 0.6, -0.5]) };
        let found = normal.solve(1.0, 0.0);
        near(found.as_slice(), &[0.0, 0.6 / 1.55, 0.0], 1e-8);
        let slope = &normal.gram * &found - &normal.target;
        assert!(slope[0] > 0.0 && slope[1].abs() < 1e-8 && slope[2] > 0.0, "{slope:?}");
    }

    /// A floor holds; a matrix that is not positive definite has no factor, and what nothing is known of
    /// stays where it started.
    #[test]
    fn floors_and_singular_matrices() {
        let mut normal = NormalEquations::new(2);
        dense(&mut normal, &[1.0, 0.0], -3.0, 1.0);
        assert!(normal.factor().is_none());
        near(normal.solve(4.0, 0.5).as_slice(), &[0.5, 4.0], 1e-12);
        normal.add_prior(4.0, 1e-6);
        near(&[normal.coordinate_descent(4.0, 0.5)[0]], &[0.5], 1e-9);
    }
}
