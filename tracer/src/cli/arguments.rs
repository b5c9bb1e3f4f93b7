//! Arguments of command lines in what is made of a recording: the same option for every command that makes something.
//!
//! Leaves out what is left of a command line without them (`profile::arguments`).

use clap::Args;
use energy_trace_model::profile::arguments::Arguments;

/// What the user chose.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct ArgumentsArgs {
    /// Show arguments of programs, which may be secret and other users': without it files and pictures hold none, and reports those of the
    /// recorded command
    #[arg(long)]
    pub arguments: bool,
}

impl ArgumentsArgs {
    /// In text for the one who typed the command.
    pub(super) const fn in_text(self) -> Arguments {
        if self.arguments { Arguments::All } else { Arguments::OfCommand }
    }

    /// In files that are handed on.
    pub(super) const fn in_files(self) -> Arguments {
        if self.arguments { Arguments::All } else { Arguments::Nobodys }
    }
}
