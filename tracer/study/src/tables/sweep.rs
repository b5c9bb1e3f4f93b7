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

/// Columns of a quantity's name.
const NAME: usize = 26;

/// Writes the sweeps of each family, of calls so many.
pub(super) fn write(out: &mut dyn Write, look: Look, all: &[Sweep], rows: usize) -> io::Result<()> {
    for family in all.chunk_by(|one, other| one.name == other.name) {
        writeln!(out)?;
        let sizes = family.first().map(|sweep| (sweep.points.len(), sweep.found.rounds));
        let name = family.first().map_or("", |sweep| &sweep.name);
        let (sizes, rounds) = sizes.unwrap_or_default();
        look.line(out, TITLE, &shown(&format!("{name}  {sizes} sizes, {rounds} rounds")))?;
        let of = |kind| family.iter().filter(move |sweep| sweep.kind == kind);
        let chosen = of(Kind::Run).chain(of(Kind::Counted).take(rows)).chain(of(Kind::Call).take(rows));
        let row = |sweep: &Sweep| {
            let [fixed, each] = [&sweep.found.fixed, &sweep.found.each].map(with_interval);
            let name = shorten(&shown(&of_sweep(sweep)), NAME);
            GridRow { cells: vec![name, fixed, each, r2(sweep)], style: Style::new() }
        };
        let heads = ["", "fixed (95 %)", "each (95 %)", "R²"].map(str::to_owned).into();
        let rows = chosen.map(row).collect();
        Grid { heads, words: 1, name_last: true, no_rule: true, rows }.write(out, look)?;
    }
    Ok(())
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
