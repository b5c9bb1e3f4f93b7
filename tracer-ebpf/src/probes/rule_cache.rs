//! Remembers the rule of each address by CPU: most return addresses of a stack were there in the sample before.
//!
//! A hit replaces the search for the mapping and two binary searches of 12 steps in rows that the target's work has pushed out of the
//! caches. What is remembered holds for one generation of one address space only: user space gives a new one whenever it writes the
//! mappings of a process, and a process that executes another program has none until then. Leaves out that a number of a row table
//! comes back: who drops a table must write anew the mappings that named it, and only then may reuse its number.

use super::native_walk::{interrupted_register, rare_step, trial_step};
use super::sample::scratch;
use super::tables::full_rule;
use core::arch::asm;
use tracer_ebpf::memory::Memory;
use tracer_ebpf::native::{NativeWalk, Tables};
use tracer_ebpf::rows::{FullRule, Rule};
use tracer_ebpf::wire::end;

/// Rules that are kept: a power of two, several times the return addresses that the threads of a CPU go through.
const SLOTS: usize = 4096;

/// A rule that was looked up.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    pc: u64,
    /// `AddressSpace::generation`; 0 in a slot that was never filled.
    generation: u32,
    rule: u32,
}

/// The rules that one CPU remembers.
#[repr(C)]
pub(crate) struct RuleCache {
    slots: [Slot; SLOTS],
}

/// The tables of the process that is being walked, behind the cache.
pub(crate) struct CachedTables<'a> {
    pub(crate) generation: u32,
    pub(crate) cache: &'a mut RuleCache,
}

impl Tables for CachedTables<'_> {
    #[inline(always)]
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        let slot = self.cache.slot(pc, self.generation);
        if slot.pc == pc && slot.generation == self.generation {
            return Ok(Rule(slot.rule));
        }
        let found = look_up_rule(pc);
        if found >> 32 != 0 {
            return Err((found >> 32) as u8);
        }
        *slot = Slot { pc, generation: self.generation, rule: found as u32 };
        Ok(Rule(found as u32))
    }

    #[inline(always)]
    fn full(&mut self, index: u32) -> Option<FullRule> {
        full_rule(index)
    }

    #[inline(always)]
    fn interrupted(&mut self, register: u32) -> Option<u64> {
        interrupted_register(register)
    }

    #[inline(always)]
    fn rare(&mut self, walk: &mut NativeWalk, rule: Rule, _memory: &impl Memory) -> Result<u64, u8> {
        let Some(before) = scratch() else { return Err(end::NOTHING) };
        before.walk.rare = *walk;
        let code = rare_step(rule.0) as u8;
        let Some(after) = scratch() else { return Err(end::NOTHING) };
        *walk = after.walk.rare;
        if code == end::RUNNING { Ok(walk.sp) } else { Err(code) }
    }

    #[inline(always)]
    fn goes_on(&mut self, trial: NativeWalk, _memory: &impl Memory) -> bool {
        let Some(scratch) = scratch() else { return false };
        scratch.walk.trial = trial;
        trial_step() as u8 == end::RUNNING && matches!(trial_step() as u8, end::RUNNING | end::COMPLETE)
    }
}

/// The rule at `pc` by the tables of the process that this CPU walks, or an `end` code in the high half. A function with a global name is
/// verified once, and not again on each way that leads to it.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn look_up_rule(pc: u64) -> u64 {
    let Some(scratch) = scratch() else { return u64::from(end::NOTHING) << 32 };
    match scratch.walk.tables.rule(pc) {
        Ok(rule) => u64::from(rule.0),
        Err(code) => u64::from(code) << 32,
    }
}

impl RuleCache {
    /// The only slot where this address can be. The multiplier is 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
    #[inline(always)]
    fn slot(&mut self, pc: u64, generation: u32) -> &mut Slot {
        let mixed = (pc ^ u64::from(generation) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = mixed >> 52;
        // SAFETY: a mask; hidden from the compiler so that it stays where the verifier needs it.
        unsafe { asm!("{0} &= 4095", inout(reg) at) };
        // SAFETY: the mask keeps it below SLOTS.
        unsafe { &mut *self.slots.as_mut_ptr().add(at as usize) }
    }
}
