//! Totals of one source beside other tools: what each says a run spent, against the counter over the very time that it watched.
//!
//! A measurement and no test: run by `cargo xtask bench totals`, which installs the tools and names them in `PEER_CODECARBON` (a Python
//! that imports it) and `PEER_SCAPHANDRE`. All read the simulated powercap; the others have no option for its place, so it is mounted over
//! `/sys/class` for them alone. Leaves out everything below the total: no other tool has functions.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that cannot be taken fails by panicking"
)]

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds that the workload runs under each tool.
const SECONDS: &str = "10";

/// A log of the counter: (seconds since 1970, microjoules).
struct CounterLog {
    rows: Arc<Mutex<Vec<(f64, u64)>>>,
    done: Arc<AtomicBool>,
}

impl CounterLog {
    fn start(counter: PathBuf) -> Self {
        let log = Self { rows: Arc::default(), done: Arc::default() };
        let (rows, done) = (Arc::clone(&log.rows), Arc::clone(&log.done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let before = unix_seconds();
                let uj = fs::read_to_string(&counter).unwrap().trim().parse().unwrap();
                rows.lock().unwrap().push((before.midpoint(unix_seconds()), uj));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        log
    }

    /// Joules between two moments, straight lines between rows.
    fn joules(&self, from: f64, to: f64) -> f64 {
        let rows = self.rows.lock().unwrap();
        let at = |moment: f64| {
            let after = rows.partition_point(|&(t, _)| t < moment).clamp(1, rows.len() - 1);
            let ((t0, e0), (t1, e1)) = (rows[after - 1], rows[after]);
            (e0 as f64 + (e1 - e0) as f64 * (moment - t0) / (t1 - t0)) / 1e6
        };
        at(to) - at(from)
    }
}

impl Drop for CounterLog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// What a tool said, and the time that it watched, in seconds since 1970.
struct Told {
    joules: f64,
    from: f64,
    to: f64,
}

/// The workload, declared to the simulator.
fn workload(simulation: &Simulation) -> Vec<String> {
    let socket = format!("{SOCKET_VARIABLE}={}", simulation.socket().display());
    let script = process::phases_script().display().to_string();
    ["env".to_owned(), socket, "/usr/bin/python3".to_owned(), script, SECONDS.to_owned()].into()
}

fn energy_trace(arguments: &[&str], command: &[String]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("run.data");
    let mut record = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    record
        .args(["record", "--no-svg", "--as-root"])
        .args(arguments)
        .arg("-o")
        .arg(&data)
        .arg("--")
        .args(command);
    assert!(record.output().unwrap().status.success());
    let report = Command::new(env!("CARGO_BIN_EXE_energy-trace"))
        .args(["report", "--format", "json"])
        .arg(&data)
        .output();
    serde_json::from_slice(&report.unwrap().stdout).unwrap()
}

fn measured_uj(report: &Value) -> i64 {
    report["ledger"].as_array().unwrap().iter().map(|row| row["measured_uj"].as_i64().unwrap()).sum()
}

fn ours(simulation: &Simulation) -> Told {
    let sysfs = simulation.sysfs().display().to_string();
    let report = energy_trace(&["--power", "powercap", "--path.sysfs", &sysfs], &workload(simulation));
    let start = humantime::parse_rfc3339(report["meta"]["start"].as_str().unwrap()).unwrap();
    let from = start.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let to = from + report["meta"]["duration_ns"].as_f64().unwrap() / 1e9;
    Told { joules: measured_uj(&report) as f64 / 1e6, from, to }
}

/// A `/sys/class` that has nothing but the simulated powercap.
fn class_folder(simulation: &Simulation, root: &Path) -> PathBuf {
    let powercap = root.join("class/powercap");
    let real = simulation.sysfs().join("devices/virtual/powercap/intel-rapl");
    fs::create_dir_all(powercap.join("intel-rapl")).unwrap();
    symlink("/sys/class/powercap", powercap.join("intel-rapl/subsystem")).unwrap();
    symlink(real.join("intel-rapl:0"), powercap.join("intel-rapl/intel-rapl:0")).unwrap();
    symlink(real.join("intel-rapl:0"), powercap.join("intel-rapl:0")).unwrap();
    root.join("class")
}

/// A command that sees the simulated powercap where the kernel would have its own, and a `/proc` with a list of kernel modules, without
/// which Scaphandre does not start on a kernel that has none.
fn with_powercap(class: &Path, command: &[String]) -> Command {
    const SCRIPT: &str = r#"
        mount --bind "$0" /sys/class
        mkdir "$0/../real" "$0/../proc"
        mount --rbind /proc "$0/../real"
        for entry in /proc/*; do ln -s "$0/../real/${entry#/proc/}" "$0/../proc/"; done
        [ -e /proc/modules ] || : > "$0/../proc/modules"
        mount --bind "$0/../proc" /proc
        exec "$@""#;
    let mut out = Command::new("unshare");
    out.args(["--mount", "sh", "-ec", SCRIPT]).arg(class).args(command);
    out
}

const CODECARBON: &str = "
import json, os, subprocess, sys, time
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(country_iso_code='FRA', measure_power_secs=1, save_to_file=False, log_level='error', tracking_mode='machine')
tracker.start(); begun = time.time()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
ended = time.time(); tracker.stop()
data = tracker.final_emissions_data
print(json.dumps({'joules': data.cpu_energy * 3.6e6, 'from': begun, 'to': ended}))
";

fn codecarbon(simulation: &Simulation, python: &str) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let class = class_folder(simulation, folder.path());
    let mut command = vec![python.to_owned(), "-c".to_owned(), CODECARBON.to_owned()];
    command.extend(workload(simulation));
    let output = with_powercap(&class, &command).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let told: Value = serde_json::from_str(line).unwrap();
    let number = |key: &str| told[key].as_f64().unwrap();
    Told { joules: number("joules"), from: number("from"), to: number("to") }
}

fn scaphandre(simulation: &Simulation, program: &str) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let (class, out) = (class_folder(simulation, folder.path()), folder.path().join("scaphandre.json"));
    let mut command: Vec<String> =
        [program, "--no-header", "json", "--timeout", "14", "--step", "1", "--file"]
            .map(str::to_owned)
            .into();
    command.push(out.display().to_string());
    let mut watcher = with_powercap(&class, &command).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let work = workload(simulation);
    assert!(Command::new(&work[0]).args(&work[1..]).output().unwrap().status.success());
    watcher.wait().unwrap();
    // One JSON document behind the other; the first has nothing to compare with yet.
    let text = fs::read_to_string(&out).unwrap();
    let reports = serde_json::Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap);
    let host = |report: Value| {
        let host = report.get("host")?;
        Some((host["timestamp"].as_f64()?, host["consumption"].as_f64()? / 1e6))
    };
    let hosts: Vec<(f64, f64)> = reports.filter_map(host).collect();
    // Each report is the mean power since the one before it.
    let joules = hosts.windows(2).map(|pair| (pair[1].0 - pair[0].0) * pair[1].1).sum();
    Told { joules, from: hosts[0].0, to: hosts[hosts.len() - 1].0 }
}

fn print(tool: &str, told: &Told, log: &CounterLog) {
    let truth = log.joules(told.from, told.to);
    let off = 100.0 * (told.joules / truth - 1.0);
    println!("| {tool} | {:.2} s | {truth:.2} J | {:.2} J | {off:+.2} % |", told.to - told.from, told.joules);
}

/// Half of the log as a meter's file, replayed: what the ledger says and last row minus first, in microjoules.
fn replayed(log: &CounterLog) -> (i64, i64) {
    let rows: Vec<(f64, u64)> = log.rows.lock().unwrap().iter().copied().take(400).collect();
    let mut csv = "time_s,package-0_uj\n".to_owned();
    for (t, uj) in &rows {
        writeln!(csv, "{:.6},{uj}", t - rows[0].0 + 0.5).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("meter.csv");
    fs::write(&file, csv).unwrap();
    let seconds = rows[rows.len() - 1].0 - rows[0].0 + 2.0;
    let source = format!("replay:{}", file.display());
    let report = energy_trace(&["--power", &source], &["sleep".to_owned(), format!("{seconds}")]);
    (measured_uj(&report), (rows[rows.len() - 1].1 - rows[0].1).cast_signed())
}

/// Prints the table; judges only what is ours and exact.
fn main() {
    let simulation = Simulation::start(&Options { idle_watts: 10.0, ..Options::default() }).unwrap();
    let log = CounterLog::start(simulation.sysfs().join("class/powercap/intel-rapl:0/energy_uj"));
    println!("| tool | watched | counter over that time | tool says | off |");
    println!("|---|---|---|---|---|");
    print("energy-trace", &ours(&simulation), &log);
    if let Ok(python) = std::env::var("PEER_CODECARBON") {
        print("CodeCarbon", &codecarbon(&simulation, &python), &log);
    }
    if let Ok(program) = std::env::var("PEER_SCAPHANDRE") {
        print("Scaphandre", &scaphandre(&simulation, &program), &log);
    }
    let (ledger_uj, sum_uj) = replayed(&log);
    println!(
        "replay of the counter's log: {ledger_uj} µJ in the ledger, {sum_uj} µJ from the first row to the last"
    );
    assert_eq!(ledger_uj, sum_uj, "a replayed log must be accounted for to the microjoule");
}
