//! Power sensors as they lie in sysfs: chips of `/sys/class/hwmon`, and graphics cards of `/sys/class/drm`.
//!
//! `powerN_average` is preferred to `powerN_input`: a mean misses nothing between readings; how long it is one of is in
//! `powerN_average_interval` (milliseconds; Documentation/hwmon/sysfs-interface.rst). Chips of volts and amperes (`ina3221`) have no power
//! file. Leaves out what a sensor measures (`known.rs`).

use super::known::{What, is_usual, shown_chip, what_is};
use crate::power_file::PowerPath;
use crate::sysfs::{cards, chip_and_file, entries, names, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A power sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sensor {
    /// The driver's name.
    pub(super) chip: String,
    /// How many chips of this name come before its own.
    pub(super) number: u32,
    /// The sensor's label, or the firmware's text; empty where it has none.
    pub(super) label: String,
    /// Where its power is read.
    pub(super) path: PowerPath,
    /// How long its power is a mean of.
    pub(super) mean: Option<Duration>,
    /// How often it has a new value, where its driver says that.
    pub(super) step: Option<Duration>,
}

impl Sensor {
    /// What it measures; `None`: this version does not know.
    pub(super) fn what(&self) -> Option<What> {
        what_is(&self.chip, &self.label, self.number)
    }

    /// `power_meter/Grace Power Socket 0 (hwmon3/power1_average)`; what no driver says is not repeated.
    pub(super) fn title(&self, is_known: bool) -> String {
        let place = chip_and_file(self.path.main());
        match (is_known, is_usual(&self.chip, &self.label)) {
            (false, _) => format!("{} ({place})", shown_chip(&self.chip)),
            (true, false) => format!("{} ({place})", self.chip),
            (true, true) => format!("{}/{} ({place})", self.chip, self.label),
        }
    }
}

fn milliseconds(file: &Path) -> Option<Duration> {
    text(file)?.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// The sensors of all chips under the root of hwmon, but those of graphics cards.
pub(super) fn read_sensors_at(root: &Path) -> Vec<Sensor> {
    let mut numbers = BTreeMap::<String, u32>::new();
    let mut sensors = Vec::new();
    for dir in entries(root) {
        // Before Linux 6.15 the files of `power_meter` lie with its device alone.
        let device = dir.join("device");
        let Some(chip) = text(&dir.join("name")).or_else(|| text(&device.join("name"))) else { continue };
        if GRAPHICS.contains(&chip.as_str()) {
            continue;
        }
        let count = numbers.entry(chip.clone()).or_default();
        let own = sensors_in(&dir, &chip, *count);
        sensors.extend(if own.is_empty() { sensors_in(&device, &chip, *count) } else { own });
        *count += 1;
    }
    sensors
}

/// Drivers of graphics cards with a power sensor.
const GRAPHICS: [&str; 3] = ["amdgpu", "nouveau", "radeon"];

/// The sensors of one chip.
fn sensors_in(dir: &Path, chip: &str, number: u32) -> Vec<Sensor> {
    if chip == "ina3221" {
        return volts_and_amperes(dir, chip, number);
    }
    let all = names(dir);
    let stem = |file: &String| {
        let stem = file.strip_suffix("_average").or_else(|| file.strip_suffix("_input"))?;
        let digits = stem.strip_prefix("power")?;
        digits.parse::<u32>().ok().map(|_| stem.to_owned())
    };
    let mut stems: Vec<String> = all.iter().filter_map(stem).collect();
    stems.dedup();
    stems.iter().map(|stem| power_sensor(dir, chip, number, stem)).collect()
}

fn power_sensor(dir: &Path, chip: &str, number: u32, stem: &str) -> Sensor {
    let of = |end: &str| dir.join(format!("{stem}_{end}"));
    let average = of("average");
    let is_average = average.exists();
    let mean = milliseconds(&of("average_interval")).filter(|_| is_average);
    let label = text(&of("label")).or_else(|| text(&of("oem_info"))).unwrap_or_default();
    let path = PowerPath::Power(if is_average { average } else { of("input") });
    Sensor { chip: chip.to_owned(), number, label, path, mean, step: mean }
}

/// Channels 1 to 3 are rails; further files are sums and shunts (Documentation/hwmon/ina3221.rst).
fn volts_and_amperes(dir: &Path, chip: &str, number: u32) -> Vec<Sensor> {
    let step = milliseconds(&dir.join("update_interval"));
    let channel = |n: u32| {
        let label = text(&dir.join(format!("in{n}_label")))?;
        let files = [format!("in{n}_input"), format!("curr{n}_input")].map(|file| dir.join(file));
        let [volts, amperes] = files;
        let path = PowerPath::VoltsAmperes(volts, amperes);
        Some(Sensor { chip: chip.to_owned(), number, label, path, mean: None, step })
    };
    (1..=3).filter_map(channel).collect()
}

/// The graphics cards with a power sensor: each card's folder, and the sensor.
pub(super) fn read_cards_at(sysfs: &Path) -> Vec<(PathBuf, Sensor)> {
    cards(sysfs).into_iter().filter_map(|(_, device)| card_sensor(device)).collect()
}

fn card_sensor(device: PathBuf) -> Option<(PathBuf, Sensor)> {
    let dir = entries(&device.join("hwmon")).into_iter().next()?;
    let chip = text(&dir.join("name")).filter(|chip| GRAPHICS.contains(&chip.as_str()))?;
    let sensor = sensors_in(&dir, &chip, 0).into_iter().next()?;
    Some((device, Sensor { label: String::new(), ..sensor }))
}
