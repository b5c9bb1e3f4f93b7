//! Starting the simulated hardware of `tests/` by hand.

mod gpu;

use crate::command::run;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hardware that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// A powercap tree on FUSE, until Ctrl-C; the words that follow go to `powercap-sim`, the first is the folder to mount on.
    Powercap,
    /// A GPU with its libraries: `[--scenario FILE] [--model A100] [--dir FOLDER] -- COMMAND…` runs a command on it and leaves the truth log.
    Gpu,
    /// A `libnvidia-ml.so.1`; one word may follow, the file of its script (`tests/nvml/src/script.rs` says what it may hold).
    Nvml,
}

/// One GPU that idles and works in turns of five seconds.
const NVML_SCRIPT: &str = r#"{ "devices": [ { "name": "Simulated GPU", "uuid": "GPU-0",
  "watts": [[0, 75], [5, 400], [10, 75], [15, 400], [20, 75], [25, 400], [30, 75]] } ] }
"#;

/// `cargo xtask sim`.
pub(crate) fn task(workspace: &Workspace, device: Device, args: &[OsString]) -> Result<()> {
    match device {
        Device::Powercap => powercap(workspace, args),
        Device::Gpu => gpu::run(workspace, args),
        Device::Nvml => nvml(workspace, args),
    }
}

/// Becomes the simulator, so that Ctrl-C and the exit status are its own.
fn powercap(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    run(workspace.cargo().args([
        "build",
        "--quiet",
        "--package",
        "energy-trace-tests",
        "--bin",
        "powercap-sim",
    ]))?;
    let mount = args.first().map_or("MOUNT".into(), |first| first.to_string_lossy());
    eprintln!("sim: once the line below says that {mount} is there, in another terminal:");
    eprintln!(
        "    sudo {} record --power powercap --path.sysfs {mount} -- COMMAND",
        workspace.binary().display()
    );
    eprintln!(
        "sim: a COMMAND that declares its watts wants `env POWER_SIM_SOCKET=…`, with the socket of that line\n"
    );
    let program = workspace.target().join("debug/powercap-sim");
    let error = Command::new(&program).args(args).exec();
    bail!("cannot start {}: {error}", program.display())
}

/// Leaves the library under the name that a driver gives it, and its script beside it.
fn nvml(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    let folder = workspace.target().join("sim");
    let script = match args {
        [] => write(&folder.join("nvml.json"), NVML_SCRIPT.as_bytes())?,
        [script] => fs::canonicalize(script).with_context(|| format!("no script {}", script.display()))?,
        _ => bail!("`sim nvml` takes one word, the file of a script"),
    };
    run(workspace.cargo().args(["build", "--quiet", "--package", "nvml-sim"]))?;
    let built = workspace.target().join("debug/libnvml_sim.so");
    let library = fs::read(&built).with_context(|| format!("the build left no {}", built.display()))?;
    let library = write(&folder.join("libnvidia-ml.so.1"), &library)?;
    eprintln!("sim: a simulated NVML is ready:");
    eprintln!(
        "    sudo env NVML_SIM={} {} record --power nvml --nvml-lib {} -- COMMAND",
        script.display(),
        workspace.binary().display(),
        library.display()
    );
    Ok(())
}

/// Writes a file and the folder that it lies in.
fn write(path: &Path, content: &[u8]) -> Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_path_buf())
}
