//! Who was on the CPUs of a domain in each of its intervals, and for how long.

use crate::time::on_cpus::{InIntervals, OfDomain};
use crate::time::owners::{OwnerId, Segment};
use crate::timeline::{EnergyInterval, Span};

/// On-CPU time of one owner in one interval, over all CPUs of the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Position of the interval.
    pub interval: u32,
    /// Who.
    pub owner: OwnerId,
    /// For how long, in nanoseconds.
    pub ns: u64,
}

/// Presences ordered by interval and owner, one for each pair; `intervals` are in time order without overlap.
pub fn presences(intervals: &[EnergyInterval], segments: &OfDomain<'_, Segment>) -> Vec<Presence> {
    let spans: Vec<Span> = intervals.iter().map(|interval| interval.span).collect();
    let of_chunks = segments.in_chunks(&spans, |chunk| {
        let mut found: Vec<Presence> = vec![];
        each_presence(segments, chunk, |_, present| found.extend_from_slice(present));
        found
    });
    of_chunks.concat()
}

/// Calls `of` with each interval's number, and who was present in it, ordered by owner.
pub fn each_presence(
    segments: &OfDomain<'_, Segment>,
    chunk: InIntervals<'_, Segment>,
    mut of: impl FnMut(usize, &[Presence]),
) {
    let mut present: Vec<Presence> = vec![];
    chunk.each(|number, here| {
        let interval = u32::try_from(number).unwrap_or(u32::MAX);
        present.clear();
        here.sort_unstable_by_key(|&(at, _)| segments.all()[at].owner);
        for &(at, common) in &*here {
            let (owner, ns) = (segments.all()[at].owner, common.ns());
            match present.last_mut() {
                Some(last) if last.owner == owner => last.ns = last.ns.saturating_add(ns),
                _ => present.push(Presence { interval, owner, ns }),
            }
        }
        of(number, &present);
    });
}

#[cfg(test)]
mod tests {
    use super::{OfDomain, Presence, Segment, presences};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::units::MicroJoules;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// Segments are cut at the intervals' edges, summed over CPUs, and what lies in a gap between intervals
    /// is left out.
    #[test]
    fn cut_at_edges_and_summed() {
        let interval = |from, to| EnergyInterval { span: span(from, to), energy: MicroJoules::ZERO };
        let intervals = [interval(10, 20), interval(20, 30), interval(40, 50)];
        let segment = |cpu, from, to, owner| Segment { cpu: CpuId::new(cpu), span: span(from, to), owner };
        let segments =
            [segment(0, 0, 25, 1), segment(0, 26, 45, 2), segment(1, 15, 18, 1), segment(1, 60, 70, 2)];
        let expected = [(0, 1, 13), (1, 1, 5), (1, 2, 4), (2, 2, 5)];
        let found = presences(&intervals, &OfDomain::new(&segments, |_| true));
        assert_eq!(found, expected.map(|(interval, owner, ns)| Presence { interval, owner, ns }));
    }
}
