//! What windows say of the powers of a loop too short for times between samples: by pairs of samples.
//!
//! ```text
//! g_ik = ∫_k (P̂_s(t − t_i) − π) dt           what a sample i of column s says of window k, P̂ by the other half
//! x_ik = what ran in the window beside it: near it P̂ by its own half, farther samples j by how often samples
//!        are so far apart, Σ_j h_k(t_j) (e_j − π) / λ(|t_j − t_i|)              (Horvitz, Thompson 1952)
//! Σ_ik g_ik (y_k − ȳ L_k − x_ik · w) = 0       instruments of a split sample (Angrist, Krueger 1995)
//! ```
//!
//! Nothing is assumed between samples, so that a loop in constant order is no harder than another: it needs
//! samples nearer to each other than its stages are long, which distances from nearly nothing on give. Leaves
//! out several threads, and what the samples' own times are (`split::by_power`).

use super::columns::Columns;
use super::evidence::Evidence;
use super::windows::Windows;
use crate::numerics::normal_equations::NormalEquations;
use crate::time::inter_sample::SamplePoint;
use energy_trace_model::clock::KtimeNs;
use nalgebra::{DMatrix, DVector};

/// Bins of the mean distance of samples; distances, in these, up to which a sample says something of a window.
const BINS: f64 = 10.0;
const NEAR: f64 = 5.0;
/// Samples are farther apart than this on average (s): nobody samples faster, and each has bins up to the longest window.
const SHORTEST: f64 = 5e-5;
/// No window is longer (s).
const LONGEST: f64 = 0.022;
/// Fewer samples say nothing. Pairs are sought among so many, and there are as many columns at most.
const FEWEST_SAMPLES: usize = 500;
const MOST_SAMPLES: usize = 200_000;
const MOST_COLUMNS: usize = 12;
/// The least part of all samples that is as near as one to three bins, in parts of what chance gives.
const FEWEST_NEAR: f64 = 0.1;
/// How often samples so near are alike beyond chance, at least: else stages are shorter than any distance.
const ALIKE: f64 = 0.6;
/// Samples are near to each other up to so many mean distances where it is asked which paths they stay in; and so
/// many pairs are looked at, at least and at most.
const STAY: f64 = 0.3;
const FEWEST_PAIRS: usize = 50;
const MOST_NEAR: usize = 20_000;
/// Up to so many mean distances samples of the same columns stand in for those beside one.
const BESIDE: f64 = 0.5;
/// Samples that are added to those from each column, at each distance, of the usual mix: where errors make
/// instruments weaker, and where they make powers wrong.
const MIXED: f64 = 3.0;
const HARDLY_MIXED: f64 = 0.1;
/// The part of a window that a thread may be without its CPU: interrupts, and what samples cost.
const AWAY: f64 = 0.08;
/// Windows that are looked at, at most, and the least part of these during which the thread was on its CPU.
const MOST_WINDOWS: usize = 12_000;
const LEAST_SEEN: f64 = 0.5;
/// Windows stray together in blocks of this length (s), or of so many in a run; rounds of finding by how much.
const BLOCK: f64 = 0.5;
const MOST_BLOCKS: f64 = 400.0;
const ROUNDS: usize = 3;
/// How well the mean power is known, and what is added to the covariance of moments, in parts.
const MEAN_KNOWN: f64 = 1e-3;
const RIDGE: f64 = 1e-5;
/// How late a counter is on average that moves each millisecond, which times are not moved for where a run does not
/// show it (s); and the standard deviation, there and where it is known to half a millisecond.
const LATE: f64 = 5e-4;
const LATE_DEVIATION: f64 = 2.9e-4;
const KNOWN_DEVIATION: f64 = 1.5e-4;
/// Where in a counter's step its readings are looked at.
const IN_STEP: [f64; 5] = [-0.8, -0.4, 0.0, 0.4, 0.8];

/// What pairs say of powers, and what each block of windows adds to that, as columns.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) equations: NormalEquations,
    pub(crate) scores: DMatrix<f64>,
}

/// A thread's samples on its CPU clock (s), with their columns and each column's part.
struct Samples<'a> {
    points: &'a [SamplePoint],
    at: Vec<f64>,
    column: Vec<usize>,
    parts: DVector<f64>,
}

/// How often samples are so far apart (1/s), and what of each column follows, or goes before, beyond its part.
struct Distances {
    bin: f64,
    often: Vec<f64>,
    /// By half of the run, column and distance (from the farthest before): sums of it up to there (s); and with
    /// less of the usual mix.
    followed: [Vec<DMatrix<f64>>; 2],
    beside: [Vec<DMatrix<f64>>; 2],
}

/// Sums over windows.
struct Sums {
    /// Length of a block (s).
    block: f64,
    /// Of each block: Σ g xᵀ and Σ g y.
    blocks: Vec<(DMatrix<f64>, DVector<f64>)>,
    squares: DMatrix<f64>,
}

/// How late a counter is (s): half of the step in which it moves; what of it times are to be moved by; and how sure
/// that is.
struct Late {
    half_step: f64,
    unknown: f64,
    deviation: f64,
}

/// A window on the thread's CPU clock (s), and its joules.
struct Window {
    start: f64,
    end: f64,
    joules: f64,
}

/// The only thread of a domain; `None` where there are others.
pub(crate) fn only_thread(points: &[SamplePoint]) -> Option<&[SamplePoint]> {
    let busiest = points.chunk_by(|a, b| a.track == b.track).max_by_key(|of| of.len())?;
    (20 * busiest.len() > 19 * points.len()).then_some(busiest)
}

/// Call paths in which samples stay that are near to each other.
pub(crate) fn columns(evidence: &Evidence<'_>) -> Option<Columns> {
    let points = only_thread(evidence.points)?;
    let path = |point: &SamplePoint| evidence.tree.of_owner(point.owner);
    let (first, last) = (points.first()?, points.last()?);
    let near_ns = STAY * last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / points.len() as f64;
    let near =
        points.windows(2).filter(|pair| pair[1].cpu_ns.saturating_sub(pair[0].cpu_ns) as f64 <= near_ns);
    let near: Vec<_> = near.take(MOST_NEAR).map(|pair| (path(&pair[0]), path(&pair[1]))).collect();
    let all: Vec<_> = points.iter().map(path).collect();
    (near.len() >= FEWEST_PAIRS).then(|| Columns::that_stay(evidence.tree, (&near, &all), ALIKE))
}

/// Whether pairs show the powers of these columns.
pub(crate) fn show(columns: &Columns, evidence: &Evidence<'_>) -> bool {
    let samples = only_thread(evidence.points).and_then(|points| Samples::of(points, columns, evidence));
    samples.is_some_and(|samples| Distances::of(&samples).is_some())
}

/// What pairs say of these columns; `None` where samples do not show when they ran.
pub(crate) fn moments(columns: &Columns, windows: &Windows, evidence: &Evidence<'_>) -> Option<Moments> {
    moments_later(columns, windows, evidence, 0.0)
}

/// The same if windows were so many standard deviations later, as far as a counter's delay is known.
pub(crate) fn moments_later(
    columns: &Columns,
    windows: &Windows,
    evidence: &Evidence<'_>,
    deviations: f64,
) -> Option<Moments> {
    // Pairs have one power for each column, contended ones two.
    let points = only_thread(evidence.points).filter(|_| !evidence.settings.contended)?;
    let samples = Samples::of(points, columns, evidence)?;
    let distances = Distances::of(&samples)?;
    let late = Late::of(evidence);
    let shift = deviations * late.deviation - late.unknown;
    let some = (0..windows.len()).step_by(windows.len().div_ceil(MOST_WINDOWS).max(1));
    let windows: Vec<Window> = some.clone().filter_map(|k| samples.window(windows, k, shift)).collect();
    let (joules, seconds) = windows
        .iter()
        .fold((0.0, 0.0), |sum, window| (sum.0 + window.joules, sum.1 + window.end - window.start));
    if windows.len() as f64 <= LEAST_SEEN * some.len() as f64 {
        return None;
    }
    let mean = Some(joules / seconds).filter(|mean| *mean > 0.0)?;
    let mut sums = Sums::new(columns.len(), *samples.at.last()?);
    for window in &windows {
        sums.add(window, mean, late.half_step, &samples, &distances);
    }
    sums.solve(mean, &samples.parts)
}

impl<'a> Samples<'a> {
    fn of(points: &'a [SamplePoint], columns: &Columns, evidence: &Evidence<'_>) -> Option<Self> {
        if points.len() < FEWEST_SAMPLES || !(2..=MOST_COLUMNS).contains(&columns.len()) {
            return None;
        }
        let of_owners = columns.of_owners(evidence.tree);
        let column: Vec<usize> = points.iter().map(|point| of_owners.of(point.owner) as usize).collect();
        let mut parts = DVector::zeros(columns.len());
        column.iter().for_each(|column| parts[*column] += 1.0 / points.len() as f64);
        let at = points.iter().map(|point| point.cpu_ns as f64 / 1e9).collect();
        Some(Self { points, at, column, parts })
    }

    fn distance(&self) -> f64 {
        (self.at[self.at.len() - 1] - self.at[0]) / self.at.len() as f64
    }

    /// The number of the samples before a moment of the CPU clock.
    fn until(&self, at: f64) -> usize {
        self.at.partition_point(|sample| *sample < at)
    }

    /// In which half of the run a sample is.
    fn half(&self, sample: usize) -> usize {
        self.at[sample] as usize % 2
    }

    /// A window during which the thread was on its CPU.
    fn window(&self, windows: &Windows, number: usize, shift: f64) -> Option<Window> {
        let (start, end) = windows.span(number)?;
        let before = |at: KtimeNs| self.points.partition_point(|point| point.at <= at).checked_sub(1);
        let (first, last) = (before(start)?, before(end)? + 1);
        let (first, last) = (self.points.get(first)?, self.points.get(last)?);
        let (all, busy) =
            (last.at.ns_since(first.at) as f64, last.cpu_ns.saturating_sub(first.cpu_ns) as f64);
        let on_cpu = |at: KtimeNs| (first.cpu_ns + at.ns_since(first.at)) as f64 / 1e9;
        let (start, end) = (on_cpu(start) + shift, on_cpu(end) + shift);
        let window = Window { start, end, joules: windows.joules[number] };
        (all - busy < AWAY * all && window.end - window.start < LONGEST).then_some(window)
    }
}

impl Late {
    const fn of(evidence: &Evidence<'_>) -> Self {
        match evidence.settings.delay_ns {
            0 => Self { half_step: LATE, unknown: LATE, deviation: LATE_DEVIATION },
            known => Self { half_step: known as f64 / 1e9, unknown: 0.0, deviation: KNOWN_DEVIATION },
        }
    }
}

impl Distances {
    fn of(samples: &Samples<'_>) -> Option<Self> {
        let mean = Some(samples.distance()).filter(|mean| *mean > SHORTEST)?;
        let bin = mean / BINS;
        let count = ((NEAR * mean + LONGEST) / bin) as usize + 2;
        let some = samples.at.len().min(MOST_SAMPLES);
        let columns = samples.parts.len();
        let mut pairs = vec![0.0; count];
        let mut seen = [0, 1].map(|_| vec![DMatrix::<f64>::zeros(columns, columns); 2 * count]);
        for first in 0..some {
            for second in first + 1..some {
                let apart = ((samples.at[second] - samples.at[first]) / bin) as usize;
                if apart >= count {
                    break;
                }
                pairs[apart] += 1.0;
                let (a, b) = (samples.column[first], samples.column[second]);
                seen[samples.half(first)][count + apart][(a, b)] += 1.0;
                seen[samples.half(first)][count - 1 - apart][(b, a)] += 1.0;
            }
        }
        let often: Vec<f64> = pairs.iter().map(|pairs| pairs / (some as f64 * bin)).collect();
        let enough = often.get(1..4)?.iter().sum::<f64>() / 3.0 >= FEWEST_NEAR / mean
            && often[1..].iter().all(|often| *often > 0.2 * FEWEST_NEAR / mean);
        let near: f64 =
            (1..3).flat_map(|at| [&seen[0][count + at], &seen[1][count + at]]).map(DMatrix::trace).sum();
        let by_chance = samples.parts.norm_squared();
        let alike = (near / (pairs[1] + pairs[2]) - by_chance) / (1.0 - by_chance);
        let sums = |mixed: f64| [0, 1].map(|half: usize| sums_of(&seen[half], &samples.parts, (bin, mixed)));
        let can = enough && alike >= ALIKE;
        can.then(|| Self { bin, often, followed: sums(MIXED), beside: sums(HARDLY_MIXED) })
    }

    /// Adds what a sample says of the time from one moment after it to another, beyond each column's part (s), by
    /// one of the tables.
    fn add(
        &self,
        table: &[DMatrix<f64>],
        column: usize,
        (from, to): (f64, f64),
        factor: f64,
        sum: &mut DVector<f64>,
    ) {
        for (after, factor) in [(from, -factor), (to, factor)] {
            let place = (after / self.bin + (table.len() / 2) as f64).clamp(0.0, table.len() as f64 - 1.001);
            let (at, part) = (place as usize, place.fract());
            for (column_of, sum) in sum.iter_mut().enumerate() {
                let (before, behind) = (table[at][(column, column_of)], table[at + 1][(column, column_of)]);
                *sum += factor * (before * (1.0 - part) + behind * part);
            }
        }
    }
}

/// Sums over distances of what follows each column beyond its part, from pairs by distance.
fn sums_of(seen: &[DMatrix<f64>], parts: &DVector<f64>, (bin, mixed): (f64, f64)) -> Vec<DMatrix<f64>> {
    let (columns, middle) = (parts.len(), seen.len() / 2);
    let smooth = |at: usize| {
        let of = |at: usize| &seen[at.min(seen.len() - 1)];
        let pairs = (of(at.saturating_sub(1)) + of(at + 1)) * 0.25 + of(at) * 0.5;
        DMatrix::from_fn(columns, columns, |row, column| {
            (pairs[(row, column)] + mixed * parts[column]) / (pairs.row(row).sum() + mixed) - parts[column]
        })
    };
    let here =
        DMatrix::from_fn(columns, columns, |row, column| f64::from(u8::from(row == column)) - parts[column]);
    let of = |at: usize| match at {
        at if at == middle => here.clone() * (2.0 / 3.0) + smooth(at + 1) / 3.0,
        at if at + 1 == middle => here.clone() * (2.0 / 3.0) + smooth(at - 1) / 3.0,
        at => smooth(at),
    };
    let mut sums = vec![DMatrix::zeros(columns, columns)];
    for at in 0..seen.len() {
        sums.push(&sums[at] + of(at) * bin);
    }
    sums
}

impl Sums {
    fn new(columns: usize, seconds: f64) -> Self {
        let nothing = (DMatrix::zeros(columns, columns), DVector::zeros(columns));
        let block = BLOCK.max(seconds / MOST_BLOCKS);
        let blocks = vec![nothing; (seconds / block) as usize + 1];
        Self { block, blocks, squares: DMatrix::zeros(columns, columns) }
    }

    fn add(&mut self, window: &Window, mean: f64, delay: f64, samples: &Samples<'_>, distances: &Distances) {
        let beyond = window.joules - mean * (window.end - window.start);
        let near = NEAR * samples.distance() + delay;
        let inside = samples.until(window.start - delay)..samples.until(window.end + delay);
        let mut all = DVector::zeros(samples.parts.len());
        let block = ((window.start / self.block) as usize).min(self.blocks.len() - 1);
        for sample in samples.until(window.start - near)..samples.until(window.end + near) {
            let instrument = instrument(window, delay, sample, samples, distances);
            let beside = beside(window, delay, sample, inside.clone(), samples, distances);
            let (product, energy) = &mut self.blocks[block];
            product.ger(1.0, &instrument, &beside, 1.0);
            energy.axpy(beyond, &instrument, 1.0);
            all += instrument;
        }
        self.squares.ger(1.0, &all, &all, 1.0);
    }

    /// Equations for powers.
    fn solve(&self, mean: f64, parts: &DVector<f64>) -> Option<Moments> {
        let columns = parts.len();
        let nothing = (DMatrix::zeros(columns, columns), DVector::zeros(columns));
        let (product, energy) =
            self.blocks.iter().fold(nothing, |sum, block| (sum.0 + &block.0, sum.1 + &block.1));
        let ridge = DMatrix::identity(columns, columns) * (self.squares.trace() / columns as f64 * RIDGE);
        let weights = (&self.squares + ridge).cholesky()?.inverse();
        let usual = DMatrix::identity(columns, columns) / (0.36 * mean * mean)
            + parts * parts.transpose() / (MEAN_KNOWN * mean).powi(2);
        let (mut spread, mut moments) = (1.0, None);
        for _ in 0..ROUNDS {
            let weighed = product.transpose() * &weights / spread;
            let gram = &weighed * &product;
            let beyond = (&gram + &usual).cholesky()?.solve(&(&weighed * &energy));
            let of_block = |block: &(DMatrix<f64>, DVector<f64>)| &block.1 - &block.0 * &beyond;
            let strays = DMatrix::from_columns(&self.blocks.iter().map(of_block).collect::<Vec<_>>());
            let seen =
                |c: usize| (parts[c] > 0.0).then(|| strays.row(c).norm_squared() / self.squares[(c, c)]);
            let squares: Vec<f64> = (0..columns).filter_map(seen).collect();
            let next = squares.iter().sum::<f64>() / squares.len() as f64;
            let target = &weighed * &energy + &gram * DVector::from_element(columns, mean);
            let mut equations = NormalEquations { gram, target };
            let row: Vec<(usize, f64)> = parts.iter().copied().enumerate().collect();
            equations.add_row(&row, mean, (MEAN_KNOWN * mean).powi(-2));
            moments = Some(Moments { equations, scores: weighed * strays });
            spread = next.max(f64::EPSILON);
        }
        moments
    }
}

/// Which part of a moment's energy the counter shows in a window, whose ends are uncertain by a delay.
fn part_in(window: &Window, delay: f64, at: f64) -> f64 {
    let before = |end: f64| match delay {
        delay if delay > 0.0 => ((end - at) / (2.0 * delay) + 0.5).clamp(0.0, 1.0),
        _ => f64::from(u8::from(at < end)),
    };
    before(window.end) - before(window.start)
}

/// What a sample says of a window.
fn instrument(
    window: &Window,
    delay: f64,
    sample: usize,
    samples: &Samples<'_>,
    distances: &Distances,
) -> DVector<f64> {
    let (at, table) = (samples.at[sample], &distances.followed[1 - samples.half(sample)]);
    let mut sum = DVector::zeros(samples.parts.len());
    for late in IN_STEP {
        let span = (window.start + late * delay - at, window.end + late * delay - at);
        distances.add(table, samples.column[sample], span, 1.0 / IN_STEP.len() as f64, &mut sum);
    }
    sum
}

/// What ran in a window beyond each column's part, as a sample and others beside it show.
fn beside(
    window: &Window,
    delay: f64,
    sample: usize,
    inside: std::ops::Range<usize>,
    samples: &Samples<'_>,
    distances: &Distances,
) -> DVector<f64> {
    let (at, table) = (samples.at[sample], &distances.beside[samples.half(sample)]);
    let near = BESIDE * samples.distance();
    let mut sum = DVector::zeros(samples.parts.len());
    for late in IN_STEP {
        let to = |end: f64| (end + late * delay - at).clamp(-near, near);
        let span = (to(window.start), to(window.end));
        distances.add(table, samples.column[sample], span, 1.0 / IN_STEP.len() as f64, &mut sum);
    }
    let mut all = 0.0;
    for other in inside {
        let apart = (samples.at[other] - at).abs();
        let Some(often) = distances.often.get((apart / distances.bin) as usize).filter(|_| apart >= near)
        else {
            continue;
        };
        let seconds = part_in(window, delay, samples.at[other]) / often;
        sum[samples.column[other]] += seconds;
        all += seconds;
    }
    sum - &samples.parts * all
}

#[cfg(test)]
mod tests {
    use super::{Columns, Evidence, KtimeNs, Moments, SamplePoint, Windows, moments, only_thread, show};
    use crate::between_samples::interval_slices::IntervalSlices;
    use crate::power_model::settings::Settings;
    use crate::power_model::tests::toy::flat_tree;
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::units::MicroJoules;

    const WATTS: [f64; 2] = [40.0, 10.0];
    const SECONDS: f64 = 30.0;

    /// A number that looks like chance, from 0 to 1.
    fn chance(number: u64) -> f64 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Times at random distances from half to one and a half of these seconds.
    fn times(apart: f64, from: u64) -> Vec<f64> {
        let mut at = 0.0;
        let next = |number| {
            at += apart * (0.5 + chance(number));
            at
        };
        (from..).map(next).take_while(|at| *at < SECONDS).collect()
    }

    /// Samples of a loop of two stages (ms), nine tenths of them and one tenth apart from each other if `near`.
    fn points(stages: [f64; 2], near: bool) -> Vec<SamplePoint> {
        let mut at = times(if near { 1.0 / 450.0 } else { 1.0 / 499.0 }, 1);
        at.extend(times(1.0 / 49.0, 1 << 32).into_iter().filter(|_| near));
        at.sort_by(f64::total_cmp);
        let owner = |at: f64| u32::from(1e3 * at % (stages[0] + stages[1]) >= stages[0]);
        let point = |(owner, ns)| SamplePoint { track: 0, at: KtimeNs::from_ns(ns), cpu_ns: ns, owner };
        at.into_iter().map(|at| (owner(at), (at * 1e9) as u64)).map(point).collect()
    }

    /// What pairs say of the loop, whose counter moves each so many seconds.
    fn said(stages: [f64; 2], near: bool, step: f64) -> Option<(Moments, f64)> {
        let (points, tree) = (points(stages, near), flat_tree(2));
        let turn = stages[0] + stages[1];
        let joules = |at: f64| {
            let (whole, part) = ((1e3 * at / turn).floor(), 1e3 * at % turn);
            let of = |ms: [f64; 2]| (ms[0] * WATTS[0] + ms[1] * WATTS[1]) / 1e3;
            whole * of(stages) + of([part.min(stages[0]), (part - stages[0]).max(0.0)])
        };
        let shown = |at: f64| if step > 0.0 { joules((at / step).floor() * step) } else { joules(at) };
        let at = times(0.01, 1 << 48);
        let moved = |at: f64| KtimeNs::from_ns(((at - step / 2.0) * 1e9) as u64);
        let interval = |pair: &[f64]| {
            let energy = MicroJoules::from_uj(((shown(pair[1]) - shown(pair[0])) * 1e6) as i64);
            EnergyInterval { span: Span { start: moved(pair[0]), end: moved(pair[1]) }, energy }
        };
        let intervals: Vec<EnergyInterval> = at.windows(2).map(interval).collect();
        let dynamic: Vec<MicroJoules> = intervals.iter().map(|interval| interval.energy).collect();
        let windows = Windows::of_intervals(&intervals, &dynamic);
        let evidence = Evidence {
            intervals: &intervals,
            dynamic: &dynamic,
            slices: IntervalSlices::NONE,
            points: &points,
            start: KtimeNs::default(),
            tree: &tree,
            carried: None,
            settings: Settings { delay_ns: (step / 2.0 * 1e9) as u64, ..Settings::default() },
        };
        let columns = Columns::of_paths(vec![2, 3], vec![0, 0, 0, 1]);
        let settings = Settings { contended: true, ..evidence.settings };
        assert!(moments(&columns, &windows, &Evidence { settings, ..evidence }).is_none());
        let mean = (stages[0] * WATTS[0] + stages[1] * WATTS[1]) / turn;
        assert_eq!(show(&columns, &evidence), moments(&columns, &windows, &evidence).is_some());
        Some((moments(&columns, &windows, &evidence)?, mean))
    }

    /// A loop of 10 ms at 499 Hz, with a prompt counter and one that moves each millisecond: powers are within
    /// their deviation times three, which is a tenth at most.
    #[test]
    fn powers_of_a_short_loop() {
        for step in [0.0, 1e-3] {
            let (moments, mean) = said([4.0, 6.0], true, step).unwrap();
            let mut equations = moments.equations;
            equations.add_prior(mean, 1.0 / (0.36 * mean * mean));
            let deviations = equations.factor().unwrap().inverse().diagonal().map(f64::sqrt);
            let found = equations.solve(mean, 0.01 * mean);
            for ((found, deviation), watts) in found.iter().zip(&deviations).zip(WATTS) {
                assert!((found - watts).abs() < 3.0 * deviation, "{found} ± {deviation}: {watts}");
                assert!(*deviation < 0.1 * mean, "{found} ± {deviation}: {watts}");
            }
        }
    }

    /// Without samples that are near to each other, of stages that are shorter than those, and of two threads
    /// nothing is said.
    #[test]
    fn what_pairs_do_not_show() {
        assert!(said([4.0, 6.0], false, 1e-3).is_none());
        assert!(said([0.3, 0.4], true, 1e-3).is_none());
        let mut two = points([4.0, 6.0], true);
        assert_eq!(only_thread(&two).map(<[_]>::len), Some(two.len()));
        let half = two.len() / 2;
        two[half..].iter_mut().for_each(|point| point.track = 1);
        assert!(only_thread(&two).is_none() && only_thread(&[]).is_none());
    }
}
