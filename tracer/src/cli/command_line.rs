//! The command line: commands, options, and what is refused before anything runs.
//!
//! Leaves out what it resolves to on this machine (`resolve.rs`).

use super::common::Common;
use super::{doctor, export, flamegraph, record, report};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Which functions burned the energy? Joules per native + Python stack, without code changes.
///
/// Without a verb, records: `sudo energy-trace -- python train.py` runs the command, shows where the joules went and writes
/// energy-trace.data and energy-trace.svg.
#[derive(Debug, Parser)]
#[command(name = "energy-trace", version, arg_required_else_help = true)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,

    #[command(flatten)]
    pub(super) record: record::RecordArgs,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
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

/// Parses, and refuses recording options before a verb: the verb has its own, and these would be ignored.
pub(super) fn parse<T: Into<OsString> + Clone>(
    line: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
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
