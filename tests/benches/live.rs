//! The closed loops as a benchmark: real BPF programs and simulated power counters, what the program says beside what was really spent.
//!
//! `cargo xtask bench live [--seconds N] [--only NAME] [--keep FOLDER]`. Needs root, BPF, /dev/fuse, two CPUs and util-linux. A loop that fails says so in
//! its line. Leaves out the virtual clock (`benches/accuracy.rs`), which no busy machine can upset.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use anyhow::{Context as _, ensure};
use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::meter::{FunctionTruth, Truth};
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{self, Guard};
use energy_trace_tests::report::{Function, Report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// One loop: its name, simulated sockets, the target's command line, a stranger's.
struct Loop {
    name: &'static str,
    sockets: u32,
    target: Vec<String>,
    stranger: Option<Vec<String>>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut seconds, mut only, mut keep) = (20, None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(seconds),
            "--only" => only = arguments.next(),
            "--keep" => keep = arguments.next().map(PathBuf::from),
            _ => {}
        }
    }
    println!(
        "| loop | worst function % | flagged unidentified | truth in interval or bounds | by CPU time: worst % | target's total % | ΔµJ |"
    );
    println!("|---|---|---|---|---|---|---|");
    for one in loops(seconds).iter().filter(|one| only.as_ref().is_none_or(|only| one.name.starts_with(only)))
    {
        match run(one, keep.as_deref()) {
            Ok(line) => println!("| {} | {line} |", one.name),
            Err(error) => println!("| {} | failed: {error:#} | | | | | |", one.name),
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn loops(seconds: u32) -> Vec<Loop> {
    let alone = process::alone_on(1).join(" ");
    let script = process::phases_script();
    let phases = |ms: u32| format!("python3 {} {seconds} --phase-ms {ms}", script.display());
    let threads = binary("threads");
    let threads = threads.display();
    let four = format!("{threads} {seconds} first=5 second=10 third=20 fourth=40");
    let two =
        format!("{threads} {seconds} first=8 second=20 & {threads} {seconds} third=12 fourth=30 & wait");
    let storm = format!(
        "(end=$(($(date +%s) + {seconds})); while [ $(date +%s) -lt $end ]; do /bin/true; done) & {threads} {seconds} first=8 second=30; wait"
    );
    let shell = |text: String| vec!["sh".to_owned(), "-c".to_owned(), text];
    let simple = |name, sockets, target| Loop { name, sockets, target, stranger: None };
    vec![
        simple("phases of 300 ms", 2, words(&format!("{alone} {}", phases(300)))),
        simple("phases of 20 ms", 2, words(&format!("{alone} {}", phases(20)))),
        simple("phases of 5 ms", 2, words(&format!("{alone} {}", phases(5)))),
        simple("four threads", 1, words(&four)),
        simple("two processes", 1, shell(two)),
        Loop {
            name: "a stranger",
            sockets: 1,
            target: words(&format!("{threads} {seconds} first=8 second=20")),
            stranger: Some(words(&format!("{threads} {} stranger=12", seconds + 6))),
        },
        simple("fork storm", 1, shell(storm)),
        simple("nobody beside", 1, words(&format!("{threads} {seconds} first=8 second=20"))),
    ]
}

/// A workload of the tests' package, which `cargo build --release -p energy-trace-tests` makes.
fn binary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release").join(name)
}

/// Runs a loop and returns its line of the table. The recording and the truth are left in the folder `keep`, named after the loop.
fn run(one: &Loop, keep: Option<&Path>) -> anyhow::Result<String> {
    let simulation = Simulation::start(&Options { sockets: one.sockets, step_uj: 61, ..Options::default() })?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("energy-trace.data");
    let stranger = one.stranger.as_ref().map(|words| {
        let mut command = Command::new(&words[0]);
        Guard::spawn(command.args(&words[1..]).env(SOCKET_VARIABLE, simulation.socket()))
    });
    let stranger = stranger.transpose().context("the stranger")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    command.args(["record", "--no-svg", "--idle-watts", "10", "--power", "powercap", "--path.sysfs"]);
    command.arg(simulation.sysfs()).arg("-o").arg(&data).arg("--").args(&one.target);
    for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(variable);
    }
    let finished = Guard::spawn(command.env(SOCKET_VARIABLE, simulation.socket()))?.finish(LIMIT)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    let truth = simulation.truth();
    drop(stranger);
    if let Some(folder) = keep {
        let place = |ending: &str| folder.join(format!("{}.{ending}", one.name.replace(' ', "-")));
        std::fs::copy(&data, place("data")).context("the recording")?;
        std::fs::write(place("truth.json"), serde_json::to_string(&truth)?).context("the truth")?;
    }
    let weighted = report(&data, &[])?;
    let by_time = report(&data, &["--attribution", "time"])?;
    Ok(compare(&truth, &weighted, &by_time))
}

/// The report of a recording.
fn report(data: &Path, options: &[&str]) -> anyhow::Result<Report> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    let report =
        Guard::spawn(command.args(["report", "--format", "json"]).args(options).arg(data))?.finish(LIMIT)?;
    Ok(Report::parse(&report.stdout)?)
}

/// The columns of a loop: functions with at least 5 % of the target's energy, beside the truth.
fn compare(truth: &Truth, weighted: &Report, by_time: &Report) -> String {
    let own = || truth.functions.iter().filter(|(name, _)| name.as_str() != "stranger");
    let sum: u64 = own().map(|(_, spent)| spent.uj).sum();
    let large: Vec<_> = own().filter(|(_, spent)| spent.uj * 20 >= sum).collect();
    let worst = |report: &Report| {
        let error = |(name, spent): &(&String, &FunctionTruth)| {
            100.0 * (report.total_uj(name, "package") as f64 / spent.uj as f64 - 1.0).abs()
        };
        large.iter().map(error).fold(0.0, f64::max)
    };
    let count = |holds: &dyn Fn(&Function, u64) -> bool| {
        let one =
            |(name, spent): &&(&String, &FunctionTruth)| weighted.named(name).any(|f| holds(f, spent.uj));
        format!("{} of {}", large.iter().filter(one).count(), large.len())
    };
    let flagged = count(&|function, _| function.flags.iter().any(|flag| flag == "unidentified"));
    let inside = count(&|function, uj| {
        let holds = |range: [i64; 2]| (range[0]..=range[1]).contains(&(uj as i64));
        function.bounds_uj.or(function.ci95_uj).is_some_and(holds)
    });
    let target: i64 = weighted.ledger.iter().map(|row| row.target_uj).sum();
    let imbalance: i64 = weighted.ledger.iter().map(|row| row.imbalance_uj().abs()).sum();
    let total = 100.0 * (target as f64 / sum as f64 - 1.0);
    let (ours, split) = (worst(weighted), worst(by_time));
    format!("{ours:.1} | {flagged} | {inside} | {split:.1} | {total:+.1} | {imbalance}")
}
