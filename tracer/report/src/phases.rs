//! Phases of a run: stretches that differ in which functions its energy goes to, or in the units of work that a joule does, and a row for each. Marks
//! have no part in it, nor have watts.
//!
//! ```text
//!  intervals of 0.1 s or longer      t t t t t t t t e e e e t t t t …     the part of the energy that each function has, with all it calls;
//!                                                                          of each counter of work the part of its most units a joule (rates.rs)
//!  stretches                        [───────────────|───────|───────       energy_trace_statistics::stretches
//!  phases                            phase 1         phase 2 phase 1       stretches of one kind
//! ```
//!
//! Energy comes from the profile over time, so that phases are the target to the microjoule. Leaves out how a run is cut (`statistics`), and how
//! sure the energy of a part is: nobody knows that.

use super::fold::{Cost, Spent, fold};
use super::functions::FunctionTable;
use super::rates::{Intervals, rates};
use super::rows::Row;
use super::run;
use super::uncertainty::Uncertainties;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::over_time::RowBin;
use energy_trace_model::profile::phases::{Phase, Phases, ToldBy};
use energy_trace_model::profile::stretches::Span;
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{OverTime, Profile, ProfileRow};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{NativeFrames, folded};
use energy_trace_names::shown::shown;
use energy_trace_statistics::stretches::{Limits, Mix, kinds, stretches, sum};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The shortest interval: at 99 Hz a thread has ten samples in it.
const INTERVAL_NS: u64 = 100_000_000;
/// A phase lasts ten intervals, and three in ten of its energy go elsewhere than before.
const LIMITS: Limits = Limits { shortest: 10, least: 0.3 };
/// Functions that are looked at: those with the most energy, of several that are always together the outermost.
const FUNCTIONS: usize = 128;
/// Functions that a phase is told by, and by how much more of it they have at least.
const TOLD: usize = 3;
const MORE: f64 = 0.1;
/// Stretches of a phase that are listed.
const LISTED: usize = 4;
/// Stands for what programs import, and all that this runs: each module would be a phase of its own.
const IMPORTS: &str = "[imports]";
/// Ends what stands for the units of work that a joule did.
const OF_A_JOULE: &str = " per joule, of the most]";
/// The row of a profile that was not cut.
const WHOLE: &str = "[whole run]";

/// What makes a mix.
struct Functions {
    names: Vec<String>,
    depths: Vec<usize>,
    /// Those of each row.
    of_row: Vec<Vec<usize>>,
}

/// What a function has of the run.
#[derive(Clone, Copy, Default)]
struct Known {
    number: usize,
    amount: f64,
    depth: usize,
    /// Of the rows that it is in: the same for functions that are always together.
    rows: u64,
}

/// Cuts a run into phases.
pub fn find(profile: &Profile, over: &OverTime) -> Phases {
    let run = Cut::of(profile, over);
    let (bins, step_ns) = (over.bins, run.step_ns);
    let span = |range: &Range<usize>| {
        let bin = |interval: usize| u32::try_from(interval).unwrap_or(u32::MAX).saturating_mul(run.each);
        (bins.span(bin(range.start)).0, bins.span(bin(range.end)).0)
    };
    let phase = |kind: usize| {
        let here = || run.stretches.iter().filter(move |(_, of)| *of == kind).map(|(range, _)| range);
        let others = run.stretches.iter().filter(|(_, of)| *of != kind).map(|(range, _)| range);
        let spans: Vec<Span> = here().map(&span).collect();
        let here = sum(here().flat_map(|range| &run.series[range.clone()]));
        let elsewhere = sum(others.flat_map(|range| &run.series[range.clone()]));
        let told_by = if run.count() > 1 { run.functions.told_by(&here, &elsewhere) } else { Vec::new() };
        Phase { told_by, ..within(profile, over, spans) }
    };
    let shortest_ns = step_ns.saturating_mul(LIMITS.shortest as u64);
    Phases { step_ns, shortest_ns, found: (0..run.count()).map(phase).collect() }
}

/// How many phases a run has that are worth a look: a program's start is none.
pub fn count(profile: &Profile, over: &OverTime) -> usize {
    Cut::of(profile, over).large()
}

/// A phase of less than a twentieth of the run is not counted.
const SMALLEST: usize = 20;

/// A run in stretches.
struct Cut {
    functions: Functions,
    /// What intervals of so many bins, and of this length, are made of.
    series: Vec<Mix>,
    each: u32,
    step_ns: u64,
    /// The intervals of each stretch, and the number of its phase.
    stretches: Vec<(Range<usize>, usize)>,
}

impl Cut {
    fn of(profile: &Profile, over: &OverTime) -> Self {
        let mut functions = Functions::of(profile);
        let width_ns = over.bins.width_ns();
        let each = u32::try_from(INTERVAL_NS.div_ceil(width_ns.max(1))).unwrap_or(u32::MAX);
        let step_ns = width_ns.saturating_mul(each.into());
        let mut series = series(profile, over, &functions, each);
        functions.add_rates(profile, &mut series, step_ns);
        let cut = stretches(&series, LIMITS);
        let kinds = kinds(&series, &cut, LIMITS.least);
        Self { functions, series, each, step_ns, stretches: cut.into_iter().zip(kinds).collect() }
    }

    fn count(&self) -> usize {
        self.stretches.iter().map(|(_, kind)| kind + 1).max().unwrap_or(0)
    }

    /// How many phases are no small part of the run.
    fn large(&self) -> usize {
        let mut intervals: BTreeMap<usize, usize> = BTreeMap::new();
        for (stretch, kind) in &self.stretches {
            *intervals.entry(*kind).or_default() += stretch.len();
        }
        intervals.values().filter(|&&of| of * SMALLEST >= self.series.len()).count()
    }
}

/// The energy of some stretches.
fn within(profile: &Profile, over: &OverTime, spans: Vec<Span>) -> Phase {
    let part = over.within_stretches(profile.clone(), &spans);
    let mut all = Cost::default();
    part.rows.iter().for_each(|row| all += Cost::from(row));
    let Cost { energy, by_time, time_ns, samples } = all;
    Phase { stretches: spans, energy, by_time, time_ns, samples, told_by: Vec::new(), units: None }
}

/// The same phases in the time alone in which this work was done, each with what was done in it.
pub fn of_work(phases: Phases, profile: &Profile, over: &OverTime, work: &Work) -> Phases {
    let of_phase = |phase: Phase| {
        let common = |(from, to): &Span| {
            let stretches = work.stretches.iter();
            let spans = stretches.map(|stretch| (stretch.from.max(*from), stretch.to.min(*to)));
            spans.filter(|(from, to)| from < to).collect::<Vec<_>>()
        };
        let spans: Vec<Span> = phase.stretches.iter().flat_map(common).collect();
        let units = Some(work.units_within(&spans));
        let Phase { stretches, told_by, .. } = phase;
        Phase { stretches, told_by, units, ..within(profile, over, spans) }
    };
    Phases { found: phases.found.into_iter().map(of_phase).collect(), ..phases }
}

/// What each interval is made of: by energy, by CPU time where there is none.
fn series(profile: &Profile, over: &OverTime, functions: &Functions, each: u32) -> Vec<Mix> {
    let choice = run::headline(profile);
    let is_measured = run::target(profile, choice) > MicroJoules::ZERO;
    let amount = |entry: &RowBin| match is_measured {
        true => run::chosen(&entry.energy, choice).as_uj().max(0) as f64,
        false => entry.time_ns as f64,
    };
    let empty = Mix { of: vec![0.0; functions.names.len()], ..Mix::default() };
    let mut series = vec![empty; over.bins.count().div_ceil(each.max(1)) as usize];
    for (number, (row, own)) in profile.rows.iter().zip(&functions.of_row).enumerate() {
        let density = row.samples as f64 / row.time_ns.max(1) as f64;
        for entry in over.of_row(number) {
            let Some(mix) = series.get_mut((entry.bin / each.max(1)) as usize) else { continue };
            let amount = amount(entry);
            mix.weight += amount;
            mix.samples += density * entry.time_ns as f64;
            own.iter().for_each(|&function| mix.of[function] += amount);
        }
    }
    series
}

impl Functions {
    /// Those of a profile, the interpreter's own left out.
    fn of(profile: &Profile) -> Self {
        let profile = &*folded(profile, NativeFrames::Libraries);
        let table = FunctionTable::new(profile);
        // Imports are the number behind all functions.
        let imports = table.count();
        let is_module: Vec<bool> =
            (0..imports).map(|function| table.symbol(function).ends_with("<module>")).collect();
        let starts = |function: usize| function < imports && is_start(&table.symbol(function));
        let path = |row: &ProfileRow| without_imports(path(&table, row), &is_module);
        let paths: Vec<Vec<usize>> = profile.rows.iter().map(path).collect();
        let mut numbers: Vec<Option<usize>> = vec![None; imports + 1];
        let may_be: Vec<bool> = (0..=imports).map(|function| !starts(function)).collect();
        let chosen = chosen(profile, &paths, &may_be);
        let name = |known: &Known| match known.number == imports {
            true => IMPORTS.to_owned(),
            false => table.name(known.number),
        };
        for (at, known) in chosen.iter().enumerate() {
            numbers[known.number] = Some(at);
        }
        let own = |path: &Vec<usize>| {
            let own: BTreeSet<usize> = path.iter().filter_map(|&function| numbers[function]).collect();
            own.into_iter().collect()
        };
        Self {
            names: chosen.iter().map(name).collect(),
            depths: chosen.iter().map(|known| known.depth).collect(),
            of_row: paths.iter().map(own).collect(),
        }
    }

    /// Adds how many units of work a joule did to what intervals of this length are made of.
    fn add_rates(&mut self, profile: &Profile, series: &mut [Mix], length_ns: u64) {
        let spent: Vec<f64> = series.iter().map(|mix| mix.weight).collect();
        let intervals = Intervals { start: profile.run.start, length_ns, spent: &spent };
        for (work, amounts) in rates(profile, intervals, LIMITS.shortest) {
            self.names.push(format!("[{work}{OF_A_JOULE}"));
            self.depths.push(usize::MAX);
            series.iter_mut().zip(amounts).for_each(|(mix, amount)| mix.of.push(amount));
        }
    }

    /// What has more of a phase than of the rest of the run, or where nothing does, what has less; of functions with the same parts the outermost.
    fn told_by(&self, here: &Mix, elsewhere: &Mix) -> Vec<ToldBy> {
        let more = self.told_by_more(here, elsewhere);
        if !more.is_empty() {
            return more;
        }
        let turned = |by: ToldBy| ToldBy { here: by.elsewhere, elsewhere: by.here, ..by };
        self.told_by_more(elsewhere, here).into_iter().map(turned).collect()
    }

    fn told_by_more(&self, here: &Mix, elsewhere: &Mix) -> Vec<ToldBy> {
        let parts = |at: usize| [here.part(at), elsewhere.part(at)];
        let percent = |part: f64| (100.0 * part).round() as i64;
        let more = |at: &usize| percent(parts(*at)[0] - parts(*at)[1]);
        let mut order: Vec<usize> = (0..self.names.len()).filter(|at| more(at) >= percent(MORE)).collect();
        order.sort_by_key(|at| (Reverse(more(at)), self.depths[*at], *at));
        let mut told: Vec<usize> = Vec::new();
        for at in order {
            let is_like = |other: &usize| (0..2).all(|of| (parts(at)[of] - parts(*other)[of]).abs() < 0.02);
            if told.len() < TOLD && !told.iter().any(is_like) {
                told.push(at);
            }
        }
        let line = |at: usize| ToldBy {
            function: self.names[at].clone(),
            here: parts(at)[0],
            elsewhere: parts(at)[1],
        };
        told.into_iter().map(line).collect()
    }
}

fn path(table: &FunctionTable<'_>, row: &ProfileRow) -> Vec<usize> {
    let mut path = Vec::new();
    table.path(row, &mut path);
    path
}

/// A path with a module's code within another's as one function, which ends it.
fn without_imports(mut path: Vec<usize>, is_module: &[bool]) -> Vec<usize> {
    let mut modules = path.iter().enumerate().filter(|(_, function)| is_module[**function]);
    if let Some((at, _)) = modules.nth(1) {
        path.truncate(at);
        path.push(is_module.len());
    }
    path
}

/// Whether a function only starts others, whatever they are: no phase is told by it.
fn is_start(symbol: &str) -> bool {
    let is_of_libc = symbol.starts_with("__libc_start") || symbol.starts_with("clone3");
    is_of_libc || matches!(symbol, "_start" | "start_thread" | "__clone") || symbol.ends_with("<module>")
}

/// The functions that are looked at: of those that may be.
fn chosen(profile: &Profile, paths: &[Vec<usize>], may_be: &[bool]) -> Vec<Known> {
    let choice = run::headline(profile);
    let is_measured = run::target(profile, choice) > MicroJoules::ZERO;
    let mut known: Vec<Known> =
        (0..may_be.len()).map(|number| Known { number, depth: usize::MAX, ..Known::default() }).collect();
    for ((row, path), code) in profile.rows.iter().zip(paths).zip(row_codes()) {
        let energy = run::chosen(&row.energy, choice).as_uj() as f64;
        let amount = if is_measured { energy } else { row.time_ns as f64 };
        for (depth, &function) in path.iter().enumerate() {
            let known = &mut known[function];
            known.depth = known.depth.min(depth);
            if !path[..depth].contains(&function) {
                known.amount += amount;
                known.rows = known.rows.wrapping_add(code);
            }
        }
    }
    known.retain(|known| known.amount > 0.0 && may_be[known.number]);
    known.sort_by(|a, b| a.rows.cmp(&b.rows).then(a.depth.cmp(&b.depth)).then(a.number.cmp(&b.number)));
    known.dedup_by_key(|known| known.rows);
    known.sort_by(|a, b| b.amount.total_cmp(&a.amount).then(a.number.cmp(&b.number)));
    known.truncate(FUNCTIONS);
    known
}

/// A number for each row, so that sums of them tell sets of rows apart (Steele, Lea and Flood's SplitMix, OOPSLA 2014).
fn row_codes() -> impl Iterator<Item = u64> {
    (1_u64..).map(|row| {
        let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A row for each phase, in order of appearance; one for all, where nobody asked for phases.
pub(crate) fn phase_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let Some(phases) = &profile.phases else {
        let groups = fold(profile, |_, path| path.push(()));
        return groups.into_values().map(|spent| Row::new(WHOLE.to_owned(), spent, uncertainties)).collect();
    };
    let row = |(number, phase): (usize, &Phase)| {
        let Phase { energy, by_time, time_ns, samples, .. } = *phase;
        let cost = Cost { energy, by_time, time_ns, samples };
        let name = format!("phase {}: {}", number + 1, times(profile, phases, phase).join(", "));
        let flags = uncertainties.flags(&cost, None);
        let all = Row::new(name, (Spent { own: cost, total: cost }, Vec::new()), uncertainties);
        Row { uncertainty: None, flags, phase: Some(number), ..all }
    };
    phases.found.iter().enumerate().map(row).collect()
}

/// `0 to 12.4 s`, for each stretch.
fn times(profile: &Profile, phases: &Phases, phase: &Phase) -> Vec<String> {
    let decimals = usize::from(phases.step_ns < 1_000_000_000);
    let seconds = |at: KtimeNs| format!("{:.decimals$}", at.ns_since(profile.run.start) as f64 / 1e9);
    phase.stretches.iter().map(|&(from, to)| format!("{} to {} s", seconds(from), seconds(to))).collect()
}

/// Lines for a reader: which stretches a phase is, and what tells it from the others.
pub(crate) fn lines(profile: &Profile, number: usize) -> Vec<String> {
    let Some((phases, phase)) = profile.phases.as_ref().and_then(|all| Some((all, all.found.get(number)?)))
    else {
        return Vec::new();
    };
    let times = times(profile, phases, phase);
    let mut lines = match &times[..] {
        [alone] => vec![format!("phase {}: {alone}", number + 1)],
        several => vec![format!("phase {}: {} stretches, {:.1} s", number + 1, several.len(), length(phase))],
    };
    if times.len() > 1 {
        lines.extend(times.iter().take(LISTED).map(|times| format!("  {times}")));
        lines.extend((times.len() > LISTED).then(|| format!("  and {} more", times.len() - LISTED)));
    }
    lines.extend(phase.told_by.iter().map(|by| format!("  {}", told(by))));
    lines
}

/// `62% here, 3% elsewhere: attention`.
pub(crate) fn told(by: &ToldBy) -> String {
    let percent = |part: f64| format!("{:.0}%", 100.0 * part);
    format!("{} here, {} elsewhere: {}", percent(by.here), percent(by.elsewhere), shown(&by.function))
}

/// Seconds of all stretches.
fn length(phase: &Phase) -> f64 {
    phase.stretches.iter().map(|(from, to)| to.ns_since(*from)).sum::<u64>() as f64 / 1e9
}

/// What phases are, for below their table.
pub(crate) fn about(phases: &Phases) -> String {
    let (step, shortest) = (phases.step_ns as f64 / 1e9, phases.shortest_ns as f64 / 1e9);
    let most = 100.0 * LIMITS.least;
    let mut told = phases.found.iter().flat_map(|phase| &phase.told_by);
    let rates = match told.any(|by| by.function.ends_with(OF_A_JOULE)) {
        true => {
            "; [… per joule, of the most]: units of work that a joule did, in percent of the most that one did"
        }
        false => "",
    };
    match phases.found.len() {
        0 | 1 => format!(
            "one phase: nowhere do {most:.0} % of the energy go to other functions for {shortest} s or longer"
        ),
        _ => format!(
            "found from what ran, not marked: a phase begins where {most:.0} % of the energy or more go to other functions for {shortest} s or \
             longer, or more of it for less. Limits are right to {step} s; what is too short to tell is part of a neighbour{rates}"
        ),
    }
}

#[cfg(test)]
#[path = "phases_tests.rs"]
mod tests;
