//! The command: parse, plan, run, exit code. All of it is the library's.

use std::process::ExitCode;

fn main() -> ExitCode {
    energy_trace_foreign::resolver::run_as_server().unwrap_or_else(energy_trace::cli::run)
}
