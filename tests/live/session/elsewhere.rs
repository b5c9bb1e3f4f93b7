//! Who works while the program waits: a server that works for it, or a neighbour.
//!
//! Leaves out the rules (`session/account.rs` of the product). Runs alone: how much CPU time is had counts.

use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{AccountDiagnostic, RecordingDiagnostic};
use energy_trace_tests::place::{Place, assert_code};
use std::process::Command;

/// Works for a second of its CPU time when it is asked, answers, and works on for so many seconds.
const SERVER: &str = "
import sys, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
open('ask').read()
work(1)
print('done', file=open('answer', 'w'), flush=True)
work(float(sys.argv[1]))
time.sleep(60)
";

/// Whether a client's recording asks about the server, which works on for so many seconds.
fn is_asked_about(works_on: &str) -> bool {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let pipes = Command::new("mkfifo").args(["ask", "answer"]).current_dir(place.folder()).status();
    assert!(pipes.unwrap().success());
    let mut server = Command::new("python3");
    let mut server = server.args(["-c", SERVER, works_on]).current_dir(place.folder()).spawn().unwrap();
    let output = place.record("echo > ask; read line < answer").output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_code(&output, 0);
    let summary = read(&place.path("energy-trace.data")).unwrap().summary.unwrap();
    summary.diagnostics.iter().any(|found| match found {
        RecordingDiagnostic::Account(AccountDiagnostic::WorkedElsewhere { pid, .. }) => *pid == server.id(),
        _ => false,
    })
}

/// A server that works while its client waits is asked about. One that gets no CPU is none, and is tried again.
#[test]
fn a_server() {
    assert!((0..3).any(|_| is_asked_about("0")));
}

/// A neighbour who works on when the program has ended is not asked about; one that gets no CPU by then is tried again.
#[test]
fn a_neighbour() {
    assert!((0..3).any(|_| !is_asked_about("30")));
}
