//! Any memory as a code object of every layout that was measured.
#![no_main]

use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::layout::KNOWN;
use energy_trace_fuzz::Arena;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u64, u64, &[u8])| {
    let (layout, address, instruction, bytes) = input;
    let memory = Arena::of(bytes);
    let layout = &KNOWN[usize::from(layout) % KNOWN.len()];
    if let Some(code) = CodeObject::read(&memory, &layout.code, address, instruction) {
        code.line_at(instruction);
        code.line_at(address.wrapping_add(instruction & 0xffff));
    }
});
