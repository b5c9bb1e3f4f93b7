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
//! contradict the powers nothing is carried, nor what came before them. Leaves out the regression (`fit`).

use super::learn::{Model, PowerModel};
use super::paths::PathTree;
use crate::ledger::result::DomainResult;
use crate::timeline::Span;
use crate::uncertainty::covariance;
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
    fn is_of_use(&self) -> bool {
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

    /// Takes in what a window shows of a domain.
    pub(crate) fn take(&mut self, result: &DomainResult, tree: &PathTree, span: Span) {
        let Some(basis) = result.cpu_basis() else { return };
        let known = self.0.entry(result.row.domain.clone()).or_default();
        match &basis.power_model {
            PowerModel::Known(model) => known.extend(shown(model, tree)),
            PowerModel::Refused(_) => known.clear(),
            PowerModel::Single(_) => {}
        }
        age(known, span.ns() as f64 / 60e9);
    }
}

fn age(known: &mut Known, minutes: f64) {
    known.values_mut().for_each(|power| power.variance += (CHANGE_A_MINUTE * power.watts).powi(2) * minutes);
    known.retain(|_, power| power.is_of_use());
}

/// The powers of a model's columns, as far as it is sure of them.
fn shown(model: &Model, tree: &PathTree) -> Known {
    let Some(covariance) = covariance::of_powers(model) else { return Known::default() };
    let columns = model.columns.paths.iter().zip(&model.fit.watts).enumerate();
    let power = |(column, (&path, &watts))| {
        let power = Power { watts, variance: covariance[(column, column)] };
        Some((tree.name(path)?, power)).filter(|(_, power)| power.is_of_use())
    };
    columns.filter_map(power).collect()
}

#[cfg(test)]
mod tests {
    use super::{CHANGE_A_MINUTE, Known, Power, age, shown};
    use crate::power_model::evidence::Evidence;
    use crate::power_model::learn::{PowerModel, learn};
    use crate::power_model::tests::toy::{Toy, known, two_functions};
    use energy_trace_model::units::MicroJoules;

    /// Few windows, each off by up to a quarter: what they show of powers is off too.
    fn noisy() -> Toy {
        let mut toy = two_functions(32, [40.0, 8.0]);
        for (energy, k) in toy.dynamic.iter_mut().zip(0_u32..) {
            let off = 0.75 + 0.5 * f64::from(k * k * 7 % 17) / 16.0;
            *energy = MicroJoules::from_uj((energy.as_joules() * 1e6 * off) as i64);
        }
        toy
    }

    fn watts(toy: &Toy, carried: Option<&Known>) -> Vec<f64> {
        let evidence = Evidence { carried, ..toy.evidence() };
        let mut watts = match learn(&evidence) {
            PowerModel::Known(model) | PowerModel::Refused(model) => model.fit.watts,
            PowerModel::Single(_) => panic!("one column"),
        };
        watts.sort_by(f64::total_cmp);
        watts
    }

    /// What one window shows is known in the next, which shows little; one that shows something else is
    /// believed.
    #[test]
    fn from_window_to_window() {
        let before = two_functions(200, [40.0, 8.0]);
        let mut carried = shown(&known(learn(&before.evidence())), &before.tree);
        age(&mut carried, 1.0);
        assert_eq!(carried.len(), 2);
        let (alone, with) = (watts(&noisy(), None), watts(&noisy(), Some(&carried)));
        let off = |watts: &[f64]| (watts[0] - 8.0).abs() / 8.0 + (watts[1] - 40.0).abs() / 40.0;
        assert!(off(&with) < 0.05 && off(&with) < off(&alone) / 2.0, "{with:?}, and {alone:?} alone");
        let other = two_functions(200, [10.0, 30.0]);
        let changed = watts(&other, Some(&carried));
        assert!((changed[0] - 10.0).abs() < 1.0 && (changed[1] - 30.0).abs() < 1.0, "{changed:?}");
    }

    /// After a while nothing is left of it.
    #[test]
    fn forgotten() {
        let power = Power { watts: 10.0, variance: 1.0 };
        let mut known = Known::from([(7, power)]);
        age(&mut known, 4.0);
        assert!((known[&7].variance - (1.0 + 100.0 * CHANGE_A_MINUTE.powi(2) * 4.0)).abs() < 1e-9);
        age(&mut known, 100.0);
        assert!(known.is_empty());
    }
}
