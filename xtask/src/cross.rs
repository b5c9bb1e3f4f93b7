//! What compiles for another processor than this machine's: Debian's rustc with a standard library for it, and Debian's gcc, which links.
//!
//! The standard library has to be of the compiler's own version: Debian has one for each of its processors, which is unpacked into the cache folder.
//! An emulator of single programs (`qemu-user`) runs what was made. Leaves out the BPF programs, which are the same compiler's on any machine.

use crate::apt::{self, package};
use crate::command::{find, read_output, run};
use crate::private_apt::{BOOKWORM, BOOKWORM_SECURITY, PrivateApt, TRIXIE};
use crate::product;
use crate::target::Target;
use crate::toolchain::{DEBIAN_PACKAGES, DEBIAN_RUSTC};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages whose unit tests the emulator runs. Those that divide energy and print it know no processor.
const UNITS: [&str; 14] = [
    "energy-trace-bpf",
    "energy-trace-counters",
    "energy-trace-cpu-time",
    "energy-trace-delegation",
    "energy-trace-foreign",
    "energy-trace-model",
    "energy-trace-names",
    "energy-trace-naming",
    "energy-trace-power",
    "energy-trace-probe",
    "energy-trace-sentences",
    "energy-trace-symbols",
    "energy-trace-system",
    "energy-trace-unwind",
];

/// Unit tests that the emulator does not run (QEMU 10), and why: the names of these contain one of those.
const NOT_EMULATED: [(&str, &[&str]); 3] = [
    (
        "as it knows no seccomp, without which a resolver refuses to parse",
        &[
            "resolver::sandbox::tests::signals_to_itself_alone",
            "resolver::worker::tests::",
            "public_names::files::tests::names_of_a_package",
            "public_names::installed::tests::packages_in_",
            "gpu::environment::tests::what_was_set_later_is_read",
            "tables::lanes::tests::",
            "tables::unwind_files::tests::unmapped_files_are_closed",
        ],
    ),
    (
        "as it has no bpf(2) and no perf_event_open(2)",
        &[
            "privileges::tests::system_calls_are_asked_for",
            "set::tests::perf_is_compared_with_powercap",
            "sources::perf::tests::reads_what_the_kernel_counts",
        ],
    ),
    ("as its statx(2) knows no mounts", &["files::later_mounts::tests::"]),
];

/// `cargo xtask cross`: any words of cargo for a processor. Programs and tests run under an emulator.
pub(crate) fn task(workspace: &Workspace, target: Target, words: &[OsString]) -> Result<()> {
    let mut cargo = workspace.cargo();
    if target == Target::of_machine() {
        return run(cargo.args(words));
    }
    let cross = Cross::install(workspace, target)?;
    install_emulator(workspace)?;
    product::build_probes_for(workspace, target)?;
    cross.apply(workspace, &mut cargo);
    cargo.args(for_emulator(words));
    run(&mut cargo)
}

/// The words, and behind those of tests which the emulator cannot run; without any, unit tests of all that it can.
fn for_emulator(words: &[OsString]) -> Vec<OsString> {
    let units = ["test", "--no-fail-fast", "--lib"].into_iter();
    let units = units.chain(UNITS.iter().flat_map(|package| ["--package", package]));
    let mut words = if words.is_empty() { units.map(OsString::from).collect() } else { words.to_vec() };
    if words[0] == "test" {
        if !words.contains(&"--".into()) {
            words.push("--".into());
        }
        for (why, tests) in NOT_EMULATED {
            eprintln!("cross: not run, {why}: {}", tests.join(", "));
            words.extend(tests.iter().flat_map(|test| ["--skip", test]).map(OsString::from));
        }
    }
    words
}

/// A compiler for another processor, installed.
#[derive(Debug)]
pub struct Cross {
    target: Target,
    /// Where rustc finds the standard libraries.
    sysroot: PathBuf,
}

impl Cross {
    /// Installs what is missing.
    pub fn install(workspace: &Workspace, target: Target) -> Result<Self> {
        let (gcc, libc) = (target.tool("gcc"), format!("libc6-dev-{}-cross", target.debian()));
        let mut wanted =
            vec![package(DEBIAN_PACKAGES[0], "compiles, in the version of its standard libraries")];
        if find(&gcc).is_none() {
            let name = format!("gcc-{}", target.multiarch());
            wanted.extend([
                package(&name, "links for the other processor"),
                package(&libc, "what is linked with"),
            ]);
        }
        apt::install(&wanted, &workspace.log())?;
        Ok(Self { target, sysroot: ensure_sysroot(workspace, target)? })
    }

    /// Has a cargo command build for the processor, and embed the BPF programs for it.
    pub fn apply(&self, workspace: &Workspace, cargo: &mut Command) {
        self.apply_without_linker(workspace, cargo);
        cargo.env("CARGO_BUILD_TARGET", self.target.triple());
        cargo.env(self.variable("LINKER"), self.target.tool("gcc"));
        cargo.env(self.variable("RUNNER"), runner(workspace, self.target).join(" "));
    }

    /// The same where something else says which target it is, and links.
    pub(crate) fn apply_without_linker(&self, workspace: &Workspace, cargo: &mut Command) {
        // By this `tracer/bpf/build.rs` is told which object to embed.
        cargo.env("ENERGY_TRACE_PROBES", workspace.probes_of(self.target).1);
        cargo.env("RUSTC", DEBIAN_RUSTC).env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTFLAGS");
        cargo.env(self.variable("RUSTFLAGS"), format!("--sysroot {}", self.sysroot.display()));
        // `cargo run` puts its own toolchain's libraries first; the other compiler must find its own.
        cargo.env_remove("LD_LIBRARY_PATH");
    }

    /// Cargo's variable for the target.
    fn variable(&self, what: &str) -> String {
        format!("CARGO_TARGET_{}_{what}", self.target.triple().replace('-', "_").to_uppercase())
    }
}

/// Fetches what runs programs of another processor: Debian 13's, as 12's lacks system calls that the product needs (`openat2`).
pub(crate) fn install_emulator(workspace: &Workspace) -> Result<()> {
    let folder = emulator(workspace);
    let apt =
        PrivateApt { folder: &folder, target: Target::of_machine(), sources: TRIXIE, log: &workspace.log() };
    apt.unpack_each_alone(&["qemu-user"], &folder.join("root"))
}

fn emulator(workspace: &Workspace) -> PathBuf {
    workspace.cross().join("emulator")
}

/// What a program of another processor is run with on this machine.
fn runner(workspace: &Workspace, target: Target) -> [String; 3] {
    let program = emulator(workspace).join("root/usr/bin").join(format!("qemu-{}", target.arch()));
    words_of(&program, target)
}

/// An emulator, and where it finds the processor's libraries.
pub(crate) fn words_of(emulator: &Path, target: Target) -> [String; 3] {
    [emulator.display().to_string(), "-L".to_owned(), format!("/usr/{}", target.multiarch())]
}

/// A command that runs a program of a processor on this machine.
pub(crate) fn command_for(workspace: &Workspace, target: Target, program: &Path) -> Command {
    if target == Target::of_machine() {
        return Command::new(program);
    }
    let [emulator, words @ ..] = runner(workspace, target);
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// The folder in which rustc finds the other processor's standard library, and this one's for what is run while building.
pub(crate) fn ensure_sysroot(workspace: &Workspace, target: Target) -> Result<PathBuf> {
    let (folder, log) = (&workspace.cross().join(target.arch()), &workspace.log());
    let version = read_output(Command::new("dpkg-query").args(["-W", "-f=${Version}", DEBIAN_PACKAGES[0]]))?;
    let sysroot = folder.join(format!("sysroot-{version}"));
    if sysroot.exists() {
        return Ok(sysroot);
    }
    eprintln!("setup: Rust's standard library {version} for {} into {}", target.triple(), folder.display());
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let root = folder.join(format!("std-{version}"));
    let library = format!("libstd-rust-web-dev={version}");
    let unpack =
        |folder: &Path, sources| PrivateApt { folder, target, sources, log }.unpack_alone(&library, &root);
    unpack(&folder.join("security"), BOOKWORM_SECURITY).or_else(|_| unpack(folder, BOOKWORM))?;
    let begun = folder.join("sysroot-begun");
    if begun.exists() {
        fs::remove_dir_all(&begun)?;
    }
    let places = begun.join("lib/rustlib");
    fs::create_dir_all(&places)?;
    let own = read_output(Command::new(DEBIAN_RUSTC).args(["--print", "target-libdir"]))?;
    let own = Path::new(&own).parent().context("a standard library lies in a folder")?.to_owned();
    symlink(own, places.join(Target::of_machine().triple()))?;
    symlink(root.join("usr/lib/rustlib").join(target.triple()), places.join(target.triple()))?;
    fs::rename(&begun, &sysroot)?;
    Ok(sysroot)
}

#[cfg(test)]
mod tests {
    use super::{Cross, for_emulator};
    use crate::target::Target;
    use crate::workspace::Workspace;
    use std::process::Command;

    /// Cargo is told the compiler, the linker and the standard library by the target's own variables, so that what is run while building stays this
    /// machine's.
    #[test]
    fn what_cargo_is_told() {
        let cross = Cross { target: Target::Aarch64, sysroot: "/s".into() };
        let mut cargo = Command::new("cargo");
        cross.apply(&Workspace::find().unwrap(), &mut cargo);
        let told = |name: &str| cargo.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
        assert_eq!(told("CARGO_BUILD_TARGET"), Some("aarch64-unknown-linux-gnu".as_ref()));
        assert_eq!(told("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS"), Some("--sysroot /s".as_ref()));
        assert_eq!(
            told("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"),
            Some("aarch64-linux-gnu-gcc".as_ref())
        );
    }

    /// Tests are told which are left out, behind what they were told; other words are as they were typed. Without any, packages' unit tests are run.
    #[test]
    fn what_is_left_out() {
        let said = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(Into::into).collect();
            for_emulator(&words).join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(said(&["build", "--release"]), "build --release");
        let tests = said(&["test", "--lib", "--", "vdso"]);
        assert!(tests.starts_with("test --lib -- vdso --skip resolver::"), "{tests}");
        assert!(said(&["test"]).starts_with("test -- --skip "));
        let units = said(&[]);
        assert!(units.starts_with("test --no-fail-fast --lib --package energy-trace-bpf"), "{units}");
        assert!(units.contains(" --package energy-trace-unwind -- --skip "), "{units}");
    }
}
