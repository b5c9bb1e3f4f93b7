//! x86-64: what its relocations, Go and code that loads variables look like.
//!
//! Leaves out what instructions do to a stack (`frame_state.rs`), and what CFI means (`cfi.rs`).

pub(crate) mod cfi;
pub(crate) mod frame_state;
pub(crate) mod instruction;

/// The relocation that puts an address of the file itself into a word.
pub(crate) use object::elf::R_X86_64_RELATIVE as RELATIVE_RELOCATION;

/// Whether code begins with an instruction that does nothing: of one byte, as `sys/sdt.h` writes, or of several (AMD64 Architecture Programmer's
/// Manual, volume 3, `NOP`).
pub(crate) fn is_nop(code: &[u8]) -> bool {
    match code.strip_prefix(&[0x66]).unwrap_or(code) {
        [0x90, ..] => true,
        [0x0f, 0x1f, mode, ..] => mode & 0x38 == 0,
        _ => false,
    }
}

/// Relocations by which the loader writes where a thread-local variable is (System V ABI AMD64 1.0, §4.4.1; TLSDESC).
pub(crate) mod variable {
    pub(crate) use object::elf::R_X86_64_DTPMOD64 as MODULE_RELOCATION;
    pub(crate) use object::elf::R_X86_64_TLSDESC as DESCRIPTOR_RELOCATION;
    pub(crate) use object::elf::R_X86_64_TPOFF64 as DISTANCE_RELOCATION;
}

/// Frames of Go's functions (Go 1.19 and 1.20, `src/cmd/internal/obj/x86/obj6.go`).
pub(crate) mod go {
    use tracer_ebpf::rows::{Rule, rule};

    /// Lengths of instructions are counted in so many bytes (`pcHeader.minLC`).
    pub(crate) const UNIT: u8 = 1;
    /// Where a frame keeps the caller's `rbp`, from the CFA: right below the return address, and `rbp` points there.
    const SAVED: i64 = -16;

    /// The rule by the frame pointer, which points to the same place however deep the stack is.
    pub(crate) fn by_frame_pointer(_depth: i64) -> Option<Rule> {
        Rule::pack(rule::FP, 16, SAVED)
    }

    /// The rule where the stack pointer is so many bytes below the return address.
    pub(crate) fn by_depth(depth: i64) -> Option<Rule> {
        match depth {
            0 => Rule::pack(rule::SP, 8, 0),
            8.. => Rule::pack(rule::SP, depth.checked_add(8)?, SAVED),
            _ => None,
        }
    }
}

/// Code that loads variables, and addresses.
pub(crate) mod load {
    /// Loads a pointer: `mov distance(%rip), %rax`.
    pub(crate) const POINTER: &[u8] = &[0x48, 0x8b, 0x05];
    /// Loads a number of 32 bits as an argument: `mov distance(%rip), %edi`.
    pub(crate) const NUMBER: &[u8] = &[0x8b, 0x3d];

    /// The address that the first such instruction of a function loads from.
    pub(crate) fn variable(code: &[u8], function: u64, loads: &[u8]) -> Option<u64> {
        let at = code.windows(loads.len()).position(|bytes| bytes == loads)? + loads.len();
        let distance = i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?);
        Some(function.checked_add(at as u64 + 4)?.wrapping_add_signed(i64::from(distance)))
    }

    /// Addresses that code loads: `lea reg, [rip + distance]` (REX.W 8D /r, mod 0, rm 5), and `mov r32, address` (B8+) in programs that lie
    /// at fixed addresses (Intel SDM vol. 2A). What is no instruction may look like one: the caller checks what is there.
    pub(crate) fn addresses(code: &[u8], address: u64) -> impl Iterator<Item = u64> + '_ {
        code.windows(7).zip(address..).filter_map(|(window, at)| match *window {
            [0x48 | 0x4c, 0x8d, modrm, a, b, c, d] if modrm & 0xc7 == 5 => {
                Some((at + 7).wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))))
            }
            [0xb8..=0xbf, a, b, c, d, ..] => Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => None,
        })
    }
}

/// Procedure linkage tables of LLVM's linker (lld/ELF/Arch/X86_64.cpp, `writePltHeader`, `writePlt`).
pub(crate) mod plt {
    use crate::code_rule::CodeRule;
    use tracer_ebpf::rows::{Rule, rule};

    const JUMP: &[u8] = &[0xff, 0x25];
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

    /// The rules from these places of a table on; `None`: it is none. Either its entries push a number behind their jump, and a head of
    /// `push; jmp` is before them, or they only jump.
    pub(crate) fn rows(code: &[u8]) -> Option<Vec<(u64, CodeRule)>> {
        let at = |place: usize, bytes: &[u8]| code.get(place..).is_some_and(|code| code.starts_with(bytes));
        let pushes = at(16, JUMP) && at(22, &[0x68]) && at(27, &[0xe9]);
        let only_jumps =
            |entry| at(entry, JUMP) && !at(entry + 6, &[0x68]) || at(entry, ENDBR64) && at(entry + 4, JUMP);
        let rules = if at(0, &[0xff, 0x35]) && at(6, JUMP) && pushes {
            vec![
                (0, Rule::pack(rule::SP, 16, 0)),
                (6, Rule::pack(rule::SP, 24, 0)),
                (16, Rule::pack(rule::PLT, 8, 0)),
            ]
        } else if only_jumps(0) && only_jumps(16) {
            vec![(0, Rule::pack(rule::SP, 8, 0))]
        } else {
            return None;
        };
        rules.into_iter().map(|(place, rule)| Some((place, CodeRule::Short(rule?)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::is_nop;

    /// All lengths that assemblers write; not `pause`, other instructions of two bytes, half a `nop` and nothing at all.
    #[test]
    fn static_probes_are_nops() {
        let nops: [&[u8]; 6] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44],
            &[0x0f, 0x1f, 0x84, 0x00],
        ];
        assert!(nops.into_iter().all(is_nop));
        let others: [&[u8]; 7] = [
            &[0xf3, 0x90],
            &[0x0f, 0x1e, 0xfa],
            &[0x0f, 0x1f, 0x48],
            &[0x0f, 0x1f],
            &[0x66, 0x89, 0xc0],
            &[0xcc, 0x90],
            &[],
        ];
        assert!(!others.into_iter().any(is_nop));
    }
}
