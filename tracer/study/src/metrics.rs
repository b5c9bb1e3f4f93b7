//! Numbers that programs print of themselves: `accuracy = 'acc=([0-9.]+)'`. Leaves out what they mean.

use energy_trace_model::collections::Fill as _;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;

/// Longest name or text that is taken from an output.
const MOST_LETTERS: usize = 200;
/// Most names that a run may count.
const MOST_NAMES: usize = 10_000;

/// So much of the end of an output is looked at.
const MOST_BYTES: u64 = 8 << 20;

/// A name, and the expression whose first group is the number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name in tables.
    pub name: String,
    /// A regular expression with a group.
    pub pattern: String,
}

impl Metric {
    /// A metric whose expression is one.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn new(name: &str, pattern: &str) -> Result<Self, String> {
        let regex =
            Regex::new(pattern).map_err(|error| format!("{pattern:?} is no regular expression: {error}"))?;
        if name.is_empty() || regex.captures_len() < 2 {
            return Err("expected NAME=REGEX, where REGEX has a group: accuracy='acc=([0-9.]+)'".to_owned());
        }
        Ok(Self { name: name.to_owned(), pattern: pattern.to_owned() })
    }

    /// The last text that an output has of it.
    pub(super) fn find_text(&self, output: &str) -> Option<String> {
        let regex = Regex::new(&self.pattern).ok()?;
        let last = regex.captures_iter(output).last()?;
        Some(last.get(1)?.as_str().trim().chars().take(MOST_LETTERS).collect())
    }

    /// The last number that an output has of it.
    pub(super) fn find(&self, output: &str) -> Option<f64> {
        let regex = Regex::new(&self.pattern).ok()?;
        let last = regex.captures_iter(output).last()?;
        last.get(1)?.as_str().trim().parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pattern) = text.split_once('=').ok_or("expected NAME=REGEX")?;
        Self::new(name.trim(), pattern)
    }
}

/// An expression for calls that programs count: its first group is a name, its second a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let regex =
            Regex::new(text).map_err(|error| format!("{text:?} is no regular expression: {error}"))?;
        if regex.captures_len() < 3 {
            return Err(
                "expected an expression with two groups, a name and a number: 'calls (\\S+) ([0-9]+)'"
                    .to_owned(),
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl Pattern {
    /// Every name that an output has, with its last number.
    pub(super) fn find(&self, output: &str) -> BTreeMap<String, f64> {
        let Ok(regex) = Regex::new(&self.0) else { return BTreeMap::new() };
        let pair = |found: regex_lite::Captures<'_>| {
            let number = found.get(2)?.as_str().parse().ok().filter(|number: &f64| number.is_finite())?;
            Some((found.get(1)?.as_str().chars().take(MOST_LETTERS).collect(), number))
        };
        regex.captures_iter(output).filter_map(pair).take(MOST_NAMES).fill_map()
    }
}

/// The end of an output, as text.
pub(super) fn read_end(path: &Path) -> io::Result<String> {
    // The program may have put something else in its place.
    let mut file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file any more"));
    }
    let length = found.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Metric, Pattern, read_end};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    /// A pipe in the place of an output is not waited for.
    #[test]
    fn outputs_that_are_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("0001.out");
        std::fs::write(&path, "acc=1").unwrap();
        assert_eq!(read_end(&path).unwrap(), "acc=1");
        std::fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(read_end(&path).is_err());
    }

    /// The last number counts; expressions without a group and without an end are refused.
    #[test]
    fn numbers() {
        let metric: Metric = "accuracy=acc=([0-9.]+)".parse().unwrap();
        assert_eq!(metric.find("acc=0.1\nacc=0.25 acc=x"), Some(0.25));
        assert_eq!((metric.find("none"), metric.find("acc=1.2.3")), (None, None));
        for wrong in ["accuracy", "a=b", "=(x)", "a=(", "a=[0-"] {
            assert!(wrong.parse::<Metric>().is_err(), "{wrong}");
        }
        let version = Metric::new("version", "torch (.*)").unwrap();
        assert_eq!(version.find_text("torch 2.1\ntorch 2.15.0\n"), Some("2.15.0".to_owned()));
    }

    /// Calls have a name and a number, the last of each name; an expression with less is refused.
    #[test]
    fn calls() {
        let pattern: Pattern = r"calls (\S+) ([0-9]+)".parse().unwrap();
        let found = pattern.find("calls a.b 3\ncalls a.b 7\ncalls c x\ncalls d 1");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a.b".to_owned(), 7.0), ("d".to_owned(), 1.0)]);
        assert!("calls ([0-9]+)".parse::<Pattern>().is_err() && "(".parse::<Pattern>().is_err());
    }
}
