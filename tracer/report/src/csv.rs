//! The rows of a report as CSV: one line a function, call, thread, …, the columns of the JSON with classes and bounds side by side.
//!
//! With `--per-work` what stands beside the unit's rows is last. Leaves out the ledger and everything about the run: those are in the JSON.

use super::counts::CallsMade;
use super::csv_cells::Cells;
use super::fold::{Cost, Spent};
use super::functions::{Function, functions};
use super::per_work::{beside, uj_per_unit};
use super::row::Row;
use super::rows::rows_at;
use super::{By, Kind, Level, run};
use energy_trace_certainty::Uncertainty;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{DomainClass, FrameKind};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use std::io::{self, Write};

/// Writes rows of another kind than functions, below a line of column names; callers are divided by `;`.
///
/// # Errors
/// When the writer refuses.
pub fn write_rows(out: &mut dyn Write, profile: &Profile, by: By, level: Level) -> io::Result<()> {
    let mut writer = Cells::new(out);
    let names = ["name", "kind", "callers", "file", "line", "api"].into_iter().map(str::to_owned);
    writer.line(names.chain(number_columns()).chain(columns_per_unit(profile)))?;
    for row in rows_at(profile, by, level) {
        writer.line(row_fields(profile, &row))?;
    }
    for (name, spent) in beside(profile) {
        writer.line(beside_fields(profile, [name, "", "", "", "", ""], &spent))?;
    }
    writer.flush()
}

fn row_fields(profile: &Profile, row: &Row) -> Vec<String> {
    let text = |text: &str| shown(text).into_owned();
    let site = row.site.as_ref();
    let mut fields = vec![
        text(&row.name),
        row.kind.map_or("", Kind::name).to_owned(),
        text(&row.callers.join(";")),
        site.map_or_else(String::new, |site| text(&site.file)),
        site.map_or_else(String::new, |site| site.line.to_string()),
        site.map_or_else(String::new, |site| text(&site.api)),
    ];
    fields.extend(numbers(&row.spent, row.uncertainty, &row.flags));
    fields.extend(calls(profile, row.calls.as_ref()));
    fields.extend(per_unit(profile, row.phase, &row.spent));
    fields
}

/// Joules of a unit of work, where one was chosen.
fn columns_per_unit(profile: &Profile) -> Vec<String> {
    let names = ["self_uj_per_unit", "total_uj_per_unit"].map(str::to_owned);
    profile.per_work.as_ref().map_or_else(Vec::new, |_| names.into())
}

fn per_unit(profile: &Profile, phase: Option<usize>, spent: &Spent) -> Vec<String> {
    if profile.per_work.is_none() {
        return Vec::new();
    }
    let choice = run::headline(profile);
    let each = |cost: &Cost| uj_per_unit(profile, phase, run::chosen(&cost.energy, choice));
    let cell = |cost| each(cost).map_or_else(String::new, |uj| format!("{uj:.3}"));
    [&spent.own, &spent.total].map(cell).into()
}

/// Writes the functions, those with the most energy of their own first, below a line of column names. Energies are integer
/// microjoules, times nanoseconds; flags are divided by spaces.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut writer = Cells::new(out);
    writer.line(columns().into_iter().chain(columns_per_unit(profile)))?;
    for function in functions(profile) {
        writer.line(fields(profile, &function))?;
    }
    for (name, spent) in beside(profile) {
        writer.line(beside_fields(profile, [name, name, "", "", "0", "special", "false"], &spent))?;
    }
    writer.flush()
}

/// What stands beside the rows of a unit of work, behind these first columns.
fn beside_fields<const N: usize>(profile: &Profile, first: [&str; N], spent: &Spent) -> Vec<String> {
    let numbers = numbers(spent, None, &[]).into_iter().chain(calls(profile, None));
    first.map(str::to_owned).into_iter().chain(numbers).chain(per_unit(profile, None, spent)).collect()
}

fn columns() -> Vec<String> {
    let names = ["name", "symbol", "module", "file", "line", "kind", "api"].into_iter().map(str::to_owned);
    names.chain(number_columns()).collect()
}

/// The columns of what was spent, and how sure that is.
fn number_columns() -> impl Iterator<Item = String> {
    let classes = |prefix: &'static str| {
        DomainClass::ALL.into_iter().map(move |class| format!("{prefix}_{}_uj", class.name()))
    };
    let rest = [
        "self_ns",
        "total_ns",
        "samples",
        "ci95_low_uj",
        "ci95_high_uj",
        "bounds_low_uj",
        "bounds_high_uj",
        "flags",
        "calls",
        "nested_calls",
        "uj_per_call",
        "call_p50_ns",
        "call_p95_ns",
        "call_p99_ns",
        "calls_at_least",
    ]
    .into_iter()
    .map(str::to_owned);
    classes("self").chain(classes("total")).chain(classes("self_time")).chain(rest)
}

fn fields(profile: &Profile, function: &Function) -> Vec<String> {
    let mut fields = vec![
        shown(&function.row.name).into_owned(),
        shown(&function.symbol).into_owned(),
        shown(&function.module).into_owned(),
        shown(&function.file).into_owned(),
        function.line.to_string(),
        kind_word(function.kind).to_owned(),
        function.api.to_string(),
    ];
    let Row { spent, uncertainty, flags, calls: made, .. } = &function.row;
    fields.extend(numbers(spent, *uncertainty, flags));
    fields.extend(calls(profile, made.as_ref()));
    fields.extend(per_unit(profile, None, spent));
    fields
}

fn numbers(spent: &Spent, uncertainty: Option<Uncertainty>, flags: &[&str]) -> Vec<String> {
    let (own, total) = (&spent.own, &spent.total);
    let mut fields = Vec::new();
    fields.extend(
        [own, total].iter().flat_map(|cost| cost.energy.iter().map(|(_, energy)| energy.as_uj().to_string())),
    );
    fields.extend(own.by_time.iter().map(|(_, energy)| energy.as_uj().to_string()));
    fields.extend([own.time_ns, total.time_ns, total.samples].iter().map(u64::to_string));
    let ci95 = uncertainty.map(|known| known.ci95);
    let bounds = uncertainty.and_then(|known| known.bounds);
    let bound = |of: Option<MicroJoules>| of.map_or_else(String::new, |bound| bound.as_uj().to_string());
    fields.extend(
        [ci95, bounds]
            .iter()
            .flat_map(|ends| [bound(ends.map(|ends| ends.0)), bound(ends.map(|ends| ends.1))]),
    );
    fields.push(flags.join(" "));
    fields
}

/// Calls, where they were counted.
fn calls(profile: &Profile, made: Option<&CallsMade>) -> [String; 7] {
    let number = |of: Option<u64>| of.map_or_else(String::new, |number| number.to_string());
    let mean = made.and_then(|made| made.uj_per_call(run::headline(profile)));
    let times = made.and_then(|made| made.times);
    [
        number(made.map(|made| made.calls)),
        number(made.map(|made| made.nested)),
        mean.map_or_else(String::new, |mean| format!("{mean:.3}")),
        number(times.map(|times| times.p50_ns)),
        number(times.map(|times| times.p95_ns)),
        number(times.map(|times| times.p99_ns)),
        made.map_or_else(String::new, |made| made.at_least.to_string()),
    ]
}

/// The word for a kind of frame.
pub const fn kind_word(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Python => "python",
        FrameKind::Native => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Gpu => "gpu",
        FrameKind::Special => "special",
        FrameKind::Inlined => "inlined",
        FrameKind::Range => "range",
    }
}
