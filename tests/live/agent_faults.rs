//! An agent that lacks something, or to which something happens meanwhile: it goes on, and what is missing is missing and said.
//!
//! Leaves out outlets that nobody could use from the start (`agent.rs`).

use super::agent::{Agent, PROGRAM, Page, Pod, UIDS, of_simulation, simulation};
use energy_trace_tests::place::eventually;
use std::path::Path;
use std::process::Command;

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
    let page = agent.page_with("energy of the pod", |page| page.pod(UIDS[0]) > 0 && windows(page) > 3);
    assert!(!page.0.keys().any(|series| series.contains("bpf")), "{page:#?}");
    eventually("the reason", || agent.said().contains("BPF programs is not known"));
    assert_eq!(agent.said().matches("CAP_SYS_ADMIN").count(), 1, "{}", agent.said());
    assert_eq!(agent.end(), 0);
}

fn windows(page: &Page) -> i64 {
    page.own("windows") / 1_000_000
}
