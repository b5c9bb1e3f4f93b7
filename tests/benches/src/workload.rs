//! A program to measure with: an example, started without energy-trace, that runs until it is dropped.
//!
//! Leaves out what is done to it.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use xtask::frameworks;
use xtask::workspace::Workspace;

/// An example and when it has left its start behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// What tables call it.
    pub(crate) name: &'static str,
    /// Its file in `examples/`.
    pub(crate) example: &'static str,
    /// CPU seconds after which imports, compilation and first steps are over.
    pub(crate) warm: u64,
}

/// The programs of the completeness benchmark: each framework in the way in which its users call it.
pub(crate) const WORKLOADS: [Workload; 6] = [
    Workload { name: "torch-resnet", example: "torch_training.py", warm: 4 },
    Workload { name: "torch-ncf", example: "torch_recommender.py", warm: 4 },
    Workload { name: "tf1-session", example: "tf1_session.py", warm: 8 },
    Workload { name: "keras-fit", example: "keras_fit.py", warm: 12 },
    Workload { name: "onnxruntime", example: "onnx_inference.py", warm: 3 },
    Workload { name: "jax", example: "jax_training.py", warm: 6 },
];

/// Longer than any use of it: whoever started it ends it, and it ends by itself where that one was killed.
const SECONDS: &str = "600";

/// A workload that runs. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a workload. OpenMP threads sleep where they wait: by spinning they would be most of what is sampled on a shared machine.
    pub(crate) fn start(workspace: &Workspace, workload: &Workload) -> Result<Self> {
        let mut command = Command::new(frameworks::python_of(workspace, workload.example)?);
        command.arg(workspace.root().join("examples").join(workload.example)).arg(SECONDS);
        command.env("OMP_WAIT_POLICY", "passive").stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot start {}", workload.name))? })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has used that many CPU seconds.
    pub(crate) fn wait_warm(&mut self, seconds: u64) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the workload ended too early: {status}; run it alone to see why");
            }
            let used: u64 = thread_times(self.pid()).values().sum();
            if used >= seconds * 1_000_000_000 {
                return Ok(());
            }
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// On-CPU time of each thread in nanoseconds (`/proc/PID/task/TID/schedstat`, first field). Threads that ended are not in it.
pub(crate) fn thread_times(pid: u32) -> BTreeMap<u32, u64> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return BTreeMap::new() };
    let time = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, text.split(' ').next()?.parse().ok()?))
    };
    tasks.flatten().filter_map(time).collect()
}
