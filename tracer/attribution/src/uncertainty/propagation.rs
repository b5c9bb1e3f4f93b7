//! From how sure a domain's powers are to how sure its owners' energies are.
//!
//! Where the powers may split energy, their covariance says how sure they are (`covariance`). Where the
//! windows contradict them nothing does, and each column has bounds: what it would have if it drew the least
//! that can be and all others the most, or the other way round.

use crate::parts::{LeftOut, Part};
use crate::power_model::columns::Columns;
use crate::power_model::learn::{Model, PowerModel};
use crate::power_model::paths::PathTree;
use crate::split::by_power::PowerSplit;
use crate::time::cpu_time::CpuTime;
use crate::time::owners::{Owner, OwnerTime};
use crate::uncertainty::covariance::relative;
use crate::uncertainty::path_variance;
use energy_trace_certainty::PLAUSIBLE;
use energy_trace_model::profile::certainty::{Column, Function, Pool};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// How sure each owner's energy in one domain is: `profile::certainty::DomainCertainty` by owner.
#[derive(Debug, Default)]
pub(crate) struct OwnerCertainty {
    pub(crate) seconds: Vec<f64>,
    pub(crate) variance: Vec<f64>,
    pub(crate) column: Vec<usize>,
    /// Each owner's part of its column's time, times its call path's.
    pub(crate) square: Vec<f64>,
    /// Each owner's innermost function, and joules of each in each column.
    pub(crate) function: Vec<Function>,
    pub(crate) functions: BTreeMap<(usize, Function), f64>,
    pub(crate) columns: Vec<Column>,
    pub(crate) pools: Vec<Pool>,
    /// Variance of call paths' powers, in parts of the square of their mean; `None` where the run does not show it.
    pub(crate) path_variance: Option<f64>,
    pub(crate) relative: Vec<f64>,
}

/// What split a domain's energy.
pub(crate) struct Basis<'a> {
    pub(crate) power_model: &'a PowerModel,
    /// The split by powers, where there was one; `weighted` says whether it is what is charged.
    pub(crate) split: Option<&'a PowerSplit>,
    /// What owners were charged with in the intervals that powers were learned from, and what part of all
    /// these are.
    pub(crate) learned_from: &'a [MicroJoules],
    pub(crate) part: f64,
    pub(crate) weighted: bool,
    pub(crate) time: &'a CpuTime,
    pub(crate) tree: &'a PathTree,
    /// Parts that are not asked.
    pub(crate) left_out: LeftOut,
}

/// Of the energies of all owners. `seconds` are each owner's on the domain's CPUs.
pub(crate) fn certainty(basis: &Basis<'_>, of_owner: &[MicroJoules], seconds: Vec<f64>) -> OwnerCertainty {
    let Basis { power_model, split, learned_from, part, weighted, time, tree, left_out } = *basis;
    let columns = power_model.columns();
    let column: Vec<usize> = (0..of_owner.len()).map(|owner| column_of(columns, tree, owner)).collect();
    let mut square = squares(columns, tree, &seconds);
    let function: Vec<Function> = (0..).map(|owner| function_of(tree, owner)).take(of_owner.len()).collect();
    let mut functions = functions(&column, &function, of_owner);
    if left_out.has(Part::SharedPaths) {
        (square, functions) = (vec![0.0; square.len()], BTreeMap::new());
    }
    let by_times = || match split {
        _ if left_out.has(Part::TimesInIntervals) => vec![0.0; of_owner.len()],
        Some(split) => split.variance.clone(),
        None => multinomial(of_owner, &time.owners),
    };
    let mut pools = pools(columns.len(), (&column, &square), of_owner, &functions);
    if split.is_some() && !left_out.has(Part::TimesInIntervals) {
        add_samples(&mut pools, &column, &time.owners);
    }
    let model = power_model.model().filter(|_| weighted);
    let charged = by_column(columns.len(), &column, learned_from);
    OwnerCertainty {
        variance: by_times(),
        column,
        square,
        function,
        functions,
        columns: columns_of(power_model, weighted),
        pools,
        path_variance: model.and_then(|model| path_variance::estimate(model, tree)),
        relative: model.map(|model| relative(model, &charged, part)).unwrap_or_default(),
        seconds,
    }
}

/// Joules of each of so many columns.
fn by_column(columns: usize, column: &[usize], of_owner: &[MicroJoules]) -> Vec<f64> {
    let mut sums = vec![0.0; columns.max(1)];
    for (&column, energy) in column.iter().zip(of_owner) {
        sums.get_mut(column).into_iter().for_each(|sum| *sum += energy.as_joules());
    }
    sums
}

fn column_of(columns: &Columns, tree: &PathTree, owner: usize) -> usize {
    let owner = u32::try_from(owner).unwrap_or(u32::MAX);
    columns.of_path(tree.of_owner(owner)) as usize
}

/// Seconds of each call path.
fn by_path(tree: &PathTree, seconds: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; tree.len()];
    for (owner, seconds) in (0..).zip(seconds) {
        sums.get_mut(tree.of_owner(owner) as usize).into_iter().for_each(|sum| *sum += seconds);
    }
    sums
}

/// Each owner's part of its column's time, times its call path's.
fn squares(columns: &Columns, tree: &PathTree, seconds: &[f64]) -> Vec<f64> {
    let of_path = by_path(tree, seconds);
    let of = |(owner, seconds): (u32, &f64)| {
        let path = tree.of_owner(owner);
        let part = columns.part(path);
        let whole = of_path.get(path as usize).copied().unwrap_or(0.0);
        if whole > 0.0 { part * part * seconds / whole } else { 0.0 }
    };
    (0..).zip(seconds).map(of).collect()
}

/// An owner's innermost function; those without one are one.
fn function_of(tree: &PathTree, owner: u32) -> Function {
    tree.function(tree.of_owner(owner)).unwrap_or(Function::MAX)
}

/// Joules of each innermost function in each column.
fn functions(
    column: &[usize],
    function: &[Function],
    of_owner: &[MicroJoules],
) -> BTreeMap<(usize, Function), f64> {
    let mut functions = BTreeMap::new();
    for ((&column, &function), energy) in column.iter().zip(function).zip(of_owner) {
        *functions.entry((column, function)).or_default() += energy.as_joules();
    }
    functions
}

/// What is in each of so many columns, by each owner's column, `squares` and energy, and by `functions`.
fn pools(
    columns: usize,
    (column, square): (&[usize], &[f64]),
    of_owner: &[MicroJoules],
    functions: &BTreeMap<(usize, Function), f64>,
) -> Vec<Pool> {
    let mut pools = vec![Pool::default(); columns.max(1)];
    for ((&column, energy), square) in column.iter().zip(of_owner).zip(square) {
        if let Some(pool) = pools.get_mut(column) {
            pool.joules += energy.as_joules();
            pool.square += square;
        }
    }
    for (&(column, _), joules) in functions {
        pools.get_mut(column).into_iter().for_each(|pool| pool.functions += joules * joules);
    }
    pools
}

/// Adds to each column how many samples saw it.
#[expect(clippy::cast_precision_loss, reason = "a count")]
fn add_samples(pools: &mut [Pool], column: &[usize], owners: &[OwnerTime]) {
    for (&column, owner) in column.iter().zip(owners) {
        pools.get_mut(column).into_iter().for_each(|pool| pool.samples += owner.samples as f64);
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

/// Whether each column's powers are known, and what else its energy may be.
fn columns_of(power_model: &PowerModel, weighted: bool) -> Vec<Column> {
    let column = |c: usize| match power_model {
        PowerModel::Refused(model) => {
            Column { identified: false, bounds: extremes(model, c, weighted), group: None }
        }
        _ => Column { identified: true, bounds: (1.0, 1.0), group: None },
    };
    (0..power_model.columns().len().max(1)).map(column).collect()
}

/// Bounds of a column end at so many times what it was given; what there is in all ends them before
/// (`profile::certainty`).
const MOST: f64 = 1e3;

/// Least and most energy of a column in parts of what it was given, whatever it draws beside all others.
fn extremes(model: &Model, c: usize, weighted: bool) -> (f64, f64) {
    let (n, paths) = (model.design.columns, model.design.paths);
    let mean = model.fit.mean;
    let used = if weighted { model.fit.watts.clone() } else { vec![mean; n] };
    let given = model.design.energies(&used)[c];
    let with = |own: f64, others: f64| {
        let watts: Vec<f64> = (0..n).map(|d| mean * if c == d % paths { own } else { others }).collect();
        let part = model.design.energies(&watts)[c] / given;
        if part.is_finite() { part.max(0.0) } else { 1.0 }
    };
    let (least, most) = PLAUSIBLE;
    (with(least, most).min(1.0), with(most, least).clamp(1.0, MOST))
}

#[cfg(test)]
mod tests {
    use super::{
        BTreeMap, Basis, LeftOut, MOST, certainty, extremes, functions, multinomial, pools, squares,
    };
    use crate::power_model::columns::Columns;
    use crate::power_model::fit::Fit;
    use crate::power_model::learn::{Model, PowerModel};
    use crate::power_model::tests::toy::{Toy, flat_tree};
    use crate::tests::vectors::near;
    use crate::time::compact_slices::InterSampleSlices;
    use crate::time::cpu_time::CpuTime;
    use crate::time::owners::{Owner, OwnerTime};
    use energy_trace_model::ids::{StackId, ThreadKey};
    use energy_trace_model::units::MicroJoules;
    use nalgebra::DMatrix;

    fn joules(joules: f64) -> MicroJoules {
        MicroJoules::from_uj((joules * 1e6) as i64)
    }

    /// A share of a quarter, seen in 25 of 100 samples, has a relative variance of 0.75 / 25; who is not of
    /// the target, or was not seen, has none.
    #[test]
    fn shares_of_samples() {
        let owner = |owner, samples| OwnerTime { owner, time_ns: 0, samples };
        let target = |stack| Owner::Target(ThreadKey::new(0), stack);
        let stack = Some(StackId::new(0));
        let owners = [
            owner(Owner::Other, 10),
            owner(target(stack), 25),
            owner(target(stack), 65),
            owner(target(None), 0),
            owner(target(stack), 0),
        ];
        let found = multinomial(&[4.0, 2.0, 10.0, 1.0, 1.0].map(joules), &owners);
        near(&found, &[0.0, 4.0 * 0.75 / 25.0, 100.0 * 0.35 / 65.0, 0.0, 0.0], 1e-12);
    }

    /// Two owners of one path and one of another share a column: the squares of paths' parts of its time, a
    /// path's by its owners' time.
    #[test]
    fn parts_of_columns() {
        let mut columns = Columns::of_paths(vec![1], vec![0; 4]);
        columns.set_parts(vec![0.0, 0.0, 0.6, 0.4]);
        let tree = flat_tree(2).owned_by(vec![2, 3, 2]);
        let square = squares(&columns, &tree, &[1.0, 5.0, 3.0]);
        near(&square, &[0.36 * 0.25, 0.16, 0.36 * 0.75], 1e-12);
        let energies = [1.0, 2.0, 3.0].map(joules);
        let by_function = functions(&[0, 0, 0], &[5, 6, 5], &energies);
        assert_eq!(
            by_function.iter().map(|(of, e)| (*of, *e)).collect::<Vec<_>>(),
            [((0, 5), 4.0), ((0, 6), 2.0)]
        );
        let found = pools(1, (&[0, 0, 0], &square), &energies, &by_function);
        near(&[found[0].joules, found[0].square, found[0].functions], &[6.0, 0.52, 20.0], 1e-12);
        assert_eq!(pools(0, (&[], &[]), &[], &BTreeMap::new()).len(), 1);
        assert_eq!(squares(&columns, &tree, &[0.0; 3]), [0.0; 3]);
    }

    fn model() -> (Toy, Model) {
        let toy = Toy::new(20.0, &[vec![6.0, 2.0], vec![0.0, 4.0]], &[1.0, 0.2], 0.0);
        let fit = Fit {
            mean: 10.0,
            watts: vec![10.0, 30.0],
            residuals: vec![0.0; 2],
            physical: vec![],
            fluctuation: 0.0,
            weights: vec![1.0; 2],
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
        };
        let model = toy.model_of(fit, DMatrix::identity(2, 2));
        (toy, model)
    }

    /// A column drew a tenth of the mean and the other four times as much, or the other way round: 0.6 / 8.6
    /// and 24 / 24.2 of a joule, beside the half that its powers gave it, or the three quarters of a split by
    /// time.
    #[test]
    fn bounds_by_what_is_plausible() {
        let (_, model) = model();
        let near = |found: (f64, f64), expected: (f64, f64)| {
            near(&[found.0, found.1], &[expected.0, expected.1], 1e-9);
        };
        near(extremes(&model, 0, true), (0.6 / 8.6 / 0.5, 24.0 / 24.2 / 0.5));
        near(extremes(&model, 0, false), (0.6 / 8.6 / 0.75, 24.0 / 24.2 / 0.75));
        near(extremes(&model, 1, true), ((0.2 / 24.2 + 0.2) / 0.7, (8.0 / 8.6 + 0.2) / 0.7));
    }

    /// Known powers have a covariance and need no bounds; refused ones have bounds and none; a split by time
    /// has no covariance.
    #[test]
    fn certainty_of_a_domain() {
        let (toy, _) = model();
        let owner = OwnerTime {
            owner: Owner::Target(ThreadKey::new(0), Some(StackId::new(0))),
            time_ns: 0,
            samples: 3,
        };
        let time = CpuTime {
            segments: vec![],
            owners: vec![owner; 2],
            slices: InterSampleSlices::default(),
            points: vec![],
            overlaps: 0,
        };
        let of = |power_model: PowerModel, weighted| {
            let charged = [0.5, 0.7].map(joules);
            let basis = Basis {
                power_model: &power_model,
                split: None,
                learned_from: &charged,
                part: 1.0,
                weighted,
                time: &time,
                tree: &toy.tree,
                left_out: LeftOut::NOTHING,
            };
            certainty(&basis, &charged, vec![0.006, 0.006])
        };
        let known = of(PowerModel::Known(model().1), true);
        assert_eq!((known.column.as_slice(), known.relative.len()), (&[0, 1][..], 4));
        assert!(known.columns.iter().all(|column| column.identified && column.bounds == (1.0, 1.0)));
        assert!(known.relative[0] > 0.0 && known.relative[1] < 0.0, "{:?}", known.relative);
        near(&[known.pools[1].joules], &[0.7], 1e-12);
        let refused = of(PowerModel::Refused(model().1), false);
        assert!(refused.relative.is_empty() && refused.columns.iter().all(|column| !column.identified));
        assert!(
            (refused.columns[0].bounds.1 - 24.0 / 24.2 / 0.75).abs() < 1e-9
                && refused.columns[0].bounds.1 < MOST
        );
        let single = of(PowerModel::Single(Columns::of_paths(vec![1], vec![0; 4])), false);
        assert_eq!((single.columns.len(), single.columns[0].identified), (1, true));
    }
}
