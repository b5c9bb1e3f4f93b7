//! Cuts slices where nobody was looking: a machine that stood still, or samples that did not come.
//!
//! A sample stands for the time around it, and must not stand for twenty seconds in which a virtual machine
//! was paused. The recording says where no sample came though many were due; what a target had of such a
//! stretch is nobody's (`[unsampled]`), and what lies before and behind it are slices of their own.
//! Recordings without such stretches are not cut at all. Leaves out who owns the rest (`slices`).

use crate::timeline::Span;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::record::{CpuOwner, Slice, Unsampled};

/// Slices as they were seen, and what of targets' slices was not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitSlices {
    pub(crate) seen: Vec<Slice>,
    pub(crate) unseen: Vec<Slice>,
}

/// Cuts slices, which are ordered by CPU and start and do not overlap; so are the parts.
pub(crate) fn cut(slices: Vec<Slice>, stretches: &[Unsampled]) -> SplitSlices {
    if stretches.is_empty() {
        return SplitSlices { seen: slices, unseen: Vec::new() };
    }
    let stretches = disjoint(stretches);
    let mut cut = SplitSlices::default();
    for slice in slices {
        if matches!(slice.who, CpuOwner::Target(_)) {
            cut_one(slice, &stretches, &mut cut);
        } else {
            cut.seen.push(slice);
        }
    }
    cut
}

fn cut_one(slice: Slice, stretches: &[(CpuId, Span)], cut: &mut SplitSlices) {
    let mut rest = slice;
    let first = stretches.partition_point(|&(cpu, span)| (cpu, span.end) <= (slice.cpu, slice.start));
    for &(cpu, span) in stretches.get(first..).unwrap_or_default() {
        if cpu != slice.cpu || span.start >= slice.end {
            break;
        }
        let (start, end) = (span.start.max(rest.start), span.end.min(slice.end));
        if rest.start < start {
            cut.seen.push(Slice { end: start, ..rest });
        }
        cut.unseen.push(Slice { start, end, ..rest });
        rest.start = end;
    }
    if rest.start < rest.end {
        cut.seen.push(rest);
    }
}

/// Stretches in order, those that touch put together.
fn disjoint(stretches: &[Unsampled]) -> Vec<(CpuId, Span)> {
    let mut ordered: Vec<(CpuId, Span)> = stretches
        .iter()
        .filter(|stretch| stretch.start < stretch.end)
        .map(|stretch| (stretch.cpu, Span { start: stretch.start, end: stretch.end }))
        .collect();
    ordered.sort_unstable();
    let mut out: Vec<(CpuId, Span)> = Vec::with_capacity(ordered.len());
    for (cpu, span) in ordered {
        match out.last_mut() {
            Some((last, before)) if *last == cpu && before.end >= span.start => {
                before.end = before.end.max(span.end);
            }
            _ => out.push((cpu, span)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{SplitSlices, cut};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, ThreadKey};
    use energy_trace_model::recording::record::{CpuOwner, Slice, Unsampled};
    use proptest::prelude::*;

    fn slice(cpu: u32, start: u64, end: u64) -> Slice {
        let who = CpuOwner::Target(ThreadKey::new(0));
        Slice { cpu: CpuId::new(cpu), who, start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end) }
    }

    fn stretch(cpu: u32, start: u64, end: u64) -> Unsampled {
        Unsampled { cpu: CpuId::new(cpu), start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end) }
    }

    /// A stretch cuts the target's slices of its CPU, in the middle or at an end, and nothing else.
    #[test]
    fn slices_are_cut() {
        let other = Slice { who: CpuOwner::Other, ..slice(0, 60, 90) };
        let slices = vec![slice(0, 0, 50), other, slice(1, 0, 100)];
        let SplitSlices { seen, unseen } =
            cut(slices, &[stretch(0, 30, 40), stretch(0, 20, 35), stretch(0, 70, 80), stretch(1, 90, 200)]);
        assert_eq!(seen, [slice(0, 0, 20), slice(0, 40, 50), other, slice(1, 0, 90)]);
        assert_eq!(unseen, [slice(0, 20, 40), slice(1, 90, 100)]);
        assert_eq!(cut(vec![slice(0, 5, 9)], &[stretch(0, 0, 50)]).unseen, [slice(0, 5, 9)]);
        assert_eq!(cut(vec![slice(0, 5, 9)], &[]).seen, [slice(0, 5, 9)]);
    }

    proptest! {
        /// Whatever stretches there are: all time is there once, in order.
        #[test]
        fn time_is_conserved(stretches in prop::collection::vec((0_u32..2, 0_u64..60, 0_u64..60), 0..8)) {
            let stretches: Vec<Unsampled> = stretches.iter().map(|&(cpu, start, end)| stretch(cpu, start, end)).collect();
            let slices = vec![slice(0, 0, 20), slice(0, 20, 21), slice(0, 30, 60), slice(1, 10, 40)];
            let SplitSlices { seen, unseen } = cut(slices.clone(), &stretches);
            let time = |slices: &[Slice]| slices.iter().map(|s| s.end.ns_since(s.start)).sum::<u64>();
            prop_assert_eq!(time(&seen) + time(&unseen), time(&slices));
            let mut all: Vec<Slice> = seen.into_iter().chain(unseen).collect();
            all.sort_by_key(|slice| (slice.cpu, slice.start));
            prop_assert!(all.windows(2).all(|pair| pair[0].cpu != pair[1].cpu || pair[0].end <= pair[1].start));
        }
    }
}
