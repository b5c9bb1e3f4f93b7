//! Which domains are taken on the machines of `fixtures/machines`, and why the others are not.
//!
//! A fixture is the part of a sysfs that speaks of energy, a file and its text on each line, with where it comes from. Leaves out reading
//! the counters (`power.rs`).

use energy_trace::doctor::{self, DoctorPlan};
use energy_trace_model::recording::record::SourceId;
use energy_trace_model::recording::record::{Domain, Origin, Quality, SensorQuantity, Source};
use energy_trace_power::survey::survey;
use energy_trace_power::{self as power, PowerPlan};
use energy_trace_sentences::{ignored_reason, sensor_fact};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A machine as its fixture tells it, laid out in a folder.
pub(super) struct Machine {
    name: String,
    pub(super) sysfs: tempfile::TempDir,
    domains: Vec<String>,
    ignored: Vec<(String, String)>,
    /// Temperatures, as `doctor` tells them; those of a machine that says nothing of them are not asked for.
    sensors: Vec<String>,
}

pub(super) fn lay_out(path: &Path) -> Machine {
    let sysfs = tempfile::tempdir().unwrap();
    let (mut domains, mut ignored, mut sensors) = (Vec::new(), Vec::new(), Vec::new());
    let text = fs::read_to_string(path).unwrap();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(" =").unwrap_or_else(|| panic!("{}: {line}", path.display()));
        let value = value.trim();
        match key {
            "domains" => domains = value.split_whitespace().map(str::to_owned).collect(),
            "sensor" => sensors.push(value.to_owned()),
            "ignored" => {
                let (domain, why) = value.split_once(": ").expect("domain: reason");
                ignored.push((domain.to_owned(), why.to_owned()));
            }
            file => {
                let file = sysfs.path().join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{value}\n")).unwrap();
            }
        }
    }
    Machine {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        sysfs,
        domains,
        ignored,
        sensors,
    }
}

fn machines() -> Vec<Machine> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/machines");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 30, "fixtures are missing: {files:?}");
    files.iter().map(|file| lay_out(file)).collect()
}

fn plan(machine: &Machine) -> PowerPlan {
    PowerPlan { sysfs: machine.sysfs.path().to_owned(), gpu: true, nvml_lib: None, ..PowerPlan::default() }
}

/// What is left out and why, of all sources but NVML, which is not in a sysfs, and the model.
fn ignored(sources: &[Source]) -> Vec<(String, String)> {
    let of_sysfs = sources.iter().filter(|s| !["nvml", "model"].contains(&s.id.name()));
    of_sysfs.flat_map(|s| s.ignored.iter().map(|i| (i.domain.clone(), ignored_reason(&i.reason)))).collect()
}

/// Each machine gives exactly its domains, no joule twice, and what is left out is named with its reason.
#[test]
fn machines_have_the_right_domains() {
    for machine in machines() {
        let set = power::open(&plan(&machine)).unwrap();
        let counted = set.domains().iter().filter(|d| matches!(d.origin, Origin::Counter { .. }));
        let mut names: Vec<String> = counted.map(|d| d.name.clone()).collect();
        names.retain(|name| machine.domains.contains(name) || !name.starts_with("gpu"));
        assert_eq!(names, machine.domains, "{}", machine.name);
        let left_out = ignored(&set.sources());
        for (domain, why) in &machine.ignored {
            let found = left_out.iter().any(|(d, w)| d == domain && w.contains(why));
            assert!(found, "{}: `{domain}: {why}` is not among {left_out:?}", machine.name);
        }
        if machine.domains.is_empty() {
            assert!(
                set.domains().iter().all(|d| matches!(d.origin, Origin::Model { .. })),
                "{}",
                machine.name
            );
        }
    }
}

/// A card whose driver counts no energy is summed up where the user asks for it, behind what `auto` takes, and not where estimates are refused.
#[test]
fn a_card_with_power_alone() {
    let machines = machines();
    let machine = machines.iter().find(|machine| machine.name == "amd_polaris_gpu").unwrap();
    let choices = vec!["auto".parse().unwrap(), "hwmon-power".parse().unwrap()];
    let asked = PowerPlan { choices, ..plan(machine) };
    let qualities = |plan: &PowerPlan| -> Vec<(String, Quality)> {
        let set = power::open(plan).unwrap();
        let of = |domain: &Domain| match domain.origin {
            Origin::Counter { quality, .. } => (domain.name.clone(), quality),
            Origin::Model { .. } => (domain.name.clone(), Quality::Estimated),
        };
        set.domains().iter().map(of).collect()
    };
    let expected = [("package-0".to_owned(), Quality::Measured), ("gpu-0".to_owned(), Quality::Estimated)];
    assert_eq!(qualities(&asked), expected);
    assert!(power::open(&PowerPlan { measured_only: true, ..asked }).is_err());
}

/// Where nothing measures one of Grace's sockets as a whole, its rails are read, and nothing is said to hold them; the other's stay out.
#[test]
fn rails_of_grace_where_the_socket_has_no_sensor() {
    let machines = machines();
    let machine = machines.iter().find(|machine| machine.name == "nvidia_grace_superchip").unwrap();
    fs::remove_file(machine.sysfs.path().join("class/hwmon/hwmon1/device/power1_average")).unwrap();
    let set = power::open(&plan(machine)).unwrap();
    let names: Vec<&str> = set.domains().iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["package-1", "package-0", "io-0"]);
    let left_out = ignored(&set.sources());
    let parts: Vec<&str> =
        left_out.iter().filter(|(_, why)| why.contains("part of")).map(|(name, _)| name.as_str()).collect();
    assert_eq!(parts.len(), 2, "{left_out:?}");
    assert!(parts.iter().all(|name| name.contains("Socket 1")), "{left_out:?}");
    // What is beside the CPUs does not pass for them.
    fs::remove_file(machine.sysfs.path().join("class/hwmon/hwmon2/device/power1_average")).unwrap();
    let set = power::open(&plan(machine)).unwrap();
    let names: Vec<&str> = set.domains().iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["package-1"]);
}

/// A share that a host tells is read where it is named, socket by socket; a file that nobody keeps any more is left out, with its age.
#[test]
fn a_share_told_by_the_host() {
    let machines = machines();
    let machine = machines.iter().find(|machine| machine.name == "amd_guest_of_scaphandre").unwrap();
    let folder = machine.sysfs.path().join("var/scaphandre");
    let shares = || {
        let choices = vec![format!("host:{}", folder.display()).parse().unwrap()];
        let set = power::open(&PowerPlan { choices, ..plan(machine) }).unwrap();
        let names: Vec<String> = set.domains().iter().map(|domain| domain.name.clone()).collect();
        (names, ignored(&set.sources()))
    };
    assert_eq!(shares(), (vec!["package-0".to_owned(), "package-1".to_owned()], Vec::new()));
    let zone = fs::File::options().write(true).open(folder.join("intel-rapl:1/energy_uj")).unwrap();
    zone.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    let (names, left_out) = shares();
    assert_eq!(names, ["package-0"]);
    assert!(left_out[0].0 == "package-1" && left_out[0].1.contains("was written 3600 s ago"), "{left_out:?}");
}

/// Each machine's temperatures are found, by socket, with the limits that its sensors tell; one that has none of them has none.
#[test]
fn machines_have_their_temperatures() {
    let mut with_sensors = 0;
    for machine in machines() {
        let found = survey(&plan(&machine)).sensors;
        let warm = found.iter().filter(|(sensor, _)| sensor.quantity == SensorQuantity::Temperature);
        let told: Vec<String> = warm.map(|(sensor, value)| sensor_fact(sensor, *value)).collect();
        assert_eq!(told, machine.sensors, "{}", machine.name);
        with_sensors += usize::from(!told.is_empty());
    }
    assert!(with_sensors >= 4, "{with_sensors}");
}

/// What a stranger reads of each machine: one sentence first, what to do, then what is there. The part of
/// `doctor` that speaks of power, in a terminal of 80 columns; without NVML, whose library is this machine's
/// and not the fixture's.
#[test]
fn doctor_on_each_machine() {
    let mut said = String::new();
    for machine in machines() {
        let sysfs = machine.sysfs.path().to_owned();
        let nvml_lib = Some(sysfs.join("no.so"));
        let plan = DoctorPlan { rootfs: sysfs.clone(), sysfs: sysfs.clone(), nvml_lib, typed: vec![] };
        let mut findings = doctor::examine_power(&plan);
        findings.retain(|finding| !finding.text.contains("NVML)"));
        for finding in &mut findings {
            finding.text = finding.text.replace(sysfs.to_str().unwrap(), "/sys");
        }
        let mut out = Vec::new();
        doctor::write_text(&mut out, &findings, false, Some(80)).unwrap();
        said += &format!("## {}\n\n{}\n", machine.name, String::from_utf8(out).unwrap());
    }
    let long = said.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/golden/doctor.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&golden, &said).unwrap();
    }
    let wanted = fs::read_to_string(&golden).unwrap_or_default();
    assert!(wanted == said, "{} differs; BLESS=1 takes the new text:\n{said}", golden.display());
}

/// `doctor` tells of the same domains as a recording takes.
#[test]
fn doctor_sees_the_same() {
    for machine in machines() {
        let sources = survey(&plan(&machine)).sources;
        let told: Vec<&String> = sources
            .iter()
            .filter(|s| s.id != SourceId::Model && s.id != SourceId::Nvml)
            .flat_map(|s| &s.domains)
            .collect();
        assert_eq!(told, machine.domains.iter().collect::<Vec<_>>(), "{}", machine.name);
    }
}
