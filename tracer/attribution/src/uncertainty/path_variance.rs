//! How much call paths' powers differ, as the powers of the run's columns show it.
//!
//! ```text
//! w_c = w̄ (1 + Σ_p q_cp (u_p + u_function))      Var u_p = 2/3 τ², Var u_function = 1/3 τ², q_cp: parts of column c
//! E (τ² | energies),   τ ~ |N(0, 0.6²)|,   w̄ open
//! ```
//!
//! A column's power is a mean of its paths', so that columns differ by less than paths. The likelihood of τ is
//! that of what windows say of the columns, restricted to what does not depend on w̄ (Patterson, Thompson:
//! Recovery of inter-block information when block sizes are unequal, 1971); where they say little, 0.6 remains
//! (Gelman: Prior distributions for variance parameters in hierarchical models, 2006). Other processes may draw
//! what they want. Leaves out what paths in one column do with it (`energy_trace_certainty`).

use crate::numerics::normal_equations::NormalEquations;
use crate::power_model::columns::Columns;
use crate::power_model::learn::Model;
use crate::power_model::paths::{OTHER, PathId, PathTree};
use crate::power_model::prior::contended;
use energy_trace_certainty::{OF_CALLERS, OF_COLUMN, OF_FUNCTION, OF_POWER};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use std::collections::BTreeMap;

/// τ is never taken to be less: columns that draw the same say little of the paths within them (the least tenth with
/// which no node of JAX is far, where all draw alike).
const LEAST: f64 = 0.1;
/// τ is looked for in steps of so much, and so many of them.
const STEP: f64 = 0.02;
const STEPS: u32 = 125;
/// So many steps are enough for any matrix of numbers.
const MOST_STEPS: usize = 100_000;

/// τ²; `None` where the target has no two columns.
pub(crate) fn estimate(model: &Model, tree: &PathTree) -> Option<f64> {
    let is_own: Vec<bool> =
        model.columns.paths.iter().map(|&path| !tree.upwards(path).any(|path| path == OTHER)).collect();
    if is_own.iter().filter(|own| **own).count() < 2 {
        return None;
    }
    let (n, size) = (is_own.len(), model.design.columns);
    let of_paths = covariance(&model.columns, tree);
    let kernel = DMatrix::from_fn(size, size, |c, d| {
        if is_own[c % n] && is_own[d % n] { of_paths[(c % n, d % n)] } else { 0.0 }
    });
    let others = DMatrix::from_fn(size, size, |c, d| {
        let free = if c % n == d % n && !is_own[c % n] { OF_POWER } else { 0.0 };
        free + contended(n, c, d)
    });
    let own = DVector::from_fn(size, |c, _| if is_own[c % n] { 1.0 } else { 0.0 });
    Likelihood::of(model.fit.observed(&model.design), model.fit.mean, &own, (&kernel, others))
        .map(|of| of.mean())
}

/// The covariance of columns' powers that τ² = 1 makes, in parts of w̄².
fn covariance(columns: &Columns, tree: &PathTree) -> DMatrix<f64> {
    let mut covariance = DMatrix::zeros(columns.len(), columns.len());
    let mut functions: BTreeMap<Option<u32>, BTreeMap<usize, f64>> = BTreeMap::new();
    for path in (0..tree.len()).filter_map(|path| PathId::try_from(path).ok()) {
        let (column, part) = (columns.of_path(path) as usize, columns.part(path));
        if part > 0.0 && column < columns.len() {
            covariance[(column, column)] += part * part * (OF_CALLERS + OF_COLUMN) / OF_POWER;
            *functions.entry(tree.function(path)).or_default().entry(column).or_default() += part;
        }
    }
    for parts in functions.values() {
        for (&c, one) in parts {
            parts.iter().for_each(|(&d, other)| covariance[(c, d)] += one * other * OF_FUNCTION / OF_POWER);
        }
    }
    covariance
}

/// What windows say of τ, along directions in which they say it independently.
struct Likelihood {
    /// How much they say along each, and of it w̄'s part and the energies'.
    known: DVector<f64>,
    of_mean: DVector<f64>,
    of_energy: DVector<f64>,
    /// The same over all directions.
    means: f64,
    energies: f64,
}

impl Likelihood {
    /// Of equations of columns' powers, whose mean is about `mean`; with what they differ by for τ² = 1, and what they
    /// differ by besides, in parts of its square. `own` are those that w̄ is of.
    fn of(
        equations: NormalEquations,
        mean: f64,
        own: &DVector<f64>,
        (kernel, others): (&DMatrix<f64>, DMatrix<f64>),
    ) -> Option<Self> {
        // In parts of the mean.
        let (gram, target) = (equations.gram * mean.powi(2), equations.target * mean);
        let size = own.len();
        let factor = (DMatrix::identity(size, size) + &gram * others).lu();
        let target = factor.solve(&(target - &gram * own.map(|own| 1.0 - own)))?;
        let gram = factor.solve(&gram)?;
        let eigen = SymmetricEigen::try_new(kernel.clone(), f64::EPSILON, MOST_STEPS)?;
        let root =
            &eigen.eigenvectors * DMatrix::from_diagonal(&eigen.eigenvalues.map(|of| of.max(0.0).sqrt()));
        let of_gram = root.transpose() * &gram * &root;
        let symmetric = (&of_gram + of_gram.transpose()) * 0.5;
        let along = SymmetricEigen::try_new(symmetric, f64::EPSILON, MOST_STEPS)?;
        let turned = (root * along.eigenvectors).transpose();
        Some(Self {
            known: along.eigenvalues.map(|of| of.max(0.0)),
            of_mean: &turned * (&gram * own),
            of_energy: turned * &target,
            means: own.dot(&(gram * own)),
            energies: own.dot(&target),
        })
    }

    /// The logarithm of how likely τ² is.
    fn log(&self, square: f64) -> f64 {
        let shrunk = self.known.map(|known| square / (1.0 + square * known));
        let with = |one: &DVector<f64>, other: &DVector<f64>| shrunk.component_mul(one).dot(other);
        let means = self.means - with(&self.of_mean, &self.of_mean);
        let energies = self.energies - with(&self.of_mean, &self.of_energy);
        let determinant: f64 = self.known.iter().map(|known| (square * known).ln_1p()).sum();
        0.5 * (with(&self.of_energy, &self.of_energy) + energies.powi(2) / means - means.ln() - determinant)
    }

    /// The mean of τ².
    fn mean(&self) -> f64 {
        let squares: Vec<f64> = (0..=STEPS).map(|step| (f64::from(step) * STEP).max(LEAST).powi(2)).collect();
        let logs: Vec<f64> =
            squares.iter().map(|square| self.log(*square) - square / (2.0 * OF_POWER)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = logs.iter().map(|log| (log - most).exp());
        let sums = squares
            .iter()
            .zip(weights)
            .fold((0.0, 0.0), |(sum, all), (square, weight)| (sum + square * weight, all + weight));
        Some(sums.0 / sums.1).filter(|square| square.is_finite()).unwrap_or(OF_POWER)
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, DMatrix, DVector, LEAST, Likelihood, NormalEquations, OF_POWER, covariance};
    use crate::power_model::tests::toy::flat_tree;
    use crate::tests::vectors::near;

    /// Twenty columns that stray from 10 W like normal variables of this standard deviation (in parts of it), each
    /// the mean of so many paths, and known to so much.
    fn found(tau: f64, paths: f64, known: f64) -> f64 {
        let quantiles = [0.06, 0.19, 0.32, 0.45, 0.60, 0.76, 0.93, 1.15, 1.44, 1.96];
        let watts = |c: usize| {
            let sign = if c.is_multiple_of(2) { 1.0_f64 } else { -1.0 };
            10.0 * (1.0 + sign * quantiles[c / 2] * (tau * tau / paths + known * known).sqrt())
        };
        let mut equations = NormalEquations::new(20);
        for c in 0..20 {
            equations.gram[(c, c)] = 1.0 / (10.0 * known).powi(2);
            equations.target[c] = watts(c) / (10.0 * known).powi(2);
        }
        let kernel = DMatrix::identity(20, 20) / paths;
        let own = DVector::from_element(20, 1.0);
        let of = Likelihood::of(equations, 11.0, &own, (&kernel, DMatrix::zeros(20, 20)));
        of.unwrap().mean().sqrt()
    }

    /// What is no number says nothing, and ends.
    #[test]
    fn no_numbers() {
        assert!(found(f64::NAN, 1.0, 0.1) > 0.5 && found(0.3, 1.0, 0.0) > 0.5);
    }

    /// What columns differ by is found, less what chance makes of it: also if each is the mean of four paths; where
    /// windows hardly say anything, it is what was believed.
    #[test]
    fn known_variances() {
        near(&[found(0.3, 1.0, 0.05), found(0.3, 4.0, 0.05)], &[0.30, 0.30], 0.04);
        near(&[found(0.0, 1.0, 0.02), found(0.0, 1.0, 50.0)], &[LEAST, OF_POWER.sqrt()], 0.02);
    }

    /// Columns of paths of one half and two quarters and of one alone, whose functions all differ.
    #[test]
    fn columns_are_means() {
        let mut columns = Columns::of_paths(vec![1, 5], vec![0, 0, 0, 0, 0, 1]);
        columns.set_parts(vec![0.0, 0.0, 0.5, 0.25, 0.25, 1.0]);
        let found = covariance(&columns, &flat_tree(4));
        near(found.as_slice(), &[0.375, 0.0, 0.0, 1.0], 1e-12);
    }
}
