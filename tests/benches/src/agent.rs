//! What an agent costs an idle machine or a busy one, and what another program does meanwhile, such as another exporter.
//!
//! CPU time and memory (the proportional part of what is shared, `Pss`) are those of a program and of all below it, as the kernel counts them;
//! the time of BPF programs is what the agent's page says, from the kernel's own statistics. Leaves out what the traced programs lose.

use super::figures::median;
use super::start::kib;
use super::workload::thread_times;
use anyhow::{Context as _, Result};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use xtask::command::run;
use xtask::frameworks;
use xtask::product;
use xtask::setup::Purpose;
use xtask::workspace::Workspace;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long each turn is, in seconds, after 20 s (75 with --always-on) that do not count.
    #[arg(long, default_value_t = 45)]
    seconds: u64,
    /// How often each program has its turn; medians are printed.
    #[arg(long, default_value_t = 1)]
    turns: usize,
    /// Switches, processes that wake once a second, and programs that are started, a second.
    #[arg(long, value_delimiter = ',', default_value = "300000,2000,500")]
    load: Vec<u32>,
    /// No load: what it costs a machine that does nothing.
    #[arg(long, conflicts_with = "load")]
    idle: bool,
    /// An energy-trace that is there, instead of building one; several have their turns by turns.
    #[arg(long, value_name = "FILE")]
    binary: Vec<PathBuf>,
    /// Another program that runs meanwhile, measured alike; scaphandre: that energy agent by its defaults, compiled first.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// As it is always on: windows of a minute, a spool, and its page read every 15 s.
    #[arg(long)]
    always_on: bool,
    /// Words for the agent in the place of its model of power, such as `--power nvml --gpu device` on a simulated GPU (`cargo xtask sim gpu`).
    #[arg(long, default_value = "--power model --model-watts idle=5,core=20", allow_hyphen_values = true)]
    words: String,
    /// The other program's page, which is read as often.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "beside")]
    beside_page: Option<String>,
}

/// Of the machine's CPU time, in percent, and what belongs to it.
const FIGURES: [&str; 10] = [
    "processes, %",
    "BPF programs, %",
    "memory (Pss), MiB",
    "samples a second",
    "switches a second",
    "beside: processes, %",
    "beside: memory (Pss), MiB",
    "spool, MB a day",
    "page, kB",
    "beside: page, kB",
];
/// Of one turn; what was not there is none.
type Figures = [Option<f64>; FIGURES.len()];

const WARM: Duration = Duration::from_secs(20);
/// Until the first window of a minute is on the page.
const WARM_ALWAYS_ON: Duration = Duration::from_secs(75);
/// Between two readings of a page, as Prometheus is often told.
const SCRAPED_EACH: Duration = Duration::from_secs(15);
const DAY_S: f64 = 86_400.0;
const SPOOL_OWNER: u32 = 60_700;

/// `cargo xtask bench agent`.
pub(crate) fn task(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut binaries = options.binary.clone();
    if binaries.is_empty() {
        product::build(workspace, Purpose::Build)?;
        binaries.push(workspace.binary());
    }
    let folder = tempfile::tempdir()?;
    let load = folder.path().join("busy_host");
    let source = workspace.root().join("tests/workloads/busy_host.c");
    run(Command::new("cc").args(["-O1", "-o"]).arg(&load).arg(source))?;
    let mut command = Command::new(load);
    command.args(options.load.iter().map(u32::to_string));
    let beside = match &options.beside {
        Some(program) if program == Path::new("scaphandre") => Some(scaphandre(workspace, folder.path())?),
        program => program.clone(),
    };
    let mut found = vec![Vec::new(); binaries.len()];
    for _ in 0..options.turns {
        for (binary, found) in binaries.iter().zip(&mut found) {
            let _load = if options.idle { None } else { Some(Running::start(&mut command)?) };
            found.push(turn(Command::new(binary), options, beside.as_deref())?);
        }
    }
    for (binary, found) in binaries.iter().zip(&found) {
        print(&binary.display().to_string(), found);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of a task")]
fn print(name: &str, found: &[Figures]) {
    println!("{name}");
    for (number, figure) in FIGURES.iter().enumerate() {
        let values: Vec<f64> = found.iter().filter_map(|of| of[number]).collect();
        if values.is_empty() {
            continue;
        }
        let all = values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(", ");
        println!("  {figure:<26} {:>12.3}   ({all})", median(values));
    }
}

/// A program that ends with its turn, and is told to.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("{} does not start", command.get_program().display()))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// What starts Scaphandre where the kernel has no counter: one that stands still is mounted in its place for it alone, and a list of modules, without
/// which it does not start. There it sees the processes that run already and no others.
fn scaphandre(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    const SCRIPT: &str = r#"#!/bin/sh -e
[ -n "$1" ] || exec unshare --mount "$0" mounted
cd "$(mktemp -d -p "${0%/*}")" && mkdir -p class/powercap/intel-rapl:0
echo package-0 > class/powercap/intel-rapl:0/name && echo 1 > class/powercap/intel-rapl:0/energy_uj
mount --bind class /sys/class
if [ ! -e /proc/modules ]; then
    mkdir real proc && mount --rbind /proc real && ln -s "$PWD"/real/* proc/
    : > proc/modules && mount --bind proc /proc
fi
exec SCAPHANDRE --no-header json --file /dev/null
"#;
    let program = frameworks::install_scaphandre(workspace)?.display().to_string();
    let script = folder.join("scaphandre");
    fs::write(&script, SCRIPT.replace("SCAPHANDRE", &program))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// One turn of an agent.
fn turn(mut command: Command, options: &Options, beside: Option<&Path>) -> Result<Figures> {
    let spool = tempfile::tempdir()?;
    // Nobody's but the agent's, as the documentation says.
    std::os::unix::fs::chown(spool.path(), Some(SPOOL_OWNER), Some(SPOOL_OWNER))?;
    command.args([
        "agent",
        "--listen",
        "127.0.0.1:0",
        "--window",
        if options.always_on { "60s" } else { "15s" },
    ]);
    if options.always_on {
        command.arg("--spool").arg(spool.path());
    }
    command.args(options.words.split_whitespace());
    let mut agent = Running::start(command.stderr(Stdio::piped()))?;
    let address = address(&mut agent.0)?;
    let beside = beside.map(|program| Running::start(Command::new(program).stderr(Stdio::null())));
    let beside = beside.transpose()?;
    let trees = [Some(agent.0.id()), beside.as_ref().map(|beside| beside.0.id())];
    sleep(if options.always_on { WARM_ALWAYS_ON } else { WARM });
    let (begun, before) = (Instant::now(), Counts::now(&address, trees)?);
    let stored = bytes_below(spool.path());
    let pages = wait(options, [Some(&address), options.beside_page.as_ref()])?;
    let stored = bytes_below(spool.path()) - stored;
    let (seconds, after) = (begun.elapsed().as_secs_f64(), Counts::now(&address, trees)?);
    let machine = seconds * available_parallelism()?.get() as f64;
    let part = |which: usize| 100.0 * (after.cpu_s[which] - before.cpu_s[which]) / machine;
    Ok([
        Some(part(0)),
        Some(100.0 * (after.bpf_s - before.bpf_s) / machine),
        Some(after.pss_mib[0]),
        after.rate,
        Some((after.switches - before.switches) / seconds),
        beside.as_ref().map(|_| part(1)),
        beside.map(|_| after.pss_mib[1]),
        options.always_on.then(|| stored as f64 / 1e6 * DAY_S / seconds),
        pages[0],
        pages[1],
    ])
}

/// Until a turn is over; pages are read meanwhile where they are to be, and their last lengths are given, in kB.
fn wait(options: &Options, addresses: [Option<&String>; 2]) -> Result<[Option<f64>; 2]> {
    let (begun, turn, mut pages) = (Instant::now(), Duration::from_secs(options.seconds), [None; 2]);
    while let Some(left) = turn.checked_sub(begun.elapsed()) {
        sleep(left.min(SCRAPED_EACH));
        for (of, address) in pages.iter_mut().zip(addresses).filter(|_| options.always_on) {
            *of = address.map(|address| page(address)).transpose()?.map(|page| page.len() as f64 / 1e3);
        }
    }
    Ok(pages)
}

/// The sizes of all files in a folder and below.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |data| data.len()),
    };
    entries.map(size).sum()
}

/// Where its metrics are; what it says later, such as that it samples less often, is passed on.
fn address(agent: &mut Child) -> Result<String> {
    let mut said = BufReader::new(agent.stderr.take().context("no stderr")?);
    loop {
        let mut line = String::new();
        anyhow::ensure!(said.read_line(&mut line)? > 0, "the agent ended");
        if let Some((_, rest)) = line.trim().split_once("metrics on http://") {
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
            return Ok(rest.trim_end_matches("/metrics").to_owned());
        }
    }
}

/// What has been counted so far.
struct Counts {
    cpu_s: [f64; 2],
    pss_mib: [f64; 2],
    bpf_s: f64,
    rate: Option<f64>,
    switches: f64,
}

impl Counts {
    fn now(address: &str, trees: [Option<u32>; 2]) -> Result<Self> {
        let page = page(address)?;
        let of = |name: &str| number_behind(&page, &format!("energy_trace_agent_{name} "));
        let trees = trees.map(|root| root.map_or_else(Vec::new, below));
        let sum = |of: fn(u32) -> Option<f64>| {
            trees.each_ref().map(|tree| tree.iter().filter_map(|pid| of(*pid)).sum::<f64>())
        };
        Ok(Self {
            cpu_s: sum(cpu_seconds),
            pss_mib: sum(pss_mib),
            bpf_s: of("bpf_seconds_total")?,
            // Said from the agent's first look at itself on.
            rate: of("sample_rate_hertz").ok(),
            switches: number_behind(&fs::read_to_string("/proc/stat")?, "ctxt ")?,
        })
    }
}

fn page(address: &str) -> Result<String> {
    let mut connection = TcpStream::connect(address)?;
    write!(connection, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The number of a line that begins so.
fn number_behind(text: &str, head: &str) -> Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(head));
    Ok(rest.with_context(|| format!("no line \"{head}\""))?.trim().parse()?)
}

/// A process and all below it.
fn below(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let lists: Vec<String> = lists.collect();
        found.extend(
            lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse::<u32>().ok()),
        );
        at += 1;
    }
    found
}

/// By the scheduler's account of each thread that is there.
fn cpu_seconds(pid: u32) -> Option<f64> {
    Some(thread_times(pid).values().sum::<u64>() as f64 / 1e9)
}

fn pss_mib(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(kib(line)? / 1024.0)
}
