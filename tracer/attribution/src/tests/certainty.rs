//! The doubts about sets of rows, as a report adds them up (`profile::certainty`), beside dense matrices.
//! Leaves out bounds, which have closed forms and their tests there.

use super::vectors::{Vectors, list, near};
use energy_trace_certainty::HowSure as _;
use energy_trace_model::profile::certainty::{Certainty, Column, DomainCertainty, InColumn, Pool};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;

/// A domain of sixty rows in three columns; of a row's joules in its column its square is the square of its
/// part.
fn domain(vectors: &Vectors) -> DomainCertainty {
    let joules = vectors.list("joules");
    let numbers = |name| vectors.list(name).into_iter().map(|number| number as usize).collect::<Vec<_>>();
    let (column, function) = (numbers("column"), numbers("function"));
    let mut pools = vec![Pool::default(); 3];
    let mut domain = DomainCertainty {
        class: Some(DomainClass::Package),
        seconds: vectors.list("seconds"),
        variance: vectors.list("variance"),
        all_variance: vectors.list("variance").iter().sum(),
        columns: vec![Column { identified: true, bounds: (1.0, 1.0), group: None }; 3],
        relative: vectors.table("relative").concat(),
        idle_joules: vectors.number("idle_joules"),
        all_seconds: vectors.number("all_seconds"),
        ..DomainCertainty::default()
    };
    column.iter().zip(&joules).for_each(|(&column, joules)| pools[column].joules += joules);
    for ((&column, &function), &joules) in column.iter().zip(&function).zip(&joules) {
        let square = (joules / pools[column].joules).powi(2);
        pools[column].square += square;
        let function = u32::try_from(function).unwrap();
        *domain.functions.entry((column, function)).or_default() += joules;
        domain.energy.push(vec![InColumn { column, joules, square, function }]);
    }
    domain.functions.iter().for_each(|((column, _), joules)| pools[*column].functions += joules * joules);
    DomainCertainty { pools, ..domain }
}

/// The interval reaches as many times up and down as 1.1 · 1.96 standard deviations of powers, sampling, call
/// paths that share columns, functions that draw more wherever they are called, and the baseline (NumPy) are
/// parts of the energy.
#[test]
fn intervals_as_numpy() {
    let vectors = Vectors::of("certainty");
    let (domain, joules) = (domain(&vectors), vectors.list("joules"));
    let certainty = Certainty { domains: vec![domain] };
    for case in vectors.get("cases").as_array().unwrap() {
        let rows: Vec<usize> = list(&case["rows"]).into_iter().map(|row| row as usize).collect();
        let energy: f64 = rows.iter().map(|&row| joules[row]).sum();
        let energy = MicroJoules::from_uj((energy * 1e6).round() as i64);
        let (least, most) = certainty.of(&rows, |_| true, energy).ci95;
        let part = case["half"].as_f64().unwrap() / energy.as_joules();
        let reach = [most, least].map(|end| (end.as_joules() / energy.as_joules()).ln());
        near(&reach, &[part, -part], 1e-5);
    }
}
