//! Power: every source that was found, what it offers, what is not used and why.

use super::finding::{DoctorPlan, Energy, Finding};
use super::gpu_kernel_tier;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, PowerDiagnostic, Quality, Sensor, SensorValue,
    Source, SourceId, SourceNote,
};
use energy_trace_power::survey::survey;
use energy_trace_power::{PowerPlan, SOURCES};
use energy_trace_sentences::{NO_SENSORS, advice, ignored_reason, power_fact, sensor_fact, source_note};
use energy_trace_system::host::cpu_model::is_arm_at;
use energy_trace_system::host::firmware;
use std::collections::BTreeSet;

/// One finding a source and ignored domain, and a warning when nothing measures the CPUs.
pub fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let survey = survey(&PowerPlan {
        sysfs: plan.sysfs.clone(),
        nvml_lib: plan.nvml_lib.clone(),
        ..PowerPlan::default()
    });
    let get_counter = how_to_get_counter(plan, &survey.sources);
    let mut findings = describe(&survey.sources, &survey.domains, &get_counter);
    findings.extend(survey.diagnostics.iter().map(of_device));
    findings.extend(bmc(plan, &survey.domains));
    findings.extend(share(plan));
    findings.push(of_sensors(&survey.sensors));
    let has_gpu = |source: &Source| source.id == SourceId::Nvml && !source.domains.is_empty();
    if survey.sources.iter().any(has_gpu) {
        findings.extend(gpu_kernel_tier::examine(plan));
    }
    findings
}

/// A BMC that could tell what the whole server draws, where nothing else does.
fn bmc(plan: &DoctorPlan, domains: &[Domain]) -> Option<Finding> {
    let is_needed = !domains.iter().any(Domain::is_machine);
    let is_there = plan.sysfs.join("class/ipmi/ipmi0").exists();
    (is_needed && is_there).then(|| Finding::unused("power", BMC))
}

const BMC: &str = "server's BMC: not asked, which takes root or a password: bmc-power.sh (examples) asks it for the whole server's watts and \
                   keeps them in a file, for --power auto --power bmc:FILE";

/// A host's exporter that tells a guest's share, at the place where its guide mounts it.
fn share(plan: &DoctorPlan) -> Option<Finding> {
    tells_share(plan).then(|| Finding::unused("power", SHARE))
}

fn tells_share(plan: &DoctorPlan) -> bool {
    plan.rootfs.join("var/scaphandre/intel-rapl:0/energy_uj").is_file()
}

const SHARE: &str =
    "share told by the host: in /var/scaphandre, which is read when named: --power host:/var/scaphandre";

/// Which temperatures and clocks a recording has. The clocks of CPUs are recorded where a counter shows what these draw.
fn of_sensors(sensors: &[(Sensor, Option<SensorValue>)]) -> Finding {
    let texts: Vec<String> = sensors.iter().map(|(sensor, value)| sensor_fact(sensor, *value)).collect();
    match texts.is_empty() {
        true => Finding::unused("sensors", NO_SENSORS),
        false => Finding::ok("sensors", texts.join(", ")),
    }
}

/// A finding with its word, by which reports name it too.
fn of_device(found: &PowerDiagnostic) -> Finding {
    let text = format!("{} [{}]", power_fact(found), found.code());
    Finding::warn("power", text, advice(found).unwrap_or_default())
}

/// What was found comes first, then what is not used, then what that means; and what gives a counter where there is none.
fn describe(sources: &[Source], domains: &[Domain], get_counter: &str) -> Vec<Finding> {
    let is_package = |domain: &Domain| domain.class == DomainClass::Package;
    let is_counted = |domain: &Domain| matches!(domain.origin, Origin::Counter { .. });
    let cpus_counted = domains.iter().any(|domain| is_package(domain) && is_counted(domain));
    let mut findings: Vec<Finding> = sources.iter().filter_map(found).collect();
    findings.extend(sources.iter().flat_map(|source| unused(source, cpus_counted)));
    let measures = |source: &&Source| source.quality == Quality::Measured && !source.domains.is_empty();
    match sources.iter().find(measures) {
        None => findings.push(estimated(sources, get_counter)),
        Some(_) => {
            let energy = Some(Energy::Measured(parts_of(domains)));
            findings.first_mut().into_iter().for_each(|first| first.energy.clone_from(&energy));
        }
    }
    findings
}

fn estimated(sources: &[Source], get_counter: &str) -> Finding {
    let unplug = if has_battery(sources) { UNPLUG } else { "" };
    let text = "no energy counter on this machine: results will be estimates";
    let range = sources.iter().find_map(Source::range_of_model);
    let range = range.map(|ends| ends.map(|end| end as f64 / 1e3));
    let range = range.map(|[low, high]| format!("{low:.1} to {high:.1}"));
    let finding = Finding::warn("power", text, format!("{unplug}{get_counter}; {WITHOUT_COUNTER}"));
    Finding { energy: Some(Energy::Estimated(range)), ..finding }
}

/// `CPUs, memory and the whole machine`, or `GPUs; that of CPUs is estimated`.
fn parts_of(domains: &[Domain]) -> String {
    let counted = domains.iter().filter(|domain| domain.quality() != Quality::Estimated);
    let kinds: BTreeSet<(DomainClass, bool)> =
        counted.map(|domain| (domain.class, domain.is_module())).fill_set();
    let words: Vec<&str> = kinds.into_iter().filter_map(|(class, module)| word_of(class, module)).collect();
    let parts = match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        all => all.concat(),
    };
    let is_modelled = domains.iter().any(|domain| matches!(domain.origin, Origin::Model { .. }));
    if is_modelled { format!("{parts}; that of CPUs is estimated") } else { parts }
}

const fn word_of(class: DomainClass, is_module: bool) -> Option<&'static str> {
    match class {
        DomainClass::Package => Some("CPUs"),
        DomainClass::Dram => Some("memory"),
        DomainClass::Gpu => Some("GPUs"),
        DomainClass::Psys if is_module => {
            Some("modules (CPU, memory, a GPU on the same board, and what feeds them)")
        }
        DomainClass::Psys => Some("the whole machine"),
        DomainClass::Core => None,
    }
}

/// Whether there is a battery that would measure the machine.
fn has_battery(sources: &[Source]) -> bool {
    let mut ignored = sources.iter().flat_map(|source| &source.ignored);
    ignored.any(|ignored| ignored.reason == IgnoredReason::NotDischarging)
}

/// What gives a machine a counter: drivers, and a host where it is a guest, or may be one.
fn how_to_get_counter(plan: &DoctorPlan, sources: &[Source]) -> String {
    let sysfs = &plan.sysfs;
    let drivers = if is_arm_at(sysfs) { GET_COUNTER_OF_ARM } else { GET_COUNTER };
    match is_guest(sources).or_else(|| firmware::is_guest_at(sysfs)) {
        _ if tells_share(plan) => READ_SHARE.to_owned(),
        Some(true) => ASK_HOST.to_owned(),
        Some(false) => format!("sudo modprobe {drivers}"),
        None => {
            format!("on a machine of your own: sudo modprobe {drivers}; in a virtual machine, {ASK_HOST}")
        }
    }
}

/// Whether the CPUs are a virtual machine's, where the model knows that.
fn is_guest(sources: &[Source]) -> Option<bool> {
    let mut notes = sources.iter().flat_map(|source| &source.notes);
    notes.find_map(|note| match note {
        SourceNote::LoadCurve { guest, .. } => Some(*guest),
        _ => None,
    })
}

const UNPLUG: &str = "unplug this laptop: on battery its own meter measures it; or ";
/// Drivers of counters, and those of Arm machines, which have no RAPL.
const GET_COUNTER: &str =
    "intel_rapl_msr (Intel, and AMD from Zen) or acpi_power_meter (servers, NVIDIA Grace)";
const GET_COUNTER_OF_ARM: &str =
    "acpi_power_meter (servers, NVIDIA Grace), xgene_hwmon (Ampere) or ina3221 (Jetson)";
const READ_SHARE: &str = "its host tells its share: --power host:/var/scaphandre";
const ASK_HOST: &str = "ask its host for its share (--power host:FOLDER)";
const WITHOUT_COUNTER: &str = "or give the power model your machine's watts with --model-watts, or replay a meter's log with --power \
                               replay:FILE";

/// What people call a source.
fn title(source: &Source) -> &str {
    SOURCES.iter().find(|kind| kind.word == source.id.name()).map_or(source.id.name(), |kind| kind.title)
}

/// A source with its domains, where it has any.
fn found(source: &Source) -> Option<Finding> {
    let quality = match source.quality {
        Quality::Measured => "measured",
        Quality::Apportioned => "apportioned",
        Quality::Estimated => "estimated",
    };
    let notes: String = source.notes.iter().map(|note| format!("; {}", source_note(note))).collect();
    let text = format!("{} ({quality}): {}{notes}", title(source), listed(&source.domains));
    (!source.domains.is_empty()).then(|| Finding::ok("power", text))
}

/// What is not used of a source, and why, a line a reason; one that is not there at all stands in its own list. What nobody misses has no
/// line: where the CPUs' energy is counted, other counters of it and the model.
fn unused(source: &Source, cpus_counted: bool) -> Vec<Finding> {
    let title = title(source);
    let is_missed = |ignored: &&Ignored| !cpus_counted || !only_without_counter(&ignored.reason);
    let missed: Vec<&Ignored> = source.ignored.iter().filter(is_missed).collect();
    let line = |of: &[&Ignored]| {
        let (first, why) = of.first().map(|first| (first, ignored_reason(&first.reason)))?;
        let names: Vec<String> = of.iter().map(|ignored| ignored.domain.clone()).collect();
        let what = match (first.domain == source.id.name(), of.len()) {
            (true, _) => format!("{title}: not available"),
            (false, 1) => format!("{title}: {} is not used", first.domain),
            (false, _) => format!("{title}: {} are not used", listed(&names)),
        };
        Some(Finding::unused("power", format!("{what}: {why}")))
    };
    missed.chunk_by(|a, b| a.reason == b.reason).filter_map(line).collect()
}

/// Whether a reason is worth a line only where nothing counts the CPUs' energy.
const fn only_without_counter(reason: &IgnoredReason) -> bool {
    use IgnoredReason::{CpusHaveCounter, NoDriver, NoSensors, NoZones};
    matches!(reason, CpusHaveCounter | NoDriver { .. } | NoSensors { .. } | NoZones { .. })
}

/// `package-0, core-0 to core-127`: many numbers in a row are not listed one by one.
fn listed(names: &[String]) -> String {
    let split = |name: &str| -> Option<(String, u32)> {
        let (word, number) = name.rsplit_once('-')?;
        Some((word.to_owned(), number.parse().ok()?))
    };
    let follows = |a: &String, b: &String| {
        split(a).zip(split(b)).is_some_and(|(a, b)| a.0 == b.0 && a.1.checked_add(1) == Some(b.1))
    };
    let run = |run: &[String]| match run {
        [first, .., last] if run.len() > IN_A_ROW => format!("{first} to {last}"),
        all => all.join(", "),
    };
    names.chunk_by(follows).map(run).collect::<Vec<_>>().join(", ")
}

/// So many names are listed one by one.
const IN_A_ROW: usize = 3;

#[cfg(test)]
mod tests {
    use super::{describe, listed, parts_of};
    use crate::doctor::Level;
    use energy_trace_model::ids::DomainId;
    use energy_trace_model::recording::record::{
        Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, Source, SourceId,
    };

    fn source(name: &str, quality: Quality, domains: &[&str], ignored: Vec<Ignored>) -> Source {
        let domains = domains.iter().map(ToString::to_string).collect();
        Source { id: SourceId::from_name(name), domains, period_ns: 0, quality, ignored, notes: vec![] }
    }

    /// A machine with the model only is warned about; one with a counter is not. What is ignored is named with its reason.
    #[test]
    fn estimates_are_a_warning() {
        let estimated = describe(&[source("model", Quality::Estimated, &["package-0"], vec![])], &[], "");
        assert_eq!(estimated.iter().map(|f| f.level).max(), Some(Level::Warn));
        let mirror = Ignored {
            domain: "intel-rapl-mmio:0".into(),
            reason: IgnoredReason::SameCounter { first: "package-0".into() },
        };
        let measured =
            describe(&[source("powercap", Quality::Measured, &["package-0"], vec![mirror])], &[], "");
        assert!(measured.iter().all(|f| f.level <= Level::Ok));
        assert!(
            measured.iter().any(|f| f.text.contains("intel-rapl-mmio:0 is not used: shows the same counter"))
        );
    }

    /// A GPU whose energy is a sum of power, or of how busy it is, has no counter.
    #[test]
    fn estimated_gpus_are_not_measured() {
        let gpu = |quality| Domain {
            id: DomainId::default(),
            name: "gpu-0".to_owned(),
            class: DomainClass::Gpu,
            scope: Scope::Gpu(0),
            origin: Origin::Counter {
                source: SourceId::Nvml,
                place: String::new(),
                max_range: None,
                quality,
            },
            idle: None,
        };
        assert_eq!(
            [Quality::Measured, Quality::Estimated].map(|quality| parts_of(&[gpu(quality)])),
            ["GPUs", ""]
        );
    }

    /// A hundred cores are two names; what does not follow is named.
    #[test]
    fn names_in_a_row() {
        let cores = (0..128).map(|core| format!("core-{core}"));
        let names: Vec<String> =
            ["package-0", "package-1", "psys"].map(str::to_owned).into_iter().chain(cores).collect();
        assert_eq!(listed(&names), "package-0, package-1, psys, core-0 to core-127");
        assert_eq!(listed(&[]), "");
    }
}
