//! Which stacks are drawn or exported: the same options for both.
//!
//! Leaves out what only one of them has.

use super::choices;
use clap::Args;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_report::folded::Per;
use energy_trace_report::rest::Rest;

/// What the user chose.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct StackArgs {
    /// Which frames of native code to show
    #[arg(long, value_parser = choices::native_frames(), value_name = "WHICH", default_value = "libraries")]
    pub native_frames: NativeFrames,

    /// Keep stacks of different processes or threads apart
    #[arg(long, value_parser = choices::per(), value_name = "HOLDER")]
    pub per: Option<Per>,

    /// Add the energy of other programs, and what was charged to nobody
    #[arg(long)]
    pub with_others: bool,

    /// Add the idle energy
    #[arg(long)]
    pub with_idle: bool,
}

impl StackArgs {
    /// What stands beside the program.
    pub(super) const fn rest(self) -> Rest {
        Rest { others: self.with_others, idle: self.with_idle }
    }
}
