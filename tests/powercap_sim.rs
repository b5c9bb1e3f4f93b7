//! `powercap-sim`: the simulated powercap tree as a program, for use by hand and by `cargo xtask sim`.
//!
//! Mounts the tree, prints one line of JSON with what a workload and energy-trace need, and runs until SIGINT or SIGTERM; then it
//! unmounts and writes the truth. Leaves out the simulation itself (`support/powercap`).

use anyhow::Context;
use clap::Parser;
use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::{Options, Simulation};
use nix::sys::signal::{SigSet, Signal};
use std::io::Write;
use std::path::PathBuf;

/// A simulated sysfs with RAPL counters that show what a workload's threads really spent.
///
/// Start it, then in another shell: `POWER_SIM_SOCKET=SOCKET energy-trace --path.sysfs MOUNT -- python3 tests/workloads/phases.py 20`.
/// SIGINT or SIGTERM unmounts the tree and writes the truth.
#[derive(Parser)]
#[command(name = "powercap-sim")]
struct Arguments {
    /// The folder to mount on; made where it is not there. It takes the place of /sys.
    mount: PathBuf,
    /// Where the truth is written at the end, as JSON; standard output without it.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// The channel of the workload [default: MOUNT with `.sock` behind].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Blocked before the first thread starts, so that they reach `wait` below and nobody else.
    signals.thread_block()?;
    let (mount, made) = (&arguments.mount, !arguments.mount.exists());
    std::fs::create_dir_all(mount).with_context(|| format!("cannot make {}", mount.display()))?;
    let mut default_socket = mount.clone().into_os_string();
    default_socket.push(".sock");
    let socket = arguments.socket.clone().unwrap_or_else(|| default_socket.into());
    // One that a killed simulator left behind.
    let _ = std::fs::remove_file(&socket);
    let simulation = Simulation::start_at(&arguments.options, mount, &socket)?;
    let ready = serde_json::json!({ "sysfs": mount, SOCKET_VARIABLE: socket, "pid": std::process::id() });
    let mut out = std::io::stdout();
    writeln!(out, "{ready}")?;
    out.flush()?;
    signals.wait()?;
    let truth = serde_json::to_string_pretty(&simulation.truth())?;
    drop(simulation);
    if made {
        // Somebody may have put a file there meanwhile; then the folder stays.
        let _ = std::fs::remove_dir(mount);
    }
    match arguments.truth {
        Some(file) => {
            std::fs::write(&file, truth + "\n").with_context(|| format!("cannot write {}", file.display()))
        }
        None => Ok(writeln!(out, "{truth}")?),
    }
}
