//! `top` on a pseudo-terminal: what it draws fits, keys and sizes are heard, and the terminal is as before whatever ends it.
//!
//! Leaves out what rows say (`tracer/report/src/top.rs`).

use energy_trace_tests::interpreters;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{Pid, setsid};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Works until it is told to end, in one function of its own name, and takes no notice of Ctrl-C.
const PROGRAM: &str = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
     def hot_function():\n  while True: sum(i * i for i in range(1000))\nhot_function()";
/// Long enough for a machine that does much else; nobody waits so long where all is well.
const PATIENCE: Duration = Duration::from_mins(2);
/// Back to the shell's page.
const LEAVE: &str = "\x1b[?1049l";

/// `top` on a terminal of its own.
struct Screen {
    child: Child,
    keys: File,
    /// The terminal itself, as the shell would have it.
    terminal: std::os::fd::OwnedFd,
    output: Receiver<Vec<u8>>,
    text: String,
}

const fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Screen {
    fn start(arguments: &[&str]) -> Self {
        let OpenptyResult { master, slave } = openpty(Some(&size(80, 24)), None).unwrap();
        // A terminal is gone when we are: its other end is nobody else's.
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
        command.arg("top").args(["--power", "model"]).args(arguments);
        let file = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(file()).stdout(file()).stderr(file());
        // Coloured, whatever the terminal of the test is.
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let controlling = || {
            setsid()?;
            // SAFETY: makes standard input, which is a terminal that nobody has, this session's.
            if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: two system calls, which allocate and lock nothing.
        unsafe { command.pre_exec(controlling) };
        let child = command.spawn().unwrap();
        let mut from = File::from(master.try_clone().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys: master.into(), terminal: slave, output, text: String::new() }
    }

    /// Waits until what was drawn holds all of these.
    fn wait_for(&mut self, wanted: &[&str]) {
        self.wait_until(&wanted.join(", "), |page| wanted.iter().all(|text| page.contains(text)));
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.page()) {
            assert!(Instant::now() < end, "no {what} in\n{}", self.page());
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended ({ended:?}) before there was {what}:\n{}", self.text);
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) {
                self.text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// The last page that was drawn whole, without what moves the cursor: a terminal may send `\r` more than once.
    fn page(&self) -> String {
        let pages: Vec<&str> = self.text.split("\x1b[H").collect();
        let whole = pages.iter().rev().find(|page| page.contains("\x1b[J"));
        whole
            .map(|page| {
                visible(&page.split("\x1b[J").next().unwrap().replace("\x1b[K", "").replace('\r', ""))
            })
            .unwrap_or_default()
    }

    fn key(&mut self, key: u8) {
        self.keys.write_all(&[key]).unwrap();
    }

    fn resize(&self, columns: u16, lines: u16) {
        let size = size(columns, lines);
        // SAFETY: sets the size of a terminal that is open from a value that lives long enough.
        assert_eq!(unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits for its end; then the terminal is as it was: the shell's page, keys by the line and echoed.
    fn ended(mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it goes on:\n{}", self.page());
            std::thread::sleep(Duration::from_millis(20));
        };
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(300)) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        let modes = tcgetattr(&self.terminal).unwrap().local_flags;
        assert!(modes.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{modes:?}");
        let behind = self.text.rsplit_once(LEAVE).unwrap_or_else(|| panic!("no {LEAVE:?}")).1.to_owned();
        assert!(self.text.contains("\x1b[?25h"), "the cursor is gone");
        (status, behind)
    }
}

/// The text without colours, which take no columns.
fn visible(page: &str) -> String {
    let mut parts = page.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    std::iter::once(first).chain(rest).collect()
}

impl Drop for Screen {
    /// A test that fails leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program's functions, and its energy by process; what a terminal of another size gets fits; `q` ends it and the program, also one that
/// Ctrl-C does not end, and says what was used.
#[test]
fn a_program_is_watched() {
    let mut screen = Screen::start(&["--", "/usr/bin/python3", "-c", PROGRAM]);
    screen.wait_for(&["hot_function", "package-0", "(estimated)", "python3 -c"]);
    let page = screen.page();
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines.len(), 24, "{page}");
    screen.key(b'f');
    screen.resize(40, 10);
    screen.wait_until("10 lines of 40 columns, functions alone", |page| {
        let lines: Vec<&str> = page.lines().collect();
        lines.len() == 10
            && lines.iter().all(|line| line.chars().count() <= 40)
            && !page.contains("API call\n")
    });
    screen.key(b'q');
    let (_, behind) = screen.ended();
    assert!(behind.contains("J (estimated) in ") && behind.contains("hot_function"), "{behind}");
}

/// Prints a step each 50 ms that it works for.
const STEPS: &str = "import time\n\
     def turn(step):\n  end = time.process_time() + 0.05\n  while time.process_time() < end: pass\n  print('step', step, flush=True)\n\
     for step in range(100000): turn(step)";

/// Joules per step now and so far, of a program whose output is a pipe; none of what it prints is on the
/// screen. Calls are units too, where the interpreter reports them.
#[test]
fn units_of_work_are_watched() {
    let word = r"--work=step=stdout:step (\d+)";
    let counts = interpreters::found(12..=13).pop();
    let python = counts.clone().unwrap_or_else(|| "/usr/bin/python3".into());
    let words =
        [word, "--work=none=file:/nothing", "--work=turn=calls:turn", "--work=absent=calls:absent", "--"];
    let mut screen = Screen::start(&[&words[..], &[python.to_str().unwrap(), "-c", STEPS]].concat());
    screen.wait_for(&[
        "step: ",
        " each now, ",
        " each of ",
        " so far",
        "none: no number: nothing is there",
        "absent: no such function yet",
    ]);
    assert!(screen.page().lines().count() == 24 && !screen.text.contains("step 1"), "{}", screen.text);
    screen.key(b'q');
    let (_, behind) = screen.ended();
    assert!(behind.contains("J (estimated) in ") && behind.contains(" per step: "), "{behind}");
    let of = |unit: &str| {
        let number = behind.split_once(unit)?.1.split_whitespace().next()?.replace(',', "");
        number.parse::<f64>().ok()
    };
    // A step is printed as each call ends: windows count no call twice.
    let [steps, turns] = [" per step: ", " per turn: "].map(of);
    assert!(counts.is_none() || (0.5..1.2).contains(&(turns.unwrap() / steps.unwrap())), "{behind}");
}

/// Signals end it, and the terminal is as before: SIGINT and SIGTERM, while the whole machine is watched.
#[test]
fn signals_leave_the_terminal_as_it_was() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut screen = Screen::start(&["-F", "49"]);
        screen.wait_for(&["package-0"]);
        screen.signal(signal);
        let (status, behind) = screen.ended();
        assert!(status.success(), "{signal}: {status}, {behind}");
        assert!(behind.contains("whole system"), "{behind}");
    }
}

/// Without a terminal nothing is recorded, and the way to a file is said.
#[test]
fn no_terminal() {
    let top = Command::new(env!("CARGO_BIN_EXE_energy-trace"))
        .args(["top", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&top.stderr);
    assert_eq!(top.status.code(), Some(2), "{said}");
    assert!(said.contains("energy-trace record"), "{said}");
}
