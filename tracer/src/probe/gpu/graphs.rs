//! What was captured into graphs: launches that execute nothing until the graph is launched.
//!
//! A launch belongs to a capture if its stream is being captured, or its thread began a capture that goes on (streams that a capture forks
//! by events are launched into by the same thread). Graphs that were built node by node, and captures that began before the probes, are
//! not known: their launches stay whole. Leaves out counting (`launches`).

use super::launches::Work;
use crate::ids::{Pid, Tid};
use std::collections::HashMap;

/// What was captured, by what a driver's record of it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::probe) enum What {
    /// A kernel, by the number of its name in its process.
    Kernel(u32),
    Copy,
    Memset,
}

/// Who captured something (with the stack that launched, without what was launched), and how often.
pub(super) type Captures = HashMap<Work, u64>;
/// All that was captured into a graph, as records name it.
pub(super) type Named = HashMap<What, Captures>;

/// Captured launches, and how many of each.
pub(super) type Captured = HashMap<Work, (u64, u64)>;

/// A capture that goes on.
#[derive(Debug)]
struct Capture {
    stream: u64,
    tid: Tid,
    work: Captured,
    named: Named,
}

/// All captures and graphs of all processes.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    open: HashMap<Pid, Vec<Capture>>,
    graphs: HashMap<(Pid, u64), Captured>,
    launchable: HashMap<(Pid, u64), Captured>,
    named: HashMap<(Pid, u64), Named>,
    /// Who captured a node, by its number in records.
    nodes: HashMap<Pid, HashMap<u64, Work>>,
}

impl Graphs {
    pub(super) fn begin(&mut self, pid: Pid, tid: Tid, stream: u64) {
        let captures = self.open.entry(pid).or_default();
        captures.retain(|capture| capture.stream != stream);
        captures.push(Capture { stream, tid, work: Captured::new(), named: Named::new() });
    }

    /// A capture ended, and this graph was made of it (0: it failed).
    pub(super) fn end(&mut self, pid: Pid, stream: u64, graph: u64) {
        let Some(captures) = self.open.get_mut(&pid) else { return };
        let Some(at) = captures.iter().position(|capture| capture.stream == stream) else { return };
        let capture = captures.swap_remove(at);
        if graph != 0 {
            self.graphs.insert((pid, graph), capture.work);
            self.named.insert((pid, graph), capture.named);
        }
    }

    /// A graph can be launched under this handle.
    pub(super) fn instantiate(&mut self, pid: Pid, launchable: u64, graph: u64) {
        if let Some(work) = self.graphs.get(&(pid, graph)) {
            self.launchable.insert((pid, launchable), work.clone());
        }
        if let Some(named) = self.named.get(&(pid, graph)).cloned() {
            self.named.insert((pid, launchable), named);
        }
    }

    /// Takes a launch into a capture; false where it is in none.
    pub(super) fn capture(&mut self, pid: Pid, tid: Tid, stream: u64, work: Work, amount: u64) -> bool {
        let Some(capture) = self.of(pid, tid, stream) else { return false };
        let sum = capture.work.entry(work).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(amount));
        true
    }

    /// Takes a launch into a capture by what its records will be named; false where it is in none.
    pub(super) fn capture_named(&mut self, pid: Pid, tid: Tid, stream: u64, what: What, work: Work) -> bool {
        let Some(capture) = self.of(pid, tid, stream) else { return false };
        *capture.named.entry(what).or_default().entry(work).or_default() += 1;
        true
    }

    /// A launch was captured as a node of this number.
    pub(super) fn capture_node(&mut self, pid: Pid, node: u64, work: Work) {
        self.nodes.entry(pid).or_default().insert(node, work);
    }

    /// Who captured the node of this number.
    pub(super) fn node_of(&self, pid: Pid, node: u64) -> Option<Work> {
        self.nodes.get(&pid)?.get(&node).copied()
    }

    /// Another program of a process numbers its nodes anew.
    pub(super) fn forget_nodes(&mut self, pid: Pid) {
        self.nodes.remove(&pid);
    }

    /// The capture that a launch into this stream by this thread belongs to.
    fn of(&mut self, pid: Pid, tid: Tid, stream: u64) -> Option<&mut Capture> {
        let captures = self.open.get_mut(&pid)?;
        let own = captures.iter().position(|capture| capture.stream == stream);
        let at = own.or_else(|| captures.iter().position(|capture| capture.tid == tid))?;
        captures.get_mut(at)
    }

    /// Who captured what a launch of this handle runs, by the names of records.
    pub(super) fn kernels_of(&self, pid: Pid, launchable: u64) -> Option<&Named> {
        self.named.get(&(pid, launchable))
    }

    /// What a launch of this handle runs, where that is known.
    pub(super) fn work_of(&self, pid: Pid, launchable: u64) -> Option<&Captured> {
        self.launchable.get(&(pid, launchable))
    }
}

#[cfg(test)]
mod tests {
    use super::{Graphs, Work};
    use crate::ids::{Pid, StackId, ThreadKey, Tid};

    /// What is launched into a captured stream, or by the capturing thread, is the graph's; other threads' launches run.
    #[test]
    fn captures_become_graphs() {
        let (pid, me, other) = (Pid::new(1), Tid::new(1), Tid::new(2));
        let work = |stack| Work { thread: ThreadKey::new(0), stack: StackId::new(stack) };
        let mut graphs = Graphs::default();
        graphs.begin(pid, me, 7);
        assert!(graphs.capture(pid, other, 7, work(1), 5) && graphs.capture(pid, me, 9, work(1), 6));
        assert!(
            !graphs.capture(pid, other, 9, work(2), 1) && !graphs.capture(Pid::new(2), me, 7, work(2), 1)
        );
        graphs.end(pid, 7, 100);
        graphs.instantiate(pid, 200, 100);
        assert!(!graphs.capture(pid, me, 7, work(3), 1));
        let captured = graphs.work_of(pid, 200).unwrap();
        assert_eq!((captured.len(), captured[&work(1)]), (1, (2, 11)));
        assert_eq!(graphs.work_of(pid, 100), None);
    }
}
