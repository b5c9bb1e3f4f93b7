//! The one clock of energy-trace, and its single tie to wall time.
//!
//! Leaves out reading it (the platform's `clock.rs`), and any other clock: a time from another source is converted where it enters.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`: what `bpf_ktime_get_ns` returns (kernel/bpf/helpers.c, v6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KtimeNs(u64);

impl KtimeNs {
    /// From raw nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Raw nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self` in nanoseconds; 0 when `earlier` is later.
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point half-way to `other`.
    pub const fn midpoint(self, other: Self) -> Self {
        Self(self.0.midpoint(other.0))
    }
}

impl Add<Duration> for KtimeNs {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for KtimeNs {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }
}

impl fmt::Display for KtimeNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// One moment read on both clocks: how a recording's times become dates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallAnchor {
    /// The moment on the one clock.
    pub ktime: KtimeNs,
    /// The same moment as nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
}

impl WallAnchor {
    /// Nanoseconds since 1970-01-01 UTC of a time on the one clock.
    pub const fn unix_ns_of(self, t: KtimeNs) -> u64 {
        self.unix_ns.saturating_add(t.as_ns()).saturating_sub(self.ktime.as_ns())
    }

    /// By how many nanoseconds the wall clock was set ahead since an earlier anchor; for so long the machine may have slept, too.
    pub const fn step_since(self, earlier: Self) -> i64 {
        let expected = earlier.unix_ns_of(self.ktime);
        self.unix_ns.cast_signed().saturating_sub(expected.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, WallAnchor};

    /// What the wall clock was set by, ahead or back, is what it is off from where it was going.
    #[test]
    fn steps() {
        let at = |ktime, unix_ns| WallAnchor { ktime: KtimeNs::from_ns(ktime), unix_ns };
        let before = at(1_000, 5_000_000);
        for step in [-4_000_000_i64, -1, 0, 7] {
            let now = at(61_000, 5_060_000_u64.saturating_add_signed(step));
            assert_eq!(now.step_since(before), step);
        }
    }
}
