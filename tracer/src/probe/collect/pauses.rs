//! Where a thread was on a CPU and could not be seen: the machine stood still (a paused or starved guest, a freeze), or samples did not come.
//!
//! A sample stands for the time around it. Where none came for many periods it must not stand for all of that: such stretches are recorded,
//! and their time is `[unsampled]`. Two signs tell of one: no sample on the CPU for a quarter of a second and twenty periods, or less where
//! the scheduler's own account of the thread (`se.sum_exec_runtime`) lacks that time. The samples on both sides keep a period each.
//! Counts as well how many samples the CPU time of targets should have brought. Leaves out what is done with a stretch (`attribution/time`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Tid};
use energy_trace_model::recording::record::{RecordingDiagnostic, Unsampled};
use std::collections::{HashMap, HashSet};

/// Without a sample for so many periods and for so long nobody was looking.
const FAR_PERIODS: u64 = 20;
const FAR_NS: u64 = 250_000_000;
/// So much less than its slice the scheduler must say that the thread ran, with no sample for so many periods.
const SHORT_NS: u64 = 50_000_000;
const SHORT_PERIODS: u64 = 4;
/// Fewer samples than these say nothing of how many are missing.
const FEW: f64 = 100.0;
/// So many of the samples that were expected must have come: a busy guest gets fewer, its CPUs being taken away in turns.
const ENOUGH: f64 = 0.7;
/// And the rest must be more than chance, in standard deviations of a count.
const CHANCE: f64 = 6.0;

/// Time of a target on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) cpu: CpuId,
    pub(crate) tid: Tid,
    pub(crate) start: KtimeNs,
    pub(crate) end: KtimeNs,
    /// CPU time of the thread since it began, by the scheduler; 0: not known.
    pub(crate) ran_ns: u64,
}

/// What was not seen so far.
#[derive(Debug)]
pub(crate) struct Pauses {
    period_ns: u64,
    /// Since when there are samples.
    since: KtimeNs,
    /// What the open turn of each CPU has of samples.
    cpus: HashMap<CpuId, Sampled>,
    /// What each thread had run at the end of its last turn.
    ran: HashMap<Tid, u64>,
    /// Threads whose last turn is still to come.
    ending: HashSet<Tid>,
    count: u64,
    unseen_ns: u64,
    /// Time of targets, without that.
    seen_ns: u64,
    /// Turns of which the scheduler's account is known: their length, and that.
    accounts_ns: (u64, u64),
}

/// Samples of a CPU since its last turn ended.
#[derive(Debug, Default)]
struct Sampled {
    first: Option<KtimeNs>,
    last: KtimeNs,
    /// Stretches between two of them that are long enough to matter.
    gaps: Vec<(KtimeNs, KtimeNs)>,
}

impl Pauses {
    pub(crate) fn new(hz: u32, since: KtimeNs) -> Self {
        Self {
            period_ns: 1_000_000_000 / u64::from(hz.max(1)),
            since,
            cpus: HashMap::new(),
            ran: HashMap::new(),
            ending: HashSet::new(),
            count: 0,
            unseen_ns: 0,
            seen_ns: 0,
            accounts_ns: (0, 0),
        }
    }

    /// A target was sampled.
    pub(crate) fn sample(&mut self, cpu: CpuId, at: KtimeNs) {
        let shortest = self.short_ns();
        let sampled = self.cpus.entry(cpu).or_default();
        if sampled.first.is_none() {
            sampled.first = Some(at);
        } else if at.ns_since(sampled.last) >= shortest {
            sampled.gaps.push((sampled.last, at));
        }
        sampled.last = at;
    }

    /// A thread ends: one more turn comes.
    pub(crate) fn exit(&mut self, tid: Tid) {
        self.ending.insert(tid);
    }

    /// A target's turn is over; the stretches of it in which nobody was looking.
    pub(crate) fn turn(&mut self, turn: Turn) -> Vec<Unsampled> {
        let sampled = self.cpus.remove(&turn.cpu).unwrap_or_default();
        let ran = self.ran_in(turn);
        let turn = Turn { start: turn.start.max(self.since), ..turn };
        let length = turn.end.ns_since(turn.start);
        if length < SHORT_NS {
            self.seen_ns += length;
            return Vec::new();
        }
        let gaps = self.gaps_of(turn, &sampled);
        let far =
            |&&(from, until, at_least): &&(KtimeNs, KtimeNs, u64)| at_least >= self.far_ns() && from < until;
        let mut unseen: Vec<Unsampled> =
            gaps.iter().filter(far).map(|&(start, end, _)| Unsampled { cpu: turn.cpu, start, end }).collect();
        let missing = ran.map_or(0, |ran| length.saturating_sub(ran));
        if unseen.is_empty() && missing >= SHORT_NS {
            unseen.extend(self.stolen(turn.cpu, &gaps, missing));
        }
        let unseen_ns: u64 = unseen.iter().map(|stretch| stretch.end.ns_since(stretch.start)).sum();
        self.count += unseen.len() as u64;
        self.unseen_ns += unseen_ns;
        self.seen_ns += length - unseen_ns;
        unseen
    }

    /// What the machine's standing still means, and samples that did not come: `taken` of them came.
    pub(crate) fn diagnostics(&self, taken: u64) -> Vec<RecordingDiagnostic> {
        let (switches, scheduler) = self.accounts_ns;
        log::info!(
            "CPU time of targets: {:.3} s by switches, {:.3} s by the scheduler's account",
            in_seconds(switches),
            in_seconds(scheduler)
        );
        let (times, cpu_ns) = (self.count, self.unseen_ns);
        let paused = (times > 0).then_some(RecordingDiagnostic::MachinePaused { times, cpu_ns });
        paused.into_iter().chain(self.missing(taken)).collect()
    }

    fn missing(&self, taken: u64) -> Option<RecordingDiagnostic> {
        let expected = self.seen_ns as f64 / self.period_ns.max(1) as f64;
        let few = (taken as f64) < ENOUGH * expected && expected - taken as f64 > CHANCE * expected.sqrt();
        (expected >= FEW && few).then_some(RecordingDiagnostic::SamplesMissing {
            taken,
            expected: expected.round_ties_even() as u64,
            cpu_ns: self.seen_ns,
        })
    }

    /// CPU time of the thread in its turn, by the scheduler.
    fn ran_in(&mut self, turn: Turn) -> Option<u64> {
        if turn.ran_ns == 0 {
            return None;
        }
        let before = if self.ending.remove(&turn.tid) {
            self.ran.remove(&turn.tid)
        } else {
            self.ran.insert(turn.tid, turn.ran_ns)
        };
        let ran = before.and_then(|before| turn.ran_ns.checked_sub(before));
        if let Some(ran) = ran {
            self.accounts_ns.0 += turn.end.ns_since(turn.start);
            self.accounts_ns.1 += ran;
        }
        // A number that came back counts from nothing.
        Some(ran.unwrap_or(turn.ran_ns))
    }

    /// Stretches without a sample: what of them is nobody's, and how long they are with what the samples beside them keep.
    fn gaps_of(&self, turn: Turn, sampled: &Sampled) -> Vec<(KtimeNs, KtimeNs, u64)> {
        let own = self.period_ns;
        let Some(first) = sampled.first.filter(|first| *first >= turn.start && sampled.last <= turn.end)
        else {
            return vec![(turn.start, turn.end, turn.end.ns_since(turn.start))];
        };
        let after = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_add(own));
        let before = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(own));
        let mut gaps = vec![(turn.start, before(first), first.ns_since(turn.start))];
        gaps.extend(
            sampled.gaps.iter().map(|&(from, until)| (after(from), before(until), until.ns_since(from))),
        );
        gaps.push((after(sampled.last), turn.end, turn.end.ns_since(sampled.last)));
        gaps
    }

    /// The end of the longest stretch without a sample, as long as what the scheduler lacks: the sample behind it came when the CPU did.
    fn stolen(&self, cpu: CpuId, gaps: &[(KtimeNs, KtimeNs, u64)], missing: u64) -> Option<Unsampled> {
        let &(from, end, long) = gaps.iter().max_by_key(|(.., long)| *long)?;
        let start = from.max(KtimeNs::from_ns(end.as_ns().saturating_sub(missing)));
        (long >= self.short_ns() && start < end).then_some(Unsampled { cpu, start, end })
    }

    fn far_ns(&self) -> u64 {
        FAR_NS.max(FAR_PERIODS.saturating_mul(self.period_ns))
    }

    fn short_ns(&self) -> u64 {
        SHORT_NS.max(SHORT_PERIODS.saturating_mul(self.period_ns))
    }
}

fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::RecordingDiagnostic;
    use super::{Pauses, Turn};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, Tid};

    const MS: u64 = 1_000_000;
    const HERE: CpuId = CpuId::new(1);

    const fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * MS)
    }

    /// Stretches that are not seen of a turn at 100 samples a second, in ms: from when to when, what the thread had run at its end, samples.
    fn unseen(pauses: &mut Pauses, turn: [u64; 3], samples: &[u64]) -> Vec<(u64, u64)> {
        for &ms in samples {
            pauses.sample(HERE, at(ms));
        }
        let [start, end, ran] = turn;
        let turn = Turn { cpu: HERE, tid: Tid::new(7), start: at(start), end: at(end), ran_ns: ran * MS };
        let unseen = pauses.turn(turn);
        unseen.iter().map(|stretch| (stretch.start.as_ns() / MS, stretch.end.as_ns() / MS)).collect()
    }

    fn pauses() -> Pauses {
        Pauses::new(100, at(0))
    }

    /// A turn of twenty seconds with one sample: it keeps a period on each side, the rest was not seen.
    #[test]
    fn one_sample_does_not_stand_for_a_freeze() {
        let mut all = pauses();
        assert_eq!(unseen(&mut all, [1_000, 21_000, 20_000], &[11_000]), [(1_000, 10_990), (11_010, 21_000)]);
        assert_eq!(unseen(&mut all, [30_000, 50_000, 40_000], &[]), [(30_000, 50_000)]);
        let paused = RecordingDiagnostic::MachinePaused { times: 3, cpu_ns: 39_980_000_000 };
        assert_eq!(all.diagnostics(1), [paused]);
    }

    /// A freeze in the middle of ordinary samples; one that is late by less than a quarter of a second is no freeze.
    #[test]
    fn freezes_are_found_between_samples() {
        let regular = |from: u64, until: u64| (from..until).step_by(10).collect::<Vec<_>>();
        let mut samples = regular(5, 200);
        samples.extend(regular(805, 1_000));
        assert_eq!(unseen(&mut pauses(), [0, 1_000, 1_000], &samples), [(205, 795)]);
        let mut samples = regular(5, 200);
        samples.extend(regular(405, 1_000));
        assert_eq!(unseen(&mut pauses(), [0, 1_000, 1_000], &samples), []);
    }

    /// Where the scheduler lacks time a shorter stretch counts, as long as what it lacks; time that it lacks in small pieces does not.
    #[test]
    fn the_schedulers_account_bounds_a_turn() {
        let mut samples: Vec<u64> = (5..200).step_by(10).collect();
        samples.extend((355..500).step_by(10));
        assert_eq!(unseen(&mut pauses(), [0, 500, 400], &samples), [(245, 345)]);
        assert_eq!(unseen(&mut pauses(), [0, 500, 480], &samples), []);
        let all: Vec<u64> = (5..500).step_by(10).collect();
        assert_eq!(unseen(&mut pauses(), [0, 500, 400], &all), []);
    }

    /// What counts is what the thread ran in this turn: what it had before is known from the last one.
    #[test]
    fn turns_are_told_apart() {
        let mut all = pauses();
        assert_eq!(unseen(&mut all, [0, 40, 900_000], &[]), []);
        let samples: Vec<u64> = (205..290).step_by(10).collect();
        assert_eq!(unseen(&mut all, [100, 300, 900_100], &samples), [(100, 195)]);
        assert_eq!(unseen(&mut all, [400, 600, 900_300], &[405, 595]), []);
    }

    /// Half of the samples are missed; a tenth, and a few of a short run, are not.
    #[test]
    fn missing_samples_are_told() {
        let mut all = pauses();
        let samples: Vec<u64> = (0..10_000).step_by(20).collect();
        assert_eq!(unseen(&mut all, [0, 10_000, 10_000], &samples), []);
        let cpu_ns = 10_000_000_000;
        let missing = RecordingDiagnostic::SamplesMissing { taken: 500, expected: 1000, cpu_ns };
        assert_eq!(all.diagnostics(500), [missing]);
        assert_eq!(all.diagnostics(900), []);
        let mut short = pauses();
        assert_eq!(unseen(&mut short, [0, 900, 900], &[]), [(0, 900)]);
        assert_eq!(unseen(&mut short, [900, 940, 940], &[]), []);
        assert_eq!(short.diagnostics(0).len(), 1);
    }

    /// Time before the sampler began is not expected to have samples.
    #[test]
    fn what_came_before_does_not_count() {
        let mut all = Pauses::new(100, at(10_000));
        let samples: Vec<u64> = (10_005..10_200).step_by(10).collect();
        assert_eq!(unseen(&mut all, [0, 10_200, 10_200], &samples), []);
    }
}
