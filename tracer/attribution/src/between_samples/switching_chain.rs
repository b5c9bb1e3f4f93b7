//! How fast each thread forgets what it was doing, and the mix that it draws from.
//!
//! Both are read off the samples: pairs of neighbouring ones are alike more often than the mix makes them when the thread stays where it
//! is for longer than the time between them. The likelihood of all pairs says which rates are possible; where the thread is faster than
//! the timer, samples cannot say how much, and the energy decides (`power_model`). The mix is that of the whole run or of the last
//! second or quarter of one, or that between two borders which the samples show (`mix_changes`), whichever makes the samples likeliest, each pair judged by a mix without itself.

use crate::between_samples::markov_bridge::{Asleep, Blend, Part, Rate};
use crate::between_samples::mix_changes::borders;
use crate::time::pieces::{Mark, NO_LINE};
use energy_trace_model::clock::KtimeNs;

/// Mean times after which a thread forgets, in nanoseconds, slowest first.
const MEMORIES_NS: [f64; 14] =
    [3e10, 3e9, 1e9, 3e8, 1.5e8, 7e7, 3.5e7, 1.8e7, 9e6, 4.5e6, 2.2e6, 1.1e6, 5.5e5, 2.7e5];
/// What mixes are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Three times this many nanoseconds around a moment.
    Width(u64),
    /// What lies between two borders.
    Segment,
}

/// In order of trust: a later one must explain more.
const OVER: [Over; 4] =
    [Over::Width(u64::MAX), Over::Width(1_000_000_000), Over::Width(250_000_000), Over::Segment];
/// What threads may forget while they sleep.
const SLEEPERS: [Asleep; 3] = [Asleep::Nothing, Asleep::AsAwake, Asleep::All];
/// So many samples of the whole run's mix are added to a narrower one.
const PRIOR_SAMPLES: f64 = 3.0;
/// A rate whose log-likelihood is this much below the best is not possible: about three standard errors.
const POSSIBLE: f64 = 4.5;

/// Number of rates there are to choose from.
pub(crate) const RATES: usize = MEMORIES_NS.len();

/// What lies between these and the times above: a time that is off by a fifth makes watts differ by one in a hundred too much.
const BETWEEN: [f64; 9] = [1.0, 1.091, 0.917, 1.189, 0.841, 1.297, 0.771, 1.414, 0.707];
/// A time between must make pairs likelier by this much: where samples are too far apart to tell, energy tells better.
const FINER: f64 = 1.0;

/// Two neighbouring samples of a line.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// They show one function.
    alike: bool,
    /// The probability of the second one's function in the mix.
    pi: f64,
    /// Nanoseconds between them on the CPU, and off it.
    awake: u64,
    slept: u64,
}

/// The log-likelihood of pairs at each rate.
fn likelihood<const N: usize>(pairs: &[Pair], asleep: Asleep, memories_ns: [f64; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    for pair in pairs {
        #[expect(clippy::cast_precision_loss, reason = "a time")]
        let apart = pair.awake as f64 + asleep.distance(pair.slept);
        for (sum, memory) in sums.iter_mut().zip(memories_ns) {
            let kept = (-apart / memory).exp();
            let alike = if pair.alike { kept } else { 0.0 };
            *sum += (alike + (1.0 - kept) * pair.pi).max(1e-300).ln();
        }
    }
    sums
}

/// What a line's pairs show of its forgetting.
struct Found {
    asleep: Asleep,
    /// What its times of forgetting are, in parts of `MEMORIES_NS`.
    factor: f64,
    /// The log-likelihood of each rate, and of the best one.
    likelihood: [f64; RATES],
    best: f64,
}

impl Found {
    fn of(pairs: &[Pair]) -> Self {
        let with = |asleep: Asleep, factor: f64| {
            let likelihood = likelihood(pairs, asleep, MEMORIES_NS.map(|memory| factor * memory));
            let best = likelihood.into_iter().fold(f64::NEG_INFINITY, f64::max);
            Self { asleep, factor, likelihood, best }
        };
        // The first of several that are as likely.
        let better = |best: Self, other: Self| if other.best > best.best { other } else { best };
        let coarse = SLEEPERS.map(|asleep| with(asleep, 1.0)).into_iter().reduce(better);
        let coarse = coarse.unwrap_or_else(|| with(Asleep::default(), 1.0));
        let likeliest = (0..RATES).max_by(|&a, &b| coarse.likelihood[a].total_cmp(&coarse.likelihood[b]));
        let memory = MEMORIES_NS[likeliest.unwrap_or(0)];
        let fine = likelihood(pairs, coarse.asleep, BETWEEN.map(|factor| factor * memory));
        let finest = (1..BETWEEN.len()).fold(0, |most, i| if fine[i] > fine[most] { i } else { most });
        if fine[finest] < fine[0] + FINER { coarse } else { with(coarse.asleep, BETWEEN[finest]) }
    }
}

/// The chains of all threads.
#[derive(Debug)]
pub(crate) struct Chains {
    start: KtimeNs,
    over: Over,
    /// Where each thread's segments but the first begin.
    borders: Vec<Vec<KtimeNs>>,
    columns: usize,
    /// Where each thread's mixes begin, and how many it has.
    first: Vec<(usize, usize)>,
    mixes: Vec<f64>,
    /// Number of samples of each thread.
    samples: Vec<f64>,
    /// For each thread the log-likelihood of each rate, relative to the best.
    likelihood: Vec<[f64; RATES]>,
    /// What each thread forgets while it sleeps.
    asleep: Vec<Asleep>,
    /// What each thread's times of forgetting are, in parts of `MEMORIES_NS`.
    memory: Vec<f64>,
    /// How much more probable functions are than samples and rates make them (`raking`); empty where they are not.
    raking: Raking,
}

/// Functions that are more or less probable than the chain makes them.
#[derive(Debug, Default)]
struct Raking {
    /// By line and column.
    factors: Vec<f64>,
    /// The mixes with that, and by mix the sum of what its functions are more probable by.
    mixes: Vec<f64>,
    weights: Vec<f64>,
}

impl Chains {
    /// From all marks, ordered by thread and time, and the column of each owner.
    pub(crate) fn new(
        marks: &[Mark],
        start: KtimeNs,
        column: impl Fn(&Mark) -> usize,
        columns: usize,
    ) -> Self {
        let with = |over| Self::with_mixes_over(over, marks, start, &column, columns);
        let mut all = OVER.into_iter().map(with);
        let (mut best, mut best_sum) = all.next().unwrap_or_else(|| with(OVER[0]));
        for (chains, sum) in all {
            if sum > best_sum + POSSIBLE {
                (best, best_sum) = (chains, sum);
            }
        }
        best
    }

    /// The chains, and the log-likelihood of all pairs at each thread's best rate.
    fn with_mixes_over(
        over: Over,
        marks: &[Mark],
        start: KtimeNs,
        column: &impl Fn(&Mark) -> usize,
        columns: usize,
    ) -> (Self, f64) {
        let mut chains = Self {
            start,
            over,
            borders: vec![],
            columns,
            first: vec![],
            mixes: vec![],
            samples: vec![],
            likelihood: vec![],
            asleep: vec![],
            memory: vec![],
            raking: Raking::default(),
        };
        let mut sum = 0.0;
        for run in marks.chunk_by(|a, b| a.line == b.line) {
            sum += chains.add_thread(run, column);
        }
        (chains, sum)
    }

    /// Which of a thread's mixes holds at a moment.
    fn bin(&self, thread: usize, at: KtimeNs) -> usize {
        match self.over {
            Over::Width(width_ns) => usize::try_from(at.ns_since(self.start) / width_ns).unwrap_or(0),
            Over::Segment => {
                self.borders.get(thread).map_or(0, |borders| borders.partition_point(|border| *border <= at))
            }
        }
    }

    /// Finds a thread's borders, and what it costs to say where they are.
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    fn add_borders(&mut self, marks: &[Mark], column: &impl Fn(&Mark) -> usize) -> f64 {
        if self.over != Over::Segment {
            return 0.0;
        }
        let columns_of: Vec<usize> = marks.iter().map(column).collect();
        let at = |border: usize| marks[border - 1].at.midpoint(marks[border].at);
        let borders: Vec<KtimeNs> = borders(&columns_of, self.columns).into_iter().map(at).collect();
        let cost = borders.len() as f64 * (marks.len() as f64).ln();
        self.borders.push(borders);
        cost
    }

    fn add_thread(&mut self, marks: &[Mark], column: &impl Fn(&Mark) -> usize) -> f64 {
        let Some(last) = marks.last() else { return 0.0 };
        let thread = self.first.len();
        let cost = self.add_borders(marks, column);
        let (bins, columns) = (self.bin(thread, last.at) + 1, self.columns);
        let mut counts = vec![0.0; bins * columns];
        let mut whole = vec![0.0; columns];
        for mark in marks {
            counts[self.bin(thread, mark.at) * columns + column(mark)] += 1.0;
            whole[column(mark)] += 1.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let all = marks.len() as f64;
        let share = |c: usize| whole[c] / all;
        let near = usize::from(self.over != Over::Segment);
        let around = |bin: usize, c: usize| {
            (bin.saturating_sub(near)..(bin + 1 + near).min(bins))
                .map(|bin| counts[bin * columns + c])
                .sum::<f64>()
        };
        let sums: Vec<f64> = (0..bins).map(|bin| (0..columns).map(|c| around(bin, c)).sum()).collect();
        let pair = |pair: &[Mark]| {
            let &[a, b] = pair else { return None };
            let (bin, ca, cb) = (self.bin(thread, b.at), column(&a), column(&b));
            // Its own two samples do not testify.
            let own = 1.0 + f64::from(u8::from(ca == cb));
            let pi = ((around(bin, cb) - own).max(0.0) + PRIOR_SAMPLES * share(cb))
                / (sums[bin] - 2.0 + PRIOR_SAMPLES).max(1.0);
            let awake = b.cpu_ns.saturating_sub(a.cpu_ns);
            let slept = b.at.ns_since(a.at).saturating_sub(awake);
            Some(Pair { alike: ca == cb, pi: pi.clamp(1e-6, 1.0), awake, slept })
        };
        let pairs: Vec<Pair> = marks.windows(2).filter_map(pair).collect();
        self.samples.push(all);
        self.first.push((self.mixes.len(), bins));
        for (bin, sum) in sums.iter().enumerate() {
            let mix = |c| (around(bin, c) + PRIOR_SAMPLES * share(c)) / (sum + PRIOR_SAMPLES);
            self.mixes.extend((0..columns).map(mix));
        }
        let found = Found::of(&pairs);
        self.asleep.push(found.asleep);
        self.memory.push(found.factor);
        self.likelihood.push(found.likelihood.map(|l| l - found.best));
        found.best - cost
    }

    /// The mix of a thread at a moment, as it is seen from a sample; empty for time that is not in doubt.
    pub(crate) fn mix(&self, thread: u32, at: KtimeNs) -> &[f64] {
        self.mix_number(thread, at)
            .and_then(|number| self.mixes.chunks(self.columns).nth(number))
            .unwrap_or_default()
    }

    /// What is drawn from that mix where only the mix is known: the same but for what leans.
    pub(crate) fn drawn(&self, thread: u32, at: KtimeNs) -> &[f64] {
        self.mix_number(thread, at).and_then(|number| self.mixes().nth(number)).unwrap_or_default()
    }

    /// A part's probabilities with what leans.
    pub(crate) fn rake(&self, part: &Part, (left, right): (usize, usize), blend: Blend) -> Blend {
        let factors = self.raking.factors.get(part.line as usize * self.columns..);
        let (Some(factors), false) = (factors, part.line == NO_LINE || self.raking.factors.is_empty()) else {
            return blend;
        };
        let of_mix = self.mix_number(part.line, part.at).and_then(|number| self.raking.weights.get(number));
        let blend = Blend {
            left: blend.left * factors[left],
            right: blend.right * factors[right],
            mix: blend.mix * of_mix.copied().unwrap_or(1.0),
            ..blend
        };
        let scale = 1.0 / (blend.left + blend.right + blend.mix).max(f64::MIN_POSITIVE);
        Blend { left: scale * blend.left, right: scale * blend.right, mix: scale * blend.mix, ..blend }
    }

    /// Makes each function of each line so much more probable.
    pub(crate) fn set_raking(&mut self, factors: Vec<f64>) {
        let lines = factors.chunks(self.columns).zip(&self.first);
        let (mut mixes, mut weights) =
            (self.mixes.clone(), vec![1.0; self.mixes.len() / self.columns.max(1)]);
        for (factors, &(first, bins)) in lines {
            let of_line = mixes.get_mut(first..first + bins * self.columns).unwrap_or_default();
            for (bin, mix) in of_line.chunks_mut(self.columns).enumerate() {
                mix.iter_mut().zip(factors).for_each(|(pi, factor)| *pi *= factor);
                let sum = mix.iter().sum::<f64>().max(f64::MIN_POSITIVE);
                mix.iter_mut().for_each(|pi| *pi /= sum);
                weights[first / self.columns + bin] = sum;
            }
        }
        self.raking = Raking { factors, mixes, weights };
    }

    /// The number of a thread's mix at a moment, to look up what was computed once for each.
    pub(crate) fn mix_number(&self, thread: u32, at: KtimeNs) -> Option<usize> {
        let &(first, bins) = self.first.get(thread as usize).filter(|_| thread != NO_LINE)?;
        Some(first / self.columns.max(1) + self.bin(thread as usize, at).min(bins.saturating_sub(1)))
    }

    /// All mixes by number, as they are drawn from.
    pub(crate) fn mixes(&self) -> impl Iterator<Item = &[f64]> {
        let raking = &self.raking.mixes;
        let mixes = if raking.is_empty() { &self.mixes } else { raking };
        mixes.chunks(self.columns.max(1))
    }

    /// How many samples a thread has.
    pub(crate) fn samples(&self, thread: usize) -> f64 {
        self.samples.get(thread).copied().unwrap_or(0.0)
    }

    /// Number of lines with samples.
    pub(crate) const fn lines(&self) -> usize {
        self.first.len()
    }

    /// The rates for a choice: each thread's is as near to it as its samples allow. With the log-likelihood of all samples, relative to
    /// the best.
    pub(crate) fn rates(&self, choice: usize) -> (Vec<Rate>, f64) {
        let mut sum = 0.0;
        let mut rate = |likelihood: &[f64; RATES], asleep: Asleep, factor: f64| {
            let possible = || (0..RATES).filter(|&rate| likelihood[rate] > -POSSIBLE);
            let nearest = possible().min_by_key(|rate| rate.abs_diff(choice)).unwrap_or(choice);
            sum += likelihood[nearest];
            Rate { rate: 1.0 / (factor * MEMORIES_NS[nearest]), asleep }
        };
        let lines = self.likelihood.iter().zip(&self.asleep).zip(&self.memory);
        (lines.map(|((likelihood, asleep), factor)| rate(likelihood, *asleep, *factor)).collect(), sum)
    }

    /// Whether some thread is so fast that its samples do not say how fast: the quickest rate is as possible as others. Then what a run
    /// shows of its watts beyond the changes of its mix rests on the chain's own assumptions.
    pub(crate) fn outrun(&self) -> bool {
        let fast = |likelihood: &[f64; RATES]| likelihood[RATES - 1] > -POSSIBLE;
        self.likelihood.iter().any(fast)
    }

    /// Rates at which nothing is known between samples but the mix.
    pub(crate) fn forgetful(&self) -> Vec<Rate> {
        let (now, _) = self.rates(RATES - 1);
        let last = self.likelihood.iter().map(|likelihood| likelihood[RATES - 1] > -POSSIBLE);
        now.into_iter()
            .zip(last)
            .map(|(rate, fast)| if fast { Rate { rate: 1.0, ..rate } } else { rate })
            .collect()
    }

    /// The choices that lead to different rates.
    pub(crate) fn choices(&self) -> Vec<usize> {
        let mut seen: Vec<Vec<u64>> = vec![];
        let mut choices = vec![];
        for choice in 0..RATES {
            let rates: Vec<u64> = self.rates(choice).0.iter().map(|rate| rate.rate.to_bits()).collect();
            if !seen.contains(&rates) {
                seen.push(rates);
                choices.push(choice);
            }
        }
        choices
    }
}
