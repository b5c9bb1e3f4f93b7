//! Values of maps that have one for each CPU: words of eight bytes.
//!
//! Not by aya, which asks a file in `/sys` how many CPUs there are: in a container that file may name fewer, and the kernel, which goes by
//! its own number, would write behind aya's memory.

use super::bpf_call::{call, fd_of};
use aya::maps::Map;
use aya_obj::generated::bpf_cmd;
use std::io;

/// `union bpf_attr` for `BPF_MAP_LOOKUP_ELEM` and `BPF_MAP_UPDATE_ELEM` (include/uapi/linux/bpf.h, v5.10).
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The values of an entry. `cpus`: one more than the highest number that a CPU may ever have; those that there are not have zeros.
pub(crate) fn read(map: &Map, entry: u32, cpus: u32) -> io::Result<Vec<u64>> {
    let mut values = vec![0; cpus as usize];
    element(bpf_cmd::BPF_MAP_LOOKUP_ELEM, map, &entry, values.as_mut_ptr())?;
    Ok(values)
}

/// Sets an entry to the same value for all CPUs.
pub(crate) fn write(map: &Map, entry: u32, value: &[u64], cpus: u32) -> io::Result<()> {
    let mut values = value.repeat(cpus as usize);
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, map, &entry, values.as_mut_ptr())
}

/// `values` has room for as many as the kernel has CPUs.
fn element(command: bpf_cmd, map: &Map, entry: &u32, values: *mut u64) -> io::Result<()> {
    let map = fd_of(map).ok_or(io::ErrorKind::Unsupported)?;
    let mut attr = Element {
        map: map.cast_unsigned(),
        padding: 0,
        key: std::ptr::from_ref(entry) as u64,
        value: values as u64,
        flags: 0,
    };
    // SAFETY: `attr` is what both commands read; the key is there, and the values' memory is as long as the kernel's number of possible CPUs,
    // which is never more than one above the highest CPU's.
    unsafe { call(command, &raw mut attr) }.map(drop)
}
