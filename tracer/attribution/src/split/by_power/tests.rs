//! Unit tests of the split by powers. Leaves out whole domains (`tests/offline/attribution`).

use super::{Expected, Interval, MicroJoules, PowerSplit, Splitter, TrackOwners};
use crate::between_samples::expected_time::{ColumnWeights, Times};
use crate::between_samples::interval_slices::{IntervalSlice, IntervalSlices};
use crate::between_samples::switching_chain::{Chains, probability};
use crate::power_model::design::Design;
use crate::power_model::fit::Fit;
use crate::power_model::learn::Model;
use crate::power_model::tests::toy::{Toy, at_ms, slice};
use crate::power_model::training_subset::TrainingSubset;
use crate::power_model::windows::Windows;
use crate::time::inter_sample::{NO_TRACK, NOBODY, SamplePoint};
use crate::time::owners::{Owner, OwnerTime};
use energy_trace_model::ids::ThreadKey;
use nalgebra::DMatrix;
use std::ops::Range;

fn fit(watts: &[f64]) -> Fit {
    Fit {
        mean: 10.0,
        watts: watts.to_vec(),
        residuals: vec![],
        physical: vec![],
        fluctuation: 0.0,
        weights: vec![],
        variances: vec![],
        likelihood: 0.0,
        by_pairs: None,
    }
}

fn owners(count: u32) -> Vec<OwnerTime> {
    let owner = |_| OwnerTime { owner: Owner::Target(ThreadKey::new(0), None), time_ns: 1_000, samples: 0 };
    (0..count).map(owner).collect()
}

fn split(toy: &Toy, model: &Model, points: &[SamplePoint]) -> PowerSplit {
    let owners = owners(u32::try_from(toy.columns).unwrap());
    let splitter =
        Splitter { model, tree: &toy.tree, owners: &owners, points, subset: &TrainingSubset::default() };
    let slices = |some: Range<usize>| {
        let is_there = |slice: &&IntervalSlice| some.contains(&(slice.interval as usize));
        let moved = |slice: &IntervalSlice| IntervalSlice {
            interval: slice.interval - u32::try_from(some.start).unwrap(),
            ..*slice
        };
        IntervalSlices::of_slices(&toy.slices.iter().filter(is_there).map(moved).collect::<Vec<_>>())
    };
    splitter.split(&toy.dynamic, slices, |_| (vec![1], vec![1]))
}

fn uj(energies: &[MicroJoules]) -> Vec<i64> {
    energies.iter().map(|energy| energy.as_uj()).collect()
}

/// 1 J by 4 ms of 30 W and 8 ms of 5 W is shared 3 : 1; negative energy too, and it is counted; where nobody
/// is expected to have drawn anything the plain split has it. What the counter's edges leave open goes with
/// the energy.
#[test]
fn certain_times_share_by_power() {
    let rows = [vec![4.0, 8.0], vec![4.0, 8.0], vec![0.0, 0.0]];
    let toy = Toy::new(20.0, &rows, &[1.0, -0.1, 0.3], 0.0);
    let mut model = toy.model_of(fit(&[30.0, 5.0]), DMatrix::identity(2, 2));
    model.edges = vec![0.04, 0.0, 0.0];
    let PowerSplit { shares, variance } = split(&toy, &model, &[]);
    assert_eq!(uj(&shares.of_owner), [750_000 - 75_000, 250_000 - 25_000 + 300_000]);
    assert_eq!((shares.negative.as_uj(), shares.residual.as_uj()), (-100_000, 0));
    assert!((variance[0] - 0.03).abs() < 1e-9 && (variance[1] - 0.01).abs() < 1e-9, "{variance:?}");
}

/// A window of several intervals has its edges' variance in equal parts: three, three and two of 2.5 ms.
#[test]
fn edges_of_short_intervals() {
    let toy = Toy::new(2.5, &vec![vec![1.0, 1.0]; 8], &[0.1; 8], 0.0);
    let mut model = toy.model_of(fit(&[30.0, 5.0]), DMatrix::identity(2, 2));
    model.edges = vec![0.06, 0.02, 0.01];
    let owners = owners(2);
    let splitter = Splitter {
        model: &model,
        tree: &toy.tree,
        owners: &owners,
        points: &[],
        subset: &TrainingSubset::default(),
    };
    let found = splitter.edges();
    assert_eq!(found.len(), 8);
    assert!((found.iter().sum::<f64>() - 0.09).abs() < 1e-12, "{found:?}");
    assert!((found[0] - 0.02).abs() < 1e-12 && (found[7] - 0.005).abs() < 1e-12, "{found:?}");
}

/// Intervals that powers were learned from have their own edges and drift; of the others nothing is known,
/// and they have the mean edge and no drift.
#[test]
fn edges_of_intervals_that_nothing_was_learned_from() {
    let toy = Toy::new(20.0, &vec![vec![1.0, 1.0]; 400], &[0.1; 400], 0.0);
    let mut model = toy.model_of(fit(&[30.0, 5.0]), DMatrix::identity(2, 2));
    model.edges = (0..400_u32).map(f64::from).collect();
    model.design.drift = vec![1.5; 400];
    let (owners, subset) = (owners(2), TrainingSubset::at_most(1_200, 400));
    let splitter = Splitter { model: &model, tree: &toy.tree, owners: &owners, points: &[], subset: &subset };
    let (edges, drifts) = (splitter.edges(), splitter.drifts());
    assert_eq!((edges.len(), drifts.len()), (1_200, 1_200));
    let learned_from = subset.take(&(0..1_200).collect::<Vec<usize>>());
    for (at, interval) in learned_from.iter().enumerate() {
        assert_eq!((edges[*interval], drifts[*interval]), (at as f64, 1.5));
    }
    let others = (0..1_200).filter(|interval| !learned_from.contains(interval));
    assert!(
        others.clone().count() == 800 && others.clone().all(|it| (edges[it], drifts[it]) == (199.5, 1.0))
    );
}

/// Beside busy CPUs a call path draws what it draws there: 4 ms at 30 W and 4 ms, half of them beside others,
/// at 10 and 2 W are 120 : 24.
#[test]
fn contended_ratio() {
    let mut toy = Toy::new(20.0, &[vec![4.0, 4.0]], &[0.144], 0.0);
    toy.slices[1].contention = 0.5;
    let mut model = toy.model_of(fit(&[30.0, 10.0, 30.0, 2.0]), DMatrix::identity(4, 4));
    let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
    model.design = Design::new(&windows, &toy.listed(), (Times::Nearest, 0), (2, true), |owner| owner);
    assert_eq!(uj(&split(&toy, &model, &[]).shares.of_owner), [120_000, 24_000]);
}

/// Samples of two owners each 2 ms, in turn by chance, and what the time between two of them is.
fn between() -> (Toy, Vec<SamplePoint>, Model) {
    let point = |i: u64| SamplePoint {
        track: 0,
        at: at_ms(2.0 * i as f64),
        cpu_ns: 2_000_000 * i,
        owner: u32::from(i * i % 7 < 3),
    };
    let points: Vec<SamplePoint> = (0..200).map(point).collect();
    let mut toy = Toy::new(20.0, &[vec![4.0, 8.0]], &[0.5], 0.0);
    let between = IntervalSlice {
        track: 0,
        left: 0,
        right: 1,
        before_ns: 500_000,
        after_ns: 500_000,
        gap: 1,
        ..slice(0, 0, 2.5, 1.0)
    };
    toy.slices.push(between);
    let mut model = toy.model_of(fit(&[30.0, 5.0]), DMatrix::identity(2, 2));
    model.chains = Chains::new(&points, at_ms(0.0), |owner| owner).into();
    (toy, points, model)
}

/// Owners on either side of slices are known by track, each once; of time that is not in doubt none are.
#[test]
fn owners_beside_slices() {
    let mut beside = TrackOwners::new(3);
    let of = |track, left, right| IntervalSlice { track, left, right, ..slice(0, 0, 2.5, 1.0) };
    for slice in [of(0, 0, 1), of(0, 1, 0), of(1, 1, NOBODY), of(NO_TRACK, 2, 2)] {
        beside.add(&slice);
    }
    assert_eq!(beside.found, [(0, 0), (0, 1), (1, 1)].into());
}

/// The formulas at the head for a part of which it is not known who had it: t p w by the bridge's
/// probabilities and the mix, and C_ii − 2 s C_i + s² C.
#[test]
fn times_that_are_not_certain() {
    let (toy, points, model) = between();
    let weights = ColumnWeights::of(&toy.slices[2], Times::Chain(&model.chains), &|owner| owner);
    let mix = model.chains.mix(weights.mix);
    let bridge = weights.bridge;
    let p = [bridge.left + bridge.mix * probability(mix, 0), bridge.right + bridge.mix * probability(mix, 1)];
    assert!((p[0] + p[1] - 1.0).abs() < 1e-9 && p[0] > 0.1 && p[1] > 0.1, "{p:?}");
    let w = [30.0, 5.0];
    let expected = [0.004 * 30.0 + 1e-3 * p[0] * w[0], 0.008 * 5.0 + 1e-3 * p[1] * w[1]];
    let sum = expected[0] + expected[1];
    let PowerSplit { shares, variance } = split(&toy, &model, &points);
    for (found, expected) in uj(&shares.of_owner).iter().zip(expected) {
        assert!((*found as f64 - 5e5 * expected / sum).abs() < 2.0, "{found}");
    }
    assert_eq!(uj(&shares.of_owner).iter().sum::<i64>(), 500_000);
    let mean = p[0] * w[0] + p[1] * w[1];
    let v = bridge.spread * 1e-6;
    let with_all = [0, 1].map(|i: usize| v * p[i] * w[i] * (w[i] - mean));
    let all = with_all[0] + with_all[1];
    for i in [0, 1] {
        let s = expected[i] / sum;
        let by_times = v * p[i] * (1.0 - p[i]) * w[i] * w[i] - 2.0 * s * with_all[i] + s * s * all;
        // The mix is known from 200 samples.
        let pi = probability(mix, i as u32);
        let by_mix = pi * (1.0 - pi) / 200.0 * (1e-3 * bridge.mix * w[i]).powi(2);
        let expected = by_times + by_mix;
        assert!((variance[i] / expected - 1.0).abs() < 1e-6, "{} instead of {expected}", variance[i]);
    }
}

/// With a lag a track's next slice begins with the power of the one before: of 4 ms of 30 W behind 4 ms of 5
/// W, with 4 ms of lag, the mean over a part, by hand.
#[test]
fn power_lags() {
    let mut toy = Toy::new(20.0, &[vec![4.0, 4.0]], &[1.0], 0.0);
    toy.slices.iter_mut().for_each(|slice| slice.track = 0);
    toy.slices.swap(0, 1);
    let mut model = toy.model_of(fit(&[30.0, 5.0]), DMatrix::identity(2, 2));
    model.settings.lag_ns = 4_000_000;
    let owners = owners(2);
    let splitter = Splitter {
        model: &model,
        tree: &toy.tree,
        owners: &owners,
        points: &[],
        subset: &TrainingSubset::default(),
    };
    let pass = splitter.pass();
    let mut sums = super::Sums::new(2);
    let left = (-1.0_f64).exp();
    let first = pass.before(&toy.slices[0], 5.0, &mut sums);
    assert!((first.watts - 5.0).abs() < 1e-12 && (first.part - (1.0 - left)).abs() < 1e-12);
    let second = pass.before(&toy.slices[1], 30.0, &mut sums);
    assert!((second.watts - 5.0).abs() < 1e-12 && (second.part - (1.0 - left)).abs() < 1e-12);
    let third = pass.before(&toy.slices[0], 5.0, &mut sums);
    assert!((third.watts - (left * 5.0 + (1.0 - left) * 30.0)).abs() < 1e-12, "{third:?}");
    let certain = slice(0, 0, 0.0, 4.0);
    assert_eq!(pass.before(&certain, 5.0, &mut sums).part, 0.0);
}

/// What a track's mix is expected to draw of a column that neither sample shows, in two parts one after the
/// other: by hand, with powers alone and a quarter of the time beside busy CPUs, a drift of all power, and a
/// lag, so that each slice begins with the power from before it.
#[test]
fn mixes_draw_their_part() {
    let (mut toy, points, mut model) = between();
    let ns = 1_000_000_u64;
    let slice =
        IntervalSlice { right: 0, contention: 0.25, before_ns: 4 * ns, after_ns: 4 * ns, ..toy.slices[2] };
    toy.slices.push(slice);
    let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
    model.design = Design::new(&windows, &toy.listed(), (Times::Nearest, 0), (2, true), |owner| owner);
    model.fit = fit(&[30.0, 5.0, 24.0, 3.0]);
    model.settings.lag_ns = 2 * ns;
    let owners = owners(2);
    let subset = TrainingSubset::default();
    let splitter =
        Splitter { model: &model, tree: &toy.tree, owners: &owners, points: &points, subset: &subset };
    let pass = splitter.pass();
    let mut sums = super::Sums::new(pass.recipients());
    sums.power.insert(0, 50.0);
    let mut interval = Interval::new(pass.recipients());
    let drift = 1.5;
    pass.expect(drift, [slice, slice].into_iter(), &mut interval, &mut sums);
    let weights = ColumnWeights::of(&slice, Times::Chain(&model.chains), &|owner| owner);
    let (pi, r, t) = (probability(model.chains.mix(weights.mix), 1), weights.bridge.mix, 1e-3);
    assert!(r > 0.05 && pi > 0.1, "{r} {pi}");
    let average = model.design.on_average(&model.fit.watts);
    let mean = (1.0 - r * pi) * average[0] + r * pi * average[1];
    // A millisecond with a lag of two.
    let left = (-0.5_f64).exp();
    let (late, own) = (2.0 * (1.0 - left), 0.75 * 5.0 + 0.25 * 3.0);
    let befores = [50.0, left * 50.0 + (1.0 - left) * mean];
    let joules = |before: f64| drift * t * r * pi * (own * (1.0 - late) + before * late);
    let recipient = 3;
    let found = interval.expected[recipient];
    let scale = 2.0 * drift * drift * t * t * weights.bridge.spread;
    let expected = [
        joules(befores[0]) + joules(befores[1]),
        scale * r * pi * (1.0 - r * pi) * average[1] * average[1],
        scale * r * pi * (average[1] - mean) * average[1],
    ];
    for (found, expected) in [found.joules, found.own, found.with_all].into_iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    }
    assert!((sums.mixed[recipient] / (2.0 * drift * t * r * pi) - 1.0).abs() < 1e-9);
    let drawn = 1.0 - r * pi;
    let of_owner =
        |before: f64| drift * t * drawn * ((0.75 * 30.0 + 0.25 * 24.0) * (1.0 - late) + before * late);
    let sampled = interval.expected[0];
    let expected = of_owner(befores[0]) + of_owner(befores[1]);
    assert!((sampled.joules / expected - 1.0).abs() < 1e-9, "{} instead of {expected}", sampled.joules);
}

/// One entry a recipient, with all of it, also where there are more than a word has bits; the largest has
/// what rounding leaves, and of equal ones the last. The next interval begins with nothing.
#[test]
fn holders_are_merged() {
    let mut interval = Interval::new(70);
    let of = |joules| Expected { joules, own: 2.0 * joules, with_all: 3.0 * joules };
    interval.add(6, of(1.0), 1.0);
    interval.add(4, of(1.0), 2.0);
    interval.add(6, of(2.0), 0.5);
    let found = |recipient: usize| {
        let Expected { joules, own, with_all } = interval.expected[recipient];
        (joules, own, with_all)
    };
    assert_eq!([found(4), found(6), found(5)], [(2.0, 4.0, 6.0), (2.0, 4.0, 6.0), (0.0, 0.0, 0.0)]);
    interval.add(69, of(-7.0), 1.0);
    interval.add(68, of(2.5), 1.0);
    interval.add(70, of(1.0), 1.0);
    let shares = |interval: &mut Interval, uj: i64| {
        let mut sums = super::Sums::new(70);
        interval.give_out(MicroJoules::from_uj(uj), 0.0, &mut sums, || (vec![], vec![]));
        let energies = sums.shares.of_owner.iter().enumerate();
        let energies = energies.filter(|(_, energy)| **energy != MicroJoules::ZERO);
        energies.map(|(recipient, energy)| (recipient, energy.as_uj())).collect::<Vec<_>>()
    };
    assert_eq!(shares(&mut interval, 100), [(4, 31), (6, 31), (68, 38)]);
    interval.add(6, of(1.0), 1.0);
    interval.add(64, of(1.0), 1.0);
    assert_eq!(shares(&mut interval, 99), [(6, 50), (64, 49)]);
}

/// What a mix got goes to the owners of its column in its track by their time; a column that nobody there has
/// goes to the track's first owners, and what no track has is left over.
#[test]
fn mixes_are_handed_out() {
    let (toy, points, model) = between();
    let mut owners = owners(2);
    (owners[0].time_ns, owners[1].time_ns) = (100, 300);
    let splitter = Splitter {
        model: &model,
        tree: &toy.tree,
        owners: &owners,
        points: &points,
        subset: &TrainingSubset::default(),
    };
    let pass = splitter.pass();
    let finish = |points: &[SamplePoint], ends: &[(u32, u32)], column: usize| {
        let splitter = Splitter { points, ..splitter };
        let mut sums = super::Sums::new(pass.recipients());
        sums.shares.of_owner[2 + column] = MicroJoules::from_uj(1_000);
        sums.ends = ends.iter().copied().collect();
        let shares = splitter.pass().finish(sums).shares;
        (uj(&shares.of_owner), shares.residual.as_uj())
    };
    assert_eq!(finish(&points, &[], 1), (vec![0, 1_000], 0));
    assert_eq!(finish(&[], &[(0, 0)], 1), (vec![1_000, 0], 0));
    assert_eq!(finish(&[], &[], 0), (vec![0, 0], 1_000));
    let (mut shares, mut variance) = (super::Shares::nothing(2), vec![0.0; 2]);
    pass.give_mixed((MicroJoules::from_uj(1_000), 8.0), &[0, 1], &mut shares, &mut variance);
    assert_eq!((uj(&shares.of_owner), variance), (vec![250, 750], vec![2.0, 6.0]));
}

/// A mix is known from so many samples: p (1 − p) / n of the square of the energy that its track's mix would
/// have at the column's power.
#[test]
fn mixes_are_in_doubt() {
    let (toy, points, model) = between();
    let owners = owners(2);
    let splitter = Splitter {
        model: &model,
        tree: &toy.tree,
        owners: &owners,
        points: &points,
        subset: &TrainingSubset::default(),
    };
    let pass = splitter.pass();
    let mut sums = super::Sums::new(pass.recipients());
    sums.mixed = vec![0.0, 0.0, 3.0, 1.0];
    pass.doubt_mixes(&mut sums);
    let of = |column: usize| sums.variance[2 + column];
    let should = |watts: f64| 0.75 * 0.25 / 200.0 * (4.0 * watts).powi(2);
    assert!((of(0) / should(30.0) - 1.0).abs() < 1e-9 && (of(1) / should(5.0) - 1.0).abs() < 1e-9);
}
