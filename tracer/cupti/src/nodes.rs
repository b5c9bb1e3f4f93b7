//! Nodes of graphs: which node a call has just captured, and which captured node a record is of.
//!
//! CUPTI tells of a node in the middle of the call that captures it (`CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED`), and of each copy that
//! `cuGraphInstantiate` and its like make of it (`…_CLONED`); records of replays have the copy's number. Leaves out nodes that are made outside
//! the calls that are told of (graphs built by hand), and new work that is put into an old node (`cuGraphExecUpdate`): a node keeps its first owner.

use crate::cupti::Cupti;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUPTI_CB_DOMAIN_RESOURCE`.
pub(crate) const DOMAIN: u32 = 3;
const CREATED: u32 = 13;
const CLONED: u32 = 20;
/// What is asked for in that domain.
pub(crate) const TOLD: [u32; 2] = [CREATED, CLONED];
/// Copies beyond these are forgotten, the oldest first: their records count as those of a node that nobody knows.
const MOST: usize = 1 << 20;

/// `CUpti_ResourceData`, as in 12.0 to 13.5.
#[repr(C)]
struct Resource {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *const Graph,
}

/// `CUpti_GraphData`, as far as it is read.
#[repr(C)]
struct Graph {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
}

thread_local! {
    /// The node that this thread's call has captured; 0: none.
    static CAPTURED: Cell<u64> = const { Cell::new(0) };
}

/// The captured node of each copy, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Origins(BTreeMap<u64, u64>);

static ORIGINS: Mutex<Origins> = Mutex::new(Origins(BTreeMap::new()));

/// The copies so far.
pub(crate) fn origins() -> MutexGuard<'static, Origins> {
    ORIGINS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Origins {
    /// The node that was captured, of which this one is a copy, or this one itself.
    pub(crate) fn of(&self, node: u64) -> u64 {
        self.0.get(&node).copied().unwrap_or(node)
    }

    fn add(&mut self, node: u64, original: u64) {
        let first = self.of(original);
        self.0.insert(node, first);
        // Numbers are given in order, so the first is the oldest.
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }
}

/// A call begins: what was captured before is not its.
pub(crate) fn forget() {
    CAPTURED.set(0);
}

/// The node that the call of this thread has captured; 0: none.
pub(crate) fn captured() -> u64 {
    CAPTURED.replace(0)
}

/// CUPTI tells of a node.
///
/// # Safety
/// `data` is what CUPTI gave a callback of this domain.
pub(crate) unsafe fn heed(cupti: &Cupti, what: u32, data: *const c_void) {
    // SAFETY: the caller's promise; the descriptor of these two callbacks is a `CUpti_GraphData` (cupti_callbacks.h).
    let (node, original) = unsafe {
        let descriptor = (*data.cast::<Resource>()).descriptor;
        if descriptor.is_null() {
            return;
        }
        ((*descriptor).node, (*descriptor).original_node)
    };
    match what {
        CREATED => CAPTURED.set(cupti.node_number(node)),
        CLONED => {
            let (node, original) = (cupti.node_number(node), cupti.node_number(original));
            if node != 0 && original != 0 {
                origins().add(node, original);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Origins};

    /// A copy of a copy is the first one's; the oldest copies are forgotten, not the newest.
    #[test]
    fn copies_have_one_origin() {
        let mut origins = Origins::default();
        origins.add(10, 1);
        origins.add(20, 10);
        assert_eq!([1, 10, 20, 30].map(|node| origins.of(node)), [1, 1, 1, 30]);
        for node in 0..u64::try_from(MOST).unwrap() {
            origins.add(100 + node, 1);
        }
        assert_eq!((origins.of(10), origins.of(99 + MOST as u64)), (10, 1));
    }
}
