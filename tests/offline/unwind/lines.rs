//! Line tables against the interpreter's own word: every instruction of the code objects of the standard library.
//!
//! `cargo xtask check-lines` runs the long form, the whole library of each interpreter, and prints the figures. Leaves out columns.

use energy_trace_tests::interpreters;
use energy_trace_tests::process::tests_dir;
use energy_trace_unwind::cpython::lines::LineTable;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What was compared under one interpreter.
#[derive(Default)]
struct Figures {
    codes: usize,
    instructions: usize,
    differences: usize,
    /// The first code object that differs.
    example: String,
}

/// Compares the files of the library that match a pattern.
fn compare(python: &Path, files: &str) -> Figures {
    let program = tests_dir().join("workloads/lines.py");
    let mut child = Command::new(python)
        .args(["-W", "ignore", program.to_str().unwrap(), files])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut figures = Figures::default();
    for code in BufReader::new(child.stdout.take().unwrap()).lines() {
        figures.take(&code.unwrap());
    }
    assert!(child.wait().unwrap().success(), "{}", python.display());
    figures
}

impl Figures {
    /// Takes in one code object.
    fn take(&mut self, code: &str) {
        let mut fields = code.split(' ');
        let (form, step) = match fields.next().unwrap() {
            "Lnotab" => (LineTable::Lnotab, 2),
            "Ranges" => (LineTable::Ranges, 1),
            _ => (LineTable::Locations, 1),
        };
        let first: u32 = fields.next().unwrap().parse().unwrap();
        let table = bytes_of(fields.next().unwrap().trim_matches('-'));
        let lines = fields.next().unwrap().split(',').map(|line| line.parse::<u32>().unwrap());
        self.codes += 1;
        let before = self.instructions;
        for (index, line) in (0u64..).step_by(step).zip(lines) {
            self.instructions += 1;
            if form.line_of(&table, first, index).unwrap_or(0) != line {
                self.differences += 1;
                if self.example.is_empty() {
                    self.example = format!("instruction {index} of {code}");
                }
            }
        }
        // The length of the bytecode by the table alone, which free-threaded builds need.
        let units = (self.instructions - before) as u64;
        self.differences += usize::from(form.units(&table).is_some_and(|told| told != units));
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// Compares under each interpreter of the machine; panics where one differs.
fn compare_all(files: &str, least: usize) {
    let mut wrong = Vec::new();
    for python in interpreters::supported() {
        let figures = compare(&python, files);
        let Figures { codes, instructions, differences, example } = &figures;
        eprintln!(
            "{:>7} code objects {instructions:>9} instructions {differences:>3} differences  {}",
            codes,
            python.display()
        );
        if *differences > 0 || *instructions < least {
            wrong.push(format!("{}: {instructions} compared, {example}", python.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every instruction of some modules of the standard library has the line that the interpreter itself gives it, whatever the version's
/// format.
#[test]
fn some_modules() {
    compare_all("/[a-d]*.py", 10_000);
}

/// The same of the whole library.
#[test]
#[ignore = "takes minutes: cargo xtask check-lines runs it"]
fn whole_library() {
    compare_all("/**/*.py", 500_000);
}
