//! Row tables in BPF maps: one inner array a file, filled through mmap.
//!
//! 1 M rows take 2 ms this way, 108 ms in batches, seconds one by one (research/unwinding.md §3). All tables together stay below a
//! cap; a table that finds no room is refused. Leaves out how rows are made (`unwind/cfi.rs`), and making room by dropping tables that
//! are no longer needed: a later step.

use crate::unwind::cfi::Rows;
use aya::maps::{Array, ArrayOfMaps, MapData};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use thiserror::Error;
use tracer_ebpf::rows::{CHUNK_ROWS, FILLER, FullRule, MAX_FULL_RULES, Rule, rule};
use tracer_ebpf::wire::MAX_TABLES;

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE` (include/uapi/linux/bpf.h, v5.10).
const FLAGS: u32 = 0x1000 | 0x400;
/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// Bytes of a chunk: a multiple of the page size, so that chunks lie without gaps.
const CHUNK_BYTES: usize = CHUNK_ROWS * 8;

/// Mebibytes of kernel memory that all tables may take: two and a half times what a PyTorch process with CUDA needs
/// (research/feasibility.md §2).
pub(super) const MAX_MIB: usize = 256;

/// Why a file gets no table.
#[derive(Debug, Error)]
pub(super) enum RowMapError {
    /// There is no room for it.
    #[error("the unwind tables are full ({MAX_MIB} MiB or {MAX_TABLES} tables)")]
    Full,
    /// It has more rows than the probes can search.
    #[error("the file has more rows than a table can hold")]
    TooLarge,
    /// The kernel does not make it.
    #[error("the kernel makes no table: {0}")]
    Kernel(#[from] io::Error),
}

/// The row tables that the probes can use.
pub(super) struct RowMaps {
    outer: ArrayOfMaps<MapData, MapData>,
    full: Array<MapData, FullRule>,
    /// Place of each rule in full: files share them.
    places: HashMap<FullRule, u16>,
    room: Room,
}

/// What tables take.
#[derive(Debug, Default)]
struct Room {
    tables: u32,
    bytes: usize,
}

impl Room {
    /// The number of the next table, if it fits.
    const fn find(&self, bytes: usize) -> Result<u32, RowMapError> {
        if self.tables < MAX_TABLES && self.bytes.saturating_add(bytes) <= MAX_MIB << 20 {
            return Ok(self.tables);
        }
        Err(RowMapError::Full)
    }

    /// The table was made.
    const fn take(&mut self, bytes: usize) {
        self.tables += 1;
        self.bytes += bytes;
    }
}

impl RowMaps {
    pub(super) fn new(outer: ArrayOfMaps<MapData, MapData>, full: Array<MapData, FullRule>) -> Self {
        Self { outer, full, places: HashMap::new(), room: Room::default() }
    }

    /// Makes a table of sorted rows; gives its number. The outer map keeps it alive.
    pub(super) fn add(&mut self, rows: &Rows) -> Result<u32, RowMapError> {
        let shared: Vec<Rule> = rows.full.iter().map(|full| self.share(full)).collect();
        let rows = &rows.rows;
        let chunks = rows.len().div_ceil(CHUNK_ROWS).max(1);
        if chunks > CHUNK_ROWS {
            return Err(RowMapError::TooLarge);
        }
        let total = (chunks + 1) * CHUNK_BYTES;
        let table = self.room.find(total)?;
        let entries = u32::try_from(chunks + 1).map_err(io::Error::other)?;
        let bytes = u32::try_from(CHUNK_BYTES).map_err(io::Error::other)?;
        let definition = aya_obj::Map::new_from_params(ARRAY, 4, bytes, entries, FLAGS);
        let inner = MapData::create(definition, "energy_rows", None).map_err(io::Error::other)?;
        let rows = rows.iter().map(|&row| relocate(row, &shared));
        fill(&inner, chunks, rows)?;
        self.outer.set(table, &inner, 0).map_err(io::Error::other)?;
        self.room.take(total);
        Ok(table)
    }

    /// What leads to a rule in full in all tables; where there is no place for another one, its code cannot be unwound.
    fn share(&mut self, full: &FullRule) -> Rule {
        if let Some(&place) = self.places.get(full) {
            return Rule::full(place);
        }
        let next = u16::try_from(self.places.len()).ok().filter(|&place| u32::from(place) < MAX_FULL_RULES);
        let Some(place) = next.filter(|&place| self.full.set(u32::from(place), full, 0).is_ok()) else {
            return Rule::UNSUPPORTED;
        };
        self.places.insert(*full, place);
        Rule::full(place)
    }
}

/// A row of a file as it stands in its table: the number of a rule in full is one of all files.
fn relocate(row: u64, shared: &[Rule]) -> u64 {
    let old = Rule((row & 0xffff_ffff) as u32);
    if old.kind() != rule::FULL {
        return row;
    }
    let new = shared.get(old.index() as usize).copied().unwrap_or(Rule::UNSUPPORTED);
    row >> 32 << 32 | u64::from(new.0)
}

/// Writes the index and the chunks.
fn fill(
    inner: &MapData,
    chunks: usize,
    rows: impl ExactSizeIterator<Item = u64> + Clone,
) -> io::Result<()> {
    let mut options = memmap2::MmapOptions::new();
    options.len((chunks + 1) * CHUNK_BYTES);
    // SAFETY: the map was just created and is not yet in the outer map: nothing else reads or writes it.
    let mut memory = unsafe { options.map_mut(inner.fd().as_fd().as_raw_fd()) }?;
    let index = rows.clone().step_by(CHUNK_ROWS);
    let filled = index.chain(std::iter::repeat(FILLER)).take(CHUNK_ROWS);
    let filled =
        filled.chain(rows.chain(std::iter::repeat(FILLER)).take(chunks * CHUNK_ROWS));
    for (place, row) in memory.chunks_exact_mut(8).zip(filled) {
        place.copy_from_slice(&row.to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_MIB, MAX_TABLES, Room, RowMapError};

    /// Tables fit up to the cap; one that does not is refused, and a smaller one still finds room.
    #[test]
    fn room_ends_at_the_cap() {
        let mut room = Room::default();
        let most = (MAX_MIB << 20) - 100;
        assert_eq!(room.find(most).unwrap(), 0);
        room.take(most);
        assert!(matches!(room.find(101), Err(RowMapError::Full)));
        assert!(matches!(room.find(usize::MAX), Err(RowMapError::Full)));
        assert_eq!(room.find(100).unwrap(), 1);
    }

    /// The outer map's places are counted too.
    #[test]
    fn places_end() {
        let mut room = Room { tables: MAX_TABLES - 1, ..Room::default() };
        assert_eq!(room.find(1).unwrap(), MAX_TABLES - 1);
        room.take(1);
        assert!(matches!(room.find(1), Err(RowMapError::Full)));
    }
}
