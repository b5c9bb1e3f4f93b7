//! An error on its way to the user: its text, what to do about it, and the exit status.
//!
//! The statuses are those of env(1), timeout(1) and docker-run(1): 125 for our own failures, 126 and 127 for a command that cannot be
//! executed or found; 2 for wrong usage.

use clap::error::ContextValue;
use energy_trace_names::shown::shown;
use std::fmt;
use std::process::ExitCode;

/// energy-trace itself failed.
pub(super) const OWN_FAILURE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const USAGE: u8 = 2;
/// Begins a further line of a message.
const LINE: &str = "\n  ";

/// An error that ends energy-trace.
#[derive(Debug)]
pub(super) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// energy-trace's own failure: an error with its causes.
    pub(super) fn own(error: &dyn std::error::Error) -> Self {
        Self { text: chain(error), code: OWN_FAILURE }
    }

    /// The result is not complete.
    pub(super) fn incomplete(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: OWN_FAILURE }
    }

    /// The command cannot be executed.
    pub(super) fn not_executable(error: &dyn std::error::Error) -> Self {
        Self { text: chain(error), code: NOT_EXECUTABLE }
    }

    /// The command was not found.
    pub(super) fn not_found(error: &dyn std::error::Error) -> Self {
        Self { text: chain(error), code: NOT_FOUND }
    }

    /// Wrong usage.
    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: USAGE }
    }

    /// Options within an option that are wrong.
    pub(super) fn usage_of(option: &str, error: clap::Error) -> Self {
        Self::usage(format!("{option}: {}", harmless(error).to_string().replace('\n', LINE)))
    }

    /// Adds what to do about it.
    pub(super) fn advise(mut self, advice: Option<String>) -> Self {
        if let Some(advice) = advice {
            self.text.push_str(LINE);
            self.text.push_str(&advice);
        }
        self
    }

    /// Whether the user typed something wrong.
    pub(super) const fn is_usage(&self) -> bool {
        self.code == USAGE
    }

    /// The status to end with.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// The same error with what was typed in one line, and without what moves a terminal.
pub(super) fn harmless(mut error: clap::Error) -> clap::Error {
    let typed = |(kind, value): (_, &ContextValue)| match value {
        ContextValue::String(text) => Some((kind, shown(text).into_owned())),
        _ => None,
    };
    let typed: Vec<_> = error.context().filter_map(typed).collect();
    for (kind, text) in typed {
        error.insert(kind, ContextValue::String(text));
    }
    error
}

/// The error and its causes, leaving out a cause whose text is already part of the message.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An end of a line before anything else is a part of a name, which would read as a message of its own.
        let lines: Vec<_> = self.text.split(LINE).map(shown).collect();
        f.write_str(&lines.join(LINE))
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    /// A name of a file begins no message; what to do about it has a line.
    #[test]
    fn names_begin_no_message() {
        let name = "no\nenergy-trace: all is well";
        let failure = Failure::own(&std::io::Error::other(name)).advise(Some(format!("make {name}")));
        let shown = "no\\x0aenergy-trace: all is well";
        assert_eq!(failure.to_string(), format!("{shown}\n  make {shown}"));
        assert_eq!(Failure::usage(name).to_string(), shown);
    }
}
