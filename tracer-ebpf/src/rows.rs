//! The unwind row: what one stretch of code needs to find its caller, in eight bytes.
//!
//! High half: the first address of the stretch, relative to the module's lowest address. Low half: how to find the canonical frame
//! address (CFA), and where the caller's frame pointer was saved:
//!
//! ```text
//!  31    28 27   25 24     16 15             0
//! | kind   | saved | fp      | offset         |
//! ```
//!
//! `offset` is the CFA's offset divided by eight, signed; `fp` is the save slot's offset from the CFA divided by eight, signed, with
//! 0 meaning "not saved here, unchanged" (the slot at the CFA itself never holds it). `saved` is how many words below the return address the
//! caller's other register was saved (`DEREF_FP`: below where the frame pointer points), 0: unchanged; it is followed because some code finds its CFA by it.
//! Where the return address lies hangs on the processor (`arch::frame`): at CFA − 8, or right above the save slot; in signal frames elsewhere. What this cannot say is a `FullRule` elsewhere, to which
//! `offset` of kind `FULL` leads: 0.2 % of the code of PyTorch, and no space in any other row. Rows of one file are sorted and cut
//! into chunks of `CHUNK_ROWS`; where there is more than one, chunk 0 is the index: the first row of each chunk.

/// Rows of a chunk: a power of two, whose square is the most that a file can have (16 million; `libtorch_cpu` has 2.6). All values of inner
/// maps have one size, so that small files waste what they do not fill.
pub const CHUNK_ROWS: usize = 4096;
/// What fills the unused places of a chunk: above every address.
pub const FILLER: u64 = u64::MAX;

/// How to find the CFA.
pub mod rule {
    /// `sp + offset`.
    pub const SP: u32 = 0;
    /// `fp + offset`.
    pub const FP: u32 = 1;
    /// `*(fp + offset)`: a realigned stack; the caller's frame pointer lies where the frame pointer points.
    pub const DEREF_FP: u32 = 2;
    /// The PLT's expression (`arch::plt`), of which `offset` tells the form.
    pub const PLT: u32 = 3;
    /// A signal frame: the registers lie in the `ucontext` at the stack pointer.
    pub const SIGNAL: u32 = 4;
    /// The outermost frame: there is no caller.
    pub const OUTERMOST: u32 = 5;
    /// No unwind information from here on.
    pub const NONE: u32 = 6;
    /// A rule that fits no other kind.
    pub const UNSUPPORTED: u32 = 7;
    /// `*(sp + offset)`: a stack switched by hand-written assembly.
    pub const DEREF_SP: u32 = 8;
    /// `*(sp + offset) + 8`: the same where the stack pointer was put away after the call (OpenSSL's kernels).
    pub const DEREF_SP_8: u32 = 9;
    /// A `FullRule`, whose number stands in the place of the offset.
    pub const FULL: u32 = 10;
    /// Code that a HotSpot makes at run time, which keeps what is known of it itself (`hotspot.rs`). In no row: for whole mappings.
    pub const HOTSPOT: u32 = 11;
    /// Code that V8 makes at run time, whose frames say that they are V8's (`v8.rs`). In no row either.
    pub const V8: u32 = 12;
}

/// Rules in full that the probes can hold. A PyTorch process has some hundred different ones.
pub const MAX_FULL_RULES: u32 = 8192;

/// The low half of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(pub u32);

impl Rule {
    /// No unwind information from here on.
    pub const NONE: Self = Self(rule::NONE << 28);
    /// A rule that cannot be expressed.
    pub const UNSUPPORTED: Self = Self(rule::UNSUPPORTED << 28);

    /// Packs a rule that leaves the other register unchanged; `None` where an offset does not fit. Offsets are in bytes and multiples of eight.
    pub fn pack(kind: u32, offset: i64, fp: i64) -> Option<Self> {
        let fits = offset % 8 == 0
            && fp % 8 == 0
            && i16::try_from(offset / 8).is_ok()
            && (-256..256).contains(&(fp / 8));
        let word = || kind << 28 | ((fp / 8) as u32 & 0x1ff) << 16 | ((offset / 8) as u32 & 0xffff);
        if fits { Some(Self(word())) } else { None }
    }

    /// The same where the other register was saved this many bytes below the return address, or below where the frame pointer points; `None` where that does not fit.
    pub fn saving_callee_saved(self, down: i64) -> Option<Self> {
        let words = u32::try_from(down / 8).ok().filter(|&words| down % 8 == 0 && words < 8)?;
        Some(Self(self.0 & !(7 << 25) | words << 25))
    }

    /// Leads to a rule in full.
    pub const fn full(index: u16) -> Self {
        Self(rule::FULL << 28 | index as u32)
    }

    /// One of `rule`.
    pub const fn kind(self) -> u32 {
        self.0 >> 28
    }

    /// Bytes to add for the CFA.
    pub const fn offset(self) -> i64 {
        ((self.0 << 16) as i32 >> 16) as i64 * 8
    }

    /// Bytes from the CFA to the saved frame pointer; 0: it is unchanged.
    pub const fn fp(self) -> i64 {
        ((self.0 << 7) as i32 >> 23) as i64 * 8
    }

    /// Bytes from the return address, or from where the frame pointer points, down to the other register; 0: it is unchanged.
    pub const fn callee_saved_down(self) -> u64 {
        (self.0 >> 25 & 7) as u64 * 8
    }

    /// Number of the rule in full, in a rule of kind `FULL`.
    pub const fn index(self) -> u32 {
        self.0 & 0xffff
    }
}

/// A value at the time of a rule: a register or the CFA, plus an offset, or the word at that address.
///
/// Bits 0–31: the offset, signed; 32–39: what it is added to, one of `base`; bit 40: the word there.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operand(pub u64);

/// What an operand starts from: DWARF's numbers of the registers, and two more.
pub mod base {
    pub use crate::arch::dwarf::{CALLEE_SAVED, FP, LAST, SP};

    /// The canonical frame address.
    pub const CFA: u32 = LAST + 1;
    /// The register is unchanged.
    pub const SAME: u32 = LAST + 2;
}

impl Operand {
    /// The register is unchanged.
    pub const SAME: Self = Self((base::SAME as u64) << 32);

    /// `base + offset`.
    pub const fn sum(base: u32, offset: i32) -> Self {
        Self((base as u64) << 32 | offset.cast_unsigned() as u64)
    }

    /// `*(base + offset)`.
    pub const fn word(base: u32, offset: i32) -> Self {
        Self(Self::sum(base, offset).0 | 1 << 40)
    }

    /// One of `base`.
    pub const fn base(self) -> u32 {
        (self.0 >> 32) as u32 & 0xff
    }

    /// Bytes to add.
    pub const fn offset(self) -> i64 {
        (self.0 as u32).cast_signed() as i64
    }

    /// Whether the word at that address is meant.
    pub const fn is_word(self) -> bool {
        self.0 >> 40 & 1 == 1
    }
}

/// A rule that eight bytes cannot say. Files share equal ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FullRule {
    /// The CFA, less `add`.
    pub cfa: Operand,
    /// What is added for the CFA.
    pub add: i64,
    /// The return address.
    pub ra: Operand,
    /// The caller's frame pointer.
    pub fp: Operand,
    /// The caller's `base::CALLEE_SAVED`.
    pub callee_saved: Operand,
}

const _: () = assert!(size_of::<FullRule>() == 40);

#[cfg(feature = "user")]
mod user {
    // SAFETY: `repr(C)` integers without padding (the assert above): every bit pattern is a value.
    unsafe impl aya::Pod for super::FullRule {}
}
