//! What reading power costs: CPU time of the readers, how long a round takes, and how late it begins, at 50, 100 and 1,000 readings a second.
//!
//! A measurement and no test: run by `cargo xtask bench sources`, for release. The counters are ordinary files (what remains is
//! energy-trace's own share), perf events (the kernel's CPU clock stands in for RAPL) and the simulated powercap on FUSE (whose server
//! is part of the latency, as a driver's would be).
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot be taken fails by panicking"
)]

use energy_trace_power::{self as power, PowerPlan};
use energy_trace_tests::powercap::{Options, Simulation};
use hdrhistogram::serialization::Deserializer;
use nix::sys::resource::{UsageWho, getrusage};
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

const RUN: Duration = Duration::from_secs(5);

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Two sockets with their memory, as plain files.
fn plain_files(root: &Path) {
    for zone in ["intel-rapl:0", "intel-rapl:1", "intel-rapl:0/intel-rapl:0:0", "intel-rapl:1/intel-rapl:1:0"]
    {
        let name = if zone.contains('/') { "dram".to_owned() } else { format!("package-{}", &zone[11..]) };
        write(root, &format!("class/powercap/{zone}/name"), &name);
        write(root, &format!("class/powercap/{zone}/energy_uj"), "123456789\n");
        write(root, &format!("class/powercap/{zone}/max_energy_range_uj"), "262143328850\n");
    }
}

/// Package, memory and platform, as perf events.
fn perf_events(root: &Path) {
    let pmu = "bus/event_source/devices/power";
    write(root, &format!("{pmu}/type"), "1");
    write(root, &format!("{pmu}/cpumask"), "0");
    for event in ["energy-pkg", "energy-ram", "energy-psys"] {
        write(root, &format!("{pmu}/events/{event}"), "event=0x00");
        write(root, &format!("{pmu}/events/{event}.unit"), "Joules");
        write(root, &format!("{pmu}/events/{event}.scale"), "2.5e-8");
    }
}

/// User and system time of this thread's whole process.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let of = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec().unsigned_abs(), u32::try_from(time.tv_usec()).unwrap() * 1000)
    };
    of(usage.user_time()) + of(usage.system_time())
}

fn microseconds(histogram: &[u8]) -> String {
    let mut bytes = histogram;
    let histogram: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes).unwrap();
    let at = |q| format!("{:.1}", histogram.value_at_quantile(q) as f64 / 1000.0);
    format!("{} / {} / {:.0}", at(0.5), at(0.99), histogram.max() as f64 / 1000.0)
}

/// One source at one rate: a line of the table.
async fn measure(what: &str, sysfs: &Path, hz: u32) {
    let plan = PowerPlan {
        sysfs: sysfs.to_owned(),
        gpu: false,
        period: Duration::from_secs(1) / hz,
        ..PowerPlan::default()
    };
    let set = power::open(&plan).unwrap();
    let domains = set.domains().len();
    let (records, received) = channel();
    let writer = std::thread::spawn(move || received.into_iter().count());
    let before = cpu_time();
    let task = set.start(records).unwrap();
    tokio::time::sleep(RUN).await;
    let end = task.stop().await;
    let cpu = cpu_time() - before;
    writer.join().unwrap();
    println!(
        "| {what} | {domains} | {hz} | {:.2} % | {} | {} |",
        100.0 * cpu.as_secs_f64() / RUN.as_secs_f64(),
        microseconds(&end.latency.0),
        microseconds(&end.lateness.0)
    );
}

/// Prints the table. Times are of this machine at this moment, and are not judged.
#[tokio::main]
async fn main() {
    let (files, events) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plain_files(files.path());
    perf_events(events.path());
    println!(
        "| source | counters | readings/s | CPU of the reader | a round, µs: p50 / p99 / max | late by, µs: p50 / p99 / max |"
    );
    println!("|---|---|---|---|---|---|");
    for hz in [50, 100, 1000] {
        measure("powercap, plain files", files.path(), hz).await;
        measure("perf events", events.path(), hz).await;
        let simulation = Simulation::start(&Options { sockets: 2, ..Options::default() }).unwrap();
        measure("powercap, FUSE in this process (its server counted)", simulation.sysfs(), hz).await;
    }
}
