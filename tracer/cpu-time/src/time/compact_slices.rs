//! CPU time of tracks between two neighbouring samples, as small as it goes: there are as many slices as samples.
//!
//! Nearly all of them lie between two samples of a track and begin and end at these, or are certainly
//! somebody's: then the samples, or the owner, say what they lie between. Those at the edges of slices on CPUs
//! keep the track's CPU time, from which the distances to their samples follow; the few others keep their ends.
//! Leaves out what was probably done in them (`between_samples`).

use super::inter_sample::{Ends, NO_GAP, NOBODY, Neighbour, SamplePoint};
use super::on_cpus::{OfDomain, OnCpu};
use super::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;

/// Time of one track on one CPU between two neighbouring samples, and where these are: what `ends` means in
/// the two highest bits, and a number below.
#[derive(Clone, Copy, Debug)]
pub struct InterSampleSlice {
    span: Span,
    cpu: CpuId,
    ends: u32,
}

/// The number is that of the sample behind it.
const BETWEEN: u32 = 0;
/// It is the owner.
const CERTAIN: u32 = 1 << 30;
/// It is that of its ends in the list of others.
const OTHER: u32 = 2 << 30;
/// It is that of its edge.
const EDGE: u32 = 3 << 30;
const NUMBER: u32 = CERTAIN - 1;

impl OnCpu for InterSampleSlice {
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
    slices: Vec<InterSampleSlice>,
    /// Of those that begin or end beside their samples.
    edges: Vec<Edge>,
    /// The ends of all others that are not certain.
    others: Vec<Ends>,
}

/// The CPU time of the track before a slice, the position of the sample behind it, and on which sides there is
/// one.
#[derive(Clone, Copy, Debug)]
struct Edge {
    cpu_ns: u64,
    gap: u32,
    sides: [bool; 2],
}

impl InterSampleSlices {
    /// Makes room for so many.
    pub fn reserve(&mut self, count: usize) {
        self.slices.reserve_exact(count);
    }

    /// Adds time whose owner is certain.
    pub fn push_certain(&mut self, segment: Segment) {
        let Segment { cpu, span, owner } = segment;
        match owner {
            ..=NUMBER => self.slices.push(InterSampleSlice { span, cpu, ends: CERTAIN | owner }),
            _ => self.push_other(cpu, span, Ends::certain(owner)),
        }
    }

    /// Adds a slice; `points` are those that the gap between its ends counts in.
    pub fn push(&mut self, cpu: CpuId, span: Span, ends: Ends, points: &[SamplePoint]) {
        let certain = ends.known_owner().filter(|_| ends.gap == NO_GAP && ends.left == ends.right);
        if let Some(owner) = certain {
            self.push_certain(Segment { cpu, span, owner });
        } else if ends.gap <= NUMBER && between(points, ends.gap) == Some(ends) {
            self.slices.push(InterSampleSlice { span, cpu, ends: BETWEEN | ends.gap });
        } else {
            let edge = Edge::of(ends, span, points).filter(|edge| edge.ends(span, points) == Some(ends));
            match (edge, u32::try_from(self.edges.len())) {
                (Some(edge), Ok(number @ ..=NUMBER)) => {
                    self.slices.push(InterSampleSlice { span, cpu, ends: EDGE | number });
                    self.edges.push(edge);
                }
                _ => self.push_other(cpu, span, ends),
            }
        }
    }

    fn push_other(&mut self, cpu: CpuId, span: Span, ends: Ends) {
        let number = u32::try_from(self.others.len()).unwrap_or(NUMBER).min(NUMBER);
        self.slices.push(InterSampleSlice { span, cpu, ends: OTHER | number });
        self.others.push(ends);
    }

    /// Puts them in order of CPU and time.
    pub fn sort(&mut self) {
        self.slices.sort_by_key(|slice| (slice.cpu, slice.span));
    }

    /// Those on some CPUs, where they are in order and do not overlap on a CPU; `points` are all.
    pub fn of_domain<'a>(
        &'a self,
        points: &'a [SamplePoint],
        is_of: impl Fn(CpuId) -> bool,
    ) -> DomainSlices<'a> {
        let lookup = Lookup { edges: &self.edges, others: &self.others, points };
        DomainSlices { on_cpus: OfDomain::new(&self.slices, is_of), lookup }
    }
}

/// The ends of what lies just between two samples, by the position of the later one.
fn between(points: &[SamplePoint], gap: u32) -> Option<Ends> {
    let (before, behind) = (points.get((gap as usize).checked_sub(1)?)?, points.get(gap as usize)?);
    let end = |point: &SamplePoint| Neighbour { owner: point.owner, ns: 0, slept_ns: 0 };
    let ends = Ends { track: behind.track, left: end(before), right: end(behind), gap };
    (before.track == behind.track).then_some(ends)
}

impl Edge {
    fn of(ends: Ends, span: Span, points: &[SamplePoint]) -> Option<Self> {
        let sides = [ends.left.owner != NOBODY, ends.right.owner != NOBODY];
        let cpu_ns = if sides[0] {
            points.get((ends.gap as usize).checked_sub(1)?)?.cpu_ns.checked_add(ends.left.ns)?
        } else {
            points.get(ends.gap as usize)?.cpu_ns.checked_sub(ends.right.ns)?.checked_sub(span.ns())?
        };
        Some(Self { cpu_ns, gap: ends.gap, sides })
    }

    fn ends(&self, span: Span, points: &[SamplePoint]) -> Option<Ends> {
        let nobody = Neighbour { owner: NOBODY, ns: 0, slept_ns: 0 };
        let of = |point: &SamplePoint, ns: u64, apart: u64| Neighbour {
            owner: point.owner,
            ns,
            slept_ns: apart.saturating_sub(ns),
        };
        let (mut left, mut right, mut track) = (nobody, nobody, None);
        if self.sides[1] {
            let point = points.get(self.gap as usize)?;
            let ns = point.cpu_ns.saturating_sub(self.cpu_ns.saturating_add(span.ns()));
            (right, track) = (of(point, ns, point.at.ns_since(span.end)), Some(point.track));
        }
        if self.sides[0] {
            let point = points.get((self.gap as usize).checked_sub(1)?)?;
            let ns = self.cpu_ns.saturating_sub(point.cpu_ns);
            (left, track) = (of(point, ns, span.start.ns_since(point.at)), Some(point.track));
        }
        Some(Ends { track: track?, left, right, gap: self.gap })
    }
}

/// Where slices have their ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<'a> {
    edges: &'a [Edge],
    others: &'a [Ends],
    points: &'a [SamplePoint],
}

impl Lookup<'_> {
    /// For no slice.
    pub const NOTHING: Self = Self { edges: &[], others: &[], points: &[] };

    /// The ends of a slice.
    pub fn ends(&self, slice: &InterSampleSlice) -> Ends {
        let number = slice.ends & NUMBER;
        let ends = match slice.ends & !NUMBER {
            BETWEEN => between(self.points, number),
            CERTAIN => Some(Ends::certain(number)),
            EDGE => self.edges.get(number as usize).and_then(|edge| edge.ends(slice.span, self.points)),
            _ => self.others.get(number as usize).copied(),
        };
        ends.unwrap_or(Ends::certain(NOBODY))
    }
}

/// The slices on a domain's CPUs.
#[derive(Debug)]
pub struct DomainSlices<'a> {
    /// Those on its CPUs.
    pub on_cpus: OfDomain<'a, InterSampleSlice>,
    /// Where what they leave out is found.
    pub lookup: Lookup<'a>,
}

#[cfg(test)]
mod tests {
    use super::{CpuId, Ends, InterSampleSlices, NOBODY, Neighbour, OnCpu as _, SamplePoint, Segment, Span};
    use energy_trace_model::clock::KtimeNs;

    /// Whatever a slice lies between, it comes back as it was; of those just between two samples of a track,
    /// and of certain ones, nothing is kept.
    #[test]
    fn ends_come_back() {
        let point = |track, owner| SamplePoint { track, at: KtimeNs::default(), cpu_ns: 0, owner };
        let points = [point(0, 4), point(0, 5), point(1, 6), point(1, 7)];
        let (cpu, span) = (CpuId::new(2), Span { start: KtimeNs::from_ns(3), end: KtimeNs::from_ns(9) });
        let end = |owner, ns| Neighbour { owner, ns, slept_ns: 0 };
        let ends = |track, left, right, gap| Ends { track, left, right, gap };
        let small = [ends(0, end(4, 0), end(5, 0), 1), ends(1, end(6, 0), end(7, 0), 3)];
        let others = [
            ends(0, end(4, 1), end(5, 0), 1),
            ends(0, end(NOBODY, 0), end(4, 2), 0),
            ends(1, end(5, 0), end(6, 0), 2),
            ends(1, end(7, 0), end(NOBODY, 0), 4),
            ends(0, end(4, 0), end(9, 0), 1),
            Ends::certain(u32::MAX - 1),
        ];
        let mut slices = InterSampleSlices::default();
        small.iter().chain(&others).for_each(|ends| slices.push(cpu, span, *ends, &points));
        slices.push_certain(Segment { cpu: CpuId::new(1), span, owner: 8 });
        assert_eq!(slices.others, others);
        slices.sort();
        let domain = slices.of_domain(&points, |_| true);
        let places: Vec<_> = domain.on_cpus.iter().map(|slice| (slice.cpu(), slice.span())).collect();
        assert_eq!((places[0], &places[1..]), ((CpuId::new(1), span), &[(cpu, span); 8][..]));
        let back: Vec<Ends> = domain.on_cpus.iter().map(|slice| domain.lookup.ends(slice)).collect();
        let expected: Vec<Ends> = [Ends::certain(8)].into_iter().chain(small).chain(others).collect();
        assert_eq!(back, expected);
    }

    /// Of a slice beside its samples, on either side or both, its track's CPU time is kept; of one whose sleeps
    /// are others than its samples say, all.
    #[test]
    fn edges_come_back() {
        let at = KtimeNs::from_ns;
        let point = |ns, cpu_ns, owner| SamplePoint { track: 3, at: at(ns), cpu_ns, owner };
        let points = [point(10, 5, 4), point(40, 20, 5)];
        let cpu = CpuId::new(0);
        let end = |owner, ns, slept_ns| Neighbour { owner, ns, slept_ns };
        let ends = |left, right, gap| Ends { track: 3, left, right, gap };
        let nobody = end(NOBODY, 0, 0);
        let listed = [
            ((2, 6), ends(nobody, end(4, 1, 3), 0)),
            ((12, 18), ends(end(4, 2, 0), end(5, 7, 15), 1)),
            ((50, 55), ends(end(5, 2, 8), nobody, 2)),
            ((60, 65), ends(end(5, 2, 0), nobody, 2)),
        ];
        let mut slices = InterSampleSlices::default();
        for ((from, until), ends) in listed {
            slices.push(cpu, Span { start: at(from), end: at(until) }, ends, &points);
        }
        assert_eq!((slices.edges.len(), slices.others.as_slice()), (3, &[listed[3].1][..]));
        let domain = slices.of_domain(&points, |_| true);
        let back: Vec<Ends> = domain.on_cpus.iter().map(|slice| domain.lookup.ends(slice)).collect();
        assert_eq!(back, listed.map(|(_, ends)| ends));
    }
}
