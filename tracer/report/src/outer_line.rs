//! The outer line: what a meter of the whole machine says, beside the counters of its parts.
//!
//! A server's power meter (its own, or the log of one) and a laptop's battery hold what CPUs, memory and GPUs draw; what these do not explain
//! (fans, disks, regulators, the power supply) has a row of its own, so that nothing is added twice and the sum of all is the meter's. Both are
//! compared only where they were measured for the same time. Leaves out RAPL's psys, of which each board has another idea, and
//! recordings of several machines.

use super::meters::source_of;
use super::missing::unread_ns;
use super::table_cells::{in_unit, percent};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;

/// A meter of the whole machine beside its parts.
pub(crate) struct OuterLine<'a> {
    /// Its rows: one, or one a module.
    meters: Vec<&'a LedgerRow>,
    /// The rows of counters that it holds.
    parts: Vec<&'a LedgerRow>,
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
    let known = |row: &&LedgerRow| row.measured > MicroJoules::ZERO;
    let rows = || profile.ledger.iter().filter(known);
    let is_meter = |row: &&LedgerRow| row.class == DomainClass::Psys && is_outer(profile, row);
    let meters: Vec<&LedgerRow> = rows().filter(is_meter).collect();
    let parts: Vec<&LedgerRow> =
        rows().filter(|row| row.class.adds_up() && row.quality != Quality::Estimated).collect();
    let of_s = profile.run.duration_ns() as f64 / 1e9;
    let read = |rows: &[&LedgerRow]| {
        rows.iter().map(|row| of_s - unread_ns(profile, row) as f64 / 1e9).fold(of_s, f64::min)
    };
    let (read_s, parts_s) = (read(&meters), read(&parts));
    let same_time = (read_s - parts_s).abs() < SAME_TIME * of_s;
    let is_there = profile.parts.is_empty() && !meters.is_empty() && !parts.is_empty() && read_s > 0.0;
    is_there.then_some(OuterLine { meters, parts, of_s, read_s, same_time })
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
        self.same_time && self.rest() >= MicroJoules::ZERO
    }

    /// The domains of the meters.
    pub(crate) fn domains(&self) -> Vec<&str> {
        self.meters.iter().map(|row| row.domain.as_str()).collect()
    }

    fn name(&self) -> String {
        self.domains().join(" and ")
    }

    /// `the machine drew 412 W (server), of which CPU, DRAM and GPU counters explain 71.0%`.
    pub(crate) fn sentence(&self) -> String {
        let watts = in_unit(self.measured().as_joules() / self.read_s, "W");
        let drew = format!("the machine drew {watts} ({})", self.name());
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

    /// What is left over, as a row of the ledger: nobody's.
    pub(crate) fn rest_row(&self) -> Option<LedgerRow> {
        let meter = self.meters.first().filter(|_| self.is_explained())?;
        let quality = self.meters.iter().chain(&self.parts).map(|row| row.quality).max()?;
        let name = format!("rest of {}", self.name());
        Some(LedgerRow { measured: self.rest(), ..LedgerRow::empty(name, meter.class, quality) })
    }
}
