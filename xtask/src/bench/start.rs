//! Memory and start: what energy-trace takes while it records a PyTorch training, and how soon it sees something.
//!
//! Memory is what the kernel says: `VmHWM` and `VmRSS` of the process, `memlock` of its BPF maps; the row tables, whose maps no descriptor
//! keeps, are what energy-trace says with `-v`. Leaves out other profilers.

use super::figures::median;
use crate::frameworks::SYSTEM_PYTHON;
use crate::product;
use crate::setup::Purpose;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long to train, in seconds
    #[arg(default_value_t = 15)]
    seconds: u32,
    /// How often to measure; medians are printed
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// An energy-trace that is there, instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

const LOOK: Duration = Duration::from_millis(20);
/// Flags that row tables alone have: `BPF_F_INNER_MAP | BPF_F_MMAPABLE`.
const ROW_TABLE: &str = "0x1400";
const MIB: f64 = 1048576.0;

/// Figures of one run by name, each with its unit in the name.
type Figures = BTreeMap<&'static str, f64>;

/// `cargo xtask bench start`.
pub(crate) fn chore(workspace: &Workspace, options: &Options) -> Result<()> {
    let binary = match &options.binary {
        Some(binary) => fs::canonicalize(binary).context("no such energy-trace")?,
        None => {
            product::build(workspace, Purpose::Demo)?;
            workspace.binary()
        }
    };
    let example = workspace.root().join("examples/torch_training.py");
    let mut runs: Vec<Figures> = Vec::new();
    for run in 0..options.runs {
        let folder = std::env::temp_dir().join(format!("energy-trace-start-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut command = Command::new(&binary);
        command.current_dir(&folder).env("OMP_WAIT_POLICY", "passive");
        command.args(["record", "-v", "--power", "none", "--no-svg", "--", SYSTEM_PYTHON]);
        command.arg(&example).arg(options.seconds.to_string());
        let figures = measure(command);
        fs::remove_dir_all(&folder)?;
        eprintln!("run {}: {:?}", run + 1, figures.as_ref().ok());
        runs.push(figures?);
    }
    print(&runs);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of a chore")]
fn print(runs: &[Figures]) {
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.keys()).collect();
    println!("{:<44} {:>9} {:>9} {:>9}", "", "median", "least", "most");
    for name in names {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(*name).copied()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        println!("{name:<44} {:>9.1} {least:>9.1} {most:>9.1}", median(values));
    }
}

/// Runs it to its end and looks at it meanwhile.
fn measure(mut command: Command) -> Result<Figures> {
    let began = Instant::now();
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("it does not start")?;
    let lines = child.stderr.take().map(|stderr| read_lines(stderr, began)).context("no stderr")?;
    let mut figures = Figures::new();
    let status = loop {
        look(&child, &mut figures);
        take_lines(&lines, &mut figures);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(LOOK);
    };
    // Its end is behind the last lines.
    while let Ok((at, line)) = lines.recv() {
        take_line(&line, at, &mut figures);
    }
    if !status.success() {
        bail!("energy-trace ended with {status}");
    }
    let maps = figures.get("BPF maps but row tables, MiB").copied().unwrap_or(0.0)
        + figures.get("row tables, MiB").copied().unwrap_or(0.0);
    for (all, resident) in
        [("in all, peak, MiB", "resident memory, peak, MiB"), ("in all, MiB", "resident memory, MiB")]
    {
        let resident = figures.get(resident).copied().unwrap_or(0.0);
        figures.insert(all, resident + maps);
    }
    Ok(figures)
}

/// Lines with the time when they came.
fn read_lines(stderr: impl Read + Send + 'static, began: Instant) -> Receiver<(f64, String)> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if send.send((began.elapsed().as_secs_f64() * 1e3, line)).is_err() {
                return;
            }
        }
    });
    receive
}

fn take_lines(lines: &Receiver<(f64, String)>, figures: &mut Figures) {
    while let Ok((at, line)) = lines.try_recv() {
        take_line(&line, at, figures);
    }
}

fn take_line(line: &str, at: f64, figures: &mut Figures) {
    let number =
        |after: &str| -> Option<f64> { line.split_once(after)?.1.split_whitespace().next()?.parse().ok() };
    if let Some(ms) = number("first sample: ") {
        figures.insert("sampling to first sample, ms", ms);
        figures.insert("process start to first sample, ms", at);
        eprintln!("{}", line.trim());
    } else if let Some(tables) = number("unwind tables: ") {
        figures.insert("row tables", tables);
        figures.extend(number(" in ").map(|mib| ("row tables, MiB", mib)));
        figures.extend(number("MiB, ").map(|ms| ("sampling to all row tables, ms", ms)));
    }
}

/// What the kernel says of it now.
fn look(child: &Child, figures: &mut Figures) {
    let process = format!("/proc/{}", child.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
    let kib = |name: &str| -> Option<f64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    let (Some(peak), Some(resident)) = (kib("VmHWM:"), kib("VmRSS:")) else { return };
    let (anonymous, file) = (kib("RssAnon:").unwrap_or(0.0), kib("RssFile:").unwrap_or(0.0));
    figures.insert("resident memory, peak, MiB", peak / 1024.0);
    // Once the ring buffer is gone it finds names: what it takes then shows in the peak.
    let maps = map_bytes(&process) / MIB;
    let most = figures.get("BPF maps but row tables, MiB").copied().unwrap_or(0.0);
    if maps > most / 2.0 {
        figures.insert("BPF maps but row tables, MiB", maps.max(most));
        figures.insert("resident memory, MiB", resident / 1024.0);
        figures.insert("  of it anonymous, MiB", anonymous / 1024.0);
        figures.insert(
            "  of it files and shared, MiB",
            file / 1024.0 + kib("RssShmem:").unwrap_or(0.0) / 1024.0,
        );
    }
}

/// Bytes of the BPF maps that a process has open (kernel/bpf/syscall.c, `bpf_map_show_fdinfo`), each once.
fn map_bytes(process: &str) -> f64 {
    let folder = fs::read_dir(format!("{process}/fdinfo")).into_iter().flatten().flatten();
    let mut maps: BTreeMap<u64, f64> = BTreeMap::new();
    for entry in folder {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if field("map_flags:") == Some(ROW_TABLE) {
            continue; // Open while it is being filled; counted by energy-trace itself.
        }
        if let (Some(id), Some(bytes)) = (field("map_id:"), field("memlock:")) {
            maps.extend(id.parse::<u64>().ok().zip(bytes.parse::<f64>().ok()));
        }
    }
    maps.values().sum()
}
