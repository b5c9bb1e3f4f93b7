//! Ranges that programs mark, in one definition for both sides.
//!
//! Each thread has a word in its memory with the number of the path of its ranges; what a number means is told once. Leaves out who tells it
//! (`energy-trace-cupti`, `ranges`).

/// What the probed function is told, in its first argument.
pub mod tell {
    /// Where the calling thread's word lies; 0: it has none any more.
    pub const THREAD: u64 = 1;
    /// A path's number, that of the path around it, and its label's.
    pub const PATH: u64 = 2;
    /// A label's number, and where its text lies.
    pub const LABEL: u64 = 3;
}

/// Bytes of a label, its zero included.
pub const LABEL_BYTES: usize = 96;
/// Threads, paths and labels that are kept of all processes, each.
pub const MOST: u32 = 16_384;
/// In place of a path's number: the thread's word could not be read.
pub const UNREADABLE: u64 = 1;
/// Ranges of a path at the most.
pub const DEEPEST: usize = 65;

/// A path: that around it (0: none), and the label of its last range.
pub type Path = [u64; 2];
