//! What a first word means that is no command of energy-trace: a program to record, a command of a later version, or a typing error.
//!
//! After `--` every word is a program. Leaves out starting it, and what is said when it cannot be (`session/error.rs`).

use crate::tracee::lookup::{Found, find};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Commands that a later version will have.
const TO_COME: [&str; 1] = ["serve"];
/// A word is taken for a mistyped command up to this many slips of a finger.
const SLIPS: usize = 2;

/// Why a first word is no program to record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoProgram {
    /// A command of a later version.
    #[error(
        "`energy-trace {word}` is not in this version; a program of that name is recorded by `energy-trace -- {word}`"
    )]
    ToCome {
        /// The word.
        word: &'static str,
    },
    /// Nearly a command.
    #[error(
        "`{word}` is neither a command of energy-trace nor a program on PATH; did you mean `energy-trace {nearest}`?"
    )]
    Mistyped {
        /// What was typed.
        word: String,
        /// What was meant.
        nearest: String,
    },
}

/// Whether a program may be meant by the first word of a command line that is no command of energy-trace.
pub(super) fn check<'a>(
    word: &OsStr,
    path: Option<OsString>,
    commands: impl Iterator<Item = &'a str>,
) -> Result<(), NoProgram> {
    if let Some(word) = TO_COME.into_iter().find(|later| word == *later) {
        return Err(NoProgram::ToCome { word });
    }
    // What is there but cannot be executed is a program all the same, and said to be none later, by its name.
    if find(word, path) != Found::Nothing || Path::new(word).exists() {
        return Ok(());
    }
    let typed = word.to_string_lossy();
    let near = commands.map(|command| (slips(&typed, command), command)).min();
    match near {
        Some((slips, nearest)) if slips <= SLIPS => {
            Err(NoProgram::Mistyped { word: typed.into_owned(), nearest: nearest.to_owned() })
        }
        _ => Ok(()),
    }
}

/// How many letters were left out, added, replaced or swapped with their neighbour (optimal string alignment).
fn slips(typed: &str, meant: &str) -> usize {
    let (typed, meant): (Vec<char>, Vec<char>) = (typed.chars().collect(), meant.chars().collect());
    // A word that differs in length alone by more than is forgiven needs no table.
    if typed.len().abs_diff(meant.len()) > SLIPS {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=meant.len()).collect()];
    for (i, &a) in typed.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in meant.iter().enumerate() {
            let at = |up: usize, left: usize| {
                let above = rows.len().checked_sub(up).and_then(|above| rows.get(above));
                (j + 1).checked_sub(left).and_then(|column| above?.get(column).copied()).unwrap_or(usize::MAX)
            };
            let change = at(1, 1).saturating_add(usize::from(a != b));
            let insert = row.last().copied().unwrap_or(usize::MAX).saturating_add(1);
            let swapped = i > 0 && j > 0 && typed.get(i - 1) == Some(&b) && meant.get(j - 1) == Some(&a);
            let swap = if swapped { at(2, 2).saturating_add(1) } else { usize::MAX };
            row.push(change.min(insert).min(at(1, 0).saturating_add(1)).min(swap));
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{NoProgram, TO_COME, check, slips};
    use std::ffi::OsStr;

    const COMMANDS: [&str; 5] = ["record", "report", "flamegraph", "export", "doctor"];

    fn asked(word: &str, path: &str) -> Result<(), NoProgram> {
        check(OsStr::new(word), Some(path.into()), COMMANDS.into_iter())
    }

    /// Programs are recorded, also those that will not be found: only what is nearly a command is not one.
    #[test]
    fn programs_and_slips() {
        let programs = tempfile::tempdir().unwrap();
        for program in ["sh", "resort"] {
            let path = programs.path().join(program);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let path = programs.path().to_str().unwrap();
        for program in ["sh", "resort", "python9", "./reprot-no", "/dev/null", ""] {
            assert_eq!(asked(program, path), Ok(()), "{program}");
        }
        for (typed, meant) in
            [("reprot", "report"), ("repot", "report"), ("flamgraph", "flamegraph"), ("docter", "doctor")]
        {
            let said = asked(typed, path).unwrap_err().to_string();
            assert!(said.contains(&format!("did you mean `energy-trace {meant}`")), "{said}");
        }
        // The same word is a program where there is one.
        assert!(asked("resort", "/nonexistent").is_err());
    }

    /// Commands of later versions are refused by name, whatever programs have theirs.
    #[test]
    fn later_commands() {
        for word in TO_COME {
            let said = asked(word, "/usr/bin:/bin").unwrap_err().to_string();
            assert!(said.contains("not in this version") && said.contains(&format!("-- {word}`")), "{said}");
        }
    }

    /// Letters left out, added, replaced and swapped count one each.
    #[test]
    fn slips_are_counted() {
        let cases = [
            ("report", "report", 0),
            ("reprot", "report", 1),
            ("rport", "report", 1),
            ("raport", "report", 1),
        ];
        for (typed, meant, count) in cases {
            assert_eq!(slips(typed, meant), count, "{typed}");
        }
        assert_eq!(slips("exprot ", "export"), 2);
        assert!(slips("python3", "report") > 2 && slips("ls", "report") > 2);
    }
}
