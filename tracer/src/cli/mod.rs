//! What the user typed, one file a verb, and the one place where errors become text and an exit status.
//!
//! Leaves out what it resolves to on this machine (`plan`) and doing it (`session`, `report`, `doctor`).

mod accounting;
mod choices;
pub mod doctor;
pub mod export;
mod failure;
pub mod flamegraph;
mod logger;
mod output;
pub mod record;
pub mod report;
mod unprivileged;

pub use failure::Failure;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use unprivileged::give_up_privileges;

/// Which functions burned the energy? Joules per native + Python stack, without code changes.
///
/// Without a verb, records: `sudo energy-trace -- python train.py` runs the command, shows where the joules went and writes
/// energy-trace.data and energy-trace.svg.
#[derive(Debug, Parser)]
#[command(name = "energy-trace", version, arg_required_else_help = true)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    record: record::RecordArgs,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a command, or attach to processes, and record where their energy goes (the default)
    Record(Box<record::RecordArgs>),
    /// Show a recording as a table, JSON or CSV; needs no privileges
    Report(report::ReportArgs),
    /// Draw a recording as a flame graph of joules
    Flamegraph(flamegraph::FlamegraphArgs),
    /// Write a recording in another tool's format
    Export(export::ExportArgs),
    /// Check whether this machine can record, and say how to mend what is missing
    Doctor(doctor::DoctorArgs),
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Say more: details in tables, what the BPF programs log
    #[arg(short, long, global = true, display_order = 900)]
    pub verbose: bool,

    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 901)]
    pub quiet: bool,

    /// Colour: on a terminal only (auto; NO_COLOR holds), always, or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", display_order = 902)]
    pub color: ColorWhen,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Whether to colour what goes to a terminal (or does not).
    pub fn resolve(self, is_terminal: bool) -> bool {
        // https://no-color.org: set and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => is_terminal && !no_color,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Parses the command line, does what it says, and returns the exit status.
pub fn run() -> ExitCode {
    let Cli { verb, record, common } = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    logger::install(common.verbose);
    let done = match verb {
        None => record::run(&record, &common),
        Some(Verb::Record(args)) => record::run(&args, &common),
        Some(Verb::Report(args)) => give_up_privileges().and_then(|()| report::run(&args, &common)),
        Some(Verb::Flamegraph(args)) => give_up_privileges().and_then(|()| flamegraph::run(&args)),
        Some(Verb::Export(args)) => give_up_privileges().and_then(|()| export::run(&args)),
        Some(Verb::Doctor(args)) => doctor::run(&args, &common),
    };
    match done {
        Ok(code) => code,
        Err(failure) if failure.is_usage() => {
            refuse(&Cli::command().error(ErrorKind::ArgumentConflict, &failure))
        }
        Err(failure) => {
            // Nothing is left to do when stderr is closed.
            let _ = writeln!(std::io::stderr(), "energy-trace: {failure}");
            failure.exit_code()
        }
    }
}

/// Parses, and refuses recording options before a verb: the verb has its own, and these would be ignored.
fn parse<T: Into<OsString> + Clone>(line: impl IntoIterator<Item = T>) -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches_from(line)?;
    if let Some(verb) = matches.subcommand_name()
        && let Some(option) = misplaced(&matches)
    {
        let text = format!("--{option} belongs behind the verb: energy-trace {verb} --{option} …");
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    }
    Cli::from_arg_matches(&matches)
}

/// An option of a recording that was typed before the verb.
fn misplaced(matches: &ArgMatches) -> Option<String> {
    let typed = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let common = Common::augment_args(clap::Command::new(""));
    let is_common = |id: &clap::Id| common.get_arguments().any(|option| option.get_id() == id);
    let command = Cli::command();
    let id = matches.ids().filter(typed).find(|id| !is_common(id))?;
    command.get_arguments().find(|option| option.get_id() == id)?.get_long().map(ToOwned::to_owned)
}

/// Prints what is wrong with the command line, or the help that was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    // A reader of the help that closes the pipe, and a closed stderr, are nobody's failure.
    let _ = error.print();
    if error.kind() == ErrorKind::InvalidSubcommand {
        let _ =
            writeln!(std::io::stderr(), "\nTo record a command, put it after `--`: energy-trace -- COMMAND…");
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::{Cli, parse};
    use clap::CommandFactory;

    /// The definition is sound: no two options collide, every group exists.
    #[test]
    fn definition() {
        Cli::command().debug_assert();
    }

    /// Options may stand before and after the verb, and a command may look like options.
    #[test]
    fn common_forms() {
        for line in [
            "energy-trace -- python train.py -o x",
            "energy-trace -F 199 -q --power model -- true",
            "energy-trace record -p 1 2 3 --duration 30s",
            "energy-trace record -p 1 -p 2,3",
            "energy-trace -q report f",
            "energy-trace report f -v --by api --view physical",
            "energy-trace doctor --json",
        ] {
            parse(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    /// An option that a verb would ignore is refused with its right place, not ignored.
    #[test]
    fn options_before_a_verb() {
        let error = parse(["energy-trace", "-F", "50", "record", "--", "true"]).unwrap_err().to_string();
        assert!(error.contains("energy-trace record --frequency"), "{error}");
        assert!(parse(["energy-trace", "-o", "x", "report", "f"]).is_err());
    }

    /// What later versions bring is not offered by this one.
    #[test]
    fn no_empty_promises() {
        let help = Cli::command().render_long_help().to_string();
        for verb in ["diff", "compare", "top", "serve"] {
            assert!(!help.contains(&format!("\n  {verb} ")), "{help}");
            assert!(parse(["energy-trace", verb]).is_err());
        }
    }
}
