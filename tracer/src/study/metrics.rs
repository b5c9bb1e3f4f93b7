//! Numbers that programs print of themselves: `accuracy = 'acc=([0-9.]+)'`. Leaves out what they mean.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;

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
    use super::{Metric, read_end};
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
    }
}
