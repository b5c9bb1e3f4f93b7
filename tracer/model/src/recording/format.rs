//! The number of a recording's format, and which formats this version reads: semantic versioning.
//!
//! Leaves out how records lie in a file (`file.rs`, `wire.rs`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a format. A reader reads every format of its own major version up to its own minor version, and
/// refuses any other: it never guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Format {
    /// Counts up when the shape of something that is written changes.
    pub major: u16,
    /// Counts up with a new variant at the end of a type that is written, and nothing else: files without it are read
    /// as they are, and older versions refuse files that may hold it.
    pub minor: u16,
}

/// What this version writes.
pub const FORMAT: Format = Format { major: 1, minor: 7 };

impl Format {
    /// Whether this version reads it.
    pub(super) fn is_readable(self) -> bool {
        self.major == FORMAT.major && self <= FORMAT
    }

    /// As it stands in a file.
    pub(super) const fn to_bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.major.to_le_bytes(), self.minor.to_le_bytes());
        [a, b, c, d]
    }

    /// What stands in a file.
    pub(super) const fn from_bytes([a, b, c, d]: [u8; 4]) -> Self {
        Self { major: u16::from_le_bytes([a, b]), minor: u16::from_le_bytes([c, d]) }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
