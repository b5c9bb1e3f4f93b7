//! Calls that are counted, in a program whose calls are known. Needs root.
//!
//! Leaves out what a call costs in joules (`offline/report/counts.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CallCount, CallDiagnostic, InputRole, InputSize, InputSizes, PythonNotCounted, RecordingDiagnostic,
    SensorQuantity, SensorSeries, SensorValue,
};
use energy_trace_model::units::MilliCelsius;
use energy_trace_tests::interpreters::found as pythons;
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::process::Command;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn record(place: &Place, options: &[&str], command: &[&str]) -> Recording {
    let first = ["record", "--power", "none", "--no-svg"];
    assert_code(&place.run(&[&first[..], options, &["--"], command].concat()), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// Calls of a function, and those within another one.
fn calls(recording: &Recording, function: &str) -> Option<(u64, u64)> {
    let count =
        recording.calls.iter().find(|count| recording.frames[count.frame.index()].name == function)?;
    Some((count.calls, count.nested))
}

fn is_late(found: &CallDiagnostic) -> bool {
    matches!(found, CallDiagnostic::Late { .. })
}

/// Runs a shell's commands in the place's folder.
fn build(place: &Place, script: &str) {
    let built = Command::new("sh").args(["-c", script]).current_dir(place.folder()).status();
    assert!(built.unwrap().success(), "{script}");
}

/// The same of all that were counted, by module.
fn counts(recording: &Recording) -> Vec<(String, u64, u64)> {
    let module = |count: &CallCount| recording.frames[count.frame.index()].module.clone();
    let mut all: Vec<_> =
        recording.calls.iter().map(|count| (module(count), count.calls, count.nested)).collect();
    all.sort();
    all
}

fn found(recording: &Recording) -> Vec<CallDiagnostic> {
    let all = recording.summary.iter().flat_map(|summary| &summary.diagnostics);
    all.filter_map(|found| match found {
        RecordingDiagnostic::Calls(found) => Some(found.clone()),
        _ => None,
    })
    .collect()
}

/// Every call is counted once, of all threads and children; of recursion all but the first are within another. What is not there is named,
/// and the cost of counting is measured.
#[test]
fn every_call_once() {
    let place = place();
    let (source, program) = (tests_dir().join("workloads/counted.c"), place.path("counted"));
    let built = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).args([&program, &source]).status();
    assert!(built.unwrap().success());
    let recording = record(&place, &["--count=work,fib,absent"], &[program.to_str().unwrap()]);
    assert_eq!(calls(&recording, "work"), Some((2 * 1000 + 300 + 200 + 200, 0)));
    // fib(n) makes 2 fib(n + 1) - 1 calls.
    assert_eq!(calls(&recording, "fib"), Some((2 * 233 - 1, 2 * 233 - 2)));
    let found = found(&recording);
    let missing = CallDiagnostic::NotFound { names: vec!["absent".into()] };
    assert!(found.contains(&missing), "{found:?}");
    let cost = found.iter().find_map(|found| match found {
        CallDiagnostic::Cost { calls, call_ns, functions, .. } => Some((*calls, *call_ns, *functions)),
        _ => None,
    });
    let (calls, call_ns, functions) = cost.unwrap();
    assert_eq!((calls, functions), (2700 + 465, 2));
    assert!(call_ns > 0);
    assert!(!found.iter().any(is_late), "{found:?}");
}

/// Calls in a library that the program is linked with are all counted, however short the program is; of one that is found only when it is
/// there the number is a lower bound.
#[test]
fn calls_in_libraries() {
    let place = place();
    place.write("step.c", 0o644, "int step(int n) { return n + 1; }\n");
    place.write(
        "main.c",
        0o644,
        "int step(int); int main(void) { int n = 0; while (n < 10000) n = step(n); }\n",
    );
    let script = "set -e; mkdir lib; cc -shared -fPIC -o lib/libstep.so step.c; \
                  cc -o known main.c -Llib -lstep -Wl,-rpath,$PWD/lib; cc -o unknown main.c -Llib -lstep";
    build(&place, script);
    let recording = record(&place, &["--count=step@libstep"], &["./known"]);
    assert_eq!(calls(&recording, "step"), Some((10_000, 0)));
    assert!(!found(&recording).iter().any(is_late), "{:?}", found(&recording));
    let recording = record(&place, &["--count=step@libstep"], &["env", "LD_LIBRARY_PATH=lib", "./unknown"]);
    assert!(calls(&recording, "step").is_none() || found(&recording).iter().any(is_late));
    let report = place.run(&["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let counted = report["counted"].as_array().into_iter().flatten();
    assert!(counted.into_iter().all(|line| line["calls_at_least"] == true), "{report}");
}

/// A library that is reached in several ways is probed once: by the path that a program is linked with, by that of `--count`, and by links.
#[test]
fn a_library_reached_twice() {
    let place = place();
    place.write("step.c", 0o644, "int step(int n) { return n + 1; } int other(int n) { return n; }\n");
    place.write(
        "main.c",
        0o644,
        "int step(int), other(int);\nint main(void) { int n = 0; while (n < 1000) n = step(other(n)); }\n",
    );
    let script = "set -e; cc -shared -fPIC -o libstep.so step.c; ln -s libstep.so liblink.so; \
                  ln libstep.so libhard.so; cc -o main main.c $PWD/libstep.so";
    build(&place, script);
    let at = |library: &str| place.path(library).display().to_string();
    let names =
        format!("--count=step@{},step@{},other@{}", at("libstep.so"), at("liblink.so"), at("libhard.so"));
    let recording = record(&place, &[&names], &["./main"]);
    assert_eq!(calls(&recording, "step"), Some((1000, 0)));
    assert_eq!(calls(&recording, "other"), Some((1000, 0)));
    assert_eq!(recording.calls.len(), 2);
}

/// A library that is named by its path is probed before anything runs, if somebody without privileges can read it: a link
/// to one that another user alone may read leads nowhere.
#[test]
fn what_others_may_not_read() {
    let place = place();
    place.write("step.c", 0o644, "int step(int n) { return n + 1; }\n");
    build(
        &place,
        "set -e; mkdir open; cc -shared -fPIC -o open/libstep.so step.c; ln -s open/libstep.so link.so",
    );
    let name = format!("step@{}", place.path("link.so").display());
    let is_found = || {
        let recording = record(&place, &[&format!("--count={name}")], &["true"]);
        !found(&recording).contains(&CallDiagnostic::NotFound { names: vec![name.clone()] })
    };
    assert!(is_found());
    build(&place, "chown nobody open; chmod 700 open");
    assert!(!is_found());
}

/// Data that a symbol calls a function is no place for a probe: it would change.
#[test]
fn data_is_left_alone() {
    let place = place();
    let data = r#"__asm__(".section .rodata\n.globl data\n.type data,@function\ndata: .quad 0x88\n.text");
        extern const char data[];
        int main(void) { return data[0] == (char)0x88 ? 0 : 1; }"#;
    place.write("main.c", 0o644, data);
    // The linker may put data into the segment of code.
    for layout in ["-Wl,-z,separate-code", "-Wl,-z,noseparate-code"] {
        build(&place, &format!("cc -w {layout} -o main main.c"));
        let recording = record(&place, &["--count=data"], &["./main"]);
        assert!(found(&recording).contains(&CallDiagnostic::NotFound { names: vec!["data".into()] }));
    }
}

/// A program that ran already has its calls counted from the start of the recording: none is missing.
#[test]
fn calls_of_a_running_program() {
    let place = place();
    place.write("main.c", 0o644, "int main(void) { for (int i = 0; i < 30; i++) usleep(100000); }\n");
    build(&place, "cc -w -o main main.c");
    let mut running = Command::new(place.path("main")).spawn().unwrap();
    let first = ["record", "--power", "none", "--no-svg", "--count=usleep@libc", "-p"];
    let output = place.run(&[&first[..], &[&running.id().to_string()]].concat());
    running.wait().unwrap();
    assert_code(&output, 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    assert!(!found(&recording).iter().any(is_late), "{:?}", found(&recording));
}

/// Functions of Python are counted by a module in the command: of all threads and forked children, and with how long they took. The program's
/// own `sitecustomize` is loaded all the same. Interpreters that cannot count are named.
#[test]
fn python_functions() {
    let place = place();
    std::fs::create_dir(place.path("own")).unwrap();
    place.write("own/sitecustomize.py", 0o644, "OWN = True\n");
    let script = tests_dir().join("workloads/counted.py");
    let script = script.to_str().unwrap();
    let run = |python: &std::path::Path| {
        let first = ["record", "--power", "none", "--no-svg", "--count=fib,work,fails", "--"];
        let mut command = place.command(&[&first[..], &[python.to_str().unwrap(), script]].concat());
        let output = command.env("PYTHONPATH", place.path("own")).output().unwrap();
        assert_code(&output, 0);
        let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
        (recording, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for python in pythons(12..=13).iter().rev().take(1) {
        let (recording, said) = run(python);
        assert!(!said.contains("cannot be counted here"), "{said}");
        assert_eq!(calls(&recording, "work"), Some((3 * 500 + 30, 0)));
        assert_eq!(calls(&recording, "fib"), Some((465, 464)));
        assert_eq!(calls(&recording, "fails"), Some((10, 0)));
        assert!(
            recording.calls.iter().all(|count| count.times.is_some_and(|times| times.p50_ns <= times.p99_ns))
        );
        let found = found(&recording);
        assert!(
            found.iter().any(|found| matches!(found, CallDiagnostic::PythonCost { calls: 2005, .. })),
            "{found:?}"
        );
    }
    for python in pythons(8..=11).iter().take(1) {
        // At the start too, when the user can still choose another.
        // Behind a shim as well.
        let shim = place.write("shim", 0o755, &format!("#!/bin/sh\nexec {} \"$@\"\n", python.display()));
        let (recording, said) = run(&shim);
        assert!(
            said.starts_with("energy-trace: calls of Python functions cannot be counted here: "),
            "{said}"
        );
        let found = found(&recording);
        let is_old = |found: &CallDiagnostic| matches!(found, CallDiagnostic::PythonNotCounted(PythonNotCounted::Version { version }) if version.starts_with("3."));
        assert!(found.iter().any(is_old), "{found:?}");
    }
}

/// Functions of one text in two files are two, for counts and for sizes of arguments.
#[test]
fn equal_code_of_two_files() {
    let place = place();
    let Some(python) = pythons(12..=13).into_iter().next_back() else { return };
    for module in ["m1.py", "m2.py"] {
        place.write(module, 0o644, "def work(n):\n    return n and work(n - 1)\n");
    }
    place.write("main.py", 0o644, "import m1, m2\nfor _ in range(30):\n    m1.work(0)\n    m2.work(1)\n");
    let command = [python.to_str().unwrap(), "main.py"];
    let recording = record(&place, &["--count=m1.work"], &command);
    assert_eq!(counts(&recording), [("m1".to_owned(), 30, 0)]);
    let recording = record(&place, &["--count=work", "--input-sizes"], &command);
    assert_eq!(counts(&recording), [("m1".to_owned(), 30, 0), ("m2".to_owned(), 60, 30)]);
    let sized = recording.input_sizes.iter().map(|of| &*recording.frames[of.frame.index()].module);
    assert_eq!(sized.collect::<std::collections::BTreeSet<_>>(), ["m1", "m2"].into());
}

/// A program makes functions again and again, of the same few texts, and each is called by two threads.
const MAKES: &str = "import gc, sys, threading, weakref
made = []
def once(name):
    scope = {}
    exec(f'def {name}(n):\\n    return n and {name}(n - 1)\\n', scope)
    scope[name](1)
    thread = threading.Thread(target=scope[name], args=(0,))
    thread.start()
    thread.join()
    made.append(weakref.ref(scope[name].__code__))
for turn in range(300):
    once(('one', 'two', 'few')[turn % 3])
gc.collect()
sys.exit(sum(code() is not None for code in made))
";

/// Counting keeps no code of the program alive, and of code that is made again and again nothing else; what has the place of code that is gone
/// is not taken for it.
#[test]
fn code_that_is_made_again_and_again() {
    let place = place();
    for python in pythons(12..=13) {
        place.write("makes.py", 0o644, MAKES);
        let command = [python.to_str().unwrap(), "makes.py"];
        let recording = record(&place, &["--count=one,few", "--input-sizes"], &command);
        assert_eq!(calls(&recording, "one"), Some((300, 100)));
        assert_eq!(calls(&recording, "few"), Some((300, 100)));
        assert_eq!(recording.calls.len(), 2);
    }
}

/// When a recording has ended, nobody else can make a folder that its command's environment names, from which Python of a service that runs on
/// would load code: neither where /run is root's, nor where nothing can be made there.
#[test]
fn what_the_environment_names_stays_out_of_reach() {
    const READ_ONLY: &str = "mount -t tmpfs -o ro none /run; mount -t tmpfs -o ro none /var/lib;";
    for masked in ["", READ_ONLY] {
        let place = place();
        std::os::unix::fs::chown(place.folder(), Some(12_345), Some(12_345)).unwrap();
        let script = format!(
            "set -e; {masked} exec \"$0\" record --power none --no-svg --count=f -- sh -c 'echo $PYTHONPATH > named'"
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(place.program()).current_dir(place.folder());
        command.env("SUDO_UID", "12345").env("SUDO_GID", "12345").env_remove("PYTHONPATH");
        assert_code(&command.output().unwrap(), 0);
        let named = std::fs::read_to_string(place.path("named")).unwrap();
        let named = std::path::Path::new(named.trim());
        assert!(named.is_absolute() && !named.join("sitecustomize.py").exists(), "{named:?}");
        let mut make = Command::new("setpriv");
        make.args(["--reuid", "12346", "--regid", "12346", "--clear-groups", "mkdir"]).arg(named);
        assert!(!make.output().unwrap().status.success(), "{named:?} can be made by another user");
        let _made_again = std::fs::remove_dir(named);
    }
}

/// The program whose arguments are looked at.
const TRAIN: &str = "class Model:
    def fit(self, x, y=None, *rest, epochs=1, **more):
        return sum(range(10_000))

def train(turns):
    for turn in range(turns):
        Model().fit([0] * (7 if turn % 3 else 9), {'secret': 1}, b'bytes', call=2)

train(30)
";

/// Types and sizes of arguments are noted, of functions that were asked for, by the line of the program that called; never what they hold.
/// Beside them, the temperature of a machine that has a sensor is recorded, and what reading it took.
#[test]
fn sizes_of_arguments() {
    let place = place();
    let Some(python) = pythons(12..=13).into_iter().next_back() else { return };
    std::fs::create_dir_all(place.path("sys/class/hwmon/hwmon0")).unwrap();
    for (file, text) in [("name", "coretemp"), ("temp1_label", "Package id 0"), ("temp1_input", "61000")] {
        place.write(&format!("sys/class/hwmon/hwmon0/{file}"), 0o644, &format!("{text}\n"));
    }
    place.write("train.py", 0o644, TRAIN);
    let script = place.path("train.py");
    let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
    let record = ["record", "--no-svg", "--power", "model", "--path.sysfs", "sys"];
    let look = ["--count=fit", "--input-sizes", "--", python, script];
    assert_code(&place.run(&[&record[..], &look].concat()), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    assert_eq!(calls(&recording, "Model.fit"), Some((30, 0)));
    check_sizes(&recording, script);
    check_warmth(&recording);
    assert!(recording.project.is_some_and(|project| project.commit.is_empty() && !project.folder.is_empty()));
}

fn check_sizes(recording: &Recording, script: &str) {
    let seen = &recording.input_sizes;
    assert!(seen.iter().map(|noted| noted.seen).sum::<u64>() >= 4, "{seen:?}");
    for noted in seen {
        assert_eq!(recording.frames[noted.frame.index()].name, "Model.fit");
        let caller = noted.caller.as_ref().map(|caller| (caller.file.as_str(), caller.line));
        assert_eq!(caller, Some((script, 7)));
        let told = noted.inputs.iter();
        let told = told.map(|input| (input.name.as_str(), input.role, input.of_type.as_str()));
        let wanted = [
            ("self", InputRole::Object, "__main__.Model"),
            ("x", InputRole::Argument, "list"),
            ("y", InputRole::Argument, "dict"),
            ("epochs", InputRole::Argument, "int"),
            ("*rest[0]", InputRole::Rest, "bytes"),
            ("call", InputRole::Keyword, "int"),
        ];
        assert_eq!(told.collect::<Vec<_>>(), wanted);
        assert_eq!(noted.inputs[3].size, InputSize::Unknown, "what a number is, is nobody's concern");
    }
    let length = |noted: &InputSizes| match noted.inputs[1].size {
        InputSize::Length(length) => Some(length),
        _ => None,
    };
    assert_eq!(seen.iter().filter_map(length).collect::<std::collections::BTreeSet<u64>>(), [7, 9].into());
    let cost = found(recording).into_iter().find_map(|found| match found {
        CallDiagnostic::InputSizes { looks, left_out, cost_ns } => Some((looks, left_out, cost_ns)),
        _ => None,
    });
    let is_told = |(looks, left_out, cost_ns)| looks >= 4 && left_out == 0 && cost_ns > 0;
    assert!(cost.is_some_and(is_told), "{cost:?}");
}

fn check_warmth(recording: &Recording) {
    let is_warmth = |series: &&SensorSeries| series.sensor.quantity == SensorQuantity::Temperature;
    let values = recording.sensors.iter().filter(is_warmth).flat_map(|series| &series.values);
    let value = SensorValue::Temperature(MilliCelsius::from_mc(61_000));
    assert_eq!(values.map(|(_, value)| *value).collect::<Vec<_>>(), [Some(value)]);
    let cost = recording.sensor_cost;
    assert!(cost.is_some_and(|cost| cost.rounds >= 2 && cost.failed == 0), "{cost:?}");
}
