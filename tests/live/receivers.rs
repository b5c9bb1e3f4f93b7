//! On what methods are called: `--by api` names an inherited method after the class of its object. Needs root.
//!
//! Leaves out how a class is read (`unwind/cpython/receiver.rs`) and which names a package has (`naming/public_names`).

use energy_trace_tests::breadth::half_or_all;
use energy_trace_tests::interpreters::found as pythons;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use serde_json::Value;

/// CPU time in nanoseconds, below it too, of each call.
fn calls(place: &Place) -> Vec<(String, u64)> {
    let report = place.run(&["report", "energy-trace.data", "--by", "api", "--format", "json"]);
    assert_code(&report, 0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["total_ns"].as_u64()?));
    report["rows"].as_array().unwrap().iter().filter_map(row).collect()
}

/// One method of a base class, called on objects of two classes, of one that the program derives, and of a private one, by way of `self` (in a
/// cell, as an inner function shares it) and of `cls`: each has its own row with its part of the work, on every version that tells.
#[test]
fn methods_by_the_class_of_their_object() {
    for python in half_or_all(pythons(11..=15)) {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        let from = tests_dir().join("workloads/receivers");
        for file in ["__init__.py", "_models.py"] {
            let to = place.path("site-packages/pkg").join(file);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(from.join(file), to).unwrap();
        }
        std::fs::copy(from.join("main.py"), place.path("main.py")).unwrap();
        let (python, main) = (python.to_str().unwrap(), place.path("main.py"));
        let options = ["record", "--power", "none", "--no-svg", "--", python, main.to_str().unwrap()];
        assert_code(&place.run(&options), 0);
        let calls = calls(&place);
        let part = |name: &str| calls.iter().find(|call| call.0 == name).map_or(0, |call| call.1);
        let wanted = [
            ("pkg.Forest.fit", 2),
            ("pkg.Tree.fit", 2),
            ("pkg._models.Base.fit", 1),
            ("pkg.Forest.load", 1),
            ("pkg.Tree.load", 1),
        ];
        let all: u64 = wanted.iter().map(|(name, _)| part(name)).sum();
        for (name, parts) in wanted {
            let share = part(name) * 7 * 100 / all.max(1) / parts;
            assert!((70..=130).contains(&share), "{python}: {name} has {share} % of its part: {calls:?}");
        }
    }
}
