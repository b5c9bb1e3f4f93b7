//! What a reader should know of a GPU's meter, in sentences, each with a stable word. Leaves out finding it out.

use super::offer::Offer;
use super::watch::Watch;
use crate::power::Remark;
use energy_trace_model::recording::record::{GpuMeter, GpuMeterKind, Warning};
use nvml_wrapper::error::NvmlError;
use std::path::Path;

/// Two sensors of one device that differ by more, in thousandths, are not both right.
const DISAGREE_PERMILLE: u32 = 100;

/// Why a library gives nothing.
pub(super) fn explain(library: &Path, error: &NvmlError) -> String {
    let library = library.display();
    match error {
        NvmlError::LibloadingError(e) => {
            format!(
                "{library} cannot be loaded ({e}): no NVIDIA driver is installed, or it is elsewhere (--nvml-lib FILE)"
            )
        }
        NvmlError::FailedToLoadSymbol(e) => format!("{library} is not an NVML library ({e})"),
        NvmlError::DriverNotLoaded => {
            format!("{library}: the NVIDIA driver is not loaded (`sudo modprobe nvidia`)")
        }
        NvmlError::LibRmVersionMismatch => {
            format!("{library} and the loaded driver have different versions: reboot or reload the driver")
        }
        other => format!("{library}: {other}"),
    }
}

/// Why a device gives nothing.
pub(super) fn explain_device(error: &NvmlError) -> String {
    format!("its energy counter cannot be read: {error}")
}

/// What a device's offer means for the numbers.
pub(super) fn of_offer(name: &str, offer: &Offer) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |code, text: String, advice: &str| {
        remarks.push(Remark { code, text: format!("{name}: {text}"), advice: advice.to_owned() });
    };
    if offer.mig {
        let text = "MIG is on, and NVIDIA gives energy for the whole device only: the joules of all instances are in one number";
        add("gpu-mig", text.to_owned(), "for joules of one instance, keep the others idle");
    }
    if offer.virtual_gpu {
        let text = "this is a virtual GPU: what it says of energy and power is the host's, if anything";
        add("gpu-virtual", text.to_owned(), "measure on the host, or on a machine with the whole device");
    }
    match offer.meter(false) {
        Ok(GpuMeterKind::ModuleCounter) => {
            let text = "the energy is that of the whole module, CPU and memory included";
            add("gpu-module", text.to_owned(), "do not add it to the package's");
        }
        Ok(GpuMeterKind::InstantPower) => {
            let text = "it has no energy counter: its joules are a sum of power readings, an estimate";
            add("gpu-no-counter", text.to_owned(), "--measured-only leaves such devices out");
        }
        Ok(GpuMeterKind::AveragedPower) => {
            let text = "it has no energy counter, and its power is a mean over a second: joules of a function that runs for less are not to be believed";
            add(
                "gpu-averaged-power",
                text.to_owned(),
                "compare long runs, or use a newer driver, which may have field 186",
            );
        }
        _ => {}
    }
    let missing = offer.missing();
    if !missing.is_empty() {
        let text = format!("not offered here: {}; what depends on it is left out", missing.join(", "));
        add(
            "gpu-unsupported",
            text,
            "run as root, or use a newer driver; MIG and virtual GPUs do not have it",
        );
    }
    remarks
}

/// How a meter behaves, for the reader of a report.
pub(super) fn describe(name: &str, meter: &GpuMeter) -> Vec<String> {
    let mut notes = Vec::new();
    match meter.tick_ns {
        Some(tick) => notes.push(format!("{name}: the meter steps every {:.0} ms", millis(tick))),
        None => notes.push(format!("{name}: the meter's step could not be seen before the start")),
    }
    if let Some(permille) = meter.agreement_permille {
        let percent = f64::from(permille) / 10.0 - 100.0;
        notes.push(format!("{name}: the counter differs from instant power by {percent:+.1} %"));
    }
    notes
}

/// What the run has shown.
pub(super) fn of_run(name: &str, meter: &GpuMeter, watch: &Watch) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut add = |code: &str, text: String| warnings.push(Warning { code: code.to_owned(), text });
    if watch.lost.is_some() {
        let text = format!(
            "{name}: the device fell off the bus during the run; its energy from then on is not known and nowhere counted \
             (the driver's reason is in `dmesg`, as an Xid)"
        );
        add("gpu-lost", text);
    }
    if let Some((_, from_uj, to_uj, times)) = watch.reset {
        let text = format!(
            "{name}: its counter went back from {} to {} J ({times} times in all): the driver was reloaded or the device reset; \
             the energy between the two readings is a gap in the ledger",
            from_uj / 1_000_000,
            to_uj / 1_000_000
        );
        add("gpu-counter-reset", text);
    }
    let disagree = meter.agreement_permille.filter(|p| p.abs_diff(1000) > DISAGREE_PERMILLE);
    if let Some(permille) = disagree {
        let percent = f64::from(permille) / 10.0 - 100.0;
        let text = format!(
            "{name}: the counter differs from the device's own power by {percent:+.0} %: one of them is wrong, and the counter is used"
        );
        add("gpu-sensors-disagree", text);
    }
    warnings
}

#[expect(clippy::cast_precision_loss, reason = "for showing")]
fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}
