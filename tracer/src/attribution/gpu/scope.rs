//! What a GPU's meter is: a mean or not, of the device alone or of others as well. Leaves out how late it is (`meter`).

use super::Gpu;
use crate::profile::record::{Domain, GpuMeterKind, Scope};

/// Remarks that say that a meter shows more than what is launched on its device: which launches took it is not to be known.
const SHARED: [&str; 3] = ["gpu-mig", "gpu-virtual", "gpu-module"];

impl Gpu<'_> {
    /// Whether the meter is a sum of power readings that are means.
    pub(super) fn is_averaged(&self) -> bool {
        let of_device = |domain: &&Domain| domain.scope == Scope::Gpu(self.device);
        let domain = self.recording.domains.iter().find(of_device);
        let meter = domain.and_then(|domain| self.recording.gpu_facts.meters.get(&domain.id));
        meter.is_some_and(|meter| meter.kind == GpuMeterKind::AveragedPower)
    }

    /// Whether what the meter shows is this device's alone, and not that of other instances, hosts or CPUs as well.
    pub(super) fn is_alone(&self) -> bool {
        let of_device = |domain: &&Domain| domain.scope == Scope::Gpu(self.device);
        let Some(domain) = self.recording.domains.iter().find(of_device) else { return true };
        let summary = self.recording.summary.iter().flat_map(|summary| &summary.warnings);
        !summary.chain(&self.recording.warnings).any(|warning| {
            SHARED.contains(&warning.code.as_str()) && warning.text.starts_with(&format!("{}:", domain.name))
        })
    }
}
