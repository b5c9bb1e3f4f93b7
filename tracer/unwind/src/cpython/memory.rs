//! Memory of another process, read without stopping it.

use crate::living::living_thread;
use energy_trace_model::ids::Pid;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use std::io::IoSliceMut;
use tracer_ebpf::code_check::Words;

/// Stretches that are read in one call (`IOV_MAX`, include/uapi/linux/uio.h).
const MOST_AT_ONCE: usize = 1024;

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

    /// The words of several stretches, each of as many bytes as words have at the most, with zeros behind them; `None` for one that cannot be read.
    fn stretches(&self, places: &[(u64, u32)]) -> Vec<Option<Words>> {
        let read = |&(address, bytes): &(u64, u32)| {
            let mut read = [0; size_of::<Words>()];
            self.read(address, read.get_mut(..bytes as usize)?)?;
            Some(words(&read))
        };
        places.iter().map(read).collect()
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

    /// Reads stretches in one call, as many as can be: of the first of them.
    fn read_first(&self, places: &[(u64, u32)]) -> Vec<Words> {
        let remote =
            |&(address, bytes): &(u64, u32)| RemoteIoVec { base: address as usize, len: bytes as usize };
        let remote: Vec<RemoteIoVec> = places.iter().map(remote).collect();
        let mut read = vec![[0; size_of::<Words>()]; places.len()];
        let part = read.iter_mut().zip(&remote);
        let mut local: Vec<IoSliceMut<'_>> =
            part.map(|(read, of)| IoSliceMut::new(read.get_mut(..of.len).unwrap_or_default())).collect();
        let mut got = self.read_remote(&mut local, &remote).unwrap_or(0);
        let whole = remote.iter().take_while(|of| got.checked_sub(of.len).map(|left| got = left).is_some());
        let whole = whole.count();
        read.iter().take(whole).map(words).collect()
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

    fn stretches(&self, places: &[(u64, u32)]) -> Vec<Option<Words>> {
        let mut out = Vec::with_capacity(places.len());
        while let Some(rest) = places.get(out.len()..).filter(|rest| !rest.is_empty()) {
            let rest = rest.get(..MOST_AT_ONCE).unwrap_or(rest);
            let read = self.read_first(rest);
            let has_more = read.len() < rest.len();
            out.extend(read.into_iter().map(Some));
            out.extend(has_more.then_some(None)); // One that cannot be read is passed over.
        }
        out
    }
}

fn words(bytes: &[u8; size_of::<Words>()]) -> Words {
    let mut words = Words::default();
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}
