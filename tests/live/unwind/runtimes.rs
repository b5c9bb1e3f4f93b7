//! Stacks where Python does not run as CPython alone runs it: greenlets, compiled Python, other interpreters, frames that somebody damaged.
//!
//! Leaves out the same of the oracle's regions (`oracle`), and Pythons of versions that are refused (`stacks.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    FrameKind, OtherPython, PythonLoss, Runtime, Sample, StackStatus, Truncation,
};
use energy_trace_tests::breadth::half_or_all;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code, copy_program};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's Python, and its gevent.
const PYTHON: &str = "/usr/bin/python3";

fn record(program: &[&OsStr]) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut command = place.command(&["record", "-q", "--power", "none", "--no-svg", "-F", "199", "--"]);
    assert_code(&command.args(program).output().unwrap(), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

fn record_script(python: impl AsRef<OsStr>, script: &str) -> Recording {
    record(&[python.as_ref(), "-c".as_ref(), script.as_ref()])
}

/// Names of a sample's frames, outermost first.
fn names<'a>(recording: &'a Recording, sample: &Sample) -> Vec<&'a str> {
    recording.frames_of(sample.stack).map(|(_, frame)| frame.name.as_str()).collect()
}

/// Samples that show a Python function of this name.
fn showing<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Sample> {
    let shows = |sample: &&Sample| {
        let mut frames = recording.frames_of(sample.stack).map(|(_, frame)| frame);
        frames.any(|frame| frame.kind == FrameKind::Python && frame.name.rsplit('.').next() == Some(name))
    };
    recording.samples.iter().filter(shows).collect()
}

/// The stack of a greenlet begins with greenlet's own first function, whatever lies above it: one shape, and whole.
#[test]
fn greenlets_begin_where_they_do() {
    let script = "import gevent, time
def leaf(n):
    for i in range(n): pass
def work():
    while time.process_time() < 1:
        leaf(20000)
        gevent.sleep(0)
gevent.joinall([gevent.spawn(work) for _ in range(20)])";
    let recording = record_script(PYTHON, script);
    let leaves = showing(&recording, "leaf");
    let mut first = BTreeMap::<_, usize>::new();
    for sample in &leaves {
        let names = names(&recording, sample);
        *first.entry((names[0], sample.status == StackStatus::Complete)).or_default() += 1;
        let python: Vec<&str> = names.into_iter().filter(|name| ["work", "leaf"].contains(name)).collect();
        assert_eq!(python, ["work", "leaf"]);
    }
    println!("{first:?}");
    let right = first.get(&("greenlet::UserGreenlet::g_initialstub(void*)", true)).copied().unwrap_or(0);
    assert!(leaves.len() > 50 && right * 100 >= leaves.len() * 95, "{first:?}");
    assert!(first.keys().all(|(name, _)| !name.contains("start")), "{first:?}");
}

/// Frames of a Python that are linked in a circle, which a program can do to its own: each function is there a few times, behind a mark that
/// the chain is broken, inside of what native code called; and no stack is called whole.
#[test]
fn circles_of_frames() {
    // Of `PyFrameObject` the frame, of `_PyInterpreterFrame` the previous one.
    let script = "import ctypes, sys, time
word = lambda at: ctypes.c_uint64.from_address(at)
FRAME, PREVIOUS = 24, 8 if sys.version_info >= (3, 12) else 48
def leaf():
    for i in range(100000): pass
def inner(previous, leads_to):
    kept, previous.value = previous.value, leads_to
    while time.process_time() < 0.6: leaf()
    previous.value = kept
def outer():
    own = word(id(sys._getframe()) + FRAME).value
    inner(word(own + PREVIOUS), own)
outer()";
    let pythons = [vec![PathBuf::from(PYTHON)], interpreters::found(11..=13)].concat();
    for python in half_or_all(pythons) {
        let recording = record_script(&python, script);
        let leaves = showing(&recording, "leaf");
        let is_right = |sample: &&&Sample| {
            let names = names(&recording, sample);
            let at = |name| names.iter().position(|seen| *seen == name);
            let (Some(end), Some(called)) = (at("leaf"), at("PyEval_EvalCode")) else { return false };
            let python = names.get(called + 1..=end).unwrap_or_default();
            sample.status == StackStatus::PythonLost(PythonLoss::BrokenChain)
                && names[0] == "_start"
                && python == ["[unknown: broken chain of Python frames]", "outer", "outer", "inner", "leaf"]
        };
        let right = leaves.iter().filter(is_right).count();
        println!("{}: {right} of {}", python.display(), leaves.len());
        assert!(leaves.len() > 30 && right * 100 >= leaves.len() * 95, "{}", python.display());
        assert!(leaves.iter().all(|sample| sample.status != StackStatus::Complete), "{}", python.display());
    }
}

/// Pythons that are not CPython are called what they are, and have native frames alone: PyPy, and what only has MicroPython's name.
#[test]
fn other_pythons_are_named() {
    let script = "import time
while time.process_time() < 0.3: pass";
    let folder = tempfile::tempdir().unwrap();
    let micro = copy_program(Path::new("/bin/dash"), folder.path().join("micropython"));
    let count = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
    for (python, script, name) in
        [(Path::new("pypy3"), script, OtherPython::PyPy), (&micro, count, OtherPython::MicroPython)]
    {
        let recording = record_script(python, script);
        let runtimes = recording.processes.iter().filter_map(|process| process.runtime.as_ref());
        assert_eq!(runtimes.collect::<Vec<_>>(), [&Runtime::NotCPython(name)]);
        assert!(recording.samples.len() > 20, "{}", recording.samples.len());
        assert!(recording.frames.iter().all(|frame| frame.kind != FrameKind::Python));
    }
}

/// Functions that Nuitka compiled push Python frames and no evaluation holds them: they stand outside of all native ones, behind a mark,
/// and no such stack is called whole.
#[test]
#[ignore = "Nuitka compiles for 15 seconds: cargo xtask test --all runs it"]
fn compiled_python() {
    let Some(python) = interpreters::nuitka() else {
        assert!(std::env::var_os("ENERGY_TRACE_CI").is_none(), "no Nuitka");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = "import time
def leaf(n):
    s = 0
    for i in range(n): s += i % 7
    return s
class K:
    def run(self):
        while time.process_time() < 0.8: leaf(20000)
K().run()";
    std::fs::write(folder.path().join("app.py"), script).unwrap();
    let mut nuitka = Command::new(python);
    nuitka.args(["-m", "nuitka", "--debug", "--lto=no", "app.py"]).current_dir(folder.path());
    assert!(nuitka.status().unwrap().success());
    let recording = record(&[folder.path().join("app.bin").as_os_str()]);
    let leaves = showing(&recording, "leaf");
    let is_right = |sample: &&&Sample| {
        let names = names(&recording, sample);
        let outer = ["<module>", "K.run", "leaf", "[unknown: where C called Python]", "_start"];
        sample.status == StackStatus::Truncated(Truncation::Unanchored) && names.starts_with(&outer)
    };
    let right = leaves.iter().filter(is_right).count();
    println!("{right} of {}", leaves.len());
    assert!(leaves.len() > 50 && right * 100 >= leaves.len() * 95, "{right} of {}", leaves.len());
    assert!(leaves.iter().all(|sample| sample.status != StackStatus::Complete));
}
