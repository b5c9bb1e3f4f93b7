//! Power sensors of `/sys/class/hwmon`, summed up: whole servers (ACPI power meters), NVIDIA Grace and Jetson, Ampere, graphics cards whose
//! driver counts no energy.
//!
//! `known.rs` says which sensors are understood, `found.rs` where they lie. Sensors overlap (machine > module > package > rail), so one of
//! each is read and the others are named with the reason; nothing is read that an energy counter has. Leaves out the sum (`power_file`),
//! and sensors of which nobody says what they measure: power supplies, SCMI of unknown firmware.

mod found;
mod known;

use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind, always, unless_gpus_are_off};
use crate::power_file::PowerFile;
use crate::source::{Attempt, PowerSource, measured_source};
use crate::sources::amdgpu::is_apu;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, Source, SourceId, SourceNote, Whole,
};
use energy_trace_system::host::topology::{read_sockets_at, tree_of_cpus};
use found::{Sensor, read_cards_at, read_sensors_at};
use known::{PACKAGE, What};
use std::collections::BTreeSet;
use std::time::Duration;

/// Power sensors.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "Power sensors under /sys/class/hwmon: whole servers, NVIDIA Grace and Jetson, Ampere, GPUs without a counter",
    title: "power sensors (hwmon)",
    quality: Quality::Measured,
    why_not_auto: always,
    discover,
};

/// The source's name.
const NAME: &str = "hwmon-power";

/// The most often that sensors are read: most are behind a bus or the firmware.
const SHORTEST: Duration = Duration::from_millis(20);
/// The most seldom: a server's meter may be a mean of minutes, and stands still meanwhile.
const LONGEST: Duration = Duration::from_secs(2);

/// A machine without such a sensor has no line for it, unless it was named.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let root = request.plan.sysfs.join("class/hwmon");
    let sensors = read_sensors_at(&root);
    let mut finder = Finder::new(request, &sensors);
    finder.add_all();
    let only_cards = finder.meters.domains.is_empty();
    finder.look_for_cards();
    let Finder { mut source, meters, .. } = finder;
    if source.domains.is_empty() && source.ignored.is_empty() && request.named {
        let reason = IgnoredReason::NoPowerSensors { path: root.display().to_string() };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    if only_cards && !meters.domains.is_empty() {
        source.quality = Quality::Estimated;
    }
    source.domains = meters.domains.iter().map(|domain| domain.name.clone()).collect();
    let is_there = !meters.domains.is_empty();
    Ok(Discovered::counters(source, is_there.then_some(meters)))
}

/// The sensor of the whole machine. Where several say that they are, each measures a part, and nobody knows which.
fn whole_of(sensors: &[Sensor]) -> Option<&Sensor> {
    let mut all = sensors.iter().filter(|sensor| matches!(sensor.what(), Some(What::Machine(_))));
    all.next().filter(|_| all.next().is_none())
}

/// Sensors are looked at one after the other, and those that are read are kept.
struct Finder<'a> {
    request: &'a Request<'a>,
    sensors: &'a [Sensor],
    sockets: Vec<SocketId>,
    source: Source,
    meters: Meters,
    /// The sensor of the whole machine, where there is one.
    whole: Option<&'a Sensor>,
    /// The domains that were read when parts' turn came.
    wholes: BTreeSet<String>,
}

impl<'a> Finder<'a> {
    fn new(request: &'a Request<'a>, sensors: &'a [Sensor]) -> Self {
        let sockets = read_sockets_at(tree_of_cpus(&request.plan.sysfs)).into_values();
        let sockets = sockets.fill_set().into_iter().collect();
        let source = measured_source(NAME, request.plan.period);
        let meters = Meters { domains: Vec::new(), files: Vec::new(), period: LONGEST };
        let (whole, wholes) = (whole_of(sensors), BTreeSet::new());
        Self { request, sensors, sockets, source, meters, whole, wholes }
    }

    /// Parts are read where nothing measures the whole: CPUs, and then what is beside them.
    fn add_all(&mut self) {
        let is_part = |sensor: &&Sensor| matches!(sensor.what(), Some(What::PartOfPackage(..)));
        let (mut parts, wholes): (Vec<_>, Vec<_>) = self.sensors.iter().partition(is_part);
        wholes.into_iter().for_each(|sensor| self.add(sensor));
        self.wholes = self.meters.domains.iter().map(|domain| domain.name.clone()).collect();
        parts.order_by_key(|sensor| match sensor.what() {
            Some(What::PartOfPackage(name, n)) => name != PACKAGE && !self.has_whole(n),
            _ => false,
        });
        parts.into_iter().for_each(|sensor| self.add(sensor));
    }

    fn has_whole(&self, socket: u32) -> bool {
        self.wholes.contains(&format!("{PACKAGE}-{socket}"))
    }

    fn reads(&self, name: &str) -> bool {
        self.meters.domains.iter().any(|domain| domain.name == name)
    }

    /// Takes a sensor, or says why not.
    fn add(&mut self, sensor: &Sensor) {
        let what = sensor.what();
        let title = sensor.title(what.is_some());
        let is_whole = self.whole == Some(sensor);
        let what = what.filter(|what| is_whole || !matches!(what, What::Machine(_)));
        match what.ok_or(IgnoredReason::UnknownChip).and_then(|what| self.domain(what, &title)) {
            Ok(domain) => self.open(sensor, domain, title),
            Err(reason) => self.source.ignored.push(Ignored { domain: title, reason }),
        }
    }

    /// The domain of what a sensor measures, or why it is not read.
    fn domain(&self, what: What, place: &str) -> Result<Domain, IgnoredReason> {
        let (name, class, scope) = match what {
            What::Machine(name) => (name.to_owned(), DomainClass::Psys, Scope::Machine),
            What::Module(n) => (format!("module-{n}"), DomainClass::Psys, self.socket(n)),
            What::Package(n) => (format!("package-{n}"), DomainClass::Package, self.scope(n)),
            What::Beside(name, n) => (format!("{name}-{n}"), DomainClass::Package, self.scope(n)),
            What::Memory(name, n) => (format!("{name}-{n}"), DomainClass::Dram, self.scope(n)),
            What::PartOfPackage(_, n) if self.has_whole(n) => {
                return Err(IgnoredReason::PartOf(Whole::Package(format!("package-{n}"))));
            }
            // Without the CPUs it would pass for them.
            What::PartOfPackage(name, n) if name != PACKAGE && !self.reads(&format!("{PACKAGE}-{n}")) => {
                return Err(IgnoredReason::OtherSourceReadsSockets);
            }
            What::PartOfPackage(name, n) => (format!("{name}-{n}"), DomainClass::Package, self.scope(n)),
        };
        match class {
            DomainClass::Psys if scope == Scope::Machine && self.request.has(class) => {
                return Err(IgnoredReason::OtherSourceReadsMachine);
            }
            DomainClass::Package | DomainClass::Dram if self.request.has(class) => {
                return Err(IgnoredReason::OtherSourceReadsSockets);
            }
            _ => {}
        }
        if let Some(first) = self.meters.domains.iter().find(|known| known.name == name) {
            let first = first.origin.place().unwrap_or_default().to_owned();
            return Err(IgnoredReason::SameCounter { first });
        }
        Ok(domain(name, class, scope, place, Quality::Measured))
    }

    /// The CPUs of the socket with this number. Sockets of Arm's servers are seldom numbered from 0.
    fn scope(&self, number: u32) -> Scope {
        match self.sockets.len() {
            0 | 1 => Scope::Machine,
            _ => self.socket(number),
        }
    }

    /// The same on a machine of one socket too: a module is not the whole machine.
    fn socket(&self, number: u32) -> Scope {
        Scope::Socket(self.sockets.get(number as usize).copied().unwrap_or(SocketId::new(number)))
    }

    fn open(&mut self, sensor: &Sensor, domain: Domain, title: String) {
        let step = sensor.step.unwrap_or(self.request.plan.period).clamp(SHORTEST, LONGEST);
        match PowerFile::open(&sensor.path, sensor.mean.is_some(), step) {
            Ok(file) => {
                let mean_ns = sensor.mean.and_then(|mean| u64::try_from(mean.as_nanos()).ok());
                let note = SourceNote::PowerReadings { domain: domain.name.clone(), place: title, mean_ns };
                self.source.notes.push(note);
                self.meters.push(domain, file, step);
            }
            Err(e) => {
                let path = sensor.path.main().display().to_string();
                let reason = IgnoredReason::Unreadable { path, error: e.to_string() };
                self.source.ignored.push(Ignored { domain: title, reason });
            }
        }
    }

    /// Adds cards of which no source before has the energy, where the user asks for them: their sum is an estimate.
    fn look_for_cards(&mut self) {
        let mut number = self.request.next_gpu();
        for (device, sensor) in read_cards_at(&self.request.plan.sysfs) {
            let folder = device.display().to_string();
            let is_read =
                |domain: &Domain| domain.origin.place().is_some_and(|place| place.starts_with(&folder));
            if self.request.taken.iter().any(is_read) {
                continue;
            }
            let title = sensor.title(true);
            match self.why_not_card(is_apu(&device.join("gpu_metrics"))) {
                Some(reason) => self.source.ignored.push(Ignored { domain: title, reason }),
                None => {
                    let (name, scope) = (format!("gpu-{number}"), Scope::Gpu(number));
                    let domain = domain(name, DomainClass::Gpu, scope, &title, Quality::Estimated);
                    self.open(&sensor, domain, title);
                    number += 1;
                }
            }
        }
    }

    fn why_not_card(&self, is_apu: bool) -> Option<IgnoredReason> {
        let not_asked = (!self.request.named).then_some(IgnoredReason::CardTellsPowerOnly);
        let refused = self.request.plan.measured_only.then_some(IgnoredReason::NoEnergyMeasuredOnly);
        let apu = is_apu.then_some(IgnoredReason::ApuPower);
        unless_gpus_are_off(self.request).or(apu).or(refused).or(not_asked)
    }
}

fn domain(name: String, class: DomainClass, scope: Scope, place: &str, quality: Quality) -> Domain {
    let (source, place) = (SourceId::HwmonPower, place.to_owned());
    let origin = Origin::Counter { source, place, max_range: None, quality };
    Domain { id: DomainId::default(), name, class, scope, origin, idle: None }
}

/// The sensors that are read.
struct Meters {
    domains: Vec<Domain>,
    files: Vec<PowerFile>,
    period: Duration,
}

impl Meters {
    fn push(&mut self, domain: Domain, file: PowerFile, step: Duration) {
        self.domains.push(domain);
        self.files.push(file);
        self.period = self.period.min(step);
    }
}

impl PowerSource for Meters {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.files.iter_mut().map(PowerFile::attempt));
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        Some(self.period.max(wanted))
    }
}
