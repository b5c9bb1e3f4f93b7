//! `energy-trace export FILE --format folded`: a recording for another tool.

use super::accounting::AccountingArgs;
use super::choices;
use super::failure::Failure;
use super::output::{read_profile, write_to};
use clap::Args;
use energy_trace_model::profile::View;
use energy_trace_report::DomainChoice;
use energy_trace_report::folded::{self, FoldedOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// The format: folded (stacks with microjoules, for flame graph tools)
    #[arg(long, value_parser = parse_format)]
    pub format: Format,

    /// Where to write it; stdout without it
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// Without the arguments of templates: `std::vector<int, std::allocator<int>>` becomes `std::vector<…>`, and what differs in
    /// nothing else becomes one function
    #[arg(long)]
    pub short_names: bool,

    /// Whose energy: total, package, dram, gpu or psys
    #[arg(long, default_value = "total")]
    pub domain: DomainChoice,

    /// Whose joules a worker thread's are: those of the Python call that it works for, or its own
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One stack a line, root first, and its microjoules.
    Folded,
}

fn parse_format(text: &str) -> Result<Format, String> {
    match text {
        "folded" => Ok(Format::Folded),
        "csv" => Err("not in this version as an export, which has: folded; `report --format csv` writes the rows as CSV".into()),
        "pprof" | "firefox" | "speedscope" | "parquet" => Err("not in this version, which has: folded".into()),
        _ => Err("no such format; this version has: folded".into()),
    }
}

/// Writes a recording in another format.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let profile = read_profile(&args.file, args.view, args.accounting)?;
    let options = FoldedOptions { domain: args.domain, short_names: args.short_names };
    write_to(args.output.as_deref(), |out| match args.format {
        Format::Folded => folded::write(out, &profile, &options),
    })
}
