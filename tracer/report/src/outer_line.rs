//! The outer line: what a meter of the whole machine says, beside the counters of its parts.
//!
//! A server's power meter (its own, or the log of one) and a laptop's battery hold what CPUs, memory and GPUs draw; what these do not explain
//! (fans, disks, regulators, the power supply) has a row of its own, so that nothing is added twice and the sum of all is the meter's. Both are
//! compared only where they were measured for the same time. Modules lie between: each holds a socket's CPUs and memory, and the GPU that
//! is soldered to it, and leaves a rest of its own. Leaves out RAPL's psys, of which each board has another idea, and recordings of several
//! machines.

use super::missing::unread_ns;
use super::run::source_of;
use super::table_cells::{in_unit, percent};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;

/// A meter of the whole machine beside its parts.
pub(crate) struct OuterLine<'a> {
    /// Its rows: one, or one a module where nothing measures the machine.
    meters: Vec<&'a LedgerRow>,
    /// The modules with what counters leave of each.
    modules: Vec<(&'a LedgerRow, MicroJoules)>,
    /// The rows of counters that it holds.
    parts: Vec<&'a LedgerRow>,
    /// Whether the meters are those of modules.
    by_module: bool,
    /// Seconds of the run, and for how many of them the meters were read.
    of_s: f64,
    read_s: f64,
    /// Whether meters and counters were read for the same time.
    same_time: bool,
}

/// Times that differ by less than this part of the run count as the same.
const SAME_TIME: f64 = 0.01;

/// The outer line of a run, where there is one and counters explain some of it.
pub(crate) fn outer_line(profile: &Profile) -> Option<OuterLine<'_>> {
    let (machine, modules) = meters_of(profile);
    let by_module = machine.is_empty();
    let is_held = |row: &&LedgerRow| !by_module || modules.iter().any(|module| holds(profile, module, row));
    let is_part = |row: &&LedgerRow| row.class.adds_up() && row.quality != Quality::Estimated;
    let parts: Vec<&LedgerRow> = known_rows(profile).filter(is_part).filter(is_held).collect();
    let of_s = profile.run.duration_ns() as f64 / 1e9;
    let read = |rows: &[&LedgerRow]| {
        rows.iter().map(|row| of_s - unread_ns(profile, row) as f64 / 1e9).fold(of_s, f64::min)
    };
    let parts_s = read(&parts);
    let is_same = |rows: &[&LedgerRow]| (read(rows) - parts_s).abs() < SAME_TIME * of_s;
    let rests = modules.iter().map(|&module| (module, rest_of(profile, module, &parts)));
    // Below a machine's meter, modules that cannot be compared have no rest of their own.
    let fits = |&(module, rest): &(&LedgerRow, MicroJoules)| {
        by_module || (rest >= MicroJoules::ZERO && is_same(&[module]))
    };
    let rests = rests.filter(fits).collect();
    let meters = if by_module { modules } else { machine };
    let (read_s, same_time) = (read(&meters), is_same(&meters));
    let is_there = profile.parts.is_empty() && !meters.is_empty() && !parts.is_empty() && read_s > 0.0;
    is_there.then_some(OuterLine { meters, modules: rests, parts, by_module, of_s, read_s, same_time })
}

fn known_rows(profile: &Profile) -> impl Iterator<Item = &LedgerRow> {
    profile.ledger.iter().filter(|row| row.measured > MicroJoules::ZERO)
}

/// The meters of the machine, and those of modules. A GPU that counts its module is what CPUs leave of that one: no second meter of the same tells more.
fn meters_of(profile: &Profile) -> (Vec<&LedgerRow>, Vec<&LedgerRow>) {
    let is_counted = differences(profile).next().is_some();
    let meters = known_rows(profile).filter(|row| row.class == DomainClass::Psys && is_outer(profile, row));
    let (modules, machine): (Vec<_>, Vec<_>) =
        meters.partition(|row| profile.run.modules.contains(&row.domain));
    (machine, if is_counted { Vec::new() } else { modules })
}

/// Whether the energy of a domain is in that of another as well.
fn holds(profile: &Profile, outer: &LedgerRow, row: &LedgerRow) -> bool {
    profile.run.holds.get(&outer.domain).is_some_and(|held| held.contains(&row.domain))
}

/// What parts leave of a module.
fn rest_of(profile: &Profile, module: &LedgerRow, parts: &[&LedgerRow]) -> MicroJoules {
    let held = parts.iter().filter(|row| holds(profile, module, row));
    module.measured - held.map(|row| row.measured).sum::<MicroJoules>()
}

/// Whether a row is that of a meter which holds all others.
fn is_outer(profile: &Profile, row: &LedgerRow) -> bool {
    source_of(profile, &row.domain).is_some_and(|source| !source.traits().own_clock)
}

fn sum(rows: &[&LedgerRow]) -> MicroJoules {
    rows.iter().map(|row| row.measured).sum()
}

impl OuterLine<'_> {
    /// What the meters say.
    pub(crate) fn measured(&self) -> MicroJoules {
        sum(&self.meters)
    }

    /// What counters of parts explain of it.
    pub(crate) fn explained(&self) -> MicroJoules {
        sum(&self.parts)
    }

    /// What is left over.
    pub(crate) fn rest(&self) -> MicroJoules {
        self.measured() - self.explained()
    }

    /// Whether counters explain a part of what the meters say: both were read for the same time, and do not contradict each other.
    pub(crate) fn is_explained(&self) -> bool {
        let fits = self.modules.iter().all(|(_, rest)| *rest >= MicroJoules::ZERO);
        self.same_time && fits && self.beside_modules() >= MicroJoules::ZERO
    }

    fn beside_modules(&self) -> MicroJoules {
        self.rest() - self.modules.iter().map(|(_, rest)| *rest).sum::<MicroJoules>()
    }

    /// The domains of the meters.
    pub(crate) fn domains(&self) -> Vec<&str> {
        self.meters.iter().map(|row| row.domain.as_str()).collect()
    }

    /// `the machine drew 412 W (server), of which CPU, DRAM and GPU counters explain 71.0%`.
    pub(crate) fn sentence(&self) -> String {
        let watts = in_unit(self.measured().as_joules() / self.read_s, "W");
        let drew = format!("the machine drew {watts} ({})", names(&self.meters));
        if !self.same_time {
            return format!(
                "{drew} in the {:.1} s of {:.1} s in which that was measured",
                self.read_s, self.of_s
            );
        }
        if !self.is_explained() {
            return format!("{drew}, less than counters of its parts show: one of them is wrong");
        }
        let share = percent(self.explained().as_uj(), self.measured().as_uj());
        format!("{drew}, of which {} counters explain {share}", self.words())
    }

    /// `CPU, DRAM and GPU`.
    fn words(&self) -> String {
        let classes = [(DomainClass::Package, "CPU"), (DomainClass::Dram, "DRAM"), (DomainClass::Gpu, "GPU")];
        let has = |class| self.parts.iter().any(|row| row.class == class);
        let words: Vec<&str> =
            classes.iter().filter(|(class, _)| has(*class)).map(|(_, word)| *word).collect();
        match words.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            all => all.concat(),
        }
    }

    /// What is left over, as rows of the ledger, nobody's: what is beside the modules, and what is in each of these.
    pub(crate) fn rest_rows(&self) -> Vec<LedgerRow> {
        if !self.is_explained() {
            return Vec::new();
        }
        let quality = self.meters.iter().chain(&self.parts).map(|row| row.quality).max();
        let row = |name: &str, rest| {
            let row = LedgerRow::empty(format!("rest of {name}"), DomainClass::Psys, quality?);
            Some(LedgerRow { measured: rest, ..row })
        };
        let outer = (!self.by_module).then(|| row(&names(&self.meters), self.beside_modules())).flatten();
        let inner = self.modules.iter().filter_map(|(module, rest)| row(&module.domain, *rest));
        outer.into_iter().chain(inner).collect()
    }
}

fn names(rows: &[&LedgerRow]) -> String {
    rows.iter().map(|row| row.domain.as_str()).collect::<Vec<_>>().join(" and ")
}

/// `gpu-0: its module's counter less package-0 and dram-0`.
pub(crate) fn differences(profile: &Profile) -> impl Iterator<Item = String> {
    let gpus = profile.ledger.iter().filter(|row| row.class == DomainClass::Gpu);
    gpus.filter_map(|row| {
        let held = profile.run.holds.get(&row.domain)?.join(" and ");
        Some(format!("{}: its module's counter less {held}", row.domain))
    })
}
