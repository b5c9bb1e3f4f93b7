//! Packages whose calls have no names, or no public ones, where that is much of the run.
//!
//! Leaves out the sentence (`sentences`).

use super::table::{CallTable, Kind};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::Diagnostic;
use std::collections::BTreeMap;

/// The least share of the time that is worth a warning: one in so many.
const LEAST: u64 = 33;

/// What the reader should know of calls without names.
pub(crate) fn calls_not_named(profile: &Profile) -> Option<Diagnostic> {
    let mut table = CallTable::new(profile);
    let mut steps = Vec::new();
    let mut times: BTreeMap<(bool, String), u64> = BTreeMap::new();
    let mut of_ns = 0_u64;
    for row in &profile.rows {
        of_ns = of_ns.saturating_add(row.time_ns);
        table.steps(row, &mut steps);
        let label = steps.last().and_then(|step| table.labels().get(step.label));
        let Some(package) = label.and_then(|label| label.without_name.clone()) else { continue };
        let is_call = label.is_some_and(|label| label.kind == Kind::Call);
        let time = times.entry((is_call, package)).or_default();
        *time = time.saturating_add(row.time_ns);
    }
    let much = |time: u64| time > of_ns / LEAST;
    let of = |wanted: bool, keep: &dyn Fn(&str) -> bool| -> Vec<(String, u64)> {
        let found = times
            .iter()
            .filter(|((is_call, package), time)| *is_call == wanted && much(**time) && keep(package));
        found.map(|((_, package), time)| (package.clone(), *time)).collect()
    };
    let not_named = of(false, &|_| true);
    let not_public = of(true, &|package| !profile.public_names.has_package(package));
    let none = not_named.is_empty() && not_public.is_empty();
    (!none).then_some(Diagnostic::CallsNotNamed { not_named, not_public, of_ns })
}
