//! `energy-trace flamegraph FILE -o out.svg`: a recording as a flame graph of joules.

use super::accounting::AccountingArgs;
use super::choices;
use super::failure::Failure;
use super::output::{read_profile, write_to};
use clap::Args;
use energy_trace_model::profile::View;
use energy_trace_report::DomainChoice;
use energy_trace_report::flamegraph::{self, FlameOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `flamegraph`.
#[derive(Debug, Args)]
pub(super) struct FlamegraphArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// Where to write the SVG; - is stdout
    #[arg(short, long, value_name = "SVG", default_value = "energy-trace.svg")]
    pub output: PathBuf,

    /// Whose energy is drawn: total, package, dram, gpu or psys
    #[arg(long, default_value = "total")]
    pub domain: DomainChoice,

    /// Leaves at the top: merge by the function that burned it
    #[arg(long)]
    pub inverted: bool,

    /// Without the arguments of templates: `std::vector<int, std::allocator<int>>` becomes `std::vector<…>`, and what differs in
    /// nothing else becomes one function
    #[arg(long)]
    pub short_names: bool,

    /// Whose joules a worker thread's are: those of the Python call that it works for, or its own
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// Draws a recording.
pub(super) fn run(args: &FlamegraphArgs) -> Result<ExitCode, Failure> {
    let profile = read_profile(&args.file, args.view, args.accounting)?;
    let options =
        FlameOptions { domain: args.domain, inverted: args.inverted, short_names: args.short_names };
    let mut svg = Vec::new();
    flamegraph::write(&mut svg, &profile, &options).map_err(|e| Failure::own(&e))?;
    write_to(Some(&args.output), |out| out.write_all(&svg))
}
