//! Finds the unwind row of an address: mapping, then chunk, then row.
//!
//! The searches have no branch on what they read: a comparison becomes 0 or 1 by a logical shift and is multiplied with the step. With
//! a branch the verifier follows both ways of every step and gives up; hidden in `asm!`, the compiler cannot bring the branch back.

use super::maps::{ADDRESS_SPACES, Chunk, FULL_RULES, MAPPINGS, ROWS};
use core::arch::asm;
use tracer_ebpf::native::Tables;
use tracer_ebpf::rows::{CHUNK_ROWS, FullRule, Rule};
use tracer_ebpf::wire::{AddressSpace, CodeMapping, MAX_PLACES, end};

/// The tables of one process during one walk. It keeps the last mapping: callers often lie in the same library.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessTables {
    space: AddressSpace,
    last: CodeMapping,
}

impl ProcessTables {
    /// The tables of a process, or `None` while it is not known.
    #[inline(always)]
    pub(crate) fn of(pid: u32) -> Option<Self> {
        // SAFETY: the value is copied at once.
        let space = unsafe { ADDRESS_SPACES.get(&pid) }?;
        Some(Self { space: *space, last: CodeMapping::UNUSED })
    }

    /// `AddressSpace::generation`.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.space.generation
    }

    /// The mapping that holds `pc`, into `last`.
    #[inline(always)]
    fn find(&mut self, pc: u64) -> Result<(), u8> {
        if self.last.start <= pc && pc < self.last.end {
            return Ok(());
        }
        let mut at = self.space.first;
        let mut step = MAX_PLACES / 2;
        while step > 0 {
            if step < self.space.places {
                let probe = MAPPINGS.get(at + step).ok_or(end::UNMAPPED)?;
                at += at_most(probe.start, pc) as u32 * step;
            }
            step /= 2;
        }
        self.last = *MAPPINGS.get(at).ok_or(end::UNMAPPED)?;
        if self.last.start <= pc && pc < self.last.end { Ok(()) } else { Err(end::UNMAPPED) }
    }
}

impl Tables for ProcessTables {
    #[inline(always)]
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        self.find(pc)?;
        let table = self.last.table;
        if table == CodeMapping::NO_TABLE {
            return Err(end::NOT_READY);
        }
        if table == CodeMapping::NO_INFO {
            return Err(end::NO_UNWIND_INFO);
        }
        let key = (pc.wrapping_sub(self.last.bias)) << 32 | 0xffff_ffff;
        let first = ROWS.get_value(table, &0).ok_or(end::NOT_READY)?;
        let rows = if self.last.one_chunk == 1 {
            first
        } else {
            let chunk = search(first, key);
            ROWS.get_value(table, &(chunk as u32 + 1)).ok_or(end::NO_UNWIND_INFO)?
        };
        let row = rows_at(rows, search(rows, key));
        if row > key {
            return Err(end::NO_UNWIND_INFO); // Below the first row.
        }
        Ok(Rule(row as u32))
    }
}

/// A rule in full, by its number among those of all files.
#[inline(always)]
pub(crate) fn full_rule(index: u32) -> Option<FullRule> {
    FULL_RULES.get(index).copied()
}

/// Place of the last row that is at most `key`; 0 where there is none.
#[inline(always)]
fn search(rows: &Chunk, key: u64) -> u64 {
    let mut at = 0u64;
    let mut step = (CHUNK_ROWS / 2) as u64;
    while step > 0 {
        at += at_most(rows_at(rows, at + step), key) * step;
        step /= 2;
    }
    at
}

#[inline(always)]
fn rows_at(rows: &Chunk, at: u64) -> u64 {
    let mut at = at;
    const { assert!(CHUNK_ROWS == 4096) };
    // SAFETY: a mask; hidden from the compiler so that it stays where the verifier needs it.
    unsafe { asm!("{0} &= 4095", inout(reg) at) };
    // SAFETY: the mask keeps it below CHUNK_ROWS.
    unsafe { *rows.as_ptr().add(at as usize) }
}

/// 1 if `value <= limit`, else 0, without a branch. Holds for values and limits whose difference fits 63 bits, and for the filler.
#[inline(always)]
fn at_most(value: u64, limit: u64) -> u64 {
    // Halved, so that the difference of any two fits; one is lost only where both halves are equal, which the `| 1` of keys settles.
    let mut less = (value >> 1).wrapping_sub(limit >> 1).wrapping_sub(1);
    // SAFETY: a logical shift; hidden from the compiler, which would make a branch of it.
    unsafe { asm!("{0} >>= 63", inout(reg) less) };
    less
}
