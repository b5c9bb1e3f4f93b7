//! The guest's file system: busybox, energy-trace with the host's libc, Debian's Python, two programs and the script that runs them.

use super::PROGRAMS;
use crate::command::{read_output, run_logged};
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What goes in.
pub(crate) struct Contents<'a> {
    /// energy-trace.
    pub(crate) product: &'a Path,
    /// The program of `chain.rs`.
    pub(crate) chain: &'a Path,
    /// The Python script.
    pub(crate) script: &'a Path,
    /// Unpacked packages: busybox and Python.
    pub(crate) tools: &'a Path,
}

/// The interpreter of Debian 12.
const PYTHON: &str = "usr/bin/python3.11";
const STANDARD_LIBRARY: &str = "usr/lib/python3.11";
/// Libraries of that Python that energy-trace does not need too.
const PYTHON_LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu/libz.so.1", "lib/x86_64-linux-gnu/libexpat.so.1"];

/// Runs first in the guest. Results go to the second serial port; the first one is the console.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
stty -F /dev/ttyS1 raw
exec 3>/dev/ttyS1
cd /tmp
echo "kernel $(uname -r)" >&3
# Instructions that the kernel verified for the sampler (a perf event program: type 7), as soon as it runs.
tell_verified() {
    for try in $(seq 100); do
        sleep 1
        for pid in $(pidof energy-trace); do
            for info in /proc/$pid/fdinfo/*; do
                if grep -q "prog_type:.7" $info 2>/dev/null; then
                    echo "verified $1 $(sed -n "s/verified_insns:.//p" $info)" >&3
                    return
                fi
            done
        done
    done
}
trace() {
    name=$1
    shift
    tell_verified $name &
    /work/energy-trace record --power model --no-svg -o /tmp/$name.data -- "$@" >/tmp/$name.log 2>&1
    echo "status $name $?" >&3
    cat /tmp/$name.log
    /work/energy-trace report /tmp/$name.data --format json >/tmp/$name.json
    echo "json $name $(cat /tmp/$name.json)" >&3
    /work/energy-trace export /tmp/$name.data --format folded --native-frames all -o /tmp/$name.folded
    sed "s/^/folded $name /" /tmp/$name.folded >&3
}
TRACES
echo end >&3
sync
poweroff -f
"#;

/// Builds the archive in `folder`; gives its path.
pub(crate) fn build(folder: &Path, contents: &Contents<'_>, log: &Path) -> Result<PathBuf> {
    let root = folder.join("guest");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    for place in ["bin", "proc", "sys", "dev", "tmp", "work", "lib64"] {
        fs::create_dir_all(root.join(place))?;
    }
    copy(&contents.tools.join("bin/busybox"), &root.join("bin/busybox"))?;
    copy(contents.product, &root.join("work/energy-trace"))?;
    copy(contents.chain, &root.join("work/chain"))?;
    copy(contents.script, &root.join("work/sorted.py"))?;
    for library in libraries_of(contents.product)? {
        copy(&library, &root.join(library.strip_prefix("/")?))?;
    }
    for file in PYTHON_LIBRARIES.iter().chain(&[PYTHON]) {
        copy(&contents.tools.join(file), &root.join(file))?;
    }
    let library = root.join(STANDARD_LIBRARY);
    fs::create_dir_all(library.parent().context("a folder above")?)?;
    run_logged(Command::new("cp").arg("-a").arg(contents.tools.join(STANDARD_LIBRARY)).arg(&library), log)?;
    let traces: String = PROGRAMS.iter().map(|(name, command)| format!("trace {name} {command}\n")).collect();
    let init = root.join("init");
    fs::write(&init, INIT.replace("TRACES\n", &traces))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    pack(&root, &folder.join("guest.cpio"), &contents.tools.join("bin/busybox"), log)
}

/// Copies a file, what a link points to included, and makes its folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// The shared libraries of a program on this machine, the dynamic loader included.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    Ok(parse_libraries(&read_output(Command::new("ldd").arg(program))?))
}

/// Paths in the output of `ldd`.
fn parse_libraries(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn pack(root: &Path, archive: &Path, busybox: &Path, log: &Path) -> Result<PathBuf> {
    let script = "cd \"$1\" && find . | \"$2\" cpio -o -H newc > \"$3\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(root).arg(busybox).arg(archive);
    run_logged(&mut command, log).context("cannot pack the guest's files")?;
    Ok(archive.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::parse_libraries;
    use std::path::PathBuf;

    /// Libraries and the loader are found, the vDSO is none.
    #[test]
    fn ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007fde82be0000)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            parse_libraries(text),
            [PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6"), PathBuf::from("/lib64/ld-linux-x86-64.so.2")]
        );
    }
}
