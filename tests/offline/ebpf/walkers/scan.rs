//! Callers of code without unwind information, on stacks made by hand: what is proved, what is a guess, and what is nobody's caller.

use super::snapshot::{Rules, Snapshot};
use tracer_ebpf::native::{Found, NO_FRAME_POINTER, NativeWalk, find_caller, place};
use tracer_ebpf::rows::rule;
use tracer_ebpf::saved_stack_pointer::{leave_kernel, leave_onednn, leave_openblas, saved_stack_pointer};
use tracer_ebpf::scan::{follow_frame_pointer, is_outermost};

/// The lowest word of the stack.
const S: u64 = 0x7f00_0000_0000;
/// An address in code without unwind information, whose function begins at 0x4080.
const CALLEE: u64 = 0x4100;
/// The function's frame pointer is made where it begins: `push %rbp; mov %rsp,%rbp`.
const PUSHES: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];

const fn at(pc: u64, fp: u64) -> NativeWalk {
    NativeWalk { pc, sp: S, fp, returned: 0, callee_saved_at: 0, others_at: 0 }
}

const fn to(pc: u64, sp: u64, fp: u64) -> NativeWalk {
    NativeWalk { pc, sp, fp, returned: 1, callee_saved_at: 0, others_at: 0 }
}

/// Code with unwind information at 0x2000 and 0x5000, whose frames have no locals, an outermost function at 0x3000, and code without
/// unwind information from 0x4000 to 0x4200.
fn rules() -> Rules {
    Rules::of(&[
        (0x2000, rule::SP, 8, 0),
        (0x3000, rule::OUTERMOST, 0, 0),
        (0x4000, rule::NONE, 0, 0),
        (0x4100, rule::NONE, 0, 0),
        (0x5000, rule::SP, 8, 0),
    ])
}

/// Writes a direct call of `target` before `pc`.
fn direct(memory: &mut Snapshot, pc: u64, target: u64) {
    let distance = (target.wrapping_sub(pc) as u32).to_le_bytes();
    memory.write(pc - 8, &[0x90; 3]);
    memory.write(pc - 5, &[0xe8]);
    memory.write(pc - 4, &distance);
}

/// Writes `call *%rax` before `pc`.
fn indirect(memory: &mut Snapshot, pc: u64) {
    memory.write(pc - 8, &[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]);
}

/// A stack whose callers' chain ends two frames above the return address; `call` ends where that points.
fn scanned(call: &[u8]) -> Snapshot {
    let mut memory = Snapshot::of(&[
        (S, 0x77),        // Data: below the first pc.
        (S + 8, 0x4050),  // Into code without unwind information, behind a call to somewhere else.
        (S + 16, 0x5050), // Into code with it, behind such a call.
        (S + 24, 0xb9),
        (S + 32, 0x2050),
        (S + 40, 0x3050),
    ]);
    for place in [0x4050, 0x5050] {
        memory.write(place - 8, &[0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4]);
    }
    memory.write(0x2050 - 8, &[0x90; 8]);
    memory.write(0x2050 - call.len() as u64, call);
    memory
}

/// A call from 0x2050 to 0x4080.
const CALL: [u8; 5] = [0xe8, 0x30, 0x20, 0, 0];

fn found_behind(call: &[u8]) -> Option<Found> {
    find_caller(&at(CALLEE, 0xb0), &mut &rules(), &scanned(call))
}

/// The scan passes over data and other calls' return addresses, takes the one behind a call to the callee, and the word below as rbp.
#[test]
fn a_direct_call_proves() {
    assert_eq!(found_behind(&CALL), Some(Found::Proved(to(0x2050, S + 40, 0xb9))));
}

/// A leaf that pushed nothing: the return address lies at the stack pointer, and rbp is still the caller's.
#[test]
fn a_leaf() {
    let from = NativeWalk { sp: S + 32, ..at(CALLEE, 0xb0) };
    let found = find_caller(&from, &mut &rules(), &scanned(&CALL));
    assert_eq!(found, Some(Found::Proved(to(0x2050, S + 40, 0xb0))));
}

/// Code that pushed something else and left rbp alone: where the word below the return address cannot be the caller's rbp, the register is.
#[test]
fn code_that_leaves_rbp_alone() {
    let rules = Rules::of(&[
        (0x2000, rule::FP, 16, -16),
        (0x3000, rule::OUTERMOST, 0, 0),
        (0x4000, rule::NONE, 0, 0),
        (0x4100, rule::NONE, 0, 0),
    ]);
    let mut memory = Snapshot::of(&[(S, 1), (S + 8, 0x2050), (S + 0x30, 0), (S + 0x38, 0x3050)]);
    direct(&mut memory, 0x2050, 0x4080);
    let caller = |fp| find_caller(&at(CALLEE, fp), &mut &rules, &memory);
    assert_eq!(caller(S + 0x30), Some(Found::Proved(to(0x2050, S + 16, S + 0x30))));
    assert_eq!(caller(1), None);
}

/// Every form of near call is one; jumps, far calls and other bytes are not. Where an indirect call led nobody knows: it is a guess.
#[test]
fn forms_of_calls() {
    let calls: [&[u8]; 8] = [
        &[0xff, 0xd0],
        &[0x41, 0xff, 0xd3],
        &[0xff, 0x50, 8],
        &[0xff, 0x14, 0x24],
        &[0xff, 0x54, 0x24, 8],
        &[0xff, 0x15, 1, 2, 3, 4],
        &[0xff, 0x90, 1, 2, 3, 4],
        &[0xff, 0x94, 0x24, 1, 2, 3, 4],
    ];
    for call in calls {
        let guess = Found::Guessed(to(0x2050, S + 40, 0xb9));
        assert_eq!(found_behind(call), Some(guess), "{call:02x?}");
    }
    let others: [&[u8]; 5] =
        [&[0xe9, 1, 2, 3, 4], &[0xff, 0xe0], &[0xff, 0x18], &[0xc3], &[0xff, 0x25, 1, 2, 3, 4]];
    for other in others {
        assert_eq!(found_behind(other), None, "{other:02x?}");
    }
}

/// A direct call counts only if it leads to the code that the scan left: straight or through an entry of a linkage table, in any form.
#[test]
fn the_call_that_led_there() {
    assert_eq!(found_behind(&[0xe8, 0xb0, 0xef, 0xff, 0xff]), None); // To 0x1000: nowhere.
    assert_eq!(found_behind(&[0xe8, 0, 0, 0, 0]), None); // To code with unwind information.
    assert_eq!(found_behind(&[0xe8, 0x30, 0x21, 0, 0]), None); // To a function that begins behind it.
    for entry in [&[0xff, 0x25][..], &[0xf2, 0xff, 0x25], &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25]] {
        let mut memory = scanned(&[0xe8, 0xb0, 0, 0, 0]); // To 0x2100.
        memory.write(0x2100, entry);
        memory.write(0x2100 + entry.len() as u64, &[0x10, 0, 0, 0, 0, 0, 0, 0]);
        let slot = 0x2100 + entry.len() as u64 + 4 + 0x10;
        for (target, is_there) in [(0x4080_u64, true), (0x5000, false)] {
            memory.write(slot, &target.to_le_bytes());
            let found = find_caller(&at(CALLEE, 0xb0), &mut &rules(), &memory);
            assert_eq!(found.is_some(), is_there, "{entry:02x?} {target:x}");
        }
    }
}

/// Return addresses of earlier calls lie in locals that nothing has written yet. The chain of one behind an indirect call leads to the place
/// where the callee was called: so its frames are not the callee's callers.
#[test]
fn stale_words_are_disproved() {
    let mut memory = Snapshot::of(&[
        (S, 7),
        (S + 8, 0x5050),  // Left by a call of the function that 0x2010 is in.
        (S + 16, 0x2010), // That one's return address, left too: its caller's call is the next word.
        (S + 24, 0x2050), // What called the callee since, at the same depth.
        (S + 32, 0x3050),
    ]);
    indirect(&mut memory, 0x5050);
    direct(&mut memory, 0x2010, 0x5000);
    let caller = |memory: &Snapshot| find_caller(&at(CALLEE, 0), &mut &rules(), memory);
    direct(&mut memory, 0x2050, 0x4080);
    assert_eq!(caller(&memory), Some(Found::Proved(to(0x2050, S + 32, 0x2010))));
    // Without that call it is all that is known, and no more than a guess.
    indirect(&mut memory, 0x2050);
    assert_eq!(caller(&memory), Some(Found::Guessed(to(0x5050, S + 16, 7))));
    // Another word of that sort, outside that chain, is not disproved with it: the direct call is a guess then.
    direct(&mut memory, 0x2050, 0x4080);
    memory.write(S, &0x4050_u64.to_le_bytes());
    indirect(&mut memory, 0x4050);
    assert_eq!(caller(&memory), Some(Found::Guessed(to(0x2050, S + 32, 0x2010))));
    // One in the chain is.
    memory.write(S, &7_u64.to_le_bytes());
    indirect(&mut memory, 0x2010);
    assert_eq!(caller(&memory), Some(Found::Proved(to(0x2050, S + 32, 0x2010))));
}

/// Of two direct calls the one counts that leads closest to the callee: the other's function ends before.
#[test]
fn the_closest_call() {
    let mut memory = Snapshot::of(&[(S, 0x5050), (S + 8, 0x3050), (S + 16, 0x2050), (S + 24, 0x3050)]);
    direct(&mut memory, 0x5050, 0x4020);
    direct(&mut memory, 0x2050, 0x4080);
    let found = find_caller(&at(CALLEE, 0), &mut &rules(), &memory);
    assert_eq!(found, Some(Found::Proved(to(0x2050, S + 24, 0x3050))));
}

/// Callers without unwind information are callers: none is passed over on the way to one that has it.
#[test]
fn a_caller_without_unwind_information() {
    let mut memory =
        Snapshot::of(&[(S, 5), (S + 8, 0x4050), (S + 16, 5), (S + 24, 0x2050), (S + 32, 0x3050)]);
    direct(&mut memory, 0x4050, 0x4080);
    direct(&mut memory, 0x2050, 0x4000);
    let Some(Found::Proved(first)) = find_caller(&at(CALLEE, 0xb0), &mut &rules(), &memory) else { panic!() };
    assert_eq!(first, to(0x4050, S + 16, NO_FRAME_POINTER));
    let second = find_caller(&first, &mut &rules(), &memory);
    assert_eq!(second, Some(Found::Proved(to(0x2050, S + 32, 5))));
}

/// Two frames with frame pointers, called by code with unwind information at 0x2050; the innermost has one local.
fn frames() -> Snapshot {
    let mut memory = Snapshot::of(&[
        (S, 5),
        (S + 8, S + 0x20),
        (S + 0x10, 0x4050),
        (S + 0x18, 5),
        (S + 0x20, 0xb9),
        (S + 0x28, 0x2050),
        (S + 0x30, 0x3050),
    ]);
    direct(&mut memory, 0x4050, 0x4080);
    direct(&mut memory, 0x2050, 0x4000);
    for begin in [0x4000, 0x4080] {
        memory.write(begin, &[0x90; 16]);
    }
    memory
}

/// A frame pointer is followed without a scan where the call leads to a function that makes one, and nowhere else.
#[test]
fn frame_pointers_that_are_followed() {
    for prologue in [0, 4, 6, 10, 11] {
        let mut memory = frames();
        memory.write(0x4000 + prologue, &PUSHES);
        let first = to(0x4050, S + 0x18, S + 0x20);
        let follow = |walk, memory: &Snapshot| {
            follow_frame_pointer(&walk, &mut &rules(), memory).map(|(to, proved)| {
                assert!(proved);
                to
            })
        };
        assert_eq!(follow(first, &memory), Some(to(0x2050, S + 0x30, 0xb9)), "{prologue}");
        assert_eq!(follow(NativeWalk { returned: 0, ..first }, &memory), None); // It may not have made its own yet.
        assert_eq!(follow(NativeWalk { fp: S + 0x21, ..first }, &memory), None);
        assert_eq!(follow(NativeWalk { fp: S, ..first }, &memory), None); // Below the stack pointer.
        assert_eq!(follow(NativeWalk { sp: S - 0x10000, ..first }, &memory), None);
        direct(&mut memory, 0x2050, 0x5000);
        assert_eq!(follow(first, &memory), None);
        assert_eq!(follow(first, &frames()), None);
    }
}

/// An indirect call says not whom it called. A frame pointer proves its caller where no other return address lies below; else it is a guess.
#[test]
fn frame_pointers_and_indirect_calls() {
    let mut memory = frames();
    indirect(&mut memory, 0x4050);
    let caller = |memory: &Snapshot| find_caller(&at(CALLEE, S + 8), &mut &rules(), memory);
    let first = to(0x4050, S + 0x18, S + 0x20);
    assert_eq!(caller(&memory), Some(Found::Proved(first)));
    // A direct call further up is in the chain of frame pointers, or else that called the callee as well.
    direct(&mut memory, 0x2050, 0x4090);
    assert_eq!(caller(&memory), Some(Found::Proved(first)));
    memory.write(S + 0x18, &0x4060_u64.to_le_bytes());
    direct(&mut memory, 0x4060, 0x40a0);
    assert_eq!(caller(&memory), Some(Found::Guessed(first)));
    memory.write(S + 0x18, &[5, 0, 0, 0, 0, 0, 0, 0]);
    memory.write(S, &0x4030_u64.to_le_bytes());
    indirect(&mut memory, 0x4030);
    assert_eq!(caller(&memory), Some(Found::Guessed(first)));
    // What it points to must be another; else what is known of callers is a call further up.
    memory.write(S + 8, &0xb9_u64.to_le_bytes());
    assert_eq!(caller(&memory), Some(Found::Guessed(to(0x2050, S + 0x30, 0xb9))));
}

/// A leaf that makes no frame pointer: its return address lies below its caller's frame, and is the one that counts.
#[test]
fn a_leaf_without_a_frame_pointer() {
    let mut memory = frames();
    direct(&mut memory, 0x4150, 0x4100);
    memory.write(S, &0x4150_u64.to_le_bytes());
    let found = find_caller(&at(CALLEE + 8, S + 8), &mut &rules(), &memory);
    assert_eq!(found, Some(Found::Proved(to(0x4150, S + 8, S + 8))));
}

/// The first frame of a stack has no caller, and 0 in the place of its frame pointer; that of a goroutine was put there and follows no call.
#[test]
fn the_first_frame() {
    let mut memory = Snapshot::of(&[(S, 0), (S + 8, 0x4001), (0x4001, 0xe8)]);
    memory.write(0x4001 - 8, &[0x90; 8]);
    let Some(Found::Proved(first)) = find_caller(&at(CALLEE, S), &mut &rules(), &memory) else { panic!() };
    assert_eq!(first, to(0x4001, S + 16, 0));
    assert!(is_outermost(&first) && !is_outermost(&at(CALLEE, 0)));
    assert!(!is_outermost(&to(0x4001, S + 16, NO_FRAME_POINTER)));
    assert_eq!(find_caller(&first, &mut &rules(), &memory), None);
    memory.write(0x4001, &[0x90]);
    assert_eq!(find_caller(&at(CALLEE, S), &mut &rules(), &memory), None);
}

/// `rbp` that points to a local, with what earlier calls have left there: another call's return address is not the callee's.
#[test]
fn a_register_that_is_no_frame_pointer() {
    let mut memory = frames();
    memory.write(S + 8, &0x4150_u64.to_le_bytes());
    let caller = |memory: &Snapshot| find_caller(&at(CALLEE, S), &mut &rules(), memory);
    for saved in [0, S + 0x20] {
        memory.write(S, &u64::to_le_bytes(saved));
        direct(&mut memory, 0x4150, 0x41f0);
        assert_eq!(caller(&memory), Some(Found::Proved(to(0x4050, S + 0x18, NO_FRAME_POINTER))));
    }
    // That of an indirect call could be: nothing is sure then.
    indirect(&mut memory, 0x4150);
    assert_eq!(caller(&memory), Some(Found::Guessed(to(0x4150, S + 0x10, S + 0x20))));
}

/// A stack pointer at a page's start has the old one 120 bytes above it; any other has not, whatever lies there.
#[test]
fn the_stack_that_was_put_away() {
    let memory = Snapshot::of(&[(0x7000 + 120, S), (0x7008 + 120, S), (0x9000 + 120, 17)]);
    let put_away = |sp| saved_stack_pointer(&NativeWalk { sp, ..at(0x8000, 0) }, &memory);
    assert_eq!(put_away(0x7000), Some(S));
    assert_eq!(put_away(0x7008), None);
    assert_eq!(put_away(0x9000), None);
    assert_eq!(put_away(0xa000), None);
}

/// A function that only gives its frame back and returns, as CPython's trampolines for perf do, has its caller where that frame ends, whatever
/// else looks like a return address; one that does more first, or was interrupted, has none so.
#[test]
fn a_function_that_only_returns() {
    let mut memory = Snapshot::of(&[(S, 0x5050), (S + 8, 0x2050), (S + 16, 0x3050)]);
    let caller = |memory: &Snapshot, walk| leave_kernel(&walk, &mut &rules(), memory);
    memory.write(CALLEE, &[0x48, 0x83, 0xc4, 8, 0xc3, 0x66, 0x0f, 0x1f]); // add $8,%rsp; ret
    assert_eq!(caller(&memory, to(CALLEE, S, 7)), Some(to(0x2050, S + 16, 7)));
    assert_eq!(caller(&memory, at(CALLEE, 7)), None);
    memory.write(CALLEE, &[0x5d, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90]); // pop %rbp; ret
    assert_eq!(caller(&memory, to(CALLEE, S, 7)), Some(to(0x2050, S + 16, 0x5050)));
    for other in [[0x48, 0x83, 0xc4, 8, 0x5d, 0xc3], [0x48, 0x83, 0xc4, 0xf8, 0xc3, 0], [0x90; 6]] {
        memory.write(CALLEE, &other);
        assert_eq!(caller(&memory, to(CALLEE, S, 7)), None, "{other:x?}");
    }
}

/// A kernel that keeps `rsp` in `rbx` at the distance that OpenBLAS has: its caller is where its frame ends, with the registers that it saved;
/// at any other distance, and where no call ends there, it is none of those.
#[test]
fn a_kernel_that_keeps_its_stack_pointer() {
    let kept = 0x20_1230;
    let mut memory = Snapshot::of(&[(kept + 8, 0xb9), (kept + 0x60, 0x2050), (kept + 0x40, 0x2070)]);
    indirect(&mut memory, 0x2050);
    memory.write(0x2070 - 8, &[0x90; 8]);
    let caller = |sp, kept| {
        let interrupted = NativeWalk { sp, callee_saved_at: place::INTERRUPTED, ..at(CALLEE, 7) };
        let tables = Rules { registers: [(3, kept)].into(), ..rules() };
        leave_openblas(&interrupted, &mut &tables, &memory)
    };
    let found = Some(NativeWalk { callee_saved_at: kept, ..to(0x2050, kept + 0x68, 0xb9) });
    assert_eq!([caller(0x1f_f000, kept), caller(0x1f_a000, kept)], [found; 2]);
    assert_eq!([caller(0x1f_e000, kept), caller(0x1f_f008, kept), caller(0x1f_d000, kept)], [None; 3]);
    assert_eq!(caller(0x1f_f000, kept + 8), None);
}

/// A kernel that keeps `rsp` in the page to which it moved it, at either place, six pushes below its caller's return address; whichever of `rbp`
/// and `rbx` it pushed first. None where no indirect call ends there, where the callers end, or where `rsp` is at no page's start.
#[test]
fn a_kernel_that_keeps_its_stack_pointer_in_memory() {
    let kept = S + 0x3008;
    let caller = |place: u64, pushed: [u64; 2], leave: &dyn Fn(&mut Snapshot)| {
        let mut memory = Snapshot::of(&[
            (S + place, kept),
            (kept + 32, pushed[1]),
            (kept + 40, pushed[0]),
            (kept + 48, 0x2050),
            (kept + 56, 0x3050),
        ]);
        indirect(&mut memory, 0x2050);
        leave(&mut memory);
        leave_onednn(&at(CALLEE, 7), &mut &rules(), &memory)
    };
    let (fp, whole) = (kept + 0x100, |_: &mut Snapshot| ());
    let found = Some(to(0x2050, kept + 56, fp));
    for place in [120, 152] {
        assert_eq!([caller(place, [fp, 5], &whole), caller(place, [5, fp], &whole)], [found; 2]);
    }
    assert_eq!(caller(128, [fp, 5], &whole), None);
    assert_eq!(caller(152, [fp, 5], &|memory| direct(memory, 0x2050, 0x4080)), None);
    assert_eq!(caller(152, [fp, 5], &|memory| memory.write(kept + 56, &0x9999_u64.to_le_bytes())), None);
    assert_eq!(caller(152, [fp, 5], &|memory| memory.write(S + 152, &(kept + 1).to_le_bytes())), None);
}

/// Return addresses behind no call (Java's interpreter pushes them and jumps): frame pointers that lead through two more frames are a guess, and
/// are followed only as one; one that leads nowhere is nobody's caller.
#[test]
fn frame_pointers_without_calls() {
    let frames = |last: u64| {
        let words = [
            (S, S + 16),
            (S + 8, 0x4050),
            (S + 16, S + 32),
            (S + 24, 0x4060),
            (S + 32, last),
            (S + 40, 0x4070),
        ];
        let mut memory = Snapshot::of(&words);
        for pc in [0x4050, 0x4060, 0x4070] {
            memory.write(pc - 8, &[0x90; 8]);
        }
        memory
    };
    let found = |last| find_caller(&at(CALLEE, S), &mut &rules(), &frames(last));
    assert_eq!(found(S + 48), Some(Found::Guessed(to(0x4050, S + 16, S + 16))));
    let follow = |memory: &Snapshot| follow_frame_pointer(&to(CALLEE + 1, S, S), &mut &rules(), memory);
    assert_eq!(follow(&frames(S + 48)), Some((to(0x4050, S + 16, S + 16), false)));
    let mut cut = frames(S + 48);
    cut.write(S + 16, &1_u64.to_le_bytes());
    assert_eq!((follow(&cut), find_caller(&at(CALLEE, S), &mut &rules(), &cut)), (None, None));
}
