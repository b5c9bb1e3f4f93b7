//! Nodes of graphs: which node a call has just made, and whose the work is that a record of a node tells of.
//!
//! CUPTI tells of a node in the middle of the call that captures or adds it (`CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED`), and of each copy that
//! `cuGraphInstantiate`, `cuGraphClone` and a child graph make of it (`…_CLONED`); records of replays have the copy's number. New work in an
//! old node has an owner of its own from that call on: records of launches before it, which may come later, are told apart by their
//! correlation numbers. `cuGraphExecUpdate` pairs the nodes of two graphs by how they were built, and does not say which it paired: here the
//! n-th node of one becomes the n-th of the other (nodes are numbered as they are made), and the tracer looks whether the kernel is the owner's.
//! Where the graphs do not match so (child graphs), nodes have no owner any more, and the tracer goes by kernels' names. Leaves out
//! new work for a whole child graph.

use crate::cupti::Cupti;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUPTI_CB_DOMAIN_RESOURCE`.
pub(crate) const DOMAIN: u32 = 3;
const GRAPH_DESTROYED: u32 = 10;
const CREATED: u32 = 13;
const EXECUTABLE_DESTROYED: u32 = 19;
const CLONED: u32 = 20;
/// What is asked for in that domain.
pub(crate) const TOLD: [u32; 4] = [GRAPH_DESTROYED, CREATED, EXECUTABLE_DESTROYED, CLONED];
/// The owner of a node of which nobody knows whose it is.
const NOBODY: u64 = u64::MAX;
/// Numbers of owners that are no nodes begin here.
const OWNERS: u64 = 1 << 63;
/// Nodes of which so many are known are forgotten, the oldest first: their records count as those of a node that nobody knows.
const MOST: usize = 1 << 20;
/// An owner before another one is forgotten so long after that one came: no work waits longer on a device that works.
const LONGEST_NS: u64 = 30_000_000_000;

/// `CUpti_ResourceData`, as in 12.0 to 13.5.
#[repr(C)]
struct Resource {
    context: *mut c_void,
    handle: *mut c_void,
    descriptor: *const Graph,
}

/// `CUpti_GraphData`.
#[repr(C)]
struct Graph {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
    /// `CUgraphNodeType`: 0 to 2 are a kernel, a copy and a set.
    kind: u32,
    dependency: *mut c_void,
    executable: *mut c_void,
}

thread_local! {
    /// The node that this thread's call has made; 0: none.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// The copies that this thread's call has made, and of which nodes, while it makes something that can be launched.
    static COPIES: RefCell<Option<Vec<(u64, u64)>>> = const { RefCell::new(None) };
}

/// Whose a node is from a launch on.
#[derive(Clone, Copy, Debug)]
struct Owner {
    since: u32,
    at_ns: u64,
    owner: u64,
}

/// All that is known of nodes, by their numbers; graphs by their handles.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// The first node of each copy.
    origins: BTreeMap<u64, u64>,
    /// Nodes that were given new work.
    changed: BTreeMap<u64, VecDeque<Owner>>,
    /// The nodes of each graph.
    graphs: BTreeMap<usize, Vec<u64>>,
    /// The nodes of what can be launched: which node each was made of.
    executables: BTreeMap<usize, BTreeMap<u64, u64>>,
    owners: u64,
}

static NODES: Mutex<Nodes> = Mutex::new(Nodes::new());

/// All nodes so far.
pub(crate) fn nodes() -> MutexGuard<'static, Nodes> {
    NODES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nodes {
    const fn new() -> Self {
        Self {
            origins: BTreeMap::new(),
            changed: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            owners: 0,
        }
    }

    /// Whose the work of a node is, in the launch of this number: the node that was captured or added first, or an owner that came later.
    pub(crate) fn owner(&self, node: u64, launch: u32) -> u64 {
        let changed = self.changed.get(&node).and_then(|owners| {
            let is_before = |owner: &&Owner| launch.wrapping_sub(owner.since).cast_signed() > 0;
            owners.iter().rev().find(is_before)
        });
        changed.map_or_else(|| self.origin(node), |owner| owner.owner)
    }

    fn origin(&self, node: u64) -> u64 {
        self.origins.get(&node).copied().unwrap_or(node)
    }

    fn add_copy(&mut self, node: u64, original: u64) {
        let first = self.origin(original);
        self.origins.insert(node, first);
        // Numbers are given in order, so the first is the oldest.
        if self.origins.len() > MOST {
            self.origins.pop_first();
        }
    }

    /// A graph has another node.
    fn add_to(&mut self, graph: usize, node: u64) {
        self.graphs.entry(graph).or_default().push(node);
    }

    /// These copies can be launched now.
    fn instantiate(&mut self, executable: usize, copies: Vec<(u64, u64)>) {
        self.executables
            .insert(executable, copies.into_iter().map(|(node, original)| (original, node)).collect());
    }

    fn change(&mut self, node: u64, new: Owner) {
        let owners = self.changed.entry(node).or_default();
        while owners.get(1).is_some_and(|next| new.at_ns.saturating_sub(next.at_ns) > LONGEST_NS) {
            owners.pop_front();
        }
        owners.push_back(new);
        if self.changed.len() > MOST {
            self.changed.pop_first();
        }
    }

    /// As the function of this name.
    fn set(&mut self, executable: usize, node: u64, (since, at_ns): (u32, u64)) -> u64 {
        let Some(&copy) = self.executables.get(&executable).and_then(|copies| copies.get(&node)) else {
            return 0;
        };
        self.owners += 1;
        let owner = OWNERS | self.owners;
        self.change(copy, Owner { since, at_ns, owner });
        owner
    }

    /// What can be launched has the work of a graph from the call `since` on.
    pub(crate) fn update(&mut self, executable: usize, graph: usize, (since, at_ns): (u32, u64)) {
        let Some(copies) = self.executables.get(&executable) else { return };
        let copies: Vec<u64> = copies.values().copied().collect();
        let mut new = self.graphs.get(&graph).cloned().unwrap_or_default();
        new.sort_unstable();
        let pairs = new.len() == copies.len();
        for (place, copy) in copies.into_iter().enumerate() {
            let owner = new.get(place).filter(|_| pairs).map_or(NOBODY, |node| self.origin(*node));
            self.change(copy, Owner { since, at_ns, owner });
        }
    }
}

/// A call begins: what was made before is not its. `copies`: it makes something that can be launched.
pub(crate) fn begin(copies: bool) {
    MADE.set(0);
    COPIES.set(copies.then(Vec::new));
}

/// The node that the call of this thread has made; 0: none.
pub(crate) fn made() -> u64 {
    MADE.replace(0)
}

/// The call of this thread has made something that can be launched.
pub(crate) fn instantiated(executable: usize) {
    let copies = COPIES.take().unwrap_or_default();
    nodes().instantiate(executable, copies);
}

/// What was made of a node has new work from the call `since` on: the number of its owner, 0 where the node is not known.
pub(crate) fn set(executable: usize, node: u64, since: (u32, u64)) -> u64 {
    nodes().set(executable, node, since)
}

/// CUPTI tells of a node or of a graph.
///
/// # Safety
/// `data` is what CUPTI gave a callback of this domain.
pub(crate) unsafe fn note(cupti: &Cupti, what: u32, data: *const c_void) {
    // SAFETY: the caller's promise; the descriptor of these callbacks is a `CUpti_GraphData` (cupti_callbacks.h).
    let change = unsafe {
        let descriptor = (*data.cast::<Resource>()).descriptor;
        if descriptor.is_null() {
            return;
        }
        &*descriptor
    };
    match what {
        CREATED => {
            let node = cupti.node_number(change.node);
            // Other nodes, which give a device nothing to do, count where graphs are compared.
            MADE.set(if change.kind <= 2 { node } else { 0 });
            nodes().add_to(change.graph.addr(), node);
        }
        CLONED => note_copy(cupti, change),
        GRAPH_DESTROYED => drop(nodes().graphs.remove(&change.graph.addr())),
        EXECUTABLE_DESTROYED => drop(nodes().executables.remove(&change.executable.addr())),
        _ => {}
    }
}

fn note_copy(cupti: &Cupti, change: &Graph) {
    let (node, original) = (cupti.node_number(change.node), cupti.node_number(change.original_node));
    if node == 0 || original == 0 {
        return;
    }
    let mut nodes = nodes();
    nodes.add_copy(node, original);
    let for_launches = COPIES
        .with_borrow_mut(|copies| copies.as_mut().map(|copies| copies.push((node, original))).is_some());
    if !for_launches {
        nodes.add_to(change.graph.addr(), node);
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NS, MOST, NOBODY, Nodes};

    /// A copy of a copy is the first one's; the oldest copies are forgotten, not the newest.
    #[test]
    fn copies_have_one_origin() {
        let mut nodes = Nodes::default();
        nodes.add_copy(10, 1);
        nodes.add_copy(20, 10);
        assert_eq!([1, 10, 20, 30].map(|node| nodes.owner(node, 1)), [1, 1, 1, 30]);
        for node in 0..u64::try_from(MOST).unwrap() {
            nodes.add_copy(100 + node, 1);
        }
        assert_eq!((nodes.owner(10, 1), nodes.owner(99 + MOST as u64, 1)), (10, 1));
    }

    /// New work in a node is its new owner's from the next launch on, and the old one's in launches before; a node that nobody knows has none.
    #[test]
    fn new_work_has_a_new_owner() {
        let mut nodes = Nodes::default();
        nodes.add_copy(10, 1);
        nodes.instantiate(7, vec![(10, 1)]);
        let owner = nodes.set(7, 1, (5, 0));
        assert_eq!([4, 6].map(|launch| nodes.owner(10, launch)), [1, owner]);
        assert_eq!((nodes.set(7, 2, (6, 0)), nodes.set(8, 1, (6, 0))), (0, 0));
        let last = nodes.set(7, 1, (8, 1));
        assert_eq!([4, 6, 9].map(|launch| nodes.owner(10, launch)), [1, owner, last]);
        // Correlation numbers begin again after 2³².
        assert_eq!(nodes.owner(10, u32::MAX), 1);
        nodes.set(7, 1, (10, LONGEST_NS + 2));
        assert_eq!(nodes.changed[&10].len(), 2);
    }

    /// An update gives each node the owner in its place; where graphs have another number of nodes, nobody.
    #[test]
    fn updates_pair_in_order() {
        let mut nodes = Nodes::default();
        nodes.instantiate(7, vec![(12, 2), (11, 1)]);
        for node in [21, 22] {
            nodes.add_to(100, node);
        }
        nodes.add_to(101, 31);
        nodes.update(7, 100, (5, 0));
        assert_eq!([11, 12].map(|node| nodes.owner(node, 6)), [21, 22]);
        nodes.update(7, 101, (7, 0));
        assert_eq!([11, 12].map(|node| nodes.owner(node, 8)), [NOBODY, NOBODY]);
        nodes.update(9, 101, (8, 0));
        assert_eq!(nodes.owner(31, 9), 31);
    }
}
