//! Windows in which no thread changed its function: their energy shows a function's watts without any doubt about times.
//!
//! Expected times (`markov_bridge`) are all that a linear regression can use, and the doubt about where a function ended is most of what
//! keeps its watts uncertain. But a window's energy is a mixture: with a probability that the chain gives, every thread stayed where its
//! samples saw it, and then the energy is Σ w t to within the counter's own error; else it is spread widely about its mean.
//!
//! ```text
//! P(c throughout | a, b) = P_ac(s) · e^(−λ (1 − π_c) t) · P_cb(u) / P_ab(s + t + u)
//! D ~ ρ N(m⁰, N) + (1 − ρ) (m⁰ + X + N(0, N)),   m⁰ = Σ w t⁰,  m¹ = (Σ w t̄ − ρ m⁰) / (1 − ρ),   V = (1 − ρ) V¹ + ρ (1 − ρ) (m⁰ − m¹)²
//! X = ± exponential with E X = m¹ − m⁰, E X² = V¹ + (m¹ − m⁰)²
//! ```
//!
//! Most changes are short: another function for a millisecond adds hardly any energy, and so X is exponential on either side of nothing. Taken as
//! a normal variable far from m⁰ such windows passed for steady ones, and a function of few watts seemed to draw 3 % more.
//!
//! N is what a counter that moves each millisecond may be late by at either end, as power was there, and a part of the energy, which is
//! found with the watts by expectation and maximisation in turns (Dempster, Laird, Rubin: Maximum likelihood from incomplete data, 1977).
//! Where that part is large, functions do not draw the same power each time (hyperthreads, frequency), and none of this is believed.

use super::counter_edges::Edges;
use super::design::{Design, predicted};
use crate::between_samples::expected_time::Share;
use crate::between_samples::markov_bridge::{Part, Rate};
use crate::between_samples::switching_chain::Chains;
use crate::numerics::normal_equations::NormalEquations;
use crate::time::pieces::{NO_LINE, NOBODY};

/// Windows that are less probably steady than this are left as they are.
pub(crate) const LEAST: f64 = 0.02;
/// What steady windows stray by, in parts of their energy: at most, and at least.
pub(super) const SPREAD: (f64, f64) = (0.05, 0.002);
/// At least this much of a window's variance is that of windows with changes.
const LEAST_VARIANCE: f64 = 0.1;
/// The unit of a counter, in joules.
const UNIT_JOULES: f64 = 1e-4;

/// Variance of a steady window's energy, from that of its edges.
pub(crate) fn noise_of(edge: f64, spread: f64, of_stationary: f64) -> f64 {
    edge + spread * of_stationary.powi(2) + UNIT_JOULES.powi(2)
}

/// What a window's energy may be made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixture {
    /// Probability that nothing changed, before the energy is seen.
    pub(crate) stationary: f64,
    /// Expected energy where nothing changed, and over all.
    pub(crate) of_stationary: f64,
    pub(crate) mean: f64,
    /// Variance over all by times, and by the counter.
    pub(crate) variance: f64,
    pub(crate) noise: f64,
}

impl Mixture {
    /// The log-density of a changed window's energy so far from the steady one, less that of a normal variable of variance 1 at its mean.
    fn changed(&self, apart: f64, mean: f64, variance: f64) -> f64 {
        let length = (0.5 * (variance + mean * mean)).sqrt().max(1e-12);
        let up = (0.5 * (1.0 + mean / length)).clamp(0.0, 1.0);
        let sd = self.noise.sqrt();
        // An exponential variable with a normal one added to it.
        let side = |part: f64, apart: f64| {
            let tail = ln_above(sd / length - apart / sd);
            part.max(1e-12).ln() - length.ln() + 0.5 * (sd / length).powi(2) - apart / length + tail
        };
        let (up, down) = (side(up, apart), side(1.0 - up, -apart));
        let most = up.max(down);
        most + ((up - most).exp() + (down - most).exp()).ln() + 0.5 * std::f64::consts::TAU.ln()
    }

    /// What an energy of so many joules says.
    pub(crate) fn seen(&self, joules: f64) -> Seen {
        let rest = (1.0 - self.stationary).max(1e-9);
        let mean = (self.mean - self.stationary * self.of_stationary) / rest;
        let apart = self.stationary * rest * (self.of_stationary - mean).powi(2);
        let variance = ((self.variance - apart) / rest).max(LEAST_VARIANCE * self.variance);
        let apart = joules - self.of_stationary;
        let stationary = -0.5 * (apart.powi(2) / self.noise + self.noise.ln());
        let more = self.changed(apart, mean - self.of_stationary, variance) - stationary;
        let odds = rest / self.stationary.max(1e-12) * more.min(700.0).exp();
        Seen { stationary: 1.0 / (1.0 + odds), variance }
    }
}

/// The logarithm of the probability that a standard normal variable is above `a` (Abramowitz, Stegun: Handbook of mathematical functions,
/// 26.2.17); far out it is a part in a thousand off.
fn ln_above(a: f64) -> f64 {
    const FACTORS: [f64; 5] = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * a.abs());
    let sum = FACTORS.iter().rev().fold(0.0, |sum, factor| t * (factor + sum));
    let tail = -0.5 * (a * a + std::f64::consts::TAU.ln()) + sum.ln();
    if a >= 0.0 { tail } else { (1.0 - tail.exp()).ln() }
}

/// What a window's energy says about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Probability that nothing changed.
    pub(crate) stationary: f64,
    /// Variance, by times, of the energy where something did.
    pub(crate) variance: f64,
}

/// The logarithm of the probability that a part's thread was in one function throughout, and whether that is its right sample's.
pub(crate) fn unchanged(part: &Part, share: &Share, rates: &[Rate], chains: &Chains) -> (f64, bool) {
    if part.line == NO_LINE {
        return (0.0, false);
    }
    let Rate { rate, asleep } = rates.get(part.line as usize).copied().unwrap_or_default();
    let mix = chains.mix(part.line, part.at);
    let of_mix = |column: usize| mix.get(column).copied().unwrap_or(1.0);
    #[expect(clippy::cast_precision_loss, reason = "probabilities")]
    let kept = |ns: u64, slept: u64| (-rate * (ns as f64 + asleep.distance(slept))).exp();
    let from_to =
        |from: usize, to: usize, kept: f64| (if from == to { kept } else { 0.0 }) + (1.0 - kept) * of_mix(to);
    let (before, after) =
        (kept(part.before_ns, part.slept_before_ns), kept(part.after_ns, part.slept_after_ns));
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    let throughout = |column: usize| {
        let stays = (-rate * (1.0 - of_mix(column)).max(0.0) * part.ns as f64).exp();
        let here = from_to(share.left, column, before) * stays;
        if part.right == NOBODY {
            return here;
        }
        let all = before * kept(part.ns, 0) * after;
        here * from_to(column, share.right, after) / from_to(share.left, share.right, all).max(1e-300)
    };
    let (left, right) = (throughout(share.left), throughout(share.right));
    let is_right = part.right != NOBODY && right > left;
    (left.max(if is_right { right } else { 0.0 }).clamp(1e-300, 1.0).ln(), is_right)
}

/// What windows say beyond their expected times.
#[derive(Clone, Debug)]
pub(crate) struct StationaryWindows {
    /// Of each window: seconds of each column where nothing changed, the logarithm of how probable that is, and what it counts for.
    seconds: Vec<f64>,
    pub(super) logarithm: Vec<f64>,
    weight: Vec<f64>,
    /// The same of windows where something changed.
    changed: Vec<f64>,
    trust_changed: Vec<f64>,
    /// What is not known for not knowing which windows were steady, row by row (`resampling`).
    pub(crate) missing: Vec<f64>,
    /// Variance of steady windows in parts of their energy.
    pub(crate) spread: f64,
}

impl StationaryWindows {
    pub(super) fn new(design: &Design, parts: &[Part], chains: &Chains, rates: &[Rate]) -> Self {
        let (n, windows) = (design.columns, design.len());
        let (mut seconds, mut logarithm) = (vec![0.0; windows * n], vec![0.0; windows]);
        for (part, share) in parts.iter().zip(&design.shares) {
            let window = share.window as usize;
            let (probability, is_right) = unchanged(part, share, rates, chains);
            let column = if is_right { share.right } else { share.left };
            logarithm[window] += probability;
            seconds[window * n + column] += share.seconds * design.drift[window];
        }
        let (weight, trust_changed) = (vec![0.0; windows], vec![0.0; windows]);
        Self {
            seconds,
            logarithm,
            weight,
            changed: vec![0.0; windows * n],
            trust_changed,
            missing: vec![],
            spread: SPREAD.0.powi(2),
        }
    }

    /// How probably each window was steady, and what that says of how far such windows stray.
    pub(super) fn expect(
        &mut self,
        (watts, fit_noise): (&[f64], f64),
        design: &Design,
        variances: &[f64],
        edges: &Edges,
    ) {
        let n = design.columns;
        let (mut squares, mut energies, mut begin) = (0.0, 1e-9, 0);
        self.missing = vec![0.0; n * n];
        for (k, &variance) in variances.iter().enumerate().take(design.len()) {
            let last = design.window_of.partition_point(|window| (*window as usize) <= k).saturating_sub(1);
            let edge = edges.variance(usize::checked_sub(begin, 1), last);
            begin = last + 1;
            let (row, unchanged) = (design.row(k), &self.seconds[k * n..][..n]);
            let (stationary, of_stationary) =
                (self.logarithm[k].exp().min(0.999), predicted(unchanged, watts));
            if stationary < LEAST || of_stationary <= 0.0 {
                continue;
            }
            let noise = noise_of(edge, self.spread, of_stationary);
            let mean = predicted(row, watts);
            let mixture = Mixture { stationary, of_stationary, mean, variance, noise };
            let Seen { stationary: seen, variance } = mixture.seen(design.joules[k]);
            let changed: Vec<f64> = row
                .iter()
                .zip(unchanged)
                .map(|(all, unchanged)| ((all - stationary * unchanged) / (1.0 - stationary)).max(0.0))
                .collect();
            let of_changed = variance + fit_noise.max(noise);
            self.weight[k] = seen / noise;
            self.trust_changed[k] = (1.0 - seen) / of_changed;
            let error = |row: &[f64]| design.joules[k] - predicted(row, watts);
            let (unchanged_says, changed_says) = (error(unchanged) / noise, error(&changed) / of_changed);
            let apart: Vec<f64> = unchanged
                .iter()
                .zip(&changed)
                .map(|(unchanged, changed)| unchanged * unchanged_says - changed * changed_says)
                .collect();
            for (sum, product) in
                self.missing.iter_mut().zip(apart.iter().flat_map(|a| apart.iter().map(move |b| a * b)))
            {
                *sum += seen * (1.0 - seen) * product;
            }
            self.changed[k * n..][..n].copy_from_slice(&changed);
            squares += seen * ((design.joules[k] - of_stationary).powi(2) - edge);
            energies += seen * of_stationary.powi(2);
        }
        self.spread = (squares / energies).max(SPREAD.1.powi(2));
    }

    /// Adds what a window says; `false` where it says nothing beyond its expected times.
    pub(crate) fn add_row(
        &self,
        window: usize,
        columns: usize,
        joules: f64,
        normal: &mut NormalEquations,
    ) -> bool {
        if self.weight[window] + self.trust_changed[window] <= 0.0 {
            return false;
        }
        normal.add_dense_row(&self.seconds[window * columns..][..columns], joules, self.weight[window]);
        normal.add_dense_row(
            &self.changed[window * columns..][..columns],
            joules,
            self.trust_changed[window],
        );
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Mixture, ln_above};

    /// An energy that is just what nothing's changing makes says that nothing changed; one far away says that something did.
    #[test]
    fn energies_tell_steady_windows() {
        let mixture =
            Mixture { stationary: 0.3, of_stationary: 0.08, mean: 0.1, variance: 1e-3, noise: 1e-6 };
        assert!(mixture.seen(0.0805).stationary > 0.85, "{:?}", mixture.seen(0.0805));
        assert!(mixture.seen(0.12).stationary < 1e-3, "{:?}", mixture.seen(0.12));
        let blurred = Mixture { noise: 1e-2, ..mixture };
        assert!((blurred.seen(0.0805).stationary - 0.3).abs() < 0.05, "{:?}", blurred.seen(0.0805));
    }

    /// A window that may have held a short change towards more is steady less surely if it holds a little more than less.
    #[test]
    fn short_changes_are_no_noise() {
        let mixture =
            Mixture { stationary: 0.5, of_stationary: 0.04, mean: 0.05, variance: 4e-4, noise: 6.4e-5 };
        assert!(
            mixture.seen(0.05).stationary + 0.1 < mixture.seen(0.03).stationary,
            "{:?}",
            mixture.seen(0.05)
        );
    }

    /// Tails of the normal distribution, on both sides and far out.
    #[test]
    fn tails() {
        for (a, tail) in [(0.0, 0.5), (1.0, 0.158_655), (-1.0, 0.841_345), (5.0, 2.866_5e-7)] {
            assert!((ln_above(a) - f64::ln(tail)).abs() < 2e-3, "{a}");
        }
    }
}
