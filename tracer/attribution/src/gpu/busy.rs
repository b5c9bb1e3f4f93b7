//! The kernel tier's view: when what ran, exactly, as records of the driver tell it.
//!
//! A moment of the device is never counted twice: where several kernels run side by side on streams, each has
//! its part of that moment, together no more than all of it. That is how energy is split where the counter
//! shows what one of them costs alone and both together cost about as much. Where both together cost the sum,
//! as small kernels do that leave room on the device, each counts with its whole time as long as the counter
//! is explained better by that; the energy is the counter's in either case, and is split once (`split`).
//!
//! Times are put into cells of a millisecond, which no meter resolves. Leaves out joules (`launch_energies`).

use super::batches::{Batch, TimeRange};
use super::constants::CELL_NS;
use super::features::Cell;
use std::collections::BTreeMap;

/// How kernels that run side by side count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Each with its part of the moment.
    #[default]
    Divided,
    /// Each with its whole time.
    Whole,
}

/// Something that ran, in nanoseconds since the recording's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KernelRun {
    pub(super) from: u64,
    pub(super) until: u64,
    /// The part of that time in which it ran.
    pub(super) density: f64,
    pub(super) owner: u32,
    pub(super) column: usize,
}

/// What ran, in cells; and the part of the busy time in which several ran at once.
pub(super) fn cells_of(runs: &[KernelRun], sharing: Sharing) -> (Vec<Batch>, f64) {
    let mut sorted: Vec<&KernelRun> =
        runs.iter().filter(|run| run.until > run.from && run.density > 0.0).collect();
    sorted.sort_by_key(|run| run.from);
    let mut sweep = Sweep { sharing, ..Sweep::default() };
    let mut next = sorted.into_iter().peekable();
    let mut now = next.peek().map_or(0, |run| run.from);
    loop {
        while let Some(run) = next.next_if(|run| run.from <= now) {
            sweep.active.push(*run);
        }
        let starts = next.peek().map(|run| run.from);
        if sweep.active.is_empty() {
            let Some(start) = starts else { break };
            if start / CELL_NS != now / CELL_NS {
                sweep.close();
            }
            now = start;
            continue;
        }
        let ends = sweep.active.iter().map(|run| run.until).min();
        let border = (now / CELL_NS + 1) * CELL_NS;
        let until = [starts, ends].into_iter().flatten().fold(border, u64::min);
        sweep.pass(now, until);
        now = until;
        sweep.active.retain(|run| run.until > now);
    }
    sweep.close();
    let part = sweep.crowded / sweep.busy.max(1e-12);
    (sweep.batches, part)
}

#[derive(Default)]
struct Sweep {
    sharing: Sharing,
    active: Vec<KernelRun>,
    /// The cell that is open: what ran in it, and when.
    units: BTreeMap<(u32, usize), f64>,
    cell: TimeRange,
    batches: Vec<Batch>,
    busy: f64,
    crowded: f64,
}

impl Sweep {
    /// The active runs go on from one moment to another, in one cell.
    fn pass(&mut self, from: u64, until: u64) {
        let seconds = (until - from) as f64 / 1e9;
        let all: f64 = self.active.iter().map(|run| run.density).sum();
        let part = if self.sharing == Sharing::Divided { 1.0 / all.max(1.0) } else { 1.0 };
        if self.units.is_empty() {
            self.cell.from = from as f64 / 1e9;
        }
        for run in &self.active {
            *self.units.entry((run.owner, run.column)).or_default() += run.density * part * seconds;
        }
        self.cell.until = until as f64 / 1e9;
        self.busy += all.min(1.0) * seconds;
        // Parts of a graph that take turns add up to a rounding error more than one.
        if all > 1.001 {
            self.crowded += seconds;
        }
        if until.is_multiple_of(CELL_NS) {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.units.is_empty() {
            return;
        }
        let cell = |((owner, column), units)| Cell { owner, column, units };
        let cells = std::mem::take(&mut self.units).into_iter().map(cell).collect();
        self.batches.push(Batch { launched: self.cell, executed: self.cell, blur: 0.0, cells });
    }
}

#[cfg(test)]
mod tests {
    use super::{KernelRun, Sharing, cells_of};

    fn run(from_us: u64, until_us: u64, owner: u32) -> KernelRun {
        KernelRun { from: from_us * 1000, until: until_us * 1000, density: 1.0, owner, column: 0 }
    }

    fn seconds(runs: &[KernelRun], sharing: Sharing) -> Vec<f64> {
        let (batches, _) = cells_of(runs, sharing);
        let mut sums = [0.0; 4];
        for cell in batches.iter().flat_map(|batch| &batch.cells) {
            sums[cell.owner as usize] += cell.units;
        }
        sums.map(|sum: f64| (sum * 1e6).round()).to_vec()
    }

    /// Two kernels that overlap for half of the first have a part of that time each, three a third; together
    /// they have the time in which anything ran. Undivided each has all of its own.
    #[test]
    fn time_is_divided_once() {
        let runs = [run(100, 3_100, 1), run(1_600, 4_100, 2)];
        assert_eq!(seconds(&runs, Sharing::Divided), [0.0, 2_250.0, 1_750.0, 0.0]);
        assert_eq!(seconds(&runs, Sharing::Whole), [0.0, 3_000.0, 2_500.0, 0.0]);
        let three = [run(0, 900, 1), run(0, 900, 2), run(0, 900, 3)];
        assert_eq!(seconds(&three, Sharing::Divided), [0.0, 300.0, 300.0, 300.0]);
        let (_, crowded) = cells_of(&runs, Sharing::Divided);
        assert!((crowded - 1.5 / 4.0).abs() < 1e-9, "{crowded}");
    }

    /// Parts of a graph that take turns are not side by side: each keeps its time. Cells are no longer than a
    /// millisecond and lie where something ran.
    #[test]
    fn turns_are_not_side_by_side() {
        let turn = |owner, density| KernelRun { density, ..run(500, 2_500, owner) };
        let runs = [turn(1, 0.25), turn(2, 0.75), run(9_000, 9_100, 3)];
        assert_eq!(seconds(&runs, Sharing::Divided), [0.0, 500.0, 1_500.0, 100.0]);
        let (batches, crowded) = cells_of(&runs, Sharing::Divided);
        let stretches: Vec<(f64, f64)> =
            batches.iter().map(|batch| (batch.executed.from * 1e3, batch.executed.until * 1e3)).collect();
        assert_eq!(stretches, [(0.5, 1.0), (1.0, 2.0), (2.0, 2.5), (9.0, 9.1)]);
        assert!(crowded < 1e-9);
    }
}
