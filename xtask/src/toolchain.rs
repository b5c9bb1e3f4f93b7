//! Finding a compiler that has `core` for `bpfel-unknown-none`.
//!
//! rustup's stable toolchains have none, so one of three roads is taken, the one that installs least first: a nightly whose sources
//! are already here, Debian's compiler with its prebuilt `core`, a nightly that rustup fetches.

use crate::apt;
use crate::command::{find, read_output};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Debian's compiler and its `core` for BPF.
pub(crate) const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];
pub(crate) const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The road to the BPF compiler on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// A rustup nightly whose `rust-src` is installed; `core` is built with the programs.
    Nightly(String),
    /// Debian's compiler, installed or to be installed.
    Debian,
    /// rustup can fetch a nightly with `rust-src`.
    AddNightly,
}

/// What decides between the roads.
#[derive(Debug, Default)]
struct Facts {
    nightly_with_source: Option<String>,
    debian_compiler: bool,
    debian_packages: bool,
    rustup: bool,
}

/// Looks at this machine and picks the road. Fetches apt's package lists when they do not know the packages.
pub(crate) fn find_road(log: &Path) -> Result<Road> {
    let nightly_with_source = find_nightly_with_source();
    let debian_compiler = has_debian_compiler();
    let decided = nightly_with_source.is_some() || debian_compiler;
    let facts = Facts {
        debian_packages: !decided && apt::can_install(&DEBIAN_PACKAGES, log),
        nightly_with_source,
        debian_compiler,
        rustup: find("rustup").is_some(),
    };
    choose(facts).context(NO_ROAD)
}

const NO_ROAD: &str = "no compiler for BPF programs can be had here: they need `core` for bpfel-unknown-none. Any of these will do:
    rustup toolchain install nightly --profile minimal --component rust-src
    apt-get update && apt-get install --no-install-recommends rustc-web libstd-rust-web-dev-bpf llvm-22-dev     (as root, Debian 12)
Then run the same task again.";

fn choose(facts: Facts) -> Option<Road> {
    match facts {
        Facts { nightly_with_source: Some(name), .. } => Some(Road::Nightly(name)),
        Facts { debian_compiler: true, .. } | Facts { debian_packages: true, .. } => Some(Road::Debian),
        Facts { rustup: true, .. } => Some(Road::AddNightly),
        _ => None,
    }
}

/// The first nightly of rustup that has the sources of `core`.
pub(crate) fn find_nightly_with_source() -> Option<String> {
    let list = read_output(Command::new(find("rustup")?).args(["toolchain", "list"])).ok()?;
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("nightly"));
    names.map(str::to_owned).find(|name| {
        sysroot(&mut nightly_rustc(name))
            .is_some_and(|root| root.join("lib/rustlib/src/rust/library/core").is_dir())
    })
}

/// Whether Debian's compiler is here, with `core` for BPF.
pub(crate) fn has_debian_compiler() -> bool {
    let core = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libcore-");
    sysroot(&mut Command::new(DEBIAN_RUSTC))
        .and_then(|root| fs::read_dir(root.join("lib/rustlib/bpfel-unknown-none/lib")).ok())
        .is_some_and(|entries| entries.flatten().any(core))
}

fn sysroot(rustc: &mut Command) -> Option<std::path::PathBuf> {
    read_output(rustc.args(["--print", "sysroot"])).ok().map(Into::into)
}

fn nightly_rustc(toolchain: &str) -> Command {
    let mut rustc = Command::new("rustup");
    rustc.args(["run", toolchain, "rustc"]);
    rustc
}

/// A compiler for BPF programs that is installed.
#[derive(Debug)]
pub(crate) struct Compiler {
    nightly: Option<String>,
    version: String,
    llvm: u32,
}

impl Compiler {
    /// The compiler at the end of `road`, which setup has walked.
    pub(crate) fn on(road: &Road) -> Result<Self> {
        let nightly = match road {
            Road::Nightly(name) => Some(name.clone()),
            Road::Debian => None,
            Road::AddNightly => {
                Some(find_nightly_with_source().context("rustup installed no nightly with rust-src")?)
            }
        };
        if nightly.is_none() && !has_debian_compiler() {
            bail!(
                "{DEBIAN_RUSTC} has no `core` for bpfel-unknown-none, although {} are installed",
                DEBIAN_PACKAGES.join(" and ")
            );
        }
        let mut rustc = nightly.as_deref().map_or_else(|| Command::new(DEBIAN_RUSTC), nightly_rustc);
        let verbose = read_output(rustc.arg("-vV"))?;
        let llvm = parse_llvm_major(&verbose)
            .with_context(|| format!("rustc does not say its LLVM version:\n{verbose}"))?;
        let version = verbose.lines().next().unwrap_or_default().to_owned();
        Ok(Self { nightly, version, llvm })
    }

    /// The major version of its LLVM; a linker with an older one cannot read what it writes.
    pub(crate) fn llvm(&self) -> u32 {
        self.llvm
    }

    /// What `rustc --version` says.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// It itself.
    pub(crate) fn rustc(&self) -> Command {
        let mut rustc = self.nightly.as_deref().map_or_else(|| Command::new(DEBIAN_RUSTC), nightly_rustc);
        rustc.env("RUSTC_BOOTSTRAP", "1").env_remove("LD_LIBRARY_PATH");
        rustc
    }

    /// Makes `cargo` a command that compiles with this compiler; the subcommand is already among its arguments.
    pub(crate) fn apply(&self, cargo: Command) -> Command {
        let Some(toolchain) = &self.nightly else {
            let mut cargo = cargo;
            cargo.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTUP_TOOLCHAIN");
            return cargo;
        };
        let mut rustup = Command::new("rustup");
        rustup
            .args(["run", toolchain, "cargo"])
            .args(cargo.get_args())
            .args(["-Z", "build-std=core"])
            .env_remove("RUSTC");
        for (name, value) in cargo.get_envs() {
            match value {
                Some(value) => rustup.env(name, value),
                None => rustup.env_remove(name),
            };
        }
        if let Some(folder) = cargo.get_current_dir() {
            rustup.current_dir(folder);
        }
        rustup
    }
}

/// The major version in the line `LLVM version: 22.1.8` of `rustc -vV`.
fn parse_llvm_major(verbose: &str) -> Option<u32> {
    verbose.lines().find_map(|line| line.strip_prefix("LLVM version: "))?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Compiler, Facts, Road, choose, parse_llvm_major};
    use std::process::Command;

    /// The road that installs least wins, and a machine with nothing has none.
    #[test]
    fn the_road_that_installs_least_wins() {
        let all = || Facts {
            nightly_with_source: Some("nightly-x".into()),
            debian_compiler: true,
            debian_packages: true,
            rustup: true,
        };
        assert_eq!(choose(all()), Some(Road::Nightly("nightly-x".into())));
        assert_eq!(choose(Facts { nightly_with_source: None, ..all() }), Some(Road::Debian));
        assert_eq!(
            choose(Facts { debian_packages: true, rustup: true, ..Facts::default() }),
            Some(Road::Debian)
        );
        assert_eq!(choose(Facts { rustup: true, ..Facts::default() }), Some(Road::AddNightly));
        assert_eq!(choose(Facts::default()), None);
    }

    /// The LLVM version is read from what rustc prints, and not guessed where it prints none.
    #[test]
    fn llvm_comes_from_rustc() {
        assert_eq!(parse_llvm_major("rustc 1.96.0\nrelease: 1.96.0\nLLVM version: 22.1.8\n"), Some(22));
        assert_eq!(parse_llvm_major("rustc 1.96.0\n"), None);
    }

    /// On a nightly the same cargo command goes through rustup and builds `core`, with its environment kept.
    #[test]
    fn a_nightly_builds_core_itself() {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release"]).env("CARGO_X", "1").current_dir("/tmp");
        let nightly = Compiler { nightly: Some("nightly-x".into()), version: String::new(), llvm: 22 };
        let command = nightly.apply(cargo);
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(args, ["run", "nightly-x", "cargo", "build", "--release", "-Z", "build-std=core"]);
        assert!(command.get_envs().any(|(name, value)| name == "CARGO_X" && value.is_some()));
        assert_eq!(command.get_current_dir(), Some("/tmp".as_ref()));
    }
}
