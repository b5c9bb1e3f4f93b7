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

use crate::between_samples::parts::Parts;
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::{Model, PowerModel, learn, learn_again, learn_of_same_times};
use crate::time::conditions::Conditions;
use crate::time::contention::Contention;
use crate::time::dvfs;
use crate::time::packed_pieces::DomainPieces;
use crate::time::smt::{self, POSSIBLE, USUAL};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

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
pub(crate) struct Aligned<'p> {
    pub(crate) intervals: Vec<EnergyInterval>,
    pub(crate) parts: Parts<'p>,
    pub(crate) delay_ns: u64,
    pub(crate) lag_ns: u64,
    /// Whether parts say how busy other CPUs were (`contention`).
    pub(crate) crowded: bool,
    /// η of hardware threads that share a core; `None` where none did.
    pub(crate) eta: Option<f64>,
    /// The exponent of clocks; `None` where they do not differ, or nobody knows, and 0 where they make no difference.
    pub(crate) exponent: Option<f64>,
}

impl<'p> Aligned<'p> {
    fn new(
        intervals: &[EnergyInterval],
        pieces: &DomainPieces<'p>,
        conditions: &Conditions,
        delay_ns: u64,
    ) -> Self {
        let intervals = earlier(intervals, delay_ns);
        let parts = Parts::new(&intervals, pieces, conditions);
        let eta = parts.share_cores().then_some(USUAL);
        let exponent = dvfs::differ(parts.clocks()).then_some(0.0);
        Self { intervals, parts, delay_ns, lag_ns: 0, crowded: false, eta: None, exponent: None }
            .weighed(eta, exponent)
    }

    fn weighed(mut self, eta: Option<f64>, exponent: Option<f64>) -> Self {
        weigh(&mut self.parts, eta, exponent);
        Self { eta, exponent, ..self }
    }

    /// The parts of the time in other intervals, in every respect as the own ones.
    pub(crate) fn parts_of(
        &self,
        intervals: &[EnergyInterval],
        pieces: &DomainPieces<'p>,
        conditions: &Conditions,
        contention: Option<&Contention>,
    ) -> Parts<'p> {
        let mut parts = Parts::new(&earlier(intervals, self.delay_ns), pieces, conditions);
        weigh(&mut parts, self.eta, self.exponent);
        if let Some(contention) = contention {
            parts.set_beside(contention.beside());
        }
        parts
    }
}

/// Intervals as a counter saw them that is so late.
pub(crate) fn earlier(intervals: &[EnergyInterval], delay_ns: u64) -> Vec<EnergyInterval> {
    let earlier = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(delay_ns));
    let shifted = |interval: &EnergyInterval| EnergyInterval {
        span: Span { start: earlier(interval.span.start), end: earlier(interval.span.end) },
        ..*interval
    };
    intervals.iter().map(shifted).collect()
}

/// Weighs parts by what they share of their cores, and by their clocks.
fn weigh(parts: &mut Parts<'_>, eta: Option<f64>, exponent: Option<f64>) {
    parts.weigh(|shared, clock| {
        let of_siblings = eta.map_or(1.0, |eta| smt::weight(shared, eta));
        of_siblings * dvfs::weight(clock, exponent.unwrap_or(0.0))
    });
}

/// Learns the powers again, each column's alone and beside busy CPUs; `with` is all other evidence. `None` where that makes energies not clearly
/// likelier than `alone`, and so would only take from one what it gives to the other.
pub(crate) fn learn_beside<'p>(
    alone: &Model,
    mut aligned: Aligned<'p>,
    contention: &Contention,
    with: &Evidence<'_>,
) -> Option<(Aligned<'p>, PowerModel)> {
    aligned.parts.set_beside(contention.beside());
    aligned.crowded = true;
    let power_model = learn_of_same_times(alone, &with.aligned(&aligned));
    let clearer =
        power_model.model().is_some_and(|model| model.fit.likelihood > alone.fit.likelihood + CLEAR_BESIDE);
    clearer.then_some((aligned, power_model))
}

impl<'a> Evidence<'a> {
    /// With intervals and parts.
    pub(crate) fn aligned<'s>(&self, aligned: &'s Aligned<'_>) -> Evidence<'s>
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
    pieces: &DomainPieces<'p>,
    conditions: &Conditions,
    with: &Evidence<'_>,
) -> (Aligned<'p>, PowerModel) {
    let usual = Aligned::new(intervals, pieces, conditions, 0);
    let power_model = learn(&with.aligned(&usual));
    let Some(model) = power_model.model() else { return (usual, power_model) };
    let (some, dynamic) = some_of(intervals, with.dynamic);
    let few = some.len() < intervals.len();
    let (some, with_some) =
        if few { (some.as_slice(), Evidence { dynamic: &dynamic, ..*with }) } else { (intervals, *with) };
    let search = Search { intervals: some, pieces, conditions, model, with: &with_some };
    let (found, changed) = if few {
        search.run(Aligned::new(some, pieces, conditions, 0), None)
    } else {
        search.run(usual, Some(model.steady_likelihood))
    };
    let found = if few {
        let all = Aligned::new(intervals, pieces, conditions, found.delay_ns);
        Aligned { lag_ns: found.lag_ns, ..all.weighed(found.eta, found.exponent) }
    } else {
        found
    };
    let power_model = if changed { learn_again(model, &with.aligned(&found)) } else { power_model };
    (found, power_model)
}

/// Intervals that are looked at, at most, in stretches evenly over the run: how a counter and a machine behave does not depend on when.
const MOST_INTERVALS: usize = 20_000;
/// Intervals of a stretch: four seconds, so that a lag is followed for long enough.
const TOGETHER: usize = 400;

/// Some of many intervals and their energies above idle; all of few.
fn some_of(intervals: &[EnergyInterval], dynamic: &[MicroJoules]) -> (Vec<EnergyInterval>, Vec<MicroJoules>) {
    let stretches = intervals.len().div_ceil(TOGETHER);
    let every = intervals.len().div_ceil(MOST_INTERVALS).max(1);
    let looked_at = (0..stretches).step_by(every).flat_map(|stretch| (stretch * TOGETHER..).take(TOGETHER));
    looked_at.filter_map(|at| Some((*intervals.get(at)?, *dynamic.get(at)?))).unzip()
}

/// What a search for the conditions of power goes by.
struct Search<'a, 'p> {
    intervals: &'a [EnergyInterval],
    pieces: &'a DomainPieces<'p>,
    conditions: &'a Conditions,
    model: &'a Model,
    with: &'a Evidence<'a>,
}

impl<'p> Search<'_, 'p> {
    /// Finds the likeliest, one after the other, from the usual and how likely energies are with that, if it is known; and whether that is
    /// another than the usual.
    fn run(&self, usual: Aligned<'p>, likelihood: Option<f64>) -> (Aligned<'p>, bool) {
        let found = usual.exponent.and_then(|_| self.exponent(&usual));
        let mut changed = found.is_some();
        let (is_shared, eta) = (usual.eta.is_some(), usual.eta);
        let mut best = match (found, likelihood) {
            (None, Some(likelihood)) => (likelihood, usual),
            (None, None) => self.likelihood(usual),
            (Some(_), _) => self.likelihood(usual.weighed(eta, found)),
        };
        let exponent = best.1.exponent;
        let etas = POSSIBLE.iter().filter(|_| is_shared);
        let now = if is_shared { best.1.clone() } else { Aligned::default() };
        changed |= self.choose(&mut best, etas.map(|eta| now.clone().weighed(Some(*eta), exponent)));
        drop(now);
        let eta = best.1.eta;
        let aligned = |delay_ns| Aligned::new(self.intervals, self.pieces, self.conditions, delay_ns);
        changed |= self.choose(&mut best, DELAYS_NS.into_iter().map(|ns| aligned(ns).weighed(eta, exponent)));
        changed |= self.choose_lag(&mut best);
        (best.1, changed)
    }

    fn likelihood(&self, aligned: Aligned<'p>) -> (f64, Aligned<'p>) {
        (self.model.likelihood(&self.with.aligned(&aligned)), aligned)
    }

    /// Takes the likeliest of others where it is clearly likelier. One after the other: each holds all parts.
    fn choose(&self, best: &mut (f64, Aligned<'p>), others: impl Iterator<Item = Aligned<'p>>) -> bool {
        let better =
            |now: (f64, Aligned<'p>), then: (f64, Aligned<'p>)| if then.0 > now.0 { then } else { now };
        let others = others.map(|aligned| self.likelihood(aligned)).reduce(better);
        let clearer = others.filter(|other| other.0 > best.0 + CLEAR);
        clearer.map(|other| *best = other).is_some()
    }

    fn choose_lag(&self, best: &mut (f64, Aligned<'p>)) -> bool {
        let lagging = self.model.likelihoods(&self.with.aligned(&best.1), LAGS_NS);
        for (lag_ns, now) in LAGS_NS.into_iter().zip(lagging) {
            let price = if best.1.lag_ns == 0 { CLEAR_LAG } else { 0.0 };
            if now > best.0 + price {
                (best.0, best.1.lag_ns) = (now, lag_ns);
            } else if best.1.lag_ns > 0 {
                break;
            }
        }
        best.1.lag_ns > 0
    }

    /// The exponent by which power goes with the clock, where the run shows one: energies are likeliest with it, and clearly likelier than without.
    fn exponent(&self, aligned: &Aligned<'p>) -> Option<f64> {
        let likelihood = |exponent: f64| {
            let weighed = aligned.clone().weighed(aligned.eta, Some(exponent));
            self.model.likelihood(&self.with.aligned(&weighed))
        };
        let exponent = dvfs::likeliest(likelihood);
        (likelihood(exponent) > likelihood(0.0) + CLEAR).then_some(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::{Aligned, learn_beside, learn_with_delay, some_of};
    use crate::between_samples::parts::Parts;
    use crate::power_model::evidence::Evidence;
    use crate::power_model::learn::PowerModel;
    use crate::power_model::tests::toy::{at_ms, flat_tree, part};
    use crate::tests::pieces::domain_pieces;
    use crate::time::conditions::Conditions;
    use crate::time::contention::Contention;
    use crate::time::pieces::Piece;
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::units::MicroJoules;

    const WINDOWS: u64 = 200;

    fn piece(owner: u32, from: f64, until: f64) -> Piece {
        Piece::certain(CpuId::new(0), Span { start: at_ms(from), end: at_ms(until) }, owner)
    }

    /// Two functions of 40 and 8 W take turns for times that differ, and rest in between; they know nothing of windows.
    fn pieces() -> Vec<Piece> {
        let (mut at, mut pieces) = (0.0, vec![]);
        for k in (0_u64..).take_while(|k| k * 12 < WINDOWS * 20) {
            let lengths = [(2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64, (k * 3 % 5) as f64];
            pieces.extend([
                piece(0, at, at + lengths[0]),
                piece(1, at + lengths[0], at + lengths[0] + lengths[1]),
            ]);
            at += lengths.iter().sum::<f64>() + 0.13;
        }
        pieces
    }

    /// They run one after the other at the start of each window.
    fn in_windows() -> Vec<Piece> {
        let of_window = |k: u64| {
            let (from, first, second) = (20.0 * k as f64, (2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64);
            [piece(0, from, from + first), piece(1, from + first, from + first + second)]
        };
        (0..WINDOWS).flat_map(of_window).collect()
    }

    /// The energy up to a moment (ms) as a counter shows it that is so late, and follows power with this lag.
    fn shown(pieces: &[Piece], at: f64, late: f64, lag: f64) -> f64 {
        let of = |piece: &Piece| {
            let (from, until) = (piece.span.start.as_ns() as f64 / 1e6, piece.span.end.as_ns() as f64 / 1e6);
            let so_far = |end: f64| {
                let t = (at - late - end).max(0.0);
                if lag > 0.0 { t - lag * (1.0 - (-t / lag).exp()) } else { t }
            };
            [40.0, 8.0][piece.left.owner as usize] * (so_far(from) - so_far(until)) / 1e3
        };
        pieces.iter().map(of).sum()
    }

    fn learned(late: f64, lag: f64) -> (Aligned<'static>, Vec<f64>) {
        let pieces = pieces();
        let energy = |k: u64| {
            let at = |k: u64| shown(&pieces, 20.0 * k as f64, late, lag);
            MicroJoules::from_uj(((at(k + 1) - at(k)) * 1e6).round() as i64)
        };
        let dynamic: Vec<MicroJoules> = (0..WINDOWS).map(energy).collect();
        let interval = |k: u64| EnergyInterval {
            span: Span { start: at_ms(20.0 * k as f64), end: at_ms(20.0 * (k + 1) as f64) },
            energy: dynamic[k as usize],
        };
        let intervals: Vec<EnergyInterval> = (0..WINDOWS).map(interval).collect();
        let tree = flat_tree(2);
        let with = Evidence {
            intervals: &[],
            dynamic: &dynamic,
            parts: Parts::NONE,
            marks: &[],
            start: KtimeNs::default(),
            tree: &tree,
            delay_ns: 0,
            lag_ns: 0,
            crowded: false,
            drifting: true,
        };
        let pieces = domain_pieces(&pieces);
        let (aligned, model) = learn_with_delay(&intervals, &pieces, &Conditions::default(), &with);
        let mut watts = model.model().unwrap().fit.watts.clone();
        watts.sort_by(f64::total_cmp);
        (aligned, watts)
    }

    /// A counter that is prompt, half a millisecond or one behind, and one with a lag of 10 or 50 ms, are each found, and with them the powers.
    #[test]
    fn delays_and_lags_are_found() {
        for (late, lag, delay_ns, lag_ns) in [
            (0.0, 0.0, 0, 0),
            (0.5, 0.0, 500_000, 0),
            (1.0, 0.0, 1_000_000, 0),
            (0.0, 10.0, 0, 10_000_000),
            (0.0, 50.0, 0, 50_000_000),
        ] {
            let (aligned, watts) = learned(late, lag);
            assert_eq!(aligned.lag_ns, lag_ns, "{late} {lag}");
            // A lag alone looks like a delay as well, which is asked first and stays.
            assert!(lag_ns > 0 || aligned.delay_ns == delay_ns, "{late}: {}", aligned.delay_ns);
            assert!((watts[0] - 8.0).abs() < 1.0 && (watts[1] - 40.0).abs() < 1.0, "{late} {lag}: {watts:?}");
            assert_eq!((aligned.eta, aligned.exponent), (None, None));
        }
    }

    /// Intervals of a counter that is behind are earlier by that, and the first one's parts with them.
    #[test]
    fn intervals_are_moved() {
        let span = Span { start: at_ms(20.0), end: at_ms(40.0) };
        let interval = EnergyInterval { span, energy: MicroJoules::from_uj(5) };
        let pieces = [Piece::certain(CpuId::new(0), Span { start: at_ms(10.0), end: at_ms(39.25) }, 1)];
        let pieces = domain_pieces(&pieces);
        let of = |delay_ns| Aligned::new(&[interval], &pieces, &Conditions::default(), delay_ns);
        let (now, moved) = (of(0), of(1_000_000));
        let first = |aligned: &Aligned<'_>| aligned.parts.iter().next().unwrap();
        assert_eq!((now.intervals[0], first(&now).ns), (interval, 19_250_000));
        assert_eq!((moved.intervals[0].span.start, moved.intervals[0].span.end), (at_ms(19.0), at_ms(39.0)));
        assert_eq!((first(&moved).ns, moved.delay_ns, first(&moved).weight), (20_000_000, 1_000_000, 1.0));
    }

    /// Weights: half of the time beside a busy hardware thread at η = 0.2 is 0.8; at twice the mean clock and an exponent of 2 it is four times.
    #[test]
    fn conditions_weigh() {
        let parts = Parts::under(&part(0, 0, 0.0, 1.0), 0.5, 2.0);
        let aligned = Aligned { parts, ..Aligned::default() };
        let weight = |aligned: &Aligned<'_>| aligned.parts.iter().next().unwrap().weight;
        let of = |eta, exponent| weight(&aligned.clone().weighed(eta, exponent));
        assert!((of(Some(0.2), None) - 0.8).abs() < 1e-12 && (of(None, Some(2.0)) - 4.0).abs() < 1e-12);
        assert!((of(Some(0.2), Some(2.0)) - 3.2).abs() < 1e-12 && (of(None, None) - 1.0).abs() < 1e-12);
    }

    /// Of few intervals all are looked at; of many whole stretches, evenly over the run, with their energies.
    #[test]
    fn some_of_many() {
        let interval = |k: u64| EnergyInterval {
            span: Span { start: KtimeNs::from_ns(k), end: KtimeNs::from_ns(k + 1) },
            energy: MicroJoules::ZERO,
        };
        let of = |count: u64| {
            let intervals: Vec<EnergyInterval> = (0..count).map(interval).collect();
            let dynamic: Vec<MicroJoules> = (0..count).map(|k| MicroJoules::from_uj(k as i64)).collect();
            let (some, energies) = some_of(&intervals, &dynamic);
            assert!(
                some.iter()
                    .zip(&energies)
                    .all(|(one, energy)| one.span.start.as_ns() as i64 == energy.as_uj())
            );
            some.iter().map(|one| one.span.start.as_ns()).collect::<Vec<u64>>()
        };
        assert_eq!(of(20_000), (0..20_000).collect::<Vec<_>>());
        assert!(of(0).is_empty());
        let many = of(190_000);
        assert!((18_000..=20_000).contains(&many.len()), "{}", many.len());
        assert!(many.is_sorted() && many[..400] == (0..400).collect::<Vec<_>>() && many[400] == 4_000);
        assert!(many.last() > Some(&188_000));
    }

    /// Where each function draws 0.6 of its power beside another busy CPU, both powers are learned; where that makes no difference, only one is.
    #[test]
    fn powers_beside_busy_cpus() {
        let of = |beside: f64| {
            let busy = |k: u64| k * k % 7 < 3;
            let mut pieces = in_windows();
            let other = |k: u64| {
                let span = Span { start: at_ms(20.0 * k as f64), end: at_ms(20.0 * k as f64 + 20.0) };
                Piece::certain(CpuId::new(1), span, 2)
            };
            pieces.extend((0..WINDOWS).filter(|&k| busy(k)).map(other));
            let energy = |k: u64| {
                let (first, second) = ((2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64);
                let (own, noise) = (first * 40.0 + second * 8.0, ((k * 37 % 13) as f64 - 6.0) * 0.2);
                let (part, others) = if busy(k) { (beside, 20.0 * 15.0) } else { (1.0, 0.0) };
                MicroJoules::from_uj(((own * part + others + noise) * 1e3) as i64)
            };
            let dynamic: Vec<MicroJoules> = (0..WINDOWS).map(energy).collect();
            let interval = |k: u64| EnergyInterval {
                span: Span { start: at_ms(20.0 * k as f64), end: at_ms(20.0 * (k + 1) as f64) },
                energy: dynamic[k as usize],
            };
            let intervals: Vec<EnergyInterval> = (0..WINDOWS).map(interval).collect();
            let tree = flat_tree(3);
            let with = Evidence {
                intervals: &[],
                dynamic: &dynamic,
                parts: Parts::NONE,
                marks: &[],
                start: KtimeNs::default(),
                tree: &tree,
                delay_ns: 0,
                lag_ns: 0,
                crowded: false,
                drifting: true,
            };
            let contention = Contention::of(pieces.iter().map(|piece| piece.span)).unwrap();
            let pieces = domain_pieces(&pieces);
            let (aligned, alone) = learn_with_delay(&intervals, &pieces, &Conditions::default(), &with);
            learn_beside(alone.model().unwrap(), aligned, &contention, &with)
        };
        let (aligned, model) = of(0.6).unwrap();
        assert!(aligned.crowded && aligned.parts.iter().any(|part| part.beside > 0.9));
        assert!(matches!(model, PowerModel::Known(_)));
        assert!(of(1.0).is_none());
    }
}
