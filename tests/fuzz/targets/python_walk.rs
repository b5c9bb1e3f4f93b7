//! The Python walker on any memory and by any layout that user space would hand over: to an end, within bounded reads.
#![no_main]

use arbitrary::Arbitrary;
use energy_trace_fuzz::Arena;
use libfuzzer_sys::fuzz_target;
use tracer_ebpf::cycle::CycleDetector;
use tracer_ebpf::memory::FRAME_WORDS;
use tracer_ebpf::python::{PythonWalk, Step, begin, first_thread, step, thread_by_key};
use tracer_ebpf::wire::{MAX_FRAMES, PythonLayout};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    thread_pointer: u64,
    thread: u64,
    places: (u64, u64),
    offsets: [u32; 7],
    words: [u8; 4],
    shifts: [u8; 4],
    frame_words: u8,
    memory: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    // Words within a frame: what `debug_offsets` and the measured tables promise.
    let word = |word: u8| word % (FRAME_WORDS as u8 - 1);
    let layout = PythonLayout {
        tss_key_at: input.places.0,
        interpreter_at: input.places.1,
        tsd_block: input.offsets[0],
        threads_head: input.offsets[1],
        thread_next: input.offsets[2],
        thread_id: input.offsets[3],
        thread_frame: input.offsets[4],
        cframe_frame: input.offsets[5],
        cframe_previous: input.offsets[6],
        frame_bytes: (u32::from(input.frame_words) % FRAME_WORDS as u32 + 1) * 8,
        code_word: word(input.words[0]),
        previous_word: word(input.words[1]),
        instruction_word: word(input.words[2]),
        flags_word: word(input.words[3]),
        owner_shift: input.shifts[0],
        entry_shift: input.shifts[1],
        shim_owner: input.shifts[2],
        tag_mask: input.shifts[3],
        ..PythonLayout::default()
    };
    let memory = Arena::of(input.memory);
    thread_by_key(&layout, input.thread_pointer, &memory);
    first_thread(&layout, &memory);
    let mut walk = PythonWalk {
        thread: 0,
        frame: 0,
        cframe: 0,
        root_cframe: 0,
        unproved: 0,
        cycle: CycleDetector::new(),
        words: [0; FRAME_WORDS],
        all_classes: 0,
        last_first: 0,
        last_class: 0,
    };
    if begin(&layout, input.thread, &mut walk, &memory).is_ok() {
        for _ in 0..MAX_FRAMES {
            if let Step::End(_) = step(&layout, &mut walk, &memory) {
                break;
            }
        }
    }
});
