//! The distribution of what a sample costs, from counters that are read often.
//!
//! The kernel only keeps sums. An interval between two readings in which the sampler took one sample tells what that one cost; runs in
//! which it found a thread that is no target are in the same sum, and their usual cost is taken off.

/// The counters of the sampler, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Nanoseconds in the program.
    pub(super) run_ns: u64,
    /// Runs of the program.
    pub(super) runs: u64,
    /// Samples that it took.
    pub(super) taken: u64,
}

impl Reading {
    /// What came since an earlier one.
    pub(super) const fn since(self, earlier: Self) -> Self {
        Self {
            run_ns: self.run_ns - earlier.run_ns,
            runs: self.runs - earlier.runs,
            taken: self.taken - earlier.taken,
        }
    }

    /// Nanoseconds a sample, where each run that took none costs so much.
    pub(super) fn mean_less(self, stranger: u64) -> u64 {
        let others = self.runs.saturating_sub(self.taken);
        self.run_ns.saturating_sub(others * stranger).checked_div(self.taken).unwrap_or(0)
    }
}

/// Nanoseconds that a run takes at most when it only finds that the thread is no target: it looks into one map.
const STRANGER_MOST: u64 = 1000;

/// What happened between readings.
pub(super) struct Intervals {
    last: Reading,
    /// Runs and nanoseconds of intervals with one sample.
    single: Vec<(u64, u64)>,
    /// Nanoseconds of intervals with one run and no sample.
    strangers: Vec<u64>,
    /// The last interval held one sample, which may not have ended.
    open: bool,
}

impl Intervals {
    pub(super) const fn beginning(first: Reading) -> Self {
        Self { last: first, single: Vec::new(), strangers: Vec::new(), open: false }
    }

    pub(super) fn add(&mut self, now: Reading) {
        let Reading { run_ns: ns, runs, taken } = now.since(self.last);
        let stranger = ns <= runs * STRANGER_MOST;
        match (runs, taken) {
            // The counter of samples is the first thing that a sample touches, its time the last: a reading may lie between.
            (1.., 0) if !stranger && self.open => {
                if let Some((all_runs, all_ns)) = self.single.last_mut() {
                    (*all_runs, *all_ns) = (*all_runs + runs, *all_ns + ns);
                }
            }
            (1, 0) if stranger => self.strangers.push(ns),
            (0..=3, 1) => self.single.push((runs, ns)),
            _ => {} // Several samples.
        }
        self.open = taken == 1;
        self.last = now;
    }

    /// The usual cost of a run that took no sample.
    pub(super) fn stranger(&self) -> u64 {
        let mut sorted = self.strangers.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    /// Nanoseconds of single samples, sorted.
    pub(super) fn costs(&self) -> Vec<u64> {
        let stranger = self.stranger();
        let mut costs: Vec<u64> = self
            .single
            .iter()
            .filter(|(runs, _)| *runs > 0)
            .map(|&(runs, ns)| ns.saturating_sub((runs - 1) * stranger))
            .collect();
        costs.sort_unstable();
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::{Intervals, Reading};

    /// Strangers' runs are taken off, intervals with several samples have no cost each.
    #[test]
    fn strangers_are_taken_off() {
        let mut intervals = Intervals::beginning(Reading::default());
        let mut now = Reading::default();
        for (ns, runs, taken) in [(100, 1, 0), (5000, 1, 1), (7100, 2, 1), (0, 0, 0), (9000, 2, 2)] {
            now = Reading { run_ns: now.run_ns + ns, runs: now.runs + runs, taken: now.taken + taken };
            intervals.add(now);
        }
        assert_eq!(intervals.costs(), [5000, 7000]);
        assert_eq!(now.mean_less(intervals.stranger()), (21_200 - 2 * 100) / 4);
    }

    /// A sample that was under way at a reading is put together again, whichever of its counters came first.
    #[test]
    fn samples_under_way() {
        let mut intervals = Intervals::beginning(Reading::default());
        let mut now = Reading::default();
        for (ns, runs, taken) in [(200, 1, 0), (150, 1, 1), (90_000, 1, 0), (0, 0, 1), (80_000, 1, 0)] {
            now = Reading { run_ns: now.run_ns + ns, runs: now.runs + runs, taken: now.taken + taken };
            intervals.add(now);
        }
        assert_eq!(intervals.costs(), [80_000, 89_950]);
    }
}
