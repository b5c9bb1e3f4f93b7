//! The emulated machine: boots a kernel with an initramfs and gives what the guest wrote to its second serial port.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::target::Target;

/// A guest that takes longer hangs: one takes a minute on an idle machine.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What of the emulated machine hangs on its processor.
struct Machine {
    /// The emulator's words.
    words: &'static [&'static str],
    /// Where the kernel's messages go, and where the guest writes its results.
    console: &'static str,
    results: &'static str,
}

/// `-cx16` hides an instruction whose emulation made 6.12 fault (QEMU 7.2); KVM would be faster, but machines in clouds rarely have it.
const X86_64: Machine =
    Machine { words: &["-cpu", "max,-cx16", "-smp", "2"], console: "ttyS0", results: "ttyS1" };
/// It has one serial port, which both use. Signatures of the architecture's own making take the emulator most of its time: its own are quick.
const AARCH64: Machine = Machine {
    words: &["-machine", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "1"],
    console: "ttyAMA0",
    results: "ttyAMA0",
};

const fn machine(target: Target) -> &'static Machine {
    match target {
        Target::X86_64 => &X86_64,
        Target::Aarch64 => &AARCH64,
    }
}

/// The device to which the guest writes its results.
pub(crate) const fn results(target: Target) -> &'static str {
    machine(target).results
}

/// Boots, waits for the guest to switch itself off.
pub(crate) fn boot(
    target: Target,
    tools: &Path,
    kernel: &Path,
    guest: &Path,
    folder: &Path,
) -> Result<String> {
    let machine = machine(target);
    let console = folder.join("console.txt");
    let results =
        if machine.results == machine.console { console.clone() } else { folder.join("results.txt") };
    let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|place| tools.join(place));
    let mut command = Command::new(tools.join("lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(std::env::join_paths(&libraries)?)
        .arg(tools.join(format!("usr/bin/qemu-system-{}", target.arch())))
        .env("QEMU_MODULE_DIR", tools.join("usr/lib/x86_64-linux-gnu/qemu"))
        .env_remove("LD_LIBRARY_PATH");
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        command.arg("-L").arg(tools.join(data));
    }
    command
        .args(["-accel", "tcg,thread=multi", "-m", "1024"])
        .args(machine.words)
        .args(["-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"])
        .args(["-append", &format!("console={} panic=1 quiet", machine.console)])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(guest)
        .arg("-serial")
        .arg(to_file(&console))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("qemu.txt"))?);
    if results != console {
        command.arg("-serial").arg(to_file(&results));
    }
    wait(&mut command)?;
    let said = fs::read(&results).with_context(|| format!("no {}", results.display()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if !said.lines().any(|line| line.trim_end() == "end") {
        let end = fs::read_to_string(&console).unwrap_or_default();
        let end: Vec<&str> = end.lines().rev().take(5).collect();
        bail!(
            "the guest did not come to its end; its console's last lines, newest first: {}",
            end.join(" | ")
        );
    }
    Ok(said)
}

fn to_file(path: &Path) -> OsString {
    let mut word = OsString::from("file:");
    word.push(path);
    word
}

fn wait(command: &mut Command) -> Result<()> {
    let start = Instant::now();
    let mut child = command.spawn().context("cannot start the emulator")?;
    while child.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("the guest hung for {} s", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(200));
    }
    Ok(())
}
