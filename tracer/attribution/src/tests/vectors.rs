//! What NumPy and SciPy say of formulas, for unit tests: `tests/fixtures/formulas/make.py` made it. Leaves
//! out the formulas.

use nalgebra::DMatrix;
use serde_json::Value;

const FILE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/formulas/vectors.json"));

/// The vectors of one formula, by name.
pub(crate) struct Vectors(Value);

impl Vectors {
    pub(crate) fn of(formula: &str) -> Self {
        let all: Value = serde_json::from_str(FILE).unwrap();
        Self(all[formula].clone())
    }

    /// One value or list.
    pub(crate) fn get(&self, name: &str) -> &Value {
        &self.0[name]
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.get(name).as_f64().unwrap()
    }

    pub(crate) fn list(&self, name: &str) -> Vec<f64> {
        list(self.get(name))
    }

    pub(crate) fn table(&self, name: &str) -> Vec<Vec<f64>> {
        self.get(name).as_array().unwrap().iter().map(list).collect()
    }

    pub(crate) fn matrix(&self, name: &str) -> DMatrix<f64> {
        let rows = self.table(name);
        DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
    }
}

/// Numbers of a list.
pub(crate) fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Numbers are what they should be, but for this part of the largest.
pub(crate) fn near(found: &[f64], expected: &[f64], by: f64) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= by * largest, "{at}: {found} instead of {expected}");
    }
}
