//! Callers of code that V8 made: by frames that say that they are V8's, at each place of a function; elsewhere nothing is said.

use super::snapshot::{Rules, Snapshot};
use tracer_ebpf::native::NativeWalk;
use tracer_ebpf::rows::{Rule, rule};
use tracer_ebpf::v8::caller;
use tracer_ebpf::wire::end;

/// The lowest word of the stack.
const S: u64 = 0x7f00_0000_0000;
/// Where the interrupted code is, and where it is called.
const CODE: u64 = 0x5000_0000;
const RETURN: u64 = 0x1000;
/// A pointer to an object, and the caller's `rbp`.
const OBJECT: u64 = 0x3000_0001;
const LIKE_A_CALL: u64 = 0x3000_1001;
const SAVED: u64 = S + 0x80;
/// `mov %rax, %rbx; nop`: nothing of a frame's begin or end.
const BODY: [u8; 8] = [0x48, 0x89, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90];

/// With these words on the stack, and these next bytes of code.
fn found(returned: u64, fp: u64, words: &[u64], code: &[u8]) -> Result<NativeWalk, u8> {
    found_of(returned, fp, words, &[], code)
}

/// The same of code that was interrupted, with the bytes before as well.
fn found_between(fp: u64, words: &[u64], before: &[u8], code: &[u8]) -> Result<NativeWalk, u8> {
    found_of(0, fp, words, before, code)
}

fn found_of(returned: u64, fp: u64, words: &[u64], before: &[u8], code: &[u8]) -> Result<NativeWalk, u8> {
    let mut memory = Snapshot::of(&[]);
    memory.write(RETURN - 8, &[0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0]);
    memory.write(CODE - 16, &[0x90; 16]);
    memory.write(CODE, &BODY);
    memory.write(CODE - before.len() as u64, before);
    memory.write(CODE, code);
    for (place, word) in (S - 16..).step_by(8).zip(words) {
        memory.write(place, &word.to_le_bytes());
    }
    // An object, behind one that holds a pointer with the byte of a call in it.
    memory.write(LIKE_A_CALL - 8, &[0x05, 0xf8, 0x96, 0xe8, 0x03, 0, 0, 0x61]);
    let is_code = [(RETURN - 8..RETURN + 8, Rule(rule::V8 << 28))];
    let rules = Rules { rules: is_code.to_vec(), ..Rules::default() };
    caller(&NativeWalk { pc: CODE, sp: S, fp, returned, ..NativeWalk::default() }, &mut &rules, &memory)
}

fn at(sp: u64, fp: u64) -> Result<NativeWalk, u8> {
    Ok(NativeWalk { pc: RETURN, sp, fp, returned: 1, ..NativeWalk::default() })
}

/// A frame of JavaScript, and one of a kind by number, of code that has called and of code that runs.
#[test]
fn frames_that_are_there() {
    let of = |function: u64, context: u64| [0, 0, 7, 2, function, context, SAVED, RETURN];
    for (function, context) in [(OBJECT, OBJECT + 0x40), (7, 22 << 1)] {
        for returned in [0, 1] {
            assert_eq!(found(returned, S + 32, &of(function, context), &[]), at(S + 48, SAVED));
        }
    }
    // Right behind `mov %rsp, %rbp`: what is below the stack is left from earlier.
    assert_eq!(found(0, S, &[OBJECT, OBJECT, SAVED, RETURN], &[]), at(S + 16, SAVED));
}

/// An object on top of the stack whose address lies behind what could be a call is no return address: there is no code.
#[test]
fn objects_behind_what_looks_like_a_call() {
    for returned in [0, 1] {
        let words = [0, 0, LIKE_A_CALL, 2, OBJECT, OBJECT, SAVED, RETURN];
        assert_eq!(found(returned, S + 32, &words, &[]), at(S + 48, SAVED));
        let words = [0, 0, S + 32, LIKE_A_CALL, OBJECT, OBJECT, SAVED, RETURN];
        assert_eq!(found(returned, S + 32, &words, &[]), at(S + 48, SAVED));
    }
}

/// Frames of others: neither objects nor a kind, or no return address; and `rbp` that is no frame pointer.
#[test]
fn frames_of_others() {
    let of = |function, context, back| [0, 0, 7, 2, function, context, SAVED, back];
    let nothing = Err(end::NO_UNWIND_INFO);
    for words in [
        of(OBJECT, 0, RETURN),
        of(OBJECT, 200, RETURN),
        of(OBJECT + 1, OBJECT, RETURN),
        of(OBJECT, OBJECT + 2, RETURN),
        of(OBJECT, OBJECT, 0x7000),
    ] {
        assert_eq!(found(1, S + 32, &words, &[]), nothing, "{words:x?}");
    }
    for fp in [S - 8, S + 33, 0, 1] {
        assert_eq!(found(1, fp, &of(OBJECT, OBJECT, RETURN), &[]), nothing, "{fp:x}");
    }
}

/// Where `rbp` is still, or again, the caller's, the return address is on top of the stack, or what `push %rbp` left below it; but an old one may
/// lie there as well, so that only known instructions prove it. Nothing is said where the return address is in a register.
#[test]
fn frames_of_callers() {
    let (nothing, fp) = (Err(end::NO_UNWIND_INFO), S + 32);
    let entered = [0, 0, RETURN, 2, OBJECT, OBJECT, SAVED, RETURN];
    let pushed = [0, 0, fp, RETURN, OBJECT, OBJECT, SAVED, RETURN];
    let popped = [0, 0, 7, 2, OBJECT, OBJECT, SAVED, RETURN];
    for returned in [0, 1] {
        assert_eq!(found(returned, fp, &entered, &[]), nothing);
        assert_eq!(found(returned, fp, &pushed, &[]), nothing);
    }
    for (before, code) in FRAMELESS {
        assert_eq!(found_between(fp, &entered, before, code), at(S + 8, fp), "{before:x?} {code:x?}");
        assert_eq!(found_between(fp, &entered, before, &BODY), nothing, "{before:x?}");
    }
    assert_eq!(found_between(fp, &pushed, &[0x55], &[0x48, 0x89, 0xe5]), at(S + 16, fp));
    assert_eq!(found_between(fp, &pushed, &[0x90], &[0x48, 0x89, 0xe5]), nothing);
    // Behind the call for a frame.
    let asked: &[u8] = &[0x49, 0xbc, 1, 2, 3, 4, 5, 6, 0, 0, 0xe8, 1, 2, 3, 4];
    assert_eq!(found_of(1, fp, &entered, asked, &[]), at(S + 8, fp));
    for code in [
        &[0x48, 0x8d, 0x64, 0xcc, 0x08][..], // lea 0x8(%rsp,%rcx,8), %rsp
        &[0x4a, 0x8d, 0x24, 0xcc],           // lea (%rsp,%r9,8), %rsp
        &[0x41, 0x52, 0xc3],                 // push %r10; ret
        &[0x51, 0xc3],                       // push %rcx; ret
    ] {
        assert_eq!(found(0, fp, &popped, code), nothing, "{code:x?}");
        assert_eq!(found(1, fp, &popped, code), at(S + 48, SAVED), "{code:x?}");
    }
}

/// Instructions, before and from where code was interrupted, that have no frame: of optimized code, of baseline code, and before a return.
const FRAMELESS: [(&[u8], &[u8]); 11] = [
    (&[], &[0x48, 0x8b, 0x59, 0xf8, 0xf6, 0x43, 0x35, 0x01]),
    (&[0x48, 0x8b, 0x59, 0xf8], &[0xf6, 0x43, 0x35, 0x01, 0x0f, 0x85]),
    (&[0xf6, 0x43, 0x35, 0x01], &[0x0f, 0x85, 1, 2, 3, 4]),
    (&[0x0f, 0x85, 1, 2, 3, 4], &[0x55, 0x48, 0x89, 0xe5]),
    (&[], &[0xbb, 0x20, 0, 0, 0, 0x49, 0xbc]),
    (&[0xbb, 0x20, 0, 0, 0], &[0x49, 0xbc, 1, 2, 3, 4, 5, 6]),
    (&[0x49, 0xbc, 1, 2, 3, 4, 5, 6, 0, 0], &[0xe8, 1, 2, 3, 4]),
    (&[0x5d], &[0x48, 0x83, 0xf9, 0x02, 0x7f, 3]),
    (&[0x5d, 0x48, 0x83, 0xf9, 0x02], &[0x7f, 3, 0xc2, 0x10, 0]),
    (&[0x7f, 3], &[0xc2, 0x10, 0]),
    (&[], &[0xc3]),
];
