//! Power sources against simulated hardware: a powercap tree on FUSE, logs of a meter. No BPF.
//!
//! Needs /dev/fuse and root. Every bound is on joules or on order, none on a time: the machine may stand still for 20 ms at any moment.

use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    CounterValue, IdleOrigin, Origin, PowerDiagnostic, Reading, Record,
};
use energy_trace_power::{self as power, PowerEnd, PowerPlan, PowerSet, PowerTask, SourceChoice};
use energy_trace_sentences::{ignored_reason, power_fact};
use energy_trace_tests::breadth::some_or_all;
use energy_trace_tests::powercap::{Options, Simulation};
use energy_trace_tests::process::{self, Guard};
use hdrhistogram::serialization::Deserializer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn simulate(options: &Options) -> Simulation {
    Simulation::start(options).expect("a simulated powercap tree")
}

/// Options of a simulator that idles at so many watts, with faults.
fn hardware(idle_watts: f64, faults: &[&str]) -> Options {
    let faults = faults.iter().map(|f| f.parse().unwrap()).collect();
    Options { idle_watts, faults, ..Options::default() }
}

fn plan(sysfs: &Path, word: &str) -> PowerPlan {
    let choices = vec![word.parse().unwrap()];
    PowerPlan { choices, sysfs: sysfs.to_owned(), gpu: false, ..PowerPlan::default() }
}

/// A run that is going on, and what it has sent up to now.
struct Run {
    task: PowerTask,
    records: Receiver<Record>,
    readings: BTreeMap<DomainId, Vec<Reading>>,
}

impl Run {
    fn start(set: PowerSet) -> Self {
        let (sender, records) = channel();
        Self { task: set.start(sender).unwrap(), records, readings: BTreeMap::new() }
    }

    fn receive(&mut self) {
        for record in self.records.try_iter() {
            match record {
                Record::Readings(id, batch) => self.readings.entry(id).or_default().extend(batch),
                Record::GpuMeter(..) | Record::GpuUses(..) | Record::Frequencies(..) => {}
                other => panic!("not of a power source: {other:?}"),
            }
        }
    }

    /// Goes on until `enough` says so of the first domain's readings.
    async fn until(&mut self, what: &str, enough: impl Fn(&[Reading]) -> bool) {
        for _ in 0..600 {
            self.receive();
            if self.readings.get(&DomainId::new(0)).is_some_and(|readings| enough(readings)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("half a minute, and not yet: {what}");
    }

    async fn stop(mut self) -> (BTreeMap<DomainId, Vec<Reading>>, PowerEnd) {
        let Self { task, records, .. } = self;
        let end = task.stop().await;
        for record in records {
            match record {
                Record::Readings(id, batch) => self.readings.entry(id).or_default().extend(batch),
                Record::GpuMeter(..) | Record::GpuUses(..) | Record::Frequencies(..) => {}
                other => panic!("not of a power source: {other:?}"),
            }
        }
        (self.readings, end)
    }
}

/// The readings that succeeded, as (nanoseconds, microjoules).
fn good(readings: &[Reading]) -> Vec<(u64, u64)> {
    let value = |r: &Reading| match r.value {
        CounterValue::MicroJoules(uj) => Some((r.at.as_ns(), uj)),
        CounterValue::Failed => None,
    };
    readings.iter().filter_map(value).collect()
}

fn count(histogram: &[u8]) -> u64 {
    let mut bytes = histogram;
    let histogram: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes).unwrap();
    histogram.len()
}

/// Runs functions of known watts for so many seconds of each, on the simulated hardware.
async fn run_phases(simulation: &Simulation, seconds: f64) {
    let workload = process::phases(Path::new("python3"), simulation, seconds);
    let finished =
        tokio::task::spawn_blocking(|| Guard::spawn(&mut { workload })?.finish(Duration::from_secs(60)))
            .await
            .unwrap()
            .unwrap();
    assert!(finished.status.success(), "{}", finished.stderr);
}

/// The counter of a real workload: readings in order, and their difference is idle power plus what the functions really spent.
#[tokio::test(flavor = "multi_thread")]
async fn powercap_measures_what_the_workload_spent() {
    let simulation = simulate(&Options { step_uj: 61, ..hardware(1.0, &[]) });
    let set = power::open(&plan(simulation.sysfs(), "powercap")).unwrap();
    assert_eq!(set.sources()[0].domains, ["package-0"]);
    let run = Run::start(set);
    run_phases(&simulation, 2.0).await;
    assert!(run.task.watts().is_some_and(|w| w.as_watts() >= 0.9), "{:?}", run.task.watts());
    let truth = simulation.truth();
    let (readings, end) = run.stop().await;
    let values = good(&readings[&DomainId::new(0)]);
    assert!(values.is_sorted() && values.len() > 10, "{values:?}");
    let ((from_ns, from_uj), (to_ns, to_uj)) = (values[0], values[values.len() - 1]);
    let active_uj = (to_uj - from_uj) as f64 - (to_ns - from_ns) as f64 / 1000.0;
    let true_uj: u64 = truth.functions.values().map(|f| f.uj).sum();
    assert!(truth.functions["forty_watts"].uj > 1_000_000, "{truth:?}");
    let error = active_uj / true_uj as f64 - 1.0;
    assert!(error.abs() < 0.01, "{error:+.4}: {active_uj} µJ measured, {true_uj} µJ spent");
    assert_eq!(end.diagnostics, []);
    assert_eq!(count(&end.latency.0), values.len() as u64);
    // The first and the last round have no due time.
    assert_eq!(count(&end.lateness.0), values.len() as u64 - 2);
}

/// A counter file that vanishes and comes back: failed readings, then good ones of the new file, and one warning for all.
#[tokio::test(flavor = "multi_thread")]
async fn counter_that_vanishes() {
    let simulation = simulate(&hardware(10.0, &["intel-rapl:0@0.3..0.9:vanish"]));
    let mut run = Run::start(power::open(&plan(simulation.sysfs(), "auto")).unwrap());
    let failed = |r: &Reading| r.value == CounterValue::Failed;
    run.until("readings fail and succeed again", |readings| {
        readings.iter().any(failed) && readings.last().is_some_and(|last| !failed(last))
    })
    .await;
    let (readings, end) = run.stop().await;
    let failed = readings[&DomainId::new(0)].iter().filter(|r| failed(r)).count();
    let codes: Vec<_> = end.diagnostics.iter().map(PowerDiagnostic::code).collect();
    assert_eq!(codes, ["power-read-failed"]);
    let text = power_fact(&end.diagnostics[0]);
    assert!(text.starts_with(&format!("package-0: {failed} of ")), "{text}");
    assert!(text.contains("intel-rapl:0/energy_uj"), "{text}");
    assert!(good(&readings[&DomainId::new(0)]).is_sorted());
}

/// A counter that only root may read: an error with three ways out where it was asked for, the model and the reason under `auto`.
#[tokio::test]
async fn counter_that_is_not_readable() {
    let simulation = simulate(&hardware(10.0, &["intel-rapl:0@0:unreadable"]));
    let error = power::open(&plan(simulation.sysfs(), "powercap")).err().expect("no error").to_string();
    for part in ["sudo", "sudo setcap cap_", "sudo chmod a+r /", "energy_uj"] {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
    let set = power::open(&plan(simulation.sysfs(), "auto")).unwrap();
    assert!(matches!(set.domains()[0].origin, Origin::Model { .. }));
    let reasons = &set.sources()[0].ignored;
    assert!(
        reasons.iter().any(|i| i.domain == "package-0" && ignored_reason(&i.reason).contains("sudo")),
        "{reasons:?}"
    );
    let refusing = PowerPlan { measured_only: true, ..plan(simulation.sysfs(), "auto") };
    assert!(power::open(&refusing).is_err_and(|e| e.to_string().contains("setcap")));
}

/// Two sockets, counters that return to zero: each has its domain and its range, and stays within it.
#[tokio::test(flavor = "multi_thread")]
async fn two_sockets_that_wrap() {
    let options = Options { sockets: 2, range_uj: 2_000_000, start_uj: 1_500_000, ..hardware(10.0, &[]) };
    let simulation = simulate(&options);
    let set = power::open(&plan(simulation.sysfs(), "auto")).unwrap();
    let domains: Vec<_> = set.domains().iter().map(|d| (d.name.as_str(), d.origin.clone())).collect();
    for (i, (name, origin)) in domains.iter().enumerate() {
        assert_eq!(*name, format!("package-{i}"));
        assert!(
            matches!(origin, Origin::Counter { max_range: Some(r), .. } if r.as_uj() == 2_000_000),
            "{origin:?}"
        );
    }
    assert_eq!(domains.len(), 2);
    let mut run = Run::start(set);
    run.until("the counter returns to zero", |readings| !good(readings).is_sorted_by_key(|v| v.1)).await;
    let (readings, _) = run.stop().await;
    assert!(readings.values().flat_map(|r| good(r)).all(|(_, uj)| uj <= 2_000_000));
}

/// The baseline of an idle machine is its idle power, each socket's half, and says how it was found.
#[tokio::test(flavor = "multi_thread")]
async fn idle_baseline() {
    let simulation = simulate(&Options { sockets: 2, ..hardware(20.0, &[]) });
    let mut set = power::open(&plan(simulation.sysfs(), "powercap")).unwrap();
    set.measure_idle(Duration::from_secs(1)).await;
    for domain in set.domains() {
        let idle = domain.idle.as_ref().expect("a baseline");
        assert!((9.0..11.0).contains(&idle.power.as_watts()), "{idle:?}");
        assert!(
            matches!(idle.origin, IdleOrigin::Measured { over_ns: 1_000_000_000, .. }),
            "{:?}",
            idle.origin
        );
    }
}

/// The meter of a whole server beside its package's counter: the sum of its means is what sockets and the rest have drawn (to 0.5 % on a quiet
/// machine; where readings are held up as power steps, to 2 %), and the progress line counts nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn whole_server_beside_its_package() {
    let simulation = simulate(&Options { server_watts: 40, server_ms: 50, ..hardware(10.0, &[]) });
    let set = power::open(&plan(simulation.sysfs(), "auto")).unwrap();
    let names: Vec<_> = set.domains().iter().map(|domain| domain.name.clone()).collect();
    assert_eq!(names, ["package-0", "server"]);
    let run = Run::start(set);
    run_phases(&simulation, 3.0).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    // The server's meter is at 50 W by now, both together would be at 60.
    assert!(run.task.watts().is_some_and(|watts| watts.as_watts() < 45.0), "{:?}", run.task.watts());
    let (readings, end) = run.stop().await;
    assert_eq!(end.diagnostics, []);
    let ends = |domain: u32| {
        let values = good(&readings[&DomainId::new(domain)]);
        let ((from_ns, from_uj), (to_ns, to_uj)) = (values[0], values[values.len() - 1]);
        ((to_ns - from_ns) as f64 / 1e9, (to_uj - from_uj) as f64 / 1e6)
    };
    let ((package_s, package_j), (server_s, server_j)) = (ends(0), ends(1));
    // Nothing but idle power is drawn at both ends.
    let truth_j = package_j + 10.0 * (server_s - package_s) + 40.0 * server_s;
    let error = server_j / truth_j - 1.0;
    assert!(error.abs() < 0.02, "{error:+.4}: {server_j} J summed, {truth_j} J drawn");
}

/// A power sensor that cannot be read for a while: one warning, and the sum goes on over it; one that is always 0 says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn power_sensor_that_fails() {
    for fault in some_or_all(&["text", "vanish", "error", "empty"]) {
        let fault = format!("server@0.3..0.8:{fault}");
        let simulation = simulate(&Options { server_watts: 40, server_ms: 50, ..hardware(10.0, &[&fault]) });
        let mut run = Run::start(power::open(&plan(simulation.sysfs(), "hwmon-power")).unwrap());
        let failed = |r: &Reading| r.value == CounterValue::Failed;
        run.until("readings fail and succeed again", |readings| {
            readings.iter().any(failed) && readings.last().is_some_and(|last| !failed(last))
        })
        .await;
        let (readings, end) = run.stop().await;
        let codes: Vec<_> = end.diagnostics.iter().map(PowerDiagnostic::code).collect();
        assert_eq!(codes, ["power-read-failed"], "{fault}");
        let values = good(&readings[&DomainId::new(0)]);
        let ((from_ns, from_uj), (to_ns, to_uj)) = (values[1], values[values.len() - 1]);
        let watts = (to_uj - from_uj) as f64 * 1e3 / (to_ns - from_ns) as f64;
        assert!((watts / 50.0 - 1.0).abs() < 0.02, "{fault}: {watts} W");
    }
    let dead = simulate(&Options { server_watts: 40, ..hardware(10.0, &["server@0:constant=0"]) });
    let mut run = Run::start(power::open(&plan(dead.sysfs(), "hwmon-power")).unwrap());
    run.until("it was read", |readings| readings.len() > 2).await;
    let (readings, _) = run.stop().await;
    assert!(good(&readings[&DomainId::new(0)]).iter().all(|(_, uj)| *uj == 0));
}

/// A guest whose host writes its share each 100 ms, another file in the place of the old one each time: all that it wrote is read.
#[tokio::test(flavor = "multi_thread")]
async fn share_told_by_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("intel-rapl:0");
    std::fs::create_dir(&zone).unwrap();
    let write = move |uj: u64| {
        std::fs::write(zone.join("new"), uj.to_string()).unwrap();
        std::fs::rename(zone.join("new"), zone.join("energy_uj")).unwrap();
    };
    write(7_000_000);
    let choices = vec![SourceChoice::File("host", folder.path().to_owned())];
    let set = power::open(&PowerPlan { choices, ..PowerPlan::default() }).unwrap();
    assert_eq!(set.domains().iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(), ["package-0"]);
    let run = Run::start(set);
    for step in 1..=25 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        write(7_000_000 + step * 1_500_000);
    }
    let (readings, end) = run.stop().await;
    let values = good(&readings[&DomainId::new(0)]);
    assert_eq!((values[0].1, values[values.len() - 1].1), (7_000_000, 44_500_000));
    assert!(values.is_sorted() && values.len() >= 3, "{values:?}");
    assert_eq!(end.diagnostics, []);
}

/// A log with times since the start: all rows are in the recording, on its clock, and a run that is longer is told so.
#[tokio::test(flavor = "multi_thread")]
async fn replay_of_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("meter.csv");
    std::fs::write(&log, "time_s,package-0_uj\n0,100\n0.001,200\n0.002,350\n").unwrap();
    let set =
        power::open(&PowerPlan { choices: vec![SourceChoice::File("replay", log)], ..PowerPlan::default() })
            .unwrap();
    let before = energy_trace_system::clock::now();
    let mut run = Run::start(set);
    run.until("the rows are there", |readings| readings.len() == 3).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (readings, end) = run.stop().await;
    let values = good(&readings[&DomainId::new(0)]);
    assert_eq!(values.iter().map(|v| v.1).collect::<Vec<_>>(), [100, 200, 350]);
    assert!(values[0].0 >= before.as_ns());
    assert_eq!([values[1].0 - values[0].0, values[2].0 - values[1].0], [1_000_000, 1_000_000]);
    assert_eq!(end.diagnostics[0].code(), "replay-does-not-cover");
    assert!(end.lateness.0.is_empty());
}

/// A log that a meter writes while the run lasts: rows from before and after the start, and no row twice.
#[tokio::test(flavor = "multi_thread")]
async fn replay_of_a_growing_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("meter.csv");
    let start = energy_trace_system::clock::anchor();
    let row = |ms: u64| format!("{:.3},{ms}\n", start.unix_ns as f64 / 1e9 + ms as f64 / 1e3 - 1.0);
    let head = format!("unix_s,wall_j\n{}{}", row(0), row(500));
    std::fs::write(&log, &head).unwrap();
    let plan = PowerPlan { choices: vec![SourceChoice::File("replay", log.clone())], ..PowerPlan::default() };
    let run = Run::start(power::open(&plan).unwrap());
    std::fs::write(&log, format!("{head}{}{}170000", row(900), row(3_600_000))).unwrap();
    let (readings, end) = run.stop().await;
    let values = good(&readings[&DomainId::new(0)]);
    assert_eq!(values.iter().map(|v| v.1 / 1_000_000).collect::<Vec<_>>(), [0, 500, 900, 3_600_000]);
    assert!(values.is_sorted());
    assert_eq!(end.diagnostics, []);
}

/// What is wrong with a log is said with file, line and column before the run starts.
#[test]
fn replay_errors() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("meter.csv");
    let cases = [
        ("", "meter.csv is empty"),
        ("time_s,package-0_uj\n1,5\n0.5,6\n", "meter.csv, line 3, column 1 (time_s): the time is earlier"),
        (
            "time_s,package-0_uj\n0,5\n1,six\n",
            "meter.csv, line 3, column 2 (package-0_uj): it holds no number",
        ),
    ];
    for (text, part) in cases {
        std::fs::write(&log, text).unwrap();
        let plan =
            PowerPlan { choices: vec![SourceChoice::File("replay", log.clone())], ..PowerPlan::default() };
        let error = power::open(&plan).err().expect("no error").to_string();
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}
