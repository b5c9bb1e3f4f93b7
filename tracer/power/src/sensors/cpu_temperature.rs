//! How warm processors are, by the sensors of `/sys/class/hwmon`: `coretemp` (Intel), `k10temp` and `zenpower` (AMD), one value a socket.
//!
//! Values are thousandths of a degree (Documentation/hwmon/sysfs-interface.rst). Of `coretemp` it is the package's, whose `crit` is the
//! temperature at which the processor slows itself down (Documentation/hwmon/coretemp.rst); of the others `Tdie`, or `Tctl` where there is
//! none, which on some processors is above it (Documentation/hwmon/k10temp.rst). Where no such chip is there, thermal zones of the package
//! (`x86_pkg_temp`) are read, and where there are none either, the machine's own (`acpitz`), which may be anywhere on the board. Leaves out
//! single cores: reading a core's sensor wakes it.

use super::SensorReader;
use crate::counter_file::CounterFile;
use crate::sysfs::{entries, names, text};
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::SensorId;
use energy_trace_model::recording::record::{Part, Sensor, SensorQuantity, SensorValue};
use energy_trace_model::units::MilliCelsius;
use std::path::Path;

/// Chips of processors, and the labels of the value that stands for a socket, the best first.
const CHIPS: [(&str, &[&str]); 3] =
    [("coretemp", &["Package id"]), ("zenpower", &["Tdie", "Tctl"]), ("k10temp", &["Tdie", "Tctl"])];
/// Kinds of thermal zone: of the processor, and of anything.
const OF_PACKAGE: &str = "x86_pkg_temp";
const OF_MACHINE: &str = "acpitz";
/// A sensor that says anything else is broken, or none.
const PLAUSIBLE_MC: std::ops::RangeInclusive<i64> = -55_000..=150_000;

/// The processors' temperatures; where there are none, the machine's.
pub(super) fn find(sysfs: &Path) -> Option<Box<dyn SensorReader>> {
    let zones = |kind, part: fn(u32) -> Part| move || of_zones(sysfs, kind, part);
    let found = Some(of_chips(sysfs))
        .filter(|found| !found.is_empty())
        .or_else(|| Some(zones(OF_PACKAGE, Part::Cpu)()).filter(|found| !found.is_empty()))
        .unwrap_or_else(zones(OF_MACHINE, |_| Part::Machine));
    let (sensors, files): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    (!sensors.is_empty()).then(|| Box::new(Temperatures { sensors, files }) as Box<dyn SensorReader>)
}

/// Temperatures, open.
struct Temperatures {
    sensors: Vec<Sensor>,
    files: Vec<CounterFile>,
}

impl SensorReader for Temperatures {
    fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    fn read(&mut self) -> Vec<Option<SensorValue>> {
        let value =
            |file: &mut CounterFile| Some(SensorValue::Temperature(plausible(file.read_signed().ok()?)?));
        self.files.iter_mut().map(value).collect()
    }
}

fn plausible(mc: i64) -> Option<MilliCelsius> {
    let mc = i32::try_from(mc).ok().filter(|_| PLAUSIBLE_MC.contains(&mc))?;
    Some(MilliCelsius::from_mc(mc))
}

/// The sockets' temperatures by chips.
fn of_chips(sysfs: &Path) -> Vec<(Sensor, CounterFile)> {
    let mut found = Vec::new();
    for chip in entries(&sysfs.join("class/hwmon")) {
        let name = text(&chip.join("name")).unwrap_or_default();
        let Some((name, labels)) = CHIPS.iter().find(|(known, _)| *known == name) else { continue };
        let Some((stem, label)) = labels.iter().find_map(|wanted| labelled(&chip, wanted)) else { continue };
        let Ok(file) = CounterFile::open_signed(chip.join(format!("{stem}_input"))) else { continue };
        let counted = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let socket = label.strip_prefix("Package id ").and_then(|number| number.parse().ok());
        let limit = text(&chip.join(format!("{stem}_crit"))).and_then(|text| plausible(text.parse().ok()?));
        found.push((sensor(Part::Cpu(socket.unwrap_or(counted)), format!("{name} {label}"), limit), file));
    }
    found.order_by_key(|(sensor, _)| sensor.part);
    found
}

/// The first input of a chip whose label begins so: `temp1`, and its label.
fn labelled(chip: &Path, wanted: &str) -> Option<(String, String)> {
    let inputs = names(chip)
        .into_iter()
        .filter_map(|name| name.strip_suffix("_label")?.strip_prefix("temp")?.parse::<u32>().ok());
    let mut labels: Vec<u32> = inputs.collect();
    labels.sort_unstable();
    labels.into_iter().find_map(|number| {
        let label = text(&chip.join(format!("temp{number}_label")))?;
        label.starts_with(wanted).then(|| (format!("temp{number}"), label))
    })
}

/// Thermal zones of a kind.
fn of_zones(sysfs: &Path, kind: &str, part: fn(u32) -> Part) -> Vec<(Sensor, CounterFile)> {
    let mut found = Vec::new();
    for zone in entries(&sysfs.join("class/thermal")) {
        if text(&zone.join("type")).as_deref() != Some(kind) {
            continue;
        }
        let Ok(file) = CounterFile::open_signed(zone.join("temp")) else { continue };
        let counted = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let zone = zone.file_name().unwrap_or_default().to_string_lossy();
        found.push((sensor(part(counted), format!("{kind} ({zone})"), None), file));
    }
    found
}

fn sensor(part: Part, place: String, limit: Option<MilliCelsius>) -> Sensor {
    Sensor { id: SensorId::default(), part, quantity: SensorQuantity::Temperature, place, limit }
}

#[cfg(test)]
mod tests {
    use super::{MilliCelsius, Part, SensorValue, find};
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = tree.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        tree
    }

    fn found(files: &[(&str, &str)]) -> Vec<(Part, String, Option<i32>, Option<i32>)> {
        let tree = tree(files);
        let Some(mut reader) = find(tree.path()) else { return Vec::new() };
        let values = reader.read();
        let celsius = |value: &Option<SensorValue>| match value {
            Some(SensorValue::Temperature(value)) => Some(value.as_mc()),
            _ => None,
        };
        let of = reader.sensors().iter().zip(&values);
        of.map(|(s, v)| (s.part, s.place.clone(), s.limit.map(MilliCelsius::as_mc), celsius(v))).collect()
    }

    const TWO_SOCKETS: [(&str, &str); 10] = [
        ("class/hwmon/hwmon3/name", "coretemp"),
        ("class/hwmon/hwmon3/temp1_label", "Package id 1"),
        ("class/hwmon/hwmon3/temp1_input", "61000"),
        ("class/hwmon/hwmon3/temp1_crit", "100000"),
        ("class/hwmon/hwmon3/temp2_label", "Core 0"),
        ("class/hwmon/hwmon3/temp2_input", "55000"),
        ("class/hwmon/hwmon10/name", "coretemp"),
        ("class/hwmon/hwmon10/temp1_label", "Package id 0"),
        ("class/hwmon/hwmon10/temp1_input", "-3000"),
        ("class/hwmon/hwmon1/name", "nvme"),
    ];

    /// Each socket has the package's value, its number by the label; cores and other chips are left alone, as are zones then.
    #[test]
    fn intel() {
        let mut files = TWO_SOCKETS.to_vec();
        files.extend([
            ("class/thermal/thermal_zone0/type", "acpitz"),
            ("class/thermal/thermal_zone0/temp", "30000"),
        ]);
        let wanted = [
            (Part::Cpu(0), "coretemp Package id 0".to_owned(), None, Some(-3_000)),
            (Part::Cpu(1), "coretemp Package id 1".to_owned(), Some(100_000), Some(61_000)),
        ];
        assert_eq!(found(&files), wanted);
    }

    /// The die's temperature is taken, not the control value; where there is only that, it is.
    #[test]
    fn amd() {
        let die = found(&[
            ("class/hwmon/hwmon0/name", "k10temp"),
            ("class/hwmon/hwmon0/temp1_label", "Tctl"),
            ("class/hwmon/hwmon0/temp1_input", "72000"),
            ("class/hwmon/hwmon0/temp2_label", "Tdie"),
            ("class/hwmon/hwmon0/temp2_input", "62000"),
        ]);
        assert_eq!(die, [(Part::Cpu(0), "k10temp Tdie".to_owned(), None, Some(62_000))]);
        let control = found(&[
            ("class/hwmon/hwmon0/name", "zenpower"),
            ("class/hwmon/hwmon0/temp1_label", "Tctl"),
            ("class/hwmon/hwmon0/temp1_input", "999999"),
        ]);
        assert_eq!(control, [(Part::Cpu(0), "zenpower Tctl".to_owned(), None, None)], "nonsense is no value");
    }

    /// Without a chip the package's zone is read, else the machine's; a machine without either has none.
    #[test]
    fn zones() {
        let machine =
            [("class/thermal/thermal_zone0/type", "acpitz"), ("class/thermal/thermal_zone0/temp", "47800")];
        assert_eq!(
            found(&machine),
            [(Part::Machine, "acpitz (thermal_zone0)".to_owned(), None, Some(47_800))]
        );
        let mut both = machine.to_vec();
        both.extend([
            ("class/thermal/thermal_zone1/type", "x86_pkg_temp"),
            ("class/thermal/thermal_zone1/temp", "50000"),
        ]);
        assert_eq!(
            found(&both),
            [(Part::Cpu(0), "x86_pkg_temp (thermal_zone1)".to_owned(), None, Some(50_000))]
        );
        assert!(found(&[("class/thermal/thermal_zone0/type", "iwlwifi_1")]).is_empty());
    }
}
