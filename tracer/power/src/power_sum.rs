//! A counter made of power readings, for what has none. Leaves out what the power is a mean of.

use energy_trace_model::clock::KtimeNs;
use std::time::Duration;

/// Longer silences are not summed up: nobody knows what the power was.
const SILENCE_NS: u64 = 2_000_000_000;
/// Readings of a meter that is read seldom may be so many of its periods apart.
const SILENT_PERIODS: u64 = 4;

/// Energy so far, in microjoules: the integral of the readings. Over a silence it stands still, or it begins again at zero behind it: what was
/// drawn meanwhile is not known.
pub(crate) struct PowerSum {
    last: Option<(KtimeNs, u64)>,
    silence_ns: u64,
    begins_again: bool,
    /// In picojoules.
    sum_pj: u128,
}

impl Default for PowerSum {
    fn default() -> Self {
        Self { last: None, silence_ns: SILENCE_NS, begins_again: false, sum_pj: 0 }
    }
}

impl PowerSum {
    /// Of a meter that is read so often, whose sum begins again behind a silence.
    pub(crate) fn read_each(period: Duration) -> Self {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let silence_ns = period_ns.saturating_mul(SILENT_PERIODS).max(SILENCE_NS);
        Self { silence_ns, begins_again: true, ..Self::default() }
    }

    /// Takes the power of a moment in microwatts, and returns the sum in microjoules: by the trapezoidal rule.
    pub(crate) fn add(&mut self, at: KtimeNs, power_uw: u64) -> u64 {
        let earlier_uw = self.last.map_or(power_uw, |(_, earlier)| earlier);
        self.add_twice(at, power_uw, u128::from(power_uw) + u128::from(earlier_uw))
    }

    /// The same of a mean over the time since the reading before: its energy is the mean times that time.
    pub(crate) fn add_mean(&mut self, at: KtimeNs, mean_uw: u64) -> u64 {
        self.add_twice(at, mean_uw, 2 * u128::from(mean_uw))
    }

    /// Adds the time since the reading before at half of this power; microwatts times nanoseconds are a thousandth of a picojoule.
    fn add_twice(&mut self, at: KtimeNs, power_uw: u64, twice_uw: u128) -> u64 {
        if let Some((before, _)) = self.last.replace((at, power_uw)) {
            let ns = at.ns_since(before);
            if ns <= self.silence_ns {
                self.sum_pj += u128::from(ns) * twice_uw / 2_000;
            } else if self.begins_again {
                self.sum_pj = 0;
            }
        }
        u64::try_from(self.sum_pj / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::PowerSum;
    use energy_trace_model::clock::KtimeNs;
    use std::time::Duration;

    const WATT: u64 = 1_000_000;

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    /// 100 W for a second, then a rise to 200 W over another; a long silence adds nothing.
    #[test]
    fn integral() {
        let mut sum = PowerSum::default();
        let mut add = |ms, watts: u64| sum.add(at(ms), watts * WATT);
        assert_eq!(add(0, 100), 0);
        assert_eq!(add(1000, 100), 100_000_000);
        assert_eq!(add(2000, 200), 250_000_000);
        assert_eq!(add(9000, 200), 250_000_000);
    }

    /// A mean of the second before it is that second's energy, whatever the power was before; a meter that is read each second may miss three.
    #[test]
    fn means() {
        let mut sum = PowerSum::read_each(Duration::from_secs(1));
        let mut add = |ms, watts: u64| sum.add_mean(at(ms), watts * WATT);
        assert_eq!(add(0, 500), 0);
        assert_eq!(add(1000, 100), 100_000_000);
        assert_eq!(add(2000, 200), 300_000_000);
        assert_eq!(add(5000, 100), 600_000_000);
        // Nobody knows what was drawn meanwhile: it begins again.
        assert_eq!(add(10_000, 100), 0);
        assert_eq!(add(11_000, 100), 100_000_000);
    }
}
