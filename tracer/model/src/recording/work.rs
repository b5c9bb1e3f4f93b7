//! Units of work: what people count (tokens, requests, steps), where the number comes from, and what it was when.
//!
//! Leaves out reading it (the program's `work/`) and joules per unit (`profile::work`).

use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::units::MicroJoules;
use serde::{Deserialize, Serialize};

/// What is counted, and where the number is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkCounter {
    /// What the user calls it.
    pub name: String,
    /// Where its number comes from.
    pub source: WorkSource,
}

/// Where a number of work comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkSource {
    /// Calls of a function.
    Calls(String),
    /// What the program prints: a regular expression whose first group is the number.
    Stdout(String),
    /// A file in which something keeps it.
    File(String),
    /// A metric of a page in Prometheus's text format.
    Prometheus {
        /// The page.
        url: String,
        /// The metric, with its labels in braces where some are asked for.
        metric: String,
    },
}

impl WorkSource {
    /// As the user writes it.
    pub fn words(&self) -> String {
        match self {
            Self::Calls(function) => format!("calls:{function}"),
            Self::Stdout(pattern) => format!("stdout:{pattern}"),
            Self::File(path) => format!("file:{path}"),
            Self::Prometheus { url, metric } => format!("prometheus:{url}#{metric}"),
        }
    }
}

/// An amount of work in millionths of a unit: sums and differences are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkUnits(u64);

/// Millionths of a unit.
const MILLIONTHS: u64 = 1_000_000;
/// Beyond this a floating-point number does not tell one unit from the next: 2^53.
const MOST: f64 = 9_007_199_254_740_992.0;

impl WorkUnits {
    /// None.
    pub const ZERO: Self = Self(0);
    /// As many as can be counted, 1.8e13, or more.
    pub const MOST: Self = Self(u64::MAX);

    /// Whole units.
    pub const fn whole(units: u64) -> Self {
        Self(units.saturating_mul(MILLIONTHS))
    }

    /// From a number as counters show it: `None` unless it is finite, not below zero and small enough to be exact.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the check")]
    pub fn from_number(number: f64) -> Option<Self> {
        if !(0.0..=MOST).contains(&number) {
            return None;
        }
        let (whole, part) = (number.trunc() as u64, (number.fract() * MILLIONTHS as f64).round() as u64);
        whole.checked_mul(MILLIONTHS)?.checked_add(part).map(Self)
    }

    /// As a number, for ratios and for showing.
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    pub fn as_number(self) -> f64 {
        (self.0 / MILLIONTHS) as f64 + (self.0 % MILLIONTHS) as f64 / MILLIONTHS as f64
    }

    /// Microjoules of a unit; `None` where there is none.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn uj_each(self, energy: MicroJoules) -> Option<f64> {
        (self > Self::ZERO).then(|| energy.as_uj() as f64 / self.as_number())
    }

    /// How much more this is; `None` where it is less.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(more) => Some(Self(more)),
            None => None,
        }
    }

    /// What was done since a counter was `before`: all of it where it is less now, as it began anew from nothing.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self(if self.0 < before.0 { self.0 } else { self.0 - before.0 })
    }

    /// Both together; `None` where that is more than can be counted.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Both together.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// What was found when a counter of work was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkReading {
    /// When.
    pub at: KtimeNs,
    /// By how much the moment may be off, in nanoseconds: half of the time that the look took.
    pub within_ns: u64,
    /// The number, or why there is none.
    pub value: Result<WorkUnits, WorkFailure>,
}

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkFailure {
    /// There is no such file, or nobody answers at the address.
    Missing,
    /// The user who reads it may not.
    Denied,
    /// The file is no plain file.
    NotAFile,
    /// It did not answer in time.
    TimedOut,
    /// What is there holds no number that can be counted with.
    NoNumber,
    /// More was sent than is read.
    TooLong {
        /// The limit in bytes.
        most: u64,
    },
    /// The server answered with this status instead of the page.
    Status(u16),
    /// The page has no such metric.
    NoMetric,
    /// The program ended, or closed what it writes to.
    Ended,
    /// The process that reads it ended before its time.
    ReaderLost,
    /// Another error of the system.
    System {
        /// Its words.
        error: String,
    },
}

impl WorkFailure {
    /// Its word in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Denied => "denied",
            Self::NotAFile => "not-a-file",
            Self::TimedOut => "timed-out",
            Self::NoNumber => "no-number",
            Self::TooLong { .. } => "too-long",
            Self::Status(_) => "status",
            Self::NoMetric => "no-metric",
            Self::Ended => "ended",
            Self::ReaderLost => "reader-lost",
            Self::System { .. } => "system",
        }
    }
}

/// A counter of work and all that it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkSeries {
    /// Which.
    pub counter: WorkCounter,
    /// Its readings, in order of time.
    pub readings: Vec<WorkReading>,
}

/// From one moment to another.
type Span = (KtimeNs, KtimeNs);

/// When nothing was done of any of these for so long: their numbers stood still. A counter that never moves says nothing of that, nor does one
/// that is not looked at.
pub fn without_work(all: &[WorkSeries], least_ns: u64) -> Vec<Span> {
    let is_long = |(from, to): &Span| to.ns_since(*from) >= least_ns;
    let still = all.iter().filter(|series| series.moves()).map(WorkSeries::still);
    let long = still.map(|spans| spans.into_iter().filter(is_long).collect::<Vec<Span>>());
    long.reduce(common).unwrap_or_default().into_iter().filter(is_long).collect()
}

/// What is in both, each in order of time.
fn common(one: Vec<Span>, other: Vec<Span>) -> Vec<Span> {
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    let mut found = Vec::new();
    while let (Some(a), Some(b)) = (one.peek().copied(), other.peek().copied()) {
        found.push((a.0.max(b.0), a.1.min(b.1)));
        let _passed = if a.1 < b.1 { one.next() } else { other.next() };
    }
    found.retain(|(from, to)| from < to);
    found
}

impl WorkSeries {
    /// Puts readings, which stand as they came, in order of time. Calls only become more: a number that comes with an earlier time says how many more there
    /// were by then, and so at all times after it.
    pub(super) fn put_in_order(&mut self) {
        if !matches!(self.counter.source, WorkSource::Calls(_)) {
            return self.readings.order_by_key(|reading| reading.at);
        }
        let mut most = WorkUnits::ZERO;
        for units in self.readings.iter_mut().filter_map(|reading| reading.value.as_mut().ok()) {
            let more = units.checked_sub(most).unwrap_or_default();
            most = most.max(std::mem::replace(units, more));
        }
        self.readings.order_by_key(|reading| reading.at);
        let mut all = WorkUnits::ZERO;
        for units in self.readings.iter_mut().filter_map(|reading| reading.value.as_mut().ok()) {
            all = all.saturating_add(*units);
            *units = all;
        }
    }

    /// Whether it is looked at, and moved.
    fn moves(&self) -> bool {
        let is_looked_at = matches!(self.counter.source, WorkSource::File(_) | WorkSource::Prometheus { .. });
        is_looked_at && self.readings.windows(2).any(|pair| matches!(pair, [WorkReading { value: Ok(one), .. }, WorkReading { value: Ok(other), .. }] if one < other))
    }

    /// From the first to the last of readings of one number that follow each other.
    fn still(&self) -> Vec<Span> {
        let alike = |one: &WorkReading, other: &WorkReading| one.value.is_ok() && one.value == other.value;
        let runs = self.readings.chunk_by(alike);
        runs.filter_map(|run| Some((run.first()?.at, run.last()?.at))).collect()
    }

    /// What was done between two moments, from the last reading before them on; `None` where there was no number
    /// for a part of the time.
    pub fn done(&self, from: KtimeNs, to: KtimeNs) -> Option<WorkUnits> {
        let first = self.readings.partition_point(|reading| reading.at <= from);
        let end = self.readings.partition_point(|reading| reading.at <= to);
        let numbers = self.readings.get(first.saturating_sub(1)..end).filter(|_| first < end)?;
        let numbers: Option<Vec<WorkUnits>> =
            numbers.iter().map(|reading| reading.value.as_ref().ok().copied()).collect();
        let steps = numbers?;
        let steps = steps.windows(2).map(|pair| pair[1].since(pair[0]));
        Some(steps.fold(WorkUnits::ZERO, WorkUnits::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, WorkCounter, WorkFailure, WorkReading, WorkSeries, WorkSource, WorkUnits};

    /// A stretch has what was done since the reading before it, all of a counter that began anew, and nothing that is
    /// known where there was no number.
    #[test]
    fn between_moments() {
        let reading = |(at, number): (u64, Option<u64>)| {
            let value = number.map(WorkUnits::whole).ok_or(WorkFailure::Missing);
            WorkReading { at: KtimeNs::from_ns(at), within_ns: 0, value }
        };
        let numbers = [
            (1, Some(5)),
            (3, Some(7)),
            (5, Some(9)),
            (6, Some(4)),
            (8, None),
            (11, Some(20)),
            (12, Some(21)),
        ];
        let counter = WorkCounter { name: "token".into(), source: WorkSource::File("x".into()) };
        let series = WorkSeries { counter, readings: numbers.map(reading).to_vec() };
        let done =
            |(from, to)| series.done(KtimeNs::from_ns(from), KtimeNs::from_ns(to)).map(WorkUnits::as_number);
        assert_eq!([(0, 4), (4, 5), (5, 7), (11, 12)].map(done), [2.0, 2.0, 4.0, 1.0].map(Some));
        assert_eq!([(7, 9), (9, 11), (12, 20), (0, 0), (2, 1)].map(done), [None; 5]);
    }

    /// A number of calls that comes with an earlier time is in those of later times too; once in order they stay as they are.
    #[test]
    fn calls_that_come_late() {
        let reading = |(at, number): (u64, Option<u64>)| {
            let value = number.map(WorkUnits::whole).ok_or(WorkFailure::Missing);
            WorkReading { at: KtimeNs::from_ns(at), within_ns: 0, value }
        };
        let counter = WorkCounter { name: "call".into(), source: WorkSource::Calls("f".into()) };
        let came = [
            (10, Some(3)),
            (20, Some(4)),
            (15, None),
            (12, Some(6)),
            (5, Some(7)),
            (30, Some(7)),
            (40, Some(9)),
        ];
        let mut series = WorkSeries { counter, readings: came.map(reading).to_vec() };
        for _ in 0..2 {
            series.put_in_order();
            let ordered = [
                (5, Some(1)),
                (10, Some(4)),
                (12, Some(6)),
                (15, None),
                (20, Some(7)),
                (30, Some(7)),
                (40, Some(9)),
            ];
            assert_eq!(series.readings, ordered.map(reading));
        }
    }

    /// Stretches in which all numbers that ever move stand still; a number that is told when it moves, and one that is gone, say nothing.
    #[test]
    fn standing_still() {
        let series = |source, numbers: &[(u64, Option<u64>)]| {
            let reading = |&(at, number): &(u64, Option<u64>)| {
                let value = number.map(WorkUnits::whole).ok_or(WorkFailure::Missing);
                WorkReading { at: KtimeNs::from_ns(at), within_ns: 0, value }
            };
            let counter = WorkCounter { name: "token".into(), source };
            WorkSeries { counter, readings: numbers.iter().map(reading).collect() }
        };
        let file = |numbers: &[(u64, Option<u64>)]| series(WorkSource::File("x".into()), numbers);
        let found = |all: &[WorkSeries]| {
            super::without_work(all, 20)
                .into_iter()
                .map(|(from, to)| (from.as_ns(), to.as_ns()))
                .collect::<Vec<_>>()
        };
        let one = [
            (0, Some(1)),
            (10, Some(1)),
            (30, Some(1)),
            (40, Some(2)),
            (50, Some(3)),
            (60, Some(3)),
            (80, Some(3)),
            (90, None),
            (100, Some(3)),
            (150, Some(3)),
        ];
        assert_eq!(found(&[file(&one)]), [(0, 30), (50, 80), (100, 150)]);
        let other = file(&[(0, Some(4)), (65, Some(5)), (120, Some(5)), (145, Some(5))]);
        let never = file(&[(0, Some(4)), (5, Some(4)), (6, None)]);
        assert_eq!(found(&[file(&one), other, never.clone()]), [(100, 145)]);
        assert_eq!(found(&[never, series(WorkSource::Stdout("(.)".into()), &one)]), []);
    }

    /// Numbers are exact to a millionth; what nobody can count with is none.
    #[test]
    fn numbers() {
        let number = |number| WorkUnits::from_number(number).map(WorkUnits::as_number);
        for exact in [0.0, 1.0, 0.25, 12_345_678.5, 1e10 + 1.0, 1.8e13] {
            assert_eq!(number(exact), Some(exact));
        }
        for wrong in [-1.0, -1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e19, 9e15] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(number(-0.0), Some(0.0));
        let most = WorkUnits::whole(u64::MAX);
        assert_eq!((most, most.saturating_add(WorkUnits::whole(1))), (WorkUnits::MOST, WorkUnits::MOST));
        assert_eq!(most.checked_add(WorkUnits::whole(1)), None);
        let of = |number| WorkUnits::from_number(number).unwrap_or_default();
        assert_eq!(of(2.5).checked_sub(of(1.0)), Some(of(1.5)));
        assert_eq!(of(1.0).checked_sub(of(2.5)), None);
    }
}
