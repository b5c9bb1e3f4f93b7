//! Callers of Java: by what HotSpot keeps of its code, at each place of a method's frame; elsewhere nothing is said.

use super::snapshot::Snapshot;
use tracer_ebpf::hotspot::caller;
use tracer_ebpf::hotspot_layout::{CodeHeap, HotspotLayout};
use tracer_ebpf::memory::Memory as _;
use tracer_ebpf::native::NativeWalk;
use tracer_ebpf::wire::end;

/// The lowest word of the stack.
const S: u64 = 0x7f00_0000_0000;
/// The heap, and its map.
const HEAP: u64 = 0x5000_0000;
const SEGMENTS: u64 = 0x6000_0000;
const SHIFT: u32 = 7;
/// Segments of the interpreter, of stubs, of a method and of a stub for virtual calls.
const INTERPRETER: u64 = 0;
const STUBS: u64 = 8;
const METHOD: u64 = 16;
const VTABLE: u64 = 600;
/// Where native code is returned to.
const RETURN: u64 = 0x1000;
/// Words of the method's frame, and bytes of its code until the frame is there.
const FRAME: u64 = 6;
const COMPLETE: u64 = 0x20;

const fn layout() -> HotspotLayout {
    let heap = CodeHeap { start: HEAP, end: HEAP + 0x10_0000, segments: SEGMENTS };
    let none = CodeHeap { start: 0, end: 0, segments: 0 };
    HotspotLayout {
        heaps: [none, heap, none, none],
        bytecodes: [code_of(INTERPRETER) + 0x100, code_of(INTERPRETER) + 0x200],
        call_stub_return: code_of(STUBS) + 0x40,
        segment_shift: SHIFT,
        name: 0,
        size: 8,
        frame_size: 12,
        frame_complete: 16,
        frame_complete_bits: 32,
        code: 24,
        code_is_distance: 0,
    }
}

/// Where the code of a block begins: behind the block's head and the blob's own.
const fn code_of(segment: u64) -> u64 {
    HEAP + (segment << SHIFT) + 16 + 32
}

/// A heap with four pieces of code.
fn heap() -> Snapshot {
    let mut memory = Snapshot::of(&[
        (0x9000, u64::from_le_bytes(*b"Interpre")),
        (0x9010, u64::from_le_bytes(*b"StubRout")),
    ]);
    memory.write(0x9020, b"nmethod\0");
    memory.write(0x9030, b"vtable c");
    let pieces = [
        (INTERPRETER, 8, 0x9000, 0),
        (STUBS, 8, 0x9010, 0),
        (METHOD, 584, 0x9020, FRAME),
        (VTABLE, 2, 0x9030, 0),
    ];
    for (first, segments, name, frame) in pieces {
        let blob = code_of(first) - 32;
        for word in [
            (blob, name),
            (blob + 8, segments << SHIFT | frame << 32),
            (blob + 16, COMPLETE),
            (blob + 24, code_of(first)),
        ] {
            memory.write(word.0, &word.1.to_le_bytes());
        }
        // How far below a segment its block begins, in steps of 254 at most.
        for segment in 0..segments {
            let back = if segment == 0 { 0 } else { (segment - 1) % 254 + 1 };
            memory.write(SEGMENTS + first + segment, &[back as u8]);
        }
        memory.write(code_of(first) - 8, &[0x90; 0x300]);
        memory.write(blob + 24, &code_of(first).to_le_bytes());
    }
    memory.write(SEGMENTS + VTABLE + 2, &[0xff; 8]);
    // Behind a call.
    memory.write(RETURN - 8, &[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]);
    memory
}

fn at(pc: u64, fp: u64) -> NativeWalk {
    NativeWalk { pc, sp: S, fp, ..NativeWalk::default() }
}

fn returned(pc: u64, sp: u64, fp: u64) -> NativeWalk {
    NativeWalk { pc, sp, fp, returned: 1, ..NativeWalk::default() }
}

/// With these words on the stack, and these bytes of code.
fn found(walk: &NativeWalk, words: &[u64], code: &[(u64, &[u8])]) -> Result<NativeWalk, u8> {
    let mut memory = heap();
    for (place, word) in (S..).step_by(8).zip(words) {
        memory.write(place, &word.to_le_bytes());
    }
    for (place, bytes) in code {
        memory.write(*place, bytes);
    }
    caller(walk, &layout(), &memory)
}

/// Behind a call the frame is whole: the return address is its highest word, and the caller's `rbp` the one below. The blob is found from
/// any of its segments.
#[test]
fn compiled_code_that_has_called() {
    let words = [1, 2, 3, 4, 0xb9, RETURN];
    for pc in [code_of(METHOD) + 0x80, code_of(METHOD) + 500 * 128] {
        assert_eq!(found(&returned(pc, S, 7), &words, &[]), Ok(returned(RETURN, S + 48, 0xb9)));
    }
    // What is above is no return address: nothing calls there, and it is no code of a heap.
    let stale = [1, 2, 3, 4, 0xb9, 0x7000];
    assert_eq!(found(&returned(code_of(METHOD) + 0x80, S, 7), &stale, &[]), Err(end::NO_UNWIND_INFO));
}

/// Where a method was interrupted, its bytes before and from there on, words on its stack, and the caller.
type Interrupted<'a> = (u64, &'a [u8], &'a [u8], &'a [u64], Result<NativeWalk, u8>);

/// Where a method was interrupted, its next instruction says how much of its frame is there.
#[test]
fn compiled_code_that_runs() {
    let (start, body) = (code_of(METHOD), code_of(METHOD) + 0x40);
    let flat = Ok(returned(RETURN, S + 8, 7));
    let pushed = Ok(returned(RETURN, S + 16, 0xb9));
    let whole = Ok(returned(RETURN, S + 48, 0xb9));
    let cases: [Interrupted<'_>; 13] = [
        (start, &[], &[0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff], &[RETURN], flat),
        (start + 7, &[], &[0x55], &[RETURN], flat),
        (start + 8, &[0x55], &[0x48, 0x83, 0xec, 0x20], &[0xb9, RETURN], pushed),
        (start + 8, &[0x55], &[0x48, 0x8b, 0xec], &[0xb9, RETURN], pushed),
        (start + 11, &[0x55, 0x48, 0x8b, 0xec], &[0x48, 0x81, 0xec, 0x20, 0, 0, 0], &[0xb9, RETURN], pushed),
        (start + 4, &[0x90], &[0x48, 0x83, 0xec, 0x28], &[RETURN], flat),
        (
            start + 12,
            &[],
            &[0x48, 0x89, 0x6c, 0x24, 0x20],
            &[1, 2, 3, 4, 5, RETURN],
            Ok(returned(RETURN, S + 48, 7)),
        ),
        (start + 16, &[], &[0x41, 0x81, 0x7f, 0x20, 1, 0, 0, 0], &[1, 2, 3, 4, 0xb9, RETURN], whole),
        (body, &[], &[0x01, 0xc8], &[1, 2, 3, 4, 0xb9, RETURN], whole),
        (body, &[], &[0x5d], &[0xb9, RETURN], pushed),
        (body, &[], &[0x49, 0x3b, 0xa7, 0x28, 3, 0, 0], &[RETURN], flat),
        (body, &[0x49, 0x3b, 0xa7, 0x28, 3, 0, 0], &[0x0f, 0x87, 0, 0, 0, 0], &[RETURN], flat),
        (body, &[], &[0xc3], &[RETURN], flat),
    ];
    for (pc, before, next, words, expected) in cases {
        let code = [(pc - before.len() as u64, before), (pc, next)];
        assert_eq!(found(&at(pc, 7), words, &code), expected, "{before:x?} {next:x?}");
    }
    // An instruction that is none of a frame's making: nothing is said.
    let strange: &[u8] = &[0x0f, 0x0b];
    assert_eq!(found(&at(start + 3, 7), &[RETURN; 8], &[(start + 3, strange)]), Err(end::NO_UNWIND_INFO));
}

/// An interpreted method keeps `rbp`, and below it the caller's stack pointer. That is its own within a bytecode, behind a call, and where a
/// method's entry has made the frame; before, or where the frame was just left, it may be another's.
#[test]
fn interpreted_code() {
    let bytecode = code_of(INTERPRETER) + 0x140;
    // Two words of its own; then the caller's stack pointer, `rbp` and the return address.
    let words = [1, 2, S + 80, 0xb9, RETURN];
    let expected = Ok(returned(RETURN, S + 80, 0xb9));
    assert_eq!(found(&at(bytecode, S + 24), &words, &[]), expected);
    assert_eq!(found(&returned(code_of(INTERPRETER) + 0x40, S, S + 24), &words, &[]), expected);
    assert_eq!(found(&at(code_of(INTERPRETER) + 0x40, S + 24), &words, &[]), Err(end::NO_UNWIND_INFO));
    let entry = code_of(INTERPRETER) + 0x40;
    let touch: &[u8] = &[0x89, 0x84, 0x24, 0, 0xf0, 0xff, 0xff];
    let mark: &[u8] = &[0x41, 0xc6, 0x87, 0x69, 3, 0, 0, 0];
    for entered in [
        [(entry, touch), (entry + 7, touch)],
        [(entry - 7, touch), (entry, mark)],
        [(entry - 15, touch), (entry - 8, mark)],
    ] {
        assert_eq!(found(&at(entry, S + 24), &words, &entered), expected, "{entered:x?}");
    }
    assert_eq!(found(&at(entry, S + 24), &words, &[(entry - 8, mark)]), Err(end::NO_UNWIND_INFO));
    // Behind `push %r13`, however far, and not before it.
    let entered: &[u8] = &[0x55, 0x48, 0x8b, 0xec, 0x41, 0x55];
    for behind in [6, 7, 11, 14, 71, 80] {
        assert_eq!(found(&at(entry, S + 24), &words, &[(entry - behind, entered)]), expected, "{behind}");
    }
    for behind in [4, 5, 81] {
        let nothing = Err(end::NO_UNWIND_INFO);
        assert_eq!(found(&at(entry, S + 24), &words, &[(entry - behind, entered)]), nothing, "{behind}");
    }
    let left: (u64, &[u8]) = (bytecode - 3, &[0xc9, 0x41, 0x5d]);
    assert_eq!(found(&at(bytecode, S + 24), &words, &[left]), Err(end::NO_UNWIND_INFO));
    // The byte of `leave` in an address, before the jump to the next bytecode.
    let address: (u64, &[u8]) = (bytecode - 10, &[0x49, 0xba, 0xe0, 0xd6, 0xd5, 0x06, 0xc9, 0x7f, 0, 0]);
    assert_eq!(found(&at(bytecode, S + 24), &words, &[address]), expected);
    // `rbp` below the stack pointer, or a stack pointer below the frame: no frame of its own.
    assert_eq!(found(&at(bytecode, S - 8), &words, &[]), Err(end::NO_UNWIND_INFO));
    assert_eq!(found(&at(bytecode, S + 24), &[1, 2, S, 0xb9, RETURN], &[]), Err(end::NO_UNWIND_INFO));
}

/// A stub is left by the call that led into it, below a frame pointer or on top of the stack; the one that native code calls Java by, by its
/// frame pointer.
#[test]
fn stubs() {
    let stub = code_of(STUBS) + 0x60;
    let mut call = vec![0x90; 3];
    let distance = (stub - 0x20).wrapping_sub(0x2000) as u32;
    call.extend([&[0xe8][..], &distance.to_le_bytes()].concat());
    let call: (u64, &[u8]) = (0x2000 - 8, &call);
    assert_eq!(found(&at(stub, 7), &[0x2000], &[call]), Ok(returned(0x2000, S + 8, 7)));
    let framed = [1, 2, 0xb9, 0x2000];
    assert_eq!(found(&at(stub, S + 16), &framed, &[call]), Ok(returned(0x2000, S + 32, 0xb9)));
    // A call of something else proves nothing.
    assert_eq!(found(&at(stub, S + 16), &[1, 2, 0xb9, RETURN], &[]), Err(end::NO_UNWIND_INFO));
    let by_native = returned(layout().call_stub_return, S, S + 16);
    assert_eq!(found(&by_native, &[1, 2, 0xb9, RETURN], &[]), Ok(returned(RETURN, S + 32, 0xb9)));
    assert_eq!(found(&at(code_of(VTABLE) + 4, 7), &[RETURN], &[]), Ok(returned(RETURN, S + 8, 7)));
}

/// Segments of nobody, an address in no heap, and memory that cannot be read: nothing is said, and nothing is endless.
#[test]
fn what_is_nobodys() {
    let memory = heap();
    let ask = |pc| caller(&at(pc, 7), &layout(), &memory);
    assert_eq!(ask(HEAP + ((VTABLE + 4) << SHIFT)), Err(end::NO_UNWIND_INFO));
    assert_eq!(ask(HEAP + (5000 << SHIFT)), Err(end::NO_UNWIND_INFO));
    assert_eq!(ask(0x1234), Err(end::NO_UNWIND_INFO));
    let mut loops = heap();
    for segment in 2000..3000 {
        loops.write(SEGMENTS + segment, &[1]);
    }
    assert!(loops.read_word(SEGMENTS + 2000).is_some());
    assert_eq!(caller(&at(HEAP + (2990 << SHIFT), 7), &layout(), &loops), Err(end::NO_UNWIND_INFO));
}
