//! What is believed of the columns' powers before the run shows them: about the mean, and the more alike the
//! more their paths have in common.
//!
//! ```text
//! w_c = w̄ + Σ_callers u + u_function + u_column        u ~ N(0, τ² w̄²)
//! cov (w_c, w_d) = w̄² (τ_caller² a / √(n_c n_d) + τ_function² [same innermost function] + τ_column² [c=d])
//! ```
//!
//! a: callers that both paths have in common, n: length of a path. This is a hierarchical model (Gelman,
//! Hill: Data analysis using regression and multilevel models, 2007; Robinson: That BLUP is a good thing,
//! 1991) whose variances are stated, not fitted: what a run shows of a column outweighs them, and where it
//! shows nothing they say how open it is. Other processes have nothing in common with the target.

use super::carried::{Known, Power};
use super::columns::Columns;
use super::paths::{PathId, PathTree};
use crate::numerics::normal_equations::NormalEquations;
use energy_trace_certainty::{OF_CALLERS, OF_COLUMN, OF_FUNCTION, OF_POWER};
use nalgebra::DMatrix;

/// Variances in parts of the square of the mean, as those of `energy_trace_certainty`, which are 0.36 in all,
/// 0.6 of the mean as a standard deviation: of how power differs while other CPUs are busy, for all alike and
/// for one column.
const CONTENDED: f64 = 0.06;
const CONTENDED_OF_COLUMN: f64 = 0.03;

/// What is believed of columns' powers.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    /// The inverse of their covariance about the mean, in parts of 1 / w̄².
    pub(crate) precision: DMatrix<f64>,
    /// What earlier windows have shown of some columns.
    carried: Vec<(usize, Power)>,
}

impl From<DMatrix<f64>> for Prior {
    fn from(precision: DMatrix<f64>) -> Self {
        Self { precision, carried: vec![] }
    }
}

impl Prior {
    /// With what earlier windows have shown.
    pub(crate) fn carrying(self, known: Option<&Known>, tree: &PathTree, columns: &Columns) -> Self {
        let Some(known) = known else { return self };
        let of = |(column, &path)| Some((column, *known.get(&tree.name(path)?)?));
        Self { carried: columns.paths.iter().enumerate().filter_map(of).collect(), ..self }
    }

    /// Adds what earlier windows have shown to equations, whose first unknowns the columns are.
    pub(crate) fn carry_into(&self, equations: &mut NormalEquations) {
        for (column, Power { watts, variance }) in &self.carried {
            equations.gram[(*column, *column)] += 1.0 / variance;
            equations.target[*column] += watts / variance;
        }
    }
}

/// The inverse of the covariance, in parts of 1 / w̄²: of each column, and if `has_contended` of each
/// contended one behind these.
pub(crate) fn precision(tree: &PathTree, columns: &Columns, has_contended: bool) -> DMatrix<f64> {
    let callers: Vec<Vec<PathId>> =
        columns.paths.iter().map(|&path| tree.upwards(path).skip(1).collect()).collect();
    let n = columns.len();
    let of_paths = DMatrix::from_fn(n, n, |c, d| {
        let function = tree.function(columns.paths[c]);
        let same = function.is_some() && function == tree.function(columns.paths[d]);
        let own = if c == d { OF_COLUMN } else { 0.0 };
        let of_function = if same || c == d { OF_FUNCTION } else { 0.0 };
        own + of_function + OF_CALLERS * in_common(&callers[c], &callers[d], c == d)
    });
    let independent = independent(n, has_contended);
    let size = independent.nrows();
    let covariance = DMatrix::from_fn(size, size, |c, d| of_paths[(c % n, d % n)] + contended(n, c, d));
    covariance.cholesky().map_or(independent, |factor| factor.inverse())
}

/// What powers differ by while other CPUs are busy: of the columns behind the first `n`.
pub(crate) fn contended(n: usize, c: usize, d: usize) -> f64 {
    let contended = if c >= n && d >= n { CONTENDED } else { 0.0 };
    contended + if c >= n && c == d { CONTENDED_OF_COLUMN } else { 0.0 }
}

/// The same where no path says anything of another.
pub(crate) fn independent(columns: usize, has_contended: bool) -> DMatrix<f64> {
    let size = if has_contended { 2 * columns } else { columns };
    DMatrix::identity(size, size) / OF_POWER
}

/// How many callers two paths have in common, beside how many they have; all for one and the same column.
/// Roots are no callers.
#[expect(clippy::cast_precision_loss, reason = "a count")]
fn in_common(one: &[PathId], other: &[PathId], same: bool) -> f64 {
    if same {
        return 1.0;
    }
    let without_root = |callers: &[PathId]| callers.len().saturating_sub(1);
    let common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let lengths = (without_root(one) * without_root(other)) as f64;
    if lengths > 0.0 { common.saturating_sub(1) as f64 / lengths.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Columns, PathTree, in_common, precision};
    use crate::power_model::paths::{Path, PathElement};
    use crate::tests::vectors::{Vectors, near};

    /// Callers are counted from the outermost; the root is none.
    #[test]
    fn callers_in_common() {
        // Innermost first, the root last.
        let (one, other) = ([9, 8, 5, 4, 1], [7, 5, 4, 1]);
        assert!((in_common(&one, &other, false) - 2.0 / 12.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(in_common(&one, &[3, 1], false), 0.0);
        assert_eq!(in_common(&[1], &[1], false), 0.0);
        assert_eq!(in_common(&[1], &[1], true), 1.0);
    }

    /// The formula at the head, column by column in NumPy: two paths to one function, their common caller,
    /// and another process; and contended columns.
    #[test]
    fn as_numpy() {
        let step = |parent, step| Path { parent, step };
        let function = |parent, function| step(parent, PathElement::Function(function));
        let paths = vec![
            step(0, PathElement::Root),
            step(1, PathElement::Root),
            function(1, 1),
            function(2, 3),
            function(3, 10),
            function(2, 5),
            function(5, 10),
            step(0, PathElement::Background(0)),
        ];
        let tree = PathTree::of_paths(paths, vec![]);
        let columns = Columns::of_paths(vec![4, 6, 3, 7], vec![]);
        let vectors = Vectors::of("prior");
        for (contended, name) in [(false, "alone"), (true, "crowded")] {
            near(precision(&tree, &columns, contended).as_slice(), vectors.matrix(name).as_slice(), 1e-9);
        }
    }
}
