//! What the kernel says and a container, a namespace or a control group shows otherwise: CPUs, clocks, files of the kernel, who belongs to the
//! program and who still runs. Nothing here depends on how fast the machine is.
//!
//! Leaves out the accounts themselves (`session/account.rs` of the product).

use energy_trace_model::ids::{Pid, ProcessKey, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    AccountDiagnostic, CpuOwner, HiddenFile, RecordingDiagnostic, StackStatus,
};
use energy_trace_tests::control_group::Group;
use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, eventually, run_bounded, text};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Computes for a quarter of a second, in a program that needs nothing beside it.
const SPIN: &str = "#include <time.h>
volatile long turns;
void spin(void) { while (clock() < CLOCKS_PER_SEC / 4) turns++; }
int main(void) { spin(); }
";
/// Mounts something, runs a program of it, also with it as root, and unmounts it.
const MOUNTS: &str = "mkdir -p mnt; mount -t tmpfs none mnt; trap 'umount -l mnt' EXIT
cp spin mnt; mnt/spin; chroot mnt /spin; umount mnt; trap - EXIT";

/// Computes for a quarter of a second of its own CPU time.
const BURN: &str = "python3 -c 'import time\nwhile time.process_time() < .25: pass'";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

fn recording(place: &Place) -> Recording {
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// What was found when the recording was held against the kernel's account.
fn found(recording: &Recording) -> Vec<&AccountDiagnostic> {
    let all = recording.summary.iter().flat_map(|summary| &summary.diagnostics);
    let of_account = all.filter_map(|diagnostic| match diagnostic {
        RecordingDiagnostic::Account(found) => Some(found),
        _ => None,
    });
    of_account.collect()
}

fn codes(recording: &Recording) -> Vec<&str> {
    recording.summary.iter().flat_map(|summary| &summary.diagnostics).map(RecordingDiagnostic::code).collect()
}

/// Whether a recording has begun: more is written than its file's opening.
fn runs(place: &Place) -> bool {
    std::fs::metadata(place.path("energy-trace.data")).is_ok_and(|file| file.len() > 200)
}

/// Records a shell script with this program before the recorder, after this set-up in a shell.
fn record_in(place: &Place, before: &[&str], set_up: &str, script: &str) -> Output {
    let recorder = place.command(&[]);
    let line = format!(
        "{set_up}exec '{}' record --power none --no-svg -- sh -c \"$0\"",
        recorder.get_program().display()
    );
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).args(["sh", "-ec", &line, script]).current_dir(place.folder());
    command.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("SUDO_USER");
    run_bounded(command)
}

/// A process that the command leaves behind is told with its name and number; one that it waits for is not.
#[test]
fn a_daemon_is_left_behind() {
    let place = place();
    let output = place.record("setsid sleep 57 >/dev/null 2>&1 </dev/null & echo $!").output().unwrap();
    let daemon = text(&output.stdout).trim().parse::<u32>().unwrap();
    // SAFETY: two numbers go in.
    unsafe { libc::kill(daemon.cast_signed(), libc::SIGKILL) };
    assert_code(&output, 0);
    let left = AccountDiagnostic::StillRunning { processes: 1, name: "sleep".to_owned(), pid: daemon };
    assert!(found(&recording(&place)).contains(&&left), "{:?}", found(&recording(&place)));
    let waited = self::place();
    assert_code(&waited.record("sleep .1 & wait").output().unwrap(), 0);
    assert!(found(&recording(&waited)).is_empty(), "{:?}", found(&recording(&waited)));
}

/// In a time namespace, whose clocks are a day ahead of the kernel's, samples lie within the recording and the recording is short; and so it is
/// where they are behind.
#[test]
fn clocks_of_a_time_namespace() {
    for ahead in ["86400", "-10"] {
        let place = place();
        let unshare = ["unshare", "--time", "--monotonic", ahead, "--boottime", ahead, "--fork"];
        assert_code(&record_in(&place, &unshare, "", BURN), 0);
        let recording = recording(&place);
        let summary = recording.summary.as_ref().unwrap();
        let inside = |at| summary.start <= at && at <= summary.end;
        assert!(recording.samples.len() > 10 && recording.samples.iter().all(|sample| inside(sample.at)));
        assert!(summary.end.ns_since(summary.start) < 3_600_000_000_000, "{summary:?}");
        assert!(!codes(&recording).contains(&"machine-paused"));
    }
}

/// A container that shows one CPU of several (lxcfs), or no list of CPUs at all: the others are sampled, and nobody says that the machine
/// stood still.
#[test]
fn cpus_that_a_container_does_not_show() {
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    for list in ["online possible present", "possible", "online"] {
        let place = place();
        let masks = list.split(' ').map(|name| format!("mount --bind one /sys/devices/system/cpu/{name}; "));
        let set_up = format!("echo 0 > one; {}", masks.collect::<String>());
        let output =
            record_in(&place, &["unshare", "-m"], &set_up, &format!("exec taskset -c {last} {BURN}"));
        assert_code(&output, 0);
        let recording = recording(&place);
        let there = recording.samples.iter().filter(|sample| sample.cpu.index() == last);
        assert!(there.count() > 10, "{list}: {} samples", recording.samples.len());
        assert!(!codes(&recording).contains(&"machine-paused"), "{list}");
    }
}

/// Two processes hand a byte to and fro while the recorder is stopped: the events of their switches find no room, and what is recorded is held
/// against the kernel's own account of them.
#[test]
fn a_recorder_that_is_held_up_says_what_is_missing() {
    const TO_AND_FRO: &str = r#"
import os, time
(a, b), (c, d) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(b), os.close(c)
    while os.read(a, 1):
        os.write(d, b"x")
    os._exit(0)
os.close(a), os.close(d)
print(os.getpid(), flush=True)
end = time.process_time() + 3
while time.process_time() < end:
    os.write(b, b"x"), os.read(c, 1)
os.close(b), os.wait()
"#;
    let place = place();
    let words = ["record", "--as-root", "--no-svg", "--power", "model", "--", "python3", "-c", TO_AND_FRO];
    let mut child = Talk::spawn(place.command(&words));
    let writer = child.line();
    child.signal(libc::SIGSTOP);
    // Nearly all of it: far more than the rings hold, also beside others, where it switches less in the same CPU time.
    let on_cpu = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", writer.trim())).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    let before = on_cpu().unwrap();
    let stop = std::time::Instant::now() + Duration::from_secs(60);
    while on_cpu().is_some_and(|now| now < before + 2_700_000_000) && std::time::Instant::now() < stop {
        std::thread::sleep(Duration::from_millis(100));
    }
    child.signal(libc::SIGCONT);
    assert_code(&child.end(), 0);
    let recording = recording(&place);
    let missing = found(&recording).into_iter().find_map(|found| match found {
        AccountDiagnostic::CpuTime { recorded_ns, kernel_ns, .. } => Some((*recorded_ns, *kernel_ns)),
        _ => None,
    });
    let lost = &recording.summary.as_ref().unwrap().lost;
    let (recorded, kernel) = missing.unwrap_or_else(|| panic!("{:?} {lost:?}", codes(&recording)));
    assert!(recorded < kernel && !lost.is_empty(), "{recorded} of {kernel} ns, {lost:?}");
}

/// A `/proc` with processes only, and single files that are masked: it is recorded, and said what is hidden.
#[test]
fn a_smaller_proc() {
    let place = place();
    assert_code(&record_in(&place, &["unshare", "-m"], "mount -t proc -o subset=pid proc /proc; ", BURN), 0);
    let seen = recording(&place);
    let all =
        [HiddenFile::KernelSymbols, HiddenFile::CpuTimes, HiddenFile::CpuModel, HiddenFile::KernelSettings];
    assert!(seen.samples.len() > 10);
    assert!(found(&seen).contains(&&AccountDiagnostic::Hidden { files: all.to_vec() }), "{:?}", found(&seen));
    let place = self::place();
    let mask = "mount --bind /dev/null /proc/kallsyms; ";
    assert_code(&record_in(&place, &["unshare", "-m"], mask, BURN), 0);
    let files = vec![HiddenFile::KernelSymbols];
    assert!(found(&recording(&place)).contains(&&AccountDiagnostic::Hidden { files }));
}

/// Where the kernel's types are hidden too, nothing is recorded, and the path is named, not a kernel that lacks something.
#[test]
fn hidden_types_are_named() {
    let place = place();
    let output = record_in(&place, &["unshare", "-m"], "mount -t tmpfs none /sys/kernel/btf; ", "true");
    assert_code(&output, 125);
    assert_says(&output, &["/sys/kernel/btf/vmlinux", "hides"]);
    assert!(!text(&output.stderr).contains("CONFIG_"), "{}", text(&output.stderr));
}

/// A program whose first thread has ended: its functions have their names when it is attached to, and the library that another thread loads
/// then is known.
#[test]
fn the_first_thread_has_ended() {
    let place = place();
    let program = "\
import ctypes, os, threading, time
def rest():
    time.sleep(.3)
    print('alone', flush=True)
    input()
    import zlib
    bytes = os.urandom(1 << 20)
    while True: zlib.compress(bytes)
threading.Thread(target=rest).start()
ctypes.CDLL(None).pthread_exit(None)
";
    place.write("rest.py", 0o644, program);
    let mut python = Command::new("python3");
    python.arg("rest.py").current_dir(place.folder());
    let mut python = Started::new(python);
    eventually("the first thread has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", python.0.id())).unwrap_or_default();
        stat.contains(") Z ")
    });
    let pid = python.0.id().to_string();
    let recorder = Talk::spawn(place.command(&["record", "--power", "none", "-p", &pid, "--duration", "3"]));
    eventually("the recording runs", || runs(&place));
    python.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let output = recorder.end();
    assert_code(&output, 0);
    let recording = recording(&place);
    let is_whole = |status| matches!(status, StackStatus::Complete | StackStatus::Recovered(_));
    let whole = recording.samples.iter().filter(|sample| is_whole(sample.status)).count();
    assert!(recording.samples.len() > 10 && whole * 10 > recording.samples.len() * 9, "{whole}");
    assert!(recording.frames.iter().any(|frame| frame.name == "rest"), "{:?}", recording.frames);
}

/// A process that is killed when the test ends.
struct Started(Child);

impl Started {
    fn new(mut command: Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program mounts it can unmount, also in a mount namespace of its own: files of ours that are open do not keep it, and have their names.
#[test]
fn what_is_mounted_can_be_unmounted() {
    let place = place();
    place.write("spin.c", 0o644, SPIN);
    let cc =
        Command::new("cc").args(["-static", "-o", "spin", "spin.c"]).current_dir(place.folder()).status();
    assert!(cc.unwrap().success());
    for within in [&["env"][..], &["unshare", "-m"]] {
        let options = ["record", "--power", "none", "--no-svg", "--"];
        assert_code(&place.run(&[&options[..], within, &["sh", "-ec", MOUNTS]].concat()), 0);
        let recording = recording(&place);
        let named = recording.frames.iter().filter(|frame| frame.name == "spin").map(|frame| &*frame.module);
        let mut modules: Vec<_> = named.map(|module| module.rsplit('/').next().unwrap()).collect();
        modules.dedup();
        assert_eq!(modules, ["spin"], "{:?}", recording.frames);
    }
}

fn move_to(group: &Path, process: &Started) {
    std::fs::write(group.join("cgroup.procs"), process.0.id().to_string()).unwrap();
}

fn spinning() -> Started {
    let mut shell = Command::new("sh");
    shell.args(["-c", "while :; do :; done"]);
    Started::new(shell)
}

/// Whether a process ran as a target later than this moment.
fn ran_after(recording: &Recording, process: &Started, ns: u64) -> bool {
    let pid = Pid::new(process.0.id());
    let keys: Vec<ProcessKey> =
        recording.processes.iter().filter(|process| process.pid == pid).map(|process| process.key).collect();
    let threads: Vec<ThreadKey> = recording
        .threads
        .iter()
        .filter(|thread| keys.contains(&thread.process))
        .map(|thread| thread.key)
        .collect();
    let is_its = |who| matches!(who, CpuOwner::Target(thread) if threads.contains(&thread));
    let start = recording.summary.as_ref().unwrap().start;
    recording.slices.iter().any(|slice| is_its(slice.who) && slice.end.ns_since(start) > ns)
}

/// Who comes into the group later, into one in it that is made later, is recorded; who leaves it is not any more. A group is found by its own
/// name, wherever hierarchies are mounted.
#[test]
fn a_group_that_changes() {
    let Some(group) = Group::new("et-changes") else { return println!("no control group can be made here") };
    let (stays, leaves, comes, outside) = (spinning(), spinning(), spinning(), spinning());
    move_to(group.path(), &stays);
    move_to(group.path(), &leaves);
    let name = group.path().file_name().unwrap().to_str().unwrap().to_owned();
    let place = place();
    let recorder =
        Talk::spawn(place.command(&["record", "--power", "none", "--cgroup", &name, "--duration", "4"]));
    eventually("the recording runs", || runs(&place));
    std::thread::sleep(Duration::from_millis(200));
    let inner = group.below("inner");
    move_to(inner.path(), &comes);
    move_to(group.path().parent().unwrap(), &leaves);
    let output = recorder.end();
    let recording = recording(&place);
    let half = recording.summary.as_ref().map_or(0, |summary| summary.end.ns_since(summary.start)) / 2;
    let late = [&stays, &comes, &leaves].map(|process| ran_after(&recording, process, half));
    let is_known = recording.processes.iter().any(|process| process.pid.get() == outside.0.id());
    let found: Vec<AccountDiagnostic> = found(&recording).into_iter().cloned().collect();
    drop((stays, leaves, comes, outside));
    drop((inner, group));
    assert_code(&output, 0);
    assert_eq!((late, is_known), ([true, true, false], false), "{found:?}");
    let differs = found.iter().any(|found| matches!(found, AccountDiagnostic::CpuTime { .. }));
    assert!(!differs, "{found:?}");
}
