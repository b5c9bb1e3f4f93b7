//! Which GPU of the machine a process means by a number.
//!
//! NVML numbers GPUs by their place on the bus. CUDA numbers those that `CUDA_VISIBLE_DEVICES` leaves, in the order of that list, by number or by
//! (the beginning of) a UUID; the first word that names none ends it. Without `CUDA_DEVICE_ORDER=PCI_BUS_ID` its numbers begin with the
//! fastest GPU, so that where models differ nothing is known from a number (CUDA C++ Programming Guide 12.4, "CUDA Environment Variables").
//! A container has those of `NVIDIA_VISIBLE_DEVICES` alone, by number or UUID, in their order on the bus; with `void` others have put them there
//! (NVIDIA Container Toolkit 1.17, "Environment variables"; CDI). Leaves out how the variables are read (`environment`).

use energy_trace_model::ids::Pid;

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// NVML's number.
    pub(crate) index: u32,
    pub(crate) model: String,
    pub(crate) uuid: String,
    /// The processes that used it before the start.
    pub(crate) users: Vec<Pid>,
}

/// What is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;

impl Device {
    /// From the place of its meter, `MODEL (UUID)`.
    pub(crate) fn parse(index: u32, place: &str) -> Self {
        let (model, uuid) = place.rsplit_once(" (").unwrap_or((place, ""));
        Self { index, model: model.to_owned(), uuid: uuid.trim_end_matches(')').to_owned(), users: vec![] }
    }
}

/// What a process's environment says about GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceVariables {
    /// `CUDA_VISIBLE_DEVICES`.
    pub(super) visible: Option<String>,
    /// `CUDA_DEVICE_ORDER`.
    pub(super) order: Option<String>,
    /// `NVIDIA_VISIBLE_DEVICES`.
    pub(super) given: Option<String>,
}

/// The index of what a process calls its GPU of this number; `UNKNOWN` where that is not to be known. `variables` is `None` where it could not be read.
pub(crate) fn index_of(number: u32, variables: Option<&DeviceVariables>, devices: &[Device]) -> u32 {
    let Some(variables) = variables else { return if devices.len() < 2 { number } else { UNKNOWN } };
    let by_bus = variables.order.as_deref() == Some("PCI_BUS_ID");
    let alike = devices.windows(2).all(|pair| pair[0].model == pair[1].model);
    let given = given(variables, devices);
    let ordered = |number: u32| match &given {
        Some(given) if by_bus || alike || given.len() == 1 => {
            given.get(number as usize).copied().unwrap_or(UNKNOWN)
        }
        None if by_bus || alike => number,
        _ => UNKNOWN,
    };
    let Some(visible) = &variables.visible else { return ordered(number) };
    let named = |word: &str| word_names(word, devices, &ordered);
    visible.split(',').map_while(named).nth(number as usize).unwrap_or(UNKNOWN)
}

/// The index of the GPU of a process of which no call was seen that names one: the only one that it had, or has.
pub(crate) fn only_index(pid: Pid, variables: Option<&DeviceVariables>, devices: &[Device]) -> u32 {
    let mut used = devices.iter().filter(|device| device.users.contains(&pid));
    match (used.next(), used.next()) {
        (Some(device), None) => return device.index,
        (Some(_), Some(_)) => return UNKNOWN,
        (None, _) => {}
    }
    let sees_second = variables.is_none_or(|of| index_of(1, Some(of), devices) != UNKNOWN);
    if devices.len() > 1 && sees_second { UNKNOWN } else { index_of(0, variables, devices) }
}

/// The GPUs that a process's container has, in their order; `None`: all.
fn given(variables: &DeviceVariables, devices: &[Device]) -> Option<Vec<u32>> {
    let words = variables.given.as_deref().filter(|words| !matches!(*words, "" | "all"))?;
    if devices.len() < 2 {
        return None;
    }
    let named =
        |word: &str| word_names(word.split(':').next().unwrap_or_default(), devices, &|number| number);
    let known = words.split(',').map(|word| named(word).filter(|index| *index != UNKNOWN));
    let mut known = known.collect::<Option<Vec<u32>>>().unwrap_or_default();
    known.sort_unstable();
    known.dedup();
    Some(known)
}

/// The index of what a word of a list names; `None` where it is no word of such a list.
fn word_names(word: &str, devices: &[Device], of_number: &dyn Fn(u32) -> u32) -> Option<u32> {
    match word.trim() {
        uuid if uuid.starts_with("GPU-") => Some(by_uuid(uuid, devices)),
        instance if instance.starts_with("MIG-") => Some(of_instance(instance, devices)),
        number => number.parse().ok().map(of_number),
    }
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
    use super::{Device, DeviceVariables, Pid, UNKNOWN, index_of, only_index};

    fn device(index: u32, model: &str, uuid: &str) -> Device {
        Device::parse(index, &format!("{model} ({uuid})"))
    }

    fn variables(visible: &str) -> DeviceVariables {
        DeviceVariables { visible: Some(visible.to_owned()), ..DeviceVariables::default() }
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

    fn given(words: &str, visible: Option<&str>) -> DeviceVariables {
        let [given, visible] = [Some(words), visible].map(|words| words.map(str::to_owned));
        DeviceVariables { given, visible, order: None }
    }

    /// A container's numbers are those of the devices that it was given, in their order on the bus; where others gave them nothing is known
    /// but on a machine of one.
    #[test]
    fn containers_have_numbers_of_their_own() {
        let all = [device(0, "A100", "GPU-aa1"), device(1, "A100", "GPU-ab2"), device(2, "A100", "GPU-cc3")];
        let index = |number, words, visible| index_of(number, Some(&given(words, visible)), &all);
        assert_eq!((index(0, "GPU-cc3", None), index(1, "GPU-cc3", None)), (2, UNKNOWN));
        assert_eq!((index(0, "2,1", None), index(1, "2,1", None), index(0, "2,1", Some("1"))), (1, 2, 2));
        assert_eq!((index(1, "all", None), index(1, "", None), index(0, "1:0", None)), (1, 1, 1));
        assert_eq!((index(0, "void", None), index(0, "void", Some("GPU-ab2"))), (UNKNOWN, 1));
        assert_eq!(index_of(0, Some(&given("void", None)), &all[..1]), 0);
        let mixed = [device(0, "T400", "GPU-aa1"), device(1, "RTX 4090", "GPU-ab2")];
        assert_eq!(index_of(0, Some(&given("GPU-ab2", None)), &mixed), 1);
    }

    /// Who ran before the start has the one device that it used then, else the only one that it sees; nothing is guessed.
    #[test]
    fn those_who_ran_before() {
        let mut all = [device(0, "A100", "GPU-aa1"), device(1, "A100", "GPU-ab2")];
        let of = |all: &[Device], pid, of: &DeviceVariables| only_index(Pid::new(pid), Some(of), all);
        let plain = DeviceVariables::default();
        assert_eq!((of(&all, 7, &plain), of(&all[..1], 7, &plain)), (UNKNOWN, 0));
        assert_eq!((of(&all, 7, &variables("1")), of(&all, 7, &given("1", None))), (1, 1));
        assert_eq!(only_index(Pid::new(7), None, &all), UNKNOWN);
        all[1].users = vec![Pid::new(7), Pid::new(8)];
        assert_eq!((of(&all, 7, &plain), of(&all, 9, &plain)), (1, UNKNOWN));
        all[0].users = vec![Pid::new(8)];
        assert_eq!(of(&all, 8, &plain), UNKNOWN);
    }

    /// Where models differ CUDA's numbers say nothing unless it was told to count by bus; UUIDs do.
    #[test]
    fn the_fastest_is_first() {
        let all = [device(0, "T400 4GB (rev)", "GPU-aa1"), device(1, "RTX 4090", "GPU-ab2")];
        assert_eq!(all[0].model, "T400 4GB (rev)");
        assert_eq!(index_of(0, Some(&DeviceVariables::default()), &all), UNKNOWN);
        assert_eq!(index_of(0, Some(&variables("1")), &all), UNKNOWN);
        assert_eq!(index_of(0, Some(&variables("GPU-ab")), &all), 1);
        let by_bus = DeviceVariables { order: Some("PCI_BUS_ID".to_owned()), ..DeviceVariables::default() };
        assert_eq!(index_of(1, Some(&by_bus), &all), 1);
    }
}
