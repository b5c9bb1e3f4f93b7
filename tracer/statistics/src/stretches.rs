//! Cuts a series of mixes into stretches that differ in what they are made of.
//!
//! Of all cuts into stretches that are long enough, the one with the least squared distance of intervals from their stretch's mix, plus a price
//! for each stretch: optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12 (2005), 105–108). Neighbours that differ too little
//! are one again, the most alike first: by how much a part must differ is asked for, and it must be beyond chance too, as each part is counted in
//! samples. What lasted less than the shortest stretch was cut with a part of its neighbour; so each limit is then set where it is best between the
//! two beside it. Deterministic; n² steps for n intervals. Leaves out what mixes are of (`energy_trace_report::phases`).

use std::ops::{Add, AddAssign, Range};

/// So many standard errors are no chance: of a run some thousand pairs of stretches are looked at.
const BEYOND_CHANCE: f64 = 5.0;
/// The part of the shortest stretch that is left where limits are set anew.
const OF_SHORTEST: usize = 3;
/// How often all limits are set anew: each moves with its neighbours.
const ROUNDS: usize = 4;

/// An interval of a series, or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mix {
    /// How much there is.
    pub weight: f64,
    /// How many samples say what it is made of.
    pub samples: f64,
    /// How much of it is of each feature; features may overlap.
    pub of: Vec<f64>,
}

/// What stretches must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Intervals of the shortest one.
    pub shortest: usize,
    /// By how much the part of some feature must differ.
    pub least: f64,
}

impl Mix {
    /// The part of a feature, from 0 to 1.
    pub fn part(&self, feature: usize) -> f64 {
        let of = self.of.get(feature).copied().unwrap_or(0.0);
        if self.weight > 0.0 { (of / self.weight).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// How far two are from each other, in what is the least to tell them apart: from 1 on they differ.
    pub fn distance(&self, other: &Self, least: f64) -> f64 {
        let both = self.clone() + other;
        let per_sample = 1.0 / self.samples.max(1.0) + 1.0 / other.samples.max(1.0);
        let of_feature = |feature: usize| {
            let part = both.part(feature);
            let chance = BEYOND_CHANCE * (part * (1.0 - part) * per_sample).sqrt();
            (self.part(feature) - other.part(feature)).abs() / least.max(chance)
        };
        (0..both.of.len()).map(of_feature).fold(0.0, f64::max)
    }
}

impl AddAssign<&Self> for Mix {
    fn add_assign(&mut self, other: &Self) {
        self.weight += other.weight;
        self.samples += other.samples;
        self.of.resize(self.of.len().max(other.of.len()), 0.0);
        self.of.iter_mut().zip(&other.of).for_each(|(of, more)| *of += more);
    }
}

impl Add<&Self> for Mix {
    type Output = Self;
    fn add(mut self, other: &Self) -> Self {
        self += other;
        self
    }
}

/// The sum of mixes.
pub fn sum<'a>(mixes: impl IntoIterator<Item = &'a Mix>) -> Mix {
    mixes.into_iter().fold(Mix::default(), Mix::add)
}

/// The stretches of a series, one behind the other; one, where all of it is alike.
pub fn stretches(series: &[Mix], limits: Limits) -> Vec<Range<usize>> {
    let sums = Sums::of(series);
    let mut cut = best_cut(&sums, series.len(), limits);
    join_alike(series, &mut cut, limits.least);
    set_limits(&sums, &mut cut, limits.shortest.div_ceil(OF_SHORTEST).max(1));
    join_alike(series, &mut cut, limits.least);
    cut
}

/// Makes neighbours that differ too little one, the most alike first.
fn join_alike(series: &[Mix], cut: &mut Vec<Range<usize>>, least: f64) {
    let mut mixes: Vec<Mix> = cut.iter().map(|range| sum(&series[range.clone()])).collect();
    while let Some(first) = most_alike(&mixes, least) {
        let (mix, range) = (mixes.remove(first + 1), cut.remove(first + 1));
        mixes[first] += &mix;
        cut[first].end = range.end;
    }
}

/// The first of the two neighbours that are most alike, where some are too much so.
fn most_alike(mixes: &[Mix], least: f64) -> Option<usize> {
    let distances = mixes.windows(2).map(|pair| pair[0].distance(&pair[1], least)).enumerate();
    distances.filter(|(_, distance)| *distance < 1.0).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// Which stretches are of one kind: for each the number of its kind, in order of appearance.
pub fn kinds(series: &[Mix], stretches: &[Range<usize>], least: f64) -> Vec<usize> {
    let mut kinds: Vec<Mix> = Vec::new();
    let mut kind_of = |range: &Range<usize>| {
        let mix = sum(&series[range.clone()]);
        let distances = kinds.iter().map(|kind| kind.distance(&mix, least)).enumerate();
        let nearest = distances.filter(|(_, distance)| *distance < 1.0).min_by(|a, b| a.1.total_cmp(&b.1));
        let at = nearest.map_or(kinds.len(), |(at, _)| at);
        match kinds.get_mut(at) {
            Some(kind) => *kind += &mix,
            None => kinds.push(mix),
        }
        at
    };
    stretches.iter().map(&mut kind_of).collect()
}

/// Sums up to each interval, with weights of 1 on average.
struct Sums {
    upto: Vec<Mix>,
    squares: Vec<f64>,
}

impl Sums {
    fn of(series: &[Mix]) -> Self {
        let scale = series.len() as f64 / sum(series).weight.max(f64::MIN_POSITIVE);
        let (mut upto, mut squares) = (vec![Mix::default()], vec![0.0]);
        let (mut all, mut square) = (Mix::default(), 0.0);
        for mix in series {
            let of = mix.of.iter().map(|of| of * scale).collect();
            all += &Mix { weight: mix.weight * scale, samples: mix.samples, of };
            square += (0..mix.of.len()).map(|at| mix.weight * scale * mix.part(at).powi(2)).sum::<f64>();
            upto.push(all.clone());
            squares.push(square);
        }
        Self { upto, squares }
    }

    /// The squared distance of intervals from what all of them are made of together.
    fn spread(&self, from: usize, to: usize) -> f64 {
        let (before, all) = (&self.upto[from], &self.upto[to]);
        let weight = all.weight - before.weight;
        if weight <= 0.0 {
            return 0.0;
        }
        // The sum before everything has no features yet.
        let of_before = before.of.iter().copied().chain(std::iter::repeat(0.0));
        let common: f64 = all.of.iter().zip(of_before).map(|(all, before)| (all - before).powi(2)).sum();
        self.squares[to] - self.squares[from] - common / weight
    }
}

/// Sets each limit of a cut where both stretches beside it are most alike in themselves.
fn set_limits(sums: &Sums, cut: &mut [Range<usize>], shortest: usize) {
    let count = cut.len();
    for at in (0..ROUNDS).flat_map(|_| 1..count) {
        let (from, to) = (cut[at - 1].start, cut[at].end);
        let cost = |limit: &usize| sums.spread(from, *limit) + sums.spread(*limit, to);
        let places = from + shortest..(to + 1).saturating_sub(shortest);
        if let Some(limit) = places.min_by(|a, b| cost(a).total_cmp(&cost(b))) {
            (cut[at - 1].end, cut[at].start) = (limit, limit);
        }
    }
}

/// The best cut: that of the part up to each interval, by what is best up to the ones before.
fn best_cut(sums: &Sums, count: usize, limits: Limits) -> Vec<Range<usize>> {
    let shortest = limits.shortest.max(1);
    // What the least difference over the shortest stretch is worth.
    let price = shortest as f64 * limits.least.powi(2);
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0].0 = 0.0;
    for to in shortest..=count {
        for from in 0..=to - shortest {
            let cost = best[from].0 + sums.spread(from, to) + price;
            if cost < best[to].0 {
                best[to] = (cost, from);
            }
        }
    }
    let mut cut = Vec::new();
    let mut end = count;
    while end > 0 {
        let from = best[end].1;
        cut.push(from..end);
        end = from;
    }
    cut.reverse();
    cut
}

#[cfg(test)]
mod tests {
    use super::{Limits, Mix, kinds, stretches};
    use std::ops::Range;

    const LIMITS: Limits = Limits { shortest: 10, least: 0.3 };

    /// An interval with so many samples, each of which is of the features that `of` says.
    fn interval(
        random: &mut fastrand::Rng,
        samples: usize,
        of: impl Fn(&mut fastrand::Rng) -> Vec<usize>,
    ) -> Mix {
        let mut mix = Mix { weight: samples as f64, samples: samples as f64, of: vec![0.0; 6] };
        for _ in 0..samples {
            of(random).into_iter().for_each(|feature| mix.of[feature] += 1.0);
        }
        mix
    }

    /// One in so many of feature 1, the rest of feature 2; all of feature 0.
    fn mixed(share: f64) -> impl Fn(&mut fastrand::Rng) -> Vec<usize> {
        move |random| vec![0, if random.f64() < share { 1 } else { 2 }]
    }

    /// Training: forward and backward, 1 to 2; evaluation: forward alone.
    fn training(random: &mut fastrand::Rng) -> Vec<usize> {
        if random.f64() < 0.33 { vec![0, 3, 1] } else { vec![0, 3, 2] }
    }

    fn evaluation(_: &mut fastrand::Rng) -> Vec<usize> {
        vec![0, 4, 1]
    }

    /// Steady programs are one stretch: mixes of all shares, steps that are longer or shorter than an interval, power that moves, few samples.
    #[test]
    fn steady_programs_are_one_stretch() {
        let mut cut = 0;
        for seed in 0..40 {
            let mut random = fastrand::Rng::with_seed(seed);
            let random = &mut random;
            let mut runs: Vec<Vec<Mix>> = Vec::new();
            for share in [0.02, 0.3, 0.5, 0.9] {
                runs.push((0..150).map(|_| interval(random, 10, mixed(share))).collect());
                runs.push((0..150).map(|_| interval(random, 2, mixed(share))).collect());
            }
            // Steps of three and of seven intervals, a third of each of it forward.
            for step in [3, 7] {
                let phase = |at: usize| if at % step < step / 3 { 1.0 } else { 0.0 };
                runs.push((0..150).map(|at| interval(random, 10, mixed(phase(at)))).collect());
            }
            let mut moving: Vec<Mix> = (0..150).map(|_| interval(random, 10, mixed(0.5))).collect();
            for mix in &mut moving {
                let power = 0.2 + 3.0 * random.f64();
                mix.weight *= power;
                mix.of.iter_mut().for_each(|of| *of *= power);
            }
            runs.push(moving);
            cut += runs.iter().filter(|run| stretches(run, LIMITS).len() != 1).count();
        }
        assert_eq!(cut, 0, "of 440 runs");
    }

    /// Trainings and evaluations by turns are told apart, each limit right to an interval, and are two kinds; with noise of other work beside them.
    #[test]
    fn turns_are_found() {
        let lengths = [40, 12, 40, 12, 40, 25];
        let mut worst = 0;
        for seed in 0..40 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut run = Vec::new();
            for (turn, &length) in lengths.iter().enumerate() {
                let kind = if turn % 2 == 0 { training } else { evaluation };
                let noisy =
                    |random: &mut fastrand::Rng| if random.f64() < 0.2 { vec![5] } else { kind(random) };
                run.extend((0..length).map(|_| interval(&mut random, 10, noisy)));
            }
            let found = stretches(&run, LIMITS);
            assert_eq!(found.len(), lengths.len(), "seed {seed}: {found:?}");
            let mut end = 0;
            for (range, length) in found.iter().zip(lengths) {
                end += length;
                worst = worst.max(range.end.abs_diff(end));
            }
            assert_eq!(kinds(&run, &found, LIMITS.least), [0, 1, 0, 1, 0, 1]);
        }
        assert!(worst <= 1, "{worst} intervals");
    }

    /// What lasts less than the shortest stretch has its own limits, and leaves those of its neighbours where they are: at the start, between two others
    /// and at the end.
    #[test]
    fn short_ones_have_their_limits() {
        let mut random = fastrand::Rng::with_seed(7);
        for short in [5, 6, 8] {
            let lengths = [short, 60, short, 60, short];
            let mut run = Vec::new();
            for (turn, &length) in lengths.iter().enumerate() {
                let kind = if turn % 2 == 0 { evaluation } else { training };
                run.extend((0..length).map(|_| interval(&mut random, 10, kind)));
            }
            let found: Vec<usize> = stretches(&run, LIMITS).iter().map(Range::len).collect();
            assert_eq!(found, lengths, "{short}");
        }
    }

    /// What is too short, or differs too little, or lasts for too few samples, is no stretch of its own.
    #[test]
    fn limits_are_kept() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut run = |parts: &[(usize, f64, usize)]| {
            let intervals = parts.iter().flat_map(|&(count, share, samples)| vec![(share, samples); count]);
            intervals.map(|(share, samples)| interval(&mut random, samples, mixed(share))).collect::<Vec<_>>()
        };
        let count = |run: &[Mix]| stretches(run, LIMITS).len();
        assert_eq!(count(&run(&[(50, 0.0, 50), (2, 1.0, 50), (50, 0.0, 50)])), 1);
        assert_eq!(count(&run(&[(50, 0.4, 50), (50, 0.6, 50)])), 1);
        assert_eq!(count(&run(&[(50, 0.3, 50), (50, 0.7, 50)])), 2);
        assert_eq!(count(&run(&[(20, 0.0, 50), (10, 1.0, 50), (20, 0.0, 50)])), 3);
        let few: Vec<Range<usize>> = stretches(&run(&[(10, 0.2, 1), (10, 0.7, 1)]), LIMITS);
        assert_eq!((few.len(), few.first()), (1, Some(&(0..20))));
    }

    /// Nothing, one interval, no weight, and numbers that are none: always stretches that tile the series.
    #[test]
    fn whatever_comes() {
        let odd = |weight: f64, of: f64| Mix { weight, samples: 1.0, of: vec![of, -of] };
        let series: [Vec<Mix>; 6] = [
            vec![],
            vec![odd(1.0, 1.0)],
            vec![odd(0.0, 0.0); 50],
            vec![odd(f64::NAN, 1.0); 50],
            vec![odd(f64::MAX, f64::MAX); 50],
            (0..50).map(|at| Mix { of: vec![1.0; at], ..odd(1.0, 1.0) }).collect(),
        ];
        for series in series {
            let found = stretches(&series, LIMITS);
            let ends: Vec<usize> = found.iter().map(|range| range.end).collect();
            let starts: Vec<usize> = found.iter().map(|range| range.start).collect();
            assert_eq!(starts.first().copied().unwrap_or(0), 0);
            assert!(starts.iter().skip(1).eq(ends.iter().take(ends.len().saturating_sub(1))));
            assert_eq!(ends.last().copied().unwrap_or(0), series.len());
            assert_eq!(kinds(&series, &found, 0.3).len(), found.len());
        }
    }
}
