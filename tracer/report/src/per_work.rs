//! Joules per unit of work by function, call or line: what a token, a request or a step is made of.
//!
//! ```text
//! 0.31 J ±3% per token: 1,234 counted in 12.30 s of the run's 15.00 s
//!
//!   self   J per token   with callees  function
//!  41.0%       0.127 J        0.127 J  attention
//! ```
//!
//! The profile is that of the stretches of this work alone (`OverTime::within_stretches`), so that the column of `self` sums to the first
//! line. Leaves out how sure a row is: of a part of a run nobody knows it.

use super::rows::rows_at;
use super::run;
use super::table::TableOptions;
use super::table_cells::{DIM, FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING, in_unit, percent};
use super::work::{sentence, work_named};
use super::{By, Level, diagnostics};
use anstyle::Style;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_sentences as sentences;
use std::io::{self, Write};

/// Microjoules of a unit, where a profile is shown by one.
pub(crate) fn uj_per_unit(profile: &Profile, energy: MicroJoules) -> Option<f64> {
    profile.per_work.as_ref()?.units.uj_each(energy)
}

/// Writes the table. Of a profile that is not shown by a unit of work nothing is written.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &TableOptions) -> io::Result<()> {
    let profile = &*short_names::chosen(profile, options.short_names);
    let look = Look { color: options.color, width: Some(options.width.map_or(FILE_WIDTH, usize::from)) };
    let Some(done) = profile.per_work.as_ref().and_then(|per| work_named(profile, &per.name)) else {
        return Ok(());
    };
    look.line(out, TITLE, &run::what_was_recorded(profile))?;
    look.line(out, TITLE, &sentence(profile, &done).unwrap_or_default())?;
    by_domain(out, profile, look)?;
    writeln!(out)?;
    grid(profile, options, done.name()).write(out, look)?;
    let found = diagnostics::diagnostics(profile);
    let changing = found.iter().filter(|found| diagnostics::changes_numbers(found, profile));
    let warnings: Vec<String> = changing.map(sentences::diagnostic).collect();
    if warnings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    look.line(out, WARNING, "Warnings")?;
    look.bullets(out, "!", &warnings)
}

/// `  CPU 0.25 J, DRAM 0.06 J`, where there are several.
fn by_domain(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    let of = |class: DomainClass| profile.rows.iter().map(|row| row.energy[class]).sum::<MicroJoules>();
    let part = |class: DomainClass| {
        let each = uj_per_unit(profile, of(class)).filter(|each| *each != 0.0)?;
        Some(format!("{} {}", class.name(), in_unit(each / 1e6, "J")))
    };
    let parts: Vec<String> = DomainClass::ALL.into_iter().filter_map(part).collect();
    if parts.len() < 2 { Ok(()) } else { look.line(out, Style::new(), &format!("  {}", parts.join(", "))) }
}

fn grid(profile: &Profile, options: &TableOptions, unit: &str) -> Grid {
    let table = UnitTable::of(profile, (options.by, options.level), options.native_frames, unit);
    let rows = table.rows.into_iter().take(options.rows).map(|UnitRow { cells, name, special }| GridRow {
        cells: cells.into_iter().chain([name]).collect(),
        style: if special { DIM } else { Style::new() },
    });
    Grid { heads: table.heads.into(), words: 0, name_last: true, no_rule: true, rows: rows.collect() }
}

/// What a unit is made of.
pub(crate) struct UnitTable {
    /// What stands above the numbers and the name.
    pub(crate) heads: [String; 4],
    /// The rows with the most energy of their own first.
    pub(crate) rows: Vec<UnitRow>,
}

/// A row: its part of the energy, and joules of a unit without and with what it calls.
pub(crate) struct UnitRow {
    pub(crate) cells: [String; 3],
    pub(crate) name: String,
    /// Whether it is no code.
    special: bool,
}

impl UnitTable {
    /// Of a profile that is shown by a unit of this name.
    pub(crate) fn of(
        profile: &Profile,
        (by, level): (By, Level),
        native_frames: Option<NativeFrames>,
        unit: &str,
    ) -> Self {
        let native_frames = native_frames.or(Some(NativeFrames::Libraries));
        let profile = &*super::own_rows::with_frames(profile, by, native_frames);
        let choice = run::headline(profile);
        let whole = run::target(profile, choice).as_uj();
        let at_most = profile.per_work.as_ref().is_some_and(|per| per.at_least);
        let each = |energy| match uj_per_unit(profile, energy) {
            Some(uj) => format!("{}{}", if at_most { "≤" } else { "" }, in_unit(uj / 1e6, "J")),
            None => "-".to_owned(),
        };
        let rows = rows_at(profile, by, level).into_iter().map(|row| {
            let [own, total] =
                [&row.spent.own, &row.spent.total].map(|cost| run::chosen(&cost.energy, choice));
            let cells = [percent(own.as_uj(), whole), each(own), each(total)];
            UnitRow { cells, special: row.special, name: shown(&(row.name + &row.inside)).into_owned() }
        });
        let by = if by == By::Function { "function" } else { by.name() };
        let heads =
            ["self".to_owned(), format!("J per {}", shown(unit)), "with callees".to_owned(), by.to_owned()];
        Self { heads, rows: rows.collect() }
    }
}
