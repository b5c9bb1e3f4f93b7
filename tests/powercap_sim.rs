//! A simulated powercap tree.
fn main() {}
