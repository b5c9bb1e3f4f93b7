//! Options of every command: how much is said, and in which colour.
//!
//! Leaves out the logger that follows them (`logger.rs`).

use clap::{Args, ValueEnum};

/// Options of every verb.
#[derive(Clone, Debug, Args)]
pub(super) struct Common {
    /// Say more: details in tables, what the BPF programs log
    #[arg(short, long, global = true, display_order = 900)]
    pub verbose: bool,

    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 901)]
    pub quiet: bool,

    /// Colour: on a terminal only (auto; NO_COLOR holds), always, or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto", display_order = 902)]
    pub color: ColorWhen,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Whether to colour what goes to a terminal (or does not).
    pub(super) fn resolve(self, is_terminal: bool) -> bool {
        // https://no-color.org: set and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => is_terminal && !no_color,
            Self::Always => true,
            Self::Never => false,
        }
    }
}
