//! What a thread was probably doing between two samples.
//!
//! A sample says what a thread did at one moment. A thread in function a at one sample and in b at the next
//! went from one to the other somewhere between, perhaps by way of others. Taken as a chain that leaves its
//! function at rate λ and then draws the next one from the thread's mix π (so that it forgets where it was
//! with e^(−λt)), the probability of function i at distance s behind a and t before b is
//!
//! ```text
//! P(i | a, b) = P_ai(s) · P_ib(t) / P_ab(s + t),       P_ij(t) = e^(−λt) [i = j] + (1 − e^(−λt)) π_j
//! ```
//!
//! whose mean over a stretch has a closed form: α on a, β on b, γ on π. Why this and not "each sample owns
//! the time around it": times that are conditional expectations make the regression of watts unbiased
//! (Berkson's error model; Carroll et al.: Measurement error in nonlinear models, 2006, §1.4), where times
//! with sampling noise in them pull all watts to the mean. For slow chains it is a border that is anywhere
//! between two samples with equal probability.
//!
//! Distances are in the thread's own CPU time, or in time on the clock where its samples say that it forgets
//! while it sleeps, or endless across any sleep where they say that it begins something else each time.
//! Leaves out how λ and π are found (`switching_chain`).

use super::interval_slices::IntervalSlice;
use crate::time::inter_sample::{NO_TRACK, NOBODY};

/// How fast a thread forgets what it was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    /// Per nanosecond.
    pub(crate) rate: f64,
    pub(crate) asleep: SleepMixing,
}

/// What a thread forgets while it is off its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SleepMixing {
    /// Nothing: it goes on where it was.
    #[default]
    Nothing,
    /// As much as on the CPU.
    AsAwake,
    /// All: whenever it comes back it begins something.
    All,
}

impl SleepMixing {
    /// The distance that a sleep stands for, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a time for a probability")]
    pub(crate) const fn distance(self, slept_ns: u64) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::AsAwake => slept_ns as f64,
            Self::All => {
                if slept_ns > SLEEP_NS {
                    FAR_NS
                } else {
                    0.0
                }
            }
        }
    }
}

/// Shorter than this no thread sleeps: two clocks were read one after the other.
const SLEEP_NS: u64 = 1_000;
/// Further than any chain remembers.
const FAR_NS: f64 = 1e15;

/// Mean probabilities over a slice: of the left sample's function, of the right one's, of the thread's mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BridgeWeights {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) mix: f64,
    /// How far the slice's time in a function strays from its mean, as part of the largest possible variance
    /// p (1 − p) t².
    pub(crate) spread: f64,
}

/// e⁻ˣ, which takes long. Many distances are nothing, and many are so far that nothing is left: e⁻⁷⁴⁶ is
/// below the least number that there is.
pub(crate) fn decay(x: f64) -> f64 {
    match x {
        ..=0.0 => 1.0,
        746.0.. => 0.0,
        _ => (-x).exp(),
    }
}

impl BridgeWeights {
    const CERTAIN: Self = Self { left: 1.0, right: 0.0, mix: 0.0, spread: 0.0 };

    /// Each moment is the nearest sample's: what is compared with the chain's times to see how much depends
    /// on them.
    #[expect(clippy::cast_precision_loss, reason = "a part of a time")]
    pub(crate) fn nearest(slice: &IntervalSlice) -> Self {
        if slice.track == NO_TRACK || slice.right == NOBODY {
            return Self::CERTAIN;
        }
        let whole = slice.before_ns.saturating_add(slice.ns).saturating_add(slice.after_ns);
        let of_left = (whole / 2).saturating_sub(slice.before_ns).min(slice.ns);
        let left = of_left as f64 / slice.ns.max(1) as f64;
        // The border is anywhere.
        Self { left, right: 1.0 - left, mix: 0.0, spread: 1.0 / 3.0 }
    }

    /// Of a slice whose chain forgets at `rate` (per nanosecond). `same` is the mix's probability of the
    /// function that both samples show; `None` where they differ.
    #[expect(clippy::cast_precision_loss, reason = "probabilities")]
    pub(crate) fn new(slice: &IntervalSlice, Rate { rate, asleep }: Rate, same: Option<f64>) -> Self {
        if slice.track == NO_TRACK {
            return Self::CERTAIN;
        }
        let asleep = |ns: u64| asleep.distance(ns);
        let before = slice.before_ns as f64 + asleep(slice.slept_before_ns);
        let (ns, after) = (slice.ns as f64, slice.after_ns as f64 + asleep(slice.slept_after_ns));
        let decay = |ns: f64| decay(rate * ns);
        let x = rate * ns;
        let forgotten = -(-x).exp_m1();
        let mean_decay = if x < 1e-9 { 1.0 } else { forgotten / x };
        let from_left = decay(before) * mean_decay;
        // The variance of a time average of a process that forgets: 1 where slow, 2/x where fast.
        let averaged = if x < 1e-4 { 1.0 } else { 2.0 * (x - forgotten) / (x * x) };
        if slice.right == NOBODY {
            return Self { left: from_left, right: 0.0, mix: 1.0 - from_left, spread: averaged };
        }
        let from_right = decay(after) * mean_decay;
        let both = decay(before + ns + after);
        let neither = (1.0 - from_left - from_right + both).max(0.0);
        // A single border between two samples is evenly distributed: a third of the largest variance.
        let spread = averaged * (1.0 - both * 2.0 / 3.0);
        match same {
            Some(pi) => {
                let whole = both + (1.0 - both) * pi;
                let left = (both + pi * (from_left + from_right - 2.0 * both)) / whole;
                Self { left, right: 0.0, mix: pi * neither / whole, spread }
            }
            None => {
                let whole = (1.0 - both).max(f64::MIN_POSITIVE);
                let (left, right) = ((from_left - both) / whole, (from_right - both) / whole);
                Self { left: left.max(0.0), right: right.max(0.0), mix: neither / whole, spread }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BridgeWeights, IntervalSlice, NO_TRACK, NOBODY, Rate, SleepMixing, decay};
    use crate::tests::vectors::{Vectors, list, near};

    const fn awake(rate: f64) -> Rate {
        Rate { rate, asleep: SleepMixing::Nothing }
    }

    fn slice(right: u32, before_ns: u64, ns: u64, after_ns: u64) -> IntervalSlice {
        IntervalSlice {
            track: 0,
            left: 1,
            right,
            before_ns,
            ns,
            after_ns,
            gap: 0,
            ..IntervalSlice::nobodys()
        }
    }

    /// Between two different samples of a slow chain the border is anywhere: a quarter of the way in, three
    /// quarters are still the left one's. Nothing goes to others.
    #[test]
    fn slow_chains_have_one_border() {
        let bridge = BridgeWeights::new(&slice(2, 0, 5_000_000, 5_000_000), awake(1e-12), None);
        assert!((bridge.left - 0.75).abs() < 1e-3 && (bridge.right - 0.25).abs() < 1e-3, "{bridge:?}");
        assert!(bridge.mix < 1e-3 && (bridge.spread - 1.0 / 3.0).abs() < 1e-2, "{bridge:?}");
    }

    /// Far from any sample of a fast chain only the mix is known; probabilities always sum to one.
    #[test]
    fn fast_chains_forget() {
        let far = BridgeWeights::new(&slice(2, 5_000_000, 1_000_000, 5_000_000), awake(1e-5), None);
        assert!(far.mix > 0.999_999, "{far:?}");
        for (right, same) in [(1, Some(0.3)), (2, None), (NOBODY, None)] {
            for rate in [1e-10, 1e-7, 1e-6, 1e-5] {
                let bridge =
                    BridgeWeights::new(&slice(right, 300_000, 900_000, 2_000_000), awake(rate), same);
                let sum = bridge.left + bridge.right + bridge.mix;
                assert!((sum - 1.0).abs() < 1e-6, "{right} {rate}: {bridge:?}");
            }
        }
    }

    /// The mean probability of each state between two samples, by the matrix exponential of the chain's
    /// generator and quadrature (SciPy).
    #[test]
    fn as_the_generator() {
        let vectors = Vectors::of("bridge");
        let pi = vectors.list("pi");
        for case in vectors.get("cases").as_array().unwrap() {
            let ns = |name: &str| (case[name].as_f64().unwrap() * 1e6).round() as u64;
            let state = case["right"].as_u64().map(|state| state as usize);
            let right = state.map_or(NOBODY, |state| u32::try_from(state).unwrap() + 1);
            let same = (state == Some(0)).then_some(pi[0]);
            let rate = awake(case["per_ms"].as_f64().unwrap() / 1e6);
            let bridge =
                BridgeWeights::new(&slice(right, ns("before_ms"), ns("ms"), ns("after_ms")), rate, same);
            let of = |i: usize| {
                let (is_left, is_right) =
                    (f64::from(u8::from(i == 0)), f64::from(u8::from(Some(i) == state)));
                bridge.left * is_left + bridge.right * is_right + bridge.mix * pi[i]
            };
            near(&[of(0), of(1), of(2)], &list(&case["mean"]), 1e-8);
        }
    }

    /// The variance of the time average of a chain that forgets, in parts of that of one moment, by a double
    /// integral (SciPy); between two samples of a slow chain a third of it is left.
    #[test]
    fn spread_of_an_average() {
        let averaged = Vectors::of("bridge").table("averaged");
        for pair in averaged {
            let (x, expected) = (pair[0], pair[1]);
            let alone = BridgeWeights::new(&slice(NOBODY, 0, 1_000_000, 0), awake(x / 1e6), None);
            assert!((alone.spread - expected).abs() < 1e-6, "{x}: {alone:?}");
            let between = BridgeWeights::new(&slice(2, 0, 1_000_000, 0), awake(x / 1e6), None);
            assert!((between.spread - expected * (1.0 - 2.0 / 3.0 * (-x).exp())).abs() < 1e-6, "{between:?}");
        }
        let slow = BridgeWeights::new(&slice(NOBODY, 0, 1_000_000, 0), awake(1e-12), None);
        assert!(slow.spread == 1.0 && (slow.left - 1.0).abs() < 1e-6, "{slow:?}");
    }

    /// What is left after any distance is what the exponential says, to the last bit.
    #[test]
    fn decays() {
        for x in
            [0.0, 1e-300, 0.5, 700.0, 744.0, 745.1, 745.2, 745.999, 746.0, 747.0, 3e4, 1e300, f64::INFINITY]
        {
            assert_eq!(decay(x), (-x).exp(), "{x}");
        }
    }

    /// A sleep is a distance as far as the chain forgets in it: not at all, as much as awake, or everything;
    /// two clocks that were read one after the other are no sleep.
    #[test]
    fn asleep() {
        let distance = |asleep: SleepMixing, ns| asleep.distance(ns);
        assert_eq!(
            [distance(SleepMixing::Nothing, 5_000_000), distance(SleepMixing::AsAwake, 5_000_000)],
            [0.0, 5e6]
        );
        assert_eq!([distance(SleepMixing::All, 1_000), distance(SleepMixing::All, 1_001)], [0.0, 1e15]);
        let mut slept = slice(NOBODY, 300_000, 200_000, 0);
        (slept.slept_before_ns, slept.slept_after_ns) = (700_000, 400_000);
        let of = |asleep| BridgeWeights::new(&slept, Rate { rate: 1e-6, asleep }, None);
        let awake = |before_ns| BridgeWeights::new(&slice(NOBODY, before_ns, 200_000, 0), awake(1e-6), None);
        assert_eq!((of(SleepMixing::Nothing), of(SleepMixing::AsAwake)), (awake(300_000), awake(1_000_000)));
        assert!(of(SleepMixing::All).mix > 0.999_999);
        let between = IntervalSlice { right: 2, ..slept };
        let both = BridgeWeights::new(&between, Rate { rate: 1e-6, asleep: SleepMixing::AsAwake }, None);
        let awake = BridgeWeights::new(
            &slice(2, 1_000_000, 200_000, 400_000),
            Rate { rate: 1e-6, asleep: SleepMixing::Nothing },
            None,
        );
        assert_eq!(both, awake);
    }

    /// Of 4 ms that begin 1 ms behind a sample and end 3 ms before the next one, three quarters are nearer to
    /// the first; what is certain is certain.
    #[test]
    fn nearest_samples() {
        let of = |right, before, ns, after| BridgeWeights::nearest(&slice(right, before, ns, after)).left;
        assert_eq!(of(2, 1_000_000, 4_000_000, 3_000_000), 0.75);
        assert_eq!([of(2, 0, 1_000, 9_000), of(2, 9_000, 1_000, 0), of(NOBODY, 9, 1, 0)], [1.0, 0.0, 1.0]);
        let bridge = BridgeWeights::nearest(&slice(2, 1_000_000, 4_000_000, 3_000_000));
        assert_eq!((bridge.right, bridge.mix, bridge.spread), (0.25, 0.0, 1.0 / 3.0));
        let certain = IntervalSlice { track: NO_TRACK, ..slice(2, 9_000, 1_000, 0) };
        assert_eq!(
            (BridgeWeights::nearest(&certain), BridgeWeights::new(&certain, awake(1.0), None)),
            (BridgeWeights::CERTAIN, BridgeWeights::CERTAIN)
        );
    }
}
