//! All CPU time of a recording, its owners told apart by for whom they work.
//!
//! Made by `delegation::refine` of what samples show (`slices::SampledTime`). Leaves out what was probably done between samples.

use super::lines::Line;
use super::owners::{OwnerTime, Segment};
use super::packed_pieces::Pieces;
use super::pieces::{Mark, NO_GAP, Piece};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;
use std::ops::Range;

/// All time on CPUs within the recording's span, by owner.
#[derive(Debug)]
pub struct CpuTime {
    /// Ordered by CPU and start, without overlap on a CPU.
    pub segments: Vec<Segment>,
    /// Owners; the first is `Owner::Other`.
    pub owners: Vec<OwnerTime>,
    /// The same time between neighbouring samples, ordered by CPU and start.
    pub pieces: Pieces,
    /// Samples that fell into slices, by line and time.
    pub marks: Vec<Mark>,
    /// Slices that began before the one before them ended.
    pub overlaps: u64,
}

impl CpuTime {
    /// Adds a line's samples, and gives its pieces to `add`, each with all samples and the position of its run.
    pub fn add_line(&mut self, mut line: Line, mut add: impl FnMut(&mut Self, &[Mark], usize, Piece)) {
        let here = self.add_marks(&mut line.marks);
        let marks = std::mem::take(&mut self.marks);
        for (position, run) in line.runs.iter().enumerate() {
            line.pieces_of(run, &marks[here.clone()], |piece| {
                add(self, &marks, position, counted_from(here.start, piece));
            });
        }
        self.marks = marks;
    }

    /// Adds a line's samples, and says where they are.
    pub fn add_marks(&mut self, of_line: &mut Vec<Mark>) -> Range<usize> {
        let number = self.marks.last().map_or(0, |last| last.line + 1);
        of_line.iter_mut().for_each(|mark| mark.line = number);
        let first = self.marks.len();
        self.marks.append(&mut std::mem::take(of_line));
        first..self.marks.len()
    }

    /// Adds the pieces of lines whose samples are there, by CPU and time.
    pub fn add_pieces(&mut self, lines: &[(Line, Range<usize>)]) {
        let mut runs: Vec<(CpuId, KtimeNs, usize, usize)> = vec![];
        for (number, (line, _)) in lines.iter().enumerate() {
            let of_line = line.runs.iter().enumerate();
            runs.extend(of_line.map(|(position, run)| (run.cpu, run.span.start, number, position)));
        }
        runs.sort_unstable();
        let Self { marks, pieces, .. } = self;
        for (_, _, number, position) in runs {
            let (line, here) = &lines[number];
            line.pieces_of(&line.runs[position], &marks[here.clone()], |piece| {
                pieces.push(&counted_from(here.start, piece), marks);
            });
        }
    }
}

/// A piece whose gap counts from the first of all samples.
fn counted_from(first: usize, piece: Piece) -> Piece {
    let first = u32::try_from(first).unwrap_or(NO_GAP);
    Piece { gap: if piece.gap == NO_GAP { NO_GAP } else { piece.gap.saturating_add(first) }, ..piece }
}
