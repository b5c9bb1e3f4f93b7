//! Ranges that programs mark, whose CPU time or energy is known. Needs root; the one on simulated power /dev/fuse and two CPUs.
//!
//! Leaves out how names and paths are bounded in the program (`tracer/cupti/src/ranges`) and the table (`tracer/report/src/ranges.rs`).

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{alone_on, tests_dir, workload};
use energy_trace_tests::report::{schema_errors, taken_ns};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The program with ranges, compiled.
fn program(place: &Place) -> PathBuf {
    let (source, program) = (tests_dir().join("workloads/ranges.c"), place.path("ranges"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).args([&program, &source]).arg("-ldl");
    assert!(cc.status().unwrap().success());
    program
}

/// Records it in this way.
fn record(place: &Place, options: &[&str], arguments: &[&str]) -> Output {
    let program = program(place);
    let first = ["record", "--ranges", "-v", "--no-svg", "-F", "999", "--power", "model"];
    let mut command = place.command(&[&first[..], options, &["--"]].concat());
    command.arg(program).args(arguments).stdin(std::process::Stdio::null());
    command.env_remove("NVTX_INJECTION64_PATH").env_remove("INTEL_LIBITTNOTIFY64").output().unwrap()
}

fn report(place: &Place) -> Value {
    let output = place.run(&["report", "--format", "json", "--by", "range"]);
    assert_code(&output, 0);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    report
}

/// Own CPU time and energy of each range, by its path. Together they are the program's, to the microjoule.
fn ranges(report: &Value) -> BTreeMap<String, (f64, f64)> {
    let rows = report["rows"].as_array().unwrap();
    let uj = |row: &Value| row["self_uj"]["package"].as_i64().unwrap_or(0);
    let target: i64 =
        report["ledger"].as_array().unwrap().iter().map(|row| row["target_uj"].as_i64().unwrap()).sum();
    assert_eq!(rows.iter().map(uj).sum::<i64>(), target);
    let own = |row: &Value| {
        let name = row["name"].as_str().unwrap().to_owned();
        (name, (row["self_ns"].as_f64().unwrap(), uj(row) as f64))
    };
    rows.iter().map(own).collect()
}

fn codes(report: &Value) -> Vec<&str> {
    let warnings = report["meta"]["warnings"].as_array().unwrap();
    warnings.iter().filter_map(|warning| warning["code"].as_str()).collect()
}

/// Nested ranges, ranges of two threads, of several domains and APIs, overlapping ones, one that another thread ends and one of a forked child have their CPU time,
/// and in proportion to it their energy. A budget of a range is held against them.
#[test]
fn known_times() {
    let place = place();
    let budget = ["--budget-range", "step=1kJ", "--budget-range", "forward=1mJ"];
    let output = record(&place, &budget, &["nested"]);
    assert_code(&output, 122);
    assert_says(&output, &["budget kept: range step used", "budget exceeded: range forward used"]);
    let report = report(&place);
    let ranges = ranges(&report);
    let truth = known(&text(&output.stdout));
    assert_eq!(truth.len(), 11, "{truth:?}");
    let whole_uj: f64 = ranges.values().map(|(_, uj)| uj).sum();
    let whole_ns: f64 = ranges.values().map(|(ns, _)| ns).sum();
    // The start of the program, its threads and its child is in no range.
    for (label, &ns) in truth.iter().filter(|(label, _)| !label.starts_with('[')) {
        let &(own_ns, own_uj) = ranges.get(label).unwrap_or_else(|| panic!("no {label} in {ranges:?}"));
        let by_energy = own_uj / whole_uj * whole_ns;
        let error = |is: f64| 100.0 * (is / ns - 1.0);
        println!("{label}: CPU time {:+.2} %, energy {:+.2} %", error(own_ns), error(by_energy));
        let few_or_many = 0.95 * ns..1.05 * ns + taken_ns(&output).unwrap();
        assert!(
            [own_ns, by_energy].iter().all(|is| few_or_many.contains(is)),
            "{label}: {own_ns} of {ns} ns"
        );
    }
    let unknown = ranges.keys().filter(|name| !truth.contains_key(*name) && *name != "[unsampled]");
    assert_eq!(unknown.count(), 0, "{ranges:?}");
    assert!(!codes(&report).iter().any(|code| code.starts_with("ranges-")), "{:?}", codes(&report));
    let folded = place.run(&["export", "--format", "folded", "-o", "-"]);
    assert!(
        text(&folded.stdout).contains(";step;forward;"),
        "{}{}",
        text(&folded.stdout),
        text(&folded.stderr)
    );
}

/// Endless names, levels and ranges, ends without a begin and ten thousand threads: the program ends as without us, and what is not told apart is said.
#[test]
fn hostile_marks() {
    let place = place();
    let output = record(&place, &[], &["hostile"]);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "done\n");
    assert!(!text(&output.stderr).contains('\x1b'));
    let report = report(&place);
    let ranges = ranges(&report);
    assert!(codes(&report).contains(&"ranges-limited"), "{:?}", codes(&report));
    let more: f64 =
        ranges.iter().filter(|(name, _)| name.ends_with("[more ranges]")).map(|(_, (ns, _))| ns).sum();
    assert!(more > 400e6, "{ranges:?}");
    assert!(ranges.keys().any(|name| name.starts_with("nnnn") && name.ends_with("n…")), "{ranges:?}");
    assert!(ranges.len() < 5000 && ranges.keys().all(|name| name.len() < 8000), "{}", ranges.len());
}

/// Where there can be none, that is said: of a program without any, of one that runs already, and beside a tool of the user's own, which stays.
#[test]
fn none() {
    let place = place();
    let record = |options: &[&str]| {
        place.command(&[&["record", "--ranges", "--no-svg", "--power", "none"], options].concat())
    };
    let output = record(&["--", "true"]).output().unwrap();
    assert_code(&output, 0);
    assert_says(&output, &["no sample was taken in a range"]);
    let output = record(&["--duration", "0.1", "-p", &std::process::id().to_string()]).output().unwrap();
    assert_says(&output, &["energy-trace must start the program"]);
    let mut command =
        record(&["--", "sh", "-c", "echo $NVTX_INJECTION64_PATH $INTEL_LIBITTNOTIFY64 > named"]);
    let output = command.env("NVTX_INJECTION64_PATH", "/opt/tool.so").output().unwrap();
    assert_says(&output, &["NVTX_INJECTION64_PATH names another tool"]);
    let named = std::fs::read_to_string(place.path("named")).unwrap();
    let [nvtx, itt] = named.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{named}") };
    assert_eq!(nvtx, "/opt/tool.so");
    let alone = place.path("energy-trace");
    std::fs::copy(place.program(), &alone).unwrap();
    let words = ["record", "--ranges", "--no-svg", "--power", "none", "-o"];
    let mut command = Command::new(alone);
    let output = command.args(words).arg(place.path("alone.data")).args(["sh", "-c", "echo ran >&2"]);
    let said = text(&output.output().unwrap().stderr);
    let (before, after) = said.split_once("\nran\n").unwrap_or_else(|| panic!("{said}"));
    assert!(before.contains("no ranges: libenergy_trace_cupti.so is neither beside"), "{said}");
    assert!(after.contains("their library cannot be used"), "{said}");
    // What the environment names is gone with the recording.
    assert!(itt.ends_with("/libenergy_trace_cupti.so") && !PathBuf::from(itt).exists(), "{itt}");
}

/// A function with a decorator stands in stacks as itself, and its calls are counted once.
#[test]
fn decorated_functions() {
    let Some(python) = interpreters::found(12..=13).pop() else { return };
    let place = place();
    let words = ["record", "--ranges", "--count=decode", "--no-svg", "--power", "model", "-F", "999", "--"];
    let mut command = place.command(&words);
    command.arg(python).arg(workload("decorated.py")).arg("40").env_remove("NVTX_INJECTION64_PATH");
    let output = command.env("PYTHONPATH", tests_dir().join("../tracer/python")).output().unwrap();
    assert_code(&output, 0);
    assert_says(&output, &["energy-trace report --by range"]);
    let report = report(&place);
    let functions = report["functions"].as_array().unwrap();
    let decode: Vec<&Value> = functions.iter().filter(|of| of["name"] == "decorated.decode").collect();
    let [decode] = decode[..] else { panic!("{decode:?}") };
    assert_eq!((&decode["calls"], &decode["nested_calls"]), (&40.into(), &0.into()), "{decode}");
    assert!(decode["file"].as_str().unwrap().ends_with("decorated.py"), "{decode}");
    let around = functions.iter().find(|of| of["name"].as_str().unwrap().contains("marked"));
    assert_eq!(around, None);
    let ns = |name: &str| ranges(&report).get(name).map_or(0.0, |(ns, _)| *ns);
    assert!((ns("decode") / 0.8e9 - 1.0).abs() < 0.1, "{:?}", ranges(&report));
}

/// A process that has itself recorded twice, as notebooks do: both recordings have its ranges, those of a thread that it had before, and of what it starts.
#[test]
fn a_process_of_ones_own() {
    let place = place();
    let [first, second] = ["first", "second"].map(|name| place.path(name));
    let mut python = Command::new("python3");
    python.arg(workload("recorded_ranges.py")).args([&first, &second]).env("ENERGY_TRACE", place.program());
    python.env_remove("NVTX_INJECTION64_PATH").env_remove("INTEL_LIBITTNOTIFY64");
    let output = python.env("PYTHONPATH", tests_dir().join("../tracer/python")).output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stderr), "");
    for recording in [first, second] {
        std::fs::rename(&recording, place.path("energy-trace.data")).unwrap();
        let report = report(&place);
        let ranges = ranges(&report);
        let truth = known(&std::fs::read_to_string(recording.with_extension("truth")).unwrap());
        assert_eq!(truth.len(), 4);
        for (label, truth_ns) in truth {
            let ns = ranges.get(&label).map_or(0.0, |(ns, _)| *ns);
            println!("{label}: {:+.2} %", 100.0 * (ns / truth_ns - 1.0));
            assert!((ns / truth_ns - 1.0).abs() < 0.1, "{label}: {ns} of {truth_ns} ns in {ranges:?}");
        }
        assert!(!codes(&report).iter().any(|code| code.starts_with("ranges-")), "{:?}", codes(&report));
    }
}

/// `record_function` by itself, as PyTorch's stand-in has it, beside a `sitecustomize` of the program's own and what counts calls.
#[test]
fn record_functions() {
    let place = place();
    std::fs::create_dir(place.path("own")).unwrap();
    place.write("own/sitecustomize.py", 0o644, "print('own')\n");
    let stub = workload("torch_stub").into_os_string().into_string().unwrap();
    let path = format!("{stub}:{}", place.path("own").display());
    let words =
        ["record", "-v", "--ranges", "--count=shared", "--no-svg", "--power", "model", "-F", "999", "--"];
    let mut command = place.command(&words);
    command.arg("python3").arg(workload("record_functions.py")).env("PYTHONPATH", path);
    let output = command.env_remove("NVTX_INJECTION64_PATH").output().unwrap();
    check_times(&place, &output, str::is_empty);
    assert!(text(&output.stdout).starts_with("own\n"), "{}", text(&output.stdout));
}

/// The real PyTorch: `record_function` by itself, and within `emit_itt`, where each operator is a range as well, and ITT's own ranges.
#[test]
#[ignore = "slow, and needs PyTorch: cargo xtask test --all installs it"]
fn ranges_of_pytorch() {
    let Some(python) = interpreters::torch() else {
        println!("not tested: PyTorch is not here (`cargo xtask test --all` installs it)");
        return;
    };
    for program in ["record_functions.py", "torch_ranges.py"] {
        let place = place();
        let mut command =
            place.command(&["record", "-v", "--ranges", "--no-svg", "--power", "model", "-F", "999", "--"]);
        command.arg(&python).arg(workload(program)).env_remove("INTEL_LIBITTNOTIFY64");
        let output = command.env_remove("NVTX_INJECTION64_PATH").output().unwrap();
        check_times(&place, &output, is_operator);
    }
}

/// Ranges have the CPU time that the program says, with what may stand behind their paths.
fn check_times(place: &Place, output: &Output, may_follow: fn(&str) -> bool) {
    assert_code(output, 0);
    let ranges = ranges(&report(place));
    for (label, truth_ns) in known(&text(&output.stdout)).iter().filter(|(label, _)| !label.starts_with('['))
    {
        let of_it = |name: &str| name.strip_prefix(label).is_some_and(may_follow);
        let ns: f64 = ranges.iter().filter(|(name, _)| of_it(name)).map(|(_, (ns, _))| ns).sum();
        println!("{label}: {:+.2} %", 100.0 * (ns / truth_ns - 1.0));
        let few_or_many = 0.95 * truth_ns..1.05 * truth_ns + taken_ns(output).unwrap();
        assert!(few_or_many.contains(&ns), "{label}: {ns} of {truth_ns} ns in {ranges:?}");
    }
}

/// What stands behind a range's own path where only operators are within it.
fn is_operator(rest: &str) -> bool {
    rest.is_empty() || [" > PyTorch:aten::", " > aten::"].iter().any(|operator| rest.starts_with(operator))
}

/// The real `nvtx`, on simulated power: nested, overlapping and handed-over ranges have the joules of what ran in them.
#[test]
#[ignore = "needs the package nvtx: cargo xtask test --all installs it"]
fn joules_by_the_real_package() {
    let Some(python) = interpreters::nvtx() else {
        println!("not tested: the package nvtx is not here (`cargo xtask test --all` installs it)");
        return;
    };
    let place = place();
    let simulation = Simulation::start(&Options { sockets: 2, step_uj: 61, ..Options::default() }).unwrap();
    let sysfs = simulation.sysfs().to_str().unwrap();
    let first = ["record", "--ranges", "--no-svg", "--power", "powercap", "--path.sysfs", sysfs];
    let mut command = place.command(&[&first[..], &["--idle-watts", "10", "-F", "999", "--"]].concat());
    command.args(alone_on(1)).arg(python).arg(workload("ranges.py")).arg("4");
    command.env(SOCKET_VARIABLE, simulation.socket()).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    assert_code(&output, 0);
    let report = report(&place);
    let own = ranges(&report);
    let known = known(&text(&output.stdout));
    assert_eq!(known.len(), 6, "{known:?}");
    let whole_uj: f64 = known.values().sum();
    let mut held = 0;
    for (label, truth_uj) in &known {
        let (_, uj) = own.get(label).unwrap_or_else(|| panic!("no {label} in {own:?}"));
        // Small ranges take part in the errors of large ones.
        let most = 0.02 * truth_uj + 0.005 * whole_uj;
        assert!((uj - truth_uj).abs() < most, "{label}: {uj} of {truth_uj} µJ");
        let within = known.iter().filter(|(other, _)| other.starts_with(&format!("{label} > ")));
        let total_uj = truth_uj + within.map(|(_, uj)| uj).sum::<f64>();
        let [least, most] = interval(&report, label);
        held += usize::from((least..=most).contains(&total_uj));
        let [own, total] = [uj / truth_uj, (least + most) / 2.0 / total_uj].map(|of| 100.0 * (of - 1.0));
        let half = 100.0 * (most - least) / 2.0 / total_uj;
        println!(
            "{label}: {:.3} J, {own:+.2} %; with what is within it {total:+.2} %, ±{half:.1} %",
            uj / 1e6
        );
    }
    // One in twenty may miss.
    assert!(held + 1 >= known.len(), "{held} of {} intervals hold", known.len());
}

/// What a workload says at its end: a number for each range, by its path.
fn known(said: &str) -> BTreeMap<String, f64> {
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(number, label)| Some((label.to_owned(), number.parse().ok()?))).collect()
}

/// The interval of a range's energy, with all within it.
fn interval(report: &Value, label: &str) -> [f64; 2] {
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["name"] == label).unwrap();
    [0, 1].map(|end| row["ci95_uj"][end].as_f64().unwrap())
}
