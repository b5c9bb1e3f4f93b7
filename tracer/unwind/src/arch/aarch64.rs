//! aarch64: what its relocations, Go and code that loads variables look like.
//!
//! Source: Arm ARM DDI 0487J, C4.1. Leaves out what CFI means (`cfi.rs`), and what instructions do to a stack
//! (`frame_state.rs`).

pub(crate) mod cfi;
pub(crate) mod frame_state;
pub(crate) mod instruction;

/// The relocation that puts an address of the file itself into a word.
pub(crate) const RELATIVE_RELOCATION: u32 = object::elf::R_AARCH64_RELATIVE;

/// Whether code begins with an instruction that does nothing.
pub(crate) fn is_nop(code: &[u8]) -> bool {
    code.starts_with(&0xd503_201f_u32.to_le_bytes())
}

/// Relocations by which the loader writes where a thread-local variable is (ELF for the Arm 64-bit Architecture, §5.7.13).
pub(crate) mod variable {
    pub(crate) use object::elf::R_AARCH64_TLS_DTPMOD as MODULE_RELOCATION;
    pub(crate) use object::elf::R_AARCH64_TLS_TPREL as DISTANCE_RELOCATION;
    pub(crate) use object::elf::R_AARCH64_TLSDESC as DESCRIPTOR_RELOCATION;
}

/// Frames of Go's functions (Go 1.19 and 1.20, `src/cmd/internal/obj/arm64/obj7.go`): the return address lies at the stack pointer, and the
/// caller's `x29` right below, where `x29` points.
pub(crate) mod go {
    use tracer_ebpf::rows::{Rule, rule};

    /// Lengths of instructions are counted in so many bytes (`pcHeader.minLC`).
    pub(crate) const UNIT: u8 = 4;
    /// From the stack pointer down to the caller's `x29`.
    const BELOW: i64 = 8;

    /// The rule by the frame pointer, in a frame of so many bytes.
    pub(crate) fn by_frame_pointer(depth: i64) -> Option<Rule> {
        let above = depth.checked_add(BELOW)?;
        Rule::pack(rule::FP, above, above.checked_neg()?)
    }

    /// The rule where the stack pointer is so many bytes below the caller's; 0: the return address is in `x30`.
    pub(crate) fn by_depth(depth: i64) -> Option<Rule> {
        match depth {
            0 => Rule::pack(rule::SP, 0, 0),
            8.. => Rule::pack(rule::SP, depth, depth.checked_add(BELOW)?.checked_neg()?),
            _ => None,
        }
    }
}

/// Code that loads variables, and addresses: `adrp` loads a page, and another instruction adds to it.
pub(crate) mod load {
    /// Loads a pointer: `ldr x0, [x0, #at]`, by its opcode alone.
    pub(crate) const POINTER: &[u8] = &[0, 0, 0x40, 0xf9];
    /// Loads a number of 32 bits: `ldr w0, [x0, #at]`.
    pub(crate) const NUMBER: &[u8] = &[0, 0, 0x40, 0xb9];
    /// `add x0, x0, #at`.
    const ADD: u32 = 0x9100_0000;
    /// An opcode with its operands, which are a register to read, one to write, and twelve bits.
    const OPCODE: u32 = 0xffc0_0000;
    /// Instructions between the two that belong together, at the most: compilers move some apart.
    const APART: usize = 8;

    /// The address that the first such instruction of a function loads from.
    pub(crate) fn variable(code: &[u8], function: u64, loads: &[u8]) -> Option<u64> {
        let opcode = u32::from_le_bytes(loads.try_into().ok()?);
        // The twelve bits count what is loaded.
        let unit = 1 << (opcode >> 30);
        pairs(code, function, opcode).next().map(|(page, at)| page.wrapping_add(at * unit))
    }

    /// Addresses that code loads.
    pub(crate) fn addresses(code: &[u8], address: u64) -> impl Iterator<Item = u64> + '_ {
        pairs(code, address, ADD).map(|(page, at)| page.wrapping_add(at))
    }

    /// How many pages of 4 KiB away `adrp` leads.
    const fn pages(adrp: u32) -> i64 {
        ((adrp << 8).cast_signed() >> 13) as i64 * 4 + (adrp >> 29 & 3) as i64
    }

    /// Pages that `adrp` loads, and what another instruction adds to each.
    fn pairs(code: &[u8], address: u64, opcode: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        let words = move |from: usize| {
            let rest = code.get(from * 4..).unwrap_or_default().chunks_exact(4);
            rest.map(|word| word.try_into().map_or(0, u32::from_le_bytes))
        };
        words(0).enumerate().filter_map(move |(place, adrp)| {
            let is_adrp = adrp & 0x9f00_0000 == 0x9000_0000;
            let register = adrp & 31;
            let adds = |word: &u32| word & OPCODE == opcode && word >> 5 & 31 == register;
            let with = words(place + 1).take(APART).find(adds).filter(|_| is_adrp)?;
            let at = address.wrapping_add(4 * place as u64);
            let page = (at & !0xfff).wrapping_add_signed(pages(adrp) << 12);
            Some((page, u64::from(with >> 10 & 0xfff)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{go, is_nop, load, plt};
    use crate::code_rule::CodeRule;
    use tracer_ebpf::rows::{Rule, rule};

    /// `adrp x1, +1 page; mov x0, #0; add x1, x1, #0x123` and what two functions of CPython 3.6 load.
    #[test]
    fn what_code_loads() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let text = code(&[0xb000_0001, 0xd280_0000, 0x9104_8c21]);
        assert_eq!(load::addresses(&text, 0x40_0ff8).collect::<Vec<_>>(), [0x40_1123]);
        // adrp x0, -1 page; ldr x0, [x0, #0x48]; ret
        let pointer = code(&[0xf0ff_ffe0, 0xf940_2400, 0xd65f_03c0]);
        assert_eq!(load::variable(&pointer, 0x40_2000, load::POINTER), Some(0x40_1048));
        assert_eq!(load::variable(&pointer, 0x40_2000, load::NUMBER), None);
        // adrp x0, 0; ldr w0, [x0, #0x48]
        let number = code(&[0x9000_0000, 0xb940_4800]);
        assert_eq!(load::variable(&number, 0x40_2004, load::NUMBER), Some(0x40_2048));
        // Of another register.
        assert_eq!(load::addresses(&code(&[0xb000_0001, 0x9104_8c42]), 0).count(), 0);
    }

    /// `nop`; not `bti`, `ret`, half an instruction and nothing at all.
    #[test]
    fn static_probes_are_nops() {
        assert!(is_nop(&[0x1f, 0x20, 0x03, 0xd5]));
        let others: [&[u8]; 4] =
            [&[0x5f, 0x24, 0x03, 0xd5], &[0xc0, 0x03, 0x5f, 0xd6], &[0x1f, 0x20, 0x03], &[]];
        assert!(!others.into_iter().any(is_nop));
    }

    /// Go's frames: in the register, right above the saved frame pointer, and by it.
    #[test]
    fn frames_of_go() {
        let parts = |found: Option<tracer_ebpf::rows::Rule>| {
            found.map(|found| (found.kind(), found.offset(), found.fp()))
        };
        assert_eq!(parts(go::by_depth(0)), Some((rule::SP, 0, 0)));
        assert_eq!(parts(go::by_depth(32)), Some((rule::SP, 32, -40)));
        assert_eq!(parts(go::by_frame_pointer(32)), Some((rule::FP, 40, -40)));
        assert_eq!((go::by_depth(-8), go::by_depth(1 << 40)), (None, None));
    }

    /// Behind its head a table leaves everything as it was; what does not begin so is none.
    #[test]
    fn linkage_tables() {
        let rows =
            |words: &[u32]| plt::rows(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        let entries = vec![(32, CodeRule::Short(Rule::pack(rule::SP, 0, 0).unwrap()))];
        let (bti, push) = (0xd503_245f, 0xa9bf_7bf0);
        assert_eq!(rows(&[push, 0x9000_0090]), Some(entries.clone()));
        assert_eq!(rows(&[bti, push]), Some(entries));
        assert_eq!([rows(&[bti, 0xa9bf_7bfd]), rows(&[0xd503_201f, push]), rows(&[])], [None, None, None]);
    }
}

/// Procedure linkage tables (lld/ELF/Arch/AArch64.cpp, `writePltHeader`, `writePlt`).
pub(crate) mod plt {
    use super::frame_state::FrameState;
    use crate::code_rule::CodeRule;

    /// Bytes of the head, which begins with `stp x16, x30, [sp, #-16]!`, with `bti c` before it or not.
    const HEAD: u64 = 32;
    const PUSH: [u8; 4] = 0xa9bf_7bf0_u32.to_le_bytes();
    const BTI_C: [u8; 4] = 0xd503_245f_u32.to_le_bytes();

    /// The rules from these places of a table on; `None`: it is none. Entries leave the stack and `x30` as they are.
    pub(crate) fn rows(code: &[u8]) -> Option<Vec<(u64, CodeRule)>> {
        let head = code.strip_prefix(&BTI_C).unwrap_or(code);
        head.starts_with(&PUSH).then(|| vec![(HEAD, FrameState::ENTRY.rule())])
    }
}
