//! Energy sensors of `/sys/class/hwmon`: Intel's discrete GPUs (`i915`, `xe`), the sockets of AMD's
//! `amd_energy` and `zenergy`, the cores of Ampere's `altra_hwmon`, and the supplies of Arm's Juno (`scmi`).
//!
//! `energyN_input` is a counter in microjoules that the driver keeps in 64 bits
//! (Documentation/hwmon/sysfs-interface.rst, Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon,
//! Linux v6.12): it has no range and does not turn over. On `xe` the sensor `card` contains `pkg`.
//! `altra_hwmon` (Ampere's own driver, a chip a socket) has `Core Energy 000` and so on. Leaves out power
//! sensors, whose readings are moments and no energy, and chips that this version does not know.

use crate::counter_file::CounterFile;
use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind, always, unless_gpus_are_off};
use crate::source::{Attempt, PowerSource, measured_source};
use crate::sources::scmi;
use crate::sysfs::{chip_and_file, entries, names, text};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{CpuId, DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, Source, SourceNote, Whole,
};
use energy_trace_system::host::topology::read_sockets_at;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Energy sensors.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "Energy sensors under /sys/class/hwmon: Intel GPUs, sockets of older AMD servers, cores of Ampere's, Arm's Juno",
    title: "energy sensors (hwmon)",
    quality: Quality::Measured,
    why_not_auto: always,
    discover,
};

/// The source's name.
const NAME: &str = "hwmon";

/// The sockets are left out where an earlier source has them, GPUs where they are switched off.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let (mut hwmon, mut source) = find(&request.plan.sysfs, request.next_gpu(), request.plan.period);
    let mut left_out = Vec::new();
    if request.has(DomainClass::Package) {
        left_out.push((DomainClass::Package, IgnoredReason::OtherSourceReadsSockets));
    }
    left_out.extend(unless_gpus_are_off(request).map(|reason| (DomainClass::Gpu, reason)));
    for (class, reason) in left_out {
        let gone = hwmon.iter().flat_map(|h| h.domains()).filter(|d| d.class == class);
        source.ignored.extend(gone.map(|d| Ignored { domain: d.name.clone(), reason: reason.clone() }));
        hwmon = hwmon.and_then(|h| h.without(class));
    }
    source.domains = hwmon.iter().flat_map(|h| h.domains()).map(|d| d.name.clone()).collect();
    Ok(Discovered::counters(source, hwmon))
}

/// An energy sensor as it lies in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sensor {
    chip: String,
    label: String,
    input: PathBuf,
}

impl Sensor {
    /// `xe/card (hwmon7/energy1_input)`.
    fn title(&self) -> String {
        let place = chip_and_file(&self.input);
        // What no driver says is not repeated: the files may be something else.
        let known = KNOWN_CHIPS.contains(&self.chip.as_str()) || self.chip.starts_with("i915_gt");
        let chip = if known { self.chip.as_str() } else { "another chip" };
        if is_usual(&self.label) {
            format!("{chip}/{} ({place})", self.label)
        } else {
            format!("{chip} ({place})")
        }
    }
}

/// The chips whose energy is understood (Linux 6.12: drivers/gpu/drm/xe, i915; AMD's and the community's for
/// Zen; Ampere's for Altra).
const KNOWN_CHIPS: [&str; 6] = ["xe", "i915", "amd_energy", "zenergy", ALTRA, scmi::CHIP];

/// Ampere's driver.
const ALTRA: &str = "altra_hwmon";
/// How its labels of cores begin.
const ALTRA_CORE: &str = "Core Energy ";

/// Whether a label is as drivers write them: `card`, `pkg`, `Esocket0`, `Ecore012`, `Core Energy 012`, or the
/// file's own name, `energy1`.
fn is_usual(label: &str) -> bool {
    let word = label.trim_end_matches(|c: char| c.is_ascii_digit());
    scmi::energy_of(label).is_some()
        || label.len() <= 16 && ["card", "pkg", "Esocket", "Ecore", "energy", ALTRA_CORE].contains(&word)
}

/// Looks for energy sensors under the sysfs root. GPUs get numbers from `first_gpu` on, behind those of NVML. None is an ordinary result.
fn find(sysfs: &Path, first_gpu: u32, period: Duration) -> (Option<Hwmon>, Source) {
    let root = sysfs.join("class/hwmon");
    let mut source = measured_source(NAME, period);
    let sensors = read_sensors_at(&root);
    if sensors.is_empty() {
        let reason = IgnoredReason::NoSensors { path: root.display().to_string() };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    let (mut hwmon, mut gpu) = (Hwmon { domains: Vec::new(), files: Vec::new() }, first_gpu);
    let cores = cores_of(&sensors, sysfs);
    for sensor in &sensors {
        let opened = part_of(sensor, &sensors, gpu, &cores).and_then(|domain| {
            let file = CounterFile::open(sensor.input.clone());
            let unreadable = |e: io::Error| {
                let path = sensor.input.display().to_string();
                IgnoredReason::Unreadable { path, error: e.to_string() }
            };
            Ok((domain, file.map_err(unreadable)?))
        });
        match opened {
            Ok((domain, file)) => {
                gpu += u32::from(domain.class == DomainClass::Gpu);
                hwmon.domains.push(domain);
                hwmon.files.push(file);
            }
            Err(reason) => source.ignored.push(Ignored { domain: sensor.title(), reason }),
        }
    }
    source.domains = hwmon.domains.iter().map(|d| d.name.clone()).collect();
    // There may be hundreds of cores, whose numbers say enough.
    let told = hwmon.domains.iter().filter(|domain| domain.class != DomainClass::Core);
    source.notes = told.map(place_note).collect();
    ((!hwmon.domains.is_empty()).then_some(hwmon), source)
}

fn place_note(domain: &Domain) -> SourceNote {
    let place = domain.origin.place().unwrap_or_default();
    SourceNote::DomainIs { domain: domain.name.clone(), place: place.to_owned() }
}

/// All energy sensors, in the order of their chips and numbers.
fn read_sensors_at(root: &Path) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for dir in entries(root) {
        let Some(chip) = text(&dir.join("name")) else { continue };
        for file in names(&dir) {
            let Some(stem) = file.strip_suffix("_input").filter(|stem| stem.starts_with("energy")) else {
                continue;
            };
            let label = text(&dir.join(format!("{stem}_label"))).unwrap_or_else(|| stem.to_owned());
            sensors.push(Sensor { chip: chip.clone(), label, input: dir.join(&file) });
        }
    }
    sensors
}

/// The CPU of each of Altra's sensors. Its chips are the sockets in their order, and its sensors the socket's
/// CPUs in theirs; the driver leaves out a core that has counted nothing, and then nobody knows which is
/// whose.
fn cores_of<'a>(sensors: &'a [Sensor], sysfs: &Path) -> BTreeMap<&'a Path, CpuId> {
    let mut cpus = BTreeMap::<SocketId, Vec<CpuId>>::new();
    for (cpu, socket) in read_sockets_at(sysfs) {
        cpus.entry(socket).or_default().push(cpu);
    }
    let is_core = |sensor: &&Sensor| sensor.chip == ALTRA && sensor.label.starts_with(ALTRA_CORE);
    let mut chips = BTreeMap::<usize, Vec<&Path>>::new();
    let mut folders = Vec::new();
    for sensor in sensors.iter().filter(is_core) {
        let folder = sensor.input.parent();
        let chip = folders.iter().position(|known| *known == folder).unwrap_or(folders.len());
        if chip == folders.len() {
            folders.push(folder);
        }
        chips.entry(chip).or_default().push(&sensor.input);
    }
    if chips.len() != cpus.len() {
        return BTreeMap::new();
    }
    let pairs = chips.into_values().zip(cpus.into_values()).filter(|(files, cpus)| files.len() == cpus.len());
    pairs.flat_map(|(files, cpus)| files.into_iter().zip(cpus)).fill_map()
}

/// What a sensor measures, or why it is not read.
fn part_of(
    sensor: &Sensor,
    all: &[Sensor],
    gpu: u32,
    cores: &BTreeMap<&Path, CpuId>,
) -> Result<Domain, IgnoredReason> {
    let same_chip = |other: &&Sensor| other.input.parent() == sensor.input.parent();
    match sensor.chip.as_str() {
        "xe" | "i915" => {
            let whole = all.iter().filter(same_chip).find(|other| other.label == "card");
            match whole {
                Some(card) if card != sensor => Err(IgnoredReason::PartOf(Whole::Card)),
                _ => Ok(domain(sensor, format!("gpu-{gpu}"), DomainClass::Gpu, Scope::Gpu(gpu))),
            }
        }
        "amd_energy" | "zenergy" => match sensor.label.strip_prefix("Esocket").map(str::parse::<u32>) {
            Some(Ok(socket)) => {
                let scope = Scope::Socket(SocketId::new(socket));
                Ok(domain(sensor, format!("package-{socket}"), DomainClass::Package, scope))
            }
            _ => Err(IgnoredReason::PartOf(Whole::Socket)),
        },
        ALTRA => {
            let cpu = *cores.get(sensor.input.as_path()).ok_or(IgnoredReason::UnknownChip)?;
            Ok(domain(sensor, format!("core-{cpu}"), DomainClass::Core, Scope::Core(cpu, cpu)))
        }
        scmi::CHIP => {
            let name = scmi::energy_of(&sensor.label).ok_or(IgnoredReason::UnknownChip)?;
            Ok(domain(sensor, format!("{name}-0"), DomainClass::Package, Scope::Machine))
        }
        chip if chip.starts_with("i915_gt") => Err(IgnoredReason::PartOf(Whole::Card)),
        _ => Err(IgnoredReason::UnknownChip),
    }
}

fn domain(sensor: &Sensor, name: String, class: DomainClass, scope: Scope) -> Domain {
    Domain {
        id: DomainId::default(),
        name,
        class,
        scope,
        origin: Origin::measured(NAME, sensor.title(), None),
        idle: None,
    }
}

/// The energy sensors of this machine, open.
struct Hwmon {
    domains: Vec<Domain>,
    files: Vec<CounterFile>,
}

impl Hwmon {
    /// Leaves out the domains of a class, for which there is a better source.
    fn without(self, class: DomainClass) -> Option<Self> {
        let pairs = self.domains.into_iter().zip(self.files).filter(|(domain, _)| domain.class != class);
        let (domains, files): (Vec<_>, Vec<_>) = pairs.unzip();
        (!domains.is_empty()).then_some(Self { domains, files })
    }
}

impl PowerSource for Hwmon {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.files.iter_mut().map(CounterFile::attempt));
    }
}

#[cfg(test)]
mod tests {
    use super::IgnoredReason;
    use super::find;
    use crate::PowerSource as _;
    use energy_trace_model::recording::record::DomainClass;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    fn write_chip(sysfs: &Path, number: u32, name: &str, sensors: &[(u32, Option<&str>, &str)]) {
        let dir = sysfs.join(format!("class/hwmon/hwmon{number}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("name"), format!("{name}\n")).unwrap();
        for (n, label, value) in sensors {
            fs::write(dir.join(format!("energy{n}_input")), format!("{value}\n")).unwrap();
            if let Some(label) = label {
                fs::write(dir.join(format!("energy{n}_label")), format!("{label}\n")).unwrap();
            }
        }
    }

    /// A card is read and its package is not; a chip without labels is a GPU as a whole; sockets are, cores are not; unknown chips are named.
    #[test]
    fn chips() {
        let tree = tempfile::tempdir().unwrap();
        write_chip(tree.path(), 2, "xe", &[(1, Some("card"), "414000000"), (2, Some("pkg"), "400000000")]);
        write_chip(tree.path(), 10, "i915", &[(1, None, "77")]);
        write_chip(tree.path(), 3, "amd_energy", &[(1, Some("Ecore000"), "5"), (33, Some("Esocket0"), "60")]);
        write_chip(tree.path(), 4, "ltc2947", &[(1, None, "9")]);
        let (hwmon, source) = find(tree.path(), 1, Duration::from_millis(20));
        assert_eq!(source.domains, ["gpu-1", "package-0", "gpu-2"]);
        let ignored: Vec<&str> = source.ignored.iter().map(|i| i.domain.as_str()).collect();
        let expected = [
            "xe/pkg (hwmon2/energy2_input)",
            "amd_energy/Ecore000 (hwmon3/energy1_input)",
            "another chip/energy1 (hwmon4/energy1_input)",
        ];
        assert_eq!(ignored, expected);
        let mut gpus = hwmon.unwrap().without(DomainClass::Package).unwrap();
        let mut attempts = Vec::new();
        gpus.read(&mut attempts);
        let values: Vec<_> = attempts.into_iter().map(|a| a.counter_uj).collect();
        assert_eq!(values, [Ok(414_000_000), Ok(77)]);
    }

    /// Two chips of Altra are two sockets; where a core of one has no sensor, nobody knows which of its
    /// sensors is whose.
    #[test]
    fn cores_of_altra() {
        let tree = tempfile::tempdir().unwrap();
        for (cpu, socket) in [(0, "36"), (1, "36"), (2, "37"), (3, "37")] {
            let folder = tree.path().join(format!("devices/system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("physical_package_id"), socket).unwrap();
        }
        fs::write(tree.path().join("devices/system/cpu/online"), "0-3\n").unwrap();
        let both = [(1, Some("Core Energy 000"), "7000"), (2, Some("Core Energy 001"), "8000")];
        write_chip(tree.path(), 4, "altra_hwmon", &both);
        write_chip(tree.path(), 5, "altra_hwmon", &both);
        let domains = || find(tree.path(), 0, Duration::from_millis(20)).1.domains;
        assert_eq!(domains(), ["core-0", "core-1", "core-2", "core-3"]);
        fs::remove_file(tree.path().join("class/hwmon/hwmon4/energy2_input")).unwrap();
        assert_eq!(domains(), ["core-2", "core-3"]);
    }

    /// No sensor is an ordinary result with its reason.
    #[test]
    fn nothing_there() {
        let tree = tempfile::tempdir().unwrap();
        let (hwmon, source) = find(tree.path(), 0, Duration::from_millis(20));
        assert!(hwmon.is_none() && matches!(source.ignored[0].reason, IgnoredReason::NoSensors { .. }));
    }
}
