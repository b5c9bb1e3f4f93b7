//! When launches were executed, as far as that is known, and how much of them falls into each stretch of the
//! meter.
//!
//! Times are seconds since the recording's start: a statistic, the ledger is exact elsewhere. Leaves out
//! where the times come from (`queue_replay`).

use super::features::Cell;

/// A stretch of time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TimeRange {
    pub(super) from: f64,
    pub(super) until: f64,
}

impl TimeRange {
    pub(super) fn length(self) -> f64 {
        (self.until - self.from).max(0.0)
    }
}

/// Launches that were counted together.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) launched: TimeRange,
    pub(super) executed: TimeRange,
    /// How far `executed` may be off at either end, in seconds.
    pub(super) blur: f64,
    pub(super) cells: Vec<Cell>,
}

impl Batch {
    /// The part of it that was executed between two moments.
    fn part(&self, from: f64, until: f64) -> f64 {
        let (start, end) = self.reach();
        ((until.min(end) - from.max(start)) / (end - start).max(1e-12)).max(0.0)
    }

    /// When it may have been executed.
    fn reach(&self) -> (f64, f64) {
        (self.executed.from - self.blur, self.executed.until + self.blur)
    }
}

/// All batches, ordered by the earliest start of their execution.
#[derive(Debug, Default)]
pub(super) struct Batches {
    pub(super) list: Vec<Batch>,
    /// The latest end of execution up to each.
    reach: Vec<f64>,
}

impl Batches {
    pub(super) fn new(mut list: Vec<Batch>) -> Self {
        list.sort_by(|a, b| a.reach().0.total_cmp(&b.reach().0));
        let mut latest = f64::NEG_INFINITY;
        let mut reach = |batch: &Batch| {
            latest = latest.max(batch.reach().1);
            latest
        };
        let reach = list.iter().map(&mut reach).collect();
        Self { list, reach }
    }

    /// Calls `each` with every cell that was executed between two moments, at least in part, and its units in
    /// that time.
    pub(super) fn between(&self, from: f64, until: f64, mut each: impl FnMut(&Cell, f64)) {
        let first = self.reach.partition_point(|&end| end <= from);
        for batch in self.list[first..].iter().take_while(|batch| batch.reach().0 < until) {
            let part = batch.part(from, until);
            if part > 0.0 {
                batch.cells.iter().for_each(|cell| each(cell, part * cell.units));
            }
        }
    }

    /// First launch and end of the last execution, each where it may have been.
    pub(super) fn extent(&self) -> Option<TimeRange> {
        let from = self.list.iter().map(|batch| batch.launched.from).reduce(f64::min)?;
        Some(TimeRange { from, until: *self.reach.last()? })
    }
}

/// The same launches, column by column within each batch, in this order or `backwards`: launches of some
/// milliseconds are counted together, but may take a hundred to execute. `durations` are those of a unit of
/// each column.
pub(super) fn in_turn(list: &[Batch], durations: &[f64], backwards: bool) -> Vec<Batch> {
    let mut turns = Vec::with_capacity(list.len());
    for batch in list {
        let work = |cell: &Cell| cell.units * durations.get(cell.column).copied().unwrap_or(0.0);
        let all: f64 = batch.cells.iter().map(work).sum();
        let mut cells = batch.cells.clone();
        cells.sort_by_key(|cell| cell.column);
        if backwards {
            cells.reverse();
        }
        let mut from = batch.executed.from;
        for cell in cells {
            let until = from + batch.executed.length() * work(&cell) / all.max(1e-12);
            let &Batch { launched, blur, .. } = batch;
            turns.push(Batch { launched, executed: TimeRange { from, until }, blur, cells: vec![cell] });
            from = until;
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::{Batch, Batches, Cell, TimeRange, in_turn};

    /// What falls into neighbouring stretches sums to the whole, also where executions overlap.
    #[test]
    fn parts_sum_to_the_whole() {
        let batch = |from: f64, until: f64, units: f64| Batch {
            launched: TimeRange { from, until },
            executed: TimeRange { from, until },
            blur: super::super::constants::BLUR,
            cells: vec![Cell { owner: 1, column: 0, units }],
        };
        let batches = Batches::new(vec![batch(0.3, 0.3, 5.0), batch(0.1, 0.9, 8.0), batch(0.5, 0.6, 1.0)]);
        let mut parts = vec![0.0; 10];
        for (i, sum) in (0_u8..).zip(&mut parts) {
            let from = f64::from(i) / 10.0;
            batches.between(from, from + 0.1, |_, units| *sum += units);
        }
        assert!((parts.iter().sum::<f64>() - 14.0).abs() < 1e-9, "{parts:?}");
        assert!((parts[3] - 1.0 - 2.5).abs() < 0.01, "a moment lies on both sides of a border: {parts:?}");
    }

    /// Each column has the part of the stretch that its work is, one after the other or the other way round;
    /// nothing is lost.
    #[test]
    fn columns_take_turns() {
        let cell = |column, units| Cell { owner: 0, column, units };
        let executed = TimeRange { from: 1.0, until: 5.0 };
        let launched = TimeRange { from: 0.9, until: 1.0 };
        let batch = Batch { launched, executed, blur: 0.0, cells: vec![cell(1, 2.0), cell(0, 6.0)] };
        let turns = |backwards| -> Vec<(usize, f64, f64)> {
            let turns = in_turn(std::slice::from_ref(&batch), &[0.5, 0.5], backwards);
            turns.iter().map(|turn| (turn.cells[0].column, turn.executed.from, turn.executed.until)).collect()
        };
        assert_eq!(turns(false), [(0, 1.0, 4.0), (1, 4.0, 5.0)]);
        assert_eq!(turns(true), [(1, 1.0, 2.0), (0, 2.0, 5.0)]);
    }
}
