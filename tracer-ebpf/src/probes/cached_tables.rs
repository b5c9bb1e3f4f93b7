//! Asks for the rule of an address what this CPU remembers (`unwind_row_cache.rs`), and the tables only where it does not know.
//!
//! User space gives a new generation whenever it writes the mappings of a process, and a process that executes another program has none
//! until then. Leaves out that a number of a row table comes back: who drops a table must write anew the mappings that named it, and only
//! then may reuse its number.

use super::maps::{HOTSPOTS, current};
use super::native_walk::{interrupted_register, rare_step, trial_step};
use super::scratch::{Scratch, scratch};
use super::tables::full_rule;
use super::user_memory::UserMemory;
use tracer_ebpf::hotspot;
use tracer_ebpf::lookup::Answer;
use tracer_ebpf::memory::Memory;
use tracer_ebpf::native::{NativeWalk, Tables};
use tracer_ebpf::rows::{FullRule, Rule};
use tracer_ebpf::scan::{CHAIN, is_behind_indirect};
use tracer_ebpf::unwind_row_cache::UnwindRowCache;
use tracer_ebpf::v8;
use tracer_ebpf::wire::end;

/// The tables of the process that is being walked, behind what is remembered of them.
pub(crate) struct CachedTables<'a> {
    pub(crate) generation: u32,
    pub(crate) cache: &'a mut UnwindRowCache,
}

impl Tables for CachedTables<'_> {
    #[inline(always)]
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        if let Some(known) = self.cache.follow(pc, self.generation) {
            return known.get();
        }
        let found = look_up_rule(pc);
        if found >> 32 == 0 { Ok(Rule(found as u32)) } else { Err((found >> 32) as u8) }
    }

    #[inline(always)]
    fn known_none(&mut self, pc: u64) -> Option<u8> {
        self.cache.recall_none(pc, self.generation)?.get().err()
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
    fn hotspot_caller(&mut self, walk: &NativeWalk, memory: &impl Memory) -> Result<NativeWalk, u8> {
        let (pid, _) = current();
        // SAFETY: user space writes it once, before the mappings that lead here.
        let layout = unsafe { HOTSPOTS.get(&pid) }.ok_or(end::NO_UNWIND_INFO)?;
        hotspot::caller(walk, layout, memory)
    }

    #[inline(always)]
    fn v8_caller(&mut self, walk: &NativeWalk, memory: &impl Memory) -> Result<NativeWalk, u8> {
        v8::caller(walk, self, memory)
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
    fn goes_on(&mut self, trial: NativeWalk, _memory: &impl Memory) -> u32 {
        let Some(scratch) = scratch() else { return 0 };
        scratch.walk.trial = trial;
        match trial_step() as u8 {
            end::RUNNING => (),
            end::COMPLETE => return 1,
            _ => return 0,
        }
        match trial_step() as u8 {
            end::RUNNING | end::COMPLETE => 2,
            end::NO_UNWIND_INFO => 1,
            _ => 0,
        }
    }

    #[inline(always)]
    fn leads_through(&mut self, from: &NativeWalk, to: &NativeWalk, _memory: &impl Memory) -> Option<u64> {
        scratch()?.walk.trial = *from;
        let mut indirect = 0;
        for _ in 0..CHAIN {
            if trial_step() as u8 != end::RUNNING {
                return None;
            }
            let trial = scratch()?.walk.trial;
            if trial.sp == to.sp && trial.pc == to.pc {
                return Some(indirect);
            }
            indirect += u64::from(is_behind_indirect(trial.pc, &UserMemory));
        }
        None
    }
}

/// The rule at `pc`, or an `end` code in the high half. A function with a global name is verified once, and not again on each way that leads
/// to it.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn look_up_rule(pc: u64) -> u64 {
    let Some(scratch) = scratch() else { return u64::from(end::NOTHING) << 32 };
    let generation = scratch.walk.tables.generation();
    let answer = match scratch.rules.recall(pc, generation) {
        Some(answer) => answer,
        None => search(pc, generation, scratch),
    };
    match answer.get() {
        Ok(rule) => u64::from(rule.0),
        Err(code) => u64::from(code) << 32,
    }
}

/// Asks the tables, and remembers what they say for as long as they say it.
#[inline(always)]
fn search(pc: u64, generation: u32, scratch: &mut Scratch) -> Answer {
    let found = scratch.walk.tables.look_up(pc);
    if found.answer != Answer::none(end::NOT_READY) {
        scratch.rules.learn(pc, generation, found);
    }
    found.answer
}
