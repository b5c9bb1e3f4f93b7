//! How quantities grow with a size, on a terminal and as a sheet. Leaves out the lines (`study/sweeps.rs`).

use super::numbers::digits;
use super::sheet::{Field, Sheet};
use crate::data::{Kind, Study, Sweep, sweeps};
use crate::sentences;
use anstyle::Style;
use energy_trace_names::shorten;
use energy_trace_names::shown::shown;
use energy_trace_report::table_cells::{Grid, GridRow, Look, TITLE};
use energy_trace_statistics::regression::Estimate;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr as _;

/// Columns of a quantity's name, and the fewest where numbers leave no room for so many.
const NAME: usize = 26;
const SHORT_NAME: usize = 10;

/// Writes the sweeps of each family, of calls so many.
pub(super) fn write(out: &mut dyn Write, look: Look, all: &[Sweep], rows: usize) -> io::Result<()> {
    for family in all.chunk_by(|one, other| one.name == other.name) {
        writeln!(out)?;
        let sizes = family.first().map(|sweep| (sweep.points.len(), sweep.found.rounds));
        let name = family.first().map_or("", |sweep| &sweep.name);
        let (sizes, rounds) = sizes.unwrap_or_default();
        let title = shown(&format!("{name}  {sizes} sizes, {rounds} rounds")).into_owned();
        look.line(out, TITLE, &look.width.map_or_else(|| title.clone(), |width| shorten(&title, width)))?;
        let of = |kind| family.iter().filter(move |sweep| sweep.kind == kind);
        let chosen = of(Kind::Run).chain(of(Kind::Counted).take(rows)).chain(of(Kind::Call).take(rows));
        let chosen: Vec<&Sweep> = chosen.collect();
        let whole = Numbers::of(&chosen, ["fixed (95 %)", "each (95 %)", "R²"], with_interval);
        let numbers = match look.width {
            Some(width) if whole.room(width) < NAME => {
                Numbers::of(&chosen, ["fixed ±95 %", "each ±95 %", "R²"], with_margin)
            }
            _ => whole,
        };
        let room = look.width.map_or(NAME, |width| numbers.room(width).clamp(SHORT_NAME, NAME));
        let row = |(sweep, cells): (&&Sweep, [String; 3])| {
            let name = shorten(&shown(&of_sweep(sweep)), room);
            GridRow { cells: [name].into_iter().chain(cells).collect(), style: Style::new() }
        };
        let rows = chosen.iter().zip(numbers.cells).map(row).collect();
        let heads = ["", numbers.heads[0], numbers.heads[1], numbers.heads[2]].map(str::to_owned).into();
        Grid { heads, words: 1, name_last: true, no_rule: true, rows }.write(out, look)?;
    }
    Ok(())
}

/// The columns behind the name.
struct Numbers {
    heads: [&'static str; 3],
    cells: Vec<[String; 3]>,
}

impl Numbers {
    fn of(sweeps: &[&Sweep], heads: [&'static str; 3], show: fn(&Estimate) -> String) -> Self {
        let row = |sweep: &&Sweep| [show(&sweep.found.fixed), show(&sweep.found.each), r2(sweep)];
        Self { heads, cells: sweeps.iter().map(row).collect() }
    }

    /// Columns that they leave for the name.
    fn room(&self, width: usize) -> usize {
        let widest = |at: usize| {
            let cells = self.cells.iter().map(|cells| cells[at].width()).chain([self.heads[at].width()]);
            cells.max().unwrap_or(0) + 2
        };
        width.saturating_sub((0..3).map(widest).sum::<usize>() + 1)
    }
}

fn of_sweep(sweep: &Sweep) -> String {
    sentences::quantity_of(sweep.kind, &sweep.quantity, &sweep.unit)
}

/// R², and a mark where the points are no line.
fn r2(sweep: &Sweep) -> String {
    format!("{:.3}{}", sweep.found.r2, if sentences::is_bent(sweep) { " ∿" } else { "" })
}

/// `1.20 (1.10 to 1.30)`.
pub(super) fn with_interval(of: &Estimate) -> String {
    let interval = of.interval.map(|(low, high)| format!(" ({} to {})", digits(low), digits(high)));
    format!("{}{}", digits(of.value), interval.unwrap_or_default())
}

/// `1.20 ±0.10`.
fn with_margin(of: &Estimate) -> String {
    let margin = of.interval.map(|(low, high)| format!(" ±{}", digits((high - low) / 2.0)));
    format!("{}{}", digits(of.value), margin.unwrap_or_default())
}

/// All sweeps as one table.
pub(super) fn sheet(study: &Study) -> Sheet {
    let all = sweeps(study);
    let row = |sweep: &Sweep| {
        let [fixed, each] = [&sweep.found.fixed, &sweep.found.each].map(with_interval);
        let bend = sweep.found.bend.map_or_else(String::new, |(depth, _)| format!("{:.1}", 100.0 * depth));
        let cells =
            [sweep.name.clone(), of_sweep(sweep), fixed, each, format!("{:.3}", sweep.found.r2), bend];
        cells.map(Field::from).into()
    };
    let mut notes = sentences::sweep_notes(study, &all);
    if study.against.is_none() {
        notes.push("no variable of this study is a size: name one by `against` in the suite".to_owned());
    }
    Sheet {
        heads: ["program", "quantity", "fixed", "each", "R²", "bend, %"].map(str::to_owned).into(),
        words: 2,
        rows: all.iter().map(row).collect(),
        notes,
        ..Sheet::default()
    }
}
