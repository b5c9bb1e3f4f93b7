//! The unwind row: what one stretch of code needs to find its caller, in eight bytes.
//!
//! High half: the first address of the stretch, relative to the module's lowest address. Low half: how to find the canonical frame
//! address (CFA), and where the caller's `rbp` was saved:
//!
//! ```text
//!  31    27 26      16 15             0
//! | kind   | rbp       | offset         |
//! ```
//!
//! `offset` is the CFA's offset divided by eight, signed; `rbp` is the save slot's offset from the CFA divided by eight, signed, with
//! 0 meaning "not saved here, unchanged" (the slot at the CFA itself never holds it). The return address always lies at CFA − 8, except
//! in signal frames. Rows of one file are sorted and cut into chunks of `CHUNK_ROWS`; chunk 0 is the index: the first row of each chunk.

/// Rows of a chunk.
pub const CHUNK_ROWS: usize = 8192;
/// What fills the unused places of a chunk: above every address.
pub const FILLER: u64 = u64::MAX;

/// How to find the CFA.
pub mod rule {
    /// `rsp + offset`.
    pub const RSP: u32 = 0;
    /// `rbp + offset`.
    pub const RBP: u32 = 1;
    /// `*(rbp + offset)`: a realigned stack; the caller's `rbp` lies where `rbp` points.
    pub const DEREF_RBP: u32 = 2;
    /// The PLT's expression: `rsp + 8 + ((rip & 15) >= 11) * 8`; `offset` tells 11 (1) from 10 (0, for PLTs of 16 bytes with `endbr64`).
    pub const PLT: u32 = 3;
    /// A signal frame: the registers lie in the `ucontext` at `rsp`.
    pub const SIGNAL: u32 = 4;
    /// The outermost frame: there is no caller.
    pub const OUTERMOST: u32 = 5;
    /// No unwind information from here on.
    pub const NONE: u32 = 6;
    /// A rule that fits no other kind.
    pub const UNSUPPORTED: u32 = 7;
    /// `*(rsp + offset)`: a stack switched by hand-written assembly.
    pub const DEREF_RSP: u32 = 8;
    /// `*(rsp + offset) + 8`: the same where `rsp` was put away after the call (OpenSSL's kernels).
    pub const DEREF_RSP_8: u32 = 9;
}

/// The low half of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(pub u32);

impl Rule {
    /// Packs a rule; `None` where an offset does not fit. Offsets are in bytes and multiples of eight.
    pub fn pack(kind: u32, offset: i64, rbp: i64) -> Option<Self> {
        let fits = offset % 8 == 0
            && rbp % 8 == 0
            && i16::try_from(offset / 8).is_ok()
            && (-1024..1024).contains(&(rbp / 8));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
        let word = || kind << 27 | ((rbp / 8) as u32 & 0x7ff) << 16 | ((offset / 8) as u32 & 0xffff);
        if fits { Some(Self(word())) } else { None }
    }

    /// One of `rule`.
    pub const fn kind(self) -> u32 {
        self.0 >> 27
    }

    /// Bytes to add for the CFA.
    #[expect(clippy::cast_possible_wrap, reason = "sign extension by shifts")]
    pub const fn offset(self) -> i64 {
        ((self.0 << 16) as i32 >> 16) as i64 * 8
    }

    /// Bytes from the CFA to the saved `rbp`; 0: it is unchanged.
    #[expect(clippy::cast_possible_wrap, reason = "sign extension by shifts")]
    pub const fn rbp(self) -> i64 {
        ((self.0 << 5) as i32 >> 21) as i64 * 8
    }
}
