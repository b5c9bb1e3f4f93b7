//! Intervals and bounds of parts and of the whole, against sums by hand.

use super::{Certainty, Column, DomainCertainty, HowSure as _, MicroJoules, Pool};
use energy_trace_model::profile::certainty::{ColumnGroup, InColumn};
use energy_trace_model::recording::record::DomainClass;
use std::collections::BTreeMap;

const fn in_column(column: usize, joules: f64) -> InColumn {
    InColumn { column, joules, square: 1.0, function: 0 }
}

fn certainty(identified: bool) -> Certainty {
    let column = |bounds| Column { identified, bounds, group: None };
    let domain = DomainCertainty {
        class: Some(DomainClass::Package),
        energy: vec![vec![in_column(0, 10.0)], vec![in_column(1, 30.0)]],
        seconds: vec![1.0, 1.0],
        variance: vec![1.0, 1.0],
        all_variance: 2.0,
        columns: vec![column((0.5, 2.0)), column((0.9, 1.1))],
        // What the first column has too much the second has too little: 10 % of 10 J, a thirtieth of 30 J.
        relative: vec![0.01, -0.01 / 3.0, -0.01 / 3.0, 0.01 / 9.0],
        ..DomainCertainty::default()
    };
    Certainty { domains: vec![domain] }
}

fn sure(certainty: &Certainty, rows: &[usize], joules: i64) -> super::Uncertainty {
    certainty.of(rows, |_| true, MicroJoules::from_uj(joules * 1_000_000))
}

/// A part has the doubts of watts (1 J) and of sampling (√½ J); everything together has none.
#[test]
fn the_whole_is_sure() {
    let of_part = sure(&certainty(true), &[0], 10);
    let times = (1.1 * 1.959_964 * f64::sqrt(1.0 + 0.5) / 10.0).exp();
    assert!((of_part.ci95.1.as_joules() - 10.0 * times).abs() < 1e-3, "{of_part:?}");
    assert!((of_part.ci95.0.as_joules() - 10.0 / times).abs() < 1e-3, "{of_part:?}");
    let whole = sure(&certainty(true), &[0, 1], 40);
    assert!((whole.ci95.1 - whole.ci95.0).as_uj() < 10, "{whole:?}");
    assert_eq!(whole.bounds, None);
}

/// The program has 10 J of one column and others 30 J of another. What is not known of the program's alone is no more than what is not known of the
/// others' (here up to 3 J less and 3 J more), and where all is the program's it is sure.
#[test]
fn the_program_beside_others() {
    let mut beside = certainty(false);
    let pool = |joules| Pool { joules, square: 1.0, ..Pool::default() };
    let domain = &mut beside.domains[0];
    domain.functions = [((0, 0), 10.0)].into();
    (domain.energy, domain.seconds, domain.variance) = (vec![vec![in_column(0, 10.0)]], vec![1.0], vec![0.0]);
    (domain.relative, domain.pools) = (vec![0.0; 4], vec![pool(10.0), pool(30.0)]);
    let all = |certainty: &Certainty, joules: i64| {
        let of = certainty.of_all(|_, _| true, MicroJoules::from_uj(joules * 1_000_000));
        (of.ci95.0.as_uj() / 100_000, of.ci95.1.as_uj() / 100_000, of.bounds.is_some())
    };
    assert_eq!(all(&beside, 10), (70, 130, true));
    let of_rows = sure(&beside, &[0], 10);
    assert_eq!(
        of_rows.bounds.map(|(least, most)| (least.as_uj(), most.as_uj())),
        Some((7_000_000, 13_000_000)),
        "of a part of the rows as well: half or twice its own would be more than others can have too much or too little"
    );
    beside.domains[0].pools = vec![pool(10.0), pool(0.0)];
    assert_eq!(all(&beside, 10), (100, 100, false));
    assert_eq!(beside.of_all(|place, _| place == 1, MicroJoules::ZERO), super::Uncertainty::default());
    // Watts that the run shows, to a tenth: 1.1 · 1.96 J, as many times up as down; but no more than was measured.
    beside.domains[0] = DomainCertainty { relative: vec![0.01], ..beside.domains[0].clone() };
    beside.domains[0].columns = vec![Column { identified: true, bounds: (0.5, 2.0), group: None }];
    assert_eq!(all(&beside, 10), (80, 100, true));
    beside.domains[0].pools = vec![pool(10.0), pool(1.0)];
    assert_eq!(all(&beside, 10), (80, 110, true));
    beside.domains[0].pools = vec![pool(10.0), pool(30.0)];
    assert_eq!(all(&beside, 10), (80, 124, true));
}

/// A graph of 20 J and a copy of 10 J share a sum that is known, and a kernel has 30 J. Who has graph and copy has 30 J for sure; who
/// has one of them anything up to that; who has half of both has half, and 2 J by what
/// call paths of one kernel may differ. Without the sum both may have twice as much.
#[test]
fn columns_whose_sum_is_known() {
    let pool = |joules| Pool { joules, square: 1.0, ..Pool::default() };
    let column = |joules: f64, group| Column { identified: false, bounds: (0.0, 30.0 / joules), group };
    let with = |group: Option<ColumnGroup>| {
        let mut certainty = certainty(true);
        certainty.domains[0] = DomainCertainty {
            energy: vec![
                vec![in_column(0, 20.0)],
                vec![in_column(1, 5.0)],
                vec![in_column(1, 5.0)],
                vec![in_column(2, 30.0)],
            ],
            variance: vec![0.0; 4],
            seconds: vec![1.0; 4],
            relative: vec![0.0; 9],
            pools: vec![pool(20.0), pool(10.0), pool(30.0)],
            functions: [((0, 0), 20.0), ((1, 0), 10.0), ((2, 0), 30.0)].into(),
            columns: vec![
                column(20.0, group),
                column(10.0, group),
                Column { identified: true, ..column(30.0, None) },
            ],
            ..certainty.domains[0].clone()
        };
        certainty
    };
    let ends = |of: super::Uncertainty| [of.ci95.0, of.ci95.1].map(|end| end.as_joules().round() as i64);
    let group = |identified, reach| Some(ColumnGroup { number: 0, identified, reach });
    let known = with(group(true, 0.1));
    assert_eq!(ends(sure(&known, &[0, 1, 2], 30)), [30, 30]);
    assert_eq!(ends(sure(&known, &[0], 20)), [0, 30]);
    assert_eq!(ends(sure(&known, &[0, 1], 25)), [15, 33]);
    assert_eq!(
        ends(sure(&with(group(false, 0.1)), &[0, 1, 2], 30)),
        [30, 33],
        "the kernel has nothing to give"
    );
    // What the kernel may have too little or too much is what the sum may.
    let mut open = known.clone();
    open.domains[0].columns[2] = Column { identified: false, bounds: (0.0, 2.0), ..column(30.0, None) };
    assert_eq!(ends(sure(&open, &[3], 30)), [27, 33]);
    assert_eq!(ends(sure(&with(None), &[0, 1, 2], 30)), [30, 60]);
}

/// 30 J that two calls have in equal parts may all be one's; both together have it for sure.
#[test]
fn who_asked_is_open() {
    let mut certainty = certainty(true);
    let part = super::Part { of: 7, joules: 15.0, whole: 30.0, variance: 0.0 };
    certainty.domains[0] = DomainCertainty {
        energy: vec![vec![in_column(0, 15.0)], vec![in_column(1, 15.0)]],
        variance: vec![0.0; 2],
        relative: vec![0.0; 4],
        parts: vec![vec![part], vec![part]],
        columns: vec![Column { identified: true, bounds: (1.0, 1.0), group: None }; 2],
        ..certainty.domains[0].clone()
    };
    let one = sure(&certainty, &[0], 15);
    assert_eq!(one.ci95.0, MicroJoules::ZERO);
    assert!(one.ci95.1.as_joules() > 30.0, "{one:?}");
    let bounds = one.bounds.unwrap();
    assert!((bounds.1.as_joules() - 30.0).abs() < 1e-3 && bounds.0.as_joules() < 1e-3, "{bounds:?}");
    let both = sure(&certainty, &[0, 1], 30);
    assert!(both.bounds.is_none() && (both.ci95.1 - both.ci95.0).as_uj() < 10, "{both:?}");
}

/// Σ_g (E_g(S) − f E_g)² of the first of two functions of 10 and 30 J is (10 − 2.5)² + (0 − 7.5)², of one function for both paths 0; and a
/// function adds up over columns.
#[test]
fn functions_draw_alike_in_all_columns() {
    let by_functions = |certainty: &Certainty, rows: &[usize]| {
        let mut collector = super::Collector::new(&certainty.domains[0]);
        rows.iter().for_each(|&row| collector.add(row));
        collector.by_functions()
    };
    assert!((by_functions(&two_paths([0, 1]), &[0]) - 112.5).abs() < 1e-9);
    assert!(by_functions(&two_paths([0, 0]), &[0]).abs() < 1e-9);
    assert!(by_functions(&two_paths([0, 1]), &[0, 1]).abs() < 1e-9);
    let mut twice = two_paths([0, 1]);
    let domain = &mut twice.domains[0];
    domain.pools[1] = domain.pools[0];
    domain.functions.extend([((1, 0), 10.0), ((1, 1), 30.0)]);
    let again = domain.energy[0][0];
    domain.energy[0].push(InColumn { column: 1, ..again });
    // (2 · 7.5)² of its own, and 7.5² of the other's in each column.
    assert!((by_functions(&twice, &[0]) - 337.5).abs() < 1e-9);
}

/// A call may have none of what is open, or all, with the doubt about watts that this has itself.
#[test]
fn open_energy_has_its_own_doubts() {
    let mut certainty = certainty(true);
    let part = super::Part { of: 7, joules: 5.0, whole: 30.0, variance: 0.0 };
    certainty.domains[0] = DomainCertainty {
        energy: vec![vec![in_column(0, 15.0)], vec![in_column(0, 25.0)]],
        variance: vec![0.0; 2],
        relative: vec![0.0; 4],
        parts: vec![vec![part], vec![super::Part { joules: 25.0, ..part }]],
        columns: vec![Column { identified: true, bounds: (0.9, 1.1), group: None }],
        ..certainty.domains[0].clone()
    };
    let bounds = sure(&certainty, &[0], 15).bounds.unwrap();
    // 10 J are its own for sure.
    assert!((bounds.0.as_joules() - 9.0).abs() < 1e-3, "{bounds:?}");
    assert!((bounds.1.as_joules() - 44.0).abs() < 1e-3, "{bounds:?}");
    let interval = sure(&certainty, &[0], 15).ci95;
    assert!(interval.0 <= bounds.0 && interval.1 >= bounds.1, "{interval:?}");
    // 9 J² by sampling, of which 25 of 30 J are beside what it was given.
    certainty.domains[0].parts[0][0].variance = 9.0;
    certainty.domains[0].all_variance = 1e9;
    let wider = sure(&certainty, &[0], 15).bounds.unwrap();
    let slack = super::BOUND_SDS * (9.0_f64 * 25.0 / 30.0).sqrt();
    assert!((wider.1.as_joules() - 44.0 - slack).abs() < 1e-3, "{wider:?}");
}

/// A little energy in a function whose watts the run does not show gives no bounds, but a wider interval; more of it gives bounds.
#[test]
fn little_that_is_open_makes_no_bounds() {
    let with = |uj: i64, identified: bool| {
        let mut certainty = certainty(true);
        certainty.domains[0].columns[0].identified = identified;
        certainty.domains[0].energy[0][0].joules = MicroJoules::from_uj(uj).as_joules();
        certainty.of(&[0, 1], |_| true, MicroJoules::from_uj(30_000_000 + uj))
    };
    // Bounds are from half to twice as much: 12 % of 32.6 J are those of 2.6 J.
    let (little, known) = (with(2_400_000, false), with(2_400_000, true));
    assert_eq!(little.bounds, None);
    let wider = (known.ci95.0 - little.ci95.0, little.ci95.1 - known.ci95.1);
    assert!((wider.0.as_joules() - 1.2).abs() < 1e-3 && (wider.1.as_joules() - 2.4).abs() < 1e-3);
    assert!(with(2_800_000, false).bounds.is_some());
}

/// Bounds are given where watts are not identified, hold the energy itself, and never go below zero.
#[test]
fn bounds_where_watts_are_open() {
    let (low, high) = sure(&certainty(false), &[0], 10).bounds.unwrap();
    assert!(low.as_joules() < 5.0 && low >= MicroJoules::ZERO, "{low}");
    assert!(high.as_joules() > 20.0, "{high}");
}

/// Beside a domain of which they are open, one whose watts are known adds its 10 J, and what samples leave in doubt (√½ J).
#[test]
fn bounds_beside_a_known_domain() {
    let mut both = certainty(false);
    let (low, high) = sure(&both, &[0], 10).bounds.unwrap();
    both.domains.extend(certainty(true).domains);
    let (both_low, both_high) = sure(&both, &[0], 20).bounds.unwrap();
    let slack = super::BOUND_SDS * f64::sqrt(0.5);
    assert!(((both_high - high).as_joules() - 10.0 - slack).abs() < 1e-3, "{both_high}");
    assert!(((both_low - low).as_joules() - 10.0 + slack).abs() < 1e-3, "{both_low}");
}

/// What is in doubt about idle is a part of what was measured: no end is above that.
#[test]
fn nobody_has_more_than_was_measured() {
    let most = |measured_joules| {
        let mut certainty = two_paths([0, 0]);
        let domain = &mut certainty.domains[0];
        (domain.idle_joules, domain.all_seconds, domain.measured_joules) = (20.0, 2.0, measured_joules);
        sure(&certainty, &[0, 1], 40).ci95.1.as_joules()
    };
    assert!(most(None) > 60.0, "{}", most(None));
    assert!((most(Some(45.0)) - 45.0).abs() < 1e-6, "{}", most(Some(45.0)));
}

/// Two call paths share a column of 40 J, by time 10 and 30 J; `functions` are their innermost ones.
fn two_paths(functions: [u32; 2]) -> Certainty {
    let mut certainty = certainty(true);
    let of = |joules: f64, part: f64, function| {
        vec![InColumn { column: 0, joules, square: part * part, function }]
    };
    let mut by_function = BTreeMap::new();
    functions.iter().zip([10.0, 30.0]).for_each(|(g, e)| *by_function.entry((0, *g)).or_default() += e);
    let squares = by_function.values().map(|joules: &f64| joules * joules).sum();
    certainty.domains[0] = DomainCertainty {
        energy: vec![of(10.0, 0.25, functions[0]), of(30.0, 0.75, functions[1])],
        variance: vec![0.0; 2],
        relative: vec![0.0; 4],
        pools: vec![Pool { joules: 40.0, square: 0.625, functions: squares, samples: 0.0 }, Pool::default()],
        functions: by_function,
        columns: vec![Column { identified: true, bounds: (1.0, 1.0), group: None }; 2],
        ..certainty.domains[0].clone()
    };
    certainty
}

/// What each of two paths may draw more is the other's, and both together are sure. The interval is as wide as paths mostly differ, bounds are as
/// wide as they may.
#[test]
fn paths_of_one_column_share_its_energy() {
    let certainty = two_paths([0, 0]);
    let one = sure(&certainty, &[0], 10);
    // sd = √0.24 · 40 · √(0.75² · 0.0625 + 0.0625 · 0.5625) = √0.24 · 40 · 0.2652
    let half = 1.1 * 1.959_964 * 40.0 * (0.24 * 2.0 * 0.75_f64.powi(2) * 0.0625).sqrt();
    let bounds = one.bounds.unwrap();
    assert!((bounds.0.as_joules() - 40.0 * 0.025 / 3.025).abs() < 0.01, "{bounds:?}");
    assert!((bounds.1.as_joules() - 40.0 / 1.075).abs() < 0.01, "{bounds:?}");
    let times = (half / 10.0).exp();
    assert!((one.ci95.1.as_joules() - 10.0 * times).abs() < 0.01, "{one:?}");
    assert!((one.ci95.0.as_joules() - 10.0 / times).abs() < 0.01, "{one:?}");
    let both = sure(&certainty, &[0, 1], 40);
    assert!(both.bounds.is_none() && (both.ci95.1 - both.ci95.0).as_uj() < 10, "{both:?}");
}

/// Ten of 40 J are a quarter of a column with 100 samples: by chance of sampling they are off by √(0.25 · 0.75 / 100) · 40 J, and besides by what call
/// paths differ by: what is believed beforehand, or what the run shows.
#[test]
fn shares_of_a_column() {
    let mut certainty = certainty(true);
    let pool = Pool { joules: 40.0, square: 0.625, functions: 1e3, samples: 100.0 };
    certainty.domains[0] = DomainCertainty {
        energy: vec![vec![InColumn { square: 0.0625, ..in_column(0, 10.0) }]],
        variance: vec![0.0],
        relative: vec![0.0],
        pools: vec![pool],
        functions: [((0, 0), 10.0), ((0, 1), 30.0)].into(),
        path_variance: Some(0.0),
        ..certainty.domains[0].clone()
    };
    let half = |certainty: &Certainty| {
        (sure(certainty, &[0], 10).ci95.1.as_joules() / 10.0).ln() * 10.0 / 1.1 / 1.959_964
    };
    let shares = 1600.0 * 0.25 * 0.75 / 100.0;
    assert!((half(&certainty).powi(2) - shares).abs() < 1e-3, "{}", half(&certainty));
    let mut of = |variance, samples| {
        certainty.domains[0].path_variance = variance;
        certainty.domains[0].pools[0].samples = samples;
        half(&certainty).powi(2)
    };
    let usual = of(None, 0.0);
    assert!(usual > 1.0 && (of(Some(0.09), 0.0) - usual / 4.0).abs() < 1e-3 * usual);
    assert!((of(Some(0.09), 100.0) - usual / 4.0 - shares).abs() < 1e-3 * usual);
}
