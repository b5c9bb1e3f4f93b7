//! `energy-trace report FILE`: a recording as a table, JSON, CSV or Markdown, and budgets held against it.

use super::accounting::AccountingArgs;
use super::arguments::ArgumentsArgs;
use super::budget::{self, BudgetArgs};
use super::carbon::CarbonArgs;
use super::choices;
use super::common::Common;
use super::failure::Failure;
use super::output::{part_of, read_recording, write_to};
use super::per_work;
use super::range::RangeArgs;
use crate::message;
use clap::{Args, ValueEnum};
use energy_trace_attribution::attribute_over_time_owned;
use energy_trace_model::profile::{Options, Profile, View};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::traces::TraceId;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_names::shown::shown;
use energy_trace_report::budgets::{self, Checked, Verdict};
use energy_trace_report::json::JsonOptions;
use energy_trace_report::markdown::MarkdownOptions;
use energy_trace_report::own_rows::with_frames;
use energy_trace_report::summary::{self, SummaryOptions};
use energy_trace_report::table::TableOptions;
use energy_trace_report::{By, Level, budget_line, carbon, csv, diff_parts, json, markdown, phases, table};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the user typed after `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Recording file
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// Show the summary that a recording ends with
    #[arg(long, conflicts_with_all = ["format", "by", "rows", "short_names", "native_frames"])]
    pub summary: bool,

    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// What to group rows by [default: function]
    #[arg(long, value_parser = choices::rows())]
    pub by: Option<By>,

    /// Show what this trace used, by its spans and what was published of them: rows are ranges (`record --ranges`)
    #[arg(long, value_name = "ID", conflicts_with_all = ["summary", "per_work"])]
    pub trace: Option<TraceId>,

    /// Which calls are rows, with `--by api`
    #[arg(long, value_parser = choices::level(), default_value = "all")]
    pub level: Level,

    /// Where to charge the energy of worker threads
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// Show joules per unit of work, as `record --work NAME=…` counted it, of the time alone in which units were done
    #[arg(long, value_name = "NAME", conflicts_with_all = ["summary", "budget", "budget_call", "budget_range", "budget_call_optional"])]
    pub per_work: Option<String>,

    /// Drop C++ template arguments in tables
    #[arg(long)]
    pub short_names: bool,

    /// Frames of native code in rows by function, line and stack [default: of a Python program its own lines first, else all]
    #[arg(long, value_parser = choices::native_frames(), value_name = "WHICH")]
    pub native_frames: Option<NativeFrames>,

    /// Number of rows in each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,

    #[command(flatten)]
    pub budgets: BudgetArgs,

    #[command(flatten)]
    pub carbon: CarbonArgs,

    /// Which part of the run
    #[command(flatten)]
    pub range: RangeArgs,

    #[command(flatten)]
    pub arguments: ArgumentsArgs,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs, as docs/contract.md describes
    Json,
    /// For spreadsheets
    Csv,
    /// For the summary of a CI job, a pull request or an issue, as GitHub shows it
    Markdown,
}

/// Shows a recording on stdout.
pub(super) fn run(args: &ReportArgs, common: &Common) -> Result<ExitCode, Failure> {
    let options = Options { view: args.view, accounting: args.accounting.into() };
    let by = args.rows_by()?;
    if args.format == Format::Markdown && by != By::Function {
        let option = if args.trace.is_some() { "--trace" } else { "--by" };
        let text = format!(
            "--format markdown shows the summary's tables alone: leave out {option}, or use table, csv or json"
        );
        return Err(Failure::usage(text));
    }
    let mut phases = 0;
    let mut profile = match (&args.per_work, by) {
        (_, By::Phase) if args.range.is_part() => return Err(Failure::usage(PHASES_OF_ALL.to_owned())),
        (None, By::Phase) => read_phases(args, &options)?,
        (None, _) if args.summary && !args.range.is_part() => {
            let (profile, over_time) = attribute_over_time_owned(read_recording(&args.file)?, &options);
            phases = phases::count(&profile, &over_time);
            profile
        }
        (Some(name), by) => per_work::read(&args.file, &options, args.range, (name, by))?,
        (None, _) => part_of(read_of_trace(&args.file, args.trace)?, &options, args.range)?,
    };
    profile.keep_arguments(args.arguments.in_text());
    let checked = budgets::check(&profile, &args.budgets.all());
    show((args, by, phases), common, &profile, &checked)?;
    for line in checked.iter().filter(|checked| !common.quiet || checked.verdict != Verdict::Kept) {
        log_line(&budget_line::budget(line));
    }
    if let Some(mg_per_kwh) = args.carbon.mg_per_kwh() {
        log_line(&carbon::carbon(&profile, mg_per_kwh));
    }
    Ok(budget::exit_code(0, budgets::worst(&checked)))
}

impl ReportArgs {
    /// What rows are grouped by: ranges, where a trace is chosen.
    fn rows_by(&self) -> Result<By, Failure> {
        match (self.trace, self.by) {
            (Some(_), None | Some(By::Range)) => Ok(By::Range),
            (Some(_), Some(by)) => {
                let text = format!("--trace shows ranges, not rows by {}: leave out --by", by.name());
                Err(Failure::usage(text))
            }
            (None, by) => Ok(by.unwrap_or(By::Function)),
        }
    }
}

/// A recording, with the ranges of a trace where one is chosen.
fn read_of_trace(path: &Path, trace: Option<TraceId>) -> Result<Recording, Failure> {
    let mut recording = read_recording(path)?;
    let Some(trace) = trace else { return Ok(recording) };
    if recording.choose_trace(trace) > 0 {
        return Ok(recording);
    }
    let text = match recording.traces().len() {
        0 => "no program published spans (OpenTelemetry's thread context), or `record` was without --ranges"
            .to_owned(),
        traces => format!("samples were taken in {traces} others"),
    };
    let text = format!("{}: no sample was taken in trace {trace}: {text}", path.display());
    Err(Failure::usage(shown(&text).into_owned()))
}

/// Why a part has none.
const PHASES_OF_ALL: &str = "--by phase is of the whole run: leave out --from and --to";

/// A recording with its phases, which are of the whole run.
fn read_phases(args: &ReportArgs, options: &Options) -> Result<Profile, Failure> {
    let (mut profile, over_time) = attribute_over_time_owned(read_recording(&args.file)?, options);
    profile.phases = Some(phases::find(&profile, &over_time));
    Ok(profile)
}

/// On stderr: stdout is the report.
fn log_line(text: &str) {
    message::say(&shown(text));
}

fn show(
    (args, by, phases): (&ReportArgs, By, usize),
    common: &Common,
    profile: &Profile,
    checked: &[Checked],
) -> Result<ExitCode, Failure> {
    let stdout = std::io::stdout();
    if args.summary {
        let options = SummaryOptions {
            color: common.color.resolve(stdout.is_terminal()),
            width: terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0),
            recording: Some(args.file.to_string_lossy().into_owned()),
            flame_graph: None,
            no_flame_graph: None,
            program: None,
            phases,
        };
        return write_to(None, |out| summary::write(out, profile, &options));
    }
    write_to(None, |out| match args.format {
        Format::Table => {
            let options = TableOptions {
                by,
                level: args.level,
                rows: args.rows,
                color: common.color.resolve(stdout.is_terminal()),
                verbose: common.verbose,
                width: terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0),
                // Programs get whole names: JSON and CSV keep what a symbol is.
                short_names: args.short_names,
                native_frames: args.native_frames,
            };
            match profile.per_work {
                // Of a Python program its functions, as the summary has them.
                Some(_) if args.by.is_none() && args.native_frames.is_none() => {
                    let by = diff_parts::usual([std::slice::from_ref(profile), &[]]);
                    energy_trace_report::per_work::write(out, profile, &TableOptions { by, ..options })
                }
                Some(_) => energy_trace_report::per_work::write(out, profile, &options),
                None => table::write(out, profile, &options),
            }
        }
        Format::Json => {
            let rows = (by != By::Function).then_some((by, args.level));
            let profile = &*with_frames(profile, by, args.native_frames);
            json::write(out, profile, &JsonOptions { pretty: stdout.is_terminal(), rows, budgets: checked })
        }
        Format::Csv => {
            let profile = &*with_frames(profile, by, args.native_frames);
            match by {
                By::Function => csv::write(out, profile),
                by => csv::write_rows(out, profile, by, args.level),
            }
        }
        Format::Markdown => {
            let options = MarkdownOptions { rows: args.rows, budgets: checked.to_vec() };
            markdown::write(out, profile, &options)
        }
    })
}
