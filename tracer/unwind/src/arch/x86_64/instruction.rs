//! Instructions as far as ways through code need them: where code goes on behind each, and which are none of a function's.
//!
//! Leaves out what they do to the stack (`frame_state.rs`).

use crate::code_rule::Flow;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

pub(crate) use iced_x86::Instruction;

/// Functions that are made at run time begin where a page does, or at multiples of so many bytes.
pub(crate) const PAGE: u64 = 4096;
/// See above.
pub(crate) const ALIGNED: u64 = 16;

/// What instructions change.
pub(crate) struct Effects(InstructionInfoFactory);

impl Effects {
    pub(crate) fn new() -> Self {
        Self(InstructionInfoFactory::new())
    }

    /// The registers of which an instruction writes any part.
    pub(crate) fn written(&mut self, does: &Instruction) -> Written {
        let reads = |access| {
            matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
        };
        let used = self.0.info(does).used_registers().iter();
        let written = used.filter(|used| !reads(used.access()));
        Written(written.fold(0, |all, used| all | bit(used.register())))
    }
}

/// General registers that an instruction writes, a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written(u16);

impl Written {
    pub(crate) const NOTHING: Self = Self(0);

    /// Whether it writes any part of a register of 64 bits.
    pub(crate) fn has(self, register: Register) -> bool {
        self.0 & bit(register) != 0
    }
}

/// Whether an instruction may write `rsp` or `rbp`: it is one of the stack's, or names one of them. No other writes them unnamed.
pub(crate) fn may_write_frame(does: &Instruction) -> bool {
    let is_frames = |register: Register| matches!(register.full_register(), Register::RSP | Register::RBP);
    does.is_stack_instruction() || (0..does.op_count()).any(|operand| is_frames(does.op_register(operand)))
}

/// The bit of the general register that a register is a part of; none of any other.
fn bit(register: Register) -> u16 {
    let full = register.full_register();
    if full.is_gpr64() { 1 << full.number() } else { 0 }
}

/// Whether a function has to give this register back as it was (System V ABI AMD64 1.0, figure 3.4).
pub(super) fn is_callers(register: Register) -> bool {
    matches!(
        register,
        Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14 | Register::R15
    )
}

/// The instruction at the beginning of some code, which is at `at`.
pub(crate) fn decode(code: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode()
}

/// Where code goes on behind it.
pub(crate) fn flow(does: &Instruction) -> Flow {
    let is_call = does.mnemonic() == Mnemonic::Call;
    match does.flow_control() {
        _ if does.is_invalid() => Flow::Unknown,
        FlowControl::Return if does.mnemonic() == Mnemonic::Ret => Flow::Return,
        FlowControl::UnconditionalBranch => branch_target(does).map_or(Flow::Unknown, Flow::Jump),
        FlowControl::ConditionalBranch => branch_target(does).map_or(Flow::Unknown, Flow::Branch),
        FlowControl::IndirectBranch => Flow::Computed,
        FlowControl::Call | FlowControl::IndirectCall if is_call => Flow::Call,
        FlowControl::Next | FlowControl::Call => Flow::Next,
        FlowControl::Exception | FlowControl::Interrupt => Flow::Ends,
        _ => Flow::Unknown,
    }
}

/// Address of the next instruction, and its own bytes.
pub(crate) fn next(does: &Instruction) -> u64 {
    does.next_ip()
}

/// Bytes of an instruction.
pub(crate) fn length(does: &Instruction) -> u64 {
    does.len() as u64
}

/// Whether it saves a register that its function has to give back as it was.
pub(crate) fn saves_register(does: &Instruction) -> bool {
    does.mnemonic() == Mnemonic::Push && is_callers(does.op0_register())
}

/// Whether it does nothing.
pub(crate) fn is_padding(does: &Instruction) -> bool {
    matches!(does.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64)
}

/// Whether it stands between functions.
pub(crate) fn is_between_functions(does: &Instruction) -> bool {
    is_padding(does) || does.mnemonic() == Mnemonic::Int3
}

/// Whether a function may begin behind this byte: the last of a return, or of padding (also of `nop`s with operands).
pub(crate) fn may_end_function(byte: u8) -> bool {
    [0x00, 0x90, 0xc3, 0xcc].contains(&byte)
}

/// Where a direct jump leads; `None` where it is none of 64-bit code.
fn branch_target(does: &Instruction) -> Option<u64> {
    (does.op0_kind() == OpKind::NearBranch64).then(|| does.near_branch_target())
}

/// What stands before the distance that a direct call leads, and before that of an address of code (Intel SDM vol. 2, 2.1.5: `ModRM` of
/// `disp32`, with any register).
const CALL: u8 = 0xe8;
const ADDRESS: u8 = 0x05;
const ADDRESS_MASK: u8 = 0xc7;
/// Bytes after which decoding is in step with the code, wherever it began: nearly always, and else a function is missed.
const IN_STEP: usize = 64;

/// Where some code, which begins at `start`, says that code begins: what it calls directly, and what it takes the address of. Only places that
/// are wanted are looked at closely.
pub(crate) fn named_places(
    code: &[u8],
    start: u64,
    is_wanted: impl Fn(u64) -> bool,
) -> impl Iterator<Item = u64> {
    let ends = (5..).zip(code.windows(5)).filter(move |&(end, bytes)| {
        let [before, distance @ ..] = bytes else { return false };
        let by = distance.try_into().map_or(0, i32::from_le_bytes);
        (*before == CALL || before & ADDRESS_MASK == ADDRESS)
            && is_wanted(start.wrapping_add(end as u64).wrapping_add_signed(by.into()))
    });
    ends.filter_map(move |(end, _)| leads_to(&ends_at(code, start, end)?))
}

/// The instruction of some code, which begins at `start`, that ends there.
fn ends_at(code: &[u8], start: u64, end: usize) -> Option<Instruction> {
    let from = end.saturating_sub(IN_STEP);
    let decoder = Decoder::with_ip(64, code.get(from..end)?, start + from as u64, DecoderOptions::NONE);
    decoder.into_iter().find(|does| does.next_ip() == start + end as u64)
}

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// So many zeros fill something up.
const FILLED: usize = 8;

/// Whether an instruction begins at a place of some code, as most say that begin to decode some bytes before it.
pub(crate) fn begins_at(code: &[u8], place: usize) -> bool {
    let starts = place.saturating_sub(IN_STEP)..=place.saturating_sub(IN_STEP - LONGEST);
    // Behind zeros that fill a section up code begins anew; as instructions they would reach into it.
    let before = code.get(*starts.start()..place).unwrap_or_default();
    let filled = before.windows(FILLED).rposition(|bytes| bytes.iter().all(|byte| *byte == 0));
    let behind = filled.map(|at| starts.start() + at + FILLED);
    let starts = behind.map_or(starts, |behind| behind..=behind);
    let meets = |&start: &usize| {
        let code = code.get(start..).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, code, start as u64, DecoderOptions::NONE);
        decoder.iter().map(|does| does.ip()).find(|at| *at >= place as u64) == Some(place as u64)
    };
    let (yes, no): (Vec<usize>, Vec<usize>) = starts.partition(meets);
    yes.len() > no.len()
}

/// Where an instruction says that code begins: a direct call, or the address of something.
fn leads_to(does: &Instruction) -> Option<u64> {
    match does.mnemonic() {
        Mnemonic::Call => branch_target(does),
        Mnemonic::Lea => does.is_ip_rel_memory_operand().then(|| does.ip_rel_memory_address()),
        _ => None,
    }
}
