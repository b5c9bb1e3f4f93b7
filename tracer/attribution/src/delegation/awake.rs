//! Since when a worker has been awake: a spin ends when the thread goes to sleep, and what it does after that somebody else asked for.
//!
//! A thread that leaves its CPU sleeps, or was pushed off by another one. A switch does not say which for threads without Python. It was
//! pushed off if another thread followed on that CPU at once and no wake-up brought it back. Leaves out whose call it spins after (`requesters`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CpuOwner, Wake};
use std::collections::HashMap;

/// A stay on a CPU.
#[derive(Clone, Copy, Debug)]
struct Stay {
    start: KtimeNs,
    end: KtimeNs,
    /// Another thread followed at once.
    followed: bool,
}

/// When threads woke up, in time order.
#[derive(Debug, Default)]
pub(super) struct Awake {
    since: HashMap<ThreadKey, Vec<KtimeNs>>,
}

impl Awake {
    /// For threads that `of` accepts.
    pub(super) fn of(recording: &Recording, of: impl Fn(ThreadKey) -> bool) -> Self {
        let mut stays: HashMap<ThreadKey, Vec<Stay>> = HashMap::new();
        let followers = recording.slices.iter().skip(1).map(Some).chain([None]);
        for (slice, next) in recording.slices.iter().zip(followers) {
            let CpuOwner::Target(thread) = slice.who else { continue };
            if of(thread) {
                let followed = next.is_some_and(|next| next.cpu == slice.cpu && next.start == slice.end);
                stays.entry(thread).or_default().push(Stay { start: slice.start, end: slice.end, followed });
            }
        }
        let mut wakes: HashMap<ThreadKey, Vec<KtimeNs>> = HashMap::new();
        for Wake { at, thread, .. } in recording.requests.wakes.iter().filter(|wake| of(wake.thread)) {
            wakes.entry(*thread).or_default().push(*at);
        }
        let since = stays.into_iter().map(|(thread, stays)| {
            let wakes = wakes.get(&thread).map_or(&[][..], Vec::as_slice);
            (thread, episodes(stays, wakes))
        });
        Self { since: since.collect() }
    }

    /// When a thread that runs at a moment last woke up.
    pub(super) fn since(&self, thread: ThreadKey, at: KtimeNs) -> Option<KtimeNs> {
        let since = self.since.get(&thread)?;
        since.get(since.partition_point(|&since| since <= at).checked_sub(1)?).copied()
    }
}

fn episodes(mut stays: Vec<Stay>, wakes: &[KtimeNs]) -> Vec<KtimeNs> {
    stays.sort_unstable_by_key(|stay| stay.start);
    let mut since = Vec::new();
    let mut last: Option<Stay> = None;
    for stay in stays {
        let goes_on = last.is_some_and(|last| {
            let first = wakes.partition_point(|&wake| wake <= last.end);
            let woken = wakes.get(first).is_some_and(|&wake| wake <= stay.start);
            stay.start <= last.end || (last.followed && !woken)
        });
        if !goes_on {
            since.push(stay.start);
        }
        last = Some(stay);
    }
    since
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, Stay, episodes};

    fn stay(start: u64, end: u64, followed: bool) -> Stay {
        Stay { start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end), followed }
    }

    /// A thread that was pushed off its CPU stays awake; one that nobody pushed off slept, and so did one that was woken.
    #[test]
    fn sleep_and_preemption() {
        let stays = vec![
            stay(0, 10, true),
            stay(20, 30, false),
            stay(40, 50, true),
            stay(60, 70, true),
            stay(70, 80, true),
        ];
        let starts = |wakes: &[u64]| {
            let wakes: Vec<KtimeNs> = wakes.iter().copied().map(KtimeNs::from_ns).collect();
            episodes(stays.clone(), &wakes).into_iter().map(KtimeNs::as_ns).collect::<Vec<_>>()
        };
        assert_eq!(starts(&[]), [0, 40]);
        assert_eq!(starts(&[55]), [0, 40, 60]);
    }
}
