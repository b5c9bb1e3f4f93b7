//! Turns calls of GPU libraries into launches, with the frames, threads and processes that belong to them.
//!
//! Leaves out counting (`launches`), graphs (`graphs`), which libraries are probed (`libraries`), and which calls these are (`collector`).

use super::graphs::Operation;
use super::launch::{Launch, Launcher};
use super::replays::Replays;
use super::{
    Containers, DeviceVariables, GpuDevice, GpuLibraries, LaunchCounter, Listener, NewProgram, index_of,
    only_index, read_variables,
};
use crate::processes::registry::Scope;
use crate::stacks::builder::StackBuilder;
use crate::stacks::interner::{Interner, bare};
use energy_trace_bpf::decode::EventContext;
use energy_trace_bpf::object::LaunchProbes;
use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, StackId, Tid};
use energy_trace_model::recording::record::{FrameKind, LaunchDiagnostic};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_unwind::address_space::Mapping;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use tracer_ebpf::gpu::{GpuEvent, WITH_STACK, call};

/// A call of the runtime library in which the driver's was not seen for so long is a launch of its own. The first call of a process sets
/// the driver up before it launches, which takes seconds on large machines.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Launches that prove that the driver sees what goes through a runtime.
const ENOUGH: u32 = 512;

/// What is known of GPU libraries and launches.
#[derive(Default)]
pub(super) struct LaunchCollector {
    libraries: Option<GpuLibraries>,
    pub(super) containers: Containers,
    pub(super) counter: LaunchCounter,
    pub(super) replays: Replays,
    /// The last stack of each thread, with its time: the call that it belongs to follows.
    taken: HashMap<Tid, (KtimeNs, Option<(StackId, bool)>)>,
    /// Launches in a row that were seen in a runtime and in the driver, whose kernel's name the driver gave; `None`: one was not.
    seen_in_both: Option<u32>,
    /// The mappings of each process that were last looked through, by when they were read.
    looked_at: HashMap<Pid, KtimeNs>,
    /// The machine's GPUs, and what the environment of each process says of them; `None` where that could not be read.
    devices: Vec<GpuDevice>,
    variables: HashMap<Pid, Option<DeviceVariables>>,
    /// Looks into files, once there is something to look at.
    worker: Option<Arc<Worker>>,
}

impl LaunchCollector {
    /// Begins to probe, first what targets will find; `injected` is the library that will be loaded into them, `always_on` whether for an agent.
    pub(super) fn start(
        &mut self,
        probes: LaunchProbes,
        (worker, hasty, peeker): (&Worker, Arc<Worker>, Peeker),
        seen: &[SeenFile],
        devices: &[GpuDevice],
        (injected, always_on): (Option<&Path>, bool),
    ) {
        self.devices = devices.to_vec();
        self.seen_in_both = Some(0);
        self.counter.are_agents = always_on;
        let mut libraries = GpuLibraries::new(probes, Arc::clone(&hasty), peeker, always_on);
        self.worker = Some(hasty);
        libraries.prefetch(seen, worker);
        if let Some(library) = injected {
            libraries.probe_injected(library, worker);
            self.containers.inject(library);
        }
        self.libraries = Some(libraries);
    }

    /// What the reader must know; `injected`: programs were asked to load the library that times kernels.
    pub(super) fn diagnostics(&self, injected: bool) -> Vec<LaunchDiagnostic> {
        let mut found = self.libraries.as_ref().map(GpuLibraries::diagnostics).unwrap_or_default();
        found.extend(self.counter.concurrent().into_iter().map(|(device, percent)| {
            let percent = percent.round_ties_even() as u64;
            LaunchDiagnostic::Streams { domain: format!("gpu-{device}"), percent }
        }));
        let times = self.counter.unknown_replacements();
        if times > 0 && !injected {
            found.push(LaunchDiagnostic::GraphChanged { times });
        }
        found
    }

    /// The index of a GPU by its number in a process; `u32::MAX`: not known. Its environment is read once, right after CUDA read it.
    pub(super) fn index_of(&mut self, pid: Pid, number: u32, mappings: &[Mapping], peeker: &Peeker) -> u32 {
        index_of(number, self.variables_of(pid, mappings, peeker).as_ref(), &self.devices)
    }

    /// What a process's environment says of GPUs.
    fn variables_of(&mut self, pid: Pid, mappings: &[Mapping], peeker: &Peeker) -> Option<DeviceVariables> {
        let worker = self.worker.as_deref();
        let read = || worker.and_then(|worker| read_variables(pid, mappings, worker, peeker));
        self.variables.entry(pid).or_insert_with(read).clone()
    }

    /// Finds out which GPU a process means that launches first, in case no call is seen that says so.
    fn know_device(&mut self, pid: Pid, stacks: &StackBuilder) {
        if self.counter.is_new(pid) {
            let space = stacks.processes.get(pid).map(|process| process.space.mappings());
            let (mappings, peeker) = (space.unwrap_or_default(), &stacks.processes.peeker);
            let index = only_index(pid, self.variables_of(pid, mappings, peeker).as_ref(), &self.devices);
            self.counter.set_only_device(pid, index);
        }
    }

    /// The stack that was sent with a call.
    fn taken_at(&self, head: EventContext) -> Option<(StackId, bool)> {
        let (at, stack) = self.taken.get(&head.tid)?;
        stack.filter(|_| *at == head.at)
    }

    /// A launch was seen in a runtime and in the driver. Where all are, under the kernels' names, the probes on the runtime only cost.
    fn prove(&mut self, named: bool) {
        let Some(seen) = self.seen_in_both.filter(|_| named) else {
            self.seen_in_both = None;
            return;
        };
        self.seen_in_both = Some(seen.saturating_add(1));
        if seen >= ENOUGH
            && let Some(libraries) = &mut self.libraries
        {
            libraries.detach_runtimes();
            self.seen_in_both = Some(0);
        }
    }

    /// A stack of the call of this thread that follows.
    pub(super) fn keep_stack(&mut self, head: EventContext, stack: Option<(StackId, bool)>) {
        self.taken.insert(head.tid, (head.at, stack));
    }

    /// Takes the stack that was sent with a call; false where there was none, or a better one is known.
    pub(super) fn take_stack(&mut self, head: EventContext, event: &GpuEvent) -> bool {
        let taken = (event.flags & WITH_STACK != 0).then(|| self.taken_at(head)).flatten();
        taken.is_some_and(|(stack, whole)| self.counter.set_stack(head, event.site, stack, whole))
    }

    /// A call that launches nothing.
    pub(super) fn note_call(&mut self, head: EventContext, event: &GpuEvent, stacks: &mut StackBuilder) {
        let thread = stacks.thread(head.pid, head.tid, None);
        let what = (event.call, event.a, event.b);
        let index = if event.call == call::CONTEXT {
            let number = u32::try_from(event.b).unwrap_or(u32::MAX);
            let space = stacks.processes.get(head.pid).map(|process| process.space.mappings());
            self.index_of(head.pid, number, space.unwrap_or_default(), &stacks.processes.peeker)
        } else {
            0
        };
        self.counter.note_call(head, what, thread, |_| index);
    }

    /// A call of a runtime library: counted once it is known whether the driver is called within it.
    pub(super) fn hold(&mut self, launch: Launch, stacks: &mut StackBuilder) {
        let before = self.counter.hold(launch);
        if before.is_some() {
            self.seen_in_both = None;
        }
        before.iter().for_each(|launch| self.count(launch, stacks));
    }

    /// A call of the driver's library, within a runtime's or not; gives what is to be counted now.
    pub(super) fn merge(&mut self, launch: Launch, nested: bool, stacks: &mut StackBuilder) -> Launch {
        let (before, now) = self.counter.merge(launch, nested);
        before.iter().for_each(|launch| self.count(launch, stacks));
        now
    }

    /// Whether a launch was seen in both libraries, and under its name, tells whether probes on the runtime are needed.
    pub(super) fn prove_by(&mut self, launch: &Launch) {
        if launch.stub != 0 {
            self.prove(self.counter.name_of(launch).is_some());
        }
    }

    /// Who launches, and in which stack: without what is launched.
    pub(super) fn caller(&self, launch: &Launch, stacks: &mut StackBuilder) -> Launcher {
        let thread = stacks.thread(launch.head.pid, launch.head.tid, None);
        let above = self.counter.stack_of(launch);
        Launcher { thread, stack: above.unwrap_or_else(|| no_stack(&mut stacks.out)) }
    }

    pub(super) fn count(&mut self, launch: &Launch, stacks: &mut StackBuilder) {
        self.know_device(launch.head.pid, stacks);
        let caller = self.caller(launch, stacks);
        self.counter.count_stack(launch);
        let frame = self.launched_frame(launch, stacks);
        let stack = stacks.out.stack_on(Some(caller.stack), frame);
        let Self { counter, replays, .. } = self;
        let replayed = |captured: Launcher| replays.of(caller, captured.stack, &mut stacks.out);
        counter.count(launch, Launcher { stack, ..caller }, replayed);
    }

    /// The frame of what is launched: a kernel by the driver's name or by its host stub, or a mark.
    pub(super) fn launched_frame(&self, launch: &Launch, stacks: &mut StackBuilder) -> FrameId {
        let mark = match launch.call {
            call::COPY | call::NODE_COPY => Some(SyntheticFrame::GpuCopy),
            call::MEMSET | call::NODE_MEMSET => Some(SyntheticFrame::GpuMemset),
            call::GRAPH => Some(SyntheticFrame::GpuGraph),
            _ => None,
        };
        if let Some(mark) = mark {
            return stacks.out.frame(mark.frame());
        }
        if let Some(name) = self.counter.name_of(launch) {
            return stacks.out.frame(bare(FrameKind::Gpu, name, "", 0));
        }
        if launch.stub != 0 {
            let place = stacks.native_frame(launch.head, launch.stub);
            if place.kind == FrameKind::Native {
                let frame = bare(FrameKind::Gpu, &place.name, &place.module, place.address);
                return stacks.out.frame(frame);
            }
        }
        // Functions are numbers of a process: those of two processes are not the same.
        let number = if launch.function != 0 { launch.function } else { launch.stub };
        let name = format!("[unknown: kernel {number:#x} of process {}]", launch.head.pid);
        stacks.out.frame(bare(FrameKind::Gpu, &name, "", 0))
    }

    /// What records will say that a node did, where that is known.
    pub(super) fn node_what(&self, launch: &Launch) -> Option<Operation> {
        match launch.call {
            call::NODE_COPY => Some(Operation::Copy),
            call::NODE_MEMSET => Some(Operation::Memset),
            _ => self.counter.name_of(launch).map(|name| Operation::Named(name.to_owned())),
        }
    }

    /// What is done between two reads of the ring buffers.
    pub(super) fn housekeeping(
        &mut self,
        now: KtimeNs,
        listener: Option<&Listener>,
        stacks: &mut StackBuilder,
    ) {
        self.probe_new(listener, stacks);
        let patience = KtimeNs::from_ns(now.as_ns().saturating_sub(PATIENCE_NS));
        self.send(patience, Some(now), stacks);
    }

    /// Probes libraries in mappings that were read since.
    fn probe_new(&mut self, listener: Option<&Listener>, stacks: &StackBuilder) {
        let Some(libraries) = self.libraries.as_mut() else { return };
        for (pid, read_at, mappings) in stacks.processes.spaces() {
            if self.looked_at.insert(pid, read_at) == Some(read_at) {
                continue;
            }
            let peeker = &stacks.processes.peeker;
            // An agent keeps no container's root open, and waits until its program has mapped a driver.
            let is_looked_below = stacks.processes.scope != Scope::Agent;
            let new = is_looked_below.then(|| self.containers.new_program(pid, peeker)).flatten();
            if let Some(NewProgram { search, installed }) = new {
                libraries.prefetch_below(&search, (pid, read_at));
                if let Some((library, socket)) = installed {
                    libraries.probe_injected_file(&library);
                    if let Some(Err(error)) = listener.map(|l| l.listen_to(socket)) {
                        log::warn!("nobody listens to programs below the root of process {pid}: {error}");
                    }
                }
            }
            libraries.probe_mapped(pid, mappings, read_at);
        }
    }

    /// Sends launches that are complete; those of runtimes that were held since before this time are launches of their own.
    pub(super) fn send(
        &mut self,
        held_before: KtimeNs,
        done_before: Option<KtimeNs>,
        stacks: &mut StackBuilder,
    ) {
        let released = self.counter.release(held_before);
        if !released.is_empty() {
            self.seen_in_both = None;
        }
        released.iter().for_each(|launch| self.count(launch, stacks));
        for record in self.counter.take(done_before) {
            stacks.out.send(record);
        }
    }

    /// Whether libraries are probed.
    pub(super) const fn is_on(&self) -> bool {
        self.libraries.is_some()
    }

    /// Sends what was counted and forgets the stacks that it stands in; those of graphs, which are still to be told.
    pub(super) fn forget_stacks(&mut self, stacks: &mut StackBuilder) -> BTreeSet<StackId> {
        self.send(KtimeNs::default(), None, stacks);
        (self.taken, self.replays) = (HashMap::new(), Replays::default());
        self.counter.forget_sites();
        self.counter.graphs.stacks_in_use()
    }

    /// Forgets a process that ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.counter.forget(pid);
        self.variables.remove(&pid);
        self.containers.forget(pid);
        self.looked_at.remove(&pid);
    }
}

/// A stack that says that none is known.
pub(super) fn no_stack(out: &mut Interner) -> StackId {
    let mark = out.frame(SyntheticFrame::LaunchStackNotTaken.frame());
    out.stack_on(None, mark)
}
