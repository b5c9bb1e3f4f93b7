//! `cargo xtask consumers`: each export opened by a program that people open it with, and its energy compared with the report's.
//!
//! Go's pprof and Chromium come from Debian, speedscope from npm, OpenTelemetry's messages and DuckDB from PyPI, all announced and put into
//! the cache folder. Leaves out the Firefox Profiler and Perfetto, which no registry has as something that runs: of these exports the JSON is
//! read and added up. Not part of `cargo xtask test`: what it fetches is a gigabyte.

use crate::apt::{self, package};
use crate::command::{find, read_output, run, run_logged};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that were looked at.
const PYTHON: [&str; 2] = ["opentelemetry-proto==1.45.2", "duckdb==2.0.0"];
const SPEEDSCOPE: &str = "speedscope@1.25.0";

/// Which recording, and which program.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A recording with energy; without one, a Python loop is recorded (needs root).
    recording: Option<PathBuf>,
    /// The energy-trace to ask; target/release/energy-trace if not given.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// What all checks need.
struct Consumers {
    program: PathBuf,
    recording: PathBuf,
    folder: PathBuf,
    /// Microjoules of the program, by the report.
    target_uj: i64,
}

pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let cache = install(workspace)?;
    let program = options.program.clone().unwrap_or_else(|| workspace.binary());
    let folder = tempfile::tempdir()?;
    let recording = match &options.recording {
        Some(recording) => recording.clone(),
        None => record_loop(&program, folder.path())?,
    };
    let target_uj = target(&program, &recording)?;
    if target_uj == 0 {
        bail!("{} has no energy to compare", recording.display());
    }
    let consumers = Consumers { program, recording, folder: folder.path().to_owned(), target_uj };
    consumers.pprof()?;
    consumers.speedscope(&cache)?;
    consumers.in_python(&cache, workspace)?;
    eprintln!("each export holds the report's {target_uj} microjoules");
    Ok(())
}

/// Fetches what is missing.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let log = workspace.log();
    let wanted = [
        ("go", "golang-go", "go tool pprof"),
        ("chromium", "chromium", "the browser that speedscope runs in"),
        ("npm", "npm", "fetches speedscope"),
    ];
    let missing = wanted.iter().filter(|(program, ..)| find(program).is_none());
    let packages: Vec<_> = missing.map(|(_, name, why)| package(name, why)).collect();
    apt::install(&packages, &log)?;
    let cache = workspace.venvs().join("consumers");
    if !cache.join("bin/python").exists() {
        eprintln!("consumers: {} into {}", PYTHON.join(", "), cache.display());
        run_logged(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&cache), &log)?;
        run_logged(Command::new(cache.join("bin/pip")).arg("install").args(PYTHON), &log)?;
    }
    if !cache.join("node_modules/speedscope").exists() {
        eprintln!("consumers: {SPEEDSCOPE} from npm into {}", cache.display());
        run_logged(
            Command::new("npm")
                .arg("install")
                .arg("--ignore-scripts")
                .arg("--prefix")
                .arg(&cache)
                .arg(SPEEDSCOPE),
            &log,
        )?;
    }
    Ok(cache)
}

/// A recording of a Python loop, with energy by the model.
pub(crate) fn record_loop(program: &Path, folder: &Path) -> Result<PathBuf> {
    let recording = folder.join("loop.data");
    let code = "sum(i * i for i in range(6_000_000))";
    let mut command = Command::new(program);
    command.args(["-q", "--no-svg", "--power", "model", "-o"]).arg(&recording);
    run(command.args(["--", "/usr/bin/python3", "-c", code]))?;
    Ok(recording)
}

/// What the program was charged with, of the classes that add up.
fn target(program: &Path, recording: &Path) -> Result<i64> {
    let text = read_output(Command::new(program).arg("report").arg(recording).args(["--format", "json"]))?;
    let report: Value = serde_json::from_str(&text).context("the report is no JSON")?;
    let ledger = report["ledger"].as_array().context("no ledger")?;
    let adds_up = |row: &&Value| ["package", "dram", "gpu"].iter().any(|class| row["class"] == *class);
    Ok(ledger.iter().filter(adds_up).filter_map(|row| row["target_uj"].as_i64()).sum())
}

impl Consumers {
    fn export(&self, format: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("out.{format}"));
        let mut command = Command::new(&self.program);
        command.arg("export").arg(&self.recording).args(["--format", format, "-o"]).arg(&path);
        run(&mut command)?;
        Ok(path)
    }

    fn check(&self, what: &str, found: i64) -> Result<()> {
        if found != self.target_uj {
            bail!("{what}: {found} microjoules, and the report has {}", self.target_uj);
        }
        eprintln!("{what}: {found} microjoules");
        Ok(())
    }

    /// `go tool pprof -raw` prints each sample's values before a colon.
    fn pprof(&self) -> Result<()> {
        let path = self.export("pprof")?;
        let raw = read_output(
            Command::new("go").args(["tool", "pprof", "-raw", "-output=/dev/stdout"]).arg(&path),
        )?;
        let samples = raw.lines().skip_while(|line| *line != "Samples:").skip(2);
        let samples = samples.take_while(|line| *line != "Locations");
        let first = |line: &str| line.split_once(':')?.0.split_whitespace().next()?.parse::<i64>().ok();
        self.check("go tool pprof", samples.filter_map(first).sum())?;
        let top = read_output(Command::new("go").args(["tool", "pprof", "-top", "-nodecount=3"]).arg(&path))?;
        if !top.contains("Type: energy") {
            bail!("pprof does not show energy first:\n{top}");
        }
        Ok(())
    }

    /// The page's title is the profile's once it is drawn; what it holds is asked in Python.
    fn speedscope(&self, cache: &Path) -> Result<()> {
        let path = self.export("speedscope")?;
        let script = self.folder.join("load.js");
        let text = serde_json::to_string(&fs::read_to_string(path)?)?;
        let load = format!("speedscope.loadFileFromBase64('x', btoa(unescape(encodeURIComponent({text}))))");
        fs::write(&script, load)?;
        let page = cache.join("node_modules/speedscope/dist/release/index.html");
        let url = format!("file://{}#localProfilePath={}", page.display(), script.display());
        let mut command = Command::new("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]);
        let page = read_output(command.args(["--dump-dom", &url]))?;
        let title = page.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
        let title = title.map_or("", |(title, _)| title);
        if !title.ends_with(" - speedscope") {
            bail!("speedscope did not open its export; its title is {title:?}");
        }
        eprintln!("speedscope: opened {title:?}");
        Ok(())
    }

    /// Sums of the formats that Python reads; the script prints a name and microjoules a line.
    fn in_python(&self, cache: &Path, workspace: &Workspace) -> Result<()> {
        let mut command = Command::new(cache.join("bin/python"));
        command.arg(workspace.root().join("tests/consumers.py"));
        for format in ["otlp", "json", "speedscope", "firefox", "chrome", "parquet", "parquet-readings"] {
            command.arg(self.export(format)?);
        }
        let sums = read_output(&mut command)?;
        for (what, found) in sums.lines().filter_map(|line| line.rsplit_once(' ')) {
            self.check(what, found.parse().with_context(|| format!("{what} says {found}"))?)?;
        }
        Ok(())
    }
}
