//! `bench ranges`: what a range costs the program that marks it, alone and under `record --ranges`.
//!
//! Each program is run by turns, and the least of its own rounds counts: others' work only adds. The third is PyTorch's own where the Python
//! given has it, else a stand-in. Leaves out new threads and names, which meet a probe once.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use super::figures::spread;
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{is_root, read_output, run};
use xtask::product;
use xtask::workspace::Workspace;

/// What to measure with.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The Python of the last two rows.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Measure this build of energy-trace instead of the one of this tree.
    #[arg(long)]
    binary: Option<PathBuf>,
}

const HEAD: &str = "\
| a range | alone, ns (least .. most) | recorded, ns (least .. most) |
|---|---|---|";

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    ensure!(is_root(), "energy-trace loads BPF programs: run this as root");
    let binary = product::given_or_built(workspace, options.binary.as_deref())?;
    let folder = workspace.target().join("bench/ranges");
    std::fs::create_dir_all(&folder)?;
    let (workloads, program) = (workspace.root().join("tests/workloads"), folder.join("ranges"));
    run(Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(workloads.join("ranges.c"))
        .arg("-ldl"))?;
    let python = [options.python.clone(), workloads.join("range_cost.py")];
    let path = workspace.root().join("tracer/python");
    println!("{HEAD}");
    let of_python = |kind: &'static str| [python[0].as_path(), python[1].as_path(), Path::new(kind)];
    for (name, words) in [
        ("push and pop of NVTX, in C", [program.as_path(), Path::new("cost"), Path::new("200000")]),
        ("`energy_trace.range`", of_python("range")),
        ("`record_function`", of_python("record_function")),
    ] {
        let mut taken = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            for (recorder, taken) in [None, Some(binary.as_path())].into_iter().zip(&mut taken) {
                taken.push(least(recorder, &words, &path, &folder)?);
            }
        }
        let [alone, recorded] = taken.map(|taken| {
            let [middle, least, most] = spread(&taken);
            format!("{middle:.0} ({least:.0} .. {most:.0})")
        });
        println!("| {name} | {alone} | {recorded} |");
    }
    Ok(())
}

/// Nanoseconds of a range: the least that one run says.
fn least(recorder: Option<&Path>, words: &[&Path], path: &Path, folder: &Path) -> Result<f64> {
    let mut command = match recorder {
        Some(recorder) => {
            let mut command = Command::new(recorder);
            command.args(["record", "--ranges", "-q", "--no-svg", "--power", "none", "-o"]);
            command.arg(folder.join("energy-trace.data")).arg("--").args(words);
            command
        }
        None => {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        }
    };
    command.env_remove("NVTX_INJECTION64_PATH").env("PYTHONPATH", path);
    let said = read_output(&mut command)?;
    let taken = said.lines().filter_map(|line| line.parse::<f64>().ok());
    taken.min_by(f64::total_cmp).with_context(|| format!("{} said no time", words[0].display()))
}
