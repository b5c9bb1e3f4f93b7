//! How fast a CPU's clock ran while a thread was on it.
//!
//! A clock is read a few times a second (`power/reading/cpu_clocks.rs`), whatever the CPU does. What is read
//! while it idles may be the governor's wish or its last value, and says nothing about the clock at which it
//! works: it is left out, unless it repeats what was read before. Leaves out machines without cpufreq, whose
//! clocks are not recorded, what the clock does between two readings beside going from the one to the other,
//! and what it makes of power (`power_model::corrections`).

use crate::time::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::record;
use energy_trace_model::units::KiloHertz;
use std::collections::BTreeMap;

/// Clocks that differ by less than this part of themselves show nothing.
const ALIKE: f64 = 0.02;
/// What an idle CPU shows for so long after its work is the clock at which it worked (`MAX_SAMPLE_AGE` in
/// arch/x86/kernel/cpu/aperfmperf.c, Linux 5.18 and later: HZ / 50).
const FRESH_NS: u64 = 20_000_000;
/// A reading in parts of the mean clock is between these, or no clock at all.
const SANE: (f64, f64) = (0.02, 50.0);

/// The clock of each CPU over time, in parts of their mean.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    of: BTreeMap<CpuId, Vec<(KtimeNs, f64)>>,
}

impl Clocks {
    /// Of what was recorded, and all segments, ordered by CPU and start.
    pub(crate) fn of(recorded: &record::Clocks, segments: &[Segment]) -> Self {
        let by_cpu = |cpu: CpuId| {
            let (from, to) =
                (segments.partition_point(|s| s.cpu < cpu), segments.partition_point(|s| s.cpu <= cpu));
            segments.get(from..to).unwrap_or_default()
        };
        let mut of: BTreeMap<CpuId, Vec<(KtimeNs, f64)>> =
            recorded.iter().map(|(&cpu, read)| (cpu, at_work(read, by_cpu(cpu)))).collect();
        let all = || of.values().flatten().map(|(_, clock)| clock);
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let mean = all().sum::<f64>() / all().count().max(1) as f64;
        for clock in of.values_mut() {
            clock.iter_mut().for_each(|(_, clock)| *clock /= mean);
            clock.retain(|(_, clock)| (SANE.0..SANE.1).contains(clock));
        }
        of.retain(|_, clock| !clock.is_empty());
        Self { of }
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// A CPU's clock in the middle of a time, in parts of the mean of all; the mean where nothing is known.
    pub(crate) fn within(&self, cpu: CpuId, span: Span) -> f64 {
        let Some(read) = self.of.get(&cpu) else { return 1.0 };
        let at = span.start.midpoint(span.end);
        let next = read.partition_point(|(read, _)| *read <= at);
        let (before, after) = (next.checked_sub(1).and_then(|i| read.get(i)), read.get(next));
        match (before, after) {
            (Some(before), Some(after)) => {
                #[expect(clippy::cast_precision_loss, reason = "a part of one")]
                let part = at.ns_since(before.0) as f64 / after.0.ns_since(before.0).max(1) as f64;
                before.1 + part * (after.1 - before.1)
            }
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 1.0,
        }
    }
}

/// What was read while the CPU worked, and what repeats it; all of it where nothing was read then.
fn at_work(read: &[(KtimeNs, KiloHertz)], segments: &[Segment]) -> Vec<(KtimeNs, f64)> {
    let clock = |&(at, clock): &(KtimeNs, KiloHertz)| (at, f64::from(clock.as_khz()));
    let all: Vec<(KtimeNs, f64)> = read.iter().map(clock).filter(|(_, clock)| *clock > 0.0).collect();
    let worked = |at: KtimeNs| {
        let begun = segments.partition_point(|segment| segment.span.start <= at);
        let last = begun.checked_sub(1).and_then(|i| segments.get(i));
        last.is_some_and(|last| at.ns_since(last.span.end) < FRESH_NS)
    };
    let mut kept: Vec<(KtimeNs, f64)> = vec![];
    for &(at, clock) in &all {
        let repeats = kept.last().is_some_and(|(_, before)| (clock - before).abs() <= ALIKE * before);
        if worked(at) || repeats {
            kept.push((at, clock));
        }
    }
    if kept.is_empty() { all } else { kept }
}

/// Whether parts of a run had clocks that differ.
pub fn differ(clocks: impl Iterator<Item = f64>) -> bool {
    let (least, most) =
        clocks.fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    most > least * (1.0 + ALIKE)
}

#[cfg(test)]
mod tests {
    use super::{Clocks, KiloHertz, KtimeNs, Segment, Span, differ};
    use energy_trace_model::ids::CpuId;

    const MS: u64 = 1_000_000;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from * MS), end: KtimeNs::from_ns(to * MS) }
    }

    fn segment(cpu: u32, from: u64, to: u64) -> Segment {
        Segment { cpu: CpuId::new(cpu), span: span(from, to), owner: 1 }
    }

    fn clocks(read: &[(u32, &[(u64, u32)])], segments: &[Segment]) -> Clocks {
        let point = |&(at, mhz): &(u64, u32)| (KtimeNs::from_ns(at * MS), KiloHertz::from_khz(mhz * 1000));
        let of_cpu =
            |&(cpu, read): &(u32, &[(u64, u32)])| (CpuId::new(cpu), read.iter().map(point).collect());
        Clocks::of(&read.iter().map(of_cpu).collect(), segments)
    }

    /// A slow and a fast CPU at the same time: each thread weighs by its own CPU's clock, on the line between
    /// two readings; a CPU of which nothing is known has the mean.
    #[test]
    fn each_cpu_has_its_own_clock() {
        let segments = [segment(0, 0, 1000), segment(1, 0, 1000), segment(2, 0, 1000)];
        let clocks = clocks(&[(0, &[(0, 1000), (500, 1000)]), (1, &[(0, 2000), (500, 4000)])], &segments);
        let within = |cpu, from, to| clocks.within(CpuId::new(cpu), span(from, to));
        // The mean is 2 GHz.
        assert_eq!([within(0, 100, 200), within(0, 900, 1000), within(2, 0, 10)], [0.5, 0.5, 1.0]);
        assert_eq!([within(1, 0, 0), within(1, 200, 300), within(1, 900, 1000)], [1.0, 1.5, 2.0]);
    }

    /// What is read while a CPU idles is not the clock at which it works, unless it is what was read before;
    /// nor is a clock of nothing.
    #[test]
    fn idle_clocks_are_left_out() {
        let segments = [segment(0, 0, 200), segment(0, 1000, 1300)];
        let read: &[_] = &[(0, 0), (100, 3000), (300, 3000), (400, 800), (990, 800), (1100, 2000)];
        let clocks = clocks(&[(0, read)], &segments);
        let at = |ms| clocks.within(CpuId::new(0), span(ms, ms)) / clocks.within(CpuId::new(0), span(0, 0));
        assert!((at(150) - 1.0).abs() < 1e-9 && (at(300) - 1.0).abs() < 1e-9);
        assert!((at(1200) - 2.0 / 3.0).abs() < 1e-9 && at(1050) < 0.71, "{}", at(1050));
    }

    /// A steady clock shows nothing, two clocks do.
    #[test]
    fn clocks_differ() {
        assert!(!differ([1.0, 1.01, 1.005].into_iter()) && !differ(std::iter::empty()));
        assert!(differ([1.0, 0.9].into_iter()));
    }
}
