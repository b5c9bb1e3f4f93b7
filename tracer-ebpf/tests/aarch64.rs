//! Walks over stacks of aarch64 that were made by hand, and its rules: on such a machine, or on any with `--cfg bpf_target_arch="aarch64"`
//! (`cargo xtask test`).
#![cfg(any(bpf_target_arch = "aarch64", target_arch = "aarch64"))]

use std::sync::atomic::Ordering::Relaxed;
use tracer_ebpf::arch::frame::{ADDRESS_BITS, code_address};
use tracer_ebpf::arch::{call, kernel, register, signal_frame, thread};
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{Found, NativeWalk, Tables, find_caller, place, step};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};
use tracer_ebpf::saved_stack_pointer::leave_kernel;
use tracer_ebpf::wire::end;

/// The lowest word of the stack.
const S: u64 = 0xffff_8000_0000;
/// What a signature looks like: the bits between those of an address and the highest byte.
const SIGNED: u64 = 0x0035 << 48;

/// Memory, as its words; what is not there cannot be read.
struct Words<'a>(&'a [(u64, u64)]);

impl Memory for Words<'_> {
    fn read_word(&self, address: u64) -> Option<u64> {
        self.0.iter().find(|(at, _)| *at == address).map(|&(_, word)| word)
    }

    fn read_frame(&self, _address: u64, _bytes: u32, _out: &mut [u64; FRAME_WORDS]) -> bool {
        false
    }
}

/// Functions of 0x1000 bytes by where they begin, one rule each, and `x30`.
struct Code<'a> {
    rules: &'a [(u64, Rule)],
    full: FullRule,
    link: u64,
}

impl Tables for Code<'_> {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        self.rules.iter().find(|(at, _)| *at == pc & !0xfff).map(|&(_, rule)| rule).ok_or(end::UNMAPPED)
    }

    fn full(&mut self, _index: u32) -> Option<FullRule> {
        Some(self.full)
    }

    fn interrupted(&mut self, register: u32) -> Option<u64> {
        (register == 30).then_some(self.link)
    }
}

fn code(rules: &[(u64, Rule)], link: u64) -> Code<'_> {
    Code { rules, full: FullRule::default(), link }
}

fn packed(kind: u32, offset: i64, saved: i64) -> Rule {
    Rule::pack(kind, offset, saved).unwrap_or(Rule::UNSUPPORTED)
}

const fn at(pc: u64, fp: u64) -> NativeWalk {
    NativeWalk {
        pc,
        sp: S,
        fp,
        returned: 0,
        callee_saved_at: place::INTERRUPTED,
        others_at: place::INTERRUPTED,
    }
}

/// Frames of a walk, as their places and CFAs, and why it ended.
fn walk<const FRAMES: usize>(
    mut from: NativeWalk,
    tables: &mut Code<'_>,
    memory: &Words<'_>,
) -> ([(u64, u64); FRAMES], u8) {
    let (mut frames, mut code) = ([(0, 0); FRAMES], end::RUNNING);
    for frame in &mut frames {
        if code == end::RUNNING {
            let (found, ended) = step(&mut from, tables, memory);
            (*frame, code) = ((found.pc, found.cfa), ended);
        }
    }
    (frames, code)
}

/// Through every kind of frame, with signed return addresses: in `x30`, beside the frame pointer by `sp` and by `x29`, alone, through a signal
/// handler's frame into a function that has its return address in `x30` again.
#[test]
fn every_kind_of_frame() {
    const CONTEXT: u64 = S + 0x100;
    let rules = [
        (0x1000, packed(rule::SP, 16, 0)),
        (0x2000, packed(rule::SP, 32, -32)),
        (0x3000, packed(rule::FP, 48, -48)),
        (0x4000, Rule::full(0)),
        (0x5000, Rule::NONE),
        (0x6000, packed(rule::SP, 0, 0)),
        (0x7000, packed(rule::OUTERMOST, 0, 0)),
    ];
    let memory = [
        (S + 0x10, S + 0x40),
        (S + 0x18, SIGNED | 0x3020),
        (S + 0x40, S + 0x60),
        (S + 0x48, SIGNED | 0x4020),
        (S + 0x70, 0x5020),
        (0x5020, 0xd400_0001_d280_1168),
        (CONTEXT + signal_frame::PC, 0x6010),
        (CONTEXT + signal_frame::SP, S + 0x800),
        (CONTEXT + signal_frame::FP, S + 0x900),
        (CONTEXT + signal_frame::register(30), SIGNED | 0x7020),
    ];
    let full = FullRule {
        cfa: Operand::sum(base::SP, 0x90),
        add: 0,
        ra: Operand::word(base::CFA, -0x90),
        fp: Operand::SAME,
        callee_saved: Operand::SAME,
    };
    let mut tables = Code { rules: &rules, full, link: SIGNED | 0x2020 };
    let expected = [
        (0x1010, S + 0x10),
        (0x201f, S + 0x30),
        (0x301f, S + 0x70),
        (0x401f, CONTEXT),
        (0x5020, S + 0x800),
        (0x6010, S + 0x800),
        (0x701f, u64::MAX),
    ];
    assert_eq!(walk(at(0x1010, 0xbad), &mut tables, &Words(&memory)), (expected, end::COMPLETE));
}

/// A return address in `x30` is believed in the interrupted frame alone: in a later one the rows are damaged. So are frames that do not grow.
#[test]
fn the_link_register_is_believed_once() {
    let rules = [
        (0x1000, packed(rule::SP, 0, 0)),
        (0x2000, packed(rule::SP, 64, 0)),
        (0x3000, packed(rule::SP, 0, -16)),
    ];
    let found = walk(at(0x1010, 0), &mut code(&rules, 0x2020), &Words(&[]));
    assert_eq!(found, ([(0x1010, S), (0x201f, 0)], end::BAD_FRAME));
    assert_eq!(walk::<1>(at(0x3010, 0), &mut code(&rules, 0x2020), &Words(&[])).1, end::BAD_FRAME);
    // Without a return address the stack begins here.
    assert_eq!(walk::<1>(at(0x1010, 0), &mut code(&rules, 0), &Words(&[])).1, end::COMPLETE);
}

/// `bl` to a place so many bytes away, as the second half of a word.
const fn call_by(distance: i32) -> u64 {
    ((0x9400_0000 | (distance as u32 >> 2 & 0x03ff_ffff)) as u64) << 32
}

/// A kernel in assembly that has moved its stack pointer and called nothing: `x30` leads to who called it, directly or not, whose frame is known by its
/// frame pointer. What an earlier call has left there leads nowhere: into code without unwind information, or behind a call of something else.
#[test]
fn code_without_rows_that_has_called_nothing() {
    let rules =
        [(0x1000, Rule::NONE), (0x2000, packed(rule::SP, 64, -48)), (0x3000, packed(rule::OUTERMOST, 0, 0))];
    let from = at(0x1010, S + 0x50);
    let left = |call: u64, link: u64| {
        let memory = [(link - 8, call), (S + 0x50, 0), (S + 0x58, 0x3020)];
        leave_kernel(&from, &mut code(&rules, SIGNED | link), &Words(&memory))
    };
    let caller = NativeWalk { pc: 0x2020, sp: S + 0x40, fp: S + 0x50, returned: 1, ..NativeWalk::default() };
    let blr = 0xd63f_0020_u64 << 32;
    assert_eq!(left(call_by(0x1000 - 0x201c), 0x2020), Some(caller));
    assert_eq!(left(blr, 0x2020), Some(caller));
    assert_eq!(left(call_by(0x3000 - 0x201c), 0x2020), None);
    assert_eq!(left(blr, 0x1040), None);
    assert_eq!(left(0, 0x2020), None);
}

/// An entry of a linkage table leaves everything alone, and belongs to the call before.
#[test]
fn entries_of_linkage_tables() {
    let rules = [(0x1000, Rule::NONE), (0x2000, packed(rule::SP, 64, -48))];
    // adrp x16, 0x11000; ldr x17, [x16, #24]
    let entry = 0xf940_0e11_9000_0090;
    let memory = [(0x1040, entry), (0x1_1018, 0x7000), (0x2018, call_by(0x1040 - 0x201c))];
    let found = leave_kernel(&at(0x1048, 7), &mut code(&rules, 0x2020), &Words(&memory));
    assert_eq!(found.map(|walk| (walk.pc, walk.sp, walk.fp)), Some((0x2020, S, 7)));
    assert_eq!(call::behind_plt(0x1040, &Words(&memory)), Some(0x7000));
    let marked = [(0x1040, entry << 32 | 0xd503_245f), (0x1044, entry), (0x1_1018, 0x7000)];
    assert_eq!(call::behind_plt(0x1040, &Words(&marked)), Some(0x7000));
    assert_eq!(call::behind_plt(0x2018, &Words(&memory)), None);
}

/// Where a frame pointer leads from code without rows to code that is left by its stack pointer, that is what its rule says of both.
#[test]
fn a_frame_pointer_gives_the_stack_pointer() {
    let rules =
        [(0x1000, Rule::NONE), (0x2000, packed(rule::SP, 64, -48)), (0x3000, packed(rule::OUTERMOST, 0, 0))];
    let memory = [
        (S + 0x10, S + 0x50),
        (S + 0x18, SIGNED | 0x2020),
        (S + 0x50, 0),
        (S + 0x58, SIGNED | 0x3020),
        (0x2018, call_by(0x1000 - 0x201c)),
        // stp x29, x30, [sp, #-16]!; mov x29, sp
        (0x1000, 0x9100_03fd_a9bf_7bfd),
        (0x1008, 0),
    ];
    let from = NativeWalk { returned: 1, others_at: place::UNKNOWN, ..at(0x1020, S + 0x10) };
    let expected =
        NativeWalk { pc: 0x2020, sp: S + 0x40, fp: S + 0x50, returned: 1, ..NativeWalk::default() };
    let found = find_caller(&from, &mut code(&rules, 0), &Words(&memory));
    assert_eq!(found, Some(Found::Proved(expected)));
}

/// Calls, and how functions begin and end.
#[test]
fn instructions() {
    assert_eq!(call::direct_target(call_by(-0x400), 0x1000), Some(0xffc - 0x400));
    assert_eq!(call::direct_target(call_by(0x7ff_fffc), 0x1000), Some(0xffc + 0x7ff_fffc));
    assert_eq!(call::direct_target(0x1400_0001 << 32, 0x1000), None); // b
    for (code, is) in [
        (0xd63f_0020, true),
        (0xd63f_081f, true),
        (0xd73f_0801, true),
        (0xd61f_0020, false),
        (0xd65f_03c0, false),
    ] {
        assert_eq!(call::is_indirect(code << 32), is, "{code:x}");
    }
    let begins =
        |words: [u64; 4]| call::makes_frame_pointer(words[1] << 32 | words[0], words[3] << 32 | words[2]);
    let (stp, mov, add) = (0xa9be_7bfd, 0x9100_03fd, 0x9100_43fd);
    assert!(begins([0xd503_233f, stp, mov, 0])); // paciasp first
    assert!(begins([0xd100_83ff, 0xa901_7bfd, add, 0])); // sub sp; stp into the frame
    assert!(begins([stp, 0xa901_53f3, 0, mov]) && !begins([mov, stp, 0, 0]) && !begins([stp, 0, 0, 0]));
    assert!(!begins([0xa8c1_7bfd, mov, 0, 0])); // ldp
    assert_eq!(call::returns_at_once(0xd65f_03c0_a8c1_7bfd), Some((8, true)));
    assert_eq!(call::returns_at_once(0xd503_23bf_a8c1_7bfd), Some((8, true)));
    assert_eq!(call::returns_at_once(0xd65f_03c0_a8c2_7bfd), None);
    assert!(call::is_goexit(0x1004, 0xaa00_03e0 << 32, &Words(&[(0x1004, 0x9400_0010)])));
}

/// A signature fills all bits above those of the kernel's addresses, up to the highest byte: 39 with three levels of tables, 42 with pages of 64 KiB,
/// 48, 52. No other test has an address as large.
#[test]
fn signatures_above_addresses_of_each_size() {
    for bits in [39, 42, 48, 52] {
        let address = (1 << bits) - 0x1000;
        ADDRESS_BITS.store((1 << bits) - 1, Relaxed);
        assert_eq!(code_address(((0x0055_5555_5555_5555 >> bits) << bits) | address), address, "{bits}");
    }
    ADDRESS_BITS.store((1 << 48) - 1, Relaxed);
}

/// A call has not returned while what it called has its return address in a frame further down, and not where the stack was given back.
#[test]
fn calls_that_have_not_returned() {
    let saved = |at: u64| if at == S - 0x18 { SIGNED | 0x2020 } else { 0 };
    assert!(call::has_not_returned(S, &0x2020, S - 0x40, saved));
    assert!(!call::has_not_returned(S, &0x2020, S, saved));
    assert!(!call::has_not_returned(S, &0x2020, S - 0x10, saved));
    assert!(!call::has_not_returned(S, &0x2024, S - 0x40, saved));
}

/// A thread's descriptor and its data by what glibc says of itself; numbers that cannot be are not believed.
#[test]
fn where_a_thread_keeps_its_own() {
    let places = thread::told_by_libc(1856, 784);
    assert_eq!(places, Some(thread::SPECIFIC_DATA));
    let newer = thread::told_by_libc(0x7a0, 0x320).unwrap_or(0);
    assert_eq!((thread::descriptor(S, newer), thread::specific_data(newer)), (S - 0x7a0, 0x120));
    assert_eq!(thread::variable(S - 0x7a0, thread::distance(newer, 48, 8)), S + 24);
    assert_eq!((thread::told_by_libc(1 << 16, 784), thread::told_by_libc(700, 784)), (None, None));
    assert_eq!(thread::told_by_libc(1856, 500), None);
    // A program's own variables lie above 16 bytes, or what their alignment makes of these.
    let of_program = |bytes, align, at| thread::of_program(bytes, align, at);
    assert_eq!(
        [of_program(48, 8, 16), of_program(48, 64, 16), of_program(48, 0, 0)],
        [Some(32), Some(80), Some(16)]
    );
    assert_eq!([of_program(48, 8, 48), of_program(1 << 32, 8, 0), of_program(48, 1 << 33, 0)], [None; 3]);
    assert!(thread::is_distance(32) && !thread::is_distance(S));
}

/// What the kernel keeps of the code that it interrupted: whether that was a program's, and one of 32 bits; and which code returns from a signal.
#[test]
fn modes() {
    // EL0; EL0 of 32 bits; EL1 and EL2, with their own stack pointers.
    assert_eq!([0, 0x10, 5, 9].map(kernel::is_user_mode), [true, true, false, false]);
    let runs_32_bits = |mode: u64| {
        let mut registers = [0; register::COUNT];
        registers[kernel::MODE / 8] = mode;
        register::runs_32_bits(&registers)
    };
    assert_eq!([0, 0x10, 0x8000_0000].map(runs_32_bits), [false, true, false]);
    assert!(
        signal_frame::is_return(0xd400_0001_d280_1168) && !signal_frame::is_return(0xd400_0001_d280_0ba8)
    );
}

/// A world made of a number: every word and every rule follow from it and the address.
#[derive(Clone, Copy)]
struct World(u64);

impl World {
    const fn mix(self, address: u64) -> u64 {
        let mut mixed = address.wrapping_add(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 29
    }

    /// Addresses of all kinds, both ends of the address space included.
    const fn address(self, salt: u64) -> u64 {
        let mixed = self.mix(salt);
        match mixed >> 62 {
            0 => mixed,
            1 => mixed & 0x3ff,
            2 => u64::MAX - (mixed & 0x3ff),
            _ => S | mixed & 0xf_fff8,
        }
    }
}

impl Memory for World {
    fn read_word(&self, address: u64) -> Option<u64> {
        let mixed = self.mix(address);
        match mixed >> 60 {
            0 => None,
            1 => Some(mixed & 0xff),
            2 => Some(u64::MAX - (mixed & 0xff)),
            3..6 => Some(mixed << 4),
            _ => Some(address.wrapping_add(mixed & 0x3f8)),
        }
    }

    fn read_frame(&self, _address: u64, _bytes: u32, _out: &mut [u64; FRAME_WORDS]) -> bool {
        false
    }
}

impl Tables for World {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        let mixed = self.mix(pc ^ 0x5555);
        match mixed >> 59 {
            0 => Err(end::UNMAPPED),
            1..4 => Ok(Rule(mixed as u32)),
            kind => Ok(Rule(((kind % 11) as u32) << 28 | mixed as u32 & 0xfff_003f)),
        }
    }

    fn full(&mut self, index: u32) -> Option<FullRule> {
        let operand = |salt: u64| Operand(self.mix(u64::from(index) + salt) & 0x111_0000_ffff);
        let [cfa, ra, fp, callee_saved] = [0x100, 0x200, 0x300, 0x400].map(operand);
        Some(FullRule { cfa, add: i64::from(index % 64), ra, fp, callee_saved })
    }

    fn interrupted(&mut self, register: u32) -> Option<u64> {
        (register != 5).then(|| self.mix(u64::from(register)))
    }
}

/// In memory and by rules that nobody meant: no panic, no overflow, and each step moves up, but the first, whose return address may be in `x30`, and
/// the return from a signal.
#[test]
fn memory_and_rules_that_nobody_meant() {
    for memory in (0..20_000).map(World) {
        let mut world = memory;
        let [pc, sp, fp] = [1, 2, 3].map(|salt| world.address(salt));
        let returned = world.mix(4) & 1;
        let mut walk = NativeWalk { pc, sp, fp, returned, callee_saved_at: pc ^ sp & 1, others_at: sp & 1 };
        find_caller(&walk, &mut world, &memory);
        leave_kernel(&walk, &mut world, &memory);
        for number in 0..64 {
            let before = walk;
            let kind = world.rule(walk.pc.wrapping_sub(walk.returned)).map(Rule::kind);
            let (frame, code) = step(&mut walk, &mut world, &memory);
            if code != end::RUNNING {
                break;
            }
            assert_eq!(frame.cfa, walk.sp);
            let entered_by_return = before.returned == 1 && frame.pc == before.pc;
            if number > 0 && kind != Ok(rule::SIGNAL) && !entered_by_return {
                assert!(walk.sp > before.sp && walk.returned == 1, "{before:x?} {walk:x?}");
            }
        }
    }
}
