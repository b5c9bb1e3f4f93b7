//! Ranges between static probes (USDT) of a program whose CPU times are known. Needs root and Linux 6.6.
//!
//! Leaves out which ranges a thread is in (`tracer-ebpf`, `ranges`) and hostile notes (`tracer/unwind/src/static_probes.rs`).

use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use energy_trace_tests::process::workload;
use energy_trace_tests::report::taken_ns;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output};

const WORDS: [&str; 4] = [
    "--range-probes",
    "app:request-start,request-done,request__failed=request",
    "--range-probes",
    "app:work-start,work-done=work",
];

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// Records the program with probes in this way.
fn record(place: &Place, options: &[&str], arguments: &[&str]) -> Output {
    let program = place.path("probes");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(workload("probes.c"));
    assert!(cc.status().unwrap().success());
    let first = ["record", "-v", "--no-svg", "-F", "999", "--power", "model"];
    let mut command = place.command(&[&first[..], options, &["--"]].concat());
    command.arg(program).args(arguments).output().unwrap()
}

/// CPU time of each range and codes of warnings.
fn report(place: &Place) -> (BTreeMap<String, f64>, Vec<String>) {
    let output = place.run(&["report", "--format", "json", "--by", "range"]);
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["self_ns"].as_f64().unwrap());
    let codes = report["meta"]["warnings"].as_array().unwrap().iter();
    let codes = codes.map(|warning| warning["code"].as_str().unwrap().to_owned()).collect();
    (report["rows"].as_array().unwrap().iter().map(own).collect(), codes)
}

/// Ranges of two threads, nested ones, one within itself and one whose end does not come have their CPU time; probes that the program passes only where
/// somebody listens are passed. A probe that is nowhere is named.
#[test]
fn known_times() {
    let place = place();
    let missing = ["--range-probes", "app:none-start,none-done"];
    let output = record(&place, &[&WORDS[..], &missing].concat(), &["known", "60"]);
    assert_code(&output, 0);
    assert_says(&output, &["no static probe app:none__start, app:none__done"]);
    let said = text(&output.stdout);
    let truth: Vec<(&str, f64)> = said
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(ns, label)| (label, ns.parse().unwrap()))
        .collect();
    assert_eq!(truth.len(), 4, "{said}");
    let (ranges, codes) = report(&place);
    assert!(!codes.iter().any(|code| code == "ranges-limited" || code == "ranges-unknown"), "{codes:?}");
    for (label, ns) in truth.iter().filter(|(label, _)| !label.starts_with('[')) {
        let own = ranges.get(*label).unwrap_or_else(|| panic!("no {label} in {ranges:?}"));
        println!("{label}: CPU time {:+.2} %", 100.0 * (own / ns - 1.0));
        let few_or_many = 0.9 * ns..1.1 * ns + taken_ns(&output).unwrap();
        assert!(few_or_many.contains(own), "{label}: {own} of {ns} ns");
    }
    assert!(!ranges.keys().any(|name| name.contains("none")), "{ranges:?}");
}

/// Begins without an end, ends without a begin and threads one after the other: the program ends as without us, what is not told apart is said, and nothing is
/// kept of threads that are gone.
#[test]
fn hostile_probes() {
    let place = place();
    let output = record(&place, &WORDS, &["hostile"]);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "done\n");
    let (ranges, codes) = report(&place);
    assert!(codes.iter().any(|code| code == "ranges-limited"), "{codes:?}");
    assert!(!codes.iter().any(|code| code == "ranges-unknown"), "{codes:?}");
    let more: f64 =
        ranges.iter().filter(|(name, _)| name.ends_with("> [more ranges]")).map(|(_, ns)| ns).sum();
    assert!(more > 200e6 && ranges.len() < 20, "{ranges:?}");
}

/// A note that leads into an instruction or to a counter among data changes nothing in the program, and is named; so is a place that the kernel refuses. All
/// other places of the file are probed.
#[test]
fn lying_notes() {
    let place = place();
    let lies = [
        "app:lie-start,lie-done=lie",
        "app:counted-start,counted-done=counted",
        "app:odd-start,odd-done=odd",
    ];
    let lies = lies.map(|of| ["--range-probes", of]).concat();
    let output = record(&place, &[&WORDS[..], &lies].concat(), &["lying", "200"]);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "1000 0\n");
    let program = place.path("probes").display().to_string();
    let no_nop = format!("app:lie__start, app:counted__start of {program}:");
    let refused = format!("app:odd__start of {program}: Invalid argument");
    assert_says(&output, &[&no_nop, &refused]);
    assert!(!text(&output.stderr).contains("Linux 6.6"), "{}", text(&output.stderr));
    let (ranges, _) = report(&place);
    let names: Vec<&str> = ranges.keys().map(String::as_str).collect();
    assert_eq!(names, ["[outside of ranges]", "odd", "request"]);
    for name in ["odd", "request"] {
        assert!((180e6..260e6).contains(&ranges[name]), "{ranges:?}");
    }
}

/// A range of which nothing would end it is none; one with another end goes on to that. One warning says it.
#[test]
fn ends_that_are_nowhere() {
    let place = place();
    let endless = ["--range-probes", "app:request-start,none-done=request"];
    let output = record(&place, &endless, &["known", "60"]);
    assert_code(&output, 0);
    assert_says(&output, &["no static probe app:none__done", "at least one of its ends"]);
    let (ranges, codes) = report(&place);
    assert_eq!(ranges.keys().collect::<Vec<_>>(), ["[outside of ranges]"]);
    assert_eq!(codes.iter().filter(|code| *code == "ranges-not-recorded").count(), 1, "{codes:?}");
    let other = ["--range-probes", "app:work-start,none-done,work-done=work"];
    let output = record(&place, &other, &["known", "60"]);
    assert_says(&output, &["no static probe app:none__done", "reaches to the next"]);
    let (ranges, _) = report(&place);
    assert!(ranges["work"] > 100e6 && ranges["[outside of ranges]"] > 100e6, "{ranges:?}");
}
