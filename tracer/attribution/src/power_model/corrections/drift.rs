//! When the whole domain draws more or less than its functions explain: the clock changed, or turbo ended.
//!
//! A change of frequency changes the power of all functions by about one factor (P ~ f^2 to f^3). It hides in
//! no time, so that watts fitted over all of a run would mix fast and slow stretches. Where stretches of a
//! quarter of a second stray from the fit by more than their windows' own variance allows, each gets a factor
//! of its own (a mean over three of them), and the watts are fitted again, a few times over; that is believed
//! if it makes the windows likelier by more than the factors cost (Akaike: 1974).
//!
//! The split needs no factor: it cancels in every interval. Where the frequency of each CPU is recorded
//! (`dvfs`) times are weighted by that before, and this follows what is left, if anything is.

use crate::numerics::shares::predicted;
use crate::parts::Part;
use crate::power_model::design::Design;
use crate::power_model::evidence::Evidence;
use crate::power_model::fit::{Fit, MEDIAN_SQUARE};
use crate::power_model::learn::Model;

/// Windows of so long a time have one factor.
const TOGETHER_NS: u64 = 250_000_000;
const ROUNDS: usize = 6;
/// Stretches that stray by more than this many times their variance, on average, are not chance.
const MISFIT: f64 = 2.0;
/// No factor is outside of these.
const SANE: (f64, f64) = (0.05, 5.0);

/// Follows changes of speed, where there are any; `refit` fits powers again.
pub(super) fn detect(design: Design, fit: Fit, refit: &dyn Fn(&Design) -> Option<Fit>) -> (Design, Fit) {
    let stretches = stretches_of(&design);
    if misfit(&design, &fit, &stretches) < MISFIT {
        return (design, fit);
    }
    let (mut scaled, mut best) = (design.clone(), fit.clone());
    for _ in 0..ROUNDS {
        // Each time anew: means over neighbours that are multiplied with those of the round before enlarge
        // what differs from one to the next.
        scaled.clone_from(&design);
        scaled.rescale(&factors(&design, &best, &stretches));
        let Some(next) = refit(&scaled) else { return (design, fit) };
        best = next;
    }
    let count = stretches.last().map_or(0, |last| last + 1);
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let cost = count as f64;
    if best.likelihood > fit.likelihood + cost { (scaled, best) } else { (design, fit) }
}

/// Whether all power drifts, or what ran in these stretches draws more, the energies of what ran in few
/// stretches alone do not show: those without a drift, where one was followed.
pub(super) fn doubt(model: &Model, _: &Evidence<'_>) -> Vec<Vec<f64>> {
    let asked = !model.settings.left_out.has(Part::DriftDoubt);
    model.steady_energies.iter().filter(|_| asked).cloned().collect()
}

/// The stretch of each window.
fn stretches_of(design: &Design) -> Vec<usize> {
    let mut before = 0_u64;
    let mut next = |ns: &u64| {
        let stretch = before / TOGETHER_NS;
        before = before.saturating_add(*ns);
        usize::try_from(stretch).unwrap_or(0)
    };
    let numbers: Vec<usize> = design.windows.ns.iter().map(&mut next).collect();
    // Windows longer than a stretch leave numbers out.
    let mut dense = 0;
    let mut last = None;
    let of_window = |number: usize| {
        dense += usize::from(last.is_some_and(|last| last != number));
        last = Some(number);
        dense
    };
    numbers.into_iter().map(of_window).collect()
}

/// Energy, expected energy and variance of each stretch.
fn sums(design: &Design, fit: &Fit, stretches: &[usize]) -> Vec<(f64, f64, f64)> {
    let mut sums = vec![(0.0, 0.0, 0.0); stretches.last().map_or(0, |last| last + 1)];
    for (window, &stretch) in stretches.iter().enumerate() {
        let (is, should, variance) = &mut sums[stretch];
        *is += design.windows.joules[window];
        *should += predicted(design.row(window), &fit.watts);
        *variance += 1.0 / fit.weights[window];
    }
    sums
}

/// The mean square of the stretches' errors in their own standard deviations; the median, as the mean of such
/// squares is.
fn misfit(design: &Design, fit: &Fit, stretches: &[usize]) -> f64 {
    let square = |(is, should, variance): (f64, f64, f64)| (is - should).powi(2) / variance;
    let mut squares: Vec<f64> = sums(design, fit, stretches).into_iter().map(square).collect();
    squares.sort_by(f64::total_cmp);
    squares.get(squares.len() / 2).copied().unwrap_or(0.0) / MEDIAN_SQUARE
}

/// By how much each window's power exceeds what is expected of it, as a mean over three stretches, with mean
/// 1.
fn factors(design: &Design, fit: &Fit, stretches: &[usize]) -> Vec<f64> {
    let sums = sums(design, fit, stretches);
    let around = |stretch: usize| {
        let near = sums.get(stretch.saturating_sub(1)..(stretch + 2).min(sums.len())).unwrap_or_default();
        let (is, should) = near.iter().fold((0.0, 0.0), |(is, should), sum| (is + sum.0, should + sum.1));
        let factor = if should > 0.0 { is / should } else { 1.0 };
        factor.clamp(SANE.0, SANE.1)
    };
    let of_stretch: Vec<f64> = (0..sums.len()).map(around).collect();
    stretches.iter().map(|&stretch| of_stretch[stretch]).collect()
}

#[cfg(test)]
mod tests {
    use super::{detect, factors, misfit, stretches_of};
    use crate::between_samples::switching_chain::Chains;
    use crate::power_model::design::Design;
    use crate::power_model::fit::Fit;
    use crate::power_model::tests::toy::Toy;
    use crate::tests::vectors::{Vectors, near};
    use nalgebra::DMatrix;

    /// Sums over stretches of a quarter of a second, their median square in standard deviations, and the mean
    /// over three of them (NumPy).
    #[test]
    fn as_numpy() {
        let vectors = Vectors::of("drift");
        let toy = Toy::of(&vectors);
        let fit = Fit {
            mean: 20.0,
            watts: vectors.list("watts"),
            residuals: vec![],
            physical: vec![],
            fluctuation: 0.0,
            weights: vectors.list("weights"),
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
        };
        let (design, found) = (toy.design(), stretches_of(&toy.design()));
        assert_eq!((found[4], found[5], found[59]), (0, 1, 11));
        near(&[misfit(&design, &fit, &found)], &[vectors.number("misfit")], 1e-3);
        near(&factors(&design, &fit, &found), &vectors.list("factors"), 1e-6);
    }

    /// Stretches are numbered without holes, however long windows are.
    #[test]
    fn long_windows() {
        let toy = Toy::new(600.0, &vec![vec![1.0]; 4], &[1.0; 4], 0.0);
        assert_eq!(stretches_of(&toy.design()), [0, 1, 2, 3]);
    }

    /// What is followed where two functions draw so many times their usual in each window, and windows stray
    /// by some percent.
    fn followed(factor: impl Fn(u32) -> f64) -> (Design, Fit) {
        let row = |k: u32| vec![f64::from(1 + k * 7 % 11), f64::from(1 + k * 5 % 8)];
        let joules = |k: u32| {
            let (row, noise) = (row(k), f64::from(k * 37 % 13) - 6.0);
            (row[0] * 0.03 + row[1] * 0.01) * factor(k) * (1.0 + noise * 0.01)
        };
        let ms: Vec<Vec<f64>> = (0..400).map(row).collect();
        let toy = Toy::new(20.0, &ms, &(0..400).map(joules).collect::<Vec<_>>(), 0.0);
        let (edges, prior) = (toy.edges(), DMatrix::identity(2, 2).into());
        let refit = |design: &_| Fit::new(design, &Chains::default(), &edges, &prior);
        let fit = refit(&toy.design()).unwrap();
        detect(toy.design(), fit, &refit)
    }

    /// From the middle of a run on, whose windows stray by some percent, everything draws half as much again:
    /// that is followed, and powers are those of the mean; in a steady run nothing is.
    #[test]
    fn a_clock_that_changes() {
        let (design, fit) = followed(|k| if k < 200 { 1.0 } else { 1.5 });
        let part = design.drift[350] / design.drift[50];
        assert!((part - 1.5).abs() < 0.05, "{part}");
        assert!((fit.watts[0] / fit.watts[1] - 3.0).abs() < 0.15, "{:?}", fit.watts);
        let (steady, _) = followed(|_| 1.0);
        assert!(steady.drift.iter().all(|drift| *drift == 1.0));
    }

    /// Beside a clock that changes, each quarter of a second strays by 4 % to the other side than its
    /// neighbours, and their means by a third of that: the change is followed, and the means are no larger
    /// after several rounds.
    #[test]
    fn rounds_do_not_add_up() {
        let sway = |k: u32| if (k * 20 / 250).is_multiple_of(2) { 0.96 } else { 1.04 };
        let (design, _) = followed(|k| sway(k) * if k < 200 { 1.0 } else { 1.5 });
        // A second or more away from both ends and from the change.
        for within in [50..150, 250..350] {
            let of = &design.drift[within];
            let (least, most) =
                of.iter().fold((f64::MAX, 0.0), |(a, b), x| (f64::min(a, *x), f64::max(b, *x)));
            assert!(most / least < 1.05, "{least} to {most}");
        }
        let part = design.drift[300] / design.drift[100];
        assert!((part - 1.5).abs() < 0.08, "{part}");
    }
}
