//! The powers of a CPU domain's functions, and what was found out on the way to them.
//!
//! Leaves out the estimators: here is the order in which they work. The order of corrections is that of their
//! list (`corrections`).

use super::adjusted::Adjusted;
use super::carried::Known;
use super::columns::Columns;
use super::corrections::trial::Trial;
use super::corrections::{ALL, Apply, Detect, Doubt, asked};
use super::evidence::Evidence;
use super::learn::{Model, PowerModel, learn, learn_again};
use super::paths::PathTree;
use super::settings::Settings;
use super::training_subset::TrainingSubset;
use crate::between_samples::interval_slices::IntervalSlices;
use crate::parts::LeftOut;
use crate::time::busy_cpus::{Activity, BusyCpus};
use crate::time::compact_slices::DomainSlices;
use crate::time::conditions::Conditions;
use crate::time::inter_sample::SamplePoint;
use crate::time::on_cpus::OfDomain;
use crate::time::owners::Segment;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::options::Method;
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::ops::Range;

/// A domain whose powers are learned: its intervals, and who ran on its CPUs when.
pub(crate) struct Subject<'a> {
    pub(crate) intervals: &'a [EnergyInterval],
    pub(crate) segments: OfDomain<'a, Segment>,
    /// The same time between samples.
    pub(crate) slices: DomainSlices<'a>,
    pub(crate) points: &'a [SamplePoint],
    pub(crate) start: KtimeNs,
    pub(crate) tree: &'a PathTree,
    /// What earlier windows have shown of its powers.
    pub(crate) carried: Option<&'a Known>,
    pub(crate) conditions: &'a Conditions,
    /// How the reader wants energy to be split.
    pub(crate) method: Method,
    /// Parts that are not asked.
    pub(crate) left_out: LeftOut,
}

impl Subject<'_> {
    /// When its CPUs were busy.
    pub(crate) fn busy(&self) -> impl Iterator<Item = Span> + '_ {
        self.segments.busy()
    }
}

/// What was learned of a domain.
pub(crate) struct Powers<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) model: PowerModel,
    /// The intervals that powers are learned from.
    pub(crate) subset: TrainingSubset,
    /// These and the times in them, as corrections have them, and their energy above idle without that of the
    /// shared parts.
    pub(crate) adjusted: Adjusted<'a>,
    pub(crate) learned_from: Vec<MicroJoules>,
    /// The same energy of each interval.
    pub(crate) dynamic: Vec<MicroJoules>,
    /// Energy of the shared parts of a socket.
    pub(crate) shared_energy: MicroJoules,
    /// How many CPUs were busy when, where call paths draw other power meanwhile.
    pub(crate) busy_cpus: Option<BusyCpus>,
}

impl<'a> Powers<'a> {
    /// None are learned: there is nothing to learn from.
    pub(crate) fn nothing(subject: &'a Subject<'a>, dynamic: Vec<MicroJoules>) -> Self {
        Self {
            subject,
            model: PowerModel::Single(Columns::default()),
            subset: TrainingSubset::default(),
            adjusted: Adjusted::default(),
            learned_from: vec![],
            dynamic,
            shared_energy: MicroJoules::ZERO,
            busy_cpus: None,
        }
    }

    /// Of a domain with a counter, whose intervals have this energy above idle.
    pub(crate) fn learn(subject: &'a Subject<'a>, dynamic: Vec<MicroJoules>) -> Self {
        let mut powers = Self::nothing(subject, dynamic);
        let count = powers.dynamic.len();
        powers.subset = TrainingSubset::of(count, subject.slices.on_cpus.count_in(count));
        powers.align();
        for correction in asked(subject.left_out) {
            if let Detect::ByLearning(detect) = correction.detect {
                detect(&mut powers);
            }
        }
        powers.find_alternatives();
        powers
    }

    /// The same before anything was learned.
    pub(crate) fn afresh(&self) -> Self {
        Self { subset: self.subset.clone(), ..Self::nothing(self.subject, self.dynamic.clone()) }
    }

    /// Takes out energy that is nobody's, by its power and when it was drawn.
    pub(crate) fn take_out(&mut self, power: MicroWatts, active: &[Activity]) {
        for correction in ALL {
            if let Apply::ToEnergy(apply) = correction.apply {
                self.shared_energy += apply(power, active, &mut self.dynamic);
            }
        }
    }

    /// What the powers were learned from.
    fn evidence(&self) -> Evidence<'_> {
        self.unadjusted().adjusted(&self.adjusted)
    }

    /// The same but for intervals and the times in them.
    pub(crate) fn unadjusted(&self) -> Evidence<'_> {
        let Subject { points, start, tree, carried, .. } = *self.subject;
        Evidence {
            intervals: &[],
            dynamic: &self.learned_from,
            slices: IntervalSlices::NONE,
            points,
            start,
            tree,
            carried,
            settings: Settings::default(),
        }
    }

    /// The times in any of the domain's intervals, as in those that powers were learned from.
    pub(crate) fn slices_in<'s>(
        &'s self,
        intervals: &'s [EnergyInterval],
    ) -> impl Fn(Range<usize>) -> IntervalSlices<'a> + Sync + 's {
        move |some| {
            let intervals = intervals.get(some).unwrap_or_default();
            let Subject { slices, conditions, .. } = self.subject;
            let mut adjusted = Adjusted::new(intervals, slices, conditions, self.adjusted.settings);
            self.busy_cpus.iter().for_each(|busy| adjusted.contended(busy));
            adjusted.slices
        }
    }

    /// Learns powers, tries all corrections that can be tried, and learns them again with those that were
    /// found.
    pub(crate) fn align(&mut self) {
        self.learned_from = self.subset.take(&self.dynamic);
        let intervals = self.subset.take(self.subject.intervals);
        (self.adjusted, self.model) = learn_by_trial(self.subject, &intervals, &self.unadjusted());
    }

    /// How likely energies are; minus infinity where there are no powers.
    pub(crate) fn likelihood(&self) -> f64 {
        self.model.model().map_or(f64::NEG_INFINITY, |model| model.fit.likelihood)
    }

    /// Finds what other assumptions would give each column.
    fn find_alternatives(&mut self) {
        let PowerModel::Known(model) = &self.model else { return };
        let alternatives = alternatives(model, &self.evidence());
        if let PowerModel::Known(model) = &mut self.model {
            model.alternatives = alternatives;
        }
    }
}

/// Joules of each column as other assumptions have it, from those of the last correction to those of the
/// first.
fn alternatives(model: &Model, evidence: &Evidence<'_>) -> Vec<Vec<f64>> {
    let of = |doubt: Doubt| match doubt {
        Doubt::Alternatives(doubt) => doubt(model, evidence),
        Doubt::Nothing | Doubt::OfTheSplit(_) => vec![],
    };
    ALL.iter().rev().flat_map(|correction| of(correction.doubt)).collect()
}

/// Learns the power of each column, and with it all corrections that can be tried. `with` is all evidence but
/// intervals and times.
fn learn_by_trial<'p>(
    subject: &Subject<'p>,
    intervals: &[EnergyInterval],
    with: &Evidence<'_>,
) -> (Adjusted<'p>, PowerModel) {
    let Subject { slices, conditions, left_out, .. } = subject;
    let usual = |intervals: &[EnergyInterval]| Adjusted::usual(intervals, slices, conditions, *left_out);
    let all = usual(intervals);
    let power_model = learn(&with.adjusted(&all));
    let Some(model) = power_model.model() else { return (all, power_model) };
    let (some, dynamic) = some_of(intervals, with.dynamic);
    let (found, changed) = if some.len() < intervals.len() {
        let with_some = Evidence { dynamic: &dynamic, ..*with };
        let trial = Trial { intervals: &some, slices, conditions, model, with: &with_some };
        let (found, changed) = trial.run(usual(&some), None);
        (Adjusted::new(intervals, slices, conditions, found.settings), changed)
    } else {
        let trial = Trial { intervals, slices, conditions, model, with };
        trial.run(all, Some(model.steady_likelihood))
    };
    let power_model = if changed { learn_again(model, &with.adjusted(&found)) } else { power_model };
    (found, power_model)
}

/// Intervals of trials, at most, in stretches evenly over the run: how a counter and a machine behave does
/// not depend on when.
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

#[cfg(test)]
mod tests {
    use super::{
        Conditions, EnergyInterval, Evidence, KtimeNs, LeftOut, Method, MicroJoules, OfDomain, PowerModel,
        Powers, Settings, Span, Subject, alternatives, learn, some_of,
    };
    use crate::power_model::tests::toy::{Toy, at_ms, flat_tree, known, two_functions};
    use crate::tests::slices::certain_slices;
    use crate::tests::vectors::near;
    use crate::time::owners::Segment;
    use energy_trace_model::ids::CpuId;

    const WINDOWS: u64 = 200;

    fn slice(owner: u32, from: f64, until: f64) -> Segment {
        Segment { cpu: CpuId::new(0), span: Span { start: at_ms(from), end: at_ms(until) }, owner }
    }

    /// Two functions of 40 and 8 W take turns for times that differ, and rest in between; they know nothing
    /// of windows.
    fn slices() -> Vec<Segment> {
        let (mut at, mut slices) = (0.0, vec![]);
        for k in (0_u64..).take_while(|k| k * 12 < WINDOWS * 20) {
            let lengths = [(2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64, (k * 3 % 5) as f64];
            slices.extend([
                slice(0, at, at + lengths[0]),
                slice(1, at + lengths[0], at + lengths[0] + lengths[1]),
            ]);
            at += lengths.iter().sum::<f64>() + 0.13;
        }
        slices
    }

    /// They run one after the other at the start of each window.
    fn in_windows() -> Vec<Segment> {
        let of_window = |k: u64| {
            let (from, first, second) = (20.0 * k as f64, (2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64);
            [slice(0, from, from + first), slice(1, from + first, from + first + second)]
        };
        (0..WINDOWS).flat_map(of_window).collect()
    }

    /// The energy up to a moment (ms) as a counter shows it that is so late, and follows power with this lag.
    fn shown(slices: &[Segment], at: f64, late: f64, lag: f64) -> f64 {
        let of = |slice: &Segment| {
            let (from, until) = (slice.span.start.as_ns() as f64 / 1e6, slice.span.end.as_ns() as f64 / 1e6);
            let so_far = |end: f64| {
                let t = (at - late - end).max(0.0);
                if lag > 0.0 { t - lag * (1.0 - (-t / lag).exp()) } else { t }
            };
            [40.0, 8.0][slice.owner as usize] * (so_far(from) - so_far(until)) / 1e3
        };
        slices.iter().map(of).sum()
    }

    /// What is learned of a domain whose windows of 20 ms have this energy, in which these ran; `functions`
    /// are how many.
    fn learned(slices: &[Segment], functions: usize, uj: impl Fn(u64) -> i64) -> (Settings, PowerModel) {
        let dynamic: Vec<MicroJoules> = (0..WINDOWS).map(|k| MicroJoules::from_uj(uj(k))).collect();
        let interval = |k: u64| EnergyInterval {
            span: Span { start: at_ms(20.0 * k as f64), end: at_ms(20.0 * (k + 1) as f64) },
            energy: dynamic[k as usize],
        };
        let intervals: Vec<EnergyInterval> = (0..WINDOWS).map(interval).collect();
        let mut segments = slices.to_vec();
        segments.sort_by_key(|segment| (segment.cpu, segment.span));
        let (tree, conditions) = (flat_tree(functions), Conditions::default());
        let subject = Subject {
            intervals: &intervals,
            segments: OfDomain::new(&segments, |_| true),
            slices: certain_slices(slices),
            points: &[],
            start: KtimeNs::default(),
            tree: &tree,
            carried: None,
            conditions: &conditions,
            method: Method::Weighted,
            left_out: LeftOut::NOTHING,
        };
        let powers = Powers::learn(&subject, dynamic);
        (powers.adjusted.settings, powers.model)
    }

    /// A counter that is prompt, half a millisecond or one behind, and one with a lag of 10 or 50 ms, are
    /// each found, and with them the powers.
    #[test]
    fn delays_and_lags_are_found() {
        for (late, lag, delay_ns, lag_ns) in [
            (0.0, 0.0, 0, 0),
            (0.5, 0.0, 500_000, 0),
            (1.0, 0.0, 1_000_000, 0),
            (0.0, 10.0, 0, 10_000_000),
            (0.0, 50.0, 0, 50_000_000),
        ] {
            let slices = slices();
            let at = |k: u64| shown(&slices, 20.0 * k as f64, late, lag);
            let (settings, model) = learned(&slices, 2, |k| ((at(k + 1) - at(k)) * 1e6).round() as i64);
            let mut watts = model.model().unwrap().fit.watts.clone();
            watts.sort_by(f64::total_cmp);
            assert_eq!(settings.lag_ns, lag_ns, "{late} {lag}");
            // A lag alone looks like a delay as well, which is asked first and stays.
            assert!(lag_ns > 0 || settings.delay_ns == delay_ns, "{late}: {}", settings.delay_ns);
            assert!((watts[0] - 8.0).abs() < 1.0 && (watts[1] - 40.0).abs() < 1.0, "{late} {lag}: {watts:?}");
            assert_eq!((settings.eta, settings.exponent), (None, None));
        }
    }

    /// Where each function draws 0.6 of its power beside another busy CPU, both powers are learned; where
    /// that makes no difference, only one is.
    #[test]
    fn powers_beside_busy_cpus() {
        let of = |contention: f64| {
            let busy = |k: u64| k * k % 7 < 3;
            let mut slices = in_windows();
            let other = |k: u64| {
                let span = Span { start: at_ms(20.0 * k as f64), end: at_ms(20.0 * k as f64 + 20.0) };
                Segment { cpu: CpuId::new(1), span, owner: 2 }
            };
            slices.extend((0..WINDOWS).filter(|&k| busy(k)).map(other));
            learned(&slices, 3, |k| {
                let (first, second) = ((2 + k * 7 % 11) as f64, (1 + k * 5 % 7) as f64);
                let (own, noise) = (first * 40.0 + second * 8.0, ((k * 37 % 13) as f64 - 6.0) * 0.2);
                let (part, others) = if busy(k) { (contention, 20.0 * 15.0) } else { (1.0, 0.0) };
                ((own * part + others + noise) * 1e3) as i64
            })
        };
        let (settings, model) = of(0.6);
        assert!(settings.contended && matches!(model, PowerModel::Known(_)));
        assert!(!of(1.0).0.contended);
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

    /// Where all times are certain other assumptions about them change nothing, and longer windows next to
    /// nothing: what is believed beforehand weighs more there.
    #[test]
    fn certain_times_have_no_alternatives() {
        let toy = two_functions(200, [30.0, 10.0]);
        let mut model = known(learn(&toy.evidence()));
        model.alternatives = alternatives(&model, &toy.evidence());
        let energies = model.design.energies(&model.fit.watts);
        assert_eq!(model.alternatives.len(), 4);
        let (of_times, longer) = model.alternatives.split_at(2);
        of_times.iter().for_each(|other| near(other, &energies, 1e-6));
        longer.iter().for_each(|other| near(other, &energies, 1e-4));
        let likelihood = model.likelihood(&toy.evidence());
        assert!((likelihood - model.fit.likelihood).abs() < 1e-6 * likelihood.abs());
        let settings = Settings { lag_ns: 20_000_000, ..Settings::default() };
        let later = Evidence { settings, ..toy.evidence() };
        assert!(model.likelihood(&later) < likelihood - 10.0);
    }

    /// Where a drift was followed, what there would be without it is another opinion: a third function runs
    /// only while all draws half as much again, and has that excess or has it not.
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
            model.alternatives = alternatives(&model, &toy.evidence());
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
}
