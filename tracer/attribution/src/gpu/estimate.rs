//! What was found out about a GPU, and how its energy is split by that.
//!
//! Where a meter looks at a part of the time only, its counter strays by chance from what was taken (3 % in
//! 20 s, for a look of 25 of 100 ms at a program that rests now and then). Where the time of every kernel is
//! known, its energy is its power times its time: the power from what the meter looked at, the time from the
//! records. What the counter has beyond that, or lacks, is nobody's, and stands in the ledger. Leaves out
//! what is learned (`launch_energies`), and from what (the room itself).

use super::batches::{Batches, TimeRange};
use super::constants::{BLOCK_SECONDS, FEWEST_WINDOWS, IDLE_UNKNOWN, MEANS, REACH, STEADY, UNLIKELY};
use super::features::Features;
use super::launch_energies::{Fit, Problem, over_time};
use super::meter::{Meter, Step, Window};
use super::misfit::misfit;
use super::queue_replay::Apart;
use super::sensor_blind_spot::SensorBlindSpot;
use super::split::{Costs, Splitter, Total};
use super::uncertainty::{Certain, Uncertainty, uncertainty};
use crate::ledger::result::{DomainResult, SplitBasis};
use crate::split::by_time::Shares;
use crate::time::owners::OTHER;
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::diagnostics::{GpuMisfit, GpuSplit, MeterFit, SplitBy};
use energy_trace_model::units::MicroJoules;

/// What was found out about a GPU before its energy is split.
pub(crate) struct Estimate {
    pub(super) columns: Features,
    pub(super) batches: Batches,
    pub(super) windows: Vec<Window>,
    pub(super) meter: Meter,
    pub(super) prior: Vec<f64>,
    pub(super) by: SplitBy,
    pub(super) problem: Problem,
    pub(super) fit: Fit,
    /// What the fit would have been, had things been executed otherwise, and what each counts for.
    pub(super) others: Vec<(f64, Vec<f64>)>,
    pub(super) steps: Vec<Step>,
    /// Energy above idle of each step.
    pub(super) dynamic: Vec<MicroJoules>,
    pub(super) idle: MicroJoules,
    /// Watts of the energy above that may be idle power as well.
    pub(super) unknown: f64,
    /// The most that the board draws beyond its idle power, in watts, if it says.
    pub(super) most_watts: Option<f64>,
    /// Whether what the meter shows is the device's alone, and launches ran one after the other or were
    /// timed.
    pub(super) alone: bool,
    /// Whether records tell when everything ran that was launched.
    pub(super) timed: bool,
    /// Whether it is a window of an agent, which has no bounds to say what cannot be told apart.
    pub(super) in_windows: bool,
    /// How much of each column's launches the others' do not tell, in parts of them; empty where it is known
    /// when each was executed.
    pub(super) apart: Apart,
}

impl Estimate {
    /// Splits the energy above idle among those who launched, and enters it.
    pub(crate) fn charge(&self, result: &mut DomainResult) {
        let Self { problem, fit, others, .. } = self;
        let owners = result.of_owner.len();
        let seconds = self.windows.iter().map(|window| window.time.length());
        let is_steady = || self.in_windows && problem.steady_part(fit, seconds) > STEADY;
        let believed = self.columns.len() < 2 || (problem.predicts_better(fit) && !is_steady());
        let over_time = over_time(problem, fit);
        let several = self.columns.len() >= 2;
        let misfit = misfit(problem, &self.windows, &over_time, is_timed(self.by)).filter(|_| several);
        let costs = self.costs(over_time, believed);
        // What is a mean holds work that is half of it older.
        let Meter { late, mean, .. } = self.meter;
        let shown = Meter { late: late + mean / 2.0, ..Meter::PROMPT };
        let shown: Vec<TimeRange> = self.steps.iter().map(|step| shown.looked(step.time)).collect();
        let noise = believed.then(|| self.watts_of(fit.noise));
        let counted = self.split((&costs, noise), &shown, owners, Total::Counted);
        let unseen = self.unseen(&costs, &shown).relative(self.columns.len());
        let predict = |shown: &[TimeRange]| self.split((&costs, noise), shown, owners, Total::Predicted);
        let predicted = self.is_predicted(believed) && self.explains(&unseen, &predict(&shown));
        let predicted = predicted.then(|| predict(&self.all_of(&shown)));
        let sound = believed && self.alone && misfit.is_none();
        let (timed, ranges) = (is_timed(self.by), self.ranges_of_columns());
        let certain =
            Certain { learned: believed, believed: sound, timed, apart: &self.apart, ranges: &ranges };
        let total = if predicted.is_some() { Total::Predicted } else { Total::Counted };
        let mut sure = uncertainty(problem, fit, others, certain, total);
        if total == Total::Counted {
            sure.add(&unseen);
            sure.add(&self.unobserved(&costs, &shown));
        }
        let Shares { of_owner, residual, negative, unobserved } = predicted.unwrap_or(counted);
        sure.add(&self.idle_unknown(&of_owner));
        let prior = Costs(vec![(0.0, self.prior.clone())]);
        let mut by_prior = self.split((&prior, None), &shown, owners, Total::Counted).of_owner;
        by_prior[OTHER as usize] = MicroJoules::ZERO;
        result.certainty = sure.of_owners(self.columns_of(owners), &of_owner);
        result.basis = self.basis(&sure, believed, misfit);
        (result.of_owner, result.by_time, result.negative) = (of_owner, by_prior, negative);
        let row = &mut result.row;
        row.other = std::mem::take(&mut result.of_owner[OTHER as usize]);
        row.idle += self.idle;
        row.residual = residual;
        if unobserved != MicroJoules::ZERO {
            row.unattributed.insert(UnattributedReason::SensorBlindSpot, unobserved);
        }
    }

    /// The least and most joules above idle that each column may have taken: in each window no more than it
    /// shows and than the board draws at most in the time that the column ran, and no less than what all
    /// others leave. Empty where times or the board's limit are not known.
    fn ranges_of_columns(&self) -> Vec<(f64, f64)> {
        let whole = self.meter.duty >= 1.0 && self.meter.mean <= 0.0;
        let Some(watts) = self.most_watts.filter(|_| self.timed && whole) else { return vec![] };
        let mut ranges = vec![(0.0, 0.0); self.columns.len()];
        let slack = REACH * self.fit.noise;
        for (row, &joules) in self.problem.rows.iter().zip(&self.problem.joules) {
            // Rows are in joules by what was believed before: times its power.
            let most = |&(column, by_prior): &(usize, f64)| by_prior / self.prior[column].max(1e-12) * watts;
            let all: f64 = row.iter().map(most).sum();
            for part in row {
                let (low, high) = &mut ranges[part.0];
                *low += (joules - slack - (all - most(part))).max(0.0);
                *high += most(part).min((joules + slack).max(0.0));
            }
        }
        ranges
    }

    /// Whether what launches took is known better than what the counter shows of it: all of their times are
    /// known, and the meter looks at some of them only (the regression estimator of survey sampling: Cochran,
    /// Sampling techniques, 1977, §7), or shows them so late that it misses some.
    fn is_predicted(&self, believed: bool) -> bool {
        let partial = self.meter.duty < 1.0 || self.meter.mean > 0.0;
        self.timed && partial && believed && self.alone && self.windows.len() >= FEWEST_WINDOWS
    }

    /// The same stretches, the first and the last of which reach as far as anything ran that the counter
    /// would have shown a step later: that has its time, though it was not read any more.
    fn all_of(&self, shown: &[TimeRange]) -> Vec<TimeRange> {
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

    /// Relative covariance of columns' energies by what ran so late that the meter had not shown it yet when
    /// it was read last: the counter's sum lacks that.
    fn unobserved(&self, costs: &Costs, shown: &[TimeRange]) -> Vec<f64> {
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

    /// Relative covariance of columns' energies by idle power that is in them, if there is any: each has its
    /// part.
    fn idle_unknown(&self, of_owner: &[MicroJoules]) -> Vec<f64> {
        let n = self.columns.len();
        let seconds: f64 = self.steps.iter().map(|step| step.time.length()).sum();
        let joules = of_owner.iter().copied().sum::<MicroJoules>().as_joules();
        let part = IDLE_UNKNOWN * (self.unknown * seconds / joules.max(1e-9)).min(1.0);
        vec![part * part; n * n]
    }

    /// Whether that the meter does not look explains what the counter is off by; if not, there is something
    /// else, and the counter's word counts.
    fn explains(&self, unseen: &[f64], split: &Shares) -> bool {
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
        shown: &[TimeRange],
        owners: usize,
        total: Total,
    ) -> Shares {
        let partial = self.meter.duty < 1.0 || self.meter.mean > 0.0;
        let block = self.block();
        Splitter { batches: &self.batches, costs, shown, block, partial, noise, total }
            .split(&self.dynamic, owners)
    }

    fn unseen<'a>(&'a self, costs: &'a Costs, shown: &'a [TimeRange]) -> SensorBlindSpot<'a> {
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

    /// How it was split, and what could not be told apart.
    fn basis(&self, sure: &Uncertainty, believed: bool, misfit: Option<GpuMisfit>) -> SplitBasis {
        let Meter { late, duty, mean } = self.meter;
        let fit = MeterFit { late_s: late, duty, mean_s: mean, condition: sure.condition };
        let split = GpuSplit {
            by: self.by,
            kinds: self.columns.len(),
            steps: self.windows.len(),
            learned: believed.then_some(fit),
            alone: self.alone,
            misfit: misfit.filter(|_| believed),
        };
        let name = |&column: &usize| self.columns.names[column].clone();
        SplitBasis::Launches(
            split,
            sure.groups.iter().map(|group| group.iter().map(name).collect()).collect(),
        )
    }
}

/// Whether records of the driver tell when kernels ran.
pub(super) const fn is_timed(by: SplitBy) -> bool {
    matches!(by, SplitBy::Kernels { .. })
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::features::Cell;
    use super::{
        BLOCK_SECONDS, Batches, Costs, Estimate, FEWEST_WINDOWS, Features, Fit, MEANS, Meter, MicroJoules,
        Problem, Shares, SplitBy, TimeRange, Window,
    };
    use crate::tests::vectors::near;

    fn stretch(from: f64, until: f64) -> TimeRange {
        TimeRange { from, until }
    }

    /// Two columns: each second owner 1 executes 4 units of the first and owner 2 one of the second, from 0
    /// to 10 s.
    fn estimate(meter: Meter) -> Estimate {
        let cell = |owner, column, units| Cell { owner, column, units };
        let batch = |at: u32| Batch {
            launched: stretch(f64::from(at), f64::from(at)),
            executed: stretch(f64::from(at), f64::from(at) + 1.0),
            blur: 0.0,
            cells: vec![cell(1, 0, 4.0), cell(2, 1, 1.0), cell(2, 0, 0.5)],
        };
        let window = |at: u32| Window {
            time: stretch(f64::from(at) / 4.0, f64::from(at + 1) / 4.0),
            ticks: 1,
            joules: 2.5,
        };
        let mut columns = Features::default();
        columns.names.extend(["a".to_owned(), "b".to_owned()]);
        columns.counts.extend([45.0, 10.0]);
        Estimate {
            columns,
            batches: Batches::new((0..10).map(batch).collect()),
            windows: (0..40).map(window).collect(),
            meter,
            prior: vec![2.0, 3.0],
            by: SplitBy::Launches,
            problem: Problem {
                columns: 2,
                joules: vec![],
                rows: vec![],
                belief: 0.5,
                together: 1,
                errors: None,
            },
            fit: Fit { parts: vec![1.0; 2], noise: 0.5, trust: vec![] },
            others: vec![],
            steps: vec![],
            dynamic: vec![],
            idle: MicroJoules::ZERO,
            unknown: 0.0,
            most_watts: None,
            alone: true,
            timed: true,
            in_windows: false,
            apart: super::Apart::default(),
        }
    }

    const PARTIAL: Meter = Meter { late: 0.1, duty: 0.25, mean: 0.5 };

    /// Forty windows of a quarter of a second: 0.5 J a window are 2 W. Blocks are four means of the meter,
    /// and longer by the square of what it looks at.
    #[test]
    fn units() {
        let of = estimate(PARTIAL);
        near(&[of.watts_of(0.5)], &[2.0], 1e-12);
        near(&[of.block()], &[MEANS * 0.5 / 0.0625], 1e-12);
        near(&[estimate(Meter::PROMPT).block()], &[BLOCK_SECONDS], 1e-12);
        assert_eq!(of.columns_of(4), [0, 0, 1, 0]);
    }

    /// Costs are parts of what was believed before, each until the next one's window begins; or that itself.
    #[test]
    fn costs_of_units() {
        let of = estimate(PARTIAL);
        let over_time = || vec![(20, vec![0.5, 2.0]), (99, vec![1.5, 1.0])];
        let Costs(learned) = of.costs(over_time(), true);
        assert_eq!(learned, [(5.0, vec![1.0, 6.0]), (f64::INFINITY, vec![3.0, 3.0])]);
        assert_eq!(of.costs(over_time(), false).0, [(f64::INFINITY, vec![2.0, 3.0])]);
    }

    /// Times that are known go before a counter that looks at a part of them, if there are windows enough and
    /// nobody else is on the GPU.
    #[test]
    fn when_times_are_believed() {
        assert!(estimate(PARTIAL).is_predicted(true) && !estimate(PARTIAL).is_predicted(false));
        assert!(!estimate(Meter::PROMPT).is_predicted(true));
        assert!(estimate(Meter { mean: 0.5, ..Meter::PROMPT }).is_predicted(true));
        let mut few = estimate(PARTIAL);
        few.windows.truncate(FEWEST_WINDOWS - 1);
        let others = Estimate { alone: false, ..estimate(PARTIAL) };
        let untimed = Estimate { timed: false, ..estimate(PARTIAL) };
        assert!([few, others, untimed].iter().all(|of| !of.is_predicted(true)));
    }

    /// Steps from 0.3 to 8 s: the last two of ten seconds were not shown, two parts of 7.7 that were; all
    /// that ran is from 0 s, which is nearer than the meter's 0.6 s, to one step and 0.6 s behind the last.
    #[test]
    fn ends_of_a_run() {
        let of = estimate(PARTIAL);
        let shown = [stretch(0.3, 4.0), stretch(4.0, 8.0)];
        let costs = Costs(vec![(f64::INFINITY, vec![2.0, 3.0])]);
        let part = 2.0 / 7.7;
        near(&of.unobserved(&costs, &shown), &[part * part; 4], 1e-9);
        assert_eq!(of.unobserved(&costs, &[]), [0.0; 4]);
        // What ran no more after that lacks nothing.
        let mut ended = estimate(PARTIAL);
        ended.batches.list.iter_mut().skip(8).for_each(|batch| batch.cells.retain(|cell| cell.column == 0));
        near(&ended.unobserved(&costs, &shown), &[part * part, 0.0, 0.0, 0.0], 1e-9);
        let all = of.all_of(&shown);
        near(&[all[0].from, all[0].until, all[1].from, all[1].until], &[0.0, 4.0, 4.0, 10.0], 1e-12);
        // Behind the last step is no more than one step and what the meter is late.
        let short = of.all_of(&[stretch(7.0, 7.5), stretch(7.5, 8.0)]);
        near(&[short[0].from, short[1].until], &[6.4, 8.0 + 0.6 + 0.5], 1e-12);
    }

    /// 10 and 20 J with relative variances of 0.01 and covariances of 0.005 have a variance of 7 J²: four
    /// standard deviations are 10.6 J, and of 30 J in ten seconds a mean over half a second shows 1.5 J too
    /// late.
    #[test]
    fn what_a_meter_explains() {
        let mut of = estimate(PARTIAL);
        of.steps = vec![super::Step { time: stretch(0.0, 10.0), ticks: 1 }];
        let joules = |joules: f64| MicroJoules::from_uj((joules * 1e6) as i64);
        let explains = |unobserved: f64| {
            let split = Shares {
                of_owner: vec![MicroJoules::ZERO, joules(10.0), joules(20.0)],
                residual: MicroJoules::ZERO,
                negative: MicroJoules::ZERO,
                unobserved: joules(unobserved),
            };
            of.explains(&[0.01, 0.005, 0.005, 0.01], &split)
        };
        let most = 1.5 + 4.0 * 7.0_f64.sqrt();
        assert!(explains(most - 0.01) && explains(0.01 - most) && !explains(most + 0.01));
    }
}
