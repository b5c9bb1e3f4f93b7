//! Where a thread was on a CPU and could not be seen: the machine stood still (a paused or starved guest, a freeze), or samples did not come.
//!
//! A sample stands for the time around it. Where none came for many periods it must not stand for all of that: such stretches are recorded,
//! and their time is `[unsampled]`. Two signs tell of one: no sample on the CPU for a quarter of a second and twenty periods of targets' time
//! there in one interval, or twice that in several, or less where the scheduler's own account of the thread (`se.sum_exec_runtime`) lacks that time. The
//! samples on both sides keep a period each.
//! Counts as well how many samples the CPU time of targets should have brought. Leaves out what is done with a stretch (`attribution/time`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Tid};
use energy_trace_model::recording::record::{RecordingDiagnostic, Unsampled};
use std::collections::{HashMap, HashSet};

/// Without a sample for so many periods and for so long nobody was looking.
const FAR_PERIODS: u64 = 20;
const FAR_NS: u64 = 250_000_000;
/// So many times that in several intervals: which of them are sampled is chance.
const FAR_INTERVALS: u64 = 2;
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
pub(crate) struct RunInterval {
    pub(crate) cpu: CpuId,
    pub(crate) tid: Tid,
    pub(crate) start: KtimeNs,
    pub(crate) end: KtimeNs,
    /// CPU time of the thread since it began, by the scheduler; 0: not known.
    pub(crate) ran_ns: u64,
}

/// What was not seen so far.
#[derive(Debug)]
pub(crate) struct SamplingGaps {
    period_ns: u64,
    /// Since when there are samples.
    since: KtimeNs,
    /// What the open interval of each CPU has of samples.
    cpus: HashMap<CpuId, Sampled>,
    /// Intervals at whose end there was no sample yet.
    since_sample: HashMap<CpuId, SinceLastSample>,
    /// What each thread had run at the end of its last interval.
    ran: HashMap<Tid, u64>,
    /// Threads whose last interval is still to come.
    ending: HashSet<Tid>,
    count: u64,
    unseen_ns: u64,
    /// Time of targets, without that.
    seen_ns: u64,
    /// Intervals of which the scheduler's account is known: their length, and that.
    accounts_ns: (u64, u64),
}

/// Samples of a CPU since its last interval ended.
#[derive(Debug, Default)]
struct Sampled {
    first: Option<KtimeNs>,
    last: KtimeNs,
    /// Stretches between two of them that are long enough to matter.
    gaps: Vec<(KtimeNs, KtimeNs)>,
}

/// Time of targets on a CPU since its last sample.
#[derive(Clone, Copy, Debug)]
struct SinceLastSample {
    since: KtimeNs,
    /// What of it is not recorded as unseen.
    open_ns: u64,
    /// All of it, with what the sample keeps.
    long_ns: u64,
    /// Whether it is recorded up to now.
    is_unseen: bool,
}

/// A stretch without a sample.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// What of it is nobody's.
    start: KtimeNs,
    end: KtimeNs,
    /// Targets' time in that.
    cpu_ns: u64,
    /// Targets' time in all of it, with what the samples on both sides keep.
    long_ns: u64,
    /// Whether nobody was looking.
    is_unseen: bool,
    /// Whether the first part of it is recorded.
    goes_on: bool,
}

impl SamplingGaps {
    pub(crate) fn new(hz: u32, since: KtimeNs) -> Self {
        Self {
            period_ns: 1_000_000_000 / u64::from(hz.max(1)),
            since,
            cpus: HashMap::new(),
            since_sample: HashMap::new(),
            ran: HashMap::new(),
            ending: HashSet::new(),
            count: 0,
            unseen_ns: 0,
            seen_ns: 0,
            accounts_ns: (0, 0),
        }
    }

    /// A target ran for so long, nobody knows when: stretches without samples are not looked for, nor is anything kept for that.
    pub(crate) fn add_time(&mut self, ns: u64) {
        self.seen_ns += ns;
        self.cpus.clear();
        self.ending.clear();
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

    /// A thread ends: one more interval comes.
    pub(crate) fn exit(&mut self, tid: Tid) {
        self.ending.insert(tid);
    }

    /// A target's interval is over; the stretches of it, and of those before it, in which nobody was looking.
    pub(crate) fn add_run(&mut self, run: RunInterval) -> Vec<Unsampled> {
        let sampled = self.cpus.remove(&run.cpu).unwrap_or_default();
        let ran = self.ran_in(run);
        let run = RunInterval { start: run.start.max(self.since), ..run };
        let length = run.end.ns_since(run.start);
        self.seen_ns += length;
        if length < SHORT_NS && sampled.first.is_none() {
            // Most intervals of a program that waits a lot.
            let gap = self.begun(run, run.end, 0);
            if !gap.is_unseen {
                self.look_on(run, gap);
                return Vec::new();
            }
        }
        let gaps = self.gaps_of(run, &sampled);
        let far: Vec<Gap> = gaps.iter().filter(|gap| gap.is_unseen && gap.start < gap.end).copied().collect();
        if let Some(&last) = gaps.last() {
            self.look_on(run, last);
        }
        if !far.is_empty() {
            return far.into_iter().map(|gap| self.unseen(run.cpu, gap)).collect();
        }
        let missing = ran.map_or(0, |ran| length.saturating_sub(ran));
        if length < SHORT_NS || missing < SHORT_NS {
            return Vec::new();
        }
        let stolen = self.stolen(run, &gaps, missing);
        if stolen.is_some() {
            self.since_sample.remove(&run.cpu);
        }
        stolen.into_iter().map(|gap| self.unseen(run.cpu, gap)).collect()
    }

    fn unseen(&mut self, cpu: CpuId, gap: Gap) -> Unsampled {
        self.count += u64::from(!gap.goes_on);
        self.unseen_ns += gap.cpu_ns;
        self.seen_ns = self.seen_ns.saturating_sub(gap.cpu_ns);
        Unsampled { cpu, start: gap.start, end: gap.end }
    }

    /// What follows on the CPU belongs to an interval's last stretch until a sample comes.
    fn look_on(&mut self, run: RunInterval, gap: Gap) {
        let Gap { start, cpu_ns, long_ns, is_unseen, .. } = gap;
        let open_ns = if is_unseen { 0 } else { cpu_ns };
        self.since_sample.insert(run.cpu, SinceLastSample { since: start, open_ns, long_ns, is_unseen });
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

    /// Targets' time: all of it, what of it was not seen, and the lengths of intervals of which the scheduler's account is known, with that.
    pub(crate) const fn account(&self) -> (u64, u64, (u64, u64)) {
        (self.seen_ns + self.unseen_ns, self.unseen_ns, self.accounts_ns)
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

    /// CPU time of the thread in its interval, by the scheduler.
    fn ran_in(&mut self, run: RunInterval) -> Option<u64> {
        if run.ran_ns == 0 {
            return None;
        }
        let before = if self.ending.remove(&run.tid) {
            self.ran.remove(&run.tid)
        } else {
            self.ran.insert(run.tid, run.ran_ns)
        };
        let ran = before.and_then(|before| run.ran_ns.checked_sub(before));
        if let Some(ran) = ran {
            self.accounts_ns.0 += run.end.ns_since(run.start);
            self.accounts_ns.1 += ran;
        }
        // A number that came back counts from nothing.
        Some(ran.unwrap_or(run.ran_ns))
    }

    /// Stretches without a sample; the first begins in the intervals before, the last ends with the interval.
    fn gaps_of(&self, run: RunInterval, sampled: &Sampled) -> Vec<Gap> {
        let own = self.period_ns;
        let Some(first) = sampled.first.filter(|first| *first >= run.start && sampled.last <= run.end) else {
            return vec![self.begun(run, run.end, 0)];
        };
        let after = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_add(own));
        let before = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(own));
        let between = |from: KtimeNs, until: KtimeNs, end: KtimeNs| {
            let (start, long_ns) = (after(from), until.ns_since(from));
            let is_unseen = long_ns >= self.far_ns();
            Gap { start, end, cpu_ns: end.ns_since(start), long_ns, is_unseen, goes_on: false }
        };
        let mut gaps = vec![self.begun(run, first, own)];
        gaps.extend(sampled.gaps.iter().map(|&(from, until)| between(from, until, before(until))));
        gaps.push(between(sampled.last, run.end, run.end));
        gaps
    }

    /// The stretch up to a moment of an interval, which begins in the intervals before, where the sample at its end keeps so much.
    fn begun(&self, run: RunInterval, until: KtimeNs, kept: u64) -> Gap {
        let new = SinceLastSample { since: run.start, open_ns: 0, long_ns: 0, is_unseen: false };
        let since_sample = self.since_sample.get(&run.cpu).copied().unwrap_or(new);
        let here = until.ns_since(run.start);
        let long_ns = since_sample.long_ns + here;
        let goes_on = since_sample.is_unseen;
        Gap {
            start: if goes_on { run.start } else { since_sample.since },
            end: KtimeNs::from_ns(until.as_ns().saturating_sub(kept)),
            cpu_ns: (since_sample.open_ns + here).saturating_sub(kept),
            long_ns,
            is_unseen: goes_on || here >= self.far_ns() || long_ns >= FAR_INTERVALS * self.far_ns(),
            goes_on,
        }
    }

    /// The end of the longest stretch without a sample, as long as what the scheduler lacks: the sample behind it came when the CPU did.
    fn stolen(&self, run: RunInterval, gaps: &[Gap], missing: u64) -> Option<Gap> {
        let gap = gaps.iter().max_by_key(|gap| gap.long_ns)?;
        let start = KtimeNs::from_ns(gap.end.as_ns().saturating_sub(missing)).max(gap.start).max(run.start);
        let cpu_ns = gap.end.ns_since(start);
        (gap.long_ns >= self.short_ns() && cpu_ns > 0).then_some(Gap { start, cpu_ns, ..*gap })
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
    use super::{RunInterval, SamplingGaps};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, Tid};

    const MS: u64 = 1_000_000;
    const HERE: CpuId = CpuId::new(1);

    const fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * MS)
    }

    /// Stretches that are not seen of an interval at 100 samples a second, in ms: from when to when, what the thread had run at its end, samples.
    fn unseen(sampling_gaps: &mut SamplingGaps, run: [u64; 3], samples: &[u64]) -> Vec<(u64, u64)> {
        for &ms in samples {
            sampling_gaps.sample(HERE, at(ms));
        }
        let [start, end, ran] = run;
        let run =
            RunInterval { cpu: HERE, tid: Tid::new(7), start: at(start), end: at(end), ran_ns: ran * MS };
        let unseen = sampling_gaps.add_run(run);
        unseen.iter().map(|stretch| (stretch.start.as_ns() / MS, stretch.end.as_ns() / MS)).collect()
    }

    fn sampling_gaps() -> SamplingGaps {
        SamplingGaps::new(100, at(0))
    }

    /// A interval of twenty seconds with one sample: it keeps a period on each side, the rest was not seen, nor was the next interval.
    #[test]
    fn one_sample_does_not_stand_for_a_freeze() {
        let mut all = sampling_gaps();
        assert_eq!(unseen(&mut all, [1_000, 21_000, 20_000], &[11_000]), [(1_000, 10_990), (11_010, 21_000)]);
        assert_eq!(unseen(&mut all, [30_000, 50_000, 40_000], &[]), [(30_000, 50_000)]);
        let paused = RecordingDiagnostic::MachinePaused { times: 2, cpu_ns: 39_980_000_000 };
        assert_eq!(all.diagnostics(1), [paused]);
    }

    /// A freeze in the middle of ordinary samples; one that is late by less than a quarter of a second is no freeze.
    #[test]
    fn freezes_are_found_between_samples() {
        let regular = |from: u64, until: u64| (from..until).step_by(10).collect::<Vec<_>>();
        let mut samples = regular(5, 200);
        samples.extend(regular(805, 1_000));
        assert_eq!(unseen(&mut sampling_gaps(), [0, 1_000, 1_000], &samples), [(205, 795)]);
        let mut samples = regular(5, 200);
        samples.extend(regular(405, 1_000));
        assert_eq!(unseen(&mut sampling_gaps(), [0, 1_000, 1_000], &samples), []);
    }

    /// A freeze in intervals that are short because others compute on the CPU too: as soon as they are long enough together; a sample ends it.
    #[test]
    fn freezes_go_on_over_turns() {
        let mut all = sampling_gaps();
        assert_eq!(unseen(&mut all, [0, 100, 100], &[5, 15]), []);
        for start in [200, 400, 600, 800] {
            assert_eq!(unseen(&mut all, [start, start + 100, start / 2 + 100], &[]), []);
        }
        assert_eq!(unseen(&mut all, [1_000, 1_100, 600], &[]), [(25, 1_100)]);
        assert_eq!(unseen(&mut all, [1_110, 1_120, 610], &[]), [(1_110, 1_120)]);
        assert_eq!(unseen(&mut all, [1_200, 1_300, 710], &[1_245, 1_255]), [(1_200, 1_235)]);
        assert_eq!(unseen(&mut all, [1_400, 1_600, 910], &[]), []);
        let cpu_ns = (75 + 5 * 100 + 10 + 35) * MS;
        assert_eq!(all.diagnostics(1), [RecordingDiagnostic::MachinePaused { times: 1, cpu_ns }]);
        // The same with a sample in each interval.
        let mut all = sampling_gaps();
        for start in (0..2_000).step_by(200) {
            assert_eq!(unseen(&mut all, [start, start + 100, start / 2 + 100], &[start + 50]), []);
        }
    }

    /// Where the scheduler lacks time a shorter stretch counts, as long as what it lacks; time that it lacks in small pieces does not.
    #[test]
    fn the_schedulers_account_bounds_a_turn() {
        let mut samples: Vec<u64> = (5..200).step_by(10).collect();
        samples.extend((355..500).step_by(10));
        assert_eq!(unseen(&mut sampling_gaps(), [0, 500, 400], &samples), [(245, 345)]);
        assert_eq!(unseen(&mut sampling_gaps(), [0, 500, 480], &samples), []);
        let all: Vec<u64> = (5..500).step_by(10).collect();
        assert_eq!(unseen(&mut sampling_gaps(), [0, 500, 400], &all), []);
    }

    /// What counts is what the thread ran in this interval: what it had before is known from the last one.
    #[test]
    fn turns_are_told_apart() {
        let mut all = sampling_gaps();
        assert_eq!(unseen(&mut all, [0, 40, 900_000], &[]), []);
        let samples: Vec<u64> = (205..290).step_by(10).collect();
        assert_eq!(unseen(&mut all, [100, 300, 900_100], &samples), [(100, 195)]);
        assert_eq!(unseen(&mut all, [400, 600, 900_300], &[405, 595]), []);
    }

    /// Half of the samples are missed; a tenth, and a few of a short run, are not.
    #[test]
    fn missing_samples_are_told() {
        let mut all = sampling_gaps();
        let samples: Vec<u64> = (0..10_000).step_by(20).collect();
        assert_eq!(unseen(&mut all, [0, 10_000, 10_000], &samples), []);
        let cpu_ns = 10_000_000_000;
        let missing = RecordingDiagnostic::SamplesMissing { taken: 500, expected: 1000, cpu_ns };
        assert_eq!(all.diagnostics(500), [missing]);
        assert_eq!(all.diagnostics(900), []);
        let mut short = sampling_gaps();
        assert_eq!(unseen(&mut short, [0, 900, 900], &[]), [(0, 900)]);
        assert_eq!(unseen(&mut short, [900, 940, 940], &[]), [(900, 940)]);
        assert_eq!(short.diagnostics(0).len(), 1);
    }

    /// Time before the sampler began is not expected to have samples.
    #[test]
    fn what_came_before_does_not_count() {
        let mut all = SamplingGaps::new(100, at(10_000));
        let samples: Vec<u64> = (10_005..10_200).step_by(10).collect();
        assert_eq!(unseen(&mut all, [0, 10_200, 10_200], &samples), []);
    }
}
