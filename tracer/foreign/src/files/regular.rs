//! From a place to a file that can be read.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Opens for reading what an `O_PATH` descriptor stands for, where that is a regular file and `is_meant`. It waits for nobody: not for a
/// pipe's writer, as none is opened, nor for the holder of a lease.
///
/// # Errors
/// When it is something else, or the system cannot open it.
pub fn open_place(place: &File, is_meant: impl FnOnce(&Metadata) -> bool) -> io::Result<File> {
    let found = place.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if !is_meant(&found) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "another file is in its place"));
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    // The kernel's own link to the very inode that was looked at.
    options.open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}
