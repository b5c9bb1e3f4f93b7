//! What a CPU's last sample knew of its process: whether it is a target, its interpreter, its address space.
//!
//! Three hash maps say so, and each look into one touches two pages that the target's work has pushed out of the TLB since. So it is kept
//! beside what every sample touches anyway, and holds for as long as nothing was written to those maps (`changes`): whoever writes counts,
//! after the writing. Leaves out the maps, and that a process becomes a target: only what is one is kept.

use super::maps::{PYTHONS, add_one, is_target};
use super::scratch::{LastProcess, Walks, copy_layout};
use super::tables::ProcessTables;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use tracer_ebpf::wire::changes;

/// How often processes, interpreters or address spaces were written: a counter for the programs, one for user space. The map is so small
/// that the kernel has it in its own huge pages.
#[map]
static CHANGES: Array<u64> = Array::with_max_entries(changes::COUNT, 0);

/// Finds what is known of a process, where it is a target; says whether it is.
#[inline(always)]
pub(super) fn know(walk: &mut Walks, pid: u32) -> bool {
    let Some(changes) = changes_so_far() else { return false };
    if walk.process.pid == pid && walk.process.changes == changes {
        walk.tables.forget_mapping();
        return true;
    }
    if !is_target(pid) {
        return false;
    }
    walk.process = LastProcess { changes, pid, python: 0, tables: 0 };
    // SAFETY: the value is copied at once.
    if let Some(layout) = unsafe { PYTHONS.get(&pid) } {
        copy_layout(layout, &mut walk.layout);
        walk.process.python = 1;
    }
    if let Some(tables) = ProcessTables::of(pid) {
        walk.tables = tables;
        walk.process.tables = 1;
    }
    true
}

/// A program has written one of the maps.
#[inline(always)]
pub(super) fn changed() {
    if let Some(counter) = CHANGES.get_ptr_mut(changes::BY_PROGRAMS) {
        add_one(counter);
    }
}

/// Both counters: each only grows, and so does their sum.
#[inline(always)]
fn changes_so_far() -> Option<u64> {
    let programs = CHANGES.get_ptr(changes::BY_PROGRAMS)?;
    let user = CHANGES.get_ptr(changes::BY_USER)?;
    // SAFETY: the map's own slots; volatile, for others write them.
    Some(unsafe { core::ptr::read_volatile(programs) + core::ptr::read_volatile(user) })
}
