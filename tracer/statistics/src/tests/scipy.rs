//! Each statistic against SciPy's, to a part in 10⁹: `tests/fixtures/statistics/make.py`.

use crate::corrections::Correction;
use crate::correlation::spearman;
use crate::effect::{Magnitude, a12};
use crate::location::{quantile, shift, shift_of_pairs};
use crate::rank_sum::rank_sum;
use crate::regression::{line, lines, mean_with_interval, p_of_slope};
use crate::signed_rank::signed_rank;
use crate::student;
use crate::{Method, Tested};
use serde_json::{Value, json};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/statistics/vectors.json"));

fn cases(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = all[name].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{name}");
    cases
}

fn numbers(case: &Value, key: &str) -> Vec<f64> {
    case[key].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect()
}

#[track_caller]
fn near(found: f64, wanted: &Value) {
    let wanted = wanted.as_f64().unwrap();
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs(), "{found:e} is not {wanted:e}");
}

#[track_caller]
fn same_test(found: Option<Tested>, case: &Value) {
    let found = found.unwrap();
    near(found.statistic, &case["statistic"]);
    near(found.p, &case["p"]);
    assert_eq!(found.method == Method::Exact, case["exact"].as_bool().unwrap());
}

#[test]
fn tests_of_ranks() {
    cases("signed_rank").iter().for_each(|case| same_test(signed_rank(&numbers(case, "d")), case));
    for case in &cases("rank_sum") {
        let (x, y) = (numbers(case, "x"), numbers(case, "y"));
        same_test(rank_sum(&x, &y), case);
        near(a12(&x, &y), &case["a12"]);
        near(shift(&x, &y), &case["shift"]);
    }
}

#[test]
fn location_and_correlation() {
    for case in &cases("location") {
        let x = numbers(case, "x");
        for (share, wanted) in [0.25, 0.5, 0.75].into_iter().zip(case["quartiles"].as_array().unwrap()) {
            near(quantile(&x, share), wanted);
        }
        near(shift_of_pairs(&x), &case["shift"]);
    }
    for case in &cases("spearman") {
        let found = spearman(&numbers(case, "x"), &numbers(case, "y")).unwrap();
        near(found.statistic, &case["rho"]);
        near(found.p, &case["p"]);
    }
}

#[test]
fn corrections_and_student() {
    for case in &cases("corrections") {
        let p = numbers(case, "p");
        for (correction, key) in [
            (Correction::Bonferroni, "bonferroni"),
            (Correction::Holm, "holm"),
            (Correction::BenjaminiHochberg, "bh"),
        ] {
            let wanted = case[key].as_array().unwrap();
            correction.adjust(&p).iter().zip(wanted).for_each(|(found, wanted)| near(*found, wanted));
        }
    }
    for case in &cases("student") {
        let (above, freedom) = (case["above"].as_f64().unwrap(), case["freedom"].as_f64().unwrap());
        near(student::exceeded_with(above, freedom), &case["t"]);
    }
}

#[test]
fn regression() {
    for case in &cases("lines") {
        let points: Vec<(f64, f64)> = numbers(case, "x").into_iter().zip(numbers(case, "y")).collect();
        let found = line(&points).unwrap();
        near(found.intercept, &case["intercept"]);
        near(found.slope, &case["slope"]);
        near(found.intercept_error, &case["intercept_error"]);
        near(found.slope_error, &case["slope_error"]);
        near(found.r, &case["r"]);
        near(p_of_slope(&found, points.len()), &case["p"]);
    }
    for case in &cases("means") {
        let found = mean_with_interval(&numbers(case, "x")).unwrap();
        let (low, high) = found.interval.unwrap();
        near(found.value, &case["mean"]);
        near(low, &case["low"]);
        near(high, &case["high"]);
        near(found.p.unwrap(), &case["p"]);
    }
}

/// Growth over rounds is the mean of the rounds' lines, and a bend is that of their parabolas.
#[test]
fn growth() {
    for case in &cases("bends") {
        let x = numbers(case, "x");
        let of_round = |y: &Value| -> Vec<(f64, f64)> {
            x.iter().zip(y.as_array().unwrap()).map(|(x, y)| (*x, y.as_f64().unwrap())).collect()
        };
        let rounds: Vec<_> = case["y"].as_array().unwrap().iter().map(of_round).collect();
        let found = lines(&rounds).unwrap();
        let slopes = numbers(case, "slopes");
        near(found.each.value, &json!(slopes.iter().sum::<f64>() / slopes.len() as f64));
        let (depth, p) = found.bend.unwrap();
        near(depth, &case["depth"]);
        near(p, &case["p"]);
    }
}

/// What has no answer has none, and no panic; the words of an effect begin where the source says, on both sides.
#[test]
fn edges() {
    assert!(
        signed_rank(&[]).is_none() && signed_rank(&[0.0; 9]).is_none() && signed_rank(&[f64::NAN]).is_none()
    );
    assert!(rank_sum(&[], &[1.0]).is_none() && rank_sum(&[2.0; 3], &[2.0; 4]).is_none());
    assert!(
        spearman(&[1.0, 2.0], &[1.0, 2.0]).is_none() && spearman(&[1.0; 4], &[1.0, 2.0, 3.0, 4.0]).is_none()
    );
    // SciPy says 0: there are six orders, and two of them are perfect.
    assert_eq!(spearman(&[1.0, 2.0, 3.0], &[2.0, 4.0, 9.0]).unwrap().p, 2.0 / 6.0);
    assert!(quantile(&[], 0.5).is_nan() && student::exceeded_with(0.0, 3.0).is_nan());
    assert_eq!(Correction::Holm.adjust(&[]), [0.0; 0]);
    assert!(line(&[(1.0, 2.0), (1.0, 3.0)]).is_none() && line(&[(1.0, f64::NAN), (2.0, 1.0)]).is_none());
    assert!(
        lines(&[]).is_none() && lines(&[vec![(1.0, 2.0)]]).is_none() && mean_with_interval(&[]).is_none()
    );
    assert!(mean_with_interval(&[2.0]).unwrap().interval.is_none());
    assert!(lines(&[vec![(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]]).unwrap().bend.is_none());
    for (a12, word) in [
        (0.5, "negligible"),
        (0.559, "negligible"),
        (0.56, "small"),
        (0.44, "small"),
        (0.36, "medium"),
        (0.71, "large"),
        (0.0, "large"),
    ] {
        assert_eq!(Magnitude::of(a12).word(), word, "{a12}");
    }
}
