//! `cargo xtask TASK`. Leaves out everything but its start (`lib.rs`).

fn main() -> std::process::ExitCode {
    xtask::main()
}
