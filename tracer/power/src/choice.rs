//! The words of `--power`: parsed and printed by the table of sources.
//!
//! Leaves out whether a source is there (`set.rs`).

use super::plan::SourceChoice;
use super::sources::SOURCES;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The words that name no source, each with its line of help.
const OTHER_WORDS: [(&str, &str); 3] = [
    ("auto", "Every energy counter of this machine; the power model if the CPUs have none"),
    ("rapl", "RAPL energy counters: powercap, or perf where the kernel has no powercap"),
    ("none", "No energy: CPU time only"),
];

/// A `--power` word that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceChoiceError {
    /// Not one of the words.
    #[error("unknown power source `{word}`; use one of {words}", words = words())]
    Unknown {
        /// What was typed.
        word: String,
    },
    /// A word that needs a file or folder stands alone.
    #[error("`{word}:` needs the path of a file or folder after the colon, as in {word}:PATH")]
    NoFile {
        /// The word.
        word: &'static str,
    },
}

impl FromStr for SourceChoice {
    type Err = SourceChoiceError;

    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        let (word, file) = match typed.split_once(':') {
            Some((word, file)) => (word, Some(file)),
            None => (typed, None),
        };
        let unknown = || SourceChoiceError::Unknown { word: typed.to_owned() };
        match (word, file) {
            ("auto", None) => return Ok(Self::Auto),
            ("none", None) => return Ok(Self::None),
            ("rapl", None) => return Ok(Self::Rapl),
            _ => {}
        }
        let kind = SOURCES.iter().find(|kind| kind.word == word).ok_or_else(unknown)?;
        match file {
            None if !kind.takes_file => Ok(Self::Source(kind.word)),
            Some("") if kind.takes_file => Err(SourceChoiceError::NoFile { word: kind.word }),
            Some(file) if kind.takes_file => Ok(Self::File(kind.word, PathBuf::from(file))),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for SourceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Rapl => f.write_str("rapl"),
            Self::Source(word) => f.write_str(word),
            Self::File(word, file) => write!(f, "{word}:{}", file.display()),
        }
    }
}

/// Every word that `--power` takes, as it is typed, with its line of help.
pub fn source_words() -> impl Iterator<Item = (String, &'static str)> {
    let [auto, rapl, none] = OTHER_WORDS.map(|(word, help)| (word.to_owned(), help));
    let sources = SOURCES.iter().map(|kind| {
        let word = if kind.takes_file { format!("{}:FILE", kind.word) } else { kind.word.to_owned() };
        (word, kind.help)
    });
    [auto, rapl].into_iter().chain(sources).chain([none])
}

fn words() -> String {
    source_words().map(|(word, _)| word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{SourceChoice, SourceChoiceError, source_words};

    /// Every word of the table is understood and printed as it was typed, and has help.
    #[test]
    fn words_round_trip() {
        for (word, help) in source_words() {
            let typed = word.replace("FILE", "a:b.csv");
            assert_eq!(typed.parse::<SourceChoice>().unwrap().to_string(), typed);
            assert!(!help.is_empty() && !help.ends_with('.'), "{help}");
        }
    }

    /// A wrong word, a file where none belongs and a replay without a file are told apart; the error names all words.
    #[test]
    fn wrong_words() {
        let wrong = |word: &str| word.parse::<SourceChoice>().unwrap_err();
        assert_eq!(wrong("coal"), SourceChoiceError::Unknown { word: "coal".into() });
        assert_eq!(wrong("perf:x"), SourceChoiceError::Unknown { word: "perf:x".into() });
        assert_eq!(wrong("replay"), SourceChoiceError::Unknown { word: "replay".into() });
        assert_eq!(wrong("replay:"), SourceChoiceError::NoFile { word: "replay" });
        let text = wrong("coal").to_string();
        let (_, words) = text.split_once("; use one of ").unwrap();
        assert!(words.split(", ").eq(source_words().map(|(word, _)| word)), "{text}");
        assert!(words.starts_with("auto, rapl, ") && words.contains(", replay:FILE, "), "{text}");
        assert!(words.ends_with(", none"), "{text}");
    }
}
