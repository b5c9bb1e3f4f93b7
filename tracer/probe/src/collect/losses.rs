//! What was lost on the way or found no room, by reason.
//!
//! Leaves out noticing it: the counters are the probes' and the collector's.

use super::backlog::Refused;
use crate::processes::registry::Processes;
use crate::stacks::libraries::Libraries;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::recording::record::{LossReason, OwnerDiagnostic, ReadFailure, RecordingDiagnostic};
use std::collections::BTreeMap;
use tracer_ebpf::wire::{MAX_PLACES, POOL_PLACES, lost, push};

/// The loss counters by reason, those that are not zero.
pub(crate) fn losses_of(counters: &[u64]) -> BTreeMap<LossReason, u64> {
    let reasons = [
        (lost::SAMPLES, LossReason::Samples),
        (lost::SLICES, LossReason::Slices),
        (lost::TASKS, LossReason::ProcessEvents),
        (lost::TARGETS, LossReason::Targets),
        (lost::KERNEL_STACKS, LossReason::KernelStacks),
        (lost::RAWS, LossReason::StackCopies),
        (lost::WAITS, LossReason::Waits),
        (lost::LAUNCHES, LossReason::GpuCalls),
        (lost::LAUNCH_STACKS, LossReason::LaunchStacksBusy),
        (lost::LAUNCH_ROOM, LossReason::LaunchStacks),
        (lost::CODES, LossReason::CodeObjects),
        (lost::SAMPLES_BUSY, LossReason::SamplesBusy),
        (lost::EVENTS_BUSY, LossReason::EventsBusy),
        (lost::TOTALS, LossReason::CpuTotals),
    ];
    let mut out = BTreeMap::new();
    for (index, reason) in reasons {
        count_into(&mut out, reason, counters.get(index as usize).copied().unwrap_or(0));
    }
    out
}

/// Samples and stretches of CPU time that were lost, as a user sees while it runs.
pub(crate) fn lost_so_far(counters: &[u64; lost::COUNT as usize]) -> u64 {
    [lost::SAMPLES, lost::SAMPLES_BUSY, lost::SLICES, lost::TOTALS]
        .iter()
        .fold(0, |sum: u64, &index| sum.saturating_add(counters[index as usize]))
}

pub(crate) fn count_into(lost: &mut BTreeMap<LossReason, u64>, reason: LossReason, count: u64) {
    if count > 0 {
        *lost.entry(reason).or_default() += count;
    }
}

/// Unwind tables or mappings that found no room.
pub(crate) fn shortages(processes: &Processes, mib: u32) -> Vec<RecordingDiagnostic> {
    let (without, dropped) = (processes.files.without_room() as u64, processes.files.dropped);
    let tables = (without > 0 || dropped > 0).then_some(RecordingDiagnostic::UnwindTablesFull {
        mib,
        dropped,
        without,
    });
    let (places, places_each) = (u64::from(POOL_PLACES), u64::from(MAX_PLACES));
    let without_room = processes.without_room.len() as u64;
    let mappings = (without_room > 0).then_some(RecordingDiagnostic::MappingsFull {
        processes: without_room,
        places,
        places_each,
    });
    tables.into_iter().chain(mappings).collect()
}

/// How long pushes took, for a benchmark to read: of each ring the longest, then the counts of `push::LIMITS_NS` and above.
pub(crate) fn push_times(times: &[u64; push::COUNT as usize]) -> RecordingDiagnostic {
    let of = |from: u32| times.iter().skip(from as usize).take(push::SLOTS as usize).copied().collect();
    RecordingDiagnostic::PushTimes { samples: of(push::SAMPLES), events: of(push::EVENTS) }
}

/// Whose events were not taken, as too many were under way.
pub(crate) fn events_refused(refused: &Refused) -> Option<RecordingDiagnostic> {
    let events = refused.of_owners();
    (!events.is_empty()).then_some(OwnerDiagnostic::EventsRefused { events }.into())
}

/// Files that were gone before they could be opened, or not kept open for want of room.
pub(crate) fn closed_files(libraries: &Libraries) -> Vec<RecordingDiagnostic> {
    let (gone, files) = (libraries.gone as u64, libraries.crowded());
    let gone = (gone > 0).then_some(RecordingDiagnostic::NamesNotLookedUp { files: gone });
    let crowded = (!files.is_empty())
        .then(|| OwnerDiagnostic::FilesNotKept { files, most: libraries.room() as u64 }.into());
    gone.into_iter().chain(crowded).collect()
}

/// Files that are named in a diagnostic.
const NAMED_FILES: usize = 5;

/// Files that could not be looked into; `None` where all were.
pub(crate) fn files_not_read(resolver: &Resolver, peeker: &Peeker) -> Option<RecordingDiagnostic> {
    let (mut files, mut more) = resolver.failures(NAMED_FILES);
    let not_roots = peeker.not_roots();
    let room = NAMED_FILES.saturating_sub(files.len());
    more += not_roots.len().saturating_sub(room) as u64;
    let named = not_roots.into_iter().take(room);
    files.extend(named.map(|(file, user)| (file, ReadFailure::NotRoots { user })));
    (!files.is_empty()).then_some(RecordingDiagnostic::FilesNotRead { files, more })
}

/// Processes that could not be looked at in time, and command lines of which a part alone is recorded.
pub(crate) fn not_answering(processes: &Processes) -> Vec<RecordingDiagnostic> {
    let mut silent = processes.peeker.unanswered();
    let more = silent.len().saturating_sub(NAMED_FILES) as u64;
    silent.truncate(NAMED_FILES);
    let unanswered = (!silent.is_empty())
        .then_some(RecordingDiagnostic::ProcessesNotAnswering { processes: silent, more });
    let programs = processes.commands.cut;
    let cut = (programs > 0).then_some(RecordingDiagnostic::CommandLinesCut { programs });
    unanswered.into_iter().chain(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::{losses_of, lost_so_far};
    use energy_trace_model::recording::record::LossReason;
    use tracer_ebpf::wire::lost;

    /// A full ring is called one only where it was full, and what was not lost is not named.
    #[test]
    fn full_is_full() {
        let mut counters = [0; lost::COUNT as usize];
        counters[lost::TAKEN as usize] = 9;
        assert!(losses_of(&counters).is_empty());
        counters[lost::SAMPLES_BUSY as usize] = 2;
        counters[lost::EVENTS_BUSY as usize] = 3;
        assert!(losses_of(&counters).keys().all(|reason| !reason.is_full_buffer()));
        counters[lost::SAMPLES as usize] = 1;
        assert_eq!(losses_of(&counters)[&LossReason::Samples], 1);
    }

    /// Whatever took a sample or CPU time from its process is seen while it runs, what was only measured is not.
    #[test]
    fn while_it_runs() {
        let mut counters = [0; lost::COUNT as usize];
        counters[lost::TAKEN as usize] = 9;
        assert_eq!(lost_so_far(&counters), 0);
        for index in [lost::SAMPLES, lost::SAMPLES_BUSY, lost::SLICES, lost::TOTALS] {
            counters[index as usize] = 1;
        }
        assert_eq!(lost_so_far(&counters), 4);
    }
}
