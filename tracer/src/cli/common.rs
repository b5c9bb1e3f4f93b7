//! Options of every command: how much is printed, and in color or not.
//!
//! Leaves out the logger that follows them (`logger.rs`).

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(super) struct Common {
    /// Show more detail, and what the BPF programs log
    #[arg(short, long, global = true, display_order = 900)]
    pub verbose: bool,

    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 901)]
    pub quiet: bool,

    /// Use color
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", display_order = 902)]
    pub color: ColorWhen,
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
    /// Even when the output is not a terminal.
    Always,
    /// No color.
    Never,
}

/// Whether the terminal shows text and nothing else, as its kind says: an editor's.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|kind| kind == "dumb")
}

impl ColorWhen {
    /// Whether to color what goes to a terminal (or does not).
    pub(super) fn resolve(self, is_terminal: bool) -> bool {
        // https://no-color.org: set and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => is_terminal && !no_color && !is_dumb(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}
