//! Calls that are units of work (`--work NAME=calls:…`): what was counted so far is put where whoever reads units finds it (`work/calls.rs`).
//!
//! Leaves out counting, and functions of Python, whose processes tell it themselves.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::WorkId;
use energy_trace_model::recording::record::{Record, WorkReading, WorkUnits};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Between two looks at what was counted: power is read as often at most.
const PERIOD: Duration = Duration::from_millis(100);
/// A look is followed by a rest of so many times its own time.
const REST: u32 = 100;

/// Units of work that are the first of all names that are counted, in their order, and where their numbers stand.
#[derive(Debug, Default)]
pub struct UnitsOfCalls {
    ids: Vec<WorkId>,
    /// A number of eight bytes for each: its calls and one more; nothing where no such function was found.
    file: Option<File>,
    due: KtimeNs,
}

impl UnitsOfCalls {
    /// Units with these numbers, which are put into this file.
    pub const fn new(ids: Vec<WorkId>, file: File) -> Self {
        Self { ids, file: Some(file), due: KtimeNs::from_ns(0) }
    }

    pub(super) const fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_due(&self, now: KtimeNs) -> bool {
        !self.ids.is_empty() && now >= self.due
    }

    /// Puts down how often each was called that was found, which took so long to find out.
    pub(super) fn put(&mut self, calls: &[u64], found: &BTreeSet<usize>, now: KtimeNs, took: Duration) {
        self.due = now + PERIOD + took.saturating_mul(REST);
        let number =
            |(unit, calls): (usize, &u64)| calls.saturating_add(1) * u64::from(found.contains(&unit));
        let bytes: Vec<u8> = calls.iter().enumerate().map(number).flat_map(u64::to_ne_bytes).collect();
        // It is memory of ours.
        let _ = self.file.as_ref().map(|file| file.write_all_at(&bytes, 0));
    }

    /// How often each was called in all.
    pub(super) fn records(&self, calls: &[u64], at: KtimeNs) -> impl Iterator<Item = Record> {
        self.ids.iter().zip(calls).map(move |(id, calls)| {
            let value = Ok(WorkUnits::whole(*calls));
            Record::WorkReadings(*id, vec![WorkReading { at, within_ns: 0, value }])
        })
    }
}
