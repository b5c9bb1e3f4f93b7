//! Which launches are expected to take the same energy each: those of one kernel with about as many threads, and copies of one kind.
//!
//! A kernel's energy goes with the number of its threads, roughly: launches of one kernel whose sizes lie within a power of two share a
//! column, and count by their size in it. Copies and memsets count by bytes. A column's unit is its average launch. Leaves out joules.

use super::super::time::OwnerId;
use crate::ids::StackId;
use crate::profile::record::{Frame, FrameKind, Launched, Launches};
use crate::profile::recording::Recording;
use std::collections::HashMap;

/// More columns than this are not told apart by windows of a slow meter; those with the fewest launches share the last one.
const MOST_COLUMNS: usize = 48;

/// A column's number.
pub(super) type ColumnId = usize;

/// Launches of one owner and column, in units of the column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) owner: OwnerId,
    pub(super) column: ColumnId,
    pub(super) units: f64,
}

/// All columns of a GPU.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// What the reader calls each.
    pub(super) names: Vec<String>,
    /// Launches in each.
    pub(super) counts: Vec<f64>,
    /// Amount of a unit; `None` where a launch is a unit.
    amounts: Vec<Option<f64>>,
    of: HashMap<(StackId, u32), ColumnId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key<'a> {
    kind: FrameKind,
    module: &'a str,
    name: &'a str,
    size: u32,
}

#[derive(Default)]
struct Sum {
    count: f64,
    amount: f64,
    unknown: bool,
    stacks: Vec<(StackId, u32)>,
}

/// The size class of launches: 1 + log₂ of a kernel's threads, 0 where nobody knows them or they do not matter.
fn size_of(launched: &Launched, kind: FrameKind) -> u32 {
    let each = launched.amount / launched.count.max(1);
    if kind == FrameKind::Gpu { each.checked_ilog2().map_or(0, |log| log + 1) } else { 0 }
}

fn leaf(recording: &Recording, stack: StackId) -> Option<&Frame> {
    let node = recording.stacks.get(stack.index())?;
    recording.frames.get(node.frame.index())
}

impl Columns {
    /// The columns of some launches.
    pub(super) fn of<'a>(recording: &Recording, launches: impl Iterator<Item = &'a Launches>) -> Self {
        let mut sums: HashMap<Key<'_>, Sum> = HashMap::new();
        let mut last: HashMap<(StackId, u32), Key<'_>> = HashMap::new();
        for launched in launches.flat_map(|batch| &batch.work) {
            let Some(frame) = leaf(recording, launched.stack) else { continue };
            let size = size_of(launched, frame.kind);
            let key = Key { kind: frame.kind, module: &frame.module, name: &frame.name, size };
            let sum = sums.entry(key).or_default();
            if last.insert((launched.stack, size), key).is_none() {
                sum.stacks.push((launched.stack, size));
            }
            sum.count += launched.count as f64;
            sum.amount += launched.amount as f64;
            sum.unknown |= launched.amount == 0;
        }
        let mut sums: Vec<(Key<'_>, Sum)> = sums.into_iter().collect();
        let text = |key: &Key<'_>| (key.name.to_owned(), key.module.to_owned(), key.size);
        sums.sort_by(|a, b| b.1.count.total_cmp(&a.1.count).then_with(|| text(&a.0).cmp(&text(&b.0))));
        let mut columns = Self::default();
        for (key, sum) in sums {
            columns.add(key, sum);
        }
        columns
    }

    fn add(&mut self, key: Key<'_>, sum: Sum) {
        if self.names.len() >= MOST_COLUMNS {
            let last = MOST_COLUMNS - 1;
            "other kernels".clone_into(&mut self.names[last]);
            self.counts[last] += sum.count;
            self.amounts[last] = None;
            self.of.extend(sum.stacks.into_iter().map(|stack| (stack, last)));
            return;
        }
        let column = self.names.len();
        self.names.push(key.name.to_owned());
        self.counts.push(sum.count);
        self.amounts.push((!sum.unknown).then(|| sum.amount / sum.count.max(1.0)));
        self.of.extend(sum.stacks.into_iter().map(|stack| (stack, column)));
    }

    pub(super) const fn len(&self) -> usize {
        self.names.len()
    }

    /// The cell of launches by this owner.
    pub(super) fn cell(&self, recording: &Recording, launched: &Launched, owner: OwnerId) -> Option<Cell> {
        let size = size_of(launched, leaf(recording, launched.stack)?.kind);
        let column = *self.of.get(&(launched.stack, size))?;
        let units = match self.amounts[column] {
            Some(amount) => launched.amount as f64 / amount,
            None => launched.count as f64,
        };
        Some(Cell { owner, column, units })
    }
}
