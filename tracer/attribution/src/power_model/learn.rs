//! How much power each class of stacks draws, learned from the run itself.
//!
//! CPU time says who ran; it does not say that one function heats the socket eight times as much as another. But the mix of functions
//! differs from window to window, and so their powers can be told apart by regression:
//!
//! ```text
//! D_k = Σ_c w_c · τ_kc + ε_k        D: energy above idle, τ: expected CPU time of class c in window k, w: watts of the class
//! Var ε_k = V_k(w) + s²             V: the times are expectations (`markov_bridge`), s: the counter's edges and what the model lacks
//! w_c ~ N(w̄, (0.6 w̄)²)              what is believed before: about the mean watts w̄ = ΣD / Στ
//! ```
//!
//! This is the power-model regression of Bircher and John (ISPASS 2007) and of SmartWatts (CCGRID 2020) on the run's own functions, by
//! reweighted least squares with a floor. The prior settles what the data leave open (two functions that always run together) at w̄,
//! that is at CPU time, and says how open it is.
//!
//! Windows in which nothing changed say more than their expected times (`stationary_windows`), and the watts are fitted again with that.
//!
//! How fast threads forget (`switching_chain`) is chosen by the likelihood of samples and energy together. The weights are used only if they pass
//! three validity checks (`validity`): cross-validation, condition number, split half. Otherwise the split is by CPU time alone, and the profile says
//! so. Conservation never depends on the fit: weights only divide an interval's energy, whose sum is the counter's.
//!
//! Leaves out how sure the watts are (`resampling`), and how times are weighted (`conditions`).

use super::evidence::Evidence;
use super::fit::{Fit, Shared};
use crate::between_samples::markov_bridge::Rate;
use crate::between_samples::raking;
use crate::between_samples::switching_chain::Chains;
use crate::power_model::classes::ClassId;
use crate::power_model::design::{Design, windows_of};
use crate::power_model::drift;
use crate::power_model::refine::refine;
use crate::power_model::validity::checks_of;
use crate::time::occupancy::Presence;
use energy_trace_model::profile::validity::ValidityChecks;

/// Classes with less than this part of the CPU time share one weight.
const SMALLEST_PART: f64 = 0.01;
/// Classes with a weight of their own, at most.
const MOST_COLUMNS: usize = 32;
/// Fewer windows than this prove nothing.
const FEWEST_WINDOWS: usize = 100;

/// What the regression says about a domain.
#[derive(Debug)]
pub(crate) enum PowerModel {
    /// Watts of each class, believed.
    Known(Model),
    /// One class has all the time: nothing to tell apart.
    Single,
    /// Several classes whose powers cannot be told apart; what the fit found all the same, where there was one.
    Unidentified(Option<Model>),
}

impl PowerModel {
    /// What was fitted, believed or not.
    pub(crate) const fn model(&self) -> Option<&Model> {
        match self {
            Self::Known(model) | Self::Unidentified(Some(model)) => Some(model),
            Self::Single | Self::Unidentified(None) => None,
        }
    }
}

/// A fitted model of a domain.
#[derive(Debug)]
pub(crate) struct Model {
    /// The column of each class.
    pub(crate) column_of: Vec<usize>,
    pub(crate) chains: Chains,
    /// Each thread's rate of forgetting.
    pub(crate) rates: Vec<Rate>,
    pub(crate) design: Design,
    pub(crate) fit: Fit,
    /// The watts at other possible rates, with their probability.
    pub(crate) others: Vec<(f64, Vec<f64>)>,
    /// The standard deviation of each column's watts by what the changes of mixes show alone, where a thread outruns the timer.
    pub(crate) by_mix: Option<Vec<f64>>,
    /// Whether the watts may split energy.
    pub(crate) validity: ValidityChecks,
}

/// Learns the watts of each class.
pub(crate) fn learn(evidence: &Evidence<'_>) -> PowerModel {
    let (column_of, shared) = columns_of(evidence.presences, evidence.class_of);
    let columns = column_of.iter().copied().max().map_or(0, |most| most + 1);
    if columns < 2 {
        return PowerModel::Single;
    }
    let column = |owner: u32| {
        evidence.class_of.get(owner as usize).and_then(|&c| column_of.get(c)).copied().unwrap_or(0)
    };
    let windows = windows_of(evidence.intervals, evidence.dynamic);
    if windows.1.len() < FEWEST_WINDOWS {
        return PowerModel::Unidentified(None);
    }
    let mut chains = Chains::new(evidence.marks, evidence.start, |mark| column(mark.owner), columns);
    let mut tried: Vec<(f64, Vec<Rate>, Design, Fit)> = Vec::new();
    for choice in chains.choices() {
        let (rates, likelihood) = chains.rates(choice);
        let design = Design::new(windows.clone(), evidence.parts, &chains, &rates, columns, column);
        let Some(fit) = Fit::new(&design, &chains) else { return PowerModel::Unidentified(None) };
        tried.push((likelihood + fit.likelihood, rates, design, fit));
    }
    let best = (0..tried.len()).max_by(|&a, &b| tried[a].0.total_cmp(&tried[b].0));
    let Some(best) = best else { return PowerModel::Unidentified(None) };
    let (top, rates, mut design, mut fit) = tried.swap_remove(best);
    if raking::rake(evidence.marks, evidence.parts, &mut chains, &rates, columns, column) {
        design = Design::new(windows.clone(), evidence.parts, &chains, &rates, columns, column);
        fit = Fit::new(&design, &chains).unwrap_or(fit);
    }
    let others = tried.into_iter().map(|(likelihood, _, _, fit)| ((likelihood - top).exp(), fit.watts));
    let others = others.filter(|(probability, _)| *probability > 1e-3).collect();
    let (design, mut fit) = drift::follow(design, fit, &chains);
    refine(&mut fit, &design, &chains, &rates, evidence);
    let validity = checks_of(&design, &fit, shared);
    let by_mix = chains.outrun().then(|| {
        let forgetful = chains.forgetful();
        by_mix(&Design::new(windows, evidence.parts, &chains, &forgetful, columns, column), &chains)
    });
    let model = Model { column_of, chains, rates, design, fit, others, by_mix, validity };
    if validity.passed() { PowerModel::Known(model) } else { PowerModel::Unidentified(Some(model)) }
}

impl Model {
    /// How likely a domain's energies are with these chains, before windows are looked at closer; minus infinity where nothing can be fitted.
    pub(crate) fn likelihood(&self, evidence: &Evidence<'_>) -> f64 {
        self.fitted(evidence).map_or(f64::NEG_INFINITY, |(_, fit)| fit.likelihood)
    }

    /// Watts fitted to a domain's energies with these chains.
    pub(crate) fn fitted(&self, evidence: &Evidence<'_>) -> Option<(Design, Fit)> {
        let column = |owner: u32| {
            evidence.class_of.get(owner as usize).and_then(|&c| self.column_of.get(c)).copied().unwrap_or(0)
        };
        let windows = windows_of(evidence.intervals, evidence.dynamic);
        let design =
            Design::new(windows, evidence.parts, &self.chains, &self.rates, self.design.columns, column);
        let fit = Fit::new(&design, &self.chains)?;
        Some((design, fit))
    }
}

/// Standard deviations of the watts that a design allows; those believed before where it allows none.
fn by_mix(design: &Design, chains: &Chains) -> Vec<f64> {
    let n = design.columns;
    let inverse =
        Fit::new(design, chains).and_then(|fit| Some(fit.normal(design, |_| true).factor()?.inverse()));
    let deviation =
        |c: usize| inverse.as_ref().map_or(f64::INFINITY, |inverse| inverse[(c, c)].max(0.0).sqrt());
    (0..n).map(deviation).collect()
}

/// The column of each class: one each for those with enough time, one for all others together.
#[expect(clippy::cast_precision_loss, reason = "parts of a sum")]
fn columns_of(presences: &[Presence], class_of: &[ClassId]) -> (Vec<usize>, Option<Shared>) {
    let mut time = vec![0_u64; class_of.iter().copied().max().map_or(0, |most| most + 1)];
    for presence in presences {
        if let Some(sum) = class_of.get(presence.owner as usize).and_then(|&class| time.get_mut(class)) {
            *sum = sum.saturating_add(presence.ns);
        }
    }
    let total = time.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns)) as f64;
    let mut large: Vec<ClassId> =
        (0..time.len()).filter(|&class| time[class] as f64 > SMALLEST_PART * total).collect();
    large.sort_by_key(|&class| (std::cmp::Reverse(time[class]), class));
    large.truncate(MOST_COLUMNS - 1);
    let column = |class: ClassId| match large.iter().position(|&l| l == class) {
        Some(own) => own,
        None if time[class] > 0 => large.len(),
        // It is not in this domain at all.
        None => 0,
    };
    let column_of: Vec<usize> = (0..time.len()).map(column).collect();
    let small =
        || (0..time.len()).filter(|&class| column_of[class] == large.len()).map(|class| time[class] as f64);
    let all = small().sum::<f64>();
    let shared = (all > 0.0)
        .then(|| Shared { column: large.len(), herfindahl: small().map(|ns| (ns / all).powi(2)).sum() });
    (column_of, shared)
}
