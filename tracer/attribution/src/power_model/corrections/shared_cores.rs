//! Hardware threads that share a core: while several of them run, each draws less than it does alone.
//!
//! ```text
//! power of a thread beside a busy sibling = h · its power alone,      h = (1 + η) / 2
//! ```
//!
//! Two busy threads of a core draw (1 + η) times what one does: η = 0.15 by METRION (GREENS 2026). A run
//! often shows it better: of a few values the one that makes its energies likeliest is taken. Time itself is
//! not changed by it, nor is a split by CPU time alone. Leaves out when siblings were busy (`time::smt`), and
//! machines that do not say which CPUs share a core (`contention`).

use super::trial::{Candidate, Trial};
use crate::between_samples::interval_slices::IntervalSlices;
use crate::power_model::settings::{Circumstances, Settings};

/// η where a run does not show it.
const USUAL: f64 = 0.15;
/// What it may be: at 1 a busy sibling makes no difference.
const POSSIBLE: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.5, 1.0];

/// What is usual, where a core was shared.
pub(super) fn usual(settings: &mut Settings, slices: &IntervalSlices<'_>) {
    settings.eta = slices.share_cores().then_some(USUAL);
}

/// What a thread draws in parts of what it would alone.
pub(super) fn weight(settings: &Settings, here: &Circumstances) -> f64 {
    settings.eta.map_or(1.0, |eta| 1.0 - here.shared * (1.0 - f64::midpoint(1.0, eta)))
}

/// Takes another η where energies are clearly likelier with it.
pub(super) fn detect<'p>(trial: &Trial<'_, 'p>, best: &mut Candidate<'p>) -> bool {
    let settings = best.adjusted.settings;
    if settings.eta.is_none() {
        return false;
    }
    let now = best.adjusted.clone();
    let others = POSSIBLE.map(|eta| Settings { eta: Some(eta), ..settings });
    trial.choose(best, others.into_iter().map(|settings| now.clone().weighed(settings)))
}

#[cfg(test)]
mod tests {
    use super::{Circumstances, Settings, weight};

    /// Two busy threads of a core draw 1.15 times what one does, half of it each; with η = 1 nothing is
    /// weighed.
    #[test]
    fn weights() {
        let of = |shared, eta| {
            let settings = Settings { eta: Some(eta), ..Settings::default() };
            weight(&settings, &Circumstances { shared, clock: 1.0 })
        };
        assert!((2.0 * of(1.0, 0.15) - 1.15).abs() < 1e-12);
        assert!((of(0.5, 0.0) - 0.75).abs() < 1e-12);
        assert!((of(0.7, 1.0) - 1.0).abs() < 1e-12);
    }
}
