//! The summary for a terminal: where all joules went, then who spent the target's, then what is in doubt.
//!
//! Leaves out the terminal itself: width and colour are the caller's to find out (`NO_COLOR`, `--color`).

use super::fold::Cost;
use super::rows::{Row, rows_at};
use super::shown::shown;
use super::table_cells::{DIM, EnergyScale, Grid, GridRow, Look, TITLE, WARNING, percent, seconds, watts};
use super::{By, DomainChoice, Kind, Level, diagnostics, run, sentences, short_names};
use anstyle::Style;
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;
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
    /// Columns of the terminal; `None` leaves every name whole.
    pub width: Option<u16>,
    /// Without the arguments of templates.
    pub short_names: bool,
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
        }
    }
}

/// From this width on, intervals and flags have columns of their own.
const WIDE: usize = 120;
/// Below this width the ledger has no column for what could not be charged.
const NARROW: usize = 100;
/// Head of that column.
const UNATTRIBUTED: &str = "unattributed";
/// Most frames that a row by stack shows.
const STACK_LINES: usize = 24;

/// Writes the summary.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &TableOptions) -> io::Result<()> {
    let profile = &*short_names::chosen(profile, options.short_names);
    let look = Look { color: options.color, width: options.width.map(usize::from) };
    heading(out, profile, look)?;
    ledger(out, profile, look)?;
    if let Some(note) = diagnostics::estimate_note(profile) {
        look.bullets(out, " ", &[note])?;
    }
    let sections = Sections { profile, options, look };
    sections.write(out)?;
    if sections.wide() && !profile.ledger.is_empty() {
        writeln!(out)?;
        look.bullets(out, " ", &[sentences::INTERVALS.to_owned()])?;
    }
    if options.verbose {
        super::table_details::write(out, profile, look)?;
    }
    let warnings: Vec<String> = diagnostics::diagnostics(profile).iter().map(sentences::diagnostic).collect();
    if !warnings.is_empty() {
        writeln!(out)?;
        look.line(out, WARNING, "Warnings")?;
        look.bullets(out, "!", &warnings)?;
    }
    Ok(())
}

fn heading(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    let command = profile.run.header.command.join(" ");
    let command = match (command.is_empty(), profile.run.header.system_wide) {
        (false, _) => command,
        (true, true) => "whole system".to_owned(),
        (true, false) => "attached processes".to_owned(),
    };
    let facts = format!(
        "  {} s, {} samples at {} Hz",
        seconds(profile.run.duration_ns()),
        profile.run.samples,
        profile.run.header.sample_hz
    );
    let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(facts.len()));
    look.line(out, TITLE, &format!("{}{facts}", super::names::shorten(&shown(&command), room)))
}

/// One line a domain, and their sum. Columns that are zero everywhere are left out; what could not be charged is listed by reason.
fn ledger(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    writeln!(out)?;
    if profile.ledger.is_empty() {
        return look.line(out, TITLE, "No energy was measured");
    }
    let (total, cores) = (total_row(profile), cores_row(profile));
    let of_domains = profile.ledger.iter().filter(|row| row.class != DomainClass::Core);
    let listed: Vec<&LedgerRow> = of_domains.chain(&total).chain(&cores).collect();
    let scale = EnergyScale::for_largest(listed.iter().map(|row| row.measured));
    look.line(out, TITLE, &format!("Where the energy went, in {}", scale.unit))?;
    type Part = (&'static str, fn(&LedgerRow) -> MicroJoules);
    let recorded = if profile.run.header.command.is_empty() { "recorded\nprograms" } else { "this\nprogram" };
    let parts: [Part; 7] = [
        ("energy", |row| row.measured),
        (recorded, |row| row.target),
        ("other\nprograms", |row| row.other),
        ("idle", |row| row.idle),
        ("uncore", |row| row.uncore),
        ("residual", |row| row.residual),
        (UNATTRIBUTED, |row| row.unattributed.values().copied().sum()),
    ];
    let always = 4;
    // On a narrow terminal the reasons below the table say it alone.
    let narrow = look.width.is_some_and(|width| width < NARROW);
    let any = |part: &Part| {
        let listed_below = narrow && part.0 == UNATTRIBUTED;
        !listed_below && listed.iter().any(|row| part.1(row) != MicroJoules::ZERO)
    };
    let parts: Vec<Part> = parts
        .into_iter()
        .enumerate()
        .filter(|(at, part)| *at < always || any(part))
        .map(|(_, part)| part)
        .collect();
    let heads = ["domain", "quality"].into_iter().chain(parts.iter().map(|part| part.0));
    let row = |row: &&LedgerRow| {
        let energies = parts.iter().map(|part| scale.show(part.1(row)));
        let cells = [shown(&row.domain).into_owned(), run::quality_word(row.quality).to_owned()]
            .into_iter()
            .chain(energies);
        GridRow { cells: cells.collect(), style: Style::new() }
    };
    let grid = Grid {
        heads: heads.map(str::to_owned).collect(),
        words: 2,
        name_last: false,
        rows: listed.iter().map(row).collect(),
    };
    grid.write(out, look)?;
    let reasons = profile.ledger.iter().flat_map(|row| {
        let reasons = row.unattributed.iter().filter(|(_, energy)| **energy != MicroJoules::ZERO);
        reasons.map(move |(reason, energy)| {
            let word = run::quality_word(row.quality);
            format!("{}: {energy} unattributed ({word}): {}", row.domain, reason.name())
        })
    });
    look.bullets(out, " ", &reasons.collect::<Vec<_>>())
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
        let rows = |by| rows_at(self.profile, by, self.options.level);
        match self.options.by {
            By::Function => {
                let calls = rows(By::Api);
                if calls.iter().any(|row| row.kind == Some(Kind::Call)) {
                    self.section(out, "API calls", "call", calls, Rank::Total)?;
                }
                let functions = rows(By::Function);
                self.section(out, "Top functions, self", "function", functions.clone(), Rank::Own)?;
                self.section(out, "Top functions, with callees", "function", functions, Rank::Total)
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
        }
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
            if !self.is_tree() {
                rows.sort_by_key(|row| (Reverse(energy(row, rank)), Reverse(row.spent.total.time_ns)));
            }
        }
        let hidden = rows.len().saturating_sub(self.options.rows);
        rows.truncate(self.options.rows);
        let scale = EnergyScale::for_largest(rows.iter().map(|row| energy(row, Rank::Total)));
        let quality = run::split_quality(self.profile, choice).map_or("no energy", run::quality_word);
        writeln!(out)?;
        let of = if choice == DomainChoice::Total { String::new() } else { format!(", {choice}") };
        self.look.line(out, TITLE, &format!("{title} ({quality}{of})"))?;
        let grid = Grid {
            heads: self.heads(scale, head, rank),
            words: 0,
            name_last: true,
            rows: rows.iter().map(|row| self.cells(row, rank, scale)).collect(),
        };
        grid.write(out, self.look)?;
        let hidden = (hidden > 0).then(|| format!("and {hidden} more"));
        let rough = rows.iter().any(is_rough).then(|| "~ fewer than 100 samples".to_owned());
        let open = "? this run cannot separate its power from other code; the interval is the possible range";
        let open = rows.iter().any(is_open).then(|| open.to_owned());
        let notes: Vec<String> = hidden.into_iter().chain(rough).chain(open).collect();
        if notes.is_empty() { Ok(()) } else { self.look.line(out, DIM, &format!(" {}", notes.join("; "))) }
    }

    fn heads(&self, scale: EnergyScale, head: &str, rank: Rank) -> Vec<String> {
        let estimated = run::quality(self.profile, run::headline(self.profile)) == Some(Quality::Estimated);
        let mark = |head: String| if estimated { format!("{head}\nestimated") } else { head };
        let share = if rank == Rank::Own { "self\nshare" } else { "total\nshare" };
        let mut heads = vec![mark(format!("self {}", scale.unit)), mark(format!("total {}", scale.unit))];
        let power = if run::has_gpus(self.profile, run::headline(self.profile)) { "CPU W" } else { "W" };
        heads.extend([share.to_owned(), mark(power.to_owned()), "CPU s".to_owned()]);
        if self.wide() {
            heads.push(mark(format!("total, 95 % {}", scale.unit)));
        }
        heads.push(head.to_owned());
        heads
    }

    /// Share, watts and seconds are of the cost that the table is ranked by. Watts are those of what CPUs and their memory spent: a GPU's joules
    /// divided by CPU time are no power.
    fn cells(&self, row: &Row, rank: Rank, scale: EnergyScale) -> GridRow {
        let choice = run::headline(self.profile);
        let energy = |rank| run::chosen(&ranked(row, rank).energy, choice);
        let target = run::target(self.profile, choice);
        let time = ranked(row, rank).time_ns;
        let mut cells = vec![
            scale.show(energy(Rank::Own)),
            scale.show(energy(Rank::Total)),
            percent(energy(rank).as_uj(), target.as_uj()),
            if run::has_others(self.profile, choice) {
                watts(run::of_cpus(&ranked(row, rank).energy, choice), time)
            } else {
                "-".to_owned()
            },
            seconds(time),
        ];
        if self.wide() {
            let (low, high) = row.uncertainty.bounds.unwrap_or(row.uncertainty.ci95);
            cells.push(format!("{} to {}", scale.show(low), scale.show(high)));
        }
        cells.push(self.name(row));
        GridRow { cells, style: if row.special { DIM } else { Style::new() } }
    }

    fn name(&self, row: &Row) -> String {
        let rough = if is_rough(row) { "~" } else { "" };
        let open = if is_open(row) { "?" } else { "" };
        let mut text = format!("{rough}{open}{}", shown(&row.name));
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

    /// Whether rows stand below their callers'.
    fn is_tree(&self) -> bool {
        (self.options.by, self.options.level) == (By::Api, Level::Tree)
    }

    fn wide(&self) -> bool {
        self.look.width.is_none_or(|width| width >= WIDE)
    }
}

fn is_rough(row: &Row) -> bool {
    row.flags.contains(&"low-samples")
}

fn is_open(row: &Row) -> bool {
    row.flags.contains(&"unidentified")
}

fn ranked(row: &Row, rank: Rank) -> Cost {
    match rank {
        Rank::Own => row.spent.own,
        Rank::Total => row.spent.total,
    }
}
