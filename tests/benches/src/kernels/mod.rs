//! Other kernels under an emulator: the product as it is built here must load, sample and unwind there.
//!
//! QEMU's TCG boots Debian's kernels with an initramfs that holds energy-trace, a native and a Python program, and one that launches work on
//! the simulated GPU of `tests/simgpu`; what was recorded of them comes back over a serial port and is judged here. It needs no KVM and no root, and takes a minute or two a kernel. Nothing is timed: an
//! emulated processor says nothing about cost.

#![expect(clippy::print_stdout, reason = "one line a kernel is the result")]

mod gpu;
mod initramfs;
mod machine;
mod packages;
mod verdict;

use crate::chain;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// The series that Debian 12 has: its own and that of its backports.
const SERIES: [&str; 2] = ["6.1.", "6.12."];
/// What runs in the guest: a name and the command. `verdict` knows which frames must be there.
const PROGRAMS: [(&str, &str); 2] =
    [("native", "/work/chain 40 8"), ("python", "/usr/bin/python3.11 /work/sorted.py 16")];
/// The same on the simulated GPU.
const ON_GPU: (&str, &str) = ("gpu", "/work/gpu/gpu_mix 8");

/// How to run them.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Series of kernels, such as 6.1; without any, those of Debian 12 and its backports.
    series: Vec<String>,
    /// Try this build of energy-trace instead.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// `cargo xtask kernels`. An error if a kernel fails.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let folder = workspace.kernels();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let given: Vec<String> =
        options.series.iter().map(|series| format!("{}.", series.trim_end_matches('.'))).collect();
    let series: Vec<&str> =
        if given.is_empty() { SERIES.to_vec() } else { given.iter().map(String::as_str).collect() };
    let unpacked = packages::fetch(&folder, &series, &workspace.log())?;
    if options.binary.is_none() {
        product::build(workspace, Purpose::Build)?;
    }
    let product = options.binary.clone().unwrap_or_else(|| workspace.binary());
    let chain = chain::build(&workspace.target().join("workloads"))?;
    let gpu = folder.join("gpu");
    gpu::build(workspace, &gpu)?;
    let contents = initramfs::Contents {
        product: &product,
        chain: &chain.program,
        script: &workspace.root().join("tests/workloads/sorted.py"),
        tools: &unpacked.tools,
        gpu: &gpu,
    };
    let guest = initramfs::build(&folder, &contents, &workspace.log())?;
    let mut failed = 0;
    for kernel in &unpacked.kernels {
        failed += usize::from(!try_kernel(&unpacked.tools, kernel, &guest, &folder));
    }
    ensure!(failed == 0, "{failed} of {} kernels failed", unpacked.kernels.len());
    Ok(())
}

/// Boots one kernel and prints its line; whether it passed.
fn try_kernel(tools: &Path, kernel: &Path, guest: &Path, folder: &Path) -> bool {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("kernels: booting {name} (console in {})", folder.join("console.txt").display());
    let judged = machine::boot(tools, kernel, guest, folder).and_then(|said| verdict::uncertainties(&said));
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
