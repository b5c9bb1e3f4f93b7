//! Slices on CPUs, for tests of what is learned from them.

use crate::time::compact_slices::{DomainSlices, InterSampleSlices};
use crate::time::inter_sample::Ends;
use crate::time::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;

/// Time on any CPU whose owner is certain, in its order. It is never freed.
pub(crate) fn certain_slices(list: &[Segment]) -> DomainSlices<'static> {
    domain_slices(list.iter().map(|segment| (segment.cpu, segment.span, Ends::certain(segment.owner))))
}

/// The same of any.
pub(crate) fn domain_slices(list: impl Iterator<Item = (CpuId, Span, Ends)>) -> DomainSlices<'static> {
    let mut slices = InterSampleSlices::default();
    list.for_each(|(cpu, span, ends)| slices.push(cpu, span, ends, &[]));
    Box::leak(Box::new(slices)).of_domain(&[], |_| true)
}
