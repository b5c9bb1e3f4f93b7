//! What a GPU's meter is: a mean or not, of the device alone or of others as well; and whether launches are a queue. Leaves out how late it is (`meter`).

use super::Gpu;
use energy_trace_model::recording::record::{Domain, GpuMeterKind, Scope};

/// Remarks that say that a meter shows more than what is launched on its device: which launches took it is not to be known.
const SHARED: [&str; 3] = ["gpu-mig", "gpu-virtual", "gpu-module"];
/// The one that says that kernels of several streams may have run side by side.
const STREAMS: [&str; 1] = ["gpu-streams"];

impl Gpu<'_> {
    /// Whether the meter is a sum of power readings that are means.
    pub(super) fn is_averaged(&self) -> bool {
        let meter = self.domain().and_then(|domain| self.recording.gpu_facts.meters.get(&domain.id));
        meter.is_some_and(|meter| meter.kind == GpuMeterKind::AveragedPower)
    }

    /// Whether what the meter shows is this device's alone, and not that of other instances, hosts or CPUs as well.
    pub(super) fn is_alone(&self) -> bool {
        !self.has_remark(&SHARED)
    }

    /// Whether nearly all kernels were launched into one stream.
    pub(super) fn is_one_queue(&self) -> bool {
        !self.has_remark(&STREAMS)
    }

    fn domain(&self) -> Option<&Domain> {
        self.recording.domains.iter().find(|domain| domain.scope == Scope::Gpu(self.device))
    }

    /// Whether the recording has one of these remarks about the device.
    fn has_remark(&self, codes: &[&str]) -> bool {
        let Some(domain) = self.domain() else { return false };
        let summary = self.recording.summary.iter().flat_map(|summary| &summary.warnings);
        summary.chain(&self.recording.warnings).any(|warning| {
            codes.contains(&warning.code.as_str()) && warning.text.starts_with(&format!("{}:", domain.name))
        })
    }
}
