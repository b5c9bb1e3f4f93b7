//! How much power each call path draws, learned from the run itself.
//!
//! CPU time says who ran; it does not say that one function heats the socket eight times as much as another, or that one function does when one
//! caller calls it and not when another does. But the mix of call paths differs from window to window, and so their powers can be told apart by regression:
//!
//! ```text
//! y_k = Σ_c w_c · x_kc + ε_k        y: energy above idle, x: expected CPU time of column c in window k, w: its power
//! ```
//!
//! Columns are call paths (`columns`), what is believed of them beforehand is in `prior`, the regression in `fit`. It is the power model of Bircher and
//! John (ISPASS 2007) and of SmartWatts (CCGRID 2020), on the run's own call paths. The powers are used unless the windows contradict
//! them (`lack_of_fit`). Conservation never depends on the fit: powers only divide an interval's energy, whose sum is the counter's.
//!
//! Leaves out how sure the powers are (`uncertainty`), and how times are weighted (`conditions`).

use super::columns::Columns;
use super::counter_edges::Edges;
use super::design::{Design, Look};
use super::evidence::Evidence;
use super::fit::{Fit, LONGER};
use super::windows::Windows;
use super::{drift, lack_of_fit, prior};
use crate::between_samples::expected_time::Times;
use crate::between_samples::switching_chain::Chains;
use crate::numerics::parallel::{both, map};
use crate::time::pieces::Mark;
use energy_trace_model::profile::validity::ValidityChecks;
use nalgebra::DMatrix;
use std::sync::Arc;

/// By how much the log-likelihood must rise for columns that samples hardly show.
const CLEAR: f64 = 20.0;
/// Fewer windows than this prove nothing.
const FEWEST_WINDOWS: usize = 30;

/// What the regression says about a domain.
#[derive(Debug)]
pub(crate) enum PowerModel {
    /// Powers that may split energy.
    Known(Model),
    /// Windows contradict the powers.
    Refused(Model),
    /// One column has all the time: nothing can be told apart, or there is nothing to.
    Single(Columns),
}

impl PowerModel {
    /// What was fitted, of use or not.
    pub(crate) const fn model(&self) -> Option<&Model> {
        match self {
            Self::Known(model) | Self::Refused(model) => Some(model),
            Self::Single(_) => None,
        }
    }

    /// The columns.
    pub(crate) const fn columns(&self) -> &Columns {
        match self {
            Self::Known(model) | Self::Refused(model) => &model.columns,
            Self::Single(columns) => columns,
        }
    }
}

/// A fitted model of a domain.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) columns: Columns,
    /// The columns that parts show, and those that they hardly show: `columns` are one of these.
    pub(crate) shown: Arc<(Columns, Columns)>,
    pub(crate) chains: Arc<Chains>,
    pub(crate) design: Design,
    pub(crate) fit: Fit,
    /// The inverse covariance of powers beforehand, in parts of 1 / w̄².
    pub(crate) prior: DMatrix<f64>,
    /// Joules of each column as other assumptions about the times between samples have it: what differs shows how much rests on them
    /// (`find_alternatives`).
    pub(crate) alternatives: Vec<Vec<f64>>,
    /// By which lag power follows what runs, in nanoseconds.
    pub(crate) lag_ns: u64,
    /// Mean square (J²) of what the counter's edges put each window off.
    pub(crate) edges: Vec<f64>,
    pub(crate) validity: ValidityChecks,
    /// How likely energies were before any drift was followed.
    pub(crate) steady_likelihood: f64,
    /// Joules of each column as they were before a drift was followed; `None` where none was.
    pub(crate) steady_energies: Option<Vec<f64>>,
}

/// Learns the powers of a domain.
pub(crate) fn learn(evidence: &Evidence<'_>) -> PowerModel {
    let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
    let columns = Columns::of(evidence.tree, evidence.parts, &windows);
    learn_of(&Arc::new(columns), &windows, None, evidence)
}

/// Learns the powers of a domain from evidence whose parts are others than before.
pub(crate) fn learn_again(before: &Model, evidence: &Evidence<'_>) -> PowerModel {
    let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
    let columns = Columns::of(evidence.tree, evidence.parts, &windows);
    learn_of(&Arc::new(columns), &windows, Some(before), evidence)
}

/// Learns the powers of a domain from evidence whose parts take the same times as before, and so show the same columns.
pub(crate) fn learn_of_same_times(before: &Model, evidence: &Evidence<'_>) -> PowerModel {
    let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
    learn_of(&before.shown, &windows, Some(before), evidence)
}

/// Learns the powers of a domain, of columns that parts show and hardly show.
fn learn_of(
    shown: &Arc<(Columns, Columns)>,
    windows: &Windows,
    before: Option<&Model>,
    evidence: &Evidence<'_>,
) -> PowerModel {
    let (sure, finer) = &**shown;
    let known = if windows.len() >= FEWEST_WINDOWS && sure.len() > 1 {
        let learn = |columns: &Columns| Model::learn(columns.clone(), windows, shown, before, evidence);
        let finer = Some(finer).filter(|finer| finer.len() > sure.len());
        let finer = finer.and_then(|finer| learn(finer).ok());
        learn(sure).map(|sure| clearer(sure, finer))
    } else {
        Err(sure.clone())
    };
    match known {
        Ok(model) if model.validity.usable() => PowerModel::Known(model),
        Ok(model) => PowerModel::Refused(model),
        Err(columns) => PowerModel::Single(columns.together(evidence.tree)),
    }
}

/// The model with columns that samples hardly show, where energies are clearly likelier with it: what differs much within a column would be taken for
/// its neighbours' doing.
fn clearer(sure: Model, finer: Option<Model>) -> Model {
    let least = sure.fit.likelihood + CLEAR;
    finer.filter(|finer| finer.fit.likelihood > least).unwrap_or(sure)
}

impl Model {
    /// The powers of these columns; the columns again where there is no power to speak of.
    fn learn(
        columns: Columns,
        windows: &Windows,
        shown: &Arc<(Columns, Columns)>,
        before: Option<&Self>,
        evidence: &Evidence<'_>,
    ) -> Result<Self, Columns> {
        let tree = evidence.tree;
        let of_owners = columns.of_owners(tree);
        let column = |owner: u32| of_owners.of(owner);
        // Samples are the same: in the same columns, so are their chains.
        let known = before.filter(|before| before.columns.are_of_the_same_paths(&columns));
        let chains = known.map_or_else(
            || Arc::new(Chains::new(evidence.marks, evidence.start, column)),
            |before| Arc::clone(&before.chains),
        );
        let prior = prior::precision(tree, &columns, evidence.crowded);
        let Some((design, fit, edges)) = fitted(&columns, windows, &chains, &prior, evidence) else {
            return Err(columns);
        };
        let (steady_likelihood, steady_energies) = (fit.likelihood, design.energies(&fit.watts));
        let (mut design, fit) = if evidence.drifting {
            drift::follow(design, fit, |design| Fit::new(design, &chains, &edges, &prior))
        } else {
            (design, fit)
        };
        design.forget_doubts();
        let is_drifting = design.drift.iter().any(|drift| *drift != 1.0);
        let on_average = design.on_average(&fit.watts);
        let edges = edges.variances(&design.windows, &on_average, &chains.moments(&on_average));
        let validity = lack_of_fit::checks_of(&fit);
        Ok(Self {
            columns,
            shown: Arc::clone(shown),
            chains,
            design,
            fit,
            prior,
            alternatives: vec![],
            lag_ns: evidence.lag_ns,
            edges,
            validity,
            steady_likelihood,
            steady_energies: is_drifting.then_some(steady_energies),
        })
    }

    /// Finds what other assumptions would give each column; for the model that is used at last. Whether all power drifts, or what ran in these
    /// stretches draws more, the energies of what ran in few stretches alone do not show. What longer windows say would be the same if each moment's
    /// work were in its own.
    pub(crate) fn find_alternatives(&mut self, evidence: &Evidence<'_>) {
        let Self { columns, design, fit, prior, .. } = &*self;
        let mut found = alternatives(columns, design, fit, prior, evidence);
        found.extend(evidence.crowded.then(|| beside_nobody(design, fit)));
        found.extend(LONGER.map(|times| design.energies(&fit.solve_longer(design, prior, times))));
        found.extend(self.steady_energies.clone());
        self.alternatives = found;
    }

    /// Whether power follows what runs at once, and nothing but what runs decides about it.
    pub(crate) fn is_steady(&self) -> bool {
        self.lag_ns == 0 && self.design.drift.iter().all(|drift| *drift == 1.0)
    }

    /// What columns draw beside busy CPUs, in parts of what they draw alone: the mean by energy. `None` where that was not asked.
    pub(crate) fn beside_others(&self) -> Option<f64> {
        let (alone, beside) = self.fit.watts.split_at_checked(self.design.paths)?;
        let energies = self.design.energies(&self.fit.watts);
        let ratio = |(path, energy): (usize, f64)| {
            beside.get(path).map(|beside| (energy, energy * beside / alone[path]))
        };
        let sums = energies.into_iter().enumerate().filter_map(ratio);
        let (all, weighed) = sums.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Some(weighed / all).filter(|ratio| ratio.is_finite())
    }

    /// How likely a domain's energies are with these columns and chains; minus infinity where nothing can be fitted.
    pub(crate) fn likelihood(&self, evidence: &Evidence<'_>) -> f64 {
        let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
        let fitted = fitted(&self.columns, &windows, &self.chains, &self.prior, evidence);
        fitted.map_or(f64::NEG_INFINITY, |(_, fit, _)| fit.likelihood)
    }

    /// The same with each of these lags (in nanoseconds), in one look at the parts.
    pub(crate) fn likelihoods<const LAGS: usize>(
        &self,
        evidence: &Evidence<'_>,
        lags: [u64; LAGS],
    ) -> Vec<f64> {
        let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
        let of_owners = self.columns.of_owners(evidence.tree);
        let column = |owner: u32| of_owners.of(owner);
        let times = Times::Chain(&self.chains);
        let Evidence { parts, crowded, .. } = *evidence;
        let look = Look { parts, thinned: None, times, paths: self.columns.len(), crowded, doubted: true };
        let designs = Design::of_lags(&windows, &look, lags, column);
        let edges = Edges::new(evidence, times, column);
        let fit = |design: &Design| Fit::new(design, &self.chains, &edges, &self.prior);
        let likelihood = |design: &Design| fit(design).map_or(f64::NEG_INFINITY, |fit| fit.likelihood);
        map(&designs, parts.len(), likelihood)
    }
}

/// Powers fitted to a domain's energies.
fn fitted(
    columns: &Columns,
    windows: &Windows,
    chains: &Chains,
    prior: &DMatrix<f64>,
    evidence: &Evidence<'_>,
) -> Option<(Design, Fit, Edges)> {
    let of_owners = columns.of_owners(evidence.tree);
    let column = |owner: u32| of_owners.of(owner);
    let times = Times::Chain(chains);
    let design = Design::new(
        windows,
        evidence.parts,
        (times, evidence.lag_ns),
        (columns.len(), evidence.crowded),
        column,
    );
    let edges = Edges::new(evidence, times, column);
    let fit = Fit::new(&design, chains, &edges, prior)?;
    Some((design, fit, edges))
}

/// Joules of each column half-way to where each would draw what it draws alone: that one column draws less beside another may as well be the
/// other's doing, and the counter shows their sum alone. Where all draw less by the same part this changes nothing.
fn beside_nobody(design: &Design, fit: &Fit) -> Vec<f64> {
    let alone = fit.watts.get(..design.paths).unwrap_or_default();
    let shown = design.energies(&fit.watts);
    let other = design.energies(&[alone, alone].concat());
    shown.iter().zip(&other).map(|(shown, other)| f64::midpoint(*shown, *other)).collect()
}

/// Joules of each column if each moment were the nearest sample's, and if only every other sample had been taken, with windows that count for as
/// much. What half of the samples change is about what twice as many would (Cook, Stefanski: Simulation-extrapolation estimation in
/// parametric measurement error models, 1994).
fn alternatives(
    columns: &Columns,
    design: &Design,
    fit: &Fit,
    prior: &DMatrix<f64>,
    evidence: &Evidence<'_>,
) -> Vec<Vec<f64>> {
    let of_owners = columns.of_owners(evidence.tree);
    let column = |owner: u32| of_owners.of(owner);
    let Evidence { parts, crowded, .. } = *evidence;
    let energies = |times: Times<'_>, thinned: Option<(&[Mark], bool)>| {
        let look = Look { parts, thinned, times, paths: columns.len(), crowded, doubted: false };
        let mut other = Design::of(&design.windows, &look, evidence.lag_ns, column);
        other.rescale(&design.drift);
        let watts = fit.solve(&other, prior);
        other.energies(&watts)
    };
    let thinned = |odd: bool| {
        let chains = Chains::of_some(evidence.marks, Some(odd), evidence.start, column);
        energies(Times::Chain(&chains), Some((evidence.marks, odd)))
    };
    let halves = || (thinned(true), thinned(false));
    let (nearest, (odd, even)) = both(|| energies(Times::Nearest, None), halves);
    let halves = odd.iter().zip(&even).map(|(odd, even)| f64::midpoint(*odd, *even)).collect();
    vec![nearest, halves]
}

#[cfg(test)]
mod tests {
    use super::{Evidence, Model, PowerModel, beside_nobody, learn, learn_again, learn_of_same_times};
    use crate::between_samples::expected_time::Times;
    use crate::power_model::design::Design;
    use crate::power_model::fit::Fit;
    use crate::power_model::tests::toy::Toy;
    use crate::power_model::windows::Windows;
    use crate::tests::vectors::near;
    use nalgebra::DMatrix;

    /// Two functions of 30 and 10 W whose times differ from window to window.
    fn toy(windows: u32, watts: [f64; 2]) -> Toy {
        let row = |k: u32| vec![f64::from(1 + k * 7 % 11), f64::from(1 + k * 5 % 8)];
        let joules = |k: u32| row(k).iter().zip(watts).map(|(ms, watts)| ms * watts / 1e3).sum::<f64>();
        let ms: Vec<Vec<f64>> = (0..windows).map(row).collect();
        Toy::new(20.0, &ms, &(0..windows).map(joules).collect::<Vec<_>>(), 0.0)
    }

    fn known(power_model: PowerModel) -> Model {
        match power_model {
            PowerModel::Known(model) => model,
            other => panic!("{other:?}"),
        }
    }

    /// Powers are found; thirty windows are enough, one less is not, and nothing is told apart where there is one function or no energy.
    #[test]
    fn powers_are_found() {
        let toy_of = toy(200, [30.0, 10.0]);
        let model = known(learn(&toy_of.evidence()));
        let mut watts = model.fit.watts.clone();
        watts.sort_by(f64::total_cmp);
        near(&watts, &[10.0, 30.0], 0.01);
        assert!(model.validity.usable() && model.alternatives.is_empty());
        assert_eq!(model.edges.len(), 200);
        let is_known = |toy: &Toy| learn(&toy.evidence()).model().is_some();
        assert!(is_known(&toy(30, [30.0, 10.0])) && !is_known(&toy(29, [30.0, 10.0])));
        assert!(!is_known(&toy(200, [0.0, 0.0])));
        let alone = Toy::new(20.0, &vec![vec![5.0]; 100], &[0.1; 100], 0.0);
        let single = learn(&alone.evidence());
        assert!(matches!(single, PowerModel::Single(_)) && single.columns().len() == 1);
    }

    /// Powers that differ by a factor of four from window to window, in windows in which nothing else explains it, are refused.
    #[test]
    fn wild_windows_are_refused() {
        let mut wild = toy(200, [30.0, 10.0]);
        let factor = |k: u64| if k * k % 5 < 2 { 2.0 } else { 0.4 };
        for (energy, k) in wild.dynamic.iter_mut().zip(0..) {
            *energy = energy_trace_model::units::MicroJoules::from_uj(
                (energy.as_joules() * 1e6 * factor(k)) as i64,
            );
        }
        assert!(matches!(learn(&wild.evidence()), PowerModel::Refused(_)));
    }

    /// Where parts take the same times, what is learned with the columns found before is what is learned anew; where one takes another time, the
    /// columns are found again, and are those of a run that had been so from the start.
    #[test]
    fn learned_again() {
        let (toy, other) = (toy(200, [30.0, 10.0]), toy(200, [12.0, 25.0]));
        let before = known(learn(&toy.evidence()));
        let anew = known(learn(&other.evidence()));
        let again = known(learn_of_same_times(&before, &other.evidence()));
        assert_eq!((&again.fit.watts, again.fit.likelihood), (&anew.fit.watts, anew.fit.likelihood));
        let alone = Toy::new(20.0, &vec![vec![5.0]; 100], &[0.1; 100], 0.0);
        assert!(learn_of_same_times(&before, &alone.evidence()).columns().len() == 2);
        assert!(learn_again(&before, &alone.evidence()).columns().len() == 1);
    }

    /// Where all times are certain other assumptions about them change nothing, and longer windows next to nothing: what is believed beforehand weighs more there.
    #[test]
    fn certain_times_have_no_alternatives() {
        let toy = toy(200, [30.0, 10.0]);
        let mut model = known(learn(&toy.evidence()));
        model.find_alternatives(&toy.evidence());
        let energies = model.design.energies(&model.fit.watts);
        assert_eq!(model.alternatives.len(), 4);
        let (of_times, longer) = model.alternatives.split_at(2);
        of_times.iter().for_each(|other| near(other, &energies, 1e-6));
        longer.iter().for_each(|other| near(other, &energies, 1e-4));
        let likelihood = model.likelihood(&toy.evidence());
        assert!((likelihood - model.fit.likelihood).abs() < 1e-6 * likelihood.abs());
        let later = Evidence { lag_ns: 20_000_000, ..toy.evidence() };
        assert!(model.likelihood(&later) < likelihood - 10.0);
    }

    /// Where a drift was followed, what there would be without it is another opinion: a third function runs only while all draws half as much
    /// again, and has that excess or has it not.
    #[test]
    fn drifts_are_opinions() {
        let late = |k: u32| (200..240).contains(&k);
        let row =
            |k: u32| vec![f64::from(1 + k * 7 % 11), f64::from(k * 5 % 8), if late(k) { 3.0 } else { 0.0 }];
        let joules = |faster: f64, k: u32| {
            let sum: f64 = row(k).iter().zip([30.0, 10.0, 20.0]).map(|(ms, watts)| ms * watts / 1e3).sum();
            let noise = f64::from(k * 37 % 13) - 6.0;
            sum * if k < 150 { 1.0 } else { faster } * (1.0 + 0.01 * noise)
        };
        let ms: Vec<Vec<f64>> = (0..400).map(row).collect();
        let learned = |faster: f64| {
            let toy = Toy::new(20.0, &ms, &(0..400).map(|k| joules(faster, k)).collect::<Vec<_>>(), 0.0);
            let mut model = known(learn(&toy.evidence()));
            model.find_alternatives(&toy.evidence());
            model
        };
        let drifting = learned(1.5);
        let energies = drifting.design.energies(&drifting.fit.watts);
        let steady = drifting.alternatives.last().unwrap();
        assert_eq!(drifting.alternatives.len(), 5);
        let apart =
            energies.iter().zip(steady).map(|(now, then)| (now - then).abs() / now).fold(0.0, f64::max);
        assert!(apart > 0.1, "{energies:?} or {steady:?}");
        assert_eq!(learned(1.0).alternatives.len(), 4);
    }

    /// Half the energy of each path beside busy CPUs: what it draws there in parts of alone, by energy; and energies half-way to where nobody
    /// draws less.
    #[test]
    fn beside_busy_cpus() {
        let mut toy = Toy::new(20.0, &[vec![4.0, 2.0], vec![4.0, 2.0]], &[1.0, 1.0], 0.0);
        toy.parts[0].beside = 1.0;
        toy.parts[1].beside = 1.0;
        let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
        let design = Design::new(&windows, &toy.listed(), (Times::Nearest, 0), (2, true), |owner| owner);
        let fit = Fit {
            mean: 10.0,
            watts: vec![10.0, 20.0, 5.0, 20.0],
            residuals: vec![],
            physical: vec![],
            fluctuation: 0.0,
            weights: vec![],
            variances: vec![],
            likelihood: 0.0,
        };
        // Beside: 4 ms of 5 W and 2 ms of 20 W are a third and two thirds; alone a half each.
        let energies = design.energies(&fit.watts);
        near(&energies, &[1.0 / 3.0 + 0.5, 2.0 / 3.0 + 0.5], 1e-9);
        near(&beside_nobody(&design, &fit), &[(5.0 / 6.0 + 1.0) / 2.0, (7.0 / 6.0 + 1.0) / 2.0], 1e-9);
        let alone = Fit { watts: vec![10.0, 20.0], ..fit.clone() };
        assert_eq!(toy.model_of(alone, DMatrix::identity(2, 2)).beside_others(), None);
        let mut model = toy.model_of(fit, DMatrix::identity(4, 4));
        model.design = design;
        // 0.5 of 5/6 J and 1 of 7/6 J.
        near(&[model.beside_others().unwrap()], &[(0.5 * 5.0 / 6.0 + 7.0 / 6.0) / 2.0], 1e-9);
    }
}
