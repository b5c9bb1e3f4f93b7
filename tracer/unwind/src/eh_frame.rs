//! The bytes of `.eh_frame`, and its entries one after another: of a file only those parts are in memory that are looked at.
//!
//! The section of `libtorch_cpu` has ten megabytes, which nobody needs at once. Sources: LSB Core 5.0 §10.6. Leaves out what entries mean
//! (`cfi`) and how one of them is found (`fde`).

use super::elf::{EhFrame, ElfError, Place, find_unwind_sections, with_elf};
use super::file_bytes::believable_bytes;
use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// The bytes of a section, in memory as far as they were asked for.
pub(super) trait FrameBytes {
    /// The section's address (SVMA).
    fn svma(&self) -> u64;
    /// All of them; those that were not asked for may be zeros.
    fn bytes(&self) -> &[u8];
    /// Has some read; whether they are there.
    fn need(&mut self, bytes: Range<usize>) -> bool;
    /// Those before this place are not looked at any more, unless they are asked for again.
    fn forget(&mut self, before: usize);
}

impl FrameBytes for &EhFrame {
    fn svma(&self) -> u64 {
        self.svma
    }

    fn bytes(&self) -> &[u8] {
        &self.data
    }

    fn need(&mut self, bytes: Range<usize>) -> bool {
        bytes.end <= self.data.len()
    }

    fn forget(&mut self, _before: usize) {}
}

/// The section of an open file.
pub(super) struct FrameFile<'a> {
    file: &'a File,
    svma: u64,
    blocks: Blocks,
}

impl<'a> FrameFile<'a> {
    /// Finds it; `None` where the file has none.
    pub(super) fn find(file: &'a File) -> Result<Option<Self>, ElfError> {
        let [place, _] = with_elf(file, |elf| Ok(find_unwind_sections(elf)))?;
        place.map(|place| Self::at(file, place)).transpose()
    }

    /// The section at a place of the file.
    pub(super) fn at(file: &'a File, place: Place) -> Result<Self, ElfError> {
        let blocks = Blocks::new(file, place).ok_or(ElfError::TooLarge)?;
        Ok(Self { file, svma: place.svma, blocks })
    }
}

impl FrameBytes for FrameFile<'_> {
    fn svma(&self) -> u64 {
        self.svma
    }

    fn bytes(&self) -> &[u8] {
        self.blocks.bytes()
    }

    fn need(&mut self, bytes: Range<usize>) -> bool {
        self.blocks.need(self.file, bytes.start, bytes.len()).is_some()
    }

    fn forget(&mut self, before: usize) {
        self.blocks.forget(before);
        self.blocks.forget_many();
    }
}

/// A part of a file of which only those blocks are read that were asked for; the others are zeros that take no memory.
pub(super) struct Blocks {
    /// Where it lies in the file.
    offset: u64,
    data: MmapMut,
    read: Vec<bool>,
    /// Blocks that were forgotten.
    forgotten: usize,
    /// Blocks that were read since all were given back.
    taken: usize,
}

/// Bytes of a block: some pages.
const BLOCK: usize = 16 << 10;
/// Blocks that are read before all are given back: those of the largest libraries' unwind information.
const MOST_TAKEN: usize = (64 << 20) / BLOCK;

impl Blocks {
    /// Reads nothing yet; `None` where it is not in the file, or too large for it or for this machine.
    pub(super) fn new(file: &File, place: Place) -> Option<Self> {
        let end = place.offset.checked_add(place.size)?;
        if end > file.metadata().ok()?.len() || place.size > believable_bytes(file).ok()? {
            return None;
        }
        let size = usize::try_from(place.size).ok()?;
        // A mapping and not the allocator's: pages can be given back, and where there is no room that is no panic.
        let data = MmapOptions::new().len(size.max(1)).no_reserve_swap().map_anon().ok()?;
        Some(Self {
            offset: place.offset,
            data,
            read: vec![false; size.div_ceil(BLOCK)],
            forgotten: 0,
            taken: 0,
        })
    }

    /// All bytes, those of blocks that were not read as zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// Has bytes read; `None` where they are not in this part or not in the file any more.
    pub(super) fn need(&mut self, file: &File, at: usize, bytes: usize) -> Option<&[u8]> {
        let end = at.checked_add(bytes).filter(|&end| end <= self.data.len())?;
        for block in at / BLOCK..end.div_ceil(BLOCK) {
            if !*self.read.get(block)? {
                let from = block * BLOCK;
                let to = (from + BLOCK).min(self.data.len());
                file.read_exact_at(self.data.get_mut(from..to)?, self.offset + from as u64).ok()?;
                *self.read.get_mut(block)? = true;
                self.taken += 1;
            }
        }
        self.data.get(at..end)
    }

    /// Gives back the memory of all blocks where there are many: of a part in which little is asked for everything stays. To be called between
    /// two questions.
    pub(super) fn forget_many(&mut self) {
        if self.taken >= MOST_TAKEN {
            (self.taken, self.forgotten) = (0, 0);
            self.forget(self.data.len().next_multiple_of(BLOCK));
            self.forgotten = 0;
        }
    }

    /// Gives back the memory of the blocks before a place. Blocks that are asked for again later stay.
    fn forget(&mut self, before: usize) {
        let gone = self.forgotten..(before / BLOCK).min(self.read.len());
        let Some(read) = self.read.get_mut(gone.clone()).filter(|read| !read.is_empty()) else { return };
        let from = gone.start * BLOCK;
        let bytes = (gone.len() * BLOCK).min(self.data.len() - from);
        // SAFETY: nobody else borrows the memory, which is private and anonymous: its pages are zeros afterwards, as before they were read.
        if unsafe { self.data.unchecked_advise_range(UncheckedAdvice::DontNeed, from, bytes) }.is_ok() {
            read.fill(false);
        }
        self.forgotten = gone.end;
    }
}

/// An entry of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its place.
    pub(super) at: usize,
    /// It is what others have in common (CIE), not a function's own (FDE).
    pub(super) common: bool,
}

/// Where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At this place.
    At(usize),
    /// The section ends.
    End,
    /// The rest cannot be found without this entry's length.
    Damaged,
}

/// Bytes whose entries are in memory at once.
const BATCH: usize = 64 << 10;
/// Bytes that an entry may have: the largest of PyTorch's has some 20 KiB.
pub(super) const MAX_ENTRY: usize = 256 << 10;

/// Has the entries from a place on read, as many as are in memory at once, each with the one that it leads to.
pub(super) fn read_entries(section: &mut impl FrameBytes, from: usize, entries: &mut Vec<Entry>) -> Next {
    entries.clear();
    let mut at = from;
    while at - from < BATCH {
        if at == section.bytes().len() {
            return Next::End;
        }
        let Some((body, end)) = extent(section, at) else { return Next::Damaged };
        if body == end {
            return Next::End; // A length of zero ends a section.
        }
        let Some(back) = read_u32(section, body).filter(|_| end - body >= 4) else { return Next::Damaged };
        if let Some(common) = body.checked_sub(back as usize).filter(|_| back != 0) {
            // Where it cannot be read, parsing says so.
            extent(section, common);
        }
        entries.push(Entry { at, common: back == 0 });
        at = end;
    }
    Next::At(at)
}

/// Has an entry read; where it begins behind its length, and where it ends.
fn extent(section: &mut impl FrameBytes, at: usize) -> Option<(usize, usize)> {
    const LONG: u32 = u32::MAX;
    const RESERVED: u32 = 0xffff_fff0;
    let (body, length) = match read_u32(section, at)? {
        LONG => {
            let (low, high) = (read_u32(section, at + 4)?, read_u32(section, at + 8)?);
            (at + 12, u64::from(high) << 32 | u64::from(low))
        }
        RESERVED.. => return None,
        length => (at + 4, u64::from(length)),
    };
    let length = usize::try_from(length).ok().filter(|&length| length <= MAX_ENTRY)?;
    let end = body.checked_add(length)?;
    section.need(at..end).then_some((body, end))
}

fn read_u32(section: &mut impl FrameBytes, at: usize) -> Option<u32> {
    let bytes = at..at.checked_add(4)?;
    let there = section.need(bytes.clone());
    let bytes = section.bytes().get(bytes).filter(|_| there)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
