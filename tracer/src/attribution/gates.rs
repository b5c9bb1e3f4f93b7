//! What is found at the gates that learned watts must pass (`profile::gates`): cross-validation, condition number, split half. Two ways to weigh
//! times are compared by the same cross-validation (`better`).
//!
//! Windows are put into blocks of half a second, so that what one window says about the next does not count as proof. Both the folds of
//! the cross-validation and the two halves are made of whole blocks. Leaves out the limits, and what becomes of watts that fail.

use super::design::Design;
use super::intensity::{FLOOR, Fit, predicted};
use super::linear::Normal;
use crate::profile::gates::Gates;

const FOLDS: usize = 5;
const BLOCK_NS: u64 = 500_000_000;
/// Watts that differ by less than this part of themselves agree, however sure the halves are of theirs: the counter's edges and the chain of
/// functions are models, and no use of watts is finer.
const ALIKE: f64 = 0.03;

/// What a fit shows at each gate.
pub(super) fn gates_of(design: &Design, fit: &Fit) -> Gates {
    let blocks = blocks_of(design);
    Gates {
        gain: gain(design, fit, &blocks),
        condition: condition(design, fit),
        apart: halves_apart(design, fit, &blocks),
    }
}

/// The block of each window.
fn blocks_of(design: &Design) -> Vec<usize> {
    let mut begin = 0_u64;
    let mut next = |ns: &u64| {
        begin = begin.saturating_add(*ns);
        usize::try_from((begin - ns) / BLOCK_NS).unwrap_or(0)
    };
    design.ns.iter().map(&mut next).collect()
}

/// By how much weights fitted on the other folds predict a fold better than the mean does: the mean over blocks, in its standard errors.
fn gain(design: &Design, fit: &Fit, blocks: &[usize]) -> f64 {
    let by_mean = (0..design.len())
        .map(|window| design.joules[window] - fit.mean * design.row(window).iter().sum::<f64>());
    in_errors(&by_mean.collect::<Vec<f64>>(), &strays(design, fit, blocks), &fit.trust, blocks)
}

/// By how much one design's watts predict parts of the run that they were not fitted to better than another's do: in standard errors of the
/// mean over blocks. Both are designs of the same windows.
pub(super) fn better(one: (&Design, &Fit), other: (&Design, &Fit)) -> f64 {
    let blocks = blocks_of(one.0);
    let strays = |(design, fit): (&Design, &Fit)| strays(design, fit, &blocks);
    in_errors(&strays(other), &strays(one), &other.1.trust, &blocks)
}

/// How far each window's energy is from what watts predict that were fitted to the other folds.
fn strays(design: &Design, fit: &Fit, blocks: &[usize]) -> Vec<f64> {
    let mut strays = design.joules.clone();
    for fold in 0..FOLDS {
        let watts =
            fit.normal(design, |window| blocks[window] % FOLDS != fold).descend(fit.mean, FLOOR * fit.mean);
        for window in (0..design.len()).filter(|&window| blocks[window] % FOLDS == fold) {
            strays[window] -= predicted(design.row(window), &watts);
        }
    }
    strays
}

/// By how much the square of `strays` is less than that of `before`: the mean over blocks, in its standard errors.
#[expect(clippy::cast_precision_loss, reason = "a count of blocks")]
fn in_errors(before: &[f64], strays: &[f64], trust: &[f64], blocks: &[usize]) -> f64 {
    let mut gains = vec![0.0; blocks.last().map_or(0, |last| last + 1)];
    for (((before, now), trust), block) in before.iter().zip(strays).zip(trust).zip(blocks) {
        gains[*block] += trust * (before.powi(2) - now.powi(2));
    }
    let n = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / n;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    mean / (variance / n).sqrt().max(f64::MIN_POSITIVE)
}

/// The condition number of the times as the fit uses them, without what is believed beforehand.
fn condition(design: &Design, fit: &Fit) -> f64 {
    let mut normal = Normal::new(design.columns);
    (0..design.len()).for_each(|window| fit.observe(design, window, &mut normal));
    normal.condition()
}

/// How far the watts of the odd and of the even blocks are apart in their own standard deviations: root mean square over columns, by energy.
fn halves_apart(design: &Design, fit: &Fit, blocks: &[usize]) -> f64 {
    let n = design.columns;
    let half = |parity: usize| {
        let normal = fit.normal(design, |window| blocks[window] % 2 == parity);
        let inverse = normal.factor()?.inverse();
        Some((normal.descend(fit.mean, FLOOR * fit.mean), inverse))
    };
    let (Some((even, of_even)), Some((odd, of_odd))) = (half(0), half(1)) else { return f64::INFINITY };
    let (mut squares, mut whole) = (0.0, 0.0);
    for c in 0..n {
        let seconds: f64 = design.seconds.iter().skip(c).step_by(n).sum();
        let variance = of_even[c * n + c] + of_odd[c * n + c] + (ALIKE * fit.watts[c]).powi(2);
        squares += seconds * fit.watts[c] * (even[c] - odd[c]).powi(2) / variance;
        whole += seconds * fit.watts[c];
    }
    (squares / whole).sqrt()
}
