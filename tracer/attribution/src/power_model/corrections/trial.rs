//! Tries what power depends on beside call paths, and how the counter is behind: is energy likelier with it,
//! while columns and chains stay as they are?
//!
//! Leaves out what is tried (the corrections' own files).

use super::{Detect, asked};
use crate::power_model::adjusted::Adjusted;
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::Model;
use crate::power_model::settings::Settings;
use crate::time::compact_slices::DomainSlices;
use crate::time::conditions::Conditions;
use crate::timeline::EnergyInterval;

/// By how much the log-likelihood must rise for a correction by one number of a few.
pub(crate) const LEAST_GAIN: f64 = 3.0;

/// What trials go by.
pub(crate) struct Trial<'a, 'p> {
    pub(crate) intervals: &'a [EnergyInterval],
    pub(crate) slices: &'a DomainSlices<'p>,
    pub(crate) conditions: &'a Conditions,
    /// Whose columns and chains stay.
    pub(crate) model: &'a Model,
    /// All other evidence.
    pub(crate) with: &'a Evidence<'a>,
}

/// Settings, and how likely energies are with them.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'p> {
    pub(crate) likelihood: f64,
    pub(crate) adjusted: Adjusted<'p>,
}

impl<'p> Trial<'_, 'p> {
    /// The likeliest settings, found one after the other from the usual ones, and how likely energies are
    /// with those, if that is known; and whether they are others than the usual.
    pub(crate) fn run(&self, usual: Adjusted<'p>, likelihood: Option<f64>) -> (Adjusted<'p>, bool) {
        let mut best = match likelihood {
            Some(likelihood) => Candidate { likelihood, adjusted: usual },
            None => self.candidate(usual),
        };
        let mut changed = false;
        for correction in asked(best.adjusted.settings.left_out) {
            if let Detect::ByTrial(detect) = correction.detect {
                changed |= detect(self, &mut best);
            }
        }
        (best.adjusted, changed)
    }

    /// How likely energies are with this.
    pub(crate) fn candidate(&self, adjusted: Adjusted<'p>) -> Candidate<'p> {
        let likelihood = self.model.likelihood(&self.with.adjusted(&adjusted));
        Candidate { likelihood, adjusted }
    }

    /// Intervals and times with these settings.
    pub(crate) fn adjusted(&self, settings: Settings) -> Adjusted<'p> {
        Adjusted::new(self.intervals, self.slices, self.conditions, settings)
    }

    /// Takes the likeliest of others where it is clearly likelier. One after the other: each holds all times.
    pub(crate) fn choose(
        &self,
        best: &mut Candidate<'p>,
        others: impl Iterator<Item = Adjusted<'p>>,
    ) -> bool {
        let better = |now: Candidate<'p>, then: Candidate<'p>| {
            if then.likelihood > now.likelihood { then } else { now }
        };
        let others = others.map(|adjusted| self.candidate(adjusted)).reduce(better);
        let clearer = others.filter(|other| other.likelihood > best.likelihood + LEAST_GAIN);
        clearer.map(|other| *best = other).is_some()
    }

    /// How likely energies are with each of these lags (in nanoseconds).
    pub(crate) fn likelihoods_of_lags<const LAGS: usize>(
        &self,
        adjusted: &Adjusted<'_>,
        lags: [u64; LAGS],
    ) -> Vec<f64> {
        self.model.likelihoods(&self.with.adjusted(adjusted), lags)
    }
}
