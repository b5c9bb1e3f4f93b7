//! Memory of another process, read without stopping it.

use crate::living::living_thread;
use energy_trace_model::ids::Pid;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use std::io::IoSliceMut;

/// Where structures are read from: a live process, or a snapshot in a test.
pub trait Source {
    /// Fills `out` from `address`; `None` where that memory cannot be read.
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()>;

    /// A 64-bit word.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// A 32-bit word.
    fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_ne_bytes(bytes))
    }

    /// Up to `limit` bytes; `None` where `length` is above it.
    fn bytes(&self, address: u64, length: u64, limit: u64) -> Option<Vec<u8>> {
        if length > limit {
            return None;
        }
        let mut out = vec![0; usize::try_from(length).ok()?];
        self.read(address, &mut out)?;
        Some(out)
    }
}

/// Memory of a live process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    pid: nix::unistd::Pid,
}

impl ProcessMemory {
    /// Of a process; nothing is opened.
    pub const fn of(pid: Pid) -> Self {
        Self { pid: nix::unistd::Pid::from_raw(pid.get().cast_signed()) }
    }

    fn read_remote(&self, local: &mut [IoSliceMut<'_>], remote: &[RemoteIoVec]) -> nix::Result<usize> {
        process_vm_readv(self.pid, local, remote).or_else(|error| {
            let pid = Pid::new(self.pid.as_raw().cast_unsigned());
            // A first thread that has ended has no memory.
            let thread = if error == Errno::ESRCH { living_thread(pid) } else { None };
            thread.map_or(Err(error), |tid| process_vm_readv(Self::of(tid).pid, local, remote))
        })
    }

    /// Reads `out.len()` stretches of 16 bytes in one call; as many as could be read.
    pub fn read_pairs(&self, addresses: &[u64], out: &mut [[u8; 16]]) -> usize {
        let remote: Vec<RemoteIoVec> =
            addresses.iter().map(|&a| RemoteIoVec { base: a as usize, len: 16 }).collect();
        let mut local: Vec<IoSliceMut<'_>> = out.iter_mut().map(|pair| IoSliceMut::new(pair)).collect();
        self.read_remote(&mut local, &remote).map_or(0, |bytes| bytes / 16)
    }
}

impl Source for ProcessMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        if out.is_empty() {
            return Some(());
        }
        let wanted = out.len();
        let remote = [RemoteIoVec { base: usize::try_from(address).ok()?, len: wanted }];
        let got = self.read_remote(&mut [IoSliceMut::new(out)], &remote).ok()?;
        (got == wanted).then_some(())
    }
}
