//! The system call `bpf`, for what aya does not do (bpf(2)).
//!
//! Leaves out what is asked: each command's part of `union bpf_attr` stands where it is used.

use aya::maps::{Map, MapData};
use aya_obj::generated::bpf_cmd;
use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// Does it; what it gives.
///
/// # Safety
/// `attr` is the head of `union bpf_attr` that the command reads and writes, and what its pointers name is there.
pub(super) unsafe fn call<T>(command: bpf_cmd, attr: *mut T) -> io::Result<c_long> {
    // SAFETY: as the caller says.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command as c_long, attr, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

/// Does what makes a descriptor.
pub(super) fn make<T>(command: bpf_cmd, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: such a command only reads `attr`, the head of `union bpf_attr` of the stated size, and what its pointers name outlives the call.
    let made = unsafe { call(command, std::ptr::from_ref(attr).cast_mut()) }?;
    let fd = RawFd::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The descriptor of a map.
pub(super) fn fd_of(map: &Map) -> Option<RawFd> {
    let of = |data: &MapData| data.fd().as_fd().as_raw_fd();
    match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::HashMap(data)
        | Map::HashOfMaps(data)
        | Map::LpmTrie(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data)
        | Map::PerCpuLruHashMap(data)
        | Map::PerfEventArray(data)
        | Map::ProgramArray(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => Some(of(data)),
        _ => None,
    }
}
