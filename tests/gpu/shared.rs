//! A simulated GPU that two servers share, each with a counter of its own tokens: joules of a token of each.
//!
//! A unit of work is divided by what all recorded processes took, which is said; by process each server's part stands alone. Leaves out
//! counters of other kinds (`tests/live/work`).

use energy_trace_tests::gpu::{Gpu, Meter, Prologue, one_gpu};
use energy_trace_tests::place::{Place, assert_code, text};
use energy_trace_tests::process::Guard;
use energy_trace_tests::report::schema_errors;
use std::path::Path;
use std::time::Duration;

/// The tokens that a server has counted so far.
fn tokens(path: &Path) -> f64 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// The row of the server of this number in the report by process, made with these words.
fn row(place: &Place, pid: u32, words: &[&str]) -> serde_json::Value {
    let output = place.run(&[&["report", "--format", "json", "--by", "process"], words].concat());
    assert_code(&output, 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema_errors(&report), [""; 0]);
    let is_server =
        |row: &&serde_json::Value| row["name"].as_str().unwrap().ends_with(&format!("(pid {pid})"));
    report["rows"].as_array().unwrap().iter().find(is_server).unwrap().clone()
}

/// Joules of a token of the server of this number, and the ends of its interval.
fn joules_each(place: &Place, unit: &str, pid: u32) -> (f64, [f64; 2]) {
    let each = row(place, pid, &["--per-work", unit])["self_uj_per_unit"].as_f64().unwrap() / 1e6;
    let whole = row(place, pid, &[]);
    let spent = whole["self_uj"]["gpu"].as_f64().unwrap();
    let ends = ["ci95_uj", "bounds_uj"].map(|kind| &whole[kind]).into_iter().find(|ends| ends.is_array());
    (each, [0, 1].map(|end| each * ends.unwrap()[end].as_f64().unwrap() / spent))
}

/// Attached to both: a token of each has the joules that its own launches drew, and the first screen says that its joules are of both.
#[test]
fn tokens_of_two_servers() {
    let meter = Meter::model("V100").unwrap().full_duty();
    let gpu = Gpu::new(&one_gpu(meter), Prologue::Jump).unwrap();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let serve = |unit: &str, kind| {
        let path = place.path(unit);
        (Guard::spawn(gpu.command(&program).args(["60", "serve"]).arg(&path).arg(kind)).unwrap(), path)
    };
    let servers = [("a", serve("a", "dense")), ("b", serve("b", "activate"))];
    std::thread::sleep(Duration::from_secs(1));
    let mut record =
        place.command(&["record", "--power", "nvml", "--no-svg", "--duration", "8s", "--nvml-lib"]);
    gpu.env(&mut record).arg(gpu.libraries().join("libnvidia-ml.so.1"));
    for (unit, (server, path)) in &servers {
        record.args(["-p", &server.pid().to_string(), &format!("--work={unit}=file:{}", path.display())]);
    }
    let output = record.output().unwrap();
    assert_code(&output, 0);
    let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("these joules are of 2 processes together"), "{said}");
    let counted = servers.each_ref().map(|(_, (_, path))| tokens(path));
    let servers = servers.map(|(unit, (server, _))| (unit, server.pid()));
    let launches = gpu.truth().unwrap();
    for ((unit, pid), tokens) in servers.into_iter().zip(counted) {
        let own = launches.iter().filter(|launch| launch.pid == pid).map(|launch| launch.uj).sum::<f64>();
        let (truth, (found, [low, high])) = (own / 1e6 / tokens, joules_each(&place, unit, pid));
        println!("{unit}: {found:.4} J a token ({low:.4} to {high:.4}), {truth:.4} J in truth");
        let is_near = (found / truth - 1.0).abs() < 0.15 || (low..high).contains(&truth);
        assert!(
            is_near && (found / truth - 1.0).abs() < 0.5,
            "{unit}: {found} J a token, {truth} J in truth"
        );
    }
}
