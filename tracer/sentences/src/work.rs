//! Sentences for what is to know of units of work. Leaves out the numbers (`energy_trace_report::work`).

use super::{counted, in_seconds, percent_of};
use energy_trace_model::profile::diagnostics::WorkDiagnostic;
use energy_trace_model::recording::record::WorkFailure;

/// What was found, what it changes, and what to do about it.
pub(super) fn work_fact(name: &str, what: &WorkDiagnostic) -> String {
    match what {
        WorkDiagnostic::NotRead { source, failure } => format!(
            "no joules per {name}: no number was found{} in {source}; it has to be there while the program runs, for the user who started this",
            because(failure.as_ref())
        ),
        WorkDiagnostic::NeverMoved { readings } => format!(
            "no joules per {name}: its number was the same in {}; a program that prints into a pipe or file may hold its lines back \
             (Python: PYTHONUNBUFFERED=1), and one that tells a number once tells no work",
            counted(*readings, "reading")
        ),
        WorkDiagnostic::NotCounted { function } => format!(
            "no joules per {name}: no call of {function} was counted in the whole run; --work takes its name as --count does, and a \
             part of a run (--from, --to) has no counts"
        ),
        WorkDiagnostic::InPart { restarts, gone, covered_ns, of_ns, failure } => format!(
            "joules per {name} are of {:.2} s of {:.2} s: its number {}; what lies between the readings before and after that is in \
             neither units nor joules",
            in_seconds(*covered_ns),
            in_seconds(*of_ns),
            broken(*restarts, *gone, failure.as_ref())
        ),
        WorkDiagnostic::StoodStill { still_ns, covered_ns } => format!(
            "the number of {name} stood still for {:.2} s ({} of its time); the program's joules of that time are in the joules per \
             {name}: --from and --to show a part without it",
            in_seconds(*still_ns),
            percent_of(*still_ns, *covered_ns)
        ),
        WorkDiagnostic::Merged => format!(
            "no joules per {name}: of merged recordings, units are added where each recording counted its own over all of it; report each \
             recording alone"
        ),
        WorkDiagnostic::AndMore { more } => format!(
            "joules per {name}{} are not known, or not of all of the run: `report --format json` says of each why (work)",
            of_others(*more)
        ),
    }
}

/// The same in a line.
pub(super) fn work_in_brief(name: &str, what: &WorkDiagnostic) -> String {
    match what {
        WorkDiagnostic::NotRead { source, failure } => {
            format!("no joules per {name}: no number was found{} in {source}", because(failure.as_ref()))
        }
        WorkDiagnostic::NeverMoved { .. } => format!("no joules per {name}: its number never moved"),
        WorkDiagnostic::NotCounted { function } => {
            format!("no joules per {name}: no call of {function} was counted")
        }
        WorkDiagnostic::InPart { restarts, gone, .. } => {
            format!("joules per {name} in part: its number {}", broken(*restarts, *gone, None))
        }
        WorkDiagnostic::StoodStill { still_ns, .. } => {
            format!("the number of {name} stood still for {:.2} s, which counts", in_seconds(*still_ns))
        }
        WorkDiagnostic::Merged => format!("no joules per {name}: recordings were merged"),
        WorkDiagnostic::AndMore { more } => {
            format!("joules per {name}{}: not known, or not of all", of_others(*more))
        }
    }
}

fn of_others(more: u64) -> String {
    if more == 0 { String::new() } else { format!(" and {}", counted(more, "other unit")) }
}

fn broken(restarts: u64, gone: u64, failure: Option<&WorkFailure>) -> String {
    let restarts = (restarts > 0).then(|| format!("began anew {}", counted(restarts, "time")));
    let gone = (gone > 0).then(|| format!("was gone {}{}", counted(gone, "time"), because(failure)));
    restarts.into_iter().chain(gone).collect::<Vec<_>>().join(" and ")
}

fn because(failure: Option<&WorkFailure>) -> String {
    failure.map(|failure| format!(" ({})", work_failure(failure))).unwrap_or_default()
}

/// Why there is no number.
pub fn work_failure(failure: &WorkFailure) -> String {
    match failure {
        WorkFailure::Missing => "nothing is there".to_owned(),
        WorkFailure::Denied => "the user who reads it may not".to_owned(),
        WorkFailure::NotAFile => "it is no plain file".to_owned(),
        WorkFailure::TimedOut => "it did not answer in time".to_owned(),
        WorkFailure::NoNumber => "what is there is no number from 0 to 1.8e13".to_owned(),
        WorkFailure::TooLong { most } => format!("more than {} came", counted(*most, "byte")),
        WorkFailure::Status(status) => format!("the server answered with status {status}"),
        WorkFailure::NoMetric => "the page has no such metric".to_owned(),
        WorkFailure::Ended => "the program closed its output".to_owned(),
        WorkFailure::ReaderLost => "the process that reads it ended".to_owned(),
        WorkFailure::System { error } => error.clone(),
    }
}
