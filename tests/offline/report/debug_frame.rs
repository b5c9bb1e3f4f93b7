//! `energy-trace debug frame`: what it says of a recording that is kept, without privileges, and that help is silent about it.
//!
//! Leaves out each rule's words (`report/frame_stages.rs`).

use super::outputs::golden;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use std::path::Path;

/// The frames of the kept recording: found by number, by name and by a part of it, each with its stages.
#[test]
fn frames_of_a_kept_recording() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let kept = "../../tests/fixtures/golden/format/recording-1.0.data";
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(kept);
    let file = kept.to_str().unwrap();
    let of = |frame: &str| {
        let output = place.run(&["debug", "frame", file, frame]);
        assert_code(&output, 0);
        text(&output.stdout)
    };
    let all: String = (0..3).map(|number: u32| of(&number.to_string())).collect();
    golden("debug-frame.txt", &all);
    let first = of("0");
    let (_, name) = first.lines().next().unwrap().split_once(": ").unwrap();
    assert!(of(name).contains(&first), "{name}");
    let missing = place.run(&["debug", "frame", file, "no such frame"]);
    assert_code(&missing, 2);
    assert_says(&missing, &["no frame of this recording is called no such frame"]);
}

/// Help names no command for developers.
#[test]
fn help_is_silent() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let help = text(&place.run(&["--help"]).stdout);
    let names = |command: &str| help.lines().any(|line| line.trim_start().starts_with(command));
    assert!(names("doctor") && !names("debug"), "{help}");
}
