//! `cargo xtask python`: the Python package as users have it, on every interpreter, in a real Jupyter, whose page Chromium shows, and in pytest.
//!
//! The checks are `tests/python`. What they import comes from PyPI, into the cache folder, where `xtask/pythons` puts interpreters too. Leaves
//! out the wheel itself (`package --check`) and what needs none of that (`tests/offline/python.rs`).

use crate::apt::{self, package};
use crate::command::{find, run};
use crate::frameworks;
use crate::package::python::lay_out;
use crate::page::install_browser;
use crate::product;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that were looked at, beside what they bring.
const PACKAGES: [&str; 12] = [
    "ipykernel==7.4.0",
    "mypy==2.4.1",
    "nbclient==0.11.0",
    "nbconvert==7.17.2",
    "nbformat==5.11.1",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pandas-stubs==3.1.0.261029",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
];

/// What was typed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The energy-trace to use; target/release/energy-trace if not given.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Write a picture of a notebook into this folder; into target/jupyter if not given.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

/// Tries everything.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = product::given_or_built(workspace, options.program.as_deref())?;
    install_browser(workspace)?;
    if find("sudo").is_none() {
        apt::install(&[package("sudo", "records for a user without rights")], &workspace.log())?;
    }
    if !workspace.pythons().join("debian-sid-3.15").exists() {
        run(&mut Command::new(workspace.root().join("xtask/pythons"))).context("no newer interpreters")?;
    }
    let simulator = product::powercap_sim(workspace)?;
    let site = workspace.target().join("python");
    install(workspace, &site)?;
    let mut check = Command::new(frameworks::environment_with(workspace, "python", &PACKAGES)?);
    check.arg(workspace.root().join("tests/python")).env("PYTHONPATH", &site).env("ENERGY_TRACE", program);
    check.env("POWERCAP_SIM", simulator);
    let pictures = options.pictures.clone().unwrap_or_else(|| workspace.target().join("jupyter"));
    fs::create_dir_all(&pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
    check.env("PICTURES", fs::canonicalize(pictures)?);
    run(&mut check).context("the lines above say what is wrong")
}

/// The package as pip would leave it, in a folder of its own.
fn install(workspace: &Workspace, site: &Path) -> Result<()> {
    if site.exists() {
        fs::remove_dir_all(site)?; // modules of an earlier version
    }
    let version = env!("CARGO_PKG_VERSION");
    let info = site.join(format!("energy_trace-{version}.dist-info"));
    lay_out(workspace, site, &info)?;
    let metadata = format!("Metadata-Version: 2.4\nName: energy-trace\nVersion: {version}\n");
    Ok(fs::write(info.join("METADATA"), metadata)?)
}
