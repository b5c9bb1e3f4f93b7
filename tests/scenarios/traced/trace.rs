//! A recorded program as the truth of a world: what each CPU did from one moment to the next.
//!
//! Each piece of a thread's time belongs to the stack of the nearest sample. Where samples are missing for many periods the CPU was taken away,
//! and nothing of the program ran. Leaves out watts (`watts.rs`).

use super::super::worlds::schedule::{Bound, Piece, Who};
use super::super::worlds::{BOOT, MS, SECOND};
use super::watts::Drawn;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Clocks, CpuOwner, Slice};

/// A CPU was taken away where no sample came for so long, and for so many periods.
const PAUSE: (u64, u64) = (4 * MS, 20);
/// Stands for other processes that the recording does not tell apart.
const OTHERS: u32 = u32::MAX;

/// A recording at a high rate. Its time begins at `BOOT`, and it has no readings.
pub struct Trace {
    pub recording: Recording,
    /// In nanoseconds.
    pub length: u64,
}

/// A sample's time since the beginning, and its stack.
type Seen = (u64, StackId);

impl Trace {
    /// Of a recording; what lies outside of its time is left out. `None` for one that was cut off.
    pub fn of(mut recording: Recording) -> Option<Self> {
        let summary = recording.summary.take()?;
        let length = summary.end.as_ns().saturating_sub(summary.start.as_ns());
        let moved = |at: KtimeNs| {
            KtimeNs::from_ns(BOOT + at.as_ns().saturating_sub(summary.start.as_ns()).min(length))
        };
        for slice in &mut recording.slices {
            (slice.start, slice.end) = (moved(slice.start), moved(slice.end));
        }
        recording.slices.retain(|slice| slice.start < slice.end);
        recording.samples.iter_mut().for_each(|sample| sample.at = moved(sample.at));
        recording.requests.waits.iter_mut().for_each(|wait| wait.at = moved(wait.at));
        recording.requests.wakes.iter_mut().for_each(|wake| wake.at = moved(wake.at));
        recording.sleeps.clear();
        recording.clocks = Clocks::default();
        Some(Self { recording, length })
    }

    /// The same with nobody beside the program: where others ran, nobody did.
    pub fn alone(mut self) -> Self {
        self.recording.slices.retain(|slice| matches!(slice.who, CpuOwner::Target(_)));
        self.recording.background.clear();
        self
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> u32 {
        self.recording.slices.iter().map(|slice| slice.cpu.get() + 1).max().unwrap_or(1)
    }

    /// What happened on each CPU, ordered by CPU and time, with the watts that were drawn for it.
    pub fn pieces(&self, drawn: &Drawn) -> Vec<Piece> {
        let seen = self.seen();
        let mut pieces = vec![];
        for slice in &self.recording.slices {
            match slice.who {
                CpuOwner::Target(thread) => {
                    let none = vec![];
                    self.cut(
                        slice,
                        thread.get(),
                        seen.get(thread.index()).unwrap_or(&none),
                        drawn,
                        &mut pieces,
                    );
                }
                CpuOwner::Background(key) => pieces.push(background(slice, key.get(), drawn)),
                CpuOwner::Other => pieces.push(background(slice, OTHERS, drawn)),
            }
        }
        pieces
    }

    /// The samples of each thread in order.
    fn seen(&self) -> Vec<Vec<Seen>> {
        let mut seen = vec![vec![]; self.recording.threads.len()];
        for sample in &self.recording.samples {
            if let Some(of_thread) = seen.get_mut(sample.thread.index()) {
                of_thread.push((sample.at.as_ns() - BOOT, sample.stack));
            }
        }
        seen
    }

    /// Cuts a slice half-way between its samples, and where the CPU was taken away.
    fn cut(&self, slice: &Slice, thread: u32, seen: &[Seen], drawn: &Drawn, pieces: &mut Vec<Piece>) {
        let (start, end) = (slice.start.as_ns() - BOOT, slice.end.as_ns() - BOOT);
        let within = &seen[seen.partition_point(|s| s.0 < start)..seen.partition_point(|s| s.0 < end)];
        let mut piece = |(from, to): (u64, u64), stack: Option<StackId>| {
            if from < to {
                pieces.push(Piece {
                    cpu: slice.cpu.get(),
                    from,
                    to,
                    who: Who::Thread(thread),
                    path: stack.map_or(0, StackId::get),
                    watts: stack.map_or(0.0, |stack| drawn.watts(stack)),
                    bound: Bound::Compute,
                    stolen: stack.is_none(),
                });
            }
        };
        if within.is_empty() {
            return piece((start, end), nearest(seen, start, end));
        }
        let mut before: (u64, Option<StackId>) = (start, None);
        let marks = within.iter().map(|(at, stack)| (*at, Some(*stack))).chain([(end, None)]);
        for after in marks {
            let gap = after.0 - before.0;
            let seen_for = if gap < self.pause() { gap } else { self.period() };
            let (left, right) = match (before.1, after.1) {
                (Some(_), Some(_)) => (before.0 + seen_for / 2, after.0 - seen_for / 2),
                (None, _) => (before.0, after.0 - seen_for),
                (_, None) => (before.0 + seen_for, after.0),
            };
            piece((before.0, left), before.1);
            piece((left, right), None);
            piece((right, after.0), after.1);
            before = after;
        }
    }

    fn period(&self) -> u64 {
        SECOND / u64::from(self.recording.header.sample_hz.max(1))
    }

    /// From how long a gap on the CPU was taken away.
    fn pause(&self) -> u64 {
        PAUSE.0.max(PAUSE.1 * self.period())
    }
}

/// The stack of the sample that is nearest to a stretch without one; `None` for a thread that was never seen.
fn nearest(seen: &[Seen], start: u64, end: u64) -> Option<StackId> {
    let behind = seen.partition_point(|s| s.0 < end);
    let before = behind.checked_sub(1).and_then(|at| seen.get(at));
    let after = seen.get(behind);
    match (before, after) {
        (Some(before), Some(after)) if after.0 - end < start - before.0 => Some(after.1),
        (Some(one), _) | (None, Some(one)) => Some(one.1),
        (None, None) => None,
    }
}

fn background(slice: &Slice, key: u32, drawn: &Drawn) -> Piece {
    Piece {
        cpu: slice.cpu.get(),
        from: slice.start.as_ns() - BOOT,
        to: slice.end.as_ns() - BOOT,
        who: Who::Stranger(key),
        path: 0,
        watts: drawn.background(key),
        bound: Bound::Compute,
        stolen: false,
    }
}
