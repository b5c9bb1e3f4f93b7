//! Any memory as `_Py_DebugOffsets` of every version that is known: a layout whose places are inside what the walkers read, or a refusal.
#![no_main]

use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::debug_offsets::read_layout;
use energy_trace_unwind::cpython::layout::Version;
use energy_trace_fuzz::Arena;
use libfuzzer_sys::fuzz_target;
use tracer_ebpf::memory::FRAME_WORDS;

fuzz_target!(|input: (u8, u64, u64, Vec<u8>)| {
    let (version, runtime, code, mut bytes) = input;
    let version = Version { hex: [0x030d_00f0, 0x030e_0af0, 0x030f_02f0][usize::from(version % 3)] };
    // The fuzzer need not find the first words: without them everything is refused.
    let (runtime, cookie) = (runtime & 0xff8, u64::from_ne_bytes(*b"xdebugpy"));
    for (at, word) in [(runtime, cookie), (runtime + 8, u64::from(version.hex))] {
        let at = (at % (bytes.len() as u64).max(1)) as usize;
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }
    let memory = Arena::of(&bytes);
    if let Ok(layout) = read_layout(&memory, runtime, version) {
        let walk = layout.walker(runtime);
        assert!(walk.frame_bytes as usize <= FRAME_WORDS * 8);
        for word in [walk.code_word, walk.previous_word, walk.instruction_word, walk.flags_word] {
            assert!(usize::from(word) < FRAME_WORDS);
        }
        if let Some(code) = CodeObject::read(&memory, &layout.code, code, runtime) {
            code.line_at(runtime);
        }
    }
});
