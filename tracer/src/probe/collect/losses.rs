//! What was lost on the way or found no room, by reason, and what each loss means for the reader.
//!
//! Leaves out noticing it: the counters are the probes' and the collector's.

use crate::probe::processes::registry::Processes;
use crate::resolver::Mishap;
use std::collections::BTreeMap;
use tracer_ebpf::wire::{MAX_PLACES, POOL_PLACES, lost, push};

/// The loss counters by name, those that are not zero.
pub(crate) fn name_losses(counters: &[u64]) -> BTreeMap<String, u64> {
    let names = [
        (lost::SAMPLES, "samples: ring buffer full"),
        (lost::SLICES, "slices: ring buffer full"),
        (lost::TASKS, "process events: ring buffer full"),
        (lost::TARGETS, "processes: map of targets full"),
        (lost::KERNEL_STACKS, "kernel stacks: not readable"),
        (lost::RAWS, "copies of stacks: ring buffer full"),
        (lost::WAITS, "waits and wake-ups: ring buffer full"),
        (lost::LAUNCHES, "calls of GPU libraries: ring buffer full"),
        (lost::LAUNCH_STACKS, "stacks of GPU launches: another thread's was being taken"),
        (lost::LAUNCH_ROOM, "stacks of GPU launches: ring buffer full"),
        (
            lost::CODES,
            "new Python functions of a sample: the ring buffer was full, so their names may be lost",
        ),
        (lost::SAMPLES_BUSY, "samples: another CPU was sending one"),
        (lost::EVENTS_BUSY, "slices and events: the kernel gave the buffer to others first"),
    ];
    let mut out = BTreeMap::new();
    for (index, name) in names {
        count_into(&mut out, name, counters.get(index as usize).copied().unwrap_or(0));
    }
    out
}

pub(crate) fn count_into(lost: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *lost.entry(name.into()).or_default() += count;
    }
}

/// What it means that unwind tables or mappings found no room, and what to do.
pub(crate) fn name_shortages(processes: &Processes, mib: u32) -> Vec<(&'static str, String)> {
    let (without, dropped) = (processes.files.without_room(), processes.files.dropped);
    let mut out = Vec::new();
    if without > 0 || dropped > 0 {
        let text = format!(
            "unwind tables did not fit into {mib} MiB: {dropped} times one was dropped for another that was needed more, and {without} \
             files have none at the end; meanwhile native stacks through them are unwound in user space, from copies, which costs \
             more; --unwind-memory {} gives them twice the room",
            mib.saturating_mul(2)
        );
        out.push(("unwind-tables-full", text));
    }
    let crowded = processes.crowded.len();
    if crowded > 0 {
        let text = format!(
            "the code mappings of {crowded} processes found no room ({POOL_PLACES} for all processes, {MAX_PLACES} for one), so that \
             their native stacks are cut ([unknown: tables not ready] or [unknown: unmapped address]); follow fewer programs at once: a \
             command or --pid instead of --all"
        );
        out.push(("mappings-full", text));
    }
    out
}

/// How long pushes took, for a benchmark to read: of each ring the longest, then the counts of `push::LIMITS_NS` and above.
pub(crate) fn told_pushes(times: &[u64; push::COUNT as usize]) -> String {
    let of = |from: u32| times.iter().skip(from as usize).take(push::SLOTS as usize);
    let words = |from: u32| of(from).map(u64::to_string).collect::<Vec<_>>().join(" ");
    format!("samples {}; events {}", words(push::SAMPLES), words(push::EVENTS))
}

/// What it means that files could not be kept open; `None` where all were.
pub(crate) fn name_closed_files(closed: usize) -> Option<String> {
    (closed > 0).then(|| {
        format!(
            "{closed} files could not be kept open, or were gone before they could be opened, so their functions have no names: \
             a larger `ulimit -n` leaves room for more"
        )
    })
}

/// Files that are named in a warning.
const NAMED_FILES: usize = 5;

/// What it means that files could not be looked into; `None` where all were.
pub(crate) fn name_mishaps(mishaps: &BTreeMap<String, Mishap>) -> Option<String> {
    let why = |mishap| match mishap {
        Mishap::Died => {
            "the process that read it ended: too much memory, a damaged file, or one that was changed meanwhile"
        }
        Mishap::TookTooLong => "reading it took too long",
        Mishap::Nonsense => "what was read made no sense",
        Mishap::Damaged => "it is damaged, or was changed while it was recorded",
        Mishap::TooLarge => "its headers say that it is far larger than it is",
    };
    let named: Vec<String> =
        mishaps.iter().take(NAMED_FILES).map(|(file, &mishap)| format!("{file} ({})", why(mishap))).collect();
    let more = mishaps.len().saturating_sub(NAMED_FILES);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| {
        format!(
            "files that could not be read to the end: {}{more}; their functions may have no names, and native stacks through them may be \
             cut; times and joules are not affected",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::name_losses;
    use tracer_ebpf::wire::lost;

    /// A full ring is called one only where it was full, and what was not lost is not named.
    #[test]
    fn full_is_full() {
        let mut counters = [0; lost::COUNT as usize];
        counters[lost::TAKEN as usize] = 9;
        assert!(name_losses(&counters).is_empty());
        counters[lost::SAMPLES_BUSY as usize] = 2;
        counters[lost::EVENTS_BUSY as usize] = 3;
        assert!(name_losses(&counters).keys().all(|name| !name.contains("full")));
        counters[lost::SAMPLES as usize] = 1;
        assert_eq!(name_losses(&counters)["samples: ring buffer full"], 1);
    }
}
