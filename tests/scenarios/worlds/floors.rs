//! What bounds errors from below: two estimators that are told half of the truth.
//!
//! *True times*: who ran how long between two readings is known to the nanosecond, and least squares finds the watts; what is left is what the
//! counter, its reader and moving watts hide. *True watts*: each path's mean power is known, and a thread's CPU time goes to its nearest
//! sample; what is left is what samples hide. Neither is a strict bound, since a model may use what they do not (the energy of a window says
//! something about times). Leaves out attribution.

use super::measure::Truth;
use super::recording::Recorded;
use super::schedule::{Piece, Who};
use super::stacks::Path;
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CounterValue, CpuOwner, Domain, Origin};
use std::collections::{BTreeMap, HashMap};

/// A stretch between two readings, in nanoseconds of the recording's clock, and its joules above idle.
struct Window {
    from: u64,
    to: u64,
    joules: f64,
}

/// How late the counter may be, in nanoseconds: it shows the power of a moment before it was read.
const DELAYS: [u64; 8] = [0, 250_000, 500_000, 750_000, 1_000_000, 2_000_000, 5_000_000, 20_000_000];

/// Joules by stack where times are known; of several delays of the counter the one that explains it best.
pub fn with_true_times(recorded: &Recorded) -> Truth {
    let fits = DELAYS.map(|delay| fit(recorded, &windows_of(&recorded.recording, delay)));
    let best = fits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, truth)| truth).unwrap_or_default()
}

/// What is left unexplained, and joules by stack.
fn fit(recorded: &Recorded, windows: &[Window]) -> (f64, Truth) {
    let paths = recorded.stack_of.len();
    let column = |piece: &Piece| match piece.who {
        Who::Thread(_) => piece.path as usize,
        Who::Stranger(key) => paths + key as usize,
    };
    let columns = paths + recorded.recording.background.len();
    let end = end_of(&recorded.recording);
    let mut seconds = vec![0.0; columns];
    let mut parts: Vec<BTreeMap<usize, f64>> = windows.iter().map(|_| BTreeMap::new()).collect();
    for piece in recorded.pieces.iter().filter(|piece| !piece.stolen) {
        let (from, to) = (super::BOOT + piece.from, super::BOOT + piece.to);
        seconds[column(piece)] += to.min(end).saturating_sub(from) as f64 / 1e9;
        let first = windows.partition_point(|window| window.to <= from);
        for (window, part) in windows[first..].iter().zip(&mut parts[first..]) {
            if window.from >= to {
                break;
            }
            let ns = to.min(window.to).saturating_sub(from.max(window.from));
            *part.entry(column(piece)).or_default() += ns as f64 / 1e9;
        }
    }
    let joules: Vec<f64> = windows.iter().map(|window| window.joules).collect();
    let watts = least_squares(&parts, &joules, columns);
    let explained =
        |part: &BTreeMap<usize, f64>| part.iter().map(|(column, x)| x * watts[*column]).sum::<f64>();
    let left = parts.iter().zip(&joules).map(|(part, joules)| (joules - explained(part)).powi(2)).sum();
    let by_path = recorded.stack_of.iter().zip(seconds.iter().zip(&watts));
    (left, Truth { stacks: by_path.map(|(stack, (seconds, watts))| (*stack, seconds * watts)).collect() })
}

fn end_of(recording: &Recording) -> u64 {
    recording.summary.as_ref().map_or(u64::MAX, |summary| summary.end.as_ns())
}

/// Joules by stack where mean watts are known.
pub fn with_true_watts(recorded: &Recorded) -> Truth {
    let end = end_of(&recorded.recording);
    let mut seconds = vec![0.0; recorded.stack_of.len()];
    for piece in recorded.pieces.iter().filter(|piece| matches!(piece.who, Who::Thread(_))) {
        let to = (super::BOOT + piece.to).min(end);
        seconds[piece.path as usize] += to.saturating_sub(super::BOOT + piece.from) as f64 / 1e9;
    }
    let sampled = sampled_seconds(recorded);
    let joules = recorded.truth.stacks.iter().zip(&seconds).zip(&sampled);
    let joules: Vec<(StackId, f64)> = joules
        .map(|(((stack, joules), seconds), sampled)| (*stack, joules * sampled / seconds.max(1e-12)))
        .collect();
    let known: f64 = recorded.truth.stacks.iter().map(|(_, joules)| joules).sum();
    let shown: f64 = joules.iter().map(|(_, joules)| joules).sum();
    Truth { stacks: joules.into_iter().map(|(stack, joules)| (stack, joules * known / shown)).collect() }
}

/// Seconds of each path if the CPU time of a thread goes to the nearest of its samples.
fn sampled_seconds(recorded: &Recorded) -> Vec<f64> {
    let recording = &recorded.recording;
    let end = end_of(recording);
    let names: HashMap<Vec<&str>, usize> = recorded
        .stack_of
        .iter()
        .enumerate()
        .map(|(path, stack)| (name_of(recording, *stack), path))
        .collect();
    let mut seconds = vec![0.0; recorded.stack_of.len()];
    for thread in 0..recording.threads.len() as u32 {
        let owner = CpuOwner::Target(ThreadKey::new(thread));
        let mut slices: Vec<(u64, u64)> = recording
            .slices
            .iter()
            .filter(|slice| slice.who == owner && slice.start.as_ns() < end)
            .map(|slice| (slice.start.as_ns(), slice.end.as_ns().min(end)))
            .collect();
        slices.sort_unstable();
        let mut before = vec![0];
        slices.iter().for_each(|(from, to)| before.push(before[before.len() - 1] + to - from));
        let cpu_clock = |at: u64| {
            let next = slices.partition_point(|slice| slice.0 <= at).max(1) - 1;
            before[next] + at.min(slices[next].1) - slices[next].0
        };
        let of_thread = recording.samples.iter().filter(|s| s.thread.get() == thread && s.at.as_ns() < end);
        let marks: Vec<(u64, Option<Path>)> = of_thread
            .map(|sample| {
                let path = names.get(&name_of(recording, sample.stack)).map(|path| *path as Path);
                (cpu_clock(sample.at.as_ns()), path)
            })
            .collect();
        for (number, (at, path)) in marks.iter().enumerate() {
            let from = if number == 0 { 0 } else { u64::midpoint(marks[number - 1].0, *at) };
            let to =
                marks.get(number + 1).map_or(before[before.len() - 1], |next| u64::midpoint(*at, next.0));
            path.iter().for_each(|path| seconds[*path as usize] += to.saturating_sub(from) as f64 / 1e9);
        }
    }
    seconds
}

/// A stack by the names of its functions, whatever their places.
fn name_of(recording: &Recording, stack: StackId) -> Vec<&str> {
    recording.frames_of(stack).map(|(_, frame)| frame.name.as_str()).collect()
}

/// The stretches between readings of a counter that is so late.
fn windows_of(recording: &Recording, delay: u64) -> Vec<Window> {
    let idle = recording.domains.first().and_then(|domain| domain.idle.as_ref());
    let idle = idle.map_or(0.0, |idle| idle.power.as_watts());
    let range = recording.domains.first().map_or(0, range_of) + 1;
    let known = |value: CounterValue| match value {
        CounterValue::MicroJoules(uj) => Some(uj),
        CounterValue::Failed => None,
    };
    let readings: Vec<(u64, u64)> = recording
        .readings
        .values()
        .flatten()
        .filter_map(|reading| Some((reading.at.as_ns() - delay, known(reading.value)?)))
        .collect();
    let window = |pair: &[(u64, u64)]| {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        let uj = if after >= before { after - before } else { after + range - before };
        Window { from, to, joules: uj as f64 / 1e6 - idle * (to.saturating_sub(from)) as f64 / 1e9 }
    };
    readings.windows(2).map(window).collect()
}

fn range_of(domain: &Domain) -> u64 {
    match &domain.origin {
        Origin::Counter { max_range: Some(range), .. } => range.as_uj().unsigned_abs(),
        _ => 0,
    }
}

/// Watts by least squares with a ridge that only ties what the windows do not show; conjugate gradients on the normal equations.
fn least_squares(rows: &[BTreeMap<usize, f64>], joules: &[f64], columns: usize) -> Vec<f64> {
    let times: f64 = rows.iter().flat_map(BTreeMap::values).sum();
    let mean = joules.iter().sum::<f64>() / times.max(1e-9);
    let ridge = 1e-9 * rows.iter().flat_map(BTreeMap::values).map(|x| x * x).sum::<f64>();
    let apply = |watts: &[f64]| {
        let mut out: Vec<f64> = watts.iter().map(|watts| ridge * watts).collect();
        for row in rows {
            let fitted: f64 = row.iter().map(|(column, x)| x * watts[*column]).sum();
            row.iter().for_each(|(column, x)| out[*column] += x * fitted);
        }
        out
    };
    let mut residual = vec![0.0; columns];
    for (row, joules) in rows.iter().zip(joules) {
        let off = joules - mean * row.values().sum::<f64>();
        row.iter().for_each(|(column, x)| residual[*column] += x * off);
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (mut watts, mut direction) = (vec![0.0; columns], residual.clone());
    let mut norm = dot(&residual, &residual);
    let least = 1e-20 * norm;
    for _ in 0..10 * columns {
        if norm <= least {
            break;
        }
        let image = apply(&direction);
        let step = norm / dot(&direction, &image);
        watts.iter_mut().zip(&direction).for_each(|(watts, d)| *watts += step * d);
        residual.iter_mut().zip(&image).for_each(|(residual, image)| *residual -= step * image);
        let next = dot(&residual, &residual);
        direction.iter_mut().zip(&residual).for_each(|(d, residual)| *d = residual + next / norm * *d);
        norm = next;
    }
    watts.into_iter().map(|watts| watts + mean).collect()
}
