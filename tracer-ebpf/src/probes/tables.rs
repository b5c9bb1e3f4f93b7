//! Finds the unwind row of an address: mapping, then chunk, then row.
//!
//! The searches have no branch on what they read: a comparison becomes 0 or 1 by a logical shift and is multiplied with the step. With
//! a branch the verifier follows both ways of every step and gives up; hidden in `asm!`, the compiler cannot bring the branch back.

use super::maps::{ADDRESS_SPACES, Chunk, FULL_RULES, MAPPINGS, ROWS};
use core::arch::asm;
use tracer_ebpf::lookup::{Answer, Lookup};
use tracer_ebpf::rows::{CHUNK_ROWS, FILLER, FullRule, Rule, rule};
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

    /// A walk begins.
    #[inline(always)]
    pub(super) fn forget_mapping(&mut self) {
        self.last = CodeMapping::UNUSED;
    }

    /// `AddressSpace::generation`.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.space.generation
    }

    /// What the tables say of `pc`, and of which addresses around it the same.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, pc: u64) -> Lookup {
        if let Some(gap) = self.find(pc) {
            return gap;
        }
        let CodeMapping { start, end, table, .. } = self.last;
        match table {
            CodeMapping::NO_TABLE => Lookup::only(pc, Answer::none(end::NOT_READY)),
            CodeMapping::HOTSPOT => Lookup::between(pc, start, end, Answer::rule(Rule(rule::HOTSPOT << 28))),
            CodeMapping::V8 => Lookup::between(pc, start, end, Answer::rule(Rule(rule::V8 << 28))),
            CodeMapping::NO_INFO => Lookup::between(pc, start, end, Answer::none(end::NO_UNWIND_INFO)),
            _ => self.row(pc).unwrap_or(Lookup::only(pc, Answer::none(end::NOT_READY))),
        }
    }

    /// The mapping that holds `pc`, into `last`; where there is none, the gap.
    #[inline(always)]
    fn find(&mut self, pc: u64) -> Option<Lookup> {
        if self.last.start <= pc && pc < self.last.end {
            return None;
        }
        let unmapped = Answer::none(end::UNMAPPED);
        let mut at = self.space.first;
        let mut step = kept(u64::from(MAX_PLACES / 2)) as u32;
        while step > 0 {
            if step < self.space.places {
                let Some(probe) = MAPPINGS.get(at + step) else { return Some(Lookup::only(pc, unmapped)) };
                at += at_most(probe.start, pc) as u32 * step;
            }
            step /= 2;
        }
        let Some(found) = MAPPINGS.get(at) else { return Some(Lookup::only(pc, unmapped)) };
        if found.start <= pc && pc < found.end {
            self.last = *found;
            return None;
        }
        if found.start > pc {
            return Some(Lookup::between(pc, 0, found.start, unmapped));
        }
        let is_last = at + 1 >= self.space.first + self.space.places;
        let behind = if is_last { None } else { MAPPINGS.get(at + 1) };
        Some(Lookup::between(pc, found.end, behind.map_or(u64::MAX, |next| next.start), unmapped))
    }

    /// The row at `pc` in the table of `last`; `None` where the table is not there.
    #[inline(always)]
    fn row(&self, pc: u64) -> Option<Lookup> {
        let CodeMapping { start, end, bias, table, one_chunk } = self.last;
        let relative = pc.wrapping_sub(bias) as u32;
        let key = u64::from(relative) << 32 | 0xffff_ffff;
        let nothing = Lookup::only(pc, Answer::none(end::NO_UNWIND_INFO));
        let first = ROWS.get_value(table, &0)?;
        let rows = if one_chunk == 1 {
            first
        } else {
            match ROWS.get_value(table, &(search(first, key) as u32 + 1)) {
                Some(rows) => rows,
                None => return Some(nothing),
            }
        };
        let at = search(rows, key);
        let row = rows_at(rows, at);
        if row > key {
            return Some(nothing); // Below the first row.
        }
        // Behind the last row of a chunk nothing is known without another search, and behind the table's last row lies the filler.
        let behind = if at + 1 < CHUNK_ROWS as u64 { rows_at(rows, at + 1) } else { FILLER };
        let next = if behind == FILLER { relative.saturating_add(1) } else { (behind >> 32) as u32 };
        let answer = Answer::rule(Rule(row as u32));
        Some(Lookup::row(pc, [relative, (row >> 32) as u32, next], [start, end], answer))
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
    let mut step = kept((CHUNK_ROWS / 2) as u64);
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

/// The number, of which the compiler does not know that it is: else it writes the turns of a loop one behind the other, and cold code costs
/// more than the jump. The verifier still knows.
#[inline(always)]
fn kept(number: u64) -> u64 {
    let mut number = number;
    // SAFETY: changes nothing.
    unsafe { asm!("{0} |= 0", inout(reg) number) };
    number
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
