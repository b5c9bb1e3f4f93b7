//! A virtual recording as one without slices would be: CPU time summed by process between the readings, and fewer of those and of samples.
//!
//! Leaves out how sums are laid out, which is the product's.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CpuOwner, CpuTotals};
use energy_trace_model::recording::totals::lay_out;
use energy_trace_tests::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// Leaves ten readings a second of each domain, and so many samples, by chance.
pub fn thin(recording: &mut Recording, hz: u32, seed: u64) {
    const EVERY_NS: u64 = 100_000_000;
    for readings in recording.readings.values_mut() {
        let mut due = 0;
        readings.retain(|reading| {
            let is_due = reading.at.as_ns() >= due;
            due = if is_due { reading.at.as_ns() + EVERY_NS } else { due };
            is_due
        });
    }
    let part = f64::from(hz) / f64::from(recording.header.sample_hz);
    let mut random = Random(seed);
    recording.samples.retain(|_| random.unit() < part);
    recording.header.sample_hz = hz;
}

/// Sums slices by process and CPU between the readings of the first domain, and lays the sums out.
pub fn sum(recording: &mut Recording) {
    sum_over(recording, Duration::ZERO);
}

/// The same between readings that are so far apart at least: an agent asks many processes less often than it
/// reads power.
pub fn sum_over(recording: &mut Recording, least: Duration) {
    recording.totals = totals_over(recording, least);
    recording.slices.clear();
    lay_out(recording);
    recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
}

/// The same owner for all threads of a process.
fn process_of(recording: &Recording, who: CpuOwner) -> CpuOwner {
    let CpuOwner::Target(thread) = who else { return who };
    let process = recording.threads[thread.index()].process;
    let first = recording.threads.iter().find(|thread| thread.process == process);
    CpuOwner::Target(first.map_or(ThreadKey::new(0), |thread| thread.key))
}

/// What each process ran on each CPU between readings.
pub fn totals(recording: &Recording) -> Vec<CpuTotals> {
    totals_over(recording, Duration::ZERO)
}

fn totals_over(recording: &Recording, least: Duration) -> Vec<CpuTotals> {
    let mut cuts: Vec<KtimeNs> = vec![KtimeNs::from_ns(0)];
    for at in recording.readings.values().next().into_iter().flatten().map(|reading| reading.at) {
        if cuts.last().is_some_and(|last| at >= *last + least) {
            cuts.push(at);
        }
    }
    cuts.push(KtimeNs::from_ns(u64::MAX));
    let mut sums: BTreeMap<(usize, CpuId), Vec<(CpuOwner, u64)>> = BTreeMap::new();
    for slice in &recording.slices {
        let who = process_of(recording, slice.who);
        let first = cuts.partition_point(|cut| *cut <= slice.start).saturating_sub(1);
        for (number, cut) in cuts.windows(2).enumerate().skip(first) {
            if cut[0] >= slice.end {
                break;
            }
            let ns = slice.end.min(cut[1]).ns_since(slice.start.max(cut[0]));
            let of_cpu = sums.entry((number, slice.cpu)).or_default();
            match of_cpu.iter_mut().find(|(other, _)| *other == who) {
                Some((_, sum)) => *sum += ns,
                None => of_cpu.push((who, ns)),
            }
        }
    }
    let slices = &recording.slices;
    let begin = slices.iter().map(|slice| slice.start).min().unwrap_or_default();
    let last = slices.iter().map(|slice| slice.end).max().unwrap_or_default();
    let totals = sums.into_iter().map(|((number, cpu), of)| {
        let (start, end) = (cuts[number].max(begin), cuts[number + 1].min(last));
        CpuTotals { cpu, start, end, of }
    });
    totals.collect()
}
