//! What an interval's energy says about who had its time.
//!
//! ```text
//! nothing changed (probability z, `steady.rs`):  E_i = D · E⁰_i / E⁰
//! something did:                                 E_i = Ē_i + r · V_i / (V + N) + r · N / (V + N) · Ē_i / Ē,      r = D − Ē
//! ```
//!
//! Ē_i: expected energy by samples, V_i: its covariance with the interval's by times, V = Σ V_i, N: variance of the counter's edges. The
//! first step is the linear update of times by the energy (Kalman: A new approach to linear filtering and prediction problems, 1960).
//! What it leaves of r is the counter's own error, and goes to all by their expected energies: by the updated ones it would count twice,
//! and functions of many watts had up to 8 % too much (scenario B6). All parts sum to D.

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
    pub(crate) held: f64,
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
pub(crate) struct Settlement {
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
            self.list.push(Slot { place, expected: 0.0, with_all: 0.0, own: 0.0, held: 0.0 });
        }
        self.list.get_mut(*index)
    }

    /// Settles an interval of so many joules, and makes room for the next one; nothing where nobody is expected to have drawn power.
    /// `edge` is the variance of the counter's edges, `noise` at least that of any window, `stray` that of steady ones,
    /// where these show that functions draw the same power each time (`steady.rs`): else energy says nothing about times.
    pub(crate) fn settle(
        &mut self,
        joules: f64,
        edge: f64,
        noise: f64,
        stray: Option<f64>,
    ) -> Vec<Settlement> {
        let list = std::mem::take(&mut self.list);
        list.iter().for_each(|slot| self.index[slot.place] = usize::MAX);
        let probability = std::mem::take(&mut self.logarithm).exp().min(0.999);
        let sum = |of: fn(&Slot) -> f64| list.iter().map(of).sum::<f64>();
        let (mean, variance, of_steady) =
            (sum(|slot| slot.expected), sum(|slot| slot.with_all), sum(|slot| slot.held));
        if mean.is_nan() || mean <= 0.0 {
            return vec![];
        }
        let trusted = stray.is_some();
        let stray = stray.filter(|_| probability >= LEAST && of_steady > 0.0);
        let (steady, seen) = match stray {
            None => (0.0, Seen { steady: 0.0, variance }),
            Some(stray) => {
                let noise = noise_of(edge, stray, of_steady);
                let mixture = Mixture { steady: probability, of_steady, mean, variance, noise };
                (probability, mixture.seen(joules))
            }
        };
        let changed = |slot: &Slot| ((slot.expected - steady * slot.held) / (1.0 - steady)).max(0.0);
        let of_changed: f64 = list.iter().map(changed).sum();
        let z = if of_changed > 0.0 { seen.steady } else { 1.0 };
        let with_noise = (seen.variance + edge.max(noise)).max(f64::MIN_POSITIVE);
        let part = if variance > 0.0 { seen.variance / variance } else { 0.0 };
        let gain = if trusted { seen.variance / with_noise } else { 0.0 };
        let error = joules - of_changed;
        let reach = REACH * with_noise.sqrt();
        let told = error.clamp(-reach, reach);
        let settlement = |slot: &Slot| {
            let (held, changed) = (slot.held / of_steady.max(f64::MIN_POSITIVE), changed(slot));
            let share = changed / of_changed.max(f64::MIN_POSITIVE);
            let by_time = if trusted { part * slot.with_all / with_noise } else { 0.0 };
            let slope = by_time + (1.0 - gain) * share;
            let doubt = part * (slot.own - 2.0 * slope * slot.with_all + slope * slope * variance);
            let either = if z > 0.0 { held * joules * z } else { 0.0 };
            Settlement {
                place: slot.place,
                joules: either + (1.0 - z) * (changed + told * by_time + (error - told * gain) * share),
                variance: (1.0 - z) * doubt.max(0.0) + z * (1.0 - z) * (changed - slot.held).powi(2),
            }
        };
        list.iter().map(settlement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Settlement, Slots};

    /// Two functions of 4 and 16 W share 20 ms by halves, give or take; `logarithm` is that of the first one's having had all.
    fn settled(joules: f64, noise: f64, logarithm: f64) -> Vec<Settlement> {
        let mut slots = Slots::new(2);
        let variance = 1e-4 * 0.25;
        for (place, watts) in [(0, 4.0), (1, 16.0)] {
            let slot = slots.at(place).unwrap();
            slot.expected = watts * 0.01;
            slot.own = variance * watts * watts;
            slot.with_all = variance * watts * (watts - 10.0) * 2.0;
        }
        slots.at(0).unwrap().held = 4.0 * 0.02;
        slots.logarithm = logarithm;
        slots.settle(joules, noise, 0.0, Some(1e-4))
    }

    /// More energy than expected goes to who draws more: that one ran for longer, and the other one less. Noise goes to all alike.
    #[test]
    fn energy_tells_who_ran() {
        let exact = settled(0.26, 1e-9, f64::NEG_INFINITY);
        assert!(exact[0].joules < 0.04 && exact[1].joules > 0.22, "{exact:?}");
        let noisy = settled(0.26, 10.0, f64::NEG_INFINITY);
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
        let all = settled(0.08, 1e-8, f64::ln(0.5));
        assert!((all[0].joules - 0.08).abs() < 2e-3, "{all:?}");
        let other = settled(0.2, 1e-8, f64::ln(0.5));
        assert!(other[1].joules > 0.15, "{other:?}");
        assert!((other[0].joules + other[1].joules - 0.2).abs() < 1e-12);
    }
}
