//! What was found out about a GPU, and how its energy is split by that.
//!
//! Where a meter looks at a part of the time only, its counter strays by chance from what was taken (3 % in 20 s, for a look of 25 of 100 ms at a
//! program that rests now and then). Where the time of every kernel is known, its energy is its power times its time: the power from what the
//! meter looked at, the time from the records. What the counter has beyond that, or lacks, is nobody's, and stands in the ledger. Leaves out what
//! is learned (`launch_energies`), and from what (the room itself).

use super::batches::{Batches, Stretch};
use super::charge::{Charged, Known, Learned};
use super::constants::{BLOCK_SECONDS, FEWEST_WINDOWS, MEANS, UNLIKELY};
use super::features::Features;
use super::launch_energies::{Fit, Problem, over_time};
use super::meter::{Meter, Step, Window};
use super::misfit::misfit;
use super::sensor_blind_spot::SensorBlindSpot;
use super::split::{Costs, Split, Splitter, Total};
use super::uncertainty::{Certain, Uncertainty, uncertainty};
use crate::time::owners::OTHER;
use energy_trace_model::profile::diagnostics::GpuMisfit;
use energy_trace_model::units::MicroJoules;

/// What was found out about a GPU before its energy is split.
pub(super) struct Estimate {
    pub(super) columns: Features,
    pub(super) batches: Batches,
    pub(super) windows: Vec<Window>,
    pub(super) meter: Meter,
    pub(super) prior: Vec<f64>,
    pub(super) known: Known,
    pub(super) problem: Problem,
    pub(super) fit: Fit,
    /// What the fit would have been, had things been executed otherwise, and what each counts for.
    pub(super) others: Vec<(f64, Vec<f64>)>,
    pub(super) steps: Vec<Step>,
    /// Energy above idle of each step.
    pub(super) dynamic: Vec<MicroJoules>,
    pub(super) idle: MicroJoules,
    /// Whether what the meter shows is the device's alone, and launches ran one after the other or were timed.
    pub(super) alone: bool,
    /// Whether records tell when everything ran that was launched.
    pub(super) timed: bool,
    /// How much of each column's launches the others' do not tell, in parts of them; empty where it is known when each was executed.
    pub(super) apart: Vec<f64>,
}

impl Estimate {
    /// Splits the energy.
    pub(super) fn finish(self, owners: usize) -> Charged {
        let Self { problem, fit, others, .. } = &self;
        let believed = self.columns.len() < 2 || problem.predicts_better(fit);
        let over_time = over_time(problem, fit);
        let several = self.columns.len() >= 2;
        let misfit = misfit(problem, &self.windows, &over_time, self.known.by_records()).filter(|_| several);
        let costs = self.costs(over_time, believed);
        // What is a mean holds work that is half of it older.
        let Meter { late, mean, .. } = self.meter;
        let shown = Meter { late: late + mean / 2.0, ..Meter::PROMPT };
        let shown: Vec<Stretch> = self.steps.iter().map(|step| shown.looked(step.time)).collect();
        let noise = believed.then(|| self.watts_of(fit.noise));
        let counted = self.split((&costs, noise), &shown, owners, Total::Counted);
        let unseen = self.unseen(&costs, &shown).relative(self.columns.len());
        let predict = |shown: &[Stretch]| self.split((&costs, noise), shown, owners, Total::Predicted);
        let predicted = self.is_predicted(believed) && self.explains(&unseen, &predict(&shown));
        let predicted = predicted.then(|| predict(&self.all_of(&shown)));
        let sound = believed && self.alone && misfit.is_none();
        let certain = Certain { believed: sound, timed: self.known.by_records(), apart: &self.apart };
        let total = if predicted.is_some() { Total::Predicted } else { Total::Counted };
        let mut sure = uncertainty(problem, fit, others, certain, total);
        if total == Total::Counted {
            sure.add(&unseen);
            sure.add(&self.unobserved(&costs, &shown));
        }
        let Split { of_owner, residual, negative, unobserved } = predicted.unwrap_or(counted);
        let prior = Costs(vec![(0.0, self.prior.clone())]);
        let mut by_prior = self.split((&prior, None), &shown, owners, Total::Counted).of_owner;
        by_prior[OTHER as usize] = MicroJoules::ZERO;
        Charged {
            certainty: sure.of_owners(self.columns_of(owners)),
            learned: self.learned(&sure, believed, misfit),
            of_owner,
            by_prior,
            residual,
            negative,
            unobserved,
            idle: self.idle,
        }
    }

    /// Whether what launches took is known better than what the counter shows of it: all of their times are known, and the meter looks at some of
    /// them only (the regression estimator of survey sampling: Cochran, Sampling techniques, 1977, §7), or shows them so late that it misses some.
    fn is_predicted(&self, believed: bool) -> bool {
        let partial = self.meter.duty < 1.0 || self.meter.mean > 0.0;
        self.timed && partial && believed && self.alone && self.windows.len() >= FEWEST_WINDOWS
    }

    /// The same stretches, the first and the last of which reach as far as anything ran that the counter would have shown a step later: that has its
    /// time, though it was not read any more.
    fn all_of(&self, shown: &[Stretch]) -> Vec<Stretch> {
        let mut shown = shown.to_vec();
        let Some(extent) = self.batches.extent() else { return shown };
        let behind = self.meter.late.max(0.0) + self.meter.mean;
        if let Some(first) = shown.first_mut() {
            first.from = first.from.min(extent.from.max(first.from - behind));
        }
        if let Some(last) = shown.last_mut() {
            last.until = last.until.max(extent.until.min(last.until + behind + last.length()));
        }
        shown
    }

    /// Relative covariance of columns' energies by what ran so late that the meter had not shown it yet when it was read last: the counter's
    /// sum lacks that.
    fn unobserved(&self, costs: &Costs, shown: &[Stretch]) -> Vec<f64> {
        let n = self.columns.len();
        let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return vec![0.0; n * n] };
        let joules = |from: f64, until: f64| {
            let (mut joules, costs) = (vec![0.0; n], costs.at(until));
            self.batches.between(from, until, |cell, units| {
                joules[cell.column] += units * costs.get(cell.column).copied().unwrap_or(0.0);
            });
            joules
        };
        let told = joules(first.from, last.until);
        let after = joules(last.until, self.batches.extent().map_or(last.until, |extent| extent.until));
        let part = |c: usize| after[c] / told[c].max(1e-12);
        (0..n * n).map(|at| part(at / n) * part(at % n)).collect()
    }

    /// Whether that the meter does not look explains what the counter is off by; if not, there is something else, and the counter's word counts.
    fn explains(&self, unseen: &[f64], split: &Split) -> bool {
        let mut joules = vec![0.0; self.columns.len()];
        for (owner, &column) in self.columns_of(split.of_owner.len()).iter().enumerate() {
            joules[column] += split.of_owner[owner].as_joules();
        }
        let n = joules.len();
        let variance: f64 = (0..n * n).map(|at| joules[at / n] * joules[at % n] * unseen[at]).sum();
        // What a mean over time shows too late at the end, and of before the start.
        let all: f64 = self.steps.iter().map(|step| step.time.length()).sum();
        let late = joules.iter().sum::<f64>() * self.meter.mean / all.max(1e-9);
        split.unobserved.as_joules().abs() <= late + UNLIKELY * variance.max(0.0).sqrt()
    }

    fn split(
        &self,
        (costs, noise): (&Costs, Option<f64>),
        shown: &[Stretch],
        owners: usize,
        total: Total,
    ) -> Split {
        let partial = self.meter.duty < 1.0 || self.meter.mean > 0.0;
        let block = self.block();
        Splitter { batches: &self.batches, costs, shown, block, partial, noise, total }
            .split(&self.dynamic, owners)
    }

    fn unseen<'a>(&'a self, costs: &'a Costs, shown: &'a [Stretch]) -> SensorBlindSpot<'a> {
        let Self { batches, meter, steps, .. } = self;
        SensorBlindSpot { batches, costs, meter: *meter, steps, shown, block: self.block() }
    }

    /// Seconds that are shared out together.
    fn block(&self) -> f64 {
        let Meter { mean, duty, .. } = self.meter;
        BLOCK_SECONDS.max(MEANS * mean) / (duty * duty)
    }

    /// What launches cost: what was learned, if it is believed.
    fn costs(&self, over_time: Vec<(usize, Vec<f64>)>, believed: bool) -> Costs {
        if !believed {
            return Costs(vec![(f64::INFINITY, self.prior.clone())]);
        }
        let joules =
            |parts: Vec<f64>| parts.iter().zip(&self.prior).map(|(part, prior)| part * prior).collect();
        let until = |window: usize| self.windows.get(window).map_or(f64::INFINITY, |window| window.time.from);
        Costs(over_time.into_iter().map(|(window, parts)| (until(window), joules(parts))).collect())
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

    fn learned(&self, sure: &Uncertainty, believed: bool, misfit: Option<GpuMisfit>) -> Learned {
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
            misfit,
            known: self.known,
            groups: sure.groups.iter().map(|group| group.iter().map(name).collect()).collect(),
        }
    }
}
