//! What an interval's energy says about who had its time.
//!
//! ```text
//! nothing changed (probability z, `stationary_windows`):  E_i = D · E⁰_i / E⁰
//! something did:                                 E_i = Ē_i + r · V_i / (V + N) + r · N / (V + N) · Ē_i / Ē,      r = D − Ē
//! ```
//!
//! Ē_i: expected energy by samples, V_i: its covariance with the interval's by times, V = Σ V_i, N: variance of the counter's edges. The
//! first step is the linear update of times by the energy (Kalman: A new approach to linear filtering and prediction problems, 1960).
//! What it leaves of r is the counter's own error, and goes to all by their expected energies: by the updated ones it would count twice,
//! and functions of many watts had up to 8 % too much. All parts sum to D.

use crate::power_model::stationary_windows::{LEAST, Mixture, Seen, noise_of};

/// From so many standard deviations on an energy says no more about times.
const REACH: f64 = 3.0;

/// One who may have had some of an interval's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) place: usize,
    /// Expected joules.
    pub(crate) expected: f64,
    /// Covariance of its energy with the interval's, and its own variance (J²).
    pub(crate) with_all: f64,
    pub(crate) own: f64,
    /// Joules if nothing changed.
    pub(crate) unchanged: f64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Slots {
    index: Vec<usize>,
    list: Vec<Slot>,
    /// Logarithm of the probability that nothing changed.
    pub(crate) logarithm: f64,
}

/// What a slot gets, and the variance of that (J²).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PosteriorShare {
    pub(crate) place: usize,
    pub(crate) joules: f64,
    pub(crate) variance: f64,
}

impl Slots {
    /// Room for so many places.
    pub(crate) fn new(places: usize) -> Self {
        Self { index: vec![usize::MAX; places], list: vec![], logarithm: 0.0 }
    }

    /// The slot of a place; `None` where there is no such place.
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Slot> {
        let index = self.index.get_mut(place)?;
        if *index == usize::MAX {
            *index = self.list.len();
            self.list.push(Slot { place, expected: 0.0, with_all: 0.0, own: 0.0, unchanged: 0.0 });
        }
        self.list.get_mut(*index)
    }

    /// Settles an interval of so many joules, and makes room for the next one; nothing where nobody is expected to have drawn power.
    /// `edge` is the variance of the counter's edges, `noise` at least that of any window, `spread` that of steady ones,
    /// where these show that functions draw the same power each time (`stationary_windows`): else energy says nothing about times.
    pub(crate) fn posterior_update(
        &mut self,
        joules: f64,
        edge: f64,
        noise: f64,
        spread: Option<f64>,
    ) -> Vec<PosteriorShare> {
        let list = std::mem::take(&mut self.list);
        list.iter().for_each(|slot| self.index[slot.place] = usize::MAX);
        let probability = std::mem::take(&mut self.logarithm).exp().min(0.999);
        let sum = |of: fn(&Slot) -> f64| list.iter().map(of).sum::<f64>();
        let (mean, variance, of_stationary) =
            (sum(|slot| slot.expected), sum(|slot| slot.with_all), sum(|slot| slot.unchanged));
        if mean.is_nan() || mean <= 0.0 {
            return vec![];
        }
        let is_informative = spread.is_some();
        let spread = spread.filter(|_| probability >= LEAST && of_stationary > 0.0);
        let (stationary, seen) = match spread {
            None => (0.0, Seen { stationary: 0.0, variance }),
            Some(spread) => {
                let noise = noise_of(edge, spread, of_stationary);
                let mixture = Mixture { stationary: probability, of_stationary, mean, variance, noise };
                (probability, mixture.seen(joules))
            }
        };
        let changed =
            |slot: &Slot| ((slot.expected - stationary * slot.unchanged) / (1.0 - stationary)).max(0.0);
        let of_changed: f64 = list.iter().map(changed).sum();
        let z = if of_changed > 0.0 { seen.stationary } else { 1.0 };
        let with_noise = (seen.variance + edge.max(noise)).max(f64::MIN_POSITIVE);
        let part = if variance > 0.0 { seen.variance / variance } else { 0.0 };
        let gain = if is_informative { seen.variance / with_noise } else { 0.0 };
        let error = joules - of_changed;
        let reach = REACH * with_noise.sqrt();
        let informative = error.clamp(-reach, reach);
        let of_slot = |slot: &Slot| {
            let (unchanged, changed) = (slot.unchanged / of_stationary.max(f64::MIN_POSITIVE), changed(slot));
            let share = changed / of_changed.max(f64::MIN_POSITIVE);
            let by_time = if is_informative { part * slot.with_all / with_noise } else { 0.0 };
            let slope = by_time + (1.0 - gain) * share;
            let variance_by_time = part * (slot.own - 2.0 * slope * slot.with_all + slope * slope * variance);
            let either = if z > 0.0 { unchanged * joules * z } else { 0.0 };
            PosteriorShare {
                place: slot.place,
                joules: either
                    + (1.0 - z) * (changed + informative * by_time + (error - informative * gain) * share),
                variance: (1.0 - z) * variance_by_time.max(0.0)
                    + z * (1.0 - z) * (changed - slot.unchanged).powi(2),
            }
        };
        list.iter().map(of_slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{PosteriorShare, Slots};

    /// Two functions of 4 and 16 W share 20 ms by halves, give or take; `logarithm` is that of the first one's having had all.
    fn posterior(joules: f64, noise: f64, logarithm: f64) -> Vec<PosteriorShare> {
        let mut slots = Slots::new(2);
        let variance = 1e-4 * 0.25;
        for (place, watts) in [(0, 4.0), (1, 16.0)] {
            let slot = slots.at(place).unwrap();
            slot.expected = watts * 0.01;
            slot.own = variance * watts * watts;
            slot.with_all = variance * watts * (watts - 10.0) * 2.0;
        }
        slots.at(0).unwrap().unchanged = 4.0 * 0.02;
        slots.logarithm = logarithm;
        slots.posterior_update(joules, noise, 0.0, Some(1e-4))
    }

    /// More energy than expected goes to who draws more: that one ran for longer, and the other one less. Noise goes to all alike.
    #[test]
    fn energy_tells_who_ran() {
        let exact = posterior(0.26, 1e-9, f64::NEG_INFINITY);
        assert!(exact[0].joules < 0.04 && exact[1].joules > 0.22, "{exact:?}");
        let noisy = posterior(0.26, 10.0, f64::NEG_INFINITY);
        assert!(
            (noisy[0].joules - 0.052).abs() < 1e-4 && (noisy[1].joules - 0.208).abs() < 1e-4,
            "{noisy:?}"
        );
        for all in [exact, noisy] {
            assert!((all.iter().map(|one| one.joules).sum::<f64>() - 0.26).abs() < 1e-12);
        }
    }

    /// An interval that holds what the first one draws all the time was all the first one's.
    #[test]
    fn steady_intervals_are_told_by_their_energy() {
        let all = posterior(0.08, 1e-8, f64::ln(0.5));
        assert!((all[0].joules - 0.08).abs() < 2e-3, "{all:?}");
        let other = posterior(0.2, 1e-8, f64::ln(0.5));
        assert!(other[1].joules > 0.15, "{other:?}");
        assert!((other[0].joules + other[1].joules - 0.2).abs() < 1e-12);
    }
}
