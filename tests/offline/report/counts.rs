//! Calls that were counted, as reports show them: which energy is divided by which calls.

use super::recording_builder::RecordingBuilder;
use energy_trace_model::ids::FrameId;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{
    CallCount, CallDiagnostic, CallTimes, DomainClass, FrameKind, Quality,
};
use energy_trace_report::json::JsonOptions;
use energy_trace_report::table::TableOptions;
use energy_trace_report::{By, Level, csv, json};
use energy_trace_tests::report::schema_errors;
use serde_json::Value;

/// A program that calls `torch.cat` (3 J), as does a function of the package that it calls (5 J of 6); both go through an operator. And a
/// function of its own that calls itself, and one that no sample shows.
fn counted() -> Profile {
    let mut b = RecordingBuilder::new("python3 train.py", 10);
    let process = b.process(1, "python3", Some("3.12.1"));
    let main = b.thread(process, 1, "python3");
    let (python, cpu) =
        ("/v/lib/python3.12/site-packages/torch/lib/libtorch_python.so", "/v/lib/libtorch_cpu.so");
    let script = b.python("train", "main", "/home/u/train.py", 1);
    let fib = b.python("train", "fib", "/home/u/train.py", 9);
    let nn =
        b.python("torch.nn.layers", "Layer.join", "/v/lib/python3.12/site-packages/torch/nn/layers.py", 9);
    let cat =
        b.frame(FrameKind::Native, python, "torch::autograd::THPVariable_cat(_object*, _object*, _object*)");
    let op = b.frame(FrameKind::Native, cpu, "at::_ops::cat::call(c10::IListRef<at::Tensor> const&, long)");
    let site = "/v/lib/python3.12/site-packages";
    let method = b.python("torch._tensor", "Tensor.backward", &format!("{site}/torch/_tensor.py"), 5);
    let backward = b.python("torch.autograd", "backward", &format!("{site}/torch/autograd/__init__.py"), 6);
    let unseen = b.frame(FrameKind::Native, python, "torch::autograd::THPVariable_dot(_object*)");
    let mut spent = |frames: &[FrameId], uj| {
        let stack = b.stack(frames);
        b.spent(main, Some(stack), uj, 1_000, 200);
    };
    spent(&[script, cat, op], 3_000_000);
    spent(&[script, nn, cat, op], 5_000_000);
    spent(&[script, nn], 1_000_000);
    spent(&[script, fib, fib], 2_000_000);
    spent(&[script, method, backward], 4_000_000);
    let count = |frame, calls, nested, times| CallCount { frame, calls, nested, times };
    let times = CallTimes { p50_ns: 2_000_000, p95_ns: 3_000_000, p99_ns: 9_000_000 };
    b.calls(vec![
        count(cat, 400, 0, None),
        count(op, 1000, 0, None),
        count(fib, 177, 175, Some(times)),
        count(unseen, 7, 0, None),
        count(method, 30, 0, None),
        count(backward, 40, 0, None),
    ]);
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    b.build()
}

fn json_of(by: By) -> Value {
    let mut out = Vec::new();
    let options = JsonOptions { rows: Some((by, Level::All)), ..JsonOptions::default() };
    json::write(&mut out, &counted(), &options).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&value), [""; 0]);
    value
}

fn table(profile: &Profile, width: u16) -> String {
    let options = TableOptions { width: Some(width), ..TableOptions::default() };
    let mut out = Vec::new();
    energy_trace_report::table::write(&mut out, profile, &options).unwrap();
    String::from_utf8(out).unwrap()
}

fn row<'a>(value: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    let rows = value[list].as_array().unwrap();
    rows.iter().find(|row| row[key].as_str().unwrap().starts_with(name)).unwrap_or_else(|| panic!("{name}"))
}

/// A call's joules are those of all stacks that have the function, whoever called it: all its calls were counted. The built-in function is
/// meant where its operator was counted too, and calls of a function within itself share the energy of the outermost.
#[test]
fn joules_per_call() {
    let report = json_of(By::Api);
    let cat = row(&report, "rows", "name", "torch.cat");
    // What the program's own calls spent is less than what all did.
    assert_eq!(cat["total_uj"]["package"], 3_000_000);
    assert_eq!((&cat["calls"], &cat["uj_per_call"]), (&400.into(), &20_000.0.into()));
    assert!(cat["call_ns"].is_null());
    // The method calls the function, which all calls go through.
    let backward = row(&report, "rows", "name", "torch.autograd.backward");
    assert_eq!((&backward["calls"], &backward["uj_per_call"]), (&40.into(), &100_000.0.into()));
    let op = row(&report, "functions", "symbol", "at::_ops::cat::call");
    assert_eq!((&op["calls"], &op["uj_per_call"]), (&1000.into(), &8_000.0.into()));
    let fib = row(&report, "functions", "symbol", "train.fib");
    assert_eq!((&fib["calls"], &fib["nested_calls"]), (&177.into(), &175.into()));
    assert_eq!((&fib["uj_per_call"], &fib["call_ns"]["p95"]), (&1_000_000.0.into(), &3_000_000.into()));
    let layer = row(&report, "functions", "symbol", "torch.nn.layers.Layer.join");
    assert!(layer["calls"].is_null() && layer["uj_per_call"].is_null());
}

/// Functions that no sample shows are listed with their calls, and have no joules.
#[test]
fn functions_without_samples() {
    let report = json_of(By::Line);
    let dot = row(&report, "counted", "symbol", "torch::autograd::THPVariable_dot");
    assert_eq!((&dot["calls"], &dot["api"]), (&7.into(), &"torch.dot".into()));
    assert!(dot["total_uj"].as_object().unwrap().values().all(|uj| uj == 0));
    assert!(dot["uj_per_call"].is_null());
    let fib = row(&report, "counted", "symbol", "train.fib");
    assert_eq!(fib["total_uj"]["package"], 2_000_000, "by class, as that of all functions");
    let calls: Vec<u64> =
        report["counted"].as_array().unwrap().iter().map(|c| c["calls"].as_u64().unwrap()).collect();
    assert_eq!(calls, [1000, 400, 177, 40, 30, 7]);
}

/// Where a library was probed late, its counts are lower bounds, energy per call an upper one, and the warning names functions and numbers.
#[test]
fn counted_late() {
    let mut profile = counted();
    let library = "libtorch_python.so".to_owned();
    let late = CallDiagnostic::Late { library, pid: 1, late_ns: 5 };
    profile.run.summary.as_mut().unwrap().diagnostics.push(late.into());
    let mut out = Vec::new();
    json::write(&mut out, &profile, &JsonOptions::default()).unwrap();
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    let is_least = |list, name: &str| row(&report, list, "symbol", name)["calls_at_least"].clone();
    assert_eq!(is_least("counted", "torch::autograd::THPVariable_cat"), true);
    assert_eq!(is_least("functions", "torch::autograd::THPVariable_cat"), true);
    assert_eq!(is_least("counted", "at::_ops::cat::call"), false, "of another library");
    assert!(is_least("functions", "train.main").is_null());
    let mut out = Vec::new();
    csv::write(&mut out, &profile).unwrap();
    let lines = String::from_utf8(out).unwrap();
    assert!(lines.contains(",400,0,20000.000,,,,true\n"), "{lines}");
    let text = table(&profile, 80);
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(
        text.contains(" ≥400  ≤20.00 mJ  ") && line("THPVariable_dot").contains("  ≥7  no sample  "),
        "{text}"
    );
    let said = text.split_once("Warnings").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("THPVariable_cat(_object*, _object*, _object*) (at least 400), "), "{said}");
    assert!(said.contains(" (at least 7) in libtorch_python.so are counted from"), "{said}");
}

/// Functions of one name say which file they are of.
#[test]
fn counts_of_one_name() {
    let mut b = RecordingBuilder::new("python3 main.py", 1);
    let of = ["/a/util.py", "/b/util.py"].map(|file| b.python("util", "work", file, 1));
    b.calls(of.map(|frame| CallCount { frame, calls: 30, nested: 0, times: None }).into());
    let text = table(&b.build(), 80);
    assert!(["a", "b"].iter().all(|at| text.contains(&format!("util.work  ({at}/util.py:1)"))), "{text}");
}

/// The table has columns for calls where some were counted, and keeps to the width; so has the CSV.
#[test]
fn columns() {
    for width in [60, 80, 160] {
        let text = table(&counted(), width);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("torch.cat").contains(" 400 "), "{text}");
        assert!(text.contains("177/2"), "{text}");
        let (_, counts) = text.split_once("\nCounted calls\n").unwrap();
        assert!(
            counts.contains("\n     7  no sample  ") && counts.contains("\n 177/2     1.00 J  "),
            "{text}"
        );
        assert_eq!(text.contains("2.000 / 3.000 / 9.000"), width == 160, "{text}");
    }
    let mut out = Vec::new();
    csv::write(&mut out, &counted()).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("train.fib")
            && line.ends_with(",177,175,1000000.000,2000000,3000000,9000000,false")),
        "{text}"
    );
}
