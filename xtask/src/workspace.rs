//! Where things are: the project's folder, its build outputs, and the cache folder for tools and frameworks.

use crate::cache;
use crate::target::Target;
use anyhow::{Context as _, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folders on this machine.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    cache: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from, and the cache folder of the user who runs it.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask/ has a parent folder")?
            .to_path_buf();
        let cache =
            cache::folder().context("no folder for tools: set HOME, XDG_CACHE_HOME or ENERGY_TRACE_CACHE")?;
        Ok(Self { root, cache })
    }

    /// The project's top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Tools that `setup` builds: `bin/bpf-linker`.
    pub fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// Virtual environments that `setup --frameworks` makes.
    pub fn venvs(&self) -> PathBuf {
        self.cache.join("venvs")
    }

    /// Kernels and the emulator that `kernels` boots them with.
    pub fn kernels(&self) -> PathBuf {
        self.cache.join("kernels")
    }

    /// Standard libraries of other processors, a folder each.
    pub fn cross(&self) -> PathBuf {
        self.cache.join("cross")
    }

    /// Interpreters that `xtask/pythons` fetches, a folder each.
    pub fn pythons(&self) -> PathBuf {
        self.cache.join("pythons")
    }

    /// Root folders with a bare system, in which packages are tried.
    pub fn roots(&self) -> PathBuf {
        self.cache.join("roots")
    }

    /// Packages that the oracle's regions import, a folder a version.
    pub fn oracle_packages(&self) -> PathBuf {
        self.cache.join("oracle")
    }

    /// What installers printed, kept for the case that one fails.
    pub fn log(&self) -> PathBuf {
        self.cache.join("setup.log")
    }

    /// The lock that keeps two test runs of one user apart.
    pub fn test_lock(&self) -> PathBuf {
        self.cache.join("test.lock")
    }

    /// The folder of the BPF build, apart from the rest: another compiler fills it.
    pub fn bpf_target(&self) -> PathBuf {
        self.root.join("target/bpf")
    }

    /// The BPF object that `tracer/bpf/build.rs` embeds.
    pub fn probes(&self) -> PathBuf {
        self.bpf_target().join("energy-trace-probes")
    }

    /// The folder of the BPF build for a processor, and the object that the product for it embeds.
    pub fn probes_of(&self, target: Target) -> (PathBuf, PathBuf) {
        if target == Target::of_machine() {
            return (self.bpf_target(), self.probes());
        }
        let folder = self.bpf_target().join(target.arch());
        let object = folder.join("energy-trace-probes");
        (folder, object)
    }

    /// The lock under which the BPF object is built, where `tracer/bpf/build.rs` looks for it.
    pub fn probes_lock(&self) -> PathBuf {
        self.bpf_target().join("building.lock")
    }

    /// The product's binary after a release build.
    pub fn binary(&self) -> PathBuf {
        self.target().join("release/energy-trace")
    }

    /// The same of another processor.
    pub fn binary_of(&self, target: Target) -> PathBuf {
        if target == Target::of_machine() {
            return self.binary();
        }
        self.target().join(target.triple()).join("release/energy-trace")
    }

    /// The same after a build for tests.
    pub fn quick_binary(&self) -> PathBuf {
        self.target().join("debug/energy-trace")
    }

    /// Cargo's folder of build outputs, `CARGO_TARGET_DIR` respected.
    pub fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |dir| self.root.join(dir))
    }

    /// The cargo that runs this task, in the project's folder, without what `cargo run` adds to the environment: build scripts that
    /// watch `CARGO_PKG_*` would otherwise build again whenever a task and a plain `cargo build` alternate.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        // Of `.ci/run`, for xtask itself.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        // Tests and benchmarks are root's, in root's folders, whoever typed sudo.
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            cargo.env_remove(name);
        }
        cargo
    }
}
