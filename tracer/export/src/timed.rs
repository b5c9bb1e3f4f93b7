//! Stacks over time, for formats with a time axis: what each thread spent in each bin, one stack after the other.
//!
//! A bin is 20 ms wide or more, so that there are 500 at most. Within a bin the order of stacks is not that of the run: those that share
//! callers stand together, each for its CPU time, or for its part of the bin where threads are drawn as one. Energies are exact: all of a
//! row's bins are the row. Leaves out how energy comes into bins (`energy-trace-attribution`).

use super::stacks::{FrameNumber, Stacks};
use super::{ExportOptions, Input, StackOptions};
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::profile::over_time::OverTime;
use energy_trace_model::units::MicroJoules;
use energy_trace_report::folded::Per;
use energy_trace_report::run;
use energy_trace_report::thermal::{Gauge, gauges};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a thread spent in a stack, in a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its stack, root first; never empty.
    pub(super) path: Vec<FrameNumber>,
    /// Nanoseconds since the run's start; empty where the energy is a GPU's.
    pub(super) span_ns: Range<u64>,
    pub(super) energy: MicroJoules,
    pub(super) cpu_ns: u64,
}

/// The stacks of all threads over time.
pub(super) struct Timed<'a> {
    pub(super) stacks: Stacks<'a>,
    /// By the thread below which they stand, in the order of time.
    pub(super) threads: BTreeMap<ThreadKey, Vec<Stretch>>,
}

/// What a stack spent in a bin, before it has its place there.
struct InBin {
    bin: u32,
    path: usize,
    energy: MicroJoules,
    cpu_ns: u64,
}

impl<'a> Timed<'a> {
    pub(super) fn new(input: &Input<'a>, over_time: &OverTime, options: &ExportOptions) -> Self {
        let options: StackOptions = options.stacks(Per::None);
        let stacks = Stacks::of_frames(input.profile, &options).told_apart();
        let mut entries: BTreeMap<ThreadKey, Vec<InBin>> = BTreeMap::new();
        let mut paths: Vec<Vec<FrameNumber>> = Vec::new();
        for (number, row) in stacks.profile.rows.iter().enumerate() {
            paths.push(stacks.path_of_row(row));
            let of_row = entries.entry(row.on_behalf_of.unwrap_or(row.thread)).or_default();
            let bins = over_time.of_row(number).iter().filter(|entry| input.bins.contains(&entry.bin));
            of_row.extend(bins.map(|entry| InBin {
                bin: entry.bin,
                path: number,
                energy: run::chosen(&entry.energy, options.domain),
                cpu_ns: entry.time_ns,
            }));
        }
        let threads = entries.into_iter().filter(|(_, list)| !list.is_empty());
        let placed = threads.map(|(thread, list)| (thread, placed(list, &paths, over_time)));
        Self { threads: placed.collect(), stacks }
    }
}

/// Gives what is in a bin its places there.
fn placed(mut list: Vec<InBin>, paths: &[Vec<FrameNumber>], over_time: &OverTime) -> Vec<Stretch> {
    let path = |entry: &InBin| paths.get(entry.path).map_or(&[][..], Vec::as_slice);
    list.order_by(|one, other| one.bin.cmp(&other.bin).then_with(|| path(one).cmp(path(other))));
    let start = over_time.bins.span(0).0;
    let mut stretches = Vec::with_capacity(list.len());
    for bin in list.chunk_by(|one, other| one.bin == other.bin) {
        let Some(first) = bin.first() else { continue };
        let (from, to) = over_time.bins.span(first.bin);
        let width = u128::from(to.ns_since(from));
        let all = bin.iter().map(|entry| u128::from(entry.cpu_ns)).sum::<u128>().max(width).max(1);
        let mut before = 0_u128;
        for entry in bin {
            let place = |cpu: u128| {
                from.ns_since(start).saturating_add(u64::try_from(cpu * width / all).unwrap_or(u64::MAX))
            };
            let after = before + u128::from(entry.cpu_ns);
            let path = path(entry).to_vec();
            let span_ns = place(before)..place(after);
            stretches.push(Stretch { path, span_ns, energy: entry.energy, cpu_ns: entry.cpu_ns });
            before = after;
        }
    }
    stretches
}

/// The power of one domain in a bin.
pub(super) struct DomainBin {
    /// Nanoseconds since the run's start.
    pub(super) span_ns: Range<u64>,
    pub(super) measured: MicroJoules,
    pub(super) target: MicroJoules,
    pub(super) others: MicroJoules,
    /// Idle, and what is nobody's.
    pub(super) rest: MicroJoules,
}

/// A temperature or clock over time: its mean in each bin, where it is known.
pub(super) struct GaugeTrack {
    /// `cpu-0 temperature`.
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// From when on, in nanoseconds since the run's start, and the mean until the next.
    pub(super) bins: Vec<(u64, Option<f64>)>,
}

/// All temperatures and clocks.
pub(super) fn gauge_tracks(input: &Input<'_>, over_time: &OverTime) -> Vec<GaugeTrack> {
    let start = over_time.bins.span(0).0;
    let track = |gauge: Gauge| {
        let mean = |bin| {
            let (from, to) = over_time.bins.span(bin);
            (from.ns_since(start), gauge.between(from, to).map(|shown| shown.mean))
        };
        let name = format!("{} {}", gauge.part, gauge.word());
        GaugeTrack { name, unit: gauge.unit(), bins: input.bins.clone().map(mean).collect() }
    };
    gauges(input.profile).into_iter().map(track).collect()
}

/// A domain over time.
pub(super) struct DomainTrack {
    pub(super) name: String,
    pub(super) quality: &'static str,
    pub(super) bins: Vec<DomainBin>,
}

/// All domains of a run, whatever was chosen: a track is a picture, and adds nothing up.
pub(super) fn domains(input: &Input<'_>, over_time: &OverTime) -> Vec<DomainTrack> {
    let start = over_time.bins.span(0).0;
    let of_ledger = input.profile.ledger.iter().zip(&over_time.domains);
    let track = of_ledger.map(|(row, bins)| {
        let numbered = (0_u32..).zip(bins).filter(|(number, _)| input.bins.contains(number));
        let bins = numbered.map(|(number, bin)| {
            let (from, to) = over_time.bins.span(number);
            DomainBin {
                span_ns: from.ns_since(start)..to.ns_since(start),
                measured: bin.measured,
                target: bin.target,
                others: bin.other,
                rest: bin.measured - bin.target - bin.other,
            }
        });
        let name = energy_trace_names::shown::shown(&row.domain).into_owned();
        DomainTrack { name, quality: run::quality_word(row.quality), bins: bins.collect() }
    });
    track.collect()
}
