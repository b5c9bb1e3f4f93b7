//! The results of a study on a terminal. Leaves out other formats (`markup`).

use super::numbers::{digits, p_value};
use super::sweep;
use crate::names::shorten;
use crate::sentences::study as sentences;
use crate::shown::shown;
use crate::study::{Block, Cell, Group, Kind, Outcome, Purpose, Run, Study, results, sweeps};
use crate::table_cells::{FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING};
use anstyle::Style;
use energy_trace_statistics::comparison::Verdict;
use std::io::{self, Write};

/// Columns of a program's label.
const LABEL: usize = 16;

/// How it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Most calls, and most functions, that are shown.
    pub rows: usize,
    /// Whether to colour.
    pub color: bool,
    /// Columns of the terminal; `None` where it is none.
    pub width: Option<u16>,
}

/// Writes the tables of all groups.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, study: &Study, options: &Options) -> io::Result<()> {
    let width = options.width.map_or(FILE_WIDTH, usize::from);
    let look = Look { color: options.color, width: Some(width) };
    let groups = results(study);
    let grade = groups.iter().filter_map(|group| group.grade).max();
    look.line(out, TITLE, &sentences::title(study, grade))?;
    for (letter, program) in study.programs.iter().enumerate().map(|(at, program)| (at + 1, program)) {
        let line = format!("{letter:>3}  {}  {}", program.label, program.command.join(" "));
        look.line(out, Style::new(), &shorten(&shown(&line), width))?;
    }
    let sweeps = sweeps(study);
    sweep::write(out, look, &sweeps, options.rows)?;
    // Of a sweep of one program there is nothing to compare at each size.
    for group in groups.iter().filter(|group| sweeps.is_empty() || !group.is_alone()) {
        if !group.name.is_empty() {
            writeln!(out)?;
            look.line(out, TITLE, &group.name)?;
        }
        shown_blocks(group, options.rows).into_iter().try_for_each(|block| one(out, look, study, block))?;
    }
    let mut notes = sentences::notes(study, &groups);
    notes.extend(sentences::sweep_notes(study, &sweeps));
    writeln!(out)?;
    look.bullets(out, "·", &notes)?;
    failures(out, look, study)
}

/// All quantities of runs, and the largest calls and functions.
pub(super) fn shown_blocks(group: &Group, rows: usize) -> Vec<&Block> {
    let of = |kind| group.blocks.iter().filter(move |block| block.kind == kind);
    of(Kind::Run)
        .chain(of(Kind::Counted).take(rows))
        .chain(of(Kind::Call).take(rows))
        .chain(of(Kind::Function).take(rows))
        .collect()
}

fn one(out: &mut dyn Write, look: Look, study: &Study, block: &Block) -> io::Result<()> {
    writeln!(out)?;
    let width = look.width.unwrap_or(FILE_WIDTH);
    look.line(out, TITLE, &shorten(&shown(&sentences::quantity(block)), width))?;
    let heads = ["", "n", "median", "±", "ratio", "95 %", "p", "Â12", "verdict"];
    let grid = Grid {
        heads: heads.map(str::to_owned).into(),
        words: 1,
        name_last: true,
        no_rule: true,
        rows: block.cells.iter().map(|cell| row(study, cell)).collect(),
    };
    grid.write(out, look)
}

fn row(study: &Study, cell: &Cell) -> GridRow {
    let label = study.programs.get(cell.program).map_or("", |program| &program.label);
    let mut cells = vec![shorten(&shown(label), LABEL)];
    cells.extend(cells_of(cell));
    let verdict = cell.beside_least.map(|beside| beside.verdict);
    let style = if verdict == Some(Verdict::Differ) { Style::new().bold() } else { Style::new() };
    GridRow { cells, style }
}

/// The cells behind the label, as text.
pub(super) fn cells_of(cell: &Cell) -> Vec<String> {
    let (low, high) = cell.quartiles;
    let beside = cell.beside_least.as_ref();
    let of = |text: Option<String>| text.unwrap_or_default();
    let with_interval = beside.and_then(|of| of.found.interval);
    let ratio = beside.and_then(|of| of.found.ratio);
    vec![
        sentences::runs(cell),
        digits(cell.median),
        if cell.runs > 0 { digits((high - low) / 2.0) } else { String::new() },
        ratio.map_or_else(
            || of((beside.is_none() && !cell.alone).then(|| "1".into())),
            |ratio| format!("{ratio:.3}"),
        ),
        of(with_interval.map(|(low, high)| format!("{low:.3}–{high:.3}"))),
        of(beside.map(|of| p_value(of.p))),
        of(beside.filter(|of| of.found.pairs > 0).map(|of| format!("{:.2}", of.found.a12))),
        sentences::verdict(cell),
    ]
}

/// Runs that failed.
pub(super) fn failed_runs(study: &Study) -> impl Iterator<Item = &Run> {
    study.runs.iter().filter(|run| run.outcome != Outcome::Done && run.purpose != Purpose::Idle)
}

/// Runs that failed, so that nobody has to look for them.
fn failures(out: &mut dyn Write, look: Look, study: &Study) -> io::Result<()> {
    let failed: Vec<&Run> = failed_runs(study).collect();
    if failed.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    look.line(out, WARNING, &sentences::failed_title(failed.len(), study.runs.len()))?;
    let lines: Vec<String> = failed.iter().map(|run| sentences::failed(study, run)).collect();
    look.bullets(out, "·", &lines)
}
