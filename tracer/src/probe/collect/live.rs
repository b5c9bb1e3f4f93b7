//! While somebody looks at a recording that is still running (`top`): slices are ended every second, and names found a few at a time.
//!
//! Names are one library's at each turn, so that the ring buffers are not kept waiting. Leaves out who looks.

use crate::probe::sampling::cpus::visit;
use crate::probe::stacks::builder::StackBuilder;
use crate::probe::stacks::naming::{send_names_of, send_public_names};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::record::Frame;
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two ends of all slices, and between two turns of names.
const TURN: Duration = Duration::from_secs(1);
/// Until public names are looked up first; each later time is twice as far away.
const FIRST_PUBLIC_NAMES: Duration = Duration::from_secs(3);

/// What was done so far.
pub(crate) struct Live {
    cpus: Vec<CpuId>,
    reader: Option<(Uid, Gid)>,
    next_turn: KtimeNs,
    next_public_names: KtimeNs,
    wait: Duration,
    /// Frames that were taken from the interner, and those of each library that wait for their names.
    seen: usize,
    waiting: BTreeMap<String, Vec<usize>>,
}

impl Live {
    pub(crate) fn new(cpus: Vec<CpuId>, reader: Option<(Uid, Gid)>, now: KtimeNs) -> Self {
        let (next_turn, next_public_names) = (now + TURN, now + FIRST_PUBLIC_NAMES);
        let (wait, waiting) = (FIRST_PUBLIC_NAMES, BTreeMap::new());
        Self { cpus, reader, next_turn, next_public_names, wait, seen: 0, waiting }
    }

    /// Does what is due.
    pub(super) fn look(&mut self, now: KtimeNs, stacks: &StackBuilder) {
        if now < self.next_turn {
            return;
        }
        self.next_turn = now + TURN;
        visit(&self.cpus);
        self.name_some(stacks);
        if now >= self.next_public_names {
            self.wait = self.wait.saturating_mul(2);
            self.next_public_names = now + self.wait;
            send_public_names(stacks, self.reader);
        }
    }

    /// Names for the library with the most frames without one.
    fn name_some(&mut self, stacks: &StackBuilder) {
        let unnamed: &[(_, Frame)] = &stacks.out.unnamed;
        for (at, (_, frame)) in unnamed.iter().enumerate().skip(self.seen) {
            self.waiting.entry(frame.module.clone()).or_default().push(at);
        }
        self.seen = unnamed.len();
        let most =
            self.waiting.iter().max_by_key(|(_, waiting)| waiting.len()).map(|(module, _)| module.clone());
        let Some(waiting) = most.and_then(|module| self.waiting.remove(&module)) else { return };
        let frames: Vec<_> = waiting.iter().filter_map(|at| unnamed.get(*at).cloned()).collect();
        send_names_of(stacks, &frames);
    }
}
