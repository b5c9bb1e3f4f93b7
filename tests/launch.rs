//! Commands and processes that are recorded: status, stdio, environment, users, children, attaching.
//!
//! Runs the real binary as root; BPF programs load. Leaves out signals (`signals.rs`) and what the numbers are.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, wherever that happens")]

use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, eventually, text};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The recording of a place, as the library reads it.
fn recording(place: &Place) -> energy_trace::profile::recording::Recording {
    energy_trace::profile::file::read(&place.path("energy-trace.data")).unwrap()
}

/// When only exec itself finds out (a script whose interpreter is missing), the status is the same, no recording is left behind, and the
/// one that was there before is where it was.
#[test]
fn exec_has_the_last_word() {
    let place = place();
    place.write("script", 0o755, "#!/no/such/interpreter\n");
    place.write("energy-trace.data", 0o644, "older");
    assert_code(&place.run(&["--power", "none", "--", "./script"]), 127);
    assert_eq!(std::fs::read_to_string(place.path("energy-trace.data")).unwrap(), "older");
    assert!(!place.path("energy-trace.data.old").exists());
    assert!(!place.path("energy-trace.svg").exists());
}

/// The status is the command's own, whether it exits, runs for a millisecond, executes itself anew, or is killed.
#[test]
fn status_is_the_commands() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exec sh -c 'exec sh -c \"exit 5\"'", 5),
    ] {
        let place = place();
        let output = place.record(script).output().unwrap();
        assert_code(&output, code);
        let summary = recording(&place).summary.expect("the recording is whole");
        assert_eq!(summary.exit_code, Some(code), "{script}");
    }
}

/// A recording of a command that ends at once is whole, and every verb that reads it works or says why not.
#[test]
fn a_command_that_ends_at_once() {
    let place = place();
    assert_code(&place.run(&["--power", "model", "--", "true"]), 0);
    assert_eq!(recording(&place).header.command, ["true"]);
    assert_code(&place.run(&["report", "energy-trace.data"]), 0);
    let output = place.run(&["report", "energy-trace.data", "--format", "json"]);
    assert_code(&output, 0);
    assert!(text(&output.stdout).contains("energy-trace/report/1"));
}

/// A thousand children are followed and the recording is whole.
#[test]
fn a_thousand_children() {
    let place = place();
    let script = "i=0; while [ $i -lt 1000 ]; do /bin/true & i=$((i+1)); done; wait; exit 6";
    assert_code(&place.record(script).output().unwrap(), 6);
    assert!(recording(&place).summary.is_some());
}

/// stdin and stdout are the command's: bytes pass untouched, and the summary is on stderr, without a terminal's control codes.
#[test]
fn stdio_is_the_commands() {
    let place = place();
    let mut command = place.command(&["--power", "model", "--", "cat"]);
    let mut child = Talk::spawn({
        command.env("TERM", "xterm");
        command
    });
    child.0.stdin.take().unwrap().write_all(b"a\0b\r\n\x1b[1m\xff").unwrap();
    let output = child.end();
    assert_code(&output, 0);
    assert_eq!(output.stdout, b"a\0b\r\n\x1b[1m\xff");
    assert!(!output.stderr.is_empty());
    assert!(!output.stderr.contains(&b'\r') && !output.stderr.contains(&0x1b), "{}", text(&output.stderr));
}

/// With `-q` nothing is printed; the files are written all the same.
#[test]
fn quiet() {
    let place = place();
    let output = place.run(&["-q", "--power", "none", "--no-svg", "--", "true"]);
    assert_code(&output, 0);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(recording(&place).summary.is_some());
    assert!(!place.path("energy-trace.svg").exists());
}

/// Environment, working directory, umask and open files are what they would be without energy-trace.
#[test]
fn environment_is_untouched() {
    let place = place();
    let script = "env; pwd; umask; ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let surroundings = |command: &mut Command| {
        command.env_clear().envs([
            ("PATH", "/usr/bin:/bin"),
            ("A", "b c"),
            ("HOME", "/root"),
            ("USER", "root"),
        ]);
        text(&command.stdin(Stdio::null()).output().unwrap().stdout)
    };
    let plain = surroundings(Command::new("sh").args(["-c", script]).current_dir(place.folder()));
    assert!(plain.contains("A=b c"));
    assert_eq!(surroundings(&mut place.record(script)), plain);
}

/// Under sudo the command is the invoking user, with that user's groups and home; the files are the user's; --as-root keeps root.
#[test]
fn under_sudo_it_is_the_user() {
    let place = place();
    chown(place.folder(), Some(65534), Some(65534)).unwrap();
    let sudo = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.envs([
            ("SUDO_UID", "65534"),
            ("SUDO_GID", "65534"),
            ("HOME", "/root"),
            ("USER", "root"),
            ("KEEP", "it"),
        ]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_code(&output, 0);
        text(&output.stdout)
    };
    let script = "id -u; id -g; id -G; echo $HOME $USER $KEEP; touch made";
    let said = sudo(&["--power", "model", "--", "sh", "-c", script]);
    assert_eq!(said, "65534\n65534\n65534\n/nonexistent nobody it\n");
    for name in ["made", "energy-trace.data"] {
        let file = std::fs::metadata(place.path(name)).unwrap();
        assert_eq!((file.uid(), file.gid()), (65534, 65534), "{name}");
    }
    let said = sudo(&["--as-root", "--power", "none", "--no-svg", "--", "sh", "-c", "id -u; echo $HOME"]);
    assert_eq!(said, "0\n/root\n");
    assert_eq!(std::fs::metadata(place.path("energy-trace.data")).unwrap().uid(), 65534);
}

/// Time that is up ends the recording and not the command.
#[test]
fn duration_ends_the_recording_only() {
    let place = place();
    let arguments =
        ["--power", "none", "--no-svg", "--duration", "100ms", "--", "sh", "-c", "read x; exit 4"];
    let child = Talk::spawn(place.command(&arguments));
    eventually("a whole recording", || {
        let recording = energy_trace::profile::file::read(&place.path("energy-trace.data"));
        recording.is_ok_and(|r| r.summary.is_some())
    });
    assert_code(&child.end(), 4);
}

/// Attached, the recording ends with the last process of the tree, at a signal, or when time is up; the processes are never touched.
#[test]
fn attached() {
    let place = place();
    let tree = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut shell = Talk::spawn(shell);
        let sleeper: i32 = shell.line().trim().parse().unwrap();
        (shell, sleeper)
    };
    // SAFETY: kill takes two numbers; the sleeper is the shell's child and waits for this.
    let kill = |pid: i32, signal| unsafe { libc::kill(pid, signal) };
    let attach = |pid: u32, more: &[&str]| {
        let pid = pid.to_string();
        let mut arguments = vec!["--power", "none", "--no-svg", "-p", &pid];
        arguments.extend(more);
        Talk::spawn(place.command(&arguments))
    };

    let (mut shell, sleeper) = tree();
    assert_code(&attach(shell.0.id(), &["--duration", "50ms"]).end(), 0);
    assert!(recording(&place).header.command.is_empty());
    assert_eq!(kill(sleeper, 0), 0, "the target lives");

    let recorder = attach(shell.0.id(), &[]);
    eventually("the start", || place.path("energy-trace.data").exists());
    recorder.signal(libc::SIGTERM);
    // Before or after the start: 143 for a set-up that was cut short, 0 for a recording that was ended.
    let output = recorder.end();
    assert!(matches!(output.status.code(), Some(0 | 143)), "{}", text(&output.stderr));

    let recorder = attach(shell.0.id(), &[]);
    shell.0.kill().unwrap();
    shell.0.wait().unwrap();
    kill(sleeper, libc::SIGKILL);
    let output = recorder.end();
    // The tree may have ended before the recording began, which is an error that says so.
    match output.status.code() {
        Some(0) => {}
        Some(125) => assert_says(&output, &["process"]),
        other => panic!("{other:?}: {}", text(&output.stderr)),
    }
}

/// A reader that closes the pipe early is no failure.
#[test]
fn closed_pipes() {
    let place = place();
    assert_code(&place.run(&["-q", "--power", "none", "--no-svg", "--", "true"]), 0);
    let program = Path::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = format!("{{ {} report energy-trace.data; echo $? > status; }} | true", program.display());
    assert!(Command::new("sh").args(["-c", &script]).current_dir(place.folder()).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(place.path("status")).unwrap(), "0\n");
}
