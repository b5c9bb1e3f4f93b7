//! `cargo xtask fuzz`: builds the fuzz targets of `tests/fuzz`, runs each for a while and says how often, and whether it broke.
//!
//! `cargo fuzz` comes from the crate registry where it is missing. A nightly toolchain is used where rustup has one, else the stable one is
//! told to be one (`RUSTC_BOOTSTRAP`): the coverage that libFuzzer needs is no stable feature. libFuzzer itself is compiled with the
//! machine's C++ compiler. Inputs found earlier are kept in `target/fuzz/corpus` and used again; what broke a target is kept in
//! `target/fuzz/crashes`.

use crate::bpf::{self, Warnings};
use crate::command::{find, read_output, run, run_logged};
use crate::setup::{self, Purpose};
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the user typed after `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long each target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Watch memory too (address), which is slower; nearly all of the code has none that is unsafe.
    #[arg(long, default_value = "none", value_parser = ["none", "address"])]
    sanitizer: String,
    /// Targets; all without any.
    targets: Vec<String>,
}

/// Where targets are, below the project's folder.
const FOLDER: &str = "tests/fuzz";
/// Memory that a target may take, in MiB: inputs are small, so what takes more is a fault.
const MOST_MIB: u32 = 1024;
/// Seconds that one input may take.
const LONGEST: u32 = 10;

/// Runs the targets; an error if one broke.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let targets = choose(&read_targets(workspace)?, &options.targets)?;
    let tools = setup::run(workspace, Purpose::Build)?;
    bpf::build(workspace, &tools, Target::of_machine(), Warnings::Shown)?;
    install(workspace)?;
    build(workspace, &options.sanitizer)?;
    let folder = workspace.target().join("fuzz");
    run(Command::new(program(&folder, "seeds")).arg(folder.join("corpus")))?;
    let mut broken = Vec::new();
    for target in targets {
        let done = fuzz(&folder, &target, options.seconds)?;
        eprintln!(
            "{target:>14}: {:>10} executions in {} s: {}",
            done.executions,
            options.seconds,
            done.verdict()
        );
        if !done.whole {
            broken.push(target);
        }
    }
    ensure!(
        broken.is_empty(),
        "{} broke: the inputs are in {}, what was said in {}",
        broken.join(", "),
        folder.join("crashes").display(),
        folder.join("logs").display()
    );
    Ok(())
}

/// How one target did.
struct Done {
    executions: String,
    whole: bool,
    why: Option<String>,
}

impl Done {
    fn verdict(&self) -> &str {
        if self.whole { "no crash" } else { self.why.as_deref().unwrap_or("it ended early") }
    }
}

/// Names of the targets: a file each.
fn read_targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root().join(FOLDER).join("targets");
    let files = fs::read_dir(&folder).with_context(|| format!("no fuzz targets in {}", folder.display()))?;
    let name = |file: fs::DirEntry| Some(file.path().file_stem()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// The targets that were named, or all.
fn choose(all: &[String], named: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("no fuzz target {unknown}; there are {}", all.join(", "));
    }
    Ok(if named.is_empty() { all.to_vec() } else { named.to_vec() })
}

/// Fetches `cargo fuzz` where it is missing.
fn install(workspace: &Workspace) -> Result<()> {
    let own = workspace.tools().join("bin/cargo-fuzz");
    if find("cargo-fuzz").is_some() || own.is_file() {
        return Ok(());
    }
    eprintln!("fetching cargo-fuzz from the crate registry…");
    let mut cargo = workspace.cargo();
    cargo.args(["install", "cargo-fuzz", "--locked", "--root"]).arg(workspace.tools());
    run_logged(&mut cargo, &workspace.log())
}

/// Builds the targets and the program that writes their first inputs.
fn build(workspace: &Workspace, sanitizer: &str) -> Result<()> {
    let own = workspace.tools().join("bin/cargo-fuzz");
    let mut cargo_fuzz = Command::new(find("cargo-fuzz").unwrap_or(own));
    match find_nightly() {
        Some(name) => cargo_fuzz.env("RUSTUP_TOOLCHAIN", name).env_remove("CARGO").env_remove("RUSTC"),
        None => cargo_fuzz.env("RUSTC_BOOTSTRAP", "1"),
    };
    cargo_fuzz
        .current_dir(workspace.root())
        .args(["fuzz", "build", "--fuzz-dir", FOLDER, "--sanitizer", sanitizer, "--target-dir"])
        .arg(workspace.target().join("fuzz"))
        .env("ENERGY_TRACE_PROBES", workspace.probes());
    run(&mut cargo_fuzz)
}

/// The first nightly of rustup.
fn find_nightly() -> Option<String> {
    let list = read_output(Command::new(find("rustup")?).args(["toolchain", "list"])).ok()?;
    let mut names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.find(|name| name.starts_with("nightly")).map(str::to_owned)
}

/// A program that was built.
fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join("x86_64-unknown-linux-gnu/release").join(name)
}

/// Runs one target.
fn fuzz(folder: &Path, target: &str, seconds: u32) -> Result<Done> {
    let (corpus, crashes, logs) =
        (folder.join("corpus").join(target), folder.join("crashes").join(target), folder.join("logs"));
    for folder in [&corpus, &crashes, &logs] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let log = logs.join(format!("{target}.log"));
    let file = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = Command::new(program(folder, target))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={LONGEST}"))
        .arg(format!("-rss_limit_mb={MOST_MIB}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg("-print_final_stats=1")
        .arg(&corpus)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .status()
        .with_context(|| format!("cannot start the fuzz target {target}"))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    Ok(summary(&text, status.success()))
}

/// What libFuzzer's output says.
fn summary(text: &str, success: bool) -> Done {
    let executions = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let why = text.lines().find(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer:"));
    Done {
        executions: executions.map_or("?", str::trim).to_owned(),
        whole: success,
        why: why.map(|line| line.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{choose, summary};

    /// All targets without a name, those that were named, and an error that lists them for a name that is none.
    #[test]
    fn targets_by_name() {
        let all = ["a".to_owned(), "b".to_owned()];
        assert_eq!(choose(&all, &[]).unwrap(), all);
        assert_eq!(choose(&all, &["b".into()]).unwrap(), ["b"]);
        assert!(choose(&all, &["c".into()]).unwrap_err().to_string().contains("a, b"));
    }

    /// Executions and the reason of a crash are read from what libFuzzer prints.
    #[test]
    fn summaries() {
        let done = summary("#2 INITED\nstat::number_of_executed_units: 1234\n", true);
        assert_eq!((done.executions.as_str(), done.verdict()), ("1234", "no crash"));
        let broken =
            summary("thread 'main' panicked at f.rs:1:2:\n==1== ERROR: libFuzzer: deadly signal\n", false);
        assert_eq!(broken.verdict(), "thread 'main' panicked at f.rs:1:2:");
    }
}
