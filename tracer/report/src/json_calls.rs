//! Calls that were counted, in the JSON.
//!
//! Leaves out what they are calls of, but for the list of all counted functions.

use super::counts::{CallsMade, CountedFunction, counted};
use super::json::{ByClass, by_class};
use super::run;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::CallTimes;
use energy_trace_names::frame_name;
use serde::Serialize;

/// Calls of a function or row; all `null` where they were not counted.
#[derive(Serialize)]
pub(super) struct CallsLine {
    calls: Option<u64>,
    nested_calls: Option<u64>,
    calls_at_least: Option<bool>,
    uj_per_call: Option<f64>,
    call_ns: Option<TimesLine>,
}

#[derive(Serialize)]
struct TimesLine {
    p50: u64,
    p95: u64,
    p99: u64,
}

/// A function that was counted, whether a sample shows it or not.
#[derive(Serialize)]
pub(super) struct CountedLine {
    symbol: String,
    module: String,
    api: Option<String>,
    total_uj: ByClass,
    #[serde(flatten)]
    calls: CallsLine,
}

impl CallsLine {
    pub(super) fn of(profile: &Profile, made: Option<&CallsMade>) -> Self {
        Self {
            calls: made.map(|made| made.calls),
            nested_calls: made.map(|made| made.nested),
            calls_at_least: made.map(|made| made.at_least),
            uj_per_call: made.and_then(|made| made.uj_per_call(run::headline(profile))),
            call_ns: made.and_then(|made| made.times).map(TimesLine::from),
        }
    }
}

impl From<CallTimes> for TimesLine {
    fn from(CallTimes { p50_ns, p95_ns, p99_ns }: CallTimes) -> Self {
        Self { p50: p50_ns, p95: p95_ns, p99: p99_ns }
    }
}

/// All functions that were counted; `None` where nothing was.
pub(super) fn counted_lines(profile: &Profile) -> Option<Vec<CountedLine>> {
    let line = |CountedFunction { frame, api, made }: CountedFunction| {
        let frame = profile.frames.get(frame.index())?;
        Some(CountedLine {
            symbol: frame_name(frame),
            module: frame.module.clone(),
            api,
            total_uj: by_class(&made.cost.energy),
            calls: CallsLine::of(profile, Some(&made)),
        })
    };
    (!profile.calls.is_empty()).then(|| counted(profile).into_iter().filter_map(line).collect())
}
