//! The idle baseline: the power of each counter over a quiet period before the start.
//!
//! How busy the CPUs were is written beside the number: of a machine that never rested it is no idle power, and the attribution makes one of it.
//! Leaves out the baseline that was given
//! (`--idle-watts`) or is a parameter (the model): `set.rs`.

use super::source::Attempt;
use energy_trace_counters::grown;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::ids::CpuId;
use energy_trace_model::units::MicroWatts;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Counter readings of one domain, in time order, without those that failed.
pub(super) type Track = Vec<(KtimeNs, u64)>;

/// Shortest stretch whose power is looked at by itself: long beside the 20 ms between readings, short beside a burst of other work.
const STRETCH_NS: u64 = 100_000_000;

/// CPUs that are busy for less than this part of the time are at rest: a tenth is what a desktop does.
const AT_REST: f64 = 0.1;
/// So much rest is enough for a baseline.
const ENOUGH_NS: u64 = 200_000_000;

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

/// A part of the period, with what a counter grew by.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: KtimeNs,
    to: KtimeNs,
    uj: u64,
    ns: u64,
}

/// The median power over stretches of at least 100 ms, weighted by their length; `None` when the counter did not move twice.
///
/// A stretch begins and ends where the counter was first seen with a new value, so that one that moves in steps of 100 ms (NVML) gives
/// the same answer as one that moves each millisecond (RAPL). A stretch in which the counter goes backwards is left out. The median is
/// not moved by a burst of work that takes less than half of the period.
pub(super) fn baseline(track: &Track) -> Option<MicroWatts> {
    median_power(&mut stretches(track))
}

fn stretches(track: &Track) -> Vec<Stretch> {
    let mut edges = track.clone();
    edges.dedup_by_key(|&mut (_, counter)| counter);
    // The first value was there before the first reading: when it appeared is not known.
    let mut edges = edges.into_iter().skip(1);
    let Some(mut begin) = edges.next() else { return Vec::new() };
    let mut stretches = Vec::new();
    for edge in edges {
        let ns = edge.0.ns_since(begin.0);
        match grown(begin.1, edge.1) {
            None => begin = edge,
            Some(uj) if ns >= STRETCH_NS => {
                stretches.push(Stretch { from: begin.0, to: edge.0, uj, ns });
                begin = edge;
            }
            Some(_) => {}
        }
    }
    stretches
}

/// The power at half of the time.
fn median_power(stretches: &mut [Stretch]) -> Option<MicroWatts> {
    let power_uw = |s: &Stretch| u128::from(s.uj) * 1_000_000_000 / u128::from(s.ns.max(1));
    stretches.order_by_key(power_uw);
    let total: u64 = stretches.iter().map(|s| s.ns).sum();
    let mut so_far = 0;
    let middle = stretches.iter().find(|s| {
        so_far += s.ns;
        so_far * 2 >= total
    })?;
    Some(MicroWatts::from_uw(u64::try_from(power_uw(middle)).unwrap_or(u64::MAX)))
}

/// Time that each CPU was busy and time in all, in the kernel's ticks since boot, at a moment.
pub(super) type Load = (KtimeNs, BTreeMap<CpuId, (u64, u64)>);

/// Reads it; nothing where `/proc/stat` cannot be read.
pub(super) fn read_load(at: KtimeNs) -> Load {
    (at, parse_load(&fs::read_to_string("/proc/stat").unwrap_or_default()))
}

/// The lines of single CPUs in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)); guest time is in user time already. A CPU
/// that the host has taken away is not busy: it draws nothing for us.
fn parse_load(stat: &str) -> BTreeMap<CpuId, (u64, u64)> {
    let of_cpu = |line: &str| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ticks: Vec<u64> =
            ticks.split_whitespace().take(8).map(|t| t.parse().ok()).collect::<Option<_>>()?;
        let [user, nice, system, idle, iowait, irq, soft, steal] = ticks.try_into().ok()?;
        let busy = user + nice + system + irq + soft;
        Some((CpuId::new(cpu.parse().ok()?), (busy, busy + idle + iowait + steal)))
    };
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(of_cpu).fill_map()
}

/// How busy some CPUs were between two moments, from 0 to 1; `None` where that is not known.
fn busy_between(loads: &[Load], from: KtimeNs, to: KtimeNs, is_of: &dyn Fn(CpuId) -> bool) -> Option<f64> {
    let first = loads.iter().rev().find(|(at, _)| *at <= from).or_else(|| loads.first())?;
    let last = loads.iter().find(|(at, _)| *at >= to).or_else(|| loads.last())?;
    let of_cpu = |(cpu, now): (&CpuId, &(u64, u64))| {
        let before = first.1.get(cpu).filter(|_| is_of(*cpu))?;
        Some((now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)))
    };
    let sums = last.1.iter().filter_map(of_cpu).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (sums.1 > 0).then(|| sums.0 as f64 / sums.1 as f64)
}

/// The baseline of a domain with these CPUs, and how busy they were while it was taken, in percent. Where they were at rest for a part of the time, of
/// that part alone: other work that comes and goes does not count.
pub(super) fn baseline_at_rest(
    track: &Track,
    loads: &[Load],
    is_of: &dyn Fn(CpuId) -> bool,
) -> Option<(MicroWatts, Option<u64>)> {
    let stretches = stretches(track);
    let busy = |stretch: &Stretch| busy_between(loads, stretch.from, stretch.to, is_of);
    let at_rest: Vec<Stretch> = stretches
        .iter()
        .copied()
        .filter(|stretch| busy(stretch).is_some_and(|busy| busy < AT_REST))
        .collect();
    let rested_ns: u64 = at_rest.iter().map(|stretch| stretch.ns).sum();
    let mut taken = if rested_ns >= ENOUGH_NS { at_rest } else { stretches };
    let sum = |of: &dyn Fn(&Stretch) -> f64| {
        taken.iter().map(|stretch| of(stretch) * stretch.ns as f64).sum::<f64>()
    };
    let known = taken.iter().all(|stretch| busy(stretch).is_some());
    let mean = sum(&|stretch| busy(stretch).unwrap_or(0.0)) / sum(&|_| 1.0).max(1.0);
    let percent = known.then_some((100.0 * mean).round().clamp(0.0, 100.0) as u64);
    Some((median_power(&mut taken)?, percent))
}

#[cfg(test)]
mod tests {
    use super::{CpuId, Load, Track, baseline, baseline_at_rest, busy_between, parse_load};
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

    /// Two CPUs, one of them busy, at the ends of a second; waiting for a disk is not busy, and what the host took is not either.
    fn loads() -> [Load; 2] {
        let at = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let before =
            "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 100 0 100 700 100 0 0 0 50 0\ncpu1 0 0 0 9 0 0 0 0 0 0\nintr 1";
        let after = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 130 0 120 740 110 0 0 0 70 0\ncpu1 0 0 0 39 50 0 0 20 0 0\nintr 1";
        [(at(0), parse_load(before)), (at(1_000), parse_load(after))]
    }

    /// Of a domain's own CPUs alone, also between readings.
    #[test]
    fn busy_share() {
        let [first, last] = loads();
        let share = |is_of: &dyn Fn(CpuId) -> bool| {
            busy_between(&[first.clone(), last.clone()], first.0, KtimeNs::from_ns(500_000_000), is_of)
        };
        assert_eq!(share(&|cpu| cpu == CpuId::new(0)), Some(0.5));
        assert_eq!(share(&|cpu| cpu == CpuId::new(1)), Some(0.0));
        assert_eq!(share(&|_| true), Some(0.25));
        assert_eq!(share(&|_| false), None);
        assert!(parse_load("intr 1 2 3").is_empty());
    }

    /// 20 W at rest, and 60 W with a neighbour that works for so long of the second: while it rests for a fifth of it, the baseline is that of the rest;
    /// where it never does, the baseline is what it was, marked as busy.
    #[test]
    fn a_neighbour_that_comes_and_goes() {
        let found = |works_ms: u64| {
            let track = track(1_000, |t| 20_000 * t + 40_000 * t.min(works_ms));
            let load = |ms: u64| {
                let busy = ms.min(works_ms) / 10;
                (KtimeNs::from_ns(ms * 1_000_000), [(CpuId::new(0), (busy, ms / 10))].into())
            };
            let loads: Vec<Load> = (0..=1_000).step_by(20).map(load).collect();
            baseline_at_rest(&track, &loads, &|_| true).unwrap()
        };
        assert_eq!(found(0), (MicroWatts::from_watts(20.0).unwrap(), Some(0)));
        assert_eq!(found(700), (MicroWatts::from_watts(20.0).unwrap(), Some(0)));
        assert_eq!(found(1_000), (MicroWatts::from_watts(60.0).unwrap(), Some(100)));
    }
}
