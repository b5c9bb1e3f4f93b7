//! The line tables of CPython: instruction to line.
//!
//! Formats: Objects/locations.md of CPython 3.11 (3.11 and later), Objects/lnotab_notes.txt of 3.10 (3.10) and of 3.8 (3.9 and older).
//! Leaves out columns. `tests/offline/unwind/lines.rs` compares with the interpreters themselves.

use serde::{Deserialize, Serialize};

/// How a version writes its line table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineTable {
    /// `co_lnotab`, up to 3.9: bytes of code and lines from one line's start to the next.
    Lnotab,
    /// `co_linetable` of 3.10: bytes of code and lines of each range.
    Ranges,
    /// `co_linetable` of 3.11 and later.
    #[default]
    Locations,
}

impl LineTable {
    /// Code units that a table covers, which are all of its code object's (3.11 and later); `None` where it is cut off or of an older form.
    pub fn units(self, table: &[u8]) -> Option<u64> {
        // Bytes of an entry after its first have the highest bit clear.
        let entries = table.iter().filter(|&byte| byte & 0x80 != 0);
        let units = entries.map(|byte| u64::from(byte & 7) + 1).sum();
        (self == Self::Locations && units > 0).then_some(units)
    }

    /// Line of an instruction. `index` counts as frames of that version do: bytes up to 3.9, code units (two bytes) from 3.10 on. `None`
    /// where the table says that there is no line, or does not reach that far.
    pub fn line_of(self, table: &[u8], first_line: u32, index: u64) -> Option<u32> {
        match self {
            Self::Lnotab => lnotab_line(table, first_line, index),
            Self::Ranges => range_line(table, first_line, index),
            Self::Locations => location_line(table, first_line, index),
        }
    }
}

/// Up to 3.9 (`PyCode_Addr2Line`, Objects/codeobject.c, 3.9).
fn lnotab_line(table: &[u8], first_line: u32, index: u64) -> Option<u32> {
    if index > i32::MAX as u64 {
        return None; // -1: before the first instruction.
    }
    let (mut line, mut start) = (i64::from(first_line), 0u64);
    for pair in table.chunks_exact(2) {
        let &[bytes, lines] = pair else { break };
        start += u64::from(bytes);
        if start > index {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    u32::try_from(line).ok()
}

/// 3.10 (`_PyCode_CheckLineNumber`, Objects/codeobject.c, 3.10): -128 says that a range has no line.
fn range_line(table: &[u8], first_line: u32, index: u64) -> Option<u32> {
    let (mut line, mut end) = (i64::from(first_line), 0u64);
    for pair in table.chunks_exact(2) {
        let &[bytes, lines] = pair else { break };
        end += u64::from(bytes);
        let has_line = lines.cast_signed() != i8::MIN;
        if has_line {
            line += i64::from(lines.cast_signed());
        }
        if index.checked_mul(2)? < end {
            return if has_line { u32::try_from(line).ok() } else { None };
        }
    }
    None
}

/// 3.11 and later.
fn location_line(table: &[u8], first_line: u32, index: u64) -> Option<u32> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(first_line);
    let mut end = 0u64;
    while let Some(first) = bytes.next() {
        let code = first >> 3 & 15;
        end += u64::from(first & 7) + 1;
        let has_line = code != 15;
        match code {
            15 => (),
            14 => {
                line = line.wrapping_add(signed(&mut bytes)?);
                for _ in 0..3 {
                    varint(&mut bytes)?;
                }
            }
            13 => line = line.wrapping_add(signed(&mut bytes)?),
            10..=12 => {
                line += i64::from(code - 10);
                bytes.next()?;
                bytes.next()?;
            }
            _ => {
                bytes.next()?;
            }
        }
        if index < end {
            return if has_line { u32::try_from(line).ok() } else { None };
        }
    }
    None
}

/// Six bits a byte, least significant first; bit 6 says that more follow.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// A varint whose lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = varint(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::LineTable;

    /// A table that is cut off or nonsense gives no line, never a panic; an index of -1 is before the first instruction.
    #[test]
    fn damaged_tables() {
        assert_eq!(LineTable::Locations.line_of(&[], 1, 0), None);
        assert_eq!(LineTable::Locations.line_of(&[0xf0, 0xff, 0xff, 0xff], 1, 0), None);
        assert_eq!(LineTable::Locations.line_of(&[0xe8], 1, 5), None);
        assert_eq!(LineTable::Ranges.line_of(&[2], 1, 0), None);
        assert_eq!(LineTable::Ranges.line_of(&[2, 1], 1, u64::MAX), None);
        assert_eq!(LineTable::Lnotab.line_of(&[2], 7, 0), Some(7));
        assert_eq!(LineTable::Lnotab.line_of(&[0, 0x80], 7, 0), None);
        assert_eq!(LineTable::Lnotab.line_of(&[2, 1], 7, 0xffff_ffff), None);
    }
}
