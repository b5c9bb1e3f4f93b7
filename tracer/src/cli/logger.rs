//! Sends what the rooms log to stderr: warnings always, the rest with `-v`.
//!
//! Leaves out filters, times and targets: results are written by `report/`, and this is for those who look for a fault.

use energy_trace_report::shown::{shown, shown_lines};
use std::io::Write;

struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // A closed stderr must not end a recording.
        let text = record.args().to_string();
        // Details of the verifier have several lines; a name in a warning must not begin one.
        let shown = if record.level() <= log::Level::Warn { shown(&text) } else { shown_lines(&text) };
        let _ = writeln!(std::io::stderr(), "energy-trace: {shown}");
    }

    fn flush(&self) {}
}

/// Installs the logger. A second call changes nothing.
pub(super) fn install(verbose: bool) {
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(if verbose { log::LevelFilter::Debug } else { log::LevelFilter::Warn });
    }
}
