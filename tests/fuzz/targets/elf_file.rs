//! Any bytes as an ELF file: its facts, its functions, its debug link, its names, or an error.
#![no_main]

use energy_trace_unwind::cfi::{build_rows, function_starts};
use energy_trace_unwind::elf::{DebugSections, ElfFacts, read_eh_frame};
use energy_trace_fuzz::file_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (mapping, offset, bytes) = input;
    let (file, _path) = file_of(bytes);
    if let Ok(facts) = ElfFacts::read(&file, &["_PyRuntime", "main"]) {
        facts.bias(mapping, offset);
        facts.svma(offset).map(|svma| facts.file_offset(svma));
        facts.file_offset(offset);
        if let Ok(Some(section)) = read_eh_frame(&file) {
            build_rows(&section, facts.base);
        }
    }
    let _ = DebugSections::read(&file);
    function_starts(&file);
});
