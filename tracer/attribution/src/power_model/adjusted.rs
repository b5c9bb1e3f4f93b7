//! Intervals as their counter saw them, and the times in them, as the corrections have them.
//!
//! Leaves out how the corrections' numbers are found (`corrections`).

use super::corrections::{ALL, Apply, asked};
use super::settings::{Circumstances, Settings};
use crate::between_samples::interval_slices::IntervalSlices;
use crate::parts::LeftOut;
use crate::time::busy_cpus::BusyCpus;
use crate::time::compact_slices::DomainSlices;
use crate::time::conditions::Conditions;
use crate::timeline::EnergyInterval;

/// Intervals and the times in them, as these settings have them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjusted<'p> {
    pub(crate) intervals: Vec<EnergyInterval>,
    pub(crate) slices: IntervalSlices<'p>,
    pub(crate) settings: Settings,
}

impl<'p> Adjusted<'p> {
    /// With what is usual where a run may show it and has not been asked.
    pub(crate) fn usual(
        intervals: &[EnergyInterval],
        slices: &DomainSlices<'p>,
        conditions: &Conditions,
        left_out: LeftOut,
    ) -> Self {
        let mut settings = Settings { left_out, ..Settings::default() };
        let plain = Self::new(intervals, slices, conditions, settings);
        for correction in asked(left_out) {
            if let Apply::ToWeights { usual, .. } = correction.apply {
                usual(&mut settings, &plain.slices);
            }
        }
        plain.weighed(settings)
    }

    /// With these settings.
    pub(crate) fn new(
        intervals: &[EnergyInterval],
        slices: &DomainSlices<'p>,
        conditions: &Conditions,
        settings: Settings,
    ) -> Self {
        let mut intervals = intervals.to_vec();
        for correction in ALL {
            if let Apply::ToIntervals(apply) = correction.apply {
                intervals = apply(&settings, &intervals);
            }
        }
        let slices = IntervalSlices::new(&intervals, slices, conditions);
        Self { intervals, slices, settings }.weighed(settings)
    }

    /// The same intervals and times, which weigh as these settings have it.
    pub(crate) fn weighed(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self.slices.weigh(|shared, clock| weight(&settings, &Circumstances { shared, clock }));
        self
    }

    /// Applies that call paths draw other power while other CPUs are busy.
    pub(crate) fn contended(&mut self, busy: &BusyCpus) {
        for correction in ALL {
            if let Apply::ToColumns(apply) = correction.apply {
                apply(&mut self.slices, busy);
            }
        }
        self.settings.contended = true;
    }
}

/// What a time weighs, in parts of a lone thread's at the mean clock.
fn weight(settings: &Settings, here: &Circumstances) -> f64 {
    let of = |apply: Apply| match apply {
        Apply::ToWeights { weight, .. } => weight(settings, here),
        _ => 1.0,
    };
    ALL.iter().fold(1.0, |product, correction| product * of(correction.apply))
}

#[cfg(test)]
mod tests {
    use super::{Adjusted, Conditions, EnergyInterval, IntervalSlices, Settings};
    use crate::power_model::tests::toy::{at_ms, slice};
    use crate::tests::slices::certain_slices;
    use crate::time::owners::Segment;
    use crate::timeline::Span;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::units::MicroJoules;

    /// Intervals of a counter that is behind are earlier by that, and the first one's times with them.
    #[test]
    fn intervals_are_moved() {
        let span = Span { start: at_ms(20.0), end: at_ms(40.0) };
        let interval = EnergyInterval { span, energy: MicroJoules::from_uj(5) };
        let ran = Span { start: at_ms(10.0), end: at_ms(39.25) };
        let slices = certain_slices(&[Segment { cpu: CpuId::new(0), span: ran, owner: 1 }]);
        let of = |delay_ns| {
            let settings = Settings { delay_ns, ..Settings::default() };
            Adjusted::new(&[interval], &slices, &Conditions::default(), settings)
        };
        let (now, moved) = (of(0), of(1_000_000));
        let first = |adjusted: &Adjusted<'_>| adjusted.slices.iter().next().unwrap();
        assert_eq!((now.intervals[0], first(&now).ns), (interval, 19_250_000));
        assert_eq!((moved.intervals[0].span.start, moved.intervals[0].span.end), (at_ms(19.0), at_ms(39.0)));
        assert_eq!((first(&moved).ns, first(&moved).weight), (20_000_000, 1.0));
    }

    /// Weights: half of the time beside a busy hardware thread at η = 0.2 is 0.8; at twice the mean clock and
    /// an exponent of 2 it is four times.
    #[test]
    fn circumstances_weigh() {
        let slices = IntervalSlices::under(&slice(0, 0, 0.0, 1.0), 0.5, 2.0);
        let adjusted = Adjusted { slices, ..Adjusted::default() };
        let of = |eta, exponent| {
            let weighed = adjusted.clone().weighed(Settings { eta, exponent, ..Settings::default() });
            weighed.slices.iter().next().unwrap().weight
        };
        assert!((of(Some(0.2), None) - 0.8).abs() < 1e-12 && (of(None, Some(2.0)) - 4.0).abs() < 1e-12);
        assert!((of(Some(0.2), Some(2.0)) - 3.2).abs() < 1e-12 && (of(None, None) - 1.0).abs() < 1e-12);
    }
}
