//! Any tree of powercap zones, with any names and any contents: domains, each by a name of its own, or a reason.
#![no_main]

use energy_trace_power::{PowerPlan, SourceChoice, open};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::fs;

fuzz_target!(|zones: Vec<(u8, u8, Vec<u8>, Vec<u8>, Vec<u8>)>| {
    let Ok(root) = tempfile::tempdir_in("/dev/shm") else { return };
    let class = root.path().join("class/powercap");
    if fs::create_dir_all(&class).is_err() {
        return;
    }
    for (kind, number, name, energy, range) in zones.iter().take(12) {
        let control = ["intel-rapl", "intel-rapl-mmio", "dtpm"][usize::from(kind % 3)];
        let zone = match kind / 3 % 3 {
            0 => format!("{control}:{}", number % 4),
            1 => format!("{control}:{}:{}", number % 4, number / 4 % 4),
            _ => format!("{control}:{}:{}:{}", number % 4, number / 4 % 4, number / 16),
        };
        let zone = class.join(zone);
        let files = [("name", name), ("energy_uj", energy), ("max_energy_range_uj", range)];
        let _there = fs::create_dir(&zone);
        for (file, text) in files {
            let _written = fs::write(zone.join(file), text);
        }
    }
    let plan = PowerPlan {
        choices: vec![SourceChoice::Source("powercap")],
        sysfs: root.path().to_owned(),
        ..PowerPlan::default()
    };
    match open(&plan) {
        Ok(set) => {
            let names: BTreeSet<&str> = set.domains().iter().map(|domain| domain.name.as_str()).collect();
            assert_eq!(names.len(), set.domains().len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
