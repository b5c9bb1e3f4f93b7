//! One line on the terminal while a recording runs: elapsed, samples, lost, watts now.
//!
//! The cursor goes back to the line's start after each drawing, so what the command prints overwrites it. Leaves out whether there is a
//! terminal at all: the plan says.

use crate::probe::LiveCounts;
use energy_trace_model::units::MicroWatts;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Carriage return, erase to the end of the line (ECMA-48 EL).
const CLEAR: &str = "\r\x1b[K";

/// The line.
#[derive(Debug)]
pub(super) struct Progress {
    enabled: bool,
    drawn: bool,
}

impl Progress {
    pub(super) const fn new(enabled: bool) -> Self {
        Self { enabled, drawn: false }
    }

    /// Draws it anew.
    pub(super) fn draw(&mut self, elapsed: Duration, counts: &LiveCounts, watts: Option<MicroWatts>) {
        if self.enabled {
            self.drawn = true;
            self.put(format_args!("{CLEAR}{}\r", line(elapsed, counts, watts)));
        }
    }

    /// Removes it.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.put(format_args!("{CLEAR}"));
        }
    }

    fn put(&self, text: fmt::Arguments<'_>) {
        let mut stderr = std::io::stderr();
        // A terminal that was closed is no reason to stop.
        let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(elapsed: Duration, counts: &LiveCounts, watts: Option<MicroWatts>) -> String {
    let watts = watts.map(|watts| format!(", {:.1} W", watts.as_watts())).unwrap_or_default();
    let LiveCounts { samples, lost } = counts;
    format!("energy-trace: {:.0} s, {samples} samples, {lost} lost{watts}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::probe::LiveCounts;
    use energy_trace_model::units::MicroWatts;
    use std::time::Duration;

    /// The line says what the contract lists; without a meter there are no watts, rather than zero.
    #[test]
    fn what_the_line_says() {
        let counts = LiveCounts { samples: 1203, lost: 2 };
        let at = Duration::from_millis(12_300);
        assert_eq!(
            line(at, &counts, MicroWatts::from_watts(34.56)),
            "energy-trace: 12 s, 1203 samples, 2 lost, 34.6 W"
        );
        assert_eq!(line(at, &counts, None), "energy-trace: 12 s, 1203 samples, 2 lost");
    }
}
