//! How sure the powers of a fit are, and what that makes of the columns' energies.
//!
//! ```text
//! C*: the posterior covariance of powers, widened where blocks of two seconds stray together (`sandwich`)
//! ∂E: what energies change by with powers (`shares`)
//! cov E = b (∂E C* ∂Eᵀ + φ² L Σ_k y_k² q_kc q_kd (δ_cd − q_kc − q_kd + Σ_j q_kj²))
//!                                                         q: parts of a window's energy
//! ```
//!
//! The last term: powers that differ from window to window by the part φ, for L windows in a row. b: what is
//! left that neither explains (`lack_of_fit::birge`). A sum over all columns has no doubt, since the
//! sum of a window is the counter's. Leaves out the doubt about times (`split::by_power`).

use crate::numerics::parallel::map_ranges;
use crate::numerics::sandwich::widened;
use crate::numerics::shares;
use crate::parts::Part;
use crate::power_model::corrections::{ALL, Correction, Doubt};
use crate::power_model::design::Design;
use crate::power_model::fit::Fit;
use crate::power_model::lack_of_fit::{BLOCK_NS, birge, chain};
use crate::power_model::learn::Model;
use nalgebra::DMatrix;
use std::ops::Range;

/// Windows that are looked at by one thread at once.
const WINDOWS_PER_TASK: usize = 1_024;

/// The covariance of the powers (W²); `None` where the equations have no solution.
pub(crate) fn of_powers(model: &Model) -> Option<DMatrix<f64>> {
    let observed = model.fit.observed(&model.design);
    let covariance = model.fit.with_prior(observed.clone(), &model.prior).factor()?.inverse();
    if model.settings.left_out.has(Part::Sandwich) {
        return Some(covariance);
    }
    if let Some(by_pairs) = &model.fit.by_pairs {
        return Some(widened(covariance, &observed.gram, &by_pairs.scores));
    }
    let blocks = model.design.windows.blocks(BLOCK_NS);
    Some(widened(covariance, &observed.gram, &scores(&model.design, &model.fit, &blocks)))
}

/// What each block shows together, as columns.
fn scores(design: &Design, fit: &Fit, blocks: &[Range<usize>]) -> DMatrix<f64> {
    let mut scores = DMatrix::zeros(design.columns, blocks.len());
    for (block, windows) in blocks.iter().enumerate() {
        for window in windows.clone() {
            let score = fit.weights[window] * fit.residuals[window];
            design.row(window).iter().for_each(|&(c, x)| scores[(c, block)] += score * x);
        }
    }
    scores
}

/// The covariance of the columns' energies, in parts of these, row by row. `charged` is what each column was
/// charged with in the windows of the model, which are this part of all: chance that differs from window to
/// window is the smaller the more there are, what is open about powers is not.
pub(crate) fn relative(model: &Model, charged: &[f64], part: f64) -> Vec<f64> {
    let n = model.design.paths;
    let Some(of_powers) = of_powers(model) else { return vec![0.0; n * n] };
    let (slope, own) = slopes(model);
    let own = own * part;
    let birge = if model.settings.left_out.has(Part::Birge) { 1.0 } else { birge(model.fit.squares()) };
    let covariance = (&slope * of_powers * slope.transpose() + own) * birge;
    let energies = model.design.energies(&model.fit.watts);
    let of = |c: usize, d: usize| {
        let scale = energies[c] * energies[d];
        if scale.abs() > f64::MIN_POSITIVE { covariance[(c, d)] / scale } else { 0.0 }
    };
    let mut relative: Vec<f64> = (0..n * n).map(|at| of(at / n, at % n)).collect();
    // Where the split follows another assumption than the regression, charged is the one, and shown the
    // other. What is charged is what these parts are of.
    let is_of_split =
        |correction: &&Correction| matches!(correction.doubt, Doubt::OfTheSplit(doubts) if doubts(model));
    let of_split = ALL.iter().rev().filter(is_of_split).map(|_| (charged, energies.as_slice()));
    let others = model.alternatives.iter().map(|other| (energies.as_slice(), other.as_slice()));
    for (whole, other) in others.chain(of_split) {
        let apart = |c: usize| {
            if whole[c].abs() > f64::MIN_POSITIVE { (whole[c] - other[c]) / whole[c] } else { 0.0 }
        };
        relative.iter_mut().enumerate().for_each(|(at, sum)| *sum += apart(at / n) * apart(at % n));
    }
    relative
}

/// ∂E / ∂w by call path and column, and the covariance that powers which differ from window to window make.
fn slopes(model: &Model) -> (DMatrix<f64>, DMatrix<f64>) {
    let (design, fit) = (&model.design, &model.fit);
    let of_some = |windows: Range<usize>| {
        let rows = windows.map(|window| (design.row(window), design.windows.joules[window]));
        shares::slopes(rows, &fit.watts, design.paths)
    };
    let (n, steps) = (design.paths, design.len() * design.columns);
    let nothing = (DMatrix::zeros(design.columns, n), DMatrix::zeros(n, n));
    let sums = map_ranges(design.len(), WINDOWS_PER_TASK, steps, of_some);
    let (slope, own) = sums.into_iter().fold(nothing, |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let asked = |part: Part| !model.settings.left_out.has(part);
    let fluctuation = if asked(Part::FluctuationInIntervals) { fit.fluctuation } else { 0.0 };
    let chain = if asked(Part::WindowChain) { chain(design, fit) } else { 1.0 };
    (slope.transpose(), own.transpose() * (fluctuation * chain))
}

#[cfg(test)]
mod tests {
    use super::{birge, of_powers, relative, slopes};
    use crate::between_samples::expected_time::Times;
    use crate::power_model::design::Design;
    use crate::power_model::fit::Fit;
    use crate::power_model::lack_of_fit::chain;
    use crate::power_model::learn::Model;
    use crate::power_model::tests::toy::Toy;
    use crate::power_model::windows::Windows;
    use crate::tests::vectors::{Vectors, near};
    use nalgebra::DMatrix;

    fn model(vectors: &Vectors) -> Model {
        Toy::of(vectors).model(vectors)
    }

    /// Posterior and sandwich by dense matrices: blocks that stray together widen what they see, and only
    /// that.
    #[test]
    fn powers_as_numpy() {
        let vectors = Vectors::of("covariance");
        let found = of_powers(&model(&vectors)).unwrap();
        near(found.as_slice(), vectors.matrix("posterior").as_slice(), 1e-7);
        let scale = vectors.list("scale");
        assert!(scale.iter().any(|scale| *scale > 1.2), "{scale:?}");
    }

    /// Fewer than four blocks show nothing together: then it is the posterior alone.
    #[test]
    fn few_blocks() {
        let vectors = Vectors::of("covariance");
        let (ms, joules) = (vectors.table("ms"), vectors.list("joules"));
        let toy = Toy::new(500.0, &ms[..12], &joules[..12], 0.0);
        let mut model = toy.model(&vectors);
        let three_blocks = of_powers(&model).unwrap();
        let observed = model.fit.observed(&model.design);
        let posterior = model.fit.with_prior(observed, &model.prior).factor().unwrap().inverse();
        near(three_blocks.as_slice(), posterior.as_slice(), 1e-12);
        model.fit.residuals.iter_mut().for_each(|residual| *residual *= 10.0);
        near(of_powers(&model).unwrap().as_slice(), posterior.as_slice(), 1e-12);
    }

    /// The derivative of the split by differences, and powers that stray from window to window, each on its
    /// own.
    #[test]
    fn energies_as_numpy() {
        let vectors = Vectors::of("covariance");
        let mut model = model(&vectors);
        near(&[chain(&model.design, &model.fit)], &[vectors.number("chain")], 1e-6);
        near(&model.design.energies(&model.fit.watts), &vectors.list("energies"), 1e-9);
        let (slope, own) = slopes(&model);
        near(slope.as_slice(), vectors.matrix("slope").as_slice(), 1e-7);
        near(own.as_slice(), vectors.matrix("own").as_slice(), 1e-7);
        let energies = vectors.list("energies");
        let expected = vectors.matrix("relative");
        near(&relative(&model, &energies, 1.0), expected.transpose().as_slice(), 1e-6);
        // Learned from a quarter of all windows: chance that is each window's own is a quarter of it in all
        // of them.
        let quarter = relative(&model, &energies, 0.25);
        let of_chance = |at: usize| own[(at / 3, at % 3)] * birge(model.fit.squares());
        let less = |at: usize| 0.75 * of_chance(at) / (energies[at / 3] * energies[at % 3]);
        let fewer = |at: usize| expected[(at / 3, at % 3)] - less(at);
        near(&quarter, &(0..9).map(fewer).collect::<Vec<_>>(), 1e-6);
        assert!(less(0) > 1e-5, "{}", less(0));
        model.alternatives = vec![vectors.list("other")];
        let widened = vectors.matrix("with_other");
        near(&relative(&model, &energies, 1.0), widened.transpose().as_slice(), 1e-6);
        // What a lag shows and what is charged are two opinions as well: a standard deviation, in joules, is
        // what they differ by.
        model.alternatives = vec![];
        let charged = vectors.list("other");
        near(&relative(&model, &charged, 1.0), expected.transpose().as_slice(), 1e-6);
        model.settings.lag_ns = 1;
        let apart = |c: usize| (charged[c] - energies[c]) / charged[c];
        let wider = |at: usize| expected[(at / 3, at % 3)] + apart(at / 3) * apart(at % 3);
        near(&relative(&model, &charged, 1.0), &(0..9).map(wider).collect::<Vec<_>>(), 1e-6);
    }

    /// Everything together has no doubt, whatever the powers are.
    #[test]
    fn the_sum_is_the_counters() {
        let vectors = Vectors::of("covariance");
        let model = model(&vectors);
        let (relative, e) = (relative(&model, &vectors.list("energies"), 1.0), vectors.list("energies"));
        let sum: f64 = (0..9).map(|at| relative[at] * e[at / 3] * e[at % 3]).sum();
        assert!(sum.abs() < 1e-9 * e.iter().sum::<f64>().powi(2), "{sum}");
    }

    /// With powers alone and beside busy CPUs each call path's energy changes with both, as differences show.
    #[test]
    fn slopes_beside_others() {
        let vectors = Vectors::of("covariance");
        let mut toy = Toy::of(&vectors);
        toy.slices.iter_mut().zip(0_u32..).for_each(|(slice, at)| slice.contention = f64::from(at % 5) / 4.0);
        let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
        let design = Design::new(&windows, &toy.listed(), (Times::Nearest, 0), (3, true), |owner| owner);
        let watts = vec![40.0, 12.0, 5.0, 30.0, 11.0, 9.0];
        let mut model = toy.model(&vectors);
        let energies = |watts: &[f64]| design.energies(watts);
        let difference = |column: usize| {
            let step = 1e-4 * watts[column];
            let by = |sign: f64| {
                let mut other = watts.clone();
                other[column] += sign * step;
                energies(&other)
            };
            let slopes = by(1.0).into_iter().zip(by(-1.0)).map(|(up, down)| (up - down) / (2.0 * step));
            slopes.collect::<Vec<f64>>()
        };
        let expected = DMatrix::from_fn(3, 6, |path, column| difference(column)[path]);
        model.fit = Fit { watts: watts.clone(), ..model.fit };
        model.design = design.clone();
        near(slopes(&model).0.as_slice(), expected.as_slice(), 1e-6);
    }
}
