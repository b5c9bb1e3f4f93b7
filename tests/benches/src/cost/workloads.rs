//! What is sampled: stacks of known depth, and two programs that people run.

use crate::chain::Chain;
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use xtask::frameworks::SYSTEM_PYTHON;
use xtask::workspace::Workspace;

/// A program to sample.
pub(super) struct Workload {
    /// What the table calls it.
    pub(super) name: String,
    /// Seconds until it does what it is named for.
    pub(super) warm_up: f64,
    /// It has a CPU to itself.
    alone: bool,
    words: Vec<OsString>,
}

impl Workload {
    /// Starts it; it runs until it is killed.
    pub(super) fn start(&self) -> Result<Child> {
        let mut words: Vec<OsString> = Vec::new();
        if self.alone {
            let last = available_parallelism().map_or(1, std::num::NonZero::get) - 1;
            words.extend(["chrt", "-f", "10", "taskset", "-c"].map(OsString::from));
            words.push(last.to_string().into());
        }
        words.extend(self.words.iter().cloned());
        words.push(SECONDS.into());
        let (program, arguments) = words.split_first().context("a workload has words")?;
        let mut command = Command::new(program);
        command.args(arguments).env("OMP_WAIT_POLICY", "passive");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().with_context(|| format!("cannot start {}", self.name))
    }
}

/// How long a workload runs if nothing ends it.
const SECONDS: &str = "600";

/// Depths of synthetic stacks, in frames.
const DEPTHS: [usize; 6] = [10, 20, 40, 80, 160, 400];
/// Native frames of the program around the chain: `burn`, `main` and three of libc's start.
const AROUND_CHAIN: usize = 5;
/// Native frames around the chain in Python: `burn`, `descend`, ctypes and libffi, the interpreter (counted on Debian's 3.11).
const AROUND_PYTHON: usize = 22;

/// Python functions above a call of C by ctypes: library, Python frames, C frames, seconds.
const DESCEND: &str = "\
import ctypes, sys
library, frames, links, seconds = sys.argv[1:]
sys.setrecursionlimit(5000)
burn = ctypes.CDLL(library).descend
burn.argtypes = [ctypes.c_long, ctypes.c_double]
def down(left):
    return down(left - 1) + 1 if left > 1 else burn(int(links), float(seconds))
down(int(frames) - 1)
";

/// Linear algebra, sorting and ufuncs.
const NUMPY: &str = "\
import sys, time
import numpy as np
end = time.monotonic() + float(sys.argv[1])
a = np.random.default_rng(1).random((300, 300))
while time.monotonic() < end:
    np.linalg.svd(a @ a); np.sort(a, axis=None); np.exp(a).sum()
";

/// All of them.
pub(super) fn all(chain: &Chain, workspace: &Workspace) -> Vec<Workload> {
    let native = DEPTHS.map(|depth| Workload {
        name: format!("{depth} native"),
        warm_up: 1.0,
        alone: true,
        words: vec![chain.program.clone().into(), (depth - AROUND_CHAIN).to_string().into()],
    });
    let python = DEPTHS.map(|depth| in_python(chain, depth, 1));
    let both = [40, 160].map(|depth| in_python(chain, depth, depth - AROUND_PYTHON));
    let training = Workload {
        name: "torch training".to_owned(),
        warm_up: 8.0,
        alone: false,
        words: vec![SYSTEM_PYTHON.into(), workspace.root().join("examples/torch_training.py").into()],
    };
    let numpy = Workload {
        name: "numpy svd, sort, exp".to_owned(),
        warm_up: 3.0,
        alone: false,
        words: [SYSTEM_PYTHON, "-c", NUMPY].map(OsString::from).to_vec(),
    };
    native.into_iter().chain(python).chain(both).chain([training, numpy]).collect()
}

fn in_python(chain: &Chain, frames: usize, links: usize) -> Workload {
    let mut words = [SYSTEM_PYTHON, "-c", DESCEND].map(OsString::from).to_vec();
    words.extend([chain.library.clone().into(), frames.to_string().into(), links.to_string().into()]);
    Workload {
        name: format!("{frames} Python + {} native", links + AROUND_PYTHON),
        warm_up: 1.5,
        alone: true,
        words,
    }
}
