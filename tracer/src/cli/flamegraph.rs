//! `energy-trace flamegraph FILE -o out.svg`: a recording as a flame graph of joules.

use super::accounting::AccountingArgs;
use super::arguments::ArgumentsArgs;
use super::choices;
use super::failure::Failure;
use super::output::{read_part, write_to};
use super::range::RangeArgs;
use super::stacks::StackArgs;
use clap::Args;
use energy_trace_model::profile::{Options, View};
use energy_trace_report::DomainChoice;
use energy_trace_report::flamegraph::{self, FlameOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `flamegraph`.
#[derive(Debug, Args)]
pub(super) struct FlamegraphArgs {
    /// Recording file
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// SVG file to write; - for standard output
    #[arg(short, long, value_name = "SVG", default_value = "energy-trace.svg")]
    pub output: PathBuf,

    /// Energy to draw: total, package, dram, gpu or psys
    #[arg(long, default_value = "total")]
    pub domain: DomainChoice,

    /// Merge stacks by the function that spent the energy, with its callers below it
    #[arg(long)]
    pub by_callee: bool,

    /// Draw the root at the bottom
    #[arg(long)]
    pub flip: bool,

    /// The root at the top, as is the default
    #[arg(long, hide = true, conflicts_with = "flip")]
    pub inverted: bool,

    /// Which stacks
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Drop C++ template arguments, and merge functions that become equal
    #[arg(long)]
    pub short_names: bool,

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

/// Draws a recording.
pub(super) fn run(args: &FlamegraphArgs) -> Result<ExitCode, Failure> {
    let options = Options { view: args.view, accounting: args.accounting.into() };
    let mut profile = read_part(&args.file, &options, args.range)?;
    profile.keep_arguments(args.arguments.in_files());
    let options = FlameOptions {
        domain: args.domain,
        short_names: args.short_names,
        native_frames: args.stacks.native_frames,
        per: args.stacks.per,
        rest: args.stacks.rest(),
        by_callee: args.by_callee,
        flip: args.flip,
    };
    let mut svg = Vec::new();
    flamegraph::write(&mut svg, &profile, &options).map_err(|e| Failure::own(&e))?;
    write_to(Some(&args.output), |out| out.write_all(&svg))
}
