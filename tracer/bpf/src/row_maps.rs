//! Row tables in BPF maps: one inner array a file, filled through mmap.
//!
//! 1 M rows take 2 ms this way, 108 ms in batches, seconds one by one. All tables together stay below a
//! cap; a table that finds no room is refused. Leaves out how rows are made (package `unwind`) and which tables make room (`tables/eviction.rs`).

use aya::maps::{Array, ArrayOfMaps, MapData};
use energy_trace_unwind::cfi::Rows;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use thiserror::Error;
use tracer_ebpf::rows::{CHUNK_ROWS, FILLER, FullRule, Rule, rule};
use tracer_ebpf::wire::MAX_TABLES;

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE` (include/uapi/linux/bpf.h, v5.10).
const FLAGS: u32 = 0x1000 | 0x400;
/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// Bytes of a chunk: a multiple of the page size, so that chunks lie without gaps.
const CHUNK_BYTES: usize = CHUNK_ROWS * 8;

/// Why a file gets no table.
#[derive(Debug, Error)]
pub enum RowMapError {
    /// There is no room for this many bytes.
    #[error("the unwind tables are full: there is no room for {0} bytes")]
    Full(usize),
    /// It has more rows than the probes can search.
    #[error("the file has more rows than a table, or all tables together, can hold")]
    TooLarge,
    /// The kernel does not make it.
    #[error("the kernel makes no table: {0}")]
    Kernel(#[from] io::Error),
}

/// The row tables that the probes can use.
pub struct RowMaps {
    outer: ArrayOfMaps<MapData, MapData>,
    full: Array<MapData, FullRule>,
    /// Place of each rule in full: files share them.
    places: HashMap<FullRule, u16>,
    room: TableUsage,
    /// Takes the place of tables that were dropped: it has no rows.
    empty: Option<MapData>,
}

/// What tables take.
#[derive(Debug, Default)]
struct TableUsage {
    /// Bytes that all tables may take.
    capacity: usize,
    bytes: usize,
    /// The first number that was never given.
    next: u32,
    /// Numbers of tables that were dropped, the oldest first, and bytes of those that were not.
    freed: VecDeque<u32>,
    sizes: HashMap<u32, usize>,
}

impl TableUsage {
    /// The number of the next table, if it fits. Numbers come back as late as they can: a probe or a forked child may still hold an old one.
    fn find(&self, bytes: usize) -> Result<u32, RowMapError> {
        if bytes > self.capacity {
            return Err(RowMapError::TooLarge);
        }
        let number = if self.next < MAX_TABLES { Some(self.next) } else { self.freed.front().copied() };
        let fits = self.bytes.saturating_add(bytes) <= self.capacity;
        number.filter(|_| fits).ok_or(RowMapError::Full(bytes))
    }

    /// The table was made.
    fn take(&mut self, table: u32, bytes: usize) {
        self.next = self.next.max(table + 1);
        self.freed.retain(|&freed| freed != table);
        self.bytes += bytes;
        self.sizes.insert(table, bytes);
    }

    /// The table was dropped.
    fn give(&mut self, table: u32) {
        if let Some(bytes) = self.sizes.remove(&table) {
            self.bytes -= bytes;
            self.freed.push_back(table);
        }
    }
}

impl RowMaps {
    /// Of the probes' maps, for tables of at most `capacity` bytes together.
    pub(crate) fn new(
        outer: ArrayOfMaps<MapData, MapData>,
        full: Array<MapData, FullRule>,
        capacity: usize,
    ) -> Self {
        let room = TableUsage { capacity, ..TableUsage::default() };
        Self { outer, full, places: HashMap::new(), room, empty: None }
    }

    /// Bytes that all tables may take.
    pub const fn capacity(&self) -> usize {
        self.room.capacity
    }

    /// Drops a table that no mapping names any more. A probe that is still walking by it finds no rows.
    pub fn remove(&mut self, table: u32) -> Result<(), RowMapError> {
        if self.empty.is_none() {
            let empty = create(1)?;
            fill(&empty, 1, Vec::new())?;
            self.empty = Some(empty);
        }
        if let Some(empty) = &self.empty {
            self.outer.set(table, empty, 0).map_err(io::Error::other)?;
        }
        self.room.give(table);
        Ok(())
    }

    /// Makes a table of sorted rows; gives its number and its bytes. The outer map keeps it alive. Rules in full are added up to so many of all.
    pub fn add(&mut self, rows: Rows, most_full: u32) -> Result<(u32, usize), RowMapError> {
        let shared: Vec<Rule> = rows.full.iter().map(|full| self.share(full, most_full)).collect();
        let mut rows = rows.rows;
        let chunks = rows.len().div_ceil(CHUNK_ROWS).max(1);
        if chunks > CHUNK_ROWS {
            return Err(RowMapError::TooLarge);
        }
        let total = with_index(chunks) * CHUNK_BYTES;
        let table = self.room.find(total)?;
        log::debug!("unwind table {table} takes {total} bytes");
        let inner = create(with_index(chunks))?;
        rows.iter_mut().for_each(|row| *row = relocate(*row, &shared));
        fill(&inner, chunks, rows)?;
        self.outer.set(table, &inner, 0).map_err(io::Error::other)?;
        self.room.take(table, total);
        Ok((table, total))
    }

    /// What leads to a rule in full in all tables; where there is no place for another one, its code cannot be unwound.
    fn share(&mut self, full: &FullRule, most: u32) -> Rule {
        if let Some(&place) = self.places.get(full) {
            return Rule::full(place);
        }
        let next = u16::try_from(self.places.len()).ok().filter(|&place| u32::from(place) < most);
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

/// Chunks that a table of so many chunks of rows has: a single one needs no index, and most files of a process have no more.
const fn with_index(chunks: usize) -> usize {
    if chunks == 1 { 1 } else { chunks + 1 }
}

/// Bytes that a table of so many rows takes.
pub const fn table_bytes(rows: usize) -> usize {
    let chunks = rows.div_ceil(CHUNK_ROWS);
    with_index(if chunks == 0 { 1 } else { chunks }) * CHUNK_BYTES
}

/// Whether a table of so many bytes is one chunk of rows without an index.
pub const fn is_one_chunk(bytes: usize) -> bool {
    bytes == CHUNK_BYTES
}

/// Makes an inner map.
fn create(entries: usize) -> io::Result<MapData> {
    let entries = u32::try_from(entries).map_err(io::Error::other)?;
    let bytes = u32::try_from(CHUNK_BYTES).map_err(io::Error::other)?;
    let definition = aya_obj::Map::new_from_params(ARRAY, 4, bytes, entries, FLAGS);
    MapData::create(definition, "energy_rows", None).map_err(io::Error::other)
}

/// Chunks that are mapped at once.
const WINDOW: usize = 32;

/// Writes the index, where there is one, and the chunks: from the last to the first, and each part is let go when it is written, so that
/// rows are not in memory twice.
fn fill(inner: &MapData, chunks: usize, mut rows: Vec<u64>) -> io::Result<()> {
    let ahead = with_index(chunks) - chunks;
    if ahead > 0 {
        write(inner, 0, 1, rows.iter().copied().step_by(CHUNK_ROWS))?;
    }
    for first in (0..chunks).step_by(WINDOW).rev() {
        let start = (first * CHUNK_ROWS).min(rows.len());
        write(inner, ahead + first, WINDOW.min(chunks - first), rows.iter().copied().skip(start))?;
        rows.truncate(start);
        rows.shrink_to_fit();
    }
    Ok(())
}

/// Writes so many chunks from one on, and fills what is left of them.
fn write(inner: &MapData, first: usize, chunks: usize, rows: impl Iterator<Item = u64>) -> io::Result<()> {
    let mut options = memmap2::MmapOptions::new();
    options.offset((first * CHUNK_BYTES) as u64).len(chunks * CHUNK_BYTES);
    // SAFETY: the map was just created and is not yet in the outer map: nothing else reads or writes it.
    let mut memory = unsafe { options.map_mut(inner.fd().as_fd().as_raw_fd()) }?;
    for (place, row) in memory.chunks_exact_mut(8).zip(rows.chain(std::iter::repeat(FILLER))) {
        place.copy_from_slice(&row.to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_TABLES, RowMapError, TableUsage, relocate};
    use tracer_ebpf::rows::{Rule, rule};

    /// Tables fit up to the cap; one that does not is refused until others were dropped, one that never will for good.
    #[test]
    fn room_ends_at_the_cap() {
        let mut room = TableUsage { capacity: 1000, ..TableUsage::default() };
        assert_eq!(room.find(900).unwrap(), 0);
        room.take(0, 900);
        assert!(matches!(room.find(101), Err(RowMapError::Full(101))));
        assert!(matches!(room.find(1001), Err(RowMapError::TooLarge)));
        assert_eq!(room.find(100).unwrap(), 1);
        room.take(1, 100);
        room.give(0);
        room.give(0); // Twice is once.
        assert_eq!((room.bytes, room.find(900).unwrap()), (100, 2));
    }

    /// Numbers end too; then those of dropped tables come back, the oldest first.
    #[test]
    fn numbers_come_back_last() {
        let mut room = TableUsage { capacity: usize::MAX, ..TableUsage::default() };
        for table in 0..MAX_TABLES {
            assert_eq!(room.find(1).unwrap(), table);
            room.take(table, 1);
        }
        assert!(matches!(room.find(1), Err(RowMapError::Full(1))));
        room.give(7);
        room.give(3);
        assert_eq!(room.find(1).unwrap(), 7);
        room.take(7, 1);
        assert_eq!(room.find(1).unwrap(), 3);
    }

    /// A row that leads to a rule in full leads to its place among those of all files; others stay as they are.
    #[test]
    fn rules_in_full_are_shared() {
        let shared = [Rule::full(40), Rule::UNSUPPORTED];
        let row = |rule: Rule| 0x1234 << 32 | u64::from(rule.0);
        assert_eq!(relocate(row(Rule::full(0)), &shared), row(Rule::full(40)));
        assert_eq!(relocate(row(Rule::full(1)), &shared), row(Rule::UNSUPPORTED));
        assert_eq!(relocate(row(Rule::full(2)), &shared), row(Rule::UNSUPPORTED));
        let short = Rule::pack(rule::SP, 8, 0).unwrap();
        assert_eq!(relocate(row(short), &shared), row(short));
    }
}
