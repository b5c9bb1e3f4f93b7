//! Instructions where V8's code makes and leaves a frame, as their first bytes: what V8 11.3 and Node 20 make
//! (`src/codegen/x64/macro-assembler-x64.cc`, `DropArguments`).
//!
//! `returned` is 1 where `pc` is a return address (`NativeWalk`). Leaves out what V8 writes into its frames (`v8.rs`).

use crate::memory::Memory;

/// Whether its frames are known.
pub const IS_KNOWN: bool = true;

/// `push %rbp`.
const PUSH_RBP: u64 = 0x55;
/// `mov %rsp, %rbp`.
const MOV_RBP: u64 = 0xe5_8948;
/// `pop %rbp`.
const POP_RBP: u64 = 0x5d;
/// `cmp $…, %rcx`, by a byte, and `jg`: whether there are more arguments than the function knows.
const CMP_RCX: u64 = 0xf9_8348;
const JG: u64 = 0x7f;
/// `ret`, and with bytes of arguments to drop.
const RET: [u64; 2] = [0xc3, 0xc2];
/// `mov …(%rcx), %rbx; testb $1, …(%rbx)`, and `jne`: whether optimized code is still of use.
const MOV_RBX: u64 = 0x59_8b48;
const TESTB: u64 = 0x43f6;
const JNE: u64 = 0x850f;
/// `mov $…, %ebx; movabs $…, %r12; call`: baseline code asks a function of V8 for its frame.
const MOV_EBX: u64 = 0xbb;
const MOVABS_R12: u64 = 0xbc49;
const CALL: u64 = 0xe8;

/// Whether the instructions around are those before `push %rbp`, or behind `pop %rbp`.
#[inline(always)]
pub fn has_no_frame(pc: u64, returned: &u64, memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(pc.wrapping_sub(8))?;
    if *returned != 0 {
        return Some(memory.read_word(pc.wrapping_sub(15))? & 0xffff == MOVABS_R12);
    }
    let next = memory.read_word(pc)?;
    let [one, two, three] = [next & 0xff, next & 0xffff, next & 0xff_ffff];
    let begins = one == PUSH_RBP
        || three == MOV_RBX && next >> 32 & 0xffff == TESTB
        || two == TESTB && before >> 32 & 0xff_ffff == MOV_RBX
        || two == JNE && before >> 32 & 0xffff == TESTB
        || one == MOV_EBX && next >> 40 & 0xffff == MOVABS_R12
        || two == MOVABS_R12 && before >> 24 & 0xff == MOV_EBX
        || one == CALL && memory.read_word(pc.wrapping_sub(10))? & 0xffff == MOVABS_R12;
    let ends = one == RET[0]
        || one == RET[1]
        || three == CMP_RCX && before >> 56 == POP_RBP
        || one == JG && before >> 24 & 0xff == POP_RBP && before >> 32 & 0xff_ffff == CMP_RCX;
    Some(begins || ends)
}

/// Whether code stands between `push %rbp` and `mov %rsp, %rbp`.
#[inline(always)]
pub fn has_pushed(pc: u64, returned: &u64, memory: &impl Memory) -> Option<bool> {
    let before = memory.read_word(pc.wrapping_sub(8))?;
    let next = memory.read_word(pc)?;
    Some(*returned == 0 && before >> 56 == PUSH_RBP && next & 0xff_ffff == MOV_RBP)
}

/// `lea …, %rsp`, or `push` and `ret`: the return address is in a register, while arguments are dropped.
#[inline(always)]
pub const fn drops_arguments(code: u64) -> bool {
    let is_lea = code & 0xf8 == 0x48 && code >> 8 & 0xff == 0x8d && code >> 16 & 0x38 == 0x20;
    let short = code & 0xfff8 == 0xc350;
    let long = code & 0xff_f8ff == 0xc3_5041;
    is_lea || short || long
}
