//! A laptop's own meter: the power of its batteries while they discharge, and that of a UPS; `/sys/class/power_supply`.
//!
//! `power_now` is in microwatts, `current_now` in microamperes (negative in some drivers while discharging)
//! and `voltage_now` in microvolts (Documentation/ABI/testing/sysfs-class-power, Linux v6.12). Several
//! batteries discharge together or in turn, so their powers are added; on mains they say nothing of what the
//! machine draws, and a reading fails. Most firmware has a new value each few seconds. Where it tells no
//! power (drivers/acpi/battery.c gives an error then), `energy_now` (microwatt-hours) goes down by what was
//! drawn, in steps of tens of joules. Leaves out the batteries of mice and keyboards (`scope` is `Device`),
//! and `charge_now`, which is no energy.

use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind, always};
use crate::power_sum::PowerSum;
use crate::source::{Attempt, PowerSource, measured_source, timed};
use crate::sysfs::text;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, SourceNote,
};
use energy_trace_sentences::ignored_reason;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Batteries.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "A laptop's battery or a UPS, while it discharges",
    title: "battery",
    quality: Quality::Measured,
    why_not_auto: always,
    discover,
};

/// The source's name.
const NAME: &str = "battery";

/// The firmware is asked at each reading, and has nothing new more often.
const PERIOD: Duration = Duration::from_secs(1);

/// A machine without a battery has no line for it, unless it was named.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let root = request.plan.sysfs.join("class/power_supply");
    let supplies = read_supplies_at(&root);
    let mut source = measured_source(NAME, PERIOD);
    if supplies.is_empty() && !request.named {
        return Ok(Discovered::counters(source, None::<Battery>));
    }
    let place = root.display().to_string();
    if let Some(reason) = why_not(request, &supplies, &place) {
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
        return Ok(Discovered::counters(source, None::<Battery>));
    }
    let origin = Origin::measured(NAME, place, None);
    let (name, class, scope) = (NAME.to_owned(), DomainClass::Psys, Scope::Machine);
    let domain = Domain { id: DomainId::default(), name, class, scope, origin, idle: None };
    source.domains.push(NAME.to_owned());
    let names: Vec<_> = supplies.iter().filter_map(|supply| supply.0.file_name()?.to_str()).collect();
    let place = format!("{}, the whole machine", names.join(" and "));
    let counter = Counter::of(&supplies);
    source.notes.push(counter.note(place));
    Ok(Discovered::counters(source, Some(Battery { domains: [domain], supplies, counter })))
}

fn why_not(request: &Request, supplies: &[Supply], root: &str) -> Option<IgnoredReason> {
    if supplies.is_empty() {
        return Some(IgnoredReason::NoBattery { path: root.to_owned() });
    }
    request
        .has(DomainClass::Psys)
        .then_some(IgnoredReason::OtherSourceReadsMachine)
        .or_else(|| Counter::of(supplies).ask(supplies).err())
}

/// The folder of a battery or a UPS.
struct Supply(PathBuf);

impl Supply {
    fn text(&self, file: &str) -> Option<String> {
        text(&self.0.join(file))
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.parse::<i64>().ok().map(i64::unsigned_abs)
    }

    fn feeds_the_machine(&self) -> bool {
        let is_supply = self.text("type").is_some_and(|kind| kind == "Battery" || kind == "UPS");
        is_supply && self.text("scope").is_none_or(|scope| scope != "Device")
    }

    /// Microwatts.
    fn power_uw(&self) -> Option<u64> {
        let product = || {
            let picowatts = u128::from(self.number("current_now")?) * u128::from(self.number("voltage_now")?);
            u64::try_from(picowatts / 1_000_000).ok()
        };
        self.number("power_now").or_else(product)
    }

    /// Microjoules that are left in it.
    fn left_uj(&self) -> Option<u64> {
        self.number("energy_now")?.checked_mul(UJ_OF_UWH)
    }
}

/// Microjoules of a microwatt-hour.
const UJ_OF_UWH: u64 = 3_600;

/// Those that feed the machine, in the order of their names.
fn read_supplies_at(root: &Path) -> Vec<Supply> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.order();
    folders.into_iter().map(Supply).filter(Supply::feeds_the_machine).collect()
}

/// The sum over those that discharge; none may be charged meanwhile.
fn sum_of(supplies: &[Supply], number: impl Fn(&Supply) -> Option<u64>) -> Result<u64, IgnoredReason> {
    let mut sum: Option<u64> = None;
    for supply in supplies {
        match supply.text("status").as_deref() {
            Some("Discharging") => {
                let of_one = number(supply).ok_or(IgnoredReason::BatteryTellsNoPower)?;
                sum = Some(sum.unwrap_or(0).saturating_add(of_one));
            }
            Some("Charging") => return Err(IgnoredReason::NotDischarging),
            _ => {}
        }
    }
    sum.ok_or(IgnoredReason::NotDischarging)
}

/// What all of them give together, in microwatts.
fn read_power(supplies: &[Supply]) -> Result<u64, IgnoredReason> {
    sum_of(supplies, Supply::power_uw)
}

/// What has gone out of the batteries, as a counter.
enum Counter {
    /// Their power, summed up.
    Power(PowerSum),
    /// By what is left in all of them: so many microjoules at first.
    Left(u64),
}

impl Counter {
    /// Power where all that discharge tell it, else what is left in them.
    fn of(supplies: &[Supply]) -> Self {
        let left = || supplies.iter().map(Supply::left_uj).sum::<Option<u64>>();
        match (read_power(supplies), left()) {
            (Err(IgnoredReason::BatteryTellsNoPower), Some(left_uj)) => Self::Left(left_uj),
            _ => Self::Power(PowerSum::read_each(PERIOD)),
        }
    }

    fn note(&self, place: String) -> SourceNote {
        let domain = NAME.to_owned();
        match self {
            Self::Power(_) => SourceNote::PowerReadings { domain, place, mean_ns: None },
            Self::Left(_) => SourceNote::DomainIs { domain, place: format!("{place}: what is left in it") },
        }
    }

    /// The power in microwatts, or the microjoules that have gone out.
    fn ask(&self, supplies: &[Supply]) -> Result<u64, IgnoredReason> {
        let Self::Left(first_uj) = self else { return read_power(supplies) };
        sum_of(supplies, Supply::left_uj)?;
        let left = supplies.iter().map(Supply::left_uj).sum::<Option<u64>>();
        let left_uj = left.ok_or(IgnoredReason::BatteryTellsNoPower)?;
        first_uj.checked_sub(left_uj).ok_or(IgnoredReason::NotDischarging)
    }

    /// Microjoules, by what was told at a moment.
    fn take(&mut self, at: KtimeNs, told: u64) -> u64 {
        match self {
            Self::Power(sum) => sum.add(at, told),
            Self::Left(_) => told,
        }
    }
}

/// The batteries that are read.
struct Battery {
    domains: [Domain; 1],
    supplies: Vec<Supply>,
    counter: Counter,
}

impl PowerSource for Battery {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        let (at, told) = timed(|| self.counter.ask(&self.supplies));
        let counter_uj = told.map(|told| self.counter.take(at, told));
        let text = |reason| format!("{NAME}: {}", ignored_reason(&reason));
        attempts.push(Attempt { at, counter_uj: counter_uj.map_err(text) });
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        Some(PERIOD.max(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, IgnoredReason, read_power, read_supplies_at};
    use std::fs;
    use std::path::Path;

    /// A battery as drivers/acpi/battery.c shows it: with power, or with current and voltage.
    fn write(root: &Path, name: &str, files: &[(&str, &str)]) {
        let folder = root.join(name);
        fs::create_dir_all(&folder).unwrap();
        files.iter().for_each(|(file, text)| fs::write(folder.join(file), format!("{text}\n")).unwrap());
    }

    /// Two batteries are one supply, whichever discharges; on mains, and where a driver tells nothing, the reason is said; a mouse is none.
    #[test]
    fn batteries() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let power = || read_power(&read_supplies_at(root));
        write(root, "AC", &[("type", "Mains"), ("online", "0")]);
        let mouse = [("type", "Battery"), ("scope", "Device"), ("status", "Discharging"), ("power_now", "9")];
        write(root, "hidpp_battery_0", &mouse);
        assert!(read_supplies_at(root).is_empty());
        write(root, "BAT0", &[("type", "Battery"), ("status", "Discharging"), ("power_now", "7500000")]);
        write(root, "BAT1", &[("type", "Battery"), ("status", "Not charging"), ("power_now", "0")]);
        assert_eq!(power(), Ok(7_500_000));
        let second = [("status", "Discharging"), ("current_now", "-500000"), ("voltage_now", "12000000")];
        fs::remove_file(root.join("BAT1/power_now")).unwrap();
        write(root, "BAT1", &second);
        assert_eq!(power(), Ok(13_500_000));
        fs::remove_file(root.join("BAT1/current_now")).unwrap();
        assert_eq!(power(), Err(IgnoredReason::BatteryTellsNoPower));
        write(root, "BAT1", &[("status", "Charging")]);
        assert_eq!(power(), Err(IgnoredReason::NotDischarging));
        write(root, "BAT1", &[("status", "Full")]);
        write(root, "BAT0", &[("status", "Full")]);
        assert_eq!(power(), Err(IgnoredReason::NotDischarging));
    }

    /// Firmware that tells no power: what is left goes down by 10 mWh, which are 36 J; what comes back in is
    /// no energy that was drawn.
    #[test]
    fn what_is_left() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let write = |left: &str| {
            let files = [("type", "Battery"), ("status", "Discharging"), ("energy_now", left)];
            write(root, "BAT0", &files);
        };
        write("40000000");
        let supplies = read_supplies_at(root);
        let counter = Counter::of(&supplies);
        let read = || counter.ask(&supplies);
        assert_eq!(read(), Ok(0));
        write("39990000");
        assert_eq!(read(), Ok(36_000_000));
        write("40010000");
        assert_eq!(read(), Err(IgnoredReason::NotDischarging));
        write("much");
        assert_eq!(read(), Err(IgnoredReason::BatteryTellsNoPower));
        assert!(matches!(Counter::of(&read_supplies_at(&root.join("none"))), Counter::Power(_)));
    }
}
