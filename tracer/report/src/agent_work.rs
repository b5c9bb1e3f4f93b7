//! Units of work on an agent's page: what each counter grew by since the agent's start, in the order in which they were asked for.
//!
//! As Prometheus takes counters: one that falls began anew, and all of it counts; what one grew by while nobody
//! could read it counts when it is there again. Without a number now there is no series, not one that stands still.
//! Leaves out joules per unit, which whoever asks the page divides.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{TwoCounters, WorkFailure, WorkReading, WorkSeries, WorkUnits};
use energy_trace_names::shown::shown;
use energy_trace_sentences::work_failure;
use std::collections::BTreeSet;
use std::time::Duration;

/// A counter has a reading each half a second, or each 20 s where that takes much, or says why not.
const SILENCE: Duration = Duration::from_secs(30);

/// So many things are said of a window: a thousand counters of a server that ends are gone at once.
const SAID: usize = 5;

/// All counters.
#[derive(Clone, Debug, Default)]
pub struct WorkTotals {
    pub(crate) counters: Vec<Counted>,
}

/// A counter since the agent's start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) name: String,
    source: String,
    pub(crate) units: WorkUnits,
    pub(crate) restarts: u64,
    state: State,
    number: Option<WorkUnits>,
    two: TwoCounters,
    read: KtimeNs,
    /// Words for what was said of it.
    said: BTreeSet<&'static str>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// No reading has come.
    #[default]
    New,
    Moving,
    Still,
    Gone(WorkFailure),
}

impl WorkTotals {
    /// Adds a window that ends then. What is to be said of it.
    pub fn add(&mut self, window: &[WorkSeries], until: KtimeNs) -> Vec<String> {
        let mut said = self.add_all(window, until);
        let more = said.split_off(SAID.min(said.len())).len();
        said.extend(
            (more > 0)
                .then(|| format!("{more} more on --work: see energy_trace_work_state among the metrics")),
        );
        said
    }

    fn add_all(&mut self, window: &[WorkSeries], until: KtimeNs) -> Vec<String> {
        let new = window.get(self.counters.len()..).unwrap_or_default();
        let named = |series: &WorkSeries| Counted {
            name: series.counter.name.clone(),
            source: shown(&series.counter.source.words()).into_owned(),
            ..Counted::default()
        };
        self.counters.extend(new.iter().map(named));
        let all = self.counters.iter_mut().zip(window);
        all.flat_map(|(counter, series)| counter.add(&series.readings, until)).collect()
    }
}

impl Counted {
    fn add(&mut self, readings: &[WorkReading], until: KtimeNs) -> Vec<String> {
        let restarts = self.restarts;
        // One that has just come stands still in the next window at the soonest.
        let (mut has_moved, read) = (!self.is_there(), self.read);
        for reading in readings.iter().filter(|reading| read < reading.at && reading.at <= until) {
            self.read = reading.at;
            self.state = match &reading.value {
                value if self.two.take(value) => State::Gone(WorkFailure::of_two_counters()),
                Err(failure) => State::Gone(failure.clone()),
                Ok(number) => {
                    has_moved |= self.take(*number);
                    if has_moved { State::Moving } else { State::Still }
                }
            };
        }
        if self.is_there() && until.ns_since(self.read) > SILENCE.as_nanos() as u64 {
            self.state = State::Gone(WorkFailure::TimedOut);
        }
        self.news(self.restarts > restarts)
    }

    /// Whether it has moved.
    fn take(&mut self, number: WorkUnits) -> bool {
        let Some(before) = self.number.replace(number) else { return false };
        self.restarts += u64::from(number < before);
        self.units = self.units.saturating_add(number.since(before));
        number != before
    }

    /// Each kind of trouble once: its word, and what is said.
    fn news(&mut self, restarted: bool) -> Vec<String> {
        let state = match &self.state {
            State::Gone(why) => Some(("gone", format!("is not known: {}", work_failure(why)))),
            State::Still => Some(("still", "stood still for a window".to_owned())),
            State::New | State::Moving => None,
        };
        let restart = restarted.then(|| {
            ("restart", "began anew, or one of its series is gone: what it did since counts".to_owned())
        });
        let new = state.into_iter().chain(restart).filter(|(word, _)| self.said.insert(word));
        let (name, source) = (&self.name, &self.source);
        let say = |text| {
            format!(
                "--work {name}: the number of {source} {text}; this is said once, later see energy_trace_work_state among the metrics"
            )
        };
        new.map(|(_, text)| say(text)).collect()
    }

    /// Whether there is a number now.
    pub(crate) const fn is_there(&self) -> bool {
        matches!(self.state, State::Moving | State::Still)
    }

    /// Its word on the page; empty where nothing is known yet.
    pub(crate) const fn state(&self) -> &'static str {
        match &self.state {
            State::New => "",
            State::Moving => "moving",
            State::Still => "still",
            State::Gone(why) => why.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent_page::{Format, OwnCost, page};
    use super::super::agent_totals::Totals;
    use super::{KtimeNs, WorkFailure, WorkReading, WorkSeries, WorkUnits};
    use energy_trace_model::recording::record::{WorkCounter, WorkSource};

    const SECOND: u64 = 1_000_000_000;

    /// A window with these numbers, a tenth of a second each, that ends after so many seconds.
    fn add(totals: &mut Totals, seconds: u64, numbers: &[Option<u64>]) -> Vec<String> {
        let counter = WorkCounter { name: "to\"ken".into(), source: WorkSource::File("x".into()) };
        let reading = |(at, number): (u64, &Option<u64>)| WorkReading {
            at: KtimeNs::from_ns(at),
            within_ns: 0,
            value: number.map(WorkUnits::whole).ok_or(WorkFailure::Missing),
        };
        let readings = ((seconds - 1) * SECOND + 1..).step_by(1_000).zip(numbers).map(reading).collect();
        totals.work.add(&[WorkSeries { counter, readings }], KtimeNs::from_ns(seconds * SECOND))
    }

    /// Of very many counters that fail alike the first are told, and how many others there are.
    #[test]
    fn a_thousand_that_are_gone() {
        let counter =
            |number| WorkCounter { name: format!("n{number}"), source: WorkSource::File("x".into()) };
        let gone = WorkReading { at: KtimeNs::from_ns(1), within_ns: 0, value: Err(WorkFailure::Missing) };
        let series = |number| WorkSeries { counter: counter(number), readings: vec![gone.clone()] };
        let window: Vec<WorkSeries> = (0..1_000).map(series).collect();
        let mut totals = Totals::default();
        let said = totals.work.add(&window, KtimeNs::from_ns(SECOND));
        assert_eq!(said.len(), 6, "{said:?}");
        assert!(said[0].starts_with("--work n0: ") && said[5].starts_with("995 more "), "{said:?}");
        assert!(totals.work.add(&window, KtimeNs::from_ns(2 * SECOND)).is_empty());
    }

    /// Units, restarts and state on the page; -1 where there is no series of units.
    fn shown(totals: &Totals) -> (i64, i64, String) {
        let page = page(totals, &OwnCost::default(), Format::OpenMetrics);
        let of = |what: &str| {
            let start = format!("energy_trace_work_{what}{{work=\"to\\\"ken\"");
            page.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
        };
        let number = |what| of(what).map_or(-1, |rest| rest.trim_start_matches("} ").parse().unwrap());
        (number("units_total"), number("restarts_total"), of("state").unwrap_or_default())
    }

    /// Units are counted over windows, restarts and gaps; without a number there are none, and each trouble is said
    /// once.
    #[test]
    fn windows() {
        let mut totals = Totals::default();
        assert!(!page(&totals, &OwnCost::default(), Format::Text).contains("work_"));
        let mut check = |seconds, numbers: &[Option<u64>], expected: (i64, i64, &str), words: &str| {
            let said = add(&mut totals, seconds, numbers).concat();
            let (units, restarts, state) = shown(&totals);
            assert_eq!((units, restarts, state.split('"').nth(1).unwrap_or_default()), expected, "{seconds}");
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{seconds}: {said}");
        };
        check(1, &[], (-1, 0, ""), "");
        check(
            2,
            &[None],
            (-1, 0, "missing"),
            "--work to\"ken: the number of file:x is not known: nothing is there",
        );
        check(3, &[], (-1, 0, "missing"), "");
        check(4, &[Some(7), Some(9), Some(9)], (2, 0, "moving"), "");
        check(5, &[Some(9)], (2, 0, "still"), "stood still");
        check(6, &[Some(12), Some(4), Some(5)], (10, 1, "moving"), "began anew");
        check(7, &[Some(6), None], (-1, 1, "missing"), "");
        check(8, &[Some(9), Some(9)], (14, 1, "moving"), "");
        check(9, &[Some(9), Some(2), None], (-1, 2, "missing"), "");
        check(10, &[Some(2)], (16, 2, "moving"), "");
        check(39, &[], (16, 2, "moving"), "");
        check(40, &[], (-1, 2, "timed-out"), "");
        // Two servers that answer in turn are no counter any more.
        let in_turn = [9_000, 50, 9_010, 60, 9_020, 70, 9_030].map(Some);
        check(41, &in_turn, (-1, 5, "system"), "");
        check(42, &[Some(60), Some(70)], (-1, 5, "system"), "");
    }
}
