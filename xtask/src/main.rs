//! The chores of energy-trace.
fn main() {}
