//! The arithmetic of a counter, in one place: what lies between two values.
//!
//! The powercap driver shows a 32-bit register in microjoules: `energy_uj = register · unit / 1000`, and
//! `max_energy_range_uj = 0xffffffff · unit / 1000`, with the unit in nanojoules (`get_energy_counter`,
//! `get_max_energy_counter`, `rapl_unit_xlate` in drivers/powercap/intel_rapl_common.c, read at commit
//! 010e85f9e47c). The range is therefore the largest value a reading can have, and a full turn is one
//! register unit more: `range + range / 0xffffffff`, at least 1 µJ. Each domain has its own range (DRAM's
//! differs from the package's), and a range of another domain gives hundreds of kilowatts.
//!
//! A step back is a wrap only within the domain's own range and only when the turned-over difference is a
//! power that such hardware can draw. Anything else (driver reloaded, suspend, a counter without a range) is
//! a step back of unknown size. A step over so long a time that a full turn fits in, forward or back, says
//! nothing either.

use super::GapReason;
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// No domain draws more: 10 kW is beyond any socket, any DIMM bank and any GPU of today (1 to 2.7 kW). What
/// is known of a domain is less (`physics`); long silences are judged by this.
pub(super) const POWER_CEILING: MicroWatts = MicroWatts::from_uw(10_000_000_000);

/// Counters move in steps (1 ms for RAPL, about 100 ms for NVML), so a short interval may hold the energy of
/// a whole step.
pub(super) const STEP_NS: u64 = 100_000_000;

/// A silence shorter than this is never taken for a hidden turn; real ranges last for minutes.
const SILENCE_NS: u64 = 10_000_000_000;

/// A difference that no counter reaches between two readings: 2^50 µJ are 1.1 GJ.
const ABSURD: u64 = 1 << 50;

/// What happened between two values of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterStep {
    /// It grew, or stayed.
    Normal(MicroJoules),
    /// It was full and began again.
    Wrapped(MicroJoules),
    /// Nobody can say how much went by.
    Unknown(GapReason),
}

/// How much a counter grew from one value to a later one, in its own unit; `None` when it went back. For
/// whoever shows or compares what a counter does and drops a step back; `step` accounts for it.
pub const fn grown(from: u64, to: u64) -> Option<u64> {
    to.checked_sub(from)
}

/// The step from one value to a later one, `ns` nanoseconds apart, of a counter with this range, in which no
/// more than `most` can have been drawn.
pub(super) fn step(
    from_uj: u64,
    to_uj: u64,
    ns: u64,
    max_range: Option<MicroJoules>,
    most: MicroJoules,
) -> CounterStep {
    let range = max_range.and_then(|range| u64::try_from(range.as_uj()).ok()).filter(|range| *range > 0);
    if range.is_some_and(|range| ns >= SILENCE_NS && ceiling_over(ns) >= range) {
        return CounterStep::Unknown(GapReason::TooLong);
    }
    let believed = |uj: u64| energy(uj).filter(|energy| *energy <= most);
    match grown(from_uj, to_uj) {
        Some(grown) => believed(grown).map_or(CounterStep::Unknown(GapReason::TooMuch), CounterStep::Normal),
        None => range
            .and_then(|range| turned_over(from_uj, to_uj, range))
            .and_then(believed)
            .map_or(CounterStep::Unknown(GapReason::WentBack), CounterStep::Wrapped),
    }
}

/// The difference over one full turn, for values within the range.
fn turned_over(from_uj: u64, to_uj: u64, range: u64) -> Option<u64> {
    let unit = (range / u64::from(u32::MAX)).max(1);
    range.checked_sub(from_uj)?.checked_add(to_uj)?.checked_add(unit)
}

/// The most energy that a counter can show between two readings so far apart, at this power: a step of the
/// counter that came before the first, and a reader that was held up, are in it.
pub(super) fn most_over(power: MicroWatts, ns: u64) -> MicroJoules {
    power.over_ns(ns.saturating_add(STEP_NS))
}

/// The most energy over a time, in microjoules.
fn ceiling_over(ns: u64) -> u64 {
    u64::try_from(POWER_CEILING.over_ns(ns).as_uj()).unwrap_or(u64::MAX)
}

fn energy(uj: u64) -> Option<MicroJoules> {
    i64::try_from(uj).ok().filter(|_| uj < ABSURD).map(MicroJoules::from_uj)
}

#[cfg(test)]
mod tests {
    use super::{CounterStep, GapReason, POWER_CEILING, most_over};
    use energy_trace_model::units::{MicroJoules, MicroWatts};

    const READ_NS: u64 = 20_000_000;
    /// `max_energy_range_uj` of a zone with units of 61,035 nJ: 0xffffffff · 61035 / 1000.
    const RANGE: u64 = 262_143_328_788;

    fn step(from_uj: u64, to_uj: u64, ns: u64, max_range: Option<MicroJoules>) -> CounterStep {
        super::step(from_uj, to_uj, ns, max_range, most_over(POWER_CEILING, ns))
    }

    fn range(uj: u64) -> Option<MicroJoules> {
        Some(MicroJoules::from_uj(uj.cast_signed()))
    }

    fn uj(uj: i64) -> MicroJoules {
        MicroJoules::from_uj(uj)
    }

    /// Growing and standing still are what they are, with a range and without.
    #[test]
    fn forward() {
        assert_eq!(step(100, 350, READ_NS, None), CounterStep::Normal(uj(250)));
        assert_eq!(step(100, 100, READ_NS, range(RANGE)), CounterStep::Normal(uj(0)));
    }

    /// From the largest register value to zero is one register unit, as the hardware counts.
    #[test]
    fn a_turn_is_the_range_and_one_unit() {
        assert_eq!(step(RANGE, 0, READ_NS, range(RANGE)), CounterStep::Wrapped(uj(61)));
        assert_eq!(
            step(RANGE - 900_000, 100_000, READ_NS, range(RANGE)),
            CounterStep::Wrapped(uj(1_000_061))
        );
        assert_eq!(step(999, 3, READ_NS, range(1_000)), CounterStep::Wrapped(uj(5)));
    }

    /// A step back is no wrap without a range, beyond the range, or when it would mean kilowatts.
    #[test]
    fn back_is_not_always_a_wrap() {
        let went_back = CounterStep::Unknown(GapReason::WentBack);
        assert_eq!(step(500, 100, READ_NS, None), went_back);
        assert_eq!(step(RANGE + 10, 100, READ_NS, range(RANGE)), went_back);
        assert_eq!(step(1_000_000, 0, READ_NS, range(RANGE)), went_back);
        assert_eq!(step(500, 100, READ_NS, range(0)), went_back);
    }

    /// Minutes of silence may hide a full turn: forward or back, nothing is known.
    #[test]
    fn silence_hides_turns() {
        let long = CounterStep::Unknown(GapReason::TooLong);
        assert_eq!(step(5, 1_000_000, 60_000_000_000, range(RANGE)), long);
        assert_eq!(step(5, 1_000_000, 60_000_000_000, None), CounterStep::Normal(uj(999_995)));
        assert_eq!(step(5, 1_000_000, 9_000_000_000, range(RANGE)), CounterStep::Normal(uj(999_995)));
    }

    /// Up to 200 W for 20 ms and a step of 100 ms before them are believed, forward and around; a microjoule
    /// more is not.
    #[test]
    fn more_than_can_be_drawn() {
        let most = most_over(MicroWatts::from_uw(200_000_000), READ_NS);
        let step = |from, to| super::step(from, to, READ_NS, range(RANGE), most);
        assert_eq!(step(7, 24_000_007), CounterStep::Normal(uj(24_000_000)));
        assert_eq!(step(7, 24_000_008), CounterStep::Unknown(GapReason::TooMuch));
        assert_eq!(step(RANGE, 23_999_939), CounterStep::Wrapped(uj(24_000_000)));
        assert_eq!(step(RANGE, 23_999_940), CounterStep::Unknown(GapReason::WentBack));
    }

    /// Values that no counter has are a gap, not an overflow.
    #[test]
    fn absurd_values() {
        assert_eq!(step(0, u64::MAX, READ_NS, None), CounterStep::Unknown(GapReason::TooMuch));
        assert_eq!(
            step(u64::MAX, 0, u64::MAX, range(u64::MAX >> 1)),
            CounterStep::Unknown(GapReason::TooLong)
        );
    }
}
