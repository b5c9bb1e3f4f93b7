//! The outer line: what a meter of the whole machine says, beside the counters of its parts.
//!
//! A server's power meter (its own, or the log of one) and a laptop's battery hold what CPUs, memory and GPUs draw; what these do not explain
//! (fans, disks, regulators, the power supply) has a row of its own, so that nothing is added twice and the sum of all is the meter's. Both are
//! compared only where they were measured for the same time. Modules lie between: each holds a socket's CPUs and memory, and the GPU that
//! is soldered to it, and leaves a rest of its own. Leaves out RAPL's psys, of which each board has another idea, and recordings of several
//! machines.

use super::meters::source_of;
use super::missing::unread_ns;
use super::table_cells::{in_unit, percent};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality, SourceNote};
use energy_trace_model::units::MicroJoules;

/// A meter of the whole machine beside its parts.
pub(crate) struct OuterLine<'a> {
    /// Its rows: one, or one a module where nothing measures the machine.
    meters: Vec<&'a LedgerRow>,
    /// The modules that it holds.
    modules: Option<Modules<'a>>,
    /// The rows of counters that it holds.
    parts: Vec<&'a LedgerRow>,
    /// Seconds of the run, and for how many of them the meters were read.
    of_s: f64,
    read_s: f64,
    /// Whether meters and counters were read for the same time.
    same_time: bool,
}

/// Modules below a meter of the whole machine.
struct Modules<'a> {
    rows: Vec<&'a LedgerRow>,
    /// What counters leave of them.
    rest: MicroJoules,
}

/// Times that differ by less than this part of the run count as the same.
const SAME_TIME: f64 = 0.01;

/// The outer line of a run, where there is one and counters explain some of it.
pub(crate) fn outer_line(profile: &Profile) -> Option<OuterLine<'_>> {
    let known = |row: &&LedgerRow| row.measured > MicroJoules::ZERO;
    let rows = || profile.ledger.iter().filter(known);
    let is_meter = |row: &&LedgerRow| row.class == DomainClass::Psys && is_outer(profile, row);
    let is_module = |row: &&LedgerRow| profile.run.modules.contains(&row.domain);
    let (modules, machine): (Vec<_>, Vec<_>) = rows().filter(is_meter).partition(is_module);
    let parts: Vec<&LedgerRow> =
        rows().filter(|row| row.class.adds_up() && row.quality != Quality::Estimated).collect();
    let (meters, inner) = if machine.is_empty() { (modules, Vec::new()) } else { (machine, modules) };
    let of_s = profile.run.duration_ns() as f64 / 1e9;
    let read = |rows: &[&LedgerRow]| {
        rows.iter().map(|row| of_s - unread_ns(profile, row) as f64 / 1e9).fold(of_s, f64::min)
    };
    let (read_s, parts_s) = (read(&meters), read(&parts));
    let is_same = |read_s: f64| (read_s - parts_s).abs() < SAME_TIME * of_s;
    let modules = modules_of(profile, inner, &parts).filter(|modules| is_same(read(&modules.rows)));
    let is_there = profile.parts.is_empty() && !meters.is_empty() && !parts.is_empty() && read_s > 0.0;
    is_there.then_some(OuterLine { meters, modules, parts, of_s, read_s, same_time: is_same(read_s) })
}

/// The modules with their rest, where there are any and no counter contradicts them.
fn modules_of<'a>(profile: &Profile, rows: Vec<&'a LedgerRow>, parts: &[&LedgerRow]) -> Option<Modules<'a>> {
    let notes = || profile.run.header.sources.iter().flat_map(|source| &source.notes);
    let is_on_module = |row: &LedgerRow| {
        notes().any(|note| matches!(note, SourceNote::MayIncludeCpu { domain } if *domain == row.domain))
    };
    let is_inside = |row: &&&LedgerRow| row.class != DomainClass::Gpu || is_on_module(row);
    let rest = sum(&rows) - parts.iter().filter(is_inside).map(|row| row.measured).sum::<MicroJoules>();
    (!rows.is_empty() && rest >= MicroJoules::ZERO).then_some(Modules { rows, rest })
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
        self.same_time && self.rest() >= self.rest_of_modules()
    }

    fn rest_of_modules(&self) -> MicroJoules {
        self.modules.as_ref().map_or(MicroJoules::ZERO, |modules| modules.rest)
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

    /// What is left over, as rows of the ledger, nobody's: what is beside the modules, and what is in these.
    pub(crate) fn rest_rows(&self) -> Vec<LedgerRow> {
        if !self.is_explained() {
            return Vec::new();
        }
        let outer = rest_row(&self.meters, &self.parts, self.rest() - self.rest_of_modules());
        let inner = self.modules.as_ref().and_then(|of| rest_row(&of.rows, &self.parts, of.rest));
        outer.into_iter().chain(inner).collect()
    }
}

fn names(rows: &[&LedgerRow]) -> String {
    rows.iter().map(|row| row.domain.as_str()).collect::<Vec<_>>().join(" and ")
}

/// What parts leave of meters.
fn rest_row(meters: &[&LedgerRow], parts: &[&LedgerRow], rest: MicroJoules) -> Option<LedgerRow> {
    let class = meters.first()?.class;
    let quality = meters.iter().chain(parts).map(|row| row.quality).max()?;
    let name = format!("rest of {}", names(meters));
    Some(LedgerRow { measured: rest, ..LedgerRow::empty(name, class, quality) })
}
