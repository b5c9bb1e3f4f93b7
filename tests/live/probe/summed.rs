//! A recording without slices: CPU time is summed in the kernel and read with the power. Needs root, BPF and /dev/fuse.
//!
//! Leaves out what is made of sums (`model`, `totals`; `offline`, `attribution::summed`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{CpuOwner, LossReason, RecordingDiagnostic};
use energy_trace_tests::control_group::Group;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::report::Report;

/// Two processes that move to a group each, where there is one, and compute for two and a half seconds and for one and a half; says their numbers and the
/// kernel's account of their CPU time, when they have ended.
const BURNERS: &str = r"
import os, sys, time

def start(group, seconds):
    pid = os.fork()
    if pid:
        return pid
    if group:
        with open(group + '/cgroup.procs', 'w') as procs:
            procs.write('0')
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    os._exit(0)

for pid in [start(sys.argv[1], 2.5), start(sys.argv[2], 1.5)]:
    used = os.wait4(pid, 0)[2]
    print(pid, int(1e9 * (used.ru_utime + used.ru_stime)))
";

/// Two processes that hand a byte to and fro for so many seconds, and say how often.
const PING_PONG: &str = r"
import os, sys, time
here, there = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(here[1])
    while os.read(here[0], 1):
        os.write(there[1], b'x')
    os._exit(0)
end, turns = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    os.write(here[1], b'x')
    os.read(there[0], 1)
    turns += 1
print(turns)
";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// CPU time of a process, in nanoseconds.
fn recorded_ns(recording: &Recording, pid: u32) -> u64 {
    let is_its = |who| {
        let CpuOwner::Target(thread) = who else { return false };
        let process = recording.threads[thread.index()].process;
        recording.processes[process.index()].pid.get() == pid
    };
    let slices = recording.slices.iter().filter(|slice| is_its(slice.who));
    slices.map(|slice| slice.end.ns_since(slice.start)).sum()
}

/// What /proc/stat counts in.
const TICK_NS: u64 = 10_000_000;

/// Time that the host took from this machine's CPUs so far (steal, proc(5)): the kernel leaves it out of a process's CPU time where we do not.
fn stolen_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: u64 = stat.split_whitespace().nth(8).unwrap().parse().unwrap();
    ticks * TICK_NS
}

/// Two programs in groups of their own that compute at once, of different length: each has its CPU time as the kernel counts it, within a
/// fiftieth and what the host took, though nothing switches for long, and the ledger is exact.
#[test]
fn processes_have_their_time() {
    let (place, simulation) = (place(), Simulation::start(&Options::default()).unwrap());
    let groups = ["et-sums-a", "et-sums-b"].map(Group::new);
    let folder = |at: usize| groups[at].as_ref().map_or("", |group| group.path().to_str().unwrap());
    place.write("burners.py", 0o644, BURNERS);
    let sysfs = simulation.sysfs().to_str().unwrap().to_owned();
    let options = ["record", "-a", "--slices", "no", "-F", "19", "--no-svg", "--path.sysfs", &sysfs];
    let burners = ["--as-root", "--", "python3", "burners.py", folder(0), folder(1)];
    let stolen_before_ns = stolen_ns();
    let output = place.run(&[&options[..], &burners].concat());
    let stolen_ns = stolen_ns() - stolen_before_ns + TICK_NS;
    assert_code(&output, 0);
    assert_says(&output, &["CPU time was summed by process"]);
    let recording = read(&place.path("energy-trace.data")).unwrap();
    let summary = recording.summary.as_ref().unwrap();
    assert!(summary.diagnostics.contains(&RecordingDiagnostic::TimeSummed));
    assert!(!summary.lost.contains_key(&LossReason::CpuTotals), "{:?}", summary.lost);
    let said = text(&output.stdout);
    let told: Vec<u64> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_eq!(told.len(), 4, "{said}");
    for of in told.chunks(2) {
        let (ns, kernel_ns) = (recorded_ns(&recording, of[0] as u32), of[1]);
        println!("{ns} ns, of the kernel {kernel_ns}, stolen {stolen_ns}");
        let (least, most) = (kernel_ns * 98 / 100, kernel_ns * 102 / 100 + stolen_ns);
        assert!((least..=most).contains(&ns), "{ns} ns instead of {kernel_ns}, {stolen_ns} stolen");
    }
    let output = place.run(&["report", "--format", "json", "energy-trace.data"]);
    let report = Report::parse(&text(&output.stdout)).unwrap();
    assert!(!report.ledger.is_empty());
    assert!(report.ledger.iter().all(|row| row.imbalance_uj() == 0), "{:?}", report.ledger);
}

/// A hundred thousand switches are as many bytes as none: sums are all that is written.
#[test]
fn switches_cost_no_bytes() {
    let bytes = |slices: &str| {
        let place = place();
        place.write("ping.py", 0o644, PING_PONG);
        let options = ["record", "-a", "--slices", slices, "-F", "19", "--no-svg", "--power", "none"];
        let output =
            place.run(&[&options[..], &["--", "taskset", "-c", "1", "python3", "ping.py", "1"]].concat());
        assert_code(&output, 0);
        let recording = read(&place.path("energy-trace.data")).unwrap();
        let size = std::fs::metadata(place.path("energy-trace.data")).unwrap().len();
        println!(
            "--slices {slices}: {size} bytes, {} turns, {} slices",
            text(&output.stdout).trim(),
            recording.slices.len()
        );
        size
    };
    let (with, without) = (bytes("yes"), bytes("no"));
    assert!(with > 4 * without, "{with} {without}");
}

/// What needs slices is refused, and slices are left out of recordings of the machine alone.
#[test]
fn what_needs_slices_is_refused() {
    let place = place();
    let output = place.run(&["record", "-a", "--slices", "no", "--gpu", "kernel", "--", "true"]);
    assert_code(&output, 2);
    assert_says(&output, &["--gpu kernel needs to know who runs when"]);
    let output = place.run(&["record", "--slices", "no", "--", "true"]);
    assert_code(&output, 2);
    assert_says(&output, &["--all"]);
}
