//! A file of sysfs that holds one number (a counter, a frequency, a temperature), kept open and read again and again.
//!
//! What else such a file holds is not shown: its name may lead to somebody's secret. Leaves out what it counts (`powercap.rs`, `hwmon.rs`).

use super::source::{Attempt, timed};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One counter file, kept open: a `pread` costs half of what opening, reading and closing does.
pub(super) struct CounterFile {
    path: PathBuf,
    /// `None` after a failed read: the next read opens the file again, since a driver that was reloaded makes new files.
    file: Option<File>,
}

impl CounterFile {
    /// Opens the counter and reads it once, so that a file that opens and cannot be read is found out now.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        read_counter(&file)?;
        Ok(Self { path, file: Some(file) })
    }

    /// The same for a number that may be below zero.
    pub(super) fn open_signed(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        read_number::<i64>(&file)?;
        Ok(Self { path, file: Some(file) })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why it could not be read, and where it lies.
    pub(super) fn failed(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Reads it once.
    pub(super) fn attempt(&mut self) -> Attempt {
        let (at, counter) = timed(|| self.read());
        Attempt { at, counter_uj: counter.map_err(|error| self.failed(&error)) }
    }

    /// The number alone.
    pub(super) fn read(&mut self) -> io::Result<u64> {
        self.number()
    }

    /// The number alone, which may be below zero.
    pub(super) fn read_signed(&mut self) -> io::Result<i64> {
        self.number()
    }

    fn number<T: FromStr>(&mut self) -> io::Result<T> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        let value = read_number(&file)?;
        self.file = Some(file);
        Ok(value)
    }
}

/// Reads the decimal number at the start of an open file.
pub(super) fn read_counter(file: &File) -> io::Result<u64> {
    read_number(file)
}

fn read_number<T: FromStr>(file: &File) -> io::Result<T> {
    // 20 digits and a newline are the longest that a u64 can be.
    let mut buffer = [0; 24];
    let length = file.read_at(&mut buffer, 0)?;
    let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    let number = text.trim_end();
    number.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it does not hold a number"))
}
