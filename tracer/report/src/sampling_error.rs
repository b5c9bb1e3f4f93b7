//! How far the energy of a function may be off because stacks were sampled.
//!
//! The time on a CPU is exact (scheduler events); what is sampled is which function it belongs to. So the share of a function is the
//! proportion of a multinomial sample: with `n` of `N` samples, `p = n/N`, `var(p) = p (1 - p) / N`. Energy is that share times power,
//! as in ALEA (Mukhanov et al., PACT 2015): `E = power × time`, both means over the samples that saw the function. With the function's
//! own mean energy a sample, `E/n`, fixed, the interval of `p` scales to energy:
//!
//! ```text
//! [E · p_lo / p,  E · p_hi / p]
//! ```
//!
//! `p_lo` and `p_hi` are Wilson's score interval (Wilson 1927; recommended for small n by Brown, Cai, DasGupta 2001), because the normal
//! interval `E ± 1.96 E sqrt((1 - p)/n)`, to which it converges, is empty at p = 1 and reaches below zero at small n.
//!
//! Samples of all windows are pooled. By concavity of `p (1 - p)`, `Σ n_k p_k (1 - p_k) ≤ N p (1 - p)`: pooling overstates the variance of
//! samples that are spread evenly over windows, never understates it. Left out, and so not in the interval: the error of the energy
//! counter, of the idle baseline, and of splitting a window's energy among threads of different power.

use energy_trace_model::units::MicroJoules;

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % interval of `energy` that `seen` of `all` samples found. Energy that no sample stands for is not sampled: it has no sampling
/// error, and the interval is the energy itself.
#[expect(clippy::cast_precision_loss, reason = "statistics: counts far below 2^53")]
pub(crate) fn interval(energy: MicroJoules, seen: u64, all: u64) -> (MicroJoules, MicroJoules) {
    if seen == 0 || all == 0 {
        return (energy, energy);
    }
    let n = all.max(seen) as f64;
    let p = seen as f64 / n;
    let z2 = Z * Z;
    let center = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = |bound: f64| scaled(energy, bound.clamp(0.0, 1.0) / p);
    let (one, other) = (scale(center - half), scale(center + half));
    (one.min(other), one.max(other))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "`as` saturates; statistics"
)]
fn scaled(energy: MicroJoules, ratio: f64) -> MicroJoules {
    MicroJoules::from_uj((energy.as_uj() as f64 * ratio).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, interval};

    /// Wilson's interval of 50 in 1000 is 0.0381303 to 0.0653138 (computed apart, in Python); here the share of 0.05 holds 1 J.
    #[test]
    fn wilson_interval_of_known_counts() {
        let (low, high) = interval(MicroJoules::from_uj(1_000_000), 50, 1000);
        assert_eq!((low.as_uj(), high.as_uj()), (762_605, 1_306_276));
    }

    /// With every sample inside, the interval ends at the energy; with none, there is no sampling error to speak of.
    #[test]
    fn ends_of_the_scale() {
        let energy = MicroJoules::from_uj(1_000_000);
        let (low, high) = interval(energy, 100, 100);
        assert_eq!(high, energy);
        assert!(low < energy && low.as_uj() > 900_000);
        assert_eq!(interval(energy, 0, 100), (energy, energy));
    }

    /// More samples of the same share narrow the interval, and a negative energy still has its lower bound first.
    #[test]
    fn order_and_width() {
        let width = |seen, all| {
            let (low, high) = interval(MicroJoules::from_uj(-1_000_000), seen, all);
            assert!(low.as_uj() <= -1_000_000 && high.as_uj() >= -1_000_000);
            high.as_uj() - low.as_uj()
        };
        assert!(width(100, 1000) < width(10, 100));
    }
}
