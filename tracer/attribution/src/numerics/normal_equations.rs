//! The little linear algebra that the regression of watts needs: symmetric, positive definite, at most some dozens of rows.

/// Eigenvalues below this part of the largest are rounding.
const NOTHING: f64 = 1e-12;
/// Cyclic Jacobi needs six to ten sweeps for matrices of this size.
const SWEEPS_OF_JACOBI: usize = 30;

/// Weighted normal equations of a least-squares problem.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NormalEquations {
    size: usize,
    /// XᵀX, row by row.
    pub(crate) gram: Vec<f64>,
    /// Xᵀy.
    pub(crate) target: Vec<f64>,
}

impl NormalEquations {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, gram: vec![0.0; size * size], target: vec![0.0; size] }
    }

    /// Adds one observation.
    pub(crate) fn add_row(&mut self, row: &[f64], value: f64, weight: f64) {
        for (i, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            let scaled = weight * x;
            self.target[i] += scaled * value;
            let of_row = &mut self.gram[i * self.size..][..self.size];
            of_row.iter_mut().zip(row).for_each(|(sum, other)| *sum += scaled * other);
        }
    }

    /// Adds another's sums, times `factor`.
    pub(crate) fn add(&mut self, other: &Self, factor: f64) {
        self.gram.iter_mut().zip(&other.gram).for_each(|(sum, x)| *sum += factor * x);
        self.target.iter_mut().zip(&other.target).for_each(|(sum, x)| *sum += factor * x);
    }

    /// Adds the belief that each unknown is `mean`, with this precision (1 / variance).
    pub(crate) fn add_prior(&mut self, mean: f64, precision: f64) {
        for i in 0..self.size {
            self.gram[i * self.size + i] += precision;
            self.target[i] += precision * mean;
        }
    }

    /// Coordinate descent on `½ wᵀGw − tᵀw` with every `w ≥ floor`, from `start`.
    pub(crate) fn coordinate_descent(&self, start: f64, floor: f64) -> Vec<f64> {
        self.coordinate_descent_from(vec![start; self.size], start, floor)
    }

    /// The same where columns nearly depend on each other, so that descent alone would take longer than anybody waits: from where the equations
    /// themselves are solved, with unknowns held at `floor` that would fall below it.
    pub(crate) fn solve(&self, start: f64, floor: f64) -> Vec<f64> {
        let mut free: Vec<usize> = (0..self.size).collect();
        while !free.is_empty() {
            let Some(factor) = self.of(&free).factor() else { break };
            let held: Vec<usize> = (0..self.size).filter(|i| !free.contains(i)).collect();
            let rest = |&i: &usize| {
                self.target[i] - held.iter().map(|j| self.gram[i * self.size + j] * floor).sum::<f64>()
            };
            let solved = factor.solve(&free.iter().map(rest).collect::<Vec<_>>());
            if solved.iter().all(|value| *value >= floor) {
                let mut found = vec![floor; self.size];
                free.iter().zip(solved).for_each(|(&i, value)| found[i] = value);
                return self.coordinate_descent_from(found, start, floor);
            }
            let above = free.iter().zip(&solved).filter(|(_, value)| **value >= floor);
            free = above.map(|(&i, _)| i).collect();
        }
        self.coordinate_descent(start, floor)
    }

    /// The equations of some unknowns.
    fn of(&self, some: &[usize]) -> Self {
        let gram = some.iter().flat_map(|i| some.iter().map(move |j| self.gram[i * self.size + j])).collect();
        Self { size: some.len(), gram, target: some.iter().map(|&i| self.target[i]).collect() }
    }

    fn coordinate_descent_from(&self, mut found: Vec<f64>, start: f64, floor: f64) -> Vec<f64> {
        const SWEEPS: usize = 2_000;
        for _ in 0..SWEEPS {
            let mut moved = 0.0_f64;
            for i in 0..self.size {
                let row = &self.gram[i * self.size..][..self.size];
                let diagonal = row[i];
                if diagonal <= 0.0 {
                    continue;
                }
                let others = row.iter().zip(&found).map(|(g, w)| g * w).sum::<f64>() - diagonal * found[i];
                let better = ((self.target[i] - others) / diagonal).max(floor);
                moved = moved.max((better - found[i]).abs());
                found[i] = better;
            }
            if moved < 1e-9 * start.abs() {
                break;
            }
        }
        found
    }

    /// The cosine between two columns of X; 0 where there is nothing in one.
    pub(crate) fn cosine(&self, i: usize, j: usize) -> f64 {
        let length = |i: usize| self.gram[i * self.size + i].sqrt();
        self.gram[i * self.size + j] / (length(i) * length(j)).max(f64::MIN_POSITIVE)
    }

    /// The condition number of X with each column scaled to length one; endless where columns depend on each other, 1 where there is
    /// nothing. Columns without any observation have no part in it.
    pub(crate) fn condition(&self) -> f64 {
        let seen: Vec<usize> = (0..self.size).filter(|&i| self.gram[i * self.size + i] > 0.0).collect();
        let matrix = seen.iter().flat_map(|&i| seen.iter().map(move |&j| self.cosine(i, j))).collect();
        let (values, _) = eigen(matrix, seen.len());
        let (least, most) =
            values.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &v| (least.min(v), most.max(v)));
        if values.is_empty() {
            return 1.0;
        }
        if least > NOTHING * most { (most / least).sqrt() } else { f64::INFINITY }
    }

    /// The Cholesky factor of the gram matrix, lower triangle; `None` unless it is positive definite.
    pub(crate) fn factor(&self) -> Option<Factor> {
        let n = self.size;
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let dot: f64 = (0..j).map(|k| lower[i * n + k] * lower[j * n + k]).sum();
                let rest = self.gram[i * n + j] - dot;
                if i == j {
                    if rest.is_nan() || rest <= 0.0 {
                        return None;
                    }
                    lower[i * n + i] = rest.sqrt();
                } else {
                    lower[i * n + j] = rest / lower[j * n + j];
                }
            }
        }
        Some(Factor { size: n, lower })
    }
}

/// The eigenvalues of a symmetric matrix of `n` rows, in no order, and their vectors as columns: cyclic Jacobi rotations (Golub, Van Loan: Matrix
/// computations, §8.5).
pub(crate) fn eigen(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
    let size = (0..n).map(|i| a[i * n + i].abs()).fold(1.0, f64::max);
    for _ in 0..SWEEPS_OF_JACOBI {
        let mut off = 0.0_f64;
        for p in 0..n {
            for q in p + 1..n {
                off = off.max(a[p * n + q].abs());
                rotate(&mut a, &mut vectors, n, p, q);
            }
        }
        if off < NOTHING * size {
            break;
        }
    }
    ((0..n).map(|i| a[i * n + i]).collect(), vectors)
}

/// Turns rows and columns `p` and `q` so that the element where they meet is zero, and the vectors with them.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let apart = a[p * n + q];
    if apart == 0.0 {
        return;
    }
    let half = (a[q * n + q] - a[p * n + p]) / (2.0 * apart);
    let tan = half.signum() / (half.abs() + half.hypot(1.0));
    let cos = 1.0 / tan.hypot(1.0);
    let sin = tan * cos;
    for matrix in [&mut *a, vectors] {
        for k in 0..n {
            let (x, y) = (matrix[k * n + p], matrix[k * n + q]);
            (matrix[k * n + p], matrix[k * n + q]) = (cos * x - sin * y, sin * x + cos * y);
        }
    }
    for k in 0..n {
        let (x, y) = (a[p * n + k], a[q * n + k]);
        (a[p * n + k], a[q * n + k]) = (cos * x - sin * y, sin * x + cos * y);
    }
}

/// A Cholesky factor.
pub(crate) struct Factor {
    size: usize,
    lower: Vec<f64>,
}

impl Factor {
    /// Solves for one right-hand side.
    pub(crate) fn solve(&self, target: &[f64]) -> Vec<f64> {
        let n = self.size;
        let mut x = target.to_vec();
        for i in 0..n {
            let dot: f64 = (0..i).map(|k| self.lower[i * n + k] * x[k]).sum();
            x[i] = (x[i] - dot) / self.lower[i * n + i];
        }
        for i in (0..n).rev() {
            let dot: f64 = (i + 1..n).map(|k| self.lower[k * n + i] * x[k]).sum();
            x[i] = (x[i] - dot) / self.lower[i * n + i];
        }
        x
    }

    /// The inverse matrix, row by row.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        let unit = |i: usize| (0..self.size).map(|j| f64::from(u8::from(i == j))).collect::<Vec<_>>();
        (0..self.size).flat_map(|i| self.solve(&unit(i))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{NormalEquations, eigen};

    /// Values and vectors of a matrix make it again, and vectors stand at right angles.
    #[test]
    fn eigenvectors() {
        let a = vec![4.0, 1.0, -2.0, 1.0, 3.0, 0.5, -2.0, 0.5, 900.0];
        let (values, vectors) = eigen(a.clone(), 3);
        let sum = |i: usize, j: usize, of: &dyn Fn(usize) -> f64| {
            (0..3).map(|v| vectors[i * 3 + v] * of(v) * vectors[j * 3 + v]).sum::<f64>()
        };
        for (i, j) in (0..9).map(|at| (at / 3, at % 3)) {
            assert!((sum(i, j, &|v| values[v]) - a[i * 3 + j]).abs() < 1e-6, "{values:?}");
            assert!((sum(i, j, &|_| 1.0) - f64::from(u8::from(i == j))).abs() < 1e-9, "{vectors:?}");
        }
    }

    /// Two unknowns from three observations without noise, by descent and by factor; the inverse times the matrix is one.
    #[test]
    fn solves_what_is_given() {
        let mut normal = NormalEquations::new(2);
        for (row, value) in [([1.0, 2.0], 12.0), ([3.0, 1.0], 11.0), ([1.0, 1.0], 7.0)] {
            normal.add_row(&row, value, 2.0);
        }
        let near = |found: &[f64]| (found[0] - 2.0).abs() < 1e-6 && (found[1] - 5.0).abs() < 1e-6;
        assert!(near(&normal.coordinate_descent(1.0, 0.0)), "{:?}", normal.coordinate_descent(1.0, 0.0));
        let factor = normal.factor().unwrap();
        assert!(near(&factor.solve(&normal.target)));
        let inverse = factor.inverse();
        let product = normal.gram[0] * inverse[0] + normal.gram[1] * inverse[2];
        assert!((product - 1.0).abs() < 1e-9);
    }

    /// Columns at right angles have the condition number 1, whatever their lengths; two columns at an angle φ have cot (φ / 2); a column that is
    /// the sum of two others has none.
    #[test]
    fn condition_numbers() {
        let of = |rows: &[[f64; 3]]| {
            let mut normal = NormalEquations::new(3);
            rows.iter().for_each(|row| normal.add_row(row, 0.0, 1.0));
            normal.condition()
        };
        assert!((of(&[[1.0, 0.0, 0.0], [0.0, 300.0, 0.0], [0.0, 0.0, 1e-4]]) - 1.0).abs() < 1e-9);
        let angle = 0.1_f64;
        let two = of(&[[1.0, angle.cos(), 0.0], [0.0, angle.sin(), 0.0]]);
        assert!((two - 1.0 / (angle / 2.0).tan()).abs() < 1e-6, "{two}");
        assert_eq!(of(&[[1.0, 0.0, 1.0], [0.0, 2.0, 2.0], [3.0, 1.0, 4.0], [2.0, 7.0, 9.0]]), f64::INFINITY);
    }

    /// Two columns that are nearly the same are told apart, which descent does not do in its time; where one would fall below the floor, the other
    /// has its part.
    #[test]
    fn nearly_dependent_columns_are_solved() {
        let of = |watts: [f64; 2]| {
            let mut normal = NormalEquations::new(2);
            for i in 0..1_000 {
                let x = 1.0 + f64::from(i % 10);
                let row = [x, x * (1.0 + 1e-4 * f64::from(i % 7))];
                normal.add_row(&row, row[0] * watts[0] + row[1] * watts[1], 1.0);
            }
            normal
        };
        let normal = of([2.0, 0.5]);
        let (settled, descended) = (normal.solve(1.0, 1e-3), normal.coordinate_descent(1.0, 1e-3));
        assert!((settled[0] - 2.0).abs() < 1e-4 && (settled[1] - 0.5).abs() < 1e-4, "{settled:?}");
        assert!((descended[0] - 2.0).abs() > 0.1, "{descended:?}");
        let low = of([3.0, -0.5]).solve(1.0, 1e-3);
        assert!(low[1] <= 1e-3 && (low[0] + low[1] - 2.5).abs() < 0.01, "{low:?}");
    }

    /// A floor holds, and a matrix that is not positive definite has no factor.
    #[test]
    fn floors_and_singular_matrices() {
        let mut normal = NormalEquations::new(2);
        normal.add_row(&[1.0, 0.0], -3.0, 1.0);
        assert!(normal.factor().is_none());
        normal.add_prior(4.0, 1e-6);
        assert!((normal.coordinate_descent(4.0, 0.5)[0] - 0.5).abs() < 1e-9);
    }
}
