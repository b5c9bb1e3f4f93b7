//! From how sure a domain's watts are to how sure its owners' energies are.
//!
//! ```text
//! relative covariance: that of the watts, by the split's own derivative (`derivative`)
//! bounds of E_c: watts of c at one end of what cannot be ruled out, those of all others at the other end
//! ```
//!
//! What cannot be ruled out are watts within three (widened) standard deviations of the fit, and in no case less than a fifth or more than three
//! times the mean. Where a run shows nothing, that is what is left.

use crate::power_model::classes::ClassId;
use crate::power_model::fit::FLOOR;
use crate::power_model::learn::{Model, PowerModel};
use crate::time::cpu_time::CpuTime;
use crate::time::owners::{Owner, OwnerTime};
use crate::time::pieces::Mark;
use crate::uncertainty::aliasing::{Aliasing, aliasing_of};
use crate::uncertainty::derivative;
use crate::uncertainty::resampling::covariance;
use energy_trace_model::profile::certainty::Column;
use energy_trace_model::units::MicroJoules;

/// Watts with a larger relative standard deviation are not identified.
const IDENTIFIED: f64 = 0.12;
/// Watts below this part of the mean need not be known better than watts of that size.
const LITTLE: f64 = 0.2;
/// Watts within so many standard deviations cannot be ruled out: three, as much wider as intervals are (`profile::certainty`).
const REACH: f64 = 4.2;
/// Nor can watts between these parts of the mean, whatever the fit says, where it says little.
const PLAUSIBLE: (f64, f64) = (0.2, 3.0);

/// How sure each owner's energy in one domain is: `profile::certainty::DomainCertainty` by owner.
#[derive(Debug, Default)]
pub(crate) struct OwnerCertainty {
    pub(crate) seconds: Vec<f64>,
    pub(crate) variance: Vec<f64>,
    pub(crate) column: Vec<usize>,
    pub(crate) columns: Vec<Column>,
    pub(crate) relative: Vec<f64>,
    /// Whether samples came in step with the program somewhere.
    pub(crate) aliased: bool,
}

/// Of the energies of all owners. `sampling` is their variance by sampling, where a model gave it; `weighted` says whether its watts
/// split the energy.
pub(crate) fn certainty(
    power_model: &PowerModel,
    weighted: bool,
    sampling: Option<Vec<f64>>,
    of_owner: &[MicroJoules],
    (time, class_of): (&CpuTime, &[ClassId]),
) -> OwnerCertainty {
    let variance = sampling.unwrap_or_else(|| multinomial(of_owner, &time.owners));
    let open = matches!(power_model, PowerModel::Unidentified(None));
    let Some(model) = power_model.model() else {
        let (least, most) = PLAUSIBLE;
        let aliased = aliasing_of(&time.marks, |_| 0, 1, None).contains(&Aliasing::OnePlace);
        let bounds = match (aliased, open) {
            (true, _) => (0.0, 1.0),
            (false, true) => (least / most, most / least),
            (false, false) => (1.0, 1.0),
        };
        let columns = vec![Column { identified: !open && !aliased, bounds }];
        return OwnerCertainty {
            variance,
            columns,
            relative: vec![0.0],
            aliased,
            ..OwnerCertainty::default()
        };
    };
    let covariance = covariance(model);
    let column_of = |owner: u32| {
        let class = class_of.get(owner as usize);
        class.and_then(|&class| model.column_of.get(class)).copied().unwrap_or(0)
    };
    let column = |mark: &Mark| column_of(mark.owner);
    let aliasing = aliasing_of(&time.marks, column, model.design.columns, Some(&model.fit.watts));
    let mut charged = vec![0.0; model.design.columns];
    for (owner, energy) in (0..).zip(of_owner) {
        charged[column_of(owner)] += energy.as_joules();
    }
    OwnerCertainty {
        variance,
        column: class_of.iter().map(|&class| model.column_of.get(class).copied().unwrap_or(0)).collect(),
        columns: columns(model, &covariance, weighted, &aliasing, &charged),
        relative: if weighted { relative(model, &covariance) } else { vec![0.0; covariance.len()] },
        seconds: vec![],
        aliased: aliasing.iter().any(|step| *step != Aliasing::Free),
    }
}

/// The relative variance of a share p of n samples, (1 − p) / n p.
#[expect(clippy::cast_precision_loss, reason = "a statistic")]
fn multinomial(of_owner: &[MicroJoules], owners: &[OwnerTime]) -> Vec<f64> {
    let all = owners.iter().map(|owner| owner.samples).fold(0, u64::saturating_add) as f64;
    let variance = |(number, owner): (usize, &OwnerTime)| match owner.owner {
        Owner::Target(_, Some(_)) if owner.samples > 0 => {
            let seen = owner.samples as f64;
            of_owner[number].as_joules().powi(2) * (1.0 - seen / all) / seen
        }
        _ => 0.0,
    };
    owners.iter().enumerate().map(variance).collect()
}

/// Relative covariance of the columns' energies.
fn relative(model: &Model, covariance: &[f64]) -> Vec<f64> {
    let (design, watts) = (&model.design, &model.fit.watts);
    let energies = derivative::energies(design.windows(), watts);
    derivative::relative(design.windows(), watts, watts, &energies, covariance)
}

/// Least and most energy of a column whose samples came in step with the program, as parts of what it was given.
fn bounds_of_aliased(c: usize, aliasing: &[Aliasing], base: &[f64], model: &Model) -> (f64, f64) {
    if aliasing[c] == Aliasing::OnePlace {
        // It may have had nothing, or all.
        return (0.0, (base.iter().sum::<f64>() / base[c]).max(1.0));
    }
    // Samples that creep through a loop show for how long each function ran, but not when: windows tell nothing.
    let n = model.design.columns;
    let recurring = (0..n).filter(|&c| aliasing[c] == Aliasing::Recurs);
    let (mut joules, mut own, mut others) = (0.0, 0.0, 0.0);
    for column in recurring {
        joules += base[column];
        let seconds: f64 = model.design.seconds.iter().skip(column).step_by(n).sum();
        *(if column == c { &mut own } else { &mut others }) += seconds;
    }
    let part =
        |mine: f64, theirs: f64| joules * own * mine / (own * mine + others * theirs).max(1e-9) / base[c];
    let (least, most) = PLAUSIBLE;
    (part(least, most).min(1.0), part(most, least).max(1.0))
}

/// Whether each column's watts are known, and what else its energy may be.
fn columns(
    model: &Model,
    covariance: &[f64],
    weighted: bool,
    aliasing: &[Aliasing],
    charged: &[f64],
) -> Vec<Column> {
    let (fit, n) = (&model.fit, model.design.columns);
    // Watts that failed a check are nobody's, and how sure the fit is of them is no guide.
    let assumed = |c: usize| aliasing[c] != Aliasing::Free || !model.gates.sound();
    // Where a thread outruns the timer, watts that the changes of its mix do not show are the chain's assumption.
    let deviation = |c: usize| {
        let of_fit = covariance[c * n + c].max(0.0).sqrt();
        let by_mix = model.by_mix.as_ref().map_or(0.0, |by_mix| by_mix[c]);
        if by_mix > IDENTIFIED * fit.watts[c] { of_fit.max(by_mix) } else { of_fit }
    };
    let range = |c: usize| {
        let reach = if assumed(c) { f64::INFINITY } else { REACH * deviation(c) };
        let watts = fit.watts[c];
        let (least, most) = (PLAUSIBLE.0 * fit.mean, PLAUSIBLE.1 * fit.mean);
        let low = (watts - reach).max(least).min(watts).max(FLOOR * fit.mean);
        (low, (watts + reach).min(most).max(watts))
    };
    let ranges: Vec<(f64, f64)> = (0..n).map(range).collect();
    let used = if weighted { fit.watts.clone() } else { vec![fit.mean; n] };
    let base = derivative::energies(model.design.windows(), &used);
    let column = |c: usize| {
        let identified = !assumed(c) && deviation(c) <= IDENTIFIED * fit.watts[c].max(LITTLE * fit.mean);
        let mix = |own: fn(&(f64, f64)) -> f64, others: fn(&(f64, f64)) -> f64| {
            let watts: Vec<f64> = ranges
                .iter()
                .enumerate()
                .map(|(j, range)| if j == c { own(range) } else { others(range) })
                .collect();
            derivative::energies(model.design.windows(), &watts)[c] / base[c]
        };
        let bounds = (mix(|range| range.0, |range| range.1), mix(|range| range.1, |range| range.0));
        let sane = bounds.0.is_finite() && bounds.1.is_finite();
        let bounds = if aliasing[c] != Aliasing::Free && charged[c] > 0.0 {
            bounds_of_aliased(c, aliasing, charged, model)
        } else if sane {
            (bounds.0.min(bounds.1), bounds.1.max(bounds.0))
        } else {
            (0.0, 1.0)
        };
        // Watts that are known and did not split the energy (by choice, or because they gain nothing) are no doubt of the split's method.
        Column { identified, bounds }
    };
    (0..n).map(column).collect()
}
