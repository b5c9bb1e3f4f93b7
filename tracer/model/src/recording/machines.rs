//! Which recordings are of one machine at one time, and which do not go together.
//!
//! Two recordings of one machine that overlap have read the same counters: they are joined (`joining.rs`), so that no joule counts twice.
//! Everything else is added up. Machines are told apart by the kernel's number of the boot; where it could not be read, recordings are of
//! one machine where both clocks, kernel and CPUs agree.

use super::record::{CpuOwner, Domain, Origin, Process, Slice};
use super::tables::{Part, Recording};
use crate::clock::KtimeNs;
use crate::ids::{CpuId, Pid};
use std::collections::BTreeMap;
use thiserror::Error;

/// The clocks of one boot differ by no more: both are read at once when a recording starts.
const SAME_BOOT_NS: u64 = 1_000_000;

/// Why recordings are not merged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(
    missing_docs,
    reason = "the fields are the labels of two recordings and what they have in common, as each message shows"
)]
pub enum Refusal {
    /// The same recording twice.
    #[error("`{0}` and `{1}` are the same recording: its joules would count twice")]
    Same(String, String),
    /// Two recordings of the same process at the same time.
    #[error(
        "`{first}` and `{second}` recorded the same process at the same time ({process}, pid {pid}): its joules would count twice; merge one \
         of them"
    )]
    SameProcess { first: String, second: String, process: String, pid: Pid },
    /// Two recordings of one machine at the same time that read different counters.
    #[error(
        "`{first}` and `{second}` were recorded on one machine at the same time, and read its power differently ({domain}): record both with \
         the same --power"
    )]
    OtherPower { first: String, second: String, domain: String },
    /// Two parts with one label.
    #[error("two recordings would be called `{0}`: name them, as in `merge OUT rank0=A rank1=B`")]
    SameLabel(String),
}

/// Why these recordings cannot be merged, if they cannot.
pub fn refusal(parts: &[Part]) -> Option<Refusal> {
    let pairs = (0..parts.len()).flat_map(|at| (at + 1..parts.len()).map(move |other| (at, other)));
    pairs.into_iter().find_map(|(at, other)| of_two(parts.get(at)?, parts.get(other)?))
}

fn of_two(first: &Part, second: &Part) -> Option<Refusal> {
    let labels = || (first.label.clone(), second.label.clone());
    if first.label == second.label {
        return Some(Refusal::SameLabel(labels().0));
    }
    let (one, other) = (&first.recording, &second.recording);
    if one.header == other.header && one.host == other.host {
        return Some(Refusal::Same(labels().0, labels().1));
    }
    if !overlap(one, other) {
        return None;
    }
    let (first, second) = labels();
    if let Some(process) = in_both(one, other) {
        let (process, pid) = (process.name.clone(), process.pid);
        return Some(Refusal::SameProcess { first, second, process, pid });
    }
    let domain = other_power(one, other)?.name.clone();
    Some(Refusal::OtherPower { first, second, domain })
}

/// Whether two recordings are of one machine, and of one time.
pub fn overlap(one: &Recording, other: &Recording) -> bool {
    let ((a, b), (c, d)) = (span(one), span(other));
    same_machine(one, other) && a < d && c < b
}

fn same_machine(one: &Recording, other: &Recording) -> bool {
    let boot = |recording: &Recording| {
        recording.host.as_ref().map(|host| host.boot.clone()).filter(|boot| !boot.is_empty())
    };
    match (boot(one), boot(other)) {
        (Some(one), Some(other)) => one == other,
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => {
            let facts = |of: &Recording| {
                (of.header.kernel.clone(), of.header.cpu_model.clone(), of.header.sockets.clone())
            };
            booted(one).abs_diff(booted(other)) <= SAME_BOOT_NS && facts(one) == facts(other)
        }
    }
}

/// When the recording's clock was at zero, by the wall.
fn booted(recording: &Recording) -> u64 {
    let anchor = recording.header.anchor;
    anchor.unix_ns.saturating_sub(anchor.ktime.as_ns())
}

/// From when to when a recording says anything.
pub fn span(recording: &Recording) -> (KtimeNs, KtimeNs) {
    if let Some(summary) = &recording.summary {
        return (summary.start, summary.end);
    }
    let start = recording.header.anchor.ktime;
    let slices = recording.slices.iter().map(|slice| slice.end);
    let samples = recording.samples.iter().map(|sample| sample.at);
    let readings = recording.readings.values().flatten().map(|reading| reading.at);
    (start, slices.chain(samples).chain(readings).fold(start, KtimeNs::max))
}

/// A process whose threads both recordings saw on a CPU at the same moment.
fn in_both<'a>(one: &'a Recording, other: &Recording) -> Option<&'a Process> {
    let mut others: BTreeMap<CpuId, Vec<(KtimeNs, KtimeNs, Pid)>> = BTreeMap::new();
    for slice in &other.slices {
        if let Some(process) = process_of(other, slice) {
            others.entry(slice.cpu).or_default().push((slice.start, slice.end, process.pid));
        }
    }
    one.slices.iter().find_map(|slice| {
        let process = process_of(one, slice)?;
        let there = others.get(&slice.cpu)?;
        let from = there.partition_point(|(_, end, _)| *end <= slice.start);
        let beside = there.get(from..)?.iter().take_while(|(start, ..)| *start < slice.end);
        beside.into_iter().any(|(.., pid)| *pid == process.pid).then_some(process)
    })
}

fn process_of<'a>(of: &'a Recording, slice: &Slice) -> Option<&'a Process> {
    let CpuOwner::Target(thread) = slice.who else { return None };
    of.processes.get(of.threads.get(thread.index())?.process.index())
}

/// A domain that only one of them has, or that one of them read elsewhere.
fn other_power<'a>(one: &'a Recording, other: &'a Recording) -> Option<&'a Domain> {
    let place = |domain: &Domain| match &domain.origin {
        Origin::Counter { source, place, .. } => Some((source.clone(), place.clone())),
        Origin::Model { .. } => None,
    };
    let has = |recording: &Recording, wanted: &Domain| {
        let same = |domain: &&Domain| domain.name == wanted.name && place(domain) == place(wanted);
        recording.domains.iter().any(|domain| same(&domain))
    };
    let lacks = |a: &'a Recording, b: &Recording| a.domains.iter().find(|domain| !has(b, domain));
    lacks(one, other).or_else(|| lacks(other, one))
}
