//! What a GPU's meter is: a mean or not, of the device alone or of others as well; and whether launches are a queue. Leaves out how late it is (`meter`).

use super::charge::Gpu;
use super::constants::{MOST_IDLE, MOST_OPEN};
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

    /// The error that its idle power may have, in watts: as much as it drew, where it was at work when that was to be measured.
    pub(super) fn idle_in_doubt(&self) -> f64 {
        let in_use = self.domain().and_then(Domain::in_use);
        in_use.map_or(0.0, |(_, then)| then.as_watts().min(MOST_IDLE))
    }

    /// Up to how many watts what pauses show is idle power.
    pub(super) fn most_idle(&self) -> f64 {
        let used = self.domain().is_some_and(|domain| self.recording.used(domain));
        if used { self.idle_in_doubt() } else { MOST_OPEN }
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

#[cfg(test)]
mod tests {
    use super::{Domain, Gpu, GpuMeterKind, LaunchDiagnostic, RecordingDiagnostic, Scope};
    use crate::time::launchers::Launchers;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::DomainId;
    use energy_trace_model::recording::Recording;
    use energy_trace_model::recording::record::{DomainClass, GpuMeter, Origin, PowerDiagnostic, Summary};

    /// Of two devices the first has a meter of means; it has launches in several streams, and the second a meter that others share.
    #[test]
    fn findings_are_of_one_device() {
        let domain = |device: u32| Domain {
            id: DomainId::new(device),
            name: format!("gpu-{device}"),
            class: DomainClass::Gpu,
            scope: Scope::Gpu(device),
            origin: Origin::measured("nvml", String::new(), None),
            idle: None,
        };
        let mut recording = Recording { domains: vec![domain(0), domain(1)], ..Recording::default() };
        let meter =
            |kind| GpuMeter { kind, tick_ns: None, lag_ns: None, window_ns: None, agreement_permille: None };
        let kinds = [GpuMeterKind::AveragedPower, GpuMeterKind::Counter];
        let ids = [0, 1].map(DomainId::new);
        recording.gpu_facts.meters = ids.into_iter().zip(kinds.map(meter)).collect();
        let streams = LaunchDiagnostic::Streams { domain: "gpu-0".to_owned(), percent: 9 };
        recording.diagnostics = vec![RecordingDiagnostic::Launches(streams)];
        let shared = PowerDiagnostic::GpuMig { domain: "gpu-1".to_owned() };
        let diagnostics = vec![RecordingDiagnostic::Power(shared)];
        recording.summary = Some(Summary { diagnostics, ..Summary::default() });
        let launchers = Launchers::default();
        let of = |device| {
            let (recording, launchers, start) = (&recording, &launchers, KtimeNs::default());
            let gpu = Gpu { recording, device, launchers, start, intervals: &[] };
            (gpu.is_averaged(), gpu.is_alone(), gpu.is_one_queue())
        };
        assert_eq!([0, 1, 2].map(of), [(true, true, false), (false, false, true), (false, true, true)]);
    }
}
