//! Turns calls of GPU libraries into launches: the collector's part of it, which needs frames, threads and processes.
//!
//! Leaves out counting (`gpu/launches`), graphs (`graphs`) and which libraries are probed (`gpu/libraries`).

use super::graph_calls::is_of_node;
use super::{
    Containers, GpuDevice, GpuLibraries, GpuTold, Kernels, Launch, Launches, Listener, Started, Work,
    demangled, index_of, read_told,
};
use crate::probe::bpf::decode::Head;
use crate::probe::bpf::object::LaunchProbes;
use crate::probe::collect::collector::Collector;
use crate::probe::stacks::frames::bare;
use crate::resolver::Worker;
use crate::unwind::address_space::Mapping;
use crate::unwind::merge::RawStack;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, StackId, Tid};
use energy_trace_model::recording::record::{FrameKind, LaunchDiagnostic, RecordingDiagnostic, Verdict};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracer_ebpf::gpu::{GpuEvent, NESTED, OF_RUNTIME, WITH_STACK, call};

/// A call of the runtime library in which the driver's was not seen for so long is a launch of its own. The first call of a process sets
/// the driver up before it launches, which takes seconds on large machines.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Launches that prove that the driver sees what goes through a runtime.
const ENOUGH: u32 = 512;
/// At a site whose stack was not taken.
pub(crate) const NO_STACK: &str = "[unknown: launch stack not taken]";

/// What is known of GPU libraries and launches.
#[derive(Default)]
pub(crate) struct GpuCalls {
    libraries: Option<GpuLibraries>,
    pub(crate) containers: Containers,
    pub(crate) launches: Launches,
    /// What injected libraries tell, and where they are listened to.
    pub(crate) kernels: Kernels,
    pub(crate) listener: Option<Listener>,
    /// Messages that found no room at the listener, and connections that it refused.
    pub(crate) turned_away: (u64, u64),
    /// Whether programs were told to load the library.
    pub(crate) injected: bool,
    /// The last stack of each thread, with its time: the call that it belongs to follows.
    taken: HashMap<Tid, (KtimeNs, Option<(StackId, bool)>)>,
    /// Launches in a row that were seen in a runtime and in the driver, whose kernel's name the driver told; `None`: one was not.
    seen_in_both: Option<u32>,
    /// When the mappings of each process were last looked at.
    looked_at: HashMap<Pid, KtimeNs>,
    /// The machine's GPUs, and what each process was told of them; `None` where that could not be read.
    devices: Vec<GpuDevice>,
    told: HashMap<Pid, Option<GpuTold>>,
    /// Looks into files, once there is something to look at.
    worker: Option<Arc<Worker>>,
}

impl GpuCalls {
    /// Begins to probe, first what targets will find; `injected` is the library that will be loaded into them.
    pub(crate) fn start(
        &mut self,
        probes: LaunchProbes,
        worker: Arc<Worker>,
        search: &[PathBuf],
        devices: &[GpuDevice],
        injected: Option<&Path>,
    ) {
        self.devices = devices.to_vec();
        self.seen_in_both = Some(0);
        let mut libraries = GpuLibraries::new(probes, Arc::clone(&worker));
        self.worker = Some(worker);
        libraries.foresee(search);
        if let Some(library) = injected {
            libraries.probe_injected(library);
            self.containers.inject(library);
        }
        self.libraries = Some(libraries);
    }

    /// What was found about launches.
    pub(crate) fn diagnostics(&self) -> Vec<RecordingDiagnostic> {
        let mut found = self.libraries.as_ref().map(GpuLibraries::diagnostics).unwrap_or_default();
        found.extend(self.launches.crowded().into_iter().map(|(device, percent)| {
            let percent = percent.round_ties_even() as u64;
            LaunchDiagnostic::Streams { domain: format!("gpu-{device}"), percent }
        }));
        let times = self.launches.strayed();
        if times > 0 && !self.injected {
            found.push(LaunchDiagnostic::GraphChanged { times });
        }
        found.into_iter().map(RecordingDiagnostic::from).collect()
    }

    /// The index of a GPU by its number in a process; `u32::MAX`: not known. What the process was told is read once, right after CUDA read it.
    pub(crate) fn index_of(&mut self, pid: Pid, number: u32, mappings: &[Mapping]) -> u32 {
        let worker = self.worker.as_deref();
        let read = || worker.and_then(|worker| read_told(pid, mappings, worker));
        let told = self.told.entry(pid).or_insert_with(read);
        index_of(number, told.as_ref(), &self.devices)
    }

    /// The stack that was sent with a call.
    pub(crate) fn taken_at(&self, head: Head) -> Option<(StackId, bool)> {
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
            libraries.leave_runtimes();
            self.seen_in_both = Some(0);
        }
    }

    /// Forgets a process that ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.launches.forget(pid);
        self.told.remove(&pid);
        self.containers.forget(pid);
        self.listener.iter().for_each(|listener| listener.forget(pid));
        self.looked_at.remove(&pid);
    }
}

impl Collector {
    /// A stack of the call that follows.
    pub(crate) fn gpu_stack(&mut self, head: Head, comm: String, raw: &RawStack) {
        self.processes.meet(head.pid, &self.out).samples += 1;
        self.processes.thread(head.pid, head.tid, Some(comm), &self.out);
        let unwound = self.raw.unwind(head, raw, &mut self.processes);
        let raw = unwound.as_ref().unwrap_or(raw);
        let callers = self.without_ours(head.pid, raw);
        let (stack, verdict) = self.whole_stack(head, callers.as_ref().unwrap_or(raw));
        let whole = matches!(verdict, Verdict::Complete | Verdict::Healed(_));
        self.gpu.taken.insert(head.tid, (head.at, stack.map(|stack| (stack, whole))));
    }

    /// A call of a GPU library.
    pub(crate) fn gpu_call(&mut self, head: Head, event: &GpuEvent) {
        if event.call == call::LAUNCHED {
            self.gpu_launched(head, event);
            return;
        }
        if is_of_node(event.call) {
            self.gpu_node(head, event);
            return;
        }
        if !(call::LAUNCH..=call::MEMSET).contains(&event.call) {
            let thread = self.processes.thread(head.pid, head.tid, None, &self.out);
            let what = (event.call, event.a, event.b);
            let index = if event.call == call::CONTEXT {
                let number = u32::try_from(event.b).unwrap_or(u32::MAX);
                let space = self.processes.get(head.pid).map(|process| process.space.mappings());
                self.gpu.index_of(head.pid, number, space.unwrap_or_default())
            } else {
                0
            };
            self.gpu.launches.tell(head, what, thread, |_| index);
            return;
        }
        let own_stack = self.take_stack(head, event);
        let of_runtime = event.flags & OF_RUNTIME != 0;
        let is_stub = of_runtime && matches!(event.call, call::STUB | call::STUB_EX);
        let (function, stub) = if is_stub { (0, event.a) } else { (event.a, 0) };
        let GpuEvent { call, b: amount, site, stream, .. } = *event;
        let launch = Launch { head, call, function, stub, amount, site, stream, own_stack };
        let told_of = self.gpu.listener.is_some();
        if of_runtime {
            if told_of {
                self.gpu.kernels.see(launch);
            }
            let before = self.gpu.launches.hold(launch);
            if before.is_some() {
                self.gpu.seen_in_both = None;
            }
            before.iter().for_each(|launch| self.count_launch(launch));
        } else {
            let (before, now) = self.gpu.launches.merge(launch, event.flags & NESTED != 0);
            before.iter().for_each(|launch| self.count_launch(launch));
            if told_of {
                self.gpu.kernels.see(now);
            } else if now.stub != 0 {
                let named = self.gpu.launches.name_of(&now).is_some();
                self.gpu.prove(named);
            }
            self.count_launch(&now);
        }
    }

    /// Takes the stack that was sent with a call; false where there was none.
    pub(crate) fn take_stack(&mut self, head: Head, event: &GpuEvent) -> bool {
        let taken = (event.flags & WITH_STACK != 0).then(|| self.gpu.taken_at(head)).flatten();
        if let Some((stack, whole)) = taken {
            self.gpu.launches.set_stack(head.tid, event.site, stack, whole);
        }
        taken.is_some()
    }

    /// Who launches, and in which stack: without what is launched.
    pub(crate) fn launching(&mut self, launch: &Launch) -> Work {
        let thread = self.processes.thread(launch.head.pid, launch.head.tid, None, &self.out);
        let above = self.gpu.launches.stack_of(launch);
        Work { thread, stack: above.unwrap_or_else(|| self.no_stack()) }
    }

    fn count_launch(&mut self, launch: &Launch) {
        let Work { thread, stack: above } = self.launching(launch);
        self.gpu.launches.count_stack(launch);
        let frame = self.launched_frame(launch);
        let stack = self.out.stack_on(Some(above), frame);
        self.gpu.launches.count(launch, Work { thread, stack });
    }

    /// The frame of what is launched: a kernel by the driver's name or by its host stub, or a mark.
    pub(crate) fn launched_frame(&mut self, launch: &Launch) -> FrameId {
        let mark = match launch.call {
            call::COPY | call::NODE_COPY => Some("[GPU copy]"),
            call::MEMSET | call::NODE_MEMSET => Some("[GPU memset]"),
            call::GRAPH => Some("[GPU graph]"),
            _ => None,
        };
        if let Some(mark) = mark {
            return self.out.frame(bare(FrameKind::Special, mark, "", 0));
        }
        if let Some(name) = self.gpu.launches.name_of(launch) {
            let frame = bare(FrameKind::Gpu, &demangled(name), "", 0);
            return self.out.frame(frame);
        }
        if launch.stub != 0 {
            let place = self.native_frame(launch.head, launch.stub);
            if place.kind == FrameKind::Native {
                let frame = bare(FrameKind::Gpu, &place.name, &place.module, place.address);
                return self.out.frame(frame);
            }
        }
        // Functions are numbers of a process: those of two processes are not the same.
        let number = if launch.function != 0 { launch.function } else { launch.stub };
        let name = format!("[unknown: kernel {number:#x} of process {}]", launch.head.pid);
        self.out.frame(bare(FrameKind::Gpu, &name, "", 0))
    }

    /// What is done between two looks at the ring buffer.
    pub(crate) fn rest_gpu(&mut self, now: KtimeNs) {
        let Some(libraries) = self.gpu.libraries.as_mut() else { return };
        for (pid, read_at, mappings) in self.processes.spaces() {
            if self.gpu.looked_at.insert(pid, read_at) == Some(read_at) {
                continue;
            }
            if let Some(Started { root, search, planted }) = self.gpu.containers.meet(pid) {
                libraries.foresee_below(&root, &search, (pid, read_at));
                if let Some((library, socket)) = planted {
                    libraries.probe_injected_file(&library);
                    if let Some(Err(error)) = self.gpu.listener.as_ref().map(|l| l.listen_to(socket)) {
                        log::warn!("nobody listens to programs below the root of process {pid}: {error}");
                    }
                }
            }
            libraries.look(pid, mappings, read_at);
        }
        let patience = KtimeNs::from_ns(now.as_ns().saturating_sub(PATIENCE_NS));
        self.send_launches(patience, Some(now));
        self.rest_kernels(now);
    }

    /// Nothing comes any more.
    pub(crate) fn finish_gpu(&mut self) {
        self.send_launches(KtimeNs::from_ns(u64::MAX), None);
        self.finish_kernels();
        self.gpu.containers.clear();
    }

    fn send_launches(&mut self, held_before: KtimeNs, done_before: Option<KtimeNs>) {
        let released = self.gpu.launches.release(held_before);
        if !released.is_empty() {
            self.gpu.seen_in_both = None;
        }
        released.iter().for_each(|launch| self.count_launch(launch));
        for record in self.gpu.launches.take(done_before) {
            self.out.send(record);
        }
    }
}
