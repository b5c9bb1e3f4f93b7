//! What is shown while a recording runs and while its results are made: elapsed, samples, lost, watts now; then that energy is attributed.
//!
//! Nothing is written to a terminal while a command runs there: a line of ours would stand in the midst of the command's own, its progress
//! bar above all. Leaves out which way progress is shown: the plan says.

use crate::plan::ProgressStyle;
use energy_trace_model::units::MicroWatts;
use energy_trace_probe::LiveCounts;
use energy_trace_sentences::counted;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Carriage return, erase to the end of the line (ECMA-48 EL).
const CLEAR: &str = "\r\x1b[K";
/// Time between two drawings of the line.
const REDRAW: Duration = Duration::from_millis(500);
/// Time between two lines where there is no terminal.
const MINUTE: Duration = Duration::from_mins(1);

/// What is shown.
#[derive(Debug)]
pub(super) struct Progress {
    style: ProgressStyle,
    /// Columns of the terminal.
    width: Option<u16>,
    /// Whether a line is on the terminal that is to be erased.
    drawn: bool,
    /// Whether the cursor is known to be at the start of a line.
    at_start: bool,
    /// Lines that were written where there is no terminal.
    lines: u32,
}

impl Progress {
    pub(super) fn new(style: ProgressStyle, width: Option<u16>) -> Self {
        Self { style, width, drawn: false, at_start: style != ProgressStyle::AfterCommand, lines: 0 }
    }

    /// Says that what runs already is looked into: the libraries of a large program take seconds.
    /// `has_screen`: of `top`, which is not drawn yet.
    pub(super) fn attaching(&mut self, has_screen: bool) {
        if self.style == ProgressStyle::Line || has_screen {
            self.redraw("energy-trace: reading the libraries of what runs already …");
        }
    }

    /// How often there is something to draw while the recording runs; `None`: never.
    pub(super) const fn period(&self) -> Option<Duration> {
        match self.style {
            ProgressStyle::Off | ProgressStyle::AfterCommand => None,
            ProgressStyle::Line => Some(REDRAW),
            ProgressStyle::EachMinute => Some(MINUTE),
        }
    }

    /// Says how far the recording is.
    pub(super) fn draw(&mut self, elapsed: Duration, counts: &LiveCounts, watts: Option<MicroWatts>) {
        match self.style {
            ProgressStyle::Line => self.redraw(&line(elapsed, counts, watts)),
            // The first is due when a minute is over.
            ProgressStyle::EachMinute if elapsed >= MINUTE => {
                self.lines += 1;
                put(format_args!("{}\n", line(elapsed, counts, watts)));
            }
            ProgressStyle::EachMinute | ProgressStyle::Off | ProgressStyle::AfterCommand => {}
        }
    }

    /// Says that names are looked up and energy is attributed. A recording that wrote no line a minute ends soon without one.
    pub(super) fn attributing(&mut self, counts: &LiveCounts) {
        let text = format!("energy-trace: attributing the energy of {} …", counted(counts.samples, "sample"));
        match self.style {
            ProgressStyle::Line | ProgressStyle::AfterCommand => {
                self.go_to_start();
                self.redraw(&text);
            }
            ProgressStyle::EachMinute if self.lines > 0 => put(format_args!("{text}\n")),
            ProgressStyle::EachMinute | ProgressStyle::Off => {}
        }
    }

    /// Makes room for results: erases the line, and leaves what the command wrote last in its own line.
    pub(super) fn end(&mut self) {
        self.clear();
        if self.style == ProgressStyle::AfterCommand {
            self.go_to_start();
        }
    }

    fn redraw(&mut self, text: &str) {
        self.drawn = true;
        // A line that is too long would wrap, and only its end be erased.
        let room = self.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(1));
        let text: String = text.chars().take(room).collect();
        put(format_args!("{CLEAR}{text}\r"));
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            put(format_args!("{CLEAR}"));
        }
    }

    /// To the start of an empty line.
    fn go_to_start(&mut self) {
        if !std::mem::replace(&mut self.at_start, true) {
            put(format_args!("{}", to_fresh_line(self.width)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Moves the cursor to the start of the line where it is at its start, and of the next one where it is not: as many spaces as a line has
/// room for, less one, go beyond the end of a line that has something in it.
fn to_fresh_line(width: Option<u16>) -> String {
    match width {
        Some(width) => format!("{}\r", " ".repeat(usize::from(width).saturating_sub(1))),
        None => "\n".to_owned(),
    }
}

fn put(text: fmt::Arguments<'_>) {
    let mut stderr = std::io::stderr();
    // A terminal that was closed is no reason to stop.
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}

fn line(elapsed: Duration, counts: &LiveCounts, watts: Option<MicroWatts>) -> String {
    let watts = watts.map(|watts| format!(", {:.1} W", watts.as_watts())).unwrap_or_default();
    let LiveCounts { samples, lost, .. } = counts;
    let samples = counted(*samples, "sample");
    format!("energy-trace: {:.0} s, {samples}, {lost} lost{watts}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Progress, line, to_fresh_line};
    use crate::plan::ProgressStyle;
    use energy_trace_model::units::MicroWatts;
    use energy_trace_probe::LiveCounts;
    use std::time::Duration;

    /// The line says what the contract lists; without a meter there are no watts, rather than zero.
    #[test]
    fn what_the_line_says() {
        let counts = LiveCounts { samples: 1203, lost: 2, no_room_ns: 5 };
        let at = Duration::from_millis(12_300);
        assert_eq!(
            line(at, &counts, MicroWatts::from_watts(34.56)),
            "energy-trace: 12 s, 1203 samples, 2 lost, 34.6 W"
        );
        assert_eq!(line(at, &counts, None), "energy-trace: 12 s, 1203 samples, 2 lost");
    }

    /// While a command runs on the terminal nothing is drawn there.
    #[test]
    fn nothing_beside_a_command() {
        let period = |style| Progress::new(style, Some(80)).period();
        assert_eq!(period(ProgressStyle::AfterCommand), None);
        assert_eq!(period(ProgressStyle::Off), None);
        assert!(period(ProgressStyle::Line) < period(ProgressStyle::EachMinute));
    }

    /// Seventy-nine spaces fill a line of eighty but for its last column: the cursor stays in an empty line and leaves any other.
    #[test]
    fn fresh_lines() {
        assert_eq!(to_fresh_line(Some(80)), format!("{}\r", " ".repeat(79)));
        assert_eq!(to_fresh_line(None), "\n");
    }
}
