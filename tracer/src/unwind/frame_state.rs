//! What a function has done to its stack before an instruction, told from its code: how far below its caller's frame the stack pointer is, and
//! what became of `rbp`.
//!
//! Sources: System V ABI AMD64 1.0 §3.2.2 (a function gives `rsp` and `rbp` back as it found them). An instruction that does to the stack what
//! compilers do not ends the search: then nothing is known. Leaves out the order in which code runs (`code_rows.rs`).

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use tracer_ebpf::rows::{Rule, rule};

/// Bytes of the return address.
const RETURN_ADDRESS: i64 = 8;

/// The state before an instruction. Depths are bytes below the canonical frame address (CFA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameState {
    /// Of the stack pointer; `None` where it depends on the run, and `rbp` is a frame pointer.
    depth: Option<i64>,
    rbp: Rbp,
    /// Of the place where the caller's `rbp` was saved.
    saved: Option<i64>,
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
    pub(super) const ENTRY: Self = Self { depth: Some(RETURN_ADDRESS), rbp: Rbp::Callers, saved: None };

    /// Whether everything is as the caller left it.
    pub(super) fn is_given_back(&self) -> bool {
        self.depth == Some(RETURN_ADDRESS) && self.rbp == Rbp::Callers
    }

    /// Where two ways meet: what is true on both; `None` where they contradict each other. `rbp` that was saved may be changed on one of them,
    /// and with a frame pointer the stack may have any depth.
    pub(super) fn joined(self, other: Self) -> Option<Self> {
        if self.saved != other.saved {
            return None;
        }
        let depth = self.depth.filter(|_| self.depth == other.depth);
        match (self.rbp, other.rbp) {
            (Rbp::Pointer(one), Rbp::Pointer(two)) => (one == two).then_some(Self { depth, ..self }),
            (Rbp::Pointer(_), _) | (_, Rbp::Pointer(_)) => None,
            (one, two) => {
                let rbp = if one == two { one } else { Rbp::Other };
                Self { depth, rbp, ..self }.checked()
            }
        }
    }

    /// The rule that holds here.
    pub(super) fn rule(&self) -> Rule {
        let saved = self.saved.map_or(0, |saved| -saved);
        let packed = match (self.rbp, self.depth) {
            (Rbp::Pointer(above), _) => Rule::pack(rule::RBP, above, saved),
            (Rbp::Callers, Some(depth)) => Rule::pack(rule::RSP, depth, 0),
            (Rbp::Other, Some(depth)) => Rule::pack(rule::RSP, depth, saved),
            (_, None) => None,
        };
        packed.unwrap_or(Rule::NONE)
    }

    /// The state behind an instruction that goes on; `None` where nothing is known of it.
    pub(super) fn after(self, does: &Instruction, info: &mut InstructionInfoFactory) -> Option<Self> {
        let to = does.op0_register();
        let next = match does.mnemonic() {
            // Position-independent code of 32 bits takes its own address so.
            Mnemonic::Call => (does.near_branch_target() != does.next_ip()).then_some(self)?,
            Mnemonic::Push => self.pushed(does)?,
            Mnemonic::Pop => self.popped(does)?,
            Mnemonic::Leave => self.left()?,
            _ if to == Register::RSP => self.moved(does, info)?,
            Mnemonic::Mov | Mnemonic::Lea if to == Register::RBP => self.with_rbp(does)?,
            Mnemonic::Mov if does.op1_register() == Register::RBP && does.op0_kind() == OpKind::Memory => {
                self.stored(does)
            }
            _ => self.changed_otherwise(does, info)?,
        };
        next.checked()
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
        let is_known = match self.rbp {
            Rbp::Callers => self.depth.is_some(),
            Rbp::Pointer(above) => above > RETURN_ADDRESS && self.saved.is_some(),
            Rbp::Other => self.depth.is_some() && self.saved.is_some(),
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
        (self.saved == Some(above)).then_some(Self { depth: Some(above - 8), rbp: Rbp::Callers, saved: None })
    }

    /// Behind an instruction whose first operand is `rsp`.
    fn moved(self, does: &Instruction, info: &mut InstructionInfoFactory) -> Option<Self> {
        if !is_written(Register::RSP, does, info) {
            return self.changed_otherwise(does, info);
        }
        let by = does.try_immediate(1).ok().filter(|_| does.op1_register() == Register::None);
        let by = by.map(u64::cast_signed);
        let depth = match does.mnemonic() {
            Mnemonic::Sub => by.and_then(|by| self.deeper(by)),
            Mnemonic::Add => by.and_then(|by| self.deeper(by.checked_neg()?)),
            Mnemonic::Lea => self.depth_of(does),
            Mnemonic::Mov if does.op1_register() == Register::RBP => match self.rbp {
                Rbp::Pointer(above) => Some(above),
                Rbp::Callers | Rbp::Other => None,
            },
            // Made a multiple of something, or moved by a number that is not known: only a frame pointer leads back.
            Mnemonic::And | Mnemonic::Mov => None,
            _ => return None,
        };
        Some(Self { depth, ..self })
    }

    /// Behind a `mov` or `lea` to `rbp`.
    fn with_rbp(self, does: &Instruction) -> Option<Self> {
        let is_copy = does.mnemonic() == Mnemonic::Mov;
        let rbp = match does.op1_kind() {
            OpKind::Register if does.op1_register() == Register::RSP => self.depth.map(Rbp::Pointer),
            OpKind::Memory if is_copy => {
                let is_saved = self.saved.is_some() && self.depth_of(does) == self.saved;
                is_saved.then_some(Rbp::Callers)
            }
            OpKind::Memory => self.depth_of(does).map(Rbp::Pointer),
            _ => None,
        };
        Some(Self { rbp: rbp.unwrap_or(Rbp::Other), ..self })
    }

    /// Behind a `mov` of `rbp` to memory.
    fn stored(self, does: &Instruction) -> Self {
        let saves = self.rbp == Rbp::Callers && self.saved.is_none();
        let place = self.depth_of(does).filter(|&depth| saves && depth > RETURN_ADDRESS);
        Self { saved: place.or(self.saved), ..self }
    }

    /// Behind any other instruction.
    fn changed_otherwise(self, does: &Instruction, info: &mut InstructionInfoFactory) -> Option<Self> {
        let mut next = self;
        if is_written(Register::RSP, does, info) {
            if !does.is_stack_instruction() || matches!(does.mnemonic(), Mnemonic::Enter) {
                return None;
            }
            next.depth = self.deeper(-i64::from(does.stack_pointer_increment()));
        }
        if is_written(Register::RBP, does, info) {
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

/// Whether an instruction writes any part of a register.
fn is_written(register: Register, does: &Instruction, info: &mut InstructionInfoFactory) -> bool {
    let reads = |access| {
        matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
    };
    let used = info.info(does).used_registers();
    used.iter().any(|used| used.register().full_register() == register && !reads(used.access()))
}
