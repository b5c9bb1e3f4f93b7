//! Simulated power hardware and the support code of the integration tests.

pub mod place;
