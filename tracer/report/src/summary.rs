//! The answer on one screen, shown when a recording ends: what the program used, which calls and functions used it, what is doubtful about
//! that, and what to run next.
//!
//! At most `LINES` lines, but no warning is left out for that. Leaves out the whole tables (`table.rs`), which `report` shows, and what the rows are (`summary_rows.rs`).

use super::diagnostics;
use super::meters::basis;
use super::missing::unread_ns;
use super::outer_line::outer_line;
use super::own_rows::{in_python, is_python_program};
use super::ranges::has_ranges;
use super::summary_rows::{
    Measure, Top, TopRow, calls, functions, own_functions, own_name, plus_minus, processes,
};
use super::table_cells::{DIM, FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING, in_unit, percent, seconds};
use super::uncertainty::of_total;
use super::work::{self, work_named};
use super::{DomainChoice, run};
use anstyle::Style;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names as names;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_sentences::{counted, in_brief, model_in_brief};
use std::collections::BTreeMap;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr as _;

/// Most lines of a summary, unless warnings need more: rows make room for them first.
const LINES: usize = 25;
/// Most API calls, and programs of a recording that has no command, and the fewest.
const CALLS: usize = 5;
const FEWEST_CALLS: usize = 2;
/// Most functions, and the fewest that are shown however little room is left.
const FUNCTIONS: usize = 8;
const FEWEST_FUNCTIONS: usize = 3;
/// Most functions of the program's own that are shown with all that they call.
const OWN_FUNCTIONS: usize = 3;

/// Python has a line where it has one in so many joules, and less than half of them.
const PYTHON_LEAST: i64 = 50;

/// How a summary looks, and which files it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryOptions {
    /// Whether to colour.
    pub color: bool,
    /// Columns of the terminal; `None` where it is none.
    pub width: Option<u16>,
    /// Where the recording is; `None`: none is kept.
    pub recording: Option<String>,
    /// Where the flame graph is.
    pub flame_graph: Option<String>,
    /// Why there is no flame graph, though one was wanted.
    pub no_flame_graph: Option<String>,
    /// The program's file, where its name alone misleads.
    pub program: Option<String>,
    /// How many phases were found.
    pub phases: usize,
}

/// Writes the summary.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &SummaryOptions) -> io::Result<()> {
    let profile = &short_names::unless_alike(profile);
    let width = options.width.map_or(FILE_WIDTH, usize::from);
    let measure = Measure::of(profile);
    let is_modelled = matches!(measure, Measure::Energy(choice) if run::is_modelled(profile, choice));
    let summary = Summary { profile, options, measure, is_modelled, width };
    summary.write(out)
}

struct Summary<'a> {
    profile: &'a Profile,
    options: &'a SummaryOptions,
    measure: Measure,
    /// Whether joules are CPU time times a constant.
    is_modelled: bool,
    width: usize,
}

/// The functions of one name that have most together, where these are several: their name, how many, and what they have.
fn alike(all: &[(String, i64)]) -> Option<(&str, usize, i64)> {
    let mut names: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for (name, amount) in all {
        let (count, sum) = names.entry(name).or_default();
        (*count, *sum) = (*count + 1, sum.saturating_add(*amount));
    }
    let most = names.into_iter().max_by_key(|(_, (_, amount))| *amount);
    most.filter(|(_, (count, _))| *count > 1).map(|(name, (count, amount))| (name, count, amount))
}

fn sum<'a>(rows: impl Iterator<Item = &'a (String, i64)>) -> i64 {
    rows.fold(0, |sum, (_, amount)| sum.saturating_add(*amount))
}

/// One line and how it looks.
type Line = (Style, String);

impl Summary<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let look = Look { color: self.options.color, width: Some(self.width) };
        let (head, tail) = (self.heading(), self.ending());
        let upper = self.upper_table(LINES.saturating_sub(head.len() + tail.len() + FEWEST_FUNCTIONS + 5));
        // A blank line before each table, the heads, and perhaps the line that explains marks.
        let taken = head.len() + tail.len() + upper.as_ref().map_or(0, |table| table.lines() + 1) + 3;
        let (lower, own) = self.lower_tables(LINES.saturating_sub(taken));
        head.iter().try_for_each(|(style, text)| self.line(out, look, *style, text))?;
        let tables = || upper.iter().chain([&lower, &own]).filter(|table| table.all_lines() > 0);
        for table in tables() {
            writeln!(out)?;
            if !table.rows.is_empty() {
                self.grid(table).write(out, look)?;
            }
            if let Some(rest) = &table.rest {
                self.line(out, look, DIM, rest)?;
            }
        }
        let shown_marks = self.measure != Measure::Time;
        let rows = tables().flat_map(|table| &table.rows);
        let marks = marks(rows.map(|row| row.mark(self.is_modelled)));
        if let Some(marks) = marks.filter(|_| shown_marks) {
            self.line(out, look, DIM, marks)?;
        }
        writeln!(out)?;
        // A path that is cut is of no use.
        tail.iter().try_for_each(|(style, text)| look.line(out, *style, text))
    }

    /// What is shown above the functions: API calls, or the programs of a recording that has no command.
    fn upper_table(&self, room: usize) -> Option<Top> {
        let header = &self.profile.run.header;
        let mut top = match header.command.is_empty() || header.system_wide {
            true => processes(self.profile, self.measure),
            false => calls(self.profile, self.measure),
        };
        top.keep(room.clamp(FEWEST_CALLS, CALLS));
        (!top.rows.is_empty()).then_some(top)
    }

    /// Functions by what they spent themselves; and where a program is run, its own ones with all that they call, if there is room.
    fn lower_tables(&self, room: usize) -> (Top, Top) {
        let mut lower = functions(self.profile, self.measure);
        let of = |row: &TopRow| (own_name(&row.name).to_owned(), self.measure.amount(&row.cost));
        let all: Vec<(String, i64)> = lower.rows.iter().map(of).collect();
        lower.without_crumbs(self.measure, self.measure.whole(self.profile));
        let fewest = lower.rows.len().min(FEWEST_FUNCTIONS);
        // Its blank line and heads are two more.
        let most = room.saturating_sub(fewest + 2).min(OWN_FUNCTIONS);
        let mut own = own_functions(self.profile, self.measure, most);
        let advice = if self.options.recording.is_some() { ": report --by python" } else { "" };
        own.rest = own.rest.map(|rest| format!("  {rest}{advice}"));
        let taken = own.all_lines();
        let rows = |room: usize| room.saturating_sub(taken).clamp(FEWEST_FUNCTIONS, FUNCTIONS);
        lower.keep(rows(room));
        if self.rest(&all, lower.rows.len()).is_some() {
            lower.keep(rows(room.saturating_sub(1)));
        }
        lower.rest = self.rest(&all, lower.rows.len());
        (lower, own)
    }

    /// `91.2% in 112 more functions, none above 1.5%`, where these have more than all rows that are shown; `; all 300 named hot: 94.0%`, where
    /// that is most: of files that a program generates.
    fn rest(&self, all: &[(String, i64)], shown: usize) -> Option<String> {
        let (shown, rest) = all.split_at_checked(shown)?;
        let [in_rows, in_rest] = [shown, rest].map(|part| sum(part.iter()));
        let (largest, whole) = (rest.first()?.1, self.measure.whole(self.profile));
        (in_rest > in_rows).then(|| {
            let [in_rest, largest] = [in_rest, largest].map(|part| percent(part, whole));
            let functions = counted(rest.len() as u64, "more function");
            let alike = alike(all).filter(|(_, _, amount)| *amount > whole / 2);
            let alike = alike.map(|(name, count, amount)| {
                format!("; all {count} named {name}: {}", percent(amount, whole))
            });
            format!("{in_rest:>6} in {functions}, none above {largest}{}", alike.unwrap_or_default())
        })
    }

    fn line(&self, out: &mut dyn Write, look: Look, style: Style, text: &str) -> io::Result<()> {
        look.line(out, style, &names::shorten_end(&shown(text), self.width))
    }

    /// The command, what it used, and of what.
    fn heading(&self) -> Vec<Line> {
        let mut lines = vec![(TITLE, self.title()), (TITLE, used(self.profile))];
        lines.extend(DomainClass::ALL.into_iter().filter_map(|class| self.domain(class)).map(plain));
        lines.extend(outer_line(self.profile).map(|line| plain(format!("  {}", line.sentence()))));
        lines.extend(self.work().map(|line| plain(format!("  {line}"))));
        lines.extend(self.phases().map(plain));
        lines.extend(self.python().map(plain));
        lines
    }

    /// What Python has of a program that is mostly something else: the rows below are of machine code then.
    fn python(&self) -> Option<String> {
        let python = native_frames::folded(self.profile, NativeFrames::None);
        let (in_python, all) = in_python(&python);
        let is_some = in_python.saturating_mul(PYTHON_LEAST) >= all && in_python > 0;
        let is_shown = is_some && !is_python_program(&python) && self.options.recording.is_some();
        let part = percent(in_python, all);
        is_shown.then(|| format!("  {part} in Python functions and what they call: report --by python"))
    }

    /// Joules per unit of work: their lines are broken, not cut.
    fn work(&self) -> impl Iterator<Item = String> {
        let room = self.width.saturating_sub(2);
        work::sentences(self.profile).into_iter().flat_map(move |line| names::wrap(&shown(&line), room))
    }

    /// That there are several phases, and what shows them.
    fn phases(&self) -> Option<String> {
        let found = self.options.phases;
        let is_kept = self.options.recording.is_some();
        (found > 1 && is_kept).then(|| format!("  {found} phases, found from what ran: report --by phase"))
    }

    /// `python3 train.py 1`, and where that may be another program than the user means, which one: `(/usr/bin/python3)`.
    fn title(&self) -> String {
        let program = self.options.program.as_ref().map(|path| format!("   ({})", shown(path)));
        let program = names::shorten(&program.unwrap_or_default(), self.width / 2);
        let room = self.width.saturating_sub(program.width());
        names::shorten(&shown(&run::what_was_recorded(self.profile)), room) + &program
    }

    /// `CPU  22.3 J, 19.0% of the machine's 117.8 J; others 59.9%, idle 21.1%`, for domains of one class.
    fn domain(&self, class: DomainClass) -> Option<String> {
        let rows: Vec<&LedgerRow> = run::known_rows(self.profile, DomainChoice::Class(class)).collect();
        let name = match class {
            DomainClass::Package => "CPU",
            DomainClass::Dram => "DRAM",
            DomainClass::Gpu => "GPU",
            DomainClass::Psys if rows.iter().any(|row| row.domain == "psys") => "psys",
            DomainClass::Psys => "whole",
            DomainClass::Core => return None,
        };
        if rows.is_empty() {
            return None;
        }
        let sum = |part: fn(&LedgerRow) -> MicroJoules| rows.iter().map(|row| part(row)).sum::<MicroJoules>();
        let (target, all) = (sum(|row| row.target), sum(|row| row.measured));
        let share = |part: MicroJoules| percent(part.as_uj(), all.as_uj());
        // Of a whole machine every other program is recorded.
        let is_own = self.profile.run.header.system_wide && class != DomainClass::Gpu;
        let parts = [
            (if is_own { "energy-trace" } else { "others" }, sum(|row| row.other)),
            ("idle", sum(|row| row.idle)),
            ("not charged", sum(|row| row.unattributed.values().copied().sum())),
            ("uncore", sum(|row| row.uncore)),
            ("residual", sum(|row| row.residual)),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, part)| *part != MicroJoules::ZERO)
            .map(|(what, part)| format!("{what} {}", share(part)))
            .collect();
        let is_known = !rows.iter().all(|row| run::is_of_nobody(self.profile, row));
        let line = |spaces: &str, of: &str| {
            let [target_j, all_j] = [target, all].map(|energy| in_unit(energy.as_joules(), "J"));
            match is_known {
                true => format!("  {name:<5}{target_j:>8}{spaces}{} of {of}{all_j}", share(target)),
                false => format!("  {name:<5}  not known of {of}{all_j}"),
            }
        };
        let whole = line("   ", "the machine's ");
        let all_parts: usize = parts.iter().map(|part| part.len() + 2).sum();
        let fits = whole.len() + all_parts <= self.width;
        let mut line = if fits { whole } else { line("  ", "") };
        let mut before = "; ";
        for part in parts {
            // What has no room is in the report.
            if line.len() + before.len() + part.len() <= self.width {
                line.push_str(before);
                line.push_str(&part);
                before = ", ";
            }
        }
        Some(line)
    }

    /// Warnings, files, and what to run next.
    fn ending(&self) -> Vec<Line> {
        let warnings = self.warnings().into_iter();
        let warnings = warnings.flat_map(|text| names::wrap(&shown(&text), self.width));
        let warnings = warnings.map(|text| (WARNING_TEXT, text));
        let files = self.files().into_iter().map(plain);
        warnings.chain(files).chain([plain(self.next())]).collect()
    }

    /// What changes a number, in one line each where the terminal has 80 columns, however many there are: whoever
    /// reads a wrong number reads why.
    fn warnings(&self) -> Vec<String> {
        let found = diagnostics::diagnostics(self.profile);
        let mut changing: Vec<&Diagnostic> =
            found.iter().filter(|found| diagnostics::changes_numbers(found, self.profile)).collect();
        // What a counter did not say before all else.
        changing.order_by_key(|found| !is_of_counter(found));
        let all = model_in_brief(self.profile).into_iter().chain(in_brief(changing.into_iter()));
        all.map(|text| format!("! {text}")).collect()
    }

    /// Where the files are: in one line, where there is room.
    fn files(&self) -> Vec<String> {
        let recording = match &self.options.recording {
            Some(path) => format!("recording: {}", shown(path)),
            None => "recording: not kept (-o /dev/null)".to_owned(),
        };
        let flame_graph = match (&self.options.flame_graph, &self.options.no_flame_graph) {
            (Some(path), _) => format!("flame graph: {}", shown(path)),
            (None, Some(why)) => format!("no flame graph: {why}"),
            (None, None) => return vec![recording],
        };
        match recording.width() + 2 + flame_graph.width() <= self.width {
            true => vec![format!("{recording}, {flame_graph}")],
            false => vec![recording, flame_graph],
        }
    }

    fn next(&self) -> String {
        if self.options.recording.is_none() {
            return "next: record again with -o FILE to see more".to_owned();
        }
        let by_range = if has_ranges(self.profile) { " --by range" } else { "" };
        let next = format!("next: {}{by_range}", self.report());
        let more = "   (--by line, api, call, stack, thread; -v)";
        if next.width() + more.len() <= self.width { next + more } else { next }
    }

    /// The command line that shows this recording.
    fn report(&self) -> String {
        match self.options.recording.as_deref() {
            None | Some("energy-trace.data") => "energy-trace report".to_owned(),
            Some(path) => format!("energy-trace report {}", shown(path)),
        }
    }

    fn grid(&self, table: &Top) -> Grid {
        let share = if table.inclusive { "total" } else { "self" };
        // Time is exact; and of joules by a model no row says more than the warning below.
        let is_time = self.measure == Measure::Time;
        let columns = |cells: [String; 5]| {
            let left_out = |at| at == 2 && (is_time || self.is_modelled) || at == 3 && is_time;
            let named = cells.into_iter().enumerate().filter(|(at, _)| !left_out(*at));
            named.map(|(_, cell)| cell).collect()
        };
        let row = |row: &TopRow| {
            let cells = [
                percent(self.measure.amount(&row.cost), self.measure.whole(self.profile)),
                self.measure.show(&row.cost, table),
                self.measure.plus_minus(row),
                row.mark(self.is_modelled).to_owned(),
                shown(&row.name).into_owned(),
            ];
            GridRow { cells: columns(cells), style: if row.special { DIM } else { Style::new() } }
        };
        Grid {
            heads: columns([share, self.measure.head(table), "95 %", "", table.head].map(str::to_owned)),
            words: 0,
            name_last: true,
            no_rule: true,
            rows: table.rows.iter().map(row).collect(),
        }
    }
}

/// Whether a counter said nothing, or was not believed.
const fn is_of_counter(found: &Diagnostic) -> bool {
    use DomainDiagnostic::{NoReading, ReadingsLeftOut};
    matches!(found, Diagnostic::Domain { what: NoReading { .. } | ReadingsLeftOut { .. }, .. })
}

/// Warnings stand out by their mark and its colour, not by weight.
const WARNING_TEXT: Style = WARNING.effects(anstyle::Effects::new());

const fn plain(text: String) -> Line {
    (Style::new(), text)
}

/// What the marks of rows mean, for those that occur.
fn marks(marks: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let marks: Vec<&str> = marks.collect();
    match (marks.contains(&"~"), marks.contains(&"?")) {
        (true, true) => {
            Some("~ fewer than 100 samples   ? this run cannot separate its power from other code")
        }
        (true, false) => Some("~ fewer than 100 samples"),
        (false, true) => Some("? this run cannot separate its power from other code"),
        (false, false) => None,
    }
}

/// `16.8 s   22.3 J ±2% (from energy counters)   1.33 W on average   6.20 mWh`.
pub(crate) fn used(profile: &Profile) -> String {
    let time_ns = time_ns(profile);
    let choice = run::headline(profile);
    let Some(quality) = run::split_quality(profile, choice) else {
        let cpu_ns = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.time_ns));
        let why = match run::quality(profile, choice) {
            None => "no energy was measured",
            Some(_) => "its energy is not known",
        };
        return format!("{} s   {} s of CPU time   {why}", seconds(time_ns), seconds(cpu_ns));
    };
    let energy = run::target(profile, choice);
    let joules = energy.as_joules();
    let word = basis(profile, choice, quality);
    let read_ns = time_ns.saturating_sub(unread_of(profile, choice)).max(1);
    let (sure, range) = how_sure(profile, energy);
    format!(
        "{} s   {}{sure} ({word}{range})   {} on average   {}",
        seconds(time_ns),
        in_unit(joules, "J"),
        in_unit(joules * 1e9 / (read_ns as f64), "W"),
        in_unit(joules / 3600.0, "Wh"),
    )
}

/// ` ±2%`, or of a model's energy its range, `, 10.2 J to 29.1 J`.
fn how_sure(profile: &Profile, energy: MicroJoules) -> (String, String) {
    let Some(sure) = of_total(profile) else { return <(String, String)>::default() };
    if run::is_modelled(profile, run::headline(profile)) {
        let [low, high] = [sure.ci95.0, sure.ci95.1].map(|end| in_unit(end.as_joules(), "J"));
        return (String::new(), format!(", {low} to {high}"));
    }
    let text = plus_minus(energy, Some(&sure));
    (if text == "-" { String::new() } else { format!(" {text}") }, String::new())
}

/// Nanoseconds of the run that the numbers are of.
fn time_ns(profile: &Profile) -> u64 {
    let done = profile.per_work.as_ref().and_then(|per| work_named(profile, &per.name));
    match (done, profile.part) {
        (Some(done), _) => done.covered_ns,
        (None, Some(part)) => part.to_ns.saturating_sub(part.from_ns),
        (None, None) => profile.run.duration_ns(),
    }
}

/// In how many of them no domain of a choice was read. Of a part of a run nobody knows in how many of its own.
fn unread_of(profile: &Profile, choice: DomainChoice) -> u64 {
    let rows = run::known_rows(profile, choice).filter(|_| profile.part.is_none());
    rows.map(|row| unread_ns(profile, row)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{DomainClass, SummaryOptions, used, write};
    use crate::table::{self, TableOptions};
    use crate::tests::only_an_amd_gpu;
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::tests::training_runs::measured_training;
    use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
    use energy_trace_model::profile::over_time::PartOfRun;
    use energy_trace_model::recording::record::{FrameKind, Quality};
    use std::collections::BTreeMap;

    /// A program that is less than half Python has a line that says how much is, and what shows it; of one that is mostly Python the rows say it.
    #[test]
    fn a_part_in_python() {
        let of = |percent: i64| {
            let mut b = RecordingBuilder::new("app", 9);
            let process = b.process(7, "app", None);
            let thread = b.thread(process, 7, "app");
            let start = b.frame(FrameKind::Native, "/bin/app", "main");
            let python = b.python("job", "run", "/home/me/job.py", 3);
            let (native, both) = (b.stack(&[start]), b.stack(&[start, python]));
            b.spent(thread, Some(native), 1_000_000 - 10_000 * percent, 100, 900);
            b.spent(thread, Some(both), 10_000 * percent, 100, 900);
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
            let options = SummaryOptions { recording: Some("a.data".into()), ..SummaryOptions::default() };
            let mut out = Vec::new();
            write(&mut out, &b.build(), &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let line = "\n  31.0% in Python functions and what they call: report --by python\n";
        assert!(of(31).contains(line), "{}", of(31));
        assert!(!of(1).contains("--by python") && !of(60).contains("--by python"), "{}", of(60));
    }

    /// Energy that is charged to nobody is not zero joules of the program: its headline says so, and rows are by CPU time.
    #[test]
    fn energy_of_nobody() {
        let mut out = Vec::new();
        write(&mut out, &only_an_amd_gpu(), &SummaryOptions::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(" s of CPU time   its energy is not known\n"), "{text}");
        assert!(text.contains("\n  GPU    not known of the machine's 812 J; not charged 100.0%\n"), "{text}");
        assert!(!text.contains(" 0 J"), "{text}");
        let mut out = Vec::new();
        table::write(&mut out, &only_an_amd_gpu(), &TableOptions::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = text.lines().map(|line| line.split_whitespace().take(4).collect::<Vec<_>>());
        assert!(row.into_iter().any(|row| row == ["gpu-0", "measured", "812.00", "-"]), "{text}");
    }

    /// Where rows have less than what is in none, as of code that is made of very many texts, the rest is said, below them.
    #[test]
    fn functions_of_many_texts() {
        let of = |functions: u32| {
            let mut b = RecordingBuilder::new("python3 run.py", 9);
            let process = b.process(7, "python3", None);
            let thread = b.thread(process, 7, "python3");
            for number in 0..functions {
                let frame = b.python(&format!("gen{number}"), "f", &format!("<gen-{number}>"), 1);
                let stack = b.stack(&[frame]);
                b.spent(thread, Some(stack), 1_000_000, 900, 90);
            }
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
            let mut out = Vec::new();
            write(&mut out, &b.build(), &SummaryOptions { width: Some(80), ..SummaryOptions::default() })
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = of(100);
        let rest = text
            .lines()
            .position(|line| line == " 92.0% in 92 more functions, none above 1.0%; all 100 named f: 100.0%");
        assert!(text.lines().nth(rest.unwrap() - 1).unwrap().contains("<gen-"), "{text}");
        assert!(!of(12).contains(" more function"), "{}", of(12));
    }

    /// Generated code that calls is none of the program's functions: how much it is stands below these, and so does what is in none of them.
    #[test]
    fn what_no_function_of_the_program_has() {
        let of = |file: &str, parts: [i64; 3]| {
            let mut b = RecordingBuilder::new("python3 run.py", 9);
            let process = b.process(7, "python3", None);
            let thread = b.thread(process, 7, "python3");
            let module = b.python("run", "<module>", "/home/me/run.py", 1);
            let own = b.python("run", "work", "/home/me/run.py", 3);
            let made = b.python("made", "call", file, 5);
            let hot = b.python("pack", "hot", "/home/me/hot.py", 7);
            for (frames, part) in
                [vec![module, own, hot], vec![module, made, hot], vec![module, hot]].iter().zip(parts)
            {
                let stack = b.stack(frames);
                b.spent(thread, Some(stack), 1_000_000 * part, 900, 90);
            }
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
            let (mut out, recording) = (Vec::new(), Some("a.data".to_owned()));
            let options = SummaryOptions { width: Some(80), recording, ..SummaryOptions::default() };
            write(&mut out, &b.build(), &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let said = |file, parts, words: &str| {
            let text = of(file, parts);
            assert!(text.contains(&format!("  {words}: report --by python\n")), "{text}");
            assert!(
                text.contains("  run.work run.py:3") && text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
        };
        said("<blob>", [30, 70, 0], "70.0% in none of these, 70.0% by generated code (<blob>)");
        said("<blob>", [70, 20, 10], "20.0% by generated code (<blob>)");
        said("/home/me/run.py", [30, 1, 69], "70.0% in none of these");
        assert!(!of("/home/me/run.py", [70, 20, 10]).contains("--by python"));
    }

    /// Mean power is of the time in which something was read; of a part of the run it is of that part, whatever is missing elsewhere.
    #[test]
    fn watts_are_of_the_time_that_is_known() {
        let mut profile = measured_training();
        let watts = |profile: &_| {
            let text = used(profile);
            text.split("   ")
                .find_map(|part| part.strip_suffix(" W on average")?.parse::<f64>().ok())
                .unwrap()
        };
        let (whole, of_ns) = (watts(&profile), profile.run.duration_ns());
        let domains: Vec<String> = profile.ledger.iter().map(|row| row.domain.clone()).collect();
        let missing = DomainDiagnostic::NoReading { missing_ns: of_ns / 2, of_ns, reasons: BTreeMap::new() };
        profile.diagnostics.extend(domains.iter().map(|domain| Diagnostic::of(domain, missing.clone())));
        assert!((watts(&profile) / whole - 2.0).abs() < 0.01, "{}", used(&profile));
        profile.part = Some(PartOfRun { from_ns: of_ns / 2, to_ns: of_ns / 4 * 3, of_ns, bin_ns: 1 });
        assert!((watts(&profile) / whole - 4.0).abs() < 0.02, "{}", used(&profile));
    }
}
