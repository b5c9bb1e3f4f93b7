//! The command: parse, plan, run, exit code.

fn main() {}
