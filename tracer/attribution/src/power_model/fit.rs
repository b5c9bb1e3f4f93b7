//! Powers of columns, fitted to windows by reweighted least squares.
//!
//! ```text
//! y_k = Σ_c w_c x_kc + ε_k          Var ε_k = V_k + s_k² + φ² Σ_c (w_c x_kc)²
//! ```
//!
//! y: joules above idle of window k, x: expected seconds of column c. V: the times are expectations, s: the
//! counter's edges; both are physics. φ: by how much one column's power differs from window to window, as a
//! part of itself, which is found in the residuals. Windows that are far off count less (Huber: Robust
//! statistics, 1981). No power is below a hundredth of the mean.
//!
//! Leaves out what the windows are (`design`), what is believed beforehand (`prior`), and whether the result
//! may be used (`lack_of_fit`).

use super::counter_edges::Edges;
use super::design::Design;
use super::pairs::Moments;
use super::prior::Prior;
use crate::between_samples::switching_chain::Chains;
use crate::numerics::normal_equations::NormalEquations;
use crate::numerics::parallel::map_ranges;
use crate::numerics::shares::predicted;
use crate::parts::Part;
use nalgebra::{DMatrix, DVector};
use std::ops::Range;

/// No column is taken to draw less than this part of the mean. (With a twentieth, much work of others that
/// draws next to nothing had 3 % of the target's energy.)
const FLOOR: f64 = 0.01;
/// Windows whose equations are summed up by one thread at once.
const WINDOWS_PER_TASK: usize = 1_024;
/// Rounds of reweighting.
const ROUNDS: usize = 4;
/// From how many standard deviations on a window counts less.
const HUBER: f64 = 2.5;
/// The median of the square of a standard normal variable.
pub(crate) const MEDIAN_SQUARE: f64 = 0.4549;
/// What longer windows differ by is chance up to so many standard deviations of its square.
const CHANCE: f64 = 2.0;
/// What is common to short and long windows is no chance; a tenth of a standard deviation is no matter.
const MATTERS: f64 = 0.99;
/// No window is known better than to this part of its energy: a model's limit, not a counter's.
const LEAST_SPREAD: f64 = 0.002;

/// Powers, and how windows stray from them.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    /// Mean power of everything that ran.
    pub(crate) mean: f64,
    pub(crate) watts: Vec<f64>,
    /// Energy of each window beyond what is expected, in joules.
    pub(crate) residuals: Vec<f64>,
    /// Variance of each window by times and edges (J²).
    pub(crate) physical: Vec<f64>,
    /// φ².
    pub(crate) fluctuation: f64,
    /// What each window counts for: 1 / variance, less where it is far off.
    pub(crate) weights: Vec<f64>,
    /// Variance of each window, by physics and φ (J²).
    pub(crate) variances: Vec<f64>,
    pub(crate) likelihood: f64,
    /// What pairs of samples say of the powers, in place of windows.
    pub(crate) by_pairs: Option<Moments>,
}

impl Fit {
    /// `None` where there is no power to speak of.
    pub(crate) fn new(design: &Design, chains: &Chains, edges: &Edges, prior: &Prior) -> Option<Self> {
        let (joules, seconds) = (design.windows.joules.iter().sum::<f64>(), design.seconds());
        let mean = Some(joules / seconds).filter(|mean| mean.is_finite() && *mean > 0.0)?;
        let mut fit = Self {
            mean,
            watts: vec![mean; design.columns],
            residuals: vec![],
            physical: vec![],
            fluctuation: 0.0,
            weights: vec![],
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
        };
        for _ in 0..ROUNDS {
            fit.weigh(design, chains, edges);
            fit.watts = fit.solve(design, prior);
        }
        fit.weigh(design, chains, edges);
        Some(fit)
    }

    /// The powers by what pairs of samples say.
    pub(crate) fn of_pairs(
        mut self,
        by_pairs: Moments,
        (design, chains, edges): (&Design, &Chains, &Edges),
        prior: &Prior,
    ) -> Self {
        self.watts.fill(0.0);
        for (probability, equations) in &by_pairs.delays {
            let powers = self.powers(equations.clone(), prior);
            self.watts.iter_mut().zip(powers).for_each(|(sum, watts)| *sum += probability * watts);
        }
        self.by_pairs = Some(by_pairs);
        self.weigh(design, chains, edges);
        self
    }

    /// What windows say of the powers.
    pub(crate) fn observed(&self, design: &Design) -> NormalEquations {
        if let Some(by_pairs) = &self.by_pairs {
            return by_pairs.delays[0].1.clone();
        }
        summed(design, design.len(), |k| (design.row(k), design.windows.joules[k], self.weights[k]))
    }

    /// The powers as windows have them which are so many times as long, of each. Where a moment's work is taken to be in
    /// the window beside its own, short windows are as precise as before and more wrong: what they and long
    /// ones differ by beyond chance shows how much that may be. Chance is by how much less longer ones show
    /// (Hausman: Specification tests in econometrics, 1978).
    pub(crate) fn solve_longer<const N: usize>(
        &self,
        design: &Design,
        prior: &Prior,
        times: [usize; N],
    ) -> [Vec<f64>; N] {
        let solved = |of: NormalEquations| {
            let covariance = self.with_prior(of.clone(), prior).factor().map(|factor| factor.inverse());
            (DVector::from_vec(self.powers(of, prior)), covariance)
        };
        let (here, of_here) = solved(self.observed(design));
        times.map(|times| {
            let (longer, of_longer) = solved(self.observed_longer(design, times));
            let apart = longer - &here;
            let covariances = of_here.as_ref().zip(of_longer);
            let beyond =
                covariances.map_or(1.0, |(here, longer)| beyond_chance(&apart, longer - here * MATTERS));
            self.watts.iter().zip(&apart).map(|(watts, apart)| watts + beyond * apart).collect()
        })
    }

    /// What windows say that are so many times as long.
    fn observed_longer(&self, design: &Design, times: usize) -> NormalEquations {
        let together = |number: usize| {
            let windows = (number * times..design.len()).take(times);
            let variance: f64 = windows.clone().map(|k| 1.0 / self.weights[k]).sum();
            let joules: f64 = windows.clone().map(|k| design.windows.joules[k]).sum();
            (design.rows_together(windows), joules, 1.0 / variance)
        };
        summed(design, design.len().div_ceil(times), together)
    }

    /// What windows say of the powers, and what is believed.
    pub(crate) fn with_prior(&self, mut equations: NormalEquations, prior: &Prior) -> NormalEquations {
        let mean = DVector::from_element(prior.precision.nrows(), self.mean);
        equations.add_joint_prior(&mean, &(&prior.precision / self.mean.powi(2)));
        prior.carry_into(&mut equations);
        equations
    }

    /// The powers that fit a design best, with windows that count for as much as here.
    pub(crate) fn solve(&self, design: &Design, prior: &Prior) -> Vec<f64> {
        self.powers(self.observed(design), prior)
    }

    /// The powers of these equations with the prior.
    pub(super) fn powers(&self, equations: NormalEquations, prior: &Prior) -> Vec<f64> {
        self.with_prior(equations, prior).solve(self.mean, FLOOR * self.mean).data.into()
    }

    /// The square of each window's residual beside its variance.
    pub(crate) fn squares(&self) -> impl Iterator<Item = f64> + '_ {
        self.residuals.iter().zip(&self.variances).map(|(r, v)| r * r / v.max(f64::MIN_POSITIVE))
    }

    /// Finds how far windows stray, what each counts for, and how likely all of it is.
    fn weigh(&mut self, design: &Design, chains: &Chains, edges: &Edges) {
        let of = |k: usize| {
            let row = design.row(k);
            (design.windows.joules[k] - predicted(row, &self.watts), square(row, &self.watts))
        };
        let steps = design.len() * design.columns;
        let found =
            map_ranges(design.len(), WINDOWS_PER_TASK, steps, |some| some.map(of).collect::<Vec<_>>());
        let (residuals, squares): (Vec<f64>, Vec<f64>) = found.into_iter().flatten().unzip();
        self.residuals = residuals;
        let on_average = design.on_average(&self.watts);
        let of_mixes = chains.moments(&on_average);
        let by_times = design.variances(&on_average, &of_mixes);
        let by_edges = edges.variances(&design.windows, &on_average, &of_mixes);
        let asked = |part: Part| !chains.left_out.has(part);
        let times = if asked(Part::TimesInWeights) { 1.0 } else { 0.0 };
        self.physical = by_times.iter().zip(&by_edges).map(|(of, edges)| times * of + edges).collect();
        self.fluctuation = fluctuation(&self.residuals, &self.physical, &squares);
        let spread = if asked(Part::Fluctuation) { self.fluctuation } else { 0.0 }.max(LEAST_SPREAD.powi(2));
        let huber = if asked(Part::Huber) { HUBER } else { f64::INFINITY };
        self.likelihood = 0.0;
        self.weights.clear();
        self.variances.clear();
        for ((residual, physical), square) in self.residuals.iter().zip(&self.physical).zip(&squares) {
            let variance = physical + spread * square;
            let z = residual.abs() / variance.sqrt();
            let cost = if z > huber { huber * (2.0 * z - huber) } else { z * z };
            self.likelihood -= 0.5 * (cost + variance.ln());
            self.weights.push((huber / z).min(1.0) / variance);
            self.variances.push(variance);
        }
    }
}

/// The sums of so many observations, each of which is a row of a design, its energy, and what it counts for.
fn summed<R: AsRef<[(usize, f64)]>>(
    design: &Design,
    count: usize,
    of: impl Fn(usize) -> (R, f64, f64) + Sync,
) -> NormalEquations {
    let of_some = |some: Range<usize>| NormalEquations::of_rows(design.columns, some.map(&of));
    let mut equations = NormalEquations::new(design.columns);
    let sums = map_ranges(count, WINDOWS_PER_TASK, design.len() * design.columns, of_some);
    sums.iter().for_each(|sums| equations.add(sums, 1.0));
    equations
}

/// Which part of a difference is beyond chance, whose covariance is given: H = dᵀ C⁻¹ d is as large as there are
/// columns, give or take two standard deviations.
#[expect(clippy::cast_precision_loss, reason = "a count")]
fn beyond_chance(apart: &DVector<f64>, covariance: DMatrix<f64>) -> f64 {
    let Some(factor) = covariance.cholesky() else { return 1.0 };
    let (squares, columns) = (factor.solve(apart).dot(apart), apart.len() as f64);
    let by_chance = columns + CHANCE * (2.0 * columns).sqrt();
    if squares > by_chance { (1.0 - by_chance / squares).sqrt() } else { 0.0 }
}

/// Σ (w x)² of a window.
fn square(row: &[(usize, f64)], watts: &[f64]) -> f64 {
    row.iter().map(|entry| predicted(std::slice::from_ref(entry), watts).powi(2)).sum()
}

/// φ²: the median over windows, as residuals beyond physics show it.
fn fluctuation(residuals: &[f64], physical: &[f64], squares: &[f64]) -> f64 {
    let beyond = |((residual, physical), square): ((&f64, &f64), &f64)| {
        (*square > 0.0).then(|| (residual * residual / MEDIAN_SQUARE - physical) / square)
    };
    let mut found: Vec<f64> = residuals.iter().zip(physical).zip(squares).filter_map(beyond).collect();
    let middle = found.len() / 2;
    match found.is_empty() {
        true => 0.0,
        false => found.select_nth_unstable_by(middle, f64::total_cmp).1.max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Chains, FLOOR, Fit, MEDIAN_SQUARE, beyond_chance, fluctuation};
    use crate::power_model::tests::toy::Toy;
    use crate::tests::vectors::{Vectors, near};
    use nalgebra::{DMatrix, DVector};

    /// Residuals of 10 % beyond physics are a fluctuation of 10 %; what physics explains is none.
    #[test]
    fn fluctuations() {
        // Nearly the quartiles of a normal variable: the median of their squares is right.
        let normal = [-1.150, -0.674_5, -0.319, 0.0, 0.319, 0.674_5, 1.150];
        let residuals: Vec<f64> = normal.iter().map(|z| 0.2 * z).collect();
        let found = fluctuation(&residuals, &[0.0; 7], &[4.0; 7]);
        assert!((found.sqrt() - 0.1).abs() < 1e-3, "{found}");
        assert_eq!(fluctuation(&residuals, &[0.05; 7], &[4.0; 7]), 0.0);
        assert_eq!(fluctuation(&[], &[], &[]), 0.0);
    }

    /// Four rounds of reweighting and SciPy's bounded least squares: a window that is far off counts less,
    /// and a power ends at the floor.
    #[test]
    fn as_scipy() {
        let vectors = Vectors::of("fit");
        let toy = Toy::of(&vectors);
        let prior = vectors.matrix("precision").into();
        let fit = Fit::new(&toy.design(), &Chains::default(), &toy.edges(), &prior).unwrap();
        near(&[fit.mean], &[vectors.number("mean")], 1e-9);
        near(&fit.watts, &vectors.list("watts"), 1e-6);
        assert!((fit.watts[1] / fit.mean - FLOOR).abs() < 1e-9, "{:?}", fit.watts);
        near(&fit.residuals, &vectors.list("residuals"), 1e-6);
        near(&fit.physical, &vectors.list("physical"), 1e-6);
        near(&[fit.fluctuation], &[vectors.number("fluctuation")], 1e-5);
        near(&fit.weights, &vectors.list("weights"), 1e-4);
        near(&[fit.likelihood], &[vectors.number("likelihood")], 1e-6);
        assert!(fit.weights[7] < 0.2 * fit.weights[8], "a window that is half a joule off");
    }

    /// Windows that are four times as long are those whose times and energies are sums of four, the last one
    /// of what is left.
    #[test]
    fn longer_windows() {
        let row = |k: u32| vec![f64::from(1 + k * 7 % 11), f64::from(1 + k * 5 % 8)];
        let joules = |k: u32| f64::from(3 + k * 13 % 17) / 100.0;
        let (ms, energies): (Vec<_>, Vec<_>) = (0..42).map(|k| (row(k), joules(k))).unzip();
        let sums = |four: &[Vec<f64>]| {
            four.iter().fold(vec![0.0; 2], |sum, row| vec![sum[0] + row[0], sum[1] + row[1]])
        };
        let long_ms: Vec<Vec<f64>> = ms.chunks(4).map(sums).collect();
        let long_energies: Vec<f64> = energies.chunks(4).map(|four| four.iter().sum()).collect();
        assert_eq!(long_ms.len(), 11);
        let weighed = |weights: Vec<f64>| Fit {
            mean: 10.0,
            watts: vec![],
            residuals: vec![],
            physical: vec![],
            fluctuation: 0.0,
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
            weights,
        };
        let weights: Vec<f64> = (0..42_u32).map(|k| 1.0 / f64::from(1 + k % 3)).collect();
        let of_four: Vec<f64> =
            weights.chunks(4).map(|four| 1.0 / four.iter().map(|w| 1.0 / w).sum::<f64>()).collect();
        let prior = (DMatrix::identity(2, 2) * 1e-3).into();
        let short = weighed(weights);
        let longer = short.observed_longer(&Toy::new(20.0, &ms, &energies, 0.0).design(), 4);
        let short = short.powers(longer, &prior);
        let long = weighed(of_four).solve(&Toy::new(80.0, &long_ms, &long_energies, 0.0).design(), &prior);
        near(&short, &long, 1e-9);
    }

    /// What runs in a window while its energy is in the next one draws too little as short windows have it,
    /// and less so as longer ones do.
    #[test]
    fn longer_windows_are_less_wrong() {
        let row = |k: u32| vec![f64::from(8 * (k * k % 7 / 3)), f64::from(8 - 8 * (k * k % 7 / 3))];
        let true_joules =
            |k: u32| row(k).iter().zip([40.0, 10.0]).map(|(ms, watts)| ms * watts / 1e3).sum::<f64>();
        let late = |k: u32| 0.8 * true_joules(k) + 0.2 * true_joules(k.saturating_sub(1));
        let ms: Vec<Vec<f64>> = (0..400).map(row).collect();
        let design = Toy::new(20.0, &ms, &(0..400).map(late).collect::<Vec<_>>(), 0.0).design();
        let toy = Toy::new(20.0, &ms, &[0.1; 400], 0.0);
        let prior = (DMatrix::identity(2, 2) * 1e-3).into();
        let fit = Fit::new(&design, &Chains::default(), &toy.edges(), &prior).unwrap();
        let (short, long) = (fit.solve(&design, &prior), fit.powers(fit.observed_longer(&design, 4), &prior));
        assert!(
            short[0] < long[0] - 0.3 && long[0] < 40.0 && 10.0 < long[1] && long[1] < short[1] - 0.3,
            "{short:?} {long:?}"
        );
    }

    /// Three standard deviations in one of two directions are 9, of which chance makes 2 + 2 · √4; one in each is
    /// chance alone. What has no covariance is no chance.
    #[test]
    fn chance_is_no_difference() {
        let of = |apart: [f64; 2], variance: f64| {
            beyond_chance(&DVector::from_row_slice(&apart), DMatrix::identity(2, 2) * variance)
        };
        near(&[of([3.0, 0.0], 1.0), of([1.0, 1.0], 1.0)], &[(1.0_f64 - 6.0 / 9.0).sqrt(), 0.0], 1e-12);
        near(&[of([3.0, 0.0], 4.0), of([0.1, 0.0], 0.0), of([60.0, 0.0], 1.0)], &[0.0, 1.0, 0.9992], 1e-4);
    }

    /// Without energy there is no power to speak of, nor with less than none.
    #[test]
    fn no_power() {
        let of = |joules| {
            let toy = Toy::new(20.0, &vec![vec![5.0, 3.0]; 3], &[joules; 3], 0.0);
            Fit::new(&toy.design(), &Chains::default(), &toy.edges(), &DMatrix::identity(2, 2).into())
                .is_some()
        };
        assert!(of(0.1) && !of(0.0) && !of(-0.1));
    }

    /// The median of the square of a normal variable, by SciPy.
    #[test]
    fn median_of_squares() {
        assert!((MEDIAN_SQUARE - Vectors::of("constants").number("median_square")).abs() < 5e-5);
    }
}
