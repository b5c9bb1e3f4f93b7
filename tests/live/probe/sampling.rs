//! Samples come as many as the time says, on every CPU that is there, and where they cannot that is said: real recordings, with CPUs that go and
//! come and with the kernel's limit lowered. Needs root and BPF; two CPUs of which the second can go offline for its part of it.
//!
//! What is changed of the machine is put back however a test ends. Leaves out stacks (`stacks.rs`, `oracle.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file;
use energy_trace_model::recording::record::{CpuOwner, LossReason, RecordingDiagnostic, SampleEvent};
use energy_trace_sentences::recorded;
use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, text};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SECOND_CPU: &str = "/sys/devices/system/cpu/cpu1/online";
const LIMIT: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// Two processes that burn for so many seconds on the clock, and first say that they do.
const BURN: &str = "import os,sys,time\nprint(flush=True)\nos.fork()\nend=time.time()+float(sys.argv[1])\nwhile time.time()<end:\n sum(range(9999))\n";

/// One test at a time changes the machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// A file of the kernel, and what stood in it, which comes back.
struct Changed {
    path: &'static str,
    before: String,
    _machine: MutexGuard<'static, ()>,
}

impl Changed {
    fn new(path: &'static str, text: &str) -> Self {
        let machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = Self { path, before: std::fs::read_to_string(path).unwrap(), _machine: machine };
        changed.set(text);
        changed
    }

    fn set(&self, text: &str) {
        std::fs::write(self.path, text).unwrap();
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path, &self.before);
    }
}

/// Begins to record the burners, and waits until they run.
fn begin(place: &Place, options: &[&str], seconds: &str) -> Talk {
    let mut arguments = vec!["record", "-q", "--power", "none", "--no-svg"];
    arguments.extend(options);
    arguments.extend(["--", "python3", "-c", BURN, seconds]);
    let mut recording = Talk::spawn(place.command(&arguments));
    recording.line();
    recording
}

fn read(place: &Place) -> Recording {
    let recording = file::read(&place.path("energy-trace.data")).unwrap();
    println!("sampled by {:?}", recording.header.sample_event);
    recording
}

/// Samples, and how many the targets' time should have brought.
fn came_of(recording: &Recording) -> (f64, f64) {
    let targets = recording.slices.iter().filter(|slice| matches!(slice.who, CpuOwner::Target(_)));
    let ns: u64 = targets.map(|slice| slice.end.ns_since(slice.start)).sum();
    let came = u32::try_from(recording.samples.len()).unwrap();
    (f64::from(came), ns as f64 / 1e9 * f64::from(recording.header.sample_hz))
}

/// As many samples came as the time says: a guest's CPUs are away at times, and a CPU that came is seen within a tenth of a second.
#[track_caller]
fn assert_fits(recording: &Recording) {
    let (came, expected) = came_of(recording);
    println!("{came} samples, {expected:.0} expected");
    assert!(expected > 100.0, "{expected} samples are too few to compare");
    assert!(came > 0.85 * expected && came < 1.15 * expected, "{came} samples came of {expected:.0}");
}

fn warnings<'a>(recording: &'a Recording, code: &str) -> Vec<&'a RecordingDiagnostic> {
    let found = &recording.summary.as_ref().unwrap().diagnostics;
    found.iter().filter(|found| found.code() == code).collect()
}

/// A CPU that goes offline while it is sampled and comes back is sampled again.
#[test]
fn a_cpu_that_comes_back_is_sampled() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let cpu = Changed::new(SECOND_CPU, "1");
    let recording = begin(&place, &["-F", "199"], "2.4");
    std::thread::sleep(Duration::from_millis(700));
    cpu.set("0");
    std::thread::sleep(Duration::from_millis(1000));
    cpu.set("1");
    assert_code(&recording.end(), 0);
    assert_fits(&read(&place));
}

/// A CPU that was offline at the start is sampled from when it comes.
#[test]
fn a_cpu_that_comes_late_is_sampled() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let cpu = Changed::new(SECOND_CPU, "0");
    let recording = begin(&place, &["-F", "199"], "2.4");
    std::thread::sleep(Duration::from_millis(700));
    cpu.set("1");
    assert_code(&recording.end(), 0);
    let recording = read(&place);
    assert!(recording.samples.iter().any(|sample| sample.cpu.get() == 1), "no sample on the second CPU");
    assert_fits(&recording);
}

/// Under a limit that the kernel keeps to, the rate that comes is the one in the header, and the reader learns of it and of what lifts it.
#[test]
fn a_low_limit_is_told() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let limit = Changed::new(LIMIT, "500");
    assert_code(&begin(&place, &["-F", "999"], "1").end(), 0);
    let recording = read(&place);
    assert!(recording.header.sample_hz < 500, "{} Hz", recording.header.sample_hz);
    assert_fits(&recording);
    let told = warnings(&recording, "sample-rate-limited");
    assert!(
        told.len() == 1 && recorded(told[0]).contains("sudo sysctl kernel.perf_event_max_sample_rate="),
        "{told:?}"
    );
    assert_eq!(warnings(&recording, "samples-missing"), Vec::<&RecordingDiagnostic>::new());
    drop(limit);
}

/// A limit that falls while samples come is told, and so is that they are missing; the time is what it is.
#[test]
fn a_limit_that_falls_is_told() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let limit = Changed::new(LIMIT, "100000");
    let recording = begin(&place, &["-F", "999"], "2.5");
    std::thread::sleep(Duration::from_millis(700));
    limit.set("250");
    assert_code(&recording.end(), 0);
    let recording = read(&place);
    let told = warnings(&recording, "sample-rate-limited");
    assert!(told.len() == 1 && recorded(told[0]).contains("after the start"), "{told:?}");
    let (came, expected) = came_of(&recording);
    let missing = warnings(&recording, "samples-missing");
    assert_eq!(missing.len(), usize::from(came < 0.7 * expected), "{came} of {expected}: {missing:?}");
    let lost = &recording.summary.as_ref().unwrap().lost;
    assert!(!lost.keys().any(LossReason::is_full_buffer), "{lost:?}");
}

/// A few samples a second come as often as many do: when their period is drawn anew it begins anew.
#[test]
fn few_a_second_come_too() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    assert_code(&begin(&place, &["-F", "5"], "2.4").end(), 0);
    let (came, expected) = came_of(&read(&place));
    assert!(came > 0.6 * expected && came < 1.4 * expected, "{came} samples came of {expected:.0}");
}

/// `auto` takes what `doctor` says; cycles that are asked for are taken, or refused with what to do.
#[test]
fn the_event_is_a_choice() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    assert_code(&begin(&place, &[], "0.2").end(), 0);
    let said = text(&place.run(&["doctor"]).stdout);
    let sampling = said.lines().find(|line| line.contains(" sampling ")).unwrap();
    assert!(sampling.contains(&format!(" {},", read(&place).header.sample_event.unwrap())), "{sampling}");

    assert_code(&begin(&place, &["--sample-event", "cpu-clock"], "0.2").end(), 0);
    assert_eq!(read(&place).header.sample_event, Some(SampleEvent::CpuClock));

    let asked = begin(&place, &["--sample-event", "cycles"], "0.2").end();
    if Path::new("/sys/bus/event_source/devices/cpu").exists() {
        assert_code(&asked, 0);
        assert_eq!(read(&place).header.sample_event, Some(SampleEvent::Cycles));
    } else {
        assert_code(&asked, 125);
        assert_says(&asked, &["hardware cycles", "--sample-event cpu-clock"]);
    }
}
