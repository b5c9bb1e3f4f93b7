//! What a GPU's meter is: a mean or not, of the device alone or of others as well; and whether launches are a
//! queue. Leaves out how late it is (`meter`).

use super::charge::Gpu;
use super::constants::{BEYOND_LIMIT, MOST_IDLE, MOST_OPEN, OPEN_PART};
use super::idle::most_at_rest;
use energy_trace_model::recording::record::{
    Domain, GpuMeterKind, LaunchDiagnostic, RecordingDiagnostic, Scope, SourceNote,
};

impl Gpu<'_> {
    /// Whether the meter is a sum of readings that are means.
    pub(super) fn is_averaged(&self) -> bool {
        let meter = self.domain().and_then(|domain| self.recording.gpu_facts.meters.get(&domain.id));
        meter.is_some_and(|meter| {
            matches!(meter.kind, GpuMeterKind::AveragedPower | GpuMeterKind::Utilization)
        })
    }

    /// Whether what the meter shows is this device's alone, and not that of other instances, hosts or CPUs as
    /// well.
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

    /// The error that its idle power may have, in watts: as much as it drew, where it was at work when that
    /// was to be measured.
    pub(super) fn idle_in_doubt(&self) -> f64 {
        let in_use = self.domain().and_then(Domain::in_use);
        in_use.map_or(0.0, |(_, then)| then.as_watts().min(MOST_IDLE))
    }

    /// What the device may draw beyond its baseline because it is open, in watts, where that is not seen;
    /// nothing where its limit is not known.
    pub(super) fn open_in_doubt(&self) -> f64 {
        self.domain().and_then(|domain| self.limit(domain)).map_or(0.0, |limit| OPEN_PART * limit)
    }

    /// Up to how many watts what pauses show is idle power.
    pub(super) fn most_idle(&self) -> f64 {
        let used = self.domain().is_some_and(|domain| self.recording.used(domain));
        if used { most_at_rest(self.idle_in_doubt()) } else { MOST_OPEN }
    }

    /// The most that a kernel draws beyond idle power (the baseline and what an open device draws beyond it),
    /// in watts; `None` where the board's limit is not known.
    pub(super) fn most_watts(&self, open: f64) -> Option<f64> {
        let domain = self.domain()?;
        let baseline = self.recording.idle_power(domain).as_watts();
        Some((self.limit(domain)? * BEYOND_LIMIT - baseline - open).max(0.0))
    }

    /// The board's power limit in watts.
    fn limit(&self, domain: &Domain) -> Option<f64> {
        let notes = self.recording.header.sources.iter().flat_map(|source| &source.notes);
        notes.rev().find_map(|note| match note {
            SourceNote::PowerLimit { domain: of, limit } if *of == domain.name => Some(limit.as_watts()),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::{Domain, Gpu, GpuMeterKind, LaunchDiagnostic, RecordingDiagnostic, Scope};
    use crate::time::launchers::Launchers;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{DomainId, Pid, ProcessKey};
    use energy_trace_model::recording::Recording;
    use energy_trace_model::recording::record::{
        DomainClass, GpuMeter, IdleBaseline, IdleOrigin, InUse, Origin, PowerDiagnostic, Process, Quality,
        Source, SourceId, SourceNote, Summary,
    };
    use energy_trace_model::units::MicroWatts;

    /// Of two devices the first has a meter of means; it has launches in several streams, and the second a
    /// meter that others share.
    #[test]
    fn findings_are_of_one_device() {
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
            let gpu =
                Gpu { recording, device, launchers, start, intervals: &[], after: &[], in_windows: false };
            (gpu.is_averaged(), gpu.is_alone(), gpu.is_one_queue())
        };
        assert_eq!([0, 1, 2].map(of), [(true, true, false), (false, false, true), (false, true, true)]);
    }

    /// Of a limit of 700 W a kernel may draw a quarter more, less 78 W at rest and 42 because the device is
    /// open; where the 78 W are what a recorded program drew before the start, they are no idle power. A
    /// device that tells no limit has none.
    #[test]
    fn what_a_kernel_draws_at_most() {
        let baseline = |origin| IdleBaseline { power: MicroWatts::from_watts(78.0).unwrap(), origin };
        let most = |device: u32, origin: IdleOrigin| {
            let domain = Domain { idle: Some(baseline(origin)), ..domain(device) };
            let recording = Recording { domains: vec![domain], processes: vec![program()], ..limited() };
            let (launchers, start) = (Launchers::default(), KtimeNs::default());
            let (recording, launchers) = (&recording, &launchers);
            let gpu =
                Gpu { recording, device, launchers, start, intervals: &[], after: &[], in_windows: false };
            gpu.most_watts(42.0).map(f64::round)
        };
        assert_eq!(most(0, IdleOrigin::Given), Some(755.0));
        assert_eq!(most(0, IdleOrigin::InUse(InUse { percent: Some(90), pids: vec![7] })), Some(833.0));
        assert_eq!(most(1, IdleOrigin::Given), None);
    }

    /// A GPU that was in a pause just before the start drew its idle power then: pauses of the run may show a little more.
    #[test]
    fn pauses_show_idle_power_of_a_gpu_in_use() {
        let power = MicroWatts::from_watts(60.0).unwrap();
        let origin = IdleOrigin::InUse(InUse { percent: Some(90), pids: vec![7] });
        let domain = Domain { idle: Some(IdleBaseline { power, origin }), ..domain(0) };
        let recording = Recording { domains: vec![domain], processes: vec![program()], ..limited() };
        let (launchers, start) = (Launchers::default(), KtimeNs::default());
        let (recording, launchers) = (&recording, &launchers);
        let gpu =
            Gpu { recording, device: 0, launchers, start, intervals: &[], after: &[], in_windows: false };
        assert!((60.1..75.0).contains(&gpu.most_idle()), "{}", gpu.most_idle());
    }

    fn domain(device: u32) -> Domain {
        Domain {
            id: DomainId::new(device),
            name: format!("gpu-{device}"),
            class: DomainClass::Gpu,
            scope: Scope::Gpu(device),
            origin: Origin::measured("nvml", String::new(), None),
            idle: None,
        }
    }

    /// A recording whose source says what the limit of the first device is.
    fn limited() -> Recording {
        let limit = MicroWatts::from_watts(700.0).unwrap();
        let source = Source {
            id: SourceId::Nvml,
            domains: vec![],
            period_ns: 0,
            quality: Quality::Measured,
            ignored: vec![],
            notes: vec![SourceNote::PowerLimit { domain: "gpu-0".to_owned(), limit }],
        };
        let mut recording = Recording::default();
        recording.header.sources = vec![source];
        recording
    }

    fn program() -> Process {
        let (key, pid, parent) = (ProcessKey::new(0), Pid::new(7), None);
        Process { key, pid, parent, name: String::new(), command: vec![], runtime: None }
    }
}
