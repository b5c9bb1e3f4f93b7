//! Spans that programs publish (OpenTelemetry's thread context), whose CPU time or energy is known. Needs root; the one on simulated power /dev/fuse
//! and two CPUs.
//!
//! Leaves out what a record may hold (`tracer/probe/src/stacks/spans.rs`) and how a trace is chosen (`tracer/model/src/recording/traces.rs`).

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{alone_on, workload};
use energy_trace_tests::report::taken_ns;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn compile(out: PathBuf, options: &[&str], sources: &[&str]) -> PathBuf {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"])
        .arg(&out)
        .args(sources.iter().map(|name| workload(name)))
        .args(options);
    assert!(cc.status().unwrap().success());
    out
}

/// The library that publishes spans, in this dialect of thread-local variables.
fn library(place: &Place, dialect: &str) -> PathBuf {
    let dialect = format!("-mtls-dialect={dialect}");
    compile(place.path("libspans.so"), &["-shared", "-fPIC", &dialect], &["spans_sdk.c"])
}

fn record(place: &Place, options: &[&str]) -> Command {
    let first = ["record", "--ranges", "-v", "--no-svg", "-F", "999"];
    let mut command = place.command(&[&first[..], options, &["--"]].concat());
    command.stdin(Stdio::null());
    command
}

fn report(place: &Place, options: &[&str]) -> Value {
    let output = place.run(&[&["report", "--format", "json"], options].concat());
    assert_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Own CPU time and energy of each range, by its path. Together they are the program's, to the microjoule.
fn ranges(report: &Value) -> BTreeMap<String, (f64, f64)> {
    let rows = report["rows"].as_array().unwrap();
    let uj = |row: &Value| row["self_uj"]["package"].as_i64().unwrap_or(0);
    let ledger = report["ledger"].as_array().unwrap();
    let target: i64 = ledger.iter().map(|row| row["target_uj"].as_i64().unwrap()).sum();
    assert_eq!(rows.iter().map(uj).sum::<i64>(), target);
    let own = |row: &Value| {
        let name = row["name"].as_str().unwrap().to_owned();
        (name, (row["self_ns"].as_f64().unwrap(), uj(row) as f64))
    };
    rows.iter().map(own).collect()
}

/// What a workload says at its end, by label: of all spans, and of those of one trace.
fn known(output: &Output) -> [BTreeMap<String, f64>; 2] {
    let said = text(&output.stdout);
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    let (of_trace, all) = lines
        .filter_map(|(number, label)| Some((label.to_owned(), number.parse().ok()?)))
        .partition(|(label, _)| label.starts_with("trace > "));
    [all, of_trace]
}

fn codes(report: &Value) -> Vec<&str> {
    let warnings = report["meta"]["warnings"].as_array().unwrap();
    warnings.iter().filter_map(|warning| warning["code"].as_str()).collect()
}

/// Spans of three threads have their CPU time, by attributes and, of a chosen trace, by span, whether the program has the variable itself or a library of the newer
/// dialect (of the older one: `joules_by_span`). Records that are exchanged and one that is changed in its place count alike.
#[test]
fn known_times() {
    for (dialect, ms) in [("", "120"), ("gnu2", "60")] {
        let place = place();
        let program = if dialect.is_empty() {
            compile(place.path("spans"), &["-rdynamic"], &["spans.c", "spans_sdk.c"])
        } else {
            let library = library(&place, dialect);
            let search = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
            compile(place.path("spans"), &[library.to_str().unwrap(), &search], &["spans.c"])
        };
        let output = record(&place, &["--power", "model"]).arg(program).args(["known", ms]).output().unwrap();
        assert_code(&output, 0);
        let [of_all, of_trace] = known(&output);
        assert_eq!((of_all.len(), of_trace.len()), (6, 3), "{}", text(&output.stdout));
        let report_of_all = report(&place, &["--by", "range"]);
        assert!(
            !codes(&report_of_all).iter().any(|code| code.contains("ranges-") || code.contains("spans-"))
        );
        let trace = ranges(&report(&place, &["--trace", TRACE]));
        let all = ranges(&report_of_all);
        assert!(trace.contains_key("[not in this trace]"), "{trace:?}");
        assert!(!all.keys().any(|name| name.contains("00f067aa0ba902b7")), "{all:?}");
        let each = [(all, of_all), (trace, of_trace)].into_iter().flat_map(|(own, truth)| {
            let truth = truth.into_iter().filter(|(label, _)| !label.starts_with("[outside"));
            truth.map(move |(label, ns)| (own.get(&label).copied(), label, ns))
        });
        for (own, label, ns) in each {
            let (own_ns, _) = own.unwrap_or_else(|| panic!("no {label}, {dialect}"));
            println!("{dialect} {label}: CPU time {:+.2} %", 100.0 * (own_ns / ns - 1.0));
            let few_or_many = 0.9 * ns..1.1 * ns + taken_ns(&output).unwrap();
            assert!(few_or_many.contains(&own_ns), "{label}: {own_ns} of {ns} ns, {dialect}");
        }
    }
}

/// Records in no memory, without end and torn, and values without number: the program ends as without us, and what is damaged or not told apart is said. Its
/// variable stands in its own table of symbols alone.
#[test]
fn hostile_records() {
    let place = place();
    let program = compile(place.path("spans"), &[], &["spans.c", "spans_sdk.c"]);
    let output = record(&place, &["--power", "model"]).arg(program).arg("hostile").output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "done\n");
    assert!(!text(&output.stderr).contains('\x1b'));
    let report = report(&place, &["--by", "range"]);
    let ranges = ranges(&report);
    assert!(codes(&report).contains(&"spans-damaged"), "{:?}", codes(&report));
    assert!(ranges.keys().any(|name| name.starts_with("id=")), "{ranges:?}");
    let spans: f64 = ranges.iter().filter(|(name, _)| name.starts_with("id=")).map(|(_, (ns, _))| ns).sum();
    assert!(spans > 300e6 && ranges.len() < 2000, "{spans} ns, {}", ranges.len());
    let none = place.run(&["report", "--trace", &"1".repeat(32)]);
    assert_code(&none, 2);
    assert_says(&none, &["no sample was taken in trace", "others"]);
    let by = place.run(&["report", "--trace", &"1".repeat(32), "--by", "function"]);
    assert_code(&by, 2);
    assert_says(&by, &["--trace shows ranges, not rows by function"]);
}

/// On simulated power, by a library that Python loads: each span has the joules of what ran in it.
#[test]
fn joules_by_span() {
    let Some(python) = interpreters::found(12..=13).pop() else { return };
    let place = place();
    let library = library(&place, "gnu");
    let simulation = Simulation::start(&Options { sockets: 2, step_uj: 61, ..Options::default() }).unwrap();
    let sysfs = simulation.sysfs().to_str().unwrap();
    let mut command = record(&place, &["--power", "powercap", "--path.sysfs", sysfs, "--idle-watts", "10"]);
    command.args(alone_on(1)).arg(python).arg(workload("spans.py")).arg(library);
    let output = command.env(SOCKET_VARIABLE, simulation.socket()).output().unwrap();
    assert_code(&output, 0);
    let [of_all, of_trace] = known(&output);
    assert_eq!((of_all.len(), of_trace.len()), (2, 2), "{}", text(&output.stdout));
    for (options, known) in [(["--by", "range"], of_all), (["--trace", TRACE], of_trace)] {
        let own = ranges(&report(&place, &options));
        let whole_uj: f64 = known.values().sum();
        for (label, truth_uj) in &known {
            let (_, uj) = own.get(label).unwrap_or_else(|| panic!("no {label} in {own:?}"));
            println!("{label}: {:.3} J, {:+.2} %", uj / 1e6, 100.0 * (uj / truth_uj - 1.0));
            // Small ones take part in the errors of large ones.
            assert!(
                (uj - truth_uj).abs() < 0.02 * truth_uj + 0.005 * whole_uj,
                "{label}: {uj} of {truth_uj}"
            );
        }
    }
}
