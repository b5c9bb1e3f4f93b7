//! What NumPy says of formulas, shared with attribution's tests.

#[path = "../../../attribution/src/tests/vectors.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod vectors;
