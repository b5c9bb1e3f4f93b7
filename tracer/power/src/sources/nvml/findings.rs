//! What a reader should know of a GPU's meter. Leaves out finding it out, and the sentences (`energy_trace_sentences`).

use super::offer::Offer;
use super::watch::Watch;
use energy_trace_model::recording::record::{
    CounterKind, GpuMeter, GpuMeterKind, IgnoredReason, LibraryProblem, PowerDiagnostic, SourceNote,
};
use nvml_wrapper::error::NvmlError;
use std::path::Path;

/// Two sensors of one device that differ by more, in thousandths, are not both right.
const DISAGREE_PERMILLE: u32 = 100;

/// Why a library gives nothing.
pub(super) fn explain(library: &Path, error: &NvmlError) -> IgnoredReason {
    let problem = match error {
        NvmlError::LibloadingError(e) => LibraryProblem::NotLoaded(e.to_string()),
        NvmlError::FailedToLoadSymbol(e) => LibraryProblem::NotNvml(e.clone()),
        NvmlError::DriverNotLoaded => LibraryProblem::DriverNotLoaded,
        NvmlError::LibRmVersionMismatch => LibraryProblem::VersionMismatch,
        other => LibraryProblem::Failed(other.to_string()),
    };
    IgnoredReason::Library { path: library.display().to_string(), problem }
}

/// Why a device gives nothing.
pub(super) fn explain_device(error: &NvmlError) -> IgnoredReason {
    IgnoredReason::DeviceUnreadable { error: error.to_string() }
}

/// What a device's offer means for the numbers.
pub(super) fn of_offer(name: &str, offer: &Offer) -> Vec<PowerDiagnostic> {
    let domain = || name.to_owned();
    let of_meter = match offer.meter(false) {
        Ok(GpuMeterKind::ModuleCounter) => Some(PowerDiagnostic::GpuModule { domain: domain() }),
        Ok(GpuMeterKind::InstantPower) => Some(PowerDiagnostic::GpuNoCounter { domain: domain() }),
        Ok(GpuMeterKind::AveragedPower) => Some(PowerDiagnostic::GpuAveragedPower { domain: domain() }),
        Ok(GpuMeterKind::Utilization) => Some(PowerDiagnostic::GpuUtilization { domain: domain() }),
        _ => None,
    };
    let missing = offer.missing();
    let unsupported =
        (!missing.is_empty()).then(|| PowerDiagnostic::GpuUnsupported { domain: domain(), missing });
    let mig = offer.mig.then(|| PowerDiagnostic::GpuMig { domain: domain() });
    let virtual_gpu = offer.virtual_gpu.then(|| PowerDiagnostic::GpuVirtual { domain: domain() });
    [mig, virtual_gpu, of_meter, unsupported].into_iter().flatten().collect()
}

/// How a meter behaves, for the reader of a report.
pub(super) fn describe(name: &str, meter: &GpuMeter) -> Vec<SourceNote> {
    let domain = || name.to_owned();
    let step = SourceNote::MeterStep { domain: domain(), tick_ns: meter.tick_ns };
    let against = meter.agreement_permille;
    let against = against.map(|permille| SourceNote::CounterAgainstPower { domain: domain(), permille });
    std::iter::once(step).chain(against).collect()
}

/// What the run has shown.
pub(super) fn of_run(name: &str, meter: &GpuMeter, watch: &Watch) -> Vec<PowerDiagnostic> {
    let domain = || name.to_owned();
    let lost = watch.lost.is_some().then(|| PowerDiagnostic::GpuLost { domain: domain() });
    let reset = watch.reset.map(|(_, from_uj, to_uj, times)| PowerDiagnostic::GpuCounterReset {
        domain: domain(),
        from_j: from_uj / 1_000_000,
        to_j: to_uj / 1_000_000,
        times: u64::from(times),
    });
    let disagree = meter.agreement_permille.filter(|p| p.abs_diff(1000) > DISAGREE_PERMILLE);
    let disagree = disagree.map(|permille| PowerDiagnostic::GpuSensorsDisagree {
        domain: domain(),
        permille: i64::from(permille) - 1000,
        counter: CounterKind::Counter,
    });
    [lost, reset, disagree].into_iter().flatten().collect()
}
