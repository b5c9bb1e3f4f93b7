//! Which ticks of the sampler's event become samples: the distance of two samples is random, so that no loop of a program keeps step with it.
//!
//! The event ticks more often than samples are wanted; a sample is one tick or two behind the last, by chance, such that the mean is as
//! asked for. Another event may tick beside it, seldom: each of its ticks is a sample, however near to others. Leaves out how fast events tick
//! and that their periods are drawn anew now and then (user space, `sampling/rate`).

/// The state of one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countdown {
    /// The next tick is passed over: 1, else 0.
    pub passes: u16,
    /// Ticks of an odd period are samples: 1, else 0.
    pub takes_odd: u16,
    /// How many of 2^32 samples are two ticks behind the one before; 0: every tick is a sample.
    pub two_ticks: u32,
}

impl Countdown {
    /// A new state: of `ticks` in a time `samples` become samples. Fewer ticks than samples count as that many, more than twice as many as
    /// twice as many.
    pub const fn new(ticks: u32, samples: u32) -> Self {
        let (ticks, samples) = (ticks as u64, if samples == 0 { 1 } else { samples as u64 });
        let two_ticks = (ticks.saturating_sub(samples) << 32) / samples;
        Self {
            passes: 0,
            takes_odd: 0,
            two_ticks: if two_ticks > u32::MAX as u64 { u32::MAX } else { two_ticks as u32 },
        }
    }

    /// As it lies in memory.
    pub const fn as_word(self) -> u64 {
        let ([a, b], [c, d]) = (self.passes.to_ne_bytes(), self.takes_odd.to_ne_bytes());
        let [e, f, g, h] = self.two_ticks.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }

    /// The same beside an event of an odd period.
    #[must_use]
    pub const fn beside_odd(self) -> Self {
        Self { takes_odd: 1, ..self }
    }

    /// Takes a tick of an event of this period; whether it is a sample. `random` gives any number of 32 bits.
    #[inline(always)]
    pub fn is_sample(&mut self, period: u64, random: impl FnOnce() -> u32) -> bool {
        if self.takes_odd != 0 && period & 1 == 1 {
            return true;
        }
        if self.passes != 0 {
            self.passes = 0;
            return false;
        }
        self.passes = u16::from(random() < self.two_ticks);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Countdown;

    /// A generator with good upper bits (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016: splitmix64).
    fn random(state: &mut u64) -> u32 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    /// Distances of samples in ticks: how many were one and how many two. Every other one is a failure.
    fn distances(mut countdown: Countdown, ticks: u32) -> [u32; 2] {
        let (mut state, mut since, mut counts) = (7, 0, [0; 2]);
        assert!(countdown.is_sample(2, || 0), "the first tick is a sample");
        for _ in 0..ticks {
            since += 1;
            if countdown.is_sample(2, || random(&mut state)) {
                counts[since - 1] += 1;
                since = 0;
            }
        }
        counts
    }

    /// One tick or two, as many of each as the mean needs, give or take five standard deviations of chance.
    #[test]
    fn the_mean_is_as_asked_for() {
        for (ticks, samples) in [(807, 499), (160, 99), (1_618, 1_000), (3, 2)] {
            let [one, two] = distances(Countdown::new(ticks, samples), 100_000).map(f64::from);
            let (mean, wanted) = ((one + 2.0 * two) / (one + two), f64::from(ticks) / f64::from(samples));
            let deviation = ((2.0 - wanted) * (wanted - 1.0) / (one + two)).sqrt();
            assert!((mean - wanted).abs() < 5.0 * deviation, "{mean} ticks instead of {wanted}");
            assert!(one > 0.0 && two > 0.0);
        }
    }

    /// Ticks of an odd period are samples and change nothing, where there is such an event; else they count as all do.
    #[test]
    fn an_event_beside() {
        let mut beside = Countdown::new(1_618, 1_000).beside_odd();
        assert!(beside.is_sample(2, || 0) && beside.is_sample(3, || 0) && !beside.is_sample(2, || 0));
        let mut alone = Countdown::new(1_618, 1_000);
        assert!(alone.is_sample(3, || 0) && !alone.is_sample(3, || 0));
    }

    /// As many ticks as samples, or fewer: every tick is one. Twice as many or more: every second one, and 0 samples are one.
    #[test]
    fn ends_of_the_range() {
        assert_eq!(distances(Countdown::new(99, 99), 1_000), [1_000, 0]);
        assert_eq!(distances(Countdown::new(9, 99), 1_000), [1_000, 0]);
        assert_eq!(distances(Countdown::new(400, 100), 1_000), [0, 500]);
        assert_eq!(Countdown::new(2, 0).two_ticks, u32::MAX);
        assert_eq!(distances(Countdown::default(), 10), [10, 0]);
    }
}
