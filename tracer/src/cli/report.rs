//! `energy-trace report FILE`: a recording as a table, JSON or CSV.

use super::output::{read_profile, write_to};
use super::{Common, Failure};
use crate::report::json::JsonOptions;
use crate::report::table::TableOptions;
use crate::report::{By, csv, json, table};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// The form of the report
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// What a row stands for
    #[arg(long, value_enum, default_value = "function")]
    pub by: By,

    /// Whose joules: physical charges every thread's to itself
    #[arg(long, default_value = "physical", value_parser = parse_view)]
    pub view: View,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: the contract's JSON.
    Json,
    /// For spreadsheets.
    Csv,
}

/// Whose joules a worker thread's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The thread's own.
    Physical,
}

/// Reads a view, and says why there is only one.
pub(super) fn parse_view(text: &str) -> Result<View, String> {
    match text {
        "physical" => Ok(View::Physical),
        "logical" => Err("not in this version: the logical view charges worker threads to the Python code that they work for, \
                          and this version does not follow that yet; use --view physical"
            .into()),
        _ => Err("expected physical".into()),
    }
}

/// Shows a recording on stdout.
pub fn run(args: &ReportArgs, common: &Common) -> Result<ExitCode, Failure> {
    let (recording, profile) = read_profile(&args.file)?;
    let stdout = std::io::stdout();
    write_to(None, |out| match args.format {
        Format::Table => {
            let options = TableOptions {
                by: args.by,
                rows: args.rows,
                color: common.color.resolve(stdout.is_terminal()),
                verbose: common.verbose,
                width: terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0),
            };
            table::write(out, &recording, &profile, &options)
        }
        Format::Json => json::write(out, &recording, &profile, &JsonOptions::default()),
        Format::Csv => csv::write(out, &recording, &profile),
    })
}
