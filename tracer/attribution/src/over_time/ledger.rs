//! The bins of one domain: its row of the ledger, cut by time.
//!
//! Measured energy goes into bins as the counter shows it, that of an interval over an edge by time. Idle
//! goes by time, shared parts by the time in which any CPU was busy. The rest is the target's and others',
//! fitted to both. Leaves out the target's rows.

use super::fit::{apportion, fit};
use super::places::Source;
use super::spans;
use crate::ledger::result::{DomainResult, SplitBasis};
use crate::time::busy_cpus::activity;
use crate::time::owners::OwnerTime;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::over_time::{BinEnergy, Bins};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;

/// The bins of a domain; `busy`: when its CPUs were.
pub(super) fn bins_of(
    result: &DomainResult,
    source: &Source,
    owners: &[OwnerTime],
    bins: &Bins,
    busy: Vec<Span>,
) -> Vec<BinEnergy> {
    let mut found = measured(&result.metered.timeline.intervals, bins);
    let covered: Vec<f64> = found.iter().map(|bin| bin.covered_ns as f64).collect();
    let idle = apportion(result.row.idle, &covered);
    found.iter_mut().zip(idle).for_each(|(bin, idle)| bin.idle = idle);
    let active = activity(&spans(bins), busy.iter().copied());
    let active: Vec<f64> = active.iter().map(|active| active.any_ns as f64).collect();
    let uncore = apportion(result.row.uncore, &active);
    found.iter_mut().zip(uncore).for_each(|(bin, uncore)| bin.uncore = uncore);
    unattributed(result, &mut found);
    doubted(result, &mut found, bins);
    let left = left_over(result, &found, bins, busy);
    let start = source.target_and_others(result, owners, &found);
    charge(result, &start, &mut found, &left);
    for bin in &mut found {
        bin.residual = bin.measured - bin.placed();
    }
    found
}

/// What the counter says for each bin.
fn measured(intervals: &[EnergyInterval], bins: &Bins) -> Vec<BinEnergy> {
    let mut found = vec![BinEnergy::default(); bins.count() as usize];
    for interval in intervals {
        let parts: Vec<(u32, u64)> = overlaps(interval.span, bins).collect();
        let weights: Vec<f64> = parts.iter().map(|(_, ns)| *ns as f64).collect();
        for (&(bin, ns), energy) in parts.iter().zip(apportion(interval.energy, &weights)) {
            let bin = &mut found[bin as usize];
            bin.measured += energy;
            bin.covered_ns = bin.covered_ns.saturating_add(ns);
        }
    }
    found
}

/// The bins that a span touches, and for how long.
fn overlaps(span: Span, bins: &Bins) -> impl Iterator<Item = (u32, u64)> {
    let last = bins.at(span.end);
    (bins.at(span.start)..=last).map(move |bin| {
        let (start, end) = bins.span(bin);
        (bin, span.overlap(Span::new(start, end)).map_or(0, Span::ns))
    })
}

/// What could not be charged. Where nobody is charged at all, it is all that is not idle.
fn unattributed(result: &DomainResult, found: &mut [BinEnergy]) {
    let all = result.row.unattributed.iter();
    let charged: Vec<_> = all.filter(|(reason, _)| **reason != UnattributedReason::CounterDoubted).collect();
    let alone = matches!(result.basis, SplitBasis::Nothing) && charged.len() == 1;
    for (&reason, &energy) in charged {
        let above: Vec<MicroJoules> = found.iter().map(|bin| bin.measured - bin.idle - bin.uncore).collect();
        let weights: Vec<f64> = above.iter().map(|above| above.as_joules().max(0.0)).collect();
        let is_exact = alone && above.iter().copied().sum::<MicroJoules>() == energy;
        let parts = if is_exact { above } else { apportion(energy, &weights) };
        found.iter_mut().zip(parts).for_each(|(bin, part)| {
            bin.unattributed.insert(reason, part);
        });
    }
}

/// What the counter showed in gaps in which it is not believed: nobody's, where it was shown.
fn doubted(result: &DomainResult, found: &mut [BinEnergy], bins: &Bins) {
    if result.metered.timeline.doubted.is_empty() {
        return;
    }
    for (bin, doubted) in found.iter_mut().zip(measured(&result.metered.timeline.doubted, bins)) {
        bin.measured += doubted.measured;
        bin.unattributed.insert(UnattributedReason::CounterDoubted, doubted.measured);
    }
}

/// Joules of each bin that are nobody's, because the interval of the counter has nobody in it.
fn left_over(result: &DomainResult, found: &[BinEnergy], bins: &Bins, busy: Vec<Span>) -> Vec<f64> {
    let mut left = vec![0.0; found.len()];
    if result.row.class == DomainClass::Gpu {
        return left;
    }
    let intervals = &result.metered.timeline.intervals;
    let active = activity(intervals, busy.into_iter());
    for (interval, _) in intervals.iter().zip(active).filter(|(_, active)| active.any_ns == 0) {
        let watts = interval.energy.as_joules() / interval.span.ns().max(1) as f64;
        for (bin, ns) in overlaps(interval.span, bins) {
            let idle = found[bin as usize].idle.as_joules() / found[bin as usize].covered_ns.max(1) as f64;
            left[bin as usize] += (watts - idle) * ns as f64;
        }
    }
    left
}

/// Charges what is neither idle nor nobody's to the target and to others.
fn charge(result: &DomainResult, start: &[Vec<f64>; 2], found: &mut [BinEnergy], left: &[f64]) {
    let rest = |(bin, left): (&BinEnergy, &f64)| (bin.measured - bin.placed()).as_joules() - left;
    let columns: Vec<f64> = found.iter().zip(left).map(rest).collect();
    let whole = [result.row.target, result.row.other];
    let mut weights = start.concat();
    let bins = found.len();
    fit(&mut weights, &whole.map(MicroJoules::as_joules), &columns, |at| (at / bins, at % bins));
    let parts = |row: usize| {
        let fitted = &weights[row * bins..(row + 1) * bins];
        let is_fitted = fitted.iter().any(|weight| *weight > 0.0);
        apportion(whole[row], if is_fitted { fitted } else { &start[row] })
    };
    let parts = parts(0).into_iter().zip(parts(1));
    for (bin, (target, other)) in found.iter_mut().zip(parts) {
        (bin.target, bin.other) = (target, other);
    }
}
