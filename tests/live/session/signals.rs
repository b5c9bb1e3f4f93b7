//! Signals: who gets which, how often, and what is left on disk; Ctrl-C and progress on a terminal.
//!
//! Runs the real binary as root; BPF programs load. Never asserts how long anything takes.

use energy_trace_tests::place::{Place, Talk, assert_code, eventually, text};
use energy_trace_tests::processes::all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits for the trap that sets `n`, half a minute at most, by sleeping: a signal that comes just before a `read` leaves that waiting.
const SLEEP_UNTIL_TOLD: &str = "i=0; while [ $n -eq 0 ] && [ $i -lt 1500 ]; do sleep 0.02; i=$((i+1)); done";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The recording of a place, as the library reads it.
fn recording(place: &Place) -> energy_trace_model::recording::Recording {
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// Signals for the command reach it, each once.
#[test]
fn signals_are_passed_on() {
    for (name, signal) in
        [("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("QUIT", libc::SIGQUIT), ("USR1", libc::SIGUSR1)]
    {
        let place = place();
        let script = format!(
            "n=0; trap 'n=$((n+1)); echo got' {name}; echo ready; {SLEEP_UNTIL_TOLD}; read y; exit $((40+n))"
        );
        let mut child = Talk::spawn(place.record(&script));
        assert_eq!(child.line(), "ready\n");
        child.signal(signal);
        assert_eq!(child.line(), "got\n", "{name}");
        let output = child.end();
        assert_code(&output, 41);
        assert!(recording(&place).summary.is_some(), "{name}");
    }
}

/// A command that signals its own process group hears it once, not again from us.
#[test]
fn the_commands_own_signals_do_not_come_back() {
    let place = place();
    let script = "n=0; trap 'n=$((n+1))' USR1; kill -USR1 0; i=0; while [ $i -lt 30 ]; do sleep 0.01; i=$((i+1)); done; exit $n";
    let mut command = place.record(script);
    // A group of its own, or the test would be signalled too.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    assert_code(&command.output().unwrap(), 1);
}

/// Who makes the results, and is stopped by somebody, does not hold up the end for ever: that is said, and what was recorded is there. Where it
/// goes on in time its results are whole. A command that runs on is waited for in any case.
#[test]
fn the_finisher_is_stopped() {
    for (goes_on, code) in [(true, 0), (false, 125)] {
        let place = place();
        let mut child = Talk::spawn(place.record("trap '' INT; echo ready; read y; exit 0"));
        assert_eq!(child.line(), "ready\n");
        let finisher = all().into_iter().find(|of| of.parent == child.0.id() && of.name == "et-finisher");
        let finisher = Pid::from_raw(finisher.unwrap().pid.cast_signed());
        kill(finisher, Signal::SIGSTOP).unwrap();
        if goes_on {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(2));
                kill(finisher, Signal::SIGCONT)
            });
        } else {
            child.signal(libc::SIGINT);
            let mut said = String::new();
            // No byte more than the line: the rest is looked at in the end.
            BufReader::with_capacity(1, child.0.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
            assert!(said.contains("the command keeps running"), "{said}");
            assert!(child.0.try_wait().unwrap().is_none());
        }
        let output = child.end();
        assert_code(&output, code);
        assert_eq!(text(&output.stderr).contains("was stopped by somebody (SIGSTOP)"), !goes_on);
        assert!(recording(&place).summary.is_some());
    }
}

/// Who makes the results and is stopped before the command runs does not hold that for ever: nothing runs, which is said, and no file is left.
#[test]
fn the_finisher_is_stopped_before_the_start() {
    let place = place();
    let child = Talk::spawn(place.record("touch ran"));
    // The machine's idle power is looked at for a second, so there is time.
    let finisher = std::iter::repeat_with(all).flatten();
    let mut finisher = finisher.filter(|of| of.parent == child.0.id() && of.name == "et-finisher");
    kill(Pid::from_raw(finisher.next().unwrap().pid.cast_signed()), Signal::SIGSTOP).unwrap();
    let output = child.end();
    assert_code(&output, 125);
    let said = text(&output.stderr);
    assert!(said.contains("was stopped by somebody (SIGSTOP)") && said.contains("did not run"), "{said}");
    assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0, "{said}");
}

/// SIGINT stops the recording, whose result is whole at once; the command is told, runs on if it likes, and its status counts.
#[test]
fn interrupted_once() {
    let place = place();
    let mut child =
        Talk::spawn(place.record(&format!(
            "n=0; trap 'n=1; echo told' INT; echo ready; {SLEEP_UNTIL_TOLD}; read y; exit 9"
        )));
    assert_eq!(child.line(), "ready\n");
    child.signal(libc::SIGINT);
    assert_eq!(child.line(), "told\n");
    eventually("a whole recording", || {
        let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data"));
        recording.is_ok_and(|r| r.summary.is_some_and(|s| s.exit_code.is_none()))
    });
    assert!(child.0.try_wait().unwrap().is_none(), "it waits for the command");
    assert_code(&child.end(), 9);
}

/// Two SIGINTs at once, as `timeout -s INT` sends them to its child and to the child's group, are one.
#[test]
fn interrupted_twice_at_once() {
    let place = place();
    let mut child = Talk::spawn(place.record("trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done"));
    assert_eq!(child.line(), "ready\n");
    child.signal(libc::SIGINT);
    child.signal(libc::SIGINT);
    assert_code(&child.end(), 9);
    assert_code(&place.run(&["report", "energy-trace.data"]), 0);
}

/// A second SIGINT ends energy-trace at once, the command lives on, and what is on disk stays readable.
#[test]
fn interrupted_twice() {
    let place = place();
    let mut child = Talk::spawn(place.record("trap '' INT; echo ready; read x; echo $x"));
    assert_eq!(child.line(), "ready\n");
    let began = Instant::now();
    while child.0.try_wait().unwrap().is_none() {
        child.signal(libc::SIGINT);
        std::thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
    }
    child.0.stdin.as_mut().unwrap().write_all(b"alive\n").unwrap();
    assert_eq!(child.line(), "alive\n");
    assert_code(&child.end(), 130);
    assert_code(&place.run(&["report", "energy-trace.data"]), 0);
}

/// Killing energy-trace does not harm the command.
#[test]
fn the_command_survives_us() {
    let place = place();
    let mut child = Talk::spawn(place.record("echo ready; read x; echo $x"));
    assert_eq!(child.line(), "ready\n");
    let mut stdin = child.0.stdin.take().unwrap();
    child.signal(libc::SIGKILL);
    child.0.wait().unwrap();
    stdin.write_all(b"alive\n").unwrap();
    assert_eq!(child.line(), "alive\n");
}

/// A terminal for a recording, which is its own session there.
struct Terminal {
    child: Talk,
    file: std::fs::File,
    screen: Vec<u8>,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let size = nix::pty::Winsize { ws_row: 40, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = nix::pty::openpty(Some(&size), None).unwrap();
        for set in [Command::stdin, Command::stdout, Command::stderr] {
            set(&mut command, Stdio::from(pty.slave.try_clone().unwrap()));
        }
        let become_leader = || {
            nix::unistd::setsid()?;
            // SAFETY: stdin is the terminal; TIOCSCTTY takes a number.
            match unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec only two system calls are made.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, become_leader) };
        let child = Talk(command.spawn().unwrap());
        Self { child, file: std::fs::File::from(pty.master), screen: Vec::new() }
    }

    /// What is on it once this word is, or when its last user is gone.
    fn until(&mut self, word: &str) -> String {
        let mut bytes = [0; 512];
        // The terminal says EIO when its last user is gone.
        while !text(&self.screen).contains(word) {
            match self.file.read(&mut bytes) {
                Ok(n) if n > 0 => self.screen.extend(&bytes[..n]),
                _ => break,
            }
        }
        text(&self.screen)
    }
}

/// On a terminal: nothing is written there while the command runs, its last line is left alone, and Ctrl-C reaches it once.
#[test]
fn on_a_terminal() {
    let place = place();
    let script = format!(
        "n=0; trap 'n=$((n+1))' INT; printf 'bar 10%%'; sleep 1.2; printf ' 20%%\\nready\\n'; {SLEEP_UNTIL_TOLD}; i=0; \
         while [ $i -lt 40 ]; do sleep 0.02; i=$((i+1)); done; printf unfinished; exit $((20+n))"
    );
    let mut terminal = Terminal::start(place.record(&script));
    let screen = terminal.until("ready");
    assert!(screen.ends_with("bar 10% 20%\r\nready\r\n") && !screen.contains("samples"), "{screen:?}");
    terminal.file.write_all(b"\x03").unwrap();
    let screen = terminal.until("recording: energy-trace.data");
    assert_eq!(terminal.child.0.wait().unwrap().code(), Some(21), "{screen}");
    assert!(screen.contains(&format!("unfinished{}\r", " ".repeat(79))), "{screen:?}");
}

/// After the command's end a line says what takes so long, and is erased.
#[test]
fn attributing_on_a_terminal() {
    let place = place();
    let mut terminal = Terminal::start(place.record("printf unfinished"));
    let screen = terminal.until("recording: energy-trace.data");
    assert_eq!(terminal.child.0.wait().unwrap().code(), Some(0), "{screen}");
    let (before, after) = screen.split_once("attributing").unwrap();
    assert!(before.contains(&format!("unfinished{}\r", " ".repeat(79))), "{screen:?}");
    assert!(after.contains("\r\x1b[K"), "the line is erased: {screen:?}");
}

/// A terminal that shows text and nothing else (an editor's, `TERM=dumb`) gets text and nothing else.
#[test]
fn on_a_dumb_terminal() {
    let place = place();
    let mut command = place.record("echo ready");
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(command);
    let screen = terminal.until("recording: energy-trace.data");
    assert_eq!(terminal.child.0.wait().unwrap().code(), Some(0), "{screen}");
    assert!(screen.contains("ready") && !screen.contains('\x1b'), "{screen:?}");
}
