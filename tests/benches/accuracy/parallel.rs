//! Runs on all CPUs, results in order. Leaves out what is run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is done so far: outcomes by line with their seeds, and how many lines were shown.
struct Done<T> {
    lines: Vec<Vec<(u64, T)>>,
    shown: usize,
}

/// Runs each seed of each line; shows a line as soon as it and all before it are done. The outcomes are ordered as lines and seeds are.
pub(crate) fn each<L: Sync, T: Send>(
    lines: &[L],
    seeds_of: fn(&L) -> &Vec<u64>,
    one: impl Fn(&L, u64) -> T + Sync,
    show: impl Fn(&L, &[T]) + Sync,
) -> Vec<Vec<T>> {
    let seeds = |at: usize| seeds_of(&lines[at]);
    let jobs: Vec<(usize, u64)> =
        (0..lines.len()).flat_map(|at| seeds(at).iter().map(move |seed| (at, *seed))).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Done { lines: lines.iter().map(|_| vec![]).collect(), shown: 0 });
    let work = || {
        while let Some(&(at, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = one(&lines[at], seed);
            let Ok(mut done) = done.lock() else { return };
            done.lines[at].push((seed, outcome));
            while done.shown < lines.len() && done.lines[done.shown].len() == seeds(done.shown).len() {
                let number = done.shown;
                let mut line = std::mem::take(&mut done.lines[number]);
                line.sort_by_key(|outcome| outcome.0);
                let (of, outcomes): (Vec<u64>, Vec<T>) = line.into_iter().unzip();
                show(&lines[number], &outcomes);
                done.lines[number] = of.into_iter().zip(outcomes).collect();
                done.shown += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let lines = done.into_inner().map(|done| done.lines).unwrap_or_default();
    lines.into_iter().map(|line| line.into_iter().map(|(_, outcome)| outcome).collect()).collect()
}
