//! Sentences of a study: its title, what a verdict means, and runs that failed.
//!
//! Leaves out tables (`study_tables`), and how a study was made (`study_methods.rs`).

use crate::data::{Block, Cell, Grade, Group, Kind, Measured, Outcome, Purpose, Run, Study, Sweep};
pub(crate) use crate::methods::{load, methods};
use energy_trace_model::collections::Fill as _;
use energy_trace_names::shown::shown;
use energy_trace_sentences::counted;
use energy_trace_statistics::comparison::Verdict;
use energy_trace_statistics::effect::Magnitude;
use energy_trace_statistics::location::median;
use std::collections::{BTreeMap, BTreeSet};

/// The energy of the program, in the words of the results.
pub(crate) const PROGRAM: &str = "energy of the program";

/// `study of 2 programs, 20 rounds, seed 7 (estimated energy)`.
pub(crate) fn title(study: &Study, grade: Option<Grade>) -> String {
    let quality = match grade {
        None => "no energy",
        Some(Grade::Estimated) => "estimated energy",
        Some(Grade::Apportioned | Grade::Measured) => "energy of counters",
    };
    let rounds = if study.rounds == 1 { "round" } else { "rounds" };
    format!(
        "study of {} programs, {} {rounds}, seed {} ({quality})",
        study.programs.len(),
        study.rounds,
        study.seed
    )
}

/// `energy of the program, J`.
pub(crate) fn quantity_of(kind: Kind, name: &str, unit: &str) -> String {
    let of = match kind {
        Kind::Run => "",
        Kind::Counted => "one call of ",
        Kind::Call => "call: ",
        Kind::Function => "function: ",
    };
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    format!("{of}{name}{unit}")
}

/// The quantity of a block by this name, and the programs of its group that have nothing of it.
pub(crate) fn title_of(study: &Study, block: &Block, name: &str, unit: &str) -> String {
    let title = quantity_of(block.kind, name, unit);
    let has = |at: usize| block.cells.iter().any(|cell| cell.program == at);
    let group = block.cells.first().and_then(|cell| study.programs.get(cell.program)).map(|of| &of.group);
    let lacking = study.programs.iter().enumerate().filter(|(at, of)| group == Some(&of.group) && !has(*at));
    let lacking: Vec<&str> = lacking.map(|(_, of)| &*of.label).collect();
    if lacking.is_empty() { title } else { format!("{title}; no sample in {}", lacking.join(", ")) }
}

/// `20`, or `18/20` where runs failed.
pub(crate) fn runs(cell: &Cell) -> String {
    if cell.failed > 0 { format!("{}/{}", cell.runs, cell.runs + cell.failed) } else { cell.runs.to_string() }
}

/// The verdict in a word or two.
pub(crate) fn verdict(cell: &Cell) -> String {
    match cell.beside_least.map(|beside| beside.verdict) {
        _ if cell.runs == 0 && cell.without > 0 => "not counted".to_owned(),
        None if cell.runs == 0 => "no run".to_owned(),
        None if cell.alone => String::new(),
        None => "least".to_owned(),
        Some(verdict) => word(verdict),
    }
}

/// The same of two programs.
pub(crate) fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Differ => "differs".to_owned(),
        Verdict::NotShown => "not shown".to_owned(),
        Verdict::Equal => "equal".to_owned(),
        Verdict::TooFew { needed } => format!("needs {needed}"),
    }
}

/// How large an effect is.
pub(crate) fn magnitude(cell: &Cell) -> &'static str {
    cell.beside_least.filter(|of| of.found.pairs > 0).map_or("", |of| Magnitude::of(of.found.a12).word())
}

/// That energies are estimated, where they are.
pub(crate) fn estimated(groups: &[Group]) -> Vec<String> {
    let is_estimated = groups.iter().any(|group| group.grade == Some(Grade::Estimated));
    let said = "energy is estimated: CPU time times a model's watts, for there is no counter";
    is_estimated.then(|| said.to_owned()).into_iter().collect()
}

/// The word behind the name of an energy that no counter has: a paper shows no comments.
pub(crate) fn quality_of(group: &Group, block: &Block) -> &'static str {
    let is_estimated = group.grade == Some(Grade::Estimated) && block.unit.starts_with('J');
    if is_estimated { " (estimated)" } else { "" }
}

/// That runs have no energy, so that there is none to compare.
fn without_energy(study: &Study) -> Option<String> {
    let counted = || study.runs.iter().filter(|run| run.counts() && run.measured.is_some());
    let without = counted().filter(|run| run.joules().is_none()).count();
    let all = counted().count();
    let some = || format!("{without} of {all} runs have no energy: they are compared by time alone");
    let none = "no energy was recorded, so there is none to compare, only time: begin a study in another folder (-o) without --power none";
    (without > 0).then(|| if without == all { none.to_owned() } else { some() })
}

/// What a reader needs to know to read the tables.
pub(crate) fn notes(study: &Study, groups: &[Group]) -> Vec<String> {
    let mut notes = estimated(groups);
    notes.extend(without_energy(study));
    notes.extend(study.notes.iter().cloned());
    notes.push(
        "ratio: to the least median, with a 95 % bootstrap interval (of 6 rounds or more); ±: half of the interquartile range; p: Wilcoxon signed-rank over \
         rounds, corrected by Holm; Â12: chance that a run uses more than a run of the least"
            .to_owned(),
    );
    let verdicts: Vec<Verdict> = groups
        .iter()
        .flat_map(|group| &group.blocks)
        .flat_map(|block| &block.cells)
        .filter_map(|cell| Some(cell.beside_least?.verdict))
        .collect();
    if verdicts.contains(&Verdict::NotShown) {
        notes.push("not shown: chance explains it; that is not to say that they are equal".to_owned());
    }
    notes.extend(too_few(study.rounds, &verdicts));
    if let Some(metric) = &study.per {
        notes.push(format!("energies and times are divided by {metric}, which each run printed or counted"));
    }
    notes.extend(groups.iter().filter_map(detectable));
    notes.extend(groups.iter().filter_map(correlation));
    notes.extend(uneven_work(study));
    notes.extend(counted_parts(study));
    notes.extend(not_found(study));
    notes
}

/// The columns that had no room.
pub(crate) fn left_out<'a>(columns: impl Iterator<Item = &'a str>) -> Option<String> {
    let columns: Vec<&str> = columns.collect();
    let named = columns.join(", ");
    (!columns.is_empty())
        .then(|| format!("this terminal has no room for {named}: they are in the folder's table.txt"))
}

/// How much of a program's energy was in the calls that it counted: what the rest of a table is about is not these.
fn counted_parts(study: &Study) -> Vec<String> {
    let counted = study.runs.iter().flat_map(|run| run.counts.keys());
    let names: BTreeSet<&String> = counted.fill_set();
    let said = names.into_iter().filter_map(|name| {
        let parts = (0..study.programs.len()).filter_map(|at| {
            let label = &study.programs.get(at)?.label;
            Some(format!("{:.1} % ({label})", 100.0 * part_of_program(study, at, name)?))
        });
        let parts: Vec<String> = parts.collect();
        let of = format!("calls of {name} are {} of the energy of the whole process", parts.join(", "));
        (!parts.is_empty()).then(|| format!("{of}; the rest is start-up, imports and all else that it does"))
    });
    said.collect()
}

/// Names that programs printed beside a number of calls, of which no recording has a sample.
pub(crate) fn not_found(study: &Study) -> Option<String> {
    let runs = || study.runs.iter().filter(|run| run.counts());
    let names: BTreeSet<&str> = runs().flat_map(|run| run.counts.keys()).map(String::as_str).fill_set();
    let is_found =
        |name: &&str| runs().filter_map(|run| run.measured.as_ref()).any(|of| of.counted.contains_key(*name));
    let names: Vec<&str> = names.into_iter().filter(|name| !is_found(name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no joules of one call of {}: no sample shows a function or call of that name; have programs print names as report shows them",
            names.join(", ")
        )
    })
}

/// The part of a program's energy that calls of this name are, the median of its runs.
pub(crate) fn part_of_program(study: &Study, program: usize, name: &str) -> Option<f64> {
    let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
    let part = |run: &Run| {
        let of = run.measured.as_ref()?;
        Some(of.counted.get(name)? / of.joules).filter(|part| part.is_finite())
    };
    let parts: Vec<f64> = runs.filter_map(part).collect();
    (!parts.is_empty()).then(|| median(&parts))
}

/// Part by which a whole number that runs of one program print may vary before it is said.
const UNEVEN: f64 = 0.01;

/// Programs that do not do the same work each time: metrics of whole numbers, such as steps, that vary.
fn uneven_work(study: &Study) -> Vec<String> {
    let names: BTreeSet<&String> = study.runs.iter().flat_map(|run| run.metrics.keys()).fill_set();
    let names = names.into_iter().filter(|name| study.per.as_ref() != Some(*name));
    let uneven = names.filter_map(|name| {
        let (label, low, high) =
            (0..study.programs.len()).find_map(|program| uneven_in(study, program, name))?;
        Some(format!(
            "{label} does not do the same work each time: {name} is {low} to {high}; --per {name} divides by it, where it counts work"
        ))
    });
    uneven.collect()
}

fn uneven_in(study: &Study, program: usize, metric: &str) -> Option<(String, f64, f64)> {
    let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
    let values: Vec<f64> = runs.filter_map(|run| run.metrics.get(metric).copied()).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let whole = values.iter().all(|value| value.fract() == 0.0 && *value > 1.0);
    let label = study.programs.get(program)?.label.clone();
    (whole && high > low * (1.0 + UNEVEN)).then_some((label, low, high))
}

/// How the numbers of a sweep come about, and sweeps that are no lines.
pub(crate) fn sweep_notes(study: &Study, sweeps: &[Sweep]) -> Vec<String> {
    let Some(against) = &study.against else { return Vec::new() };
    let mut notes = vec![format!(
        "fixed: what is spent at {against} = 0; each: what one more of {against} adds; both are means over rounds of the line through each \
         round, with Student's 95 % interval"
    )];
    let bent: Vec<String> = sweeps.iter().filter(|sweep| is_bent(sweep)).map(sweep_name).collect();
    if let Some(first) = bent.first() {
        let more = if bent.len() > 1 { format!(" and {} more", bent.len() - 1) } else { String::new() };
        notes.push(format!("no straight line: {first}{more}; there fixed and each say little"));
    }
    notes
}

/// A bend by so much of the mean is said, where chance does not explain it.
const BENT: f64 = 0.05;
/// The level of that.
const LEVEL: f64 = 0.05;

/// Whether a line says little.
pub(crate) fn is_bent(sweep: &Sweep) -> bool {
    sweep.found.bend.is_some_and(|(depth, p)| depth >= BENT && p <= LEVEL)
}

fn sweep_name(sweep: &Sweep) -> String {
    let of = if sweep.name.is_empty() { String::new() } else { format!(" of {}", sweep.name) };
    format!("{}{of}", quantity_of(sweep.kind, &sweep.quantity, &sweep.unit))
}

/// What so few rounds can show, and what they cannot, where that is no difference of some quantity.
fn too_few(rounds: u32, verdicts: &[Verdict]) -> Option<String> {
    let needed = verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::TooFew { needed } => Some(*needed),
        _ => None,
    });
    let most = needed.max()?;
    let rounds = counted(u64::from(rounds), "round");
    Some(format!(
        "needs N: of that {rounds} (or those in which both succeeded) can show no difference, however large, for chance alone would make \
         it too often; they show medians, and how far runs are apart. N rounds can show a large one, more a smaller one: --runs {most} or \
         more, into another folder (-o). `energy-trace diff` may show a difference with fewer runs, because it assumes that they vary \
         as a normal distribution does"
    ))
}

/// The smallest difference in energy that so many runs would show.
fn detectable(group: &Group) -> Option<String> {
    let of_program = group.blocks.iter().find(|block| block.quantity == PROGRAM)?;
    let cells = of_program.cells.iter();
    let worst = cells.filter_map(|cell| cell.beside_least?.found.detectable).max_by(f64::total_cmp)?;
    Some(format!(
        "{}energy that differs by {:.1} % would be shown four times out of five",
        of(group),
        100.0 * worst
    ))
}

fn correlation(group: &Group) -> Option<String> {
    let (rho, p) = group.energy_and_time?;
    let p = if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") };
    Some(format!("{}energy and time of all runs: Spearman's ρ {rho:.2} ({p})", of(group)))
}

fn of(group: &Group) -> String {
    if group.name.is_empty() { String::new() } else { format!("{}: ", group.name) }
}

/// `2 of 43 runs failed`.
pub(crate) fn failed_title(failed: usize, runs: usize) -> String {
    format!("{failed} of {runs} runs failed; their numbers do not count")
}

/// `run 7, A (round 3): it ended with status 1`.
pub(crate) fn failed(study: &Study, run: &Run) -> String {
    let program = run.program.and_then(|at| study.programs.get(at)).map_or("", |program| &program.label);
    let place = match run.purpose {
        Purpose::WarmUp => "warm-up".to_owned(),
        Purpose::Counted | Purpose::Idle => format!("round {}", run.round),
    };
    format!("run {}, {program} ({place}): {}", run.number, outcome(&run.outcome))
}

/// How a run ended.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Failed(status) if *status > 128 => format!("it was ended by signal {}", status - 128),
        Outcome::Failed(status) => format!("it ended with status {status}"),
        Outcome::TimedOut => "it ran past its time limit".to_owned(),
        Outcome::NotRecorded(why) => format!("there is no recording of it: {why}"),
    }
}

/// The word for how good energies are.
pub(crate) const fn grade_word(grade: Option<Grade>) -> &'static str {
    match grade {
        None => "none",
        Some(Grade::Measured) => "measured",
        Some(Grade::Apportioned) => "apportioned",
        Some(Grade::Estimated) => "estimated",
    }
}

/// The word for what a quantity is of.
pub(crate) const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Run => "run",
        Kind::Counted => "counted",
        Kind::Call => "call",
        Kind::Function => "function",
    }
}

/// The word for what a run was for.
pub(crate) const fn purpose_word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Counted => "counted",
        Purpose::WarmUp => "warm-up",
        Purpose::Idle => "idle",
    }
}

/// CPUs that others keep busy, from which on it is said.
const BUSY: f64 = 0.1;
/// Part by which idle power may vary before it is said.
const DRIFT: f64 = 0.05;

/// What governor and turbo mean for a study; nothing where a machine shows neither.
pub(crate) fn machine_notes(governors: &[String], turbo: Option<bool>) -> Vec<String> {
    let steady = governors.iter().all(|governor| governor == "performance");
    let governor = (!steady).then(|| {
        let names = governors.join(", ");
        format!("the CPU's governor is {names}: clocks follow the load; `performance` makes runs more alike")
    });
    let turbo = (turbo == Some(true))
        .then(|| "turbo is on: clocks follow the temperature; without it runs are more alike".to_owned());
    governor.into_iter().chain(turbo).collect()
}

/// What runs say of the machine: other load, idle power that changes, power that never became stable.
pub(crate) fn study_notes(runs: &[Run]) -> Vec<String> {
    let looked = runs.iter().filter_map(|run| run.busy_cpus);
    let busy = looked.clone().filter(|busy| *busy > BUSY).count();
    let most = looked.clone().fold(0.0, f64::max);
    let load = (busy > 0).then(|| {
        format!(
            "other programs kept up to {most:.1} CPUs busy in the pauses before {busy} of {} runs",
            looked.count()
        )
    });
    let idle = runs.iter().filter(|run| run.purpose == Purpose::Idle).filter_map(|run| run.measured.as_ref());
    let watts: Vec<f64> = idle
        .filter(|of| of.grade.is_some_and(|grade| grade < Grade::Estimated))
        .map(|of| of.machine_joules / of.seconds)
        .collect();
    let (low, high) =
        watts.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &w| (low.min(w), high.max(w)));
    let idle = (watts.len() > 1).then(|| {
        let word = if high > low * (1.0 + DRIFT) { "changed from" } else { "was" };
        format!("power of the idle machine {word} {low:.2} to {high:.2} W in {} looks", watts.len())
    });
    let unstable = runs.iter().filter(|run| run.stable == Some(false)).count();
    let unstable = (unstable > 0)
        .then(|| format!("power was not stable in time before {}", counted(unstable as u64, "run")));
    [load, idle, unstable].into_iter().flatten().chain(units_not_known(runs)).collect()
}

/// Units of work whose joules are not known of all runs, or are upper bounds in some.
fn units_not_known(runs: &[Run]) -> impl Iterator<Item = String> {
    let measured: Vec<&Measured> =
        runs.iter().filter(|run| run.counts()).filter_map(|run| run.measured.as_ref()).collect();
    let mut found: BTreeMap<&String, [usize; 2]> = BTreeMap::new();
    for (name, units) in measured.iter().flat_map(|of| &of.work) {
        let [known, at_most] = found.entry(name).or_default();
        *known += usize::from(units.joules_each.is_some());
        *at_most += usize::from(units.at_least);
    }
    let all = measured.len();
    found.into_iter().flat_map(move |(name, [known, at_most])| {
        let known = (known < all).then(|| {
            format!("joules per {name} are known of {known} of {all} runs; `energy-trace report` says of a run's recording why")
        });
        let bound = (at_most > 0).then(|| {
            format!("not all of {name} were counted in {at_most} of {all} runs: joules of one are upper bounds there")
        });
        known.into_iter().chain(bound)
    })
}

/// `run 7 of 43  B  12.31 J  4.20 s  3m left`.
pub(crate) fn study_progress(
    run: &Run,
    label: Option<&str>,
    all: usize,
    left: std::time::Duration,
) -> String {
    let what = match (run.purpose, label) {
        (Purpose::Idle, _) | (_, None) => "idle".to_owned(),
        (Purpose::WarmUp, Some(label)) => format!("{label} (warm-up)"),
        (Purpose::Counted, Some(label)) => label.to_owned(),
    };
    let numbers = match (&run.outcome, &run.measured) {
        (Outcome::Done, Some(of)) if run.purpose == Purpose::Idle => of
            .grade
            .map_or_else(|| "no energy".to_owned(), |_| format!("{:.2} W", of.machine_joules / of.seconds)),
        (Outcome::Done, Some(of)) => match run.joules() {
            Some(joules) => format!("{joules:.2} J  {:.2} s", of.seconds),
            None => format!("no energy  {:.2} s", of.seconds),
        },
        (failed, _) => outcome(failed),
    };
    let left = humantime::format_duration(std::time::Duration::from_secs(left.as_secs()));
    shown(&format!("run {} of {all}  {what}  {numbers}  about {left} left", run.number)).into_owned()
}
