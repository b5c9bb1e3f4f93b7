//! Loops that are too short for the samples and readings that were taken, and the rates that would show them.
//!
//! ```text
//! P(τ): which part of the pairs of samples that are τ of CPU time apart are of one stage
//! ρ(τ) = (P(τ) − Σ π²) / (1 − Σ π²)             π: each stage's part of the samples; ρ rises at each turn
//! ```
//!
//! Samples come at random distances, so that pairs are at all distances from half of the mean one on (by the
//! clock from nothing on), and no loop keeps step with them. A stage is a call path up to where paths part. Leaves out whether functions are
//! in doubt, which the report asks.

use crate::power_model::paths::{PathId, PathTree};
use crate::time::inter_sample::SamplePoint;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::recording::Recording;
use std::collections::BTreeMap;

/// Samples that are looked at, at most.
const MOST_SAMPLES: usize = 20_000;
/// Bins of a mean distance between samples, and how many distances pairs are apart at most.
const BINS: u64 = 20;
const FARTHEST: u64 = 30;
/// Bins that are put together, and the fewest pairs that say anything of them: ρ is known to a tenth or better.
const TOGETHER: usize = 3;
const FEWEST_PAIRS: f64 = 100.0;
/// By how much ρ must fall and rise.
const CLEAR: f64 = 0.25;
/// Paths part where none has so large a part of the samples that pairs are alike more often than this.
const MOST_ALIKE: f64 = 0.7;
const DEEPEST: usize = 100;
/// Rates that show a loop: so many samples a turn; and readings at 1,000 a second below so long a turn (`cargo
/// xtask bench accuracy --world W1 --rate 2999 --read-hz 1000`).
const SAMPLES_A_TURN: f64 = 29.0;
const RATES: [u32; 6] = [499, 999, 1_999, 2_999, 4_999, 9_999];
const POWER_HZ: u32 = 1_000;
const SHORT_NS: f64 = 25e6;

/// The loop of the only busy thread, where other rates are needed for it than were asked for.
pub(crate) fn find(recording: &Recording, points: &[SamplePoint], tree: &PathTree) -> Option<Diagnostic> {
    let busiest = points.chunk_by(|a, b| a.track == b.track).max_by_key(|of| of.len())?;
    let hz = recording.header.sample_hz.max(1);
    if 2 * busiest.len() < points.len() {
        return None;
    }
    let some = busiest.get(busiest.len().saturating_sub(MOST_SAMPLES) / 2..)?;
    let turn_ns = turn_ns(&some[..some.len().min(MOST_SAMPLES)], tree, 1_000_000_000 / u64::from(hz))?;
    let enough = *RATES.iter().find(|hz| f64::from(**hz) * turn_ns >= SAMPLES_A_TURN * 1e9)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a second")]
    let loop_ns = turn_ns as u64;
    let power_hz = (turn_ns < SHORT_NS).then_some(POWER_HZ);
    (enough > hz).then_some(Diagnostic::ShortLoop { loop_ns, hz: enough, power_hz })
}

/// How long a turn takes; `None` where samples do not show one.
fn turn_ns(points: &[SamplePoint], tree: &PathTree, period_ns: u64) -> Option<f64> {
    let (stages, by_chance) = stages(points, tree)?;
    let bin_ns = (period_ns / BINS).max(1);
    let bins = pairs(points, &stages, bin_ns);
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let rho = |(number, bins): (usize, &[(f64, f64)])| {
        let (alike, all) = bins.iter().fold((0.0, 0.0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
        let middle = (number as f64 + TOGETHER as f64 / 2.0) * bin_ns as f64;
        (all >= FEWEST_PAIRS).then_some((middle, (alike / all - by_chance) / (1.0 - by_chance)))
    };
    turn_of(&bins.windows(TOGETHER).enumerate().filter_map(rho).collect::<Vec<_>>())
}

/// The stage of each sample, and how often two are alike by chance.
fn stages(points: &[SamplePoint], tree: &PathTree) -> Option<(Vec<PathId>, f64)> {
    let mut owners = BTreeMap::<u32, f64>::new();
    points.iter().for_each(|point| *owners.entry(point.owner).or_default() += 1.0);
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let all = points.len() as f64;
    let upwards = |owner: &u32| (*owner, tree.upwards(tree.of_owner(*owner)).collect());
    let upwards: BTreeMap<u32, Vec<PathId>> = owners.keys().map(upwards).collect();
    let longest = upwards.values().map(Vec::len).max().unwrap_or(0);
    let at = |depth: usize| {
        let stage =
            |path: &[PathId]| path.get(path.len().saturating_sub(depth + 1)).copied().unwrap_or_default();
        let of_owner: BTreeMap<u32, PathId> =
            upwards.iter().map(|(owner, path)| (*owner, stage(path))).collect();
        let mut parts = BTreeMap::<PathId, f64>::new();
        owners.iter().for_each(|(owner, count)| *parts.entry(of_owner[owner]).or_default() += count / all);
        (of_owner, parts.values().map(|part| part * part).sum::<f64>())
    };
    let (of_owner, by_chance) =
        (1..DEEPEST.min(longest.max(2))).map(at).find(|(_, by_chance)| *by_chance < MOST_ALIKE)?;
    Some((points.iter().map(|point| of_owner[&point.owner]).collect(), by_chance))
}

/// How many pairs are alike, and how many there are, by how far apart they are.
fn pairs(points: &[SamplePoint], stages: &[PathId], bin_ns: u64) -> Vec<(f64, f64)> {
    let mut bins = vec![(0.0, 0.0); usize::try_from(BINS * FARTHEST).unwrap_or(0)];
    let staged: Vec<(u64, PathId)> =
        points.iter().map(|point| point.cpu_ns).zip(stages.iter().copied()).collect();
    for (number, (from, stage)) in staged.iter().enumerate() {
        for (at, other) in staged.iter().skip(number + 1) {
            let bin = usize::try_from(at.saturating_sub(*from) / bin_ns).unwrap_or(usize::MAX);
            let Some(bin) = bins.get_mut(bin) else { break };
            *bin = (bin.0 + f64::from(u8::from(stage == other)), bin.1 + 1.0);
        }
    }
    bins
}

/// From one clear peak of ρ, by distance, to the next, or to the first if there is no other and none can hide
/// before it.
fn turn_of(curve: &[(f64, f64)]) -> Option<f64> {
    let (mut low, mut high, mut peaks) = (f64::INFINITY, None::<(f64, f64)>, vec![]);
    for &(apart, rho) in curve {
        match high {
            Some((_, top)) if rho < top - CLEAR => {
                peaks.extend(high.take().map(|(apart, _)| apart));
                low = rho;
            }
            Some((_, top)) => high = Some((apart, rho)).filter(|_| rho > top).or(high),
            None => {
                low = low.min(rho);
                high = (rho > low + CLEAR).then_some((apart, rho));
            }
        }
    }
    match peaks[..] {
        [first, second, ..] => Some(second - first),
        [first] if first >= 2.0 * curve.first()?.0 => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Diagnostic, Recording, SamplePoint, find, turn_of};
    use crate::power_model::tests::toy::flat_tree;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::recording::record::Header;

    /// A number that looks like chance, from 0 to 1.
    fn chance(number: u64) -> f64 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// What is said of 20 s of a thread, of which `stage` says what ran at which millisecond.
    fn said(hz: u32, stage: impl Fn(f64) -> u32) -> Option<(f64, u32, Option<u32>)> {
        let period = 1e9 / f64::from(hz);
        let (mut at, mut points) = (0.0, vec![]);
        while at < 20e9 {
            let cpu_ns = at as u64;
            let owner = stage(at / 1e6);
            points.push(SamplePoint { track: 0, at: KtimeNs::from_ns(cpu_ns), cpu_ns, owner });
            // As the sampler's: one or two ticks of 0.62 periods.
            let ticks = if chance(2 * points.len() as u64) < 0.618 { 1.236 } else { 0.618 };
            at += period * ticks * (0.8 + 0.4 * chance(2 * points.len() as u64 + 1));
        }
        let recording =
            Recording { header: Header { sample_hz: hz, ..Header::default() }, ..Recording::default() };
        match find(&recording, &points, &flat_tree(3)) {
            Some(Diagnostic::ShortLoop { loop_ns, hz, power_hz }) => {
                Some((loop_ns as f64 / 1e6, hz, power_hz))
            }
            _ => None,
        }
    }

    /// Stages of these lengths (ms) in their order.
    fn turns(lengths: [f64; 3]) -> impl Fn(f64) -> u32 {
        move |ms| {
            let at = ms % lengths.iter().sum::<f64>();
            u32::from(at >= lengths[0]) + u32::from(at >= lengths[0] + lengths[1])
        }
    }

    /// A loop of 10 ms is found at both rates, whatever keeps step with it, and the rates that show it are
    /// named; one of 50 ms needs no more readings, and one that samples show nothing.
    #[test]
    fn rates_that_show_a_loop() {
        for (hz, lengths, turn, needs) in [
            (499, [3.0, 4.0, 3.0], 10.0, (2_999, Some(1_000))),
            (99, [3.0, 4.0, 3.0], 10.0, (2_999, Some(1_000))),
            (99, [10.0, 15.0, 25.0], 50.0, (999, None)),
        ] {
            let (found, hz, power_hz) = said(hz, turns(lengths)).unwrap();
            assert!((found / turn - 1.0).abs() < 0.05, "{found} of {turn}");
            assert_eq!((hz, power_hz), needs, "{turn}");
        }
        assert_eq!(said(499, turns([12.0, 20.0, 30.0])), None);
        assert_eq!(said(2_999, turns([3.0, 4.0, 3.0])), None);
    }

    /// Turns that no rate shows, no order, and a single function: nothing is advised.
    #[test]
    fn no_advice() {
        assert_eq!(said(499, turns([0.2, 0.3, 0.2])), None);
        assert_eq!(said(499, |ms| u32::from(chance((ms / 3.0) as u64) < 0.5)), None);
        assert_eq!(said(99, |_| 1), None);
    }

    /// Peaks by hand: the second less the first; one alone that is far enough for none to hide before it.
    #[test]
    fn peaks() {
        let of = |rho: &[f64]| turn_of(&(4..).map(f64::from).zip(rho.iter().copied()).collect::<Vec<_>>());
        assert_eq!(of(&[0.9, 0.1, 0.0, 0.8, 0.7, 0.1, 0.2, 0.7, 0.0]), Some(4.0));
        assert_eq!(of(&[0.9, 0.1, 0.0, 0.1, 0.8, 0.7, 0.1]), Some(8.0));
        assert_eq!(of(&[0.1, 0.0, 0.8, 0.7, 0.1]), None);
        assert_eq!(of(&[0.9, 0.1, 0.0, 0.1, 0.2, 0.1, 0.0]), None);
        assert_eq!(of(&[]), None);
    }
}
