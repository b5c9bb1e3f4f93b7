//! Recordings that were merged into one file: each whole, as it was written, behind a head with its label.
//!
//! Leaves out merging them (`merging.rs`), which of them are of one machine (`machines.rs`), and adding up what they mean (attribution).

use super::assembly::Assembly;
use super::file::{KIND_PART, add_chunk, with_its_end};
use super::format::Format;
use super::record::{CutReason, RecordingDiagnostic};
use super::tables::{Part, Recording};
use serde::{Deserialize, Serialize};

/// Parts of a file at the most: each takes memory, whatever it holds.
const MOST_PARTS: u32 = 1 << 14;

/// What a merged file says before each part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) label: String,
    /// The format in which the part's records are written.
    pub(super) format: Format,
    /// How many parts the file was given.
    pub(super) of: u32,
}

/// What is read of a file: one recording, or several behind each other.
pub(super) struct Reading {
    /// The format of the file.
    format: Format,
    assembly: Assembly,
    head: Option<Head>,
    /// Parts that are whole.
    parts: Vec<Part>,
}

impl Reading {
    pub(super) fn new(format: Format) -> Self {
        Self { format, assembly: Assembly::default(), head: None, parts: Vec::new() }
    }

    /// Adds records; on an error what came before stays.
    pub(super) fn add_records(&mut self, payload: &[u8]) -> Result<(), CutReason> {
        add_chunk(payload, |record| self.assembly.add(record))
    }

    /// A part ends, if there is one, and another begins.
    pub(super) fn begin(&mut self, payload: &[u8]) -> Result<(), CutReason> {
        let head: Head =
            postcard::from_bytes(payload).map_err(|error| CutReason::Record(error.to_string()))?;
        // A recording alone ends with its file, and no part is newer than its file.
        let is_alone = self.head.is_none() && !self.assembly.is_empty();
        let is_more = head.of > MOST_PARTS || self.parts.len() >= head.of as usize;
        if is_alone || is_more || head.format > self.format || !head.format.is_readable() {
            return Err(CutReason::ChunkKind(KIND_PART));
        }
        self.end(None, None);
        self.head = Some(head);
        Ok(())
    }

    /// The part that was read last, if it is one and has anything.
    fn end(&mut self, cut: Option<CutReason>, whole_bytes: Option<u64>) -> Option<Recording> {
        // A part that has its own end is whole, whatever becomes of the file behind it.
        let cut = cut.filter(|_| self.head.is_none() || !self.assembly.has_end());
        let recording = with_its_end(std::mem::take(&mut self.assembly), cut, whole_bytes)?;
        let Some(head) = self.head.take() else { return Some(recording) };
        self.parts.push(Part { label: head.label, recording });
        None
    }

    /// All that was read up to the end of the file, or to where it was cut.
    pub(super) fn finish(mut self, cut: Option<CutReason>, whole_bytes: u64) -> Result<Recording, CutReason> {
        let of = self.head.as_ref().map(|head| head.of);
        let is_cut = cut.is_some();
        if let Some(alone) = self.end(cut.clone(), Some(whole_bytes)) {
            return Ok(alone);
        }
        if self.parts.is_empty() {
            return Err(cut.unwrap_or(CutReason::AfterOpening));
        }
        let read = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let mut whole = Recording { parts: self.parts, ..Recording::default() };
        if of.is_some_and(|of| of != read) || is_cut {
            let reason = CutReason::Parts { read, of: of.unwrap_or(read) };
            let found =
                RecordingDiagnostic::RecordingCut { whole_bytes: Some(whole_bytes), whole_ns: None, reason };
            whole.diagnostics.push(found);
        }
        Ok(whole)
    }
}
