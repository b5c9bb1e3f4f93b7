//! OpenJDK's HotSpot: where it keeps what is known of the code that it makes at run time.
//!
//! HotSpot exports a table of its own fields for debuggers (`gHotSpotVMStructs`, OpenJDK 17, `src/hotspot/share/runtime/vmStructs.cpp`). The
//! resolver finds in the file which words hold the fields' places (`exports.rs`), and the recorder reads these words in the process
//! (`layout.rs`). Leaves out the walking (`tracer_ebpf::hotspot`) and names of Java methods.

mod exports;
mod layout;

pub use exports::Export;
pub(super) use exports::read_exports;
pub use layout::read_layout;

/// The symbol of the table.
pub const TABLE: &str = "gHotSpotVMStructs";

/// Whether a file of this name may hold a HotSpot.
pub fn may_hold_hotspot(path: &str) -> bool {
    path.ends_with("/libjvm.so")
}
