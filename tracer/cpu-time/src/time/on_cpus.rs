//! What lay on CPUs, and which of it lay in each of many intervals.
//!
//! One sweep over each CPU beside the intervals, all in time order: linear in what is there, whatever lies
//! idle. Leaves out what is made of it (`occupancy`, `between_samples::interval_slices`).

use crate::numerics::parallel::map_ranges;
use crate::time::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;
use std::ops::Range;

/// Intervals that are looked at by one thread at once.
const INTERVALS_PER_TASK: usize = 256;

/// Something that lay on a CPU for a time.
pub trait OnCpu: Sync {
    /// Where.
    fn cpu(&self) -> CpuId;
    /// When.
    fn span(&self) -> Span;
}

impl OnCpu for Segment {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn span(&self) -> Span {
        self.span
    }
}

/// What lay on a domain's CPUs.
#[derive(Debug)]
pub struct OfDomain<'a, T> {
    all: &'a [T],
    /// Where that of each CPU is.
    cpus: Vec<Range<usize>>,
}

impl<'a, T: OnCpu> OfDomain<'a, T> {
    /// Of all, ordered by CPU and time and without overlap on a CPU, what lay on some CPUs.
    pub fn new(all: &'a [T], is_of: impl Fn(CpuId) -> bool) -> Self {
        let (mut cpus, mut first) = (vec![], 0);
        while let Some(one) = all.get(first) {
            let behind = first + all[first..].partition_point(|other| other.cpu() <= one.cpu());
            cpus.extend(is_of(one.cpu()).then_some(first..behind));
            first = behind;
        }
        Self { all, cpus }
    }

    /// All on any CPU, of which this is a part.
    pub const fn all(&self) -> &'a [T] {
        self.all
    }

    /// About how many parts so many intervals cut it into.
    pub fn count_in(&self, intervals: usize) -> usize {
        self.cpus.iter().map(|of_cpu| of_cpu.len() + intervals).sum()
    }

    /// Each of it, by CPU and time.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + '_ {
        self.cpus.iter().flat_map(|of_cpu| &self.all[of_cpu.clone()])
    }

    /// The times in which CPUs were busy, by CPU and time: what follows at once is one.
    pub fn busy(&self) -> impl Iterator<Item = Span> + '_ {
        self.cpus.iter().flat_map(|of_cpu| busy(&self.all[of_cpu.clone()]))
    }

    /// What `of` makes of each chunk of intervals, which are in order and do not overlap. `of` is given them
    /// by number, each with the positions of what lay in it and the times that they have in common, by CPU
    /// and time.
    pub fn in_chunks<R: Send>(
        &self,
        intervals: &[Span],
        of: impl Fn(InIntervals<'_, T>) -> R + Sync,
    ) -> Vec<R> {
        self.in_chunks_of(INTERVALS_PER_TASK, intervals, of)
    }

    /// The same in chunks of so many intervals.
    pub fn in_chunks_of<R: Send>(
        &self,
        length: usize,
        intervals: &[Span],
        of: impl Fn(InIntervals<'_, T>) -> R + Sync,
    ) -> Vec<R> {
        let chunk = |some: Range<usize>| of(self.within(&intervals[some.clone()], some.start));
        map_ranges(intervals.len(), length, 5 * self.all.len(), chunk)
    }

    /// What lay in some intervals, the first of which has this number.
    pub fn within<'s>(&'s self, spans: &'s [Span], first: usize) -> InIntervals<'s, T> {
        let begin = spans.first().map_or(KtimeNs::default(), |first| first.start);
        let reached = |of_cpu: &Range<usize>| {
            let over = self.all[of_cpu.clone()].partition_point(|one| one.span().end <= begin);
            of_cpu.start + over..of_cpu.end
        };
        let rest = self.cpus.iter().map(reached).collect();
        InIntervals { all: self.all, rest, spans, here: vec![], first }
    }
}

/// The times in which something lay on a CPU: what follows at once is one. All of it is of one CPU, in order.
pub fn busy<T: OnCpu>(of_cpu: &[T]) -> impl Iterator<Item = Span> + '_ {
    let mut rest = of_cpu.iter().map(OnCpu::span).peekable();
    std::iter::from_fn(move || {
        let mut busy = rest.next()?;
        while let Some(next) = rest.next_if(|next| next.start == busy.end) {
            busy.end = next.end;
        }
        Some(busy)
    })
}

/// A chunk of intervals, and what lay in them.
pub struct InIntervals<'a, T> {
    all: &'a [T],
    /// Of each CPU what is not over.
    rest: Vec<Range<usize>>,
    spans: &'a [Span],
    here: Vec<(usize, Span)>,
    first: usize,
}

impl<T: OnCpu> InIntervals<'_, T> {
    /// Calls `of` with each interval's number, and what lay in it.
    pub fn each(mut self, mut of: impl FnMut(usize, &mut [(usize, Span)])) {
        for (number, span) in (self.first..).zip(self.spans) {
            self.here.clear();
            for of_cpu in &mut self.rest {
                while of_cpu.start < of_cpu.end && self.all[of_cpu.start].span().end <= span.start {
                    of_cpu.start += 1;
                }
                let within = |&at: &usize| self.all[at].span().start < span.end;
                let here = of_cpu.clone().take_while(within);
                let common = |at: usize| span.overlap(self.all[at].span()).map(|common| (at, common));
                self.here.extend(here.filter_map(common));
            }
            of(number, &mut self.here);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuId, KtimeNs, OfDomain, Segment, Span, busy};

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    fn segment(cpu: u32, from: u64, to: u64) -> Segment {
        Segment { cpu: CpuId::new(cpu), span: span(from, to), owner: 1 }
    }

    /// Only what is on CPUs of the domain is its own; what follows at once is one busy time.
    #[test]
    fn cpus_of_a_domain() {
        let all = [segment(0, 0, 5), segment(0, 5, 7), segment(0, 8, 9), segment(2, 0, 4), segment(3, 4, 6)];
        let but_two = OfDomain::new(&all, |cpu| cpu.get() != 2);
        assert_eq!(but_two.iter().copied().collect::<Vec<_>>(), [all[0], all[1], all[2], all[4]]);
        assert_eq!(but_two.busy().collect::<Vec<_>>(), [span(0, 7), span(8, 9), span(4, 6)]);
        // Three of one CPU and one of another, which nine intervals may cut nine times each.
        assert_eq!(but_two.count_in(9), 3 + 9 + 1 + 9);
        assert_eq!(OfDomain::new(&all, |_| false).iter().count(), 0);
        assert_eq!(busy::<Segment>(&[]).count(), 0);
    }

    /// What lies in each interval, whichever chunk it is in; what lies over an end is in both, and what lies
    /// in a gap in none.
    #[test]
    fn in_intervals() {
        let all: Vec<Segment> =
            (0..1_000).map(|i| segment(0, 10 * i, 10 * i + 9)).chain([segment(1, 25, 9_000)]).collect();
        let intervals: Vec<Span> = (0..600).map(|i| span(15 * i, 15 * i + 14)).collect();
        let of = OfDomain::new(&all, |_| true);
        let found = of.in_chunks(&intervals, |chunk| {
            let mut found = vec![];
            chunk.each(|number, here| found.push((number, here.to_vec())));
            found
        });
        assert_eq!(found.len(), 3);
        for (number, here) in found.into_iter().flatten() {
            let overlap =
                |(at, segment): (usize, &Segment)| Some((at, intervals[number].overlap(segment.span)?));
            assert_eq!(here, all.iter().enumerate().filter_map(overlap).collect::<Vec<_>>());
        }
    }
}
