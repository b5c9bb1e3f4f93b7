//! How sure the energy of each column is, which columns cannot be told apart, and how well the windows tell
//! at all.
//!
//! Spread is that of the fit, widened where blocks of windows stray together (`sandwich`). It becomes a
//! spread of energies by the split's own derivative (`shares`), so that what one column has too much the
//! others have too little.
//!
//! Kernels that always run together in the same proportions share one sum, which is known, and its parts are
//! not: their errors go against each other, or their rows are all but parallel. Such columns are a group, and
//! where only launches are counted each may have anything from nothing to the whole of it: what little its
//! rows differ from the others' is errors of when launches ran, and no observation. The same holds where one
//! wait after the other ends the same launches: when each of them ran in between is not known, only what all
//! took.

use super::constants::{
    AGAINST, BLOCK_WINDOWS, IDENTIFIED, IDENTIFIED_BY_TIME, LEAST_APART, PARALLEL, REACH, TIME_SD,
};
use super::launch_energies::{Fit, Problem};
use super::queue_replay::Apart;
use super::split::Total;
use crate::numerics::sandwich::widened;
use crate::numerics::shares::{energies, slopes};
use crate::uncertainty::propagation::OwnerCertainty;
use energy_trace_model::profile::certainty::{Column, ColumnGroup, Function, Pool};
use energy_trace_model::units::MicroJoules;
use nalgebra::{DMatrix, DVector};

/// What is known about columns.
#[derive(Debug, Default)]
pub(super) struct Uncertainty {
    pub(super) columns: Vec<Column>,
    /// Relative covariance of their energies.
    relative: Vec<f64>,
    /// Features that cannot be told apart, in groups.
    pub(super) groups: Vec<Vec<usize>>,
    /// Condition number of the normal equations, scaled to a unit diagonal.
    pub(super) condition: f64,
}

/// What is asked for of a fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Certain<'a> {
    /// Whether it splits the energy; if not, all columns draw alike.
    pub(super) learned: bool,
    /// Whether it predicts, and counter and launches are one device's; where not, nothing is identified.
    pub(super) believed: bool,
    /// Whether it is known when each column ran, and not only how often it was launched.
    pub(super) timed: bool,
    /// How much of each column's launches the others' do not tell; empty where that is no question.
    pub(super) apart: &'a Apart,
    /// The least and most joules that each column may have taken in the windows; empty where that is not
    /// known.
    pub(super) ranges: &'a [(f64, f64)],
}

/// From a problem, its fit, and those of other durations and orders that are possible, with what each counts
/// for.
pub(super) fn uncertainty(
    problem: &Problem,
    fit: &Fit,
    others: &[(f64, Vec<f64>)],
    certain: Certain<'_>,
    total: Total,
) -> Uncertainty {
    let Certain { learned, believed, timed, apart, ranges } = certain;
    let identified = if timed { IDENTIFIED_BY_TIME } else { IDENTIFIED };
    let n = problem.columns;
    // One column has all that the counter shows.
    if n == 0 || (n == 1 && total == Total::Counted) {
        return of_one(n, believed);
    }
    let covariance = covariance_with(problem, fit, others);
    let deviation: Vec<f64> = covariance.diagonal().iter().map(|variance| variance.max(0.0).sqrt()).collect();
    let alike = |c: usize| apart.own.get(c).is_some_and(|apart| *apart < LEAST_APART);
    let unsure: Vec<bool> =
        (0..n).map(|c| !believed || alike(c) || deviation[c] > identified * fit.parts[c].max(1e-9)).collect();
    // Where times are known their errors are as well (`errors_in_variables`).
    let rows = (!timed).then(|| problem.unweighted());
    let inseparable = |i, j| alike(i) && alike(j) && apart.together(i, j);
    let parallel = |i, j| rows.as_ref().is_some_and(|rows| inseparable(i, j) || rows.cosine(i, j) > PARALLEL);
    let groups = groups_of(&covariance, &deviation, &unsure, parallel);
    let split_by = if learned { fit.parts.clone() } else { vec![1.0; n] };
    let energies = energies(problem.windows(), &split_by, n);
    let relative = match total {
        // Bounds say what may be; a covariance of what is not believed says nothing.
        _ if !learned => DMatrix::zeros(n, n),
        Total::Counted => counted(problem, fit, &covariance, &energies),
        Total::Predicted => predicted(&covariance, &fit.parts),
    };
    let all: f64 = energies.iter().sum();
    let group_of = |number: usize| {
        let of_group = groups.get(number).map_or(&[][..], Vec::as_slice);
        let deviation = deviation_of(of_group, &energies, &relative);
        ColumnGroup { number, identified: deviation <= identified, reach: REACH * deviation }
    };
    let column = |c: usize| {
        let place = groups.iter().position(|group| group.contains(&c)).filter(|_| learned);
        let of_group = place.map_or(all, |group| groups[group].iter().map(|&c| energies[c]).sum());
        let group = place.filter(|_| believed).map(group_of);
        let reach = if believed { REACH * deviation[c] / fit.parts[c].max(1e-9) } else { f64::INFINITY };
        let (least, most) = ranges.get(c).copied().unwrap_or((0.0, f64::INFINITY));
        let least = (least / energies[c].max(1e-9)).min(1.0);
        let most = (of_group.min(most) / energies[c].max(1e-9)).max(1.0);
        if place.is_some() && !timed {
            return Column { identified: false, bounds: (0.0, most), group };
        }
        let bounds = ((1.0 - reach).max(least), (1.0 + reach).min(most));
        Column { identified: !unsure[c], bounds, group }
    };
    Uncertainty {
        columns: (0..n).map(column).collect(),
        relative: relative.data.into(),
        groups,
        condition: problem.normal(&fit.trust, |_| true).condition().powi(2),
    }
}

/// The standard deviation of the sum of some columns' energies, as a part of it.
fn deviation_of(columns: &[usize], energies: &[f64], relative: &DMatrix<f64>) -> f64 {
    let pair = |c: usize, d: usize| energies[c] * energies[d] * relative[(c, d)];
    let variance: f64 = columns.iter().flat_map(|&c| columns.iter().map(move |&d| pair(c, d))).sum();
    let sum: f64 = columns.iter().map(|&c| energies[c]).sum();
    variance.max(0.0).sqrt() / sum.max(1e-9)
}

/// Of one column, or none.
fn of_one(n: usize, believed: bool) -> Uncertainty {
    let least = if believed { 1.0 } else { 0.0 };
    let columns = vec![Column { identified: believed, bounds: (least, 1.0), group: None }; n];
    Uncertainty { columns, relative: vec![0.0; n * n], condition: 1.0, ..Uncertainty::default() }
}

impl Uncertainty {
    /// Adds another relative covariance of the columns' energies.
    pub(super) fn add(&mut self, relative: &[f64]) {
        self.relative.iter_mut().zip(relative).for_each(|(sum, other)| *sum += other);
    }

    /// For each owner by its column, and what it was charged with. A column is one function of its own: its
    /// owners share it as their launches are.
    pub(super) fn of_owners(&self, column_of: Vec<usize>, of_owner: &[MicroJoules]) -> OwnerCertainty {
        let mut joules = vec![0.0; self.columns.len()];
        for (&column, energy) in column_of.iter().zip(of_owner) {
            joules.get_mut(column).into_iter().for_each(|sum| *sum += energy.as_joules());
        }
        let number = |column: usize| Function::try_from(column).unwrap_or(Function::MAX);
        let pool = |joules: &f64| Pool { joules: *joules, functions: joules * joules, ..Pool::default() };
        OwnerCertainty {
            seconds: vec![0.0; column_of.len()],
            variance: vec![0.0; column_of.len()],
            function: column_of.iter().copied().map(number).collect(),
            column: column_of,
            columns: self.columns.clone(),
            pools: joules.iter().map(pool).collect(),
            functions: joules.iter().enumerate().map(|(c, joules)| ((c, number(c)), *joules)).collect(),
            relative: self.relative.clone(),
            ..OwnerCertainty::default()
        }
    }
}

/// A covariance in parts of what it is of.
fn relative(covariance: &DMatrix<f64>, of: &[f64]) -> DMatrix<f64> {
    covariance.map_with_location(|c, d, sum| sum / (of[c].abs().max(1e-9) * of[d].abs().max(1e-9)))
}

/// The relative covariance of energies that the counter's sum was split into.
fn counted(problem: &Problem, fit: &Fit, covariance: &DMatrix<f64>, energies: &[f64]) -> DMatrix<f64> {
    let (slope, _) = slopes(problem.windows(), &fit.parts, problem.columns);
    relative(&(slope.transpose() * covariance * slope), energies)
}

/// The relative covariance of energies that are power times time.
fn predicted(covariance: &DMatrix<f64>, parts: &[f64]) -> DMatrix<f64> {
    relative(covariance, parts) + DMatrix::identity(parts.len(), parts.len()) * TIME_SD.powi(2)
}

/// The covariance of parts, and what they would be by other fits, each with what it counts for.
fn covariance_with(problem: &Problem, fit: &Fit, others: &[(f64, Vec<f64>)]) -> DMatrix<f64> {
    let mut covariance = covariance(problem, fit);
    for (weight, parts) in others {
        let apart = DVector::from_fn(problem.columns, |c, _| parts[c] - fit.parts[c]);
        covariance.ger(*weight, &apart, &apart, 1.0);
    }
    covariance
}

/// The covariance of parts.
fn covariance(problem: &Problem, fit: &Fit) -> DMatrix<f64> {
    let n = problem.columns;
    let Some(factor) = problem.normal(&fit.trust, |_| true).factor() else { return DMatrix::zeros(n, n) };
    let posterior = factor.inverse();
    // Errors of rows draw parts to nothing.
    let trust = problem.belief * fit.trust.iter().sum::<f64>();
    let blur = problem.errors.as_ref().map(|errors| {
        let pulls = &posterior * DMatrix::from_diagonal(&(errors * trust));
        &pulls * pulls.transpose()
    });
    let length = BLOCK_WINDOWS.max(problem.together);
    let parts = DVector::from_column_slice(&fit.parts);
    let score = |first| {
        let block = problem.observed(&fit.trust, (first..problem.len()).take(length));
        block.target - block.gram * &parts
    };
    let scores: Vec<DVector<f64>> = (0..problem.len()).step_by(length).map(score).collect();
    let observed = problem.observed(&fit.trust, 0..problem.len()).gram;
    let spread = match scores.as_slice() {
        [] => posterior,
        scores => widened(posterior, &observed, &DMatrix::from_columns(scores)),
    };
    blur.map_or(spread.clone(), |blur| spread + blur)
}

/// Features that are not known and whose errors go against each other, or whose rows are parallel.
fn groups_of(
    covariance: &DMatrix<f64>,
    deviation: &[f64],
    unsure: &[bool],
    parallel: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let n = deviation.len();
    let against = |i: usize, j: usize| {
        let opposed = covariance[(i, j)] < AGAINST * deviation[i] * deviation[j];
        unsure[i] && unsure[j] && (opposed || parallel(i, j))
    };
    let mut group_of: Vec<usize> = (0..n).collect();
    for i in 0..n {
        for j in (i + 1)..n {
            if against(i, j) {
                let (keep, gone) = (group_of[i], group_of[j]);
                group_of.iter_mut().filter(|group| **group == gone).for_each(|group| *group = keep);
            }
        }
    }
    let members = |group: usize| (0..n).filter(|&c| group_of[c] == group).collect::<Vec<_>>();
    (0..n).map(members).filter(|members| members.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        Apart, Certain, DMatrix, Fit, IDENTIFIED_BY_TIME, MicroJoules, Problem, TIME_SD, Total, covariance,
        deviation_of, energies, groups_of, predicted, uncertainty,
    };
    use crate::gpu::launch_energies::rows_of;
    use crate::tests::vectors::{Vectors, near};

    /// Columns whose errors go against each other share a group if both are unsure, and so does one whose
    /// rows are parallel to one of theirs.
    #[test]
    fn what_cannot_be_told_apart_is_a_group() {
        let covariance = DMatrix::from_row_slice(3, 3, &[1.0, -1.8, 0.1, -1.8, 4.0, 0.0, 0.1, 0.0, 1.0]);
        let deviation = [1.0, 2.0, 1.0];
        let groups = |unsure: &[bool], parallel| groups_of(&covariance, &deviation, unsure, |_, _| parallel);
        assert_eq!(groups(&[true; 3], false), [vec![0, 1]]);
        assert!(groups(&[true, false, true], false).is_empty());
        assert_eq!(groups(&[true; 3], true), [vec![0, 1, 2]]);
        assert_eq!(groups(&[true, false, true], true), [vec![0, 2]]);
    }

    /// Of 3 and 1 J, which are off by 20 and 30 %, the sum is by √(0.6² + 0.3²) J, and by less where one has too
    /// much when the other has too little: √(0.6² + 0.3² − 0.36) J.
    #[test]
    fn a_sum_of_columns() {
        let of = |both| {
            let relative = DMatrix::from_row_slice(2, 2, &[0.04, both, both, 0.09]);
            deviation_of(&[0, 1], &[3.0, 1.0], &relative)
        };
        near(&[of(0.0), of(-0.06)], &[0.45_f64.sqrt() / 4.0, 0.3 / 4.0], 1e-12);
    }

    /// Power times time, relative: the covariance by both parts, and on the diagonal that of times.
    #[test]
    fn predicted_energies() {
        let covariance = DMatrix::from_row_slice(2, 2, &[0.04, 0.02, 0.02, 0.09]);
        let times = TIME_SD * TIME_SD;
        near(
            predicted(&covariance, &[2.0, 0.5]).as_slice(),
            &[0.01 + times, 0.02, 0.02, 0.36 + times],
            1e-12,
        );
    }

    fn problem(vectors: &Vectors) -> (Problem, Fit) {
        let problem = Problem {
            columns: 3,
            joules: vectors.list("joules"),
            rows: rows_of(&vectors.table("rows").concat(), &[1.0; 3]),
            belief: vectors.number("belief"),
            together: 0,
            errors: None,
        };
        (problem, Fit { parts: vectors.list("parts"), noise: 1.0, trust: vectors.list("trust") })
    }

    /// The posterior (NumPy), where there are too few windows to show anything together; and the relative
    /// covariance of energies by it.
    #[test]
    fn posterior_of_few_windows() {
        let vectors = Vectors::of("gpu_covariance");
        let (problem, fit) = problem(&vectors);
        near(covariance(&problem, &fit).as_slice(), vectors.matrix("posterior").as_slice(), 1e-8);
        let certain =
            Certain { learned: true, believed: true, timed: true, apart: &Apart::default(), ranges: &[] };
        let found = uncertainty(&problem, &fit, &[], certain, Total::Counted);
        near(&found.relative, vectors.matrix("relative").as_slice(), 1e-6);
        // Half the square of what another order of launches gives the first part.
        let others = [(0.5, vec![fit.parts[0] + 0.2, fit.parts[1], fit.parts[2]])];
        let wider = uncertainty(&problem, &fit, &others, certain, Total::Predicted);
        let part = |at: usize| fit.parts[at / 3] * fit.parts[at % 3];
        let posterior = vectors.matrix("posterior");
        let first = (posterior[(0, 0)] + 0.02) / part(0) + TIME_SD * TIME_SD;
        assert!((wider.relative[0] / first - 1.0).abs() < 1e-9, "{:?}", wider.relative);
        assert!((wider.relative[1] - posterior[(0, 1)] / part(1)).abs() < 1e-9);
    }

    /// Columns that are launched in the same proportion between all waits are one group, however sure their
    /// parts seem: each may have nothing or all that the group has.
    #[test]
    fn what_is_launched_alike_is_a_group() {
        let vectors = Vectors::of("gpu_covariance");
        let (problem, mut fit) = problem(&vectors);
        fit.trust.iter_mut().for_each(|trust| *trust *= 1e6);
        let of = |apart: &[f64]| {
            let apart = &Apart { own: apart.to_vec(), both: vec![1.0; 9] };
            let certain = Certain { learned: true, believed: true, timed: false, apart, ranges: &[] };
            uncertainty(&problem, &fit, &[], certain, Total::Counted)
        };
        let alike = of(&[1e-4, 0.2, 1e-4]);
        assert_eq!(alike.groups, [vec![0, 2]]);
        assert!(!alike.columns[0].identified && !alike.columns[2].identified);
        assert_eq!(
            [0, 1, 2].map(|c| alike.columns[c].group.map(|group| group.number)),
            [Some(0), None, Some(0)]
        );
        let energies = vectors.list("energies");
        near(
            &[alike.columns[0].bounds.0, alike.columns[0].bounds.1],
            &[0.0, (energies[0] + energies[2]) / energies[0]],
            1e-8,
        );
        for sure in [of(&[0.2; 3]), of(&[])] {
            assert!(sure.groups.is_empty() && sure.columns.iter().all(|column| column.identified));
        }
    }

    /// Bounds reach three standard deviations and no further than all there is; where nothing is believed
    /// nothing is identified; one column has all.
    #[test]
    fn bounds_of_columns() {
        let vectors = Vectors::of("gpu_covariance");
        let (problem, fit) = problem(&vectors);
        let of = |believed, timed| {
            uncertainty(
                &problem,
                &fit,
                &[],
                Certain { learned: true, believed, timed, apart: &Apart::default(), ranges: &[] },
                Total::Counted,
            )
            .columns
        };
        let posterior = vectors.matrix("posterior");
        let energies = vectors.list("energies");
        for (c, column) in of(true, true).iter().enumerate() {
            let sd = posterior[(c, c)].sqrt() / fit.parts[c];
            assert_eq!(column.identified, sd <= IDENTIFIED_BY_TIME);
            let most = energies.iter().sum::<f64>() / energies[c];
            near(
                &[column.bounds.0, column.bounds.1],
                &[(1.0 - 3.0 * sd).max(0.0), (1.0 + 3.0 * sd).min(most)],
                1e-8,
            );
        }
        assert!(of(false, true).iter().all(|column| !column.identified && column.bounds.0 == 0.0));
        let alone = Problem { columns: 1, rows: vec![vec![(0, 1.0)]; 12], ..problem };
        let fit = Fit { parts: vec![1.0], ..fit };
        let of = |believed| {
            uncertainty(
                &alone,
                &fit,
                &[],
                Certain { learned: true, believed, timed: false, apart: &Apart::default(), ranges: &[] },
                Total::Counted,
            )
            .columns[0]
        };
        assert_eq!((of(true).identified, of(true).bounds), (true, (1.0, 1.0)));
        assert_eq!((of(false).identified, of(false).bounds), (false, (0.0, 1.0)));
    }
    /// What is not learned has no covariance, and each column may have all that there is, or as much as the
    /// board can have drawn in its time. Owners share a column as their launches are, so that nothing is in
    /// doubt about a part of it that is not in doubt about the whole.
    #[test]
    fn bounds_of_what_is_not_learned() {
        let (problem, fit) = problem(&Vectors::of("gpu_covariance"));
        let of = |ranges: &[(f64, f64)]| {
            let certain =
                Certain { learned: false, believed: false, timed: true, apart: &Apart::default(), ranges };
            uncertainty(&problem, &fit, &[], certain, Total::Counted)
        };
        let equal = energies(problem.windows(), &[1.0; 3], 3);
        let all: f64 = equal.iter().sum();
        let (free, limited) = (
            of(&[]),
            of(&[(0.5 * equal[0], 1.5 * equal[0]), (0.0, 2.0 * all), (2.0 * equal[2], 0.1 * equal[2])]),
        );
        assert_eq!(free.relative, [0.0; 9]);
        for (c, energy) in equal.iter().enumerate() {
            assert!(!free.columns[c].identified && !limited.columns[c].identified);
            near(&[free.columns[c].bounds.0, free.columns[c].bounds.1], &[0.0, all / energy], 1e-9);
        }
        let bounds = limited.columns.iter().flat_map(|column| [column.bounds.0, column.bounds.1]);
        near(&bounds.collect::<Vec<_>>(), &[0.5, 1.5, 0.0, all / equal[1], 1.0, 1.0], 1e-9);
        let joules = [0, 3_000_000, 1_000_000, 2_000_000].map(MicroJoules::from_uj);
        let owners = free.of_owners(vec![0, 0, 2, 2], &joules);
        near(&owners.pools.iter().map(|pool| pool.joules).collect::<Vec<_>>(), &[3.0, 0.0, 3.0], 1e-12);
        assert_eq!((owners.function[3], owners.functions[&(2, 2)]), (2, 3.0));
    }
}
