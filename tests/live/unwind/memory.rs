//! Unwind tables under a cap that is too small for all of them: what is needed is made anew, and stacks are right meanwhile.
//!
//! A program computes in one library, then in another, and both again; the cap holds the tables of either. Leaves out which tables go
//! first: unit tests of `residents` show that.

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::RecordingDiagnostic;
use energy_trace_model::recording::record::{Frame, FrameKind, StackStatus, Truncation};
use energy_trace_tests::place::{Place, assert_code};

/// Debian's Python takes 0.5 MiB of tables, libc 0.3, libcrypto 0.7, SQLite and the C++ library 0.3 each: they do not all fit.
const CAP_MIB: &str = "2";
/// The library in which each function of the program computes.
const PHASES: [(&str, &str); 2] = [("crypto", "libcrypto"), ("query", "libsqlite3")];

const PROGRAM: &str = "
import ctypes, hashlib, sqlite3, sys, time
def turn(compute):
    # Long enough on a busy machine too: tables are made by a thread that competes with everything else.
    end, enough = time.monotonic() + 1.5, time.process_time() + 1.2
    while time.monotonic() < end or time.process_time() < enough: compute()
def crypto(): hashlib.pbkdf2_hmac('sha256', b'p', b's', 5000)
db = sqlite3.connect(':memory:')
count = 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000) select sum(i) from n'
cxx, data = ctypes.CDLL('libstdc++.so.6'), bytes(1 << 22)
def query():
    db.execute(count).fetchone()
    cxx._ZSt11_Hash_bytesPKvmm(data, ctypes.c_size_t(len(data)), ctypes.c_size_t(0))
for _ in range(int(sys.argv[1])):
    turn(crypto)
    turn(query)
";

/// Names of the Python frames, outermost first, and modules of the native frames inside the innermost one.
fn stack(recording: &Recording, stack: StackId) -> (Vec<&str>, Vec<&str>) {
    let (mut python, mut native) = (Vec::new(), Vec::new());
    for (_, frame) in recording.frames_of(stack) {
        match frame.kind {
            FrameKind::Python => {
                python.push(frame.name.as_str());
                native.clear();
            }
            FrameKind::Native => native.push(frame.module.as_str()),
            _ => (),
        }
    }
    (python, native)
}

/// Records the program for so many rounds, with these options.
fn record(options: &[&str], rounds: &str) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let first = ["record", "--power", "none", "--no-svg", "-F", "199"];
    let program = ["--", "/usr/bin/python3", "-c", PROGRAM, rounds];
    assert_code(&place.run(&[&first[..], options, &program].concat()), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// What was seen of one function's turn.
#[derive(Debug)]
struct Turn<'a> {
    function: &'a str,
    /// Whole stacks in the function's library.
    whole: u32,
    /// Stacks that were cut for want of a table.
    cut: u32,
}

/// The turns in their order. Whole stacks must be those of the function that runs, without a frame of the other's library.
fn turns(recording: &Recording) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for sample in &recording.samples {
        let (python, native) = stack(recording, sample.stack);
        let [.., function] = python[..] else { continue };
        let Some((_, library)) = PHASES.iter().find(|(name, _)| *name == function) else { continue };
        if turns.last().is_none_or(|turn| turn.function != function) {
            turns.push(Turn { function, whole: 0, cut: 0 });
        }
        let turn = turns.last_mut().unwrap();
        match sample.status {
            StackStatus::Complete => {
                // At the very end the process may be gone before a function is seen to be still the one that was sampled.
                let gone = |(_, frame): (_, &Frame)| frame.name == "[unknown: Python function that is gone]";
                let nameless = recording.frames_of(sample.stack).any(gone);
                assert!(nameless || python == ["<module>", "turn", function], "{python:?}");
                let stranger = |module: &&str| PHASES.iter().any(|(_, l)| l != library && module.contains(l));
                assert!(!native.iter().any(stranger), "{function} in {native:?}");
                turn.whole += u32::from(native.iter().any(|module| module.contains(library)));
            }
            StackStatus::Truncated(Truncation::TablesNotReady) => turn.cut += 1,
            _ => (),
        }
    }
    turns
}

/// Each time that a library's turn comes its table is made, in the place of one that is not needed now; until then user space unwinds, and
/// whole stacks are those of the function that runs. A warning counts it.
#[test]
fn tables_make_room_for_each_other() {
    let recording = record(&["--unwind-memory", CAP_MIB], "2");
    let turns = turns(&recording);
    let order: Vec<&str> = turns.iter().map(|turn| turn.function).collect();
    assert_eq!(order, ["crypto", "query", "crypto", "query"]);
    assert!(turns.iter().all(|turn| turn.whole > 10), "{turns:?}");
    // Until a table was made again, user space unwound from copies of the stack: nothing was cut for want of it.
    assert!(turns.iter().all(|turn| turn.cut == 0), "{turns:?}");
    let copies: u64 = recording.summary.as_ref().unwrap().copies.values().sum();
    assert!(copies > 0, "no table was ever missed");
    let found = &recording.summary.as_ref().unwrap().diagnostics;
    eprintln!("{turns:?}; {found:?}");
    let is_full = |found: &RecordingDiagnostic| {
        matches!(found, RecordingDiagnostic::UnwindTablesFull { mib: 2, dropped: 2.., .. })
    };
    assert!(found.iter().any(is_full), "{found:?}");
}

/// With the usual cap the same program has nothing dropped, and nothing is said; stacks in both libraries are whole.
#[test]
fn the_usual_cap_is_enough() {
    let recording = record(&[], "1");
    let turns = turns(&recording);
    assert_eq!(turns.iter().map(|turn| turn.function).collect::<Vec<_>>(), ["crypto", "query"]);
    assert!(turns.iter().all(|turn| turn.whole > 10 && turn.cut == 0), "{turns:?}");
    let found = &recording.summary.as_ref().unwrap().diagnostics;
    assert!(found.iter().all(|found| found.code() != "unwind-tables-full"), "{found:?}");
}
