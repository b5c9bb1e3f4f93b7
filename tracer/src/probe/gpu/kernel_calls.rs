//! Turns what the injected library tells into records: the collector's part of the kernel tier, which needs frames, threads and processes.
//!
//! Leaves out listening (`listener`) and whose records are whose (`kernels`).

use super::graph_calls::is_of_node;
use super::{Kernels, Launch, Listener, Part, Said, Told, Waiting, What, Work};
use crate::probe::bpf::decode::Head;
use crate::probe::collect::collector::Collector;
use crate::probe::processes::process::read_text;
use crate::probe::stacks::frames::bare;
use crate::unwind::merge::RawStack;
use energy_trace_cupti::wire::{Frame, Tick};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, StackId, Tid};
use energy_trace_model::recording::record::{
    FrameKind, GpuBusy, KernelFallback, LaunchDiagnostic, NotTimed, Record, RecordingDiagnostic,
};
use std::time::Duration;
use tracer_ebpf::gpu::{GpuEvent, UNSEEN, call};

/// How long programs may take to hang up, at the end of a recording.
const GOODBYE: Duration = Duration::from_millis(400);
/// `u32::MAX` in place of the number of a name: a copy, a memset, a graph.
const NAMELESS: u64 = 0xffff_ffff;
/// The libraries of a call that is told of from within.
const OURS: [&str; 3] = ["libenergy_trace_cupti", "libcupti", "libcuda.so"];

/// Records that wait for their launch at most.
const MOST_WAITING: usize = 1 << 19;

impl Collector {
    /// The library tells of the launch that its thread has just made.
    pub(crate) fn gpu_launched(&mut self, head: Head, event: &GpuEvent) {
        // A node that the library did not tell of is not what it tells of now.
        let is_told =
            |launch: &Launch| event.flags & UNSEEN == 0 && (event.stream != 0 || !is_of_node(launch.call));
        let seen = self.gpu.kernels.told(head.tid).filter(is_told);
        let launch = seen.unwrap_or_else(|| self.unseen_launch(head, event));
        let work = self.launching(&launch);
        if is_of_node(launch.call) {
            let what = self.node_what(&launch);
            self.gpu.launches.own_node(head.pid, event.stream, work, what);
            return;
        }
        let what = match launch.call {
            call::COPY => What::Copy,
            call::MEMSET => What::Memset,
            _ if event.b == NAMELESS => What::Copy,
            _ => What::Kernel(u32::try_from(event.b).unwrap_or(u32::MAX)),
        };
        if self.gpu.launches.capture_named(&launch, what, event.stream, work) {
            return;
        }
        let is_graph = launch.call == call::GRAPH;
        let graph = is_graph.then(|| self.gpu.launches.content_of(head.pid, launch.function)).flatten();
        let correlation = u32::try_from(event.a).unwrap_or(u32::MAX);
        self.gpu.kernels.await_records(&launch, work, correlation, graph);
    }

    /// A launch whose call no probe saw: its stack is that of the library's call.
    fn unseen_launch(&mut self, head: Head, event: &GpuEvent) -> Launch {
        let own_stack = self.take_stack(head, event);
        let (function, stub, amount, stream) = (0, 0, 0, 0);
        let launch =
            Launch { head, call: call::LAUNCH, function, stub, amount, site: event.site, stream, own_stack };
        self.gpu.launches.count_stack(&launch);
        launch
    }

    /// Takes the frames of the library, of CUPTI and of the driver off a stack that was taken in the library.
    pub(crate) fn without_ours(&self, pid: Pid, raw: &RawStack) -> Option<RawStack> {
        let space = &self.processes.get(pid)?.space;
        let of = |pc: u64| space.find(pc).map_or("", |m| m.path.rsplit('/').next().unwrap_or_default());
        let first = raw.native.first()?;
        if !of(first.pc).starts_with(OURS[0]) {
            return None;
        }
        let ours = |pc: u64| OURS.iter().any(|name| of(pc).starts_with(name));
        let mut raw = raw.clone();
        let kept = raw.native.iter().position(|frame| !ours(frame.pc)).unwrap_or(0);
        raw.native.drain(..kept);
        Some(raw)
    }

    /// What is done with the kernel tier between two looks at the ring buffer.
    pub(crate) fn rest_kernels(&mut self, now: KtimeNs) {
        let Some(listener) = &self.gpu.listener else { return };
        listener.introduce(|pid| self.processes.get(pid).is_some());
        for told in listener.take() {
            self.kernels_told(told, now);
        }
        for waiting in std::mem::take(&mut self.gpu.kernels.waiting) {
            self.place(waiting, now, Kernels::is_hopeless(&waiting, now));
        }
        let busy = self.gpu.kernels.take(now);
        if !busy.is_empty() {
            self.out.send(Record::GpuBusy(busy));
        }
    }

    /// Nothing comes any more but what programs send as they end.
    pub(crate) fn finish_kernels(&mut self) {
        let Some(listener) = &self.gpu.listener else { return };
        listener.wait(GOODBYE, |pid| self.processes.get(pid).is_some());
        self.gpu.turned_away = listener.turned_away();
        let now = crate::clock::now();
        self.rest_kernels(now);
        for waiting in std::mem::take(&mut self.gpu.kernels.waiting) {
            self.place(waiting, now, true);
        }
        self.gpu.listener = None;
        let busy = self.gpu.kernels.take(now);
        self.out.send(Record::GpuBusy(busy));
        for program in self.gpu.kernels.programs.values().filter(|program| program.tier.cupti != 0) {
            self.out.send(Record::KernelTier(program.tier.clone()));
        }
    }

    fn kernels_told(&mut self, told: Told, now: KtimeNs) {
        let Told { connection, pid, what, .. } = told;
        let kernels = &mut self.gpu.kernels;
        match what {
            // Who is no target has no business here.
            Said::Frame(Frame::Hello { .. }) if self.processes.get(pid).is_none() => {}
            Said::Frame(Frame::Hello { cupti, trouble, .. }) => {
                if kernels.hello(connection, pid, cupti, trouble) {
                    self.gpu.launches.forget_nodes(pid);
                }
            }
            Said::Frame(Frame::Name(number, name)) => kernels.name(connection, number, &name),
            Said::Frame(Frame::Tick(tick)) => self.tick(connection, tick, now),
            Said::Frame(Frame::End) => {
                if let Some(program) = kernels.programs.get_mut(&connection) {
                    program.tier.whole = true;
                }
            }
            Said::Nonsense(why) => {
                if let Some(program) = kernels.programs.get_mut(&connection) {
                    program.trouble = Some(NotTimed::Nonsense(format!("{why:?}")));
                }
            }
            Said::End => {}
        }
    }

    fn tick(&mut self, connection: u64, tick: Tick, now: KtimeNs) {
        let Some(program) = self.gpu.kernels.programs.get_mut(&connection) else { return };
        let tier = &mut program.tier;
        (tier.launches, tier.dropped, tier.untimed) = (tick.launches, tick.dropped, tick.untimed);
        tier.cost_ns = tick.cost_ns;
        tier.ran += tick.sums.iter().map(|sum| u64::from(sum.count)).sum::<u64>();
        if self.gpu.kernels.waiting.len() > MOST_WAITING {
            self.gpu.kernels.unheard += tick.sums.len() as u64;
            return;
        }
        let waiting = tick.sums.into_iter().map(|sum| Waiting { connection, sum, since: now });
        self.gpu.kernels.waiting.extend(waiting);
    }

    /// Gives records to the stacks of their launch; `hopeless`: to none, if it is not known.
    fn place(&mut self, waiting: Waiting, now: KtimeNs, hopeless: bool) {
        let Waiting { connection, sum, .. } = waiting;
        let parts = match self.gpu.kernels.parts(&self.gpu.launches, &waiting, now) {
            Some(parts) => parts,
            None if hopeless => self.unplaced(&waiting),
            None => {
                self.gpu.kernels.waiting.push(waiting);
                return;
            }
        };
        let Some(program) = self.gpu.kernels.programs.get(&connection) else { return };
        let pid = Pid::new(program.tier.pid);
        let name = program.name(sum.name).to_owned();
        let frame = self.done_frame(&name);
        let space = self.processes.get(pid).map(|process| process.space.mappings());
        let device = self.gpu.index_of(pid, sum.device, space.unwrap_or_default());
        if device == u32::MAX {
            self.gpu.launches.strays += u64::from(sum.count);
            return;
        }
        for Part { work, launched, busy_ns, count } in parts {
            let stack = self.out.stack_on(Some(work.stack), frame);
            let (from, until) = (KtimeNs::from_ns(sum.start_ns), KtimeNs::from_ns(sum.end_ns));
            let thread = work.thread;
            self.gpu.kernels.add(GpuBusy { device, thread, stack, launched, from, until, count, busy_ns });
        }
    }

    /// Records of a launch that nobody saw: the process's, in no stack.
    fn unplaced(&mut self, waiting: &Waiting) -> Vec<Part> {
        let sum = waiting.sum;
        let Some(program) = self.gpu.kernels.programs.get_mut(&waiting.connection) else { return vec![] };
        program.tier.unplaced += u64::from(sum.count);
        let pid = Pid::new(program.tier.pid);
        let thread = self.processes.thread(pid, Tid::new(pid.get()), None, &self.out);
        let work = Work { thread, stack: self.no_stack() };
        let launched = KtimeNs::from_ns(sum.start_ns);
        vec![Part { work, launched, busy_ns: sum.busy_ns, count: sum.count.into() }]
    }

    /// The frame of what was done: a kernel, or a mark for a copy or memset.
    fn done_frame(&mut self, name: &str) -> FrameId {
        let mark = name.strip_prefix("[copy").map(|which| format!("[GPU copy{which}"));
        let mark = mark.or_else(|| (name == "[memset]").then(|| "[GPU memset]".to_owned()));
        match mark {
            Some(mark) => self.out.frame(bare(FrameKind::Special, &mark, "", 0)),
            None => self.out.frame(bare(FrameKind::Gpu, name, "", 0)),
        }
    }

    /// A stack that says that none is known.
    pub(crate) fn no_stack(&mut self) -> StackId {
        let mark = self.out.frame(bare(FrameKind::Special, super::calls::NO_STACK, "", 0));
        self.out.stack_on(None, mark)
    }

    /// Why the kernel tier tells nothing of a process, or of any, and what it lost.
    pub(crate) fn kernel_diagnostics(&self) -> Vec<RecordingDiagnostic> {
        let programs = &self.gpu.kernels.programs;
        let mut fallbacks: Vec<KernelFallback> = programs
            .values()
            .filter_map(|program| {
                let (pid, trouble) = (Pid::new(program.tier.pid), program.trouble.clone()?);
                Some(self.not_timed(pid, trouble))
            })
            .collect();
        let refused = self.gpu.containers.refusals();
        let silent: Vec<Pid> = self.gpu.kernels.silent().filter(|_| refused.is_empty()).collect();
        fallbacks.extend(silent.iter().map(|pid| self.not_timed(*pid, NotTimed::NotLoaded)));
        if self.gpu.injected && programs.is_empty() && refused.is_empty() && silent.is_empty() {
            fallbacks.push(KernelFallback::NotLoaded);
        }
        fallbacks.extend(refused);
        let found = fallbacks.into_iter().map(LaunchDiagnostic::KernelFallback).chain(self.flood());
        found.map(RecordingDiagnostic::from).collect()
    }

    /// What was sent and not taken in.
    fn flood(&self) -> Option<LaunchDiagnostic> {
        let ((messages, refused), records) = (self.gpu.turned_away, self.gpu.kernels.unheard);
        (messages + records > 0).then_some(LaunchDiagnostic::KernelFlood { messages, records, refused })
    }

    fn not_timed(&self, pid: Pid, reason: NotTimed) -> KernelFallback {
        let name = read_text(&format!("/proc/{pid}/comm"));
        let known = self.processes.get(pid).map_or(name, |process| process.record.name.clone());
        KernelFallback::Process { pid: pid.get(), name: known.trim().to_owned(), reason }
    }

    /// Begins to listen to injected libraries.
    pub(crate) fn listen(&mut self, listener: Listener) {
        self.gpu.listener = Some(listener);
        self.gpu.injected = true;
    }
}
