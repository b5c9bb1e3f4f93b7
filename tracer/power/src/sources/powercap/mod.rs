//! RAPL counters through sysfs: `<sysfs>/class/powercap/*/energy_uj`.
//!
//! Values are the kernel's microjoules, already scaled by the units of the model (the DRAM unit quirk of Haswell-EP and later is the
//! driver's business). Leaves out which zones are read and which are mirrors (`zones.rs`), and what it means when a counter goes
//! backwards (`timeline/`).

mod limit;
mod zones;

use crate::counter_file::{CounterFile, read_counter};
use crate::kind::{Discovered, SourceKind, always};
use crate::source::{Attempt, PowerSource, measured_source};
use crate::sources::rapl_filter;
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, Driver, Ignored, IgnoredReason, Origin, Quality, Scope, SourceNote,
};
use energy_trace_model::units::MicroJoules;
use energy_trace_system::privileges::setcap_advice;
use limit::read_limit_at;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zones::{Chosen, Zone, choose, read_zones_at};

/// RAPL through sysfs.
pub(crate) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "RAPL energy counters of Intel and AMD CPUs, through /sys/class/powercap",
    title: "RAPL through powercap",
    quality: Quality::Measured,
    why_not_auto: always,
    discover: |request| Ok(find(&request.plan.sysfs, request.plan.period)),
};

/// The source's name.
const NAME: &str = "powercap";

/// Looks for RAPL counters under the sysfs root. Nothing there is an ordinary result, with the reason in `source.ignored`.
fn find(sysfs: &Path, period: Duration) -> Discovered {
    let root = sysfs.join("class/powercap");
    let mut source = measured_source(NAME, period);
    let zones = match read_zones_at(&root) {
        Ok(zones) => zones,
        Err(e) => {
            source.ignored.push(Ignored { domain: NAME.to_owned(), reason: explain_missing(&root, &e) });
            return Discovered::counters(source, None::<Powercap>);
        }
    };
    if zones.is_empty() {
        let reason = IgnoredReason::NoZones { path: root.display().to_string() };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    let (chosen, ignored) = choose(&zones, same_counter);
    source.ignored.extend(ignored);
    let mut powercap = Powercap { domains: Vec::new(), counters: Vec::new() };
    for c in chosen {
        if let Some(reason) = too_coarse(&c) {
            source.ignored.push(Ignored { domain: c.domain, reason });
            continue;
        }
        match CounterFile::open(c.zone.energy()) {
            Ok(counter) => powercap.push(&c, counter, &mut source.notes),
            Err(e) => {
                let reason = explain_unreadable(&c.zone.energy(), &e);
                source.ignored.push(Ignored { domain: c.domain, reason });
            }
        }
    }
    source.domains = powercap.domains.iter().map(|d| d.name.clone()).collect();
    let powercap = (!powercap.domains.is_empty()).then_some(powercap);
    if powercap.is_some() {
        source.notes.extend(rapl_filter::describe_here());
    }
    Discovered::counters(source, powercap)
}

/// Whether the platform's counter is too coarse to be read by anybody, as its zone tells: perf reads the same register.
pub(crate) fn psys_is_coarse_at(sysfs: &Path) -> bool {
    let zones = read_zones_at(&sysfs.join("class/powercap")).unwrap_or_default();
    choose(&zones, same_counter).0.iter().any(|chosen| too_coarse(chosen).is_some())
}

/// The RAPL counters of this machine, open.
struct Powercap {
    domains: Vec<Domain>,
    counters: Vec<CounterFile>,
}

impl Powercap {
    fn push(&mut self, chosen: &Chosen, counter: CounterFile, notes: &mut Vec<SourceNote>) {
        let range = chosen.zone.dir.join("max_energy_range_uj");
        let max_range =
            read_counter_file(&range).ok().and_then(|uj| i64::try_from(uj).ok()).filter(|&uj| uj > 0);
        if max_range.is_none() {
            let (domain, path) = (chosen.domain.clone(), range.display().to_string());
            notes.push(SourceNote::NoRange { domain, path });
        }
        let limit = read_limit_at(&chosen.zone.dir).filter(|_| chosen.class == DomainClass::Package);
        notes.extend(limit.map(|limit| SourceNote::PowerLimit { domain: chosen.domain.clone(), limit }));
        let scope = match chosen.class {
            DomainClass::Psys => Scope::Machine,
            _ => Scope::Socket(SocketId::new(chosen.socket)),
        };
        self.domains.push(Domain {
            id: DomainId::default(),
            name: chosen.domain.clone(),
            class: chosen.class,
            scope,
            origin: Origin::measured(
                NAME,
                counter.path().display().to_string(),
                max_range.map(MicroJoules::from_uj),
            ),
            idle: None,
        });
        self.counters.push(counter);
    }
}

impl PowerSource for Powercap {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.counters.iter_mut().map(CounterFile::attempt));
    }
}

/// A psys counter of whole joules (Sapphire Rapids and later servers) says nothing about milliseconds. The range gives the unit away: it
/// is `0xffffffff` units (drivers/powercap/intel_rapl_common.c, v6.6).
fn too_coarse(chosen: &Chosen) -> Option<IgnoredReason> {
    let range = read_counter_file(&chosen.zone.dir.join("max_energy_range_uj")).ok()?;
    let unit_uj = range / u64::from(u32::MAX);
    (chosen.class == DomainClass::Psys && unit_uj >= 1_000_000)
        .then_some(IgnoredReason::TooCoarse { step_j: unit_uj / 1_000_000 })
}

fn read_counter_file(path: &Path) -> io::Result<u64> {
    read_counter(&File::open(path)?)
}

/// Whether two zones show one register: the second one's value lies between two readings of the first, twice. Registers of their own
/// agree to the microjoule by chance only, and the chance of that twice is negligible.
fn same_counter(first: &Zone, second: &Zone) -> bool {
    let (Ok(a), Ok(b)) = (File::open(first.energy()), File::open(second.energy())) else { return false };
    (0..2).all(|_| match (read_counter(&a), read_counter(&b), read_counter(&a)) {
        (Ok(before), Ok(value), Ok(after)) => (before..=after).contains(&value),
        _ => false,
    })
}

fn explain_missing(root: &Path, error: &io::Error) -> IgnoredReason {
    let path = root.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => IgnoredReason::NoDriver { path, driver: Driver::IntelRaplMsr },
        _ => IgnoredReason::Unlistable { path, error: error.to_string() },
    }
}

/// Why a counter cannot be read, with the fix. Since Linux 5.10 `energy_uj` is readable by root only (0400), because power readings leak
/// secrets (CVE-2020-8694).
fn explain_unreadable(path: &Path, error: &io::Error) -> IgnoredReason {
    let shown = path.display().to_string();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return IgnoredReason::Unreadable { path: shown, error: error.to_string() };
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("energy-trace"));
    let real_path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    IgnoredReason::RootOnly {
        path: shown,
        real_path: real_path.display().to_string(),
        capabilities: setcap_advice(&program),
    }
}
