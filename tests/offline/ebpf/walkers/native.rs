//! Native walks over stacks made by hand.
//!
//! Leaves out the search for callers of code without unwind information (`scan.rs`).

use super::snapshot::{Rules, Snapshot, walk};
use tracer_ebpf::native::{NO_FRAME_POINTER, NativeFrame, NativeWalk, place, resume, step};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};
use tracer_ebpf::wire::{PythonLayout, end};

/// The lowest word of the stack.
const S: u64 = 0x7f00_0000_0000;

const fn at(pc: u64, fp: u64) -> NativeWalk {
    NativeWalk { pc, sp: S, fp, returned: 0, callee_saved_at: 0, others_at: 0 }
}

/// The end of a walk of one step.
fn end_of(rules: &Rules, memory: &Snapshot) -> u8 {
    step(&mut at(0x1010, S), &mut &*rules, memory).1
}

/// A chain through every kind of frame: each rule finds the caller's pc, stack pointer and rbp, which the next rule needs.
#[test]
fn every_kind_of_frame() {
    let rules = Rules::of(&[
        (0x1000, rule::SP, 24, -16),
        (0x2000, rule::FP, 16, -16),
        (0x3000, rule::DEREF_FP, -8, 0),
        (0x4000, rule::FP, 16, -16),
        (0x5000, rule::DEREF_SP, 16, 0),
        (0x6000, rule::DEREF_SP_8, 24, -24),
        (0x6fff, rule::SIGNAL, 0, 0),
        (0x8010, rule::SP, 8, 0),
        (0x9000, rule::OUTERMOST, 0, 0),
    ]);
    let memory = Snapshot::of(&[
        (S + 8, S + 0x40),
        (S + 16, 0x2021),
        (S + 0x40, S + 0x80),
        (S + 0x48, 0x3031),
        (S + 0x78, S + 0xc0),
        (S + 0x80, S + 0x100),
        (S + 0xb8, 0x4041),
        (S + 0x100, 0xbad),
        (S + 0x108, 0x5051),
        (S + 0x120, S + 0x200),
        (S + 0x1f8, 0x6061),
        (S + 0x218, S + 0x2f8),
        (S + 0x2e8, 0xbad),
        (S + 0x2f8, 0x7000), // The trampoline's own start: a handler returns there.
        (S + 0x300 + 40 + 10 * 8, S + 0x900),
        (S + 0x300 + 40 + 15 * 8, S + 0x800),
        (S + 0x300 + 40 + 16 * 8, 0x8010), // Interrupted at the first instruction of its function.
        (S + 0x800, 0x9091),
    ]);
    let (frames, code) = walk(at(0x1010, 0xbad), &rules, &memory);
    let cfas = [
        (0x1010, S + 24),
        (0x2020, S + 0x50),
        (0x3030, S + 0xc0),
        (0x4040, S + 0x110),
        (0x5050, S + 0x200),
        (0x6060, S + 0x300),
        (0x7000, S + 0x800),
        (0x8010, S + 0x808),
        (0x9090, u64::MAX),
    ];
    assert_eq!(frames, cfas.map(|(pc, cfa)| NativeFrame { pc, cfa }));
    assert_eq!(code, end::COMPLETE);
}

/// A frame by `rbx + 16`, as Intel's compiler makes them, with the usual places of what it saved.
const BY_RBX: FullRule = FullRule {
    cfa: Operand::sum(base::CALLEE_SAVED, 16),
    add: 0,
    ra: Operand::word(base::CFA, -8),
    fp: Operand::SAME,
    callee_saved: Operand::word(base::CFA, -16),
};

/// `rbx` is found where the callee saved it, through frames that leave it alone; a rule in full finds the next caller by it.
#[test]
fn rbx_is_followed() {
    let saving = Rule::pack(rule::SP, 24, 0).unwrap().saving_callee_saved(8).unwrap();
    let realigned = Rule::pack(rule::DEREF_FP, -8, 0).unwrap().saving_callee_saved(16).unwrap();
    let functions = [(0x2000, rule::SP, 16, 0), (0x3100, rule::OUTERMOST, 0, 0)];
    let frames = [
        (S + 8, S + 0x80), // rbx of the caller's caller, saved by the innermost function.
        (S + 16, 0x2021),
        (S + 32, 0x3031),
        (S + 0x88, 0x3131),
    ];
    let rules = || Rules { full: vec![BY_RBX], ..Rules::of(&functions).with(0x3000, Rule::full(0)) };
    let (walked, code) = walk(at(0x1010, 0), &rules().with(0x1000, saving), &Snapshot::of(&frames));
    assert_eq!(walked.iter().map(|f| f.pc).collect::<Vec<_>>(), [0x1010, 0x2020, 0x3030, 0x3130]);
    assert_eq!((walked[2].cfa, code), (S + 0x90, end::COMPLETE));
    // The same behind a realigned function, which saved it below where rbp points.
    let memory = Snapshot::of(&[
        (S - 0x10, S + 0x80),
        (S - 8, S + 24), // The CFA, put away next to rbp.
        (S, 0xb0),
        (S + 16, 0x2021),
        (S + 32, 0x3031),
        (S + 0x88, 0x3131),
    ]);
    let from = NativeWalk { sp: S - 0x100, ..at(0x1010, S) };
    let (walked, code) = walk(from, &rules().with(0x1000, realigned), &memory);
    assert_eq!((walked.len(), code), (4, end::COMPLETE));
}

/// Registers that nobody saves are known where code was interrupted, directly or by a signal, and nowhere else.
#[test]
fn registers_of_the_interrupted_code() {
    const R10: u32 = 10;
    let by_r10 = FullRule { cfa: Operand::sum(R10, 0), callee_saved: Operand::SAME, ..BY_RBX };
    let functions = [(0x2000, rule::OUTERMOST, 0, 0), (0x3000, rule::SIGNAL, 0, 0)];
    let mut rules = Rules::of(&functions).with(0x1000, Rule::full(0));
    rules.full.push(by_r10);
    rules.registers.insert(R10, S + 0x400);
    let memory = Snapshot::of(&[
        (S + 40 + 2 * 8, S + 0x400), // r10 of the ucontext.
        (S + 40 + 10 * 8, 0xb0),
        (S + 40 + 15 * 8, S + 0x300),
        (S + 40 + 16 * 8, 0x1010),
        (S + 0x3f8, 0x2021),
    ]);
    let interrupted = NativeWalk { others_at: place::INTERRUPTED, ..at(0x1010, 0) };
    let (frames, code) = walk(interrupted, &rules, &memory);
    assert_eq!((frames[0].cfa, frames.len(), code), (S + 0x400, 2, end::COMPLETE));
    let (frames, code) = walk(at(0x3000, 0), &rules, &memory);
    assert_eq!((frames[1].cfa, frames.len(), code), (S + 0x400, 3, end::COMPLETE));
    assert_eq!(end_of(&rules, &memory), end::UNSUPPORTED);
}

/// `vfork` pops its return address into a register while its caller's frame begins right there; rules in full that lead nowhere end walks.
#[test]
fn return_address_in_a_register() {
    const RDI: u32 = 5;
    let popped = FullRule { cfa: Operand::sum(base::SP, 0), ra: Operand::sum(RDI, 0), ..BY_RBX };
    let mut rules = Rules::of(&[(0x2000, rule::OUTERMOST, 0, 0)]).with(0x1000, Rule::full(0));
    assert_eq!(end_of(&rules, &Snapshot::default()), end::UNSUPPORTED);
    rules.full.push(popped);
    rules.registers.insert(RDI, 0x2021);
    let interrupted = NativeWalk { others_at: place::INTERRUPTED, ..at(0x1010, 0) };
    let (frames, code) = walk(interrupted, &rules, &Snapshot::default());
    assert_eq!((frames[0].cfa, frames[1].pc, code), (S, 0x2020, end::COMPLETE));
    rules.full[0] = FullRule { ra: Operand::word(base::CFA, -8), ..popped };
    assert_eq!(end_of(&rules, &Snapshot::default()), end::BAD_FRAME);
    rules.full[0] = FullRule { cfa: Operand::sum(base::SAME + 1, 8), ..popped };
    assert_eq!(end_of(&rules, &Snapshot::default()), end::UNSUPPORTED);
}

/// In the PLT the stack pointer depends on whether the entry's push was executed: at its 11th byte, or at its 10th.
#[test]
fn plt_entries() {
    let memory = Snapshot::of(&[(S, 0x2222), (S + 8, 0x3333)]);
    for (offset, pushed) in [(8, 11), (0, 10)] {
        let rules = Rules::of(&[(0x1000, rule::PLT, offset, 0)]);
        for place in 0..16 {
            let mut walk = at(0x1020 + place, 0);
            assert_eq!(step(&mut walk, &mut &rules, &memory).1, end::RUNNING);
            let expected = if place < pushed { (S + 8, 0x2222) } else { (S + 16, 0x3333) };
            assert_eq!((walk.sp, walk.pc), expected, "{pushed} {place}");
        }
    }
}

/// A return address belongs to the function of the call, though it may be the first byte of the next one.
#[test]
fn a_call_at_the_end_of_a_function() {
    let rules = Rules::of(&[(0x1000, rule::SP, 8, 0), (0x1100, rule::OUTERMOST, 0, 0)]);
    let memory = Snapshot::of(&[(S, 0x1100), (S + 8, 0x1101)]);
    let (frames, code) = walk(at(0x1010, 0), &rules, &memory);
    assert_eq!((frames.len(), code), (3, end::COMPLETE));
}

/// What puts a stack together writes a function's address on it, and nobody calls it: the first function of a stack by `makecontext`, and the
/// trampolines behind signal handlers of libraries without unwind information.
#[test]
fn entered_by_a_return() {
    let rules =
        |kind| Rules::of(&[(0x1000, rule::SP, 8, 0), (0x2000, rule::NONE, 0, 0), (0x2100, kind, 8, 0)]);
    let mut memory = Snapshot::of(&[(S, 0x2100), (S + 8, 0x1010), (0x20f8, 0x9090_9090_9090_9090)]);
    let (frames, code) = walk(at(0x1010, 0), &rules(rule::SP), &memory);
    assert_eq!((frames[1], code), (NativeFrame { pc: 0x2100, cfa: u64::MAX }, end::COMPLETE));
    // A function that begins behind a call that never returns is not that call's.
    memory.write(0x20fb, &[0xe8, 0, 0, 0, 0]);
    let (frames, code) = walk(at(0x1010, 0), &rules(rule::SP), &memory);
    assert_eq!((frames[1].pc, code), (0x20ff, end::NO_UNWIND_INFO));
    for trampoline in [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5][..], &[0xb8, 15, 0, 0, 0, 0x0f, 5, 0x90]] {
        memory.write(0x2100, trampoline);
        let mcontext = S + 8 + 40;
        memory.write(mcontext + 10 * 8, &0_u64.to_le_bytes());
        memory.write(mcontext + 15 * 8, &(S + 0x300).to_le_bytes());
        memory.write(mcontext + 16 * 8, &0x1020_u64.to_le_bytes());
        memory.write(S + 0x300, &[0; 8]);
        let (frames, code) = walk(at(0x1010, 0), &rules(rule::NONE), &memory);
        assert_eq!((frames[1].pc, frames[2].pc, code), (0x2100, 0x1020, end::COMPLETE));
    }
}

/// A return address of zero is how threads begin.
#[test]
fn zero_is_the_end() {
    let rules = Rules::of(&[(0x1000, rule::SP, 8, 0)]);
    assert_eq!(end_of(&rules, &Snapshot::of(&[(S, 0)])), end::COMPLETE);
}

/// Each reason to stop is told, and the frame where it stops has no CFA.
#[test]
fn reasons_to_stop() {
    let nothing = Snapshot::default();
    let rules = |kind, offset| Rules::of(&[(0x1000, kind, offset, 0)]);
    assert_eq!(end_of(&rules(rule::NONE, 0), &nothing), end::NO_UNWIND_INFO);
    assert_eq!(end_of(&rules(rule::UNSUPPORTED, 0), &nothing), end::UNSUPPORTED);
    assert_eq!(end_of(&rules(rule::V8 + 1, 0), &nothing), end::UNSUPPORTED);
    assert_eq!(end_of(&rules(rule::SP, 16), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::DEREF_FP, 16), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::SIGNAL, 0), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::SP, 0), &nothing), end::BAD_FRAME);
    assert_eq!(end_of(&rules(rule::FP, -8), &nothing), end::BAD_FRAME);
    assert_eq!(end_of(&Rules::default(), &nothing), end::UNMAPPED);
    let (frame, _) = step(&mut at(0x1010, 0), &mut &Rules::default(), &nothing);
    assert_eq!(frame, NativeFrame { pc: 0x1010, cfa: 0 });
}

/// The walk goes on at the frame that holds an anchor, by the distances that were learned.
#[test]
fn resume_at_an_anchor() {
    let layout = PythonLayout { eval_cfa: 0x90, eval_fp: 0x30, ..PythonLayout::default() };
    let memory = Snapshot::of(&[(S + 0x88, 0x2050), (S + 0x60, 0xb9)]);
    let walk = NativeWalk { pc: 0x2050, sp: S + 0x90, fp: 0xb9, returned: 1, ..NativeWalk::default() };
    assert_eq!(resume(S, &layout, &memory), Some(walk));
    let without = PythonLayout { eval_fp: 0, ..layout };
    assert_eq!(resume(S, &without, &memory), Some(NativeWalk { fp: NO_FRAME_POINTER, ..walk }));
    assert_eq!(resume(S + 8, &layout, &memory), None);
}
