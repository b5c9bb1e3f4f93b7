//! The functions of a report as CSV: one line a function, the columns of the JSON with classes and bounds side by side.
//!
//! Leaves out the ledger and everything about the run: those are in the JSON.

use super::functions::{Function, functions};
use super::shown::shown;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::certainty::Uncertainty;
use energy_trace_model::recording::record::{DomainClass, FrameKind};
use energy_trace_model::units::MicroJoules;
use std::io::{self, Write};

/// Writes the functions, those with the most energy of their own first, below a line of column names. Energies are integer
/// microjoules, times nanoseconds; flags are divided by spaces.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns())?;
    for function in functions(profile) {
        writer.write_record(fields(&function))?;
    }
    writer.flush()
}

fn columns() -> Vec<String> {
    let classes = |prefix: &'static str| {
        DomainClass::ALL.into_iter().map(move |class| format!("{prefix}_{}_uj", class.name()))
    };
    let names = ["name", "symbol", "module", "file", "line", "kind"].into_iter().map(str::to_owned);
    let rest = [
        "self_ns",
        "total_ns",
        "samples",
        "ci95_low_uj",
        "ci95_high_uj",
        "bounds_low_uj",
        "bounds_high_uj",
        "flags",
    ]
    .into_iter()
    .map(str::to_owned);
    names.chain(classes("self")).chain(classes("total")).chain(classes("self_time")).chain(rest).collect()
}

fn fields(function: &Function) -> Vec<String> {
    let (own, total) = (&function.spent.own, &function.spent.total);
    let mut fields = vec![
        shown(&function.name).into_owned(),
        shown(&function.symbol).into_owned(),
        shown(&function.module).into_owned(),
        shown(&function.file).into_owned(),
        function.line.to_string(),
        kind_word(function.kind).to_owned(),
    ];
    fields.extend(
        [own, total].iter().flat_map(|cost| cost.energy.iter().map(|(_, energy)| energy.as_uj().to_string())),
    );
    fields.extend(own.by_time.iter().map(|(_, energy)| energy.as_uj().to_string()));
    fields.extend([own.time_ns, total.time_ns, total.samples].iter().map(u64::to_string));
    let Uncertainty { ci95, bounds } = function.uncertainty;
    fields.extend([ci95.0, ci95.1].iter().map(|bound| bound.as_uj().to_string()));
    let bound = |of: Option<MicroJoules>| of.map_or_else(String::new, |bound| bound.as_uj().to_string());
    fields.extend([bound(bounds.map(|bounds| bounds.0)), bound(bounds.map(|bounds| bounds.1))]);
    fields.push(function.flags.join(" "));
    fields
}

const fn kind_word(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Python => "python",
        FrameKind::Native => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Gpu => "gpu",
        FrameKind::Special => "special",
        FrameKind::Inlined => "inlined",
    }
}
