//! Counts launches by thread, stack and stretches of milliseconds, one for each launch however many layers it went through.
//!
//! A call of the runtime library is held until it is known whether the driver was called within it: then the two are one launch. A launch's
//! stack is the last one that was taken at its site; at a site without one it is a mark. Graphs are counted as what was captured into
//! them, in the stack that replays (`replays`). Leaves out frames (the collector makes them) and joules.

use super::graphs::{Content, Graphs, Operation, Pending};
use super::kept::keep;
use super::launch::{Launch, Launcher};
use energy_trace_bpf::decode::EventContext;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{Pid, StackId, ThreadKey, Tid};
use energy_trace_model::recording::record::{GpuWait, LaunchStacks, Launched, Launches, Record};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracer_ebpf::gpu::call;

/// A batch of launches is this long at most; an agent's, who keeps a minute of them for each GPU, longer.
const TICK_NS: u64 = 2_000_000;
const AGENT_TICK_NS: u64 = 10_000_000;

/// Kernels beside the busiest stream of a process that are more than a few, in percent.
const CONCURRENT_PERCENT: f64 = 2.0;

/// Of all programs together so many are kept: names of kernels, places that launch, contexts and streams. Programs choose the numbers that these go by, and
/// may make up as many as they like; what comes later has no name, or no stack of its own.
const MOST_KEPT: usize = 1 << 17;

/// All launches that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct LaunchCounter {
    pub(super) graphs: Graphs,
    /// A call of the runtime library by each thread that the driver has not been called in yet.
    held: HashMap<Tid, Launch>,
    /// The outer call of the last nested one.
    outer: HashMap<Tid, Launch>,
    /// The stack that was taken last at a site of a thread, without what was launched, and whether it is whole.
    sites: HashMap<(Pid, Tid, u64), (StackId, bool)>,
    names: HashMap<(Pid, u64), String>,
    devices: HashMap<(Pid, u64), u32>,
    current: HashMap<(Pid, Tid), u64>,
    /// The device of each process of which no context was seen.
    only: HashMap<Pid, u32>,
    /// Launches of kernels and graphs by device, process and stream.
    streams: HashMap<(u32, Pid, u64), u64>,
    open: BTreeMap<u32, Launches>,
    waits: Vec<GpuWait>,
    ready: Vec<Record>,
    /// Whose stacks launches stand in, since that was last sent.
    stacks: LaunchStacks,
    /// Launches whose device is not known.
    pub(crate) without_device: u64,
    /// They are an agent's.
    pub(super) are_agents: bool,
}

impl LaunchCounter {
    /// A launch by the runtime library; gives one that was held before.
    pub(crate) fn hold(&mut self, launch: Launch) -> Option<Launch> {
        self.outer.remove(&launch.head.tid);
        self.held.insert(launch.head.tid, launch)
    }

    /// A launch by the driver's library: what is to be counted now. `nested`: within the last call of the runtime library.
    pub(crate) fn merge(&mut self, mut launch: Launch, nested: bool) -> (Option<Launch>, Launch) {
        let tid = launch.head.tid;
        let held = self.held.remove(&tid);
        if !nested {
            self.outer.remove(&tid);
            return (held, launch);
        }
        let outer = held.or_else(|| self.outer.get(&tid).copied());
        if let Some(outer) = outer {
            (launch.stub, launch.site, launch.own_stack) = (outer.stub, outer.site, outer.own_stack);
            self.outer.insert(tid, outer);
        }
        (None, launch)
    }

    /// Runtime calls in which the driver's was not seen for so long that it will not be: those of a thread, or all that are older.
    pub(crate) fn release(&mut self, before: KtimeNs) -> Vec<Launch> {
        let old: Vec<Tid> =
            self.held.iter().filter(|(_, held)| held.head.at < before).map(|(&tid, _)| tid).collect();
        old.iter().filter_map(|tid| self.held.remove(tid)).collect()
    }

    /// A stack was taken at a site. One that is cut off does not take the place of a whole one; false, as the launch stands in that one then.
    pub(crate) fn set_stack(&mut self, head: EventContext, site: u64, stack: StackId, whole: bool) -> bool {
        let place = (head.pid, head.tid, site);
        let is_better = whole || self.sites.get(&place).is_none_or(|known| !known.1);
        if is_better {
            keep(&mut self.sites, MOST_KEPT, place, || (stack, whole));
        }
        is_better
    }

    /// Stacks have other numbers from now on.
    pub(super) fn forget_sites(&mut self) {
        self.sites.clear();
    }

    pub(crate) fn stack_of(&self, launch: &Launch) -> Option<StackId> {
        let EventContext { pid, tid, .. } = launch.head;
        self.sites.get(&(pid, tid, launch.site)).map(|(stack, _)| *stack)
    }

    /// Counts whose stack a launch stands in.
    pub(crate) fn count_stack(&mut self, launch: &Launch) {
        let whose = match (launch.own_stack, self.stack_of(launch)) {
            (true, Some(_)) => &mut self.stacks.own,
            (false, Some(_)) => &mut self.stacks.thinned,
            (_, None) => &mut self.stacks.none,
        };
        *whose += launch.stands_for;
    }

    /// A function is called so from now on.
    pub(crate) fn set_name(&mut self, pid: Pid, function: u64, name: String) {
        keep(&mut self.names, MOST_KEPT, (pid, function), || name);
    }

    pub(crate) fn name_of(&self, launch: &Launch) -> Option<&str> {
        self.names.get(&(launch.head.pid, launch.function)).map(String::as_str)
    }

    /// What a call says that launches nothing; `index_of` gives the index of a GPU by its number in a process.
    pub(crate) fn note_call(
        &mut self,
        head: EventContext,
        (what, a, b): (u32, u64, u64),
        thread: ThreadKey,
        index_of: impl FnOnce(u32) -> u32,
    ) {
        match what {
            call::SET_CONTEXT => {
                self.current.insert((head.pid, head.tid), a);
            }
            call::CONTEXT => {
                let number = u32::try_from(b).unwrap_or(u32::MAX);
                keep(&mut self.devices, MOST_KEPT, (head.pid, a), || index_of(number));
            }
            call::SAME_KERNEL => {
                if let Some(name) = self.names.get(&(head.pid, b)).cloned() {
                    self.set_name(head.pid, a, name);
                }
            }
            call::WAIT => self.wait(head, KtimeNs::from_ns(a), thread),
            _ => self.graphs.note_call(head, (what, a, b)),
        }
    }

    /// A launch is executed in a stream.
    fn stream_into(&mut self, device: u32, launch: &Launch) {
        if !matches!(launch.call, call::COPY | call::MEMSET) {
            let stream = (device, launch.head.pid, launch.stream);
            match self.streams.get_mut(&stream) {
                Some(count) => *count += 1,
                None => keep(&mut self.streams, MOST_KEPT, stream, || 1),
            }
        }
    }

    /// Devices with processes that launch more than a few kernels beside their busiest stream, and how many percent that is.
    pub(crate) fn concurrent(&self) -> BTreeMap<u32, f64> {
        let mut of_processes = BTreeMap::<(u32, Pid), (u64, u64)>::new();
        for (&(device, pid, _), &count) in &self.streams {
            let (all, most) = of_processes.entry((device, pid)).or_default();
            (*all, *most) = (*all + count, count.max(*most));
        }
        let mut of_devices = BTreeMap::<u32, (u64, u64)>::new();
        for ((device, _), (all, most)) in of_processes {
            let (sum, beside) = of_devices.entry(device).or_default();
            (*sum, *beside) = (*sum + all, *beside + all - most);
        }
        let percent =
            |(device, (sum, beside)): (u32, (u64, u64))| (device, 100.0 * beside as f64 / sum.max(1) as f64);
        of_devices.into_iter().map(percent).filter(|(_, percent)| *percent >= CONCURRENT_PERCENT).fill_map()
    }

    /// A thread waited until now; what is launched from now on is another batch.
    fn wait(&mut self, head: EventContext, from: KtimeNs, thread: ThreadKey) {
        let device = self.device_of(head);
        self.waits.push(GpuWait { thread, device, from, until: head.at });
        self.ready.extend(self.open.remove(&device).map(Record::Launches));
    }

    /// Whether a process has not launched before.
    pub(super) fn is_new(&self, pid: Pid) -> bool {
        !self.only.contains_key(&pid)
    }

    /// The GPU of a process as long as no context of it was seen.
    pub(super) fn set_only_device(&mut self, pid: Pid, device: u32) {
        self.only.insert(pid, device);
    }

    /// The GPU of a thread's current context: its own, or the only one of its process.
    fn device_of(&self, head: EventContext) -> u32 {
        let own = self
            .current
            .get(&(head.pid, head.tid))
            .and_then(|context| self.devices.get(&(head.pid, *context)));
        let mut of_process = self.devices.iter().filter(|((pid, _), _)| *pid == head.pid);
        let any = || of_process.next().map(|(_, device)| *device);
        own.copied().or_else(any).or_else(|| self.only.get(&head.pid).copied()).unwrap_or(0)
    }

    /// Counts a launch of a frame in a stack, or puts it into a capture. What a graph is known to hold counts for
    /// who `replayed` says of who captured it.
    pub(crate) fn count(
        &mut self,
        launch: &Launch,
        work: Launcher,
        mut replayed: impl FnMut(Launcher) -> Launcher,
    ) {
        let Launch { head, stream, amount, stands_for, .. } = *launch;
        let times =
            |(count, amount): (u64, u64)| [count, amount].map(|of| of.saturating_mul(stands_for)).into();
        let device = self.device_of(head);
        if device == u32::MAX {
            self.without_device += 1;
            return;
        }
        if launch.call == call::GRAPH
            && let Some(captured) = self.graphs.work_of(head.pid, launch.function).cloned()
        {
            self.stream_into(device, launch);
            captured
                .into_iter()
                .for_each(|(work, sum)| self.add(device, head.at, replayed(work), times(sum)));
        } else if !self.graphs.capture(head.pid, head.tid, stream, work, amount) {
            self.stream_into(device, launch);
            self.add(device, head.at, work, times((1, amount)));
        }
    }

    /// Puts a launch into a capture by what its records will be named, and by its node where that is known (not 0); false where it is in none.
    pub(crate) fn capture_named(
        &mut self,
        launch: &Launch,
        what: Operation,
        node: u64,
        work: Launcher,
    ) -> bool {
        let EventContext { pid, tid, .. } = launch.head;
        if node != 0 {
            self.graphs.own_node(pid, node, work, Some(what.clone()));
        }
        self.graphs.capture_named(pid, tid, launch.stream, what, work) || node != 0
    }

    /// What a call puts into a graph; `added` or changed is it when the call returns.
    pub(crate) fn prepare(&mut self, tid: Tid, pending: Pending) {
        self.graphs.prepare(tid, pending);
    }

    /// Work that a call has put into a graph is the node's of this number.
    pub(crate) fn own_node(&mut self, pid: Pid, node: u64, work: Launcher, what: Option<Operation>) {
        self.graphs.own_node(pid, node, work, what);
    }

    /// What a launch of this handle runs now, where that is known.
    pub(crate) fn content_of(&self, pid: Pid, launchable: u64) -> Option<Arc<Content>> {
        self.graphs.content_of(pid, launchable)
    }

    /// How often a graph's node had new work of which is not known what it replaced.
    pub(crate) fn unknown_replacements(&self) -> u64 {
        self.graphs.unknown_replacements
    }

    /// Another program of a process begins.
    pub(crate) fn forget_nodes(&mut self, pid: Pid) {
        self.graphs.forget_nodes(pid);
    }

    const fn tick_ns(&self) -> u64 {
        if self.are_agents { AGENT_TICK_NS } else { TICK_NS }
    }

    fn add(&mut self, device: u32, at: KtimeNs, who: Launcher, (count, amount): (u64, u64)) {
        if self.open.get(&device).is_some_and(|batch| at.ns_since(batch.from) >= self.tick_ns()) {
            self.ready.extend(self.open.remove(&device).map(Record::Launches));
        }
        let new = || Launches { device, from: at, until: at, work: Vec::new() };
        let batch = self.open.entry(device).or_insert_with(new);
        (batch.from, batch.until) = (batch.from.min(at), batch.until.max(at));
        let Launcher { thread, stack } = who;
        match batch.work.binary_search_by_key(&who, |of| Launcher { thread: of.thread, stack: of.stack }) {
            Ok(place) => {
                let sum = &mut batch.work[place];
                (sum.count, sum.amount) = (sum.count + count, sum.amount.saturating_add(amount));
            }
            Err(place) => batch.work.insert(place, Launched { thread, stack, count, amount }),
        }
    }

    /// Records that are complete before a moment; with `None` all.
    pub(crate) fn take(&mut self, before: Option<KtimeNs>) -> Vec<Record> {
        let tick_ns = self.tick_ns();
        let done = |batch: &Launches| before.is_none_or(|before| before.ns_since(batch.from) >= tick_ns);
        let done = self.open.extract_if(.., |_, batch| done(batch));
        self.ready.extend(done.map(|(_, batch)| Record::Launches(batch)));
        if !self.waits.is_empty() {
            self.ready.push(Record::GpuWaits(std::mem::take(&mut self.waits)));
        }
        if self.stacks != LaunchStacks::default() {
            self.ready.push(Record::LaunchStacks(std::mem::take(&mut self.stacks)));
        }
        std::mem::take(&mut self.ready)
    }

    /// Forgets a process that ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.graphs.forget(pid);
        self.names.retain(|(of, _), _| *of != pid);
        self.devices.retain(|(of, _), _| *of != pid);
        self.sites.retain(|(of, ..), _| *of != pid);
        self.current.retain(|(of, _), _| *of != pid);
        self.only.remove(&pid);
        self.held.retain(|_, held| held.head.pid != pid);
        self.outer.retain(|_, outer| outer.head.pid != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        EventContext, KtimeNs, Launch, LaunchCounter, LaunchStacks, Launcher, MOST_KEPT, Pid, Record,
        StackId, ThreadKey, Tid, call,
    };
    use energy_trace_model::ids::CpuId;

    fn launch(ns: u64, what: u32, function: u64, stub: u64) -> Launch {
        let (pid, tid, at) = (Pid::new(1), Tid::new(1), KtimeNs::from_ns(ns));
        let head = EventContext { cpu: CpuId::new(0), pid, tid, at, range: 0, span: 0 };
        let (site, own_stack, stands_for) = (stub, false, 1);
        Launch { head, call: what, function, stub, amount: 64, site, stream: 0, own_stack, stands_for }
    }

    /// A runtime call and the driver's within it are one launch with the stub and the site of the outer one; a second one within the same is
    /// another; a runtime call in which none was seen is a launch of its own once the next call comes.
    #[test]
    fn layers_are_one_launch() {
        let mut launches = LaunchCounter::default();
        assert_eq!(launches.hold(launch(1, call::STUB, 0, 70)), None);
        let (before, now) = launches.merge(launch(2, call::LAUNCH, 9, 0), true);
        assert_eq!((before, now.stub, now.site, now.function), (None, 70, 70, 9));
        assert_eq!(launches.merge(launch(3, call::LAUNCH, 9, 0), true).1.stub, 70);
        launches.hold(launch(4, call::STUB, 0, 71));
        let (before, now) = launches.merge(launch(5, call::LAUNCH, 8, 0), false);
        assert_eq!((before.map(|launch| launch.stub), now.stub), (Some(71), 0));
        launches.hold(launch(6, call::STUB, 0, 72));
        assert!(launches.release(KtimeNs::from_ns(6)).is_empty());
        assert_eq!(launches.release(KtimeNs::from_ns(7)).len(), 1);
    }

    /// A launch in a runtime's call has that call's stack; one without its own has the last of its place, or none.
    #[test]
    fn whose_stacks() {
        let mut launches = LaunchCounter::default();
        let mut outer = launch(1, call::STUB, 0, 70);
        outer.own_stack = true;
        assert!(launches.set_stack(outer.head, 70, StackId::new(5), true));
        assert!(!launches.set_stack(outer.head, 70, StackId::new(6), false), "it is cut off");
        launches.hold(outer);
        let nested = launches.merge(launch(2, call::LAUNCH, 9, 0), true).1;
        for launch in [nested, launch(3, call::STUB, 0, 70), launch(4, call::STUB, 0, 71)] {
            launches.count_stack(&launch);
        }
        let stacks = LaunchStacks { own: 1, thinned: 1, none: 1 };
        assert_eq!(launches.take(None), [Record::LaunchStacks(stacks)]);
        assert!(launches.take(None).is_empty());
    }

    /// A program cannot make the recorder keep more and more by numbers that it makes up; what is kept goes with the program.
    #[test]
    fn what_is_kept_is_bounded() {
        let mut launches = LaunchCounter::default();
        let head = launch(1, call::LAUNCH, 0, 0).head;
        for number in 0..MOST_KEPT as u64 + 9 {
            launches.set_name(head.pid, number, String::new());
            launches.set_stack(head, number, StackId::new(5), true);
            launches.note_call(head, (call::CONTEXT, number, 0), ThreadKey::new(0), |number| number);
            launches.stream_into(0, &Launch { stream: number, ..launch(1, call::LAUNCH, 0, 0) });
        }
        launches.set_name(head.pid, 3, "known".to_owned());
        let lengths =
            |of: &LaunchCounter| [of.names.len(), of.sites.len(), of.devices.len(), of.streams.len()];
        assert_eq!(lengths(&launches), [MOST_KEPT; 4]);
        assert_eq!(launches.name_of(&launch(1, call::LAUNCH, 3, 0)), Some("known"));
        launches.forget(head.pid);
        assert_eq!(lengths(&launches), [0, 0, 0, MOST_KEPT]);
    }

    /// One that was drawn of many counts for them, with their threads and stacks.
    #[test]
    fn one_for_several() {
        let mut launches = LaunchCounter::default();
        let drawn = Launch { stands_for: 3, ..launch(1, call::LAUNCH, 1, 0) };
        let work = Launcher { thread: ThreadKey::new(0), stack: StackId::new(0) };
        launches.count(&drawn, work, |work| work);
        launches.count_stack(&drawn);
        let records = launches.take(None);
        let Record::Launches(batch) = &records[0] else { panic!("{records:?}") };
        assert_eq!((batch.work[0].count, batch.work[0].amount), (3, 192));
        assert_eq!(records[1], Record::LaunchStacks(LaunchStacks { none: 3, ..LaunchStacks::default() }));
    }

    /// Launches of two milliseconds are one batch; the end of a wait ends it too.
    #[test]
    fn batches_end_with_ticks_and_waits() {
        let mut launches = LaunchCounter::default();
        let work = Launcher { thread: ThreadKey::new(0), stack: StackId::new(0) };
        for ns in [0, 1_000_000, 1_500_000, 2_500_000, 2_600_000] {
            launches.count(&launch(ns, call::LAUNCH, 1, 0), work, |work| work);
        }
        let waited = launch(3_000_000, call::WAIT, 0, 0).head;
        launches.note_call(waited, (call::WAIT, 2_700_000, 0), ThreadKey::new(0), |number| number);
        launches.count(&launch(3_100_000, call::LAUNCH, 1, 0), work, |work| work);
        let counts = |record: &Record| match record {
            Record::Launches(batch) => batch.work.iter().map(|launched| launched.count).sum::<u64>(),
            _ => 0,
        };
        let records = launches.take(None);
        assert_eq!(records.iter().map(counts).collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert!(matches!(records.last(), Some(Record::GpuWaits(waits)) if waits.len() == 1));
    }
}
