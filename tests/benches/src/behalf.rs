//! How much of a program's energy stands below the framework call that its user wrote: physical view, logical view, py-spy.
//!
//! Steady state only: a program is started alone, and tracers attach to it by turns once it has used the CPU time that its imports,
//! compilation and first steps take; what it burned before is in no figure. Energy is that of the power model, so shares are shares of CPU
//! time, and the two views come from one recording. py-spy counts samples of threads that hold Python frames and are on a CPU, which is
//! what it shows by default. Leaves out how deep and whole stacks are.

use super::figures::{median, ratio};
use super::workload::{Running, Workload};
use anyhow::{Context as _, Result};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use xtask::command::{read_output, run_logged};
use xtask::frameworks;
use xtask::workspace::Workspace;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds that each tracer is attached for in a round
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only the workload of this name
    #[arg(long)]
    only: Option<String>,
}

/// A program and the call that its user wrote.
struct Case {
    workload: Workload,
    /// The call as tables show it.
    call: &'static str,
    /// Frames that are it, in our names and in py-spy's.
    ours: &'static [&'static str],
    py_spy: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case {
        workload: Workload { name: "tf1-session", example: "tf1_session.py", warm: 10 },
        call: "tf.Session.run",
        ours: &["tensorflow.python.client.session.BaseSession.run"],
        py_spy: &["run (tensorflow/python/client/session.py"],
    },
    Case {
        workload: Workload { name: "keras-fit", example: "keras_fit.py", warm: 14 },
        call: "keras.Model.fit",
        ours: &["keras.src.backend.tensorflow.trainer.TensorFlowTrainer.fit"],
        py_spy: &["fit (keras/src/backend/tensorflow/trainer.py"],
    },
    Case {
        workload: Workload { name: "torch-training", example: "torch_training.py", warm: 5 },
        call: "forward, backward, step",
        ours: &["torch.nn.modules.module.Module._call_impl", "torch._tensor.Tensor.backward", "torch.optim."],
        py_spy: &["_call_impl (torch/nn/modules/module.py", "backward (torch/_tensor.py", "(torch/optim/"],
    },
    Case {
        workload: Workload { name: "torch-dataloader", example: "torch_dataloader.py", warm: 5 },
        call: "for … in DataLoader, forward, backward, step",
        ours: &[
            "torch.utils.data.dataloader.",
            "torch.nn.modules.module.Module._call_impl",
            "torch._tensor.Tensor.backward",
            "torch.optim.",
        ],
        py_spy: &[
            "(torch/utils/data/dataloader.py",
            "_call_impl (torch/nn/modules/module.py",
            "backward (torch/_tensor.py",
            "(torch/optim/",
        ],
    },
    Case {
        workload: Workload { name: "jax", example: "jax_training.py", warm: 8 },
        call: "any call of jax",
        ours: &["jax."],
        py_spy: &["(jax/"],
    },
    Case {
        workload: Workload { name: "onnxruntime", example: "onnx_inference.py", warm: 4 },
        call: "InferenceSession.run",
        ours: &["onnxruntime.capi.onnxruntime_inference_collection.Session.run"],
        py_spy: &["run (onnxruntime/capi/onnxruntime_inference_collection.py"],
    },
];

/// Shares in one round, of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shares {
    /// Energy below the call in the physical view.
    physical: f64,
    /// The same in the logical view.
    logical: f64,
    /// Energy of Python threads outside the call: the program's own.
    own: f64,
    /// Of the energy of all other threads, what the logical view has below the call.
    workers: f64,
    /// Of the energy of all other threads, what they burned after the call that they served was over: below it or not.
    after: f64,
    /// py-spy's samples below the call.
    py_spy: f64,
}

/// `cargo xtask bench behalf`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let py_spy = frameworks::install_peers(workspace)?;
    let chosen =
        CASES.iter().filter(|case| options.only.as_deref().is_none_or(|only| only == case.workload.name));
    let mut out = std::io::stdout();
    writeln!(
        out,
        "Share below the call that the user wrote, steady state, {} s a tracer, median of {}:\n",
        options.seconds, options.rounds
    )?;
    writeln!(
        out,
        "| workload | call | physical | logical | own Python outside it | workers' energy below it | workers' after a call | py-spy |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for case in chosen {
        let shares = measure(workspace, case, options, &py_spy)?;
        let middle = |of: fn(&Shares) -> f64| 100.0 * median(shares.iter().map(of).collect());
        writeln!(
            out,
            "| {} | `{}` | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
            case.workload.name,
            case.call,
            middle(|s| s.physical),
            middle(|s| s.logical),
            middle(|s| s.own),
            middle(|s| s.workers),
            middle(|s| s.after),
            middle(|s| s.py_spy),
        )?;
    }
    Ok(())
}

fn measure(workspace: &Workspace, case: &Case, options: &Options, py_spy: &Path) -> Result<Vec<Shares>> {
    let folder = workspace.target().join("bench-behalf");
    fs::create_dir_all(&folder)?;
    let mut running = Running::start(workspace, &case.workload)?;
    running.wait_warm(case.workload.warm)?;
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        let (physical, logical) = record(workspace, &folder, running.pid(), options.seconds)?;
        let theirs = record_py_spy(py_spy, &workspace.log(), &folder, running.pid(), options.seconds)?;
        rounds.push(Shares {
            py_spy: share(lines(&theirs), case.py_spy),
            ..shares(&physical, &logical, case.ours)
        });
    }
    Ok(rounds)
}

/// Both views of one recording, as folded stacks.
fn record(workspace: &Workspace, folder: &Path, pid: u32, seconds: u32) -> Result<(String, String)> {
    let file = folder.join("behalf.data");
    let mut record = Command::new(workspace.binary());
    record.args(["record", "--no-svg", "--power", "model", "-p", &pid.to_string()]);
    record.args(["--duration", &format!("{seconds}s"), "-o"]).arg(&file);
    run_logged(&mut record, &workspace.log())?;
    let view = |view| {
        let mut export = Command::new(workspace.binary());
        read_output(
            export
                .args(["export", "--format", "folded", "--native-frames", "all", "--view", view])
                .arg(&file),
        )
    };
    Ok((view("physical")?, view("logical")?))
}

fn record_py_spy(program: &Path, log: &Path, folder: &Path, pid: u32, seconds: u32) -> Result<String> {
    let file = folder.join("py-spy.raw");
    let mut record = Command::new(program);
    record.args(["record", "--full-filenames", "--subprocesses", "--format", "raw", "--rate", "99"]);
    record.args(["--pid", &pid.to_string(), "--duration", &seconds.to_string(), "--output"]).arg(&file);
    run_logged(&mut record, log)?;
    fs::read_to_string(&file).context("py-spy wrote nothing")
}

/// Stacks with their weights. What no stack was charged with (`[idle …]`, `[other processes]`) is left out.
fn lines(folded: &str) -> impl Iterator<Item = (&str, u64)> {
    let line = |line: &'_ str| -> Option<(usize, u64)> {
        let at = line.rfind(' ')?;
        Some((at, line[at + 1..].parse().ok()?))
    };
    let stacks = folded.lines().filter(|line| !line.starts_with(['[', '#']));
    stacks.filter_map(move |text| line(text).map(|(at, weight)| (&text[..at], weight)))
}

fn has(stack: &str, call: &[&str]) -> bool {
    stack.split(';').any(|frame| call.iter().any(|part| frame.starts_with(part) || is_path(frame, part)))
}

/// py-spy's frames are `Class.function (path:line)` (the class from CPython 3.11 on), with the path of the file as it was loaded.
fn is_path(frame: &str, part: &str) -> bool {
    let (Some((name, place)), Some((function, path))) = (frame.split_once('('), part.split_once('(')) else {
        return false;
    };
    let fits = function.is_empty() || name == function || name.ends_with(&format!(".{function}"));
    fits && place.contains(&format!("/{path}"))
}

fn share<'a>(stacks: impl Iterator<Item = (&'a str, u64)>, call: &[&str]) -> f64 {
    let (mut all, mut below) = (0, 0);
    for (stack, weight) in stacks {
        all += weight;
        below += if has(stack, call) { weight } else { 0 };
    }
    ratio(below, all)
}

fn shares(physical: &str, logical: &str, call: &[&str]) -> Shares {
    const AFTER: &str = "[on behalf of, after the call]";
    const JOINTS: [&str; 3] = ["[on behalf of]", AFTER, "[pool: "];
    let mut shares = Shares {
        physical: share(lines(physical), call),
        logical: share(lines(logical), call),
        ..Shares::default()
    };
    let (mut all, mut own, mut workers, mut below, mut after) = (0, 0, 0, 0, 0);
    for (stack, weight) in lines(logical) {
        all += weight;
        if stack.split(';').any(|frame| JOINTS.iter().any(|joint| frame.starts_with(joint))) {
            workers += weight;
            below += if has(stack, call) { weight } else { 0 };
            after += if stack.contains(AFTER) { weight } else { 0 };
        } else if !has(stack, call) {
            own += weight;
        }
    }
    shares.own = ratio(own, all);
    (shares.workers, shares.after) = (ratio(below, workers), ratio(after, workers));
    shares
}

#[cfg(test)]
mod tests {
    use super::{has, shares};

    /// Ledger lines count for nothing; a worker counts where its joint stands below the call, and a pool's own root does not.
    #[test]
    fn shares_of_two_views() {
        let physical = "p;t;main;run 10\np;t;main 5\np;w;gemm 85\n[idle package-0] 1000\n# note\n";
        let logical = "p;t;main;run 10\np;t;main 5\np;t;main;run;[on behalf of];gemm 60\n\
                       p;t;main;run;[on behalf of, after the call];gemm 20\np;w;[pool: w];gemm 5\n";
        let shares = shares(physical, logical, &["run"]);
        assert_eq!((shares.physical, shares.logical, shares.own), (0.10, 0.90, 0.05));
        assert_eq!((shares.workers, shares.after), (80.0 / 85.0, 20.0 / 85.0));
    }

    /// py-spy's frames are known by function and the end of their path.
    #[test]
    fn frames_of_py_spy() {
        let call = ["run (tensorflow/python/client/session.py"];
        assert!(has("a (b.py:1);run (/x/site-packages/tensorflow/python/client/session.py:970)", &call));
        assert!(has("BaseSession.run (/x/site-packages/tensorflow/python/client/session.py:970)", &call));
        assert!(!has("BaseSession._run (/x/site-packages/tensorflow/python/client/session.py:970)", &call));
        assert!(!has("run (/x/session.py:970)", &call));
        assert!(has("wrapper (/x/torch/optim/optimizer.py:3)", &["(torch/optim/"]));
    }
}
