//! Every sentence that explains a fact: diagnostics, losses, power sources, interpreters.
//!
//! Facts are types (`model`); here each gets its words, once. A sentence says what happened, what it changes, and what to do about it.
//!
//! ```
//! use energy_trace_model::recording::record::LossReason;
//!
//! assert_eq!(energy_trace_sentences::counted(2, "process"), "2 processes");
//! assert!(energy_trace_sentences::loss(&LossReason::Samples).starts_with("samples"));
//! ```
//!
//! Leaves out numbers in tables, where a sentence is shown, and sentences about what a report computes (budgets, studies).

mod account;
mod agent;
mod attribution;
mod brief;
mod calls;
mod counters;
mod jit;
mod launches;
mod losses;
mod owners;
mod power;
mod ranges;
mod recording;
mod sensors;
mod sources;
mod stacks;
#[cfg(test)]
mod tests;
mod work;

pub use agent::{costly_agent, faster_agent, slower_agent, unknown_programs};
pub use attribution::diagnostic;
pub use brief::{in_brief, model_in_brief};
pub use calls::{NoPython, no_such_functions};
pub use counters::missing;
pub use losses::{copy_outcome, loss};
pub use power::{advice, power_fact};
pub use recording::{limited_rate, recorded, without_jitter};
pub use sensors::{NO_SENSORS, sensor_fact};
pub use sources::{idle_origin, ignored_reason, no_counter, runtime, source_note};
pub use work::work_failure;

/// What intervals are about.
pub const INTERVALS: &str = "intervals cover this run, and how its energy was divided; the next run of the same program may differ \
    by more";

/// `1 sample`, `2 samples`, `3 processes`.
pub fn counted(count: u64, one: &str) -> String {
    match (count, one.ends_with('s')) {
        (1, _) => format!("1 {one}"),
        (_, true) => format!("{count} {one}es"),
        (_, false) => format!("{count} {one}s"),
    }
}

/// `1 event was`, `2 events were`.
fn were(count: u64, one: &str) -> String {
    format!("{} {}", counted(count, one), if count == 1 { "was" } else { "were" })
}

/// Nanoseconds in seconds.
pub fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Nanoseconds in milliseconds.
fn in_millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// `12.3 %`.
fn percent_of(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / (whole.max(1)) as f64)
}

/// Thousandths in percent.
fn in_percent(permille: i64) -> f64 {
    permille as f64 / 10.0
}
