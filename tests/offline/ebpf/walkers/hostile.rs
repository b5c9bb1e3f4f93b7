//! Both walkers on memory and rules that nobody meant: no panic, no overflow, and always upwards.
//!
//! Values are drawn so that walks get somewhere: stack addresses, code addresses and offsets near both ends of the address space.

use super::snapshot::{python_walk, read_words};
use proptest::prelude::*;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{Found, NativeWalk, Tables, find_caller, resume, step};
use tracer_ebpf::python::{Step, begin, first_thread, step as python_step, thread_by_key};
use tracer_ebpf::rows::{FullRule, Operand, Rule, rule};
use tracer_ebpf::wire::{MAX_FRAMES, PythonLayout, end};

/// A world made of a number: every word and every rule follow from it and the address.
#[derive(Clone, Copy, Debug)]
struct World {
    seed: u64,
    /// What a word may be at most.
    highest: u64,
}

impl World {
    fn mix(self, address: u64) -> u64 {
        let mut mixed = address.wrapping_add(self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
        mixed = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 29
    }
}

impl Memory for World {
    fn read_word(&self, address: u64) -> Option<u64> {
        let mixed = self.mix(address);
        let word = match mixed >> 60 {
            0 => return None,
            1 => mixed & 0xff,
            2 => u64::MAX - (mixed & 0xff),
            3..6 => mixed << 4,
            _ => address.wrapping_add(mixed & 0x3f8),
        };
        Some(word.min(self.highest))
    }

    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        read_words(self, address, bytes, out)
    }
}

impl Tables for World {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        let mixed = self.mix(pc ^ 0x5555);
        match mixed >> 59 {
            0 => Err(end::UNMAPPED),
            // Mostly rules that exist; every bit pattern now and then.
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

/// Addresses of all kinds, both ends of the address space included.
fn address() -> impl Strategy<Value = u64> {
    let near_end = |bytes: u64| (0..bytes).prop_map(|back| u64::MAX - back);
    prop_oneof![any::<u64>(), 0..4u64, 0..0x400u64, near_end(0x10), near_end(0x400)]
}

/// Registers of all kinds.
fn registers() -> impl Strategy<Value = NativeWalk> {
    (address(), address(), address(), 0..2u64).prop_map(|(pc, sp, fp, returned)| NativeWalk {
        pc,
        sp,
        fp,
        returned,
        callee_saved_at: pc ^ sp & 1,
        others_at: sp & 1,
    })
}

/// Layouts whose places are inside a frame, as user space makes them, with any offsets.
fn layout() -> impl Strategy<Value = PythonLayout> {
    let words = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let special = [PythonLayout::EVERY_FRAME, PythonLayout::NO_SHIFT];
    let shift = prop_oneof![any::<u8>(), proptest::sample::select(special.to_vec())];
    let flags = (shift.clone(), shift, any::<u8>());
    let offsets = proptest::array::uniform8(prop_oneof![0..0x400u32, any::<u32>()]);
    (words, flags, offsets, address(), address()).prop_map(|(words, flags, offsets, key, interpreter)| {
        let [
            threads_head,
            thread_next,
            thread_id,
            thread_frame,
            cframe_frame,
            cframe_previous,
            eval_cfa,
            eval_fp,
        ] = offsets;
        PythonLayout {
            tss_key_at: key,
            interpreter_at: interpreter,
            tsd_block: thread_id,
            threads_head,
            thread_next,
            thread_id,
            thread_frame,
            cframe_frame,
            cframe_previous,
            frame_bytes: 80,
            code_word: words.0,
            previous_word: words.1,
            instruction_word: words.2,
            flags_word: words.3,
            owner_shift: flags.0,
            entry_shift: flags.1,
            shim_owner: flags.2,
            eval_cfa,
            eval_fp,
            ..PythonLayout::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// Each step but the return from a signal leaves the stack pointer above where it was, and says the CFA that it went to.
    #[test]
    fn native_steps_move_up(seed: u64, from in registers()) {
        let mut tables = World { seed, highest: u64::MAX };
        let mut walk = from;
        for _ in 0..MAX_FRAMES {
            let (before, kind) = (walk, tables.rule(walk.pc.wrapping_sub(walk.returned)).map(Rule::kind));
            let (frame, code) = step(&mut walk, &mut tables, &World { seed, highest: u64::MAX });
            prop_assert!([before.pc, before.pc.wrapping_sub(before.returned)].contains(&frame.pc));
            if code != end::RUNNING {
                break;
            }
            prop_assert_eq!(frame.cfa, walk.sp);
            let entered_by_return = before.returned == 1 && frame.pc == before.pc;
            if kind != Ok(rule::SIGNAL) && !entered_by_return {
                prop_assert!(walk.sp > before.sp, "{before:x?} {walk:x?}");
                prop_assert_eq!(walk.returned, 1);
            }
        }
    }

    /// A scan gives nothing or a caller further up, and a walk can go on from one with a rule.
    #[test]
    fn scans(seed: u64, from in registers()) {
        let mut world = World { seed, highest: u64::MAX };
        let found = find_caller(&from, &mut world, &World { seed, highest: u64::MAX });
        if let Some(Found::Proved(mut found) | Found::Guessed(mut found)) = found {
            prop_assert!(found.returned == 1 && found.sp.wrapping_sub(from.sp) <= 1 << 17);
            let bare = world.rule(found.at()).map_or(true, |rule| rule.kind() == rule::NONE);
            let code = step(&mut found, &mut world, &World { seed, highest: u64::MAX }).1;
            prop_assert!(bare || matches!(code, end::RUNNING | end::COMPLETE));
        }
    }

    /// Going on at any anchor by any layout gives a return address or nothing.
    #[test]
    fn resumes(seed: u64, anchor in address(), layout in layout()) {
        let world = World { seed, highest: u64::MAX };
        if let Some(walk) = resume(anchor, &layout, &world) {
            prop_assert_eq!(walk.returned, 1);
            prop_assert_eq!(walk.sp, anchor.wrapping_add(u64::from(layout.eval_cfa)));
        }
    }

    /// Python frames of any memory, found by any layout.
    #[test]
    fn python_steps(seed: u64, thread_pointer in 0..1u64 << 63, thread in 0..1u64 << 63, layout in layout()) {
        let world = World { seed, highest: u64::MAX >> 1 };
        thread_by_key(&layout, thread_pointer, &world);
        first_thread(&layout, &world);
        let mut walk = python_walk();
        if begin(&layout, thread, &mut walk, &world).is_ok() {
            for _ in 0..MAX_FRAMES {
                let at = walk.frame;
                if let Step::End(code) = python_step(&layout, &mut walk, &world) {
                    prop_assert!(matches!(code, end::FAULT | end::BROKEN_CHAIN) || (code, at) == (end::COMPLETE, 0));
                    break;
                }
            }
        }
    }
}
