//! What one device offers: a call for each thing, and what follows from it for the choice of its meter. Leaves out what the meter does then.
//!
//! Power is read as a field: `NVML_FI_DEV_POWER_INSTANT` (186) is not averaged, `NVML_FI_DEV_POWER_AVERAGE` (185) is the mean over a second
//! (nvml.h, driver 570). `nvmlDeviceGetPowerUsage` is one or the other by architecture, so it is used where no field is, and taken for a mean.
//! Last comes for how much of the time any kernel ran (`nvmlDeviceGetUtilizationRates`, over a sixth of a second to a second), times the
//! power limit. On a module of CPU and GPU
//! (GH200, GB200) the energy may exist for the module only, as field 83 with scope 1.

use energy_trace_model::recording::record::{GpuFeature, GpuMeterKind, IgnoredReason, SourceNote};
use energy_trace_model::units::MicroWatts;
use nvml_wrapper::enum_wrappers::device::{GpuVirtualizationMode, Sampling};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::ffi::c_int;

const FIELD_ENERGY: u32 = 83;
const FIELD_AVERAGE: u32 = 185;
const FIELD_INSTANT: u32 = 186;
const SCOPE_GPU: u32 = 0;
const SCOPE_MODULE: u32 = 1;

/// What one device offers.
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of one call")]
pub(super) struct Offer {
    pub(super) model: String,
    pub(super) uuid: String,
    pub(super) counter: bool,
    pub(super) module_counter: bool,
    /// Power without averaging.
    pub(super) instant: bool,
    /// Power averaged over a second.
    pub(super) averaged: bool,
    /// Power of which it is not known what it is a mean of.
    pub(super) usage: bool,
    /// How busy the device is.
    pub(super) busy: bool,
    /// The driver's own ring of power samples.
    pub(super) ring: bool,
    /// How busy each process keeps the device.
    pub(super) utilization: bool,
    pub(super) mig: bool,
    pub(super) virtual_gpu: bool,
    /// The power limit that holds now, in milliwatts.
    pub(super) limit_mw: Option<u32>,
}

impl Offer {
    /// Asks a device for everything. A device that says anything but "not supported" to the first question is not read.
    pub(super) fn read(nvml: &Nvml, device: &Device<'_>, index: u32) -> Result<Self, NvmlError> {
        let counter = is_offered(device.total_energy_consumption())?;
        let field = |field, scope| read_field(nvml, device, field, scope).is_ok();
        Ok(Self {
            model: device.name().unwrap_or_else(|_| "unnamed device".to_owned()),
            uuid: device.uuid().unwrap_or_else(|_| format!("index {index}")),
            counter,
            module_counter: field(FIELD_ENERGY, SCOPE_MODULE),
            instant: field(FIELD_INSTANT, SCOPE_GPU),
            averaged: field(FIELD_AVERAGE, SCOPE_GPU),
            usage: device.power_usage().is_ok(),
            busy: device.utilization_rates().is_ok(),
            ring: is_answered(&device.samples(Sampling::Power, None)),
            utilization: is_answered(&device.process_utilization_stats(None)),
            // `current` is 1 while MIG is on (NVML_DEVICE_MIG_ENABLE).
            mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
            limit_mw: device.enforced_power_limit().ok(),
            virtual_gpu: matches!(device.virtualization_mode(), Ok(GpuVirtualizationMode::Vgpu)),
        })
    }

    /// What its energy is made of, or why it is not read.
    pub(super) fn meter(&self, measured_only: bool) -> Result<GpuMeterKind, IgnoredReason> {
        if self.counter {
            return Ok(GpuMeterKind::Counter);
        }
        if self.module_counter {
            return Ok(GpuMeterKind::ModuleCounter);
        }
        let summed = match self {
            Self { instant: true, .. } => GpuMeterKind::InstantPower,
            Self { averaged: true, .. } | Self { usage: true, .. } => GpuMeterKind::AveragedPower,
            Self { busy: true, limit_mw: Some(_), .. } => GpuMeterKind::Utilization,
            _ => return Err(IgnoredReason::NoEnergyNoPower),
        };
        match measured_only {
            true => Err(IgnoredReason::NoEnergyMeasuredOnly),
            false => Ok(summed),
        }
    }

    /// What a reader of the report should know of the device itself.
    pub(super) fn notes(&self, name: &str) -> Vec<SourceNote> {
        let domain = || name.to_owned();
        let superchip = ["GH200", "GB200", "GB300"].iter().any(|superchip| self.model.contains(superchip));
        let model = SourceNote::DeviceModel { domain: domain(), model: self.model.clone() };
        let mig = self.mig.then(|| SourceNote::MigOn { domain: domain() });
        let averaged =
            (self.counter && self.averaged).then(|| SourceNote::AveragedPowerUnused { domain: domain() });
        let kind = self.meter(false);
        let by_module = kind == Ok(GpuMeterKind::ModuleCounter);
        let by_use = (kind == Ok(GpuMeterKind::Utilization))
            .then(|| SourceNote::UtilizationOfLimit { domain: domain() });
        let with_cpu = (superchip && !by_module).then(|| SourceNote::MayIncludeCpu { domain: domain() });
        let limit = self.limit_mw.map(|mw| MicroWatts::from_uw(u64::from(mw) * 1000));
        let limit = limit.map(|limit| SourceNote::PowerLimit { domain: domain(), limit });
        std::iter::once(model).chain([limit, by_use, mig, averaged, with_cpu].into_iter().flatten()).collect()
    }

    /// What the device does not offer and would be used.
    pub(super) fn missing(&self) -> Vec<GpuFeature> {
        let all = [
            (self.instant, GpuFeature::InstantPower),
            (self.ring, GpuFeature::PowerSamples),
            (self.utilization, GpuFeature::ProcessUtilization),
        ];
        all.into_iter().filter(|(offered, _)| !offered).map(|(_, what)| what).collect()
    }
}

/// Whether an error says that the device or the library does not have this, rather than that something is wrong.
fn is_missing(error: &NvmlError) -> bool {
    matches!(error, NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_))
}

/// Whether a list is there: no sample and no process yet is no refusal, and one more than a moment ago no error.
fn is_answered<T>(answer: &Result<T, NvmlError>) -> bool {
    matches!(answer, Ok(_) | Err(NvmlError::NotFound | NvmlError::InsufficientSize(_)))
}

fn is_offered<T>(answer: Result<T, NvmlError>) -> Result<bool, NvmlError> {
    match answer {
        Ok(_) => Ok(true),
        Err(e) if is_missing(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// A counter, in millijoules.
pub(super) fn read_energy_mj(nvml: &Nvml, device: &Device<'_>, kind: GpuMeterKind) -> Result<u64, NvmlError> {
    match kind {
        GpuMeterKind::ModuleCounter => read_field(nvml, device, FIELD_ENERGY, SCOPE_MODULE),
        _ => device.total_energy_consumption(),
    }
}

/// Power, in milliwatts.
pub(super) fn read_power_mw(nvml: &Nvml, device: &Device<'_>, kind: GpuMeterKind) -> Result<u64, NvmlError> {
    let field = if kind == GpuMeterKind::AveragedPower { FIELD_AVERAGE } else { FIELD_INSTANT };
    let scope = if kind == GpuMeterKind::ModuleCounter { SCOPE_MODULE } else { SCOPE_GPU };
    match read_field(nvml, device, field, scope) {
        Err(NvmlError::NotSupported) if kind == GpuMeterKind::AveragedPower => {
            device.power_usage().map(u64::from)
        }
        read => read,
    }
}

/// How busy a device is, times its power limit, in milliwatts.
fn read_busy_mw(device: &Device<'_>) -> Result<u64, NvmlError> {
    let percent = device.utilization_rates()?.gpu.min(100);
    Ok(u64::from(percent) * u64::from(device.enforced_power_limit()?) / 100)
}

/// Whatever the meter steps with: a counter in millijoules, or power in milliwatts.
pub(super) fn read_meter(nvml: &Nvml, device: &Device<'_>, kind: GpuMeterKind) -> Result<u64, NvmlError> {
    match kind {
        GpuMeterKind::Counter | GpuMeterKind::ModuleCounter => read_energy_mj(nvml, device, kind),
        GpuMeterKind::Utilization => read_busy_mw(device),
        _ => read_power_mw(nvml, device, kind),
    }
}

/// A field of a scope. `nvml_wrapper` 0.13 has no scopes, so the call is made here. Field numbers 83, 185 and 186 are the same in all drivers.
fn read_field(nvml: &Nvml, device: &Device<'_>, field: u32, scope: u32) -> Result<u64, NvmlError> {
    let call = nvml.lib().nvmlDeviceGetFieldValues.as_ref();
    let call = *call.map_err(|e| NvmlError::FailedToLoadSymbol(e.to_string()))?;
    let mut value = zeroed_argument(call);
    (value.fieldId, value.scopeId) = (field, scope);
    // SAFETY: the handle is the device's own, and `value` is one writable element of the array that the call takes.
    let (code, handle_code) = unsafe { (call(device.handle(), 1, &raw mut value), value.nvmlReturn) };
    // NVML_SUCCESS is 0, NVML_ERROR_NOT_SUPPORTED 3 and NVML_ERROR_GPU_IS_LOST 15.
    match [code, handle_code].into_iter().find(|code| *code != 0) {
        None => {}
        Some(15) => return Err(NvmlError::GpuLost),
        Some(_) => return Err(NvmlError::NotSupported),
    }
    // SAFETY: NVML_VALUE_TYPE_UNSIGNED_INT is 1, NVML_VALUE_TYPE_UNSIGNED_LONG is 2 and NVML_VALUE_TYPE_UNSIGNED_LONG_LONG is 3; the
    // union holds what the type says.
    match unsafe { (value.valueType, value.value.uiVal, value.value.ullVal) } {
        (1, small, _) => Ok(u64::from(small)),
        (2 | 3, _, large) => Ok(large),
        (other, ..) => Err(NvmlError::UnexpectedVariant(other)),
    }
}

/// The structure that a call takes, with all its bytes zero. The type has no name outside `nvml_wrapper`.
fn zeroed_argument<D, T: Copy, R>(_call: unsafe extern "C" fn(D, c_int, *mut T) -> R) -> T {
    // SAFETY: used for `nvmlFieldValue_t` only, a C structure of numbers and a union of numbers.
    unsafe { std::mem::zeroed() }
}
