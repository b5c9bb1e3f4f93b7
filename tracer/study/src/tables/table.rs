//! The results of a study on a terminal. Leaves out other formats (`markup`).

use super::numbers::{Scale, p_value};
use super::sweep;
use crate::data::{Beside, Block, Cell, Group, Kind, Outcome, Purpose, Run, Study, results, sweeps};
use crate::sentences;
use anstyle::Style;
use energy_trace_names::shown::shown;
use energy_trace_names::{shorten, shorten_end};
use energy_trace_report::table_cells::{FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING};
use energy_trace_statistics::comparison::Verdict;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Columns of a program's label, and where there is no room for so many.
const LABEL: usize = 32;
const SHORT_LABEL: usize = 16;
/// The columns of a quantity.
const HEADS: [&str; 9] = ["", "n", "median", "±", "ratio", "95 %", "p (Holm)", "Â12", "verdict"];
/// Which of them go where there is no room, the first one first.
const FIRST_TO_GO: [usize; 4] = [7, 5, 3, 4];

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
    for program in &study.programs {
        let line = format!("  {}: {}", program.label, program.command.join(" "));
        look.line(out, Style::new(), &shorten_end(&shown(&line), width))?;
    }
    let sweeps = sweeps(study);
    sweep::write(out, look, &sweeps, options.rows)?;
    // Of a sweep of one program there is nothing to compare at each size.
    let compared = || groups.iter().filter(|group| sweeps.is_empty() || !group.is_alone());
    let blocks: Vec<&Block> = compared().flat_map(|group| shown_blocks(group, options.rows)).collect();
    let layout = layout(study, &blocks, width);
    for group in compared() {
        if !group.name.is_empty() {
            writeln!(out)?;
            look.line(out, TITLE, &shorten(&shown(&group.name), width))?;
        }
        let mut blocks = shown_blocks(group, options.rows).into_iter();
        blocks.try_for_each(|block| one(out, look, study, block, layout))?;
    }
    let mut notes: Vec<String> =
        sentences::left_out(layout.gone.iter().map(|at| HEADS[*at])).into_iter().collect();
    notes.extend(sentences::notes(study, &groups));
    notes.extend(sentences::sweep_notes(study, &sweeps));
    notes.extend(sentences::load(study));
    writeln!(out)?;
    look.bullets(out, "·", &notes)?;
    writeln!(out)?;
    look.line(out, TITLE, "Methods")?;
    look.bullets(out, " ", &[sentences::methods(study)])?;
    failures(out, look, study)
}

/// How all tables of a study are laid out, so that they look alike.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Most columns of a label.
    label: usize,
    /// The columns of `HEADS` that have no room.
    gone: &'static [usize],
}

/// Whole labels and all columns where there is room; else short labels, and columns go in their order.
fn layout(study: &Study, blocks: &[&Block], width: usize) -> Layout {
    let widths = |label: usize| {
        let mut widths = HEADS.map(UnicodeWidthStr::width);
        for row in blocks.iter().flat_map(|block| rows(study, block, label)) {
            for (widest, cell) in widths.iter_mut().zip(&row.cells) {
                *widest = (*widest).max(cell.width());
            }
        }
        widths
    };
    // A space before each column and one behind it, but for the last.
    let sum = |widths: [usize; 9]| widths.iter().map(|width| width + 2).sum::<usize>() - 1;
    if sum(widths(LABEL)) <= width {
        return Layout { label: LABEL, gone: &[] };
    }
    let widths = widths(SHORT_LABEL);
    let mut taken = sum(widths);
    let needed = FIRST_TO_GO.iter().take_while(|at| {
        let is_wide = taken > width;
        taken -= if is_wide { widths[**at] + 2 } else { 0 };
        is_wide
    });
    Layout { label: SHORT_LABEL, gone: &FIRST_TO_GO[..needed.count()] }
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

fn one(out: &mut dyn Write, look: Look, study: &Study, block: &Block, layout: Layout) -> io::Result<()> {
    writeln!(out)?;
    let width = look.width.unwrap_or(FILE_WIDTH);
    let title = sentences::title_of(study, block, &block.quantity, &scale(block).unit);
    look.line(out, TITLE, &shorten(&shown(&title), width))?;
    let kept = |cells: Vec<String>| -> Vec<String> {
        let kept = cells.into_iter().enumerate().filter(|(at, _)| !layout.gone.contains(at));
        kept.map(|(_, cell)| cell).collect()
    };
    let grid = Grid {
        heads: kept(HEADS.map(str::to_owned).into()),
        words: 1,
        name_last: true,
        no_rule: true,
        rows: rows(study, block, layout.label).map(|row| GridRow { cells: kept(row.cells), ..row }).collect(),
    };
    grid.write(out, look)
}

/// The unit of a quantity, with the prefix that its medians need.
pub(super) fn scale(block: &Block) -> Scale {
    Scale::of(&block.unit, block.cells.iter().map(|cell| cell.median))
}

fn rows<'a>(study: &'a Study, block: &'a Block, label: usize) -> impl Iterator<Item = GridRow> + 'a {
    let scale = scale(block);
    block.cells.iter().map(move |cell| row(study, cell, &scale, label))
}

fn row(study: &Study, cell: &Cell, scale: &Scale, room: usize) -> GridRow {
    let label = study.programs.get(cell.program).map_or("", |program| &program.label);
    let mut cells = vec![shorten_end(&shown(label), room)];
    cells.extend(cells_of(cell, scale));
    let verdict = cell.beside_least.map(|beside| beside.verdict);
    let style = if verdict == Some(Verdict::Differ) { Style::new().bold() } else { Style::new() };
    GridRow { cells, style }
}

/// The cells behind the label, as text.
pub(super) fn cells_of(cell: &Cell, scale: &Scale) -> Vec<String> {
    let (low, high) = cell.quartiles;
    let beside = cell.beside_least.as_ref();
    let of = |text: Option<String>| text.unwrap_or_default();
    let with_interval = beside.and_then(|of| of.found.interval);
    let ratio = beside.and_then(|of| of.found.ratio);
    vec![
        sentences::runs(cell),
        scale.show(cell.median),
        if cell.runs > 0 { scale.show((high - low) / 2.0) } else { String::new() },
        ratio.map_or_else(
            || of((beside.is_none() && !cell.alone && cell.runs > 0).then(|| "1".into())),
            |ratio| format!("{ratio:.3}"),
        ),
        of(with_interval.map(|(low, high)| format!("{low:.3}–{high:.3}"))),
        of(beside.and_then(p_of)),
        of(beside.filter(|of| of.found.pairs > 0).map(|of| format!("{:.2}", of.found.a12))),
        sentences::verdict(cell),
    ]
}

/// The corrected p-value; none where nothing was tested, or too little for any result to be one.
pub(super) fn p_of(beside: &Beside) -> Option<String> {
    matches!(beside.verdict, Verdict::Differ | Verdict::NotShown).then(|| p_value(beside.p))
}

/// That runs failed, where any did: `2 of 43 runs failed`.
pub fn failed_title(study: &Study) -> Option<String> {
    let failed = failed_runs(study).count();
    (failed > 0).then(|| sentences::failed_title(failed, study.runs.len()))
}

/// Runs that failed.
pub(super) fn failed_runs(study: &Study) -> impl Iterator<Item = &Run> {
    study.runs.iter().filter(|run| run.outcome != Outcome::Done && run.purpose != Purpose::Idle)
}

/// Runs that failed, so that nobody has to look for them.
fn failures(out: &mut dyn Write, look: Look, study: &Study) -> io::Result<()> {
    let Some(title) = failed_title(study) else { return Ok(()) };
    writeln!(out)?;
    look.line(out, WARNING, &title)?;
    let lines: Vec<String> = failed_runs(study).map(|run| sentences::failed(study, run)).collect();
    look.bullets(out, "·", &lines)
}
