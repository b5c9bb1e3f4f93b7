//! How much power each class of stacks draws, learned from the run itself.
//!
//! CPU time says who ran; it does not say that one function heats the socket eight times as much as another. Where an interval holds two
//! of them, a split by CPU time alone gives both the same watts. With phases of 300 ms and readings every 20 ms that charges a 5 W function
//! next to a 40 W one with about 10 % too much (ΔP · T / 6 for each border), and with 50 % beside a stranger on the socket
//! (tests/accuracy.rs). But the mix
//! differs from interval to interval, and so the powers can be told apart by regression:
//!
//! ```text
//! D_k = Σ_c w_c · τ_kc + ε_k        D: energy above idle, τ: CPU time of class c in window k, w ≥ 0: watts of the class
//! min  Σ_k (D_k − Σ_c w_c τ_kc)² + ρ Σ_c ‖τ_c‖² (w_c − w̄)²        w̄ = ΣD / Στ
//! ```
//!
//! This is the power-model regression of Bircher and John (ISPASS 2007) and of SmartWatts (CCGRID 2020) on the run's own functions, solved
//! by coordinate descent with a floor (Lawson, Hanson: Solving least squares problems, 1974, ch. 23 states the problem). Windows are
//! 50 ms, longer than the intervals, because samples place a border only to within half their period, and such errors in τ pull w towards
//! w̄; longer ones leave less to see of who ran beside whom. The ridge ρ settles what the data leave open (two functions that always run together) at w̄, that is at CPU time.
//!
//! The weights are used only if they predict windows they were not fitted to better than w̄ does: five-fold cross-validation in blocks
//! of ten windows, mean gain above two standard errors. Otherwise the split is by CPU time alone, and the profile says so. Conservation
//! never depends on the fit: weights only divide an interval's energy, whose sum is the counter's.
//!
//! Leaves out confidence intervals, frequency and hyperthreads.

use super::class::ClassId;
use super::occupancy::Presence;
use crate::timeline::EnergyInterval;
use crate::units::MicroJoules;

/// Windows of the regression in nanoseconds.
const WINDOW_NS: u64 = 50_000_000;
/// Classes with less than this part of the CPU time share one weight.
const SMALLEST_PART: f64 = 0.01;
/// Classes with a weight of their own, at most.
const MOST_COLUMNS: usize = 32;
const RIDGE: f64 = 1e-5;
/// Rounds of reweighting, and from how many standard deviations on a window counts less (Huber: Robust statistics, 1981: 95 % efficient).
const ROUNDS: usize = 5;
const HUBER: f64 = 1.345;
/// The standard deviation of a normal distribution in median absolute deviations.
const MAD_TO_SIGMA: f64 = 1.4826;
/// No class is taken to draw less than this part of the mean.
const FLOOR: f64 = 0.05;
const FOLDS: usize = 5;
const BLOCK: usize = 10;
/// Fewer windows than this prove nothing.
const FEWEST_WINDOWS: usize = 40;
const SWEEPS: usize = 2_000;

/// What the regression says about a domain.
#[derive(Debug)]
pub(super) enum Intensity {
    /// Watts of each class, by its number.
    Known(Vec<f64>),
    /// One class has all the time: nothing to tell apart.
    Single,
    /// Several classes whose powers cannot be told apart.
    Unidentified,
}

/// One window: energy in joules, CPU time of each column in seconds.
struct Window {
    joules: f64,
    seconds: Vec<f64>,
}

impl Window {
    fn predicted(&self, watts: &[f64]) -> f64 {
        self.seconds.iter().zip(watts).map(|(seconds, watts)| seconds * watts).sum()
    }
}

/// Learns the watts of each class from a domain's intervals, their energy above idle, and who was present.
pub(super) fn learn(
    intervals: &[EnergyInterval],
    dynamic: &[MicroJoules],
    presences: &[Presence],
    class_of: &[ClassId],
) -> Intensity {
    let columns = columns_of(presences, class_of);
    let count = columns.iter().copied().max().map_or(0, |most| most + 1);
    if count < 2 {
        return Intensity::Single;
    }
    let windows = windows_of(intervals, dynamic, presences, class_of, &columns, count);
    if windows.len() < FEWEST_WINDOWS || !predicts_better(&windows, count) {
        return Intensity::Unidentified;
    }
    match fit(&windows.iter().collect::<Vec<_>>(), count) {
        Some(watts) => Intensity::Known(
            columns.iter().map(|&column| watts.get(column).copied().unwrap_or(1.0)).collect(),
        ),
        None => Intensity::Unidentified,
    }
}

/// The column of each class: one each for those with enough time, one for all others together.
#[expect(clippy::cast_precision_loss, reason = "parts of a sum")]
fn columns_of(presences: &[Presence], class_of: &[ClassId]) -> Vec<usize> {
    let mut time = vec![0_u64; class_of.iter().copied().max().map_or(0, |most| most + 1)];
    for presence in presences {
        if let Some(sum) = class_of.get(presence.owner as usize).and_then(|&class| time.get_mut(class)) {
            *sum = sum.saturating_add(presence.ns);
        }
    }
    let total = time.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns)) as f64;
    let mut large: Vec<ClassId> =
        (0..time.len()).filter(|&class| time[class] as f64 > SMALLEST_PART * total).collect();
    large.sort_by_key(|&class| (std::cmp::Reverse(time[class]), class));
    large.truncate(MOST_COLUMNS - 1);
    let column = |class: ClassId| match large.iter().position(|&l| l == class) {
        Some(own) => own,
        None if time[class] > 0 => large.len(),
        // It is not in this domain at all.
        None => 0,
    };
    (0..time.len()).map(column).collect()
}

/// Adds consecutive intervals up to windows of `WINDOW_NS`; a gap ends a window, and what is too short at its end is left out.
#[expect(clippy::cast_precision_loss, reason = "a statistic: exactness is the ledger's")]
fn windows_of(
    intervals: &[EnergyInterval],
    dynamic: &[MicroJoules],
    presences: &[Presence],
    class_of: &[ClassId],
    columns: &[usize],
    count: usize,
) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut open = Window { joules: 0.0, seconds: vec![0.0; count] };
    let (mut open_ns, mut end) = (0_u64, None);
    let mut rest = presences;
    for (i, (interval, energy)) in intervals.iter().zip(dynamic).enumerate() {
        let here = rest.partition_point(|presence| presence.interval <= i);
        let (now, later) = rest.split_at(here);
        rest = later;
        if end.is_some_and(|end| end != interval.span.start) {
            (open, open_ns) = (Window { joules: 0.0, seconds: vec![0.0; count] }, 0);
        }
        end = Some(interval.span.end);
        open.joules += energy.as_joules();
        open_ns = open_ns.saturating_add(interval.span.ns());
        for presence in now {
            let column = class_of.get(presence.owner as usize).and_then(|&class| columns.get(class));
            if let Some(seconds) = column.and_then(|&column| open.seconds.get_mut(column)) {
                *seconds += presence.ns as f64 / 1e9;
            }
        }
        if open_ns >= WINDOW_NS {
            windows.push(std::mem::replace(&mut open, Window { joules: 0.0, seconds: vec![0.0; count] }));
            open_ns = 0;
        }
    }
    // A window in which nobody ran says nothing about anybody's power.
    windows.retain(|window| window.seconds.iter().any(|seconds| *seconds > 0.0));
    windows
}

/// Joules over CPU seconds of all windows; `None` unless positive.
fn mean_watts(windows: &[&Window]) -> Option<f64> {
    let (joules, seconds) = windows.iter().fold((0.0, 0.0), |(joules, seconds), window| {
        (joules + window.joules, seconds + window.seconds.iter().sum::<f64>())
    });
    Some(joules / seconds).filter(|mean| mean.is_finite() && *mean > 0.0)
}

/// The watts of each column, robustly: windows far off the prediction (a border that samples misplaced) count less in the next round.
fn fit(windows: &[&Window], count: usize) -> Option<Vec<f64>> {
    let mean = mean_watts(windows)?;
    let mut trust = vec![1.0; windows.len()];
    let mut watts = solve(windows, &trust, mean, count);
    for _ in 0..ROUNDS {
        let errors: Vec<f64> =
            windows.iter().map(|window| (window.joules - window.predicted(&watts)).abs()).collect();
        let limit = HUBER * MAD_TO_SIGMA * median(&errors);
        trust = errors.iter().map(|error| if *error > limit { limit / error } else { 1.0 }).collect();
        watts = solve(windows, &trust, mean, count);
    }
    Some(watts)
}

fn median(values: &[f64]) -> f64 {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered.get(ordered.len() / 2).copied().unwrap_or(0.0)
}

/// Weighted ridge regression with a floor.
fn solve(windows: &[&Window], trust: &[f64], mean: f64, count: usize) -> Vec<f64> {
    let mut gram = vec![vec![0.0; count]; count];
    let mut target = vec![0.0; count];
    for (window, trust) in windows.iter().zip(trust) {
        for (i, x) in window.seconds.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            target[i] += trust * x * window.joules;
            gram[i].iter_mut().zip(&window.seconds).for_each(|(sum, other)| *sum += trust * x * other);
        }
    }
    for i in 0..count {
        let ridge = RIDGE * gram[i][i];
        gram[i][i] += ridge;
        target[i] += ridge * mean;
    }
    descend(&gram, &target, mean)
}

/// Coordinate descent on `½ wᵀGw − tᵀw` with `w ≥ FLOOR · mean`, from the mean.
fn descend(gram: &[Vec<f64>], target: &[f64], mean: f64) -> Vec<f64> {
    let mut watts = vec![mean; target.len()];
    for _ in 0..SWEEPS {
        let mut moved = 0.0_f64;
        for (i, row) in gram.iter().enumerate().filter(|(i, row)| row[*i] > 0.0) {
            let others: f64 = row.iter().zip(&watts).map(|(g, w)| g * w).sum::<f64>() - row[i] * watts[i];
            let better = ((target[i] - others) / row[i]).max(FLOOR * mean);
            moved = moved.max((better - watts[i]).abs());
            watts[i] = better;
        }
        if moved < 1e-9 * mean {
            break;
        }
    }
    watts
}

/// Whether weights fitted on the other folds predict a fold better than the mean does, by more than two standard errors.
#[expect(clippy::cast_precision_loss, reason = "a count of windows")]
fn predicts_better(windows: &[Window], count: usize) -> bool {
    let mut gains = Vec::with_capacity(windows.len());
    for fold in 0..FOLDS {
        let in_fold = |i: usize| (i / BLOCK) % FOLDS == fold;
        let (held_out, others): (Vec<_>, Vec<_>) = windows.iter().enumerate().partition(|(i, _)| in_fold(*i));
        let others: Vec<&Window> = others.into_iter().map(|(_, window)| window).collect();
        let (Some(mean), Some(watts)) = (mean_watts(&others), fit(&others, count)) else { return false };
        for (_, window) in held_out {
            let by_mean = window.joules - mean * window.seconds.iter().sum::<f64>();
            let by_watts = window.joules - window.predicted(&watts);
            gains.push(by_mean.powi(2) - by_watts.powi(2));
        }
    }
    let n = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / n;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0);
    mean > 2.0 * (variance / n).sqrt()
}
