//! Any text as a log of another meter: domains, or an error that says what is wrong.
#![no_main]

use energy_trace_power::{PowerPlan, SourceChoice, open};
use energy_trace_fuzz::file_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (_open, path) = file_of(bytes);
    let plan = PowerPlan {
        choices: vec![SourceChoice::File("replay", path)],
        sysfs: "/nowhere".into(),
        ..PowerPlan::default()
    };
    match open(&plan) {
        Ok(set) => assert!(!set.domains().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
