//! Native walks over stacks made by hand.

use super::snapshot::{Rules, Snapshot, walk};
use tracer_ebpf::native::{
    NativeFrame, NativeWalk, SCAN_WORDS, place, resume, scan, scan_frame_pointer, stack_put_away, step,
};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};
use tracer_ebpf::wire::{PythonLayout, end};

/// The lowest word of the stack.
const S: u64 = 0x7f00_0000_0000;

const fn at(pc: u64, bp: u64) -> NativeWalk {
    NativeWalk { pc, sp: S, bp, returned: 0, bx_at: 0, others_at: 0 }
}

/// The end of a walk of one step.
fn end_of(rules: &Rules, memory: &Snapshot) -> u8 {
    step(&mut at(0x1010, S), &mut &*rules, memory).1
}

/// A chain through every kind of frame: each rule finds the caller's pc, stack pointer and rbp, which the next rule needs.
#[test]
fn every_kind_of_frame() {
    let rules = Rules::of(&[
        (0x1000, rule::RSP, 24, -16),
        (0x2000, rule::RBP, 16, -16),
        (0x3000, rule::DEREF_RBP, -8, 0),
        (0x4000, rule::RBP, 16, -16),
        (0x5000, rule::DEREF_RSP, 16, 0),
        (0x6000, rule::DEREF_RSP_8, 24, -24),
        (0x6fff, rule::SIGNAL, 0, 0),
        (0x8010, rule::RSP, 8, 0),
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
        (0x6fff, S + 0x800),
        (0x8010, S + 0x808),
        (0x9090, u64::MAX),
    ];
    assert_eq!(frames, cfas.map(|(pc, cfa)| NativeFrame { pc, cfa }));
    assert_eq!(code, end::COMPLETE);
}

/// A frame by `rbx + 16`, as Intel's compiler makes them, with the usual places of what it saved.
const BY_RBX: FullRule = FullRule {
    cfa: Operand::sum(base::RBX, 16),
    add: 0,
    ra: Operand::word(base::CFA, -8),
    rbp: Operand::SAME,
    rbx: Operand::word(base::CFA, -16),
};

/// `rbx` is found where the callee saved it, through frames that leave it alone; a rule in full finds the next caller by it.
#[test]
fn rbx_is_followed() {
    let saving = Rule::pack(rule::RSP, 24, 0).unwrap().saving_rbx(8).unwrap();
    let realigned = Rule::pack(rule::DEREF_RBP, -8, 0).unwrap().saving_rbx(16).unwrap();
    let functions = [(0x2000, rule::RSP, 16, 0), (0x3100, rule::OUTERMOST, 0, 0)];
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
    let by_r10 = FullRule { cfa: Operand::sum(R10, 0), rbx: Operand::SAME, ..BY_RBX };
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
    let popped = FullRule { cfa: Operand::sum(base::RSP, 0), ra: Operand::sum(RDI, 0), ..BY_RBX };
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
    let rules = Rules::of(&[(0x1000, rule::RSP, 8, 0), (0x1100, rule::OUTERMOST, 0, 0)]);
    let memory = Snapshot::of(&[(S, 0x1100), (S + 8, 0x1101)]);
    let (frames, code) = walk(at(0x1010, 0), &rules, &memory);
    assert_eq!((frames.len(), code), (3, end::COMPLETE));
}

/// A return address of zero is how threads begin.
#[test]
fn zero_is_the_end() {
    let rules = Rules::of(&[(0x1000, rule::RSP, 8, 0)]);
    assert_eq!(end_of(&rules, &Snapshot::of(&[(S, 0)])), end::COMPLETE);
}

/// Each reason to stop is told, and the frame where it stops has no CFA.
#[test]
fn reasons_to_stop() {
    let nothing = Snapshot::default();
    let rules = |kind, offset| Rules::of(&[(0x1000, kind, offset, 0)]);
    assert_eq!(end_of(&rules(rule::NONE, 0), &nothing), end::NO_UNWIND_INFO);
    assert_eq!(end_of(&rules(rule::UNSUPPORTED, 0), &nothing), end::UNSUPPORTED);
    assert_eq!(end_of(&rules(rule::FULL + 1, 0), &nothing), end::UNSUPPORTED);
    assert_eq!(end_of(&rules(rule::RSP, 16), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::DEREF_RBP, 16), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::SIGNAL, 0), &nothing), end::FAULT);
    assert_eq!(end_of(&rules(rule::RSP, 0), &nothing), end::BAD_FRAME);
    assert_eq!(end_of(&rules(rule::RBP, -8), &nothing), end::BAD_FRAME);
    assert_eq!(end_of(&Rules::default(), &nothing), end::UNMAPPED);
    let (frame, _) = step(&mut at(0x1010, 0), &mut &Rules::default(), &nothing);
    assert_eq!(frame, NativeFrame { pc: 0x1010, cfa: 0 });
}

/// An address in code without unwind information, and a call from 0x2050 to where that function begins, 0x4080.
const CALLEE: u64 = 0x4100;
const CALL: [u8; 5] = [0xe8, 0x30, 0x20, 0, 0];

/// Code whose callers' chain ends two frames above the return address; `call` ends where that points.
fn scanned(call: &[u8]) -> (Rules, Snapshot) {
    let rules = Rules::of(&[
        (0x2000, rule::RSP, 8, 0),
        (0x3000, rule::OUTERMOST, 0, 0),
        (0x4000, rule::NONE, 0, 0),
        (0x5000, rule::RSP, 8, 0),
    ]);
    let mut memory = Snapshot::of(&[
        (S, 0x77),        // Data: below the first pc.
        (S + 8, 0x4050),  // Into code without unwind information.
        (S + 16, 0x5050), // Into code with it, behind a call, but its own caller is nowhere.
        (S + 24, 0xb9),
        (S + 32, 0x2050),
        (S + 40, 0x3050),
    ]);
    for place in [0x4050, 0x5050] {
        memory.write(place - 8, &[0x90, 0x90, 0x90, 0xe8, 1, 2, 3, 4]);
    }
    memory.write(0x2050 - 8, &[0x90; 8]);
    memory.write(0x2050 - call.len() as u64, call);
    (rules, memory)
}

/// What a scan finds, as the probes drive it: by words, upwards.
fn found(call: &[u8]) -> Option<NativeWalk> {
    let (rules, memory) = scanned(call);
    let from = at(CALLEE, 0xb0);
    (0..u64::from(SCAN_WORDS)).find_map(|word| scan(&from, S + word * 8, &mut &rules, &memory))
}

/// The scan passes over data, code without unwind information and chains that break, and takes the word below as rbp.
#[test]
fn scan_takes_the_first_that_holds() {
    let walk = NativeWalk { pc: 0x2050, sp: S + 40, bp: 0xb9, returned: 1, ..NativeWalk::default() };
    assert_eq!(found(&CALL), Some(walk));
}

/// A leaf that pushed nothing: the return address lies at the stack pointer, and rbp is still the caller's.
#[test]
fn scan_of_a_leaf() {
    let (rules, memory) = scanned(&CALL);
    let from = NativeWalk { sp: S + 32, ..at(CALLEE, 0xb0) };
    let found = scan(&from, S + 32, &mut &rules, &memory);
    assert_eq!(
        found,
        Some(NativeWalk { pc: 0x2050, sp: S + 40, bp: 0xb0, returned: 1, ..NativeWalk::default() })
    );
}

/// Code that pushed something else and left rbp alone: where the word below the return address cannot be the caller's rbp, the register is.
#[test]
fn scan_of_code_that_leaves_rbp_alone() {
    let rules = Rules::of(&[
        (0x2000, rule::RBP, 16, -16),
        (0x3000, rule::OUTERMOST, 0, 0),
        (0x4000, rule::NONE, 0, 0),
    ]);
    let mut memory = Snapshot::of(&[(S, 1), (S + 8, 0x2050), (S + 0x30, 0), (S + 0x38, 0x3050)]);
    memory.write(0x2050 - 8, &[0x90; 8]);
    memory.write(0x2050 - 5, &CALL);
    let from = NativeWalk { sp: S, ..at(CALLEE, S + 0x30) };
    let walk = NativeWalk { pc: 0x2050, sp: S + 16, bp: S + 0x30, returned: 1, ..NativeWalk::default() };
    assert_eq!(scan(&from, S + 8, &mut &rules, &memory), Some(walk));
    assert_eq!(scan(&NativeWalk { bp: 1, ..from }, S + 8, &mut &rules, &memory), None);
}

/// A stack pointer at a page's start has the old one 120 bytes above it; any other has not, whatever lies there.
#[test]
fn the_stack_that_was_put_away() {
    let memory = Snapshot::of(&[(0x7000 + 120, S), (0x7008 + 120, S), (0x9000 + 120, 17)]);
    let put_away = |sp| stack_put_away(&NativeWalk { sp, ..at(0x8000, 0) }, &memory);
    assert_eq!(put_away(0x7000), Some(S));
    assert_eq!(put_away(0x7008), None);
    assert_eq!(put_away(0x9000), None);
    assert_eq!(put_away(0xa000), None);
}

/// A frame pointer is believed above the stack pointer, within 64 KiB, at a multiple of 16, and where a return address follows it.
#[test]
fn scan_at_the_frame_pointer() {
    let (rules, memory) = scanned(&[0xe8, 0, 0, 0, 0]);
    let from = NativeWalk { sp: S - 0x8000, ..at(CALLEE, S + 24) };
    let scanned = |walk| scan_frame_pointer(&walk, &mut &rules, &memory);
    assert_eq!(S % 16, 0);
    assert_eq!(scanned(from), None); // Not a multiple of 16.
    let mut memory = Snapshot::of(&[(S + 32, 0xb9), (S + 40, 0x2050), (S + 48, 0x3050)]);
    memory.write(0x2050 - 8, &[0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0]);
    let scanned = |sp| scan_frame_pointer(&NativeWalk { sp, bp: S + 32, ..from }, &mut &rules, &memory);
    let walk = NativeWalk { pc: 0x2050, sp: S + 48, bp: 0xb9, returned: 1, ..NativeWalk::default() };
    assert_eq!(scanned(S - 0x8000), Some(walk));
    assert_eq!(scanned(S + 32), None);
    assert_eq!(scanned(S - 0x10000), None);
    memory.write(0x2050 - 8, &[0x90; 8]);
    assert_eq!(scan_frame_pointer(&NativeWalk { bp: S + 32, ..from }, &mut &rules, &memory), None);
}

/// Every form of near call is one; jumps, far calls and other bytes are not.
#[test]
fn scan_wants_a_call() {
    let calls: [&[u8]; 9] = [
        &CALL,
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
        assert!(found(call).is_some(), "{call:02x?}");
    }
    let others: [&[u8]; 5] =
        [&[0xe9, 1, 2, 3, 4], &[0xff, 0xe0], &[0xff, 0x18], &[0xc3], &[0xff, 0x25, 1, 2, 3, 4]];
    for other in others {
        assert!(found(other).is_none(), "{other:02x?}");
    }
}

/// A direct call counts only if it leads to the code that the scan left: straight or through an entry of a linkage table, in any form.
#[test]
fn scan_wants_the_call_that_led_there() {
    assert!(found(&[0xe8, 0xb0, 0xef, 0xff, 0xff]).is_none()); // To 0x1000: nowhere.
    assert!(found(&[0xe8, 0, 0, 0, 0]).is_none()); // To code with unwind information.
    assert!(found(&[0xe8, 0x30, 0x21, 0, 0]).is_none()); // To a function that begins behind it.
    for entry in [&[0xff, 0x25][..], &[0xf2, 0xff, 0x25], &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25]] {
        let (rules, mut memory) = scanned(&[0xe8, 0xb0, 0, 0, 0]); // To 0x2100.
        let from = at(CALLEE, 0xb0);
        memory.write(0x2100, entry);
        memory.write(0x2100 + entry.len() as u64, &[0x10, 0, 0, 0, 0, 0, 0, 0]);
        let slot = 0x2100 + entry.len() as u64 + 4 + 0x10;
        memory.write(slot, &0x4080u64.to_le_bytes());
        assert!(scan(&from, S + 32, &mut &rules, &memory).is_some(), "{entry:02x?}");
        memory.write(slot, &0x5000u64.to_le_bytes());
        assert!(scan(&from, S + 32, &mut &rules, &memory).is_none(), "{entry:02x?}");
    }
}

/// The walk goes on at the frame that holds an anchor, by the distances that were learned.
#[test]
fn resume_at_an_anchor() {
    let layout = PythonLayout { eval_cfa: 0x90, eval_rbp: 0x30, ..PythonLayout::default() };
    let memory = Snapshot::of(&[(S + 0x88, 0x2050), (S + 0x60, 0xb9)]);
    let walk = NativeWalk { pc: 0x2050, sp: S + 0x90, bp: 0xb9, returned: 1, ..NativeWalk::default() };
    assert_eq!(resume(S, &layout, &memory), Some(walk));
    let without = PythonLayout { eval_rbp: 0, ..layout };
    assert_eq!(resume(S, &without, &memory), Some(NativeWalk { bp: 0, ..walk }));
    assert_eq!(resume(S + 8, &layout, &memory), None);
}
