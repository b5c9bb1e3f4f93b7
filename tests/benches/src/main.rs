//! `cargo xtask bench`, `kernels` and `sim`. Leaves out everything but its start (`lib.rs`).

fn main() -> std::process::ExitCode {
    energy_trace_benches::main()
}
