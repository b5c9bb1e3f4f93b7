//! A stretch in which nobody was looking, made by switching the sampler's events off from outside while a program computes.
//!
//! Leaves out machines that stand still themselves: what the scheduler's account says of those, unit tests of `collect/pauses` show.

use energy_trace_tests::place::{Place, Talk, assert_code, eventually, text};
use energy_trace_tests::processes::family;
use energy_trace_tests::report::Report;
use std::fs::{File, read_dir, read_link};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// `_IO('$', 0)` and `_IO('$', 1)` of linux/perf_event.h.
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;

const SCRIPT: &str = "
import os, time
def spin():
    for i in range(20000): pass
def before(end):
    while time.process_time() < end: spin()
def blind():
    open('begun', 'w').close()
    while not os.path.exists('over'): spin()
def after(end):
    while time.process_time() < end: spin()
before(time.process_time() + 0.4)
begun = time.process_time()
blind()
over = time.process_time()
after(over + 0.4)
print(over - begun)
";

/// Copies of the perf events that a process has open.
fn events_of(pid: u32) -> Vec<OwnedFd> {
    // SAFETY: two numbers go in, and a new descriptor, or -1, comes out.
    let process = new_fd(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) });
    let is_event = |fd: &u32| {
        read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|link| link.ends_with("anon_inode:[perf_event]"))
    };
    let fds = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let fds: Vec<u32> = fds.filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
    let copy = |fd: u32| {
        // SAFETY: numbers go in, and a new descriptor, or -1, comes out.
        new_fd(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
    };
    fds.into_iter().filter(is_event).map(copy).collect()
}

/// What a system call has made.
fn new_fd(answer: i64) -> OwnedFd {
    assert!(answer >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it is new, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(answer).unwrap()) }
}

/// Switches events on or off.
fn switch(events: &[OwnedFd], how: u64) {
    for event in events {
        // SAFETY: these two take no argument.
        assert_eq!(unsafe { libc::ioctl(event.as_raw_fd(), how, 0) }, 0);
    }
}

/// One sample does not stand for a second without any: that time is nobody's, the function that computed in it keeps what was sampled of it, its
/// neighbours what they had, and the report says what happened.
#[test]
fn time_without_samples_is_nobodys() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let options = ["record", "-q", "--power", "none", "--no-svg", "-F", "199", "--"];
    // Nothing else may end the program's turns on its CPU: a machine that stands still does so in the middle of one.
    let program = ["chrt", "-f", "10", "taskset", "-c", "1", "/usr/bin/python3", "-c", SCRIPT];
    let recorder = Talk::spawn(place.command(&[&options[..], &program].concat()));
    eventually("the second function", || place.path("begun").exists());
    let events: Vec<OwnedFd> = family(recorder.0.id()).iter().flat_map(|seen| events_of(seen.pid)).collect();
    switch(&events, DISABLE);
    let since = Instant::now();
    std::thread::sleep(Duration::from_millis(900));
    let dark = since.elapsed().as_secs_f64();
    switch(&events, ENABLE);
    File::create(place.path("over")).unwrap();
    let output = recorder.end();
    assert_code(&output, 0);
    let used: f64 = text(&output.stdout).trim().parse().unwrap();

    let report = place.run(&["report", "--format", "json"]);
    assert_code(&report, 0);
    let report = Report::parse(&text(&report.stdout)).unwrap();
    let seconds = |name: &str| report.named(name).map(|row| row.total_ns as f64 / 1e9).sum::<f64>();
    let [before, blind, after, nobodys] = ["before", "blind", "after", "[unsampled]"].map(seconds);
    let figures = format!(
        "{} events off for {dark:.3} of {used:.3} s: {before:.3} {blind:.3} {after:.3}, {nobodys:.3}",
        events.len()
    );
    println!("{figures}");
    // The kernel keeps 5 % of each second for programs that are not real-time ones.
    assert!((dark * 0.9 - 0.1..dark + 0.05).contains(&nobodys), "{figures}");
    assert!(blind < used - nobodys + 0.05, "{figures}");
    // The program is not seen to be Python at once.
    assert!(before < 0.45 && (0.35..0.45).contains(&after), "{figures}");
    assert!(report.meta["warnings"].to_string().contains("machine-paused"), "{}", report.meta["warnings"]);
}
