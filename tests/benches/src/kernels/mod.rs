//! Other kernels under an emulator: the product as it is built here must load, sample and unwind there.
//!
//! QEMU's TCG boots Debian's kernels with an initramfs that holds energy-trace, native, Python and Go programs, and one that launches work on the
//! simulated GPU of `tests/simgpu`; what was recorded of them comes back over a serial port and is judged here. It needs no KVM and no root, and
//! takes a minute or two a kernel, Arm's five. Nothing is timed: an emulated processor says nothing about cost.

#![expect(clippy::print_stdout, reason = "one line a kernel is the result")]

mod gpu;
mod initramfs;
mod machine;
mod packages;
mod programs;
mod verdict;

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::product;
use xtask::target::Target;
use xtask::workspace::Workspace;

/// The series that Debian 12 has: its own and that of its backports.
const SERIES: [&str; 2] = ["6.1.", "6.12."];
/// What runs in the guest: a name and the command. `verdict` knows which frames must be there.
const PROGRAMS: [(&str, &str); 8] = [
    ("native", "/work/chain 40 8"),
    ("python", "/usr/bin/python3.11 /work/sorted.py 16"),
    ("signed", "/work/signed 40 8"),
    ("python-9", "/usr/bin/python3.9 /work/sorted.py 16"),
    ("python-13", "/usr/bin/python3.13 /work/sorted.py 16"),
    ("python-14", "/usr/bin/python3.14 /work/sorted.py 16"),
    ("go", "/work/go 8"),
    ("musl", "/work/musl 40 8"),
];

/// Those for a processor. Of the others `signed` signs return addresses, as Debian 13's Python does and what is newer.
const fn programs(target: Target) -> &'static [(&'static str, &'static str)] {
    match target {
        Target::X86_64 => PROGRAMS.split_at(2).0,
        Target::Aarch64 => &PROGRAMS,
    }
}

/// The same on the simulated GPU.
const ON_GPU: (&str, &str) = ("gpu", "/work/gpu/gpu_mix 8");

/// How to run them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Series of kernels, such as 6.1, or 16k for Arm's with pages of that size; without any, those of Debian 12 and its backports.
    series: Vec<String>,
    /// Try this build of energy-trace instead.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The processor, such as aarch64; without it this machine's.
    #[arg(long)]
    arch: Option<Target>,
}

/// `cargo xtask kernels`. An error if a kernel fails.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let target = options.arch.unwrap_or_else(Target::of_machine);
    let own = target == Target::of_machine();
    let folder = if own { workspace.kernels() } else { workspace.kernels().join(target.arch()) };
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let given: Vec<String> =
        options.series.iter().map(|series| format!("{}.", series.trim_end_matches('.'))).collect();
    let series: Vec<&str> =
        if given.is_empty() { SERIES.to_vec() } else { given.iter().map(String::as_str).collect() };
    let unpacked = packages::fetch(&folder, target, &series, &workspace.log())?;
    if options.binary.is_none() {
        product::build_for(workspace, target)?;
    }
    let product = options.binary.clone().unwrap_or_else(|| workspace.binary_of(target));
    let programs = programs::build(workspace, target, unpacked.more.as_ref())?;
    // Its libraries are assembly of x86-64.
    let gpu = own.then(|| folder.join("gpu"));
    if let Some(gpu) = &gpu {
        gpu::build(workspace, gpu)?;
    }
    let contents = initramfs::Contents {
        product: &product,
        target,
        programs: &programs,
        script: &workspace.root().join("tests/workloads/sorted.py"),
        tools: &unpacked.tools,
        guest: &unpacked.guest,
        more: unpacked.more.as_ref(),
        gpu: gpu.as_deref(),
    };
    let guest = initramfs::build(&folder, &contents, &workspace.log())?;
    let mut failed = 0;
    for kernel in &unpacked.kernels {
        failed += usize::from(!try_kernel(target, &unpacked.tools, kernel, &guest, &folder));
    }
    ensure!(failed == 0, "{failed} of {} kernels failed", unpacked.kernels.len());
    Ok(())
}

/// Boots one kernel and prints its line; whether it passed.
fn try_kernel(target: Target, tools: &Path, kernel: &Path, guest: &Path, folder: &Path) -> bool {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("kernels: booting {name} (console in {})", folder.join("console.txt").display());
    let judged = machine::boot(target, tools, kernel, guest, folder)
        .and_then(|said| verdict::uncertainties(&said, programs(target), target == Target::of_machine()));
    match judged {
        Ok(line) => {
            println!("{name}: loaded; {line}; pass");
            true
        }
        Err(error) => {
            println!("{name}: FAIL: {error:#}");
            false
        }
    }
}
