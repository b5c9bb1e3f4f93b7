//! A process that is moved from one pod to another within a window of an agent: each has what it ran there.
//!
//! Leaves out groups that are recorded alone (`session`, `--cgroup`).

use super::agent::{Agent, LONGEST_SUM_US, Pod, UIDS};
use energy_trace_tests::process::python;
use std::process::Command;
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
    time.sleep(1.5)
";

const WINDOW: u128 = 5_000_000;
/// Of CPU time, in each pod.
const SECONDS: [f64; 2] = [1.2, 0.9];

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// All of it is in one window: a process was all its last group's.
#[test]
fn each_group_has_its_part() {
    let agent = Agent::with(&["--window", "5s", "--power", "model", "--model-watts", "idle=5,core=20"]);
    let pods = [0, 1].map(|pod| Pod { burns: None, group: Pod::begin(pod).1 });
    let [one, other] = [0, 1].map(|pod| pods[pod].group.to_str().unwrap().to_owned());
    std::thread::sleep(Duration::from_micros((WINDOW - now_us() % WINDOW) as u64));
    let [first, second] = SECONDS.map(|seconds| seconds.to_string());
    let mut mover = Command::new(python());
    assert!(mover.args(["-c", MOVES, &one, &first, &other, &second]).status().unwrap().success());
    let ended = now_us();
    let page = agent.page_with("a window behind its end", |page| page.ends() > ended + LONGEST_SUM_US);
    let parts = [0, 1].map(|pod| page.pod(UIDS[pod]) as f64 / (20e6 * SECONDS[pod]));
    println!("of what it ran in each pod they have {parts:?}");
    assert!(parts.iter().all(|part| (0.85..1.15).contains(part)), "{parts:?}: {page:#?}");
    drop(pods);
    assert_eq!(agent.end(), 0);
}
