//! The guest's file system: busybox, energy-trace with the host's libc or the guest's own, Debian's Python, the simulated GPU, the programs and the
//! script that runs them.

use super::packages::More;
use super::{ON_GPU, gpu, machine, programs};
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{read_output, run_logged};
use xtask::target::Target;

/// What goes in.
pub(crate) struct Contents<'a> {
    /// energy-trace.
    pub(crate) product: &'a Path,
    /// Whose machine it is.
    pub(crate) target: Target,
    /// What goes to `/work`, by name.
    pub(crate) programs: &'a [(&'static str, PathBuf)],
    /// The Python script.
    pub(crate) script: &'a Path,
    /// Unpacked packages: the host's busybox; the guest's busybox and Python; other Pythons with their C libraries.
    pub(crate) tools: &'a Path,
    pub(crate) guest: &'a Path,
    pub(crate) more: Option<&'a More>,
    /// The simulated GPU of `gpu.rs`, where there is one for the processor.
    pub(crate) gpu: Option<&'a Path>,
}

/// The interpreter of Debian 12.
const PYTHON: &str = "usr/bin/python3.11";
const STANDARD_LIBRARY: &str = "usr/lib/python3.11";
/// Libraries of that Python that energy-trace does not need too.
const PYTHON_LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu/libz.so.1", "lib/x86_64-linux-gnu/libexpat.so.1"];

/// Runs first in the guest. Results go to `RESULTS`, a serial port.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
stty -F /dev/RESULTS raw
exec 3>/dev/RESULTS
cd /tmp
echo "kernel $(uname -r)" >&3
# Instructions that the kernel verified for programs of a type, as soon as so many of them are loaded: those of the longest.
tell_verified() {
    for try in $(seq 100); do
        sleep 1
        for pid in $(pidof energy-trace); do
            infos=$(grep -l "prog_type:.$2\$" /proc/$pid/fdinfo/* 2>/dev/null)
            if [ $(echo $infos | wc -w) -ge $3 ]; then
                echo "verified $1 $(sed -n "s/verified_insns:.//p" $infos | sort -n | tail -n 1)" >&3
                return
            fi
        done
    done
}
sources="--power model"
# The sampler is a perf event program.
programs="7 1"
trace() {
    name=$1
    shift
    tell_verified $name $programs &
    /work/energy-trace record $sources --no-svg -o /tmp/$name.data -- "$@" >/tmp/$name.log 2>&1
    echo "status $name $?" >&3
    cat /tmp/$name.log
    /work/energy-trace report /tmp/$name.data --format json >/tmp/$name.json
    echo "json $name $(cat /tmp/$name.json)" >&3
    /work/energy-trace export /tmp/$name.data --format folded --native-frames all -o /tmp/$name.folded
    sed "s/^/folded $name /" /tmp/$name.folded >&3
}
TRACES
ON_GPU
echo end >&3
sync
poweroff -f
"#;

/// The part on the simulated GPU.
const LAUNCHES: &str = r#"export LD_LIBRARY_PATH=/work/gpu/lib SIMGPU_DIR=/work/gpu/machine
sources="--power model --power nvml"
# Those on calls of GPU libraries and on their returns are kprobe programs.
programs="2 2"
TRACE
/work/energy-trace export /tmp/gpu.data --format folded --native-frames all --domain gpu -o /tmp/launches.folded
sed "s/^/launched gpu /" /tmp/launches.folded >&3
echo "launches gpu $(($(wc -l </work/gpu/machine/truth.csv) - 1))" >&3
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
    copy(&contents.guest.join("bin/busybox"), &root.join("bin/busybox"))?;
    copy(contents.product, &root.join("work/energy-trace"))?;
    copy(contents.script, &root.join("work/sorted.py"))?;
    for (name, program) in contents.programs {
        copy(program, &root.join("work").join(name))?;
    }
    if let Some(gpu) = contents.gpu {
        copy_folder(gpu, &root.join("work/gpu"), log)?;
    }
    match contents.more {
        Some(more) => add_guest_libraries(contents, more, &root, log)?,
        None => add_host_libraries(contents, &root)?,
    }
    copy(&contents.guest.join(PYTHON), &root.join(PYTHON))?;
    copy_folder(&contents.guest.join(STANDARD_LIBRARY), &root.join(STANDARD_LIBRARY), log)?;
    let init = root.join("init");
    fs::write(&init, init_script(contents))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    pack(contents.tools, &root, &folder.join("guest.cpio"), log)
}

/// The script that runs the programs.
fn init_script(contents: &Contents<'_>) -> String {
    let trace = |(name, command): &(&str, &str)| format!("trace {name} {command}\n");
    let traces: String = programs(contents.target).iter().map(trace).collect();
    let launches = contents.gpu.map(|_| LAUNCHES.replace("TRACE\n", &trace(&ON_GPU))).unwrap_or_default();
    let script = INIT.replace("RESULTS", machine::results(contents.target));
    script.replace("TRACES\n", &traces).replace("ON_GPU\n", &launches)
}

/// The host's own libraries, which the programs were linked with.
fn add_host_libraries(contents: &Contents<'_>, root: &Path) -> Result<()> {
    let engine = contents.gpu.map(gpu::engine);
    for program in [Some(contents.product), engine.as_deref()].into_iter().flatten() {
        for library in libraries_of(program)? {
            copy(&library, &root.join(library.strip_prefix("/")?))?;
        }
    }
    for file in PYTHON_LIBRARIES {
        copy(&contents.guest.join(file), &root.join(file))?;
    }
    Ok(())
}

/// The guest's libraries, the newer ones over the older, and the other Pythons.
fn add_guest_libraries(contents: &Contents<'_>, more: &More, root: &Path, log: &Path) -> Result<()> {
    let folder = Path::new("lib").join(contents.target.multiarch());
    let [oldest, newer @ ..] = more.pythons.as_slice() else { return Ok(()) };
    let roots = [oldest.0.as_path(), contents.guest]
        .into_iter()
        .chain(newer.iter().map(|(place, _)| place.as_path()));
    for place in roots {
        // Since Debian 13 all libraries are below `/usr`.
        let of_root = place.join(&folder);
        let place = if of_root.is_dir() { of_root } else { place.join("usr").join(&folder) };
        let script = "mkdir -p \"$2\" && cp -L \"$1\"/*.so.* \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(place).arg(root.join(&folder));
        run_logged(&mut command, log)?;
    }
    let (loader, at) = contents.target.loader();
    copy(&root.join(&folder).join(loader), &root.join(at).join(loader))?;
    for (place, version) in &more.pythons {
        let (python, library) = (format!("usr/bin/python{version}"), format!("usr/lib/python{version}"));
        copy(&place.join(&python), &root.join(&python))?;
        copy_folder(&place.join(&library), &root.join(&library), log)?;
    }
    let musl = PathBuf::from(format!("lib/ld-musl-{}.so.1", contents.target.arch()));
    copy(&more.musl.join(&musl), &root.join(musl))
}

/// Copies a file, what a link points to included, and makes its folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Copies a folder to a place where nothing is.
fn copy_folder(from: &Path, to: &Path, log: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder lies in a folder")?)?;
    run_logged(Command::new("cp").arg("-a").arg(from).arg(to), log)
}

/// The shared libraries of a program on this machine, the dynamic loader included.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    Ok(parse_libraries(&read_output(Command::new("ldd").arg(program))?))
}

/// Paths in the output of `ldd`.
fn parse_libraries(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// By the host's busybox among the emulator's packages.
fn pack(tools: &Path, root: &Path, archive: &Path, log: &Path) -> Result<PathBuf> {
    let script = "cd \"$1\" && find . | \"$3\" cpio -o -H newc > \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(root).arg(archive).arg(tools.join("bin/busybox"));
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
