//! Charging by the time of kernels: what the launch tier has to infer is in the recording here.
//!
//! Launches of processes that no records tell of (their CUPTI was missing, or another profiler had it) count
//! as so many average kernels. Leaves out how time on a device is divided (`busy`), and everything that both
//! tiers share (the room itself).

use super::batches::Batch;
use super::busy::{KernelRun, Sharing, cells_of};
use super::charge::{Gpu, LaunchModel};
use super::constants::{BETTER_WHOLE, CELL, PRIOR_SD, SIDE_BY_SIDE};
use super::errors_in_variables::FeatureError;
use super::estimate::Estimate;
use super::features::Features;
use super::queue_replay::{Apart, Queue};
use crate::time::owners::OwnerId;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{ProcessKey, ThreadKey};
use energy_trace_model::profile::diagnostics::SplitBy;
use energy_trace_model::recording::record::{GpuBusy, Launched, Launches};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeSet;

impl Gpu<'_> {
    /// As `estimate`, where records tell when kernels ran.
    pub(super) fn estimate_by_time(&self, dynamic: &[MicroJoules]) -> Option<Estimate> {
        let untold = self.untold();
        let others = untold.iter().map(|(batch, _)| batch);
        let columns = Features::timed(self.recording, self.busy().map(|(busy, _)| busy), others);
        if columns.len() == 0 {
            return None;
        }
        let runs = self.runs(&columns);
        let (divided, crowded) = cells_of(&runs, Sharing::Divided);
        let best =
            self.learn_from(&columns, divided, &untold, SplitBy::Kernels { crowded, whole: false }, dynamic);
        if crowded < SIDE_BY_SIDE {
            return Some(best);
        }
        let (whole, _) = cells_of(&runs, Sharing::Whole);
        let other =
            self.learn_from(&columns, whole, &untold, SplitBy::Kernels { crowded, whole: true }, dynamic);
        Some(if other.fit.noise < BETTER_WHOLE * best.fit.noise { other } else { best })
    }

    fn learn_from(
        &self,
        columns: &Features,
        mut list: Vec<Batch>,
        untold: &[(Launches, Vec<OwnerId>)],
        by: SplitBy,
        dynamic: &[MicroJoules],
    ) -> Estimate {
        let mean = self.mean_seconds();
        let mut launched = self.batches(untold.iter().map(|(batch, owners)| (batch, owners)), columns, mean);
        // They run later than they are launched: until their process's waits end.
        let told = self.told();
        let waits = self.waits(|thread| !told.contains(&self.process_of(thread)));
        Queue::new(&launched, &waits, &vec![1.0; columns.len()]).drain(&mut launched, None);
        list.extend(launched);
        let executed = LaunchModel {
            columns: columns.clone(),
            shape: vec![1.0; columns.len()],
            apart: Apart::default(),
            belief: PRIOR_SD.0,
            by,
            coarse: Some(self.coarse(columns, mean)),
            timed: untold.is_empty(),
        };
        self.learn(executed, list, std::iter::empty(), dynamic)
    }

    /// What ran on the device, and who launched it.
    fn busy(&self) -> impl Iterator<Item = (&GpuBusy, OwnerId)> {
        let all = self.recording.gpu.busy.iter().zip(self.launchers.of_busy.iter().copied());
        all.filter(|(busy, _)| busy.device == self.device)
    }

    fn runs(&self, columns: &Features) -> Vec<KernelRun> {
        let ns = |at: KtimeNs| at.ns_since(self.start);
        let run = |(busy, owner): (&GpuBusy, OwnerId)| {
            let (from, until) = (ns(busy.from), ns(busy.until));
            let length = busy.until.ns_since(busy.from).max(1);
            let density = busy.busy_ns as f64 / length as f64;
            Some(KernelRun { from, until, density, owner, column: columns.of_busy(busy.stack)? })
        };
        self.busy().filter_map(run).collect()
    }

    /// How coarse each column is: kernels of a stack that follow each other are put together, and say when
    /// they ran as a whole.
    fn coarse(&self, columns: &Features, mean: f64) -> Vec<FeatureError> {
        let mut sums = vec![(0.0, 0.0, 0.0); columns.len()];
        for (busy, _) in self.busy() {
            let Some(sum) = columns.of_busy(busy.stack).and_then(|column| sums.get_mut(column)) else {
                continue;
            };
            let (length, seconds) = (busy.until.ns_since(busy.from), busy.busy_ns as f64 / 1e9);
            // What fills its stretch has one place in it.
            let spread = if length > busy.busy_ns { length as f64 / 1e9 } else { 0.0 };
            *sum = (sum.0 + seconds, sum.1 + busy.count as f64, sum.2 + seconds * spread.max(CELL));
        }
        let of_column = |&(seconds, count, stretch): &(f64, f64, f64)| match seconds > 0.0 && count > 0.0 {
            true => FeatureError { kernel: seconds / count, stretch: stretch / seconds },
            false => FeatureError { kernel: mean, stretch: CELL },
        };
        sums.iter().map(of_column).collect()
    }

    /// Seconds of an average kernel.
    fn mean_seconds(&self) -> f64 {
        let sum = |(ns, count): (u64, u64), (busy, _): (&GpuBusy, OwnerId)| {
            (ns.saturating_add(busy.busy_ns), count.saturating_add(busy.count))
        };
        let (ns, count) = self.busy().fold((0, 0), sum);
        ns as f64 / 1e9 / count.max(1) as f64
    }

    fn process_of(&self, thread: ThreadKey) -> Option<ProcessKey> {
        self.recording.threads.get(thread.index()).map(|thread| thread.process)
    }

    /// Processes that records tell of.
    fn told(&self) -> BTreeSet<Option<ProcessKey>> {
        self.recording.gpu.busy.iter().map(|busy| self.process_of(busy.thread)).collect()
    }

    /// Launches of processes that no records tell of.
    fn untold(&self) -> Vec<(Launches, Vec<OwnerId>)> {
        let told = self.told();
        let of_batch = |(batch, owners): (&Launches, &Vec<OwnerId>)| {
            let both = batch.work.iter().copied().zip(owners.iter().copied());
            let untold = both.filter(|(work, _)| !told.contains(&self.process_of(work.thread)));
            let (work, owners): (Vec<Launched>, Vec<OwnerId>) = untold.unzip();
            let Launches { device, from, until, .. } = *batch;
            (!work.is_empty()).then_some((Launches { device, from, until, work }, owners))
        };
        self.launches().filter_map(of_batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CELL, FeatureError, Features, Gpu, GpuBusy, KtimeNs, Launched, Launches, ProcessKey, ThreadKey,
    };
    use crate::time::launchers::Launchers;
    use energy_trace_model::ids::{FrameId, StackId, Tid};
    use energy_trace_model::recording::Recording;
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode, Thread};

    /// Three records of two kernels by a thread of the first of two processes; a launch of it, and two of the
    /// other, that no record tells of.
    fn recording() -> (Recording, Launchers) {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let frame = |name: &str| Frame { kind: FrameKind::Gpu, ..Frame::special(name) };
        let stack = |frame| StackNode { parent: None, frame: FrameId::new(frame) };
        let thread = |key| Thread {
            key: ThreadKey::new(key),
            process: ProcessKey::new(key),
            tid: Tid::new(key),
            name: String::new(),
        };
        let busy = |device, stack, from, until, count, busy_ms: u64| GpuBusy {
            device,
            thread: ThreadKey::new(0),
            stack: StackId::new(stack),
            launched: ms(from),
            from: ms(from),
            until: ms(until),
            count,
            busy_ns: busy_ms * 1_000_000,
        };
        let work = [0, 1, 1].map(|thread| Launched {
            thread: ThreadKey::new(thread),
            stack: StackId::new(2),
            count: 1,
            amount: 0,
        });
        let batch = Launches { device: 0, from: ms(1), until: ms(2), work: work.to_vec() };
        let mut recording = Recording {
            frames: ["gemm", "copy", "untold"].map(frame).into(),
            stacks: [0, 1, 2].map(stack).into(),
            threads: [0, 1].map(thread).into(),
            ..Recording::default()
        };
        recording.gpu.busy = vec![
            busy(0, 0, 10, 30, 2, 10),
            busy(0, 0, 40, 46, 4, 6),
            busy(0, 1, 50, 54, 2, 4),
            busy(1, 1, 60, 90, 1, 30),
        ];
        recording.gpu.launches = vec![batch];
        (recording, Launchers { of_batches: vec![vec![1, 2, 3]], of_busy: vec![4, 5, 6, 7] })
    }

    /// Eight kernels took 20 ms. Pieces of a kernel are its time over their number; a stretch is the mean of
    /// those that are not filled, by time in them, a cell where they are. Who no record tells of has average
    /// ones.
    #[test]
    fn how_coarse_records_are() {
        let (recording, launchers) = recording();
        let start = KtimeNs::from_ns(5_000_000);
        let gpu = Gpu {
            recording: &recording,
            device: 0,
            launchers: &launchers,
            start,
            intervals: &[],
            after: &[],
            in_windows: false,
        };
        let mean = gpu.mean_seconds();
        assert!((mean - 0.020 / 8.0).abs() < 1e-12, "{mean}");
        let untold = gpu.untold();
        let owners: Vec<_> =
            untold.iter().map(|(batch, owners)| (batch.work.len(), owners.clone())).collect();
        assert_eq!(owners, [(2, vec![2, 3])]);
        let columns = Features::timed(
            &recording,
            gpu.busy().map(|(busy, _)| busy),
            untold.iter().map(|(batch, _)| batch),
        );
        let coarse = gpu.coarse(&columns, mean);
        let of = |name: &str| coarse[columns.names.iter().position(|known| known == name).unwrap()];
        let near = |found: FeatureError, kernel: f64, stretch: f64| {
            assert!(
                (found.kernel - kernel).abs() < 1e-12 && (found.stretch - stretch).abs() < 1e-12,
                "{found:?}"
            );
        };
        near(of("gemm"), 0.016 / 6.0, (0.010 * 0.020 + 0.006 * CELL) / 0.016);
        near(of("copy"), 0.004 / 2.0, CELL);
        near(of("untold"), mean, CELL);
        let runs = gpu.runs(&columns);
        let of_runs: Vec<_> =
            runs.iter().map(|run| (run.from / 1_000_000, run.until / 1_000_000, run.owner)).collect();
        assert_eq!(of_runs, [(5, 25, 4), (35, 41, 5), (45, 49, 6)]);
        assert!((runs[0].density - 0.5).abs() < 1e-12 && (runs[2].density - 1.0).abs() < 1e-12, "{runs:?}");
    }
}
