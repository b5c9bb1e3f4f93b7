//! The cells of a table: numbers in one unit a column, and a grid that fits a width.
//!
//! Leaves out what the columns are (`table.rs`).

use anstyle::{AnsiColor, Style};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent, Width, presets,
};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use energy_trace_names::{shorten, shorten_all, shorten_end};
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Shows energies of one table in one unit and with one number of decimals, so that they can be compared by eye.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EnergyScale {
    /// The unit's symbol.
    pub(crate) unit: &'static str,
    joules: f64,
    decimals: usize,
}

impl EnergyScale {
    /// The scale in which the largest energy is readable.
    pub(crate) fn for_largest(energies: impl Iterator<Item = MicroJoules>) -> Self {
        let largest = energies.map(|energy| energy.as_uj().unsigned_abs()).max().unwrap_or(0);
        let (unit, joules, decimals) = match largest {
            100_000_000_000.. => ("kJ", 1e3, 1),
            1_000_000_000.. => ("J", 1.0, 1),
            1_000_000.. => ("J", 1.0, 2),
            100.. => ("mJ", 1e-3, 2),
            1.. => ("µJ", 1e-6, 0),
            0 => ("J", 1.0, 0),
        };
        Self { unit, joules, decimals }
    }

    /// The number, without its unit.
    pub(crate) fn show(self, energy: MicroJoules) -> String {
        with_decimals(energy.as_joules() / self.joules, self.decimals)
    }
}

/// A number with so many decimals; a small negative one does not look like a signed nothing.
pub(crate) fn with_decimals(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// Average power in watts with one decimal; a dash where there is no time to divide by.
#[expect(clippy::cast_precision_loss, reason = "for showing")]
pub(crate) fn watts(energy: MicroJoules, ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { format!("{:.1}", energy.as_joules() / (ns as f64 / 1e9)) }
}

/// A number with three digits and the prefix that it needs: `22.3 J`, `6.20 mWh`.
pub(crate) fn in_unit(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value.abs() {
        0.0 => (0.0, ""),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        size if size >= 1.0 => (value, ""),
        size if size >= 1e-3 => (value * 1e3, "m"),
        _ => (value * 1e6, "µ"),
    };
    let decimals = match scaled.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {prefix}{unit}")
}

/// Energy of one call on average, in a unit of its own: calls differ by more than a column can show in one.
pub(crate) fn call_energy(uj: f64) -> String {
    match uj.abs() {
        much if much >= 1e6 => format!("{:.2} J", uj / 1e6),
        some if some >= 1e3 => format!("{:.2} mJ", uj / 1e3),
        _ => format!("{uj:.2} µJ"),
    }
}

/// Seconds with two decimals.
#[expect(clippy::cast_precision_loss, reason = "for showing")]
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}

/// A share in percent with one decimal; a dash where there is no whole.
#[expect(clippy::cast_precision_loss, reason = "for showing")]
pub(crate) fn percent(part: i64, whole: i64) -> String {
    let tenths = (1_000.0 * part as f64 / whole as f64).round();
    // Rounding makes no negative zero.
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", tenths / 10.0 + 0.0) }
}

/// How tables are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether there are colours.
    pub color: bool,
    /// Columns of the terminal; `None` leaves every name whole.
    pub width: Option<usize>,
}

/// Columns of what is written to a file.
pub const FILE_WIDTH: usize = 160;

/// Title of a section.
pub const TITLE: Style = Style::new().bold();
/// Head of a table, and rows that stand for no code.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Title of what is in doubt.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

impl Look {
    /// Writes one line, in a style where colour is wanted.
    pub fn line(self, out: &mut dyn Write, style: Style, text: &str) -> io::Result<()> {
        // Names were written out where lines are made of them; this is for what was not thought of.
        let text = shown(text);
        if self.color && style != Style::new() {
            writeln!(out, "{style}{text}{style:#}")
        } else {
            writeln!(out, "{text}")
        }
    }

    /// Writes sentences, each behind a mark, wrapped to the width.
    pub fn bullets(self, out: &mut dyn Write, mark: &str, sentences: &[String]) -> io::Result<()> {
        let mut table = bare_table();
        for sentence in sentences {
            table.add_row([mark, &shown(sentence)]);
        }
        if let Some(width) = self.width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        if let Some(first) = table.column_mut(0) {
            let width = u16::try_from(mark.width() + 2).unwrap_or(u16::MAX);
            first.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
    }
}

fn bare_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// A table: words, numbers, and perhaps a name at the end.
#[derive(Debug, Default)]
pub struct Grid {
    /// Heads of the columns; a line break begins a second line.
    pub heads: Vec<String>,
    /// How many columns from the left are words, not numbers.
    pub words: usize,
    /// Whether the last column is a name, which gives way when the width is short.
    pub name_last: bool,
    /// Whether there is no rule below the heads.
    pub no_rule: bool,
    /// Rows; the last cell may have more than one line.
    pub rows: Vec<GridRow>,
}

/// One row of a grid.
#[derive(Debug, Default)]
pub struct GridRow {
    /// Its cells.
    pub cells: Vec<String>,
    /// How it is drawn.
    pub style: Style,
}

/// Stands before the function that a phase is told by.
pub(crate) const ELSEWHERE: &str = " elsewhere: ";
/// A name needs at least this many columns, whatever the width.
const NARROWEST_NAME: usize = 16;

impl Grid {
    /// Writes the grid: heads, a rule, rows.
    pub fn write(mut self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        self.fit(look.width);
        let mut table = bare_table();
        if !self.no_rule {
            table.set_style(TableComponent::HeaderLines, '─');
        }
        table.set_header(&self.heads);
        let last = self.heads.len().saturating_sub(1);
        for (number, column) in table.column_iter_mut().enumerate() {
            let right = number >= self.words && !(self.name_last && number == last);
            column.set_cell_alignment(if right { CellAlignment::Right } else { CellAlignment::Left });
            if number == last {
                column.set_padding((1, 0));
            }
        }
        let of_heads = self.heads.iter().map(|head| lines_in(head)).max().unwrap_or(1);
        let mut styles = vec![DIM; of_heads + usize::from(!self.no_rule)];
        for row in &self.rows {
            styles.extend(vec![row.style; row.cells.iter().map(|cell| lines_in(cell)).max().unwrap_or(1)]);
            table.add_row(&row.cells);
        }
        let styles = styles.into_iter().chain(std::iter::repeat(Style::new()));
        table.lines().zip(styles).try_for_each(|(line, style)| look.line(out, style, line.trim_end()))
    }

    /// Whether it needs more than the width, however short names are made.
    pub(crate) fn is_too_wide(&self, width: Option<usize>) -> bool {
        width.is_some_and(|width| self.taken() + 1 + NARROWEST_NAME > width)
    }

    /// Columns of text that all but the last take.
    fn taken(&self) -> usize {
        let last = self.heads.len().saturating_sub(1);
        let widest = |column: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.cells.get(column)).chain(self.heads.get(column));
            cells.flat_map(|cell| cell.lines()).map(UnicodeWidthStr::width).max().unwrap_or(0).max(1)
        };
        (0..last).map(|column| widest(column) + 2).sum()
    }

    /// Shortens the name to what the others leave of the width.
    fn fit(&mut self, width: Option<usize>) {
        let (Some(width), true) = (width, self.name_last) else { return };
        let last = self.heads.len().saturating_sub(1);
        let room = width.saturating_sub(self.taken() + 1).max(NARROWEST_NAME);
        if let Some(head) = self.heads.get_mut(last) {
            let lines: Vec<String> = head.lines().map(|line| shorten_end(line, room)).collect();
            *head = lines.join("\n");
        }
        let cells: Vec<&mut String> =
            self.rows.iter_mut().filter_map(|row| row.cells.get_mut(last)).collect();
        let firsts: Vec<&str> = cells.iter().map(|cell| cell.lines().next().unwrap_or_default()).collect();
        let firsts = shorten_all(&firsts, room);
        for (cell, first) in cells.into_iter().zip(firsts) {
            let others = cell.lines().skip(1).map(|line| shorten_below(line, room));
            *cell = std::iter::once(first).chain(others).collect::<Vec<_>>().join("\n");
        }
    }
}

/// A line below a name. Of one that tells a phase the function alone gives way.
fn shorten_below(line: &str, room: usize) -> String {
    let Some((parts, function)) = line.split_once(ELSEWHERE) else { return shorten(line, room) };
    let left = room.saturating_sub(parts.width() + ELSEWHERE.width());
    format!("{parts}{ELSEWHERE}{}", shorten(function, left))
}

fn lines_in(text: &str) -> usize {
    text.lines().count().max(1)
}

#[cfg(test)]
mod tests {
    use super::{EnergyScale, Grid, GridRow, Look, MicroJoules, Style, in_unit, percent, shorten_below};

    fn show(largest: i64, uj: i64) -> String {
        let scale = EnergyScale::for_largest([MicroJoules::from_uj(largest)].into_iter());
        format!("{} {}", scale.show(MicroJoules::from_uj(uj)), scale.unit)
    }

    /// The largest number of a column sets its unit, and rounding makes no negative zero.
    #[test]
    fn one_unit_a_column() {
        assert_eq!(show(412_300_000, 412_300_000), "412.30 J");
        assert_eq!(show(412_300_000, -1_000), "0.00 J");
        assert_eq!(show(5_000_000_000, 1_500_000), "1.5 J");
        assert_eq!(show(250_000_000_000, 250_000_000_000), "250.0 kJ");
        assert_eq!(show(236_000, -1_500), "-1.50 mJ");
        assert_eq!(show(7, 7), "7 µJ");
        assert_eq!([-4, -6].map(|part| percent(part, 10_000)), ["0.0%", "-0.1%"]);
    }

    /// No line of a grid is wider than the width, however long the name.
    #[test]
    fn grid_keeps_the_width() {
        let row = GridRow { cells: vec!["1.00".to_owned(), "name::".repeat(40)], style: Style::new() };
        let grid = Grid {
            heads: vec!["self J".to_owned(), "function".to_owned()],
            words: 0,
            name_last: true,
            no_rule: false,
            rows: vec![row],
        };
        let mut out = Vec::new();
        grid.write(&mut out, Look { color: false, width: Some(40) }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("…"), "{text}");
    }

    /// A line that tells a phase keeps its numbers and words; its function gives way.
    #[test]
    fn what_tells_a_phase() {
        let line = format!("  62% here, 3% elsewhere: {} a.py:7", "name".repeat(30));
        let short = shorten_below(&line, 50);
        assert!(short.starts_with("  62% here, 3% elsewhere: ") && short.ends_with(" a.py:7"), "{short}");
        assert!(short.contains('…') && short.chars().count() <= 50, "{short}");
    }

    /// Three digits tell what a summary has to, in the unit that people say.
    #[test]
    fn units() {
        assert_eq!(in_unit(22.3456, "J"), "22.3 J");
        assert_eq!(in_unit(0.0062, "Wh"), "6.20 mWh");
        assert_eq!(in_unit(1234.5, "J"), "1234 J");
        assert_eq!(in_unit(0.0, "J"), "0 J");
        assert_eq!(in_unit(123_456.0, "J"), "123 kJ");
        assert_eq!(in_unit(-0.5, "J"), "-500 mJ");
    }
}
