//! A real Prometheus scrapes an agent on simulated power, beside containers that `runc` makes: for `cargo xtask fleet-prometheus`.
//!
//! Leaves out what a page says (`tracer/report/src/agent_page.rs`).

use super::agent::{Agent, PATIENCE, Started, UIDS, program_of_burner, simulation};
use energy_trace_tests::declare::SOCKET_VARIABLE;
use energy_trace_tests::powercap::Simulation;
use energy_trace_tests::process;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where `cargo xtask fleet-prometheus` has put Prometheus and `runc`.
pub(super) const PROMETHEUS: &str = "ENERGY_TRACE_PROMETHEUS";
const RULE: &str = "round(1e6 * (sum by (domain) (energy_trace_workload_joules_total) + sum by (domain) (energy_trace_ended_joules_total) \
     + sum by (domain) (energy_trace_ledger_joules_total))) - round(1e6 * sum by (domain) (energy_trace_domain_joules_total))";

/// A place for a pod, and what its containers draw there.
struct Draws {
    cpu: usize,
    /// How much of the CPU it may have (CFS bandwidth, as a pod's limit): a hundred is all.
    percent: u32,
    watts: u32,
}

/// One has the CPU that is everybody's, two share the other one and draw the same while they run: 10 and 6 W.
const PLACES: [Draws; 3] = [
    Draws { cpu: 0, percent: 100, watts: 5 },
    Draws { cpu: 1, percent: 50, watts: 20 },
    Draws { cpu: 1, percent: 30, watts: 20 },
];
const PERIOD_US: u32 = 100_000;

/// A container of a pod, by `runc`, in one of the places; it goes with the test.
pub(super) struct Container<'a> {
    runc: &'a Path,
    pub(super) state: tempfile::TempDir,
    pod: &'a str,
    name: &'a str,
    process: Option<Started>,
}

impl<'a> Container<'a> {
    fn start(runc: &'a Path, simulation: &Simulation, pod: &'a str, name: &'a str, place: usize) -> Self {
        let draws = &PLACES[place];
        let mut container = Self::new(runc, pod, name);
        let root = container.state.path().join("rootfs");
        for link in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(Path::new("usr").join(link), root.join(link)).unwrap();
        }
        let places = [
            Path::new("/usr"),
            process::phases_script().parent().unwrap(),
            simulation.socket().parent().unwrap(),
        ]
        .map(|place| json!({"destination": place, "source": place, "type": "bind", "options": ["rbind"]}));
        let mounts =
            [&[json!({"destination": "/proc", "source": "proc", "type": "proc"})], &places[..]].concat();
        // Groups of the first version have no real-time share: nobody has a CPU alone.
        let words = ["taskset", "-c", &draws.cpu.to_string()].map(str::to_owned);
        let words = [&words, &program_of_burner(place, draws.watts)[..]].concat();
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": words,
                "env": ["PATH=/usr/bin:/bin", format!("{SOCKET_VARIABLE}={}", simulation.socket().display())],
                "cwd": "/",
            },
            "root": {"path": "rootfs"},
            "mounts": mounts,
            "linux": {
                "cgroupsPath": container.group(),
                // Its threads are called by the host's numbers when they declare themselves.
                "namespaces": [{"type": "mount"}],
                "resources": {"cpu": {"period": PERIOD_US, "quota": PERIOD_US * draws.percent / 100}},
            },
        });
        container.process = Some(Started(container.run(&config).stdin(Stdio::null()).spawn().unwrap()));
        container
    }

    /// One with an empty root, which nobody has started.
    pub(super) fn new(runc: &'a Path, pod: &'a str, name: &'a str) -> Self {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(state.path().join("rootfs")).unwrap();
        Self { runc, state, pod, name, process: None }
    }

    pub(super) fn group(&self) -> String {
        format!("/kubepods/burstable/pod{}/{}", self.pod, self.name)
    }

    /// What runs it; the number of its process is in the file `pid` beside its root then.
    pub(super) fn run(&self, config: &Value) -> Command {
        let bundle = self.state.path();
        std::fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        let mut run = self.command();
        run.arg("run").arg("--pid-file").arg(bundle.join("pid")).arg("--bundle").arg(bundle).arg(self.name);
        run
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.runc);
        command.arg("--root").arg(self.state.path().join("state"));
        command
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ended = self.command().args(["kill", self.name, "KILL"]).status();
            let _status = process.0.wait();
        }
        let pod = format!("kubepods/burstable/pod{}", self.pod);
        for mount in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let pod = mount.path().join(&pod);
            // What others made, or use, stays.
            pod.ancestors().take(3).for_each(|above| drop(std::fs::remove_dir(above)));
        }
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Three that run at once, and the one that takes the first one's place: it is another one then, of the same name.
const PODS: [&str; 4] =
    [UIDS[0], UIDS[1], "7f1d2e3c-0a1b-4c5d-8e9f-001122334402", "7f1d2e3c-0a1b-4c5d-8e9f-001122334403"];
const ANEW: &str = PODS[3];

/// A real Prometheus scrapes each second; over 60 scrapes, in which three containers run at once, the sum rule by PromQL is exact, and
/// `promtool check metrics` says nothing. A container ends, is started again in its pod, and in a pod that takes that one's place.
#[test]
#[ignore = "fetches Prometheus: `cargo xtask fleet-prometheus`"]
fn sum_rule() {
    let root =
        PathBuf::from(std::env::var_os(PROMETHEUS).expect("`cargo xtask fleet-prometheus` says where it is"));
    let (programs, runc) = (root.join("usr/bin"), root.join("usr/sbin/runc"));
    let simulation = simulation();
    let agent = Agent::start(&simulation, &["--window", "2s"]);
    let start = |pod, name, place| Container::start(&runc, &simulation, pod, name, place);
    let (mut first, others) =
        (start(PODS[0], "first", 0), [start(PODS[1], "half", 1), start(PODS[2], "third", 2)]);
    agent.page_with("energy of three pods", |page| PODS[..3].iter().all(|uid| page.pod(uid) > 0));
    check_by_promtool(&programs, &agent.text("text/plain"));
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&programs, folder.path(), &agent.address);
    server.wait_for_scrapes(20.0);
    first.end();
    let mut again = start(PODS[0], "again", 0);
    server.wait_for_scrapes(40.0);
    again.end();
    let anew = start(ANEW, "anew", 0);
    server.wait_for_scrapes(60.0);
    check_by_prometheus(&server);
    [anew].into_iter().chain(others).for_each(drop);
    check_pods(&agent, &simulation);
    assert_eq!(agent.end(), 0);
}

/// The sum rule, and who runs and who does not.
fn check_by_prometheus(server: &Server) {
    let worst = server.ask(&format!("max_over_time((abs({RULE}))[70s:1s])"));
    // The machine may have others.
    let ours = format!("energy_trace_workload_joules_total{{pod_uid=~\"{}\"}}", PODS.join("|"));
    let pods = server.ask(&format!("sum by (pod_uid) ({ours})"));
    println!("worst of each domain {worst:?} µJ; joules of pods {pods:?}");
    assert_eq!((worst, pods.len()), (vec![0.0, 0.0], PODS.len()));
    for (name, runs) in [("first", false), ("again", false), ("anew", true), ("half", true), ("third", true)]
    {
        let series = format!("energy_trace_workload_joules_total{{container_id=\"{name}\"}}");
        // Nobody is asked about the last windows of a container: they come some seconds later.
        let [joules, grown] = [format!("sum({series})"), format!("sum(delta({series}[10s]))")]
            .map(|question| server.ask(&question).first().copied().unwrap_or(f64::NAN));
        println!("{name}: {joules:.3} J, of which {grown:.3} in the last 10 s");
        assert!(joules > 0.0 && (grown > 0.01) == runs, "{name}: {joules} J, {grown} J");
    }
}

/// What the pods have of what they drew.
fn check_pods(agent: &Agent, simulation: &Simulation) {
    let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let page = agent.page_with("a window behind their end", |page| page.ends() > ended.as_micros());
    let truth = simulation.truth();
    let parts: Vec<f64> = [&[PODS[0], ANEW][..], &[PODS[1]], &[PODS[2]]]
        .into_iter()
        .zip(&PLACES)
        .enumerate()
        .map(|(place, (pods, draws))| {
            let uj = pods.iter().map(|pod| page.pod(pod)).sum::<i64>();
            let drew = &truth.functions[&format!("pod_{place}")];
            let part = uj as f64 / drew.uj as f64;
            let (ran, watts) = (drew.cpu_ns as f64 / 1e9, draws.watts);
            println!("pods {pods:?}: {ran:.1} s at {watts} W, {uj} µJ of {} µJ, {part:.3}", drew.uj);
            part
        })
        .collect();
    // Others run on both CPUs, draw nothing and are charged by their time, those who share a CPU with the same part of it.
    assert!(parts.iter().all(|part| (0.85..1.05).contains(part)), "beside other load? {parts:?}");
    assert!((0.9..1.1).contains(&(parts[1] / parts[2])), "{parts:?}");
}

fn check_by_promtool(programs: &Path, page: &str) {
    let mut promtool = Command::new(programs.join("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    assert!(said.status.success() && text.is_empty(), "promtool: {text}");
}

/// Prometheus, that scrapes the agent.
struct Server {
    _process: Started,
    address: String,
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    write!(connection, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

impl Server {
    fn start(programs: &Path, folder: &Path, agent: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let config = folder.join("prometheus.yml");
        let jobs = format!("[{{job_name: energy, static_configs: [{{targets: ['{agent}']}}]}}]");
        std::fs::write(&config, format!("global: {{scrape_interval: 1s}}\nscrape_configs: {jobs}\n"))
            .unwrap();
        let mut command = Command::new(programs.join("prometheus"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=error", "--web.enable-lifecycle"]);
        let process = Started(command.stdin(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + PATIENCE;
        while !get(&address, "/-/ready").is_ok_and(|answer| answer.contains(" 200 ")) {
            assert!(Instant::now() < end, "Prometheus is not ready");
            std::thread::sleep(Duration::from_millis(100));
        }
        Self { _process: process, address }
    }

    fn wait_for_scrapes(&self, scrapes: f64) {
        let count = "min(count_over_time(energy_trace_domain_joules_total[5m]))";
        let end = Instant::now() + 3 * PATIENCE;
        while self.ask(count).first().is_none_or(|found| *found < scrapes) {
            assert!(Instant::now() < end, "no {scrapes} scrapes");
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// The values of a question.
    fn ask(&self, question: &str) -> Vec<f64> {
        let quoted: String = question.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = get(&self.address, &format!("/api/v1/query?query={quoted}")).unwrap();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let found: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        let rows = found["data"]["result"].as_array().unwrap_or_else(|| panic!("{question}: {answer}"));
        rows.iter().map(|row| row["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }
}
