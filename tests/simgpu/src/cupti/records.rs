//! The layouts of activity records: `CUpti_ActivityKernel10` (216 bytes), `CUpti_ActivityMemcpy5` and `CUpti_ActivityMemset4` (88 bytes each),
//! as `cupti_activity.h` of 13.0 packs them. Fields that the simulation knows nothing of are zero.

use crate::raw::Handle;
use crate::truth::Launch;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{LazyLock, Mutex, PoisonError};

pub(super) const COPY: u32 = 1;
pub(super) const SET: u32 = 2;
pub(super) const KERNEL: u32 = 3;
pub(super) const CONCURRENT_KERNEL: u32 = 10;
/// The kinds that there are.
pub(super) const KINDS: [u32; 4] = [COPY, SET, KERNEL, CONCURRENT_KERNEL];

const KERNEL_BYTES: usize = 216;
const OTHER_BYTES: usize = 88;

/// Names of kernels, which records point to for ever.
static NAMES: LazyLock<Mutex<HashMap<String, CString>>> = LazyLock::new(Mutex::default);

/// A record that waits for its work to end.
pub(super) struct Waiting {
    pub(super) end_ns: u64,
    pub(super) bytes: Vec<u8>,
}

/// The kind of a launch's record.
pub(super) fn kind(launch: &Launch, concurrent: bool) -> u32 {
    match launch.kind.as_str() {
        "kernel" if concurrent => CONCURRENT_KERNEL,
        "kernel" => KERNEL,
        "memset" => SET,
        _ => COPY,
    }
}

/// The record of a launch, or of a graph's node, by their numbers (0: none). `stamp` turns moments of the common clock into CUPTI's; a work that is not known to have ended has none.
pub(super) fn encode(
    launch: &Launch,
    kind: u32,
    (graph, node): (u32, u64),
    stamp: impl Fn(u64) -> u64,
) -> Waiting {
    let mut record = Record(vec![0; if launch.kind == "kernel" { KERNEL_BYTES } else { OTHER_BYTES }]);
    record.put(0, kind);
    record.put_long(16, stamp(launch.start_ns));
    record.put_long(24, stamp(launch.end_ns));
    let device = u32::try_from(launch.gpu).unwrap_or(0);
    let stream = u32::try_from(launch.stream & 0xffff_ffff).unwrap_or(0);
    if launch.kind == "kernel" {
        record.put_long(32, stamp(launch.end_ns));
        for (at, value) in [(40, device), (44, 1), (48, stream), (92, launch.correlation), (156, graph)] {
            record.put(at, value);
        }
        record.put_long(104, name(&launch.name));
        record.put_long(144, node);
    } else {
        record.0[4] = match launch.kind.as_str() {
            "h2d" => 1,
            "d2h" => 2,
            "d2d" => 8,
            _ => 0,
        };
        record.put_long(8, launch.bytes);
        record.put_long(64, node);
        for (at, value) in [(32, device), (36, 1), (40, stream), (44, launch.correlation), (72, graph)] {
            record.put(at, value);
        }
    }
    Waiting { end_ns: launch.end_ns, bytes: record.0 }
}

/// Takes the times out of a record: its work had not ended when it was handed out.
pub(super) fn without_times(bytes: &mut [u8]) {
    bytes[16..32].fill(0);
}

struct Record(Vec<u8>);

impl Record {
    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put_long(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// The address of a kernel's name.
fn name(name: &str) -> u64 {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.entry(name.to_owned()).or_insert_with(|| CString::new(name).unwrap_or_default());
    known.as_ptr().addr() as u64
}

/// The record behind another one in a buffer, or the first; `None` behind the last.
pub(super) fn next(buffer: Handle, valid: usize, after: Handle) -> Option<Handle> {
    let offset = match after.is_null() {
        true => 0,
        false => {
            // SAFETY: the caller hands back a record that this function gave it, which begins with its kind.
            let kind = unsafe { after.cast::<u32>().read_unaligned() };
            let length = if matches!(kind, KERNEL | CONCURRENT_KERNEL) { KERNEL_BYTES } else { OTHER_BYTES };
            after.addr().checked_sub(buffer.addr())? + length
        }
    };
    // SAFETY: the offset is within the caller's buffer of `valid` bytes.
    (offset < valid).then(|| unsafe { buffer.cast::<u8>().add(offset).cast() })
}
