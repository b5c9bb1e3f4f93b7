//! `energy-trace report FILE`: a recording as a table, JSON or CSV.

use super::accounting::AccountingArgs;
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

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
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
    check_rows(args.format, args.by).map_err(Failure::usage)?;
    let (recording, profile) = read_profile(&args.file, args.accounting)?;
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
        Format::Json => json::write(out, &recording, &profile, &JsonOptions { pretty: stdout.is_terminal() }),
        Format::Csv => csv::write(out, &recording, &profile),
    })
}

/// JSON holds functions, threads and processes all at once, CSV functions; what else a row may stand for only the table shows.
fn check_rows(format: Format, by: By) -> Result<(), &'static str> {
    match (format, by) {
        (Format::Table, _) | (_, By::Function) | (Format::Json, By::Thread | By::Process) => Ok(()),
        (Format::Json, _) => {
            Err("--format json holds functions, threads and processes: for others use --format table")
        }
        (Format::Csv, _) => Err("--format csv holds functions: for others use --format table or json"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, check_rows};
    use crate::report::By;

    /// A choice of rows that a format does not know is refused rather than ignored.
    #[test]
    fn rows_of_formats() {
        assert!(check_rows(Format::Table, By::Stack).is_ok());
        assert!(check_rows(Format::Json, By::Thread).is_ok());
        assert!(check_rows(Format::Json, By::Stack).is_err());
        assert!(check_rows(Format::Csv, By::Thread).is_err());
    }
}
