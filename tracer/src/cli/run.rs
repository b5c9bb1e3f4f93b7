//! From the command line to the exit status.
//!
//! Leaves out what each command does: its own file.

use super::command_line::{Cli, Command, parse};
use super::failure::{OWN_FAILURE, harmless};
use super::unprivileged::give_up_privileges;
use super::{
    agent, compare, debug, diff, doctor, export, flamegraph, logger, merge, pages, record, report, top,
};
use crate::message;
use clap::CommandFactory;
use clap::error::ErrorKind;
use energy_trace_system::host::{limits, own_limit};
use std::io::Write;
use std::process::ExitCode;

/// Parses the command line, does what it says, and returns the exit status.
pub fn run() -> ExitCode {
    own_limit::raise();
    // Reading the command line takes most of it.
    if let Err(error) = limits::check_stack() {
        let _ = writeln!(std::io::stderr(), "energy-trace: {error}");
        return ExitCode::from(OWN_FAILURE);
    }
    let Cli { command, record, common } = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return refuse(error),
    };
    logger::install(common.verbose);
    let name = command.as_ref().map(Command::name);
    let done = match command {
        None => record::run(&record, &common),
        Some(Command::Record(args)) => record::run(&args, &common),
        Some(Command::Report(args)) => give_up_privileges().and_then(|()| report::run(&args, &common)),
        Some(Command::Flamegraph(args)) => give_up_privileges().and_then(|()| flamegraph::run(&args)),
        Some(Command::Export(args)) => give_up_privileges().and_then(|()| export::run(&args)),
        Some(Command::Diff(args)) => give_up_privileges().and_then(|()| diff::run(&args, &common)),
        Some(Command::Merge(args)) => give_up_privileges().and_then(|()| merge::run(&args)),
        Some(Command::Top(args)) => top::run(&args, &common),
        Some(Command::Agent(args)) => agent::run(&args, &common),
        Some(Command::Compare(args)) => compare::run(&args, &common),
        Some(Command::Pages(args)) => give_up_privileges().and_then(|()| pages::run(&args)),
        Some(Command::Debug(args)) => give_up_privileges().and_then(|()| debug::run(&args)),
        Some(Command::Doctor(args)) => doctor::run(&args, &common),
    };
    match done {
        Ok(code) => code,
        Err(failure) if failure.is_usage() => {
            refuse(usage_of(name).error(ErrorKind::ArgumentConflict, &failure))
        }
        Err(failure) => {
            message::say(&failure.to_string());
            failure.exit_code()
        }
    }
}

/// The command whose usage is shown beside an error.
fn usage_of(name: Option<&str>) -> clap::Command {
    let mut whole = Cli::command();
    whole.build();
    let one = name.and_then(|name| whole.find_subcommand(name).cloned());
    one.unwrap_or(whole)
}

/// Prints what is wrong with the command line, or the requested help.
fn refuse(error: clap::Error) -> ExitCode {
    let error = harmless(error);
    // A reader of the help that closes the pipe, and a closed stderr, are nobody's failure.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
