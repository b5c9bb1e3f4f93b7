//! x86-64: which instructions the kernel emulates where they are probed.
//!
//! Those are `push`, `nop`, `jmp`, `call` and conditional jumps (arch/x86/kernel/uprobes.c, `branch_setup_xol_ops` and `push_setup_xol_ops`,
//! v6.1). Leaves out where is probed (`prologue.rs`).

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes of the instruction with which functions begin that may be called indirectly (`-fcf-protection`); 0 where code begins otherwise.
pub(crate) fn landing_pad(code: &[u8]) -> usize {
    if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 }
}

/// Whether the kernel emulates the first instruction.
pub(crate) fn is_emulated(code: &[u8]) -> bool {
    match code {
        // push; its REX.B form for r8 to r15; nop; short conditional jump, near and short jump, call.
        [0x50..=0x57 | 0x90 | 0x70..=0x7f | 0xe8 | 0xe9 | 0xeb, ..] | [0x41, 0x50..=0x57, ..] => true,
        // Near conditional jump.
        [0x0f, 0x80..=0x8f, ..] => true,
        _ => false,
    }
}
