//! Python walks over frames made by hand, as 3.10, 3.11 and 3.12 lay them out.

use super::snapshot::{Snapshot, python_walk};
use tracer_ebpf::python::{
    PythonFrame, Step, begin, first_thread, has_sub_interpreters, step, thread_by_key,
};
use tracer_ebpf::python_layout::object;
use tracer_ebpf::wire::{MAX_PYTHON_FRAMES, PythonLayout, end};

/// The thread pointer, and the thread state that belongs to it.
const FSBASE: u64 = 0x7f00_0000_1000;
pub(crate) const THREAD: u64 = 0x5500_0000_2000;

/// Offsets in the manner of 3.11: frames are in the heap, a `_PyCFrame` is in the C frame that evaluates.
pub(crate) fn layout_3_11() -> PythonLayout {
    PythonLayout {
        tss_key_at: 0x5500_0000_0100,
        interpreter_at: 0x5500_0000_0200,
        tsd_block: 0x310,
        threads_head: 16,
        thread_next: 8,
        thread_id: 152,
        thread_frame: 56,
        cframe_frame: 8,
        cframe_previous: 16,
        frame_bytes: 80,
        code_word: 4,
        previous_word: 6,
        instruction_word: 7,
        flags_word: 8,
        owner_shift: 40,
        entry_shift: 32,
        shim_owner: 3,
        ..PythonLayout::default()
    }
}

/// In the manner of 3.12: the entry frame of a run is a shim in the C frame that evaluates.
pub(crate) fn layout_3_12() -> PythonLayout {
    PythonLayout {
        cframe_frame: 0,
        cframe_previous: 8,
        code_word: 0,
        previous_word: 1,
        owner_shift: 48,
        entry_shift: PythonLayout::NO_SHIFT,
        ..layout_3_11()
    }
}

/// In the manner of 3.10: each frame is evaluated by a C frame of its own, which holds a `CFrame`; the last is in the thread state.
pub(crate) fn layout_3_10() -> PythonLayout {
    PythonLayout {
        thread_frame: 24,
        thread_cframe: 48,
        root_cframe: 280,
        cframe_frame: PythonLayout::ABSENT,
        cframe_previous: 8,
        code_word: 4,
        previous_word: 3,
        instruction_word: 9,
        flags_word: 0,
        owner_shift: PythonLayout::NO_SHIFT,
        entry_shift: PythonLayout::EVERY_FRAME,
        ..layout_3_11()
    }
}

/// Writes a frame: code object, caller, instruction, flags.
pub(crate) fn frame(memory: &mut Snapshot, layout: &PythonLayout, at: u64, fields: [u64; 4]) {
    let [code, previous, instruction, flags] = fields;
    let mut words = [0u64; 10];
    words[usize::from(layout.code_word)] = code;
    words[usize::from(layout.previous_word)] = previous;
    words[usize::from(layout.instruction_word)] = instruction;
    words[usize::from(layout.flags_word)] = flags;
    for (place, word) in (at..).step_by(8).zip(words) {
        memory.write(place, &word.to_le_bytes());
    }
}

pub(crate) fn walk(layout: &PythonLayout, memory: &Snapshot) -> (Vec<PythonFrame>, u8) {
    let mut walk = python_walk();
    if let Err(code) = begin(layout, THREAD, &mut walk, memory) {
        return (Vec::new(), code);
    }
    let mut frames = Vec::new();
    for _ in 0..MAX_PYTHON_FRAMES {
        match step(layout, &mut walk, memory) {
            Step::Frame(frame) => frames.push(frame),
            Step::Restart => frames.clear(),
            Step::End(code) => return (frames, code),
        }
    }
    (frames, end::TOO_DEEP)
}

pub(crate) const fn seen(code: u64, instruction: u64, anchor: u64) -> PythonFrame {
    PythonFrame { code, instruction, anchor, class: 0 }
}

/// 3.10: each frame has its `CFrame`; one that is left over belongs to an evaluation that has no frame yet.
#[test]
fn frames_of_3_10() {
    let layout = layout_3_10();
    let cframes = [0x7ffe_0000_1000, 0x7ffe_0000_2000, 0x7ffe_0000_3000];
    let mut memory = Snapshot::of(&[
        (THREAD + 24, 0xa00),
        (THREAD + 48, cframes[0]),
        (cframes[0] + 8, cframes[1]),
        (cframes[1] + 8, THREAD + 280),
    ]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, 0]);
    frame(&mut memory, &layout, 0xb00, [0xc2, 0, 0x22, 0]);
    let mut frames = vec![seen(0xc1, 0x11, cframes[0]), seen(0xc2, 0x22, cframes[1])];
    assert_eq!(walk(&layout, &memory), (frames.clone(), end::COMPLETE));
    memory.write(cframes[1] + 8, &cframes[2].to_le_bytes());
    memory.write(cframes[2] + 8, &(THREAD + 280).to_le_bytes());
    frames.push(seen(0, 0, cframes[2]));
    assert_eq!(walk(&layout, &memory), (frames, end::COMPLETE));
}

/// 3.11: the entry frame of each run carries the `_PyCFrame` of its evaluation, innermost first.
#[test]
fn frames_of_3_11() {
    const ENTRY: u64 = 1 << 32;
    let layout = layout_3_11();
    let mut memory = Snapshot::of(&[
        (THREAD + 56, 0x7ffe_0000_1000),
        (0x7ffe_0000_1000 + 8, 0xa00),
        (0x7ffe_0000_1000 + 16, 0x7ffe_0000_2000),
        (0x7ffe_0000_2000 + 8, 0xc00),
        (0x7ffe_0000_2000 + 16, THREAD + 300),
        (THREAD + 300 + 8, 0),
    ]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, 0]);
    frame(&mut memory, &layout, 0xb00, [0xc2, 0xc00, 0x22, ENTRY]);
    frame(&mut memory, &layout, 0xc00, [0xc3, 0, 0x33, ENTRY]);
    let frames =
        vec![seen(0xc1, 0x11, 0), seen(0xc2, 0x22, 0x7ffe_0000_1000), seen(0xc3, 0x33, 0x7ffe_0000_2000)];
    assert_eq!(walk(&layout, &memory), (frames, end::COMPLETE));
}

/// 3.12: a thread with two evaluations, whose innermost frames are at 0xa00 and 0xd00.
pub(crate) fn two_evaluations_of_3_12() -> Snapshot {
    Snapshot::of(&[
        (THREAD + 56, 0x7ffe_0000_0800),
        (0x7ffe_0000_0800, 0xa00),
        (0x7ffe_0000_0800 + 8, 0x7ffe_0000_1800),
        (0x7ffe_0000_1800, 0xd00),
        (0x7ffe_0000_1800 + 8, THREAD + 300),
        (THREAD + 300, 0),
    ])
}

/// 3.12: a shim has no code object and is its run's anchor; generators' frames (owner 1) are frames like others.
#[test]
fn frames_of_3_12() {
    const GENERATOR: u64 = 1 << 48;
    const SHIM: u64 = 3 << 48;
    let layout = layout_3_12();
    let mut memory = two_evaluations_of_3_12();
    frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, GENERATOR]);
    frame(&mut memory, &layout, 0xb00, [0xc2, 0x7ffe_0000_1000, 0x22, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_1000, [0xdead, 0xd00, 0, SHIM]);
    frame(&mut memory, &layout, 0xd00, [0xc3, 0x7ffe_0000_2000, 0x33, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_2000, [0xdead, 0, 0, SHIM]);
    let frames = vec![
        seen(0xc1, 0x11, 0),
        seen(0xc2, 0x22, 0),
        seen(0, 0, 0x7ffe_0000_1000),
        seen(0xc3, 0x33, 0),
        seen(0, 0, 0x7ffe_0000_2000),
    ];
    assert_eq!(walk(&layout, &memory), (frames, end::COMPLETE));
}

/// 3.12: an evaluation that has chained its `_PyCFrame` but not filled in its frame, which is what an earlier call left there, is passed
/// over: the walk begins at its caller.
#[test]
fn an_evaluation_without_a_frame_yet() {
    const SHIM: u64 = 3 << 48;
    let layout = layout_3_12();
    let mut memory = two_evaluations_of_3_12();
    frame(&mut memory, &layout, 0xa00, [0xdead, 0x7ffe_0000_1000, 0x11, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_1000, [0xdead, 0xbad, 0, SHIM]);
    frame(&mut memory, &layout, 0xd00, [0xc3, 0x7ffe_0000_2000, 0x33, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_2000, [0xdead, 0, 0, SHIM]);
    let frames = vec![seen(0xc3, 0x33, 0), seen(0, 0, 0x7ffe_0000_2000)];
    assert_eq!(walk(&layout, &memory), (frames, end::COMPLETE));
}

/// A frame that cannot be read ends the walk with the frames so far; a thread without frames is complete.
#[test]
fn frames_that_cannot_be_read() {
    let layout = layout_3_12();
    let mut memory = Snapshot::of(&[(THREAD + 56, THREAD + 300), (THREAD + 300, 0xa00)]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, 0]);
    assert_eq!(walk(&layout, &memory), (vec![seen(0xc1, 0x11, 0)], end::FAULT));
    memory.write(THREAD + 300, &0u64.to_le_bytes());
    assert_eq!(walk(&layout, &memory), (Vec::new(), end::COMPLETE));
    assert_eq!(walk(&layout, &Snapshot::default()), (Vec::new(), end::FAULT));
}

/// The thread state is believed only if it says that it is this thread's.
#[test]
fn thread_states() {
    let layout = layout_3_12();
    let words = [
        (layout.tss_key_at, 5),
        (FSBASE + 0x310 + 16 * 5 + 8, THREAD),
        (THREAD + 152, FSBASE),
        (layout.interpreter_at, 0x5500_0000_4000),
        (0x5500_0000_4000 + 16, THREAD),
    ];
    let mut memory = Snapshot::of(&words);
    assert_eq!(thread_by_key(&layout, FSBASE, &memory), Some(THREAD));
    assert_eq!(first_thread(&layout, &memory), Some(THREAD));
    assert_eq!(thread_by_key(&layout, FSBASE + 64, &memory), None);
    memory.write(THREAD + 152, &(FSBASE + 64).to_le_bytes());
    assert_eq!(thread_by_key(&layout, FSBASE, &memory), None);
    memory.write(layout.tss_key_at, &40u64.to_le_bytes());
    assert_eq!(thread_by_key(&layout, FSBASE, &memory), None);
}

/// Up to 3.11 the runtime names the state that runs, and another thread's is not believed; in 3.15 either of two variables does, which
/// x86-64 has below the thread pointer.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_state_that_runs() {
    use tracer_ebpf::python::running_thread;
    const OTHER: u64 = 0x5500_0000_9000;
    let mut memory = Snapshot::of(&[
        (THREAD + 152, FSBASE),
        (OTHER + 152, FSBASE + 0x1000),
        (0x5500_0000_0300, THREAD),
        (FSBASE - 16, 0),
        (FSBASE - 8, THREAD),
    ]);
    let current = PythonLayout { current_at: 0x5500_0000_0300, ..layout_3_11() };
    assert_eq!(running_thread(&current, FSBASE, &memory), Some(THREAD));
    assert_eq!(running_thread(&current, FSBASE + 0x2000, &memory), None);
    let variables = PythonLayout { tls_below: [16, 8], ..layout_3_12() };
    assert_eq!(running_thread(&variables, FSBASE, &memory), Some(THREAD));
    memory.write(FSBASE - 8, &OTHER.to_le_bytes());
    assert_eq!(running_thread(&variables, FSBASE, &memory), None);
    assert_eq!(running_thread(&layout_3_12(), FSBASE, &memory), None);
}

/// The list of interpreters begins with the main one unless there are others.
#[test]
fn several_interpreters() {
    let layout = layout_3_11();
    let mut memory = Snapshot::of(&[(layout.interpreter_at - 8, 0xa00), (layout.interpreter_at, 0xa00)]);
    assert!(!has_sub_interpreters(&layout, &memory));
    memory.write(layout.interpreter_at - 8, &0xb00u64.to_le_bytes());
    assert!(has_sub_interpreters(&layout, &memory));
}

/// Before 3.11 the class of `self` goes with the frame, and `cls` itself, which is a class.
#[test]
fn classes_of_first_arguments() {
    const OBJECT: u64 = 0xe00;
    const CLASS: u64 = 0x1_0000;
    const META: u64 = 0x2_0000;
    let wanted = PythonLayout::ALL_WANTED;
    let layout = PythonLayout { locals: 352, itself: object::IS_CLASS, wanted, ..layout_3_10() };
    let mut memory = Snapshot::of(&[
        (THREAD + 24, 0xa00),
        (THREAD + 48, THREAD + 280),
        (0xa00 + 352, OBJECT),
        (OBJECT + 8, CLASS),
        (CLASS + 8, META),
        (CLASS + 168, 1 << 12),
        (META + 168, 1 << 31),
    ]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0, 0x11, 0]);
    assert_eq!(walk(&layout, &memory).0[0].class, CLASS);
    memory.write(0xa00 + 352, &CLASS.to_le_bytes());
    assert_eq!(walk(&layout, &memory).0[0].class, CLASS);
    memory.write(0xa00 + 352, &0u64.to_le_bytes());
    assert_eq!(walk(&layout, &memory).0[0].class, 0);
}

/// From 3.11 on the first variable is among the frame's words, tagged since 3.14, and in a cell where an inner function shares it; where the
/// object itself is wanted it goes, and a variable that cannot be read costs the frame nothing but its class.
#[test]
fn classes_from_cells() {
    const OBJECT: u64 = 0x1_1000;
    const CELL: u64 = 0x1_2000;
    const CLASS: u64 = 0x2_0000;
    const CELL_TYPE: u64 = 0x2_1000;
    let mut layout =
        PythonLayout { locals: 72, itself: object::IS_CLASS, cell: CELL_TYPE, tag_mask: 3, ..layout_3_12() };
    assert!(layout.want(0xc0) && !layout.want(0xc0) && !layout.wants(0xd0));
    let mut memory = Snapshot::of(&[
        (THREAD + 56, THREAD + 0x800),
        (THREAD + 0x800, 0xa00),
        (OBJECT + 8, CLASS),
        (CLASS + 168, 1 << 12),
        (CELL + 8, CELL_TYPE),
        (CELL + 16, OBJECT),
    ]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0, 0x11, 0]);
    let mut class = |first: u64| {
        memory.write(0xa00 + 72, &first.to_le_bytes());
        let frame = walk(&layout, &memory).0[0];
        assert_eq!(frame.code, 0xc1 & !3);
        frame.class
    };
    assert_eq!([OBJECT, OBJECT + 1, CELL, 0, 0x9_0000].map(&mut class), [CLASS, CLASS, CLASS, 0, 0]);
    memory.write(0xa00 + 72, &OBJECT.to_le_bytes());
    let nobody = PythonLayout { wanted: [0; 16], ..layout };
    assert_eq!(walk(&nobody, &memory).0[0].class, 0);
    assert!(layout.want_object(0xc0) && !layout.want_object(0xc0));
    assert_eq!(walk(&layout, &memory).0[0].class, OBJECT);
    assert!(layout.want_object(0xd0) && layout.want_object(0xe0));
    assert_eq!(walk(&layout, &memory).0[0].class, CLASS, "others took its place");
}
