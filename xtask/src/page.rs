//! `cargo xtask page`: the HTML report in a browser, used as a reader uses it.
//!
//! The checks are `tests/page/check.mjs`, driven through Chromium's debugging pipe by node; both come from Debian. Leaves out the page's data,
//! which unit tests of `tracer/report/src/html` look at.

use crate::apt::{self, package};
use crate::command::{find, run};
use crate::product;
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What was typed.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A recording; without one, a Python program is recorded for some seconds, which needs root.
    recording: Option<PathBuf>,
    /// Write pictures of the page, light and dark, wide and narrow, into this folder.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

/// Opens the page and checks it.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    install_browser(workspace)?;
    product::build(workspace, Purpose::Build)?;
    let folder = workspace.target().join("page");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let recording = match &options.recording {
        Some(recording) => fs::canonicalize(recording).context("cannot find the recording")?,
        None => record(workspace, folder.join("run.data"))?,
    };
    let page = folder.join("report.html");
    let export =
        ["export".as_ref(), recording.as_os_str(), "--format".as_ref(), "html".as_ref(), "-o".as_ref()];
    run(Command::new(workspace.binary()).args(export).arg(&page))?;
    let mut check = Command::new("node");
    check
        .arg(workspace.root().join("tests/page/check.mjs"))
        .arg(workspace.binary())
        .args([&recording, &page]);
    if let Some(pictures) = &options.pictures {
        fs::create_dir_all(pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
        check.arg(pictures);
    }
    run(&mut check).context("the lines above say what the page does wrong")
}

/// Installs Chromium and what drives it, where they are missing.
pub(crate) fn install_browser(workspace: &Workspace) -> Result<()> {
    if find("chromium").is_some() && find("node").is_some() {
        return Ok(());
    }
    let needed = [package("chromium", "opens the page"), package("nodejs", "drives Chromium")];
    apt::install(&needed, &workspace.log())
}

fn record(workspace: &Workspace, recording: PathBuf) -> Result<PathBuf> {
    let program = workspace.root().join("tests/workloads/epochs.py");
    let mut record = Command::new(workspace.binary());
    record.args(["record", "--ranges", "--no-svg", "-o"]).arg(&recording).arg("python3").arg(program);
    run(record.arg("2").env("PYTHONPATH", workspace.root().join("tracer/python")))?;
    Ok(recording)
}
