//! The memory that a walker reads.

/// Words that one read of a Python frame may fill.
pub const FRAME_WORDS: usize = 16;

/// Memory of the walked thread. Every read may fail, and no read has an effect.
pub trait Memory {
    /// The eight bytes at `address`, or `None` where they cannot be read now.
    fn read_word(&self, address: u64) -> Option<u64>;

    /// Fills the first `bytes` bytes of `out` from `address`; false where they cannot be read now. `bytes` is at most 128.
    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool;
}
