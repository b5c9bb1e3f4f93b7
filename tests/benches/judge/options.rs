//! What the judge is asked for. `cargo xtask bench judge --help` says it to people; leaves out wrong words.

use std::path::PathBuf;

/// What is asked for.
pub(crate) struct Options {
    pub(crate) folder: PathBuf,
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    /// Parts to leave out, each alone; all of them if there are none.
    pub(crate) without: Vec<String>,
    /// Recorded programs and worlds whose name begins so.
    pub(crate) only: Option<String>,
    /// The recorded programs, and no worlds.
    pub(crate) quick: bool,
    /// The folder for the table.
    pub(crate) write: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse() -> Self {
        let mut options = Self {
            folder: PathBuf::from("target/traces"),
            from: 0,
            seeds: 5,
            without: vec![],
            only: None,
            quick: false,
            write: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|n| n.parse().ok());
            match argument.as_str() {
                "--from" => options.from = number().unwrap_or(options.from),
                "--seeds" => options.seeds = number().unwrap_or(options.seeds),
                "--without" => options.without.extend(arguments.next()),
                "--only" => options.only = arguments.next(),
                "--quick" => options.quick = true,
                "--write" => options.write = arguments.next().map(PathBuf::from),
                // What `cargo bench` adds.
                "--bench" => {}
                folder => options.folder = PathBuf::from(folder),
            }
        }
        options
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    }
}
