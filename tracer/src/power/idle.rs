//! The idle baseline: the power of each counter over a quiet period before the start.
//!
//! Leaves out making the period quiet; how busy the CPUs were is written beside the number. Leaves out the baseline that was given
//! (`--idle-watts`) or is a parameter (the model): `set.rs`.

use super::source::Attempt;
use energy_trace_attribution::timeline::grown;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroWatts;
use std::fs;
use std::time::Duration;

/// Counter readings of one domain, in time order, without those that failed.
pub(super) type Track = Vec<(KtimeNs, u64)>;

/// Shortest stretch whose power is looked at by itself: long beside the 20 ms between readings, short beside a burst of other work.
const STRETCH_NS: u64 = 100_000_000;

/// The longest wait for devices that still draw extra power for a program that has ended: an H200's clocks stay up for 1.4 s after its last context.
pub(super) const MOST_SETTLING: Duration = Duration::from_millis(2_500);

/// Time between two readings while the baseline is measured, in milliseconds.
pub(super) const STEP_MS: u64 = 20;

/// Appends one round of attempts to the tracks of the same domains.
pub(super) fn extend(tracks: &mut [Track], attempts: &[Attempt]) {
    for (track, attempt) in tracks.iter_mut().zip(attempts) {
        if let Ok(counter) = attempt.counter_uj {
            track.push((attempt.at, counter));
        }
    }
}

/// The median power over stretches of at least 100 ms, weighted by their length; `None` when the counter did not move twice.
///
/// A stretch begins and ends where the counter was first seen with a new value, so that one that moves in steps of 100 ms (NVML) gives
/// the same answer as one that moves each millisecond (RAPL). A stretch in which the counter goes backwards is left out. The median is
/// not moved by a burst of work that takes less than half of the period.
pub(super) fn baseline(track: &Track) -> Option<MicroWatts> {
    let mut edges = track.clone();
    edges.dedup_by_key(|&mut (_, counter)| counter);
    // The first value was there before the first reading: when it appeared is not known.
    let mut edges = edges.into_iter().skip(1);
    let mut begin = edges.next()?;
    let mut stretches = Vec::new();
    for edge in edges {
        let ns = edge.0.ns_since(begin.0);
        match grown(begin.1, edge.1) {
            None => begin = edge,
            Some(uj) if ns >= STRETCH_NS => {
                stretches.push((uj, ns));
                begin = edge;
            }
            Some(_) => {}
        }
    }
    median_power(&mut stretches)
}

/// The power at half of the time, where each stretch is (microjoules, nanoseconds).
fn median_power(stretches: &mut [(u64, u64)]) -> Option<MicroWatts> {
    let power_uw = |&(uj, ns): &(u64, u64)| u128::from(uj) * 1_000_000_000 / u128::from(ns.max(1));
    stretches.sort_by_key(power_uw);
    let total: u64 = stretches.iter().map(|s| s.1).sum();
    let mut so_far = 0;
    let middle = stretches.iter().find(|s| {
        so_far += s.1;
        so_far * 2 >= total
    })?;
    Some(MicroWatts::from_uw(u64::try_from(power_uw(middle)).unwrap_or(u64::MAX)))
}

/// Time that all CPUs were busy and time in all, in the kernel's ticks since boot; `None` where `/proc/stat` cannot be read.
pub(super) fn read_cpu_ticks() -> Option<(u64, u64)> {
    parse_cpu_ticks(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, … (proc(5)); guest time is in user time already.
fn parse_cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let ticks: Vec<u64> = ticks.map(|t| t.parse().ok()).collect::<Option<_>>()?;
    let total: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((total.saturating_sub(idle), total))
}

/// How busy the CPUs were between two readings of `/proc/stat`, in percent.
pub(super) fn busy_percent(before: (u64, u64), after: (u64, u64)) -> u64 {
    let (busy, total) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    (100 * busy).checked_div(total).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Track, baseline, busy_percent, parse_cpu_ticks};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroWatts;

    /// Readings each 20 ms of a counter that is `energy_uj` of the time in milliseconds.
    fn track(ms: u64, energy_uj: impl Fn(u64) -> u64) -> Track {
        (0..ms).step_by(20).map(|t| (KtimeNs::from_ns(t * 1_000_000), energy_uj(t))).collect()
    }

    /// 20 W that a counter shows at once, and 70 W that one shows in steps of 100 ms seen up to 20 ms late.
    #[test]
    fn steady_power() {
        assert_eq!(baseline(&track(1000, |t| 5 + t * 20_000)), MicroWatts::from_watts(20.0));
        let steps = baseline(&track(1000, |t| (t + 7) / 100 * 7_000_000)).unwrap();
        assert_eq!(steps, MicroWatts::from_watts(70.0).unwrap());
    }

    /// A burst of 300 ms at 100 W does not move a baseline of 20 W.
    #[test]
    fn burst_is_left_out() {
        let energy = |t: u64| t * 20_000 + t.saturating_sub(400).min(300) * 80_000;
        assert_eq!(baseline(&track(1000, energy)), MicroWatts::from_watts(20.0));
    }

    /// A counter that returns to zero meanwhile still gives its power; one that stands still gives none.
    #[test]
    fn wraps_and_stuck_counters() {
        let wraps = baseline(&track(1000, |t| (t * 20_000 + 1_000_000) % 11_000_000));
        assert_eq!(wraps, MicroWatts::from_watts(20.0));
        assert_eq!(baseline(&track(1000, |_| 42)), None);
        assert_eq!(baseline(&Track::new()), None);
    }

    /// Busy time from two lines of `/proc/stat`; waiting for a disk is not busy.
    #[test]
    fn busy_share() {
        let before = parse_cpu_ticks("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2\n").unwrap();
        let after = parse_cpu_ticks("cpu  130 0 120 840 110 0 0 0 70 0\n").unwrap();
        assert_eq!(busy_percent(before, after), 25);
        assert_eq!(parse_cpu_ticks("intr 1 2 3"), None);
    }
}
