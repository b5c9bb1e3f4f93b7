//! A recording of any records, attributed and reported in every form: whatever a file says, its reader gets a report or an error.
#![no_main]

use energy_trace_attribution::attribute;

use energy_trace_model::profile::Options;
use energy_trace_model::recording::file::read;
use energy_trace_report::flamegraph::FlameOptions;
use energy_trace_report::folded::FoldedOptions;
use energy_trace_report::json::JsonOptions;
use energy_trace_report::{csv, flamegraph, folded, json};
use energy_trace_fuzz::{file_of, recording_of};
use libfuzzer_sys::fuzz_target;
use std::io::sink;

fuzz_target!(|records: &[u8]| {
    let (_open, path) = file_of(&recording_of(records));
    let Ok(recording) = read(&path) else { return };
    let profile = attribute(&recording, &Options::default());
    for row in &profile.ledger {
        assert_eq!(row.imbalance().as_uj(), 0, "{row:?}");
    }
    let _ = json::write(&mut sink(), &profile, &JsonOptions::default());
    let _ = csv::write(&mut sink(), &profile);
    let _ = folded::write(&mut sink(), &profile, &FoldedOptions::default());
    let _ = flamegraph::write(&mut sink(), &profile, &FlameOptions::default());
});
