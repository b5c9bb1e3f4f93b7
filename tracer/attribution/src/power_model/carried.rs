//! Powers that earlier windows of a machine have shown, for whoever attributes one after the other: a path that
//! drew 40 W in the last minute will hardly draw 5 in this one.
//!
//! ```text
//! w_c ~ N(W, V + (5 % W)² t)        W, V: what the last window that showed it left, t: minutes since
//! ```
//!
//! It stands beside what is believed beforehand (`prior`), so that windows which show little say what earlier ones
//! have shown, and those which show something else outweigh it within minutes: a random walk, followed as Kalman
//! (A new approach to linear filtering and prediction problems, 1960) follows one, path by path. Of windows that
//! contradict the powers nothing is carried, nor what came before them. Leaves out the regression (`fit`) and what
//! a window shows (`attribute::carrying`).

use std::collections::{BTreeMap, HashMap};

/// By how much a path's power changes within a minute: a standard deviation, in parts of it.
const CHANGE_A_MINUTE: f64 = 0.05;
/// Who is less sure than this, a variance in parts of the square, says less than nobody (`prior`).
const LEAST_SURE: f64 = 0.25;

/// A power in watts and its variance (W²).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Power {
    pub(crate) watts: f64,
    pub(crate) variance: f64,
}

impl Power {
    /// Whether it says anything.
    pub(crate) fn is_of_use(&self) -> bool {
        self.variance < LEAST_SURE * self.watts.powi(2)
    }
}

/// The powers of a domain's paths, by their names.
pub(crate) type Known = HashMap<u64, Power>;

/// What all windows of a machine so far have shown of the powers of its call paths.
#[derive(Debug, Default)]
pub struct CarriedPowers(BTreeMap<String, Known>);

impl CarriedPowers {
    /// Those of a domain.
    pub(crate) fn of(&self, domain: &str) -> Option<&Known> {
        self.0.get(domain)
    }

    /// Takes in what a window of so many minutes shows of a domain; `None`: it contradicts its powers.
    pub(crate) fn take(&mut self, domain: &str, shown: Option<Known>, minutes: f64) {
        let known = self.0.entry(domain.to_owned()).or_default();
        match shown {
            Some(shown) => known.extend(shown),
            None => known.clear(),
        }
        age(known, minutes);
    }
}

fn age(known: &mut Known, minutes: f64) {
    known.values_mut().for_each(|power| power.variance += (CHANGE_A_MINUTE * power.watts).powi(2) * minutes);
    known.retain(|_, power| power.is_of_use());
}

#[cfg(test)]
mod tests {
    use super::{CHANGE_A_MINUTE, CarriedPowers, Known, Power};

    /// After a while nothing is left of it, nor after a window that contradicts it.
    #[test]
    fn forgotten() {
        let power = Power { watts: 10.0, variance: 1.0 };
        let mut carried = CarriedPowers::default();
        carried.take("p", Some(Known::from([(7, power)])), 4.0);
        let known = carried.of("p").unwrap()[&7];
        assert!((known.variance - (1.0 + 100.0 * CHANGE_A_MINUTE.powi(2) * 4.0)).abs() < 1e-9);
        carried.take("p", Some(Known::new()), 100.0);
        assert!(carried.of("p").unwrap().is_empty() && carried.of("q").is_none());
        carried.take("p", Some(Known::from([(7, power)])), 0.0);
        carried.take("p", None, 0.0);
        assert!(carried.of("p").unwrap().is_empty());
    }
}
