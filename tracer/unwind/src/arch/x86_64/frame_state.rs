//! What a function has done to its stack before an instruction, told from its code: how far below its caller's frame the stack pointer is, and
//! what became of `rbp`. Kernels that move the stack pointer to scratch memory keep the old one in a register (OpenBLAS' in `rbx`) or in that
//! memory (MKL's for small matrices); where they do, that is followed.
//!
//! Sources: System V ABI AMD64 1.0 §3.2.2 (a function gives `rsp` and `rbp` back as it found them). An instruction that does to the stack what
//! compilers do not ends the search: then nothing is known. Leaves out the order in which code runs (`code_rows.rs`).

use super::instruction::{Effects, Written, is_callers, may_write_frame};
use crate::code_rule::CodeRule;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

/// Bytes of the return address.
const RETURN_ADDRESS: i64 = 8;

/// The state before an instruction. Depths are bytes below the canonical frame address (CFA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameState {
    /// Of the stack pointer; `None` where it depends on the run, and `rbp` is a frame pointer.
    depth: Option<i64>,
    rbp: Rbp,
    /// Of the place where the caller's `rbp` was saved.
    saved: Option<i64>,
    /// A register that points to the frame.
    copy: Option<PointerRegister>,
    /// A word that points to the frame, for where `depth` is not known.
    kept: Option<SpilledPointer>,
}

/// A register that points so many bytes below the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PointerRegister {
    register: Register,
    depth: i64,
}

/// A word that points so many bytes below the CFA, this far above the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpilledPointer {
    above: i64,
    depth: i64,
}

/// What `rbp` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rbp {
    /// The caller's.
    Callers,
    /// A frame pointer: it points so many bytes below the CFA.
    Pointer(i64),
    /// Something else.
    Other,
}

impl FrameState {
    /// Behind the call.
    pub(crate) const ENTRY: Self =
        Self { depth: Some(RETURN_ADDRESS), rbp: Rbp::Callers, saved: None, copy: None, kept: None };

    /// How deep the stack pointer is, where that is known.
    pub(crate) const fn depth(&self) -> Option<i64> {
        self.depth
    }

    /// Whether everything is as the caller left it.
    pub(crate) fn is_given_back(&self) -> bool {
        self.depth == Some(RETURN_ADDRESS) && self.rbp == Rbp::Callers
    }

    /// Where two ways meet: what is true on both; `None` where they contradict each other. `rbp` that was saved may be changed on one of them,
    /// and with a frame pointer the stack may have any depth.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        if self.saved != other.saved {
            return None;
        }
        let both = Self {
            depth: self.depth.filter(|_| self.depth == other.depth),
            copy: self.copy.filter(|_| self.copy == other.copy),
            kept: self.kept.filter(|_| self.kept == other.kept),
            ..self
        };
        let rbp = if self.rbp == other.rbp { self.rbp } else { Rbp::Other };
        Self { rbp, ..both }.checked()
    }

    /// The rule that holds here.
    pub(crate) fn rule(&self) -> CodeRule {
        let saved = self.saved.map_or(0, |saved| -saved);
        let packed = match (self.rbp, self.depth) {
            (Rbp::Pointer(above), _) => Rule::pack(rule::FP, above, saved),
            (Rbp::Callers, Some(depth)) => Rule::pack(rule::SP, depth, 0),
            (Rbp::Other, Some(depth)) => Rule::pack(rule::SP, depth, saved),
            (_, None) => return self.full_rule().map_or(CodeRule::NONE, CodeRule::Full),
        };
        packed.map_or(CodeRule::NONE, CodeRule::Short)
    }

    /// The rule by what points to the frame while the stack pointer does not. Registers that others have to give back are not looked at.
    fn full_rule(&self) -> Option<FullRule> {
        let (cfa, add) = match (self.kept, self.copy) {
            (Some(SpilledPointer { above, depth }), _) => {
                (Operand::word(base::SP, i32::try_from(above).ok()?), depth)
            }
            (None, Some(PointerRegister { register, depth })) => (Operand::sum(dwarf(register)?, 0), depth),
            (None, None) => return None,
        };
        let saved = |depth: i64| i32::try_from(-depth).ok().map(|from| Operand::word(base::CFA, from));
        let fp = if self.rbp == Rbp::Callers { Operand::SAME } else { saved(self.saved?)? };
        let (ra, callee_saved) = (saved(RETURN_ADDRESS)?, Operand::sum(base::CFA, 0));
        Some(FullRule { cfa, add, ra, fp, callee_saved })
    }

    /// Whether a function goes on where nothing is known: it takes its arguments away (V8's do), or goes over to another stack.
    pub(crate) fn leaves(&self, does: &Instruction) -> bool {
        match does.mnemonic() {
            Mnemonic::Pop => self.is_given_back(),
            Mnemonic::Mov => {
                let loads = does.op0_register() == Register::RSP && does.op1_kind() == OpKind::Memory;
                loads && self.kept_at(does).is_none()
            }
            _ => false,
        }
    }

    /// The state behind an instruction that goes on; `None` where nothing is known of it.
    pub(crate) fn after(self, does: &Instruction, effects: &mut Effects) -> Option<Self> {
        let to = does.op0_register();
        let matters = self.copy.is_some() || may_write_frame(does);
        let written = if matters { effects.written(does) } else { Written::NOTHING };
        let next = match does.mnemonic() {
            // Position-independent code of 32 bits takes its own address so.
            Mnemonic::Call => (does.near_branch_target() != does.next_ip()).then_some(self)?,
            Mnemonic::Push => self.pushed(does)?,
            Mnemonic::Pop => self.popped(does)?,
            Mnemonic::Leave => self.left()?,
            _ if to == Register::RSP => self.moved(does, written)?,
            Mnemonic::Mov | Mnemonic::Lea if to == Register::RBP => self.with_rbp(does)?,
            Mnemonic::Mov if does.op1_register().is_gpr64() && does.op0_kind() == OpKind::Memory => {
                self.stored(does)
            }
            _ => self.changed_otherwise(does, written)?,
        };
        next.with_copy(&self, does, written).checked()
    }

    /// The same with what now points to the frame; `before` is the state before the instruction.
    fn with_copy(mut self, before: &Self, does: &Instruction, written: Written) -> Self {
        let is_call = does.mnemonic() == Mnemonic::Call;
        if !is_call && written.has(Register::RSP) {
            self.kept = None;
        }
        let to = does.op0_register();
        let is_kept = |register| !written.has(register) && (!is_call || is_callers(register));
        self.copy = self.copy.filter(|copy| is_kept(copy.register));
        let is_move = does.mnemonic() == Mnemonic::Mov && to.is_gpr64() && to != Register::RSP;
        if is_move
            && to != Register::RBP
            && let Some(depth) = before.points_to(does)
        {
            self.copy = Some(PointerRegister { register: to, depth });
        }
        self
    }

    /// How deep the place is that the second operand of a `mov` points to, where that is known.
    fn points_to(&self, does: &Instruction) -> Option<i64> {
        match (does.op1_kind(), does.op1_register(), self.rbp) {
            (OpKind::Register, Register::RSP, _) => self.depth,
            (OpKind::Register, Register::RBP, Rbp::Pointer(above)) => Some(above),
            (OpKind::Register, register, _) => {
                self.copy.filter(|copy| copy.register == register).map(|copy| copy.depth)
            }
            (OpKind::Memory, ..) => self.kept_at(does),
            _ => None,
        }
    }

    /// How deep the place is that a word of memory points to, where it is the one that was kept.
    fn kept_at(&self, does: &Instruction) -> Option<i64> {
        self.kept.filter(|kept| above_stack(does) == Some(kept.above)).map(|kept| kept.depth)
    }

    /// It, if it is one that compilers make.
    fn checked(mut self) -> Option<Self> {
        let is_above = |depth: i64| self.saved.is_some_and(|saved| saved > depth);
        if self.depth.is_some_and(is_above) {
            if self.rbp != Rbp::Callers {
                return None; // Its saved `rbp` is no longer on the stack.
            }
            self.saved = None;
        }
        let has_frame = self.depth.is_some() || self.full_rule().is_some();
        let is_known = match self.rbp {
            Rbp::Callers => has_frame,
            Rbp::Pointer(above) => above > RETURN_ADDRESS && self.saved.is_some(),
            Rbp::Other => has_frame && self.saved.is_some(),
        };
        (is_known && self.depth.is_none_or(|depth| depth >= RETURN_ADDRESS)).then_some(self)
    }

    fn pushed(self, does: &Instruction) -> Option<Self> {
        let depth = self.deeper(-i64::from(does.stack_pointer_increment()));
        let saves = does.op0_register() == Register::RBP && self.rbp == Rbp::Callers;
        (does.stack_pointer_increment() == -8).then_some(Self {
            depth,
            saved: if saves { depth } else { self.saved },
            ..self
        })
    }

    fn popped(self, does: &Instruction) -> Option<Self> {
        let register = does.op0_register();
        if does.stack_pointer_increment() != 8 || register.full_register() == Register::RSP {
            return None;
        }
        let popped = Self { depth: self.deeper(-8), ..self };
        if register.full_register() != Register::RBP {
            return Some(popped);
        }
        let is_restored = self.depth.is_some() && self.depth == self.saved;
        let rbp = if is_restored { Rbp::Callers } else { Rbp::Other };
        Some(Self { rbp, saved: if is_restored { None } else { self.saved }, ..popped })
    }

    /// `mov %rbp, %rsp; pop %rbp`.
    fn left(self) -> Option<Self> {
        let Rbp::Pointer(above) = self.rbp else { return None };
        let left = Self { depth: Some(above - 8), rbp: Rbp::Callers, saved: None, ..self };
        (self.saved == Some(above)).then_some(left)
    }

    /// Behind an instruction whose first operand is `rsp`.
    fn moved(self, does: &Instruction, written: Written) -> Option<Self> {
        if !written.has(Register::RSP) {
            return self.changed_otherwise(does, written);
        }
        let by = does.try_immediate(1).ok().filter(|_| does.op1_register() == Register::None);
        let by = by.map(u64::cast_signed);
        let depth = match does.mnemonic() {
            Mnemonic::Sub => by.and_then(|by| self.deeper(by)),
            Mnemonic::Add => by.and_then(|by| self.deeper(by.checked_neg()?)),
            Mnemonic::Lea => self.depth_of(does),
            Mnemonic::Mov => self.points_to(does),
            // Made a multiple of something: only what points to the frame leads back.
            Mnemonic::And => None,
            _ => return None,
        };
        Some(Self { depth, ..self })
    }

    /// Behind a `mov` or `lea` to `rbp`.
    fn with_rbp(self, does: &Instruction) -> Option<Self> {
        let is_copy = does.mnemonic() == Mnemonic::Mov;
        let rbp = match does.op1_kind() {
            OpKind::Register if does.op1_register() == Register::RSP => self.depth.map(Rbp::Pointer),
            OpKind::Register | OpKind::Memory if is_copy && self.points_to(does).is_some() => {
                self.points_to(does).map(Rbp::Pointer)
            }
            OpKind::Memory if is_copy => {
                let is_saved = self.saved.is_some() && self.depth_of(does) == self.saved;
                is_saved.then_some(Rbp::Callers)
            }
            OpKind::Memory => self.depth_of(does).map(Rbp::Pointer),
            _ => None,
        };
        Some(Self { rbp: rbp.unwrap_or(Rbp::Other), ..self })
    }

    /// Behind a `mov` of a register to memory.
    fn stored(self, does: &Instruction) -> Self {
        let is_rbp = does.op1_register() == Register::RBP;
        let saves = is_rbp && self.rbp == Rbp::Callers && self.saved.is_none();
        let place = self.depth_of(does).filter(|&depth| saves && depth > RETURN_ADDRESS);
        let saved = place.or(self.saved);
        let Some(above) = above_stack(does) else { return Self { saved, ..self } };
        let new = self.points_to(does).map(|depth| SpilledPointer { above, depth });
        Self { saved, kept: new.or(self.kept.filter(|kept| kept.above != above)), ..self }
    }

    /// Behind any other instruction.
    fn changed_otherwise(self, does: &Instruction, written: Written) -> Option<Self> {
        let mut next = self;
        if written.has(Register::RSP) {
            if !does.is_stack_instruction() || matches!(does.mnemonic(), Mnemonic::Enter) {
                return None;
            }
            next.depth = self.deeper(-i64::from(does.stack_pointer_increment()));
        }
        if written.has(Register::RBP) {
            next.rbp = Rbp::Other;
        }
        Some(next)
    }

    fn deeper(&self, by: i64) -> Option<i64> {
        self.depth?.checked_add(by)
    }

    /// How deep a memory operand lies, by `rsp` or a frame pointer alone.
    fn depth_of(&self, does: &Instruction) -> Option<i64> {
        let from = match does.memory_base() {
            Register::RSP => self.depth?,
            Register::RBP => match self.rbp {
                Rbp::Pointer(above) => above,
                Rbp::Callers | Rbp::Other => return None,
            },
            _ => return None,
        };
        let is_plain = does.memory_index() == Register::None && does.segment_prefix() == Register::None;
        let by = does.memory_displacement64().cast_signed();
        is_plain.then(|| from.checked_sub(by)).flatten()
    }
}

/// How far above the stack pointer a memory operand lies, where it is given by that alone.
fn above_stack(does: &Instruction) -> Option<i64> {
    let is_plain = does.memory_base() == Register::RSP
        && does.memory_index() == Register::None
        && does.segment_prefix() == Register::None;
    is_plain.then(|| does.memory_displacement64().cast_signed())
}

/// DWARF's number of a register (System V ABI AMD64 1.0, §3.6.2).
fn dwarf(register: Register) -> Option<u32> {
    const NUMBERS: [Register; 16] = [
        Register::RAX,
        Register::RDX,
        Register::RCX,
        Register::RBX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    NUMBERS.iter().position(|&number| number == register).and_then(|place| u32::try_from(place).ok())
}
