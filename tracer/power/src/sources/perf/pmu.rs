//! What sysfs tells about a perf PMU that counts energy: its number, the CPUs it is read on, its events and their scale.
//!
//! The files are those of `Documentation/ABI/testing/sysfs-bus-event_source-devices-{events,format}` (Linux v6.12). Leaves out opening
//! the events (`perf.rs`).

use energy_trace_model::collections::Order as _;
use energy_trace_system::host::topology::parse_cpu_list;
use std::fs;
use std::path::Path;

/// A PMU as it lies in sysfs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pmu {
    /// Its directory's name: `power`, `power_core`.
    pub(super) name: String,
    /// What `perf_event_attr.type` must be.
    pub(super) kind: u32,
    /// One CPU for each thing it counts: a package, a die, a core.
    pub(super) cpus: Vec<u32>,
    /// Its events, in the order of their names.
    pub(super) events: Vec<PmuEvent>,
}

/// An event of a PMU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PmuEvent {
    /// Its file's name: `energy-pkg`.
    pub(super) name: String,
    /// What `perf_event_attr.config` must be.
    pub(super) config: u64,
    /// Joules of one count.
    pub(super) joules: f64,
}

/// The PMU `name` under the sysfs root; `None` where there is none, or where its files are not what the kernel documents.
pub(super) fn read_pmu_at(sysfs: &Path, name: &str) -> Option<Pmu> {
    let root = sysfs.join("bus/event_source/devices").join(name);
    let text = |file: &str| fs::read_to_string(root.join(file)).ok();
    let kind = text("type")?.trim().parse().ok()?;
    let cpus = parse_cpu_list(text("cpumask")?.trim());
    let mut events: Vec<PmuEvent> = fs::read_dir(root.join("events"))
        .ok()?
        .flatten()
        .filter_map(|entry| read_event(&entry.path()))
        .collect();
    events.order_by(|a, b| a.name.cmp(&b.name));
    Some(Pmu { name: name.to_owned(), kind, cpus, events })
}

/// An energy event whose scale is in joules; `None` for the files beside it and for other events.
fn read_event(path: &Path) -> Option<PmuEvent> {
    let name = path.file_name()?.to_str()?.to_owned();
    if !name.starts_with("energy-") || name.contains('.') {
        return None;
    }
    let beside = |ending: &str| fs::read_to_string(format!("{}.{ending}", path.display())).ok();
    if beside("unit")?.trim() != "Joules" {
        return None;
    }
    let joules: f64 = beside("scale")?.trim().parse().ok()?;
    let config = parse_config(fs::read_to_string(path).ok()?.trim())?;
    (joules.is_finite() && joules > 0.0).then_some(PmuEvent { name, config, joules })
}

/// `event=0x02`: the PMU's only field, the low bits of `config` (arch/x86/events/rapl.c, v6.12: `config:0-7`, `config:0-63` on AMD's).
fn parse_config(text: &str) -> Option<u64> {
    let number = text.strip_prefix("event=")?;
    match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PmuEvent, parse_config, read_pmu_at};
    use std::fs;

    /// Only events whose unit is joules count, whatever else lies in the folder.
    #[test]
    fn a_pmu_of_a_tree() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("bus/event_source/devices/power");
        fs::create_dir_all(root.join("events")).unwrap();
        for (file, text) in [
            ("type", "18\n"),
            ("cpumask", "0,14\n"),
            ("events/energy-pkg", "event=0x02\n"),
            ("events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
            ("events/energy-pkg.unit", "Joules\n"),
            ("events/energy-odd", "event=0x09\n"),
            ("events/energy-odd.unit", "Watts\n"),
            ("events/energy-odd.scale", "1\n"),
            ("events/other", "event=0x01\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        let pmu = read_pmu_at(tree.path(), "power").unwrap();
        assert_eq!((pmu.kind, pmu.cpus.as_slice()), (18, [0, 14].as_slice()));
        let package = PmuEvent { name: "energy-pkg".into(), config: 2, joules: 2f64.powi(-32) };
        assert_eq!(pmu.events, [package]);
        assert_eq!(read_pmu_at(tree.path(), "power_core"), None);
    }

    /// Numbers in both writings, and nothing else.
    #[test]
    fn configs() {
        assert_eq!((parse_config("event=0x1f"), parse_config("event=5")), (Some(31), Some(5)));
        assert_eq!((parse_config("config=5"), parse_config("event=")), (None, None));
    }
}
