//! How much of a file's unwind information is believed: in proportion to its code, for whoever makes a file may say as much of a little as they
//! like.
//!
//! Leaves out sizes of other parts (`file_bytes.rs`).

use super::elf::ElfFacts;
use super::file_bytes::believable_bytes;
use std::fs::File;

/// Rows of one file at the most: CUDA's largest libraries have three quarters of it.
pub const MOST_ROWS: usize = 8 << 20;

/// What a file's unwind information may take.
pub(super) struct Work {
    /// Bytes of entries, each with what it has in common with others and is read again for it.
    pub(super) bytes: u64,
    /// Rows.
    pub(super) rows: usize,
}

impl Work {
    /// Of what is read anyway.
    pub(super) const WITHOUT_LIMIT: Self = Self { bytes: u64::MAX, rows: usize::MAX };

    /// Of a file with so much code. Compilers write a fifth of its bytes in entries, and a row for ten of them.
    pub(super) fn of_file(file: &File, facts: &ElfFacts) -> Self {
        let code = facts.code.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.size));
        Self::of_code(code.min(believable_bytes(file).unwrap_or(0)))
    }

    fn of_code(bytes: u64) -> Self {
        /// Of files with little code, in which stubs may be all there is.
        const LEAST_BYTES: u64 = 1 << 20;
        const LEAST_ROWS: usize = 64 << 10;
        let rows = usize::try_from(bytes / 4).unwrap_or(MOST_ROWS);
        Self {
            bytes: bytes.saturating_mul(2).saturating_add(LEAST_BYTES),
            rows: rows.saturating_add(LEAST_ROWS).min(MOST_ROWS),
        }
    }

    /// Whether an entry of so many bytes is still within it.
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Work;

    /// A file with little code is believed what stubs may need, one with much in proportion, and none without end.
    #[test]
    fn in_proportion() {
        let rows = |bytes| Work::of_code(bytes).rows;
        assert_eq!(rows(0), 64 << 10);
        assert_eq!(rows(16 << 20), (4 << 20) + (64 << 10));
        assert_eq!(rows(u64::MAX), super::MOST_ROWS);
        let mut work = Work::of_code(0);
        let taken = (0..).take_while(|_| work.takes(1 << 10)).count();
        assert_eq!(taken, 1 << 10);
        assert!(!work.takes(1));
    }
}
