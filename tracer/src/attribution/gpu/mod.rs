//! A GPU's joules by the stacks that launched its work.
//!
//! A counter steps every 20 to 100 ms, and kernels take microseconds. In the kernel tier it is known when each of them ran; in the launch tier
//! no durations are known, only how many of each were launched when. So the power of each kernel, or the energy of a launch of it, is
//! learned from the run itself, by regression of the counter's steps on what ran, or was launched, in them:
//!
//! 1. `columns`: launches that are expected to take the same energy each.
//! 2. `busy`: what ran when, where records tell; `drain`: when queued launches were executed, and how long each took, where waits tell.
//! 3. `meter` and `energies`: how late the meter is and what part of each step it looks at; what a launch costs.
//! 4. `idle`: what the GPU draws beyond its baseline whenever nothing runs, because a program has it open.
//! 5. `split`: each interval's energy by what its launches are predicted to take, in integers. The sum is the counter's, exactly.
//! 6. `sureness`, `unseen`: how sure that is, and which kernels cannot be told apart.
//!
//! Launches of a capture execute nothing and are not recorded; replays of a graph are recorded as launches of what was captured. The launch tier
//! takes several streams for one queue. Another process that works at the same time all the time cannot be told from the target: only what is
//! far beyond its launches is seen to be another's.

mod batches;
mod busy;
mod columns;
mod drain;
mod energies;
mod idle;
mod meter;
mod scope;
mod split;
mod sureness;
mod timed;
mod unseen;

use super::doubt_of_watts::OwnerCertainty;
use super::time::{CpuTime, OTHER, Owner, OwnerId, OwnerTime};
use crate::clock::KtimeNs;
use crate::ids::ThreadKey;
use crate::profile::record::{GpuWait, Launches};
use crate::profile::recording::Recording;
use crate::timeline::{EnergyInterval, Span};
use crate::units::MicroJoules;
use batches::{BLUR, Batch, Batches, Stretch};
use columns::{Cell, Columns};
use drain::Queue;
use energies::{BELIEF, Fit, Problem, find_meter, fit, fit_parts, over_time};
use meter::{Meter, Step, Window, steps_of, stretch_of, windows_of};
use split::{Costs, Split, Splitter};
use std::collections::BTreeSet;
use sureness::{IDENTIFIED, IDENTIFIED_BY_TIME, Sureness, sureness};
use unseen::Unseen;

/// Seconds that are shared out together, for a meter that looks all the time.
const BLOCK: f64 = 1.0;
/// What the driver's averaged power is a mean over, in seconds (nvml.h on `nvmlDeviceGetPowerUsage`, Ampere and later).
const AVERAGE: f64 = 1.0;
/// Seconds that are shared out together for such a meter, in its means.
const MEANS: f64 = 4.0;

/// The owner of every launch.
#[derive(Debug, Default)]
pub(super) struct Launchers {
    /// In the order of `GpuWork::launches`.
    pub(super) of_batches: Vec<Vec<OwnerId>>,
    /// In the order of `GpuWork::busy`.
    pub(super) of_busy: Vec<OwnerId>,
}

/// What the time of a kernel is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Known {
    /// Nothing: every launch of one kernel is like the other.
    #[default]
    Launches,
    /// Waits for the GPU.
    Waits,
    /// Records of the driver.
    Records {
        /// The part of the busy time in which several kernels ran at once.
        crowded: f64,
        /// Whether each of those counts with its whole time.
        whole: bool,
    },
}

/// What a GPU's energy above idle became.
pub(super) struct Charged {
    /// By owner; `OTHER` has what other processes took.
    pub(super) of_owner: Vec<MicroJoules>,
    /// The same by what was believed before: every launch alike, or by its duration.
    pub(super) by_prior: Vec<MicroJoules>,
    pub(super) residual: MicroJoules,
    pub(super) negative: MicroJoules,
    /// What the GPU drew beyond its baseline because it was open.
    pub(super) idle: MicroJoules,
    pub(super) certainty: OwnerCertainty,
    pub(super) learned: Learned,
}

/// What the reader has to know about the regression.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Kinds of launches, and windows that they were learned from.
    pub(super) kinds: usize,
    pub(super) windows: usize,
    /// Whether what was learned predicts better than equal energies.
    pub(super) believed: bool,
    pub(super) condition: f64,
    /// How late the meter is, in seconds, and the part of each step that it looks at.
    pub(super) late: f64,
    pub(super) duty: f64,
    /// Seconds over which what it says is a mean; 0: it is none.
    pub(super) mean: f64,
    /// Whether what it shows is the device's alone, and launches ran one after the other or were timed.
    pub(super) alone: bool,
    pub(super) known: Known,
    /// Names of what cannot be told apart.
    pub(super) groups: Vec<Vec<String>>,
}

/// Makes an owner of everybody who launched something. Call it before owners are refined.
pub(super) fn enlist(recording: &Recording, time: &mut CpuTime) {
    let launched = recording.gpu.launches.iter().flat_map(|batch| &batch.work);
    let busy = recording.gpu.busy.iter().map(|busy| (busy.thread, busy.stack));
    let whose: BTreeSet<_> = launched.map(|launched| (launched.thread, launched.stack)).chain(busy).collect();
    let known: BTreeSet<_> = time
        .owners
        .iter()
        .filter_map(|owner| match owner.owner {
            Owner::Target(thread, Some(stack)) => Some((thread, stack)),
            _ => None,
        })
        .collect();
    let new = whose.difference(&known).map(|&(thread, stack)| Owner::Target(thread, Some(stack)));
    time.owners.extend(new.map(|owner| OwnerTime { owner, time_ns: 0, samples: 0 }));
}

/// A GPU's side of a recording.
pub(super) struct Gpu<'a> {
    pub(super) recording: &'a Recording,
    pub(super) device: u32,
    pub(super) launchers: &'a Launchers,
    pub(super) start: KtimeNs,
    pub(super) intervals: &'a [EnergyInterval],
}

impl Gpu<'_> {
    /// Charges a GPU's energy above idle (`dynamic`, one for each interval); `None` where nothing was launched on it.
    pub(super) fn charge(&self, dynamic: &[MicroJoules], owners: usize) -> Option<Charged> {
        let timed = self.recording.gpu.busy.iter().any(|busy| busy.device == self.device);
        if timed { self.charge_by_time(dynamic, owners) } else { self.charge_by_launches(dynamic, owners) }
    }

    fn charge_by_launches(&self, dynamic: &[MicroJoules], owners: usize) -> Option<Charged> {
        let columns = Columns::of(self.recording, self.launches().map(|(batch, _)| batch));
        if columns.len() == 0 {
            return None;
        }
        let mut list = self.batches(self.launches(), &columns, 1.0);
        let queue = Queue::new(&list, &self.waits(|_| true), columns.len());
        let durations = queue.durations.clone();
        queue.drain(&mut list, durations.as_deref());
        let (known, belief) = match durations {
            Some(_) => (Known::Waits, BELIEF.0),
            None => (Known::Launches, BELIEF.1),
        };
        let shape = durations.unwrap_or_else(|| vec![1.0; columns.len()]);
        let executed = Executed { columns, shape, belief, known };
        let first = list.clone();
        let others = queue.others.iter().map(|durations| {
            queue.drain(&mut list, Some(durations));
            list.clone()
        });
        Some(self.learn(executed, first, others, dynamic).finish(owners))
    }

    /// What is launched on the device, and by whom.
    fn launches(&self) -> impl Iterator<Item = (&Launches, &Vec<OwnerId>)> {
        let all = self.recording.gpu.launches.iter().zip(&self.launchers.of_batches);
        all.filter(|(batch, _)| batch.device == self.device)
    }

    /// Learns from what was executed; `others` is what else may have been executed when.
    fn learn(
        &self,
        executed: Executed,
        list: Vec<Batch>,
        others: impl Iterator<Item = Vec<Batch>>,
        dynamic: &[MicroJoules],
    ) -> Found {
        let Executed { columns, shape, belief, known } = executed;
        let batches = Batches::new(list);
        let steps = steps_of(self.intervals, self.start);
        let mut dynamic = dynamic.to_vec();
        let mean = if self.is_averaged() { AVERAGE } else { 0.0 };
        let (mut windows, mut prior) = learnable(&steps, &dynamic, &batches, &shape);
        let mut meter = find_meter(&windows, &batches, &prior, belief, mean);
        let idle = idle::take(&steps, self.intervals, &windows, &batches, meter, &mut dynamic);
        if idle > MicroJoules::ZERO {
            (windows, prior) = learnable(&steps, &dynamic, &batches, &shape);
            meter = find_meter(&windows, &batches, &prior, belief, mean);
        }
        let problem = Problem::new(&windows, &batches, meter, &prior, belief);
        let fit = fit(&problem);
        let other = |list| fit_parts(&Problem::new(&windows, &Batches::new(list), meter, &prior, belief));
        let others = others.map(other).collect();
        // Launches in several streams are no queue; where kernels are timed that does no harm.
        let alone = self.is_alone() && (matches!(known, Known::Records { .. }) || self.is_one_queue());
        Found {
            columns,
            batches,
            windows,
            meter,
            prior,
            known,
            problem,
            fit,
            others,
            steps,
            dynamic,
            idle,
            alone,
        }
    }

    /// Launches as cells; `scale` is what units of columns are multiplied by.
    fn batches<'b>(
        &self,
        launches: impl Iterator<Item = (&'b Launches, &'b Vec<OwnerId>)>,
        columns: &Columns,
        scale: f64,
    ) -> Vec<Batch> {
        let batch = |(batch, owners): (&Launches, &Vec<OwnerId>)| {
            let launched = stretch_of(Span::new(batch.from, batch.until), self.start);
            let cells = batch.work.iter().zip(owners).filter_map(|(work, &owner)| {
                let cell = columns.cell(self.recording, work, owner)?;
                Some(Cell { units: scale * cell.units, ..cell })
            });
            Batch { launched, executed: launched, blur: BLUR, cells: cells.collect() }
        };
        launches.map(batch).collect()
    }

    /// Waits of some threads.
    fn waits(&self, of: impl Fn(ThreadKey) -> bool) -> Vec<Stretch> {
        let all = self.recording.gpu.waits.iter();
        let of_device = all.filter(|wait| wait.device == self.device && of(wait.thread));
        let stretch = |wait: &GpuWait| Span::new(wait.from, wait.until);
        of_device.map(|wait| stretch_of(stretch(wait), self.start)).collect()
    }
}

/// Windows to learn from, and joules of a unit of each column if all power were the same (or all launches, where no durations are known).
fn learnable(
    steps: &[Step],
    dynamic: &[MicroJoules],
    batches: &Batches,
    shape: &[f64],
) -> (Vec<Window>, Vec<f64>) {
    let windows = windows_of(steps, dynamic);
    let mut work = 0.0;
    for batch in &batches.list {
        work += batch.cells.iter().map(|cell| cell.units * shape[cell.column]).sum::<f64>();
    }
    let joules: f64 = windows.iter().map(|window| window.joules).sum();
    let each = (joules / work.max(1e-12)).max(1e-9);
    (windows, shape.iter().map(|part| part * each).collect())
}

/// What was executed, but for when.
struct Executed {
    columns: Columns,
    /// Seconds of a unit of each column, or ones.
    shape: Vec<f64>,
    /// How sure it is beforehand that all power is the same.
    belief: f64,
    known: Known,
}

/// What was found out about a GPU before its energy is split.
struct Found {
    columns: Columns,
    batches: Batches,
    windows: Vec<Window>,
    meter: Meter,
    prior: Vec<f64>,
    known: Known,
    problem: Problem,
    fit: Fit,
    /// What the fit would have been, had things been executed otherwise.
    others: Vec<Vec<f64>>,
    steps: Vec<Step>,
    /// Energy above idle of each step.
    dynamic: Vec<MicroJoules>,
    idle: MicroJoules,
    /// Whether what the meter shows is the device's alone, and launches ran one after the other or were timed.
    alone: bool,
}

impl Found {
    fn finish(self, owners: usize) -> Charged {
        let Self { problem, fit, others, steps, .. } = &self;
        let believed = self.columns.len() < 2 || problem.predicts_better(fit);
        let identified =
            if matches!(self.known, Known::Records { .. }) { IDENTIFIED_BY_TIME } else { IDENTIFIED };
        let mut sure = sureness(problem, fit, others, believed && self.alone, identified);
        let costs = self.costs(problem, fit, believed);
        let noise = believed.then(|| self.watts_of(fit.noise));
        // What is a mean holds work that is half of it older.
        let Meter { late, mean, duty } = self.meter;
        let shown = Meter { late: late + mean / 2.0, ..Meter::PROMPT };
        let shown: Vec<Stretch> = steps.iter().map(|step| shown.looked(step.time)).collect();
        let block = BLOCK.max(MEANS * mean) / (duty * duty);
        let split = |costs: &Costs, noise| {
            let partial = duty < 1.0 || mean > 0.0;
            let splitter = Splitter { batches: &self.batches, costs, shown: &shown, block, partial, noise };
            splitter.split(&self.dynamic, owners)
        };
        let unseen =
            Unseen { batches: &self.batches, costs: &costs, meter: self.meter, steps, shown: &shown, block };
        sure.add(&unseen.relative(self.columns.len()));
        let Split { of_owner, residual, negative } = split(&costs, noise);
        let mut by_prior = split(&Costs(vec![(0.0, self.prior.clone())]), None).of_owner;
        by_prior[OTHER as usize] = MicroJoules::ZERO;
        Charged {
            certainty: sure.of_owners(self.columns_of(owners)),
            learned: self.learned(&sure, believed),
            of_owner,
            by_prior,
            residual,
            negative,
            idle: self.idle,
        }
    }

    /// What launches cost: what was learned, if it is believed.
    fn costs(&self, problem: &Problem, fit: &Fit, believed: bool) -> Costs {
        if !believed {
            return Costs(vec![(f64::INFINITY, self.prior.clone())]);
        }
        let joules =
            |parts: Vec<f64>| parts.iter().zip(&self.prior).map(|(part, prior)| part * prior).collect();
        let until = |window: usize| self.windows.get(window).map_or(f64::INFINITY, |window| window.time.from);
        let over_time = over_time(problem, fit).into_iter();
        Costs(over_time.map(|(window, parts)| (until(window), joules(parts))).collect())
    }

    /// A window's joules as watts.
    fn watts_of(&self, joules: f64) -> f64 {
        let all: f64 = self.windows.iter().map(|window| window.time.length()).sum();
        joules * self.windows.len() as f64 / all.max(1e-9)
    }

    /// The column in which each owner launched most.
    fn columns_of(&self, owners: usize) -> Vec<usize> {
        let mut most = vec![(0, 0.0); owners];
        for cell in self.batches.list.iter().flat_map(|batch| &batch.cells) {
            if let Some(best) = most.get_mut(cell.owner as usize).filter(|best| cell.units > best.1) {
                *best = (cell.column, cell.units);
            }
        }
        most.into_iter().map(|(column, _)| column).collect()
    }

    fn learned(&self, sure: &Sureness, believed: bool) -> Learned {
        let name = |&column: &usize| self.columns.names[column].clone();
        Learned {
            kinds: self.columns.len(),
            windows: self.windows.len(),
            believed,
            condition: sure.condition,
            late: self.meter.late,
            duty: self.meter.duty,
            mean: self.meter.mean,
            alone: self.alone,
            known: self.known,
            groups: sure.groups.iter().map(|group| group.iter().map(name).collect()).collect(),
        }
    }
}
