//! Who was on the CPUs of a domain in each of its intervals, and for how long.

use crate::time::on_cpus::{InIntervals, OfDomain};
use crate::time::owners::{Presence, Segment};
use crate::time::time_factors::TimeFactors;
use crate::timeline::{EnergyInterval, Span};

/// Presences ordered by interval and owner, one for each pair; `intervals` are in time order without overlap.
pub fn presences(
    intervals: &[EnergyInterval],
    segments: &OfDomain<'_, Segment>,
    factors: &TimeFactors,
) -> Vec<Presence> {
    let spans: Vec<Span> = intervals.iter().map(|interval| interval.span).collect();
    let of_chunks = segments.in_chunks(&spans, |chunk| {
        let mut found: Vec<Presence> = vec![];
        each_presence(segments, factors, chunk, |_, present| found.extend_from_slice(present));
        found
    });
    of_chunks.concat()
}

/// Presences that factors are fitted to, at most: more say nothing new.
const MOST_FITTED: usize = 500_000;
const MOST_INTERVALS: usize = 4_096;

/// Factors for these intervals, fitted to some of them, evenly over the run.
pub fn fitted(
    intervals: &[EnergyInterval],
    segments: &OfDomain<'_, Segment>,
    factors: &TimeFactors,
) -> TimeFactors {
    let every =
        segments.all().len().div_ceil(MOST_FITTED).max(intervals.len().div_ceil(MOST_INTERVALS)).max(1);
    let spans: Vec<Span> = intervals.iter().step_by(every).map(|interval| interval.span).collect();
    let found = segments.in_chunks(&spans, |chunk| {
        let mut found = vec![];
        each_presence(segments, &TimeFactors::default(), chunk, |_, present| found.push(present.to_vec()));
        found
    });
    factors.fitted(&found.concat())
}

/// Calls `of` with each interval's number, and who was present in it, ordered by owner.
pub fn each_presence(
    segments: &OfDomain<'_, Segment>,
    factors: &TimeFactors,
    chunk: InIntervals<'_, Segment>,
    mut of: impl FnMut(usize, &[Presence]),
) {
    let (mut present, mut room): (Vec<Presence>, _) = (vec![], factors.room());
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
        factors.scale(&mut present, &mut room);
        of(number, &present);
    });
}

#[cfg(test)]
mod tests {
    use super::{OfDomain, Presence, Segment, TimeFactors, presences};
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
        let found = presences(&intervals, &OfDomain::new(&segments, |_| true), &TimeFactors::default());
        assert_eq!(found, expected.map(|(interval, owner, ns)| Presence { interval, owner, ns }));
    }
}
