//! Which GPU of the machine a process means by a number.
//!
//! NVML numbers GPUs by their place on the bus. CUDA numbers those that `CUDA_VISIBLE_DEVICES` leaves, in the order of that list, by number or by
//! (the beginning of) a UUID; the first word that names none ends it. Without `CUDA_DEVICE_ORDER=PCI_BUS_ID` its numbers begin with the
//! fastest GPU, so that where models differ nothing is known from a number (CUDA C++ Programming Guide 12.4, "CUDA Environment Variables").
//! Leaves out how the variables are read (`environment`).

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// NVML's number.
    pub(crate) index: u32,
    pub(crate) model: String,
    pub(crate) uuid: String,
}

/// What is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;

impl Device {
    /// From the place of its meter, `MODEL (UUID)`.
    pub(crate) fn parse(index: u32, place: &str) -> Self {
        let (model, uuid) = place.rsplit_once(" (").unwrap_or((place, ""));
        Self { index, model: model.to_owned(), uuid: uuid.trim_end_matches(')').to_owned() }
    }
}

/// What a process's environment says about GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceVariables {
    /// `CUDA_VISIBLE_DEVICES`.
    pub(super) visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub(super) order: Option<String>,
}

/// The index of what a process calls its GPU of this number; `UNKNOWN` where that is not to be known. `variables` is `None` where it could not be read.
pub(crate) fn index_of(number: u32, variables: Option<&DeviceVariables>, devices: &[Device]) -> u32 {
    let Some(variables) = variables else { return if devices.len() < 2 { number } else { UNKNOWN } };
    let by_bus = variables.order.as_deref() == Some("PCI_BUS_ID");
    let alike = devices.windows(2).all(|pair| pair[0].model == pair[1].model);
    let ordered = |number: u32| if by_bus || alike { number } else { UNKNOWN };
    let Some(visible) = &variables.visible else { return ordered(number) };
    let named = |word: &str| -> Option<u32> {
        match word.trim() {
            uuid if uuid.starts_with("GPU-") => Some(by_uuid(uuid, devices)),
            instance if instance.starts_with("MIG-") => Some(of_instance(instance, devices)),
            number => number.parse().ok().map(ordered),
        }
    };
    visible.split(',').map_while(named).nth(number as usize).unwrap_or(UNKNOWN)
}

/// The one device whose UUID begins so.
fn by_uuid(uuid: &str, devices: &[Device]) -> u32 {
    let mut found = devices.iter().filter(|device| device.uuid.starts_with(uuid));
    match (found.next(), found.next()) {
        (Some(device), None) => device.index,
        _ => UNKNOWN,
    }
}

/// The device of a MIG instance: `MIG-GPU-UUID/GI/CI` names it (drivers below R470), `MIG-UUID` does not.
fn of_instance(name: &str, devices: &[Device]) -> u32 {
    let parent = name.strip_prefix("MIG-").unwrap_or_default().split('/').next().unwrap_or_default();
    match devices {
        _ if parent.starts_with("GPU-") => by_uuid(parent, devices),
        [only] => only.index,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::{Device, DeviceVariables, UNKNOWN, index_of};

    fn device(index: u32, model: &str, uuid: &str) -> Device {
        Device::parse(index, &format!("{model} ({uuid})"))
    }

    fn variables(visible: &str) -> DeviceVariables {
        DeviceVariables { visible: Some(visible.to_owned()), order: None }
    }

    /// Numbers reorder, UUIDs and their beginnings name a device, a word that names none ends the list.
    #[test]
    fn lists_reorder() {
        let all = [device(0, "A100", "GPU-aa1"), device(1, "A100", "GPU-ab2"), device(2, "A100", "GPU-cc3")];
        let index = |number, list: &str| index_of(number, Some(&variables(list)), &all);
        assert_eq!((index(0, "2,0"), index(1, "2,0"), index(2, "2,0")), (2, 0, UNKNOWN));
        assert_eq!((index(0, "GPU-cc3"), index(0, "GPU-a"), index(0, " GPU-ab")), (2, UNKNOWN, 1));
        assert_eq!((index(0, "1,-1,0"), index(1, "1,none,0"), index(0, "")), (1, UNKNOWN, UNKNOWN));
        assert_eq!(index_of(1, Some(&DeviceVariables::default()), &all), 1);
        assert_eq!(index_of(1, None, &all), UNKNOWN);
    }

    /// An instance is its board's where the name says so, or where there is one board only.
    #[test]
    fn instances_are_their_boards() {
        let all = [device(0, "A100", "GPU-aa1"), device(3, "A100", "GPU-ab2")];
        let old = variables("MIG-GPU-ab2/1/0");
        assert_eq!(index_of(0, Some(&old), &all), 3);
        let new = variables("MIG-11-22");
        assert_eq!((index_of(0, Some(&new), &all), index_of(0, Some(&new), &all[1..])), (UNKNOWN, 3));
    }

    /// Where models differ CUDA's numbers say nothing unless it was told to count by bus; UUIDs do.
    #[test]
    fn the_fastest_is_first() {
        let all = [device(0, "T400 4GB (rev)", "GPU-aa1"), device(1, "RTX 4090", "GPU-ab2")];
        assert_eq!(all[0].model, "T400 4GB (rev)");
        assert_eq!(index_of(0, Some(&DeviceVariables::default()), &all), UNKNOWN);
        assert_eq!(index_of(0, Some(&variables("1")), &all), UNKNOWN);
        assert_eq!(index_of(0, Some(&variables("GPU-ab")), &all), 1);
        let by_bus = DeviceVariables { visible: None, order: Some("PCI_BUS_ID".to_owned()) };
        assert_eq!(index_of(1, Some(&by_bus), &all), 1);
    }
}
