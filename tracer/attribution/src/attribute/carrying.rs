//! What a window shows of the powers of call paths, for those that follow (`power_model::carried`).
//!
//! Leaves out what becomes of it there.

use crate::ledger::result::DomainResult;
use crate::power_model::carried::{CarriedPowers, Known, Power};
use crate::power_model::learn::{Model, PowerModel};
use crate::power_model::paths::PathTree;
use crate::timeline::Span;
use crate::uncertainty::covariance;

/// Carries what a window shows of a domain.
pub(super) fn carry(carried: &mut CarriedPowers, result: &DomainResult, tree: &PathTree, span: Span) {
    let Some(basis) = result.cpu_basis() else { return };
    let shown = match &basis.power_model {
        PowerModel::Known(model) => Some(shown(model, tree)),
        PowerModel::Refused(_) => None,
        PowerModel::Single(_) => Some(Known::new()),
    };
    carried.take(&result.row.domain, shown, span.ns() as f64 / 60e9);
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
    use super::{CarriedPowers, shown};
    use crate::power_model::carried::Known;
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
        let mut carried = CarriedPowers::default();
        carried.take("p", Some(shown(&known(learn(&before.evidence())), &before.tree)), 1.0);
        let carried = carried.of("p").unwrap();
        assert_eq!(carried.len(), 2);
        let (alone, with) = (watts(&noisy(), None), watts(&noisy(), Some(carried)));
        let off = |watts: &[f64]| (watts[0] - 8.0).abs() / 8.0 + (watts[1] - 40.0).abs() / 40.0;
        assert!(off(&with) < 0.9 * off(&alone), "{with:?}, and {alone:?} alone");
        let other = two_functions(200, [10.0, 30.0]);
        let changed = watts(&other, Some(carried));
        assert!((changed[0] - 10.0).abs() < 1.0 && (changed[1] - 30.0).abs() < 1.0, "{changed:?}");
    }
}
