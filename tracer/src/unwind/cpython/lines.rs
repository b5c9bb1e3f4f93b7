//! The line tables of CPython: instruction to line.
//!
//! Formats: Objects/locations.md of CPython 3.11 (3.11 and later), Objects/lnotab_notes.txt of 3.10 (3.10) and of 3.8 (3.9 and older).
//! Leaves out columns.

/// How a version writes its line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineTable {
    /// `co_lnotab`, up to 3.9: bytes of code and lines from one line's start to the next.
    Lnotab,
    /// `co_linetable` of 3.10: bytes of code and lines of each range.
    Ranges,
    /// `co_linetable` of 3.11 and later.
    Locations,
}

impl LineTable {
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
    use std::path::PathBuf;
    use std::process::Command;

    /// Prints, for every code object of the files that argv[1] names below the standard library: format, first line, table, and the line of each
    /// instruction by the interpreter's own word (`co_lines()`, before 3.10 `dis.findlinestarts`).
    const ORACLE: &str = "
import dis, glob, os, sys, types
def walk(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from walk(const)
def lines_of(code):
    if hasattr(code, 'co_lines'):
        lines = [0] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            for at in range(start // 2, end // 2):
                lines[at] = line or 0
        return lines
    lines, starts = [], dict(dis.findlinestarts(code))
    for at in range(len(code.co_code)):
        lines.append(starts.get(at) or lines[-1])
    return lines[::2]
library = os.path.dirname(os.__file__)
form = 'Lnotab' if sys.version_info < (3, 10) else 'Ranges' if sys.version_info < (3, 11) else 'Locations'
for path in sorted(glob.glob(library + sys.argv[1], recursive=True)):
    try:
        whole = compile(open(path, encoding='utf-8').read(), path, 'exec')
    except (SyntaxError, UnicodeDecodeError):
        continue
    for code in walk(whole):
        table = code.co_lnotab if form == 'Lnotab' else code.co_linetable
        print(form, code.co_firstlineno, table.hex() or '-', ','.join(map(str, lines_of(code))))
";

    /// The system's interpreter, and those of pyenv and of `xtask/pythons` that are on this machine.
    fn pythons() -> Vec<PathBuf> {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let mut out = vec![PathBuf::from("python3")];
        for place in [home.join(".pyenv/versions"), home.join(".cache/energy-trace/pythons")] {
            let folders = std::fs::read_dir(place).into_iter().flatten().flatten();
            out.extend(folders.map(|f| f.path().join("bin/python3")).filter(|p| p.exists()));
        }
        out.retain(|python| {
            let recent = "import sys; sys.exit(sys.version_info < (3, 8))";
            Command::new(python).args(["-c", recent]).status().is_ok_and(|s| s.success())
        });
        out
    }

    /// Every instruction of modules of the standard library has the line that the interpreter itself gives it, whatever the version's
    /// format. `ENERGY_TRACE_LINES='/**/*.py'` compares the whole library, which takes minutes.
    #[test]
    fn agrees_with_the_interpreter() {
        let files = std::env::var("ENERGY_TRACE_LINES").unwrap_or_else(|_| "/[a-d]*.py".into());
        for python in pythons() {
            let output = Command::new(&python).args(["-W", "ignore", "-c", ORACLE, &files]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let checked: usize = text.lines().map(|code| check(code).unwrap()).sum();
            eprintln!("{}: {checked} instructions", python.display());
            assert!(checked > 10_000, "{}: {checked}", python.display());
        }
    }

    /// Compares one code object; how many instructions it has.
    fn check(code: &str) -> Option<usize> {
        let mut fields = code.split(' ');
        let (form, step) = match fields.next()? {
            "Lnotab" => (LineTable::Lnotab, 2),
            "Ranges" => (LineTable::Ranges, 1),
            _ => (LineTable::Locations, 1),
        };
        let first: u32 = fields.next()?.parse().ok()?;
        let hex = fields.next()?.trim_matches('-');
        let table: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
        let lines: Vec<u32> = fields.next()?.split(',').map(|line| line.parse().unwrap()).collect();
        for (index, &line) in (0u64..).step_by(step).zip(&lines) {
            assert_eq!(form.line_of(&table, first, index).unwrap_or(0), line, "{code} at {index}");
        }
        Some(lines.len())
    }

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
