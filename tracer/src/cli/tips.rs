//! What is said of options and values as other tools take them: `-g` of `perf`, a program's name for its number.
//!
//! Leaves out words that are mistyped, which the parser finds (`command_line.rs`).

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Options of other profilers, and what has their place here.
const OF_OTHERS: [(&str, &str); 5] = [
    ("-g", "stacks are always recorded"),
    ("--call-graph", "stacks are always recorded"),
    ("-e", "energy is always recorded; what samples is --sample-event"),
    ("-r", "samples a second: -F"),
    ("--rate", "samples a second: -F"),
];

/// An error of the parser in this line with what to type instead, and not its advice to pass an option as a value. `record`: the command.
pub(super) fn with_tip(mut error: clap::Error, line: &[OsString], record: &Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let of_others = OF_OTHERS.iter().find(|(known, _)| known == option).map(|(_, tip)| (*tip).to_owned());
    let Some(tip) = of_others.or_else(|| of_record(option, line, record)) else { return error };
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Where an option stands that is one of `record`.
fn of_record(option: &str, line: &[OsString], record: &Command) -> Option<String> {
    let long = option.strip_prefix("--")?;
    record.get_arguments().find(|argument| argument.get_long() == Some(long))?;
    let typed =
        line.iter().filter_map(|word| word.to_str()).find(|word| word.split('=').next() == Some(option));
    Some(match line.iter().any(|word| word == "compare") {
        true => format!("options of `record` for each run: --record '{} …'", typed.unwrap_or(option)),
        false => format!("{option} is an option of `record`"),
    })
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

    /// An option of `record` has its place in a study, and none in commands that read recordings.
    #[test]
    fn options_of_record() {
        for line in ["compare --model-watts 9 -- a -- b", "compare --runs 3 --gpu=kernel -- a -- b"] {
            let said = said(line);
            assert!(said.contains("--record '--") && !said.contains("similar"), "{said}");
        }
        assert!(said("report --model-watts 9").contains("an option of `record`"));
        assert!(!said("compare --nothing 9 -- a").contains("--record"));
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
