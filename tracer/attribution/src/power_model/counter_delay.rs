//! How far behind a counter is on average.
//!
//! A counter that moves each millisecond shows at a reading what was spent until up to a millisecond before: half of one on average. Where
//! power steps up, that half millisecond of the step is in the next interval, each time: a function that always runs first after a pause
//! seems to draw less than nothing, and what follows it pays. So time is looked at as much earlier, if the energy of windows becomes likelier
//! by that. A run whose power never steps shows nothing, and there it makes no difference.
//!
//! What power depends on beside call paths is chosen here too, by the same measure: η of a core's hardware threads and the exponent of its clock
//! (`conditions`), a first-order lag of power or of the counter, and whether busy CPUs make a difference (`contention`).
//!
//! Leaves out the log of a foreign meter, which is seconds off (`timeline::lag`).

use crate::between_samples::markov_bridge::{Part, parts};
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::{Model, PowerModel, learn, learn_again};
use crate::time::conditions::Conditions;
use crate::time::contention::Contention;
use crate::time::dvfs;
use crate::time::pieces::Piece;
use crate::time::smt::{self, POSSIBLE, USUAL};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use std::time::Duration;

/// What a counter may be behind: one that moves each millisecond, or each other one.
const DELAYS_NS: [u64; 2] = [500_000, 1_000_000];
/// First-order lags: of voltage, of frequency, of temperature, or of a counter's own filter.
const LAGS_NS: [u64; 6] = [2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000];
/// By how much the log-likelihood must rise for one.
const CLEAR_LAG: f64 = 10.0;
/// By how much the log-likelihood must rise for powers beside busy CPUs.
const CLEAR_BESIDE: f64 = 20.0;
/// By how much the log-likelihood must rise.
const CLEAR: f64 = 3.0;

/// Intervals as their counter saw them, and the parts of the time in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligned {
    pub(crate) intervals: Vec<EnergyInterval>,
    pub(crate) parts: Vec<Part>,
    pub(crate) delay_ns: u64,
    pub(crate) lag_ns: u64,
    /// Whether parts say how busy other CPUs were (`contention`).
    pub(crate) crowded: bool,
    /// η of hardware threads that share a core; `None` where none did.
    pub(crate) eta: Option<f64>,
    /// The exponent of clocks; `None` where they do not differ, or nobody knows, and 0 where they make no difference.
    pub(crate) exponent: Option<f64>,
}

impl Aligned {
    fn new<'p>(
        intervals: &[EnergyInterval],
        pieces: impl Iterator<Item = &'p Piece>,
        conditions: &Conditions,
        delay_ns: u64,
    ) -> Self {
        let earlier = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(delay_ns));
        let shifted = |interval: &EnergyInterval| EnergyInterval {
            span: Span { start: earlier(interval.span.start), end: earlier(interval.span.end) },
            ..*interval
        };
        let intervals: Vec<EnergyInterval> = intervals.iter().map(shifted).collect();
        let parts = parts(&intervals, pieces, conditions);
        let eta = parts.iter().any(|part| part.shared > 0.0).then_some(USUAL);
        let exponent = dvfs::differ(parts.iter().map(|part| part.clock)).then_some(0.0);
        Self { intervals, parts, delay_ns, lag_ns: 0, crowded: false, eta: None, exponent: None }
            .weighed(eta, exponent)
    }

    fn weighed(mut self, eta: Option<f64>, exponent: Option<f64>) -> Self {
        for part in &mut self.parts {
            let of_siblings = eta.map_or(1.0, |eta| smt::weight(part.shared, eta));
            part.weight = of_siblings * dvfs::weight(part.clock, exponent.unwrap_or(0.0));
        }
        Self { eta, exponent, ..self }
    }
}

/// Learns the powers again, each column's alone and beside busy CPUs; `with` is all other evidence. `None` where that makes energies not clearly
/// likelier than `alone`, and so would only take from one what it gives to the other.
pub(crate) fn learn_beside(
    alone: &Model,
    mut aligned: Aligned,
    contention: &Contention,
    with: &Evidence<'_>,
) -> Option<(Aligned, PowerModel)> {
    for part in &mut aligned.parts {
        let half = Duration::from_nanos(part.ns / 2);
        let start = KtimeNs::from_ns(part.at.as_ns().saturating_sub(part.ns / 2));
        part.beside = contention.beside(Span { start, end: part.at + half });
    }
    aligned.crowded = true;
    let power_model = learn_again(Some(alone), &with.aligned(&aligned));
    let clearer =
        power_model.model().is_some_and(|model| model.fit.likelihood > alone.fit.likelihood + CLEAR_BESIDE);
    clearer.then_some((aligned, power_model))
}

impl<'a> Evidence<'a> {
    /// With intervals and parts.
    pub(crate) fn aligned<'s>(&self, aligned: &'s Aligned) -> Evidence<'s>
    where
        'a: 's,
    {
        Evidence {
            intervals: &aligned.intervals,
            parts: &aligned.parts,
            delay_ns: aligned.delay_ns,
            lag_ns: aligned.lag_ns,
            crowded: aligned.crowded,
            ..*self
        }
    }
}

/// Learns the power of each column, how far behind the counter is, how power lags and goes with the clock, and what hardware threads of one core
/// draw together. `with` is all other evidence.
pub(crate) fn learn_with_delay<'p>(
    intervals: &[EnergyInterval],
    pieces: &(impl Iterator<Item = &'p Piece> + Clone),
    conditions: &Conditions,
    with: &Evidence<'_>,
) -> (Aligned, PowerModel) {
    let aligned = |delay_ns| Aligned::new(intervals, pieces.clone(), conditions, delay_ns);
    let usual = aligned(0);
    let power_model = learn(&with.aligned(&usual));
    let Some(model) = power_model.model() else { return (usual, power_model) };
    let likelihood = |aligned: Aligned| (model.likelihood(&with.aligned(&aligned)), aligned);
    let better = |now: (f64, Aligned), then: (f64, Aligned)| if then.0 > now.0 { then } else { now };
    let is_shared = usual.eta.is_some();
    let exponent = usual.exponent.and_then(|_| exponent_of(&usual, model, with));
    let mut changed = exponent.is_some();
    let exponent = exponent.or(usual.exponent);
    let aligned = |delay_ns, eta| aligned(delay_ns).weighed(eta, exponent);
    let eta = usual.eta;
    let mut best = likelihood(usual.weighed(eta, exponent));
    let mut choose = |others: Vec<Aligned>| {
        let others = others.into_iter().map(likelihood).reduce(better);
        if let Some(other) = others.filter(|other| other.0 > best.0 + CLEAR) {
            (best, changed) = (other, true);
        }
        best.1.eta
    };
    let etas = POSSIBLE.iter().filter(|_| is_shared);
    let eta = choose(etas.map(|eta| aligned(0, Some(*eta))).collect());
    choose(DELAYS_NS.map(|ns| aligned(ns, eta)).into());
    for lag_ns in LAGS_NS {
        let (now, lagged) = likelihood(Aligned { lag_ns, ..best.1.clone() });
        let price = if best.1.lag_ns == 0 { CLEAR_LAG } else { 0.0 };
        if now > best.0 + price {
            (best, changed) = ((now, lagged), true);
        } else if best.1.lag_ns > 0 {
            break;
        }
    }
    let power_model = if changed { learn_again(Some(model), &with.aligned(&best.1)) } else { power_model };
    (best.1, power_model)
}

/// The exponent by which power goes with the clock, where the run shows one: energies are likeliest with it, and clearly likelier than without.
fn exponent_of(aligned: &Aligned, model: &Model, with: &Evidence<'_>) -> Option<f64> {
    let likelihood = |exponent: f64| {
        model.likelihood(&with.aligned(&aligned.clone().weighed(aligned.eta, Some(exponent))))
    };
    let exponent = dvfs::likeliest(likelihood);
    (likelihood(exponent) > likelihood(0.0) + CLEAR).then_some(exponent)
}
