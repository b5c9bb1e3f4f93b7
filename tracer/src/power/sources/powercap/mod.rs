//! RAPL counters through sysfs: `<sysfs>/class/powercap/*/energy_uj`.
//!
//! Values are the kernel's microjoules, already scaled by the units of the model (the DRAM unit quirk of Haswell-EP and later is the
//! driver's business). Leaves out which zones are read and which are mirrors (`zones.rs`), and what it means when a counter goes
//! backwards (`timeline/`).

mod zones;

use crate::power::counter_file::{CounterFile, read_counter};
use crate::power::kind::{Discovered, SourceKind, always};
use crate::power::source::{Attempt, PowerSource, measured_source};
use crate::power::sources::rapl_filter;
use crate::privileges::setcap_advice;
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::recording::record::{Domain, DomainClass, Ignored, Origin, Quality, Scope};
use energy_trace_model::units::MicroJoules;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zones::{Chosen, Zone, choose, read_zones_at};

/// RAPL through sysfs.
pub(super) const KIND: SourceKind = SourceKind {
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
            source.ignored.push(Ignored { domain: NAME.to_owned(), why: explain_missing(&root, &e) });
            return Discovered::counters(source, None::<Powercap>);
        }
    };
    if zones.is_empty() {
        let why = format!("{} has no zones: the intel_rapl_msr driver found no counter", root.display());
        source.ignored.push(Ignored { domain: NAME.to_owned(), why });
    }
    let (chosen, ignored) = choose(&zones, same_counter);
    source.ignored.extend(ignored);
    let mut powercap = Powercap { domains: Vec::new(), counters: Vec::new() };
    for c in chosen {
        if let Some(why) = too_coarse(&c) {
            source.ignored.push(Ignored { domain: c.domain, why });
            continue;
        }
        match CounterFile::open(c.zone.energy()) {
            Ok(counter) => powercap.push(&c, counter, &mut source.notes),
            Err(e) => {
                let why = explain_unreadable(&c.zone.energy(), &e);
                source.ignored.push(Ignored { domain: c.domain, why });
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

/// The RAPL counters of this machine, open.
struct Powercap {
    domains: Vec<Domain>,
    counters: Vec<CounterFile>,
}

impl Powercap {
    fn push(&mut self, chosen: &Chosen, counter: CounterFile, notes: &mut Vec<String>) {
        let range = chosen.zone.dir.join("max_energy_range_uj");
        let max_range =
            read_counter_file(&range).ok().and_then(|uj| i64::try_from(uj).ok()).filter(|&uj| uj > 0);
        if max_range.is_none() {
            let name = &chosen.domain;
            notes.push(format!(
                "{name}: {} cannot be read, so a counter that returns to zero is a gap and not a wrap",
                range.display()
            ));
        }
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
fn too_coarse(chosen: &Chosen) -> Option<String> {
    let range = read_counter_file(&chosen.zone.dir.join("max_energy_range_uj")).ok()?;
    let unit_uj = range / u64::from(u32::MAX);
    (chosen.class == DomainClass::Psys && unit_uj >= 1_000_000).then(|| {
        format!("it counts in steps of {} J: too coarse to be divided among functions", unit_uj / 1_000_000)
    })
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

fn explain_missing(root: &Path, error: &io::Error) -> String {
    let root = root.display();
    if error.kind() != io::ErrorKind::NotFound {
        return format!("{root} cannot be listed: {error}");
    }
    format!(
        "{root} does not exist: a virtual machine without RAPL, or a kernel without the driver (on Intel and on AMD from Zen: \
         `sudo modprobe intel_rapl_msr`)"
    )
}

/// Why a counter cannot be read, with the fix. Since Linux 5.10 `energy_uj` is readable by root only (0400), because power readings leak
/// secrets (CVE-2020-8694).
fn explain_unreadable(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return format!("{shown} cannot be read: {error}");
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("energy-trace"));
    let all = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    format!(
        "{shown} is readable by root only; run under sudo, or `sudo chmod a+r {}` for every user until the next boot, or give this \
         program capabilities: {}",
        all.display(),
        setcap_advice(&program)
    )
}
