//! Row tables against gimli: at every address where a rule begins or ends, and just before it, a step of the product's walker by the
//! product's rows must find the caller that gimli finds by the file's own unwind information.
//!
//! Both take the step on an invented machine, so that what is compared is numbers, not rules. `cargo xtask check-rows` runs the same
//! check over the libraries of a machine and prints its figures; here it is libc and Python. Leaves out rules that rows cannot express:
//! they are counted by kind, and the walker stops at them.

mod oracle;

use energy_trace_unwind::cfi::{Rows, build_rows};
use energy_trace_unwind::elf::{ElfFacts, read_eh_frame};
use oracle::{BP, Caller, Oracle, SP, register, word_at};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{NativeWalk, Tables, place, step};
use tracer_ebpf::rows::{FullRule, Rule, base, rule};
use tracer_ebpf::wire::end;

/// The product's rows of one file.
struct Table {
    rows: Rows,
    base: u64,
}

impl Table {
    fn find(&self, pc: u64) -> Option<Rule> {
        let place = pc.checked_sub(self.base)?;
        let rows = &self.rows.rows;
        let after = rows.partition_point(|row| row >> 32 <= place);
        Some(Rule((rows.get(after.checked_sub(1)?)? & 0xffff_ffff) as u32))
    }
}

impl Tables for &Table {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        self.find(pc).ok_or(end::NO_UNWIND_INFO)
    }

    fn full(&mut self, index: u32) -> Option<FullRule> {
        self.rows.full.get(index as usize).copied()
    }

    fn interrupted(&mut self, number: u32) -> Option<u64> {
        Some(register(gimli::Register(u16::try_from(number).ok()?), 0))
    }
}

struct Invented;

impl Memory for Invented {
    fn read_word(&self, address: u64) -> Option<u64> {
        Some(word_at(address))
    }

    fn read_frame(&self, _: u64, _: u32, _: &mut [u64; FRAME_WORDS]) -> bool {
        false
    }
}

/// The figures of one file.
#[derive(Default)]
struct Figures {
    rows: usize,
    /// Rows that lead to a rule in full.
    full: usize,
    /// Rules in full.
    rules: Vec<FullRule>,
    addresses: usize,
    differing: usize,
    /// Some of the differences, in words.
    examples: Vec<String>,
    /// Bytes of code that have unwind information.
    bytes: u64,
    /// Bytes of code whose rule rows cannot express, by its kind.
    inexpressible: BTreeMap<String, u64>,
}

/// Compares a file; `None` where it is not ELF for this machine, or has no unwind information.
fn check(path: &Path) -> Option<Figures> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let elf = object::File::parse(bytes.as_slice()).ok()?;
    let mut oracle = Oracle::of(&elf)?;
    let file = std::fs::File::open(path).unwrap();
    let base = ElfFacts::read(&file, &[]).unwrap().base;
    let table = Table { rows: build_rows(&read_eh_frame(&file).unwrap()?, base), base };
    let leads = |row: &&u64| Rule((**row & 0xffff_ffff) as u32).kind() == rule::FULL;
    let full = table.rows.rows.iter().filter(leads).count();
    let rules = table.rows.full.clone();
    let mut figures = Figures { rows: table.rows.rows.len(), full, rules, ..Figures::default() };
    let mut addresses = oracle.boundaries();
    for stretch in addresses.windows(2) {
        measure(&table, &mut oracle, stretch[0], stretch[1] - stretch[0], &mut figures);
    }
    addresses.extend(table.rows.rows.iter().map(|row| base + (row >> 32)));
    let starts = addresses.clone();
    for start in starts {
        addresses.push(start.wrapping_sub(1));
        // The PLT's rule depends on the place inside an entry.
        if table.find(start).is_some_and(|rule| rule.kind() == rule::PLT) {
            addresses.extend(start..start + 32);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    for pc in addresses {
        compare(&table, &mut oracle, pc, &mut figures);
    }
    Some(figures)
}

/// Counts the bytes of a stretch of code under one rule.
fn measure(table: &Table, oracle: &mut Oracle<'_>, pc: u64, bytes: u64, figures: &mut Figures) {
    match table.find(pc).map(Rule::kind) {
        None | Some(rule::NONE) => return,
        Some(rule::UNSUPPORTED) => *figures.inexpressible.entry(oracle.kind(pc)).or_default() += bytes,
        Some(_) => (),
    }
    figures.bytes += bytes;
}

fn compare(table: &Table, oracle: &mut Oracle<'_>, pc: u64, figures: &mut Figures) {
    figures.addresses += 1;
    let truth = oracle.caller(pc);
    let (callee_saved_at, others_at) = (place::INTERRUPTED, place::INTERRUPTED);
    let mut walk = NativeWalk { pc, sp: SP, fp: BP, returned: 0, callee_saved_at, others_at };
    let code = step(&mut walk, &mut &*table, &Invented).1;
    let same = match (code, truth) {
        (end::UNSUPPORTED, _) => true, // The walker stops and says so; how much code that is, is measured.
        (end::RUNNING, Caller::Frame { pc, sp, fp, bx }) => {
            let found = match walk.callee_saved_at {
                place::UNKNOWN => None, // The walker would stop where it is needed.
                place::INTERRUPTED => Some(word_at(u64::from(base::CALLEE_SAVED))),
                at => Some(word_at(at)),
            };
            let equal = |ours: u64, theirs: Option<u64>| theirs.is_none_or(|theirs| ours == theirs);
            walk.pc == pc && walk.sp == sp && equal(walk.fp, fp) && found.is_none_or(|found| equal(found, bx))
        }
        (end::COMPLETE, Caller::Outermost) | (end::NO_UNWIND_INFO, Caller::NoInfo | Caller::Damaged) => true,
        _ => false,
    };
    if !same {
        figures.differing += 1;
        if figures.examples.len() < 5 {
            let rule = table.find(pc);
            figures.examples.push(format!("{pc:#x}: {truth:x?}, but {code} {walk:x?} by {rule:x?}"));
        }
    }
}

/// The rows of libc and of the system's Python say what the files say, and nearly every rule can be expressed.
#[test]
fn rows_of_libc_and_python() {
    for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3"] {
        let figures = check(Path::new(path)).unwrap();
        assert!(figures.rows > 10_000, "{path}: {} rows", figures.rows);
        assert_eq!(figures.differing, 0, "{path}: {:#?}", figures.examples);
        let unknown: u64 = figures.inexpressible.values().sum();
        assert!(unknown * 5000 < figures.bytes, "{path}: {:?}", figures.inexpressible);
    }
}

/// The same for every file that `ENERGY_TRACE_ELF_FILES` names (one a line), with figures.
#[test]
#[ignore = "minutes for large libraries; cargo xtask check-rows runs it"]
fn rows_of_given_files() {
    let files = std::env::var("ENERGY_TRACE_ELF_FILES").unwrap();
    let (mut checked, mut rows, mut addresses, mut differing, mut bytes) = (0, 0, 0, 0, 0);
    let mut inexpressible: BTreeMap<String, u64> = BTreeMap::new();
    let mut full = HashSet::new();
    println!(
        "{:>10} {:>7} {:>10} {:>11} {:>14}",
        "rows", "in full", "addresses", "differences", "inexpressible"
    );
    for path in files.lines() {
        let Some(figures) = check(Path::new(path)) else {
            println!("{path}: no unwind information");
            continue;
        };
        let unknown: u64 = figures.inexpressible.values().sum();
        let (r, a, d) = (figures.rows, figures.addresses, figures.differing);
        println!("{r:>10} {:>7} {a:>10} {d:>11} {unknown:>14}  {path}", figures.full);
        full.extend(figures.rules);
        for example in &figures.examples {
            println!("    {example}");
        }
        (checked, rows, addresses, differing) = (checked + 1, rows + r, addresses + a, differing + d);
        bytes += figures.bytes;
        for (kind, count) in figures.inexpressible {
            *inexpressible.entry(kind).or_default() += count;
        }
    }
    println!(
        "{rows:>10} {:>7} {addresses:>10} {differing:>11} {:>14}  {checked} files",
        full.len(),
        inexpressible.values().sum::<u64>()
    );
    let mut kinds: Vec<_> = inexpressible.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (kind, count) in kinds {
        println!("{count:>10} of {bytes} bytes of code: {kind}");
    }
    assert_eq!(differing, 0, "rows differ from what gimli says");
}
