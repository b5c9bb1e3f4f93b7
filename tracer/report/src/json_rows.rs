//! The rows of a report for programs: what each stands for and what it spent, in the JSON and as CSV.
//!
//! Leaves out functions, which have more to say (`json.rs`, `csv.rs`).

use super::json::{SpentLine, bounds_uj, ci95_uj};
use super::json_calls::CallsLine;
use super::row::Row;
use super::rows::rows_at;
use super::{By, Level};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::phases::ToldBy;
use energy_trace_model::recording::record::WorkUnits;
use serde::Serialize;

/// Rows of one kind.
#[derive(Serialize)]
pub(super) struct RowsLine {
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    rows: Vec<RowLine>,
}

#[derive(Serialize)]
struct RowLine {
    name: String,
    /// What it is where rows are calls.
    kind: Option<&'static str>,
    /// The nearest caller first: of a stack's innermost frame, of a call in the tree.
    callers: Vec<String>,
    /// Where the program made the call.
    call_site: Option<SiteLine>,
    #[serde(flatten)]
    spent: SpentLine,
    #[serde(flatten)]
    calls: CallsLine,
    ci95_uj: Option<[i64; 2]>,
    bounds_uj: Option<[i64; 2]>,
    flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<PhaseLine>,
}

/// When a phase was, since the start of the run, and what tells it from the others.
#[derive(Serialize)]
struct PhaseLine {
    step_ns: u64,
    stretches_ns: Vec<[u64; 2]>,
    told_by: Vec<ToldByLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<f64>,
}

#[derive(Serialize)]
struct ToldByLine {
    function: String,
    part: f64,
    elsewhere: f64,
}

#[derive(Serialize)]
struct SiteLine {
    file: String,
    line: u32,
    api: String,
}

impl RowsLine {
    pub(super) fn of(profile: &Profile, by: By, level: Level) -> Self {
        let rows = rows_at(profile, by, level).into_iter().map(|row| RowLine::of(profile, row)).collect();
        Self { by: by.name(), level: (by == By::Api).then(|| level.name()), rows }
    }
}

impl RowLine {
    fn of(profile: &Profile, row: Row) -> Self {
        Self {
            kind: row.kind.map(super::Kind::name),
            call_site: row.site.map(|site| SiteLine { file: site.file, line: site.line, api: site.api }),
            spent: SpentLine::of(profile, row.phase, &row.spent),
            calls: CallsLine::of(profile, row.calls.as_ref()),
            ci95_uj: ci95_uj(row.uncertainty.as_ref()),
            bounds_uj: bounds_uj(row.uncertainty.as_ref()),
            phase: row.phase.and_then(|number| PhaseLine::of(profile, number)),
            name: row.name,
            callers: row.callers,
            flags: row.flags,
        }
    }
}

impl PhaseLine {
    fn of(profile: &Profile, number: usize) -> Option<Self> {
        let phases = profile.phases.as_ref()?;
        let phase = phases.found.get(number)?;
        let since = |at: KtimeNs| at.ns_since(profile.run.start);
        let told_by = |by: &ToldBy| ToldByLine {
            function: by.function.clone(),
            part: by.here,
            elsewhere: by.elsewhere,
        };
        Some(Self {
            step_ns: phases.step_ns,
            stretches_ns: phase.stretches.iter().map(|(from, to)| [since(*from), since(*to)]).collect(),
            told_by: phase.told_by.iter().map(told_by).collect(),
            units: phase.units.map(WorkUnits::as_number),
        })
    }
}
