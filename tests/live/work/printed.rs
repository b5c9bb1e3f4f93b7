//! Work by what a program prints: through a pipe, on a terminal and into a file.

use super::{json, place, work};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::python;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

const WORD: &str = r"--work=step=stdout:step (\d+)";

/// Prints `step 0` to `step 20` in lines that are let go at once, with bytes that are no text in between, and what kind of place that is.
const PRINTS: &str = "import os, sys, time
print('terminal', sys.stdout.isatty(), flush=True)
if sys.stdout.isatty(): print('size', os.get_terminal_size(1).columns, flush=True)
for step in range(21):
    os.write(1, b'\\xff\\x00 step %d of 20\\n' % step)
    time.sleep(0.06)
os.write(1, b'no end of line')
";

fn record(place: &Place, script: &str) -> Command {
    let first = ["record", "--power", "model", "--no-svg", "-q", WORD, "--"];
    let mut command = place.command(&first);
    command.arg(python()).args(["-c", script]).stdin(Stdio::null());
    command
}

/// What `PRINTS` writes behind its first lines.
fn steps(end: &str) -> Vec<u8> {
    let line = |step: u32| [&b"\xff\x00 step "[..], format!("{step} of 20{end}").as_bytes()].concat();
    (0..21).flat_map(line).chain(b"no end of line".iter().copied()).collect()
}

fn assert_steps(place: &Place) {
    let step = work(&json(place, &[]), "step");
    assert_eq!((step["units"].as_f64(), &step["restarts"]), (Some(20.0), &0.into()), "{step}");
}

/// Into a pipe every byte comes as it was printed, and the numbers are those that were.
#[test]
fn into_a_pipe() {
    let place = place();
    let output = record(&place, PRINTS).stdout(Stdio::piped()).output().unwrap();
    assert_code(&output, 0);
    assert!(
        output.stdout == [&b"terminal False\n"[..], &steps("\n")].concat(),
        "{:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_steps(&place);
}

/// A file is the command's own, with nothing in between; what was in it before is not counted.
#[test]
fn into_a_file() {
    let place = place();
    place.write("log", 0o600, "step 7\n");
    let log = File::options().append(true).open(place.path("log")).unwrap();
    let script = format!(
        "import os\nprint(os.path.realpath('/proc/self/fd/1').endswith('log'), flush=True)\n{PRINTS}"
    );
    assert_code(&record(&place, &script).stdout(log).output().unwrap(), 0);
    let whole = [&b"step 7\nTrue\nterminal False\n"[..], &steps("\n")].concat();
    assert!(std::fs::read(place.path("log")).unwrap() == whole);
    assert_steps(&place);
}

/// On a terminal the program has a terminal of the same size, and every byte comes as it would have.
#[test]
fn on_a_terminal() {
    let place = place();
    let size = nix::pty::Winsize { ws_row: 40, ws_col: 123, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(&size, None).unwrap();
    let mut command = record(&place, PRINTS);
    let mut child = command.stdout(pty.slave.try_clone().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    drop((command, pty.slave));
    let (mut master, mut seen) = (File::from(pty.master), Vec::new());
    // The last end of a terminal that is closed is an error, EIO.
    let _end = master.read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    let whole = [&b"terminal True\r\nsize 123\r\n"[..], &steps("\r\n")].concat();
    assert!(seen == whole, "{:?}", String::from_utf8_lossy(&seen));
    assert_steps(&place);
}

/// Whoever closes the pipe ends the program as it would have ended, with SIGPIPE.
#[test]
fn nobody_reads() {
    let place = place();
    let script = "import signal, sys\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: print('step 1', flush=True)";
    let mut child = record(&place, script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}

/// The program is not ended by the end of energy-trace, nor of who counts: what it prints comes all the same.
#[test]
fn who_counts_may_die() {
    let place = place();
    let script = "import os, sys\nfor line in sys.stdin: os.write(1, b'step ' + line.encode())";
    let mut command = record(&place, script);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut say = |line: &[u8]| {
        to.write_all(line).unwrap();
        let mut heard = vec![0; line.len() + 5];
        from.read_exact(&mut heard).unwrap();
        assert_eq!(heard, [b"step ", line].concat());
    };
    say(b"1\n");
    signal_named(child.id(), "et-work", Signal::SIGKILL);
    say(b"2\n");
    child.kill().unwrap();
    child.wait().unwrap();
    // More than a pipe holds: somebody still takes it.
    for _ in 0..20 {
        say(&[&[b'7'; 8_000][..], b"\n"].concat());
    }
    drop(to);
    from.read_to_end(&mut Vec::new()).unwrap();
}

/// What a program prints before its end counts, however long it was quiet before.
#[test]
fn the_end_after_a_pause() {
    for pause in ["0.20", "0.24"] {
        let place = place();
        let script = format!(
            "import time\nprint('step 0', flush=True)\ntime.sleep(0.12)\nprint('step 1', flush=True)\n\
             time.sleep({pause})\nprint('step 20', flush=True)"
        );
        assert_code(&record(&place, &script).stdout(Stdio::piped()).output().unwrap(), 0);
        assert_steps(&place);
    }
}

/// Where somebody stops who counts, the recording ends all the same, and says that the last numbers are missing.
#[test]
fn who_counts_may_be_stopped() {
    let place = place();
    let script = "for line in open(0): print('step', line, end='', flush=True)";
    let mut command = record(&place, script);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut from = child.stdout.take().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"1\n").unwrap();
    from.read_exact(&mut [0; 7]).unwrap();
    signal_named(child.id(), "et-work", Signal::SIGSTOP);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(work(&json(&place, &[]), "step")["failure"], "timed-out");
}

/// Sends a signal to the child of a process that has this name.
fn signal_named(parent: u32, name: &str, signal: Signal) {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let is_named = |pid: &&str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let pid: i32 = children.split_whitespace().find(is_named).expect(name).parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}
