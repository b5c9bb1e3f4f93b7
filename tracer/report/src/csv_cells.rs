//! CSV of which no spreadsheet makes formulas: names come from traced programs, and may be `=HYPERLINK(…)`.
//!
//! A cell that would be one begins with an apostrophe instead, which spreadsheets take for "this is text". Numbers stay numbers. Leaves out
//! control characters, which the writers of names write out (`shown`).

use std::borrow::Cow;
use std::io::{self, Write};

/// What a formula begins with, also in the wide forms of East Asian keyboards.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Writes lines of cells.
pub struct Cells<W: Write>(csv::Writer<W>);

impl<W: Write> Cells<W> {
    /// Into this writer.
    pub fn new(out: W) -> Self {
        Self(csv::Writer::from_writer(out))
    }

    /// Writes a line.
    pub fn line<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) -> io::Result<()> {
        for cell in cells {
            self.0.write_field(harmless(cell.as_ref()).as_bytes())?;
        }
        Ok(self.0.write_record(None::<&[u8]>)?)
    }

    /// Hands on what was written so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn harmless(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(FORMULA) || cell.trim_start().starts_with(FORMULA);
    if is_formula && !is_amount(cell) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

/// A number, one with its unit (`-1.2 mJ`, `+3 %`), or the dash that stands for none.
fn is_amount(cell: &str) -> bool {
    let bare = cell.strip_prefix(['-', '+']).unwrap_or_default();
    let in_amounts = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | ' ' | '%');
    let has_unit = bare.starts_with(|c: char| c.is_ascii_digit()) && bare.chars().all(in_amounts);
    cell == "-" || has_unit || cell.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Cells, harmless};

    /// What a spreadsheet would compute becomes text; numbers, with or without unit, and other names stay as they are.
    #[test]
    fn formulas_are_text() {
        for formula in [
            "=HYPERLINK(\"http://x\",\"y\")",
            "+1+cmd|' /C calc'!A0",
            "-2+3+cmd|' /C calc'!A0",
            "-A1",
            "@SUM(1)",
            "\t=1",
            "\r=1",
            " =1",
            "＝1",
            "-0x41|b!c",
            "=",
        ] {
            assert_eq!(harmless(formula), format!("'{formula}"));
        }
        for cell in [
            "",
            "-",
            "-1",
            "+1e-3",
            "-1.5e+300",
            "-inf",
            "-3.2%",
            "-1.2 mJ",
            "+3 %",
            "main",
            "a=b",
            "[idle]",
            "'x",
        ] {
            assert_eq!(harmless(cell), cell);
        }
    }

    /// Lines are CSV all the same.
    #[test]
    fn lines() {
        let mut out = Vec::new();
        let mut cells = Cells::new(&mut out);
        cells.line(["a", "=b,\"c\""]).unwrap();
        cells.line(["-1", ""]).unwrap();
        cells.flush().unwrap();
        drop(cells);
        assert_eq!(String::from_utf8(out).unwrap(), "a,\"'=b,\"\"c\"\"\"\n-1,\n");
    }
}
