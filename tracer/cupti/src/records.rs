//! Fields of activity records by their offsets, which are the same in CUPTI 12.0 to 13.5 (compiled against their headers; see the design
//! notes, gpu.md §0.10 and §4.2). Leaves out everything that is not used.

use crate::tally::Activity;
use std::ffi::{CStr, c_char};

/// `CUpti_ActivityKind`.
pub(crate) const COPY: u32 = 1;
pub(crate) const SET: u32 = 2;
pub(crate) const CONCURRENT_KERNEL: u32 = 10;

/// Reads one record.
///
/// # Safety
/// `record` is what `cuptiActivityGetNextRecord` has given, in a buffer that has not gone back.
pub(crate) unsafe fn decode<'a>(record: *const u8) -> Option<Activity<'a>> {
    // SAFETY: each kind's structure is longer than the offsets that are read of it, and packed: reads need no alignment.
    let (number, long) = unsafe {
        (
            move |at: usize| record.add(at).cast::<u32>().read_unaligned(),
            move |at: usize| record.add(at).cast::<u64>().read_unaligned(),
        )
    };
    let (start_ns, end_ns) = (long(16), long(24));
    match number(0) {
        CONCURRENT_KERNEL => {
            let name = std::ptr::with_exposed_provenance::<c_char>(usize::try_from(long(104)).unwrap_or(0));
            // SAFETY: CUPTI's names of kernels have their zero and stay as long as their module.
            let name = if name.is_null() { c"[unnamed]" } else { unsafe { CStr::from_ptr(name) } };
            let name = name.to_str().unwrap_or("[not UTF-8]");
            let (correlation, device, node) = (number(92), number(40), long(144));
            Some(Activity { correlation, device, name, node, start_ns, end_ns })
        }
        COPY => {
            // SAFETY: as above, of one byte.
            let name = copy_name(unsafe { record.add(4).read() });
            let (correlation, device, node) = (number(44), number(32), long(64));
            Some(Activity { correlation, device, name, node, start_ns, end_ns })
        }
        SET => {
            let (correlation, device, node) = (number(44), number(32), long(64));
            Some(Activity { correlation, device, name: "[memset]", node, start_ns, end_ns })
        }
        _ => None,
    }
}

/// `CUpti_ActivityMemcpyKind`.
const fn copy_name(kind: u8) -> &'static str {
    match kind {
        1 | 3 => "[copy H2D]",
        2 | 4 => "[copy D2H]",
        5..=8 => "[copy D2D]",
        10 => "[copy P2P]",
        _ => "[copy]",
    }
}
