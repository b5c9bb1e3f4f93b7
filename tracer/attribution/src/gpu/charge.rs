//! A GPU's side of a recording, and the order in which its energy is charged: what was launched, when it was
//! executed, what that shows of the meter and of energies. Leaves out each of these steps (the room's other
//! files), and times that records tell (`timed`).

use super::batches::{Batch, Batches, TimeRange, in_turn};
use super::constants::{AVERAGE, BLUR, PRIOR_SD};
use super::errors_in_variables::FeatureError;
use super::estimate::{Estimate, is_timed};
use super::features::{Cell, Features};
use super::idle;
use super::launch_energies::{Problem, find_meter, fit, fit_parts};
use super::meter::{Step, Window, steps_of, time_range_of, windows_of};
use super::queue_replay::{Apart, Queue};
use super::sample_and_hold::SampleAndHold;
use crate::time::launchers::Launchers;
use crate::time::owners::OwnerId;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::profile::diagnostics::SplitBy;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{GpuWait, Launches};
use energy_trace_model::units::MicroJoules;

/// A GPU's side of a recording.
pub(crate) struct Gpu<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) device: u32,
    pub(crate) launchers: &'a Launchers,
    pub(crate) start: KtimeNs,
    pub(crate) intervals: &'a [EnergyInterval],
    /// What the counter said after the recording's end, with the energy above idle.
    pub(crate) after: &'a [(EnergyInterval, MicroJoules)],
    /// Whether it is a window of an agent.
    pub(crate) in_windows: bool,
}

impl Gpu<'_> {
    /// What a GPU's energy above idle (`dynamic`, one for each interval) shows of what was launched; `None`
    /// where nothing was.
    pub(crate) fn estimate(&self, dynamic: &[MicroJoules]) -> Option<Estimate> {
        let timed = self.recording.gpu.busy.iter().any(|busy| busy.device == self.device);
        if timed { self.estimate_by_time(dynamic) } else { self.estimate_by_launches(dynamic) }
    }

    fn estimate_by_launches(&self, dynamic: &[MicroJoules]) -> Option<Estimate> {
        let columns = Features::of(self.recording, self.launches().map(|(batch, _)| batch));
        if columns.len() == 0 {
            return None;
        }
        let mut first = self.batches(self.launches(), &columns, 1.0);
        let shape = columns.shape(self.seconds_each(&columns));
        let queue = Queue::new(&first, &self.waits(|_| true), &shape);
        let durations = queue.durations.clone();
        queue.drain(&mut first, durations.as_deref());
        let (by, belief) = match durations {
            Some(_) => (SplitBy::Waits, PRIOR_SD.0),
            None => (SplitBy::Launches, PRIOR_SD.1),
        };
        let shape = durations.unwrap_or(shape);
        let apart = queue.apart.clone();
        let executed =
            LaunchModel { columns, shape: shape.clone(), belief, by, coarse: None, timed: false, apart };
        let others = queue.others.iter().map(|durations| {
            let mut list = first.clone();
            queue.drain(&mut list, Some(durations));
            (1.0 / queue.others.len() as f64, list)
        });
        // The truth lies anywhere between these two: a third of the square, of which each is one half.
        let orders = [false, true].into_iter();
        let orders = orders.map(|backwards| (1.0 / 6.0, in_turn(&first, &shape, backwards)));
        Some(self.learn(executed, first.clone(), others.chain(orders), dynamic))
    }

    /// What a launch has of the recording's time, in seconds.
    fn seconds_each(&self, columns: &Features) -> f64 {
        let ns: u64 = self.intervals.iter().map(|interval| interval.span.ns()).sum();
        ns as f64 / 1e9 / columns.counts.iter().sum::<f64>().max(1.0)
    }

    /// What is launched on the device, and by whom.
    pub(super) fn launches(&self) -> impl Iterator<Item = (&Launches, &Vec<OwnerId>)> {
        let all = self.recording.gpu.launches.iter().zip(&self.launchers.of_batches);
        all.filter(|(batch, _)| batch.device == self.device)
    }

    /// Learns from what was executed; `others` is what else may have been executed when, each with what it
    /// counts for.
    pub(super) fn learn(
        &self,
        executed: LaunchModel,
        list: Vec<Batch>,
        others: impl Iterator<Item = (f64, Vec<Batch>)>,
        dynamic: &[MicroJoules],
    ) -> Estimate {
        let LaunchModel { columns, shape, belief, by, coarse, timed, apart } = executed;
        let batches = Batches::new(list);
        let mean = if self.is_averaged() { AVERAGE } else { 0.0 };
        let SampleAndHold { intervals, mut dynamic, more } = self.steps_shown(dynamic);
        let steps = steps_of(&intervals, self.start);
        let shown = |dynamic: &[MicroJoules]| joules_shown(&steps, &intervals, dynamic, &more);
        let (mut windows, mut prior) = learnable(&steps, &shown(&dynamic), &batches, &shape);
        let mut meter = find_meter(&windows, &batches, &prior, belief, mean);
        let with_after = self.windows_with_after(&intervals, &dynamic);
        let open =
            idle::open_power(with_after.as_ref().unwrap_or(&windows), &batches, meter, self.most_idle());
        let take = |open| idle::take(&steps, &intervals, &batches, meter, open, &mut dynamic);
        let idle = open.map_or(MicroJoules::ZERO, take);
        if idle > MicroJoules::ZERO {
            (windows, prior) = learnable(&steps, &shown(&dynamic), &batches, &shape);
            meter = find_meter(&windows, &batches, &prior, belief, mean);
        }
        let mut problem = Problem::new(&windows, &batches, meter, &prior, belief);
        if let Some(coarse) = &coarse {
            problem = problem.with_errors(&windows, &batches, meter, (&prior, coarse));
        }
        let fit = fit(&problem);
        let other = |(weight, list)| {
            let batches = Batches::new(list);
            (weight, fit_parts(&Problem::new(&windows, &batches, meter, &prior, belief)))
        };
        let others = others.map(other).collect();
        // Launches in several streams are no queue; where kernels are timed that does no harm.
        let alone = self.is_alone() && (is_timed(by) || self.is_one_queue());
        Estimate {
            columns,
            batches,
            windows,
            meter,
            prior,
            by,
            problem,
            fit,
            others,
            steps,
            dynamic,
            idle,
            unknown: open.map_or_else(|| self.idle_in_doubt().max(self.open_in_doubt()), |open| open.doubt),
            most_watts: self.most_watts(open.map_or(0.0, |open| open.watts)),
            alone,
            timed,
            in_windows: self.in_windows,
            apart,
        }
    }

    /// What the counter shows, step by step.
    fn steps_shown(&self, dynamic: &[MicroJoules]) -> SampleAndHold {
        let held = self.is_averaged().then(|| SampleAndHold::of(self.intervals, dynamic)).flatten();
        let plain =
            || SampleAndHold { intervals: self.intervals.to_vec(), dynamic: dynamic.to_vec(), more: vec![] };
        held.unwrap_or_else(plain)
    }

    /// Windows of the recording and of what was read after its end, if anything was.
    fn windows_with_after(
        &self,
        intervals: &[EnergyInterval],
        dynamic: &[MicroJoules],
    ) -> Option<Vec<Window>> {
        // Who was attached to may work on, and its launches are not seen any more.
        let works_on = self.recording.header.command.is_empty();
        if works_on || self.after.is_empty() || self.is_averaged() {
            return None;
        }
        let after = self.after.iter().map(|(interval, _)| *interval);
        let intervals: Vec<EnergyInterval> = intervals.iter().copied().chain(after).collect();
        let dynamic = dynamic.iter().copied().chain(self.after.iter().map(|(_, energy)| *energy));
        let (steps, dynamic) = (steps_of(&intervals, self.start), dynamic.collect::<Vec<_>>());
        Some(windows_of(&steps, &joules_shown(&steps, &intervals, &dynamic, &[])))
    }

    /// Launches as cells; `scale` is what units of columns are multiplied by.
    pub(super) fn batches<'b>(
        &self,
        launches: impl Iterator<Item = (&'b Launches, &'b Vec<OwnerId>)>,
        columns: &Features,
        scale: f64,
    ) -> Vec<Batch> {
        let batch = |(batch, owners): (&Launches, &Vec<OwnerId>)| {
            let launched = time_range_of(Span::new(batch.from, batch.until), self.start);
            let cells = batch.work.iter().zip(owners).filter_map(|(work, &owner)| {
                let cell = columns.cell(self.recording, work, owner)?;
                Some(Cell { units: scale * cell.units, ..cell })
            });
            Batch { launched, executed: launched, blur: BLUR, cells: cells.collect() }
        };
        launches.map(batch).collect()
    }

    /// Waits of some threads.
    pub(super) fn waits(&self, of: impl Fn(ThreadKey) -> bool) -> Vec<TimeRange> {
        let all = self.recording.gpu.waits.iter();
        let of_device = all.filter(|wait| wait.device == self.device && of(wait.thread));
        let stretch = |wait: &GpuWait| Span::new(wait.from, wait.until);
        of_device.map(|wait| time_range_of(stretch(wait), self.start)).collect()
    }
}

/// What each step shows to learn from, in joules above idle: a step is as long as it was, and not as long as
/// it seemed by when it was read; where power is held, it is what that was held at.
fn joules_shown(
    steps: &[Step],
    intervals: &[EnergyInterval],
    dynamic: &[MicroJoules],
    more: &[f64],
) -> Vec<f64> {
    let of_step = |place: usize| {
        let joules = dynamic[place].as_joules();
        let seen = (intervals[place].span.ns() as f64 / 1e9).max(1e-9);
        let length = steps[place].time.length();
        match more.get(place) {
            Some(more) => (joules / seen + more) * length,
            None => {
                let counted = intervals[place].energy.as_joules();
                counted - (counted - joules) / seen * length
            }
        }
    };
    (0..steps.len()).map(of_step).collect()
}

/// Windows to learn from, and joules of a unit of each column if all power were the same (or all launches,
/// where no durations are known).
fn learnable(steps: &[Step], joules: &[f64], batches: &Batches, shape: &[f64]) -> (Vec<Window>, Vec<f64>) {
    let windows = windows_of(steps, joules);
    let mut work = 0.0;
    for batch in &batches.list {
        work += batch.cells.iter().map(|cell| cell.units * shape[cell.column]).sum::<f64>();
    }
    let joules: f64 = windows.iter().map(|window| window.joules).sum();
    let each = (joules / work.max(1e-12)).max(1e-9);
    (windows, shape.iter().map(|part| part * each).collect())
}

/// What was executed, but for when.
pub(super) struct LaunchModel {
    pub(super) columns: Features,
    /// Seconds of a unit of each column, or ones.
    pub(super) shape: Vec<f64>,
    /// How sure it is beforehand that all power is the same.
    pub(super) belief: f64,
    pub(super) by: SplitBy,
    /// How coarse each column is, where that is known.
    pub(super) coarse: Option<Vec<FeatureError>>,
    /// Whether records tell of everything.
    pub(super) timed: bool,
    /// How much of each column's launches the others' do not tell, in parts of them; empty where it is known
    /// when each was executed.
    pub(super) apart: Apart,
}
