//! A counter made of power readings, for devices without one. Leaves out what the power is a mean of.

use energy_trace_model::clock::KtimeNs;

/// Longer silences are not summed up: nobody knows what the power was.
const SILENCE_NS: u64 = 2_000_000_000;

/// Energy so far, in microjoules: the integral of the readings by the trapezoidal rule. Over a silence it stands still.
#[derive(Default)]
pub(super) struct PowerSum {
    last: Option<(KtimeNs, u64)>,
    /// In picojoules: milliwatts times nanoseconds.
    sum_pj: u128,
}

impl PowerSum {
    /// Takes a reading in milliwatts and returns the sum in microjoules.
    pub(super) fn add(&mut self, at: KtimeNs, power_mw: u64) -> u64 {
        if let Some((before, earlier_mw)) = self.last.replace((at, power_mw)) {
            let ns = at.ns_since(before);
            if ns <= SILENCE_NS {
                self.sum_pj += u128::from(ns) * (u128::from(power_mw) + u128::from(earlier_mw)) / 2;
            }
        }
        u64::try_from(self.sum_pj / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::PowerSum;
    use energy_trace_model::clock::KtimeNs;

    /// 100 W for a second, then a rise to 200 W over another; a long silence adds nothing.
    #[test]
    fn integral() {
        let mut sum = PowerSum::default();
        let mut at = |ms: u64, mw| sum.add(KtimeNs::from_ns(ms * 1_000_000), mw);
        assert_eq!(at(0, 100_000), 0);
        assert_eq!(at(1000, 100_000), 100_000_000);
        assert_eq!(at(2000, 200_000), 250_000_000);
        assert_eq!(at(9000, 200_000), 250_000_000);
    }
}
