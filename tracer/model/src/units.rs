//! Energy and power as integers with their unit in the type.
//!
//! Floats appear only where a number is shown or where a ratio is wanted; sums and splits are exact.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// Energy in microjoules, signed: a residual may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroJoules(i64);

impl MicroJoules {
    /// No energy.
    pub const ZERO: Self = Self(0);

    /// From microjoules.
    pub const fn from_uj(uj: i64) -> Self {
        Self(uj)
    }

    /// In microjoules.
    pub const fn as_uj(self) -> i64 {
        self.0
    }

    /// In joules, for showing.
    #[expect(clippy::cast_precision_loss, reason = "for showing: 2^53 uJ are 9 GJ")]
    pub const fn as_joules(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The sum, or `None` beyond ±9.2 TJ.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(uj) => Some(Self(uj)),
            None => None,
        }
    }

    /// Splits `self` in proportion to `weights`, exactly: the parts sum to `self`.
    ///
    /// Largest-remainder rounding (Hamilton's method): each part is the floor of its exact share, and the units that are left go to the
    /// largest remainders, the earlier one first among equals. A negative total is split as its magnitude and negated.
    /// All weights zero: `None`, because there is nobody to give it to.
    pub fn split(self, weights: &[u64]) -> Option<Vec<Self>> {
        let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        if total == 0 {
            return None;
        }
        let amount = self.0.unsigned_abs();
        let mut parts: Vec<u64> = Vec::with_capacity(weights.len());
        let mut order: Vec<(Reverse<u128>, usize)> = Vec::with_capacity(weights.len());
        for (at, &weight) in weights.iter().enumerate() {
            let (part, rest) = part_of(amount, weight, total);
            parts.push(part);
            order.push((Reverse(rest), at));
        }
        let left = amount - parts.iter().sum::<u64>();
        order.sort_unstable();
        for &(_, at) in order.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            parts[at] += 1;
        }
        let signed = |part: u64| Self(i64::try_from(part).unwrap_or(i64::MAX) * self.0.signum());
        Some(parts.into_iter().map(signed).collect())
    }

    /// Parts of the same sum, or of zero if that is below, none of which is below zero: those above have what is left.
    pub fn not_below_zero(parts: Vec<Self>) -> Vec<Self> {
        if parts.iter().all(|part| *part >= Self::ZERO) {
            return parts;
        }
        let sum: Self = parts.iter().copied().sum();
        let weights: Vec<u64> = parts.iter().map(|part| u64::try_from(part.as_uj()).unwrap_or(0)).collect();
        let shares = sum.max(Self::ZERO).split(&weights);
        shares.unwrap_or_else(|| vec![Self::ZERO; weights.len()])
    }
}

/// What a weight of this total has of an amount, and what is left of the division. In 64 bits, which nearly always are enough, it takes a tenth of
/// the time.
fn part_of(amount: u64, weight: u64, total: u128) -> (u64, u128) {
    if let (Some(product), Ok(total)) = (amount.checked_mul(weight), u64::try_from(total)) {
        return (product / total, u128::from(product % total));
    }
    let product = u128::from(amount) * u128::from(weight);
    (u64::try_from(product / total).unwrap_or(u64::MAX), product % total)
}

impl Add for MicroJoules {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
}

impl Sub for MicroJoules {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Self(self.0.saturating_sub(o.0))
    }
}

impl Neg for MicroJoules {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for MicroJoules {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl SubAssign for MicroJoules {
    fn sub_assign(&mut self, o: Self) {
        *self = *self - o;
    }
}

impl Sum for MicroJoules {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for MicroJoules {
    /// Joules with a unit that keeps three to four digits readable: `1.234 J`, `5.1 mJ`, `12 µJ`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let j = self.as_joules();
        match j.abs() {
            0.0 => write!(f, "0 J"),
            a if a >= 100_000.0 => write!(f, "{:.1} kJ", j / 1e3),
            a if a >= 100.0 => write!(f, "{j:.1} J"),
            a if a >= 1.0 => write!(f, "{j:.3} J"),
            a if a >= 1e-3 => write!(f, "{:.2} mJ", j * 1e3),
            _ => write!(f, "{} µJ", self.0),
        }
    }
}

/// Power in microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroWatts(u64);

impl MicroWatts {
    /// From microwatts.
    pub const fn from_uw(uw: u64) -> Self {
        Self(uw)
    }

    /// From watts as a person types them; `None` unless finite, not negative and below 1 GW.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the check")]
    pub fn from_watts(watts: f64) -> Option<Self> {
        (watts.is_finite() && (0.0..1e9).contains(&watts)).then(|| Self((watts * 1e6).round() as u64))
    }

    /// In microwatts.
    pub const fn as_uw(self) -> u64 {
        self.0
    }

    /// In watts, for showing.
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    pub const fn as_watts(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Energy of this power over a time in nanoseconds, rounded to the nearest microjoule.
    pub fn over_ns(self, ns: u64) -> MicroJoules {
        let uj = (u128::from(self.0) * u128::from(ns) + 500_000_000) / 1_000_000_000;
        MicroJoules(i64::try_from(uj).unwrap_or(i64::MAX))
    }
}

/// A clock's frequency in thousands of cycles a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KiloHertz(u32);

impl KiloHertz {
    /// From kilohertz, as cpufreq gives it.
    pub const fn from_khz(khz: u32) -> Self {
        Self(khz)
    }

    /// In kilohertz.
    pub const fn as_khz(self) -> u32 {
        self.0
    }
}

/// A temperature in thousandths of a degree Celsius, as the kernel's sensors give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MilliCelsius(i32);

impl MilliCelsius {
    /// From thousandths of a degree.
    pub const fn from_mc(mc: i32) -> Self {
        Self(mc)
    }

    /// In thousandths of a degree.
    pub const fn as_mc(self) -> i32 {
        self.0
    }
}

impl fmt::Display for MilliCelsius {
    /// Whole degrees: sensors are no better.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} °C", f64::from(self.0) / 1e3)
    }
}

impl fmt::Display for KiloHertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} MHz", f64::from(self.0) / 1e3)
    }
}

impl fmt::Display for MicroWatts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} W", self.as_watts())
    }
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, MicroWatts};

    /// The parts sum to the whole whatever the weights, and no part is further than one unit from its exact share.
    #[test]
    fn split_is_exact() {
        let parts = MicroJoules::from_uj(100).split(&[1, 1, 1]).unwrap();
        assert_eq!(parts.iter().map(|p| p.as_uj()).collect::<Vec<_>>(), [34, 33, 33]);
        let parts = MicroJoules::from_uj(-7).split(&[3, 0, 1]).unwrap();
        assert_eq!(parts.iter().map(|p| p.as_uj()).collect::<Vec<_>>(), [-5, 0, -2]);
    }

    /// Products beyond 64 bits are divided exactly too: by a total beyond them, and by one within.
    #[test]
    fn split_beyond_64_bits() {
        let of = |uj: i64, weights: &[u64]| -> Vec<i64> {
            let parts = MicroJoules::from_uj(uj).split(weights).unwrap();
            parts.into_iter().map(MicroJoules::as_uj).collect()
        };
        let half = i64::MAX / 2;
        assert_eq!(of(i64::MAX, &[u64::MAX, u64::MAX]), [half + 1, half]);
        assert_eq!(of(-(1 << 40), &[3 << 40, 1 << 40]), [-3 << 38, -1 << 38]);
        assert_eq!(of(1 << 40, &[1 << 62, 1]), [1 << 40, 0]);
    }

    /// With nobody to give it to, energy is not given to anybody.
    #[test]
    fn split_without_weight_is_none() {
        assert_eq!(MicroJoules::from_uj(5).split(&[0, 0]), None);
        assert_eq!(MicroJoules::from_uj(5).split(&[]), None);
    }

    /// A watt over a second is a joule; rounding is to nearest.
    #[test]
    fn power_over_time() {
        assert_eq!(MicroWatts::from_watts(1.0).unwrap().over_ns(1_000_000_000).as_uj(), 1_000_000);
        assert_eq!(MicroWatts::from_uw(1).over_ns(499_999_999).as_uj(), 0);
        assert_eq!(MicroWatts::from_uw(1).over_ns(500_000_000).as_uj(), 1);
        assert_eq!(MicroWatts::from_watts(-1.0), None);
    }
}
