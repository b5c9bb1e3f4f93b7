//! What windows say of the powers of a loop too short for times between samples: by pairs of samples.
//!
//! ```text
//! g_ik = ∫_k (P̂_s(t − t_i) − π) dt           what a sample i of column s says of window k, P̂ by the other half
//! x_ik = what ran in the window beside it: near it P̂ by its own half, farther samples j by how often samples
//!        are so far apart, Σ_j h_k(t_j) (e_j − π) / λ(|t_j − t_i|)              (Horvitz, Thompson 1952)
//! Σ_ik g_ik (y_k − ȳ L_k − x_ik · w) = 0       instruments of a split sample (Angrist, Krueger 1995)
//! Σ_ik (w · g'_ik) (y_k − ȳ L_k − x_ik · w)    vanishes at the counter's own delay; g' is what g changes by if the
//!                                              window is later
//! ```
//!
//! Nothing is assumed between samples, so that a loop in constant order is no harder than another: it needs
//! samples nearer to each other than its stages are long, which distances from nearly nothing on give. Leaves out
//! several threads, and what the samples' own times are (`split::by_power`).

use super::columns::Columns;
use super::distances::{ALIKE, BESIDE, Distances, GROUPS, LONGEST, NEAR, Samples, Table};
use super::evidence::Evidence;
use super::windows::Windows;
use crate::numerics::normal_equations::NormalEquations;
use crate::numerics::parallel::map;
use crate::time::inter_sample::SamplePoint;
use energy_trace_model::clock::KtimeNs;
use nalgebra::{DMatrix, DVector};
use std::sync::Arc;

/// Fewer samples say nothing; and there are as many columns at most.
const FEWEST_SAMPLES: usize = 500;
const MOST_COLUMNS: usize = 12;
/// Samples are near to each other up to so many mean distances where it is asked which paths they stay in; and so
/// many pairs are looked at, at least and at most.
const STAY: f64 = 0.3;
const FEWEST_PAIRS: usize = 50;
const MOST_NEAR: usize = 20_000;
/// The part of the domain's CPU time that all others may have: their power is not told apart.
const MOST_OF_OTHERS: f64 = 0.05;
/// The part of a window that a thread may be without its CPU: interrupts, and what samples cost.
const AWAY: f64 = 0.08;
/// Windows that are looked at, at most, and pairs of samples that are looked at in these; and the least part of windows during which
/// the thread was on its CPU.
const MOST_WINDOWS: usize = 12_000;
const MOST_LOOKED_AT: f64 = 1e7;
const LEAST_SEEN: f64 = 0.5;
/// Windows stray together in blocks of this length (s), or of so many in a run; rounds of finding by how much.
const BLOCK: f64 = 0.5;
const MOST_BLOCKS: f64 = 400.0;
const ROUNDS: usize = 3;
/// How well the mean power is known, and what is added to the covariance of moments, in parts.
const MEAN_KNOWN: f64 = 1e-3;
const RIDGE: f64 = 1e-5;
/// How late a counter may be on average (s), half of the step in which it moves; and how likely that is beforehand,
/// against the likeliest: mostly they move at once or each millisecond.
const DELAYS: [(f64, f64); 5] = [(0.0, 1.0), (2.5e-4, 0.25), (5e-4, 1.0), (7.5e-4, 0.25), (1e-3, 0.25)];
/// By how much more what shows it strays than blocks do, at least: W1j and W2a at 99 Hz.
const LEAST_SCALE: f64 = 1.5;
/// 95 % of Student's t with 31 degrees of freedom, in parts of the normal variable's.
const FEW_GROUPS: f64 = 2.040 / 1.96;
/// How well it is known where windows show it (s).
const KNOWN_DEVIATION: f64 = 1.5e-4;

/// What pairs say of powers, and what each group of windows adds to that, as columns.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// By delay of the counter, the likeliest one first: how likely it is, and the equations with it.
    pub(crate) delays: Vec<(f64, NormalEquations)>,
    pub(crate) scores: DMatrix<f64>,
}

/// Sums over windows.
struct Sums {
    /// Length of a block (s).
    block: f64,
    blocks: Vec<Block>,
}

/// Those of a block.
#[derive(Clone)]
struct Block {
    here: Products,
    /// With what g changes by if windows are later.
    later: Products,
    /// Σ g gᵀ.
    squares: DMatrix<f64>,
}

#[derive(Clone)]
struct Products {
    /// Σ g xᵀ.
    power: DMatrix<f64>,
    /// Σ g y.
    energy: DVector<f64>,
}

/// What sums say.
struct Solved {
    gram: DMatrix<f64>,
    target: DVector<f64>,
    /// Watts beyond the mean, and how well they are known with what is believed beforehand.
    beyond: DVector<f64>,
    known: DMatrix<f64>,
    /// What windows show that are later than they were taken to be, and how much of that is chance.
    off: (f64, f64),
}

/// A window on the thread's CPU clock (s), and its joules; in sums, those beyond the mean.
struct Window {
    start: f64,
    end: f64,
    joules: f64,
}

/// The windows of a thread, and when it was seen.
struct Seen<'a> {
    samples: Samples,
    distances: &'a Distances,
    windows: Vec<Window>,
    /// Mean power (W).
    mean: f64,
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

/// These columns with the distances of samples, where pairs show their powers.
pub(crate) fn shown(columns: Columns, windows: &Windows, evidence: &Evidence<'_>) -> Option<Columns> {
    let points = only_thread(evidence.points)?;
    let samples = samples(points, &columns, evidence)?;
    others_in(windows, evidence, points[0].track)?;
    let distances = Distances::of(&samples)?;
    Some(columns.shown_by_pairs(Arc::new(distances)))
}

/// What pairs say of these columns; `None` where samples do not show when they ran.
pub(crate) fn moments(columns: &Columns, windows: &Windows, evidence: &Evidence<'_>) -> Option<Moments> {
    // Pairs have one power for each column, contended ones two.
    let points = only_thread(evidence.points).filter(|_| !evidence.settings.contended)?;
    let samples = samples(points, columns, evidence)?;
    let seen = Seen::of(points, samples, columns.by_pairs()?, (windows, evidence))?;
    let shown = evidence.settings.delay_ns as f64 / 1e9;
    let steps = GROUPS * windows.len();
    let of = |delay: f64, without| seen.sums(delay, shown - delay, without).solve(&seen);
    let with = |(delay, likely): &(f64, f64)| {
        let known = if shown > 0.0 { ((delay - shown) / KNOWN_DEVIATION).powi(2) } else { 0.0 };
        Some((*delay, known - 2.0 * likely.ln(), of(*delay, None)?))
    };
    let of_delays: Vec<(f64, f64, Solved)> = map(&DELAYS, steps, with).into_iter().flatten().collect();
    let (_, (delay, _, best)) = likeliest(&of_delays, 1.0)?;
    let groups: Vec<usize> = (0..GROUPS).collect();
    let without = map(&groups, steps, |group| of(*delay, Some(*group)));
    let without: Vec<Solved> = without.into_iter().flatten().collect();
    if without.len() < GROUPS / 2 {
        return None;
    }
    let scale = best.scale(&without).max(LEAST_SCALE);
    let (least, _) = likeliest(&of_delays, scale)?;
    let likely = |of: &(f64, f64, Solved)| ((least - off(of, scale)) / 2.0).exp();
    let sum: f64 = of_delays.iter().map(likely).sum();
    let mut delays: Vec<_> = of_delays.iter().map(|of| (likely(of) / sum, seen.equations(&of.2))).collect();
    delays.sort_by(|a, b| b.0.total_cmp(&a.0));
    // What no delay explains says that something else is wrong by as much.
    let wider = FEW_GROUPS * (best.off.0 / best.off.1 / scale).abs().max(1.0);
    Some(Moments { delays, scores: best.scores(&without) * wider })
}

/// How far off windows are with a delay, and how far that is from what is known of it, as squares.
fn off((_, known, of): &(f64, f64, Solved), scale: f64) -> f64 {
    (of.off.0 / of.off.1 / scale).powi(2) + known
}

/// The likeliest delay, and how far off it is.
fn likeliest(of_delays: &[(f64, f64, Solved)], scale: f64) -> Option<(f64, &(f64, f64, Solved))> {
    of_delays.iter().map(|of| (off(of, scale), of)).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The samples of a thread in these columns.
fn samples(points: &[SamplePoint], columns: &Columns, evidence: &Evidence<'_>) -> Option<Samples> {
    if points.len() < FEWEST_SAMPLES || !(2..=MOST_COLUMNS).contains(&columns.len()) {
        return None;
    }
    let of_owners = columns.of_owners(evidence.tree);
    let column = points.iter().map(|point| of_owners.of(point.owner) as usize).collect();
    let at = points.iter().map(|point| point.cpu_ns as f64 / 1e9).collect();
    Some(Samples::of(at, column, columns.len()))
}

/// Seconds in each window of all but the thread with this track; `None` where that is much. Each draws the mean.
fn others_in(windows: &Windows, evidence: &Evidence<'_>, track: u32) -> Option<Vec<f64>> {
    let (mut others, mut all) = (vec![0.0; windows.len()], 0.0);
    for slice in evidence.slices.iter() {
        all += slice.seconds();
        if let Some(window) = windows.of(slice.interval).filter(|_| slice.track != track) {
            others[window as usize] += slice.seconds();
        }
    }
    (others.iter().sum::<f64>() <= MOST_OF_OTHERS * all).then_some(others)
}

/// A window during which the thread was on its CPU.
fn window(points: &[SamplePoint], windows: &Windows, number: usize) -> Option<Window> {
    let (start, end) = windows.span(number)?;
    let before = |at: KtimeNs| points.partition_point(|point| point.at <= at).checked_sub(1);
    let (first, last) = (before(start)?, before(end)? + 1);
    let (first, last) = (points.get(first)?, points.get(last)?);
    let (all, busy) = (last.at.ns_since(first.at) as f64, last.cpu_ns.saturating_sub(first.cpu_ns) as f64);
    let on_cpu = |at: KtimeNs| (first.cpu_ns + at.ns_since(first.at)) as f64 / 1e9;
    let window = Window { start: on_cpu(start), end: on_cpu(end), joules: windows.joules[number] };
    (all - busy < AWAY * all && window.end - window.start < LONGEST).then_some(window)
}

impl<'a> Seen<'a> {
    /// `None` where the thread was not on its CPU for most of the time.
    fn of(
        points: &[SamplePoint],
        samples: Samples,
        distances: &'a Distances,
        (windows, evidence): (&Windows, &Evidence<'_>),
    ) -> Option<Self> {
        let others = others_in(windows, evidence, points[0].track)?;
        let in_one = LONGEST / samples.mean;
        let most = MOST_WINDOWS.min((MOST_LOOKED_AT / (in_one * (in_one + 2.0 * NEAR))) as usize);
        let some = (0..windows.len()).step_by(windows.len().div_ceil(most).max(1));
        let least = LEAST_SEEN * some.len() as f64;
        let of = |k: usize| Some((window(points, windows, k)?, others[k]));
        let mut windows: Vec<(Window, f64)> = some.filter_map(of).collect();
        let sums = windows
            .iter()
            .fold((0.0, 0.0), |sum, (of, others)| (sum.0 + of.joules, sum.1 + of.end - of.start + others));
        let mean = sums.0 / sums.1;
        windows.iter_mut().for_each(|(of, others)| of.joules -= mean * (of.end - of.start + *others));
        let windows: Vec<Window> = windows.into_iter().map(|(of, _)| of).collect();
        (windows.len() as f64 > least && mean > 0.0).then_some(Self { samples, distances, windows, mean })
    }

    /// Sums over windows that were so much later, whose counter is late by this on average, without a group.
    fn sums(&self, delay: f64, later: f64, without: Option<usize>) -> Sums {
        let Self { samples, distances, windows, .. } = self;
        let tables = distances.tables(samples, delay, without);
        let mut sums = Sums::new(samples);
        for window in windows.iter().filter(|window| Some(samples.group(window.start)) != without) {
            let window = Window { start: window.start + later, end: window.end + later, ..*window };
            sums.add(&window, delay, samples, distances, &tables);
        }
        sums
    }

    /// Equations for powers.
    fn equations(&self, of: &Solved) -> NormalEquations {
        let columns = self.samples.parts.len();
        let target = &of.target + &of.gram * DVector::from_element(columns, self.mean);
        let mut equations = NormalEquations { gram: of.gram.clone(), target };
        let row: Vec<(usize, f64)> = self.samples.parts.iter().copied().enumerate().collect();
        equations.add_row(&row, self.mean, (MEAN_KNOWN * self.mean).powi(-2));
        equations
    }
}

impl Sums {
    fn new(samples: &Samples) -> Self {
        let (columns, seconds) = (samples.parts.len(), samples.at[samples.at.len() - 1]);
        let squares = DMatrix::zeros(columns, columns);
        let here = Products { power: squares.clone(), energy: DVector::zeros(columns) };
        let block = BLOCK.max(seconds / MOST_BLOCKS);
        let nothing = Block { later: here.clone(), here, squares };
        Self { block, blocks: vec![nothing; (seconds / block) as usize + 1] }
    }

    /// Adds a window, whose joules are those beyond the mean.
    fn add(
        &mut self,
        window: &Window,
        delay: f64,
        samples: &Samples,
        distances: &Distances,
        tables: &[[Table; 2]; 2],
    ) {
        let (columns, near) = (samples.parts.len(), NEAR * samples.mean + delay);
        let inside = samples.until(window.start - delay)..samples.until(window.end + delay);
        let (mut all, mut all_later) = (DVector::zeros(columns), DVector::zeros(columns));
        let mut later = DVector::zeros(columns);
        let mut instrument = DVector::zeros(columns);
        let mut beside = DVector::zeros(columns);
        let block = ((window.start / self.block).max(0.0) as usize).min(self.blocks.len() - 1);
        let sums = &mut self.blocks[block];
        for sample in samples.until(window.start - near)..samples.until(window.end + near) {
            let (at, column) = (samples.at[sample], samples.column[sample]);
            let half = samples.half(at);
            instrument.fill(0.0);
            beside.fill(0.0);
            later.fill(0.0);
            for (moment, factor) in [(window.start, -1.0), (window.end, 1.0)] {
                tables[0][1 - half].add(column, moment - at, factor, instrument.as_mut_slice());
                tables[0][1 - half].add_moment(column, moment - at, factor, later.as_mut_slice());
                tables[1][half].add(column, moment - at, factor, beside.as_mut_slice());
            }
            let mut seconds = 0.0;
            for other in inside.clone() {
                let apart = (samples.at[other] - at).abs();
                let often = distances.often.get((apart / distances.bin) as usize);
                if let Some(often) = often.filter(|_| apart >= BESIDE * samples.mean) {
                    let of = part_in(window, delay, samples.at[other]) / often;
                    beside[samples.column[other]] += of;
                    seconds += of;
                }
            }
            beside.axpy(-seconds, &samples.parts, 1.0);
            sums.here.power.ger(1.0, &instrument, &beside, 1.0);
            sums.later.power.ger(1.0, &later, &beside, 1.0);
            all += &instrument;
            all_later += &later;
        }
        sums.squares.ger(1.0, &all, &all, 1.0);
        sums.here.energy.axpy(window.joules, &all, 1.0);
        sums.later.energy.axpy(window.joules, &all_later, 1.0);
    }

    /// Powers beyond the mean.
    fn solve(&self, seen: &Seen<'_>) -> Option<Solved> {
        let (parts, mean) = (&seen.samples.parts, seen.mean);
        let columns = parts.len();
        let sum = |of: fn(&Block) -> &DMatrix<f64>| self.blocks.iter().map(of).sum::<DMatrix<f64>>();
        let (product, squares) = (sum(|block| &block.here.power), sum(|block| &block.squares));
        let later = sum(|block| &block.later.power);
        let energy: DVector<f64> = self.blocks.iter().map(|block| &block.here.energy).sum();
        let ridge = DMatrix::identity(columns, columns) * (squares.trace() / columns as f64 * RIDGE);
        let weights = (&squares + ridge).cholesky()?.inverse();
        let usual = DMatrix::identity(columns, columns) / (0.36 * mean * mean)
            + parts * parts.transpose() / (MEAN_KNOWN * mean).powi(2);
        let strays = |of: fn(&Block) -> &Products, beyond: &DVector<f64>| {
            let stray = |block| of(block).stray(beyond);
            DMatrix::from_columns(&self.blocks.iter().map(stray).collect::<Vec<_>>())
        };
        let (mut spread, mut solved) = (1.0, None);
        for _ in 0..ROUNDS {
            let weighed = product.transpose() * &weights / spread;
            let (gram, target) = (&weighed * &product, &weighed * &energy);
            let known = &gram + &usual;
            let beyond = known.clone().cholesky()?.solve(&target);
            let strays_here = strays(|block| &block.here, &beyond);
            let strays_later = strays(|block| &block.later, &beyond).tr_mul(&beyond);
            let slope = later.tr_mul(&beyond);
            let influence = (&weighed * &strays_here).tr_mul(&known.clone().cholesky()?.solve(&slope));
            let off = (strays_later.sum(), (strays_later - influence).norm().max(f64::MIN_POSITIVE));
            let seen = (0..columns)
                .filter(|c| parts[*c] > 0.0)
                .map(|c| strays_here.row(c).norm_squared() / squares[(c, c)]);
            spread = (seen.clone().sum::<f64>() / seen.count() as f64).max(f64::EPSILON);
            solved = Some(Solved { gram, target, beyond, known, off });
        }
        solved
    }
}

impl Products {
    /// What these powers beyond the mean leave of the energy.
    fn stray(&self, beyond: &DVector<f64>) -> DVector<f64> {
        &self.energy - &self.power * beyond
    }
}

impl Solved {
    /// How much more than by blocks what shows a delay strays, by what is found without each group.
    fn scale(&self, without: &[Self]) -> f64 {
        let mean = without.iter().map(|of| of.off.0).sum::<f64>() / without.len() as f64;
        without.iter().map(|of| (of.off.0 - mean).powi(2)).sum::<f64>().sqrt() / self.off.1
    }

    /// Scores of groups: what is found without each, by which these would be found again (jackknife).
    fn scores(&self, without: &[Self]) -> DMatrix<f64> {
        let of = |of: &Self| &self.known * (&of.beyond - &self.beyond);
        let part = (without.len() as f64 - 1.0) / without.len() as f64;
        DMatrix::from_columns(&without.iter().map(of).collect::<Vec<_>>()) * part.sqrt()
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

#[cfg(test)]
mod tests {
    use super::{
        Columns, DVector, Distances, Evidence, GROUPS, KtimeNs, Moments, SamplePoint, Samples, Sums, Window,
        Windows, moments, only_thread, part_in,
    };
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

    /// What pairs say of the loop, whose counter moves each so many seconds, which may be known.
    fn said(stages: [f64; 2], near: bool, step: f64, known: bool) -> Option<(Moments, f64)> {
        let delay = if known { step / 2.0 } else { 0.0 };
        let (points, tree) = (points(stages, near), flat_tree(2));
        let turn = stages[0] + stages[1];
        let joules = |at: f64| {
            let (whole, part) = ((1e3 * at / turn).floor(), 1e3 * at % turn);
            let of = |ms: [f64; 2]| (ms[0] * WATTS[0] + ms[1] * WATTS[1]) / 1e3;
            whole * of(stages) + of([part.min(stages[0]), (part - stages[0]).max(0.0)])
        };
        let shown = |at: f64| if step > 0.0 { joules((at / step).floor() * step) } else { joules(at) };
        let at = times(0.01, 1 << 48);
        let moved = |at: f64| KtimeNs::from_ns(((at - delay) * 1e9) as u64);
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
            settings: Settings { delay_ns: (delay * 1e9) as u64, ..Settings::default() },
        };
        let columns = super::shown(Columns::of_paths(vec![2, 3], vec![0, 0, 0, 1]), &windows, &evidence)?;
        let settings = Settings { contended: true, ..evidence.settings };
        assert!(moments(&columns, &windows, &Evidence { settings, ..evidence }).is_none());
        let mean = (stages[0] * WATTS[0] + stages[1] * WATTS[1]) / turn;
        Some((moments(&columns, &windows, &evidence)?, mean))
    }

    /// A loop of 10 ms at 499 Hz, with a prompt counter and one that moves each millisecond, known or not: powers are
    /// within a tenth, as the run shows which it is (half a millisecond of the other's power would be a sixth).
    #[test]
    fn powers_of_a_short_loop() {
        for (step, known) in [(0.0, false), (1e-3, true), (1e-3, false)] {
            let (moments, mean) = said([4.0, 6.0], true, step, known).unwrap();
            let (mut found, mut sum) = (DVector::zeros(2), 0.0);
            for (probability, mut equations) in moments.delays {
                equations.add_prior(mean, 1.0 / (0.36 * mean * mean));
                found += equations.solve(mean, 0.01 * mean) * probability;
                sum += probability;
            }
            assert!((sum - 1.0).abs() < 1e-9 && moments.scores.ncols() == GROUPS);
            for (found, watts) in found.iter().zip(WATTS) {
                assert!((found - watts).abs() < 0.1 * mean, "{step} {known}: {found}, {watts}");
            }
        }
    }

    /// Without samples that are near to each other, of stages that are shorter than those, and of two threads
    /// nothing is said.
    #[test]
    fn what_pairs_do_not_show() {
        assert!(said([4.0, 6.0], false, 1e-3, true).is_none());
        assert!(said([0.3, 0.4], true, 1e-3, true).is_none());
        let mut two = points([4.0, 6.0], true);
        assert_eq!(only_thread(&two).map(<[_]>::len), Some(two.len()));
        let half = two.len() / 2;
        two[half..].iter_mut().for_each(|point| point.track = 1);
        assert!(only_thread(&two).is_none() && only_thread(&[]).is_none());
    }

    /// What instruments change by if a window is later is their slope, here by windows a nanosecond earlier and later.
    #[test]
    fn instruments_of_a_later_window() {
        let points = points([4.0, 6.0], true);
        let at = points.iter().map(|point| point.cpu_ns as f64 / 1e9).collect();
        let samples = Samples::of(at, points.iter().map(|point| point.owner as usize).collect(), 2);
        let distances = Distances::of(&samples).unwrap();
        let tables = distances.tables(&samples, 0.0, None);
        let of = |start: f64| {
            let mut sums = Sums::new(&samples);
            let window = Window { start, end: start + 0.006, joules: 1.0 };
            sums.add(&window, 0.0, &samples, &distances, &tables);
            let sum =
                |of: fn(&super::Block) -> &DVector<f64>| sums.blocks.iter().map(of).sum::<DVector<f64>>();
            (sum(|block| &block.here.energy), sum(|block| &block.later.energy))
        };
        let slope = (of(3.1 + 1e-9).0 - of(3.1 - 1e-9).0) / 2e-9;
        let (_, later) = of(3.1);
        assert!(later.norm() > 0.01 && (slope - &later).norm() < 1e-4, "{later}");
    }

    /// A counter that is a second late at most, half of one on average, shows of what is spent at a window's
    /// ends one half; a prompt one all, of the first.
    #[test]
    fn energy_at_the_ends_of_a_window() {
        let window = Window { start: 10.0, end: 20.0, joules: 0.0 };
        let part = |delay, at| part_in(&window, delay, at);
        assert_eq!(
            [9.0, 9.75, 10.0, 15.0, 20.25, 21.0].map(|at| part(0.5, at)),
            [0.0, 0.25, 0.5, 1.0, 0.25, 0.0]
        );
        assert_eq!([9.9, 10.0, 19.9, 20.0].map(|at| part(0.0, at)), [0.0, 1.0, 1.0, 0.0]);
    }
}
