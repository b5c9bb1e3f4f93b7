//! What is to be done at an instruction to find the caller, and where code goes on behind it, as code itself says it.
//!
//! Leaves out how that is told from code (`arch`).

use tracer_ebpf::rows::{FullRule, Rule};

/// What is to be done at an instruction to find the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeRule {
    /// It fits a row.
    Short(Rule),
    /// It does not.
    Full(FullRule),
}

impl CodeRule {
    /// Nothing is known.
    pub(super) const NONE: Self = Self::Short(Rule::NONE);
}

/// Where code goes on behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// At the next one.
    Next,
    /// At the next one, if what is called returns.
    Call,
    /// Where this leads.
    Jump(u64),
    /// Where this leads, or at the next one.
    Branch(u64),
    /// Where a register or a word of memory says.
    Computed,
    /// In the caller.
    Return,
    /// Nowhere: it stops the program.
    Ends,
    /// It is none of a program's of 64 bits.
    Unknown,
}
