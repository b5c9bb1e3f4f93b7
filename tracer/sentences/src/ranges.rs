//! Sentences for what was found about ranges that programs mark.

use super::{counted, percent_of};
use energy_trace_model::recording::ranges::{MORE_RANGES, RangeDiagnostic, RangesNotRecorded, UNKNOWN_RANGE};

/// What was found, what it changes, and what to do about it.
pub(super) fn range_fact(found: &RangeDiagnostic) -> String {
    match found {
        RangeDiagnostic::NotRecorded(why) => not_recorded(why),
        RangeDiagnostic::Limited { samples, of } => format!(
            "{} of the samples in ranges are in {MORE_RANGES}: a process has 4096 names and 4096 paths of ranges, a thread 64 ranges at once (15 between static probes), and \
             all spans have 16384 combinations of attributes; \
             their time and joules are right",
            percent_of(*samples, *of)
        ),
        RangeDiagnostic::Unknown { samples, of, lost } => format!(
            "{} of the samples in ranges are in {UNKNOWN_RANGE} ({} of threads and names found no room, or could not be read): their time and \
             joules are right",
            percent_of(*samples, *of),
            counted(*lost, "event")
        ),
        RangeDiagnostic::SpansDamaged { samples, of } => format!(
            "{} of the samples in spans have attributes that are cut or make no sense: they are in the ranges of those that do; the time and \
             joules of their trace are right",
            percent_of(*samples, *of)
        ),
    }
}

fn not_recorded(why: &RangesNotRecorded) -> String {
    match why {
        RangesNotRecorded::Attached => {
            "no ranges of NVTX and ITT: only a program that energy-trace starts can be asked for them".to_owned()
        }
        RangesNotRecorded::Taken { variable, library } => {
            let api = if variable.starts_with("NVTX") { "NVTX" } else { "ITT" };
            format!(
                "no ranges of {api}: {variable} names another tool, {library}, and there can be one; unset it for that"
            )
        }
        RangesNotRecorded::NoLibrary { error } => format!("no ranges: {error}"),
        RangesNotRecorded::ProbesNotFound { names } => format!(
            "no static probe {} in any file that the program has mapped (`readelf -n FILE` shows them as stapsdt): a range is recorded where its begin and at least one of its ends are there, and reaches to the next of these",
            names.join(", ")
        ),
        RangesNotRecorded::ProbesFailed { error } => {
            format!("ranges are missing, for static probes were not probed: {error}")
        }
        RangesNotRecorded::NotMarked => {
            "no sample was taken in a range: the program marked none by NVTX (version 3), ITT or PyTorch's record_function, passed no static probe of --range-probes and published no span \
             (OpenTelemetry's thread context; a stripped program shows its own only if it was linked with -rdynamic), or they were too \
             short".to_owned()
        }
    }
}

/// The same in one line, for the summary.
pub(super) fn range_in_brief(found: &RangeDiagnostic) -> String {
    match found {
        RangeDiagnostic::NotRecorded(RangesNotRecorded::NotMarked) => {
            "no sample was taken in a range that the program marks".to_owned()
        }
        RangeDiagnostic::NotRecorded(RangesNotRecorded::Attached) => {
            "ranges of NVTX and ITT were not recorded: energy-trace must start the program".to_owned()
        }
        RangeDiagnostic::NotRecorded(RangesNotRecorded::Taken { variable, .. }) => {
            format!("ranges were not recorded: {variable} names another tool")
        }
        RangeDiagnostic::NotRecorded(RangesNotRecorded::NoLibrary { .. }) => {
            "ranges were not recorded: their library cannot be used".to_owned()
        }
        RangeDiagnostic::NotRecorded(RangesNotRecorded::ProbesNotFound { names }) => {
            format!("no static probe {} was found: its range is missing or too long", names.join(", "))
        }
        RangeDiagnostic::NotRecorded(RangesNotRecorded::ProbesFailed { .. }) => {
            "static probes were not probed: ranges are missing".to_owned()
        }
        RangeDiagnostic::Limited { samples, of } => {
            format!("{} of the samples in ranges are in {MORE_RANGES}", percent_of(*samples, *of))
        }
        RangeDiagnostic::Unknown { samples, of, .. } => {
            format!("{} of the samples in ranges are in {UNKNOWN_RANGE}", percent_of(*samples, *of))
        }
        RangeDiagnostic::SpansDamaged { samples, of } => {
            format!("{} of the samples in spans have damaged attributes", percent_of(*samples, *of))
        }
    }
}
