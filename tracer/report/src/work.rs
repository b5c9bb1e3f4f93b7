//! Joules per unit of work: `0.31 J ±3% per token: 1,234 counted in 12.30 s of the run's 15.00 s`.
//!
//! ```text
//!  half of the interval  = √f · h + edges       h: that of the program's energy in the whole run (95 %), f: the stretches' part of it
//!  of a unit: from         least joules / (units + last step)      to  most joules / (units − first step)
//! ```
//!
//! √f: as if errors of different moments had nothing to do with each other; if they go together, f would do. Edges: what the ends of stretches
//! may be off (`profile::work`). Units that are done are exact, and how much of the next was under way at an end is not known. Counted calls are those of the whole run. Leaves out functions (`per_work.rs`).

use super::counts::may_be_more;
use super::missing::{Missing, read_ns};
use super::named;
use super::run;
use super::summary_rows::plus_minus;
use super::table_cells::{in_unit, seconds};
use super::uncertainty::of_program;
use energy_trace_certainty::Uncertainty;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::diagnostics::{Diagnostic, WorkDiagnostic};
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{CallCount, Frame, FrameKind, Quality, WorkSource, WorkUnits};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::patterns::{bare, glob};
use energy_trace_names::shorten;
use energy_trace_names::shown::shown;
use std::collections::BTreeSet;

/// So many kinds of work have lines in what people read.
const SHOWN: usize = 5;

/// Columns of a function whose calls are units.
const FUNCTION: usize = 40;

/// The same of where a number is looked for.
const SOURCE: usize = 60;

/// What was done of one kind of work, and what it took.
#[derive(Clone, Debug)]
pub struct WorkDone<'a> {
    /// What was read.
    pub work: &'a Work,
    /// What was done.
    pub units: WorkUnits,
    /// Whether more may have been done: not all calls were counted.
    pub at_least: bool,
    /// The time in which it was done, in nanoseconds.
    pub covered_ns: u64,
    /// The program's energy in that time.
    pub energy: EnergyByClass,
    /// Its energy in the rest of the run.
    pub rest: EnergyByClass,
    /// The idle baseline in that time, where the ledger keeps it apart.
    pub idle: EnergyByClass,
    /// What may have been under way at the begin of that time, and at its end.
    pub open: [WorkUnits; 2],
    /// How sure the program's energy in that time is, of the domains that a report leads with; `None` where nobody knows.
    pub uncertainty: Option<Uncertainty>,
    /// How much of that energy is known.
    pub known: Known,
}

/// How much of an energy counters said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: zero joules are no joules.
    Nothing,
    /// Not all of it: some of the run is in no number.
    AtLeast,
    /// All.
    All,
}

impl Known {
    fn of(profile: &Profile) -> Self {
        match run::split_quality(profile, run::headline(profile)) {
            None => Self::Nothing,
            Some(_) if Missing::all(profile).next().is_some() => Self::AtLeast,
            Some(_) => Self::All,
        }
    }
}

impl WorkDone<'_> {
    /// What the user calls a unit.
    pub fn name(&self) -> &str {
        &self.work.series.counter.name
    }

    /// 95 % interval of the microjoules of a unit, of the domains that a report leads with.
    pub fn ci95_per_unit(&self) -> Option<[f64; 2]> {
        let (least, most) = self.uncertainty.filter(|_| self.known == Known::All)?.ci95;
        let [begin, end] = self.open.map(WorkUnits::as_number);
        let units = self.units.as_number();
        // Where all may have been one step, nothing says how much of it was done.
        let fewest = if units > begin { units - begin } else { f64::MIN_POSITIVE };
        let most = (most.as_uj() as f64 / fewest).min(f64::MAX);
        let least = if self.at_least { 0.0 } else { least.as_uj() as f64 / (units + end) };
        (units > 0.0).then_some([least, most])
    }

    /// Microjoules of a unit; `None` where nothing was done, or no energy is known.
    pub fn uj_per_unit(&self, energy: MicroJoules) -> Option<f64> {
        self.units.uj_each(energy).filter(|_| self.known != Known::Nothing)
    }

    /// What stands before joules of a unit: `≤` where more may have been done, `≥` where not all joules are known.
    pub(crate) fn sign(&self) -> &'static str {
        match (self.at_least, self.known) {
            (true, Known::AtLeast) => "about ",
            (true, _) => "≤",
            (false, Known::AtLeast) => "≥",
            (false, _) => "",
        }
    }
}

/// All kinds of work of a run, in the order in which they were asked for.
pub fn works(profile: &Profile) -> Vec<WorkDone<'_>> {
    profile.work.iter().map(|work| done(profile, work)).collect()
}

/// The work of this name.
pub fn work_named<'a>(profile: &'a Profile, name: &str) -> Option<WorkDone<'a>> {
    let work = profile.work.iter().find(|work| work.series.counter.name == name)?;
    Some(done(profile, work))
}

fn done<'a>(profile: &'a Profile, work: &'a Work) -> WorkDone<'a> {
    let done = in_profile(profile, work);
    // Of the stretches alone it is not known any more.
    match &profile.per_work {
        Some(per) if per.name == done.name() => WorkDone {
            open: per.open,
            at_least: done.at_least || per.at_least,
            uncertainty: per.ci95.map(|ci95| Uncertainty { ci95, bounds: None }),
            ..done
        },
        _ => done,
    }
}

fn in_profile<'a>(profile: &'a Profile, work: &'a Work) -> WorkDone<'a> {
    let (program, known) = (of_program(profile), Known::of(profile));
    let all = all_energy(profile);
    if let Some(function) = counted_as_whole(profile, work) {
        let (calls, at_least) = calls_of(profile, function);
        // Who was killed told its calls over time alone.
        let told =
            work.series.readings.iter().filter_map(|reading| reading.value.as_ref().ok().copied()).max();
        let (counted, told) = (WorkUnits::whole(calls), told.unwrap_or_default());
        let units = counted.max(told);
        let at_least = at_least || told > counted || units == WorkUnits::MOST;
        let (covered_ns, rest, idle) =
            (profile.run.duration_ns(), EnergyByClass::default(), all_idle(profile));
        let open = <[WorkUnits; 2]>::default();
        let (energy, uncertainty) = (all, above_nothing(run::chosen(&all, run::headline(profile)), program));
        return WorkDone { work, units, at_least, covered_ns, energy, rest, idle, open, uncertainty, known };
    }
    let energy = work.sum(|of| of.energy);
    let mut rest = all;
    rest -= energy;
    let choice = run::headline(profile);
    let [part, whole, edges] = [energy, all, work.sum(|of| of.edges)].map(|of| run::chosen(&of, choice));
    let uncertainty = above_nothing(part, program.map(|program| of_part(part, whole, &program, edges)));
    let (units, idle, covered_ns) = (work.units(), work.sum(|of| of.idle), work.covered_ns());
    let (open, at_least) = (work.open(), units == WorkUnits::MOST);
    WorkDone { work, units, at_least, covered_ns, energy, rest, idle, open, uncertainty, known }
}

/// The function whose calls are known of the whole run: of a part of it what was read over time counts.
fn counted_as_whole<'a>(profile: &Profile, work: &'a Work) -> Option<&'a str> {
    let WorkSource::Calls(function) = &work.series.counter.source else { return None };
    (work.stretches.is_empty() || profile.part.is_none()).then_some(function.as_str())
}

/// That of the run, also where rows are of the stretches of one kind of work alone.
fn all_energy(profile: &Profile) -> EnergyByClass {
    let mut all = profile.per_work.as_ref().map(|per| per.rest).unwrap_or_default();
    profile.rows.iter().for_each(|row| all += row.energy);
    all
}

fn all_idle(profile: &Profile) -> EnergyByClass {
    let mut idle = EnergyByClass::default();
    profile.ledger.iter().for_each(|row| idle[row.class] += row.idle);
    idle
}

/// No work takes less than nothing; where a share is, as idle power was above the counter, nobody knows how far it is off.
fn above_nothing(part: MicroJoules, sure: Option<Uncertainty>) -> Option<Uncertainty> {
    let sure = sure.filter(|_| part >= MicroJoules::ZERO)?;
    Some(Uncertainty { ci95: (sure.ci95.0.max(MicroJoules::ZERO), sure.ci95.1), ..sure })
}

/// How sure a part of an energy is.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn of_part(part: MicroJoules, whole: MicroJoules, program: &Uncertainty, edges: MicroJoules) -> Uncertainty {
    let fraction = (part.as_uj() as f64 / whole.as_uj().max(1) as f64).clamp(0.0, 1.0).sqrt();
    let of = |far: MicroJoules| MicroJoules::from_uj((far.as_uj() as f64 * fraction).ceil() as i64) + edges;
    let far = [whole - program.ci95.0, program.ci95.1 - whole].map(|far| of(far.max(MicroJoules::ZERO)));
    Uncertainty { ci95: (part - far[0], part + far[1]), bounds: None }
}

/// Calls of a function that are not within another one of it, by whomever, and whether there may be more.
fn calls_of(profile: &Profile, function: &str) -> (u64, bool) {
    let is_meant = |count: &&CallCount| {
        profile.frames.get(count.frame.index()).is_some_and(|frame| means(function, frame))
    };
    let counted: Vec<&CallCount> = profile.calls.iter().filter(is_meant).collect();
    let outermost = counted.iter().map(|count| count.calls.saturating_sub(count.nested));
    (outermost.fold(0, u64::saturating_add), may_be_more(profile, &counted))
}

/// Whether a function is meant by the words of `--work NAME=calls:…`, which are those of `--count`.
fn means(words: &str, frame: &Frame) -> bool {
    let (name, library) =
        words.rsplit_once('@').map_or((words, None), |(name, library)| (name, Some(library)));
    let is_like = |pattern: &str, text| glob(&pattern.split('*').collect::<Vec<_>>(), text);
    if frame.kind == FrameKind::Python {
        let file = frame.file.strip_suffix(".py").unwrap_or(&frame.file);
        let dotted =
            format!("{}.{}", file.strip_suffix("/__init__").unwrap_or(file).replace('/', "."), frame.name);
        return library.is_none() && is_like(&format!("*.{name}"), &dotted);
    }
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    let is_there = library.is_none_or(|library| {
        if library.contains('/') { frame.module == library } else { file.starts_with(library) }
    });
    is_there && bare(&frame.name).is_some_and(|bare| is_like(name, bare))
}

/// `0.31 J ±3% per token (estimated): 1,234 counted in 12.30 s of the run's 15.00 s; idle: 0.05 J each`, which is not in the first figure. `None` where
/// nothing was done. Where more may have been done, `≤0.31 J per call: ≥1,234 calls of step counted in …`; where no energy is known, `no joules per call, …`.
pub(crate) fn sentence(profile: &Profile, done: &WorkDone<'_>) -> Option<String> {
    let choice = run::headline(profile);
    if done.units == WorkUnits::ZERO {
        return None;
    }
    let energy = run::chosen(&done.energy, choice);
    let least = if done.at_least { "≥" } else { "" };
    let calls = match &done.work.series.counter.source {
        WorkSource::Calls(words) => format!(" calls of {}", shorten(&shown(words), FUNCTION)),
        _ => String::new(),
    };
    let counted = format!("{least}{}{calls} counted in {}", number(done.units), time(profile, done));
    let Some(each) = done.uj_per_unit(energy).map(|uj| uj / 1e6) else {
        let name = shown(done.name());
        return Some(format!("no joules per {name}, as no energy was measured: {counted}"));
    };
    let is_estimated = run::split_quality(profile, choice) == Some(Quality::Estimated);
    let (estimated, sign) = (if is_estimated { " (estimated)" } else { "" }, done.sign());
    let ends = done.ci95_per_unit().filter(|_| !done.at_least);
    let sure = ends.map(|ends| plus_minus_of(each * 1e6, ends)).filter(|sure| sure != "-");
    let idle = done.uj_per_unit(run::chosen(&done.idle, choice)).filter(|idle| *idle > 0.0);
    let idle = idle.map(|idle| format!("; idle: {sign}{} each", in_unit(idle / 1e6, "J")));
    Some(format!(
        "{sign}{}{} per {}{estimated}: {counted}{}{}",
        in_unit(each, "J"),
        sure.map(|sure| format!(" {sure}")).unwrap_or_default(),
        shown(done.name()),
        of_all_that_ran(profile, done),
        idle.unwrap_or_default()
    ))
}

/// That joules per call are not the function's own, and how many those are, where samples show it.
fn of_all_that_ran(profile: &Profile, done: &WorkDone<'_>) -> String {
    let WorkSource::Calls(words) = &done.work.series.counter.source else { return String::new() };
    let own = named::used(profile, words).filter(|_| !done.at_least);
    let own = own.and_then(|(used, _)| done.uj_per_unit(used)).map(|uj| in_unit(uj / 1e6, "J"));
    let function = shorten(&shown(words), FUNCTION);
    match own {
        Some(own) => format!("; all that ran counts: {function} with its callees has {own} of these"),
        None => format!("; all that ran counts, not {function} alone"),
    }
}

/// `±3%`, as energies have it.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn plus_minus_of(of: f64, [least, most]: [f64; 2]) -> String {
    // In thousandths of what energies are counted in: a unit may be a microjoule.
    let [of, least, most] = [of, least, most].map(|uj| MicroJoules::from_uj((uj * 1e3) as i64));
    plus_minus(of, Some(&Uncertainty { ci95: (least, most), bounds: None }))
}

/// `12.30 s`, and of how long a run, where that is not all; of several recordings, which may have run beside each
/// other, of how many.
fn time(profile: &Profile, done: &WorkDone<'_>) -> String {
    if profile.parts.len() > 1 {
        return format!("{} s of {} recordings", seconds(done.covered_ns), profile.parts.len());
    }
    let [covered, all] = [done.covered_ns, profile.run.duration_ns()].map(seconds);
    match &done.work.series.counter.source {
        _ if read_ns(profile).is_some() => format!("{covered} s of a recording that ends early"),
        WorkSource::Calls(_) if covered == all => format!("the whole run of {all} s, with its start and end"),
        _ if covered == all => format!("{covered} s"),
        _ => format!("{covered} s of the run's {all} s, from the first number that was read to the last"),
    }
}

/// `1,234`, `0.25`, `236.2`: with four digits, where that is no whole number.
pub(crate) fn number(units: WorkUnits) -> String {
    let value = units.as_number();
    let digits = match value {
        ..0.01 => 6,
        ..1.0 => 4,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let grouped: Vec<&str> = (0..whole.len().div_ceil(3))
        .rev()
        .filter_map(|group| whole.get(whole.len().saturating_sub(3 * (group + 1))..whole.len() - 3 * group))
        .collect();
    let point = if part.is_empty() { "" } else { "." };
    format!("{}{point}{part}", grouped.join(","))
}

/// A line for each of the first kinds of work that something was done of, and how many more there are.
pub(crate) fn sentences(profile: &Profile) -> Vec<String> {
    let done: Vec<WorkDone<'_>> =
        works(profile).into_iter().filter(|done| done.units > WorkUnits::ZERO).collect();
    let mut lines: Vec<String> = done.iter().take(SHOWN).filter_map(|done| sentence(profile, done)).collect();
    if let Some(more @ 1..) = done.len().checked_sub(SHOWN).filter(|_| !lines.is_empty()) {
        lines.push(format!("and {more} more of --work: report --format json has them all"));
    }
    lines.extend(of_all(profile, lines.len()));
    lines
}

/// That a unit has the joules of all processes: of a whole machine; and where several units are of several that were attached to, of which one may
/// have counted it.
pub(crate) fn of_all(profile: &Profile, lines: usize) -> Option<String> {
    const APART: &str = "report --per-work NAME --by process tells them apart";
    if profile.run.header.system_wide {
        return (lines > 0).then(|| format!("these joules are of all programs of the machine: {APART}"));
    }
    let choice = run::headline(profile);
    let used = profile.rows.iter().filter(|row| run::chosen(&row.energy, choice) > MicroJoules::ZERO);
    let processes: BTreeSet<ProcessKey> = used
        .filter_map(|row| profile.threads.get(row.thread.index()))
        .map(|thread| thread.process)
        .fill_set();
    let attached = profile.run.header.command.is_empty() && processes.len() > 1 && lines > 1;
    attached.then(|| format!("these joules are of {} processes together: {APART}", processes.len()))
}

/// What to know before believing them.
pub(crate) fn diagnostics(profile: &Profile) -> Vec<Diagnostic> {
    let of = |done: &WorkDone<'_>| -> Vec<Diagnostic> {
        let found = found(profile, done).into_iter();
        found.map(|what| Diagnostic::Work { name: done.name().to_owned(), what }).collect()
    };
    works(profile).iter().flat_map(of).collect()
}

/// What was found, of the first kinds of work alone, and of how many more there is something to know.
pub(crate) fn of_few(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut names: Vec<String> = Vec::new();
    let is_shown = |found: &Diagnostic| {
        let Diagnostic::Work { name, .. } = found else { return true };
        let known = names.iter().position(|known| known == name);
        if known.is_none() {
            names.push(name.clone());
        }
        known.unwrap_or(names.len() - 1) < SHOWN
    };
    let mut shown: Vec<Diagnostic> = found.into_iter().filter(is_shown).collect();
    if let Some((name, more)) = names.get(SHOWN..).and_then(|left| left.split_first()) {
        let what = WorkDiagnostic::AndMore { more: more.len() as u64 };
        shown.push(Diagnostic::Work { name: name.clone(), what });
    }
    shown
}

fn found(profile: &Profile, done: &WorkDone<'_>) -> Vec<WorkDiagnostic> {
    let (known, units) = (&done.work.found, done.units);
    // Recordings that were merged may have run beside each other.
    let of_ns = profile.run.duration_ns().max(done.covered_ns);
    if let WorkSource::Calls(function) = &done.work.series.counter.source {
        // Of a part of a run nothing is counted, which is said once.
        let is_missing = units == WorkUnits::ZERO && profile.part.is_none();
        return is_missing
            .then(|| WorkDiagnostic::NotCounted { function: function.clone() })
            .into_iter()
            .collect();
    }
    if known.read == 0 {
        let source = shorten(&shown(&done.work.series.counter.source.words()), SOURCE);
        return vec![WorkDiagnostic::NotRead { source, failure: known.failure.clone() }];
    }
    let mut found = Vec::new();
    if known.restarts + known.gone > 0 {
        let (restarts, gone, covered_ns) = (known.restarts, known.gone, done.covered_ns);
        found.push(WorkDiagnostic::InPart {
            restarts,
            gone,
            covered_ns,
            of_ns,
            failure: known.failure.clone(),
        });
    }
    if units == WorkUnits::ZERO {
        found.push(WorkDiagnostic::NeverMoved { readings: known.read });
    } else if known.still_ns > 0 {
        found.push(WorkDiagnostic::StoodStill { still_ns: known.still_ns, covered_ns: done.covered_ns });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{
        CallCount, ProcessKey, WorkDone, WorkSource, bare, means, number, of_few, of_part, sentences, works,
    };
    use super::{Diagnostic, Frame, FrameKind, MicroJoules, Profile, Uncertainty, WorkDiagnostic, WorkUnits};
    use crate::json;
    use crate::named;
    use crate::summary::{self, SummaryOptions};
    use crate::table_cells::in_unit;
    use crate::tests::training_runs::measured_training;
    use crate::tests::work::counted;
    use energy_trace_model::ids::FrameId;
    use energy_trace_model::profile::diagnostics::{DomainDiagnostic, GapReason};
    use energy_trace_model::recording::record::{
        CallDiagnostic, CutReason, RecordingDiagnostic, WorkReading,
    };

    /// A training with so many kinds of work.
    fn training_with(kinds: usize) -> Profile {
        let mut profile = measured_training();
        profile.work = (0..kinds).map(|kind| counted(&profile, &format!("unit{kind}"), 1)).collect();
        profile
    }

    /// The first kinds of work have lines and warnings; of the others it is said how many there are.
    #[test]
    fn very_many_kinds() {
        let lines = |kinds| sentences(&training_with(kinds));
        assert_eq!((lines(0).len(), lines(5).len(), lines(6).len(), lines(1_000).len()), (0, 5, 6, 6));
        assert!(lines(1_000)[0].contains(" per unit0: 10 counted in "), "{:?}", lines(1_000));
        assert!(lines(1_000)[5].starts_with("and 995 more "), "{:?}", lines(1_000));
        let of = |name: &str, what| Diagnostic::Work { name: name.to_owned(), what };
        let two = |name: &str| {
            [of(name, WorkDiagnostic::Merged), of(name, WorkDiagnostic::NeverMoved { readings: 1 })]
        };
        let names: Vec<String> = (0..1_000).map(|kind| format!("unit{kind}")).collect();
        let all: Vec<Diagnostic> =
            names.iter().flat_map(|name| two(name)).chain([Diagnostic::NoEnergySource]).collect();
        let few = of_few(all.clone());
        assert_eq!((few.len(), &few[..10], &few[10]), (12, &all[..10], &Diagnostic::NoEnergySource));
        assert_eq!(few[11], of("unit5", WorkDiagnostic::AndMore { more: 994 }));
        assert_eq!(of_few(all[..10].to_vec()), all[..10]);
    }

    /// Of several processes that were attached to it is said that units have the joules of all; of a command nobody doubts it.
    #[test]
    fn units_of_several_processes() {
        let mut profile = training_with(2);
        assert_eq!(sentences(&profile).len(), 2);
        profile.run.header.command.clear();
        profile.threads[0].process = ProcessKey::new(9);
        let last = sentences(&profile).pop().unwrap();
        assert!(last.starts_with("these joules are of ") && last.contains("--by process"), "{last}");
        profile.work.truncate(1);
        assert_eq!(sentences(&profile).len(), 1);
        // Of a whole machine, with a command or without one, they are of all that ran.
        profile.run.header.system_wide = true;
        let last = sentences(&profile).pop().unwrap();
        assert!(last.starts_with("these joules are of all programs of the machine: "), "{last}");
        profile.work.clear();
        assert!(sentences(&profile).is_empty());
    }

    /// A summary breaks their lines, and cuts none.
    #[test]
    fn whole_in_the_summary() {
        let name = "generated-token-of-the-larger-of-both-models";
        let profile = Profile { work: vec![counted(&measured_training(), name, 1)], ..measured_training() };
        let options = SummaryOptions { width: Some(60), ..SummaryOptions::default() };
        let mut out = Vec::new();
        summary::write(&mut out, &profile, &options).unwrap();
        let text = String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&sentences(&profile)[0]), "{text}");
    }

    /// Joules per call are of all that ran, and those of the function stand beside them.
    #[test]
    fn joules_of_all_that_ran() {
        let mut profile = measured_training();
        let at = profile.frames.iter().position(|frame| frame.kind == FrameKind::Python).unwrap();
        let name = profile.frames[at].name.clone();
        let frame = FrameId::new(u32::try_from(at).unwrap());
        profile.calls = vec![CallCount { frame, calls: 10, nested: 0, times: None }];
        let mut steps = counted(&profile, "step", 1);
        steps.series.counter.source = WorkSource::Calls(name.clone());
        profile.work = vec![steps];
        let own = in_unit(named::used(&profile, &name).unwrap().0.as_joules() / 10.0, "J");
        let own = format!("; all that ran counts: {name} with its callees has {own} of these");
        assert!(sentences(&profile)[0].contains(&own), "{:?}", sentences(&profile));
    }

    /// Calls of a library that was probed late are a lower bound, joules of one an upper one, without an interval below.
    #[test]
    fn calls_that_may_be_more() {
        let mut profile = measured_training();
        let frame = profile.frames.iter().position(|frame| frame.kind == FrameKind::Native).unwrap();
        let name = bare(&profile.frames[frame].name).unwrap().to_owned();
        let library = profile.frames[frame].module.rsplit('/').next().unwrap().to_owned();
        let frame = FrameId::new(u32::try_from(frame).unwrap());
        profile.calls = vec![CallCount { frame, calls: 10, nested: 0, times: None }];
        let mut steps = counted(&profile, "step", 1);
        steps.series.counter.source = WorkSource::Calls(name.clone());
        profile.work = vec![steps];
        let line = &sentences(&profile)[0];
        assert!(
            line.contains(&format!(" J per step: 10 calls of {name} counted in the whole run of ")),
            "{line}"
        );
        let mut cut = profile.clone();
        let found =
            RecordingDiagnostic::RecordingCut { whole_bytes: None, whole_ns: None, reason: CutReason::Chunk };
        cut.diagnostics.push(Diagnostic::Recorded(found));
        assert!(sentences(&cut)[0].contains(" s of a recording that ends early"), "{:?}", sentences(&cut));
        // Over time more was told than at the end: by who was killed.
        let told = WorkReading { at: profile.run.end, within_ns: 0, value: Ok(WorkUnits::whole(12)) };
        profile.work[0].series.readings = vec![told];
        assert!(
            sentences(&profile)[0].contains(&format!(" J per step: ≥12 calls of {name} counted in "))
                && sentences(&profile)[0].contains(&format!("; all that ran counts, not {name} alone")),
            "{:?}",
            sentences(&profile)
        );
        profile.work[0].series.readings.clear();
        profile.calls[0].calls = u64::MAX;
        assert!(
            sentences(&profile)[0].contains("per step: ≥18,446,744,073,709.6"),
            "{:?}",
            sentences(&profile)
        );
        profile.calls[0].calls = 10;
        let late = CallDiagnostic::Late { library, pid: 1, late_ns: 5 };
        let mut summary = profile.run.summary.take().unwrap_or_default();
        summary.diagnostics.push(late.into());
        profile.run.summary = Some(summary);
        let line = &sentences(&profile)[0];
        assert!(
            line.starts_with('≤') && line.contains(&format!(" J per step: ≥10 calls of {name} counted in ")),
            "{line}"
        );
        let ci95 = [900, 1_200].map(MicroJoules::from_uj).into();
        let done =
            WorkDone { uncertainty: Some(Uncertainty { ci95, bounds: None }), ..works(&profile)[0].clone() };
        assert_eq!(done.ci95_per_unit(), Some([0.0, 120.0]));
    }

    /// Words mean a function by its name, in Python by the end of its dotted name, and in a library where one is named.
    #[test]
    fn functions_that_are_meant() {
        let native = |name: &str| Frame {
            kind: FrameKind::Native,
            module: "/lib/libx.so.3".into(),
            ..Frame::special(name)
        };
        assert!(means("work", &native("work(int)")) && means("a::*", &native("a::b")));
        assert!(means("work@libx.so", &native("work")) && means("work@/lib/libx.so.3", &native("work")));
        assert!(!means("work@liby", &native("work")) && !means("wor", &native("work")));
        let python =
            Frame { kind: FrameKind::Python, file: "/home/u/train.py".into(), ..Frame::special("Net.step") };
        assert!(means("step", &python) && means("Net.step", &python) && means("train.Net.step", &python));
        assert!(!means("tep", &python) && !means("step@libx", &python) && !means("Net", &python));
    }

    /// Of a counter that said nothing no joules are known, not none; of one that said nothing for a while at least so many.
    #[test]
    fn a_dead_counter() {
        let mut profile = training_with(1);
        let of_ns = profile.run.duration_ns();
        let reasons = [(GapReason::StoodStill, of_ns / 2)].into();
        let gap = DomainDiagnostic::NoReading { missing_ns: of_ns / 2, of_ns, reasons };
        profile.diagnostics.push(Diagnostic::of(&profile.ledger[0].domain, gap));
        let line = &sentences(&profile)[0];
        assert!(line.starts_with('≥') && !line.contains('±'), "{line}");
        assert_eq!(works(&profile)[0].ci95_per_unit(), None);
        profile.ledger.iter_mut().for_each(|row| row.measured = MicroJoules::ZERO);
        let line = &sentences(&profile)[0];
        assert!(line.starts_with("no joules per unit0, as no energy was measured: 10 counted in "), "{line}");
        assert_eq!(works(&profile)[0].uj_per_unit(MicroJoules::ZERO), None);
        let mut out = Vec::new();
        json::write(&mut out, &profile, &json::JsonOptions::default()).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let work = &report["work"][0];
        assert_eq!([&work["uj_per_unit"], &work["ci95_uj"]], [&serde_json::Value::Null; 2]);
    }

    /// Thousands are grouped, and parts of a unit are shown where there are any.
    #[test]
    fn numbers() {
        let of = |value: f64| number(WorkUnits::from_number(value).unwrap());
        assert_eq!([0.0, 7.0, 1_230.0, 1_000_000.25].map(of), ["0", "7", "1,230", "1,000,000.2"]);
        assert_eq!([0.000_25, 0.496_358, 2.345_67, 99.996].map(of), ["0.00025", "0.4964", "2.346", "100"]);
    }

    /// Half of the energy is less sure than half of the interval, and its edges come on top.
    #[test]
    fn a_part_is_less_sure() {
        let uj = MicroJoules::from_uj;
        let program = Uncertainty { ci95: (uj(900), uj(1_200)), bounds: None };
        let half = of_part(uj(250), uj(1_000), &program, uj(7)).ci95;
        assert_eq!(half, (uj(250 - 50 - 7), uj(250 + 100 + 7)));
        assert_eq!(of_part(uj(1_000), uj(1_000), &program, uj(0)).ci95, program.ci95);
    }
}
