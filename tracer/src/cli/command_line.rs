//! The command line: commands, options, and what is refused before anything runs.
//!
//! Leaves out what it resolves to on this machine (`resolve.rs`).

use super::common::Common;
use super::{doctor, export, flamegraph, record, report};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Shows which functions used the energy: joules per native and Python call stack, without code changes.
#[derive(Debug, Parser)]
#[command(name = "energy-trace", version, arg_required_else_help = true)]
#[command(subcommand_value_name = "COMMAND", subcommand_help_heading = "Commands")]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    #[command(flatten)]
    pub(super) record: record::RecordArgs,

    #[command(flatten)]
    pub(super) common: Common,
}

const USAGE: &str = "sudo energy-trace [OPTIONS] -- PROGRAM [ARGS]...
       energy-trace [record|report|flamegraph|export|doctor] [OPTIONS]";

const EXAMPLES: &str = "Examples:
  Run a program, show which functions used the energy, and write
  energy-trace.data and energy-trace.svg:
      sudo energy-trace -- python3 train.py
  Record a running process for 30 seconds:
      sudo energy-trace -p 1234 --duration 30s
  Show the recording again, by source line:
      energy-trace report --by line";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a program, or attach to processes, and record where their energy goes (the default)
    Record(Box<record::RecordArgs>),
    /// Show a recording as a table, JSON or CSV; needs no privileges
    Report(report::ReportArgs),
    /// Draw a recording as a flame graph of joules
    Flamegraph(flamegraph::FlamegraphArgs),
    /// Convert a recording for other tools
    Export(export::ExportArgs),
    /// Check whether this machine can record, and how to fix what is missing
    Doctor(doctor::DoctorArgs),
}

/// Parses, and refuses recording options before a command: the command has its own, and these would be ignored.
pub(super) fn parse<T: Into<OsString> + Clone>(
    line: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches_from(line)?;
    if let Some(command) = matches.subcommand_name()
        && let Some(option) = misplaced(&matches)
    {
        let text = format!("put --{option} after the command: energy-trace {command} --{option} …");
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    }
    Cli::from_arg_matches(&matches)
}

/// An option of a recording that was typed before the command.
fn misplaced(matches: &ArgMatches) -> Option<String> {
    let typed = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let common = Common::augment_args(clap::Command::new(""));
    let is_common = |id: &clap::Id| common.get_arguments().any(|option| option.get_id() == id);
    let command = Cli::command();
    let id = matches.ids().filter(typed).find(|id| !is_common(id))?;
    command.get_arguments().find(|option| option.get_id() == id)?.get_long().map(ToOwned::to_owned)
}

/// The word that stands where a command should, if that is what is wrong: most likely a program to record.
pub(super) fn unknown_command(error: &clap::Error) -> Option<&str> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    match error.get(kind)? {
        ContextValue::String(word) if !word.starts_with('-') => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, parse, unknown_command};
    use clap::CommandFactory;

    /// The definition is sound: no two options collide, every group exists.
    #[test]
    fn definition() {
        Cli::command().debug_assert();
    }

    /// Options may stand before and after the command, and a program may look like options.
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

    /// An option that a command would ignore is refused with its right place, not ignored.
    #[test]
    fn options_before_a_command() {
        let error = parse(["energy-trace", "-F", "50", "record", "--", "true"]).unwrap_err().to_string();
        assert!(error.contains("energy-trace record --frequency"), "{error}");
        assert!(parse(["energy-trace", "-o", "x", "report", "f"]).is_err());
    }

    /// What later versions bring is not offered by this one.
    #[test]
    fn no_empty_promises() {
        let help = Cli::command().render_long_help().to_string();
        for command in ["diff", "compare", "top", "serve"] {
            assert!(!help.contains(&format!("\n  {command} ")), "{help}");
            assert!(parse(["energy-trace", command]).is_err());
        }
    }

    /// A program without `--` is recognised, so that the user is told where it belongs; an unknown option is none.
    #[test]
    fn programs_without_dashes() {
        let error = parse(["energy-trace", "python3", "train.py"]).unwrap_err();
        assert_eq!(unknown_command(&error), Some("python3"));
        assert_eq!(unknown_command(&parse(["energy-trace", "--wrong"]).unwrap_err()), None);
    }
}
