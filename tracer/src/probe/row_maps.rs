//! Row tables in BPF maps: one inner array a file, filled through mmap.
//!
//! 1 M rows take 2 ms this way, 108 ms in batches, seconds one by one (research/unwinding.md §3). Leaves out how rows are made
//! (`unwind/cfi.rs`).

use aya::maps::{ArrayOfMaps, MapData};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use tracer_ebpf::rows::{CHUNK_ROWS, FILLER};

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE` (include/uapi/linux/bpf.h, v5.10).
const FLAGS: u32 = 0x1000 | 0x400;
/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// Bytes of a chunk: a multiple of the page size, so that chunks lie without gaps.
const CHUNK_BYTES: usize = CHUNK_ROWS * 8;

/// The row tables that the probes can use.
pub(super) struct RowMaps {
    outer: ArrayOfMaps<MapData, MapData>,
    used: u32,
}

impl RowMaps {
    pub(super) const fn new(outer: ArrayOfMaps<MapData, MapData>) -> Self {
        Self { outer, used: 0 }
    }

    /// Makes a table of sorted rows; gives its number and its chunks. The outer map keeps it alive.
    pub(super) fn add(&mut self, rows: &[u64]) -> io::Result<(u32, u32)> {
        let chunks = rows.len().div_ceil(CHUNK_ROWS).max(1);
        if chunks > CHUNK_ROWS {
            return Err(io::Error::other("the file has more rows than a table can hold"));
        }
        let entries = u32::try_from(chunks + 1).map_err(io::Error::other)?;
        let bytes = u32::try_from(CHUNK_BYTES).map_err(io::Error::other)?;
        let definition = aya_obj::Map::new_from_params(ARRAY, 4, bytes, entries, FLAGS);
        let inner = MapData::create(definition, "energy_rows", None).map_err(io::Error::other)?;
        fill(&inner, chunks, rows)?;
        let table = self.used;
        self.outer.set(table, &inner, 0).map_err(io::Error::other)?;
        self.used += 1;
        Ok((table, entries - 1))
    }
}

/// Writes the index and the chunks.
fn fill(inner: &MapData, chunks: usize, rows: &[u64]) -> io::Result<()> {
    let mut options = memmap2::MmapOptions::new();
    options.len((chunks + 1) * CHUNK_BYTES);
    // SAFETY: the map was just created and is not yet in the outer map: nothing else reads or writes it.
    let mut memory = unsafe { options.map_mut(inner.fd().as_fd().as_raw_fd()) }?;
    let index = rows.iter().step_by(CHUNK_ROWS).copied();
    let filled = index.chain(std::iter::repeat(FILLER)).take(CHUNK_ROWS);
    let filled =
        filled.chain(rows.iter().copied().chain(std::iter::repeat(FILLER)).take(chunks * CHUNK_ROWS));
    for (place, row) in memory.chunks_exact_mut(8).zip(filled) {
        place.copy_from_slice(&row.to_ne_bytes());
    }
    Ok(())
}
