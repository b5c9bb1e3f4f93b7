//! Tests of the choice of sources, on sysfs trees as they are on real machines.

use super::{PowerError, open};
use crate::survey::survey;
use crate::{PowerPlan, SourceChoice};
use energy_trace_model::recording::record::{
    DomainClass, Frequencies, IgnoredReason, Origin, Record, Scope, Source,
};
use energy_trace_model::units::MicroWatts;
use energy_trace_sentences::{ignored_reason, source_note};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A sysfs tree; each zone is (directory below `class/powercap`, name, counter).
fn tree(zones: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (dir, name, counter) in zones {
        let dir = tree.path().join("class/powercap").join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("name"), format!("{name}\n")).unwrap();
        fs::write(dir.join("energy_uj"), format!("{counter}\n")).unwrap();
        fs::write(dir.join("max_energy_range_uj"), "262143328850\n").unwrap();
    }
    tree
}

/// A laptop: package with its parts, psys beside it, and the MMIO mirror.
const CLIENT: &[(&str, &str, &str)] = &[
    ("intel-rapl/intel-rapl:0", "package-0", "1000"),
    ("intel-rapl/intel-rapl:0/intel-rapl:0:0", "core", "300"),
    ("intel-rapl/intel-rapl:0/intel-rapl:0:1", "uncore", "100"),
    ("intel-rapl/intel-rapl:1", "psys", "5000"),
    ("intel-rapl-mmio/intel-rapl-mmio:0", "package-0", "1000"),
];

/// A server of two sockets, each with its memory.
const SERVER: &[(&str, &str, &str)] = &[
    ("intel-rapl:0", "package-0", "1000"),
    ("intel-rapl:0/intel-rapl:0:0", "dram", "300"),
    ("intel-rapl:1", "package-1", "2000"),
    ("intel-rapl:1/intel-rapl:1:0", "dram", "400"),
];

/// AMD Zen with two dies in a socket: both zones show the socket's register.
const AMD: &[(&str, &str, &str)] = &[
    ("intel-rapl:0", "package-0-die-0", "1000"),
    ("intel-rapl:0/intel-rapl:0:0", "core", "10"),
    ("intel-rapl:1", "package-0-die-1", "1000"),
];

fn plan(sysfs: &Path, words: &[&str]) -> PowerPlan {
    let choices = words.iter().map(|w| w.parse().unwrap()).collect();
    PowerPlan { choices, sysfs: sysfs.to_owned(), gpu: false, ..PowerPlan::default() }
}

fn names(plan: &PowerPlan) -> Vec<String> {
    open(plan).unwrap().domains().iter().map(|d| d.name.clone()).collect()
}

#[track_caller]
fn check_error(plan: &PowerPlan, parts: &[&str]) {
    let error = open(plan).err().expect("no error").to_string();
    for part in parts {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}

/// What `auto` takes on three real machines.
#[test]
fn auto_on_real_machines() {
    assert_eq!(names(&plan(tree(CLIENT).path(), &[])), ["package-0", "psys"]);
    assert_eq!(names(&plan(tree(SERVER).path(), &["auto"])), ["package-0", "dram-0", "package-1", "dram-1"]);
    assert_eq!(names(&plan(tree(AMD).path(), &["auto"])), ["package-0"]);
}

/// Domains carry their id, scope, place and range; every joule that is left out has a reason.
#[test]
fn domains_are_described() {
    let tree = tree(CLIENT);
    let set = open(&plan(tree.path(), &["powercap"])).unwrap();
    let ids: Vec<_> = set.domains().iter().map(|d| d.id.index()).collect();
    assert_eq!(ids, [0, 1]);
    assert_eq!(set.domains()[1].class, DomainClass::Psys);
    assert_eq!(set.domains()[1].scope, Scope::Machine);
    let Origin::Counter { place, max_range, .. } = &set.domains()[0].origin else { panic!("no counter") };
    assert!(place.ends_with("intel-rapl:0/energy_uj"), "{place}");
    assert_eq!(max_range.unwrap().as_uj(), 262_143_328_850);
    let ignored: Vec<_> = set.sources()[0].ignored.iter().map(|i| i.domain.clone()).collect();
    assert_eq!(
        ignored,
        ["core (intel-rapl:0:0)", "uncore (intel-rapl:0:1)", "package-0 (intel-rapl-mmio:0)"]
    );
}

/// A virtual machine without anything: the model by itself, an error where estimates are refused or powercap is named.
#[test]
fn machine_without_counters() {
    let nothing = tempfile::tempdir().unwrap();
    let set = open(&plan(nothing.path(), &[])).unwrap();
    assert!(matches!(set.domains()[0].origin, Origin::Model { .. }));
    assert_eq!(
        set.sources().iter().map(|s| s.id.to_string()).collect::<Vec<_>>(),
        ["powercap", "perf", "hwmon", "model"]
    );
    let measured = PowerPlan { measured_only: true, ..plan(nothing.path(), &[]) };
    check_error(&measured, &["--measured-only", "class/powercap does not exist", "modprobe intel_rapl_msr"]);
    check_error(
        &plan(nothing.path(), &["powercap"]),
        &["--power powercap gives no counter", "does not exist"],
    );
    let both = PowerPlan { measured_only: true, ..plan(nothing.path(), &["model"]) };
    assert!(matches!(open(&both), Err(PowerError::ModelWithMeasuredOnly)));
}

/// On an Arm machine nobody misses RAPL, unless it is named.
#[test]
fn arm_machines_have_no_rapl() {
    let arm = tempfile::tempdir().unwrap();
    let cpus = arm.path().join("devices/system/cpu");
    fs::create_dir_all(&cpus).unwrap();
    fs::create_dir_all(arm.path().join("class/powercap")).unwrap();
    fs::write(cpus.join("modalias"), "cpu:type:aarch64:feature:,0000,0001\n").unwrap();
    let set = open(&plan(arm.path(), &[])).unwrap();
    assert_eq!(set.sources().iter().map(|s| s.id.to_string()).collect::<Vec<_>>(), ["hwmon", "model"]);
    check_error(&plan(arm.path(), &["powercap"]), &["--power powercap gives no counter", "has no zones"]);
}

/// A counter that is no number is ignored with a reason, and `auto` goes on with the model.
#[test]
fn unusable_counter() {
    let tree = tree(&[("intel-rapl:0", "package-0", "N/A")]);
    let set = open(&plan(tree.path(), &[])).unwrap();
    assert!(ignored_reason(&set.sources()[0].ignored[0].reason).contains("does not hold a number"));
    assert!(matches!(set.domains()[0].origin, Origin::Model { .. }));
}

/// Words that cannot be had: sources that are not there, `none` beside others, a library that is not there.
#[test]
fn words_that_cannot_be_had() {
    let tree = tree(CLIENT);
    check_error(&plan(tree.path(), &["perf"]), &["--power perf gives no counter", "modprobe rapl"]);
    check_error(&plan(tree.path(), &["hwmon"]), &["--power hwmon gives no counter", "no energy sensor"]);
    check_error(&plan(tree.path(), &["none", "auto"]), &["leave out `none`"]);
    check_error(&plan(tree.path(), &["replay:/nonexistent.csv"]), &["/nonexistent.csv cannot be read"]);
    let library = Some(PathBuf::from("/nonexistent.so"));
    let nvml = PowerPlan { gpu: true, nvml_lib: library, ..plan(tree.path(), &[]) };
    check_error(&nvml, &["--nvml-lib", "/nonexistent.so"]);
    check_error(
        &PowerPlan { gpu: false, ..plan(tree.path(), &["nvml"]) },
        &["--power nvml gives no counter"],
    );
    assert!(names(&plan(tree.path(), &["none"])).is_empty());
}

/// One domain from two sources is not added up but refused.
#[test]
fn clash_of_sources() {
    let tree = tree(CLIENT);
    let log = tree.path().join("meter.csv");
    fs::write(&log, "time_s,package-0_j\n0,1\n1,2\n").unwrap();
    let mut plan = plan(tree.path(), &["auto"]);
    plan.choices.push(SourceChoice::File("replay", log));
    check_error(&plan, &["`package-0` comes from powercap and from replay"]);
    plan.choices.remove(0);
    assert_eq!(names(&plan), ["package-0"]);
}

/// The log of a whole machine's meter is better than an estimate of its CPUs, which `auto` then leaves out.
#[test]
fn a_log_of_the_machine_needs_no_model() {
    let nothing = tempfile::tempdir().unwrap();
    let log = nothing.path().join("bmc.csv");
    fs::write(&log, "time_s,psys_w\n0,300\n1,310\n").unwrap();
    let mut plan = plan(nothing.path(), &["auto"]);
    plan.choices.push(SourceChoice::File("replay", log));
    assert_eq!(names(&plan), ["psys"]);
}

/// Of two meters of the whole machine one is read: that of which the user names the log.
#[test]
fn one_meter_of_the_machine() {
    let tree = tree(&SERVER[..1]);
    let write = |file: &str, text: &str| {
        let file = tree.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("class/hwmon/hwmon2/name", "power_meter\n");
    write("class/hwmon/hwmon2/power1_average", "412000000\n");
    let battery = [("type", "UPS"), ("status", "Discharging"), ("power_now", "420000000")];
    battery.iter().for_each(|(file, text)| write(&format!("class/power_supply/ups/{file}"), text));
    write("bmc.csv", "time_s,wall_w\n0,410\n1,414\n");
    let mut plan = plan(tree.path(), &["auto"]);
    assert_eq!(names(&plan), ["package-0", "server"]);
    plan.choices.push(SourceChoice::File("replay", tree.path().join("bmc.csv")));
    assert_eq!(names(&plan), ["package-0", "wall"]);
    let sources = open(&plan).unwrap().sources();
    let reasons = sources.iter().flat_map(|source| &source.ignored).map(|ignored| &ignored.reason);
    assert_eq!(reasons.filter(|reason| **reason == IgnoredReason::OtherSourceReadsMachine).count(), 2);
}

/// `--idle-watts` is split over the sockets, is that of the machine where its meter alone is read, and the model's where there is no counter.
#[test]
fn idle_watts_are_split() {
    let idle = MicroWatts::from_watts(30.0);
    let tree = tree(SERVER);
    let set = open(&PowerPlan { idle, ..plan(tree.path(), &[]) }).unwrap();
    let watts: Vec<_> = set.domains().iter().map(|d| d.idle.as_ref().map(|i| i.power.as_watts())).collect();
    assert_eq!(watts, [Some(15.0), None, Some(15.0), None]);
    let whole = self::tree(&[("intel-rapl:1", "psys", "5000")]);
    let set = open(&PowerPlan { idle, ..plan(whole.path(), &[]) }).unwrap();
    let of_psys = set.domains().iter().find(|d| d.class == DomainClass::Psys).and_then(|d| d.idle.as_ref());
    assert_eq!(of_psys.map(|idle| idle.power.as_watts()), Some(30.0), "{:?}", set.domains());
    let nothing = tempfile::tempdir().unwrap();
    let set = open(&PowerPlan { idle, ..plan(nothing.path(), &[]) }).unwrap();
    let total: f64 = set.domains().iter().filter_map(|d| d.idle.as_ref()).map(|i| i.power.as_watts()).sum();
    assert!((total - 30.0).abs() < 1e-6, "{total}");
}

/// The survey tells of every source, and that the model is not needed where there is a counter.
#[test]
fn survey_never_fails() {
    let client = tree(CLIENT);
    let mut plan = plan(client.path(), &[]);
    plan.choices.push(SourceChoice::File("replay", PathBuf::from("/nonexistent.csv")));
    let sources = survey(&plan).sources;
    assert_eq!(
        sources.iter().map(|s| s.id.name()).collect::<Vec<_>>(),
        ["powercap", "perf", "nvml", "hwmon", "replay", "model"]
    );
    assert!(ignored_reason(&sources[4].ignored[0].reason).contains("/nonexistent.csv"));
    assert!(sources[5].domains.is_empty() && sources[5].ignored[0].reason == IgnoredReason::CpusHaveCounter);
}

/// What the survey shows as taken is what a run takes: a socket that powercap reads is not taken from hwmon too, and with GPUs switched
/// off no GPU is.
#[test]
fn survey_shows_what_a_run_takes() {
    let tree = tree(SERVER);
    let hwmon = [("hwmon0", "amd_energy", "Esocket0", "1000"), ("hwmon1", "i915", "energy", "1000")];
    for (folder, name, label, counter) in hwmon {
        let folder = tree.path().join("class/hwmon").join(folder);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [("name", name), ("energy1_label", label), ("energy1_input", counter)] {
            fs::write(folder.join(file), text).unwrap();
        }
    }
    for plan in [plan(tree.path(), &[]), PowerPlan { gpu: true, ..plan(tree.path(), &[]) }] {
        let taken = |sources: Vec<Source>| -> BTreeMap<String, Vec<String>> {
            let measured = sources.into_iter().filter(|s| !s.domains.is_empty());
            measured.map(|source| (source.id.to_string(), source.domains)).collect()
        };
        let surveyed = taken(survey(&plan).sources);
        assert_eq!(surveyed, taken(open(&plan).unwrap().sources()));
        assert!(
            surveyed["powercap"].len() == 4 && surveyed.contains_key("hwmon") == plan.gpu,
            "{surveyed:?}"
        );
    }
}

/// A powercap zone and a perf PMU over one supply: the zone's file is kept up to date at 25 W, the PMU is the kernel's CPU clock.
fn check_perf_against_powercap(pmu_scale: &str) -> (Vec<String>, Vec<String>) {
    let tree = tree(&[("intel-rapl:0", "package-0", "0")]);
    let pmu = tree.path().join("bus/event_source/devices/power");
    fs::create_dir_all(pmu.join("events")).unwrap();
    let files = [
        ("type", "1"),
        ("cpumask", "0"),
        ("events/energy-pkg", "event=0x00"),
        ("events/energy-pkg.unit", "Joules"),
    ];
    for (file, text) in files.into_iter().chain([("events/energy-pkg.scale", pmu_scale)]) {
        fs::write(pmu.join(file), text).unwrap();
    }
    let counter = tree.path().join("class/powercap/intel-rapl:0/energy_uj");
    let done = Arc::new(AtomicBool::new(false));
    let meter = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            let begun = Instant::now();
            let file = fs::OpenOptions::new().write(true).open(counter).unwrap();
            while !done.load(Ordering::Relaxed) {
                // In place and of one length, so that no reader sees half a number.
                file.write_all_at(format!("{:020}\n", begun.elapsed().as_nanos() / 40).as_bytes(), 0)
                    .unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut set = open(&plan(tree.path(), &[])).unwrap();
    runtime.block_on(set.measure_idle(Duration::from_millis(1500)));
    done.store(true, Ordering::Relaxed);
    meter.join().unwrap();
    let warnings = set.disagreements.iter().map(|found| found.code().to_owned()).collect();
    (set.sources[0].notes.iter().map(source_note).collect(), warnings)
}

/// Where perf and powercap agree, the source says so; a unit that is wrong by a factor is a warning.
#[test]
fn perf_is_compared_with_powercap() {
    let (notes, warnings) = check_perf_against_powercap("2.5e-8");
    assert!(notes.iter().any(|note| note.contains("perf")) && warnings.is_empty(), "{notes:?} {warnings:?}");
    let (notes, warnings) = check_perf_against_powercap("1e-7");
    assert!(!notes.iter().any(|note| note.contains("perf")), "{notes:?}");
    assert_eq!(warnings, ["sources-disagree"]);
}

/// The clocks of CPUs are recorded beside a counter, once while they stand and again when one moves; beside a model, from which nothing is learned,
/// they are not.
#[test]
fn clocks_beside_a_counter() {
    let tree = tree(&CLIENT[..1]);
    let cpus = tree.path().join("devices/system/cpu");
    fs::create_dir_all(cpus.join("cpu0/cpufreq")).unwrap();
    fs::write(cpus.join("online"), "0\n").unwrap();
    let file = cpus.join("cpu0/cpufreq/scaling_cur_freq");
    fs::write(&file, "2000000\n").unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let run = |word: &str, change: &dyn Fn(&Receiver<Record>)| {
        let (sender, records) = channel();
        let task =
            runtime.block_on(async { open(&plan(tree.path(), &[word])).unwrap().start(sender).unwrap() });
        change(&records);
        runtime.block_on(task.stop());
        records.try_iter().filter_map(clock_in).collect::<Vec<u32>>()
    };
    let next = |records: &Receiver<Record>| records.iter().find_map(clock_in);
    let rest = run("powercap", &|records| {
        assert_eq!(next(records), Some(2_000_000));
        fs::write(&file, "1000000\n").unwrap();
        // What was read before it moved, where it was read again.
        assert!([Some(2_000_000), Some(1_000_000)].contains(&next(records)));
    });
    assert!(rest.iter().all(|khz| *khz == 1_000_000) && rest.len() <= 1, "{rest:?}");
    assert_eq!(run("model", &|_| {}), [0; 0]);
}

/// The clock in a record of clocks, in kilohertz.
fn clock_in(record: Record) -> Option<u32> {
    match record {
        Record::Frequencies(Frequencies { of, .. }) => of.first().map(|(_, clock)| clock.as_khz()),
        _ => None,
    }
}
