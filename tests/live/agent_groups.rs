//! Whose CPU time is within a window of an agent: of a process that is moved from one pod to another, and of thousands that are over at once.
//!
//! Leaves out groups that are recorded alone (`session`, `--cgroup`).

use super::agent::{Agent, LONGEST_SUM_US, Pod, UIDS, crowd};
use energy_trace_tests::process::python;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Computes in one group after the other, for so many seconds of CPU time in each, and stays for a while, as an agent looks late.
const MOVES: &str = r"
import sys, time
for group, seconds in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(group + '/cgroup.procs', 'w') as procs:
        procs.write('0')
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        sum(range(1000))
    time.sleep(1.1)
";

const WINDOW: u128 = 3_000_000;
/// Of CPU time, in each pod.
const SECONDS: [f64; 2] = [0.6, 0.45];
const OF_CROWD: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334403";

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// All of it is in one window: a process was all its last group's. Thousands of processes that are over at once, from a pod's first moment on, have
/// their energy: it is the pod's, and nobody else's.
#[test]
fn each_group_has_its_part() {
    let place = tempfile::tempdir().unwrap();
    let crowd = crowd(place.path());
    let agent = Agent::with(&["--window", "3s", "--power", "model", "--model-watts", "idle=5,core=20"]);
    let pods = UIDS.map(|uid| Pod { burns: None, group: Pod::begin(uid).1 });
    let [one, other] = pods.each_ref().map(|pod| pod.group.to_str().unwrap());
    std::thread::sleep(Duration::from_micros((WINDOW - now_us() % WINDOW) as u64));
    let [first, second] = SECONDS.map(|seconds| seconds.to_string());
    let mut mover = Command::new(python());
    let mut mover = mover.args(["-c", MOVES, one, &first, other, &second]).spawn().unwrap();
    let (mut shell, group) = Pod::begin(OF_CROWD);
    // Less than the processes with which a window ends early.
    let said = shell.arg(crowd).args(["2", "8000"]).stdout(Stdio::piped()).output().unwrap();
    drop(Pod { burns: None, group });
    let crowds_us: f64 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
    assert!(mover.wait().unwrap().success());
    let ended = now_us();
    let page = agent.page_with("a window behind its end", |page| page.ends() > ended + LONGEST_SUM_US);
    let parts = [0, 1].map(|pod| page.pod(UIDS[pod]) as f64 / (20e6 * SECONDS[pod]));
    let of_crowd = page.pod(OF_CROWD) as f64 / (20.0 * crowds_us);
    println!("of what it ran in each pod they have {parts:?}, a crowd {of_crowd}");
    assert!(parts.iter().all(|part| (0.85..1.15).contains(part)), "{parts:?}: {page:#?}");
    assert!((0.9..1.1).contains(&of_crowd), "{of_crowd}: {page:#?}");
    drop(pods);
    assert_eq!(agent.end(), 0);
}
