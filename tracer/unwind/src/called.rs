//! Functions of a stripped file, as far as its unwind information says nothing of them: musl's `libc.so`, or hand-written assembly in the middle of a
//! library (MLAS in ONNX Runtime).
//!
//! They begin where something names them: what is exported, what is called directly, what the code takes the address of, and what tables of
//! pointers hold. A place that is no function's begin costs rows, and makes no wrong ones: what begins there does not find the stack as a
//! caller left it (`code_rows.rs`). Leaves out pointers that need no relocation (of programs that are not position-independent) and packed
//! relocations (`DT_RELR`).

use super::arch::{RELATIVE_RELOCATION, instruction};
use super::believed::MOST_ROWS;
use super::cfi::each_fde;
use super::eh_frame::{FrameBytes, FrameFile};
use super::elf::{Elf, exported_code, find_unwind_sections};
use energy_trace_model::collections::Fill as _;
use object::{Object as _, ObjectSection as _, RelocationFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;

/// The most code in which functions are looked for: all of it is in memory, and a look at each byte takes some 3 ns.
const MOST_SEARCHED: u64 = 32 << 20;
/// The shortest stretch without unwind information for which that is worth it: compilers leave shorter ones (padding, `_start`).
const SHORTEST: u64 = 1 << 10;

/// Functions (SVMA) of long stretches of code without unwind information. Each ends where the next one, or unwind information, begins.
pub(super) fn called_functions(file: &File, elf: &Elf<'_>) -> Option<Vec<Range<u64>>> {
    let text = elf.section_by_name(".text").filter(|text| text.size() <= MOST_SEARCHED)?;
    let start = text.address();
    let all = start..start.checked_add(text.size())?;
    let [frames, _] = find_unwind_sections(elf);
    let mut frames = frames.map(|place| FrameFile::at(file, place)).transpose().ok()?;
    let bare = bare_stretches(frames.as_mut(), all, SHORTEST);
    let code = if bare.is_empty() { return None } else { text.data().ok()? };
    let named = exported_code(elf).into_iter().chain(pointers(elf)).chain(instruction::named_places(
        code,
        start,
        |at| is_in(&bare, at),
    ));
    let mut begins: BTreeSet<u64> = named.filter(|&at| is_in(&bare, at)).fill_set();
    begins.extend(bare.iter().map(|stretch| stretch.end));
    let begins: Vec<u64> = begins.into_iter().collect();
    let functions = begins.windows(2).map(|pair| pair[0]..pair[1]);
    Some(functions.filter(|function| is_in(&bare, function.start)).collect())
}

/// Parts of some code (SVMA) of which the unwind information says nothing, in order: those of at least so many bytes.
fn bare_stretches(section: Option<&mut impl FrameBytes>, code: Range<u64>, least: u64) -> Vec<Range<u64>> {
    let mut said = Vec::new();
    if let Some(section) = section {
        each_fde(section, |_, _, fde| {
            said.extend(fde.map(|fde| fde.initial_address()..fde.end_address()));
            said.len() < MOST_ROWS
        });
    }
    said.push(code.end..code.end);
    said.sort_unstable_by_key(|part| part.start);
    let (mut bare, mut from) = (Vec::new(), code.start);
    for part in said {
        let to = part.start.min(code.end);
        if to.checked_sub(from).is_some_and(|bytes| bytes >= least) {
            bare.push(from..to);
        }
        from = from.max(part.end);
    }
    bare
}

/// Whether an address is in one of some stretches, which are in order.
fn is_in(stretches: &[Range<u64>], at: u64) -> bool {
    let behind = stretches.partition_point(|stretch| stretch.start <= at);
    stretches.get(..behind).and_then(<[_]>::last).is_some_and(|stretch| stretch.contains(&at))
}

/// What the file holds pointers to (SVMA).
fn pointers(elf: &Elf<'_>) -> impl Iterator<Item = u64> {
    const RELATIVE: RelocationFlags = RelocationFlags::Elf { r_type: RELATIVE_RELOCATION };
    let moved = elf.dynamic_relocations().into_iter().flatten();
    moved.filter(|(_, moved)| moved.flags() == RELATIVE).map(|(_, moved)| moved.addend().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use crate::arch::tests::compiler;
    use crate::cfi::{Rows, read_rows};
    use crate::elf::ElfFacts;
    use crate::fde::UnwindFile;
    use std::fs::File;
    use tracer_ebpf::rows::Rule;

    /// A function of a library: where it begins, and its bytes.
    type Function = (String, u64, u64);

    /// Some functions of a library that is made of this source, and its rows: before it was stripped, and after. The search at the moment says
    /// the same as the rows made beforehand.
    fn stripped(source: &str, options: &[&str], names: &[&str]) -> (Vec<Function>, u64, [Rows; 2]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.c"), source).unwrap();
        let library = |name: &str, strip: &[&str]| {
            let mut gcc = compiler();
            gcc.args(["-O2", "-g0", "-shared", "-fPIC", "-o", name]).args(options).args(strip).arg("a.c");
            assert!(gcc.current_dir(folder.path()).status().unwrap().success());
            File::open(folder.path().join(name)).unwrap()
        };
        let (whole, stripped) = (library("whole", &[]), library("stripped", &["-s"]));
        let facts = ElfFacts::read(&whole, names).unwrap();
        assert_eq!(facts.symbols.len(), names.len());
        assert!(ElfFacts::read(&stripped, names).unwrap().symbols.len() < names.len(), "it is not stripped");
        let both = [&whole, &stripped].map(|file| read_rows(file, facts.base).unwrap());
        let mut asked = UnwindFile::open(stripped).unwrap();
        for svma in facts.symbols.iter().flat_map(|&(_, start, size)| start..start + size) {
            assert_eq!(asked.rule(svma).0, both[1].rule(svma - facts.base).0, "{svma:#x}");
        }
        (facts.symbols, facts.base, both)
    }

    /// Of a stripped library without unwind information: functions that are only called, or only handed on, have the same rows as before it was
    /// stripped.
    #[test]
    fn functions_of_a_stripped_file() {
        let names = ["handed_on", "only_called", "exported"];
        let (functions, base, [before, after]) =
            stripped(HANDED_ON, &["-fno-asynchronous-unwind-tables"], &names);
        for (name, start, size) in functions {
            assert_ne!(after.rule(start - base).0, Rule::NONE, "{name}");
            for place in (start - base..).take(size as usize) {
                assert_eq!(after.rule(place), before.rule(place), "{name} at {place:#x}");
            }
        }
    }

    /// A library whose code is mostly padding, so that the few frames of its start files are nearly nothing.
    const HANDED_ON: &str = r#"
        __asm__(".text\n.skip 65536, 0x90");
        int work(const int *);
        static __attribute__((noinline)) int only_called(int x) { int of[100] = {x}; return work(of) + 1; }
        static __attribute__((noinline)) int handed_on(int x) { int of[50] = {x}; return only_called(work(of)) + x; }
        int each(int (*)(int), int);
        int exported(int x) { return each(handed_on, x) + only_called(x); }
    "#;

    /// Assembly without unwind information in a stripped library that has it for the rest: functions that are called, whose address is taken or
    /// that stand in a table have the rows of before. Where an address leads into the middle of one, its rest has none, and no wrong ones.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn kernels_in_the_middle_of_a_file() {
        let names = ["called", "taken", "in_table", "divided", "unnamed"];
        let (functions, base, [before, after]) = stripped(KERNELS, &[], &names);
        for (name, start, size) in functions {
            let places = (start - base..).take(size as usize);
            let known = places.clone().filter(|&place| after.rule(place).0 != Rule::NONE).count() as u64;
            for place in places.filter(|&place| after.rule(place).0 != Rule::NONE) {
                assert_eq!(after.rule(place), before.rule(place), "{name} at {place:#x}");
            }
            let expected = match name.as_str() {
                "divided" => 1,
                "unnamed" => 0,
                _ => size,
            };
            assert_eq!(known, expected, "{name}");
        }
    }

    /// Kernels of the same code (`unnamed` is named by nothing), and how each is named.
    const KERNELS: &str = r#"
        #define KERNEL(name, mark) ".type " #name ", @function\n" #name ": push %rbx\n" mark \
            "sub $64, %rsp\n mov %rdi, (%rsp)\n add $64, %rsp\n pop %rbx\n ret\n.size " #name ", . - " #name "\n"
        __asm__(".text\n" KERNEL(called, "") ".skip 1024, 0x90\n" KERNEL(taken, "") KERNEL(in_table, "")
            KERNEL(divided, "middle:\n") KERNEL(unnamed, ""));
        #define HIDDEN __attribute__((visibility("hidden")))
        HIDDEN extern int called(int), taken(int), in_table(int), divided(int), middle(int);
        static int (*const volatile table[])(int) = {in_table, divided};
        int use(int (*)(int));
        int exported(int x) { return called(x) + use(taken) + use(middle) + table[x](x); }
    "#;
}
