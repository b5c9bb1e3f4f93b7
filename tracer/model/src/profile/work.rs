//! Units of work and the energy of the time in which they were done.
//!
//! ```text
//!  readings of a counter   ──0────3────5─ ✗ ──6────9──1────4──     ✗: nobody answered; 9 → 1: it began anew
//!  stretches                 [────5────]     [──3──] [──3──]      what was done between two readings next to each other
//!  joules per unit         = target energy of all stretches / units of all stretches
//!  rest                    = target energy − that of the stretches
//! ```
//!
//! A reading stands for its moment alone, so a stretch begins and ends with one. A counter that is looked at works from its first move, and
//! before that for as long as from one move to the next, to its last: set-up and clean-up are no work. Energy is known by bins (`over_time`): of a bin that an
//! end lies in, a stretch has the part that it has of the bin's time, rounded row by row, so that stretches and rest are the whole to the
//! microjoule. By how much an end may be off: power in a bin may be anything between nothing and twice its mean.
//!
//! A counter tells when a unit is done, not how much of the next is: at either end a step of the counter may be under way (`open`).
//!
//! Calls are counted from one end of the run to the other, from when they begin: theirs is one stretch. Leaves out how sure the energy itself is
//! (`certainty`).

use super::diagnostics::{Diagnostic, WorkDiagnostic};
use super::over_time::OverTime;
use super::stretches::Span;
use super::tables::{EnergyByClass, LedgerRow, Profile};
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::recording::record::{TwoCounters, WorkFailure, WorkReading, WorkSeries, WorkSource, WorkUnits};
use crate::units::MicroJoules;
use std::collections::BTreeMap;

/// Most steps over time, but for stretches that are shorter.
const STEPS: u64 = 50;
/// A counter stands still where it does for this part of the time that it has, and this many times the mean distance of two moves.
const STILL: u64 = 10;

/// What was done of one kind of work, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The counter and all its readings.
    pub series: WorkSeries,
    /// Where it says what was done, in order of time.
    pub stretches: Vec<Stretch>,
    /// The same in about fifty steps.
    pub steps: Vec<Stretch>,
    /// What to know of it.
    pub found: WorkFindings,
}

/// What was done from one reading to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The first reading.
    pub from: KtimeNs,
    /// The last one.
    pub to: KtimeNs,
    /// What was done between them.
    pub units: WorkUnits,
    /// The target's energy between them.
    pub energy: EnergyByClass,
    /// The idle baseline between them, where the ledger keeps it apart.
    pub idle: EnergyByClass,
    /// What may have been under way at the first reading and at the last: the first and the last step of the counter.
    pub open: [WorkUnits; 2],
    /// By how much the target's energy may be off because the ends lie within bins.
    pub edges: EnergyByClass,
}

/// What to know of a counter of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFindings {
    /// Readings with a number.
    pub read: u64,
    /// How often it fell, and so began anew.
    pub restarts: u64,
    /// How often it was gone after it had been there.
    pub gone: u64,
    /// The longest time without a move, in nanoseconds, where that is much longer than from one move to the next.
    pub still_ns: u64,
    /// Why it was not there, the last time that it was not.
    pub failure: Option<WorkFailure>,
}

/// The unit of work that a profile is shown by: its energy is that of the stretches in which so many were done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerWork {
    /// What the user calls it.
    pub name: String,
    /// How many.
    pub units: WorkUnits,
    /// Whether there may be more.
    pub at_least: bool,
    /// 95 % interval of the energy, where it is known.
    pub ci95: Option<(MicroJoules, MicroJoules)>,
    /// What may have been under way at the begin, and at the end.
    pub open: [WorkUnits; 2],
    /// The idle baseline of the stretches, where the ledger keeps it apart.
    pub idle: EnergyByClass,
    /// The program's energy in the rest of the run.
    pub rest: EnergyByClass,
}

impl Work {
    /// Readings whose energy nobody asks for.
    pub fn of(series: WorkSeries) -> Self {
        Self { series, stretches: Vec::new(), steps: Vec::new(), found: WorkFindings::default() }
    }

    /// What was done in all stretches.
    pub fn units(&self) -> WorkUnits {
        self.stretches.iter().fold(WorkUnits::ZERO, |sum, stretch| sum.saturating_add(stretch.units))
    }

    /// A sum over all stretches.
    pub fn sum(&self, of: fn(&Stretch) -> EnergyByClass) -> EnergyByClass {
        let mut sum = EnergyByClass::default();
        self.stretches.iter().for_each(|stretch| sum += of(stretch));
        sum
    }

    /// What may have been under way at the begins of all stretches, and at their ends.
    pub fn open(&self) -> [WorkUnits; 2] {
        let all = self.stretches.iter().map(|stretch| stretch.open);
        all.fold(<[WorkUnits; 2]>::default(), |sum, open| {
            [0, 1].map(|end: usize| sum[end].saturating_add(open[end]))
        })
    }

    /// What was done of it on several machines at their own times, of which at least one is named. What each
    /// reading was is not kept.
    pub fn together(all: &[&Self]) -> Option<Self> {
        let (first, others) = all.split_first()?;
        let mut sum = (*first).clone();
        sum.series.readings.clear();
        for other in others {
            sum.stretches.extend(&other.stretches);
            sum.steps.extend(&other.steps);
            sum.found.add(&other.found);
        }
        for list in [&mut sum.stretches, &mut sum.steps] {
            list.order_by_key(|stretch| stretch.from);
        }
        Some(sum)
    }

    /// What was done in some spans of time: from one move to the next as much at any moment.
    pub fn units_within(&self, spans: &[Span]) -> WorkUnits {
        let done = |moves: Vec<(KtimeNs, WorkUnits)>| -> f64 {
            moves.windows(2).map(|pair| done_within(pair[0], pair[1], spans)).sum()
        };
        let all: f64 = self.stretches.iter().map(|stretch| done(self.moves(stretch))).sum();
        WorkUnits::from_number(all).unwrap_or(WorkUnits::MOST)
    }

    /// The begin of a stretch, and when its number moved, to what.
    fn moves(&self, stretch: &Stretch) -> Vec<(KtimeNs, WorkUnits)> {
        let readings = self.series.readings.iter();
        let mut moves: Vec<(KtimeNs, WorkUnits)> = Vec::new();
        for reading in readings.filter(|reading| (stretch.from..=stretch.to).contains(&reading.at)) {
            let Ok(units) = reading.value else { continue };
            match moves[..] {
                [.., (_, before)] if units <= before => (),
                [.., _, ref mut last] if last.0 == reading.at => last.1 = units,
                [(at, _)] if at == reading.at => (),
                _ => moves.push((reading.at, units)),
            }
        }
        moves
    }

    /// Time of all stretches in nanoseconds.
    pub fn covered_ns(&self) -> u64 {
        self.stretches.iter().fold(0, |sum, stretch| sum.saturating_add(stretch.to.ns_since(stretch.from)))
    }
}

/// What of the units between two moves was done in some spans of time.
fn done_within(from: (KtimeNs, WorkUnits), to: (KtimeNs, WorkUnits), spans: &[Span]) -> f64 {
    let units = to.1.checked_sub(from.1).unwrap_or_default().as_number();
    let here = spans.iter().map(|span| to.0.min(span.1).ns_since(from.0.max(span.0)));
    units * here.fold(0, u64::saturating_add) as f64 / to.0.ns_since(from.0).max(1) as f64
}

impl WorkFindings {
    fn add(&mut self, other: &Self) {
        self.read = self.read.saturating_add(other.read);
        self.restarts = self.restarts.saturating_add(other.restarts);
        self.gone = self.gone.saturating_add(other.gone);
        self.still_ns = self.still_ns.max(other.still_ns);
        self.failure = other.failure.clone().or_else(|| self.failure.take());
    }
}

/// A reading that has a number.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: KtimeNs,
    within_ns: u64,
    units: WorkUnits,
}

impl Point {
    const fn reading(self) -> WorkReading {
        WorkReading { at: self.at, within_ns: self.within_ns, value: Ok(self.units) }
    }
}

/// What is known at a moment of the run: sums from its start on.
#[derive(Clone, Copy, Debug, Default)]
struct Until {
    energy: EnergyByClass,
    idle: EnergyByClass,
    edge: EnergyByClass,
}

impl OverTime {
    /// What was done between two moments of the run by each counter that was read.
    pub fn work(&self, series: &[WorkSeries], ledger: &[LedgerRow], from: KtimeNs, to: KtimeNs) -> Vec<Work> {
        series.iter().map(|series| self.work_of(series, ledger, (from, to))).collect()
    }

    /// Counts what a profile has of each kind of work anew: between two moments of the run. Of merged
    /// recordings that cannot be done: bins are those of all machines.
    pub fn count_work(&self, profile: &mut Profile, from: KtimeNs, to: KtimeNs) {
        let series: Vec<WorkSeries> =
            std::mem::take(&mut profile.work).into_iter().map(|work| work.series).collect();
        if profile.parts.is_empty() {
            profile.work = self.work(&series, &profile.ledger, from, to);
        } else {
            profile.diagnostics.extend(series.into_iter().map(|series| merged(series.counter.name)));
        }
    }

    fn work_of(&self, series: &WorkSeries, ledger: &[LedgerRow], span: (KtimeNs, KtimeNs)) -> Work {
        let (mut runs, mut found) = runs(&series.readings, span);
        let mut series = series.clone();
        match series.counter.source {
            WorkSource::Stdout(_) => (),
            WorkSource::Calls(_) => {
                let last = series.readings.iter().rev().find(|reading| reading.at <= span.1);
                found.failure = last.and_then(|reading| reading.value.as_ref().err().cloned());
                let called = self.called(&series.readings, span);
                series.readings = called.iter().map(|point| point.reading()).collect();
                runs = if called.is_empty() { vec![] } else { vec![called] };
            }
            _ if TwoCounters::show(&series.readings) => {
                // No stretch is of one of them, as far as anybody knows.
                (found.read, found.failure) = (0, Some(WorkFailure::of_two_counters()));
                runs.clear();
            }
            _ => runs = runs.iter().filter_map(|run| worked(run)).collect(),
        }
        found.still_ns = still_ns(&runs);
        let cut = |runs: &[Vec<Point>]| -> Vec<Stretch> {
            let ends: Vec<Point> =
                runs.iter().filter_map(|run| Some([*run.first()?, *run.last()?])).flatten().collect();
            let until = self.until(&ends, ledger);
            let ends = ends.chunks_exact(2).zip(until.chunks_exact(2)).zip(runs);
            ends.map(|((ends, until), run)| Stretch { open: open(run), ..stretch(ends, until) }).collect()
        };
        let (stretches, steps) = (cut(&runs), cut(&steps(&runs)));
        Work { series, stretches, steps, found }
    }

    /// Numbers of calls, from one end to the other: the last number is that of the end of the run, whenever it was read.
    fn called(&self, readings: &[WorkReading], (from, to): (KtimeNs, KtimeNs)) -> Vec<Point> {
        let numbers = readings.iter().filter_map(|reading| {
            let &WorkReading { at, within_ns, value: Ok(units) } = reading else { return None };
            Some(Point { at, within_ns, units })
        });
        let numbers: Vec<Point> = numbers.collect();
        let Some(last) = numbers.last() else { return Vec::new() };
        let until = |moment| numbers.iter().rev().find(|point| point.at <= moment).map(|point| point.units);
        let is_end = to >= self.bins.span(self.bins.count().saturating_sub(1)).1;
        let end = if is_end { last.units } else { until(to).unwrap_or_default() };
        let point = |at, units| Point { at, within_ns: 0, units };
        let inner = numbers.iter().filter(|number| from < number.at && number.at < to).copied();
        let first = point(from, until(from).unwrap_or_default());
        [first].into_iter().chain(inner).chain([point(to, end)]).collect()
    }

    /// The target's energy from the start up to each of these moments.
    pub fn energy_until(&self, moments: &[KtimeNs]) -> Vec<EnergyByClass> {
        let point = |at: &KtimeNs| Point { at: *at, within_ns: 0, units: WorkUnits::ZERO };
        let points: Vec<Point> = moments.iter().map(point).collect();
        self.until(&points, &[]).into_iter().map(|until| until.energy).collect()
    }

    /// The sums up to each moment.
    fn until(&self, moments: &[Point], ledger: &[LedgerRow]) -> Vec<Until> {
        let mut in_bins: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, point) in moments.iter().enumerate() {
            in_bins.entry(self.bins.at(point.at)).or_default().push(number);
        }
        let mut found = vec![Until::default(); moments.len()];
        let mut whole = vec![EnergyByClass::default(); self.bins.count() as usize];
        for entry in &self.entries {
            whole.get_mut(entry.bin as usize).into_iter().for_each(|sum| *sum += entry.energy);
            for &number in in_bins.get(&entry.bin).into_iter().flatten() {
                found[number].energy += self.before(entry.bin, moments[number].at, entry.energy);
            }
        }
        let idle = self.idle_of_bins(ledger);
        let (whole_before, idle_before) = (sums_before(&whole), sums_before(&idle));
        for (until, point) in found.iter_mut().zip(moments) {
            let bin = self.bins.at(point.at);
            let at = bin as usize;
            until.energy += whole_before[at];
            until.idle = idle_before[at];
            until.idle += self.before(bin, point.at, idle[at]);
            until.edge = self.edge(bin, *point, whole[at]);
        }
        found
    }

    /// The idle baseline in each bin by class.
    fn idle_of_bins(&self, ledger: &[LedgerRow]) -> Vec<EnergyByClass> {
        let mut idle = vec![EnergyByClass::default(); self.bins.count() as usize];
        for (bins, row) in self.domains.iter().zip(ledger) {
            idle.iter_mut().zip(bins).for_each(|(sum, bin)| sum[row.class] += bin.idle);
        }
        idle
    }

    /// What of an energy in a bin lies before a moment, by time.
    pub(super) fn before(&self, bin: u32, moment: KtimeNs, energy: EnergyByClass) -> EnergyByClass {
        let mut part = EnergyByClass::default();
        for (class, energy) in energy.iter() {
            part[class] = MicroJoules::from_uj(self.before_uj(bin, moment, energy.as_uj()));
        }
        part
    }

    /// The same of one number.
    pub(super) fn before_uj(&self, bin: u32, moment: KtimeNs, whole: i64) -> i64 {
        let (start, end) = self.bins.span(bin);
        let (past, of) = (moment.min(end).ns_since(start), end.ns_since(start));
        if past >= of {
            return whole;
        }
        let (past, of) = (i128::from(past), i128::from(of));
        i64::try_from((i128::from(whole) * past + of / 2).div_euclid(of)).unwrap_or(whole)
    }

    /// By how much the energy before a moment in a bin may be another.
    fn edge(&self, bin: u32, point: Point, energy: EnergyByClass) -> EnergyByClass {
        let (start, end) = self.bins.span(bin);
        let (past, of) = (point.at.min(end).ns_since(start), end.ns_since(start).max(1));
        let unsure_ns = past.min(of.saturating_sub(past)).saturating_add(point.within_ns).min(of);
        let mut edge = EnergyByClass::default();
        for (class, energy) in energy.iter() {
            let uj = u128::from(energy.as_uj().unsigned_abs()) * u128::from(unsure_ns);
            edge[class] =
                MicroJoules::from_uj(i64::try_from(uj.div_ceil(u128::from(of))).unwrap_or(i64::MAX));
        }
        edge
    }
}

/// That units of work of several recordings are not told.
pub const fn merged(name: String) -> Diagnostic {
    Diagnostic::Work { name, what: WorkDiagnostic::Merged }
}

/// Sums of all before each.
fn sums_before(of: &[EnergyByClass]) -> Vec<EnergyByClass> {
    let next = |sum: &mut EnergyByClass, one: &EnergyByClass| {
        let before = *sum;
        *sum += *one;
        Some(before)
    };
    of.iter().scan(EnergyByClass::default(), next).collect()
}

fn stretch(ends: &[Point], until: &[Until]) -> Stretch {
    let ([first, last], [begin, end]) = (ends, until) else { return Stretch::default() };
    let (mut energy, mut idle, mut edges) = (end.energy, end.idle, end.edge);
    energy -= begin.energy;
    idle -= begin.idle;
    edges += begin.edge;
    let units = last.units.checked_sub(first.units).unwrap_or_default();
    Stretch { from: first.at, to: last.at, units, energy, idle, edges, ..Stretch::default() }
}

/// The first and the last step of a counter.
fn open(run: &[Point]) -> [WorkUnits; 2] {
    let step =
        |pair: &[Point]| pair[1].units.checked_sub(pair[0].units).filter(|step| *step > WorkUnits::ZERO);
    let (mut forward, mut back) = (run.windows(2).filter_map(step), run.windows(2).rev().filter_map(step));
    [forward.next(), back.next()].map(Option::unwrap_or_default)
}

/// Readings that follow each other without a gap or a restart; what lies outside the run is left out.
fn runs(readings: &[WorkReading], (from, to): (KtimeNs, KtimeNs)) -> (Vec<Vec<Point>>, WorkFindings) {
    let (mut runs, mut found): (Vec<Vec<Point>>, _) = (vec![vec![]], WorkFindings::default());
    for reading in readings.iter().filter(|reading| (from..=to).contains(&reading.at)) {
        let last = runs.last().and_then(|run| run.last()).copied();
        match &reading.value {
            Err(failure) => {
                found.failure = Some(failure.clone());
                if last.is_some() {
                    found.gone += 1;
                    runs.push(vec![]);
                }
            }
            &Ok(units) => {
                found.read += 1;
                let has_fallen = last.is_some_and(|last| units < last.units);
                found.restarts += u64::from(has_fallen);
                if has_fallen {
                    runs.push(vec![]);
                }
                let point = Point { at: reading.at, within_ns: reading.within_ns, units };
                runs.last_mut().into_iter().for_each(|run| run.push(point));
            }
        }
    }
    let has_time =
        |run: &Vec<Point>| run.first().zip(run.last()).is_some_and(|(one, other)| one.at < other.at);
    runs.retain(has_time);
    (runs, found)
}

/// Readings from where the first unit was begun to the last that moved; none where none did.
fn worked(run: &[Point]) -> Option<Vec<Point>> {
    let moves: Vec<usize> = (1..run.len()).filter(|&at| run[at].units > run[at - 1].units).collect();
    let (&first, &last) = (moves.first()?, moves.last()?);
    run.get(begin(run, first, last, moves.len())..=last).map(<[Point]>::to_vec)
}

/// The reading before the first move at which its unit was most likely begun, if that took as long as others did.
fn begin(run: &[Point], first: usize, last: usize, moves: usize) -> usize {
    let Some(others) = (moves as u64).checked_sub(1).filter(|others| *others > 0) else { return 0 };
    let mean_ns = run[last].at.ns_since(run[first].at) / others;
    let is_off_by = |at: &usize| run[first].at.ns_since(run[*at].at).abs_diff(mean_ns);
    (0..first).min_by_key(is_off_by).unwrap_or(0)
}

/// The longest time without a move, if it is remarkable.
fn still_ns(runs: &[Vec<Point>]) -> u64 {
    let (mut longest, mut moves, mut all) = (0_u64, 0_u64, 0_u64);
    for run in runs {
        let mut moved = run.first().map(|point| point.at);
        for pair in run.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if after.units > before.units {
                (moves, moved) = (moves + 1, Some(after.at));
            }
            longest = longest.max(moved.map_or(0, |moved| after.at.ns_since(moved)));
            all = all.saturating_add(after.at.ns_since(before.at));
        }
    }
    let is_long = longest >= all / STILL && longest.saturating_mul(moves) >= all.saturating_mul(STILL);
    if moves == 0 { all } else { longest * u64::from(is_long) }
}

/// The same readings in runs of about a fiftieth of the time.
fn steps(runs: &[Vec<Point>]) -> Vec<Vec<Point>> {
    let length =
        |run: &[Point]| run.first().zip(run.last()).map_or(0, |(one, other)| other.at.ns_since(one.at));
    let all = runs.iter().fold(0_u64, |sum, run| sum.saturating_add(length(run)));
    let least = (all / STEPS).max(1);
    let mut steps = Vec::new();
    for run in runs {
        let mut first = 0;
        for (last, point) in run.iter().enumerate() {
            let is_end = run.last().is_some_and(|end| end.at.ns_since(point.at) < least);
            if length(&run[first..=last]) >= least && (!is_end || last + 1 == run.len()) {
                steps.push(vec![run[first], *point]);
                first = last;
            }
        }
        if first + 1 < run.len() {
            steps.extend(run.last().map(|last| vec![run[first], *last]));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{
        EnergyByClass, KtimeNs, LedgerRow, MicroJoules, OverTime, Profile, Work, WorkFailure, WorkReading,
    };
    use super::{WorkSeries, WorkUnits};
    use crate::profile::over_time::{BinEnergy, Bins, RowBin};
    use crate::recording::record::{DomainClass, Quality, WorkCounter, WorkSource};

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * MS)
    }

    fn uj(uj: i64) -> EnergyByClass {
        let mut energy = EnergyByClass::default();
        energy[DomainClass::Package] = MicroJoules::from_uj(uj);
        energy
    }

    /// A fifth of a second in ten bins; two rows with 1,000 and 37 µJ in each, 100 µJ idle.
    fn run() -> OverTime {
        let bins = Bins::over(at(0), at(200));
        let row = |uj_each: i64| (0..10).map(move |bin| RowBin { bin, time_ns: MS, energy: uj(uj_each) });
        let entries: Vec<RowBin> = row(1_000).chain(row(37)).collect();
        let idle = BinEnergy { idle: MicroJoules::from_uj(100), ..BinEnergy::default() };
        OverTime { bins, domains: vec![vec![idle; 10]], others_ns: vec![], entries, firsts: vec![0, 10, 20] }
    }

    fn package_row() -> LedgerRow {
        LedgerRow::empty("package-0".into(), DomainClass::Package, Quality::Measured)
    }

    fn work(readings: &[(u64, Option<u64>)]) -> Work {
        read_from(WorkSource::Stdout("(.*)".into()), readings)
    }

    fn read_from(source: WorkSource, readings: &[(u64, Option<u64>)]) -> Work {
        let reading = |&(ms, units): &(u64, Option<u64>)| WorkReading {
            at: at(ms),
            within_ns: 0,
            value: units.map(WorkUnits::whole).ok_or(WorkFailure::Missing),
        };
        let series = WorkSeries {
            counter: WorkCounter { name: "step".into(), source },
            readings: readings.iter().map(reading).collect(),
        };
        let mut found = run().work(&[series], &[package_row()], at(0), at(200));
        found.pop().unwrap()
    }

    fn package(energy: EnergyByClass) -> i64 {
        energy[DomainClass::Package].as_uj()
    }

    /// Units are those between the first and the last reading, and energy is that of the same time; outside the run nothing is read.
    #[test]
    fn one_stretch() {
        let work = work(&[(20, Some(5)), (100, Some(9)), (120, Some(15)), (900, Some(99))]);
        assert_eq!((work.stretches.len(), work.units()), (1, WorkUnits::whole(10)));
        assert_eq!(package(work.sum(|of| of.energy)), 5 * 1_037);
        assert_eq!(package(work.sum(|of| of.idle)), 500);
        // Both ends are edges of bins: nothing is cut.
        assert_eq!(package(work.sum(|of| of.edges)), 0);
        assert_eq!(work.open(), [4, 6].map(WorkUnits::whole));
        assert_eq!((work.covered_ns(), work.found.restarts, work.found.read), (100 * MS, 0, 3));
    }

    /// Of a counter that is looked at neither what was left from a run before, nor set-up and clean-up, is work; all units are, the first for as
    /// long as others. Where it moved once there is no other begin than its first reading.
    #[test]
    fn from_the_first_unit_to_the_last() {
        let of_file = |readings: &[(u64, Option<u64>)]| {
            let work = read_from(WorkSource::File("/x".into()), readings);
            let of = work.stretches.iter().map(|of| (of.from.as_ns() / MS, of.to.as_ns() / MS));
            (of.collect::<Vec<_>>(), work.units())
        };
        let left = [(0, Some(60)), (40, Some(60))];
        let set_up = [50, 60, 70, 80].map(|ms| (ms, Some(0)));
        let run = [(90, Some(1)), (110, Some(2)), (130, Some(4)), (200, Some(4))];
        let all = [&left[..], &set_up, &run].concat();
        assert_eq!(of_file(&all), (vec![(70, 130)], WorkUnits::whole(4)));
        assert_eq!(
            of_file(&[(0, Some(0)), (90, Some(7)), (200, Some(7))]),
            (vec![(0, 90)], WorkUnits::whole(7))
        );
        assert_eq!(of_file(&left), (vec![], WorkUnits::ZERO));
    }

    /// Of a number that two counters show in turn nothing is known, not even what it seemed to do before that was seen.
    #[test]
    fn two_counters() {
        let readings = [120, 5_000, 130, 5_010, 5_020, 140, 5_030, 150, 5_040];
        let readings = (0..).step_by(10).zip(readings).map(|(ms, of)| (ms, Some(of))).collect::<Vec<_>>();
        let work = read_from(WorkSource::File("/x".into()), &readings);
        assert_eq!((work.units(), work.stretches.len(), work.found.read), (WorkUnits::ZERO, 0, 0));
        assert_eq!(work.found.failure, Some(WorkFailure::of_two_counters()));
    }

    /// What was done in parts of the run is what was done in all of it; of a unit each part has its time.
    #[test]
    fn units_of_parts() {
        let work = work(&[(20, Some(0)), (60, Some(0)), (100, Some(1)), (100, Some(3)), (140, Some(5))]);
        let within = |spans: &[(u64, u64)]| {
            let spans: Vec<_> = spans.iter().map(|&(from, to)| (at(from), at(to))).collect();
            work.units_within(&spans).as_number()
        };
        assert_eq!(within(&[(0, 40), (120, 200)]), 0.75 + 1.0);
        assert_eq!(within(&[(0, 40), (120, 200)]) + within(&[(40, 120)]), work.units().as_number());
        assert_eq!((within(&[]), within(&[(150, 200)])), (0.0, 0.0));
    }

    /// Calls are of all of the time that is asked for, also before the first reading and after the last; without readings nothing is known over time.
    #[test]
    fn calls_over_time() {
        let readings = [(10, Some(0)), (60, Some(4)), (120, Some(6)), (210, Some(9))];
        let whole = read_from(WorkSource::Calls("f".into()), &readings);
        assert_eq!(whole.found.failure, None);
        let [all] = whole.stretches[..] else { panic!("{:?}", whole.stretches) };
        assert_eq!((all.from, all.to, all.units), (at(0), at(200), WorkUnits::whole(9)));
        assert_eq!((package(all.energy), package(all.edges)), (10 * 1_037, 0));
        let units: f64 = whole.steps.iter().map(|step| step.units.as_number()).sum();
        assert_eq!((units, whole.units_within(&[(at(120), at(200))]).as_number()), (9.0, 3.0));
        let part = &run().work(&[whole.series], &[package_row()], at(60), at(130))[0];
        assert_eq!((part.units(), part.covered_ns()), (WorkUnits::whole(2), 70 * MS));
        let missing = read_from(WorkSource::Calls("f".into()), &[(50, None)]);
        assert_eq!((missing.stretches, missing.found.failure), (vec![], Some(WorkFailure::Missing)));
    }

    /// Where an end lies within a bin its part by time counts, and how far that may be off is said.
    #[test]
    fn ends_within_bins() {
        let work = work(&[(25, Some(0)), (110, Some(1))]);
        assert_eq!(package(work.sum(|of| of.energy)), 750 + 28 + 3 * 1_037 + 500 + 19);
        assert_eq!(package(work.sum(|of| of.edges)), 260 + 519);
    }

    /// A counter that falls or is gone ends a stretch; what lies between two stretches is in none, and all are exact.
    #[test]
    fn restarts_and_gaps() {
        let work = work(&[
            (0, Some(7)),
            (40, Some(9)),
            (60, Some(1)),
            (100, Some(4)),
            (110, None),
            (130, Some(4)),
            (190, Some(6)),
        ]);
        let of: Vec<_> =
            work.stretches.iter().map(|of| (of.from.as_ns() / MS, of.to.as_ns() / MS, of.units)).collect();
        let units = WorkUnits::whole;
        assert_eq!(of, [(0, 40, units(2)), (60, 100, units(3)), (130, 190, units(2))]);
        assert_eq!((work.found.restarts, work.found.gone), (1, 1));
        assert_eq!(work.found.failure, Some(WorkFailure::Missing));
    }

    /// Steps and their sums are the stretches, to the microjoule and unit.
    #[test]
    fn steps_are_the_stretches() {
        let readings: Vec<_> = (0..=99).map(|n| (2 * n + 1, Some(3 * n))).collect();
        let work = work(&readings);
        assert!((40..=51).contains(&work.steps.len()), "{}", work.steps.len());
        assert!(work.steps.windows(2).all(|pair| pair[0].to == pair[1].from));
        let sum: i64 = work.steps.iter().map(|step| package(step.energy)).sum();
        assert_eq!(sum, package(work.sum(|of| of.energy)));
        let units = work.steps.iter().fold(WorkUnits::ZERO, |sum, step| sum.saturating_add(step.units));
        assert_eq!(units, work.units());
    }

    /// The profile of the stretches has their energy in its rows and its ledger, and what has nothing in them is gone.
    #[test]
    fn the_profile_of_stretches() {
        use crate::ids::ThreadKey;
        use crate::profile::ProfileRow;
        let row = |each: i64| ProfileRow {
            thread: ThreadKey::new(0),
            stack: None,
            energy: uj(10 * each),
            by_time: uj(10 * each),
            time_ns: 10 * MS,
            samples: 10,
            on_behalf_of: None,
        };
        let ledger = vec![package_row()];
        let profile = Profile { rows: vec![row(1_000), row(37)], ledger, ..Profile::default() };
        let spans: Vec<_> = [(3, 7), (7, 95), (133, 199)].map(|(from, to)| (at(from), at(to))).into();
        let part = run().within_stretches(profile.clone(), &spans);
        let stretches =
            work(&[(3, Some(0)), (7, Some(1)), (95, Some(2)), (96, None), (133, Some(2)), (199, Some(9))]);
        let rows: i64 = part.rows.iter().map(|row| package(row.energy)).sum();
        assert_eq!(rows, package(stretches.sum(|of| of.energy)));
        assert_eq!((part.ledger[0].target.as_uj(), part.ledger[0].idle.as_uj()), (rows, 790));
        assert_eq!(part.ledger[0].imbalance(), MicroJoules::ZERO);
        assert!(run().within_stretches(profile.clone(), &[]).rows.is_empty());
        let all = run().within_stretches(profile.clone(), &[(at(0), at(200))]);
        assert_eq!(all.rows, profile.rows);
    }

    /// A counter that never moves, moves late, or was never there.
    #[test]
    fn standing_still() {
        assert_eq!(work(&[(0, Some(3)), (200, Some(3))]).found.still_ns, 200 * MS);
        assert_eq!(work(&[(0, Some(3)), (100, Some(4)), (200, Some(5))]).found.still_ns, 0);
        let mut stalls: Vec<_> = (0..=100).map(|n| (n, Some(n))).collect();
        stalls.push((200, Some(100)));
        assert_eq!(work(&stalls).found.still_ns, 100 * MS);
        let never = work(&[(0, None)]);
        assert_eq!((never.stretches.len(), never.found.read, never.found.gone), (0, 0, 0));
        assert!(work(&[]).stretches.is_empty() && work(&[(5, Some(1))]).stretches.is_empty());
    }
}
