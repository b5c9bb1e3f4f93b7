//! Takes in calls of GPU libraries, and what the injected library tells, and gives each to the collector that it is for.
//!
//! Leaves out how launches are counted (`calls`) and how kernels are timed (`kernel_calls`).

use super::calls::LaunchCollector;
use super::graphs::{NodeWork, Pending};
use super::kernel_calls::{KernelCollector, without_ours};
use super::launch::{Launch, Launcher, is_of_node};
use super::{GpuDevice, Listener, demangled};
use crate::stacks::builder::StackBuilder;
use energy_trace_bpf::decode::EventContext;
use energy_trace_bpf::object::LaunchProbes;
use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, StackId};
use energy_trace_model::recording::record::{RecordingDiagnostic, StackStatus};
use energy_trace_unwind::merge::WalkedStack;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use tracer_ebpf::gpu::{GpuEvent, NESTED, OF_RUNTIME, STANDS_FOR_SHIFT, call};

/// Launches on GPUs, and kernels that are timed.
#[derive(Default)]
pub(crate) struct GpuCollector {
    launches: LaunchCollector,
    kernels: KernelCollector,
}

impl GpuCollector {
    /// Begins to probe, with those that are asked about files before and after the start, first what targets will find; `injected` is the library that will be loaded into them, `always_on` whether for an agent.
    pub(crate) fn start(
        &mut self,
        probes: LaunchProbes,
        whom: (&Worker, Arc<Worker>, Peeker),
        seen: &[SeenFile],
        devices: &[GpuDevice],
        (injected, always_on): (Option<&Path>, bool),
    ) {
        self.launches.start(probes, whom, seen, devices, (injected, always_on));
    }

    /// Begins to listen to injected libraries.
    pub(crate) fn listen(&mut self, listener: Listener) {
        self.kernels.listen(listener);
    }

    /// A stack of the call that follows.
    pub(crate) fn stack(
        &mut self,
        head: EventContext,
        comm: String,
        raw: &WalkedStack,
        stacks: &mut StackBuilder,
    ) {
        stacks.sampled_thread(head, comm);
        let unwound = stacks.unwind_now(head, raw);
        let raw = unwound.as_ref().unwrap_or(raw);
        let callers = without_ours(head.pid, raw, &stacks.processes);
        let nameless = stacks.nameless;
        let (stack, status) = stacks.whole_stack(head, callers.as_ref().unwrap_or(raw));
        // A program that ends takes the names of its last functions along: its last launches then have the stack that their site had before.
        let named = stacks.nameless == nameless;
        let reaches_start =
            matches!(status, StackStatus::Complete | StackStatus::Recovered(_) | StackStatus::Guessed(_));
        let whole = named && reaches_start;
        self.launches.keep_stack(head, stack.map(|stack| (stack, whole)));
    }

    /// The name of a function in a module of a process.
    pub(crate) fn set_name(&mut self, pid: Pid, function: u64, name: &str) {
        self.launches.counter.set_name(pid, function, demangled(name));
    }

    /// A call of a GPU library.
    pub(crate) fn call(&mut self, head: EventContext, event: &GpuEvent, stacks: &mut StackBuilder) {
        match event.call {
            call::LAUNCHED => self.kernels.launched(head, event, &mut self.launches, stacks),
            call if is_of_node(call) => self.node(head, event, stacks),
            call::LAUNCH..=call::MEMSET => self.launch(head, event, stacks),
            _ => self.launches.note_call(head, event, stacks),
        }
    }

    fn launch(&mut self, head: EventContext, event: &GpuEvent, stacks: &mut StackBuilder) {
        let own_stack = self.launches.take_stack(head, event);
        let of_runtime = event.flags & OF_RUNTIME != 0;
        let is_stub = of_runtime && matches!(event.call, call::STUB | call::STUB_EX);
        let (function, stub) = if is_stub { (0, event.a) } else { (event.a, 0) };
        let GpuEvent { call, b: amount, site, stream, .. } = *event;
        let stands_for = (event.flags >> STANDS_FOR_SHIFT).max(1).into();
        let launch = Launch { head, call, function, stub, amount, site, stream, own_stack, stands_for };
        if of_runtime {
            self.kernels.note_launch(launch);
            self.launches.hold(launch, stacks);
            return;
        }
        let now = self.launches.merge(launch, event.flags & NESTED != 0, stacks);
        if !self.kernels.note_launch(now) {
            self.launches.prove_by(&now);
        }
        self.launches.count(&now, stacks);
    }

    /// A call puts work into a node; which one it is comes when the call returns.
    fn node(&mut self, head: EventContext, event: &GpuEvent, stacks: &mut StackBuilder) {
        let own_stack = self.launches.take_stack(head, event);
        let GpuEvent { call, a: function, b: amount, site, stream, .. } = *event;
        if call == call::NODE_CHILD {
            self.launches.counter.prepare(head.tid, Pending::Child(function));
            return;
        }
        let launch = Launch { head, call, function, stub: 0, amount, site, stream, own_stack, stands_for: 1 };
        self.kernels.note_launch(launch);
        let caller = self.launches.caller(&launch, stacks);
        let frame = self.launches.launched_frame(&launch, stacks);
        let work = Launcher { stack: stacks.out.stack_on(Some(caller.stack), frame), ..caller };
        let what = self.launches.node_what(&launch);
        self.launches.counter.prepare(head.tid, Pending::Work(NodeWork { work, amount, caller, what }));
    }

    /// What is done between two reads of the ring buffers.
    pub(crate) fn housekeeping(&mut self, now: KtimeNs, stacks: &mut StackBuilder) {
        if self.launches.is_on() {
            self.launches.housekeeping(now, self.kernels.listener(), stacks);
            self.kernels.housekeeping(now, &mut self.launches, stacks);
        }
    }

    /// Nothing comes any more.
    pub(crate) fn finish(&mut self, stacks: &mut StackBuilder) {
        self.launches.send(KtimeNs::from_ns(u64::MAX), None, stacks);
        self.kernels.finish(&mut self.launches, stacks);
        self.launches.containers.clear();
    }

    /// Forgets a process that ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.launches.forget(pid);
        self.kernels.forget(pid);
    }

    /// Sends what was counted, for frames and stacks will have other numbers; those stacks that have to be known still.
    pub(crate) fn forget_stacks(&mut self, stacks: &mut StackBuilder) -> BTreeSet<StackId> {
        if self.launches.is_on() { self.launches.forget_stacks(stacks) } else { BTreeSet::new() }
    }

    /// These have other numbers now.
    pub(crate) fn move_stacks(&mut self, to: &HashMap<StackId, StackId>) {
        self.launches.counter.graphs.move_stacks(to);
    }

    /// Launches whose device is not known.
    pub(crate) const fn without_device(&self) -> u64 {
        self.launches.counter.without_device
    }

    /// What was found about launches and kernels.
    pub(crate) fn diagnostics(&self, stacks: &StackBuilder) -> Vec<RecordingDiagnostic> {
        let launches = self.launches.diagnostics(self.kernels.is_injected());
        let kernels = self.kernels.diagnostics(self.launches.containers.refusals(), &stacks.processes);
        launches.into_iter().chain(kernels).map(RecordingDiagnostic::from).collect()
    }
}
