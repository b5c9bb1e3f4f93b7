//! The regression's view of a domain: in each window the energy above idle and the expected time of each
//! column.
//!
//! Windows are intervals between readings, put together where they are shorter than 7 ms, because the
//! counter's own steps (1 ms) say little about less. Few columns have time in one window, so that rows hold
//! those alone. Leaves out solving (`fit`).

use super::windows::Windows;
use crate::between_samples::expected_time::{ColumnWeights, Times};
use crate::between_samples::interval_slices::IntervalSlices;
use crate::between_samples::markov_bridge::BridgeWeights;
use crate::numerics::parallel::{map, map_ranges};
use crate::numerics::shares::energies;
use crate::time::inter_sample::SamplePoint;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Seconds that are left of a lag and make no difference.
const LEAST_LATER: f64 = 1e-7;
/// Windows that one thread sums up at once.
const WINDOWS_PER_TASK: usize = 128;

/// Where a slice's time may be in other columns than expected, as small as it goes.
#[derive(Clone, Copy, Debug)]
struct TimeVariance {
    window: u32,
    left: u32,
    right: u32,
    mix: u32,
    /// Probabilities of these three, and their time's variance in s², but for p (1 − p).
    of: [f32; 4],
}

/// Stands for no mix.
const NO_MIX: u32 = u32::MAX;

/// Windows with the expected seconds of each column.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    /// Number of call paths with a power of their own.
    pub(crate) paths: usize,
    /// As many, or twice: each alone, and each contended.
    pub(crate) columns: usize,
    pub(crate) windows: Windows,
    /// Of each chunk of windows.
    rows: Vec<Rows>,
    time_variances: Arc<Vec<Vec<TimeVariance>>>,
    /// How much more than its average all power was in each window (`drift`); already in the seconds.
    pub(crate) drift: Vec<f64>,
}

/// One window's seconds while they are summed up.
struct Sums {
    seconds: Vec<f64>,
    /// Number of call paths with a column: contended columns come behind them.
    paths: usize,
    /// Seconds that came of mixes, alone and contended.
    mixes: Vec<(usize, f64, f64)>,
}

impl Sums {
    fn add(&mut self, column: usize, seconds: f64) {
        if let Some(sum) = self.seconds.get_mut(column).filter(|_| seconds > 0.0) {
            *sum += seconds;
        }
    }

    /// Adds a column's time, with how busy other CPUs were meanwhile.
    fn add_contended(&mut self, column: u32, seconds: f64, contention: f64) {
        self.add(column as usize, seconds * (1.0 - contention));
        self.add(column as usize + self.paths, seconds * contention);
    }

    /// Adds so many seconds by the weights of columns.
    fn add_weights(&mut self, weights: &ColumnWeights, seconds: f64) {
        self.add_contended(weights.left, seconds * weights.bridge.left, weights.contention);
        self.add_contended(weights.right, seconds * weights.bridge.right, weights.contention);
        let Some(mix) = weights.mix else { return };
        let seconds = seconds * weights.bridge.mix;
        let (alone, contended) = (seconds * (1.0 - weights.contention), seconds * weights.contention);
        match self.mixes.last_mut() {
            Some(sum) if sum.0 == mix => (sum.1, sum.2) = (sum.1 + alone, sum.2 + contended),
            _ => self.mixes.push((mix, alone, contended)),
        }
    }

    /// Adds the row, ordered by column, to `rows`; makes room for the next one.
    fn take(&mut self, times: Times<'_>, rows: &mut Rows) {
        let mut mixes = std::mem::take(&mut self.mixes);
        if let Times::Chain(chains) = times {
            for (mix, alone, contended) in mixes.drain(..) {
                for &(column, pi) in chains.mix(Some(mix)) {
                    self.add(column as usize, alone * pi);
                    self.add(column as usize + self.paths, contended * pi);
                }
            }
        }
        self.mixes = mixes;
        let there = self.seconds.iter_mut().enumerate().filter(|(_, seconds)| **seconds > 0.0);
        rows.entries.extend(there.map(|(column, seconds)| (column, std::mem::take(seconds))));
        rows.ends.push(rows.entries.len());
    }
}

/// Rows of windows.
#[derive(Clone, Debug, Default)]
struct Rows {
    entries: Vec<(usize, f64)>,
    /// Where the entries of each end.
    ends: Vec<usize>,
}

impl Rows {
    /// Where a row's entries are.
    fn range(&self, row: usize) -> Range<usize> {
        let end = |row: Option<usize>| row.and_then(|row| self.ends.get(row)).copied().unwrap_or(0);
        end(row.checked_sub(1))..end(Some(row))
    }

    fn row(&self, row: usize) -> &[(usize, f64)] {
        self.entries.get(self.range(row)).unwrap_or_default()
    }

    fn each(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        (0..self.ends.len()).map(|row| self.row(row))
    }
}

/// What a chunk of windows shows: for each lag the rows, and what of them is shown later.
struct WindowChunk {
    rows: Vec<(Rows, Rows)>,
    time_variances: Vec<TimeVariance>,
}

/// Which slices are summed up, and how.
#[derive(Clone, Copy)]
pub(crate) struct DesignOptions<'a> {
    pub(crate) slices: &'a IntervalSlices<'a>,
    /// All sample points, if only the odd ones or only the even ones are taken.
    pub(crate) thinned: Option<(&'a [SamplePoint], bool)>,
    pub(crate) times: Times<'a>,
    /// Number of call paths with a column, and whether each has two: alone, and contended.
    pub(crate) paths: usize,
    pub(crate) contended: bool,
    /// Whether variances are asked for.
    pub(crate) with_variances: bool,
}

impl DesignOptions<'_> {
    const fn columns(&self) -> usize {
        if self.contended { 2 * self.paths } else { self.paths }
    }

    /// All chunks of windows, side by side.
    fn chunks(
        &self,
        windows: &Windows,
        lags: &[u64],
        column: &(impl Fn(u32) -> u32 + Sync),
    ) -> Vec<WindowChunk> {
        let steps = 5 * lags.len() * self.slices.len();
        map_ranges(windows.len(), WINDOWS_PER_TASK, steps, |some| self.chunk(windows, some, lags, column))
    }

    fn chunk(
        &self,
        windows: &Windows,
        of_windows: Range<usize>,
        lags: &[u64],
        column: &impl Fn(u32) -> u32,
    ) -> WindowChunk {
        let intervals = windows.intervals(&of_windows);
        let sums = || Sums { seconds: vec![0.0; self.columns()], paths: self.paths, mixes: vec![] };
        let mut sums: Vec<(Sums, Sums)> = lags.iter().map(|_| (sums(), sums())).collect();
        let rows = lags.iter().map(|_| <(Rows, Rows)>::default()).collect();
        let most = if self.with_variances { self.slices.count_in(&intervals) } else { 0 };
        let mut chunk = WindowChunk { rows, time_variances: Vec::with_capacity(most) };
        let mut window = of_windows.start;
        for slice in self.slices.of_intervals(intervals) {
            let Some(of_slice) = windows.of(slice.interval) else { continue };
            while window < of_slice as usize {
                chunk.end_window(&mut sums, self.times);
                window += 1;
            }
            let slice = self.thinned.map_or(slice, |(points, odd)| slice.thinned(points, odd));
            let weights = ColumnWeights::of(&slice, self.times, column);
            for (&lag_ns, (now, later)) in lags.iter().zip(&mut sums) {
                let late = windows.late(window, &slice, lag_ns as f64);
                now.add_weights(&weights, weights.seconds * (1.0 - late));
                if late > 0.0 {
                    later.add_weights(&weights, weights.seconds * late);
                }
            }
            if self.with_variances {
                chunk.time_variances.extend(TimeVariance::of(of_slice, &weights));
            }
        }
        (window..of_windows.end).for_each(|_| chunk.end_window(&mut sums, self.times));
        chunk.time_variances.shrink_to_fit();
        chunk
    }
}

impl WindowChunk {
    fn end_window(&mut self, sums: &mut [(Sums, Sums)], times: Times<'_>) {
        for ((rows, later), (now, then)) in self.rows.iter_mut().zip(sums) {
            now.take(times, rows);
            then.take(times, later);
        }
    }
}

/// The rows of chunks, each with what of it is shown later, as a counter with a lag shows them.
fn with_lag(windows: &Windows, chunks: Vec<(Rows, Rows)>, lag_ns: u64) -> Vec<Rows> {
    let (mut window, mut left) = (0, vec![]);
    let shown = |(rows, later): (Rows, Rows)| {
        if lag_ns == 0 {
            return rows;
        }
        let mut shown = Rows::default();
        for (row, later) in rows.each().zip(later.each()) {
            let (begin, end) = windows.left(window, lag_ns as f64);
            sum_rows(row, 1.0, &left, begin - end, &mut shown.entries);
            left.retain_mut(|(_, seconds): &mut (usize, f64)| {
                *seconds *= end;
                *seconds > LEAST_LATER
            });
            let mut sum = Vec::with_capacity(left.len() + later.len());
            sum_rows(&left, 1.0, later, 1.0, &mut sum);
            left = sum;
            shown.ends.push(shown.entries.len());
            window += 1;
        }
        shown
    };
    chunks.into_iter().map(shown).collect()
}

/// Adds two rows, each times a factor, behind `sum`.
fn sum_rows(one: &[(usize, f64)], a: f64, other: &[(usize, f64)], b: f64, sum: &mut Vec<(usize, f64)>) {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let Some(column) = one.peek().map(|it| it.0).into_iter().chain(other.peek().map(|it| it.0)).min() {
        let first = one.next_if(|it| it.0 == column).map_or(0.0, |it| a * it.1);
        let second = other.next_if(|it| it.0 == column).map_or(0.0, |it| b * it.1);
        if first + second > 0.0 {
            sum.push((column, first + second));
        }
    }
}

impl Design {
    /// With the times that samples and chains give, as a counter with this lag shows them. `column` is that
    /// of an owner.
    pub(crate) fn new(
        windows: &Windows,
        slices: &IntervalSlices<'_>,
        (times, lag_ns): (Times<'_>, u64),
        (paths, contended): (usize, bool),
        column: impl Fn(u32) -> u32 + Sync,
    ) -> Self {
        let options = DesignOptions { slices, thinned: None, times, paths, contended, with_variances: true };
        Self::of(windows, &options, lag_ns, column)
    }

    /// By these options, as a counter with this lag shows it.
    pub(crate) fn of(
        windows: &Windows,
        options: &DesignOptions<'_>,
        lag_ns: u64,
        column: impl Fn(u32) -> u32 + Sync,
    ) -> Self {
        let [design] = Self::of_lags(windows, options, [lag_ns], column);
        design
    }

    /// The same for each of several lags (in nanoseconds), found in one pass over the slices.
    pub(crate) fn of_lags<const LAGS: usize>(
        windows: &Windows,
        options: &DesignOptions<'_>,
        lags: [u64; LAGS],
        column: impl Fn(u32) -> u32 + Sync,
    ) -> [Self; LAGS] {
        let (mut rows, mut time_variances) = ([const { vec![] }; LAGS], vec![]);
        for chunk in options.chunks(windows, &lags, &column) {
            rows.iter_mut().zip(chunk.rows).for_each(|(of_lag, rows)| of_lag.push(rows));
            time_variances.push(chunk.time_variances);
        }
        let (mut rows, time_variances) = (rows.into_iter(), Arc::new(time_variances));
        lags.map(|lag_ns| Self {
            paths: options.paths,
            columns: options.columns(),
            windows: windows.clone(),
            rows: with_lag(windows, rows.next().unwrap_or_default(), lag_ns),
            time_variances: Arc::clone(&time_variances),
            drift: vec![1.0; windows.len()],
        })
    }

    /// The power of each call path on average over its time alone and contended.
    pub(crate) fn on_average(&self, watts: &[f64]) -> Vec<f64> {
        if self.columns == self.paths {
            return watts.to_vec();
        }
        let mut seconds = vec![0.0; self.columns];
        self.entries().for_each(|(column, time)| seconds[*column] += time);
        let of = |path: usize| {
            let (alone, contended) = (seconds[path], seconds[path + self.paths]);
            let part = if alone + contended > 0.0 { contended / (alone + contended) } else { 0.0 };
            watts[path] * (1.0 - part) + watts[path + self.paths] * part
        };
        (0..self.paths).map(of).collect()
    }

    /// Drops what variances are made of, of which there is as much as of samples: none is asked for any more.
    pub(crate) fn forget_time_variances(&mut self) {
        self.time_variances = Arc::default();
    }

    /// Number of windows.
    pub(crate) const fn len(&self) -> usize {
        self.windows.len()
    }

    /// Seconds of the columns that have time in a window.
    pub(crate) fn row(&self, window: usize) -> &[(usize, f64)] {
        self.rows.get(window / WINDOWS_PER_TASK).map_or(&[], |rows| rows.row(window % WINDOWS_PER_TASK))
    }

    /// Seconds of the columns that have time in some windows.
    pub(crate) fn rows_together(&self, windows: impl Iterator<Item = usize>) -> Vec<(usize, f64)> {
        let mut sums = BTreeMap::new();
        for &(column, seconds) in windows.flat_map(|window| self.row(window)) {
            *sums.entry(column).or_insert(0.0) += seconds;
        }
        sums.into_iter().collect()
    }

    fn entries(&self) -> impl Iterator<Item = &(usize, f64)> {
        self.rows.iter().flat_map(|rows| &rows.entries)
    }

    /// Each window's row, and its energy in joules.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[(usize, f64)], f64)> {
        (0..self.len()).map(|window| (self.row(window), self.windows.joules[window]))
    }

    /// Joules of each call path when these powers split windows.
    pub(crate) fn energies(&self, watts: &[f64]) -> Vec<f64> {
        energies(self.rows(), watts, self.paths)
    }

    /// Expected seconds over all windows.
    pub(crate) fn seconds(&self) -> f64 {
        self.entries().map(|(_, seconds)| seconds).sum()
    }

    /// How much more than its average all power was in an interval.
    pub(crate) fn drift_of(&self, interval: usize) -> f64 {
        let window = u32::try_from(interval).ok().and_then(|interval| self.windows.of(interval));
        window.and_then(|window| self.drift.get(window as usize)).copied().unwrap_or(1.0)
    }

    /// Takes all power in each window to be so many times what it was taken to be.
    pub(crate) fn rescale(&mut self, factors: &[f64]) {
        for (window, factor) in factors.iter().enumerate().take(self.len()) {
            self.drift[window] *= factor;
            let rows = &mut self.rows[window / WINDOWS_PER_TASK];
            let range = rows.range(window % WINDOWS_PER_TASK);
            rows.entries[range].iter_mut().for_each(|(_, seconds)| *seconds *= factor);
        }
    }

    /// Variance of each window's energy (J²), given its samples, for call paths that draw `watts` on average,
    /// and mixes with these moments.
    pub(crate) fn variances(&self, watts: &[f64], of_mixes: &[(f64, f64)]) -> Vec<f64> {
        let chunks: Vec<(usize, &Vec<TimeVariance>)> =
            (0..).step_by(WINDOWS_PER_TASK).zip(&*self.time_variances).collect();
        let of_chunk = |&(first, time_variances): &(usize, &Vec<TimeVariance>)| {
            let mut variances = vec![0.0; WINDOWS_PER_TASK.min(self.len() - first)];
            for of_slice in time_variances {
                let (mean, square) = of_slice.weights().moments(watts, of_mixes);
                let window = of_slice.window as usize;
                variances[window - first] +=
                    self.drift[window].powi(2) * f64::from(of_slice.of[3]) * (square - mean * mean).max(0.0);
            }
            variances
        };
        let steps = chunks.iter().map(|(_, time_variances)| time_variances.len()).sum();
        map(&chunks, steps, of_chunk).concat()
    }
}

impl TimeVariance {
    /// `None` where no time varies.
    #[expect(clippy::cast_possible_truncation, reason = "a statistic: seven digits are enough")]
    fn of(window: u32, weights: &ColumnWeights) -> Option<Self> {
        let BridgeWeights { left: p, right: q, mix: r, spread } = weights.bridge;
        let one_column = weights.left == weights.right && weights.mix.is_none();
        let variance = weights.seconds.powi(2) * spread;
        let mix = weights.mix.and_then(|mix| u32::try_from(mix).ok()).unwrap_or(NO_MIX);
        let of = [p, q, r, variance].map(|x| x as f32);
        (variance > 0.0 && !one_column).then_some(Self {
            window,
            left: weights.left,
            right: weights.right,
            mix,
            of,
        })
    }

    fn weights(&self) -> ColumnWeights {
        let [left, right, mix, spread] = self.of.map(f64::from);
        let number = (self.mix != NO_MIX).then_some(self.mix as usize);
        let bridge = BridgeWeights { left, right, mix, spread };
        ColumnWeights {
            left: self.left,
            right: self.right,
            mix: number,
            bridge,
            seconds: 0.0,
            contention: 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
