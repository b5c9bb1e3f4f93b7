//! What is said of options and values as other tools take them: `-g` of `perf`, a program's name for its number.
//!
//! Leaves out words that are mistyped, which the parser finds (`command_line.rs`).

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of other profilers, and what has their place here.
const OF_OTHERS: [(&str, &str); 5] = [
    ("-g", "stacks are always recorded"),
    ("--call-graph", "stacks are always recorded"),
    ("-e", "energy is always recorded; what samples is --sample-event"),
    ("-r", "samples a second: -F"),
    ("--rate", "samples a second: -F"),
];

/// An error of the parser with what to type instead, and not its advice to pass an option as a value.
pub(super) fn with_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let tip = OF_OTHERS.iter().find(|(known, _)| known == option).map(|(_, tip)| *tip);
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The number of a process.
pub(super) fn parse_pid(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|pid| *pid > 0);
    number.ok_or_else(|| "expected numbers of processes, as `pgrep NAME` prints them: -p 12 34".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::command_line::parse;

    fn said(line: &str) -> String {
        parse(format!("energy-trace {line}").split(' ')).unwrap_err().to_string()
    }

    /// Who types options of other profilers is told what has their place, and nobody to pass them as values.
    #[test]
    fn options_of_others() {
        assert!(said("record -g true").contains("tip: stacks are always recorded"));
        assert!(said("-r 100 true").contains("samples a second: -F"));
        let unknown = said("record -y true");
        assert!(unknown.contains("'-y'") && !unknown.contains("tip:"), "{unknown}");
        assert!(said("record --frequenzy 9 true").contains("--frequency"));
    }

    /// A program's name is no number of a process.
    #[test]
    fn names_of_processes() {
        for line in ["-p python", "-p 0", "-p -1", "top -p 12a", "-p 12,x"] {
            assert!(said(line).contains("pgrep"), "{line}: {}", said(line));
        }
        assert!(parse("energy-trace -p 1 2,3".split(' ')).is_ok());
    }
}
