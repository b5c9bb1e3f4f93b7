//! All CPU time of a recording, its owners told apart by for whom they work.
//!
//! Made by `delegation::refine` of what samples show (`slices::SampledTime`). Leaves out what was probably done between samples.

use super::lines::Line;
use super::owners::{OwnerTime, Segment};
use super::packed_pieces::Pieces;
use super::pieces::{Mark, NO_GAP, Piece};

/// All time on CPUs within the recording's span, by owner.
#[derive(Debug)]
pub(crate) struct CpuTime {
    /// Ordered by CPU and start, without overlap on a CPU.
    pub(crate) segments: Vec<Segment>,
    /// Owners; the first is `Owner::Other`.
    pub(crate) owners: Vec<OwnerTime>,
    /// The same time between neighbouring samples, ordered by CPU and start.
    pub(crate) pieces: Pieces,
    /// Samples that fell into slices, by line and time.
    pub(crate) marks: Vec<Mark>,
    /// Slices that began before the one before them ended.
    pub(crate) overlaps: u64,
}

impl CpuTime {
    /// Adds a line's samples, and gives its pieces to `add`, each with the position of its run.
    pub(crate) fn add_line(&mut self, mut line: Line, mut add: impl FnMut(&mut Self, usize, Piece)) {
        let number = self.marks.last().map_or(0, |last| last.line + 1);
        line.marks.iter_mut().for_each(|mark| mark.line = number);
        let first = u32::try_from(self.marks.len()).unwrap_or(NO_GAP);
        self.marks.extend_from_slice(&line.marks);
        for (position, run) in line.runs.iter().enumerate() {
            line.pieces_of(run, |piece| {
                let gap = if piece.gap == NO_GAP { NO_GAP } else { piece.gap.saturating_add(first) };
                add(self, position, Piece { gap, ..piece });
            });
        }
    }

    /// Adds a piece between samples that are there.
    pub(crate) fn add_piece(&mut self, piece: &Piece) {
        self.pieces.push(piece, &self.marks);
    }
}
