//! The Python package on the machine's own interpreter: what it imports, ranges, reading a recording, and how it starts a recorder.
//!
//! The tests are `tests/python/test_package.py`. Leaves out other interpreters, Jupyter and pytest (`cargo xtask python`).

use energy_trace_tests::place::Place;
use std::path::Path;
use std::process::Command;

#[test]
fn package() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let mut python = Command::new("python3");
    python.args(["-W", "error", "-m", "unittest", "discover", "-s"]).arg(tests);
    python.env("ENERGY_TRACE", place.program()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
