//! `cargo xtask package`: what people install, in `target/package`, and with `--check` each of it installed and used on a bare Debian 12.
//!
//! `build` makes the files, `floor` refuses those that need a newer C library than is promised, `parts` says what is inside, `tree` lays all
//! out as below `/usr`, `python` what the wheel has besides, `formats` wraps that, `check` installs it, `foreign` what is for another
//! processor. Leaves out publishing.

mod build;
mod check;
mod floor;
mod foreign;
mod formats;
mod parts;
pub(crate) mod python;
mod tree;

use crate::apt::{self, package};
use crate::command::{find, read_output};
use crate::cross;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::Result;
use formats::Release;
use parts::Parts;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also install each package in a new root folder with Debian 12, and record and report a program there; needs root. Packages for another
    /// processor are unpacked, and their program is run under an emulator.
    #[arg(long)]
    check: bool,
    /// With --check: take the packages that are in target/package.
    #[arg(long, requires = "check")]
    as_built: bool,
    /// Make packages for machines of this kind, in target/package/TARGET.
    #[arg(long)]
    target: Option<Target>,
}

/// Makes the packages, and tries them.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let out = workspace.target().join("package");
    if let Some(target) = options.target.filter(|&target| target != Target::of_machine()) {
        let out = out.join(target.triple());
        if !options.as_built {
            make(workspace, &out, target)?;
        }
        return if options.check { check_foreign(workspace, &out, target) } else { Ok(()) };
    }
    if !options.as_built {
        make(workspace, &out, Target::of_machine())?;
    }
    if options.check { check::check(workspace, &out) } else { Ok(()) }
}

fn check_foreign(workspace: &Workspace, out: &Path, target: Target) -> Result<()> {
    cross::install_emulator(workspace)?;
    foreign::check(workspace, &build::tools(workspace)?, out, target)
}

fn make(workspace: &Workspace, out: &Path, target: Target) -> Result<()> {
    install_tools(workspace)?;
    let tools = build::tools(workspace)?;
    let built = build::build(workspace, &tools, target)?;
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    let parts = Parts::find(workspace, target)?;
    let tree = out.join("work/tree");
    tree::make(workspace, &built, &parts, &tree, target)?;
    let version = env!("CARGO_PKG_VERSION");
    let release = Release {
        workspace,
        target,
        tree: &tree,
        out,
        version,
        glibc: built.glibc,
        time: time(workspace),
        tools: &tools,
    };
    let debug = out.join("work/debug");
    // Unpacked as the program's archive is, it lies beside the program: there debuggers look first.
    tree::install(&built.debug, &debug.join("bin/energy-trace.debug"), 0o644)?;
    let sbom = out.join(format!("energy-trace-{version}.cdx.json"));
    fs::write(&sbom, parts.sbom(version)?)?;
    let made = [
        release.tar(&tree, "energy-trace")?,
        release.tar(&debug, "energy-trace-debug")?,
        release.deb()?,
        release.rpm()?,
        release.wheel()?,
        probes(workspace, out, target)?,
        sbom,
    ];
    formats::write_sums(out, &made)?;
    eprintln!("package: {} crates inside, glibc {} or newer:", parts.len(), built.glibc);
    for file in made {
        let kilobytes = file.metadata()?.len().div_ceil(1000);
        eprintln!("{kilobytes:>8} kB  {}", file.display());
    }
    Ok(())
}

/// The BPF object by itself: with it `cargo install` needs no BPF compiler.
fn probes(workspace: &Workspace, out: &Path, target: Target) -> Result<PathBuf> {
    let made = out.join("energy-trace-probes.bpf.o");
    tree::install(&workspace.probes_of(target).1, &made, 0o644)?;
    Ok(made)
}

/// The formats' own tools that are missing.
fn install_tools(workspace: &Workspace) -> Result<()> {
    let wanted = [
        ("rpmbuild", "rpm", "makes the rpm"),
        ("dpkg-deb", "dpkg", "makes the deb"),
        ("objcopy", "binutils", "sets debug information aside"),
        ("python3", "python3-venv", "runs the tools from PyPI: zig, wheel"),
    ];
    let missing = wanted.iter().filter(|(program, ..)| find(program).is_none());
    let packages: Vec<_> = missing.map(|(_, name, why)| package(name, why)).collect();
    apt::install(&packages, &workspace.log())
}

/// When the source was last changed, in seconds since 1970: `SOURCE_DATE_EPOCH`, else the last commit's time, else 0.
fn time(workspace: &Workspace) -> u64 {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let committed = || {
        let mut git = Command::new("git");
        let text = read_output(git.current_dir(workspace.root()).args(["log", "-1", "--format=%ct"])).ok()?;
        text.parse().ok()
    };
    set.or_else(committed).unwrap_or(0)
}
