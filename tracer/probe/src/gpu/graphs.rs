//! What is in graphs: launches and copies that execute nothing until the graph is launched.
//!
//! A launch belongs to a capture if its stream is being captured, or its thread began a capture that goes on (streams that a capture forks
//! by events are launched into by the same thread). Work that calls put into a graph is told of twice: what it is at the call (`prepare`), and
//! which node it became when the call returns. Graphs whose making was not seen whole are not known: their launches stay whole. New work for a node that
//! was captured changes nothing here, for who captured it is not known by its handle: that is counted (`unknown_replacements`). Leaves out counting (`launches`).

use super::launch::Launcher;
use energy_trace_bpf::decode::EventContext;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{Pid, StackId, Tid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tracer_ebpf::gpu::call;

/// What was captured, by what a driver's record of it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// A kernel, by the number of its name in its process.
    Kernel(u32),
    /// A kernel, by its name.
    Named(String),
    Copy,
    Memset,
}

/// Nodes of a process beyond these are forgotten, the oldest first: kernels of them go by their names.
const MOST_NODES: usize = 1 << 20;

/// Who captured something (with the stack that launched, without what was launched), and how often.
pub(super) type Captures = HashMap<Launcher, u64>;
/// Captured launches, and how many of each.
pub(super) type Captured = HashMap<Launcher, (u64, u64)>;

/// Work that a call puts into a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeWork {
    /// Its stack with what it is.
    pub(crate) work: Launcher,
    pub(crate) amount: u64,
    /// Its stack without what it is.
    pub(crate) caller: Launcher,
    /// As records name it, where that is known.
    pub(crate) what: Option<Operation>,
}

/// What a thread's call is putting into a graph.
#[derive(Debug)]
pub(crate) enum Pending {
    Work(NodeWork),
    /// A copy of the graph of this handle.
    Child(u64),
}

/// What is in a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    work: Captured,
    /// The same, as records name it.
    named: HashMap<Operation, Captures>,
    /// What calls have put in, by the handle of the node.
    pieces: HashMap<u64, NodeWork>,
}

impl Content {
    fn capture(&mut self, work: Launcher, amount: u64) {
        let sum = self.work.entry(work).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(amount));
    }

    fn capture_named(&mut self, what: Operation, caller: Launcher) {
        *self.named.entry(what).or_default().entry(caller).or_default() += 1;
    }

    fn add(&mut self, node: u64, piece: NodeWork) {
        self.capture(piece.work, piece.amount);
        if let Some(what) = piece.what.clone() {
            self.capture_named(what, piece.caller);
        }
        self.pieces.insert(node, piece);
    }

    /// Puts new work in the place of a node's; false where the node is not known.
    fn change(&mut self, node: u64, new: NodeWork) -> bool {
        let Some(old) = self.pieces.remove(&node) else { return false };
        if let Some(sum) = self.work.get_mut(&old.work) {
            *sum = (sum.0.saturating_sub(1), sum.1.saturating_sub(old.amount));
        }
        self.work.retain(|_, (count, _)| *count > 0);
        let named = old.what.and_then(|what| self.named.get_mut(&what));
        if let Some(captures) = named {
            captures.entry(old.caller).and_modify(|count| *count = count.saturating_sub(1));
            captures.retain(|_, count| *count > 0);
        }
        self.add(node, new);
        true
    }

    /// A copy of another graph is a part of this one.
    fn join(&mut self, other: &Self) {
        for (&work, &(count, amount)) in &other.work {
            let sum = self.work.entry(work).or_default();
            *sum = (sum.0 + count, sum.1.saturating_add(amount));
        }
        for (what, captures) in &other.named {
            let own = self.named.entry(what.clone()).or_default();
            captures.iter().for_each(|(&caller, count)| *own.entry(caller).or_default() += count);
        }
    }

    /// The same work in other stacks; `None` where one of its stacks has no other. Nothing of it is named by records.
    fn moved(&self, to: &HashMap<StackId, StackId>) -> Option<Self> {
        let place = |work: &Launcher| Some(Launcher { stack: *to.get(&work.stack)?, ..*work });
        let mut new = Self::default();
        for (work, &(count, amount)) in &self.work {
            let sum = new.work.entry(place(work)?).or_default();
            *sum = (sum.0 + count, sum.1.saturating_add(amount));
        }
        for (&node, piece) in &self.pieces {
            let work = place(&piece.work)?;
            new.pieces.insert(node, NodeWork { work, caller: work, what: None, ..*piece });
        }
        Some(new)
    }

    /// Who put in what records name so: a kernel by number or by name.
    pub(super) fn captures_of(&self, what: &[Operation]) -> Captures {
        let mut all = Captures::new();
        for captures in what.iter().filter_map(|what| self.named.get(what)) {
            captures.iter().for_each(|(&caller, count)| *all.entry(caller).or_default() += count);
        }
        all
    }
}

/// A capture that goes on.
#[derive(Debug)]
struct Capture {
    stream: u64,
    tid: Tid,
    content: Content,
}

/// All captures and graphs of all processes.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    open: HashMap<Pid, Vec<Capture>>,
    graphs: HashMap<(Pid, u64), Content>,
    launchable: HashMap<(Pid, u64), Arc<Content>>,
    /// Who put a node's work in, by its number in records, and what it is.
    nodes: HashMap<Pid, BTreeMap<u64, (Launcher, Option<Operation>)>>,
    pending: HashMap<Tid, Pending>,
    /// How often a node had new work of which is not known what it replaced.
    pub(super) unknown_replacements: u64,
}

impl Graphs {
    /// What a call says of graphs.
    pub(super) fn note_call(
        &mut self,
        EventContext { pid, tid, .. }: EventContext,
        (what, a, b): (u32, u64, u64),
    ) {
        match what {
            call::BEGIN_CAPTURE => self.begin(pid, tid, a, 0),
            call::BEGIN_CAPTURE_TO => self.begin(pid, tid, a, b),
            call::END_CAPTURE => self.end(pid, a, b),
            call::INSTANTIATE => self.instantiate(pid, a, b),
            call::CREATE_GRAPH => drop(self.graphs.insert((pid, a), Content::default())),
            call::CLONE_GRAPH => self.copy(pid, a, b),
            call::ADD_CHILD => self.join(pid, a, b),
            call::ADD_NODE => self.added(pid, tid, a, b),
            call::SET_NODE => self.changed(pid, tid, a, b),
            call::UPDATE_GRAPH if a != 0 => self.updated(pid, a, b),
            _ => (),
        }
    }

    /// A capture begins; what it captures comes beside what is in a graph (0: none).
    fn begin(&mut self, pid: Pid, tid: Tid, stream: u64, graph: u64) {
        let content = self.graphs.get(&(pid, graph)).cloned().unwrap_or_default();
        let captures = self.open.entry(pid).or_default();
        captures.retain(|capture| capture.stream != stream);
        captures.push(Capture { stream, tid, content });
    }

    /// A capture ended, and this graph was made of it (0: it failed).
    fn end(&mut self, pid: Pid, stream: u64, graph: u64) {
        let Some(captures) = self.open.get_mut(&pid) else { return };
        let Some(at) = captures.iter().position(|capture| capture.stream == stream) else { return };
        let capture = captures.swap_remove(at);
        if graph != 0 {
            self.graphs.insert((pid, graph), capture.content);
        }
    }

    /// A graph is a copy of another one, whose nodes have handles of their own.
    fn copy(&mut self, pid: Pid, copy: u64, graph: u64) {
        match self.graphs.get(&(pid, graph)).cloned() {
            Some(of) => drop(self.graphs.insert((pid, copy), Content { pieces: HashMap::new(), ..of })),
            None => drop(self.graphs.remove(&(pid, copy))),
        }
    }

    /// A graph can be launched under this handle.
    fn instantiate(&mut self, pid: Pid, launchable: u64, graph: u64) {
        match self.graphs.get(&(pid, graph)).cloned() {
            Some(content) => drop(self.launchable.insert((pid, launchable), Arc::new(content))),
            None => drop(self.launchable.remove(&(pid, launchable))),
        }
    }

    /// What a thread's call puts into a graph, when it returns.
    pub(super) fn prepare(&mut self, tid: Tid, pending: Pending) {
        self.pending.insert(tid, pending);
    }

    /// What was prepared is a node of this handle (0: the call failed).
    fn added(&mut self, pid: Pid, tid: Tid, node: u64, graph: u64) {
        match self.pending.remove(&tid).filter(|_| node != 0) {
            Some(Pending::Work(piece)) => {
                self.graphs.entry((pid, graph)).and_modify(|content| content.add(node, piece));
            }
            Some(Pending::Child(child)) => self.join(pid, graph, child),
            None => {}
        }
    }

    /// A graph is a part of another one. One that is not known makes the other not known.
    fn join(&mut self, pid: Pid, graph: u64, child: u64) {
        match self.graphs.get(&(pid, child)).cloned() {
            Some(child) => {
                self.graphs.entry((pid, graph)).and_modify(|content| content.join(&child));
            }
            None => drop(self.graphs.remove(&(pid, graph))),
        }
    }

    /// What was prepared is what was made of this node (0: the call failed) does from now on.
    fn changed(&mut self, pid: Pid, tid: Tid, node: u64, launchable: u64) {
        let Some(Pending::Work(piece)) = self.pending.remove(&tid).filter(|_| node != 0) else { return };
        if let Some(content) = self.launchable.get_mut(&(pid, launchable))
            && !Arc::make_mut(content).change(node, piece)
        {
            self.unknown_replacements += 1;
        }
    }

    /// What can be launched under a handle does what a graph does from now on.
    fn updated(&mut self, pid: Pid, launchable: u64, graph: u64) {
        self.instantiate(pid, launchable, graph);
    }

    /// Takes a launch into a capture; false where it is in none.
    pub(super) fn capture(&mut self, pid: Pid, tid: Tid, stream: u64, work: Launcher, amount: u64) -> bool {
        self.of(pid, tid, stream).map(|capture| capture.content.capture(work, amount)).is_some()
    }

    /// Takes a launch into a capture by what its records will be named; false where it is in none.
    pub(super) fn capture_named(
        &mut self,
        pid: Pid,
        tid: Tid,
        stream: u64,
        what: Operation,
        work: Launcher,
    ) -> bool {
        self.of(pid, tid, stream).map(|capture| capture.content.capture_named(what, work)).is_some()
    }

    /// This work is a node's of this number.
    pub(super) fn own_node(&mut self, pid: Pid, node: u64, work: Launcher, what: Option<Operation>) {
        let nodes = self.nodes.entry(pid).or_default();
        nodes.insert(node, (work, what));
        if nodes.len() > MOST_NODES {
            nodes.pop_first();
        }
    }

    /// Who put in the work of the node of this number, and what it is.
    pub(super) fn node_of(&self, pid: Pid, node: u64) -> Option<&(Launcher, Option<Operation>)> {
        self.nodes.get(&pid)?.get(&node)
    }

    /// Another program of a process numbers its nodes anew.
    pub(super) fn forget_nodes(&mut self, pid: Pid) {
        self.nodes.remove(&pid);
    }

    /// The stacks that work in graphs stands in.
    pub(super) fn stacks_in_use(&self) -> BTreeSet<StackId> {
        let open = self.open.values().flatten().map(|capture| &capture.content);
        let contents = open.chain(self.graphs.values()).chain(self.launchable.values().map(AsRef::as_ref));
        contents.flat_map(|content| content.work.keys()).map(|work| work.stack).fill_set()
    }

    /// Work stands in other stacks from now on. A graph with work that has no other is not known any more.
    pub(super) fn move_stacks(&mut self, to: &HashMap<StackId, StackId>) {
        let stays = |content: &mut Content| {
            let moved = content.moved(to);
            let stays = moved.is_some();
            *content = moved.unwrap_or_default();
            stays
        };
        self.open.values_mut().for_each(|open| open.retain_mut(|capture| stays(&mut capture.content)));
        self.graphs.retain(|_, content| stays(content));
        self.launchable.retain(|_, content| stays(Arc::make_mut(content)));
        self.nodes.clear();
        self.pending.clear();
    }

    /// Forgets a process that ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.open.remove(&pid);
        self.nodes.remove(&pid);
        self.graphs.retain(|(of, _), _| *of != pid);
        self.launchable.retain(|(of, _), _| *of != pid);
    }

    /// The capture that a launch into this stream by this thread belongs to.
    fn of(&mut self, pid: Pid, tid: Tid, stream: u64) -> Option<&mut Capture> {
        let captures = self.open.get_mut(&pid)?;
        let own = captures.iter().position(|capture| capture.stream == stream);
        let at = own.or_else(|| captures.iter().position(|capture| capture.tid == tid))?;
        captures.get_mut(at)
    }

    /// What a launch of this handle runs now, where that is known.
    pub(super) fn content_of(&self, pid: Pid, launchable: u64) -> Option<Arc<Content>> {
        self.launchable.get(&(pid, launchable)).cloned()
    }

    /// The same, as launches.
    pub(super) fn work_of(&self, pid: Pid, launchable: u64) -> Option<&Captured> {
        self.launchable.get(&(pid, launchable)).map(|content| &content.work)
    }
}

#[cfg(test)]
mod tests {
    use super::{Graphs, Launcher, NodeWork, Operation, Pending};
    use energy_trace_bpf::decode::EventContext;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, Pid, StackId, ThreadKey, Tid};
    use tracer_ebpf::gpu::call;

    const PID: Pid = Pid::new(1);
    const ME: Tid = Tid::new(1);

    fn work(stack: u32) -> Launcher {
        Launcher { thread: ThreadKey::new(0), stack: StackId::new(stack) }
    }

    fn piece(stack: u32, name: &str) -> NodeWork {
        let what = Some(Operation::Named(name.to_owned()));
        NodeWork { work: work(stack), amount: 5, caller: work(100 + stack), what }
    }

    impl Graphs {
        fn called(&mut self, what: u32, a: u64, b: u64) {
            let head = EventContext {
                cpu: CpuId::new(0),
                pid: PID,
                tid: ME,
                at: KtimeNs::from_ns(0),
                range: 0,
                span: 0,
            };
            self.note_call(head, (what, a, b));
        }

        fn puts(&mut self, what: u32, (node, graph): (u64, u64), piece: NodeWork) {
            self.prepare(ME, Pending::Work(piece));
            self.called(what, node, graph);
        }

        /// Stacks and their counts, sorted.
        fn stacks(&self, launchable: u64) -> Option<Vec<(u32, u64, u64)>> {
            let work = self.work_of(PID, launchable)?;
            let stack = |(work, sum): (&Launcher, &(u64, u64))| (work.stack.get(), sum.0, sum.1);
            let mut stacks: Vec<_> = work.iter().map(stack).collect();
            stacks.sort_unstable();
            Some(stacks)
        }
    }

    /// What is launched into a captured stream, or by the capturing thread, is the graph's; other threads' launches run. A capture into a graph
    /// comes beside what is there.
    #[test]
    fn captures_become_graphs() {
        let other = Tid::new(2);
        let mut graphs = Graphs::default();
        graphs.called(call::BEGIN_CAPTURE, 7, 0);
        assert!(graphs.capture(PID, other, 7, work(1), 5) && graphs.capture(PID, ME, 9, work(1), 6));
        assert!(!graphs.capture(PID, other, 9, work(2), 1));
        assert!(!graphs.capture(Pid::new(2), ME, 7, work(2), 1));
        graphs.called(call::END_CAPTURE, 7, 100);
        graphs.called(call::INSTANTIATE, 200, 100);
        assert!(!graphs.capture(PID, ME, 7, work(3), 1));
        assert_eq!((graphs.stacks(200), graphs.stacks(100)), (Some(vec![(1, 2, 11)]), None));
        graphs.called(call::BEGIN_CAPTURE_TO, 7, 100);
        assert!(graphs.capture(PID, ME, 7, work(2), 1));
        graphs.called(call::END_CAPTURE, 7, 100);
        graphs.called(call::INSTANTIATE, 201, 100);
        assert_eq!(graphs.stacks(201), Some(vec![(1, 2, 11), (2, 1, 1)]));
    }

    /// Nodes, child graphs and copies are in what is made of a graph; a call that failed adds nothing, and a graph that has an unknown part is not known.
    #[test]
    fn graphs_are_built_by_calls() {
        let mut graphs = Graphs::default();
        graphs.called(call::CREATE_GRAPH, 100, 0);
        graphs.called(call::CREATE_GRAPH, 101, 0);
        graphs.puts(call::ADD_NODE, (11, 100), piece(1, "a"));
        graphs.puts(call::ADD_NODE, (12, 101), piece(2, "b"));
        graphs.puts(call::ADD_NODE, (0, 0), piece(3, "c"));
        graphs.called(call::ADD_NODE, 13, 100);
        graphs.called(call::ADD_CHILD, 100, 101);
        graphs.prepare(ME, Pending::Child(101));
        graphs.called(call::ADD_NODE, 14, 100);
        graphs.called(call::CLONE_GRAPH, 102, 100);
        graphs.called(call::INSTANTIATE, 200, 102);
        assert_eq!(graphs.stacks(200), Some(vec![(1, 1, 5), (2, 2, 10)]));
        let content = graphs.content_of(PID, 200).unwrap();
        let named =
            |name: &str| content.captures_of(&[Operation::Kernel(1), Operation::Named(name.to_owned())]);
        assert_eq!((named("b")[&work(102)], named("c").len()), (2, 0));
        graphs.called(call::ADD_CHILD, 100, 999);
        graphs.called(call::INSTANTIATE, 201, 100);
        assert_eq!(graphs.stacks(201), None);
    }

    /// When stacks have other numbers, graphs have them too: work that comes to stand in one is added up. What would stand in none is forgotten, as
    /// is all of a process that ended.
    #[test]
    fn stacks_move() {
        let mut graphs = Graphs::default();
        for (graph, pieces) in [(100, [1, 2]), (101, [1, 3])] {
            graphs.called(call::CREATE_GRAPH, graph, 0);
            for (node, stack) in (11..).zip(pieces) {
                graphs.puts(call::ADD_NODE, (node, graph), piece(stack, "a"));
            }
            graphs.called(call::INSTANTIATE, graph + 100, graph);
        }
        let ids = [1, 2, 3, 7].map(StackId::new);
        assert!(graphs.stacks_in_use().into_iter().eq(ids[..3].iter().copied()));
        graphs.move_stacks(&[(ids[0], ids[3]), (ids[1], ids[3])].into());
        assert_eq!((graphs.stacks(200), graphs.stacks(201)), (Some(vec![(7, 2, 10)]), None));
        graphs.puts(call::SET_NODE, (11, 200), piece(4, "b"));
        assert_eq!(graphs.stacks(200), Some(vec![(4, 1, 5), (7, 1, 5)]));
        graphs.forget(PID);
        assert_eq!((graphs.stacks(200), graphs.graphs.len()), (None, 0));
    }

    /// New work takes the place of a node's in later launches; where the node is not known it is counted and nothing changes. An update replaces all.
    #[test]
    fn graphs_change() {
        let mut graphs = Graphs::default();
        graphs.called(call::CREATE_GRAPH, 100, 0);
        graphs.puts(call::ADD_NODE, (11, 100), piece(1, "a"));
        graphs.puts(call::ADD_NODE, (12, 100), piece(1, "a"));
        graphs.called(call::INSTANTIATE, 200, 100);
        let before = graphs.content_of(PID, 200).unwrap();
        graphs.puts(call::SET_NODE, (11, 200), piece(2, "b"));
        assert_eq!(graphs.stacks(200), Some(vec![(1, 1, 5), (2, 1, 5)]));
        let a = [Operation::Named("a".to_owned())];
        let after = graphs.content_of(PID, 200).unwrap();
        assert_eq!((before.captures_of(&a)[&work(101)], after.captures_of(&a)[&work(101)]), (2, 1));
        graphs.puts(call::SET_NODE, (13, 200), piece(3, "c"));
        graphs.puts(call::SET_NODE, (0, 0), piece(3, "c"));
        assert_eq!((graphs.unknown_replacements, graphs.stacks(200).unwrap().len()), (1, 2));
        graphs.called(call::CREATE_GRAPH, 101, 0);
        graphs.puts(call::ADD_NODE, (15, 101), piece(4, "d"));
        graphs.called(call::UPDATE_GRAPH, 0, 0);
        graphs.called(call::UPDATE_GRAPH, 200, 101);
        assert_eq!(graphs.stacks(200), Some(vec![(4, 1, 5)]));
        graphs.called(call::UPDATE_GRAPH, 200, 999);
        assert_eq!(graphs.stacks(200), None);
    }
}
