//! How much power each call path draws, learned from the run itself.
//!
//! CPU time says who ran; it does not say that one function heats the socket eight times as much as another,
//! or that one function does when one caller calls it and not when another does. But the mix of call paths
//! differs from window to window, and so their powers can be told apart by regression:
//!
//! ```text
//! y_k = Σ_c w_c · x_kc + ε_k    y: energy above idle, x: expected CPU time of column c in window k, w: power
//! ```
//!
//! Columns are call paths (`columns`), what is believed of them beforehand is in `prior`, the regression in
//! `fit`. It is the power model of Bircher and John (ISPASS 2007) and of SmartWatts (CCGRID 2020), on the
//! run's own call paths. The powers are used unless the windows contradict them (`lack_of_fit`). Conservation
//! never depends on the fit: powers only divide an interval's energy, whose sum is the counter's.
//!
//! Leaves out how sure the powers are (`uncertainty`), and how times are weighted (`conditions`).

use super::columns::Columns;
use super::corrections::{Correction, Detect, asked};
use super::counter_edges::Edges;
use super::design::{Design, DesignOptions};
use super::evidence::Evidence;
use super::fit::Fit;
use super::prior::Prior;
use super::settings::Settings;
use super::windows::Windows;
use super::{lack_of_fit, pairs, prior};
use crate::between_samples::balance::balanced;
use crate::between_samples::expected_time::Times;
use crate::between_samples::switching_chain::Chains;
use crate::numerics::parallel::map;
use crate::parts::{LeftOut, Part};
use energy_trace_model::profile::validity::ValidityChecks;
use std::sync::Arc;

/// By how much the log-likelihood must rise for columns that samples hardly show.
const LEAST_GAIN: f64 = 20.0;
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
    /// The columns that slices show, and those that they hardly show: `columns` are one of these.
    pub(crate) shown: Arc<(Columns, Columns)>,
    pub(crate) chains: Arc<Chains>,
    pub(crate) design: Design,
    pub(crate) fit: Fit,
    /// What was believed of the powers.
    pub(crate) prior: Prior,
    /// Joules of each column as other assumptions have it, found for the model that is used at last
    /// (`powers`).
    pub(crate) alternatives: Vec<Vec<f64>>,
    /// The corrections that it was learned with.
    pub(crate) settings: Settings,
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
    let columns = columns_of(&windows, evidence);
    learn_of(&Arc::new(columns), &windows, None, evidence)
}

/// Learns the powers of a domain from evidence whose slices are others than before.
pub(crate) fn learn_again(before: &Model, evidence: &Evidence<'_>) -> PowerModel {
    let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
    let columns = columns_of(&windows, evidence);
    learn_of(&Arc::new(columns), &windows, Some(before), evidence)
}

/// Learns the powers of a domain from evidence whose slices take the same times as before, and so show the
/// same columns.
pub(crate) fn learn_of_same_times(before: &Model, evidence: &Evidence<'_>) -> PowerModel {
    let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
    learn_of(&before.shown, &windows, Some(before), evidence)
}

/// The columns that slices show, and those that they hardly show; where pairs of samples show more, these.
fn columns_of(windows: &Windows, evidence: &Evidence<'_>) -> (Columns, Columns) {
    let Settings { left_out, lag_ns, contended, .. } = evidence.settings;
    let (sure, finer) = Columns::of(evidence.tree, evidence.slices, windows, left_out);
    // What lags is no window's own; contended columns are two each.
    let can = !left_out.has(Part::Pairs) && lag_ns == 0 && !contended;
    let by_pairs = can.then(|| pairs::columns(evidence)).flatten().filter(|all| !all.are_among(&sure));
    match by_pairs.and_then(|all| pairs::shown(all, windows, evidence)) {
        Some(all) => (all.clone(), all),
        None => (sure, finer),
    }
}

/// Learns the powers of a domain, of columns that slices show and hardly show.
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
        learn(sure).map(|sure| prefer_finer_columns(sure, finer))
    } else {
        Err(sure.clone())
    };
    match known {
        Ok(model) if model.validity.usable() => PowerModel::Known(model),
        Ok(model) => PowerModel::Refused(model),
        Err(columns) => PowerModel::Single(columns.together(evidence.tree)),
    }
}

/// The model with columns that samples hardly show, where energies are clearly likelier with it: what differs
/// much within a column would be taken for its neighbours' doing.
fn prefer_finer_columns(sure: Model, finer: Option<Model>) -> Model {
    let least = sure.fit.likelihood + LEAST_GAIN;
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
        let Evidence { tree, settings: Settings { left_out, contended, .. }, .. } = *evidence;
        let of_owners = columns.of_owners(tree);
        let column = |owner: u32| of_owners.of(owner);
        // Samples are the same: in the same columns, so are their chains.
        let known = before.filter(|before| before.columns.are_of_the_same_paths(&columns));
        let chains = known.map_or_else(
            || {
                let chains = Chains::of_some((evidence.points, None), left_out, evidence.start, column);
                Arc::new(balanced(chains, evidence.slices, None, column))
            },
            |before| Arc::clone(&before.chains),
        );
        let prior = if left_out.has(Part::Prior) {
            prior::independent(columns.len(), contended)
        } else {
            prior::precision(tree, &columns, contended)
        };
        let prior = Prior::from(prior).carrying(evidence.carried, tree, &columns);
        let Some((design, fit, edges)) = fitted(&columns, windows, &chains, &prior, evidence) else {
            return Err(columns);
        };
        let (steady_likelihood, steady_energies) = (fit.likelihood, design.energies(&fit.watts));
        let refit = |design: &Design| Fit::new(design, &chains, &edges, &prior);
        let (mut design, fit) =
            if evidence.settings.in_fits { corrected(design, fit, &refit, left_out) } else { (design, fit) };
        let fit = if columns.by_pairs().is_some() {
            let Some(by_pairs) = pairs::moments(&columns, windows, evidence) else { return Err(columns) };
            fit.of_pairs(by_pairs, (&design, &chains, &edges), &prior)
        } else {
            fit
        };
        design.forget_time_variances();
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
            settings: evidence.settings,
            edges,
            validity,
            steady_likelihood,
            steady_energies: is_drifting.then_some(steady_energies),
        })
    }

    /// Whether power follows what runs at once, and nothing but what runs decides about it.
    pub(crate) fn is_steady(&self) -> bool {
        self.settings.lag_ns == 0 && self.design.drift.iter().all(|drift| *drift == 1.0)
    }

    /// What contended columns draw, in parts of what they draw alone: the mean by energy. `None` where there
    /// are none.
    pub(crate) fn contended_ratio(&self) -> Option<f64> {
        let (alone, contended) = self.fit.watts.split_at_checked(self.design.paths)?;
        let energies = self.design.energies(&self.fit.watts);
        let ratio = |(path, energy): (usize, f64)| {
            contended.get(path).map(|contended| (energy, energy * contended / alone[path]))
        };
        let sums = energies.into_iter().enumerate().filter_map(ratio);
        let (all, weighed) = sums.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Some(weighed / all).filter(|ratio| ratio.is_finite())
    }

    /// How likely a domain's energies are with these columns and chains; minus infinity where nothing can be
    /// fitted.
    pub(crate) fn likelihood(&self, evidence: &Evidence<'_>) -> f64 {
        let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
        let fitted = fitted(&self.columns, &windows, &self.chains, &self.prior, evidence);
        fitted.map_or(f64::NEG_INFINITY, |(_, fit, _)| fit.likelihood)
    }

    /// The same with each of these lags (in nanoseconds), in one pass over the slices.
    pub(crate) fn likelihoods<const LAGS: usize>(
        &self,
        evidence: &Evidence<'_>,
        lags: [u64; LAGS],
    ) -> Vec<f64> {
        let windows = Windows::of_intervals(evidence.intervals, evidence.dynamic);
        let of_owners = self.columns.of_owners(evidence.tree);
        let column = |owner: u32| of_owners.of(owner);
        let times = Times::Chain(&self.chains);
        let (slices, contended) = (evidence.slices, evidence.settings.contended);
        let options = DesignOptions {
            slices,
            thinned: None,
            times,
            paths: self.columns.len(),
            contended,
            with_variances: true,
        };
        let designs = Design::of_lags(&windows, &options, lags, column);
        let edges = Edges::new(evidence, times, column);
        let fit = |design: &Design| Fit::new(design, &self.chains, &edges, &self.prior);
        let likelihood = |design: &Design| fit(design).map_or(f64::NEG_INFINITY, |fit| fit.likelihood);
        map(&designs, slices.len(), likelihood)
    }
}

/// Powers fitted to a domain's energies.
fn fitted(
    columns: &Columns,
    windows: &Windows,
    chains: &Chains,
    prior: &Prior,
    evidence: &Evidence<'_>,
) -> Option<(Design, Fit, Edges)> {
    let of_owners = columns.of_owners(evidence.tree);
    let column = |owner: u32| of_owners.of(owner);
    let times = Times::Chain(chains);
    let design = Design::new(
        windows,
        evidence.slices,
        (times, evidence.settings.lag_ns),
        (columns.len(), evidence.settings.contended),
        column,
    );
    let edges = Edges::new(evidence, times, column);
    let fit = Fit::new(&design, chains, &edges, prior)?;
    Some((design, fit, edges))
}

/// Powers after the corrections that each fit may show.
fn corrected(
    design: Design,
    fit: Fit,
    refit: &dyn Fn(&Design) -> Option<Fit>,
    left_out: LeftOut,
) -> (Design, Fit) {
    let correct = |(design, fit), correction: Correction| match correction.detect {
        Detect::InEachFit(detect) => detect(design, fit, refit),
        _ => (design, fit),
    };
    asked(left_out).fold((design, fit), correct)
}

#[cfg(test)]
mod tests {
    use super::{PowerModel, learn, learn_again, learn_of_same_times};
    use crate::power_model::tests::toy::{Toy, known, two_functions};
    use crate::tests::vectors::near;

    /// Powers are found; thirty windows are enough, one less is not, and nothing is told apart where there is
    /// one function or no energy.
    #[test]
    fn powers_are_found() {
        let toy_of = two_functions(200, [30.0, 10.0]);
        let model = known(learn(&toy_of.evidence()));
        let mut watts = model.fit.watts.clone();
        watts.sort_by(f64::total_cmp);
        near(&watts, &[10.0, 30.0], 0.01);
        assert!(model.validity.usable() && model.alternatives.is_empty());
        assert_eq!(model.edges.len(), 200);
        let is_known = |toy: &Toy| learn(&toy.evidence()).model().is_some();
        assert!(is_known(&two_functions(30, [30.0, 10.0])) && !is_known(&two_functions(29, [30.0, 10.0])));
        assert!(!is_known(&two_functions(200, [0.0, 0.0])));
        let alone = Toy::new(20.0, &vec![vec![5.0]; 100], &[0.1; 100], 0.0);
        let single = learn(&alone.evidence());
        assert!(matches!(single, PowerModel::Single(_)) && single.columns().len() == 1);
    }

    /// Powers that differ by a factor of four from window to window, in windows in which nothing else
    /// explains it, are refused.
    #[test]
    fn wild_windows_are_refused() {
        let mut wild = two_functions(200, [30.0, 10.0]);
        let factor = |k: u64| if k * k % 5 < 2 { 2.0 } else { 0.4 };
        for (energy, k) in wild.dynamic.iter_mut().zip(0..) {
            *energy = energy_trace_model::units::MicroJoules::from_uj(
                (energy.as_joules() * 1e6 * factor(k)) as i64,
            );
        }
        assert!(matches!(learn(&wild.evidence()), PowerModel::Refused(_)));
    }

    /// Where slices take the same times, what is learned with the columns found before is what is learned
    /// anew; where one takes another time, the columns are found again, and are those of a run that had been
    /// so from the start.
    #[test]
    fn learned_again() {
        let (toy, other) = (two_functions(200, [30.0, 10.0]), two_functions(200, [12.0, 25.0]));
        let before = known(learn(&toy.evidence()));
        let anew = known(learn(&other.evidence()));
        let again = known(learn_of_same_times(&before, &other.evidence()));
        assert_eq!((&again.fit.watts, again.fit.likelihood), (&anew.fit.watts, anew.fit.likelihood));
        let alone = Toy::new(20.0, &vec![vec![5.0]; 100], &[0.1; 100], 0.0);
        assert!(learn_of_same_times(&before, &alone.evidence()).columns().len() == 2);
        assert!(learn_again(&before, &alone.evidence()).columns().len() == 1);
    }
}
