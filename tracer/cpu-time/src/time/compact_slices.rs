//! How all slices between samples of a recording are stored, as small as they go: there are as many as samples.
//!
//! Nearly all of them lie between two samples of a track and begin and end at these, or are certainly
//! somebody's: then the samples, or the owner, say all that an `InterSampleSlice` holds. The few others, at
//! the edges of slices on CPUs, are kept whole. Leaves out what slices mean (`inter_sample`).

use super::inter_sample::{InterSampleSlice, NO_GAP, NO_TRACK, NOBODY, Neighbour, SamplePoint};
use super::on_cpus::{OfDomain, OnCpu};
use super::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;

/// How one is stored: its time, and where the rest of it is (what that is in the two highest bits, and a number
/// below).
#[derive(Clone, Copy, Debug)]
pub struct CompactSlice {
    span: Span,
    cpu: CpuId,
    rest: u32,
}

/// The number is that of the sample behind it.
const BETWEEN: u32 = 0;
/// It is the owner.
const CERTAIN: u32 = 1 << 30;
/// It is the slice's in the list of others.
const OTHER: u32 = 2 << 30;
const NUMBER: u32 = CERTAIN - 1;

impl OnCpu for CompactSlice {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn span(&self) -> Span {
        self.span
    }
}

/// All slices between samples.
#[derive(Debug, Default)]
pub struct InterSampleSlices {
    compact: Vec<CompactSlice>,
    /// Those that neither lie just between their samples nor are certain, whole.
    others: Vec<InterSampleSlice>,
}

impl InterSampleSlices {
    /// Makes room for so many.
    pub fn reserve(&mut self, count: usize) {
        self.compact.reserve_exact(count);
    }

    /// Adds time whose owner is certain.
    pub fn push_certain(&mut self, segment: Segment) {
        let Segment { cpu, span, owner } = segment;
        match owner {
            ..=NUMBER => self.compact.push(CompactSlice { span, cpu, rest: CERTAIN | owner }),
            _ => self.push_other(InterSampleSlice::certain(cpu, span, owner)),
        }
    }

    /// Adds a slice; `points` are those that its gap counts in.
    pub fn push(&mut self, slice: &InterSampleSlice, points: &[SamplePoint]) {
        let InterSampleSlice { cpu, span, gap, .. } = *slice;
        let certain = slice.known_owner().filter(|_| gap == NO_GAP && slice.left == slice.right);
        if let Some(owner) = certain {
            self.push_certain(Segment { cpu, span, owner });
        } else if gap <= NUMBER && between(points, gap) == Some((slice.track, slice.left, slice.right)) {
            self.compact.push(CompactSlice { span, cpu, rest: BETWEEN | gap });
        } else {
            self.push_other(*slice);
        }
    }

    fn push_other(&mut self, slice: InterSampleSlice) {
        let number = u32::try_from(self.others.len()).unwrap_or(NUMBER).min(NUMBER);
        self.compact.push(CompactSlice { span: slice.span, cpu: slice.cpu, rest: OTHER | number });
        self.others.push(slice);
    }

    /// Puts them in order of CPU and time.
    pub fn sort(&mut self) {
        self.compact.sort_by_key(|slice| (slice.cpu, slice.span));
    }

    /// Those on some CPUs, where they are in order and do not overlap on a CPU; `points` are all.
    pub fn of_domain<'a>(
        &'a self,
        points: &'a [SamplePoint],
        is_of: impl Fn(CpuId) -> bool,
    ) -> DomainSlices<'a> {
        let lookup = Lookup { others: &self.others, points };
        DomainSlices { on_cpus: OfDomain::new(&self.compact, is_of), lookup }
    }
}

/// What lies just between two samples, by the position of the later one: track, and both ends.
fn between(points: &[SamplePoint], behind: u32) -> Option<(u32, Neighbour, Neighbour)> {
    let behind = behind as usize;
    let (before, behind) = (points.get(behind.checked_sub(1)?)?, points.get(behind)?);
    let end = |point: &SamplePoint| Neighbour { owner: point.owner, ns: 0, slept_ns: 0 };
    (before.track == behind.track).then(|| (behind.track, end(before), end(behind)))
}

/// Where compact slices have the rest of what they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<'a> {
    others: &'a [InterSampleSlice],
    points: &'a [SamplePoint],
}

impl Lookup<'_> {
    /// For no slice.
    pub const NOTHING: Self = Self { others: &[], points: &[] };

    /// A whole slice.
    pub fn slice(&self, &CompactSlice { span, cpu, rest }: &CompactSlice) -> InterSampleSlice {
        let number = rest & NUMBER;
        let nobodys = InterSampleSlice::certain(cpu, span, NOBODY);
        match rest & !NUMBER {
            BETWEEN => between(self.points, number).map_or(nobodys, |(track, left, right)| {
                InterSampleSlice { cpu, span, track, left, right, gap: number }
            }),
            CERTAIN => InterSampleSlice::certain(cpu, span, number),
            _ => self.others.get(number as usize).copied().unwrap_or(nobodys),
        }
    }

    /// The track of a slice.
    pub fn track(&self, compact: &CompactSlice) -> u32 {
        let number = (compact.rest & NUMBER) as usize;
        let track = match compact.rest & !NUMBER {
            BETWEEN => self.points.get(number).map(|point| point.track),
            CERTAIN => None,
            _ => self.others.get(number).map(|other| other.track),
        };
        track.unwrap_or(NO_TRACK)
    }
}

/// The slices on a domain's CPUs.
#[derive(Debug)]
pub struct DomainSlices<'a> {
    /// Those on its CPUs.
    pub on_cpus: OfDomain<'a, CompactSlice>,
    /// Where what they leave out is found.
    pub lookup: Lookup<'a>,
}

#[cfg(test)]
mod tests {
    use super::{CpuId, InterSampleSlice, InterSampleSlices, NOBODY, Neighbour, SamplePoint, Segment, Span};
    use energy_trace_model::clock::KtimeNs;

    /// Whatever a slice is, it comes back as it was; those just between two samples of a track, and certain
    /// ones, take no more than their place.
    #[test]
    fn slices_come_back() {
        let point = |track, owner| SamplePoint { track, at: KtimeNs::default(), cpu_ns: 0, owner };
        let points = [point(0, 4), point(0, 5), point(1, 6), point(1, 7)];
        let span = Span { start: KtimeNs::from_ns(3), end: KtimeNs::from_ns(9) };
        let end = |owner, ns| Neighbour { owner, ns, slept_ns: 0 };
        let slice =
            |track, left, right, gap| InterSampleSlice { cpu: CpuId::new(2), span, track, left, right, gap };
        let small = [slice(0, end(4, 0), end(5, 0), 1), slice(1, end(6, 0), end(7, 0), 3)];
        let others = [
            slice(0, end(4, 1), end(5, 0), 1),
            slice(0, end(NOBODY, 0), end(4, 2), 0),
            slice(1, end(5, 0), end(6, 0), 2),
            slice(1, end(7, 0), end(NOBODY, 0), 4),
            slice(0, end(4, 0), end(9, 0), 1),
            InterSampleSlice::certain(CpuId::new(2), span, u32::MAX - 1),
        ];
        let mut slices = InterSampleSlices::default();
        small.iter().chain(&others).for_each(|slice| slices.push(slice, &points));
        slices.push_certain(Segment { cpu: CpuId::new(1), span, owner: 8 });
        assert_eq!(slices.others.len(), others.len());
        slices.sort();
        let domain = slices.of_domain(&points, |_| true);
        let back: Vec<InterSampleSlice> =
            domain.on_cpus.iter().map(|compact| domain.lookup.slice(compact)).collect();
        let certain = InterSampleSlice::certain(CpuId::new(1), span, 8);
        let expected: Vec<InterSampleSlice> = [certain].into_iter().chain(small).chain(others).collect();
        assert_eq!(back, expected);
        let tracks: Vec<u32> = domain.on_cpus.iter().map(|compact| domain.lookup.track(compact)).collect();
        assert_eq!(tracks, expected.iter().map(|slice| slice.track).collect::<Vec<_>>());
    }
}
