//! How fast each track forgets what it was doing, and the mix of columns that it draws from.
//!
//! Both are read off the samples: pairs of neighbouring ones are alike more often than the mix makes them
//! when the track stays where it is for longer than the time between them. Of all rates under which the pairs
//! are about as likely as under the likeliest, the fastest is taken: it claims least about when things ran.
//! (A slower one would take chance for knowledge, and the powers fitted to it would be sure and wrong.)
//!
//! The mix is that of the whole run, or of the last seconds or quarter of one, drawn towards that of the
//! whole run by so many samples as make pairs likeliest, each pair judged by a mix without itself: a local
//! mix of few samples has noise in it, which would pass for knowledge as well.
//!
//! Leaves out the probabilities that follow (`markov_bridge`).

use crate::between_samples::every_nth::EveryNth;
use crate::between_samples::markov_bridge::{Rate, SleepMixing, decay};
use crate::numerics::parallel::map;
use crate::parts::{LeftOut, Part};
use crate::time::inter_sample::{NO_TRACK, SamplePoint};
use energy_trace_model::clock::KtimeNs;

/// Mean times after which a track forgets, in nanoseconds: from half a minute to a quarter of a millisecond,
/// each two thirds of the one before.
const TIME_CONSTANTS: usize = 30;
const LONGEST_NS: f64 = 3e10;
const SHORTER: f64 = 1.0 / 1.5;
/// Rates whose log-likelihood is this much below the best are possible: two standard errors.
const POSSIBLE: f64 = 2.0;
/// What tracks may forget while they sleep.
const SLEEP_MIXINGS: [SleepMixing; 3] = [SleepMixing::Nothing, SleepMixing::AsAwake, SleepMixing::All];
/// What a mix is taken over, in nanoseconds to either side, and by how many samples it is drawn to that of
/// the whole run. In order of trust: a later one must explain more, by `LEAST_GAIN` in log-likelihood.
const MIXES: [(u64, f64); 5] =
    [(u64::MAX, 3.0), (1_000_000_000, 30.0), (1_000_000_000, 3.0), (250_000_000, 30.0), (250_000_000, 3.0)];
const LEAST_GAIN: f64 = 4.5;
/// Most stretches in which a track has a mix of its own.
const MOST_STRETCHES: u64 = 4_096;
/// Mixes whose moments are found by one thread at once.
const MIXES_AT_ONCE: usize = 1_024;
/// Pairs that are looked at, at most, evenly over the run: more say nothing new.
const MOST_PAIRS: usize = 20_000;

/// Probabilities of columns, ordered by column; what is not there is 0.
pub(crate) type Mix = Vec<(u32, f64)>;

/// Where a column is in a mix.
pub(crate) fn place(mix: &[(u32, f64)], column: u32) -> Option<usize> {
    // Mostly no column is missing between the first and this one.
    let near = mix.first().and_then(|(first, _)| column.checked_sub(*first))? as usize;
    if mix.get(near).is_some_and(|&(there, _)| there == column) {
        return Some(near);
    }
    mix.binary_search_by_key(&column, |&(column, _)| column).ok()
}

/// The probability of a column.
pub(crate) fn probability(mix: &[(u32, f64)], column: u32) -> f64 {
    place(mix, column).map_or(0.0, |at| mix[at].1)
}

/// Mean and mean square of the watts of a mix.
fn moments(mix: &[(u32, f64)], watts: &[f64]) -> (f64, f64) {
    mix.iter().fold((0.0, 0.0), |(mean, square), &(column, pi)| {
        let w = watts.get(column as usize).copied().unwrap_or(0.0);
        (mean + pi * w, square + pi * w * w)
    })
}

/// The log-likelihood of pairs at each rate.
type Likelihood = [f64; TIME_CONSTANTS];

fn time_constant_ns(number: usize) -> f64 {
    LONGEST_NS * SHORTER.powi(i32::try_from(number).unwrap_or(0))
}

/// Two neighbouring samples of a track.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// They show one column.
    alike: bool,
    /// Nanoseconds between them on the CPU, and off it.
    awake: u64,
    slept: u64,
}

/// The log-likelihood of pairs at each rate while they are added up, as products: a logarithm takes as long
/// as many of these.
#[derive(Clone, Copy)]
struct Sum {
    logarithms: Likelihood,
    product: Likelihood,
    factors: u32,
}

impl Sum {
    const NOTHING: Self =
        Self { logarithms: [0.0; TIME_CONSTANTS], product: [1.0; TIME_CONSTANTS], factors: 0 };
    /// So many factors are far from the least number that there is: none is below 1e-17, as a pair is a
    /// nanosecond apart or more and its column has a probability of 1e-6 or more.
    const MOST_FACTORS: u32 = 16;

    /// Adds a pair whose second column has the probability `pi`, where chains keep theirs with the
    /// probabilities `kept`.
    fn add(&mut self, alike: bool, pi: f64, kept: &Likelihood) {
        let alike = f64::from(u8::from(alike));
        for (product, kept) in self.product.iter_mut().zip(kept) {
            *product *= alike * kept + (1.0 - kept) * pi;
        }
        self.factors += 1;
        if self.factors == Self::MOST_FACTORS {
            *self = Self { logarithms: self.total(), ..Self::NOTHING };
        }
    }

    /// Adds a pair that no time lies between.
    fn add_at_once(&mut self, alike: bool) {
        let log = if alike { 0.0 } else { IMPOSSIBLE.ln() };
        self.logarithms.iter_mut().for_each(|sum| *sum += log);
    }

    fn total(&self) -> Likelihood {
        std::array::from_fn(|constant| self.logarithms[constant] + self.product[constant].ln())
    }
}

/// The likelihood of what cannot be, but was seen.
const IMPOSSIBLE: f64 = 1e-300;

fn best(likelihood: &Likelihood) -> f64 {
    likelihood.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The chain of one track.
#[derive(Clone, Debug)]
struct TrackChain {
    rate: Rate,
    /// Number of its samples.
    samples: f64,
    /// Length of the stretches that its mixes are of, and the number of the first.
    stretch_ns: u64,
    first: usize,
    count: usize,
    /// How many columns the tracks before it have.
    first_column: usize,
}

/// The chains of all tracks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    /// Parts that are not asked, of times and of what is made of them.
    pub(crate) left_out: LeftOut,
    start: KtimeNs,
    tracks: Vec<TrackChain>,
    mixes: Vec<Mix>,
}

/// How a track's pairs look with one choice of mix.
struct Fitted {
    over: (u64, f64),
    stretch_ns: u64,
    of_sleeper: [Likelihood; 3],
}

impl Fitted {
    fn best(&self) -> f64 {
        self.of_sleeper.iter().map(best).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// A track's samples: when, and in which column.
struct Samples<'a> {
    start: KtimeNs,
    points: EveryNth<'a>,
    columns: Vec<u32>,
    /// How often each column comes, and what part of all that is.
    counts: Mix,
    whole: Mix,
}

/// How often each column comes, while it is counted.
#[derive(Default)]
struct Tally {
    counts: Vec<f64>,
}

impl Tally {
    fn add(&mut self, column: u32, count: f64) {
        let place = column as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0.0);
        }
        self.counts[place] += count;
    }

    /// The counts, ordered by column; makes room for others.
    fn take(&mut self) -> Mix {
        let there = (0..).zip(&mut self.counts).filter(|(_, count)| **count > 0.0);
        there.map(|(column, count)| (column, std::mem::take(count))).collect()
    }
}

impl<'a> Samples<'a> {
    fn new(start: KtimeNs, points: EveryNth<'a>, column: &impl Fn(u32) -> u32) -> Self {
        let columns: Vec<u32> = points.iter().map(|point| column(point.owner)).collect();
        let mut tally = Tally::default();
        columns.iter().for_each(|column| tally.add(*column, 1.0));
        let counts = tally.take();
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let all = (points.len() as f64).max(1.0);
        let whole = counts.iter().map(|&(column, count)| (column, count / all)).collect();
        Self { start, points, columns, counts, whole }
    }

    /// Which stretch a sample is in.
    fn stretch(&self, point: &SamplePoint, stretch_ns: u64) -> usize {
        usize::try_from(point.at.ns_since(self.start) / stretch_ns).unwrap_or(0)
    }

    /// The samples of each stretch and its neighbours, by column.
    fn counts(&self, stretch_ns: u64) -> Vec<Mix> {
        let last = self.points.last().map_or(0, |point| self.stretch(point, stretch_ns));
        if last == 0 {
            return vec![self.counts.clone()];
        }
        let (mut own, mut tally) = (Vec::with_capacity(last + 1), Tally::default());
        let mut ends = self.start.as_ns().saturating_add(stretch_ns);
        for (point, &column) in self.points.iter().zip(&self.columns) {
            while point.at.as_ns() >= ends && own.len() < last {
                own.push(tally.take());
                ends = ends.saturating_add(stretch_ns);
            }
            tally.add(column, 1.0);
        }
        own.push(tally.take());
        let around = |stretch: usize| {
            let near = own.get(stretch.saturating_sub(1)..(stretch + 2).min(own.len())).unwrap_or_default();
            near.iter().flatten().for_each(|&(column, count)| tally.add(column, count));
            tally.take()
        };
        (0..=last).map(around).collect()
    }

    /// How long stretches are: not so short that there are too many.
    fn stretch_ns(&self, wanted: u64) -> u64 {
        let whole = self.points.last().map_or(0, |point| point.at.ns_since(self.start));
        wanted.max(whole / MOST_STRETCHES)
    }

    /// From one pair that is looked at to the next.
    const fn stride(&self) -> usize {
        let pairs = self.points.len().saturating_sub(1);
        if pairs > MOST_PAIRS { pairs.div_ceil(MOST_PAIRS) } else { 1 }
    }

    /// The pairs that are looked at, by the positions of their second samples.
    fn looked_at(&self) -> impl Iterator<Item = usize> + use<> {
        (1..self.points.len()).step_by(self.stride())
    }

    fn pair(&self, second: usize) -> Pair {
        let (a, b) = (self.points.at(second - 1), self.points.at(second));
        let awake = b.cpu_ns.saturating_sub(a.cpu_ns);
        let slept = b.at.ns_since(a.at).saturating_sub(awake);
        Pair { alike: self.columns[second - 1] == self.columns[second], awake, slept }
    }

    /// The probabilities of the second columns of the pairs that are looked at, in a mix.
    fn drawn(&self, drawn: f64, stretch_ns: u64, counts: &[Mix]) -> Vec<f64> {
        let sums: Vec<f64> = counts.iter().map(|mix| mix.iter().map(|(_, count)| count).sum()).collect();
        let pi = |second: usize| {
            let (column, stretch) = (self.columns[second], self.stretch(self.points.at(second), stretch_ns));
            // Its own two samples do not testify.
            let own = 1.0 + f64::from(u8::from(self.columns[second - 1] == column));
            let others = (probability(&counts[stretch], column) - own).max(0.0);
            let pi =
                (others + drawn * probability(&self.whole, column)) / (sums[stretch] - 2.0 + drawn).max(1.0);
            pi.clamp(1e-6, 1.0)
        };
        self.looked_at().map(pi).collect()
    }

    /// How likely its pairs are, by what it forgets asleep, in each of several mixes: `drawn` are the
    /// probabilities of their second columns.
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    fn likelihoods(&self, drawn: &[Vec<f64>]) -> Vec<[Likelihood; 3]> {
        let time_constants: [f64; TIME_CONSTANTS] = std::array::from_fn(time_constant_ns);
        // Pairs without a sleep, and those with one.
        let mut sums = vec![(Sum::NOTHING, [Sum::NOTHING; 3]); drawn.len()];
        for (number, second) in self.looked_at().enumerate() {
            let Pair { alike, awake, slept } = self.pair(second);
            let sleepers = if slept == 0 { &SLEEP_MIXINGS[..1] } else { &SLEEP_MIXINGS[..] };
            for (sleeper, asleep) in sleepers.iter().enumerate() {
                let apart = awake as f64 + asleep.distance(slept);
                let kept = time_constants.map(|constant| decay(apart / constant));
                for ((awake, asleep), drawn) in sums.iter_mut().zip(drawn) {
                    let sum = if slept == 0 { awake } else { &mut asleep[sleeper] };
                    if apart > 0.0 { sum.add(alike, drawn[number], &kept) } else { sum.add_at_once(alike) }
                }
            }
        }
        let stride = self.stride() as f64;
        let together = |one: Likelihood, other: Likelihood| -> Likelihood {
            std::array::from_fn(|constant| (one[constant] + other[constant]) * stride)
        };
        let of =
            |(awake, asleep): (Sum, [Sum; 3])| asleep.map(|asleep| together(awake.total(), asleep.total()));
        sums.into_iter().map(of).collect()
    }

    /// The choice of mix under which its pairs are likeliest, and the mix of each stretch.
    fn likeliest(&self, left_out: LeftOut) -> (Fitted, Vec<Mix>) {
        // With one column there is nothing to choose.
        let is_open = self.whole.len() > 1 && !left_out.has(Part::LocalMixes);
        let mixes = if is_open { &MIXES[..] } else { &MIXES[..1] };
        let (mut drawn, mut counted) = (vec![], vec![]);
        for &(wanted, of_whole) in mixes {
            let stretch_ns = self.stretch_ns(wanted);
            if counted.last().is_none_or(|(counted, _)| *counted != stretch_ns) {
                counted.push((stretch_ns, self.counts(stretch_ns)));
            }
            let counts = counted.last().map_or(&[][..], |(_, counts)| counts.as_slice());
            drawn.push(self.drawn(of_whole, stretch_ns, counts));
        }
        let fitted = |(&over, of_sleeper): (&(u64, f64), [Likelihood; 3])| Fitted {
            over,
            stretch_ns: self.stretch_ns(over.0),
            of_sleeper,
        };
        let mut all = mixes.iter().zip(self.likelihoods(&drawn)).map(fitted);
        let clearer =
            |best: Fitted, other: Fitted| if other.best() > best.best() + LEAST_GAIN { other } else { best };
        let simplest =
            Fitted { over: MIXES[0], stretch_ns: u64::MAX, of_sleeper: [[0.0; TIME_CONSTANTS]; 3] };
        let simplest = all.next().unwrap_or(simplest);
        let fitted = all.fold(simplest, clearer);
        let of_fitted = counted.into_iter().find(|(stretch_ns, _)| *stretch_ns == fitted.stretch_ns);
        let counts = of_fitted.map_or_else(|| self.counts(fitted.stretch_ns), |(_, counts)| counts);
        let mixes = self.mixes(&fitted, counts);
        (fitted, mixes)
    }

    /// The mix of each stretch, which has so many samples of each column.
    fn mixes(&self, fitted: &Fitted, counts: Vec<Mix>) -> Vec<Mix> {
        let drawn = fitted.over.1;
        let mix = |counts: Mix| {
            let sum: f64 = counts.iter().map(|(_, count)| count).sum();
            let of = |&(column, share): &(u32, f64)| {
                (column, (probability(&counts, column) + drawn * share) / (sum + drawn))
            };
            self.whole.iter().map(of).collect()
        };
        counts.into_iter().map(mix).collect()
    }
}

impl Chains {
    /// From points at odd or at even positions, or all of them, ordered by track and time, and the column of
    /// each owner.
    pub(crate) fn of_some(
        (points, odd): (&[SamplePoint], Option<bool>),
        left_out: LeftOut,
        start: KtimeNs,
        column: impl Fn(u32) -> u32 + Sync,
    ) -> Self {
        let count = points.last().map_or(0, |last| last.track.saturating_add(1));
        let mut first = 0;
        let of_track = |track: u32| {
            let behind = first + points[first..].partition_point(|point| point.track <= track);
            let of_track = EveryNth::of_track(&points[first..behind], first, odd);
            first = behind;
            of_track
        };
        let tracks: Vec<EveryNth<'_>> = (0..count).map(of_track).collect();
        let fitted =
            map(&tracks, 20 * points.len(), |track| Samples::new(start, *track, &column).likeliest(left_out));
        let (mut chains, mut columns) = (Self { left_out, start, tracks: vec![], mixes: vec![] }, 0);
        for (track, (fitted, mixes)) in tracks.into_iter().zip(fitted) {
            #[expect(clippy::cast_precision_loss, reason = "a count")]
            chains.tracks.push(TrackChain {
                rate: rate_of(&fitted, left_out),
                samples: track.len() as f64,
                stretch_ns: fitted.stretch_ns,
                first: chains.mixes.len(),
                count: mixes.len(),
                first_column: columns,
            });
            columns += mixes.first().map_or(0, Vec::len);
            chains.mixes.extend(mixes);
        }
        chains
    }

    /// How fast a track forgets.
    pub(crate) fn rate(&self, track: u32) -> Rate {
        self.tracks.get(track as usize).map(|track| track.rate).unwrap_or_default()
    }

    /// The number of a track's mix at a moment; `None` for time that is not in doubt.
    pub(crate) fn mix_number(&self, track: u32, at: KtimeNs) -> Option<usize> {
        let track = self.tracks.get(track as usize).filter(|_| track != NO_TRACK)?;
        let stretch = usize::try_from(at.ns_since(self.start) / track.stretch_ns.max(1)).unwrap_or(0);
        Some(track.first + stretch.min(track.count.saturating_sub(1)))
    }

    /// The mix of a number; nothing for one that is not there.
    pub(crate) fn mix(&self, number: Option<usize>) -> &[(u32, f64)] {
        number.and_then(|number| self.mixes.get(number)).map_or(&[], Vec::as_slice)
    }

    /// Number of mixes.
    pub(crate) const fn mixes(&self) -> usize {
        self.mixes.len()
    }

    /// The seconds of each column, one track's behind another's, if so many are drawn from each mix.
    pub(crate) fn drawn(&self, of_mixes: &[f64]) -> Vec<f64> {
        let mut drawn = vec![0.0; self.first_column(u32::MAX)];
        for track in &self.tracks {
            let of_track = track.first..track.first + track.count;
            for (mix, seconds) in self.mixes[of_track.clone()].iter().zip(&of_mixes[of_track]) {
                let columns = drawn[track.first_column..].iter_mut().zip(mix);
                columns.for_each(|(drawn, (_, pi))| *drawn += pi * seconds);
            }
        }
        drawn
    }

    /// With mixes of which each column is so many times as much, one track's behind another's.
    pub(crate) fn scaled(mut self, factors: &[f64]) -> Self {
        for track in &self.tracks {
            let of_track = &factors[track.first_column..];
            for mix in &mut self.mixes[track.first..track.first + track.count] {
                let sum: f64 = mix.iter().zip(of_track).map(|((_, pi), factor)| pi * factor).sum();
                mix.iter_mut().zip(of_track).for_each(|((_, pi), factor)| *pi *= factor / sum);
            }
        }
        self
    }

    /// Mean and mean square of the watts of each mix, by number, for columns that draw `watts`.
    pub(crate) fn moments(&self, watts: &[f64]) -> Vec<(f64, f64)> {
        let of_some = |some: &&[Mix]| some.iter().map(|mix| moments(mix, watts)).collect::<Vec<_>>();
        let chunks: Vec<&[Mix]> = self.mixes.chunks(MIXES_AT_ONCE).collect();
        map(&chunks, self.mixes.len() * watts.len() / 4, of_some).concat()
    }

    /// Number of tracks.
    pub(crate) const fn len(&self) -> usize {
        self.tracks.len()
    }

    /// The columns of a track: those of each of its mixes.
    pub(crate) fn columns_of(&self, track: usize) -> &[(u32, f64)] {
        self.mix(self.tracks.get(track).filter(|track| track.count > 0).map(|track| track.first))
    }

    /// How many columns the tracks before one have together; of no track, all.
    pub(crate) fn first_column(&self, track: u32) -> usize {
        let all = || {
            let last = self.tracks.len().checked_sub(1)?;
            Some(self.tracks.get(last)?.first_column + self.columns_of(last).len())
        };
        self.tracks.get(track as usize).map(|track| track.first_column).or_else(all).unwrap_or(0)
    }

    /// How many samples a track has.
    pub(crate) fn samples(&self, track: usize) -> f64 {
        self.tracks.get(track).map_or(0.0, |track| track.samples)
    }
}

/// The fastest rate that is possible.
fn rate_of(fitted: &Fitted, left_out: LeftOut) -> Rate {
    let sums = &fitted.of_sleeper;
    // The first of several that are as likely.
    let sleeper =
        (1..3).fold(0, |most, other| if best(&sums[other]) > best(&sums[most]) { other } else { most });
    let sleeper = if left_out.has(Part::SleepMixing) { 0 } else { sleeper };
    let most = best(&sums[sleeper]);
    let possible = if left_out.has(Part::CautiousRate) { 0.0 } else { POSSIBLE };
    let fastest = (0..TIME_CONSTANTS).rev().find(|&constant| sums[sleeper][constant] >= most - possible);
    Rate {
        rate: 1.0 / time_constant_ns(fastest.unwrap_or(TIME_CONSTANTS - 1)),
        asleep: SLEEP_MIXINGS[sleeper],
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Chains, EveryNth, Fitted, LeftOut, MIXES, NO_TRACK, SamplePoint, Samples, SleepMixing,
        TIME_CONSTANTS, probability, rate_of, time_constant_ns,
    };
    use energy_trace_model::clock::KtimeNs;

    impl Chains {
        /// From all points, ordered by track and time, and the column of each owner.
        pub(crate) fn new(
            points: &[SamplePoint],
            start: KtimeNs,
            column: impl Fn(u32) -> u32 + Sync,
        ) -> Self {
            Self::of_some((points, None), LeftOut::NOTHING, start, column)
        }
    }

    fn all(points: &[SamplePoint]) -> EveryNth<'_> {
        EveryNth::of_track(points, 0, None)
    }

    /// Samples each 2 ms of CPU time, of what `owner` says ran at that moment.
    fn chains(count: u64, owner: impl Fn(u64) -> u32) -> Chains {
        let at = |i: u64| i * 2_000_000;
        let point =
            |i| SamplePoint { track: 0, at: KtimeNs::from_ns(at(i)), cpu_ns: at(i), owner: owner(at(i)) };
        let points: Vec<SamplePoint> = (0..count).map(point).collect();
        Chains::new(&points, KtimeNs::default(), |owner| owner)
    }

    /// A coin for each millisecond.
    fn coin(at: u64) -> u32 {
        let mixed = (at / 1_000_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u32::from((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 1 == 1)
    }

    /// Phases of 100 ms are remembered for some tens of milliseconds, coins not until the next sample.
    #[test]
    fn time_constants() {
        let slow = chains(5_000, |at| coin(at / 100)).rate(0).rate * 1e6;
        assert!((1.0 / 250.0..1.0 / 30.0).contains(&slow), "forgets each {} ms", 1.0 / slow);
        let fast = chains(5_000, coin).rate(0).rate * 1e6;
        assert!(fast > 1.0, "forgets each {} ms", 1.0 / fast);
    }

    /// A mix that changes after ten seconds is followed, probabilities sum to one, and what is not there has
    /// none.
    #[test]
    fn mixes() {
        let chains = chains(10_000, |at| if at < 10_000_000_000 { coin(at) } else { 2 + coin(at) });
        let at = |seconds: u64| chains.mix(chains.mix_number(0, KtimeNs::from_ns(seconds * 1_000_000_000)));
        let (early, late) = (at(4), at(15));
        assert!(probability(early, 0) > 0.4 && probability(early, 2) < 0.02, "{early:?}");
        assert!(probability(late, 3) > 0.4 && probability(late, 1) < 0.02, "{late:?}");
        assert_eq!(probability(late, 7), 0.0);
        for mix in &chains.mixes {
            assert!((mix.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        }
        assert_eq!(chains.mix(None), []);
    }

    /// Samples so far apart awake and asleep, each in the column of the one before or in another.
    fn apart(pairs: &[(bool, u64, u64)]) -> Vec<SamplePoint> {
        let mut points = vec![SamplePoint { track: 0, at: KtimeNs::default(), cpu_ns: 0, owner: 0 }];
        for &(alike, awake, slept) in pairs {
            let last = points[points.len() - 1];
            let at = KtimeNs::from_ns(last.at.as_ns() + awake + slept);
            points.push(SamplePoint {
                at,
                cpu_ns: last.cpu_ns + awake,
                owner: last.owner ^ u32::from(!alike),
                ..last
            });
        }
        points
    }

    /// ln (e^(−t/τ) [alike] + (1 − e^(−t/τ)) π) by hand, for a distance of one time constant, awake and
    /// asleep; time constants are two thirds of each other.
    #[test]
    fn likelihood_by_hand() {
        let (kept, awake) = ((-1.0_f64).exp(), 30_000_000_000);
        let of = |pairs: &[(bool, u64, u64)], drawn: Vec<f64>| {
            let points = apart(pairs);
            Samples::new(KtimeNs::default(), all(&points), &|owner| owner).likelihoods(&[drawn])[0]
        };
        let (alike, unlike) = ((kept + (1.0 - kept) * 0.3).ln(), ((1.0 - kept) * 0.2).ln());
        let pairs = of(&[(true, awake, 0), (false, awake, 0)], vec![0.3, 0.2]);
        assert!(pairs.iter().all(|of| (of[0] - alike - unlike).abs() < 1e-12));
        let slept = of(&[(true, awake / 3, awake / 3 * 2)], vec![0.3]);
        assert!((slept[1][0] - alike).abs() < 1e-9);
        assert!((slept[2][0] - 0.3_f64.ln()).abs() < 1e-9);
        let short = of(&[(true, 20_000_000_000, 0)], vec![0.3]);
        assert!((short[0][1] - alike).abs() < 1e-9);
        // Of more pairs than are looked at, some stand for all.
        let many = of(&vec![(true, awake, 0); 50_000], vec![0.3; 50_000]);
        assert!((many[0][0] / alike / 50_000.0 - 1.0).abs() < 1e-3);
        // What no time lies between cannot differ.
        let at_once = of(&[(true, 0, 0), (false, 0, 0), (true, awake, 0)], vec![0.3; 3]);
        assert!((at_once[0][0] - 1e-300_f64.ln() - alike).abs() < 1e-9);
    }

    /// Four samples a second apart, in columns 0, 0, 1, 0; each pair is judged without itself, drawn to the
    /// whole run's mix by three samples: (1 + 3 · ¾) / (2 + 3), (0 + 3 · ¼) / 5 and (2 + 3 · ¾) / 5 by hand.
    /// Of the mix afterwards (3 + 3 · ¾) / (4 + 3).
    #[test]
    fn pairs_do_not_testify_for_themselves() {
        let point = |i: u64, owner| SamplePoint {
            track: 0,
            at: KtimeNs::from_ns(i * 1_000_000_000),
            cpu_ns: i * 1_000_000_000,
            owner,
        };
        let points = [point(0, 0), point(1, 0), point(2, 1), point(3, 0)];
        let samples = Samples::new(KtimeNs::default(), all(&points), &|owner| owner);
        let drawn = samples.drawn(MIXES[0].1, u64::MAX, &samples.counts(u64::MAX));
        let of_sleeper = samples.likelihoods(&[drawn])[0];
        let fitted = Fitted { over: MIXES[0], stretch_ns: u64::MAX, of_sleeper };
        let expected = 0.65_f64.ln() + 0.15_f64.ln() + 0.85_f64.ln();
        assert!((fitted.of_sleeper[0][TIME_CONSTANTS - 1] - expected).abs() < 1e-9);
        let mix = &samples.mixes(&fitted, samples.counts(u64::MAX))[0];
        assert!((probability(mix, 0) - 0.75).abs() < 1e-12 && (probability(mix, 1) - 0.25).abs() < 1e-12);
        // Over stretches of a second with their neighbours: the last one has seen 1 and 0.
        let local = Fitted { over: (1_000_000_000, 2.0), stretch_ns: 1_000_000_000, ..fitted };
        let local = samples.mixes(&local, samples.counts(1_000_000_000));
        assert_eq!(local.len(), 4);
        assert!((probability(&local[3], 1) - (1.0 + 2.0 * 0.25) / 4.0).abs() < 1e-12, "{local:?}");
        assert!((probability(&local[0], 0) - (2.0 + 2.0 * 0.75) / 4.0).abs() < 1e-12, "{local:?}");
    }

    /// The fastest rate that is not unlikelier than the likeliest by more than 2; of what is forgotten asleep
    /// the likeliest, of equals the first.
    #[test]
    fn the_fastest_possible_rate() {
        let mut likelihood = [-50.0; TIME_CONSTANTS];
        (likelihood[5], likelihood[8], likelihood[9]) = (-1.0, -2.9, -3.1);
        let fitted = |of_sleeper| Fitted { over: MIXES[0], stretch_ns: 1, of_sleeper };
        let found = rate_of(&fitted([likelihood; 3]), LeftOut::NOTHING);
        assert!((found.rate * time_constant_ns(8) - 1.0).abs() < 1e-12);
        assert_eq!(found.asleep, SleepMixing::Nothing);
        let mut other = [-50.0; TIME_CONSTANTS];
        other[2] = -0.5;
        let found = rate_of(&fitted([likelihood, other, likelihood]), LeftOut::NOTHING);
        assert_eq!(
            (found.asleep, (found.rate * time_constant_ns(2) * 1e9).round()),
            (SleepMixing::AsAwake, 1e9)
        );
    }

    /// Each track has its samples and mixes; time that is not in doubt has none.
    #[test]
    fn each_line_has_its_own() {
        let point = |track, i: u64| SamplePoint {
            track,
            at: KtimeNs::from_ns(i * 1_000_000),
            cpu_ns: i * 1_000_000,
            owner: u32::from(i & 1 == 0),
        };
        let points: Vec<SamplePoint> =
            (0..31).map(|i| point(0, i)).chain((0..31).map(|i| point(1, i))).collect();
        let chains = Chains::new(&points, KtimeNs::default(), |owner| owner);
        assert_eq!((chains.samples(0), chains.samples(1), chains.samples(2)), (31.0, 31.0, 0.0));
        assert_eq!(chains.mix_number(NO_TRACK, KtimeNs::default()), None);
        assert_eq!(chains.mix_number(1, KtimeNs::default()), Some(1));
    }
}
