//! The agent on a simulated GPU that two pods share: whose launches used it, without an event for each switch.
//!
//! Pods are control groups as the kubelet names them. Leaves out CPUs' energy (`tests/live/agent.rs`).

use energy_trace_tests::gpu::{Gpu, Launch, Meter, Prologue, one_gpu};
use energy_trace_tests::process::Guard;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const UIDS: [&str; 2] = ["9a1d2e3c-0a1b-4c5d-8e9f-0011223344aa", "9a1d2e3c-0a1b-4c5d-8e9f-0011223344bb"];
/// NVML, and the simulated machine that it looks at.
const NVML: [&str; 2] = ["libnvidia-ml.so.1", "libsimgpu.so"];
const PATIENCE: Duration = Duration::from_mins(2);

/// A pod's control group, which goes with the test, as do those above it where nobody else has any.
struct Pod(PathBuf);

impl Pod {
    fn new(uid: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let mounted = |name: &&str| root.join(name).join("cgroup.procs").exists();
        let mount = ["", "unified", "pids"].into_iter().find(mounted).expect("control groups");
        let group = root.join(mount).join(format!("kubepods/burstable/pod{uid}/serve"));
        std::fs::create_dir_all(&group).unwrap();
        Self(group)
    }

    /// A server in it that launches kernels of this kind.
    fn serve(&self, gpu: &Gpu, program: &Path, tokens: &Path, kind: &str) -> Guard {
        let mut shell = gpu.command("sh");
        shell.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        shell.arg(program).args(["300", "serve"]).arg(tokens).arg(kind);
        Guard::spawn(&mut shell).unwrap()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.0.ancestors().skip(1).take(3).for_each(|above| drop(std::fs::remove_dir(above)));
    }
}

/// An agent by its defaults, and where its metrics are.
struct Agent(Child, String);

impl Agent {
    /// Of the GPU's libraries it finds NVML in this folder, and no driver.
    fn start(gpu: &Gpu, folder: &Path) -> Self {
        for library in NVML {
            std::os::unix::fs::symlink(gpu.libraries().join(library), folder.join(library)).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
        command.args(["agent", "--power", "nvml", "--window", "1s", "--listen", "127.0.0.1:0"]);
        gpu.env(&mut command).env("LD_LIBRARY_PATH", folder).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut agent = Self(command.spawn().unwrap(), String::new());
        let said = BufReader::new(agent.0.stderr.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok).inspect(|line| eprintln!("{line}"));
        let address = |line: String| Some(line.split_once("http://")?.1.strip_suffix("/metrics")?.to_owned());
        agent.1 = lines.find_map(address).expect("an address");
        std::thread::spawn(move || lines.for_each(drop));
        agent
    }

    fn page(&self) -> Page {
        let mut connection = TcpStream::connect(&self.1).unwrap();
        write!(connection, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (whole, part) = value.split_once('.').unwrap_or((value, "000000"));
            Some((series.to_owned(), format!("{whole}{}", part.get(..6)?).parse().ok()?))
        };
        answer.lines().filter(|line| line.starts_with("energy_trace_")).filter_map(sample).collect()
    }

    /// The first page of which this is so; whatever pages show, a counter's parts are the counter.
    fn page_with(&self, is_so: impl Fn(&Page) -> bool) -> Page {
        let end = Instant::now() + PATIENCE;
        loop {
            let page = self.page();
            let parts = ["workload", "ended", "ledger"].map(|family| joules(&page, family, ""));
            assert_eq!(parts.iter().sum::<i64>(), joules(&page, "domain", ""), "{page:#?}");
            if is_so(&page) {
                return page;
            }
            assert!(Instant::now() < end, "no such page: {page:#?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn end(mut self) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM)
            .unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Samples of a page, in millionths.
type Page = BTreeMap<String, i64>;

/// Microjoules of a family of the GPU's, of those series that have this label.
fn joules(page: &Page, family: &str, label: &str) -> i64 {
    let name = format!("energy_trace_{family}_joules_total{{");
    let of =
        page.iter().filter(|(series, _)| series.starts_with(&name) && series.contains("domain=\"gpu-0\""));
    of.filter(|(series, _)| series.contains(label)).map(|(_, value)| value).sum()
}

/// The end of a page's last window, in microseconds since 1970.
fn end_of(page: &Page) -> i64 {
    page.get("energy_trace_agent_window_end_timestamp_seconds").copied().unwrap_or(0)
}

/// Whether the GPU's last window was divided by learned powers: a window that tells too little of them is divided by launches, and says so.
fn is_by_power(page: &Page) -> bool {
    page.get("energy_trace_domain_by_power{domain=\"gpu-0\",class=\"gpu\"}") == Some(&1_000_000)
}

/// A server that ran before the agent and one that came later, in a pod each, in windows as short as may be; it is not told where their driver lies. In two
/// windows by power each pod has what its launches drew, and in none is what they drew nobody's. Of six windows two are by power at least.
#[test]
fn two_pods_share_a_gpu() {
    let meter = Meter::model("V100").unwrap().full_duty();
    let gpu = Gpu::new(&one_gpu(meter), Prologue::Jump).unwrap();
    let (folder, pods) = (tempfile::tempdir().unwrap(), UIDS.map(Pod::new));
    let tokens = ["a", "b"].map(|name| folder.path().join(name));
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let first = pods[0].serve(&gpu, &program, &tokens[0], "dense");
    std::thread::sleep(Duration::from_secs(1));
    let agent = Agent::start(&gpu, folder.path());
    let second = pods[1].serve(&gpu, &program, &tokens[1], "activate");
    let begun = agent.page_with(|page| UIDS.iter().all(|uid| joules(page, "workload", uid) > 0));
    let mut pages = vec![begun];
    while pages[1..].iter().filter(|page| is_by_power(page)).count() < 2 {
        let last = end_of(pages.last().unwrap());
        pages.push(agent.page_with(|page| end_of(page) > last));
        assert!(pages.len() < 7, "{:?}", pages.iter().map(is_by_power).collect::<Vec<_>>());
    }
    let launches = gpu.truth().unwrap();
    let anchor = energy_trace_system::clock::anchor();
    let time =
        |page| anchor.ktime.as_ns().cast_signed() + 1_000 * end_of(page) - anchor.unix_ns.cast_signed();
    let mut sums = [[0.0; 2]; 2];
    for window in pages.windows(2) {
        let grown =
            |family, label: &str| joules(&window[1], family, label) - joules(&window[0], family, label);
        assert_eq!(grown("ledger", "part=\"unattributed\""), 0, "{window:#?}");
        for ((uid, server), sums) in UIDS.into_iter().zip([&first, &second]).zip(&mut sums) {
            let of = time(&window[0])..time(&window[1]);
            let is_its =
                |launch: &&Launch| launch.pid == server.pid() && of.contains(&launch.start_ns.cast_signed());
            let truth: f64 = launches.iter().filter(is_its).map(|launch| launch.uj).sum();
            let (found, by) = (grown("workload", uid) as f64, is_by_power(&window[1]));
            println!("{uid}: {:.2} J, {:.2} J in truth, by power: {by}", found / 1e6, truth / 1e6);
            if by {
                *sums = [sums[0] + found, sums[1] + truth];
            }
        }
    }
    assert!(sums.iter().all(|[found, truth]| (found / truth - 1.0).abs() < 0.15), "{sums:?}");
    agent.end();
}
