//! The summary for a terminal: where all joules went, then who spent the target's, then what is in doubt.
//!
//! Leaves out the terminal itself: width and colour are the caller's to find out (`NO_COLOR`, `--color`).

use super::apart::told_apart;
use super::counts::counted;
use super::fold::Cost;
use super::outer_line::{OuterLine, differences, outer_line};
use super::own_rows::{Own, is_python_program, own_rows, with_frames};
use super::row::Row;
use super::rows::{self, rows_at};
use super::summary_rows::plus_minus;
use super::table_cells::{
    DIM, EnergyScale, FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING, call_energy, percent, seconds, watts,
};
use super::{By, CallsMade, DomainChoice, Kind, Level, diagnostics, phases, ranges, run, work};
use anstyle::Style;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::frame_name;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_sentences as sentences;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What a table shows and how wide it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// What a row stands for.
    pub by: By,
    /// Which calls are rows, where rows are calls.
    pub level: Level,
    /// Most rows that a section shows.
    pub rows: usize,
    /// Whether to colour.
    pub color: bool,
    /// Whether to show sources, overhead and stack verdicts too.
    pub verbose: bool,
    /// Columns of the terminal; `None`: 160, as in a file. Names are whole in JSON and CSV.
    pub width: Option<u16>,
    /// Without the arguments of templates.
    pub short_names: bool,
    /// Which frames of native code are rows; `None`: of a Python program its own lines and functions come first.
    pub native_frames: Option<NativeFrames>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            by: By::Function,
            level: Level::All,
            rows: 15,
            color: false,
            verbose: false,
            width: None,
            short_names: false,
            native_frames: None,
        }
    }
}

/// From this width on, intervals and flags have columns of their own.
const WIDE: usize = 120;
/// Below this width the ledger has no column for what could not be charged.
const NARROW: usize = 100;
/// Below this width rows have no watts, and one of self and total: a name needs the room more.
const NARROWEST: usize = 80;
/// Head of that column.
const UNATTRIBUTED: &str = "unattributed";
/// Below a table of ranges without any.
const NO_RANGES: &str = "no range is in this recording: `energy-trace record --ranges` records those that a program marks by NVTX, ITT or \
                         `energy_trace.range`, and spans of OpenTelemetry";
/// Most frames that a row by stack shows.
const STACK_LINES: usize = 24;

/// Writes the summary.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &TableOptions) -> io::Result<()> {
    let profile = &*short_names::chosen(profile, options.short_names);
    let width = options.width.map_or(FILE_WIDTH, usize::from);
    let look = Look { color: options.color, width: Some(width) };
    heading(out, profile, look)?;
    ledger(out, profile, look)?;
    look.bullets(out, " ", &work::sentences(profile))?;
    if let Some(note) = diagnostics::estimate_note(profile) {
        look.bullets(out, " ", &[note])?;
    }
    let sections = Sections { profile, options, look };
    sections.write(out)?;
    if sections.has_intervals() {
        writeln!(out)?;
        look.bullets(out, " ", &[sentences::INTERVALS.to_owned()])?;
    }
    if options.verbose {
        super::table_details::write(out, profile, look)?;
    }
    warnings(out, profile, options.verbose, look)
}

/// What changes a number; what does not, with `-v` only.
fn warnings(out: &mut dyn Write, profile: &Profile, verbose: bool, look: Look) -> io::Result<()> {
    let (changing, others): (Vec<_>, Vec<_>) = diagnostics::diagnostics(profile)
        .into_iter()
        .partition(|found| diagnostics::changes_numbers(found, profile));
    let [changing, others]: [Vec<String>; 2] =
        [changing, others].map(|found| found.iter().map(sentences::diagnostic).collect());
    if changing.is_empty() && others.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if !changing.is_empty() {
        look.line(out, WARNING, "Warnings")?;
        look.bullets(out, "!", &changing)?;
    }
    if verbose && !others.is_empty() {
        look.line(out, TITLE, "Notes, without effect on the total")?;
        return look.bullets(out, " ", &others);
    }
    let hidden = (!others.is_empty()).then(|| remarks(others.len()));
    look.bullets(out, " ", &hidden.into_iter().collect::<Vec<_>>())
}

fn remarks(count: usize) -> String {
    let notes = if count == 1 { "1 note".to_owned() } else { format!("{count} notes") };
    format!("{notes} on how this came about, without effect on the total: report with -v")
}

fn heading(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    let facts = format!(
        "  {} s, {} at {} Hz",
        seconds(profile.run.duration_ns()),
        sentences::counted(profile.run.samples, "sample"),
        profile.run.header.sample_hz
    );
    let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(facts.len()));
    look.line(
        out,
        TITLE,
        &format!("{}{facts}", energy_trace_names::shorten(&shown(&run::what_was_recorded(profile)), room)),
    )
}

/// A column: its head, and what a row has there.
type Part = (&'static str, fn(&LedgerRow) -> MicroJoules);

/// One line a domain, and their sum. Columns that are zero everywhere are left out; what could not be charged is listed by reason.
fn ledger(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    writeln!(out)?;
    if profile.ledger.is_empty() {
        return look.line(out, TITLE, "No energy was measured");
    }
    let (total, cores, beside_cores) = (total_row(profile), cores_row(profile), beside_cores_rows(profile));
    let outer = outer_line(profile);
    let rest = outer.as_ref().map(OuterLine::rest_rows).unwrap_or_default();
    let of_domains = profile.ledger.iter().filter(|row| row.class != DomainClass::Core);
    let listed: Vec<&LedgerRow> =
        of_domains.chain(&rest).chain(&total).chain(&cores).chain(&beside_cores).collect();
    let scale = EnergyScale::for_largest(listed.iter().map(|row| row.measured));
    // What is modelled says so below the table.
    let modelled = listed.iter().all(|row| row.quality == Quality::Estimated);
    look.line(out, TITLE, &format!("Where the energy went, in {}", scale.unit))?;
    let recorded = if profile.run.header.command.is_empty() { "recorded\nprograms" } else { "this\nprogram" };
    let parts = columns(recorded);
    // On a narrow terminal the reasons below the table say it alone.
    let narrow = look.width.is_some_and(|width| width < NARROW);
    let any = |part: &Part| {
        let listed_below = narrow && part.0 == UNATTRIBUTED;
        !listed_below && listed.iter().any(|row| part.1(row) != MicroJoules::ZERO)
    };
    let parts: Vec<Part> = parts
        .into_iter()
        .enumerate()
        .filter(|(at, part)| *at < 2 || any(part))
        .map(|(_, part)| part)
        .collect();
    let words: &[&str] = if modelled { &["domain"] } else { &["domain", "quality"] };
    let heads = words.iter().copied().chain(parts.iter().map(|part| part.0));
    let row = |row: &&LedgerRow| {
        // A rest is nobody's, and so in no column but the first.
        let is_rest = rest.iter().chain(&beside_cores).any(|rest| std::ptr::eq(*row, rest));
        let energies = parts.iter().map(|part| scale.show(part.1(row))).enumerate();
        let energies = energies.map(|(at, text)| match at {
            1.. if is_rest => String::new(),
            1 if run::is_of_nobody(profile, row) => "-".to_owned(),
            _ => text,
        });
        let described = [shown(&row.domain).into_owned(), run::quality_word(row.quality).to_owned()];
        let cells = described.into_iter().take(words.len()).chain(energies);
        GridRow { cells: cells.collect(), style: Style::new() }
    };
    let grid = Grid {
        heads: heads.map(str::to_owned).collect(),
        words: words.len(),
        name_last: false,
        no_rule: false,
        rows: listed.iter().map(row).collect(),
    };
    grid.write(out, look)?;
    let of_meters = outer.iter().map(OuterLine::sentence).chain(differences(profile));
    look.bullets(out, " ", &of_meters.collect::<Vec<_>>())?;
    look.bullets(out, " ", &not_charged(profile))
}

/// The columns of energy; `recorded`: what the programs that were recorded are called.
fn columns(recorded: &'static str) -> [Part; 7] {
    [
        ("energy", |row| row.measured),
        (recorded, |row| row.target),
        ("other\nprograms", |row| row.other),
        ("idle", |row| row.idle),
        ("uncore", |row| row.uncore),
        ("residual", |row| row.residual),
        (UNATTRIBUTED, |row| row.unattributed.values().copied().sum()),
    ]
}

/// What could not be charged, and why.
fn not_charged(profile: &Profile) -> Vec<String> {
    let reasons = profile.ledger.iter().flat_map(|row| {
        let reasons = row.unattributed.iter().filter(|(_, energy)| **energy != MicroJoules::ZERO);
        reasons
            .map(move |(reason, energy)| format!("{}: {energy} unattributed: {}", row.domain, reason.name()))
    });
    reasons.collect()
}

/// The sum of all domains that add up, where there is more than one.
fn total_row(profile: &Profile) -> Option<LedgerRow> {
    let rows: Vec<&LedgerRow> = run::ledger_of(profile, DomainChoice::Total).collect();
    if rows.len() < 2 {
        return None;
    }
    let left_out = profile.ledger.iter().find(|row| !row.class.adds_up()).map(|row| row.class.name());
    let name = left_out.map_or_else(|| "total".to_owned(), |class| format!("all but {class}"));
    Some(sum_of(&rows, name, run::quality(profile, DomainChoice::Total)))
}

/// The cores in one line: a server has too many to list, and they are part of their packages.
fn cores_row(profile: &Profile) -> Option<LedgerRow> {
    let choice = DomainChoice::Class(DomainClass::Core);
    let rows: Vec<&LedgerRow> = run::ledger_of(profile, choice).collect();
    let name = format!("{} cores (in package)", rows.len());
    (!rows.is_empty()).then(|| sum_of(&rows, name, run::quality(profile, choice)))
}

/// What the cores leave over of each package: caches, memory controllers, links. None where both do not fit
/// each other.
fn beside_cores_rows(profile: &Profile) -> Vec<LedgerRow> {
    let packages = run::known_rows(profile, DomainChoice::Class(DomainClass::Package));
    let beside = |package: &LedgerRow| {
        let names = profile.run.holds.get(&package.domain)?;
        let is_inside = |row: &&LedgerRow| names.contains(&row.domain);
        let cores: Vec<&LedgerRow> = profile.ledger.iter().filter(is_inside).collect();
        let inside: MicroJoules = cores.iter().map(|row| row.measured).sum();
        let quality = cores.iter().map(|row| row.quality).fold(package.quality, Quality::max);
        let row = LedgerRow::empty(format!("rest of {}", package.domain), DomainClass::Package, quality);
        let rest = package.measured - inside;
        (rest >= MicroJoules::ZERO).then_some(LedgerRow { measured: rest, ..row })
    };
    packages.filter_map(beside).collect()
}

fn sum_of(rows: &[&LedgerRow], domain: String, quality: Option<Quality>) -> LedgerRow {
    let sum = |part: fn(&LedgerRow) -> MicroJoules| rows.iter().map(|row| part(row)).sum();
    let mut unattributed = BTreeMap::new();
    for (reason, energy) in rows.iter().flat_map(|row| &row.unattributed) {
        *unattributed.entry(*reason).or_default() += *energy;
    }
    LedgerRow {
        domain,
        class: DomainClass::Package,
        quality: quality.unwrap_or(Quality::Estimated),
        measured: sum(|row| row.measured),
        target: sum(|row| row.target),
        other: sum(|row| row.other),
        idle: sum(|row| row.idle),
        uncore: sum(|row| row.uncore),
        residual: sum(|row| row.residual),
        unattributed,
    }
}

/// The tables of who spent the target's energy.
struct Sections<'a> {
    profile: &'a Profile,
    options: &'a TableOptions,
    look: Look,
}

/// Which of a row's two costs a table is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Own,
    Total,
}

impl Sections<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(python) = self.own_first() {
            return self.of_program(out, &python);
        }
        let shown = with_frames(self.profile, self.options.by, self.options.native_frames);
        let rows = |by| rows_at(&shown, by, self.options.level);
        match self.options.by {
            By::Function => {
                let calls = rows(By::Api);
                if calls.iter().any(|row| row.kind == Some(Kind::Call)) {
                    self.section(out, "API calls", "call", calls, Rank::Total)?;
                }
                let functions = rows(By::Function);
                if self.profile.frames.iter().any(|frame| frame.kind == FrameKind::Python) {
                    let python = rows(By::Python);
                    self.section(out, "Top Python functions, self", "function", python, Rank::Own)?;
                }
                self.section(out, "Top functions, self", "function", functions.clone(), Rank::Own)?;
                self.section(out, "Top functions, with callees", "function", functions, Rank::Total)?;
                self.counted(out)
            }
            By::Python => {
                let functions = rows(By::Python);
                self.section(out, "Top Python functions, self", "function", functions.clone(), Rank::Own)?;
                self.section(out, "Top Python functions, with callees", "function", functions, Rank::Total)
            }
            By::Line => {
                let lines = rows(By::Line);
                self.section(out, "Top lines, self", "line", lines.clone(), Rank::Own)?;
                self.section(out, "Top lines, with callees", "line", lines, Rank::Total)
            }
            By::Stack => {
                self.section(out, "Top stacks, innermost frame first", "stack", rows(By::Stack), Rank::Own)
            }
            By::Api => self.section(out, "API calls", "call", rows(By::Api), Rank::Total),
            By::Call => self.section(out, "Calls by line", "line → call", rows(By::Call), Rank::Total),
            By::Library => {
                let libraries = rows(By::Library);
                self.section(out, "Top libraries, self", "library", libraries.clone(), Rank::Own)?;
                self.section(out, "Top libraries, with callees", "library", libraries, Rank::Total)
            }
            By::Thread => self.section(out, "Threads", "thread", rows(By::Thread), Rank::Own),
            By::Process => self.section(out, "Processes", "process", rows(By::Process), Rank::Own),
            By::Range => {
                self.section(out, "Ranges, with those within them", "range", rows(By::Range), Rank::Total)?;
                // Where they were asked for, a warning says why there are none.
                let none = (!ranges::has_ranges(self.profile) && !diagnostics::misses_ranges(self.profile))
                    .then(|| NO_RANGES.to_owned());
                self.look.bullets(out, " ", &none.into_iter().collect::<Vec<_>>())
            }
            By::Phase => {
                let title = "Phases, found from what ran, not marked";
                self.section(out, title, "phase", rows(By::Phase), Rank::Total)?;
                let about: Vec<String> = self.profile.phases.iter().map(phases::about).collect();
                self.look.bullets(out, " ", &about)
            }
        }
    }

    /// The profile without native frames, where the tables begin with the program's own lines.
    fn own_first(&self) -> Option<Cow<'_, Profile>> {
        let is_asked = matches!(self.options.by, By::Function | By::Line)
            && self.options.native_frames.is_none_or(|frames| frames == NativeFrames::None);
        let python = is_asked.then(|| native_frames::folded(self.profile, NativeFrames::None))?;
        is_python_program(&python).then_some(python)
    }

    /// The tables of a Python program: what is the user's own first, then what it calls.
    fn of_program(&self, out: &mut dyn Write, python: &Profile) -> io::Result<()> {
        let python_rows = |by| rows_at(python, by, self.options.level);
        let lines = own_rows(python, Own::Lines);
        if !lines.is_empty() {
            self.section(out, "Lines of this program, with callees", "line", lines, Rank::Total)?;
        }
        if self.options.by == By::Line {
            let lines = python_rows(By::Line);
            self.section(out, "Top Python lines, self, native code included", "line", lines, Rank::Own)?;
            return self.say_native(out);
        }
        let calls = rows_at(self.profile, By::Api, self.options.level);
        if calls.iter().any(|row| row.kind == Some(Kind::Call)) {
            self.section(out, "API calls", "call", calls, Rank::Total)?;
        }
        let own = own_rows(python, Own::Functions);
        let title = "Functions of this program, with callees";
        if !own.is_empty() {
            self.section(out, title, "function", own, Rank::Total)?;
        }
        let functions = python_rows(By::Python);
        let title = "Top Python functions, self, native code included";
        self.section(out, title, "function", functions, Rank::Own)?;
        if self.options.native_frames.is_none() {
            let libraries = native_frames::folded(self.profile, NativeFrames::Libraries);
            let functions = rows_at(&libraries, By::Function, self.options.level);
            self.section(out, "Top functions, self", "function", functions, Rank::Own)?;
        }
        self.counted(out)?;
        self.say_native(out)
    }

    /// Every function that was counted, whether a sample shows it or not.
    fn counted(&self, out: &mut dyn Write) -> io::Result<()> {
        let functions = counted(self.profile);
        if functions.is_empty() {
            return Ok(());
        }
        let names = told_apart(self.profile, frame_name);
        let names =
            functions.iter().map(|function| names.get(function.frame.index()).cloned().unwrap_or_default());
        let cells: Vec<String> =
            names.take(self.options.rows).map(|name| shown(&name).into_owned()).collect();
        let made: Vec<_> = functions.iter().take(cells.len()).map(|function| Some(function.made)).collect();
        let hidden = functions.len() - made.len();
        let mut columns = self.calls(&made);
        columns.push(Column { head: "function".to_owned(), cells });
        writeln!(out)?;
        self.look.line(out, TITLE, "Counted calls")?;
        Column::grid(&columns, made.iter().map(|_| Style::new())).write(out, self.look)?;
        let hidden = (hidden > 0).then(|| format!("and {hidden} more"));
        let notes: Vec<String> = hidden.into_iter().chain(note_on_calls(&made)).collect();
        self.look.bullets(out, " ", &notes)
    }

    fn say_native(&self, out: &mut dyn Write) -> io::Result<()> {
        let note = "report with --native-frames all shows the interpreter's own functions too".to_owned();
        writeln!(out)?;
        self.look.bullets(out, " ", &[note])
    }

    fn section(
        &self,
        out: &mut dyn Write,
        title: &str,
        head: &str,
        mut rows: Vec<Row>,
        rank: Rank,
    ) -> io::Result<()> {
        let choice = run::headline(self.profile);
        let energy = |row: &Row, rank| run::chosen(&ranked(row, rank).energy, choice);
        if rank == Rank::Own {
            // What only calls others has nothing of its own to show here.
            rows.retain(|row| row.spent.own != Cost::default());
        } else {
            // Everything is called by what starts the interpreter: that tells nothing.
            rows.retain(|row| !row.starts);
            if !self.is_in_order() {
                rows.order_by_key(|row| (Reverse(energy(row, rank)), Reverse(row.spent.total.time_ns)));
            }
        }
        let hidden = rows.len().saturating_sub(self.options.rows);
        rows.truncate(self.options.rows);
        writeln!(out)?;
        let of = if choice == DomainChoice::Total { String::new() } else { format!(" ({choice})") };
        self.look.line(out, TITLE, &format!("{title}{of}"))?;
        self.grid(&rows, head, rank).write(out, self.look)?;
        let marks: Vec<_> = rows.iter().map(|row| rows::mark(&row.flags, self.is_modelled())).collect();
        let made: Vec<_> = rows.iter().map(|row| row.calls).collect();
        let notes: Vec<String> =
            rows::notes(hidden, &marks).into_iter().chain(note_on_calls(&made)).collect();
        self.look.bullets(out, " ", &notes)
    }

    /// Share, watts and seconds are of the cost that the table is ranked by. Watts are those of what CPUs and their memory spent: a GPU's joules
    /// divided by CPU time are no power. A column that says the same as another, or the same in every row of a model, is left out.
    fn grid(&self, rows: &[Row], head: &str, rank: Rank) -> Grid {
        let styles = || rows.iter().map(|row| if row.special { DIM } else { Style::new() });
        let tight = self.look.width.is_some_and(|width| width < NARROWEST);
        let grid = Column::grid(&self.columns(rows, head, rank, (tight, self.has_intervals())), styles());
        if !grid.is_too_wide(self.look.width) {
            return grid;
        }
        Column::grid(&self.columns(rows, head, rank, (true, false)), styles())
    }

    fn columns(&self, rows: &[Row], head: &str, rank: Rank, (narrow, sure): (bool, bool)) -> Vec<Column> {
        let choice = run::headline(self.profile);
        let energy = |row: &Row, rank| run::chosen(&ranked(row, rank).energy, choice);
        let scale = EnergyScale::for_largest(rows.iter().map(|row| energy(row, Rank::Total)));
        let target = run::target(self.profile, choice).as_uj();
        let column = |head: String, cell: &dyn Fn(&Row) -> String| Column {
            head,
            cells: rows.iter().map(cell).collect(),
        };
        let own = column(format!("self {}", scale.unit), &|row| scale.show(energy(row, Rank::Own)));
        let total = column(format!("total {}", scale.unit), &|row| scale.show(energy(row, Rank::Total)));
        let share = if rank == Rank::Own { "self\nshare" } else { "total\nshare" };
        let share = column(share.to_owned(), &|row| percent(energy(row, rank).as_uj(), target));
        let merged = own.cells == total.cells;
        let mut columns = match merged {
            true => vec![
                Column { head: scale.unit.to_owned(), ..total },
                Column { head: "share".to_owned(), ..share },
            ],
            // A name needs the room more than the number that the table is not ranked by.
            false if narrow && rank == Rank::Total => vec![total, share],
            // An interval is that of the total.
            false if narrow && !sure => vec![own, share],
            false => vec![own, total, share],
        };
        let power = if run::has_gpus(self.profile, choice) { "CPU W" } else { "W" };
        let watts = column(power.to_owned(), &|row| self.watts(row, rank));
        let modelled = run::quality(self.profile, choice) == Some(Quality::Estimated);
        columns.extend((!narrow && (!modelled || !watts.is_uniform())).then_some(watts));
        columns.push(column("CPU s".to_owned(), &|row| seconds(ranked(row, rank).time_ns)));
        let interval = match self.wide() {
            true => column(format!("total, 95 % {}", scale.unit), &|row| {
                row.uncertainty.map_or_else(String::new, |known| {
                    format!("{} to {}", scale.show(known.ci95.0), scale.show(known.ci95.1))
                })
            }),
            false => column(if merged { "95 %" } else { "total\n95 %" }.to_owned(), &|row| {
                plus_minus(energy(row, Rank::Total), row.uncertainty.as_ref())
            }),
        };
        columns.extend(sure.then_some(interval));
        columns.extend(self.calls(&rows.iter().map(|row| row.calls).collect::<Vec<_>>()));
        let marks = column(String::new(), &|row| rows::mark(&row.flags, self.is_modelled()).to_owned());
        columns.extend(marks.cells.iter().any(|mark| !mark.is_empty()).then_some(marks));
        columns.push(column(head.to_owned(), &|row| self.name(row)));
        columns
    }

    /// Whether rows say how sure their joules are: of a part of a run nobody knows it, and of a model no row says more than the note above.
    fn has_intervals(&self) -> bool {
        let is_part = self.profile.part.is_some() || self.options.by == By::Phase;
        let is_known = run::split_quality(self.profile, run::headline(self.profile)).is_some();
        is_known && !self.is_modelled() && !is_part
    }

    fn is_modelled(&self) -> bool {
        run::is_modelled(self.profile, run::headline(self.profile))
    }

    /// Calls and what one cost on average, where any were counted; `177/1`: of 177 calls all but one within another.
    fn calls(&self, made: &[Option<CallsMade>]) -> Vec<Column> {
        if made.iter().all(Option::is_none) {
            return Vec::new();
        }
        let choice = run::headline(self.profile);
        let at = |mark: &'static str, made: &CallsMade| if made.at_least { mark } else { "" };
        let each = |made: &CallsMade| match made.uj_per_call(choice) {
            Some(uj) => format!("{}{}", at("≤", made), call_energy(uj)),
            None if made.cost.samples == 0 => "no sample".to_owned(),
            None => String::new(),
        };
        let column = |head: String, cell: &dyn Fn(&CallsMade) -> String| Column {
            head,
            cells: made.iter().map(|made| made.as_ref().map_or_else(String::new, cell)).collect(),
        };
        let mut columns = vec![
            column("calls".to_owned(), &|made| match made.nested {
                0 => format!("{}{}", at("≥", made), made.calls),
                _ => format!("{}{}/{}", at("≥", made), made.calls, made.outermost()),
            }),
            column("energy\nper call".to_owned(), &each),
        ];
        if self.wide() && made.iter().flatten().any(|made| made.times.is_some()) {
            columns.push(column("p50 / p95 / p99 ms\nof a call".to_owned(), &|made| {
                let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
                made.times.map_or_else(String::new, |times| {
                    [times.p50_ns, times.p95_ns, times.p99_ns].map(ms).join(" / ")
                })
            }));
        }
        columns
    }

    /// Average watts of what was spent in CPU time.
    fn watts(&self, row: &Row, rank: Rank) -> String {
        let choice = run::headline(self.profile);
        if !run::has_others(self.profile, choice) {
            return "-".to_owned();
        }
        let cost = ranked(row, rank);
        watts(run::of_cpus(&cost.energy, choice), cost.time_ns)
    }

    fn name(&self, row: &Row) -> String {
        if let Some(number) = row.phase {
            return phases::lines(self.profile, number).join("\n");
        }
        let mut text = shown(&format!("{}{}", row.name, row.inside)).into_owned();
        if self.is_tree() {
            return format!("{}{text}", "  ".repeat(row.callers.len()));
        }
        for caller in row.callers.iter().take(STACK_LINES) {
            text.push_str("\n  ");
            text.push_str(&shown(caller));
        }
        if row.callers.len() > STACK_LINES {
            text.push_str(&format!("\n  and {} more", row.callers.len() - STACK_LINES));
        }
        text
    }

    /// Whether rows have an order of their own.
    fn is_in_order(&self) -> bool {
        self.is_tree() || self.options.by == By::Phase
    }

    /// Whether rows stand below their callers'.
    fn is_tree(&self) -> bool {
        (self.options.by, self.options.level) == (By::Api, Level::Tree)
    }

    fn wide(&self) -> bool {
        self.look.width.is_none_or(|width| width >= WIDE)
    }
}

/// One column of a table of rows.
struct Column {
    head: String,
    cells: Vec<String>,
}

impl Column {
    /// Whether it says the same in every row.
    fn is_uniform(&self) -> bool {
        self.cells.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// Columns side by side; the last is a name.
    fn grid(columns: &[Self], styles: impl Iterator<Item = Style>) -> Grid {
        let cells = |row: usize| columns.iter().filter_map(|column| column.cells.get(row).cloned()).collect();
        let rows = styles.enumerate().map(|(row, style)| GridRow { cells: cells(row), style }).collect();
        let heads = columns.iter().map(|column| column.head.clone()).collect();
        Grid { heads, words: 0, name_last: true, no_rule: false, rows }
    }
}

/// What the marks of calls mean, where they occur.
fn note_on_calls(made: &[Option<CallsMade>]) -> Option<String> {
    let any = made.iter().flatten().any(|made| made.at_least);
    any.then(|| "≥ at least so many calls: the first or the last were not counted".to_owned())
}

fn ranked(row: &Row, rank: Rank) -> Cost {
    match rank {
        Rank::Own => row.spent.own,
        Rank::Total => row.spent.total,
    }
}
