//! Readings from a CSV file: the log of an external meter, or counters written down on another machine.
//!
//! The first line names the columns. Time is `time_s` or `time_ns` (since the start of the run) or `unix_s` (seconds since 1970). Every
//! other column is a domain and its unit: `package-0_uj` and `package-0_j` are counters that grow, `wall_w` is a power, integrated by the
//! trapezoid rule. A domain's first word is what it measures: `package`, `cpu`; `dram`, `memory`; `gpu`; `psys`, `wall`, `meter`,
//! `machine` (the whole machine); a number behind it is its socket or device. A file with `unix_s` is read again when the run stops, so
//! that a meter may write it meanwhile. Leaves out units other than these, and counters that wrap (their range is not in the file).

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, Origin, Quality, Reading, Scope, Source, SourceId, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The source's name.
pub(super) const NAME: &str = "replay";

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no header, or nothing below it.
    #[error("{path} {what}; it needs a line of column names such as `time_s,package-0_uj` and at least two rows", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// A place in the file that is wrong.
    #[error("{path}, line {line}, column {column}: {what}", path = path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column: its number from 1, and its name where it has one.
        column: String,
        /// What is wrong, and what would be right.
        what: String,
    },
}

/// A log, read.
#[derive(Debug)]
pub(super) struct Replay {
    path: PathBuf,
    /// Its domains.
    pub(super) domains: Vec<Domain>,
    times: TimeUnit,
    rows: Vec<Row>,
}

/// One line: its time, and each domain's counter in microjoules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Nanoseconds since the start of the run, or since 1970.
    time_ns: u64,
    counters_uj: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeUnit {
    Seconds,
    Nanoseconds,
    UnixSeconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    MicroJoules,
    Joules,
    Watts,
}

impl Replay {
    /// Reads a log, whole.
    ///
    /// # Errors
    /// When it cannot be read, is empty, is not in time order, or has a bad column or number.
    pub(super) fn open(path: &Path) -> Result<Self, ReplayError> {
        let unreadable = |error| ReplayError::Unreadable { path: path.to_owned(), error };
        // Of a pipe or a device there may be no end.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        Parser { path }.parse(&bytes)
    }

    /// The source as a report shows it.
    pub(super) fn describe(&self) -> Source {
        let span = |first: &Row, last: &Row| last.time_ns.saturating_sub(first.time_ns);
        let covered = self.rows.first().zip(self.rows.last()).map_or(0, |(first, last)| span(first, last));
        let steps = u64::try_from(self.rows.len().saturating_sub(1)).unwrap_or(u64::MAX);
        Source {
            id: SourceId::Replay,
            domains: self.domains.iter().map(|d| d.name.clone()).collect(),
            period_ns: covered.checked_div(steps).unwrap_or(0),
            quality: Quality::Measured,
            ignored: Vec::new(),
            notes: vec![SourceNote::Replayed {
                path: self.path.display().to_string(),
                rows: self.rows.len() as u64,
                wall_time: self.times == TimeUnit::UnixSeconds,
            }],
        }
    }

    /// Number of rows.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether a meter may still be writing the file.
    pub(super) fn grows(&self) -> bool {
        self.times == TimeUnit::UnixSeconds
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The time of a row on the one clock; `None` for a time before the machine's start.
    pub(super) fn time_of(&self, row: usize, start: WallAnchor) -> Option<KtimeNs> {
        let time_ns = self.rows.get(row)?.time_ns;
        let ktime_ns = start.ktime.as_ns();
        let ns = match self.times {
            TimeUnit::UnixSeconds => ktime_ns.checked_add(time_ns)?.checked_sub(start.unix_ns)?,
            TimeUnit::Seconds | TimeUnit::Nanoseconds => ktime_ns.checked_add(time_ns)?,
        };
        Some(KtimeNs::from_ns(ns))
    }

    /// The readings of one domain from row `from` on. Rows before the machine's start are left out: nothing ran then.
    pub(super) fn readings(&self, domain: usize, from: usize, start: WallAnchor) -> Vec<Reading> {
        let reading = |row: usize| {
            let counter_uj = *self.rows.get(row)?.counters_uj.get(domain)?;
            Some(Reading { at: self.time_of(row, start)?, value: CounterValue::MicroJoules(counter_uj) })
        };
        (from..self.rows.len()).filter_map(reading).collect()
    }
}

struct Parser<'a> {
    path: &'a Path,
}

/// A domain's column: its place in the file, its unit, and the energy so far where it is a power.
struct Column {
    place: usize,
    unit: Unit,
    /// Twice the energy so far in microwatts × nanoseconds (the trapezoid's two halves), exact.
    twice_energy: u128,
    last_power: Option<MicroWatts>,
}

impl Parser<'_> {
    fn parse(&self, bytes: &[u8]) -> Result<Replay, ReplayError> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(bytes);
        let header = reader.headers().map_err(|e| self.unparsable(&e))?.clone();
        if header.is_empty() {
            return Err(self.empty("is empty"));
        }
        let (time, times) = self.time_column(&header)?;
        let (domains, mut columns) = self.domain_columns(&header, time)?;
        let mut rows: Vec<Row> = Vec::new();
        let cut_off = !bytes.ends_with(b"\n") && times == TimeUnit::UnixSeconds;
        for record in reader.records() {
            let record = record.map_err(|e| self.unparsable(&e))?;
            let at_end = record.position().is_some_and(|p| line_is_last(bytes, p.byte()));
            if cut_off && at_end {
                break; // The meter is writing this line now; the next reading of the file has it whole.
            }
            let line = Line { parser: self, header: &header, record: &record };
            rows.push(line.parse(time, times, rows.last(), &mut columns)?);
        }
        match rows.len() {
            0 => Err(self.empty("has column names and no row")),
            1 => Err(self.empty("has one row only, from which no energy follows")),
            _ => Ok(Replay { path: self.path.to_owned(), domains, times, rows }),
        }
    }

    fn time_column(&self, header: &csv::StringRecord) -> Result<(usize, TimeUnit), ReplayError> {
        let unit = |name: &str| match name {
            "time_s" => Some(TimeUnit::Seconds),
            "time_ns" => Some(TimeUnit::Nanoseconds),
            "unix_s" => Some(TimeUnit::UnixSeconds),
            _ => None,
        };
        let mut found = header.iter().enumerate().filter_map(|(i, name)| Some((i, unit(name)?)));
        let first = found.next().ok_or_else(|| {
            let what = "no column is called time_s, time_ns or unix_s".to_owned();
            self.bad(1, "1".to_owned(), what)
        })?;
        match found.next() {
            None => Ok(first),
            Some((place, _)) => {
                Err(self.bad(1, name_column(header, place), "a second column of times".to_owned()))
            }
        }
    }

    fn domain_columns(
        &self,
        header: &csv::StringRecord,
        time: usize,
    ) -> Result<(Vec<Domain>, Vec<Column>), ReplayError> {
        let (mut domains, mut columns) = (Vec::<Domain>::new(), Vec::new());
        for (place, title) in header.iter().enumerate().filter(|&(place, _)| place != time) {
            let bad = |what: String| self.bad(1, name_column(header, place), what);
            let (name, unit) = parse_title(title).ok_or_else(|| {
                bad("a domain's column ends in _uj (counter in µJ), _j (counter in J) or _w (power)"
                    .to_owned())
            })?;
            let (class, scope) = parse_domain(name).ok_or_else(|| {
                bad("it is named after no domain: call it package-N, dram-N, gpu-N, psys or wall".to_owned())
            })?;
            if domains.iter().any(|d| d.name == name) {
                return Err(bad(format!("a second column for `{name}`")));
            }
            domains.push(self.domain(name, class, scope));
            columns.push(Column { place, unit, twice_energy: 0, last_power: None });
        }
        if domains.is_empty() {
            return Err(self.bad(
                1,
                "2".to_owned(),
                "no column of a domain, such as package-0_uj or wall_w".to_owned(),
            ));
        }
        Ok((domains, columns))
    }

    fn domain(&self, name: &str, class: DomainClass, scope: Scope) -> Domain {
        Domain {
            id: DomainId::default(),
            name: name.to_owned(),
            class,
            scope,
            origin: Origin::measured(NAME, self.path.display().to_string(), None),
            idle: None,
        }
    }

    fn bad(&self, line: u64, column: String, what: String) -> ReplayError {
        ReplayError::Bad { path: self.path.to_owned(), line, column, what }
    }

    fn empty(&self, what: &'static str) -> ReplayError {
        ReplayError::Empty { path: self.path.to_owned(), what }
    }

    fn unparsable(&self, error: &csv::Error) -> ReplayError {
        let line = error.position().map_or(1, csv::Position::line);
        self.bad(line, "1".to_owned(), format!("not a line of CSV in UTF-8 ({error})"))
    }
}

/// Whether the line that begins at `start` is the last one.
fn line_is_last(bytes: &[u8], start: u64) -> bool {
    let rest = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    !rest.trim_ascii_start().contains(&b'\n')
}

struct Line<'a> {
    parser: &'a Parser<'a>,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl Line<'_> {
    fn parse(
        &self,
        time: usize,
        times: TimeUnit,
        last: Option<&Row>,
        columns: &mut [Column],
    ) -> Result<Row, ReplayError> {
        if self.record.len() > self.header.len() {
            return Err(self.bad(self.header.len(), "more fields than column names".to_owned()));
        }
        let time_ns = self.time(time, times)?;
        if let Some(last) = last.filter(|last| last.time_ns >= time_ns) {
            let order = if last.time_ns == time_ns { "the same as" } else { "earlier than" };
            return Err(
                self.bad(time, format!("the time is {order} the one before it; rows are in time order"))
            );
        }
        let step_ns = last.map_or(0, |last| time_ns - last.time_ns);
        let counters = columns.iter_mut().map(|column| self.counter(column, step_ns));
        Ok(Row { time_ns, counters_uj: counters.collect::<Result<_, _>>()? })
    }

    fn time(&self, place: usize, unit: TimeUnit) -> Result<u64, ReplayError> {
        match unit {
            TimeUnit::Nanoseconds => self.whole(place, "whole nanoseconds"),
            TimeUnit::Seconds => self.scaled(place, 1e9, "time in seconds, not negative"),
            // A double holds today's seconds to a quarter of a microsecond, which is finer than any meter's clock.
            TimeUnit::UnixSeconds => self.scaled(place, 1e9, "seconds since 1970"),
        }
    }

    fn counter(&self, column: &mut Column, step_ns: u64) -> Result<u64, ReplayError> {
        match column.unit {
            Unit::MicroJoules => self.whole(column.place, "whole microjoules"),
            Unit::Joules => self.scaled(column.place, 1e6, "joules, not negative"),
            Unit::Watts => {
                let power = MicroWatts::from_uw(self.scaled(column.place, 1e6, "watts, not negative")?);
                let before = column.last_power.replace(power).unwrap_or(power);
                let sum_uw = u128::from(before.as_uw()) + u128::from(power.as_uw());
                column.twice_energy = column.twice_energy.saturating_add(sum_uw * u128::from(step_ns));
                Ok(u64::try_from(column.twice_energy / 2_000_000_000).unwrap_or(u64::MAX))
            }
        }
    }

    fn whole(&self, place: usize, wanted: &str) -> Result<u64, ReplayError> {
        let text = self.field(place)?;
        text.parse().map_err(|_| self.bad(place, format!("it holds no number of {wanted}")))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the check")]
    fn scaled(&self, place: usize, scale: f64, wanted: &str) -> Result<u64, ReplayError> {
        let text = self.field(place)?;
        let number = text.parse::<f64>().ok().map(|n| n * scale);
        // Below 2^63, so that sums with other times and counters stay in range.
        let number = number.filter(|n| (0.0..9.2e18).contains(n));
        number.map(|n| n.round() as u64).ok_or_else(|| self.bad(place, format!("it holds no {wanted}")))
    }

    fn field(&self, place: usize) -> Result<&str, ReplayError> {
        match self.record.get(place) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.bad(place, "nothing where a number belongs".to_owned())),
        }
    }

    fn bad(&self, place: usize, what: String) -> ReplayError {
        let line = self.record.position().map_or(0, csv::Position::line);
        self.parser.bad(line, name_column(self.header, place), what)
    }
}

/// Bytes of a domain's name.
const LONGEST_NAME: usize = 32;

/// `2 (package-0_uj)`. A name that is no column's is not repeated: the file may be something else, which is not ours to show.
fn name_column(header: &csv::StringRecord, place: usize) -> String {
    let ours = |name: &&str| {
        let domain = parse_title(name).filter(|(name, _)| name.len() <= LONGEST_NAME);
        ["time_s", "time_ns", "unix_s"].contains(name)
            || domain.is_some_and(|(name, _)| parse_domain(name).is_some())
    };
    match header.get(place).filter(ours) {
        Some(name) => format!("{} ({name})", place + 1),
        None => (place + 1).to_string(),
    }
}

fn parse_title(title: &str) -> Option<(&str, Unit)> {
    let (name, unit) = title.rsplit_once('_')?;
    let unit = match unit {
        "uj" => Unit::MicroJoules,
        "j" => Unit::Joules,
        "w" => Unit::Watts,
        _ => return None,
    };
    (!name.is_empty()).then_some((name, unit))
}

/// What a domain of this name measures, and for whom.
fn parse_domain(name: &str) -> Option<(DomainClass, Scope)> {
    let (word, number) = match name.split_once('-') {
        Some((word, rest)) => (word, Some(rest.split('-').next()?.parse::<u32>().ok()?)),
        None => (name, None),
    };
    let socket = number.map_or(Scope::Machine, |n| Scope::Socket(SocketId::new(n)));
    match word {
        "package" | "cpu" => Some((DomainClass::Package, socket)),
        "dram" | "memory" => Some((DomainClass::Dram, socket)),
        "gpu" => Some((DomainClass::Gpu, Scope::Gpu(number.unwrap_or(0)))),
        "psys" | "wall" | "meter" | "machine" => Some((DomainClass::Psys, Scope::Machine)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
