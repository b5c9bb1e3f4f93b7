//! An agent that lacks something, or to which something happens meanwhile: it goes on, and what is missing is missing and said.
//!
//! Leaves out outlets that nobody could use from the start (`agent.rs`).

use super::agent::{Agent, PROGRAM, Page, Pod, Started, UIDS, column, of_simulation, simulation, spool};
use energy_trace_tests::place::eventually;
use energy_trace_tests::powercap::{Options, Simulation};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// With what the unit gives it, it works: only what its BPF programs take is not known, which is said once and is no zero.
#[test]
fn with_the_capabilities_of_the_unit() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent/energy-trace-agent.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let given = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let given = given.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--no-new-privs", &format!("--bounding-set=-all,{given}"), PROGRAM]);
    let simulation = simulation();
    let agent = Agent::started_by(setpriv, &[&of_simulation(&simulation)[..], &["--window", "1s"]].concat());
    let _pod = Pod::start(&simulation, 0, 20);
    let page = agent.page_with("energy of the pod", |page| page.pod(UIDS[0]) > 0);
    assert!(!page.0.keys().any(|series| series.contains("bpf")), "{page:#?}");
    eventually("the reason", || agent.said().contains("BPF programs is not known"));
    assert_eq!(agent.said().matches("CAP_SYS_ADMIN").count(), 1, "{}", agent.said());
    assert_eq!(agent.end(), 0);
}

fn windows(page: &Page) -> i64 {
    page.own("windows") / 1_000_000
}

/// What a page says of a package: its energy, and the time of which it is known and is not.
fn of_package(page: &Page, package: u32) -> [i64; 3] {
    let domain = format!("domain=\"package-{package}\"");
    ["joules", "covered_seconds", "missing_seconds"]
        .map(|of| page.sum(&format!("energy_trace_domain_{of}_total"), &[&domain]))
}

fn of_second(page: &Page) -> [i64; 3] {
    of_package(page, 1)
}

/// A counter that fails while the agent runs, for good: sums stay right, its energy from then on is missing and no zero, and it is said.
#[test]
fn a_counter_that_fails() {
    let faults = vec!["intel-rapl:1@3:error".parse().unwrap()];
    let simulation =
        Simulation::start(&Options { sockets: 2, step_uj: 61, faults, ..Options::default() }).unwrap();
    let folder = spool();
    let agent = Agent::start(&simulation, &["--window", "1s", "--spool", folder.path().to_str().unwrap()]);
    let early = agent.page_with("energy of both", |page| of_second(page)[0] > 0);
    let failed = agent.page_with("a window behind it", |page| page.ends() > early.ends() + 5_000_000);
    let later = agent.page_with("three more", |page| windows(page) > windows(&failed) + 2);
    let ([_, before, missing], [energy, covered, later_missing]) = (of_second(&failed), of_second(&later));
    println!("{energy} µJ in {covered} µs, missing {missing} and {later_missing} µs");
    assert!(covered == before && covered < 4_000_000, "{later:#?}");
    assert!(energy == of_second(&failed)[0] && later_missing > missing + 2_000_000, "{later:#?}");
    assert!(of_package(&later, 0)[0] > of_package(&failed, 0)[0], "{later:#?}");
    assert_eq!(agent.end(), 0);
    let [rows, known] = ["window_ns", "measured_uj"].map(|of| column(folder.path(), "ledger", of).len());
    println!("{known} of {rows} rows are of what was read");
    assert!(known + 3 <= rows && known > rows / 2, "{known} of {rows}");
}

/// A disk that goes with its test.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    fn mount(&self, flags: MsFlags) {
        let options = "size=256k,mode=750,uid=60700,gid=60700";
        mount(Some("none"), self.0, Some("tmpfs"), flags, Some(options)).unwrap();
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// A spool on a disk of its own that fills up, and cannot be written for a while: the agent goes on, and says once what it loses; its tables tell
/// what was removed. The page has the time of the agent's BPF programs.
#[test]
fn a_spool_on_a_small_disk() {
    let (simulation, folder) = (simulation(), spool());
    let disk = Disk(folder.path());
    disk.mount(MsFlags::empty());
    let agent = Agent::start(&simulation, &["--window", "1s", "--spool", folder.path().to_str().unwrap()]);
    let of = |page: &Page, outcome: &str| page.sum("energy_trace_agent_spool_windows_total", &[outcome]);
    let full = agent.page_with("the oldest removed", |page| of(page, "removed") > 2_000_000);
    assert_eq!(of(&full, "lost"), 0, "{full:#?}");
    disk.mount(MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY);
    let lost = agent.page_with("windows lost", |page| of(page, "lost") > 2_000_000);
    disk.mount(MsFlags::MS_REMOUNT);
    agent.page_with("windows again", |page| of(page, "written") > of(&lost, "written") + 2_000_000);
    // The second look at what its programs take is after ten seconds.
    agent.page_with("the time of its BPF programs", |page| page.own("bpf_seconds") > 0);
    assert_eq!(agent.said().matches("cannot write to the spool").count(), 1, "{}", agent.said());
    assert_eq!(agent.end(), 0);
    let told = column(folder.path(), "ledger", "removed_windows");
    assert!(told.iter().any(|removed| *removed > 0), "{told:?}");
}

/// With `-q` nothing is said of what goes well, at the beginning and at the end.
#[test]
fn quiet() {
    // Nobody else has this port while nothing listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ["agent", "-q", "--power", "model", "--listen", &address.to_string()];
    let agent = Command::new(PROGRAM).args(options).stderr(Stdio::piped()).spawn().unwrap();
    let mut agent = Started(agent);
    eventually("the listener", || TcpStream::connect(address).is_ok());
    // It listens from its set-up on; with an answer it has begun.
    let mut page = TcpStream::connect(address).unwrap();
    page.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    page.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    let mut said = String::new();
    agent.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((agent.0.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

/// A spool that its owner may not write to, or that is the system's, is refused at the start, with a folder that can be made.
#[test]
fn spools_that_take_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(60_700), Some(60_700)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let place = folder.path().to_str().unwrap();
    for (spool, code, words) in
        [(place, 125, "as user 60700: "), ("/proc", 2, " /var/lib/energy-trace/spool")]
    {
        let options = ["agent", "--power", "none", "--listen", "127.0.0.1:0", "--spool", spool];
        let output = Command::new(PROGRAM).args(options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && said.contains(words), "{said}");
    }
}
