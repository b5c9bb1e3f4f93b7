//! Power that follows what runs slowly, or a counter that follows power slowly: a first-order lag of voltage,
//! of frequency, of temperature, or of a counter's own filter.
//!
//! Which of the two it is no run shows. The regression takes the counter to follow; the split charges as if
//! power did, and what both differ by is the doubt. Leaves out how a lag spreads times over windows
//! (`windows`, `design`).

use super::trial::{Candidate, Trial};
use crate::parts::Part;
use crate::power_model::learn::Model;

/// What a lag may be, in nanoseconds.
const LAGS_NS: [u64; 6] = [2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000];
/// By how much the log-likelihood must rise for one.
const LEAST_GAIN: f64 = 10.0;

/// Takes lags as long as each makes energies likelier than the one before, and the first one clearly.
pub(super) fn detect<'p>(trial: &Trial<'_, 'p>, best: &mut Candidate<'p>) -> bool {
    let lagging = trial.likelihoods_of_lags(&best.adjusted, LAGS_NS);
    for (lag_ns, now) in LAGS_NS.into_iter().zip(lagging) {
        let settings = &mut best.adjusted.settings;
        let price = if settings.lag_ns == 0 { LEAST_GAIN } else { 0.0 };
        if now > best.likelihood + price {
            (best.likelihood, settings.lag_ns) = (now, lag_ns);
        } else if settings.lag_ns > 0 {
            break;
        }
    }
    best.adjusted.settings.lag_ns > 0
}

/// Whether regression and split take it otherwise.
pub(super) const fn is_in_doubt(model: &Model) -> bool {
    model.settings.lag_ns > 0 && !model.settings.left_out.has(Part::LagDoubt)
}
