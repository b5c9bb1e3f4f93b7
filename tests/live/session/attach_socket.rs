//! `--attach-socket`: whoever connects to a service is recorded, alone, and gets the recording; nobody does it harm.
//!
//! A listening socket stands for systemd's. Leaves out the program that connects in Jupyter and pytest, the Python package (`tests/python`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_tests::place::{Place, assert_code, assert_says, eventually, text};
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const USER: u32 = 12345;
const PYTHON: &str = "/usr/bin/python3";

/// What a program does that has itself recorded; `{}` stands for what it does meanwhile.
const PEER: &str = r#"
import json, os, signal, socket, subprocess, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: os.listdir("/proc")
def child(program, name, seconds):
    code = f"""if True:
        import os, time
        def {name}():
            end = time.process_time() + {seconds}
            while time.process_time() < end: sum(range(1000))
        print(os.geteuid(), flush=True)
        {name}()"""
    return subprocess.Popen([program, "-c", code], stdout=subprocess.PIPE)
BEFORE
connection = socket.socket(socket.AF_UNIX)
connection.connect("socket")
stream = connection.makefile("rb")
FIRST
assert json.loads(stream.readline())["event"] == "recording"
BODY
told = json.loads(stream.readline())
data = stream.read(told["bytes"])
assert len(data) == told["bytes"], (len(data), told)
with open("got.data", "wb") as file: file.write(data)
"#;
const SHUT: &str = "spin(1); connection.shutdown(socket.SHUT_WR)";

/// A service, and a user's program that connects to it.
struct Service {
    place: Place,
    listener: UnixListener,
    peer: Child,
}

impl Service {
    /// The program has connected.
    fn start(before: &str, first: &str, body: &str) -> Self {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        chown(place.folder(), Some(USER), Some(USER)).unwrap();
        let listener = UnixListener::bind(place.path("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        fs::set_permissions(place.path("socket"), fs::Permissions::from_mode(0o666)).unwrap();
        for (name, mode) in [("plain", "0755"), ("setuid", "4755"), ("closed", "0711")] {
            let python = fs::canonicalize(PYTHON).unwrap();
            let mut install = Command::new("install");
            install.args(["-m", mode, "-o", "54321", "-g", "54321"]).arg(python).arg(place.path(name));
            assert!(install.status().unwrap().success());
        }
        let code = PEER.replace("BEFORE", before).replace("FIRST", first).replace("BODY", body);
        let user = USER.to_string();
        let mut peer = Command::new("setpriv");
        peer.args(["--reuid", &user, "--regid", &user, "--clear-groups", PYTHON, "-c", &code]);
        peer.current_dir(place.folder()).stdin(Stdio::null()).stderr(Stdio::piped());
        let peer = peer.spawn().unwrap();
        Self { place, listener, peer }
    }

    /// Records it, as systemd starts a service for a connection.
    fn record(&self, options: &[&str]) -> Output {
        let mut connection = None;
        eventually("a connection", || {
            connection = self.listener.accept().ok();
            connection.is_some()
        });
        let connection: OwnedFd = connection.unwrap().0.into();
        let words = [&["record", "--attach-socket", "--power", "none"], options].concat();
        let mut command = self.place.command(&words);
        command.stdin(connection.try_clone().unwrap()).stdout(connection).stderr(Stdio::piped());
        let mut recorder = command.spawn().unwrap();
        drop(command);
        eventually("the end of the recorder", || recorder.try_wait().unwrap().is_some());
        recorder.wait_with_output().unwrap()
    }

    /// What the program got, which has ended well.
    fn got(mut self) -> Recording {
        let mut said = String::new();
        self.peer.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.peer.wait().unwrap().success(), "{said}");
        let recording = energy_trace_model::recording::file::read(&self.place.path("got.data")).unwrap();
        assert!(recording.summary.is_some(), "it is whole");
        recording
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.peer.kill();
        let _ = self.peer.wait();
    }
}

/// Whether a function was sampled.
fn has(recording: &Recording, function: &str) -> bool {
    let at = |frame: usize| recording.frames.get(frame).is_some_and(|frame| frame.name.contains(function));
    recording.stacks.iter().any(|stack| at(stack.frame.get() as usize))
}

/// The whole recording comes when the program shuts its side down, with samples of its own; others are numbers in it, the kernel has no
/// addresses, and no file is left.
#[test]
fn own_samples_come_back() {
    let service = Service::start("", "", SHUT);
    let loop_of = "while :; do :; done";
    let shell = service.place.path("hush");
    assert!(Command::new("install").args(["-m", "0755", "/bin/sh"]).arg(&shell).status().unwrap().success());
    let mut other = Command::new(&shell).args(["-c", loop_of]).spawn().unwrap();
    let output = service.record(&["--ranges"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_code(&output, 0);
    assert_eq!(
        files(service.place.folder()),
        ["closed", "hush", "plain", "setuid", "socket"],
        "but by the program"
    );
    let pid = service.peer.id();
    let recording = service.got();
    assert!(recording.samples.len() > 100 && has(&recording, "spin"), "{} samples", recording.samples.len());
    assert!(recording.processes.iter().all(|process| process.pid.get() == pid), "{:?}", recording.processes);
    assert!(!recording.background.is_empty());
    for other in &recording.background {
        assert!(other.pid.get() == 0 && other.name.starts_with("other "), "{other:?}");
    }
    let of_kernel = recording.frames.iter().filter(|frame| frame.kind == FrameKind::Kernel);
    assert!(of_kernel.clone().count() > 0 && of_kernel.clone().all(|frame| frame.address == 0));
}

/// The names in a folder, sorted, but what the program wrote there.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "got.data").collect();
    names.sort_unstable();
    names
}

/// What the program starts is recorded where it is its user's, and left out where it has other rights or may not be read, whether it ran before
/// or came later.
#[test]
fn programs_with_other_rights_are_left_out() {
    let before = "early = [child('./setuid', 'hush_before', 60), child('./plain', 'loud_before', 60)]
assert [int(of.stdout.readline()) for of in early] == [54321, 12345]";
    let body = "for program in ('setuid', 'closed', 'plain'):
    name = ('loud_' if program == 'plain' else 'hush_') + program
    late = child('./' + program, name, 0.7)
    assert int(late.stdout.readline()) == (54321 if program == 'setuid' else 12345)
    assert late.wait() == 0
[of.kill() for of in early]
connection.shutdown(socket.SHUT_WR)";
    let service = Service::start(before, "", body);
    assert_code(&service.record(&[]), 0);
    let recording = service.got();
    assert!(has(&recording, "loud_before") && has(&recording, "loud_plain"));
    assert!(!recording.frames.iter().any(|frame| frame.name.contains("hush")), "{:?}", recording.frames);
    let programs = recording.processes.iter().filter_map(|process| process.command.first());
    let left_out = |word: &String| word.ends_with("setuid") || word.ends_with("closed");
    assert!(programs.clone().count() > 3 && !programs.clone().any(left_out), "{:?}", recording.processes);
}

/// A program that becomes one with other rights after it has connected is refused, and nothing of it is told.
#[test]
fn a_peer_with_other_rights_is_refused() {
    let first = "if os.fork():
    os.execv('./setuid', ['./setuid', '-c', 'import time; time.sleep(9)'])
with open('got.json', 'wb') as file: file.write(stream.readline())
os._exit(0)";
    let service = Service::start("", first, "");
    let name = format!("/proc/{}/comm", service.peer.id());
    eventually("the other program", || fs::read_to_string(&name).is_ok_and(|name| name == "setuid\n"));
    let output = service.record(&[]);
    assert_code(&output, 125);
    assert_says(&output, &["rights of another user"]);
    let told = || fs::read_to_string(service.place.path("got.json")).unwrap_or_default();
    eventually("what it was told", || told().ends_with('\n'));
    assert!(
        told().contains(r#""event":"failed""#) && told().contains("rights of another user"),
        "{}",
        told()
    );
}

/// The recording ends with the program, at its greatest length, and with anything that the program sends.
#[test]
fn it_ends() {
    let died = Service::start("", "", "os.kill(os.getpid(), signal.SIGKILL)");
    assert_code(&died.record(&[]), 0);
    drop(died);
    for (body, options) in
        [("", &["--duration", "1s"][..]), ("connection.sendall(bytes(range(256)) * 99)", &[])]
    {
        let service = Service::start("", "", body);
        assert_code(&service.record(options), 0);
        service.got();
    }
}

/// Nothing else than a connected socket is taken, and no other target beside it.
#[test]
fn what_is_refused() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let output = place.run(&["record", "--attach-socket"]);
    assert_code(&output, 125);
    assert_says(&output, &["stdin is none", "energy-trace-attach@.service"]);
    assert!(text(&output.stdout).contains(r#""event":"failed""#));
    assert_code(&place.run(&["record", "--attach-socket", "-p", "1"]), 2);
}

/// Names come from the file itself alone: a debug file beside it may be one that the user may not read.
#[test]
fn files_that_the_user_may_not_read() {
    const SPIN: &str = "#include <time.h>\nvolatile long turns;\n__attribute__((noinline)) void secret(void) \
                        { while (clock() < CLOCKS_PER_SEC / 2) turns++; }\nint main(void) { secret(); }\n";
    const SPLIT: &str = "cc -O1 -o split split.c; objcopy --only-keep-debug split split.debug; strip split
        objcopy --add-gnu-debuglink=split.debug split; chmod 600 split.debug; touch ready";
    let run = "while not os.path.exists('ready'): time.sleep(.05)\nsubprocess.run(['./split'])\n";
    let service = Service::start("", "", &format!("{run}{SHUT}"));
    service.place.write("split.c", 0o644, SPIN);
    let built = Command::new("sh").args(["-ec", SPLIT]).current_dir(service.place.folder()).status();
    assert!(built.unwrap().success());
    assert_code(&service.record(&[]), 0);
    let recording = service.got();
    let of_program = recording.frames.iter().filter(|frame| frame.module.ends_with("/split"));
    assert!(of_program.count() > 0 && !has(&recording, "secret"), "{:?}", recording.frames);
}
