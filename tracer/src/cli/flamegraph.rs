//! `energy-trace flamegraph FILE -o out.svg`: a recording as a flame graph of joules.

use super::Failure;
use super::accounting::AccountingArgs;
use super::output::{read_profile, write_to};
use super::report::{View, parse_view};
use crate::report::DomainChoice;
use crate::report::flamegraph::{self, FlameOptions};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the user typed after `flamegraph`.
#[derive(Debug, Args)]
pub struct FlamegraphArgs {
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

    /// Whose joules: physical charges every thread's to itself
    #[arg(long, default_value = "physical", value_parser = parse_view)]
    pub view: View,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// Draws a recording.
pub fn run(args: &FlamegraphArgs) -> Result<ExitCode, Failure> {
    let (recording, profile) = read_profile(&args.file, args.accounting)?;
    let options = FlameOptions { domain: args.domain, inverted: args.inverted };
    let mut svg = Vec::new();
    flamegraph::write(&mut svg, &recording, &profile, &options).map_err(|e| Failure::own(&e))?;
    write_to(Some(&args.output), |out| out.write_all(&svg))
}
