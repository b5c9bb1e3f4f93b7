//! RAPL through the kernel's perf PMUs: `power` (package, DRAM, psys) and AMD's `power_core` (each core). The only file that opens perf
//! events for energy.
//!
//! The kernel extends the hardware's 32 bits to 64 by a timer of its own, so these counters never turn over. Every event is of the whole
//! machine, counted for the package, die or core of one CPU, the one that the PMU's `cpumask` names (arch/x86/events/rapl.c, Linux
//! v6.12). Leaves out what sysfs says (`pmu.rs`), and psys where its unit is a whole joule.

mod pmu;

use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind, always};
use crate::source::{Attempt, PowerSource, measured_source, timed};
use crate::sources::{powercap, rapl_filter};
use energy_trace_model::ids::{CpuId, DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, Driver, Ignored, IgnoredReason, Origin, Quality, Scope, Source, Whole,
};
use energy_trace_system::host::cpu_model::{CpuModel, PSYS_OF_ONE_JOULE};
use energy_trace_system::host::topology::{Place, read_place_at};
use perf_event::events::Event;
use perf_event::{Builder, Counter};
use perf_event_open_sys::bindings::perf_event_attr;
use pmu::{Pmu, PmuEvent, read_pmu_at};
use std::io;
use std::path::Path;
use std::time::Duration;

/// RAPL through the kernel's PMUs.
pub(crate) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "RAPL energy counters, through the kernel's perf events",
    title: "RAPL through perf",
    quality: Quality::Measured,
    why_not_auto: always,
    discover,
};

/// The source's name.
const NAME: &str = "perf";

/// What an earlier source reads already is compared with it and not read twice.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let (perf, mut source) = find(&request.plan.sysfs, request.plan.period);
    let Some(perf) = perf else { return Ok(Discovered::counters(source, None::<Perf>)) };
    let known: Vec<&str> = request.taken.iter().map(|d| d.name.as_str()).collect();
    let (new, same) = perf.split(|domain| !known.contains(&domain.name.as_str()));
    if let Some(same) = &same {
        source.domains.retain(|name| !known.contains(&name.as_str()));
        for domain in same.domains() {
            let reason = IgnoredReason::ReadByPowercap;
            source.ignored.push(Ignored { domain: domain.name.clone(), reason });
        }
    } else {
        source.notes.extend(rapl_filter::describe_here());
    }
    let second_reader = same.map(|same| Box::new(same) as Box<dyn PowerSource>);
    Ok(Discovered { second_reader, ..Discovered::counters(source, new) })
}

/// Looks for energy PMUs under the sysfs root. Nothing there is an ordinary result, with the reason in `source.ignored`.
fn find(sysfs: &Path, period: Duration) -> (Option<Perf>, Source) {
    let mut source = measured_source(NAME, period);
    let pmus: Vec<Pmu> = ["power", "power_core"].iter().filter_map(|name| read_pmu_at(sysfs, name)).collect();
    if pmus.is_empty() {
        let path = sysfs.join("bus/event_source/devices/power").display().to_string();
        let reason = IgnoredReason::NoDriver { path, driver: Driver::Rapl };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    let coarse_psys = CpuModel::read_at(sysfs).is_some_and(|model| PSYS_OF_ONE_JOULE.contains(&model))
        || powercap::psys_is_coarse_at(sysfs);
    let mut perf = Perf { domains: Vec::new(), counters: Vec::new() };
    for pmu in &pmus {
        let places: Vec<Place> = pmu.cpus.iter().map(|&cpu| read_place_at(sysfs, cpu)).collect();
        for event in &pmu.events {
            match part_of(pmu, event, coarse_psys) {
                Ok(class) => perf.add(pmu, event, class, &places, &mut source),
                Err(reason) => source.ignored.push(Ignored { domain: title(pmu, event), reason }),
            }
        }
    }
    source.domains = perf.domains.iter().map(|d| d.name.clone()).collect();
    ((!perf.domains.is_empty()).then_some(perf), source)
}

/// `power/energy-pkg/`, as perf writes it.
fn title(pmu: &Pmu, event: &PmuEvent) -> String {
    format!("{}/{}/", pmu.name, event.name)
}

/// What an event measures, or why it is not read.
fn part_of(pmu: &Pmu, event: &PmuEvent, coarse_psys: bool) -> Result<DomainClass, IgnoredReason> {
    match (pmu.name.as_str(), event.name.as_str()) {
        ("power", "energy-pkg") => Ok(DomainClass::Package),
        ("power", "energy-ram") => Ok(DomainClass::Dram),
        ("power", "energy-psys") if coarse_psys => Err(IgnoredReason::TooCoarse { step_j: 1 }),
        ("power", "energy-psys") => Ok(DomainClass::Psys),
        ("power", "energy-cores" | "energy-gpu") => Err(IgnoredReason::PartOf(Whole::AnyPackage)),
        ("power_core", "energy-core") => Ok(DomainClass::Core),
        _ => Err(IgnoredReason::UnknownDomain),
    }
}

/// The energy counters of the PMUs, open.
struct Perf {
    domains: Vec<Domain>,
    counters: Vec<EnergyCounter>,
}

impl Perf {
    /// Opens an event for everything that its PMU counts.
    fn add(
        &mut self,
        pmu: &Pmu,
        event: &PmuEvent,
        class: DomainClass,
        places: &[Place],
        source: &mut Source,
    ) {
        for (&cpu, place) in pmu.cpus.iter().zip(places) {
            if class == DomainClass::Psys && self.domains.iter().any(|d| d.class == class) {
                break; // The platform has one counter, whichever package it is read through.
            }
            let name = domain_name(class, place, places);
            match EnergyCounter::open(pmu.kind, event, cpu) {
                Ok(counter) => {
                    self.domains.push(domain(
                        name,
                        class,
                        place,
                        format!("{} on CPU {cpu}", title(pmu, event)),
                    ));
                    self.counters.push(counter);
                }
                Err(error) => {
                    source.ignored.push(Ignored { domain: name, reason: explain(pmu, event, &error) });
                }
            }
        }
    }

    /// The domains that `wanted` takes, and the others.
    fn split(self, wanted: impl Fn(&Domain) -> bool) -> (Option<Self>, Option<Self>) {
        let pairs = self.domains.into_iter().zip(self.counters);
        let (yes, no): (Vec<_>, Vec<_>) = pairs.partition(|(domain, _)| wanted(domain));
        let put = |pairs: Vec<(Domain, EnergyCounter)>| {
            let (domains, counters): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            (!domains.is_empty()).then_some(Self { domains, counters })
        };
        (put(yes), put(no))
    }
}

impl PowerSource for Perf {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.counters.iter_mut().zip(&self.domains).map(|(c, d)| c.attempt(&d.name)));
    }
}

/// `package-0` where a socket has one counter, `package-0-die-1` where it has several; `core-4` by its first CPU.
fn domain_name(class: DomainClass, place: &Place, all: &[Place]) -> String {
    let word = class.name();
    match class {
        DomainClass::Psys => word.to_owned(),
        DomainClass::Core => format!("{word}-{}", place.first),
        _ if all.iter().filter(|other| other.socket == place.socket).count() > 1 => {
            format!("{word}-{}-die-{}", place.socket, place.die)
        }
        _ => format!("{word}-{}", place.socket),
    }
}

fn domain(name: String, class: DomainClass, place: &Place, where_read: String) -> Domain {
    let scope = match class {
        DomainClass::Psys => Scope::Machine,
        DomainClass::Core => Scope::Core(CpuId::new(place.first), CpuId::new(place.last)),
        _ => Scope::Socket(SocketId::new(place.socket)),
    };
    Domain {
        id: DomainId::default(),
        name,
        class,
        scope,
        origin: Origin::measured(NAME, where_read, None),
        idle: None,
    }
}

/// One event, counting since it was opened.
struct EnergyCounter {
    counter: Counter,
    joules: f64,
}

/// What makes the kernel count an event of a PMU.
struct OfPmu {
    kind: u32,
    config: u64,
}

impl Event for OfPmu {
    fn update_attrs(self, attr: &mut perf_event_attr) {
        attr.type_ = self.kind;
        attr.config = self.config;
    }
}

impl EnergyCounter {
    /// Counts for whatever runs on the machine. The PMU refuses filters, so the kernel and the hypervisor are in.
    fn open(kind: u32, event: &PmuEvent, cpu: u32) -> io::Result<Self> {
        let what = OfPmu { kind, config: event.config };
        let mut counter =
            Builder::new(what).any_pid().one_cpu(cpu as usize).include_kernel().include_hv().build()?;
        counter.enable()?;
        counter.read()?;
        Ok(Self { counter, joules: event.joules })
    }

    fn attempt(&mut self, name: &str) -> Attempt {
        let (at, count) = timed(|| self.counter.read());
        Attempt {
            at,
            counter_uj: count.map(|n| microjoules(n, self.joules)).map_err(|e| format!("{name}: {e}")),
        }
    }
}

/// A count in microjoules, rounded down: it never falls while the count grows, and is exact to the microjoule up to 9 GJ.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a cast of f64 saturates, and counts are below 2^53 of a microjoule for as long as machines live"
)]
fn microjoules(count: u64, joules: f64) -> u64 {
    (count as f64 * (joules * 1e6)) as u64
}

/// Why an event cannot be opened, with the fix.
fn explain(pmu: &Pmu, event: &PmuEvent, error: &io::Error) -> IgnoredReason {
    let event = title(pmu, event);
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => IgnoredReason::EventRootOnly { event },
        _ => IgnoredReason::EventRefused { event, error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::{Driver, IgnoredReason};
    use super::{Place, domain_name, find, microjoules};
    use crate::PowerSource as _;
    use energy_trace_model::recording::record::{DomainClass, Scope};
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    /// One CPU a socket, or two dies of socket 0.
    #[test]
    fn names() {
        let place = |socket, die, first| Place { socket, die, first, last: first };
        let sockets = [place(0, 0, 0), place(1, 0, 14)];
        assert_eq!(domain_name(DomainClass::Package, &sockets[1], &sockets), "package-1");
        let dies = [place(0, 0, 0), place(0, 1, 24)];
        assert_eq!(domain_name(DomainClass::Dram, &dies[1], &dies), "dram-0-die-1");
        assert_eq!(domain_name(DomainClass::Core, &dies[1], &dies), "core-24");
    }

    /// The kernel's unit of 2^-32 J, and the largest sum that is still exact.
    #[test]
    fn scale() {
        assert_eq!(microjoules(1 << 32, 2f64.powi(-32)), 1_000_000);
        assert_eq!(microjoules(3, 0.5e-6), 1);
    }

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// A sysfs whose `power` PMU is the kernel's CPU clock: nanoseconds of one CPU, here of 25 W.
    fn write_clock_pmu(sysfs: &Path) {
        let pmu = "bus/event_source/devices/power";
        let files = [("type", "1\n"), ("cpumask", "0\n")].map(|(f, t)| (format!("{pmu}/{f}"), t));
        for (file, text) in &files {
            write(sysfs, &[(file, text)]);
        }
        for event in ["energy-pkg", "energy-cores", "energy-psys"] {
            let path = |end: &str| format!("{pmu}/events/{event}{end}");
            write(
                sysfs,
                &[(&path(""), "event=0x00\n"), (&path(".unit"), "Joules\n"), (&path(".scale"), "2.5e-8\n")],
            );
        }
    }

    /// Real counters of the kernel (its CPU clock, called 25 W) are opened, named and read; parts of the package are left out.
    #[test]
    fn reads_what_the_kernel_counts() {
        let tree = tempfile::tempdir().unwrap();
        write_clock_pmu(tree.path());
        let (perf, source) = find(tree.path(), Duration::from_millis(20));
        let mut perf = perf.unwrap();
        assert_eq!(source.domains, ["package-0", "psys"]);
        assert!(source.ignored.iter().any(|i| i.domain == "power/energy-cores/"));
        assert_eq!(perf.domains()[1].scope, Scope::Machine);
        let mut attempts = Vec::new();
        perf.read(&mut attempts);
        std::thread::sleep(Duration::from_millis(30));
        perf.read(&mut attempts);
        let uj = |n: usize| attempts[n].counter_uj.clone().unwrap();
        let (spent_uj, ns) = (uj(2) - uj(0), attempts[2].at.ns_since(attempts[0].at));
        let watts = spent_uj as f64 * 1000.0 / ns as f64;
        assert!((24.0..26.0).contains(&watts), "{watts} W from a clock of 25 W");
    }

    /// On a machine without the PMU the reason names which file is missing and which module brings it.
    #[test]
    fn nothing_there() {
        let tree = tempfile::tempdir().unwrap();
        let (perf, source) = find(tree.path(), Duration::from_millis(20));
        assert!(perf.is_none());
        assert!(matches!(source.ignored[0].reason, IgnoredReason::NoDriver { driver: Driver::Rapl, .. }));
    }
}
