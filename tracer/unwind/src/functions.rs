//! Functions of an ELF file by patterns of their names, for calls that are counted.
//!
//! Belongs to the resolver, as `elf.rs` does. Leaves out which patterns there are (`probe/count`).

use super::elf::{Elf, ElfError, named_symbols, with_elf};
use energy_trace_model::recording::names::cut;
use energy_trace_names::patterns::{bare, glob};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SectionFlags, SegmentFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A function that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its place in the file.
    pub offset: u64,
    /// Its demangled name.
    pub name: String,
    /// Which of the patterns it matches, by their places in the list.
    pub patterns: Vec<usize>,
    /// The first bytes of its code, 16 at most.
    pub code: Vec<u8>,
}

/// Bytes of code that tell where a probe costs least.
const CODE_BYTES: usize = 16;

/// The functions whose names match any of the patterns, each place once, `most` of them at the most.
///
/// # Errors
/// When the file is no ELF file, or a damaged one.
pub fn find_functions(file: &File, patterns: &[String], most: usize) -> Result<Vec<Function>, ElfError> {
    let patterns: Vec<Pattern<'_>> = patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
    let mut found = with_elf(file, |elf| {
        let mut found = BTreeMap::new();
        for symbol in named_symbols(elf).filter(|symbol| symbol.is_code) {
            if found.len() >= most {
                break;
            }
            let Some((name, patterns)) = matching(&patterns, symbol.name) else { continue };
            if let Some(offset) = file_offset(elf, symbol.address) {
                found.entry(offset).or_insert(Function {
                    offset,
                    name: cut(name),
                    patterns,
                    code: Vec::new(),
                });
            }
        }
        Ok(found)
    })?;
    for (&offset, function) in &mut found {
        let mut code = vec![0; CODE_BYTES];
        let read = file.read_at(&mut code, offset).unwrap_or(0);
        code.truncate(read);
        function.code = code;
    }
    Ok(found.into_values().collect())
}

/// The place of code in the file. A probe on data would change it: the kernel looks at no rights of a mapping that nobody may write.
/// Linkers may put data into a segment of code (`-z noseparate-code`).
fn file_offset(elf: &Elf<'_>, svma: u64) -> Option<u64> {
    elf.sections().find(|section| {
        let executed = u64::from(object::elf::SHF_EXECINSTR);
        let is_code = matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & executed != 0);
        is_code && section.address() <= svma && svma - section.address() < section.size()
    })?;
    let segment = elf.segments().find(|segment| {
        let (_, size) = segment.file_range();
        let is_code =
            matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0);
        is_code && segment.address() <= svma && svma - segment.address() < size
    })?;
    (svma - segment.address()).checked_add(segment.file_range().0)
}

/// The demangled name and which patterns it matches, if it matches one.
fn matching(patterns: &[Pattern<'_>], symbol: &str) -> Option<(String, Vec<usize>)> {
    let may = patterns.iter().any(|pattern| pattern.may_match(symbol));
    // A part of a function that the compiler put elsewhere is not called.
    let is_part = symbol.contains(".cold") || symbol.contains(".part.");
    if !may || is_part {
        return None;
    }
    let name = demangled(symbol);
    let matched = patterns.iter().enumerate().filter(|(_, pattern)| pattern.matches(&name));
    let matched: Vec<usize> = matched.map(|(position, _)| position).collect();
    (!matched.is_empty()).then_some((name, matched))
}

fn demangled(symbol: &str) -> String {
    if symbol.starts_with("_R") {
        return symbol.to_owned();
    }
    let parsed = symbol.starts_with("_Z").then(|| cpp_demangle::Symbol::new(symbol).ok()).flatten();
    let name = parsed.and_then(|parsed| parsed.demangle().ok());
    name.unwrap_or_else(|| symbol.split('@').next().unwrap_or(symbol).to_owned())
}

/// A name without its parameters, in which `*` stands for any characters.
struct Pattern<'a> {
    parts: Vec<&'a str>,
    /// Words that the mangled name must hold too.
    words: Vec<&'a str>,
}

impl<'a> Pattern<'a> {
    fn new(text: &'a str) -> Self {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
        Self { parts: text.split('*').collect(), words: words.collect() }
    }

    fn may_match(&self, symbol: &str) -> bool {
        self.words.iter().all(|word| symbol.contains(word))
    }

    fn matches(&self, name: &str) -> bool {
        bare(name).is_some_and(|name| glob(&self.parts, name))
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, demangled, find_functions, matching};
    use crate::arch::tests::library;
    use std::fs::File;

    fn names(pattern: &str, symbol: &str) -> Option<String> {
        matching(&[Pattern::new(pattern)], symbol).map(|(name, _)| name)
    }

    /// A pattern is the demangled name without its parameters; what only lies in such a function is not it.
    #[test]
    fn patterns() {
        let call = "_ZN2at4_ops6matmul4callERKNS_6TensorES4_";
        assert!(names("at::_ops::*::call", call).unwrap().starts_with("at::_ops::matmul::call("));
        assert_eq!(names("at::_ops::*::redispatch", call), None);
        assert_eq!(names("at::_ops::*", &format!("{call}.cold")), None);
        assert!(names("TF_SessionRun", "TF_SessionRun").is_some());
        assert_eq!(names("TF_Session", "TF_SessionRun"), None);
        assert!(names("TF_*Run", "TF_SessionRun").is_some());
        let lambda = "_ZZN5torch8autogradL15THPVariable_catEP7_objectS2_S2_ENKUlvE_clEv";
        assert_eq!(names("torch::autograd::THPVariable_*", lambda), None, "{}", demangled(lambda));
    }

    /// The functions of a real file are found at their places, each with all its patterns; a file that is none is an error.
    #[test]
    fn functions_of_a_file() {
        let libc = library("libc.so.6");
        let found =
            find_functions(&libc, &["getpid".into(), "pthread_*".into(), "get*".into()], 1000).unwrap();
        let patterns_of = |name: &str| &found.iter().find(|function| function.name == name).unwrap().patterns;
        assert_eq!((patterns_of("getpid"), patterns_of("pthread_create")), (&vec![0, 2], &vec![1]));
        assert!(found.len() > 20 && found.windows(2).all(|pair| pair[0].offset < pair[1].offset));
        assert!(
            found
                .iter()
                .all(|function| function.code.len() == 16 && function.code.iter().any(|&byte| byte != 0))
        );
        assert_eq!(find_functions(&libc, &["pthread_*".into()], 3).unwrap().len(), 3);
        assert!(find_functions(&File::open("/etc/passwd").unwrap(), &["x".into()], 1).is_err());
    }
}
