//! A recording that is still being written, read piece by piece: what is learned of it so far, in windows of time that follow each other.
//!
//! Every sample and every nanosecond of a slice is in one window exactly; what a window is made of is
//! forgotten, and programs that have ended are once somebody says so (`places`), and so are frames and stacks
//! that the recorder has forgotten. Leaves out functions that are inlined or renamed later, and where the
//! bytes come from.

use super::assembly::Assembly;
use super::file::{Chunk, KIND_RECORDS, add_chunk, read_chunk, read_opening};
pub use super::places::NewProcess;
use super::places::Places;
use super::record::{CutReason, DomainClass, Reading, Slice, Summary};
use super::tables::Recording;
use super::totals::lay_out;
use super::work::WorkSeries;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::ProcessKey;
use std::collections::HashSet;
use std::time::Duration;

/// Bytes of a chunk's head, of which the second to fifth are its length.
const HEAD: usize = 9;
/// Bytes of a file's opening up to the version.
const OPENING: usize = 13;
/// For so long it is kept who waited and who woke whom.
const REQUESTS: Duration = Duration::from_secs(30);

/// A recording in the making.
#[derive(Default)]
pub struct IncrementalReader {
    bytes: Vec<u8>,
    is_opened: bool,
    /// The tables of all, and what no window has had yet.
    assembly: Assembly,
    places: Places,
    /// Up to when windows reach.
    done: Option<KtimeNs>,
    /// The last moment of which anything is known.
    last: KtimeNs,
}

impl IncrementalReader {
    /// Takes in bytes as they come.
    ///
    /// # Errors
    /// When they are no recording.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), CutReason> {
        self.bytes.extend(bytes);
        let mut whole = std::mem::take(&mut self.bytes);
        let mut rest = whole.as_slice();
        if !self.is_opened {
            if !has_opening(rest) {
                self.bytes = whole;
                return Ok(());
            }
            read_opening(&mut rest).map_err(|_| CutReason::AfterOpening)?;
            self.is_opened = true;
        }
        while let Some(chunk) = whole_chunk(rest) {
            self.add(chunk)?;
            rest = rest.get(chunk.len()..).unwrap_or_default();
        }
        let left = whole.len() - rest.len();
        whole.drain(..left);
        self.bytes = whole;
        Ok(())
    }

    fn add(&mut self, mut chunk: &[u8]) -> Result<(), CutReason> {
        match read_chunk(&mut chunk) {
            Ok(Chunk::Whole(KIND_RECORDS, payload)) => {
                add_chunk(&payload, |record| match self.places.place(record) {
                    Some(record) => self.assembly.add(record),
                    None => Ok(()),
                })
            }
            Ok(Chunk::Torn(reason)) => Err(reason),
            Ok(Chunk::Whole(kind, _)) => Err(CutReason::ChunkKind(kind)),
            Ok(Chunk::End) | Err(_) => Err(CutReason::Chunk),
        }
    }

    /// The last moment of which anything is known.
    pub fn last(&mut self) -> KtimeNs {
        if let Some(recording) = self.assembly.so_far() {
            let slices = recording.slices.iter().map(|slice| slice.end);
            let samples = recording.samples.iter().map(|sample| sample.at);
            let readings = recording.readings.values().filter_map(|of| of.last()).map(|reading| reading.at);
            let slices = slices.chain(recording.totals.iter().map(|totals| totals.end));
            self.last = slices.chain(samples).chain(readings).fold(self.last, KtimeNs::max);
        }
        self.last
    }

    /// How often GPUs were read since the last window and before this moment, of the one that was read least; `None` where nothing was launched.
    pub fn gpu_readings(&mut self, until: KtimeNs) -> Option<usize> {
        let (recording, done) = (self.assembly.so_far()?, self.done.unwrap_or_default());
        let is_new = |at: KtimeNs| done < at && at <= until;
        recording.gpu.launches.iter().any(|launches| launches.from < until).then_some(())?;
        let gpus = recording.domains.iter().filter(|domain| domain.class == DomainClass::Gpu);
        let readings = gpus.filter_map(|domain| recording.readings.get(&domain.id));
        readings.map(|of| of.iter().filter(|reading| is_new(reading.at)).count()).min()
    }

    /// Processes that were not told of before, in the order of their numbers.
    pub fn new_processes(&mut self) -> Vec<NewProcess> {
        std::mem::take(&mut self.places.new)
    }

    /// The recorder's number of a process of the last window, until somebody is forgotten.
    pub fn number_of(&self, process: ProcessKey) -> Option<u32> {
        self.places.number_of(process)
    }

    /// The recorder's numbers of all processes that are known.
    pub fn numbers(&self) -> HashSet<u32> {
        self.places.numbers().collect()
    }

    /// Samples of those who had been forgotten.
    pub const fn strays(&self) -> u64 {
        self.places.strays
    }

    /// Forgets programs that have ended, by the recorder's numbers, as far as no later window has a part of
    /// theirs.
    pub fn forget_ended(&mut self, has_ended: &dyn Fn(u32) -> bool) {
        if let Some(recording) = self.assembly.so_far() {
            self.places.forget(recording, has_ended);
        }
    }

    /// How many processes, threads, frames and stacks are known.
    pub fn known(&mut self) -> [usize; 4] {
        self.assembly
            .so_far()
            .map_or([0; 4], |of| [of.processes.len(), of.threads.len(), of.frames.len(), of.stacks.len()])
    }

    /// What lies between the end of the last window (at first, the recording's start) and this moment; `None` where nothing does. What is later is
    /// kept for the next.
    pub fn window(&mut self, until: KtimeNs) -> Option<Recording> {
        let recording = self.assembly.so_far()?;
        let from = *self.done.get_or_insert(recording.header.anchor.ktime);
        if until <= from {
            return None;
        }
        self.done = Some(until);
        lay_out(recording);
        let mut window = recording.clone();
        window.summary = Some(Summary { start: from, end: until, ..Summary::default() });
        cut(&mut window, from, until);
        forget(recording, until);
        Some(window)
    }
}

/// Whether the opening is there whole: its last number is the length of the version behind it.
fn has_opening(bytes: &[u8]) -> bool {
    bytes.get(OPENING - 1).is_some_and(|length| bytes.len() >= OPENING + usize::from(*length))
}

/// The first chunk with its head, if it is there whole.
fn whole_chunk(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.get(1..5)?.first_chunk().copied().map(u32::from_le_bytes)?;
    bytes.get(..HEAD.checked_add(length as usize)?)
}

/// Leaves what lies in the window. Readings may reach beyond it on either side: what is between two of them is divided by time.
fn cut(window: &mut Recording, from: KtimeNs, until: KtimeNs) {
    let part = |slice: &Slice| Slice { start: slice.start.max(from), end: slice.end.min(until), ..*slice };
    window.slices = window.slices.iter().map(part).filter(|slice| slice.start < slice.end).collect();
    window.slices.sort_by_key(|slice| (slice.cpu, slice.start));
    window.samples.retain(|sample| from <= sample.at && sample.at < until);
    window.samples.order_by_key(|sample| sample.at);
    window.unsampled.retain(|stretch| stretch.start < until && from < stretch.end);
    window.unsampled.order_by_key(|stretch| (stretch.cpu, stretch.start));
    window.gpu.launches.retain(|launches| from <= launches.from && launches.from < until);
    window.gpu.launches.order_by_key(|launches| launches.from);
    window.gpu.busy.retain(|busy| from <= busy.from && busy.from < until);
    window.gpu.busy.order_by_key(|busy| busy.from);
    window.requests.waits.order_by_key(|wait| wait.at);
    window.requests.wakes.order_by_key(|wake| wake.at);
    window.gpu.waits.order_by_key(|wait| wait.until);
    window.readings.values_mut().for_each(|readings| readings.order_by_key(|reading: &Reading| reading.at));
    window.clocks.values_mut().for_each(|clock| clock.order_by_key(|(at, _)| *at));
    window.work.iter_mut().for_each(WorkSeries::put_in_order);
}

/// Forgets what no later window has a part of.
fn forget(recording: &mut Recording, until: KtimeNs) {
    recording.slices.retain(|slice| slice.end > until);
    recording.samples.retain(|sample| sample.at >= until);
    recording.unsampled.retain(|stretch| stretch.end > until);
    recording.gpu.launches.retain(|launches| launches.from >= until);
    recording.gpu.busy.retain(|busy| busy.from >= until);
    let is_recent = |at: KtimeNs| at + REQUESTS > until;
    recording.requests.waits.retain(|wait| is_recent(wait.at));
    recording.requests.wakes.retain(|wake| is_recent(wake.at));
    recording.gpu.waits.retain(|wait| is_recent(wait.until));
    recording.readings.values_mut().for_each(|of| forget_before(of, until, |reading| reading.at));
    recording.clocks.values_mut().for_each(|of| forget_before(of, until, |(at, _)| *at));
    for series in &mut recording.work {
        series.put_in_order();
        forget_before(&mut series.readings, until, |reading| reading.at);
    }
    recording.sensors.iter_mut().for_each(|of| forget_before(&mut of.values, until, |(at, _)| *at));
    recording.sleeps.retain(|at| is_recent(*at));
    recording.gpu_facts.uses.values_mut().for_each(|uses| uses.retain(|of| of.to > until));
}

/// Keeps the last entry before a moment, from which the next window goes on.
fn forget_before<T>(list: &mut Vec<T>, until: KtimeNs, at: impl Fn(&T) -> KtimeNs) {
    list.order_by_key(|entry| at(entry));
    let before = list.partition_point(|entry| at(entry) <= until);
    list.drain(..before.saturating_sub(1));
}
