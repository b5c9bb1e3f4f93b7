//! Where coroutines begin on a stack that is not theirs: what lies further up is no caller of theirs.
//!
//! greenlet (and so gevent) copies stacks away and back at one place: above the first function of a greenlet lies what another one has left or
//! uses now. Leaves out coroutines with stacks of their own, whose first function says that it is the outermost (`__start_context`).

use super::elf::{Elf, find_symbols};
use object::ReadRef as _;
use std::ops::Range;

/// The first function of a greenlet (greenlet 1.0 to 3.5, `g_initialstub` in `src/greenlet`; before 2.0 in C).
const FIRST: [&str; 2] = ["_ZN8greenlet12UserGreenlet13g_initialstubEPv", "g_initialstub"];
/// Bytes that a file with such a function may have; symbols of larger ones are not looked through.
const MOST_BYTES: u64 = 8 << 20;

/// The functions of a file that coroutines begin with (SVMA); for most files none.
pub(super) fn first_functions(elf: &Elf<'_>) -> Vec<Range<u64>> {
    if elf.data().len().is_ok_and(|bytes| bytes > MOST_BYTES) {
        return Vec::new();
    }
    let symbols = find_symbols(elf, &FIRST);
    symbols.iter().map(|&(_, start, size)| start..start.saturating_add(size)).collect()
}

#[cfg(test)]
mod tests {
    use super::first_functions;
    use crate::arch::tests::compiler;
    use crate::elf::{ElfFacts, with_elf};
    use crate::fde::UnwindFile;
    use std::fs::File;
    use tracer_ebpf::rows::rule;

    /// A library with greenlet's first function: it is found, and nothing is above it; other functions have callers.
    #[test]
    fn the_first_function_of_a_greenlet() {
        let folder = tempfile::tempdir().unwrap();
        let source = "int other(int n) { return n; } int g_initialstub(int n) { return other(n) + 1; }";
        std::fs::write(folder.path().join("a.c"), source).unwrap();
        let mut cc = compiler();
        let made =
            cc.args(["-shared", "-fPIC", "-O1", "-o", "a.so", "a.c"]).current_dir(folder.path()).status();
        assert!(made.unwrap().success());
        let file = File::open(folder.path().join("a.so")).unwrap();
        let functions = ElfFacts::read(&file, &["g_initialstub", "other"]).unwrap();
        let at = |name| functions.symbol(name).unwrap();
        let first = with_elf(&file, |elf| Ok(first_functions(elf))).unwrap();
        assert_eq!(first.iter().map(|f| f.start).collect::<Vec<_>>(), [at("g_initialstub")]);
        let mut unwound = UnwindFile::open(file).unwrap();
        let mut kind = |name| unwound.rule(at(name)).0.kind();
        assert_eq!([kind("g_initialstub"), kind("other")], [rule::OUTERMOST, rule::SP]);
    }
}
