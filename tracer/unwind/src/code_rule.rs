//! What is to be done at an instruction to find the caller, as code itself says it.
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
