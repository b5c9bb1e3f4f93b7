//! Slices on CPUs, for tests of what is learned from them.

use crate::time::compact_slices::{DomainSlices, InterSampleSlices};
use crate::time::inter_sample::InterSampleSlice;

/// These on any CPU, in their order. They are never freed.
pub(crate) fn domain_slices(list: &[InterSampleSlice]) -> DomainSlices<'static> {
    let mut slices = InterSampleSlices::default();
    list.iter().for_each(|slice| slices.push(slice, &[]));
    Box::leak(Box::new(slices)).of_domain(&[], |_| true)
}
