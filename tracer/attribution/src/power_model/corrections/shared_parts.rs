//! The shared parts of a socket (caches, memory controller, fabric), which are on while any of its cores is:
//! their power, and their energy.
//!
//! ```text
//! D_k = Σ_c w_c τ_kc + P_unc · a_k        a: time in which any CPU of the domain was busy
//! ```
//!
//! P_unc is found by the same regression as the watts of functions, with one column more. Where one thread
//! alone runs, a is that thread's time and nothing tells the two apart. Cores that draw less beside each
//! other (hyperthreads, turbo) look like shared parts too, but better like a price on pairs of busy CPUs:
//! where that explains as much, it is not shared parts. (On two CPUs the two are one: the time in which any
//! is busy is that of both less that of the pair.) So P_unc is 0 unless it is more than five times its
//! standard error and makes the windows much likelier, and clearly likelier than pairs do. With a split by
//! time alone it is 0 too: that is the model without any regression.

use super::counter_delay;
use super::trial::LEAST_GAIN;
use crate::numerics::normal_equations::NormalEquations;
use crate::numerics::parallel::both;
use crate::numerics::shares::predicted;
use crate::power_model::learn::{Model, learn_of_same_times};
use crate::power_model::powers::Powers;
use crate::power_model::settings::Settings;
use crate::time::busy_cpus::{Activity, activity};
use energy_trace_model::profile::options::Method;
use energy_trace_model::units::{MicroJoules, MicroWatts};
use nalgebra::{DMatrix, DVector};

/// What is believed of the shared parts' power: standard deviation in parts of the mean of functions.
const PRIOR_SD: f64 = 0.6;
/// Standard errors that the power must be away from zero.
const ERRORS: f64 = 5.0;
/// By how much the weighted sum of squares must fall: far beyond chance for one more unknown.
const GAIN: f64 = 40.0;

/// Takes the energy of the shared parts apart, where it shows and what is left is likelier. Power that only
/// seemed to lag or to drift because of them no longer does.
pub(super) fn detect(powers: &mut Powers<'_>) {
    let settings = powers.adjusted.settings;
    let active = activity(&counter_delay::apply(&settings, powers.subject.intervals), powers.subject.busy());
    let Some(power) = power_of(powers, &powers.subset.take(&active)) else { return };
    let mut without = powers.afresh();
    without.take_out(power, &active);
    without.align();
    if without.likelihood() > powers.likelihood() {
        without.adjusted.settings.shared_parts = Some(power);
        *powers = without;
    }
}

/// The power of the shared parts, by powers that neither lag nor drift.
fn power_of(powers: &Powers<'_>, active: &[Activity]) -> Option<MicroWatts> {
    let model = powers.model.model()?;
    if model.is_steady() {
        return calibrate(model, active, powers.subject.method);
    }
    let mut still = powers.adjusted.clone();
    still.settings = Settings { lag_ns: 0, in_fits: false, ..still.settings };
    let plain = learn_of_same_times(model, &powers.unadjusted().adjusted(&still));
    calibrate(plain.model()?, active, powers.subject.method)
}

/// The power of the shared parts, where the run shows it.
fn calibrate(model: &Model, activity: &[Activity], method: Method) -> Option<MicroWatts> {
    if method == Method::Time {
        return None;
    }
    let (alone, of_pairs) = both(
        || fit(model, activity.iter().map(|activity| activity.any_ns)),
        || fit(model, activity.iter().map(|activity| activity.pairs_ns)),
    );
    let ((watts, deviation, gain), (_, _, of_pairs)) = (alone?, of_pairs?);
    is_clear((watts, deviation), gain, of_pairs).then(|| MicroWatts::from_watts(watts)).flatten()
}

/// Whether a power with its standard error, and by how much the weighted squares fall with it and with pairs of
/// busy CPUs, show shared parts.
fn is_clear((watts, deviation): (f64, f64), gain: f64, of_pairs: f64) -> bool {
    watts > ERRORS * deviation && gain > GAIN && gain > of_pairs + 2.0 * LEAST_GAIN
}

/// Watts, their standard error, and by how much the weighted sum of squares falls, with one column more.
#[expect(clippy::cast_precision_loss, reason = "a statistic")]
fn fit(model: &Model, of_interval: impl Iterator<Item = u64>) -> Option<(f64, f64, f64)> {
    let (design, fit, n) = (&model.design, &model.fit, model.design.columns);
    let mut seconds = vec![0.0; design.len()];
    for (interval, ns) in (0..).zip(of_interval) {
        let window = design.windows.of(interval).and_then(|window| seconds.get_mut(window as usize));
        window.into_iter().for_each(|sum| *sum += ns as f64 / 1e9);
    }
    let mut prior = DMatrix::zeros(n + 1, n + 1);
    prior.view_mut((0, 0), (n, n)).copy_from(&model.prior.precision);
    // Of the shared parts nothing is believed but that they are not many times a function's watts.
    prior[(n, n)] = 1.0 / PRIOR_SD.powi(2);
    let mut mean = DVector::from_element(n + 1, fit.mean);
    mean[n] = 0.0;
    let weighed = (0..design.len()).map(|k| {
        let row: Vec<(usize, f64)> = design.row(k).iter().copied().chain([(n, seconds[k])]).collect();
        (row, design.windows.joules[k], fit.weights[k])
    });
    let mut equations = NormalEquations::of_rows(n + 1, weighed);
    equations.add_joint_prior(&mean, &(prior / fit.mean.powi(2)));
    model.prior.carry_into(&mut equations);
    let factor = equations.factor()?;
    let with: Vec<f64> = factor.solve(&equations.target).data.into();
    let deviation = factor.inverse()[(n, n)].sqrt();
    let squares = |watts: &[f64]| -> f64 {
        let expected = |k: usize| predicted(design.row(k), watts) + seconds[k] * watts[n];
        let square = |k: usize| fit.weights[k] * (design.windows.joules[k] - expected(k)).powi(2);
        (0..design.len()).map(square).sum()
    };
    let without: Vec<f64> = fit.watts.iter().copied().chain([0.0]).collect();
    Some((with[n], deviation, squares(&without) - squares(&with)))
}

/// Takes the energy of the shared parts out of each interval's, and returns its sum.
pub(super) fn apply(power: MicroWatts, activity: &[Activity], dynamic: &mut [MicroJoules]) -> MicroJoules {
    let (mut covered, mut charged) = (0_u64, MicroJoules::ZERO);
    for (energy, activity) in dynamic.iter_mut().zip(activity) {
        covered = covered.saturating_add(activity.any_ns);
        let now = power.over_ns(covered);
        *energy -= now - std::mem::replace(&mut charged, now);
    }
    charged
}

#[cfg(test)]
mod tests {
    use super::{Activity, Method, MicroJoules, MicroWatts, Model, apply, calibrate, is_clear};
    use crate::between_samples::switching_chain::Chains;
    use crate::power_model::fit::Fit;
    use crate::power_model::tests::toy::Toy;
    use crate::tests::vectors::{Vectors, near};
    use nalgebra::DMatrix;

    /// What is taken out of the intervals is what is returned, rounded once.
    #[test]
    fn taken_is_returned() {
        let mut dynamic = vec![MicroJoules::from_uj(1_000); 3];
        let taken = apply(
            MicroWatts::from_watts(1.0).unwrap(),
            &[Activity { any_ns: 400, pairs_ns: 0 }; 3],
            &mut dynamic,
        );
        assert_eq!(taken, MicroJoules::from_uj(1));
        assert_eq!(dynamic.into_iter().sum::<MicroJoules>(), MicroJoules::from_uj(2_999));
    }

    /// One column more in the same equations (NumPy): its power, its standard error, and by how much the
    /// weighted squares fall.
    #[test]
    fn as_numpy() {
        let vectors = Vectors::of("uncore");
        let model = Toy::of(&vectors).model(&vectors);
        let any = vectors.list("any_ms").into_iter().map(|ms| (ms * 1e6).round() as u64);
        let (watts, deviation, gain) = super::fit(&model, any).unwrap();
        let expected = ["power", "deviation", "gain"].map(|name| vectors.number(name));
        near(&[watts], &expected[..1], 1e-6);
        near(&[deviation], &expected[1..2], 1e-6);
        near(&[gain], &expected[2..], 1e-5);
    }

    /// Milliseconds of two CPUs in each interval.
    fn row(k: u64) -> Vec<f64> {
        vec![(1 + k * 7 % 11) as f64, (1 + k * 5 % 8) as f64]
    }

    /// Of CPUs that draw 20 and 9 W, and shared parts that draw so many beside them.
    fn known(watts: f64, any_ns: impl Fn(u64) -> u64) -> Model {
        let noise = |k: u64| ((k * 37 % 13) as f64 - 6.0) * 1e-4;
        let joules =
            |k: u64| row(k)[0] * 0.02 + row(k)[1] * 0.009 + watts * any_ns(k) as f64 / 1e9 + noise(k);
        let (ms, joules): (Vec<_>, Vec<_>) = (0..300).map(|k| (row(k), joules(k))).unzip();
        let toy = Toy::new(20.0, &ms, &joules, 0.0);
        let (prior, design) = (DMatrix::identity(2, 2).into(), toy.design());
        let fit = Fit::new(&design, &Chains::default(), &toy.edges(), &prior).unwrap();
        toy.model_of(fit, prior)
    }

    /// 6 W of shared parts are found where they were on, and none where there are none; a split by time
    /// leaves them out.
    #[test]
    fn shared_parts_are_found() {
        let any_ns = |k: u64| 1_000_000 * (4 + k * k % 17);
        let activity: Vec<Activity> =
            (0..300).map(|k| Activity { any_ns: any_ns(k), pairs_ns: any_ns(k + 3) / 2 }).collect();
        let find = |model: &Model, method| calibrate(model, &activity, method).map(|power| power.as_watts());
        let found = find(&known(6.0, any_ns), Method::Weighted).unwrap();
        assert!((found - 6.0).abs() < 0.5, "{found}");
        assert_eq!(find(&known(0.0, any_ns), Method::Weighted), None);
        assert_eq!(find(&known(6.0, any_ns), Method::Time), None);
        // Pairs of busy CPUs that explain more are not shared parts.
        let pairs: Vec<Activity> =
            activity.iter().map(|of| Activity { any_ns: of.pairs_ns, pairs_ns: of.any_ns }).collect();
        assert_eq!(calibrate(&known(6.0, any_ns), &pairs, Method::Weighted), None);
    }

    /// A recorded program on two CPUs, where pairs of busy CPUs explain as much, has none that show; the world
    /// that has them does, and neither without power, nor by chance.
    #[test]
    fn what_pairs_explain_as_well() {
        assert!(!is_clear((3.95, 0.589), 45.6, 45.5) && is_clear((11.95, 0.271), 1_947.7, 1_738.7));
        assert!(!is_clear((1.3, 0.271), 1_947.7, 1_738.7) && !is_clear((3.95, 0.589), 39.0, 2.0));
    }
}
