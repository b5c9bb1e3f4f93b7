//! How often processors have slowed themselves down because they were too warm: the kernel counts it for each package.
//!
//! `/sys/devices/system/cpu/cpuN/thermal_throttle/package_throttle_count` is the same for all CPUs of a package and counts from the start of
//! the machine (Documentation/admin-guide/cputopology and arch/x86/kernel/cpu/mce/therm_throt.c, Linux v6.12). Intel's processors alone have
//! it. Leaves out single cores, and for how long.

use super::SensorReader;
use crate::counter_file::CounterFile;
use energy_trace_model::ids::SensorId;
use energy_trace_model::recording::record::{Part, Sensor, SensorQuantity, SensorValue};
use energy_trace_system::host::topology::{read_sockets_at, tree_of_cpus};
use std::collections::BTreeMap;
use std::path::Path;

/// One counter for each socket.
pub(super) fn find(sysfs: &Path) -> Option<Box<dyn SensorReader>> {
    let sysfs = tree_of_cpus(sysfs);
    let mut counters: BTreeMap<u32, CounterFile> = BTreeMap::new();
    for (cpu, socket) in read_sockets_at(sysfs) {
        if counters.contains_key(&socket.get()) {
            continue;
        }
        let file = format!("devices/system/cpu/cpu{}/thermal_throttle/package_throttle_count", cpu.get());
        if let Ok(file) = CounterFile::open(sysfs.join(file)) {
            counters.insert(socket.get(), file);
        }
    }
    let sensor = |socket: &u32| Sensor {
        id: SensorId::default(),
        part: Part::Cpu(*socket),
        quantity: SensorQuantity::HeatSlowdowns,
        place: "package_throttle_count".to_owned(),
        limit: None,
    };
    let sensors: Vec<Sensor> = counters.keys().map(sensor).collect();
    let files = counters.into_values().collect();
    (!sensors.is_empty()).then(|| Box::new(HeatSlowdowns { sensors, files }) as Box<dyn SensorReader>)
}

struct HeatSlowdowns {
    sensors: Vec<Sensor>,
    files: Vec<CounterFile>,
}

impl SensorReader for HeatSlowdowns {
    fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    fn read(&mut self) -> Vec<Option<SensorValue>> {
        self.files.iter_mut().map(|file| file.read().ok().map(SensorValue::Count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, SensorValue, find};
    use std::fs;

    /// One counter a socket, whichever of its CPUs has it; a machine without has none.
    #[test]
    fn one_a_socket() {
        let tree = tempfile::tempdir().unwrap();
        let cpus = tree.path().join("devices/system/cpu");
        let write = |file: &str, number: u32| {
            let file = cpus.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{number}\n")).unwrap();
        };
        (0..4).for_each(|cpu| write(&format!("cpu{cpu}/topology/physical_package_id"), cpu / 2));
        fs::write(cpus.join("online"), "0-3\n").unwrap();
        assert!(find(tree.path()).is_none());
        for (cpu, count) in [(0, 3), (1, 3), (3, 8)] {
            write(&format!("cpu{cpu}/thermal_throttle/package_throttle_count"), count);
        }
        let mut found = find(tree.path()).unwrap();
        let parts: Vec<Part> = found.sensors().iter().map(|sensor| sensor.part).collect();
        assert_eq!(parts, [Part::Cpu(0), Part::Cpu(1)]);
        assert_eq!(found.read(), [Some(SensorValue::Count(3)), Some(SensorValue::Count(8))]);
    }
}
