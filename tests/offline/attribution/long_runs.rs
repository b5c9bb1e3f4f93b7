//! Runs of which powers are learned from a part: energy is split in all of it, exactly, and the truth is where the report says.
//!
//! Leaves out how much longer ones take (`benches/size.rs`).

use energy_trace_scenarios::worlds::SECOND;
use energy_trace_scenarios::worlds::catalogue::all;
use energy_trace_scenarios::worlds::measure::measure;
use energy_trace_scenarios::worlds::recording::{Recorder, record};
use energy_trace_tests::random::Random;

/// Eleven minutes at a hundred readings a second are more than are learned from. Nothing is lost, and of a loop of one second with long phases
/// each function is found.
#[test]
fn longer_than_what_is_learned_from() {
    let entry = all().into_iter().find(|entry| entry.name == "W1f").unwrap();
    let mut world = (entry.world)(&mut Random(5));
    world.length = 660 * SECOND;
    let recorded = record(world, Recorder::usual(49), 1);
    let readings = recorded.recording.readings.values().map(Vec::len).max();
    assert!(readings > Some(62_000), "{readings:?}");
    let outcome = measure(&recorded.recording, &recorded.truth, 1);
    assert_eq!(outcome.imbalance_uj, 0);
    assert!(outcome.worst_function() < 3.0, "{}", outcome.worst_function());
    assert!(outcome.nodes.iter().all(|node| node.covered() || !node.far_outside()));
    // 7 % here: 49 samples a second show little of what is short in the loop.
    assert!(outcome.flagged < 0.1, "{}", outcome.flagged);
}
