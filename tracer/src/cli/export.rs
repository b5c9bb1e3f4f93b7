//! `energy-trace export FILE --format FORMAT`: a recording for another tool.
//!
//! Leaves out the formats (`report::export`).

use super::accounting::AccountingArgs;
use super::arguments::ArgumentsArgs;
use super::carbon::CarbonArgs;
use super::choices;
use super::failure::Failure;
use super::output::{part_of, read_recording, write_to};
use super::range::RangeArgs;
use super::stacks::StackArgs;
use clap::Args;
use energy_trace_attribution::attribute_over_time_owned;
use energy_trace_export::{ExportOptions, Format, Input};
use energy_trace_model::profile::{Options, View};
use energy_trace_report::DomainChoice;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Recording file
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// Output format
    #[arg(long, value_parser = choices::export_format())]
    pub format: &'static Format,

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

    #[command(flatten)]
    pub carbon: CarbonArgs,

    /// Where to charge the energy of worker threads
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// Which part of the run
    #[command(flatten)]
    pub range: RangeArgs,

    #[command(flatten)]
    pub arguments: ArgumentsArgs,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// Writes a recording in another format.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let format = args.format;
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    // A page is megabytes of text that nobody reads.
    if to_terminal && (format.is_binary || format.name == "html") {
        return Err(Failure::usage(format!("{} is not for a terminal: name a file with -o", format.name)));
    }
    let recording = read_recording(&args.file)?;
    let options = Options { view: args.view, accounting: args.accounting.into() };
    let (mut profile, over_time) = match format.is_timed {
        false => (part_of(recording, &options, args.range)?, None),
        true => {
            let (profile, over_time) = attribute_over_time_owned(recording, &options);
            (profile, Some(over_time))
        }
    };
    profile.keep_arguments(args.arguments.in_files());
    let bins = over_time.as_ref().map_or(Ok(0..0), |over_time| args.range.bins_or_all(&over_time.bins))?;
    let options = ExportOptions {
        domain: args.domain,
        short_names: args.short_names,
        native_frames: args.stacks.native_frames,
        per: args.stacks.per,
        rest: args.stacks.rest(),
        grid_mg_per_kwh: args.carbon.mg_per_kwh(),
    };
    let input = Input { profile: &profile, over_time: over_time.as_ref(), bins };
    write_to(args.output.as_deref(), |out| format.write(out, &input, &options))
}
