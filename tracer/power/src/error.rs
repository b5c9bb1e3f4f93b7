//! Why a run cannot have the power sources that it names, each with what to do about it.

use super::meter_log::ReplayError;
use energy_trace_model::recording::record::Source;
use energy_trace_sentences::ignored_reason;

/// Why a run cannot have the power sources that it names.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// `none` beside other words.
    #[error(
        "--power none cannot be combined with other sources; leave out `none`, or the other --power options"
    )]
    NoneWithOthers,
    /// A source that was named and is not there.
    #[error(
        "--power {name} gives no counter: {why}; without --power, what this machine has is read, or an estimate made"
    )]
    Missing {
        /// The source, as it was typed.
        name: &'static str,
        /// Why, with the fix.
        why: String,
    },
    /// `--nvml-lib` names a library that does not work.
    #[error("the library of --nvml-lib cannot be used: {why}")]
    NvmlLibrary {
        /// Why, with the fix.
        why: String,
    },
    /// `--measured-only` together with the model.
    #[error("--power model is an estimate, which --measured-only does not allow; leave out one of them")]
    ModelWithMeasuredOnly,
    /// `--measured-only` on a machine without counters.
    #[error("no energy counter can be read here, and --measured-only does not allow estimates: {why}")]
    NothingMeasured {
        /// Why each source gives nothing, with fixes.
        why: String,
    },
    /// A log that cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Two sources offer one domain.
    #[error(
        "`{domain}` comes from {first} and from {second}; choose one of them with --power, or rename the column in the log"
    )]
    Clash {
        /// The domain.
        domain: String,
        /// The source that has it.
        first: String,
        /// The source that has it too.
        second: String,
    },
}

/// Why nothing is taken of a source, in one line.
pub(super) fn ignored_reasons(source: &Source) -> String {
    let reasons = source.ignored.iter().map(|i| format!("{}: {}", i.domain, ignored_reason(&i.reason)));
    reasons.collect::<Vec<_>>().join("; ")
}
