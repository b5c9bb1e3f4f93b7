//! Stacks through the vDSO, live: code of the kernel that no file holds is unwound and named.
//!
//! Leaves out how often a clock is read there: only that it was seen.

use energy_trace_model::recording::record::{FrameKind, StackStatus};
use energy_trace_tests::place::{Place, assert_code};

/// A program that reads the clock all the time is seen in the vDSO's functions, by name, with whole stacks.
#[test]
fn stacks_through_the_vdso_are_whole() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = "from time import clock_gettime_ns as now, process_time
while process_time() < 2:
    for i in range(10000): now(0); now(1)";
    let arguments =
        ["record", "--power", "none", "--no-svg", "-F", "499", "--", "/usr/bin/python3", "-c", script];
    assert_code(&place.run(&arguments), 0);
    let recording =
        energy_trace_model::recording::file::read(&place.path("energy-trace.data")).expect("a recording");
    let (mut seen, mut whole) = (0, 0);
    for sample in &recording.samples[recording.samples.len() / 4..] {
        let frames: Vec<_> = recording.frames_of(sample.stack).map(|(_, frame)| frame).collect();
        let vdso = frames.iter().filter(|frame| frame.module == "[vdso]");
        let named = vdso.clone().filter(|frame| frame.name.ends_with("clock_gettime"));
        if vdso.clone().count() > 0 {
            seen += 1;
            assert!(vdso.clone().all(|frame| frame.kind == FrameKind::Native));
            assert_eq!(named.count(), vdso.count(), "{frames:?}");
            whole += usize::from(sample.status == StackStatus::Complete);
        }
    }
    assert!(seen >= 10, "{seen} of {} samples are in the vDSO", recording.samples.len());
    assert!(whole * 100 >= seen * 95, "{whole} of {seen} stacks through the vDSO are whole");
}
