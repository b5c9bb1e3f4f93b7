//! Joules per unit of work on the screen of `top`: of the last window, and from the first unit to the last so
//! far.
//!
//! ```text
//!  readings   ──0──0──2──5─│─5──5─│─9─ ✗ ──1──3──4──     │: a window ends; ✗: nobody answered
//!  counted            [─3────────4──]         [─1─]       energy behind the last move waits for the next
//! ```
//!
//! A window of which no energy is known ends that, as if the counter had been gone. As in reports, but for the unit that was under way when a counter moved for the first time, whose begin
//! nobody knows here: it is left out.

use super::run;
use super::table_cells::in_unit;
use super::work::number;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{OverTime, Profile};
use energy_trace_model::recording::record::{WorkFailure, WorkReading, WorkSource, WorkUnits};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use energy_trace_sentences::work_failure;

/// That calls are none, for whoever looks at a screen: of a program that was started, and of one that ran already.
const NO_FUNCTION: &str = "no such function yet (Python: from 3.12 on; of a library: NAME@LIBRARY)";
const NO_MACHINE_CODE: &str = "no such machine code yet (Python: counted only if started by top)";

/// What was done, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    units: WorkUnits,
    energy: MicroJoules,
}

/// What is known of a counter's last number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    /// There is none.
    #[default]
    Unknown,
    /// It has not moved yet.
    Still(WorkUnits),
    /// It has, and so much energy was used since.
    Moved(WorkUnits, MicroJoules),
}

/// One counter, window after window.
#[derive(Debug, Default)]
pub(crate) struct WorkSoFar {
    name: String,
    /// Whether it counts calls.
    is_calls: bool,
    /// Whether the program ran already.
    is_attached: bool,
    last: Last,
    failure: Option<WorkFailure>,
    /// Whether no energy of the last window is known.
    is_dark: bool,
    all: Done,
    now: Done,
}

impl WorkSoFar {
    /// Adds a window to each of its counters.
    pub(crate) fn add_window(counters: &mut Vec<Self>, profile: &Profile, over_time: &OverTime) {
        for (at, work) in profile.work.iter().enumerate() {
            if counters.len() <= at {
                let name = shown(&work.series.counter.name).into_owned();
                let is_calls = matches!(work.series.counter.source, WorkSource::Calls(_));
                let is_attached = profile.run.header.command.is_empty();
                counters.push(Self { name, is_calls, is_attached, ..Self::default() });
            }
            counters.get_mut(at).into_iter().for_each(|counter| counter.add(work, profile, over_time));
        }
    }

    fn add(&mut self, work: &Work, profile: &Profile, over_time: &OverTime) {
        self.now = Done::default();
        let (before_window, failure) = (self.all, self.failure.clone());
        let (start, end) = (profile.run.start, profile.run.end);
        // A reading at the start was in the window before; calls' at the end is made up of what was read later.
        let is_read = |at: KtimeNs| at < end || (at == end && !self.is_calls);
        let is_new = |reading: &&WorkReading| start < reading.at && is_read(reading.at);
        let readings: Vec<&WorkReading> = work.series.readings.iter().filter(is_new).collect();
        let moments: Vec<KtimeNs> = readings.iter().map(|reading| reading.at).chain([end]).collect();
        let choice = run::headline(profile);
        let used = over_time.energy_until(&moments);
        let used: Vec<MicroJoules> = used.iter().map(|used| run::chosen(used, choice)).collect();
        let is_told = matches!(work.series.counter.source, WorkSource::Stdout(_));
        let mut before = MicroJoules::ZERO;
        for (reading, used) in readings.into_iter().zip(&used) {
            self.pass(*used - before);
            self.read(&reading.value, is_told);
            before = *used;
        }
        self.pass(used.last().map_or(MicroJoules::ZERO, |all| *all - before));
        self.is_dark = run::split_quality(profile, choice).is_none();
        if self.is_dark {
            (self.now, self.all, self.last) = (Done::default(), before_window, Last::Unknown);
        }
        if self.is_calls {
            // A reason is told once.
            let is_told = work.found.failure.is_some() || work.found.read > 0;
            self.failure = if is_told { work.found.failure.clone() } else { failure };
        }
    }

    /// Time passes, in which so much is used.
    fn pass(&mut self, energy: MicroJoules) {
        if let Last::Moved(_, since) = &mut self.last {
            *since += energy;
        }
    }

    /// `is_told`: a number that is printed is one that has just moved.
    fn read(&mut self, value: &Result<WorkUnits, WorkFailure>, is_told: bool) {
        self.failure = value.as_ref().err().cloned();
        let &Ok(units) = value else {
            self.last = Last::Unknown;
            return;
        };
        let begun = if is_told { Last::Moved(units, MicroJoules::ZERO) } else { Last::Still(units) };
        self.last = match self.last {
            Last::Unknown => begun,
            Last::Still(before) | Last::Moved(before, _) if units < before => begun,
            Last::Still(before) if units > before => Last::Moved(units, MicroJoules::ZERO),
            Last::Moved(before, energy) if units > before => {
                self.count(units.checked_sub(before).unwrap_or_default(), energy);
                Last::Moved(units, MicroJoules::ZERO)
            }
            still => still,
        };
    }

    fn count(&mut self, units: WorkUnits, energy: MicroJoules) {
        for done in [&mut self.all, &mut self.now] {
            done.units = done.units.saturating_add(units);
            done.energy += energy;
        }
    }

    /// `token: 0.31 J each now, 0.35 J each of 1,234 so far`.
    pub(crate) fn line(&self) -> String {
        let each = |done: &Done| Some(in_unit(done.units.uj_each(done.energy)? / 1e6, "J"));
        let why = self.failure.as_ref().map(|failure| match failure {
            WorkFailure::Missing if self.is_calls && self.is_attached => NO_MACHINE_CODE.to_owned(),
            WorkFailure::Missing if self.is_calls => NO_FUNCTION.to_owned(),
            failure => format!("no number: {}", work_failure(failure)),
        });
        let now = each(&self.now).map(|each| format!("{each} each now"));
        let all = each(&self.all).map(|each| format!("{each} each of {} so far", number(self.all.units)));
        let why = why.or_else(|| self.is_dark.then(|| "joules unknown: no energy was measured".to_owned()));
        let is_silent = now.is_none() && why.is_none();
        let words = [now, why, is_silent.then(|| "none now".to_owned()), all];
        format!("{}: {}", self.name, words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// `0.35 J per token: 1,234`; nothing where nothing was done.
    pub(crate) fn last_line(&self) -> Option<String> {
        let each = in_unit(self.all.units.uj_each(self.all.energy)? / 1e6, "J");
        Some(format!("{each} per {}: {}", self.name, number(self.all.units)))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        KtimeNs, Last, MicroJoules, OverTime, WorkFailure, WorkReading, WorkSoFar, WorkSource, WorkUnits,
    };
    use crate::tests::training_runs::measured_training;
    use crate::tests::work::counted as work;

    /// Reads numbers with 10 J before each; what is counted of all, in units and joules.
    fn counted(numbers: &[Option<u64>], is_told: bool) -> (WorkSoFar, f64, f64) {
        let mut so_far = WorkSoFar { name: "token".into(), ..WorkSoFar::default() };
        for number in numbers {
            so_far.pass(MicroJoules::from_uj(10_000_000));
            so_far.read(&number.map(WorkUnits::whole).ok_or(WorkFailure::Missing), is_told);
        }
        let (units, joules) = (so_far.all.units.as_number(), so_far.all.energy.as_joules());
        (so_far, units, joules)
    }

    /// Energy is counted from the first move to the last; a number that falls, or is gone, begins anew, and
    /// what lies between is in neither.
    #[test]
    fn moves() {
        let of = |numbers: &[Option<u64>], is_told| {
            let (_, units, joules) = counted(numbers, is_told);
            (units, joules)
        };
        assert_eq!(of(&[], false), (0.0, 0.0));
        let moving = [0, 0, 2, 5, 5, 5, 9, 9].map(Some);
        assert_eq!((of(&moving, false), of(&moving[..3], false)), ((7.0, 40.0), (0.0, 0.0)));
        assert_eq!(of(&[2, 5, 9].map(Some), true), (7.0, 20.0));
        assert_eq!(of(&[1, 2, 5, 0, 1, 3].map(Some), false), (3.0 + 2.0, 20.0));
        let gone = [Some(1), Some(2), Some(5), None, Some(6), Some(7), Some(9)];
        assert_eq!(of(&gone, false), (3.0 + 2.0, 20.0));
        let (waiting, ..) = counted(&[0, 2, 5, 5].map(Some), false);
        assert_eq!(waiting.last, Last::Moved(WorkUnits::whole(5), MicroJoules::from_uj(10_000_000)));
    }

    /// Of a window of which no energy is known nothing is counted, and zero joules are shown of none.
    #[test]
    fn dark_windows() {
        let mut profile = measured_training();
        profile.work = vec![work(&profile, "token", 1)];
        let readings = (0..10).map(|n| WorkReading {
            at: KtimeNs::from_ns(profile.run.start.as_ns() + 1 + n),
            within_ns: 0,
            value: Ok(WorkUnits::whole(n)),
        });
        profile.work[0].series.readings = readings.collect();
        let mut counters = Vec::new();
        WorkSoFar::add_window(&mut counters, &profile, &OverTime::default());
        assert_eq!(counters[0].all.units, WorkUnits::whole(8));
        profile.ledger.iter_mut().for_each(|row| row.measured = MicroJoules::ZERO);
        WorkSoFar::add_window(&mut counters, &profile, &OverTime::default());
        assert_eq!((counters[0].all.units, counters[0].last), (WorkUnits::whole(8), Last::Unknown));
        assert!(counters[0].line().starts_with("token: joules unknown: "), "{}", counters[0].line());
    }

    /// Why calls have no number is told once, and shown until there is one.
    #[test]
    fn calls_that_nobody_counts() {
        let mut profile = measured_training();
        profile.work = vec![work(&profile, "step", 1)];
        profile.work[0].series.counter.source = WorkSource::Calls("step".into());
        profile.work[0].series.readings.clear();
        let mut counters = Vec::new();
        let mut line = |failure, read| {
            (profile.work[0].found.failure, profile.work[0].found.read) = (failure, read);
            WorkSoFar::add_window(&mut counters, &profile, &OverTime::default());
            counters[0].line()
        };
        for failure in [Some(WorkFailure::Missing), None, None] {
            let said = line(failure, 0);
            assert!(said.starts_with("step: no such function yet "), "{said}");
        }
        assert_eq!(line(None, 1), "step: none now");
    }

    /// What is shown: both numbers, that nothing was done in this window, and why there is no number.
    #[test]
    fn lines() {
        let (mut so_far, ..) = counted(&[1, 2, 6].map(Some), false);
        assert_eq!(so_far.line(), "token: 2.50 J each now, 2.50 J each of 4 so far");
        assert_eq!(so_far.last_line().unwrap(), "2.50 J per token: 4");
        so_far.now = <_>::default();
        assert_eq!(so_far.line(), "token: none now, 2.50 J each of 4 so far");
        so_far.read(&Err(WorkFailure::Missing), false);
        assert_eq!(so_far.line(), "token: no number: nothing is there, 2.50 J each of 4 so far");
        (so_far.is_calls, so_far.all) = (true, <_>::default());
        assert!(so_far.line().starts_with("token: no such function yet (Python: from 3.12 on; "));
        so_far.is_attached = true;
        assert!(so_far.line().starts_with("token: no such machine code yet (Python: counted only "));
        let (nothing, ..) = counted(&[], false);
        assert_eq!((nothing.line().as_str(), nothing.last_line()), ("token: none now", None));
    }
}
