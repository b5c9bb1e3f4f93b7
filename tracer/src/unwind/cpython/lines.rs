//! The location table of CPython 3.11 and later: instruction to line.
//!
//! Format: Objects/locations.md of CPython 3.11. Leaves out columns, and the tables of older versions.

/// Line of an instruction. `index` counts code units (two bytes) from the start of the bytecode. `None` where the table says that there
/// is no line, or does not reach that far.
pub fn line_of(table: &[u8], first_line: u32, index: u64) -> Option<u32> {
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
                line += signed(&mut bytes)?;
                for _ in 0..3 {
                    varint(&mut bytes)?;
                }
            }
            13 => line += signed(&mut bytes)?,
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
    use super::line_of;
    use std::process::Command;

    /// Prints, for every code object of some modules: first line, table, and the line of each code unit, by `co_lines()`.
    const ORACLE: &str = "
import argparse, asyncio.tasks, json.decoder, inspect, types
def walk(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from walk(const)
for module in (argparse, asyncio.tasks, json.decoder, inspect):
    for code in walk(compile(open(module.__file__).read(), module.__file__, 'exec')):
        lines = [0] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            for at in range(start // 2, end // 2):
                lines[at] = line or 0
        print(code.co_firstlineno, code.co_linetable.hex(), ','.join(map(str, lines)))
";

    /// Every instruction of four modules of the standard library has the line that the interpreter itself gives it.
    #[test]
    fn agrees_with_the_interpreter() {
        let output = Command::new("python3").args(["-c", ORACLE]).output().expect("python3 runs");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut checked = 0;
        for code in text.lines() {
            let mut fields = code.split(' ');
            let first: u32 = fields.next().unwrap().parse().unwrap();
            let hex = fields.next().unwrap();
            let table: Vec<u8> =
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            for (index, line) in (0u64..).zip(fields.next().unwrap().split(',')) {
                let expected: u32 = line.parse().unwrap();
                assert_eq!(line_of(&table, first, index).unwrap_or(0), expected, "{code} at {index}");
                checked += 1;
            }
        }
        assert!(checked > 10_000, "{checked}");
    }

    /// A table that is cut off or nonsense gives no line, never a panic.
    #[test]
    fn damaged_tables() {
        assert_eq!(line_of(&[], 1, 0), None);
        assert_eq!(line_of(&[0xf0, 0xff, 0xff, 0xff], 1, 0), None);
        assert_eq!(line_of(&[0xe8], 1, 5), None);
    }
}
