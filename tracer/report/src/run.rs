//! Facts about the whole run that every report needs: its time, its sums, how whole its stacks are.
//!
//! Leaves out what is doubtful about them (`doubts.rs`).

use super::DomainChoice;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::{EnergyByClass, EnergyProfile, LedgerRow};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, Occupant, PythonLoss, Quality, Truncation, Verdict,
};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// The recording's time: from its summary, or up to the last thing seen in a recording that was cut off.
pub(crate) fn time_range(recording: &Recording) -> (KtimeNs, KtimeNs) {
    if let Some(summary) = &recording.summary {
        return (summary.start, summary.end);
    }
    let start = recording.header.anchor.ktime;
    let readings =
        recording.readings.values().filter_map(|readings| readings.last()).map(|reading| reading.at);
    let samples = recording.samples.last().map(|sample| sample.at);
    let slices = recording.slices.iter().map(|slice| slice.end);
    (start, readings.chain(samples).chain(slices).fold(start, KtimeNs::max))
}

/// Length of the recording's time in nanoseconds.
pub(crate) fn duration_ns(recording: &Recording) -> u64 {
    let (start, end) = time_range(recording);
    end.ns_since(start)
}

/// CPU time of everything that is not the target, in nanoseconds.
pub(crate) fn other_ns(recording: &Recording) -> u64 {
    let others = recording.slices.iter().filter(|slice| !matches!(slice.who, Occupant::Target(_)));
    others.map(|slice| slice.end.ns_since(slice.start)).fold(0, u64::saturating_add)
}

/// The energy that a report leads with: the total, or psys where a machine has nothing else.
pub(crate) fn headline(profile: &EnergyProfile) -> DomainChoice {
    let only_psys =
        !profile.ledger.is_empty() && profile.ledger.iter().all(|row| row.class == DomainClass::Psys);
    if only_psys { DomainChoice::Class(DomainClass::Psys) } else { DomainChoice::Total }
}

/// The part of an energy that a choice of domains shows.
pub(crate) fn chosen(energy: &EnergyByClass, choice: DomainChoice) -> MicroJoules {
    match choice {
        DomainChoice::Total => energy.total(),
        DomainChoice::Class(class) => energy[class],
    }
}

/// The part of an energy that was spent in CPU time, and so gives watts: a GPU works when its launcher does something else.
pub(crate) fn of_cpus(energy: &EnergyByClass, choice: DomainChoice) -> MicroJoules {
    match choice {
        DomainChoice::Total => energy.total() - energy[DomainClass::Gpu],
        DomainChoice::Class(DomainClass::Gpu) => MicroJoules::ZERO,
        DomainChoice::Class(class) => energy[class],
    }
}

/// Whether a choice of domains has some of GPUs.
pub(crate) fn has_gpus(profile: &EnergyProfile, choice: DomainChoice) -> bool {
    ledger_of(profile, choice).any(|row| row.class == DomainClass::Gpu)
}

/// Whether it has some of others, whose energy is spent in CPU time.
pub(crate) fn has_others(profile: &EnergyProfile, choice: DomainChoice) -> bool {
    ledger_of(profile, choice).any(|row| row.class != DomainClass::Gpu)
}

/// The ledger rows of a choice of domains.
pub(crate) fn ledger_of(profile: &EnergyProfile, choice: DomainChoice) -> impl Iterator<Item = &LedgerRow> {
    profile.ledger.iter().filter(move |row| choice.includes(row.class))
}

/// Energy charged to the target in a choice of domains.
pub(crate) fn target(profile: &EnergyProfile, choice: DomainChoice) -> MicroJoules {
    ledger_of(profile, choice).map(|row| row.target).sum()
}

/// How far the numbers of a choice of domains can be trusted: as far as the worst of them. `None` without any domain.
pub(crate) fn quality(profile: &EnergyProfile, choice: DomainChoice) -> Option<Quality> {
    ledger_of(profile, choice).map(|row| row.quality).max()
}

/// The same for numbers of functions, threads and stacks: there a counter is always split by a model, so none is better than
/// `apportioned`.
pub(crate) fn split_quality(profile: &EnergyProfile, choice: DomainChoice) -> Option<Quality> {
    quality(profile, choice).map(|quality| quality.max(Quality::Apportioned))
}

/// The word for a quality.
pub(crate) const fn quality_word(quality: Quality) -> &'static str {
    match quality {
        Quality::Measured => "measured",
        Quality::Apportioned => "apportioned",
        Quality::Estimated => "estimated",
    }
}

/// How many stacks are whole, were healed, or end early, by verdict.
pub(crate) fn verdicts(recording: &Recording) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for sample in &recording.samples {
        *counts.entry(verdict_word(sample.verdict)).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(word, count): ((&str, &str), u64)| (format!("{}{}", word.0, word.1), count))
        .collect()
}

/// How many stacks whose native frames end early carry all Python frames of their thread.
pub(crate) fn python_whole(recording: &Recording) -> u64 {
    let has_python = |stack| recording.frames_of(stack).any(|(_, frame)| frame.kind == FrameKind::Python);
    let cut = recording.samples.iter().filter(|sample| matches!(sample.verdict, Verdict::Truncated(_)));
    cut.filter(|sample| has_python(sample.stack)).count() as u64
}

/// The name of a verdict, as its group and its reason.
const fn verdict_word(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Complete => ("complete", ""),
        Verdict::Healed(_) => ("healed", ""),
        Verdict::Truncated(why) => ("truncated:", truncation_word(why)),
        Verdict::PythonLost(why) => ("python-lost:", python_loss_word(why)),
    }
}

const fn truncation_word(why: Truncation) -> &'static str {
    match why {
        Truncation::NoUnwindInfo => "no-unwind-info",
        Truncation::TablesNotReady => "tables-not-ready",
        Truncation::UnsupportedRule => "unsupported-rule",
        Truncation::PageFault => "page-fault",
        Truncation::TooDeep => "too-deep",
        Truncation::Unmapped => "unmapped",
        Truncation::BadFrame => "bad-frame",
        Truncation::DeeperThanCopy => "deeper-than-copy",
        Truncation::ProcessGone => "process-gone",
        Truncation::Unreadable => "unreadable",
    }
}

const fn python_loss_word(why: PythonLoss) -> &'static str {
    match why {
        PythonLoss::UnknownVersion => "unknown-version",
        PythonLoss::PageFault => "page-fault",
        PythonLoss::TooDeep => "too-deep",
        PythonLoss::NotReady => "not-ready",
        PythonLoss::Ambiguous => "several-interpreters",
        PythonLoss::BrokenChain => "broken-chain",
        PythonLoss::Unreadable => "unreadable",
    }
}
