//! Limits (`ulimit`) that are too low end in a sentence and status 125: which limit it is, what is needed, what to do. Never in a panic or a
//! signal.
//!
//! Runs the real binary. Leaves out disks that fill up (`recording/file.rs`).

use energy_trace_tests::breadth::half_or_all;
use energy_trace_tests::place::{Place, assert_code, assert_says, run_bounded, text};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::process::{Command, Output};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The program as it is run by prlimit with this option.
fn limited(place: &Place, limit: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(place.program()).args(arguments).current_dir(place.folder());
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    run_bounded(command)
}

/// It ended in a sentence about this flag of ulimit.
#[track_caller]
fn assert_sentence(output: &Output, flag: &str) {
    assert_code(output, 125);
    assert_says(output, &["energy-trace: ", "the limit on", &format!("ulimit {flag}")]);
    let said = text(&output.stderr);
    assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{said}");
}

const SHORT: [&str; 6] = ["--power", "model", "--no-svg", "--", "touch", "ran"];

/// Too few open files, too little address space or memory: said before anything runs, and nothing is left.
#[test]
fn said_before_the_run() {
    for (limit, flag) in [
        ("--nofile=8", "-n"),
        ("--nofile=20", "-n"),
        ("--nofile=50", "-n"),
        ("--as=100000000", "-v"),
        ("--as=200000000", "-v"),
        ("--data=100000000", "-d"),
        ("--stack=262144", "-s"),
    ] {
        let place = place();
        let output = limited(&place, limit, &SHORT);
        assert_sentence(&output, flag);
        assert_says(&output, &["raise it"]);
        assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0, "{limit}");
    }
}

/// Just above what is said to be needed, recording works: the numbers are not made up.
#[test]
fn what_is_needed_is_enough() {
    let place = place();
    let said = text(&limited(&place, "--nofile=8", &SHORT).stderr);
    let (_, rest) = said.split_once("recording needs at least ").unwrap();
    let needed = rest.split(' ').next().unwrap();
    assert_code(&limited(&place, &format!("--nofile={needed}"), &SHORT), 0);
    assert_code(&limited(&place, "--as=1073741824", &SHORT), 0);
    assert_code(&limited(&place, "--data=536870912", &SHORT), 0);
    assert_code(&limited(&place, "--stack=1048576", &SHORT), 0);
}

/// A shell that leaves programs little stack, and could leave them more: recording works, and its command has what the shell left.
#[test]
fn a_small_stack() {
    let place = place();
    let asked = ["--power", "none", "--no-svg", "--", "sh", "-c", "ulimit -s"];
    let output = limited(&place, "--stack=262144:unlimited", &asked);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout).trim(), "256");
}

/// A file that may not grow is like a full disk: the command runs on to its end, and what is on disk stays readable.
#[test]
fn the_size_of_files() {
    let place = place();
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; : > ran";
    let output =
        limited(&place, "--fsize=8192", &["-F", "999", "--power", "model", "--", "sh", "-c", script]);
    assert_sentence(&output, "-f");
    assert_says(&output, &["energy-trace.data", "stays readable"]);
    assert!(place.path("ran").exists());
    assert!(!place.path("energy-trace.svg").exists());
    // The recording fits, and the flame graph does not.
    let output = limited(
        &place,
        "--fsize=16384",
        &["--power", "model", "--", "sh", "-c", "i=0; while [ $i -lt 90000 ]; do i=$((i+1)); done"],
    );
    assert_sentence(&output, "-f");
    // The signal that the limit sends is the command's as it was.
    let ignored = "echo $((0x$(sed -n 's/SigIgn:.//p' /proc/self/status) >> 24 & 1))";
    let before = Command::new("sh").args(["-c", ignored]).output().unwrap();
    let output = place.run(&["-q", "--no-svg", "--power", "none", "--", "sh", "-c", ignored]);
    assert_eq!(text(&output.stdout), text(&before.stdout));
}

/// The processes of a user, by name.
fn processes_of(user: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of_user = processes.filter(|of| of.metadata().is_ok_and(|facts| facts.uid() == user));
    of_user.filter_map(|of| std::fs::read_to_string(of.path().join("comm")).ok()).collect()
}

/// However many processes and threads the user may still have, it is enough or it is said: root has no such limit, so a user with
/// capabilities runs it.
#[test]
fn the_number_of_processes() {
    /// Nobody else's here.
    const USER: u32 = 12_391;
    let place = place();
    let program = place.copy_of_program();
    chown(place.folder(), Some(USER), Some(USER)).unwrap();
    let user = USER.to_string();
    let capabilities = "+bpf,+perfmon,+sys_ptrace,+dac_read_search";
    let mut enough = false;
    for processes in half_or_all((1..14).collect()).chain([20]) {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps", capabilities]);
        command.args(["--ambient-caps", capabilities, "prlimit", &format!("--nproc={processes}")]);
        command.arg(&program).args(["-q", "--power", "model", "--no-svg", "--", "true"]);
        command.current_dir(place.folder());
        let output = run_bounded(command);
        match output.status.code() {
            Some(0) => enough = true,
            _ => assert_sentence(&output, "-u"),
        }
        // Also nobody who has ended and waits to be collected, which would count against the next.
        let left = processes_of(USER);
        assert!(left.is_empty(), "{processes}: {left:?}");
    }
    assert!(enough, "20 are enough");
}
