//! The numbers of frames that a program's stacks had before.
//!
//! A native frame's number holds while the program's mappings are the same, a Python frame's while its code object is. Leaves out code
//! that is made at run time: what is at an address changes there, and nothing tells when.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::FrameId;
use energy_trace_unwind::cpython::code::CodeObject;
use foldhash::HashMap;
use std::sync::Arc;

/// How often a file is told that its table is in use.
const HIT_EVERY_NS: u64 = 100_000_000;

/// What is remembered of one program.
#[derive(Default)]
pub(crate) struct FrameCache {
    by_address: HashMap<u64, (FrameId, KtimeNs)>,
    python: HashMap<(u64, u64, u64), (Arc<CodeObject>, FrameId)>,
}

impl FrameCache {
    /// The frame at an address, and whether its file was not told of a hit for long.
    pub(crate) fn at(&mut self, address: u64, at: KtimeNs) -> Option<(FrameId, bool)> {
        let (id, hit_at) = self.by_address.get_mut(&address)?;
        let due = at.ns_since(*hit_at) > HIT_EVERY_NS;
        if due {
            *hit_at = at;
        }
        Some((*id, due))
    }

    /// Remembers it; its file was told just now.
    pub(crate) fn put(&mut self, address: u64, id: FrameId, at: KtimeNs) {
        self.by_address.insert(address, (id, at));
    }

    /// Forgets Python functions.
    pub(crate) fn forget_python(&mut self) {
        self.python.clear();
    }

    /// The program's mappings are others now.
    pub(crate) fn forget_addresses(&mut self) {
        self.by_address.clear();
    }

    /// The frame of a Python function: code object, instruction and class.
    pub(crate) fn python(&self, place: (u64, u64, u64), code: &Arc<CodeObject>) -> Option<FrameId> {
        let (object, id) = self.python.get(&place)?;
        Arc::ptr_eq(object, code).then_some(*id)
    }

    /// Remembers it.
    pub(crate) fn put_python(&mut self, place: (u64, u64, u64), code: Arc<CodeObject>, id: FrameId) {
        self.python.insert(place, (code, id));
    }
}

#[cfg(test)]
mod tests {
    use super::FrameCache;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::FrameId;

    /// A frame is known until the mappings change, and its file hears of it ten times a second at most.
    #[test]
    fn frames_at_addresses() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let mut cache = FrameCache::default();
        cache.put(0x1000, FrameId::new(7), ms(0));
        let answers = [1, 99, 101, 102, 300].map(|at| cache.at(0x1000, ms(at)));
        assert_eq!(answers, [false, false, true, false, true].map(|due| Some((FrameId::new(7), due))));
        cache.forget_addresses();
        assert_eq!(cache.at(0x1000, ms(301)), None);
    }
}
