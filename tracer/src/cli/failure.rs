//! An error on its way to the user: its text, what to do about it, and the exit status.
//!
//! The statuses are those of env(1), timeout(1) and docker-run(1): 125 for our own failures, 126 and 127 for a command that cannot be
//! executed or found; 2 for wrong usage.

use energy_trace_names::shown::shown_lines;
use std::fmt;
use std::process::ExitCode;

/// energy-trace itself failed.
pub(super) const OWN_FAILURE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const USAGE: u8 = 2;

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

    /// Adds what to do about it.
    pub(super) fn advise(mut self, advice: Option<String>) -> Self {
        if let Some(advice) = advice {
            self.text.push_str("\n  ");
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
        f.write_str(&shown_lines(&self.text))
    }
}
