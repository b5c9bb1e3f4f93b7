//! How much the kernel's verifier has to look at, by program: a change that makes it much more must be seen when it is made.
//!
//! Kernels verify differently, so the table (`fixtures/verified_instructions.csv`) has rows for each; on a kernel without rows those of
//! another are the measure, within twice. `cargo xtask verifier` writes the rows of the running kernel anew. Leaves out how long it takes: it is printed.

use energy_trace_probe::{GroupId, TraceConfig, Tracer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tenth of what the kernel takes (1,000,000: `BPF_COMPLEXITY_LIMIT_INSNS`, include/linux/bpf.h, v6.1).
const LIMIT: u32 = 100_000;
/// How far a count may lie from the table's, in percent: compilers order instructions differently.
const TOLERANCE: u32 = 10;

fn table_path() -> PathBuf {
    energy_trace_tests::process::tests_dir().join("fixtures/verified_instructions.csv")
}

/// Instructions by kernel and program.
fn read_table() -> BTreeMap<(String, String), u32> {
    let text = std::fs::read_to_string(table_path()).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.map(|row| ((row[0].to_owned(), row[1].to_owned()), row[2].parse().unwrap())).collect()
}

/// Version and level of the running kernel, such as `6.18`.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn load(oldest_kernel: bool) -> Tracer {
    Tracer::load(&TraceConfig {
        group: Some(GroupId { number: 1, hierarchy: 0 }),
        user: Some(1),
        gpu: true,
        count: true,
        ranges: true,
        range_probes: true,
        oldest_kernel,
        ..TraceConfig::least("/".into())
    })
    .unwrap()
}

/// Every program stays close to its row, and far from the kernel's limit, with this kernel's helpers and with those of the oldest.
#[test]
fn programs_are_verified_as_cheaply_as_before() {
    let (table, kernel) = (read_table(), kernel());
    let known = table.keys().any(|(of, _)| *of == kernel);
    if !known {
        println!(
            "no rows for kernel {kernel}: within twice those of another kernel; add some: `cargo xtask verifier`"
        );
    }
    let (newest, oldest) = (load(false), load(true));
    for program in newest.loaded().iter().chain(oldest.loaded()) {
        println!(
            "{kernel} {}: {:?} instructions in {:?}",
            program.name, program.verified_instructions, program.took
        );
        let Some(count) = program.verified_instructions else { continue };
        assert!(count <= LIMIT, "{}: {count} instructions, more than {LIMIT}", program.name);
        let is_its = |of: &str, name: &str| name == program.name && (!known || of == kernel);
        let row = table.iter().filter(|((of, name), _)| is_its(of, name)).map(|(_, row)| *row).max();
        let row = row.unwrap_or_else(|| panic!("no row for {}: run `cargo xtask verifier`", program.name));
        let tolerance = if known { TOLERANCE } else { 100 };
        assert!(
            count.abs_diff(row) <= (row * tolerance / 100).max(20),
            "{}: {count} instructions, the table says {row}; if that is meant: `cargo xtask verifier`",
            program.name
        );
    }
}

/// Writes the rows of the running kernel; `cargo xtask verifier` runs it.
#[test]
#[ignore = "writes the table; cargo xtask verifier runs it"]
fn write_rows_of_this_kernel() {
    let (mut table, kernel) = (read_table(), kernel());
    table.retain(|(of, _), _| *of != kernel);
    for program in load(false).loaded() {
        println!(
            "{kernel} {}: {:?} instructions in {:?}",
            program.name, program.verified_instructions, program.took
        );
        let count = program.verified_instructions.unwrap();
        table.insert((kernel.clone(), program.name.to_owned()), count);
    }
    let rows: String = table.iter().map(|((of, name), count)| format!("{of},{name},{count}\n")).collect();
    std::fs::write(table_path(), format!("kernel,program,instructions\n{rows}")).unwrap();
}
