//! Sends what the rooms log to stderr: warnings always, the rest with `-v`. Libraries of others are heard only where they warn: the BPF
//! loader writes 2,000 lines about relocations.
//!
//! Leaves out times and targets: results are written by `report/`, and this is for those who look for a fault.

use crate::message;
use energy_trace_names::shown::{shown, shown_lines};

struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn || is_ours(metadata.target())
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        // Details of the verifier have several lines; a name in a warning must not begin one.
        let shown = if record.level() <= log::Level::Warn { shown(&text) } else { shown_lines(&text) };
        message::say(&shown);
    }

    fn flush(&self) {}
}

/// Whether a module is of this program or of its BPF programs.
fn is_ours(module: &str) -> bool {
    ["energy_trace", "tracer_ebpf"].iter().any(|ours| module.starts_with(ours))
}

/// Installs the logger. A second call changes nothing.
pub(super) fn install(verbose: bool) {
    message::prepare();
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(if verbose { log::LevelFilter::Debug } else { log::LevelFilter::Warn });
    }
}

#[cfg(test)]
mod tests {
    use super::Stderr;
    use log::{Level, Log as _, Metadata};

    /// Libraries are heard where they warn; this program always.
    #[test]
    fn libraries_only_warn() {
        let told = |target, level| Stderr.enabled(&Metadata::builder().target(target).level(level).build());
        let of = |target| [Level::Warn, Level::Info, Level::Debug].map(|level| told(target, level));
        assert_eq!(of(module_path!()), [true; 3]);
        assert_eq!(of("energy_trace_probes::sample"), [true; 3]);
        assert_eq!(of("aya_obj::relocation"), [true, false, false]);
    }
}
