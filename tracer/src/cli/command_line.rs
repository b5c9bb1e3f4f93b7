//! The command line: commands, options, and what is refused before anything runs.
//!
//! Leaves out what it resolves to on this machine (`resolve.rs`).

use super::common::Common;
use super::tips::with_tip;
use super::{
    agent, compare, debug, diff, doctor, export, first_word, flamegraph, merge, pages, record, report, top,
};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use energy_trace_names::shown::shown;
use std::ffi::OsString;

/// Shows which functions used the energy: joules per native and Python call stack, without code changes.
#[derive(Debug, Parser)]
#[command(name = "energy-trace", version, arg_required_else_help = true)]
#[command(subcommand_value_name = "COMMAND", subcommand_help_heading = "Commands")]
#[command(override_usage = USAGE, after_help = EXAMPLES, after_long_help = with_statuses())]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    #[command(flatten)]
    pub(super) record: record::RecordArgs,

    #[command(flatten)]
    pub(super) common: Common,
}

const USAGE: &str = "sudo energy-trace [OPTIONS] PROGRAM [ARGS]...
       energy-trace top|agent|report|flamegraph|export|diff|merge|compare|doctor [OPTIONS]";

const EXAMPLES: &str = "Examples:
  Run a program, show which functions used the energy, and write
  energy-trace.data and energy-trace.svg:
      sudo energy-trace python3 train.py
  Options come before the program; `--` separates the two where a program
  has the name of a command:
      sudo energy-trace --gpu kernel -o run.data -- python3 train.py -o model
  Record a running process for 30 seconds:
      sudo energy-trace -p 1234 --duration 30
  Show the recording again, by source line:
      energy-trace report --by line";

const STATUSES: &str = "Exit status:
  the program's own, or 128 and the number of the signal that ended it; else
    2         wrong usage
    121       a budget has a name that no sample shows
    122       a budget was exceeded
    123       a budget cannot be judged
    125       energy-trace failed
    126, 127  the program cannot be executed, or is not found";

/// What stands below the long help of a recording.
fn with_statuses() -> String {
    format!("{EXAMPLES}\n\n{STATUSES}")
}

const REPORT_EXAMPLES: &str = "Examples:
  energy-trace report                            where energy-trace.data's joules went
  energy-trace report --by line old.data         another recording, by source line
  energy-trace report --format json > run.json   for programs";

const FLAMEGRAPH_EXAMPLES: &str = "Examples:
  energy-trace flamegraph -o run.svg
  energy-trace flamegraph --domain dram -o dram.svg old.data";

const EXPORT_EXAMPLES: &str = "Examples:
  energy-trace export --format folded -o stacks.folded";

const DIFF_EXAMPLES: &str = "Examples:
  energy-trace diff before.data after.data
  energy-trace diff a1.data a2.data a3.data --vs b1.data b2.data b3.data";

const TOP_EXAMPLES: &str = "Examples:
  sudo energy-trace top                    the whole machine
  sudo energy-trace top -p 1234
  sudo energy-trace top python3 train.py";

const AGENT_EXAMPLES: &str = "Examples:
  sudo energy-trace agent
  sudo energy-trace agent --listen 10.0.0.7:9464   for a Prometheus elsewhere
  sudo energy-trace agent --spool DIR              and tables of each window (Parquet)
  sudo energy-trace agent --otlp http://HOST:4318  and profiles (OpenTelemetry)
  curl localhost:9464/metrics";

const MERGE_EXAMPLES: &str = "Examples:
  energy-trace merge job.data rank0.data rank1.data
  energy-trace merge job.data login=a/energy-trace.data node7=b/energy-trace.data";

const COMPARE_EXAMPLES: &str = "Examples:
  sudo energy-trace compare -- python3 a.py -- python3 b.py
  sudo energy-trace compare --runs 30 --metric accuracy='acc=([0-9.]+)' --suite study.toml
  energy-trace compare -o energy-trace.study --format latex   its tables again, or go on with it";

const DOCTOR_EXAMPLES: &str = "Examples:
  sudo energy-trace doctor
  energy-trace doctor --json";

const PAGES_EXAMPLES: &str = "Examples:
  energy-trace pages ~/.local/share";

const DEBUG_EXAMPLES: &str = "Examples:
  energy-trace debug frame energy-trace.data train.main";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a program, or attach to processes, and record where their energy goes (the default)
    #[command(after_help = EXAMPLES, after_long_help = with_statuses())]
    Record(Box<record::RecordArgs>),
    /// Show what draws power now: by domain, process, API call and function
    #[command(after_help = TOP_EXAMPLES)]
    Top(Box<top::TopArgs>),
    /// Serve the machine's energy by pod, unit and job, always: Prometheus, Parquet, OTLP
    #[command(after_help = AGENT_EXAMPLES)]
    Agent(agent::AgentArgs),
    /// Show a recording as a table, JSON or CSV; needs no privileges
    #[command(after_help = REPORT_EXAMPLES)]
    Report(report::ReportArgs),
    /// Draw a recording as a flame graph of joules
    #[command(after_help = FLAMEGRAPH_EXAMPLES)]
    Flamegraph(flamegraph::FlamegraphArgs),
    /// Convert a recording for other tools
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::ExportArgs),
    /// Show by how much the functions of two recordings, or sets of them, differ
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Merge recordings of ranks and nodes into one
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(merge::MergeArgs),
    /// Run programs again and again in turn, and show which uses less energy, and how sure that is
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Check whether this machine can record, and how to fix what is missing
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Write manual pages and completions of bash, zsh and fish below a folder
    #[command(hide = true, after_help = PAGES_EXAMPLES)]
    Pages(pages::PagesArgs),
    /// Show how a part of a recording came about
    #[command(hide = true, after_help = DEBUG_EXAMPLES)]
    Debug(debug::DebugArgs),
}

impl Command {
    /// The word that it is typed as.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Record(_) => "record",
            Self::Top(_) => "top",
            Self::Agent(_) => "agent",
            Self::Report(_) => "report",
            Self::Flamegraph(_) => "flamegraph",
            Self::Export(_) => "export",
            Self::Diff(_) => "diff",
            Self::Merge(_) => "merge",
            Self::Compare(_) => "compare",
            Self::Doctor(_) => "doctor",
            Self::Pages(_) => "pages",
            Self::Debug(_) => "debug",
        }
    }
}

/// Parses. Refuses recording options before a command: the command has its own, and these would be ignored. Refuses a first word that is
/// meant as a command and is none.
pub(super) fn parse<T: Into<OsString> + Clone>(
    line: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
    let matches = definition().try_get_matches_from(&line).map_err(|error| {
        with_tip(error, &line, &record::RecordArgs::augment_args(clap::Command::new("record")))
    })?;
    if let Some(command) = matches.subcommand_name()
        && let Some(option) = misplaced(&matches)
    {
        let text = format!("put --{option} after the command: energy-trace {command} --{option} …");
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    }
    let cli = Cli::from_arg_matches(&matches)?;
    if cli.command.is_none() {
        check_first_word(&line, &cli.record.command)?;
    }
    Ok(cli)
}

/// All commands and options. A negative number behind an option is its value, for the option to say what is wrong with it; clap would take it for
/// another option, and advise to write it where no option can stand.
fn definition() -> clap::Command {
    let with_numbers = |command: clap::Command| {
        command.mut_args(|option| match option.get_long() {
            Some(_) if option.get_action().takes_values() => option.allow_negative_numbers(true),
            _ => option,
        })
    };
    with_numbers(Cli::command()).mut_subcommands(with_numbers)
}

/// Whether the program that was typed without `--` may be one.
fn check_first_word(line: &[OsString], program: &[OsString]) -> Result<(), clap::Error> {
    let Some(word) = program.first() else { return Ok(()) };
    // The program is the end of the line, and what stands before it is `--` or an option.
    let before = line.len().checked_sub(program.len() + 1).and_then(|at| line.get(at));
    if before.is_some_and(|before| before == "--") {
        return Ok(());
    }
    let mut command = Cli::command();
    let commands: Vec<String> = command.get_subcommands().map(|known| known.get_name().to_owned()).collect();
    let checked = first_word::check(word, std::env::var_os("PATH"), commands.iter().map(String::as_str));
    checked.map_err(|why| command.error(ErrorKind::InvalidSubcommand, shown(&why.to_string())))
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

#[cfg(test)]
mod tests {
    use super::{Cli, definition, parse};
    use clap::CommandFactory;

    /// The definition is sound: no two options collide, every group exists.
    #[test]
    fn is_sound() {
        definition().debug_assert();
    }

    /// Who writes a negative number is told what the option takes.
    #[test]
    fn negative_numbers() {
        for (line, told) in [
            ("report f --from -1", "500ms, 1m30s or 10%"),
            ("report f --to -0.5", "500ms, 1m30s or 10%"),
            ("record --duration -3 -- true", "duration"),
            ("-p -1", "pgrep"),
            ("compare --runs -2 -- true -- false", "runs"),
        ] {
            let error = parse(format!("energy-trace {line}").split(' ')).unwrap_err().to_string();
            assert!(error.contains(told) && !error.contains("tip:"), "{line}: {error}");
        }
        assert!(parse("energy-trace record -- true -1 --from -1".split(' ')).is_ok());
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
        assert!(!help.contains("\n  serve "), "{help}");
        assert!(parse(["energy-trace", "serve"]).is_err());
    }

    /// A program needs no `--`: its own options are its own, those before it are a recording's, and `--` still works.
    #[test]
    fn programs_without_dashes() {
        for (line, program) in [
            ("energy-trace sh train.sh -o x -v --svg y", "sh train.sh -o x -v --svg y"),
            ("energy-trace -F 199 --gpu off sh -c true", "sh -c true"),
            ("energy-trace -a sh report", "sh report"),
            ("energy-trace sh -- -x", "sh -- -x"),
            ("energy-trace -q -- top -b", "top -b"),
            ("energy-trace -- report", "report"),
        ] {
            let cli = parse(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert!(cli.command.is_none(), "{line}");
            assert_eq!(cli.record.command.join(std::ffi::OsStr::new(" ")), program, "{line}");
        }
        let cli = parse("energy-trace record -F 9 top -F 1".split(' ')).unwrap();
        assert!(
            matches!(cli.command, Some(super::Command::Record(args)) if args.command == ["top", "-F", "1"])
        );
        assert!(parse(["energy-trace", "--wrong", "true"]).is_err());
        assert!(parse(["energy-trace", "-p", "1", "--", "true"]).is_err());
        assert!(
            parse(["energy-trace", "reprot", "f"]).unwrap_err().to_string().contains("energy-trace report")
        );
    }

    /// At most two lines of usage, and examples with every command.
    #[test]
    fn help_is_short_of_usage() {
        let mut command = Cli::command();
        command.build();
        let texts = std::iter::once(command.clone()).chain(command.get_subcommands().cloned());
        for mut one in texts.filter(|one| one.get_name() != "help") {
            let help = one.render_help().to_string();
            let usage = help.split("Usage:").nth(1).unwrap().split("\n\n").next().unwrap();
            assert!(usage.trim().lines().count() <= 2, "{help}");
            assert!(help.contains("Examples:"), "{help}");
        }
    }
}
