//! What drives the sampler, and how far apart its samples are. Part of what a recording holds (`record`).
//!
//! Leaves out how that comes about (`probe/sampling`) and what it means for a sample's time (`attribution/`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What drives the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleEvent {
    /// Hardware cycles: non-maskable interrupts.
    Cycles,
    /// A timer of the kernel: ordinary interrupts.
    CpuClock,
}

impl SampleEvent {
    /// Its name, as `--sample-event` and the report have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }
}

impl fmt::Display for SampleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much the distance between two samples of a CPU varies by intention: it is random, and lies within the period times 1 ± this part. The
/// mean distance is the period. Without jitter a loop of the sampler's period would always be seen at the same place.
///
/// Interrupts come late now and then, and a kernel may hold samples back: single distances may be longer all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter(u16);

impl Jitter {
    /// Samples are evenly spaced: the kernel's limit leaves no room.
    pub const NONE: Self = Self(0);
    /// Half a period either way.
    pub const HALF: Self = Self(500);
    /// A whole one: some samples are next to each other.
    pub const WHOLE: Self = Self(1_000);

    /// Of thousandths of the period; more than the period is the period.
    pub const fn from_permille(permille: u16) -> Self {
        Self(if permille < 1_000 { permille } else { 1_000 })
    }

    /// In thousandths of the period.
    pub const fn as_permille(self) -> u16 {
        // A damaged file may hold any number.
        Self::from_permille(self.0).0
    }

    /// As a part of the period, from 0 to 1.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.as_permille()) / 1_000.0
    }

    /// The longest distance of two samples in nanoseconds, of a period in nanoseconds.
    pub const fn longest_ns(self, period_ns: u64) -> u64 {
        period_ns.saturating_add((period_ns / 1_000).saturating_mul(self.as_permille() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::Jitter;

    /// Half a period either way, nothing, and numbers that are no part of a period.
    #[test]
    fn parts_of_a_period() {
        assert_eq!((Jitter::HALF.as_permille(), Jitter::HALF.longest_ns(10_000_000)), (500, 15_000_000));
        assert!((Jitter::HALF.as_fraction() - 0.5).abs() < 1e-12);
        assert_eq!((Jitter::default(), Jitter::NONE.longest_ns(7_000)), (Jitter::NONE, 7_000));
        assert_eq!(Jitter::from_permille(u16::MAX).as_permille(), 1_000);
        assert_eq!(Jitter(u16::MAX).longest_ns(u64::MAX), u64::MAX);
    }
}
