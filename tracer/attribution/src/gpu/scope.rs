//! What a GPU's meter is: a mean or not, of the device alone or of others as well; and whether launches are a queue. Leaves out how late it is (`meter`).

use super::charge::Gpu;
use energy_trace_model::recording::record::{
    Domain, GpuMeterKind, LaunchDiagnostic, RecordingDiagnostic, Scope,
};

impl Gpu<'_> {
    /// Whether the meter is a sum of power readings that are means.
    pub(super) fn is_averaged(&self) -> bool {
        let meter = self.domain().and_then(|domain| self.recording.gpu_facts.meters.get(&domain.id));
        meter.is_some_and(|meter| meter.kind == GpuMeterKind::AveragedPower)
    }

    /// Whether what the meter shows is this device's alone, and not that of other instances, hosts or CPUs as well.
    pub(super) fn is_alone(&self) -> bool {
        !self.any_diagnostic(|found, domain| match found {
            RecordingDiagnostic::Power(power) => power.shared_meter() == Some(domain),
            _ => false,
        })
    }

    /// Whether nearly all kernels were launched into one stream.
    pub(super) fn is_one_queue(&self) -> bool {
        !self.any_diagnostic(|found, domain| match found {
            RecordingDiagnostic::Launches(LaunchDiagnostic::Streams { domain: crowded, .. }) => {
                crowded == domain
            }
            _ => false,
        })
    }

    fn domain(&self) -> Option<&Domain> {
        self.recording.domains.iter().find(|domain| domain.scope == Scope::Gpu(self.device))
    }

    /// Whether one of the recording's findings is so of the device's domain.
    fn any_diagnostic(&self, is_so: impl Fn(&RecordingDiagnostic, &str) -> bool) -> bool {
        let Some(domain) = self.domain() else { return false };
        let summary = self.recording.summary.iter().flat_map(|summary| &summary.diagnostics);
        summary.chain(&self.recording.diagnostics).any(|found| is_so(found, &domain.name))
    }
}
