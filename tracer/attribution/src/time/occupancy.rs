//! Who was on the CPUs of a domain in each of its intervals, and for how long.
//!
//! One sweep over each CPU's segments beside the intervals, both in time order: linear in what is there, whatever lies idle.

use crate::time::owners::{OwnerId, Segment};
use crate::timeline::EnergyInterval;

/// On-CPU time of one owner in one interval, over all CPUs of the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Position of the interval.
    pub(crate) interval: usize,
    /// Who.
    pub(crate) owner: OwnerId,
    /// For how long, in nanoseconds.
    pub(crate) ns: u64,
}

/// Presences ordered by interval and owner, one for each pair. `segments` are those of the domain's CPUs, ordered by CPU and start;
/// `intervals` are in time order without overlap.
pub(crate) fn presences<'a>(
    intervals: &[EnergyInterval],
    segments: impl Iterator<Item = &'a Segment>,
) -> Vec<Presence> {
    let mut found = Vec::new();
    let (mut cpu, mut first) = (None, 0);
    for segment in segments {
        if cpu != Some(segment.cpu) {
            (cpu, first) = (Some(segment.cpu), 0);
        }
        while intervals.get(first).is_some_and(|interval| interval.span.end <= segment.span.start) {
            first += 1;
        }
        for (i, interval) in intervals.iter().enumerate().skip(first) {
            match interval.span.overlap(segment.span) {
                Some(common) => found.push(Presence { interval: i, owner: segment.owner, ns: common.ns() }),
                None if interval.span.start >= segment.span.end => break,
                None => {}
            }
        }
    }
    found.sort_unstable_by_key(|presence| (presence.interval, presence.owner));
    found.dedup_by(|again, kept| {
        let same = (again.interval, again.owner) == (kept.interval, kept.owner);
        if same {
            kept.ns = kept.ns.saturating_add(again.ns);
        }
        same
    });
    found
}

#[cfg(test)]
mod tests {
    use super::{Presence, Segment, presences};
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::units::MicroJoules;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// Segments are cut at the intervals' edges, summed over CPUs, and what lies in a gap between intervals is left out.
    #[test]
    fn cut_at_edges_and_summed() {
        let interval = |from, to| EnergyInterval { span: span(from, to), energy: MicroJoules::ZERO };
        let intervals = [interval(10, 20), interval(20, 30), interval(40, 50)];
        let segment = |cpu, from, to, owner| Segment { cpu: CpuId::new(cpu), span: span(from, to), owner };
        let segments =
            [segment(0, 0, 25, 1), segment(0, 26, 45, 2), segment(1, 15, 18, 1), segment(1, 60, 70, 2)];
        let expected = [(0, 1, 13), (1, 1, 5), (1, 2, 4), (2, 2, 5)];
        let found = presences(&intervals, segments.iter());
        assert_eq!(found, expected.map(|(interval, owner, ns)| Presence { interval, owner, ns }));
    }
}
