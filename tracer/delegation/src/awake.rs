//! Since when a worker has been awake: a spin ends when the thread goes to sleep, and what it does after that
//! somebody else asked for.
//!
//! A thread that leaves its CPU sleeps, or was pushed off by another one. A switch does not say which for
//! threads without Python. It was pushed off if another thread followed on that CPU at once and no wake-up
//! brought it back. Leaves out whose call it spins after (`requesters`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CpuOwner, Wake};
use std::collections::HashMap;

/// A run on a CPU.
#[derive(Clone, Copy, Debug)]
struct OnCpuRun {
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
        let mut runs: HashMap<ThreadKey, Vec<OnCpuRun>> = HashMap::new();
        let followers = recording.slices.iter().skip(1).map(Some).chain([None]);
        for (slice, next) in recording.slices.iter().zip(followers) {
            let CpuOwner::Target(thread) = slice.who else { continue };
            if of(thread) {
                let followed = next.is_some_and(|next| next.cpu == slice.cpu && next.start == slice.end);
                runs.entry(thread).or_default().push(OnCpuRun {
                    start: slice.start,
                    end: slice.end,
                    followed,
                });
            }
        }
        let mut wakes: HashMap<ThreadKey, Vec<KtimeNs>> = HashMap::new();
        for Wake { at, thread, .. } in recording.requests.wakes.iter().filter(|wake| of(wake.thread)) {
            wakes.entry(*thread).or_default().push(*at);
        }
        let since = runs.into_iter().map(|(thread, runs)| {
            let wakes = wakes.get(&thread).map_or(&[][..], Vec::as_slice);
            (thread, episodes(runs, wakes))
        });
        Self { since: since.collect() }
    }

    /// When a thread that runs at a moment last woke up.
    pub(super) fn since(&self, thread: ThreadKey, at: KtimeNs) -> Option<KtimeNs> {
        let since = self.since.get(&thread)?;
        since.get(since.partition_point(|&since| since <= at).checked_sub(1)?).copied()
    }
}

fn episodes(mut runs: Vec<OnCpuRun>, wakes: &[KtimeNs]) -> Vec<KtimeNs> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut since = Vec::new();
    let mut last: Option<OnCpuRun> = None;
    for run in runs {
        let goes_on = last.is_some_and(|last| {
            let first = wakes.partition_point(|&wake| wake <= last.end);
            let woken = wakes.get(first).is_some_and(|&wake| wake <= run.start);
            run.start <= last.end || (last.followed && !woken)
        });
        if !goes_on {
            since.push(run.start);
        }
        last = Some(run);
    }
    since
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, OnCpuRun, episodes};

    fn run(start: u64, end: u64, followed: bool) -> OnCpuRun {
        OnCpuRun { start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end), followed }
    }

    /// A thread that was pushed off its CPU runs awake; one that nobody pushed off slept, and so did one that
    /// was woken.
    #[test]
    fn sleep_and_preemption() {
        let runs = vec![
            run(0, 10, true),
            run(20, 30, false),
            run(40, 50, true),
            run(60, 70, true),
            run(70, 80, true),
        ];
        let starts = |wakes: &[u64]| {
            let wakes: Vec<KtimeNs> = wakes.iter().copied().map(KtimeNs::from_ns).collect();
            episodes(runs.clone(), &wakes).into_iter().map(KtimeNs::as_ns).collect::<Vec<_>>()
        };
        assert_eq!(starts(&[]), [0, 40]);
        assert_eq!(starts(&[55]), [0, 40, 60]);
    }
}
