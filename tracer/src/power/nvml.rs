//! NVIDIA GPUs through NVML: the energy counter of each device. The only file that names `nvml_wrapper`.
//!
//! The counter is `nvmlDeviceGetTotalEnergyConsumption` (Volta and later): millijoules since the driver was loaded, moving in steps of
//! about 100 ms, so a reading without a step is no proof that nothing was spent. Leaves out devices without a counter, instances of MIG
//! (NVIDIA gives energy for the whole device only), and everything about kernels and processes.

use super::{Attempt, PowerSource, measured_source};
use crate::clock::KtimeNs;
use crate::ids::DomainId;
use crate::profile::record::{Domain, DomainClass, Ignored, Origin, Scope, Source};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::path::Path;
use std::time::Duration;

/// The source's name.
pub(super) const NAME: &str = "nvml";

/// The library that the driver installs.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// What NVML offers on this machine.
pub(super) struct Found {
    /// The devices that can be read; `None` when there is none.
    pub(super) gpus: Option<Gpus>,
    /// The same for the reader of a report.
    pub(super) source: Source,
}

/// Looks for NVIDIA devices. No library, no driver or no device is an ordinary result, with the reason in `source.ignored`.
pub(super) fn find(library: Option<&Path>, period: Duration) -> Found {
    let mut source = measured_source(NAME, period);
    let path = library.unwrap_or_else(|| Path::new(LIBRARY));
    match open(path, &mut source) {
        Ok(gpus) => {
            source.domains = gpus.domains.iter().map(|d| d.name.clone()).collect();
            Found { gpus: (!gpus.domains.is_empty()).then_some(gpus), source }
        }
        Err(e) => {
            source.ignored.push(Ignored { domain: NAME.to_owned(), why: explain(path, &e) });
            Found { gpus: None, source }
        }
    }
}

fn open(library: &Path, source: &mut Source) -> Result<Gpus, NvmlError> {
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init()?;
    let count = nvml.device_count()?;
    if count == 0 {
        source
            .ignored
            .push(Ignored { domain: NAME.to_owned(), why: "the driver shows no device".to_owned() });
    }
    if let Ok(version) = nvml.sys_driver_version() {
        source.notes.push(format!("NVIDIA driver {version}"));
    }
    let (mut domains, mut devices) = (Vec::new(), Vec::new());
    for index in 0..count {
        let name = format!("gpu-{index}");
        match nvml.device_by_index(index).and_then(|device| domain(&name, index, &device, &mut source.notes))
        {
            Ok(domain) => {
                domains.push(domain);
                devices.push(index);
            }
            Err(e) => source.ignored.push(Ignored { domain: name, why: explain_device(&e) }),
        }
    }
    Ok(Gpus { nvml, domains, devices })
}

/// The domain of a device whose counter can be read.
fn domain(name: &str, index: u32, device: &Device<'_>, notes: &mut Vec<String>) -> Result<Domain, NvmlError> {
    device.total_energy_consumption()?;
    let model = device.name().unwrap_or_else(|_| "unnamed device".to_owned());
    let uuid = device.uuid().unwrap_or_else(|_| format!("index {index}"));
    notes.push(format!("{name}: {model}"));
    // `current` is 1 while MIG is on (NVML_DEVICE_MIG_ENABLE).
    if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        notes.push(format!(
            "{name}: MIG is on, and the counter is that of the whole device: all instances share it"
        ));
    }
    if ["GH200", "GB200", "GB300"].iter().any(|superchip| model.contains(superchip)) {
        notes.push(format!(
            "{name}: on this module the counter may include its CPU; do not add it to the package"
        ));
    }
    Ok(Domain {
        id: DomainId::default(),
        name: name.to_owned(),
        class: DomainClass::Gpu,
        scope: Scope::Gpu(index),
        origin: Origin::measured(NAME, format!("{model} ({uuid})"), None),
        idle: None,
    })
}

/// The devices that are read.
pub(super) struct Gpus {
    nvml: Nvml,
    domains: Vec<Domain>,
    /// NVML's index of each domain's device.
    devices: Vec<u32>,
}

impl Gpus {
    fn attempt(&self, index: u32) -> Attempt {
        let before = KtimeNs::now();
        let energy_mj = self.nvml.device_by_index(index).and_then(|d| d.total_energy_consumption());
        let at = before.midpoint(KtimeNs::now());
        let counter_uj = energy_mj.map(|mj| mj.saturating_mul(1000)).map_err(|e| format!("gpu-{index}: {e}"));
        Attempt { at, counter_uj }
    }
}

impl PowerSource for Gpus {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.devices.iter().map(|&index| self.attempt(index)));
    }
}

fn explain(library: &Path, error: &NvmlError) -> String {
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

fn explain_device(error: &NvmlError) -> String {
    match error {
        NvmlError::NotSupported => "has no energy counter (devices before Volta, virtual GPUs)".to_owned(),
        other => format!("its energy counter cannot be read: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::find;
    use std::path::Path;
    use std::time::Duration;

    /// A library that does not exist is an ordinary result that names the library and the option.
    #[test]
    fn no_library() {
        let found = find(Some(Path::new("/nonexistent/libnvidia-ml.so.1")), Duration::from_millis(20));
        assert!(found.gpus.is_none());
        let why = &found.source.ignored[0].why;
        assert!(why.contains("/nonexistent/libnvidia-ml.so.1") && why.contains("--nvml-lib"), "{why}");
    }
}
