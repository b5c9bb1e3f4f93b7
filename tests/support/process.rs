//! Programs that tests start: none outlives its test, and each has a time limit. Leaves out what they do.

use super::declare::SOCKET_VARIABLE;
use super::powercap::Simulation;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program that is killed when the test that started it is over, however that comes about.
pub struct Guard {
    child: Child,
}

/// What a program that ended has left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

impl Guard {
    /// Starts a command with its outputs caught.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Self { child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: i32) -> std::io::Result<()> {
        let pid = i32::try_from(self.child.id()).map_err(std::io::Error::other)?;
        // SAFETY: kill takes two numbers; the child has not been waited for, so its pid is its own.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Waits until it ends and returns what it wrote.
    ///
    /// # Errors
    /// When it takes longer than `limit`; it is killed then.
    pub fn finish(mut self, limit: Duration) -> std::io::Result<Finished> {
        // Both pipes are emptied while it runs, so that it never waits for its reader.
        let stdout = drain(self.child.stdout.take());
        let stderr = drain(self.child.stderr.take());
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                let what = format!("still running after {limit:?}");
                return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, what));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let text = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
        Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What a killed program had written until then is what there is.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The folder of this package: `tests/` of the repository.
pub fn tests_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// `workloads/phases.py` for so many seconds, as a command that declares its functions to the simulator. Arguments may be added.
pub fn phases(python: &Path, simulation: &Simulation, seconds: f64) -> Command {
    let mut command = Command::new(python);
    command.arg(phases_script()).arg(seconds.to_string());
    command.env(SOCKET_VARIABLE, simulation.socket());
    command
}

/// The distribution's interpreter where there is one: the one that most users run, and no wrapper script.
pub fn python() -> PathBuf {
    let debian = PathBuf::from("/usr/bin/python3");
    if debian.exists() { debian } else { PathBuf::from("python3") }
}

/// The file `workloads/phases.py`.
pub fn phases_script() -> PathBuf {
    workload("phases.py")
}

/// A file in `workloads/`.
pub fn workload(name: &str) -> PathBuf {
    tests_dir().join("workloads").join(name)
}

/// The words before a command that keep a CPU to it: pinned there, and of a real-time class that ordinary processes do not interrupt.
///
/// With a simulated socket for each CPU nobody else's CPU time falls on the command's socket, and the closed loop is as exact on a busy
/// machine as on a quiet one. Needs root.
pub fn alone_on(cpu: u32) -> Vec<String> {
    let cpu = cpu.to_string();
    ["taskset", "-c", &cpu, "chrt", "-f", "10"].map(str::to_owned).to_vec()
}
