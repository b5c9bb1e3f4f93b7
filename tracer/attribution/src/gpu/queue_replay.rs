//! When queued launches were executed: kernels run later than they are launched, one after the other.
//!
//! A thread that waits for the GPU says when everything is done that was launched before. The time from the
//! first launch of such an epoch to the end of its wait is the sum of the durations of its launches, if the
//! wait was long, that is, if the GPU was what everything waited for. Regression of these times on the counts
//! of launches gives a duration for each column; with durations the queue is replayed, and stretched so that
//! it ends when the wait ends:
//!
//! ```text
//! launches   |aaaabbbb|              launched within some milliseconds
//! executed   |aaaaaaaaaaabbbbbbbb|   ends with the wait
//! ```
//!
//! Streams that run side by side are taken for one queue. Without waits launches are taken to run when they
//! are launched. Leaves out joules; durations serve as what is believed of them before (`launch_energies`).

use super::batches::{Batch, TimeRange};
use super::constants::{DRAWS, DURATION_SD, EPOCH_SD, FEWEST_EPOCHS, GOOD_DURATIONS, TELLING, WAITED};
use crate::numerics::normal_equations::NormalEquations;

/// Launches between the ends of two waits.
#[derive(Debug)]
struct Epoch {
    batches: std::ops::Range<usize>,
    wait: Option<TimeRange>,
    /// From the first launch, or the end of the epoch before where that is later.
    from: f64,
}

impl Epoch {
    /// The wait, if it has at least this part of the epoch.
    fn wait_of(&self, part: f64) -> Option<TimeRange> {
        let wait = self.wait?;
        (wait.until > self.from && wait.length() >= part * (wait.until - self.from)).then_some(wait)
    }
}

/// The queue of a GPU.
#[derive(Debug)]
pub(super) struct Queue {
    epochs: Vec<Epoch>,
    /// Seconds of a unit of each column, where waits show them.
    pub(super) durations: Option<Vec<f64>>,
    /// Other durations that the epochs allow.
    pub(super) others: Vec<Vec<f64>>,
    /// How much of each column's launches in an epoch the others' do not tell, in parts of them: 0 where
    /// epochs are all alike. Empty where they tell nothing, or the GPU was not what was waited for: launches
    /// ran when they were launched then.
    pub(super) apart: Apart,
}

impl Queue {
    /// From batches, ordered by launch, and waits, ordered by their end. `shape` is what a unit of each column is
    /// believed to take before, in parts of a launch.
    pub(super) fn new(batches: &[Batch], waits: &[TimeRange], shape: &[f64]) -> Self {
        let columns = shape.len();
        let epochs = epochs_of(batches, waits);
        let telling = telling(batches, &epochs, columns);
        let (durations, others) = durations(&telling, shape).unzip();
        Self { epochs, durations, others: others.unwrap_or_default(), apart: apart(&telling, columns) }
    }

    /// Sets when the same batches were executed if these are the durations.
    pub(super) fn drain(&self, batches: &mut [Batch], durations: Option<&[f64]>) {
        let mut free = f64::NEG_INFINITY;
        for epoch in &self.epochs {
            let Some(of_epoch) = batches.get_mut(epoch.batches.clone()) else { continue };
            match (durations, epoch.wait_of(WAITED)) {
                (Some(durations), wait) => {
                    let work: Vec<f64> = of_epoch.iter().map(|batch| work_of(batch, durations)).collect();
                    let factor = wait.map_or(1.0, |wait| factor_until(of_epoch, &work, free, wait.until));
                    free = replay(of_epoch, &work, factor, free);
                }
                (None, Some(wait)) => stretch(of_epoch, epoch.from, wait.until),
                (None, None) => of_epoch.iter_mut().for_each(|batch| batch.executed = batch.launched),
            }
        }
    }
}

fn epochs_of(batches: &[Batch], waits: &[TimeRange]) -> Vec<Epoch> {
    let mut epochs: Vec<Epoch> = Vec::new();
    let (mut next, mut before) = (0, f64::NEG_INFINITY);
    let middle = |batch: &Batch| batch.launched.from.midpoint(batch.launched.until);
    let all = waits.iter().map(|wait| Some(*wait)).chain([None]);
    for wait in all {
        let end = batches[next..].partition_point(|batch| wait.is_none_or(|wait| middle(batch) < wait.until));
        if end > 0 {
            let from = batches[next].launched.from.max(before);
            epochs.push(Epoch { batches: next..next + end, wait, from });
            next += end;
        }
        before = wait.map_or(before, |wait| wait.until);
    }
    epochs
}

/// Seconds of GPU time of a batch.
fn work_of(batch: &Batch, durations: &[f64]) -> f64 {
    batch.cells.iter().map(|cell| cell.units * durations.get(cell.column).copied().unwrap_or(0.0)).sum()
}

/// An epoch that tells durations: units of each column, and seconds.
type EpochTimes = (Vec<f64>, f64);

/// The epochs that tell durations.
fn telling(batches: &[Batch], epochs: &[Epoch], columns: usize) -> Vec<EpochTimes> {
    let telling = |epoch: &Epoch| {
        let time = epoch.wait_of(TELLING)?.until - epoch.from;
        let mut units = vec![0.0; columns];
        let cells = batches.get(epoch.batches.clone()).unwrap_or_default().iter().flat_map(|b| &b.cells);
        cells.for_each(|cell| units[cell.column] += cell.units);
        Some((units, time))
    };
    epochs.iter().filter_map(telling).collect()
}

/// Columns that are launched in one epoch in so small a part of theirs are not launched together.
const TOGETHER: f64 = 0.05;

/// What epochs tell of columns apart from each other; empty where they tell nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart {
    /// How much of each column's units the others' do not tell, in parts of them.
    pub(super) own: Vec<f64>,
    /// How many epochs have units of both columns, row by row.
    pub(super) both: Vec<f64>,
}

impl Apart {
    /// Whether two columns are launched in the same epochs, so that when they ran tells nothing of who took what.
    pub(super) fn together(&self, i: usize, j: usize) -> bool {
        let both = |i: usize, j: usize| self.both.get(i * self.own.len() + j).copied().unwrap_or(0.0);
        both(i, j) > TOGETHER * both(i, i).max(both(j, j))
    }
}

fn apart(epochs: &[EpochTimes], columns: usize) -> Apart {
    if epochs.len() < FEWEST_EPOCHS {
        return Apart::default();
    }
    let mut both = vec![0.0; columns * columns];
    for (units, _) in epochs {
        let here = launched(units);
        here.iter().for_each(|(i, _)| here.iter().for_each(|(j, _)| both[i * columns + j] += 1.0));
    }
    let mut normal = NormalEquations::new(columns);
    epochs.iter().for_each(|(units, time)| normal.add_row(&launched(units), *time, (time * time).recip()));
    Apart { own: normal.tolerances().into_iter().map(f64::sqrt).collect(), both }
}

/// Durations of each column's unit, where epochs show them, and what other draws of epochs show (pairs
/// bootstrap: Efron, 1979).
fn durations(epochs: &[EpochTimes], shape: &[f64]) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
    if epochs.len() < FEWEST_EPOCHS {
        return None;
    }
    let launches: f64 =
        epochs.iter().flat_map(|(units, _)| units.iter().zip(shape)).map(|(n, s)| n * s).sum();
    let launch = epochs.iter().map(|(_, time)| time).sum::<f64>() / launches.max(1e-9);
    let believed: Vec<f64> = shape.iter().map(|part| part * launch).collect();
    let found = durations_of(epochs.iter(), &believed);
    let miss = |(units, time): &EpochTimes| {
        let should: f64 = units.iter().zip(&found).map(|(units, duration)| units * duration).sum();
        (1.0 - should / time).abs()
    };
    let mut misses: Vec<f64> = epochs.iter().map(miss).collect();
    misses.sort_by(f64::total_cmp);
    if misses[misses.len() / 2] >= GOOD_DURATIONS {
        return None;
    }
    let mut random = Xorshift::new();
    let mut draw = || durations_of(epochs.iter().map(|_| &epochs[random.below(epochs.len())]), &believed);
    let others = (0..DRAWS).map(|_| draw()).collect();
    Some((found, others))
}

/// The durations that explain the epochs, near those that are believed.
fn durations_of<'a>(epochs: impl Iterator<Item = &'a EpochTimes>, believed: &[f64]) -> Vec<f64> {
    let mut normal = NormalEquations::new(believed.len());
    for (units, time) in epochs {
        let mut relative = launched(units);
        relative.iter_mut().for_each(|(column, units)| *units *= believed[*column] / time);
        normal.add_row(&relative, 1.0, 1.0 / (EPOCH_SD * EPOCH_SD));
    }
    normal.add_prior(1.0, 1.0 / (DURATION_SD * DURATION_SD));
    normal.solve(1.0, 1e-3).iter().zip(believed).map(|(part, believed)| part * believed).collect()
}

/// The columns of which there are units.
fn launched(units: &[f64]) -> Vec<(usize, f64)> {
    units.iter().copied().enumerate().filter(|(_, units)| *units > 0.0).collect()
}

/// Executes batches one after the other, each not before its launch; returns when the last one ends.
fn replay(batches: &mut [Batch], work: &[f64], factor: f64, free: f64) -> f64 {
    let mut end = free;
    for (batch, work) in batches.iter_mut().zip(work) {
        let from = batch.launched.from.max(end);
        end = (from + factor * work).max(batch.launched.until);
        batch.executed = TimeRange { from, until: end };
    }
    end
}

/// By what all durations of an epoch are to be multiplied, so that it ends with its wait. The end grows with
/// the factor.
fn factor_until(batches: &[Batch], work: &[f64], free: f64, until: f64) -> f64 {
    const HALVINGS: usize = 24;
    let end = |factor: f64| {
        batches.iter().zip(work).fold(free, |end, (batch, work)| {
            (batch.launched.from.max(end) + factor * work).max(batch.launched.until)
        })
    };
    let (mut low, mut high) = (0.0, 8.0);
    if end(high) < until {
        // The GPU did something else meanwhile, or was starved.
        return 1.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if end(middle) < until { low = middle } else { high = middle }
    }
    high
}

/// Without durations: launches are executed as they were launched, only slower, so that the last one ends
/// with the wait.
fn stretch(batches: &mut [Batch], from: f64, until: f64) {
    let last = batches.iter().map(|batch| batch.launched.until).fold(from, f64::max);
    let slower = (until - from).max(0.0) / (last - from).max(1e-6);
    let at = |time: f64| from + (time - from).max(0.0) * slower.max(1.0);
    for batch in batches {
        let TimeRange { from, until } = batch.launched;
        batch.executed = TimeRange { from: at(from), until: at(until) };
    }
}

const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Xorshift64 (Marsaglia: Xorshift RNGs, Journal of Statistical Software 2003).
struct Xorshift(u64);

impl Xorshift {
    /// The same in every run.
    const fn new() -> Self {
        Self(SEED)
    }

    /// From `0..below`; 0 where that is empty.
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (below.max(1) as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::features::Cell;
    use super::{Batch, Queue, TimeRange, Xorshift, durations_of, factor_until, replay, stretch};

    fn at(moment: f64, column: usize, units: f64) -> Batch {
        let launched = TimeRange { from: moment, until: moment };
        Batch { launched, executed: launched, blur: 0.0, cells: vec![Cell { owner: 1, column, units }] }
    }

    fn executed(batches: &[Batch]) -> Vec<(f64, f64)> {
        batches.iter().map(|batch| (batch.executed.from, batch.executed.until)).collect()
    }

    /// Work of 2, 3 and 1 s, launched at 0, 1 and 10 s: the second one waits for the first, the third finds
    /// the queue empty.
    #[test]
    fn a_queue_runs_in_order() {
        let mut batches = [at(0.0, 0, 1.0), at(1.0, 0, 1.0), at(10.0, 0, 1.0)];
        assert_eq!(replay(&mut batches, &[2.0, 3.0, 1.0], 1.0, 0.5), 11.0);
        assert_eq!(executed(&batches), [(0.5, 2.5), (2.5, 5.5), (10.0, 11.0)]);
    }

    /// Work of 5 s that was done after 7.5 s took half as long again; work that cannot fill the time has its
    /// own durations.
    #[test]
    fn durations_are_stretched_to_the_wait() {
        let batches = [at(0.0, 0, 1.0), at(1.0, 0, 1.0)];
        assert!((factor_until(&batches, &[2.0, 3.0], 0.0, 7.5) - 1.5).abs() < 1e-6);
        assert_eq!(factor_until(&batches, &[0.1, 0.1], 0.0, 7.5), 1.0);
    }

    /// Without durations launches of 1 and 3 s are spread over the 8 s until their wait ends, never
    /// shortened.
    #[test]
    fn launches_are_spread_over_their_epoch() {
        let mut batches = [at(1.0, 0, 1.0), at(3.0, 0, 1.0)];
        stretch(&mut batches, 1.0, 9.0);
        assert_eq!(executed(&batches), [(1.0, 1.0), (9.0, 9.0)]);
        stretch(&mut batches, 1.0, 2.0);
        assert_eq!(executed(&batches), [(1.0, 1.0), (3.0, 3.0)]);
    }

    /// Epochs whose times are 2 ms of the first column and 5 ms of the second show these durations.
    #[test]
    fn waits_show_durations() {
        let epoch = |i: u32| {
            let (a, b) = (f64::from(10 + i % 7), f64::from(3 + i * 3 % 5));
            (vec![a, b], 0.002 * a + 0.005 * b)
        };
        let epochs: Vec<super::EpochTimes> = (0..40).map(epoch).collect();
        let found = durations_of(epochs.iter(), &[0.003; 2]);
        assert!((found[0] - 0.002).abs() < 1e-5 && (found[1] - 0.005).abs() < 1e-5, "{found:?}");
    }

    /// One epoch of 4 s with a launch of each of two, which are believed to take 1 s: each took 2 s, as next to
    /// nothing is believed.
    #[test]
    fn beliefs_of_durations_are_loose() {
        let found = durations_of([(vec![1.0, 1.0], 4.0)].iter(), &[1.0; 2]);
        assert!(found.iter().all(|found| (found - 2.0).abs() < 5e-4), "{found:?}");
    }

    /// A step that replays a graph of 1.5 ms and copies its token of 128 bytes: times tell only the sum, which is the
    /// graph's then.
    #[test]
    fn a_token_takes_no_half_of_its_step() {
        let epochs: Vec<super::EpochTimes> = (0..40).map(|_| (vec![1.0, 1.0], 0.0015)).collect();
        let (found, others) = super::durations(&epochs, &[1.0, 0.002]).unwrap();
        for found in others.iter().chain([&found]) {
            assert!((found[0] - 0.0015).abs() < 3e-5 && found[1] < 3e-5, "{found:?}");
        }
    }

    /// Of columns that are launched in changing numbers each tells something of its own; of ones in the same
    /// proportion none does; and few epochs tell nothing.
    #[test]
    fn what_is_launched_apart() {
        let epochs = |count: u32, second: fn(u32) -> u32| -> Vec<super::EpochTimes> {
            let units = |i: u32| vec![f64::from(10 + i % 7), f64::from(second(i))];
            (0..count).map(|i| (units(i), 1.0)).collect()
        };
        assert!(super::apart(&epochs(40, |i| 3 + i * 3 % 5), 2).own.iter().all(|apart| *apart > 0.1));
        assert!(super::apart(&epochs(40, |i| 20 + 2 * (i % 7)), 2).own.iter().all(|apart| *apart < 1e-3));
        assert!(super::apart(&epochs(19, |i| 3 + i * 3 % 5), 2).own.is_empty());
    }

    /// A server: a replayed graph and a copy in each of 38 epochs, two kernels of a prefill in two others, one of which copies as
    /// well. Graph and copy are launched together, the kernels too, and neither with the others.
    #[test]
    fn what_is_launched_together() {
        let epoch = |i: u32| match i % 20 {
            7 => vec![0.0, f64::from(i % 40), 3.0, 5.0],
            _ => vec![1.0, 1.0, 0.0, 0.0],
        };
        let epochs: Vec<super::EpochTimes> = (0..40).map(|i| (epoch(i), 1.0)).collect();
        let apart = super::apart(&epochs, 4);
        let pairs = (0..4).flat_map(|i| (0..i).map(move |j| (i, j)));
        let together: Vec<_> = pairs.filter(|&(i, j)| apart.together(i, j)).collect();
        assert_eq!(together, [(1, 0), (3, 2)]);
    }

    /// The same through the whole queue: forty epochs of two launches each that begin every second and are
    /// waited for; what ran is found to the wait's end. Nineteen epochs tell nothing, and launches are
    /// spread.
    #[test]
    fn a_queue_is_drained_by_its_waits() {
        let of = |epochs: u32| {
            let (mut batches, mut waits) = (vec![], vec![]);
            for i in 0..epochs {
                let (from, a, b) = (f64::from(i), f64::from(10 + i % 7), f64::from(3 + i * 3 % 5));
                batches.extend([at(from, 0, a), at(from + 0.001, 1, b)]);
                waits.push(TimeRange { from: from + 0.002, until: from + 0.02 * a + 0.05 * b });
            }
            let queue = Queue::new(&batches, &waits, &[1.0; 2]);
            queue.drain(&mut batches, queue.durations.as_deref());
            (queue, batches)
        };
        let (queue, batches) = of(40);
        let durations = queue.durations.unwrap();
        assert!((durations[0] - 0.02).abs() < 1e-3 && (durations[1] - 0.05).abs() < 2e-3, "{durations:?}");
        assert!((batches[0].executed.until - 0.2).abs() < 5e-3, "{:?}", batches[0]);
        assert!((batches[1].executed.until - 0.35).abs() < 1e-4, "{:?}", batches[1]);
        let (queue, batches) = of(19);
        assert!(queue.durations.is_none());
        assert!((batches[1].executed.until - 0.35).abs() < 1e-9, "{:?}", batches[1]);
    }

    /// The first of Marsaglia's numbers for this seed (Python's integers), and what has no room.
    #[test]
    fn numbers_are_always_the_same() {
        let mut random = Xorshift::new();
        let found: Vec<usize> = (0..6).map(|_| random.below(1_000)).collect();
        assert_eq!(found, [951, 408, 135, 574, 710, 857]);
        assert_eq!(random.below(0), 0);
    }
}
