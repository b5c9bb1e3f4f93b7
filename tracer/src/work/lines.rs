//! `stdout:REGEX`: numbers in the lines that a program prints.
//!
//! A line is what lies between two of `\n` and `\r`; of a longer one than `LINE` bytes nothing is looked at. Numbers that come faster than a
//! reading each `APART` are thinned: the last of a burst stays, and both sides of a fall. Leaves out where the bytes come from.

use super::number::units;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{WorkReading, WorkUnits};
use regex_lite::{Regex, RegexBuilder};
use std::time::Duration;

/// Longest line that is looked at, in bytes.
const LINE: usize = 4096;
/// Between two readings.
const APART: Duration = Duration::from_millis(50);
/// Bytes that a compiled expression may take, and how deep its parts may lie in each other.
const SIZE: usize = 1 << 20;
const NEST: u32 = 50;

/// A regular expression with a group, as the user wrote it.
pub(crate) fn expression(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(SIZE).nest_limit(NEST).build();
    let expression = built.map_err(|error| error.to_string())?;
    let has_group = expression.captures_len() > 1;
    has_group.then_some(expression).ok_or_else(|| "the number stands in a group: step (\\d+)".to_owned())
}

/// What a program printed up to now.
pub(super) struct Lines {
    expression: Regex,
    /// The begin of a line that has not ended, and when its last byte came.
    begun: Vec<u8>,
    at: KtimeNs,
    /// Whether that line is too long, or a part of it is missing.
    is_unusable: bool,
    thinned: Thinned,
}

impl Lines {
    /// Times are right to so many nanoseconds.
    pub(super) fn new(expression: Regex, within_ns: u64) -> Self {
        let thinned = Thinned { within_ns, ..Thinned::default() };
        Self { expression, begun: Vec::new(), at: KtimeNs::default(), is_unusable: false, thinned }
    }

    /// Takes in what came at this moment, and gives the readings that are due.
    pub(super) fn push(&mut self, at: KtimeNs, bytes: &[u8]) -> Vec<WorkReading> {
        let mut due = Vec::new();
        self.at = at;
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let text = part.strip_suffix(b"\n").or_else(|| part.strip_suffix(b"\r"));
            self.add(text.unwrap_or(part));
            if text.is_some() {
                let number = self.end_of_line();
                due.extend(number.into_iter().flat_map(|units| self.thinned.push(at, units)));
            }
        }
        due
    }

    /// Some of what was printed is missing here.
    pub(super) fn skip(&mut self) {
        self.is_unusable = true;
    }

    /// Where nothing more will come: the line that has begun, and what is held back.
    pub(super) fn end(&mut self) -> Vec<WorkReading> {
        let number = self.end_of_line();
        let last = number.into_iter().flat_map(|units| self.thinned.push(self.at, units));
        last.collect::<Vec<_>>().into_iter().chain(self.rest()).collect()
    }

    /// What is held back, after a while in which nothing came.
    pub(super) fn rest(&mut self) -> Option<WorkReading> {
        self.thinned.held.take().map(|(at, units)| self.thinned.told(at, units))
    }

    fn add(&mut self, text: &[u8]) {
        if self.begun.len() + text.len() > LINE {
            self.is_unusable = true;
        }
        if !self.is_unusable {
            self.begun.extend(text);
        }
    }

    fn end_of_line(&mut self) -> Option<WorkUnits> {
        let is_unusable = std::mem::take(&mut self.is_unusable);
        let line = std::mem::take(&mut self.begun);
        let line = if is_unusable { return None } else { String::from_utf8_lossy(&line) };
        let group = self.expression.captures(&line)?.get(1)?;
        units(group.as_str()).ok()
    }
}

/// Numbers, thinned.
#[derive(Default)]
struct Thinned {
    last: Option<(KtimeNs, WorkUnits)>,
    held: Option<(KtimeNs, WorkUnits)>,
    within_ns: u64,
}

impl Thinned {
    fn push(&mut self, at: KtimeNs, units: WorkUnits) -> Vec<WorkReading> {
        let before = self.held.or(self.last);
        let falls = before.is_some_and(|(_, before)| units < before);
        let is_due = self.last.is_none_or(|(last, _)| at.ns_since(last) >= APART.as_nanos() as u64);
        if falls {
            let held = self.held.take().map(|(at, units)| self.told(at, units));
            return held.into_iter().chain([self.told(at, units)]).collect();
        }
        if is_due {
            self.held = None;
            return vec![self.told(at, units)];
        }
        self.held = Some((at, units));
        Vec::new()
    }

    fn told(&mut self, at: KtimeNs, units: WorkUnits) -> WorkReading {
        self.last = Some((at, units));
        WorkReading { at, within_ns: self.within_ns, value: Ok(units) }
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, LINE, Lines, WorkReading, expression};

    fn lines(pattern: &str) -> Lines {
        Lines::new(expression(pattern).unwrap(), 0)
    }

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    fn numbers(readings: &[WorkReading]) -> Vec<(u64, f64)> {
        let of = |reading: &WorkReading| {
            (reading.at.as_ns() / 1_000_000, reading.value.clone().unwrap().as_number())
        };
        readings.iter().map(of).collect()
    }

    /// The first group is the number, in lines that come in pieces and end with a line feed or a carriage return.
    #[test]
    fn lines_in_pieces() {
        let mut lines = lines(r"step (\d+)/");
        assert!(lines.push(at(0), b"start\nst").is_empty() && lines.push(at(100), b"ep 4").is_empty());
        assert_eq!(numbers(&lines.push(at(200), b"2/100\rstep x/\nste")), [(200, 42.0)]);
        assert_eq!(numbers(&lines.push(at(300), b"p 43/\n\n\r")), [(300, 43.0)]);
        assert_eq!(lines.rest(), None);
    }

    /// The last line counts when nothing more comes, whether it has an end or not, and at the time of its last byte.
    #[test]
    fn the_last_line_has_no_end() {
        let mut lines = lines(r"x(\d+)");
        assert_eq!(numbers(&lines.push(at(0), b"x1\nx")), [(0, 1.0)]);
        assert!(lines.push(at(100), b"20").is_empty());
        assert_eq!(numbers(&lines.end()), [(100, 20.0)]);
        assert!(lines.end().is_empty());
    }

    /// Of a line without an end, of one that is too long, and of one of which a part is missing nothing is kept.
    #[test]
    fn lines_that_cannot_be_used() {
        let mut lines = lines(r"(\d+)");
        for _ in 0..1_000 {
            assert!(lines.push(at(0), &[b'7'; 1_000]).is_empty());
            assert!(lines.begun.len() <= LINE);
        }
        assert!(lines.push(at(1), b"\n").is_empty());
        assert_eq!(numbers(&lines.push(at(100), b"8\n1")), [(100, 8.0)]);
        lines.skip();
        assert!(lines.push(at(200), b"2\n").is_empty());
        assert_eq!(numbers(&lines.push(at(300), b"9\n")), [(300, 9.0)]);
    }

    /// A burst of numbers is thinned to its ends; where they fall both sides are told; the last is told when nothing follows.
    #[test]
    fn bursts() {
        let mut lines = lines(r"(\S+)");
        assert_eq!(numbers(&lines.push(at(0), b"1\n2\n3\n")), [(0, 1.0)]);
        assert!(lines.push(at(10), b"4\n5\n").is_empty());
        assert_eq!(numbers(&lines.push(at(20), b"0\n1\n")), [(10, 5.0), (20, 0.0)]);
        assert_eq!(numbers(&lines.rest().into_iter().collect::<Vec<_>>()), [(20, 1.0)]);
        assert_eq!(lines.rest(), None);
        assert_eq!(numbers(&lines.push(at(90), b"2\n")), [(90, 2.0)]);
    }

    /// What is no number that can be counted with is passed over, and so are bytes that are no text.
    #[test]
    fn hostile_texts() {
        let mut lines = lines(r"= (\S+)");
        for text in [
            &b"= nan\n"[..],
            b"= -5\n",
            b"= inf\n",
            b"= 1e999\n",
            b"\xff\xfe\x00= \xff\n",
            b"= 99999999999999999999999\n",
        ] {
            assert!(lines.push(at(0), text).is_empty(), "{text:?}");
        }
        assert_eq!(numbers(&lines.push(at(0), b"\xff= 5\n")), [(0, 5.0)]);
    }

    /// Expressions have a group and stay small; what would take other engines for ever is linear here.
    #[test]
    fn expressions() {
        for wrong in ["", "step", "(", "(a{1000}){1000}", &format!("{}a{}", "(".repeat(100), ")".repeat(100))]
        {
            assert!(expression(wrong).is_err(), "{wrong}");
        }
        let mut slow = lines("(a*)*b(\\d+)");
        assert!(slow.push(at(0), &[&[b'a'; 4_000][..], b"\n"].concat()).is_empty());
    }
}
