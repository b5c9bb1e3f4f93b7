//! `energy-trace export FILE --format folded`: a recording for another tool.

use super::accounting::AccountingArgs;
use super::choices;
use super::failure::Failure;
use super::output::{read_part, write_to};
use super::range::RangeArgs;
use super::stacks::StackArgs;
use clap::Args;
use energy_trace_model::profile::View;
use energy_trace_report::DomainChoice;
use energy_trace_report::folded::{self, FoldedOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Recording file
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// Output format: folded (stacks with microjoules, for flame graph tools)
    #[arg(long, value_parser = parse_format)]
    pub format: Format,

    /// Output file; standard output if not given
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// Drop C++ template arguments, and merge functions that become equal
    #[arg(long)]
    pub short_names: bool,

    /// Which stacks
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Energy to include: total, package, dram, gpu or psys
    #[arg(long, default_value = "total")]
    pub domain: DomainChoice,

    /// Where to charge the energy of worker threads
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// Which part of the run
    #[command(flatten)]
    pub range: RangeArgs,

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
        "csv" => Err(
            "not in this version, which exports folded only; for CSV use `energy-trace report --format csv`"
                .into(),
        ),
        "pprof" | "firefox" | "speedscope" | "parquet" => {
            Err("not in this version, which exports folded only".into())
        }
        _ => Err("unknown format; this version exports folded".into()),
    }
}

/// Writes a recording in another format.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let profile = read_part(&args.file, args.view, args.accounting, args.range)?;
    let options = FoldedOptions {
        domain: args.domain,
        short_names: args.short_names,
        native_frames: args.stacks.native_frames,
        per: args.stacks.per.unwrap_or_default(),
        rest: args.stacks.rest(),
    };
    write_to(args.output.as_deref(), |out| match args.format {
        Format::Folded => folded::write(out, &profile, &options),
    })
}
