//! Memory and start: what energy-trace takes while it records a PyTorch training, and how soon it sees something.
//!
//! Memory is what the kernel says: `VmRSS` and `VmHWM` of the process, `memlock` of its BPF maps; the row tables, whose maps no descriptor
//! keeps, are what energy-trace says with `-v`. Pages of BPF maps that the process has mapped, those of the ring buffer twice
//! (kernel/bpf/ringbuf.c, v6.18), are resident too and counted once, as maps. The peak is of what was there at the same time: the kernel
//! keeps it between two looks (`clear_refs`, Documentation/filesystems/proc.rst). Leaves out other profilers.

use super::figures::spread;
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use xtask::frameworks::{self, SYSTEM_PYTHON};
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

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
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let binary = match &options.binary {
        Some(binary) => fs::canonicalize(binary).context("no such energy-trace")?,
        None => {
            product::build(workspace, Purpose::Build)?;
            frameworks::install_torch(workspace)?;
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

#[expect(clippy::print_stdout, reason = "the result of a task")]
fn print(runs: &[Figures]) {
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.keys()).collect();
    println!("{:<44} {:>9} {:>9} {:>9}", "", "median", "least", "most");
    for name in names {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(*name).copied()).collect();
        let [median, least, most] = spread(&values);
        println!("{name:<44} {median:>9.1} {least:>9.1} {most:>9.1}");
    }
}

/// Runs it to its end and looks at it meanwhile.
fn measure(mut command: Command) -> Result<Figures> {
    let began = Instant::now();
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("it does not start")?;
    let lines = child.stderr.take().map(|stderr| read_lines(stderr, began)).context("no stderr")?;
    let mut watch = Watch::default();
    let status = loop {
        while let Ok((at, line)) = lines.try_recv() {
            watch.take_line(&line, at);
        }
        watch.look(child.id());
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(LOOK);
    };
    // Its end is behind the last lines.
    while let Ok((at, line)) = lines.recv() {
        watch.take_line(&line, at);
    }
    if !status.success() {
        bail!("energy-trace ended with {status}");
    }
    let parts = ["resident memory, MiB", "BPF maps but row tables, MiB", "row tables, MiB"];
    let all = parts.iter().filter_map(|part| watch.figures.get(part)).sum();
    watch.figures.insert("in all, MiB", all);
    Ok(watch.figures)
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

/// What was seen of one run.
#[derive(Default)]
struct Watch {
    figures: Figures,
    /// Bytes of the row tables so far.
    tables: f64,
    /// Resident pages of BPF maps at the last look, in bytes.
    mapped: f64,
}

impl Watch {
    fn take_line(&mut self, line: &str, at: f64) {
        let number = |after: &str| -> Option<f64> {
            line.split_once(after)?.1.split_whitespace().next()?.parse().ok()
        };
        if let Some(ms) = number("first sample: ") {
            self.figures.insert("sampling to first sample, ms", ms);
            self.figures.insert("process start to first sample, ms", at);
            eprintln!("{}", line.trim());
        } else if let Some(bytes) = number(" takes ").filter(|_| line.contains("unwind table ")) {
            self.tables += bytes;
            self.figures.insert("row tables, MiB", self.tables / MIB);
        } else if let Some(tables) = number("unwind tables: ") {
            self.figures.insert("row tables", tables);
            self.figures.extend(number("MiB, ").map(|ms| ("sampling to all row tables, ms", ms)));
        }
    }

    /// What the kernel says of it now, and of the most since the last look.
    fn look(&mut self, pid: u32) {
        let process = format!("/proc/{pid}");
        let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        let bytes =
            |name: &str| Some(kib(status.lines().find_map(|line| line.strip_prefix(name))?)? * 1024.0);
        let (Some(peak), Some(resident)) = (bytes("VmHWM:"), bytes("VmRSS:")) else { return };
        // Where that is not to be had the peak is too high, never too low.
        let _kept = fs::write(format!("{process}/clear_refs"), "5");
        let mapped = mapped_bytes(&process);
        let maps = map_bytes(&process);
        let most = peak - mapped.max(std::mem::replace(&mut self.mapped, mapped)) + maps + self.tables;
        self.raise("in all, peak, MiB", most);
        self.raise("as the kernel counts it, with mapped BPF maps: peak, MiB", peak);
        // Once the ring buffer is gone it finds names: what it takes then shows in the peak.
        if maps * 2.0 > self.raise("BPF maps but row tables, MiB", maps) {
            let anonymous = bytes("RssAnon:").unwrap_or(0.0);
            self.figures.insert("resident memory, MiB", (resident - mapped) / MIB);
            self.figures.insert("  of it anonymous, MiB", anonymous / MIB);
            self.figures.insert("  of it files and shared, MiB", (resident - mapped - anonymous) / MIB);
        }
    }

    /// Keeps the most; gives it in bytes.
    fn raise(&mut self, name: &'static str, bytes: f64) -> f64 {
        let most = self.figures.entry(name).or_default();
        *most = most.max(bytes / MIB);
        *most * MIB
    }
}

/// The number of a line of `status` or `smaps` behind its name.
pub(crate) fn kib(rest: &str) -> Option<f64> {
    rest.split_whitespace().next()?.parse().ok()
}

/// Resident bytes of the BPF maps that a process has mapped, each as often as it has.
fn mapped_bytes(process: &str) -> f64 {
    let text = fs::read_to_string(format!("{process}/smaps")).unwrap_or_default();
    let (mut sum, mut counts) = (0.0, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Rss:") {
            sum += kib(rest).filter(|_| counts).unwrap_or(0.0) * 1024.0;
        } else if line.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
            counts = line.ends_with("anon_inode:bpf-map");
        }
    }
    sum
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
