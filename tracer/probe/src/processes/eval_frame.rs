//! Learns where the interpreter's evaluation frame ends relative to the anchor that it holds, so that the probes can go on there when
//! native frames are lost before it.
//!
//! A C local has a fixed place in its function's frame: the distance from anchor to CFA is the same in every evaluation frame of one
//! interpreter file. It is learned from whole stacks and believed once enough of them agree; one that disagrees ends it for good.

use energy_trace_unwind::address_space::{AddressSpace, FileKey};
use std::collections::HashMap;

/// Observations that must agree.
const ENOUGH: u32 = 8;

/// What the probes need to go on at an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvalFrame {
    /// From the anchor up to the CFA.
    pub(crate) cfa: u32,
    /// From the CFA down to the saved frame pointer; 0: not saved.
    pub(crate) fp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Observed {
    distance: u64,
    fp: u32,
    times: u32,
    disagrees: bool,
}

/// What was observed, by interpreter file.
#[derive(Default)]
pub(crate) struct EvalFrames {
    by_file: HashMap<FileKey, Observed>,
}

impl EvalFrames {
    /// Takes in one evaluation frame; gives what is learned once it is sure. `saved_rbp` says how far below its CFA the function saved
    /// its caller's frame pointer.
    pub(crate) fn observe(
        &mut self,
        space: &AddressSpace,
        distance: u64,
        pc: u64,
        saved_fp: impl FnOnce() -> Option<u32>,
    ) -> Option<EvalFrame> {
        let mapping = space.find(pc)?;
        let key = mapping.file.clone()?;
        let seen = match self.by_file.get_mut(&key) {
            Some(seen) => seen,
            None => {
                let fp = saved_fp()?;
                self.by_file.entry(key).or_insert(Observed { distance, fp, times: 0, disagrees: false })
            }
        };
        seen.times = seen.times.saturating_add(1);
        seen.disagrees |= seen.distance != distance;
        let cfa = u32::try_from(seen.distance).ok()?;
        (seen.times >= ENOUGH && !seen.disagrees).then_some(EvalFrame { cfa, fp: seen.fp })
    }
}
