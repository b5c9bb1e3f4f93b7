//! The emulated machine: boots a kernel with an initramfs and gives what the guest wrote to its second serial port.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A guest that takes longer hangs: one takes a minute on an idle machine.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Boots, waits for the guest to switch itself off.
///
/// `-cx16` hides an instruction whose emulation made 6.12 fault (QEMU 7.2); KVM would be faster, but machines in clouds rarely have it.
pub(crate) fn boot(tools: &Path, kernel: &Path, guest: &Path, folder: &Path) -> Result<String> {
    let (console, results) = (folder.join("console.txt"), folder.join("results.txt"));
    let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|place| tools.join(place));
    let mut command = Command::new(tools.join("lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(std::env::join_paths(&libraries)?)
        .arg(tools.join("usr/bin/qemu-system-x86_64"))
        .env("QEMU_MODULE_DIR", tools.join("usr/lib/x86_64-linux-gnu/qemu"))
        .env_remove("LD_LIBRARY_PATH");
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        command.arg("-L").arg(tools.join(data));
    }
    command
        .args(["-accel", "tcg,thread=multi", "-cpu", "max,-cx16", "-m", "1024", "-smp", "2"])
        .args(["-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot"])
        .args(["-append", "console=ttyS0 panic=1 quiet"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(guest)
        .arg("-serial")
        .arg(to_file(&console))
        .arg("-serial")
        .arg(to_file(&results))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("qemu.txt"))?);
    wait(&mut command)?;
    let said = fs::read(&results).with_context(|| format!("no {}", results.display()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if !said.lines().any(|line| line == "end") {
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
