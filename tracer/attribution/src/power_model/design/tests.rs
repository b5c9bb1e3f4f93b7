//! Unit tests of windows and rows. Leaves out whole domains (`tests/offline/attribution`).

use super::{Arc, BridgeWeights, Design, IntervalSlices, Times, Windows};
use crate::between_samples::interval_slices::IntervalSlice;
use crate::between_samples::switching_chain::{Chains, probability};
use crate::numerics::shares::predicted;
use crate::power_model::tests::toy;
use crate::power_model::windows::shown_later;
use crate::tests::vectors::Vectors;
use crate::time::inter_sample::{NO_TRACK, SamplePoint};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

fn windows(lengths_ms: &[u64]) -> Windows {
    let mut at = 0;
    let interval = |ms: &u64| {
        let start = KtimeNs::from_ns(at);
        at += ms * 1_000_000;
        EnergyInterval { span: Span { start, end: KtimeNs::from_ns(at) }, energy: MicroJoules::ZERO }
    };
    let intervals: Vec<_> = lengths_ms.iter().map(interval).collect();
    Windows::of_intervals(&intervals, &vec![MicroJoules::from_uj(1_000_000); lengths_ms.len()])
}

/// Time whose owner is certain.
fn slice(interval: u32, owner: u32, ms: u64) -> IntervalSlice {
    IntervalSlice {
        interval,
        track: NO_TRACK,
        left: owner,
        right: owner,
        ns: ms * 1_000_000,
        ..IntervalSlice::nobodys()
    }
}

/// Short intervals are put together; blocks are as long as is asked for.
#[test]
fn short_intervals_are_put_together() {
    let windows = windows(&[20, 3, 3, 3, 20]);
    assert_eq!(windows.joules, [1.0, 3.0, 1.0]);
    assert_eq!(windows.of_interval, [0, 1, 1, 1, 2]);
    assert_eq!(windows.first_intervals(), [0, 1, 4, 5]);
    assert_eq!(windows.blocks(25_000_000), [0..2, 2..3]);
    assert_eq!(windows.blocks(1), [0..1, 1..2, 2..3]);
}

/// A row holds the seconds of those who ran, in order; a window in which nobody ran has an empty one.
#[test]
fn rows_are_sparse() {
    let slices = IntervalSlices::of_slices(&[slice(0, 7, 4), slice(0, 2, 6), slice(0, 7, 3), slice(2, 2, 9)]);
    let chains = Chains::default();
    let mut design =
        Design::new(&windows(&[20, 20, 20]), &slices, (Times::Chain(&chains), 0), (10, false), |owner| owner);
    let near = |row: &[(usize, f64)], expected: &[(usize, f64)]| {
        row.len() == expected.len()
            && row.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12)
    };
    assert!(near(design.row(0), &[(2, 0.006), (7, 0.007)]), "{:?}", design.row(0));
    assert!(near(design.row(1), &[]) && near(design.row(2), &[(2, 0.009)]));
    assert!((design.seconds() - 0.022).abs() < 1e-12);
    let watts = [0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0, 20.0, 0.0, 0.0];
    assert!((predicted(design.row(0), &watts) - 0.2).abs() < 1e-12);
    assert!(design.variances(&watts, &[]).iter().all(|variance| *variance == 0.0));
    design.rescale(&[2.0, 1.0, 1.0]);
    assert!(near(design.row(0), &[(2, 0.012), (7, 0.014)]));
    assert!((design.drift_of(0) - 2.0).abs() < 1e-12 && (design.drift_of(9) - 1.0).abs() < 1e-12);
}

/// The variance of a part that is the left one's or the right one's by half: v t² ¼ (w − w')².
#[test]
fn variance_of_a_border() {
    let of_slice =
        super::TimeVariance { window: 0, left: 0, right: 1, mix: super::NO_MIX, of: [0.5, 0.5, 0.0, 1e-4] };
    let design = Design {
        paths: 2,
        columns: 2,
        windows: windows(&[20]),
        rows: vec![],
        time_variances: Arc::new(vec![vec![of_slice]]),
        drift: vec![2.0],
    };
    let found = design.variances(&[4.0, 10.0], &[]);
    assert!((found[0] - 4.0 * 1e-4 * 9.0).abs() < 1e-9, "{found:?}");
    let bridge: BridgeWeights = of_slice.weights().bridge;
    assert!((bridge.left + bridge.right - 1.0).abs() < 1e-9);
}

/// What a first-order lag shows, window by window, as solving its equation gives (`make.py`): all of it in
/// the end.
#[test]
fn lags_as_their_equation() {
    let vectors = Vectors::of("lag");
    let (count, lag_ms) = (vectors.number("windows") as usize, vectors.number("lag_ms"));
    let window_ms = vectors.number("window_ms");
    let windows = windows(&vec![window_ms as u64; count]);
    let run = |run: &Vec<f64>| {
        let interval = (run[1] / window_ms) as usize;
        toy::slice(interval, run[0] as u32, run[1], run[2])
    };
    let slices = IntervalSlices::of_slices(&vectors.table("runs").iter().map(run).collect::<Vec<_>>());
    let chains = Chains::default();
    let lag_ns = (lag_ms * 1e6) as u64;
    let design = Design::new(&windows, &slices, (Times::Chain(&chains), lag_ns), (2, false), |owner| owner);
    for (window, expected) in vectors.table("seconds").iter().enumerate() {
        let mut found = [0.0; 2];
        design.row(window).iter().for_each(|(column, seconds)| found[*column] = *seconds);
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 2e-6, "{window}: {found:?} instead of {expected:?}");
    }
    assert!((design.seconds() - 0.021).abs() < 1e-6, "{}", design.seconds());
}

/// τ / ns · (e^(−after / τ) − e^(−(after + ns) / τ)); nothing without a lag, all of an endless one.
#[test]
fn shown_later_by_its_integral() {
    let steps = 20_000;
    let (lag, ns, after) = (7.0, 12.0, 3.0);
    let middle = |step: u32| (f64::from(step) + 0.5) * ns / f64::from(steps);
    let mean: f64 =
        (0..steps).map(|step| (-(after + middle(step)) / lag).exp()).sum::<f64>() / f64::from(steps);
    assert!((shown_later(lag, ns, after) - mean).abs() < 1e-8);
    assert_eq!(shown_later(0.0, ns, after), 0.0);
    assert!((shown_later(1e12, ns, after) - 1.0).abs() < 1e-9);
}

/// Half of the time beside busy CPUs is another column's of the same call path: seconds, the mean power, and
/// energies are by path.
#[test]
fn columns_beside_others() {
    let slices = [
        IntervalSlice { contention: 0.5, ..slice(0, 0, 8) },
        IntervalSlice { contention: 1.0, ..slice(0, 1, 2) },
        slice(1, 1, 6),
    ];
    let slices = IntervalSlices::of_slices(&slices);
    let chains = Chains::default();
    let design =
        Design::new(&windows(&[20, 20]), &slices, (Times::Chain(&chains), 0), (2, true), |owner| owner);
    let row = |window| design.row(window).iter().map(|&(c, s)| (c, (s * 1e6).round())).collect::<Vec<_>>();
    assert_eq!(row(0), [(0, 4_000.0), (2, 4_000.0), (3, 2_000.0)]);
    assert_eq!(row(1), [(1, 6_000.0)]);
    let average = design.on_average(&[10.0, 20.0, 5.0, 12.0]);
    assert!((average[0] - 7.5).abs() < 1e-9 && (average[1] - 18.0).abs() < 1e-9, "{average:?}");
    // 1 J by 40, 20 and 24 mJ, and 1 J.
    let energies = design.energies(&[10.0, 20.0, 5.0, 12.0]);
    assert!((energies[0] - 60.0 / 84.0).abs() < 1e-9 && (energies[1] - 24.0 / 84.0 - 1.0).abs() < 1e-9);
    let none = design.energies(&[0.0; 4]);
    assert_eq!(none, [0.0, 0.0]);
}

/// Of a slice between two samples with a mix: seconds are the bridge's, mixes are spread over their columns,
/// and the variance is v t² (mean of squares − square of the mean).
#[test]
fn mixes_are_spread() {
    let point = |i: u64| SamplePoint {
        track: 0,
        at: KtimeNs::from_ns(i * 1_000_000),
        cpu_ns: i * 1_000_000,
        owner: u32::from(i % 3 < 1),
    };
    let points: Vec<SamplePoint> = (0..300).map(point).collect();
    let chains = Chains::new(&points, KtimeNs::default(), |owner| owner);
    let between = IntervalSlice {
        track: 0,
        left: 0,
        right: 1,
        before_ns: 200_000,
        ns: 500_000,
        after_ns: 300_000,
        gap: 1,
        at: KtimeNs::from_ns(450_000),
        ..slice(0, 0, 1)
    };
    let slices = IntervalSlices::of_slices(&[between]);
    let design = Design::new(&windows(&[20]), &slices, (Times::Chain(&chains), 0), (2, false), |owner| owner);
    let bridge = BridgeWeights::new(&between, chains.rate(0), None);
    let mix = chains.mix(chains.mix_number(0, between.at));
    let expected = |c: u32, own: f64| 5e-4 * (own + bridge.mix * probability(mix, c));
    let (first, second) = (expected(0, bridge.left), expected(1, bridge.right));
    assert!((design.row(0)[0].1 - first).abs() < 1e-12 && (design.row(0)[1].1 - second).abs() < 1e-12);
    let (p, q) = (first / 5e-4, second / 5e-4);
    let (mean, square) = (3.0 * p + 8.0 * q, 9.0 * p + 64.0 * q);
    let variance = bridge.spread * 2.5e-7 * (square - mean * mean);
    let found = design.variances(&[3.0, 8.0], &chains.moments(&[3.0, 8.0]))[0];
    assert!((found / variance - 1.0).abs() < 1e-5, "{found} instead of {variance}");
}

/// What a lag leaves of the energy before a window, at its beginning and at its end: e^(−t / τ), over a gap
/// as well. Nothing is before the first one.
#[test]
fn left_of_the_window_before() {
    let span = |from: u64, until: u64| {
        let at = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        EnergyInterval { span: Span { start: at(from), end: at(until) }, energy: MicroJoules::ZERO }
    };
    let intervals = [span(0, 20), span(20, 40), span(45, 65)];
    let windows = Windows::of_intervals(&intervals, &[MicroJoules::from_uj(1); 3]);
    let near = |(begin, end): (f64, f64), after: [f64; 2]| {
        (begin - (-after[0]).exp()).abs() < 1e-12 && (end - (-after[1]).exp()).abs() < 1e-12
    };
    assert_eq!(windows.left(0, 1e7), (0.0, 0.0));
    assert!(near(windows.left(1, 1e7), [0.0, 2.0]));
    assert!(near(windows.left(2, 1e7), [0.5, 2.5]));
}

/// Each of more windows than one thread looks at has a variance.
#[test]
fn many_windows() {
    let slices = IntervalSlices::of_slices(&[slice(299, 0, 8)]);
    let chains = Chains::default();
    let design =
        Design::new(&windows(&[20; 300]), &slices, (Times::Chain(&chains), 0), (2, false), |owner| owner);
    assert_eq!(design.variances(&[1.0; 2], &chains.moments(&[1.0; 2])), [0.0; 300]);
    assert_eq!(design.row(299), [(0, 0.008)]);
}
