//! The profilers that are compared, each with its own defaults but for the rate.

use super::Place;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What runs beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Profiler {
    /// energy-trace record
    #[value(name = "energy-trace")]
    Ours,
    /// py-spy record --native
    PySpy,
    /// perf record --call-graph dwarf
    Perf,
    /// bpftrace's profile probe, user and kernel stacks
    Bpftrace,
}

impl Profiler {
    pub(super) const ALL: [Self; 4] = [Self::Ours, Self::PySpy, Self::Perf, Self::Bpftrace];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "energy-trace",
            Self::PySpy => "py-spy record --native",
            Self::Perf => "perf record --call-graph dwarf",
            Self::Bpftrace => "bpftrace profile, ustack + kstack",
        }
    }

    /// Whether its timers interrupt every process of a CPU, and not only the one that it looks at.
    pub(super) fn interrupts_all(self) -> bool {
        matches!(self, Self::Ours | Self::Bpftrace)
    }

    fn command(self, place: &Place<'_>, pid: u32, hz: u32) -> Command {
        let (pid, hz) = (pid.to_string(), hz.to_string());
        let out = |name: &str| place.folder.join(name);
        match self {
            Self::Ours => {
                let mut command = Command::new(place.workspace.binary());
                command.args(["record", "--no-svg", "--power", "none", "-p", &pid, "-F", &hz, "-o"]);
                command.arg(out("slowdown.data"));
                command
            }
            Self::PySpy => {
                let mut command = Command::new(&place.py_spy);
                command.args(["record", "--native", "--format", "raw", "--duration", "3600"]);
                command.args(["--pid", &pid, "--rate", &hz, "--output"]).arg(out("slowdown.raw"));
                command
            }
            Self::Perf => {
                let mut command = Command::new("perf");
                command.args(["record", "--event", "cpu-clock", "--call-graph", "dwarf", "--pid", &pid]);
                command.args(["--freq", &hz, "--output"]).arg(out("slowdown.perf"));
                command
            }
            Self::Bpftrace => {
                let mut command = Command::new("bpftrace");
                let program = format!("profile:hz:{hz} /pid == {pid}/ {{ @[ustack, kstack] = count(); }}");
                command.args(["-e", &program]);
                command
            }
        }
    }
}

/// A profiler at work. Dropping it kills it.
pub(super) struct Running {
    child: Child,
}

impl Running {
    pub(super) fn start(place: &Place<'_>, profiler: Profiler, pid: u32, hz: u32) -> Result<Self> {
        let mut command = profiler.command(place, pid, hz);
        let log = File::create(place.log()).context("cannot write the profiler's log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child =
            command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// Ends it: asked to first, because one that stops its target lets go of it only then; at once where it is slow to finish. An error
    /// where it had ended before.
    pub(super) fn stop(mut self, place: &Place<'_>) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        if let Some(status) = self.child.try_wait()? {
            bail!("it ended too early: {status}; {} says why", place.log().display());
        }
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT)?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() && asked.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
