//! Calls that are counted on request, in one definition for both sides.
//!
//! One program serves all functions: the cookie of its attachment says which one it is. Leaves out the names of the functions (user space
//! knows them).

/// In a cookie: the call is one of the recorder's own, by which it measures what a count costs.
pub const OWN: u64 = 1 << 32;
/// Functions at the most: `at::_ops` and `THPVariable_` of PyTorch 2.15 are 5,000.
pub const MOST_FUNCTIONS: u32 = 16_384;

/// Calls of one function, by all processes of the target.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct Counted {
    /// Times that its first instruction ran.
    pub calls: u64,
    /// Of these, those within another call of it by the same thread.
    pub nested: u64,
}
