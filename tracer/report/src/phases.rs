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
use super::functions::{FunctionTable, is_start};
use super::rates::{Intervals, rates};
use super::row::Row;
use super::run;
use super::table_cells::ELSEWHERE;
use super::uncertainty::Uncertainties;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::profile::over_time::RowBin;
use energy_trace_model::profile::phases::{Phase, Phases, ToldBy};
use energy_trace_model::profile::stretches::Span;
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
pub(crate) fn within(profile: &Profile, over: &OverTime, spans: Vec<Span>) -> Phase {
    let part = over.within_stretches(profile.clone(), &spans);
    let mut all = Cost::default();
    part.rows.iter().for_each(|row| all += row);
    let Cost { energy, by_time, time_ns, samples } = all;
    Phase { stretches: spans, energy, by_time, time_ns, samples, told_by: Vec::new(), units: None }
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
            let own: BTreeSet<usize> = path.iter().filter_map(|&function| numbers[function]).fill_set();
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
        order.order_by_key(|at| (Reverse(more(at)), self.depths[*at], *at));
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
    known.order_by(|a, b| a.rows.cmp(&b.rows).then(a.depth.cmp(&b.depth)).then(a.number.cmp(&b.number)));
    known.dedup_by_key(|known| known.rows);
    known.order_by(|a, b| b.amount.total_cmp(&a.amount).then(a.number.cmp(&b.number)));
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
    format!("{} here, {}{ELSEWHERE}{}", percent(by.here), percent(by.elsewhere), shown(&by.function))
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
mod tests {
    use super::{Phases, count, find, phase_rows, without_imports};
    use crate::By;
    use crate::json::{self, JsonOptions};
    use crate::per_work::phases_of;
    use crate::summary::{self, SummaryOptions};
    use crate::table::{self, TableOptions};
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::uncertainty::Uncertainties;
    use energy_trace_model::ids::StackId;
    use energy_trace_model::profile::over_time::{Bins, RowBin};
    use energy_trace_model::profile::work::{PerWork, Work, WorkFindings};
    use energy_trace_model::profile::{OverTime, Profile};
    use energy_trace_model::recording::record::{
        DomainClass, FrameKind, Quality, WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
    };
    use energy_trace_model::units::MicroJoules;
    use std::time::Duration;

    /// What a program does for a time: the number of a stack, and its chance.
    type Doing = &'static [(usize, f64)];

    /// `main` calls `train`, of which a third is `forward` and the rest `backward`, and `evaluate`, which is `forward` alone; `save` beside.
    const STACKS: [&[&str]; 8] = [
        &["main", "train", "forward", "gemm"],
        &["main", "train", "backward", "gemm"],
        &["main", "evaluate", "forward", "gemm"],
        &["main", "save"],
        &["main", "train", "optimizer"],
        &["_start", "__libc_start_main", "app.<module>", "solve"],
        &["_start", "__libc_start_main", "app.<module>"],
        &["clone3", "start_thread", "serve"],
    ];
    const TRAIN: Doing = &[(0, 0.3), (1, 0.5), (3, 0.02), (4, 0.18)];
    const EVALUATE: Doing = &[(2, 0.95), (3, 0.05)];

    /// A run that does this for so many tenths of a second each, with ten samples in each.
    fn run(seed: u64, plan: &[(Doing, u32)], has_energy: bool) -> (Profile, OverTime) {
        let mut random = fastrand::Rng::with_seed(seed);
        let tenths: u32 = plan.iter().map(|(_, tenths)| tenths).sum();
        let mut b = RecordingBuilder::new("train", u64::from(tenths) / 10);
        let process = b.process(7, "train", None);
        let thread = b.thread(process, 7, "train");
        let mut bins: Vec<Vec<RowBin>> = vec![Vec::new(); STACKS.len()];
        let doing = plan.iter().flat_map(|&(doing, tenths)| vec![doing; tenths as usize]);
        for (bin, doing) in (0..).zip(doing) {
            for _ in 0..10 {
                let entries = &mut bins[drawn(&mut random, doing)];
                if entries.last().is_none_or(|last| last.bin != bin) {
                    entries.push(RowBin { bin, ..RowBin::default() });
                }
                let entry = entries.last_mut().unwrap();
                entry.time_ns += 10_000_000;
                let uj = if has_energy { random.i64(5_000..15_000) } else { 0 };
                entry.energy[DomainClass::Package] += MicroJoules::from_uj(uj);
            }
        }
        let mut over = OverTime { firsts: vec![0], ..OverTime::default() };
        for (names, entries) in STACKS.iter().zip(bins) {
            let frames: Vec<_> =
                names.iter().map(|name| b.frame(FrameKind::Native, "/bin/train", name)).collect();
            let stack: StackId = b.stack(&frames);
            let (uj, ns) = entries.iter().fold((0, 0), |(uj, ns), entry| {
                (uj + entry.energy[DomainClass::Package].as_uj(), ns + entry.time_ns)
            });
            b.spent(thread, Some(stack), uj, ns / 1_000_000, ns / 10_000_000);
            over.entries.extend(entries);
            over.firsts.push(over.entries.len());
        }
        if has_energy {
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
        }
        let profile = b.build();
        over.bins = Bins::over(profile.run.start, profile.run.end);
        assert_eq!(over.bins.width_ns(), 100_000_000);
        (profile, over)
    }

    fn drawn(random: &mut fastrand::Rng, doing: Doing) -> usize {
        let mut left = random.f64();
        let found = doing.iter().find(|(_, chance)| {
            left -= chance;
            left < 0.0
        });
        found.unwrap_or(&doing[0]).0
    }

    /// The ends of all stretches in tenths of a second, with the number of their phase.
    fn ends(profile: &Profile, found: &Phases) -> Vec<(u64, usize)> {
        let of_phase = |(number, phase): (usize, &super::Phase)| {
            let ends = phase.stretches.iter().map(|(_, to)| to.ns_since(profile.run.start) / 100_000_000);
            ends.map(|end| (end, number)).collect::<Vec<_>>()
        };
        let mut ends: Vec<_> = found.found.iter().enumerate().flat_map(of_phase).collect();
        ends.sort_unstable();
        ends
    }

    /// Training and evaluation by turns are two phases, each limit right to a step, with their joules to the microjoule, and are told by the
    /// functions that make the difference; by CPU time where no energy was measured.
    #[test]
    fn training_and_evaluation() {
        let plan = [(TRAIN, 90), (EVALUATE, 30), (TRAIN, 90), (EVALUATE, 30), (TRAIN, 60)];
        let truth = [(90, 0), (120, 1), (210, 0), (240, 1), (300, 0)];
        for (seed, has_energy) in (0..12).map(|seed| (seed, seed % 3 != 0)) {
            let (profile, over) = run(seed, &plan, has_energy);
            let found = find(&profile, &over);
            let ends = ends(&profile, &found);
            assert_eq!(ends.len(), truth.len(), "seed {seed}: {ends:?}");
            for (found, truth) in ends.iter().zip(truth) {
                assert!(found.0.abs_diff(truth.0) <= 1 && found.1 == truth.1, "seed {seed}: {ends:?}");
            }
            let told: Vec<Vec<&str>> = found
                .found
                .iter()
                .map(|phase| phase.told_by.iter().map(|by| &*by.function).collect())
                .collect();
            assert_eq!(told, [["train", "backward", "optimizer"], ["evaluate", "forward", "gemm"]]);
            let sum: MicroJoules = found.found.iter().map(|phase| phase.energy.total()).sum();
            assert_eq!(sum, profile.ledger.iter().map(|row| row.target).sum());
            assert_eq!(found.found.iter().map(|phase| phase.time_ns).sum::<u64>(), 30_000_000_000);
        }
    }

    /// The page has each phase with its stretches in bins, its joules and what tells it; the summary says how many there are and what shows them.
    /// One phase is none.
    #[test]
    fn page_and_summary() {
        let (mut profile, over) = run(1, &[(TRAIN, 120), (EVALUATE, 60), (TRAIN, 120)], true);
        profile.phases = Some(find(&profile, &over));
        let found = &profile.phases.as_ref().unwrap().found;
        let page = |profile: &Profile, over: &OverTime| {
            let mut out = Vec::new();
            crate::html::write(&mut out, profile, over, &(0..over.bins.count()), false).unwrap();
            let page = String::from_utf8(out).unwrap();
            let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
            serde_json::from_str::<serde_json::Value>(data).unwrap()["phases"].clone()
        };
        let shown = page(&profile, &over);
        let ends: Vec<u64> = ends(&profile, &profile.phases.clone().unwrap()).iter().map(|of| of.0).collect();
        assert_eq!(shown[0]["bins"], serde_json::json!([[0, ends[0]], [ends[1], 300]]));
        assert_eq!(
            (&shown[1]["name"], &shown[1]["bins"]),
            (&"phase 2".into(), &serde_json::json!([[ends[0], ends[1]]]))
        );
        assert_eq!(shown[1]["energy"], found[1].energy.total().as_uj());
        assert!(shown[1]["told_by"].as_str().unwrap().contains(" elsewhere: evaluate"), "{shown}");
        let summary = |profile: &Profile| {
            let recording = Some("energy-trace.data".to_owned());
            let phases = profile.phases.as_ref().map_or(0, |phases| phases.found.len());
            let options = SummaryOptions { recording, phases, ..SummaryOptions::default() };
            let mut out = Vec::new();
            summary::write(&mut out, profile, &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = summary(&profile);
        assert!(text.contains("2 phases, found from what ran: report --by phase\n"), "{text}");
        assert_eq!(count(&profile, &over), 2);
        let (begins, over) = run(1, &[(EVALUATE, 12), (TRAIN, 288)], true);
        assert_eq!(
            (find(&begins, &over).found.len(), count(&begins, &over)),
            (2, 1),
            "its start is no phase of it"
        );
        let (mut steady, over) = run(1, &[(TRAIN, 300)], true);
        steady.phases = Some(find(&steady, &over));
        assert_eq!((page(&steady, &over), count(&steady, &over)), (serde_json::json!([]), 1));
        assert!(!summary(&steady).contains("phases"));
    }

    /// A program that always runs the same functions has a phase for each rate at which its joules do its work; none where that is steady.
    #[test]
    fn rates_of_work() {
        let told = |numbers: &[(u64, f64)]| {
            let (mut profile, over) = run(3, &[(TRAIN, 300)], true);
            let reading = |&(tenths, number): &(u64, f64)| WorkReading {
                at: profile.run.start + Duration::from_millis(100 * tenths),
                within_ns: 0,
                value: Ok(WorkUnits::from_number(number).unwrap()),
            };
            let counter = WorkCounter { name: "token".to_owned(), source: WorkSource::File("/run/n".into()) };
            let series = WorkSeries { counter, readings: numbers.iter().map(reading).collect() };
            let found = WorkFindings::default();
            profile.work = vec![Work { series, stretches: vec![], steps: vec![], found }];
            let found = find(&profile, &over);
            (ends(&profile, &found), found.found[0].told_by.clone())
        };
        let steady: Vec<(u64, f64)> = (0..=60).map(|number| (5 * number, 10.0 * number as f64)).collect();
        assert_eq!(told(&steady), (vec![(300, 0)], vec![]));
        let (ends, told_by) = told(&[(0, 0.0), (50, 500.0), (200, 2_000.0), (250, 2_100.0), (300, 2_200.0)]);
        assert_eq!(ends, [(200, 0), (300, 1)]);
        let [by] = &told_by[..] else { panic!("{told_by:?}") };
        assert!(
            by.function == "[token per joule, of the most]"
                && by.here > 0.9
                && (by.elsewhere - 0.2).abs() < 0.03,
            "{by:?}"
        );
    }

    /// Each phase has its units with the joules of each, in text, JSON and CSV: its energy is that of the time in which the unit was done, all units are
    /// the run's, and the rest is not lost.
    #[test]
    fn units_of_phases() {
        let (mut profile, over) = run(1, &[(TRAIN, 200), (EVALUATE, 100)], true);
        let reading = |(tenths, number): (u64, u64)| WorkReading {
            at: profile.run.start + Duration::from_millis(100 * tenths),
            within_ns: 0,
            value: Ok(WorkUnits::whole(number)),
        };
        let found = find(&profile, &over);
        let counter = WorkCounter { name: "step".to_owned(), source: WorkSource::Stdout("(.*)".into()) };
        let readings = [(50, 0), (200, 60), (250, 70)].map(reading).to_vec();
        let series = [WorkSeries { counter, readings }];
        profile.work = over.work(&series, &profile.ledger, profile.run.start, profile.run.end);
        let work = profile.work[0].clone();
        let phases = phases_of(found, &profile, &over, &work);
        let units: Vec<f64> = phases.found.iter().map(|of| of.units.unwrap().as_number()).collect();
        assert!((units[0] - 60.0).abs() < 0.5 && (units[1] - 10.0).abs() < 0.5, "{units:?}");
        let energy: MicroJoules = phases.found.iter().map(|of| of.energy.total()).sum();
        assert_eq!(energy, work.sum(|of| of.energy).total());
        let done = crate::work::work_named(&profile, "step").unwrap();
        let (all, rest, each) =
            (done.units, done.rest, phases.found[1].energy.total().as_uj() as f64 / units[1]);
        let mut profile =
            over.within_stretches(profile.clone(), &[(work.stretches[0].from, work.stretches[0].to)]);
        profile.phases = Some(phases);
        profile.per_work = Some(PerWork { name: "step".into(), units: all, rest, ..PerWork::default() });
        let options = TableOptions { by: By::Phase, width: Some(80), ..TableOptions::default() };
        let mut text = Vec::new();
        crate::per_work::write(&mut text, &profile, &options).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("J per step  phase\n") && text.contains("phase 2: 20.0 to 30.0 s\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let mut out = Vec::new();
        let options = JsonOptions { rows: Some((By::Phase, crate::Level::All)), ..JsonOptions::default() };
        json::write(&mut out, &profile, &options).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let (row, work) = (&report["rows"][1], &report["work"][0]);
        assert_eq!(row["phase"]["units"], units[1]);
        assert!((row["self_uj_per_unit"].as_f64().unwrap() / each - 1.0).abs() < 1e-9, "{row} {each}");
        // Joules outside of the stretches are in both lists.
        assert_eq!(work["rest_uj"], report["beside"][0]["self_uj"]);
        let mut lines = Vec::new();
        crate::csv::write_rows(&mut lines, &profile, By::Phase, crate::Level::All).unwrap();
        assert!(String::from_utf8(lines).unwrap().contains(&format!(",{each:.3}\n")));
    }

    /// A phase is told by what runs in it, or what does not, and never by what starts a program, a thread or a module.
    #[test]
    fn told_by_no_start() {
        let told = |plan: &[(Doing, u32)]| {
            let (profile, over) = run(2, plan, true);
            let told = |phase: &super::Phase| {
                let of = phase.told_by.iter().map(|by| (by.function.clone(), by.here > by.elsewhere));
                of.collect::<Vec<_>>()
            };
            find(&profile, &over).found.iter().map(told).collect::<Vec<_>>()
        };
        let by = |name: &str, more| vec![(name.to_owned(), more)];
        let (solve, module, serve): (Doing, Doing, Doing) = (&[(5, 1.0)], &[(6, 1.0)], &[(7, 1.0)]);
        assert_eq!(told(&[(solve, 150), (serve, 150)]), [by("solve", true), by("serve", true)]);
        assert_eq!(told(&[(solve, 150), (module, 150)]), [by("solve", true), by("solve", false)]);
    }

    /// What modules run while others import them is one; what a module runs later is not.
    #[test]
    fn imports() {
        let is_module = [false, true, true, false];
        assert_eq!(without_imports(vec![0, 1, 3, 2, 3, 2], &is_module), [0, 1, 3, 4]);
        assert_eq!(without_imports(vec![1, 3, 0], &is_module), [1, 3, 0]);
    }

    /// A steady run is one phase, whatever the draw.
    #[test]
    fn steady() {
        for seed in 0..10 {
            for doing in [TRAIN, EVALUATE, &[(0, 0.5), (1, 0.5)]] {
                let (profile, over) = run(seed, &[(doing, 300)], seed % 2 == 0);
                let found = find(&profile, &over);
                assert_eq!(ends(&profile, &found), [(300, 0)], "seed {seed}");
                assert_eq!(found.found[0].told_by, []);
            }
        }
    }

    /// The table says what phases are and what they are not, within 80 columns; the JSON has limits and functions.
    #[test]
    fn shown() {
        let (mut profile, over) = run(1, &[(TRAIN, 200), (EVALUATE, 100)], true);
        let options = TableOptions { by: By::Phase, width: Some(80), ..TableOptions::default() };
        let text = |profile: &Profile| {
            let mut out = Vec::new();
            table::write(&mut out, profile, &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(text(&profile).contains("[whole run]"));
        profile.phases = Some(find(&profile, &over));
        let shown = text(&profile);
        for part in [
            "found from what ran, not marked",
            "phase 1: 0.0 to 20.0 s",
            "phase 2: 20.0 to 30.0 s",
            "95% here, 0% elsewhere: evaluate",
            "right to 0.1 s",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let mut out = Vec::new();
        let options = JsonOptions { rows: Some((By::Phase, crate::Level::All)), ..JsonOptions::default() };
        json::write(&mut out, &profile, &options).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let phase = &report["rows"][1]["phase"];
        assert_eq!(phase["stretches_ns"], serde_json::json!([[20_000_000_000_u64, 30_000_000_000_u64]]));
        assert_eq!(
            (&phase["step_ns"], &phase["told_by"][0]["function"]),
            (&100_000_000.into(), &"evaluate".into())
        );
        assert_eq!(phase_rows(&profile, &Uncertainties::new(&profile)).len(), 2);
        let (mut steady, over) = run(1, &[(TRAIN, 300)], true);
        steady.phases = Some(find(&steady, &over));
        assert!(text(&steady).contains("one phase: nowhere"), "{}", text(&steady));
        assert_eq!(find(&Profile::default(), &OverTime::default()).found.len(), 1);
    }
}
