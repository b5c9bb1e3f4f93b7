//! All CPU time of a recording, its owners told apart by for whom they work.
//!
//! Made by `delegation::refine` of what samples show (`slices::SampledTime`). Leaves out what was probably
//! done between samples.

use super::compact_slices::InterSampleSlices;
use super::inter_sample::{Ends, NO_GAP, SamplePoint, TrackRun};
use super::owners::{OwnerTime, Segment};
use super::tracks::Track;
use crate::timeline::Span;
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
    pub slices: InterSampleSlices,
    /// Samples that fell into slices, by track and time.
    pub points: Vec<SamplePoint>,
    /// Slices that began before the one before them ended.
    pub overlaps: u64,
}

impl CpuTime {
    /// Adds a track's samples, and gives its slices to `add`, each with all samples, and its run with its
    /// position.
    pub fn add_track(
        &mut self,
        mut track: Track,
        mut add: impl FnMut(&mut Self, &[SamplePoint], (usize, &TrackRun), Span, Ends),
    ) {
        let here = self.add_points(&mut track.points);
        let points = std::mem::take(&mut self.points);
        for (position, run) in track.runs.iter().enumerate() {
            track.slices_of(run, &points[here.clone()], |span, ends| {
                add(self, &points, (position, run), span, counted_from(here.start, ends));
            });
        }
        self.points = points;
    }

    /// Adds a track's samples, and says where they are.
    pub fn add_points(&mut self, of_track: &mut Vec<SamplePoint>) -> Range<usize> {
        let number = self.points.last().map_or(0, |last| last.track + 1);
        of_track.iter_mut().for_each(|point| point.track = number);
        let first = self.points.len();
        self.points.append(&mut std::mem::take(of_track));
        first..self.points.len()
    }

    /// Adds the slices of tracks whose samples are there, by CPU and time.
    pub fn add_slices(&mut self, tracks: &[(Track, Range<usize>)]) {
        let mut runs: Vec<(CpuId, KtimeNs, usize, usize)> = vec![];
        for (number, (track, _)) in tracks.iter().enumerate() {
            let of_track = track.runs.iter().enumerate();
            runs.extend(of_track.map(|(position, run)| (run.cpu, run.span.start, number, position)));
        }
        runs.sort_unstable();
        let Self { points, slices, .. } = self;
        for (_, _, number, position) in runs {
            let (track, here) = &tracks[number];
            let run = &track.runs[position];
            track.slices_of(run, &points[here.clone()], |span, ends| {
                slices.push(run.cpu, span, counted_from(here.start, ends), points);
            });
        }
    }
}

/// The same, their gap counted from the first of all samples.
fn counted_from(first: usize, ends: Ends) -> Ends {
    let first = u32::try_from(first).unwrap_or(NO_GAP);
    Ends { gap: if ends.gap == NO_GAP { NO_GAP } else { ends.gap.saturating_add(first) }, ..ends }
}
