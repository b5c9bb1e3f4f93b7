//! How far behind a counter is on average.
//!
//! A counter that moves each millisecond shows at a reading what was spent until up to a millisecond before: half of one on average. Where
//! power steps up, that half millisecond of the step is in the next interval, each time: a function that always runs first after a pause
//! seems to draw less than nothing, and what follows it pays. So time is looked at as much earlier, if the energy of windows becomes likelier
//! by that. A run whose power never steps shows nothing, and there it makes no difference.
//!
//! What power depends on beside functions (`conditions`) is chosen here too: η of a core's hardware threads by the same measure, the exponent of
//! its clock by cross-validation.
//!
//! Leaves out how late a counter was at one reading (`reading_jitter`), and the log of a foreign meter, which is seconds off (`timeline::lag`).

use crate::between_samples::markov_bridge::{Part, parts};
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::{Model, PowerModel, learn};
use crate::power_model::validity::CrossValidation;
use crate::time::conditions::Conditions;
use crate::time::contention::{self, ALONE, Contention};
use crate::time::dvfs;
use crate::time::pieces::Piece;
use crate::time::smt::{self, POSSIBLE, USUAL};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::validity::LEAST_GAIN;
use std::time::Duration;

/// What a counter may be behind: one that moves each millisecond, or each other one.
const DELAYS_NS: [u64; 2] = [500_000, 1_000_000];
/// By how much the log-likelihood must rise.
const CLEAR: f64 = 3.0;
/// And by how much a window where CPUs are taken to slow each other: a tenth less variance. Less than that other errors of the model make up.
const EXPLAINS: f64 = 0.05;

/// Intervals as their counter saw them, and the parts of the time in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligned {
    pub(crate) intervals: Vec<EnergyInterval>,
    pub(crate) parts: Vec<Part>,
    pub(crate) delay_ns: u64,
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
        Self { intervals, parts, delay_ns, eta: None, exponent: None }.weighed(eta, exponent)
    }

    fn with_eta(self, eta: Option<f64>) -> Self {
        let exponent = self.exponent;
        self.weighed(eta, exponent)
    }

    fn weighed(mut self, eta: Option<f64>, exponent: Option<f64>) -> Self {
        for part in &mut self.parts {
            let of_siblings = eta.map_or(1.0, |eta| smt::weight(part.shared, eta));
            part.weight = of_siblings * dvfs::weight(part.clock, exponent.unwrap_or(0.0));
        }
        Self { eta, exponent, ..self }
    }
}

/// Learns the watts again where CPUs clearly draw less each beside others (`contention`); `with` is all other evidence.
pub(crate) fn learn_contention(
    (aligned, power_model): (Aligned, PowerModel),
    contention: &Contention,
    with: &Evidence<'_>,
) -> (Aligned, PowerModel) {
    let Some(model) =
        power_model.model().filter(|model| model.design.drift.iter().all(|drift| *drift == ALONE))
    else {
        return (aligned, power_model);
    };
    let mut among = aligned.clone();
    for part in &mut among.parts {
        let half = Duration::from_nanos(part.ns / 2);
        let start = KtimeNs::from_ns(part.at.as_ns().saturating_sub(part.ns / 2));
        part.shared = contention.beside(Span { start, end: part.at + half });
    }
    let likelihood = |eta: f64| (model.likelihood(&with.aligned(&among.clone().with_eta(Some(eta)))), eta);
    let (alone, _) = likelihood(ALONE);
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let clear = CLEAR.max(EXPLAINS * model.design.len() as f64);
    let best = contention::POSSIBLE.map(likelihood).into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likelihood, eta)) if likelihood > alone + clear => {
            let aligned = among.with_eta(Some(eta));
            let power_model = learn(&with.aligned(&aligned));
            (aligned, power_model)
        }
        _ => (aligned, power_model),
    }
}

impl<'a> Evidence<'a> {
    /// With intervals and parts.
    pub(crate) fn aligned<'s>(&self, aligned: &'s Aligned) -> Evidence<'s>
    where
        'a: 's,
    {
        Evidence { intervals: &aligned.intervals, parts: &aligned.parts, delay_ns: aligned.delay_ns, ..*self }
    }
}

/// Learns the watts of each class, how far behind the counter is, how power goes with the clock, and what hardware threads of one core draw
/// together. `with` is all other evidence.
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
    let power_model = if changed { learn(&with.aligned(&best.1)) } else { power_model };
    (best.1, power_model)
}

/// The exponent by which power goes with the clock, where the run shows one: watts predict parts of the run that they were not fitted to best
/// with it, and clearly better than without.
fn exponent_of(aligned: &Aligned, model: &Model, with: &Evidence<'_>) -> Option<f64> {
    let fitted =
        |exponent: f64| model.fitted(&with.aligned(&aligned.clone().weighed(aligned.eta, Some(exponent))));
    let (design, fit) = fitted(0.0)?;
    let validation = CrossValidation::new(&design, &fit);
    let gain = |exponent: f64| fitted(exponent).map(|(design, fit)| validation.gain(&design, &fit));
    let exponent = dvfs::likeliest(|exponent| gain(exponent).map_or(f64::NEG_INFINITY, |gain| gain.mean));
    (gain(exponent)?.in_errors() > LEAST_GAIN).then_some(exponent)
}
