//! The results of a study as Markdown, LaTeX and CSV, a row for each program and quantity. Leaves out the terminal (`table`).

use super::escaped::{in_latex, in_markdown};
use super::numbers::Scale;
use super::table::{cells_of, scale, shown_blocks};
use crate::data::{Block, Cell, Group, Study, results};
use crate::sentences;
use energy_trace_names as names;
use energy_trace_names::shown::shown;
use energy_trace_report::csv_cells::Cells;
use std::io::{self, Write};

const HEADS: [&str; 10] =
    ["program", "n", "median", "spread", "ratio", "95 % interval", "p (Holm)", "Â12", "verdict", "effect"];

/// Letters of a name above its rows that are no wider than the table; CSV has it whole.
const LATEX_NAME: usize = 68;

/// Writes Markdown: a table for each quantity.
///
/// # Errors
/// When the writer refuses.
pub fn markdown(out: &mut dyn Write, study: &Study, rows: usize) -> io::Result<()> {
    let groups = results(study);
    let grade = groups.iter().filter_map(|group| group.grade).max();
    writeln!(out, "# {}", sentences::title(study, grade))?;
    for group in &groups {
        if !group.name.is_empty() {
            writeln!(out, "\n## {}", in_markdown(&group.name))?;
        }
        for block in shown_blocks(group, rows) {
            let scale = scale(block);
            let title = sentences::title_of(study, block, &block.quantity, &scale.unit);
            writeln!(out, "\n**{}**\n", in_markdown(&title))?;
            writeln!(out, "| {} |\n|{}", HEADS.join(" | "), "---|".repeat(HEADS.len()))?;
            for cell in &block.cells {
                let cells = row(study, cell, &scale);
                let cells: Vec<String> = cells.iter().map(|text| in_markdown(text)).collect();
                writeln!(out, "| {} |", cells.join(" | "))?;
            }
        }
    }
    writeln!(out)?;
    all_notes(study, &groups).iter().try_for_each(|note| writeln!(out, "- {}", in_markdown(note)))?;
    writeln!(out, "\n## Methods\n\n{}", in_markdown(&sentences::methods(study)))
}

/// What a reader needs to know, and where the machine's load changed power.
fn all_notes(study: &Study, groups: &[Group]) -> Vec<String> {
    let mut notes = sentences::notes(study, groups);
    notes.extend(sentences::load(study));
    notes
}

/// Writes LaTeX: one `tabular` a group, for booktabs, and the methods as a paragraph.
///
/// # Errors
/// When the writer refuses.
pub fn latex(out: &mut dyn Write, study: &Study, rows: usize) -> io::Result<()> {
    let groups = results(study);
    let grade = groups.iter().filter_map(|group| group.grade).max();
    writeln!(out, "% {}; needs \\usepackage{{booktabs}}", shown(&sentences::title(study, grade)))?;
    for group in &groups {
        writeln!(out, "\\begin{{tabular}}{{l{}}}\n\\toprule", "r".repeat(HEADS.len() - 1))?;
        let heads: Vec<String> = HEADS.iter().map(|head| in_latex(head)).collect();
        writeln!(out, "{} \\\\", heads.join(" & "))?;
        for block in shown_blocks(group, rows) {
            let scale = scale(block);
            let name = names::shorten(&block.quantity, LATEX_NAME);
            let title = sentences::title_of(study, block, &name, &scale.unit);
            let title = in_latex(&(title + sentences::quality_of(group, block)));
            writeln!(out, "\\midrule\n\\multicolumn{{{}}}{{l}}{{\\emph{{{title}}}}} \\\\", HEADS.len())?;
            for cell in &block.cells {
                let cells: Vec<String> = row(study, cell, &scale).iter().map(|text| in_latex(text)).collect();
                writeln!(out, "{} \\\\", cells.join(" & "))?;
            }
        }
        writeln!(out, "\\bottomrule\n\\end{{tabular}}\n")?;
    }
    all_notes(study, &groups).iter().try_for_each(|note| writeln!(out, "% {}", shown(note)))?;
    writeln!(out, "\\paragraph{{Methods.}} {}", in_latex(&sentences::methods(study)))
}

/// Writes CSV: all quantities, numbers whole.
///
/// # Errors
/// When the writer refuses.
pub fn csv(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let mut writer = Cells::new(out);
    writer.line([
        "group",
        "kind",
        "quantity",
        "unit",
        "program",
        "n",
        "failed",
        "median",
        "q1",
        "q3",
        "ratio",
        "ratio_low",
        "ratio_high",
        "p",
        "p_holm",
        "tests",
        "a12",
        "effect",
        "shift",
        "detectable",
        "verdict",
        "energy",
    ])?;
    for group in results(study) {
        let grade = sentences::grade_word(group.grade);
        for block in &group.blocks {
            for cell in &block.cells {
                let mut record = vec![group.name.clone()];
                record.extend(csv_row(study, block, cell));
                record.push(grade.to_owned());
                writer.line(record.iter().map(|text| shown(text).into_owned()))?;
            }
        }
    }
    writer.flush()
}

fn csv_row(study: &Study, block: &Block, cell: &Cell) -> Vec<String> {
    let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    let beside = cell.beside_least.as_ref();
    let of = |value: Option<f64>| value.map(number).unwrap_or_default();
    let interval = beside.and_then(|of| of.found.interval);
    vec![
        sentences::kind_word(block.kind).to_owned(),
        block.quantity.clone(),
        block.unit.clone(),
        label(study, cell),
        cell.runs.to_string(),
        cell.failed.to_string(),
        number(cell.median),
        number(cell.quartiles.0),
        number(cell.quartiles.1),
        of(beside.and_then(|of| of.found.ratio)),
        of(interval.map(|of| of.0)),
        of(interval.map(|of| of.1)),
        of(beside.map(|of| of.found.p())),
        of(beside.map(|of| of.p)),
        block.tests.to_string(),
        of(beside.map(|of| of.found.a12)),
        sentences::magnitude(cell).to_owned(),
        of(beside.map(|of| of.found.shift)),
        of(beside.and_then(|of| of.found.detectable)),
        sentences::verdict(cell),
    ]
}

fn row(study: &Study, cell: &Cell, scale: &Scale) -> Vec<String> {
    let mut cells = vec![label(study, cell)];
    cells.extend(cells_of(cell, scale));
    cells.push(sentences::magnitude(cell).to_owned());
    cells
}

fn label(study: &Study, cell: &Cell) -> String {
    study.programs.get(cell.program).map_or_else(String::new, |program| program.label.clone())
}
