//! The agent on simulated power, with two pods that burn: the sum rule at each scrape, who got what, and what its processes may do.
//!
//! Pods are control groups as the kubelet names them. Leaves out what a page says (`tracer/report/src/agent_page.rs`), and a real Prometheus
//! (`agent_prometheus.rs`).

use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::gpu::{Gpu, Meter, Prologue, one_gpu};
use energy_trace_tests::place::eventually;
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process;
use nix::sys::signal::Signal;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_energy-trace");
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// CPU time is summed over a second at most: so long behind its end all of a program is on the page.
pub(super) const LONGEST_SUM_US: u128 = 1_000_000;
pub(super) const UIDS: [&str; 2] =
    ["7f1d2e3c-0a1b-4c5d-8e9f-001122334400", "7f1d2e3c-0a1b-4c5d-8e9f-001122334401"];

/// A program that ends with its test.
pub(super) struct Started(pub(super) Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent, and where its metrics are.
pub(super) struct Agent {
    process: Started,
    pub(super) address: String,
    /// What it says behind its first lines.
    said: Arc<Mutex<String>>,
}

impl Agent {
    pub(super) fn start(simulation: &Simulation, options: &[&str]) -> Self {
        Self::with(&[&of_simulation(simulation), options].concat())
    }

    pub(super) fn with(options: &[&str]) -> Self {
        Self::started_by(Command::new(PROGRAM), options)
    }

    pub(super) fn started_by(mut command: Command, options: &[&str]) -> Self {
        command.args(["agent", "--listen", "127.0.0.1:0"]).args(options);
        for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(variable);
        }
        Self::that_runs(command)
    }

    /// The command has its options.
    pub(super) fn that_runs(mut command: Command) -> Self {
        let mut process = Started(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(process.0.stderr.take().unwrap());
        let mut lines = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {lines}");
            if let Some(rest) = line.trim().strip_prefix("energy-trace: metrics on http://") {
                break rest.strip_suffix("/metrics").unwrap().to_owned();
            }
            lines += &line;
        };
        let all = Arc::new(Mutex::new(lines));
        let behind = Arc::clone(&all);
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                eprintln!("{line}");
                *behind.lock().unwrap() += &format!("{line}\n");
            }
        });
        Self { process, address, said: all }
    }

    pub(super) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn page(&self) -> Page {
        Page::parse(&self.text("application/openmetrics-text"))
    }

    pub(super) fn text(&self, accept: &str) -> String {
        get(&self.address, "/metrics", accept)
    }

    /// The first page of which this is so.
    pub(super) fn page_with(&self, what: &str, is_so: impl Fn(&Page) -> bool) -> Page {
        let end = Instant::now() + PATIENCE;
        loop {
            let page = self.page();
            page.assert_sum_rule();
            if is_so(&page) {
                return page;
            }
            assert!(Instant::now() < end, "no {what}: {page:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The recorder's process.
    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(super) fn end(mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(self.process.0.id().cast_signed());
        nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
        self.process.0.wait().unwrap().code().unwrap_or(-1)
    }
}

pub(super) fn of_simulation(simulation: &Simulation) -> [&str; 6] {
    let sysfs = simulation.sysfs().to_str().unwrap();
    ["--power", "powercap", "--idle-watts", "10", "--path.sysfs", sysfs]
}

/// Asks over HTTP.
pub(super) fn get(address: &str, path: &str, accept: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

/// A page's samples of joules in microjoules, by family and labels; others in millionths.
#[derive(Debug)]
pub(super) struct Page(pub(super) BTreeMap<String, i64>);

impl Page {
    fn parse(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "cut: {text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (whole, part) = value.split_once('.').unwrap_or((value, "000000"));
            (series.to_owned(), format!("{whole}{}", &part[..6]).parse().unwrap())
        };
        Self(lines.map(sample).collect())
    }

    /// The sum of a family's samples that have all of these labels.
    pub(super) fn sum(&self, family: &str, labels: &[&str]) -> i64 {
        let of = self.0.iter().filter(|(series, _)| {
            series.starts_with(&format!("{family}{{")) && labels.iter().all(|label| series.contains(label))
        });
        of.map(|(_, value)| value).sum()
    }

    /// A sample, in millionths, where there is one.
    pub(super) fn sample(&self, series: &str) -> Option<i64> {
        self.0.get(series).copied()
    }

    /// What it says of the agent itself.
    pub(super) fn own(&self, what: &str) -> i64 {
        self.0[&format!("energy_trace_agent_{what}_total")]
    }

    pub(super) fn pod(&self, uid: &str) -> i64 {
        self.sum("energy_trace_workload_joules_total", &[&format!("pod_uid=\"{uid}\"")])
    }

    fn assert_sum_rule(&self) {
        for domain in ["package-0", "package-1"].map(|name| format!("domain=\"{name}\"")) {
            let sum = |family: &str| self.sum(&format!("energy_trace_{family}_joules_total"), &[&domain]);
            let parts = sum("workload") + sum("ended") + sum("ledger");
            assert_eq!(parts, sum("domain"), "{domain}: {self:#?}");
        }
    }

    /// The end of the last window, in microseconds since 1970.
    pub(super) fn ends(&self) -> u128 {
        self.0["energy_trace_agent_window_end_timestamp_seconds"].unsigned_abs().into()
    }
}

/// A pod's control group with a program in it that draws so many watts on a CPU of its own; both go with the test.
pub(super) struct Pod {
    pub(super) burns: Option<Started>,
    pub(super) group: PathBuf,
}

impl Pod {
    pub(super) fn start(simulation: &Simulation, cpu: usize, watts: u32) -> Self {
        let (mut shell, group) = Self::begin(UIDS[cpu]);
        shell.args(words_of_burner(cpu, watts));
        let burns = shell.env(SOCKET_VARIABLE, simulation.socket()).spawn().unwrap();
        Self { burns: Some(Started(burns)), group }
    }

    /// The control group, and what starts a program in it.
    pub(super) fn begin(uid: &str) -> (Command, PathBuf) {
        let root = Path::new("/sys/fs/cgroup");
        let mounted = |name: &&str| root.join(name).join("cgroup.procs").exists();
        let mount = ["", "unified", "pids"].into_iter().find(mounted).expect("control groups");
        // Each has a group of its own: tests run beside each other.
        static CONTAINERS: AtomicU32 = AtomicU32::new(0);
        let container = CONTAINERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubepods/burstable/pod{uid}/web{container}");
        let group = root.join(mount).join(name);
        std::fs::create_dir_all(&group).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
        (shell, group)
    }
}

/// A program that draws so many watts on a CPU. The second CPU is its alone: the first is for all others too, this
/// test among them.
fn words_of_burner(cpu: usize, watts: u32) -> Vec<String> {
    let alone = process::alone_on(1);
    let words = if cpu == 1 { alone } else { ["taskset", "-c", "0"].map(str::to_owned).to_vec() };
    [words, program_of_burner(cpu, watts)].concat()
}

/// The same program wherever it runs.
pub(super) fn program_of_burner(cpu: usize, watts: u32) -> Vec<String> {
    let program = format!(
        "import sys; sys.path.insert(0, '{}'); from phases import Declaration; d = Declaration()\n\
         d.say('function pod_{cpu} {watts}'); d.enter('pod_{cpu}')\n\
         while True: sum(i * i for i in range(1000))",
        process::phases_script().parent().unwrap().display()
    );
    vec![process::python().display().to_string(), "-c".to_owned(), program]
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.burns = None;
        // Those who ended are still in it for a moment; what others made above it stays.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.group).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.group.ancestors().skip(1).take(3).for_each(|above| drop(std::fs::remove_dir(above)));
    }
}

pub(super) fn simulation() -> Simulation {
    Simulation::start(&Options { sockets: 2, step_uj: 61, ..Options::default() }).unwrap()
}

/// Two pods of 5 and 20 W on a CPU each: the sum rule at every scrape, no pod more than it drew, and the one that is alone on its CPU most of it; that
/// stays when they end. Of a third one children end on CPU 1, and their parent, who frees them, runs on CPU 0: it has what they drew, as their time is
/// that of the CPU where they ran, which each is a package here. The counter that is shown is the one that was read.
#[test]
fn two_pods() {
    let simulation = simulation();
    // Few samples: each of a program that was not read yet has the recorder look.
    let agent = Agent::start(&simulation, &["--window", "1s", "-F", "2"]);
    assert_privileges(&agent);
    // A busy machine reads no power in the first moments.
    agent.page_with("a first window", |page| page.own("windows") > 0);
    let mut pods = [Pod::start(&simulation, 0, 5), Pod::start(&simulation, 1, 20)];
    assert_programs_wake_nobody(agent.process.0.id());
    let children = run_children(&simulation);
    pods.iter_mut().for_each(|pod| pod.burns = None);
    let (truth, ended) = (simulation.truth(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let page =
        agent.page_with("a window behind their end", |page| page.ends() > ended.as_micros() + LONGEST_SUM_US);
    let part = |uid: &str, function: &str| page.pod(uid) as f64 / truth.functions[function].uj as f64;
    let parts = [part(UIDS[0], "pod_0"), part(UIDS[1], "pod_1"), part(OF_CHILDREN, "child")];
    println!("of what the pods drew they have {parts:?}");
    drop(children);
    // Of the sums of a second in which it began and ended others may have a part, 5 J each at most. Children end beside one that has the CPU all the
    // time; what they take before they say what they draw, of 40 ms a few, is the pod's too.
    let limits = [0.01..1.05, 0.5..1.05, 0.85..1.2];
    assert!(
        std::iter::zip(&parts, limits).all(|(part, limits)| limits.contains(part)),
        "{parts:?}\n{page:#?}"
    );
    let domains = page.sum("energy_trace_domain_joules_total", &[]);
    assert!(domains.unsigned_abs() <= simulation.truth().total_uj, "{domains} µJ");
    assert_eq!(agent.end(), 0);
}

/// Children of some milliseconds on CPU 1, whose parent waits for them on CPU 0.
const CHILDREN: &str = "
import os, time
from phases import Declaration
os.sched_setaffinity(0, {0})
for _ in range(30):
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {1})
        declared = Declaration()
        declared.say('function child 20')
        declared.enter('child')
        while time.thread_time() < 0.04: pass
        declared.leave()
        os._exit(0)
    os.waitpid(child, 0)
";
const OF_CHILDREN: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334402";

/// Until all have ended; their pod. They go before the pod that has the CPU when they wait, and draw what it draws: nobody else has a part of it.
fn run_children(simulation: &Simulation) -> Pod {
    let (mut shell, group) = Pod::begin(OF_CHILDREN);
    shell.args(["chrt", "-f", "11"]).arg(process::python()).args(["-c", CHILDREN]);
    shell.env("PYTHONPATH", process::phases_script().parent().unwrap());
    assert!(shell.env(SOCKET_VARIABLE, simulation.socket()).status().unwrap().success());
    Pod { burns: None, group }
}

/// A program that begins thousands of processes a second.
pub(super) fn crowd(place: &Path) -> PathBuf {
    let crowd = place.join("crowd");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-o"]).arg(&crowd).arg(process::workload("crowd.c"));
    assert!(cc.status().unwrap().success());
    crowd
}

/// More processes end than the probes have room for (32,768 on two CPUs), as nobody takes their time out: the page says that it was lost, and how much
/// it was. A number that a process had before has room on the same CPU, so they run on one CPU after the other, and on neither as many as there are
/// numbers by default.
#[test]
fn a_crowd_without_room() {
    let place = tempfile::tempdir().unwrap();
    let crowd = crowd(place.path());
    let agent = Agent::with(&["--window", "1s", "--power", "model"]);
    agent.page_with("a first window", |page| page.own("windows") > 0);
    let recorder = nix::unistd::Pid::from_raw(agent.process.0.id().cast_signed());
    nix::sys::signal::kill(recorder, Signal::SIGSTOP).unwrap();
    let began = Instant::now();
    for cpu in ["0", "1"] {
        let mut run = Command::new("taskset");
        run.args(["-c", cpu]).arg(&crowd).args(["600", "30000", "1000"]);
        assert!(run.stdout(Stdio::null()).status().unwrap().success());
    }
    nix::sys::signal::kill(recorder, Signal::SIGCONT).unwrap();
    let page = agent.page_with("time without room", |page| page.own("lost_cpu_seconds") > 0);
    let lost = ["events", "cpu_seconds"].map(|of| page.own(&format!("lost_{of}")));
    println!("{} turns on a CPU found no room, {} ms", lost[0] / 1_000_000, lost[1] / 1000);
    let all_us = 2 * began.elapsed().as_micros() as i64;
    assert!(lost[0] > 0 && lost[1] < all_us, "{lost:?} of {all_us} us");
    assert_eq!(agent.end(), 0);
}

/// Programs that begin and end do not wake who empties the ring buffers, however many, but where one was sampled, whose files are read then: beside
/// others' programs there is a moment without any. Woken by each it looks fifty times a second, with two sleeps a look.
fn assert_programs_wake_nobody(recorder: u32) {
    let looks = || {
        let threads = std::fs::read_dir(format!("/proc/{recorder}/task")).unwrap().flatten();
        let mut threads = threads.map(|thread| thread.file_name().into_string().unwrap());
        let line = |thread: &str, line| status_of(&format!("{recorder}/task/{thread}"), line);
        let rings = threads.find(|thread| line(thread, "Name") == "energy-rings").unwrap();
        line(&rings, "voluntary_ctxt_switches").parse::<u64>().unwrap()
    };
    eventually("a moment in which programs wake nobody", || {
        let (before, begun, mut programs) = (looks(), Instant::now(), 0);
        while begun.elapsed() < Duration::from_millis(500) {
            assert!(Command::new("/bin/true").status().unwrap().success());
            programs += 1;
        }
        let looks = looks() - before;
        println!("{looks} sleeps beside {programs} programs");
        looks < 25 && programs > 12
    });
}

/// Who serves has no privileges and is a user of his own; the socket is his alone.
fn assert_privileges(agent: &Agent) {
    let recorder = agent.process.0.id();
    let server = children_of(recorder).into_iter().find(|pid| status(*pid, "Name") == "et-finisher").unwrap();
    for (line, value) in [
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        assert_eq!(status(server, line), value, "{line}");
    }
    let uid: u32 = status(server, "Uid").split_whitespace().next().unwrap().parse().unwrap();
    assert!((60_706..61_184).contains(&uid), "{uid}");
    let port = agent.address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listens = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut listens =
        listens.filter(|of| of.len() > 9 && of[1].ends_with(&format!(":{port:04X}")) && of[3] == "0A");
    let inode = listens.next().unwrap()[9].to_owned();
    assert_eq!([recorder, server].map(|pid| has_socket(pid, &inode)), [false, true]);
}

pub(super) fn children_of(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub(super) fn status(pid: u32, line: &str) -> String {
    status_of(&pid.to_string(), line)
}

/// A line of a process's or a thread's status. `of`: its folder in `/proc`.
fn status_of(of: &str, line: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{of}/status")).unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    found.unwrap_or_default().trim().to_owned()
}

pub(super) fn has_socket(pid: u32, inode: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.any(|link| link.to_string_lossy() == format!("socket:[{inode}]"))
}

/// A spool of user 60700.
pub(super) fn spool() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o750)).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(60_700), Some(60_700)).unwrap();
    let above = std::fs::metadata(folder.path().parent().unwrap()).unwrap();
    assert!(
        above.permissions().mode() & 1 == 1,
        "nobody else finds what is in the folder for temporary files"
    );
    folder
}

/// All files of a table, by name.
pub(super) fn files(spool: &Path, table: &str) -> Vec<PathBuf> {
    let of = |folder: PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    let mut files: Vec<PathBuf> = of(spool.join(table)).into_iter().flat_map(of).collect();
    files.sort();
    files
}

/// The numbers of a column of a table, of all files.
pub(super) fn column(spool: &Path, table: &str, name: &str) -> Vec<i64> {
    cells(spool, table, name).into_iter().flatten().collect()
}

/// The same with what is missing.
fn cells(spool: &Path, table: &str, name: &str) -> Vec<Option<i64>> {
    let mut column = Vec::new();
    for file in files(spool, table) {
        let reader = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap().map(Result::unwrap) {
            let mut cells = row.get_column_iter().filter(|(known, _)| known.as_str() == name);
            column.push(cells.find_map(|(_, field)| match field {
                Field::Long(number) | Field::TimestampMicros(number) => Some(*number),
                Field::Double(number) => Some(*number as i64),
                _ => None,
            }));
        }
    }
    column
}

/// The sum of columns of a table's rows whose window began before this, in microseconds since 1970. A last window may have no reading.
fn sum(spool: &Path, table: &str, columns: &[&str], before: u128) -> i64 {
    let starts = column(spool, table, "window_start");
    let is_before = |start: &i64| u128::from(start.unsigned_abs()) < before;
    let of = |name: &&str| -> i64 {
        let cells = cells(spool, table, name).into_iter().zip(&starts);
        cells.filter_map(|(number, start)| number.filter(|_| is_before(start))).sum()
    };
    columns.iter().map(of).sum()
}

/// A collector that takes everything; how many messages came, each with its head.
fn collector() -> (String, Receiver<String>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://localhost:{}", server.local_addr().unwrap().port());
    let (heads, came) = channel();
    std::thread::spawn(move || {
        for mut connection in server.incoming().flatten() {
            let (mut head, mut byte) = (Vec::new(), [0; 1]);
            while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|read| read > 0) {
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap()];
            connection.read_exact(&mut body).unwrap();
            let _answered = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            let _ = heads.send(format!("{head}{}", body.len()));
        }
    });
    (url, came)
}

/// Twenty programs, one after the other, of some milliseconds; says what CPU time they had as the kernel counts it, in nanoseconds.
const CROWD: &str = "
import os, resource, sys
for _ in range(20):
    loop = 'i=0; while [ $i -lt 8000 ]; do i=$((i+1)); done'
    os.waitpid(os.posix_spawn(sys.argv[1], [sys.argv[1], '-c', loop], {}), 0)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int(1e9 * (used.ru_utime + used.ru_stime)))
";

/// Starts them, in a folder that is theirs.
fn start_crowd(folder: &Path) -> Child {
    let program = folder.join("et-crowd");
    std::fs::copy("/bin/sh", &program).unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", CROWD]).arg(program).stdout(Stdio::piped()).spawn().unwrap()
}

/// CPU time of programs of this name in a spool, in nanoseconds.
fn cpu_ns_of(spool: &Path, program: &str) -> i64 {
    let mut sum = 0;
    for file in files(spool, "energy") {
        let reader = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap().map(Result::unwrap) {
            let cell =
                |name: &str| row.get_column_iter().find(|(known, _)| known.as_str() == name).unwrap().1;
            if let (Field::Str(name), Field::Long(ns)) = (cell("program"), cell("cpu_ns"))
                && name == program
            {
                sum += ns;
            }
        }
    }
    sum
}

/// None is longer than it may be, the last ones too; the clock stands in each row, what was removed in one of a window.
fn assert_windows(spool: &Path, windows: usize) {
    let of = |name: &str| column(spool, "ledger", name);
    let lengths = of("window_ns");
    assert!(lengths.iter().all(|ns| *ns < 1_900_000_000), "{lengths:?}");
    let told = (of("clock_step_ns").len(), of("removed_windows"));
    assert_eq!(told, (lengths.len(), vec![0; windows]));
}

/// With a spool and a collector: what the tables hold is the counter, to the microjoule, and every window is
/// sent. Who writes is the folder's owner, without privileges, and the recorder has no file there. Programs
/// that are over before anybody looks at them have their CPU time.
#[test]
fn spool_and_collector() {
    let (simulation, folder, (url, came)) = (simulation(), spool(), collector());
    let place = folder.path().to_str().unwrap();
    let agent = Agent::start(&simulation, &["--window", "1s", "--spool", place, "--otlp", &url]);
    let pod = Pod::start(&simulation, 0, 20);
    let programs = tempfile::tempdir().unwrap();
    let crowd = start_crowd(programs.path());
    let windows = |page: &Page| page.sum("energy_trace_agent_spool_windows_total", &["written"]);
    let page = agent.page_with("two windows", |page| windows(page) >= 2_000_000 && page.pod(UIDS[0]) > 0);
    drop(pod);
    let recorder = agent.process.0.id();
    let server = children_of(recorder).into_iter().find(|pid| status(*pid, "Name") == "et-finisher").unwrap();
    assert!(
        status(server, "Uid").starts_with("60700\t")
            && status(server, "CapEff").trim_start_matches('0').is_empty()
    );
    let second = Command::new(PROGRAM)
        .args(["agent", "--power", "model", "--listen", "127.0.0.1:0", "--spool", place])
        .output()
        .unwrap();
    let crowd: i64 =
        String::from_utf8(crowd.wait_with_output().unwrap().stdout).unwrap().trim().parse().unwrap();
    let refused = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && refused.contains("another agent writes to the spool"), "{refused}");
    let said = Arc::clone(&agent.said);
    assert_eq!(agent.end(), 0);
    let written = files(folder.path(), "ledger").len();
    let last_words =
        || said.lock().unwrap().contains(&format!("{written} windows; spool: {written} written"));
    eventually("its last words", last_words);
    let owners =
        files(folder.path(), "energy").iter().map(|file| file.metadata().unwrap().uid()).collect::<Vec<_>>();
    assert!(owners.len() > 2 && owners.iter().all(|uid| *uid == 60_700), "{owners:?}");
    // Ends of windows are told apart by microseconds, and no window is shorter than half a second.
    let before = page.ends() - 250_000;
    let energy = sum(folder.path(), "energy", &["microjoules"], before);
    let parts = ["other_uj", "idle_uj", "uncore_uj", "residual_uj", "unattributed_uj"];
    let ledger = |columns: &[&str]| sum(folder.path(), "ledger", columns, before);
    let counter = page.sum("energy_trace_domain_joules_total", &[]);
    println!("counter {counter} µJ, energy {energy} µJ of it");
    assert!(energy > 0);
    assert_eq!((energy, energy + ledger(&parts)), (ledger(&["target_uj"]), ledger(&["measured_uj"])));
    assert_eq!(ledger(&["measured_uj"]), counter);
    assert_windows(folder.path(), written);
    let of_crowd = cpu_ns_of(folder.path(), "et-crowd");
    println!("{of_crowd} ns of CPU time of short programs, {crowd} by the kernel");
    // Up to its execution a program has its parent's name.
    assert!((crowd * 6 / 10..crowd * 21 / 20).contains(&of_crowd), "{of_crowd} {crowd}");
    let heads: Vec<String> = came.try_iter().collect();
    assert!(heads.len() >= 2, "{heads:?}");
    for head in heads {
        assert!(
            head.starts_with("post /v1development/profiles") && head.contains("host: localhost:"),
            "{head}"
        );
        assert!(head.contains("otlp-profiles-development-version: 1"), "{head}");
    }
}

/// A folder that cannot be written and a collector that is not there are said once each and counted, and the
/// page goes on.
#[test]
fn outlets_that_fail() {
    let (simulation, folder) = (simulation(), spool());
    let place = folder.path().to_str().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}");
    let agent = Agent::start(&simulation, &["--window", "1s", "--spool", place, "--otlp", &url]);
    // Root's from now on.
    std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).unwrap();
    agent.page_with("losses of both", |page| {
        let of =
            |family: &str, outcome: &str| page.sum(&format!("energy_trace_agent_{family}_total"), &[outcome]);
        of("spool_windows", "lost") > 2_000_000 && of("otlp_messages", "dropped") > 1_000_000
    });
    let said = agent.said();
    for words in ["cannot write to the spool", "the collector does not answer"] {
        assert_eq!(said.matches(words).count(), 1, "{said}");
    }
    assert_eq!(agent.end(), 0);
}

/// Who is in the way of its end does not hold it up for long: a process that somebody has stopped, or ended.
#[test]
fn its_process_is_stopped_or_killed() {
    let simulation = simulation();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        let agent = Agent::start(&simulation, &["--window", "1s"]);
        let server = children_of(agent.process.0.id())
            .into_iter()
            .find(|pid| status(*pid, "Name") == "et-finisher")
            .unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(server.cast_signed()), signal).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let (began, said) = (Instant::now(), agent.said.clone());
        assert_ne!(agent.end(), 0);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let is_told = || said.lock().unwrap().contains("the process that serves the metrics");
        let end = Instant::now() + PATIENCE;
        while !is_told() {
            assert!(Instant::now() < end, "{}", said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!said.lock().unwrap().contains("output files"));
    }
}

/// An address that somebody else has ends it before anything is recorded, and says what to do.
#[test]
fn an_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let agent = Command::new(PROGRAM)
        .args(["agent", "--power", "model", "--listen", &address])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&agent.stderr);
    assert!(!agent.status.success() && said.contains(&address) && said.contains("--listen"), "{said}");
}

/// A GPU that tells neither energy nor power has joules by how busy it is, which the page calls estimated.
#[test]
fn joules_by_use_are_estimated() {
    let unsupported = vec!["nvmlDeviceGetPowerUsage".to_owned()];
    let meter = Meter { counter: false, instant: false, sample_ms: 0, unsupported, ..Meter::default() };
    let mut scenario = one_gpu(meter);
    scenario.devices[0].limit_watts = Some(300.0);
    let gpu = Gpu::new(&scenario, Prologue::Jump).unwrap();
    let agent = Agent::started_by(gpu.command(PROGRAM), &["--window", "1s", "--power", "nvml"]);
    let joules = r#"domain_joules_total{domain="gpu-0",class="gpu",quality="estimated"}"#;
    eventually("an estimate", || agent.text("application/openmetrics-text").contains(joules));
    assert_eq!(agent.end(), 0);
}
