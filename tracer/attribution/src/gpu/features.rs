//! Which launches are expected to take the same energy each: those of one kernel with about as many threads,
//! and copies of one kind.
//!
//! A kernel's energy goes with the number of its threads, roughly: launches of one kernel whose sizes lie
//! within a power of two share a column, and count by their size in it. Copies and memsets count by bytes. A
//! column's unit is its average launch. Where their times are known (the kernel tier) all launches of a
//! kernel share a column, and its unit is a second in which it runs. Leaves out joules.

use super::constants::{COPIED_A_SECOND, COPY_SECONDS, MOST_COLUMNS};
use crate::time::owners::OwnerId;
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind, GpuBusy, Launched, Launches};
use std::collections::HashMap;

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
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
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
    /// Of what has no name: kernels of which nobody has looked for names yet are different ones.
    address: u64,
    size: u32,
}

#[derive(Default)]
struct Sum {
    count: f64,
    amount: f64,
    unknown: bool,
    stacks: Vec<(StackId, u32)>,
}

/// In place of a size class: launches whose times are known.
const TIMED: u32 = u32::MAX;

/// The size class of launches: 1 + log₂ of a kernel's threads, 0 where nobody knows them or they do not
/// matter.
fn size_of(launched: &Launched, kind: FrameKind) -> u32 {
    let each = launched.amount / launched.count.max(1);
    if kind == FrameKind::Gpu { each.checked_ilog2().map_or(0, |log| log + 1) } else { 0 }
}

fn leaf(recording: &Recording, stack: StackId) -> Option<&Frame> {
    let node = recording.stacks.get(stack.index())?;
    recording.frames.get(node.frame.index())
}

/// Launches by what they do, before they become columns.
#[derive(Default)]
struct Sums<'a> {
    of: HashMap<Key<'a>, Sum>,
    last: HashMap<(StackId, u32), Key<'a>>,
}

impl<'a> Sums<'a> {
    fn add_launches<'b>(&mut self, recording: &'a Recording, launches: impl Iterator<Item = &'b Launches>) {
        for launched in launches.flat_map(|batch| &batch.work) {
            let size = |kind| size_of(launched, kind);
            self.add(recording, launched.stack, size, (launched.count as f64, launched.amount));
        }
    }

    fn add(
        &mut self,
        recording: &'a Recording,
        stack: StackId,
        size: impl Fn(FrameKind) -> u32,
        (count, amount): (f64, u64),
    ) {
        let Some(frame) = leaf(recording, stack) else { return };
        let size = size(frame.kind);
        let address = if frame.name.is_empty() { frame.address } else { 0 };
        let key = Key { kind: frame.kind, module: &frame.module, name: &frame.name, address, size };
        let sum = self.of.entry(key).or_default();
        if self.last.insert((stack, size), key).is_none() {
            sum.stacks.push((stack, size));
        }
        sum.count += count;
        sum.amount += amount as f64;
        sum.unknown |= amount == 0;
    }

    /// Those with the largest counts come first.
    fn columns(self) -> Features {
        let mut sums: Vec<(Key<'_>, Sum)> = self.of.into_iter().collect();
        let text = |key: &Key<'_>| (key.name.to_owned(), key.module.to_owned(), key.address, key.size);
        sums.sort_by(|a, b| b.1.count.total_cmp(&a.1.count).then_with(|| text(&a.0).cmp(&text(&b.0))));
        let mut columns = Features::default();
        for (key, sum) in sums {
            columns.add(key, sum);
        }
        columns
    }
}

impl Features {
    /// The columns of some launches.
    pub(super) fn of<'a>(recording: &Recording, launches: impl Iterator<Item = &'a Launches>) -> Self {
        let mut sums = Sums::default();
        sums.add_launches(recording, launches);
        sums.columns()
    }

    /// The columns of what ran, by its time, and of launches whose time is not known.
    pub(super) fn timed<'a>(
        recording: &Recording,
        busy: impl Iterator<Item = &'a GpuBusy>,
        others: impl Iterator<Item = &'a Launches>,
    ) -> Self {
        let mut sums = Sums::default();
        for busy in busy {
            sums.add(recording, busy.stack, |_| TIMED, (busy.busy_ns as f64 / 1e9, 0));
        }
        sums.add_launches(recording, others);
        sums.columns()
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

    /// What a unit of each column is believed to take before anything was learned, in parts of a launch that runs for
    /// so many seconds: the same, but for a copy or memset of few bytes.
    pub(super) fn shape(&self, seconds: f64) -> Vec<f64> {
        let of = |(name, amount): (&String, &Option<f64>)| match amount {
            Some(bytes) if name.starts_with("[GPU ") => {
                ((COPY_SECONDS + bytes / COPIED_A_SECOND) / seconds.max(1e-9)).min(1.0)
            }
            _ => 1.0,
        };
        self.names.iter().zip(&self.amounts).map(of).collect()
    }

    pub(super) const fn len(&self) -> usize {
        self.names.len()
    }

    /// The column of what ran with a known time.
    pub(super) fn of_busy(&self, stack: StackId) -> Option<ColumnId> {
        self.of.get(&(stack, TIMED)).copied()
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

#[cfg(test)]
mod tests {
    use super::{Features, Launched, Launches, MOST_COLUMNS, Recording, StackId};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{FrameId, ThreadKey};
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};

    /// A stack of one frame for each kernel.
    fn recording(kernels: &[(FrameKind, &str)]) -> Recording {
        let frame = |&(kind, name): &(FrameKind, &str)| Frame { kind, ..Frame::special(name) };
        let stack = |frame| StackNode { parent: None, frame: FrameId::new(frame) };
        Recording {
            frames: kernels.iter().map(frame).collect(),
            stacks: (0..).take(kernels.len()).map(stack).collect(),
            ..Recording::default()
        }
    }

    /// So many launches of a stack, with so many threads or bytes in all.
    fn launched(stack: u32, count: u64, amount: u64) -> Launched {
        Launched { thread: ThreadKey::new(0), stack: StackId::new(stack), count, amount }
    }

    fn features(recording: &Recording, work: &[Launched]) -> Features {
        let at = KtimeNs::default();
        let batch = Launches { device: 0, from: at, until: at, work: work.to_vec() };
        Features::of(recording, [batch].iter())
    }

    /// Two launches of 1,024 threads and one of 1,536 share a column, whose unit is the average of 1,194 2/3;
    /// one of 4,096 is another; launches whose threads are not known count one each, and copies go by bytes,
    /// however many.
    #[test]
    fn units_of_launches() {
        let recording =
            recording(&[(FrameKind::Gpu, "gemm"), (FrameKind::Gpu, "old"), (FrameKind::Native, "copy")]);
        let work = [
            launched(0, 2, 2_048),
            launched(0, 1, 1_536),
            launched(0, 1, 4_096),
            launched(1, 9, 0),
            launched(2, 1, 100),
            launched(2, 1, 1_000_000),
        ];
        let features = features(&recording, &work);
        assert_eq!(features.names, ["old", "gemm", "copy", "gemm"]);
        assert_eq!(features.counts, [9.0, 3.0, 2.0, 1.0]);
        let cells = work.map(|work| features.cell(&recording, &work, 5).unwrap());
        assert_eq!(cells.map(|cell| cell.column), [1, 1, 3, 0, 2, 2]);
        let expected = [
            2_048.0 * 3.0 / 3_584.0,
            1_536.0 * 3.0 / 3_584.0,
            1.0,
            9.0,
            200.0 / 1_000_100.0,
            2e6 / 1_000_100.0,
        ];
        for (cell, expected) in cells.iter().zip(expected) {
            assert!((cell.units - expected).abs() < 1e-12 && cell.owner == 5, "{cell:?}");
        }
        assert!(features.cell(&recording, &launched(0, 1, 9), 5).is_none(), "of a size that nobody launched");
    }

    /// Kernels whose names nobody has looked for yet are different ones by their addresses.
    #[test]
    fn kernels_without_names() {
        let mut recording = recording(&[(FrameKind::Gpu, ""), (FrameKind::Gpu, ""), (FrameKind::Gpu, "")]);
        recording.frames.iter_mut().zip([1, 2, 1]).for_each(|(frame, address)| frame.address = address);
        let work = [launched(0, 3, 0), launched(1, 2, 0), launched(2, 4, 0)];
        let features = features(&recording, &work);
        assert_eq!(features.counts, [7.0, 2.0]);
        assert_eq!(work.map(|work| features.cell(&recording, &work, 0).unwrap().column), [0, 1, 0]);
    }

    /// A copy of 128 bytes is believed to take next to nothing of a launch's 500 µs, one of a gigabyte no more than a
    /// launch; nothing is known beforehand of kernels, and of copies whose bytes are not known.
    #[test]
    fn copies_are_believed_to_be_short() {
        let copy = |name| (FrameKind::Special, name);
        let kernels = [copy("[GPU graph]"), copy("[GPU copy]"), copy("[GPU copy D2H]"), copy("[GPU memset]")];
        let recording = recording(&kernels);
        let work = [launched(0, 4, 0), launched(1, 3, 384), launched(2, 2, 2 << 30), launched(3, 1, 0)];
        let features = features(&recording, &work);
        assert_eq!(features.names, kernels.map(|(_, name)| name));
        let shape = features.shape(500e-6);
        assert!((shape[1] - 2.0128e-6 / 500e-6).abs() < 1e-9, "{shape:?}");
        assert_eq!([shape[0], shape[2], shape[3]], [1.0; 3]);
    }

    /// The rarest of too many kernels share the last column, each launch a unit.
    #[test]
    fn too_many_kernels() {
        let names: Vec<String> = (0..MOST_COLUMNS + 2).map(|kernel| format!("k{kernel:02}")).collect();
        let kernels: Vec<(FrameKind, &str)> =
            names.iter().map(|name| (FrameKind::Gpu, name.as_str())).collect();
        let recording = recording(&kernels);
        let count = |kernel: u32| 1_000 - u64::from(kernel);
        let all = 0..u32::try_from(names.len()).unwrap();
        let work: Vec<Launched> =
            all.map(|kernel| launched(kernel, count(kernel), 64 * count(kernel))).collect();
        let features = features(&recording, &work);
        let last = MOST_COLUMNS - 1;
        assert_eq!((features.len(), features.names[last].as_str()), (MOST_COLUMNS, "other kernels"));
        let rare: u64 = work[last..].iter().map(|work| work.count).sum();
        assert_eq!(features.counts[last], rare as f64);
        for work in &work[last..] {
            let cell = features.cell(&recording, work, 0).unwrap();
            assert_eq!((cell.column, cell.units), (last, work.count as f64));
        }
        assert_eq!(features.cell(&recording, &work[last - 1], 0).unwrap().column, last - 1);
    }
}
