//! Walks native frames by the rows that were made from `.eh_frame`.
//!
//! What is emitted for each frame: its pc and its canonical frame address (the stack pointer before the call). Only `rip`, `rsp`, `rbp` and
//! `rbx` are followed: what compilers need to find a caller on x86-64. Of `rbx` only the place is kept, for few rules ask for it; other
//! registers are known where code was interrupted, and not in its callers. Leaves out how rows are found (`Tables`) and what they
//! mean for symbols.

use crate::memory::Memory;
use crate::rows::{FullRule, Operand, Rule, base, rule};
use crate::wire::{FIRST_PC, PythonLayout, end};

/// Offsets of registers in the `ucontext` that a signal frame holds at `rsp` (arch/x86/include/uapi/asm/sigcontext.h, v6.1:
/// `uc_mcontext` begins 40 bytes in).
mod ucontext {
    pub(super) const RBX: u64 = 40 + 11 * 8;
    pub(super) const RBP: u64 = 40 + 10 * 8;
    pub(super) const RSP: u64 = 40 + 15 * 8;
    pub(super) const RIP: u64 = 40 + 16 * 8;

    /// Offset of a register by DWARF's number. A nibble each, the lowest first: the order there is r8…r15, rdi, rsi, rbp, rbx, rdx, rax,
    /// rcx, rsp.
    pub(super) const fn register(number: u32) -> u64 {
        40 + (0x7654_3210_fa89_becd >> ((number & 15) * 4) & 15) * 8
    }
}

/// Finds rows.
pub trait Tables {
    /// The rule that holds at `pc`, or an `end` code why there is none.
    fn rule(&mut self, pc: u64) -> Result<Rule, u8>;

    /// A rule in full, by its number.
    fn full(&mut self, _index: u32) -> Option<FullRule> {
        None
    }

    /// A register of the interrupted code, by DWARF's number.
    fn interrupted(&mut self, _register: u32) -> Option<u64> {
        None
    }

    /// Moves to the caller by a rule of kind `SIGNAL` or `FULL`: `rare_caller`. The probes put a function of its own here, so that the
    /// verifier does not look at it wherever a frame is taken.
    #[inline(always)]
    fn rare(&mut self, walk: &mut NativeWalk, rule: Rule, memory: &impl Memory) -> Result<u64, u8>
    where
        Self: Sized,
    {
        rare_caller(walk, rule, self, memory)
    }
}

/// Where registers of the current frame are: at this address, or one of the two below.
pub mod place {
    /// Nobody knows.
    pub const UNKNOWN: u64 = 0;
    /// They are those of the interrupted code.
    pub const INTERRUPTED: u64 = 1;
}

/// A walk in progress: the registers of the current frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeWalk {
    /// Program counter: of the interrupted instruction, or a return address.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer register, whatever the code uses it for.
    pub bp: u64,
    /// 1 while `pc` is a return address: it then belongs to the instruction before it.
    pub returned: u64,
    /// Address where `rbx` was saved, or a `place`.
    pub bx_at: u64,
    /// Address of the `ucontext` that has the registers that nobody saves, or a `place`.
    pub others_at: u64,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Address in the instruction that runs or that called: a return address less one, for it belongs to the call before it.
    pub pc: u64,
    /// Canonical frame address; 0 where it is not known, `u64::MAX` for the outermost frame.
    pub cfa: u64,
}

/// The current frame, and an `end` code: `RUNNING` when `walk` has moved on to its caller.
#[inline(always)]
pub fn step(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> (NativeFrame, u8) {
    let pc = walk.pc.wrapping_sub(walk.returned);
    match caller(walk, tables, memory) {
        Ok(cfa) => (NativeFrame { pc, cfa }, end::RUNNING),
        Err(end::COMPLETE) => (NativeFrame { pc, cfa: u64::MAX }, end::COMPLETE),
        Err(code) => (NativeFrame { pc, cfa: 0 }, code),
    }
}

/// Moves to the caller; gives the CFA of the frame that was left.
#[inline(always)]
fn caller(walk: &mut NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> Result<u64, u8> {
    let rule = tables.rule(walk.pc.wrapping_sub(walk.returned))?;
    let mut cfa = match rule.kind() {
        rule::RSP | rule::DEREF_RSP | rule::DEREF_RSP_8 => walk.sp.wrapping_add_signed(rule.offset()),
        rule::RBP | rule::DEREF_RBP => walk.bp.wrapping_add_signed(rule.offset()),
        rule::PLT => {
            let pushed = if rule.offset() != 0 { 11 } else { 10 };
            walk.sp.wrapping_add(if walk.pc & 15 >= pushed { 16 } else { 8 })
        }
        rule::SIGNAL | rule::FULL => return tables.rare(walk, rule, memory),
        rule::OUTERMOST => return Err(end::COMPLETE),
        rule::NONE => return Err(end::NO_UNWIND_INFO),
        _ => return Err(end::UNSUPPORTED),
    };
    if matches!(rule.kind(), rule::DEREF_RBP | rule::DEREF_RSP | rule::DEREF_RSP_8) {
        cfa = read(memory, cfa)?.wrapping_add(if rule.kind() == rule::DEREF_RSP_8 { 8 } else { 0 });
    }
    if cfa <= walk.sp {
        return Err(end::BAD_FRAME);
    }
    let ra_at = cfa.wrapping_sub(8);
    let pc = read(memory, ra_at)?;
    let deref_rbp = rule.kind() == rule::DEREF_RBP;
    if rule.rbx_down() != 0 {
        walk.bx_at = (if deref_rbp { walk.bp } else { ra_at }).wrapping_sub(rule.rbx_down());
    }
    if deref_rbp {
        walk.bp = read(memory, walk.bp)?;
    } else if rule.rbp() != 0 {
        walk.bp = read(memory, cfa.wrapping_add_signed(rule.rbp()))?;
    }
    arrive(walk, pc, cfa)
}

/// Moves to the caller by a rule that few frames have; gives the CFA, which is the caller's stack pointer.
///
/// # Errors
/// An `end` code.
#[inline(always)]
pub fn rare_caller(
    walk: &mut NativeWalk,
    rule: Rule,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    match rule.kind() {
        rule::SIGNAL => signal_return(walk, memory),
        _ => caller_in_full(walk, rule, tables, memory),
    }
}

/// The caller is found.
#[inline(always)]
const fn arrive(walk: &mut NativeWalk, pc: u64, cfa: u64) -> Result<u64, u8> {
    if pc == 0 {
        return Err(end::COMPLETE); // The convention of thread entry points: no return address.
    }
    walk.pc = pc;
    walk.sp = cfa;
    walk.returned = 1;
    walk.others_at = place::UNKNOWN;
    Ok(cfa)
}

/// Moves to the caller by a rule in full.
#[inline(always)]
fn caller_in_full(
    walk: &mut NativeWalk,
    rule: Rule,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    let full = tables.full(rule.index()).ok_or(end::UNSUPPORTED)?;
    let cfa = value(full.cfa, walk, 0, tables, memory)?.wrapping_add_signed(full.add);
    // Code that has popped its return address into a register has nothing on the stack.
    if cfa < walk.sp || cfa == walk.sp && full.ra.is_word() {
        return Err(end::BAD_FRAME);
    }
    let pc = value(full.ra, walk, cfa, tables, memory)?;
    let bp = match full.rbp {
        Operand::SAME => walk.bp,
        saved => value(saved, walk, cfa, tables, memory)?,
    };
    if full.rbx != Operand::SAME {
        let place = Operand::sum(full.rbx.base(), full.rbx.offset() as i32);
        let saved = full.rbx.is_word();
        walk.bx_at = if saved { value(place, walk, cfa, tables, memory)? } else { place::UNKNOWN };
    }
    walk.bp = bp;
    arrive(walk, pc, cfa)
}

/// The value of an operand in the current frame.
#[inline(always)]
fn value(
    operand: Operand,
    walk: &NativeWalk,
    cfa: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Result<u64, u8> {
    let from = match operand.base() {
        base::CFA => cfa,
        base::RSP => walk.sp,
        base::RBP => walk.bp,
        register @ 0..=base::LAST => {
            let saved = register == base::RBX;
            match if saved { walk.bx_at } else { walk.others_at } {
                place::UNKNOWN => return Err(end::UNSUPPORTED),
                place::INTERRUPTED => tables.interrupted(register).ok_or(end::UNSUPPORTED)?,
                at if saved => read(memory, at)?,
                at => read(memory, at.wrapping_add(ucontext::register(register)))?,
            }
        }
        _ => return Err(end::UNSUPPORTED),
    };
    let sum = from.wrapping_add_signed(operand.offset());
    if operand.is_word() { read(memory, sum) } else { Ok(sum) }
}

/// Leaves a signal handler: the interrupted registers are in the `ucontext`.
#[inline(always)]
fn signal_return(walk: &mut NativeWalk, memory: &impl Memory) -> Result<u64, u8> {
    let at = walk.sp;
    walk.pc = read(memory, at.wrapping_add(ucontext::RIP))?;
    walk.bp = read(memory, at.wrapping_add(ucontext::RBP))?;
    walk.sp = read(memory, at.wrapping_add(ucontext::RSP))?;
    walk.returned = 0;
    walk.bx_at = at.wrapping_add(ucontext::RBX);
    walk.others_at = at;
    Ok(walk.sp)
}

/// Gaps that are bridged in one stack.
pub const MAX_HEALED: u32 = 6;

/// Words above the stack pointer that are looked through for a return address where code has no unwind information.
pub const SCAN_WORDS: u32 = 64;

/// The caller of code without unwind information, if the word at `address` is its return address.
///
/// Kernels made at run time push registers and call nothing far away: the return address lies a few words above the stack pointer
/// (within 50 in all stops of oneDNN and MLAS that were looked at, research/workloads.md §3.1). It is believed when it follows a call
/// that may have led here, its code has unwind information, and two more steps succeed from there. The callee's first push is its caller's `rbp`, or
/// else the callee leaves `rbp` alone (oneDNN's barrier pushes `rax`).
#[inline(always)]
pub fn scan(
    walk: &NativeWalk,
    address: u64,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let pc = memory.read_word(address)?;
    if pc < FIRST_PC {
        return None;
    }
    tables.rule(pc - 1).ok().filter(|rule| rule.kind() != rule::NONE)?;
    if !follows_call(pc, walk.pc.wrapping_sub(walk.returned), tables, memory) {
        return None;
    }
    let found =
        NativeWalk { pc, sp: address.wrapping_add(8), bp: walk.bp, returned: 1, ..NativeWalk::default() };
    if address > walk.sp {
        let pushed = NativeWalk { bp: memory.read_word(address.wrapping_sub(8))?, ..found };
        if goes_on(pushed, tables, memory) {
            return Some(pushed);
        }
    }
    goes_on(found, tables, memory).then_some(found)
}

/// Whether two more steps succeed from there.
#[inline(always)]
fn goes_on(mut trial: NativeWalk, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    if caller(&mut trial, tables, memory).is_err() {
        return false;
    }
    matches!(caller(&mut trial, tables, memory), Ok(_) | Err(end::COMPLETE))
}

/// Where the stack was before code without unwind information moved `rsp` to a buffer of its own.
///
/// oneDNN's kernels for matrix products (also in XLA and TensorFlow) align `rsp` to a page of scratch memory, often not on the stack, and
/// keep the old value 120 bytes above it (oneDNN `src/cpu/x64/gemm/f32/jit_avx512_common_gemm_f32.cpp`, `ORIG_SP`); in 135 of 135 stops
/// of JAX the return address lay 6 words above that. Only a place to scan from: what is found there has to hold as anywhere.
#[inline(always)]
pub fn stack_put_away(walk: &NativeWalk, memory: &impl Memory) -> Option<u64> {
    const PAGE: u64 = 4096;
    const ORIGINAL_SP: u64 = 120;
    if walk.sp % PAGE != 0 {
        return None;
    }
    memory.read_word(walk.sp.wrapping_add(ORIGINAL_SP)).filter(|sp| sp % 8 == 0 && *sp >= FIRST_PC)
}

/// Where `rbp` points, if it may be a frame pointer of the innermost frame: above the stack pointer, near, and aligned as a push behind the
/// return address leaves it (System V ABI, x86-64, 3.2.2).
#[inline(always)]
fn frame_pointer(walk: &NativeWalk) -> Option<u64> {
    const NEAR: u64 = 1 << 16;
    (walk.bp > walk.sp && walk.bp - walk.sp < NEAR && walk.bp % 16 == 0).then_some(walk.bp)
}

/// The caller of code with a frame pointer, however large its frame: LLVM's kernels in XLA, parts of MKL. Code that leaves its caller's
/// frame pointer alone looks the same; then a frame is missing, and whoever asks has to say so. Any call will do: the word is where a
/// return address has to be.
#[inline(always)]
pub fn scan_frame_pointer(
    walk: &NativeWalk,
    tables: &mut impl Tables,
    memory: &impl Memory,
) -> Option<NativeWalk> {
    let frame = frame_pointer(walk)?;
    let pc = memory.read_word(frame.wrapping_add(8)).filter(|&pc| pc >= FIRST_PC)?;
    tables.rule(pc - 1).ok().filter(|rule| rule.kind() != rule::NONE)?;
    memory.read_word(pc - 8).filter(|&bytes| is_direct(bytes) || is_indirect(bytes))?;
    let found = NativeWalk {
        pc,
        sp: frame.wrapping_add(16),
        bp: memory.read_word(frame)?,
        returned: 1,
        ..NativeWalk::default()
    };
    goes_on(found, tables, memory).then_some(found)
}

/// Whether the instruction before `pc` is a call that may have led to `callee`: `ff /2` with its operand, whose target is not known any
/// more, or `e8` with a distance (Intel SDM vol. 2A, CALL) that leads there. Return addresses of earlier calls lie about on the stack in
/// buffers that nothing has written yet; most are of direct calls to something else.
#[inline(always)]
fn follows_call(pc: u64, callee: u64, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    let Some(before) = memory.read_word(pc - 8) else { return false };
    if is_indirect(before) {
        return true;
    }
    is_direct(before)
        && leads_to(pc.wrapping_add_signed(i64::from((before >> 32) as i32)), callee, tables, memory)
}

/// Whether these eight bytes end in an indirect call.
#[inline(always)]
const fn is_indirect(bytes: u64) -> bool {
    indirect_at(bytes, 2)
        || indirect_at(bytes, 3)
        || indirect_at(bytes, 4)
        || indirect_at(bytes, 6)
        || indirect_at(bytes, 7)
}

/// Whether `ff /2` stands so many bytes before the end of these eight.
#[inline(always)]
const fn indirect_at(bytes: u64, back: u64) -> bool {
    bytes >> (8 * (8 - back)) & 0xff == 0xff && bytes >> (8 * (9 - back)) >> 3 & 7 == 2
}

/// Whether these eight bytes end in a direct call.
#[inline(always)]
const fn is_direct(bytes: u64) -> bool {
    bytes >> 24 & 0xff == 0xe8
}

/// Whether a call of `target` may have led to `callee`, which has no unwind information: then the function at `target` has none either
/// and begins a little before it: MKL's kernels take up to 7 KiB here, and further below lie others, whose return addresses are stale.
#[inline(always)]
fn leads_to(target: u64, callee: u64, tables: &mut impl Tables, memory: &impl Memory) -> bool {
    const LARGEST: u64 = 1 << 13;
    let begin = behind_plt(target, memory).unwrap_or(target);
    let near = callee.wrapping_sub(begin) < LARGEST;
    near && match tables.rule(begin) {
        Ok(rule) => rule.kind() == rule::NONE,
        Err(code) => code == end::NO_UNWIND_INFO,
    }
}

/// Where an entry of a procedure linkage table jumps: `jmp *distance(%rip)`, with or without `endbr64` and `bnd` before it.
#[inline(always)]
fn behind_plt(entry: u64, memory: &impl Memory) -> Option<u64> {
    const ENDBR64: u32 = 0xfa1e_0ff3;
    let mut at = entry;
    let mut code = memory.read_word(at)?;
    if code as u32 == ENDBR64 {
        at += 4;
        code = memory.read_word(at)?;
    }
    if code & 0xff == 0xf2 {
        at += 1;
        code >>= 8;
    }
    if code & 0xffff != 0x25ff {
        return None;
    }
    memory.read_word(at.wrapping_add(6).wrapping_add_signed(i64::from((code >> 16) as i32)))
}

/// Goes on at the interpreter's frame that holds `anchor`, where native frames were lost before it. The distances from the anchor are
/// learned from complete samples: they are the same wherever this interpreter evaluates.
#[inline(always)]
pub fn resume(anchor: u64, layout: &PythonLayout, memory: &impl Memory) -> Option<NativeWalk> {
    let cfa = anchor.wrapping_add(u64::from(layout.eval_cfa));
    let pc = memory.read_word(cfa.wrapping_sub(8))?;
    let bp = match layout.eval_rbp {
        0 => 0,
        down => memory.read_word(cfa.wrapping_sub(u64::from(down)))?,
    };
    Some(NativeWalk { pc, sp: cfa, bp, returned: 1, ..NativeWalk::default() })
}

#[inline(always)]
fn read(memory: &impl Memory, address: u64) -> Result<u64, u8> {
    memory.read_word(address).ok_or(end::FAULT)
}
