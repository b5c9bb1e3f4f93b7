//! CPUs that draw less, or more, while others are busy: turbo that ends, memory that they share, parts of a
//! socket that they divide, cores that are shared on a machine that does not say by whom.
//!
//! Each call path has two columns then: alone, and contended. What shared parts of a socket explain looks
//! like this as well, and is not asked again. Leaves out when how many CPUs were busy (`time::busy_cpus`).

use crate::between_samples::interval_slices::IntervalSlices;
use crate::parts::Part;
use crate::power_model::design::Design;
use crate::power_model::evidence::Evidence;
use crate::power_model::fit::Fit;
use crate::power_model::learn::{Model, learn_of_same_times};
use crate::power_model::powers::Powers;
use crate::time::busy_cpus::BusyCpus;

/// By how much the log-likelihood must rise: less would only take from one what it gives to the other.
const LEAST_GAIN: f64 = 20.0;

/// Notes how busy other CPUs were at each time.
pub(super) fn apply(slices: &mut IntervalSlices<'_>, busy: &BusyCpus) {
    slices.set_contention(busy.contention());
}

/// Learns the powers again, alone and contended, where several CPUs were busy at once.
pub(super) fn detect(powers: &mut Powers<'_>) {
    if powers.adjusted.settings.shared_parts.is_some() {
        return;
    }
    let Some(busy) = BusyCpus::of(powers.subject.busy()) else { return };
    let Some(alone) = powers.model.model() else { return };
    let mut adjusted = powers.adjusted.clone();
    adjusted.contended(&busy);
    let model = learn_of_same_times(alone, &powers.unadjusted().adjusted(&adjusted));
    let least = alone.fit.likelihood + LEAST_GAIN;
    if model.model().is_some_and(|model| model.fit.likelihood > least) {
        (powers.adjusted, powers.model, powers.busy_cpus) = (adjusted, model, Some(busy));
    }
}

/// That one column draws less while another runs may as well be the other's doing, and the counter shows
/// their sum alone: where call paths have two columns, the energies without contention.
pub(super) fn doubt(model: &Model, evidence: &Evidence<'_>) -> Vec<Vec<f64>> {
    let settings = evidence.settings;
    let asked = settings.contended && !settings.left_out.has(Part::ContentionDoubt);
    let doubt = asked.then(|| without_contention(&model.design, &model.fit));
    doubt.into_iter().collect()
}

/// Joules of each column half-way to where each would draw what it draws alone. Where all draw less by the
/// same part this changes nothing.
fn without_contention(design: &Design, fit: &Fit) -> Vec<f64> {
    let alone = fit.watts.get(..design.paths).unwrap_or_default();
    let shown = design.energies(&fit.watts);
    let other = design.energies(&[alone, alone].concat());
    shown.iter().zip(&other).map(|(shown, other)| f64::midpoint(*shown, *other)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Design, Fit, without_contention};
    use crate::between_samples::expected_time::Times;
    use crate::power_model::tests::toy::Toy;
    use crate::power_model::windows::Windows;
    use crate::tests::vectors::near;
    use nalgebra::DMatrix;

    /// Half the time of each path contended: what it draws there in parts of alone, by energy; and energies
    /// half-way to where nobody draws less.
    #[test]
    fn beside_busy_cpus() {
        let mut toy = Toy::new(20.0, &[vec![4.0, 2.0], vec![4.0, 2.0]], &[1.0, 1.0], 0.0);
        toy.slices[0].contention = 1.0;
        toy.slices[1].contention = 1.0;
        let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
        let design = Design::new(&windows, &toy.listed(), (Times::Nearest, 0), (2, true), |owner| owner);
        let fit = Fit {
            mean: 10.0,
            watts: vec![10.0, 20.0, 5.0, 20.0],
            residuals: vec![],
            physical: vec![],
            fluctuation: 0.0,
            weights: vec![],
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
        };
        // Beside: 4 ms of 5 W and 2 ms of 20 W are a third and two thirds; alone a half each.
        let energies = design.energies(&fit.watts);
        near(&energies, &[1.0 / 3.0 + 0.5, 2.0 / 3.0 + 0.5], 1e-9);
        near(&without_contention(&design, &fit), &[(5.0 / 6.0 + 1.0) / 2.0, (7.0 / 6.0 + 1.0) / 2.0], 1e-9);
        let alone = Fit { watts: vec![10.0, 20.0], ..fit.clone() };
        assert_eq!(toy.model_of(alone, DMatrix::identity(2, 2)).contended_ratio(), None);
        let mut model = toy.model_of(fit, DMatrix::identity(4, 4));
        model.design = design;
        // 0.5 of 5/6 J and 1 of 7/6 J.
        near(&[model.contended_ratio().unwrap()], &[(0.5 * 5.0 / 6.0 + 7.0 / 6.0) / 2.0], 1e-9);
    }
}
