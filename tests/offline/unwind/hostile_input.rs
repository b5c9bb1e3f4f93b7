//! What other processes and files say, at its worst: unwind information, ELF files and `/proc/PID/maps` that nobody meant.
//!
//! No panic, and what comes out still keeps its promises. Leaves out the walkers, which `offline/ebpf/walkers/mod.rs` treats likewise.

use energy_trace_tests::process::tests_dir;
use energy_trace_unwind::address_space::AddressSpace;
use energy_trace_unwind::cfi::{Rows, build_rows, function_starts, read_rows};
use energy_trace_unwind::elf::{EhFrame, ElfFacts, read_eh_frame};
use energy_trace_unwind::fde::UnwindFile;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::fs::File;
use std::io::Write as _;
use std::sync::LazyLock;
use tracer_ebpf::rows::{Rule, rule};

/// The unwind information of a small library of this machine.
static REAL: LazyLock<Option<EhFrame>> =
    LazyLock::new(|| read_eh_frame(&File::open("/lib/x86_64-linux-gnu/libgcc_s.so.1").ok()?).ok().flatten());
/// A small ELF file, whole.
static FILE: LazyLock<Vec<u8>> =
    LazyLock::new(|| std::fs::read("/lib/x86_64-linux-gnu/libdl.so.2").unwrap_or_default());

/// Changes to make: where, and to what.
fn changes() -> impl Strategy<Value = Vec<(Index, u8)>> {
    vec((any::<Index>(), any::<u8>()), 1..40)
}

fn apply(data: &mut [u8], changes: &[(Index, u8)]) {
    for (place, byte) in changes {
        if !data.is_empty() {
            data[place.index(data.len())] = *byte;
        }
    }
}

/// S4: of a page of code with 24 MiB of unwind information (12 million rows) no more is read than that code can need, however it is asked for; a
/// library with as many rows as its code has keeps all of them.
#[test]
fn more_unwind_information_than_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("much.so");
    let script = format!("import tiny; tiny.much_unwinding({:?}, 24)", path.to_str().unwrap());
    let mut python = std::process::Command::new("/usr/bin/python3");
    python.args(["-B", "-c", &script]).env("PYTHONPATH", tests_dir().join("hostile"));
    assert!(python.status().unwrap().success());
    let file = File::open(&path).unwrap();
    let rows = read_rows(&file, 0).unwrap();
    assert!(rows.too_many && rows.rows.len() <= 70_000, "{}", rows.rows.len());
    assert!(rows.rows.len() > 1_000 && function_starts(&file).len() < 100);
    let mut kept = UnwindFile::open(file).unwrap();
    assert!(kept.rule(0x1100).0.kind() == rule::SP, "its own code has a rule");
    let libc = File::open("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let whole = build_rows(&read_eh_frame(&libc).unwrap().unwrap(), 0);
    let read = read_rows(&libc, 0).unwrap();
    assert!(!read.too_many && read.rows.len() >= whole.rows.len(), "{}", read.rows.len());
}

/// What the probes' search relies on: rows in order, one for each address, and neighbours differ.
fn check(rows: &Rows) -> Result<(), TestCaseError> {
    for pair in rows.rows.windows(2) {
        prop_assert!(pair[0] >> 32 < pair[1] >> 32, "{pair:x?}");
        prop_assert!(pair[0] & 0xffff_ffff != pair[1] & 0xffff_ffff, "{pair:x?}");
    }
    let known = |row: &u64| Rule((row & 0xffff_ffff) as u32).kind() <= rule::FULL;
    prop_assert!(rows.rows.iter().all(known));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Any bytes as `.eh_frame`, at any address.
    #[test]
    fn rows_of_any_bytes(data in vec(any::<u8>(), 0..400), svma: u64, base: u64) {
        check(&build_rows(&EhFrame { data, svma }, base))?;
    }

    /// Real unwind information with some bytes changed and its end cut off.
    #[test]
    fn rows_of_changed_sections(changes in changes(), cut: Index, svma: Option<u64>, base in prop_oneof![Just(0), any::<u64>()]) {
        prop_assume!(REAL.is_some());
        let mut section = REAL.clone().unwrap_or(EhFrame { data: Vec::new(), svma: 0 });
        apply(&mut section.data, &changes);
        let keep = section.data.len() - cut.index(section.data.len() / 4 + 1);
        section.data.truncate(keep);
        section.svma = svma.unwrap_or(section.svma);
        check(&build_rows(&section, base))?;
    }

    /// An ELF file with some bytes of its headers changed: facts or an error.
    #[test]
    fn changed_files(changes in changes(), mapping: u64, offset: u64, address: u64) {
        let mut bytes = FILE.clone();
        prop_assert!(!bytes.is_empty());
        let headers = bytes.len().min(1000);
        apply(&mut bytes[..headers], &changes);
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        if let Ok(facts) = ElfFacts::read(&file, &["dlopen"]) {
            facts.bias(mapping, offset);
            for segment in &facts.code {
                facts.file_offset(segment.svma.wrapping_add(segment.size).wrapping_sub(1));
            }
            facts.file_offset(address);
        }
        function_starts(&file);
    }

    /// Any text as `maps`.
    #[test]
    fn maps_of_any_text(text in "(?s).{0,300}", at: u64) {
        AddressSpace::parse(&text).find(at);
    }

    /// Lines of the form of `maps` with any numbers: in order, and an address is found only where it is mapped.
    #[test]
    fn maps_of_any_lines(
        lines in vec((any::<u64>(), any::<u64>(), "[r-][w-][x-][ps]", any::<u32>(), any::<u64>(), "[ /a-z\\[\\]]{0,12}"), 0..20),
        at: u64,
    ) {
        let line = |(start, end, flags, offset, inode, path): &(u64, u64, String, u32, u64, String)| {
            format!("{start:x}-{end:x} {flags} {offset:x} fe:00 {inode} {path}\n")
        };
        let space = AddressSpace::parse(&lines.iter().map(line).collect::<String>());
        prop_assert_eq!(space.mappings().len(), lines.iter().filter(|line| line.2.contains('x')).count());
        prop_assert!(space.mappings().is_sorted_by_key(|mapping| mapping.start));
        let ends = space.mappings().iter().flat_map(|mapping| [mapping.start, mapping.end.wrapping_sub(1)]);
        for address in ends.chain([at]) {
            if let Some(found) = space.find(address) {
                prop_assert!((found.start..found.end).contains(&address));
            }
        }
    }
}
