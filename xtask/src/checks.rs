//! Everything that CI runs, in the order in which it fails fastest.
//!
//! Three test programs (`tests/README.md`). Those of `offline` run beside each other. `gpu` runs five tests at a time: they wait for simulated
//! hardware. `live` runs one at a time, because it measures energy, CPU time and shares of samples, or changes the machine; those of its rooms
//! that do neither run beside each other first: five at a time where they mostly wait (`SIDE_BY_SIDE`), three where each keeps a CPU busy
//! (`CPU_EACH`), two where each has a CPU of its own (`CPU_ALONE`). Beside all of these, with the CPU time that they leave, unit tests and
//! benchmarks are built, and the former run. Clippy lints while it compiles what is run (`lint`). A lock keeps a second `cargo xtask test` of the
//! same user waiting. Measurements and long matrices are `--all`.

use crate::bpf::{self, Warnings};
use crate::command::{read_output, run};
use crate::emulated;
use crate::frameworks;
use crate::kernel;
use crate::portable;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, anyhow};
use nix::sys::signal::{self, SigHandler, Signal};
use serde_json::Value;
use std::fs::{File, TryLockError};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is run beyond what CI runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also the slow tests: every accuracy scenario, long recordings, all versions of drivers and prologues.
    #[arg(long)]
    all: bool,
}

/// Tests that are left out unless asked for by name: they write files, fetch programs, or need to be told what to look at.
const BY_NAME: [&str; 6] = [
    "agent_image::daemon_set",
    "agent_prometheus::sum_rule",
    "rows_of_given_files",
    "write_rows_of_this_kernel",
    "ten_minutes",
    "rules::target",
];

/// Rooms of `live` whose tests may run beside each other: they look at what is said, written and left behind, and not at how much of anything
/// there is. A test that is in none of them runs alone.
const SIDE_BY_SIDE: [&str; 32] = [
    "agent::an_address_in_use",
    "agent::joules_by_use",
    "agent::outlets_that_fail",
    "agent_faults::",
    "agent_work::",
    "attribution::closed_loop::counter",
    "cli::",
    "counts::",
    "power::counter_that",
    "power::replay",
    "power::share_told",
    "power::two_sockets",
    "probe::sampling::the_event",
    "probe::summed::what_needs",
    "probe::verifier::",
    "range_probes::hostile_probes",
    "ranges::hostile_marks",
    "ranges::none",
    "session::control::",
    "session::launch::",
    "session::limits::",
    "session::outputs::",
    "session::privileges::",
    "session::signals::",
    "session::surroundings::",
    "study::",
    "symbols::",
    "top::",
    "work::called::",
    "work::files::files_are",
    "work::pages::pages_of",
    "work::printed::",
];

/// The same of rooms whose tests run programs that compute: they compare stacks, and count samples by CPU time. Java and Node are not
/// among them: these programs end before a busy machine has read what their runtimes are.
const CPU_EACH: [&str; 29] = [
    "agent::a_crowd_without",
    "agent::spool_and_collector",
    "hostile::",
    "probe::jitter::a_loop",
    "probe::summed::processes",
    "probe::summed::switches",
    "range_probes::ends",
    "range_probes::known_times",
    "range_probes::lying",
    "ranges::decorated_functions",
    "ranges::a_process_of",
    "ranges::known_times",
    "ranges::record_functions",
    "receivers::",
    "session::attach_socket::",
    "session::elsewhere::",
    "session::kill::",
    "spans::hostile_records",
    "spans::known_times",
    "unwind::bare",
    "unwind::cold",
    "unwind::memory",
    "unwind::modules",
    "unwind::one_place",
    "unwind::oracle",
    "unwind::rules",
    "unwind::runtimes",
    "unwind::stacks",
    "unwind::vdso",
];

/// The same of tests whose program has a CPU of its own, by real-time priority, that compare sums of a simulated counter, which nobody else
/// changes, or whose runtime compiles beside its program: two at a time, beside what is left to build.
const CPU_ALONE: [&str; 10] = [
    "power::idle_baseline",
    "power::power_sensor",
    "power::powercap_measures",
    "power::whole_server",
    "power_files::",
    "unwind::java",
    "unwind::node",
    "work::files::a_counter",
    "work::files::per_unit",
    "work::pages::a_server",
];

/// Tests of `gpu` that run alone: they compare joules of programs that nothing may keep from launching.
const GPU_ALONE: [&str; 2] = ["agent::two_pods", "shared::tokens_of_two"];

/// The packages of tasks and benchmarks.
const TASKS: [&str; 3] = ["xtask", "energy-trace-tidy", "energy-trace-benches"];
/// Without unit tests: one has the tests that are run anyway, and would have the product built once more; the other has none.
const NOT_UNITS: [&str; 4] = ["--exclude", "test-programs", "--exclude", "energy-trace-scenarios"];

/// How many tests of `gpu`, and of those rooms, run at a time.
const AT_A_TIME: &str = "5";

/// Cargo finds in less that there is nothing left to build, and lets go of its lock on the build folder.
const AFTER_THE_LOCK: Duration = Duration::from_secs(5);

/// `cargo xtask test`. The closing lines are those of `cargo test`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let start = Instant::now();
    let heading = |text: &str| eprintln!("\n==> {text} [{} s]", start.elapsed().as_secs());
    heading("may BPF programs be loaded here?");
    kernel::check_bpf()?;
    restore_signals()?;
    heading("formatting");
    setup::ensure_components(workspace)?;
    // Only the names of the files: the differences are one `cargo fmt --all` away.
    run(workspace.cargo().args(["fmt", "--all", "--check", "--", "-l"]))
        .context("these files want `cargo fmt --all`")?;
    heading("house rules (tidy), set-up, BPF programs, the product, the simulated hardware and the tests");
    // One command: cargo would choose other features for the product alone, and build what they change again.
    let programs =
        ["build", "--quiet", "--lib", "--bins", "--test", "offline", "--test", "gpu", "--test", "live"];
    let mut programs = of_all(workspace, &programs);
    let build = || bpf::build_beside(workspace, Purpose::Test, Warnings::Denied, &mut programs);
    let rules = || crate::tidy(workspace).and_then(|()| portable::check(workspace));
    // Tidy uses one CPU for long; what it finds is shown at once.
    let (rules, built) = beside(rules, build);
    rules.and(built)?;
    let _alone = wait_for_other_runs(workspace)?;
    let failed = run_tests(workspace, options, &heading);
    heading("done");
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// Everything that is built by now, and the benchmarks; what failed.
fn run_tests(workspace: &Workspace, options: &Options, heading: &dyn Fn(&str)) -> Vec<anyhow::Error> {
    let nuitka = options.all.then(|| frameworks::install_nuitka(workspace));
    let nvtx = options.all.then(|| frameworks::install_nvtx(workspace));
    let torch = options.all.then(|| frameworks::install_newest_torch(workspace).map(drop));
    let installed = nuitka.into_iter().chain(nvtx).chain(torch);
    let mut failed: Vec<_> = installed.filter_map(Result::err).collect();
    let all = options.all.then_some(("ENERGY_TRACE_ALL", "1"));
    let mut test = |targets: &[&str], harness: &[&str], threads: &str| {
        let words: Vec<_> = [&["test", "--no-fail-fast"], targets].concat();
        let env: Vec<_> = all.into_iter().chain([("RUST_TEST_THREADS", threads)]).collect();
        failed.extend(cargo(workspace, &words, harness, &env).err());
    };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get).to_string();
    heading("offline, beside each other");
    test(&["--test", "offline"], &[], &cpus);
    heading("on the simulated GPU, five at a time; unit tests and benchmarks beside them");
    let live = built_test(workspace, "live");
    let beside_others = std::thread::scope(|scope| {
        let others = scope.spawn(|| check_others(workspace));
        test(&["--test", "gpu"], &skip(&GPU_ALONE), AT_A_TIME);
        let live = live.and_then(|live| {
            heading("live, five at a time");
            let five = run(&mut some_of(workspace, &live, &SIDE_BY_SIDE, AT_A_TIME, all));
            heading("live, three at a time");
            let three = run(&mut some_of(workspace, &live, &CPU_EACH, "3", all));
            heading("live, two at a time");
            five.and(three).and(run(&mut some_of(workspace, &live, &CPU_ALONE, "2", all)))
        });
        heading("what is still to do of unit tests and benchmarks");
        others.join().map(|others| others.into_iter().chain([live]).collect::<Vec<_>>())
    });
    heading("live, one at a time");
    test(&["--test", "live"], &skip(&[SIDE_BY_SIDE.as_slice(), &CPU_EACH, &CPU_ALONE].concat()), "1");
    test(&["--test", "gpu"], &GPU_ALONE, "1");
    if options.all {
        heading("slow ones");
        let slow = [&["--ignored"], skip(&BY_NAME).as_slice()].concat();
        test(&["--test", "offline", "--test", "gpu", "--test", "live"], &slow, "1");
    }
    match beside_others {
        Ok(others) => failed.extend(others.into_iter().filter_map(Result::err)),
        Err(_) => failed.push(anyhow!("the thread beside the GPU's tests panicked")),
    }
    failed
}

/// The test program of this name, as it was built: cargo, which others keep waiting while they build, is not needed to run it.
fn built_test(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let words =
        ["test", "--no-run", "--quiet", "--test", name, "--message-format", "json-render-diagnostics"];
    let built = read_output(&mut of_all(workspace, &words))?;
    let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut of_name = messages.filter(|of| of["target"]["kind"][0] == "test" && of["target"]["name"] == name);
    let program = of_name.find_map(|of| of["executable"].as_str().map(PathBuf::from));
    program.with_context(|| format!("cargo says not where the test program {name} is"))
}

/// These tests of `live`, so many at a time; where cargo would run them.
fn some_of(
    workspace: &Workspace,
    live: &Path,
    tests: &[&str],
    threads: &str,
    all: Option<(&str, &str)>,
) -> Command {
    let mut command = Command::new(live);
    command.args(tests).current_dir(workspace.root().join("tests/programs"));
    command.envs(all).env("RUST_TEST_THREADS", threads);
    command
}

/// The harness's words that leave out tests with these in their names.
fn skip(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().flat_map(|&name| ["--skip", name]).collect()
}

/// Lets clippy's driver compile the packages of this workspace, as `cargo clippy` does, but with what is run in the end: each is linted while it is
/// built, and no dependency is checked a second time for it. Warnings are errors.
fn lint<'a>(workspace: &Workspace, cargo: &'a mut Command) -> &'a mut Command {
    let driver = Path::new(cargo.get_program()).with_file_name("clippy-driver");
    cargo.env("RUSTC_WORKSPACE_WRAPPER", workspace.root().join("xtask/lint.sh"));
    cargo.env("CLIPPY_DRIVER", driver);
    cargo.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// What is beside the GPU's tests. First the package that keeps one CPU busy, and while its tests run the others are built; while those run,
/// benchmarks and examples are.
fn check_others(workspace: &Workspace) -> Vec<Result<()>> {
    std::thread::sleep(AFTER_THE_LOCK);
    let tasks = || vec![test_tasks(workspace), emulated::test(workspace)];
    let (mut found, built) = beside(tasks, || test_units(workspace, &["--no-run"]));
    let run = || built.and_then(|()| test_units(workspace, &[]));
    let (ran, others) = beside(run, || [build_benches(workspace), test_examples(workspace)]);
    found.push(ran);
    found.extend(others);
    found
}

/// Both beside each other, the second once the first holds cargo's lock.
fn beside<T, S: Send>(first: impl FnOnce() -> T, second: impl FnOnce() -> S + Send) -> (T, S) {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            std::thread::sleep(AFTER_THE_LOCK);
            second()
        });
        let first = first();
        (first, second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Unit tests, with the CPU time that other tests leave.
fn test_units(workspace: &Workspace, more: &[&str]) -> Result<()> {
    let words = [["test", "--no-fail-fast", "--lib"].as_slice(), &NOT_UNITS, more].concat();
    run(&mut nice(&of_all(workspace, &words)))
}

/// The examples on packages' front pages.
fn test_examples(workspace: &Workspace) -> Result<()> {
    let words = [["test", "--no-fail-fast", "--doc"].as_slice(), &NOT_UNITS].concat();
    run(&mut nice(&of_all(workspace, &words)))
}

/// What is not run here and has to be right all the same.
fn build_benches(workspace: &Workspace) -> Result<()> {
    run(&mut nice(&of_all(workspace, &["build", "--quiet", "--bench", "*", "--example", "*"])))
}

/// Unit tests of the tasks. Alone, as they were built: among the others they would be built once more with their features.
fn test_tasks(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    let packages = TASKS.iter().flat_map(|task| ["--package", task]);
    run(&mut nice(lint(workspace, &mut cargo).args(["test", "--locked"]).args(packages)))
}

/// The same command, with the CPU time that others leave.
pub(crate) fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    nice.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

/// A shell that starts this in the background leaves SIGINT and SIGQUIT ignored, the tests' own children would inherit that, and those
/// that wait for Ctrl-C would wait for ever.
fn restore_signals() -> Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
        // SAFETY: the default action runs no code of this process.
        unsafe { signal::signal(signal, SigHandler::SigDfl) }
            .with_context(|| format!("cannot restore {signal}"))?;
    }
    Ok(())
}

/// Always of all packages but those of tasks: of a part of them cargo would choose other features, and build what they change again.
fn of_all(workspace: &Workspace, words: &[&str]) -> Command {
    let mut cargo = workspace.cargo();
    lint(workspace, &mut cargo)
        .args(words)
        .args(["--workspace", "--locked"])
        .args(TASKS.iter().flat_map(|task| ["--exclude", task]));
    cargo
}

/// Runs cargo on them; `behind` are words for the test programs.
fn cargo(workspace: &Workspace, words: &[&str], behind: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let mut cargo = of_all(workspace, words);
    if !behind.is_empty() {
        cargo.arg("--").args(behind);
    }
    run(cargo.envs(env.iter().copied()))
}

/// Holds the lock until it is dropped; says so when another run makes this one wait.
fn wait_for_other_runs(workspace: &Workspace) -> Result<File> {
    let path = workspace.test_lock();
    let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another `cargo xtask test` ({} is locked)", path.display());
            lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(lock)
}
