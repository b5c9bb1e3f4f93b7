//! What the user typed, one file a command, and the one place where errors become text and an exit status.
//!
//! `command_line` is the whole of it, `first_word` the program that needs no `--`, `meant` what to type instead of one
//! that is none, `tips` what to type instead of another tool's options, `choices` the words that options take,
//! `resolve` what a recording's options mean on this machine, `run` does what was typed. Leaves out doing it
//! (`session`, `report`, `doctor`).

mod accounting;
mod agent;
mod arguments;
mod budget;
mod carbon;
mod choices;
mod closed;
mod command_line;
mod common;
mod compare;
mod debug;
mod diff;
mod doctor;
mod export;
mod failure;
mod first_word;
mod flamegraph;
mod logger;
mod meant;
mod merge;
mod output;
mod pages;
mod per_work;
mod range;
mod range_probes;
mod rank;
mod record;
mod report;
mod resolve;
mod run;
mod stacks;
mod tips;
mod top;
mod unprivileged;
mod work;

pub use run::run;
