//! Where things are: the project's folder, its build outputs, and the cache folder for tools and frameworks.

use crate::cache;
use anyhow::{Context as _, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folders on this machine.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    cache: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from, and the cache folder of the user who runs it.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask/ has a parent folder")?
            .to_path_buf();
        let cache =
            cache::folder().context("no folder for tools: set HOME, XDG_CACHE_HOME or ENERGY_TRACE_CACHE")?;
        Ok(Self { root, cache })
    }

    /// The project's top folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Tools that `setup` builds: `bin/bpf-linker`.
    pub(crate) fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// Virtual environments that `setup --frameworks` makes.
    pub(crate) fn venvs(&self) -> PathBuf {
        self.cache.join("venvs")
    }

    /// Kernels and the emulator that `kernels` boots them with.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.cache.join("kernels")
    }

    /// Root folders with a bare system, in which packages are tried.
    pub(crate) fn roots(&self) -> PathBuf {
        self.cache.join("roots")
    }

    /// Packages that the oracle's regions import, a folder a version.
    pub(crate) fn oracle_packages(&self) -> PathBuf {
        self.cache.join("oracle")
    }

    /// What installers printed, kept for the case that one fails.
    pub(crate) fn log(&self) -> PathBuf {
        self.cache.join("setup.log")
    }

    /// The lock that keeps two test runs of one user apart.
    pub(crate) fn test_lock(&self) -> PathBuf {
        self.cache.join("test.lock")
    }

    /// The folder of the BPF build, apart from the rest: another compiler fills it.
    pub(crate) fn bpf_target(&self) -> PathBuf {
        self.root.join("target/bpf")
    }

    /// The BPF object that `tracer/bpf/build.rs` embeds.
    pub(crate) fn probes(&self) -> PathBuf {
        self.bpf_target().join("energy-trace-probes")
    }

    /// The lock under which the BPF object is built, where `tracer/bpf/build.rs` looks for it.
    pub(crate) fn probes_lock(&self) -> PathBuf {
        self.bpf_target().join("building.lock")
    }

    /// The product's binary after a release build.
    pub(crate) fn binary(&self) -> PathBuf {
        self.target().join("release/energy-trace")
    }

    /// The same after a build for tests.
    pub(crate) fn quick_binary(&self) -> PathBuf {
        self.target().join("debug/energy-trace")
    }

    /// Cargo's folder of build outputs, `CARGO_TARGET_DIR` respected.
    pub(crate) fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |dir| self.root.join(dir))
    }

    /// The cargo that runs this task, in the project's folder, without what `cargo run` adds to the environment: build scripts that
    /// watch `CARGO_PKG_*` would otherwise build again whenever a task and a plain `cargo build` alternate.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        // Tests and benchmarks are root's, in root's folders, whoever typed sudo.
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            cargo.env_remove(name);
        }
        cargo
    }
}
