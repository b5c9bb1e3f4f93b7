//! Turns what the injected library reports into records, with the frames, threads and processes that belong to them: the kernel tier.
//!
//! Leaves out listening (`listener`) and whose records are whose (`kernels`).

use super::calls::{LaunchCollector, no_stack};
use super::launch::{Launch, Launcher, is_of_node};
use super::{Kernels, Listener, Message, Operation, Part, Received, Waiting};
use crate::processes::process::read_name;
use crate::processes::registry::Processes;
use crate::stacks::builder::StackBuilder;
use crate::stacks::interner::{Interner, bare};
use energy_trace_bpf::decode::EventContext;
use energy_trace_cupti::wire::{Frame, Tick};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, Tid};
use energy_trace_model::recording::record::{
    FrameKind, GpuBusy, KernelFallback, LaunchDiagnostic, NotTimed, Record,
};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_unwind::merge::WalkedStack;
use std::time::Duration;
use tracer_ebpf::gpu::{GpuEvent, UNMATCHED, call};

/// How long programs may take to hang up, at the end of a recording.
const HANG_UP: Duration = Duration::from_millis(400);
/// `u32::MAX` in place of the number of a name: a copy, a memset, a graph.
const NAMELESS: u64 = 0xffff_ffff;
/// The libraries of a call that is reported from within.
const OURS: [&str; 3] = ["libenergy_trace_cupti", "libcupti", "libcuda.so"];

/// Records that wait for their launch at most.
const MOST_WAITING: usize = 1 << 19;

/// What injected libraries tell, and where they are listened to.
#[derive(Default)]
pub(super) struct KernelCollector {
    kernels: Kernels,
    listener: Option<Listener>,
    /// Messages that found no room at the listener, and connections that it refused.
    rejected: (u64, u64),
    /// Whether programs were asked to load the library.
    injected: bool,
}

impl KernelCollector {
    /// Begins to listen to injected libraries.
    pub(super) fn listen(&mut self, listener: Listener) {
        self.listener = Some(listener);
        self.injected = true;
    }

    /// Who listens, while anybody does.
    pub(super) const fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }

    /// Whether programs were asked to load the library.
    pub(super) const fn is_injected(&self) -> bool {
        self.injected
    }

    /// A launch that a library may report; false where nobody listens.
    pub(super) fn note_launch(&mut self, launch: Launch) -> bool {
        let listens = self.listener.is_some();
        if listens {
            self.kernels.note_launch(launch);
        }
        listens
    }

    /// The library reports the launch that its thread has just made.
    pub(super) fn launched(
        &mut self,
        head: EventContext,
        event: &GpuEvent,
        launches: &mut LaunchCollector,
        stacks: &mut StackBuilder,
    ) {
        // A node that the library did not report is not what it reports now.
        let is_reported =
            |launch: &Launch| event.flags & UNMATCHED == 0 && (event.stream != 0 || !is_of_node(launch.call));
        let seen = self.kernels.matched(head.tid).filter(is_reported);
        let launch = seen.unwrap_or_else(|| unseen_launch(head, event, launches));
        let work = launches.caller(&launch, stacks);
        if is_of_node(launch.call) {
            let what = launches.node_what(&launch);
            launches.counter.own_node(head.pid, event.stream, work, what);
            return;
        }
        let what = match launch.call {
            call::COPY => Operation::Copy,
            call::MEMSET => Operation::Memset,
            _ if event.b == NAMELESS => Operation::Copy,
            _ => Operation::Kernel(u32::try_from(event.b).unwrap_or(u32::MAX)),
        };
        if launches.counter.capture_named(&launch, what, event.stream, work) {
            return;
        }
        let is_graph = launch.call == call::GRAPH;
        let graph = is_graph.then(|| launches.counter.content_of(head.pid, launch.function)).flatten();
        let correlation = u32::try_from(event.a).unwrap_or(u32::MAX);
        self.kernels.await_records(&launch, work, correlation, graph);
    }

    /// What is done with the kernel tier between two looks at the ring buffer.
    pub(super) fn housekeeping(
        &mut self,
        now: KtimeNs,
        launches: &mut LaunchCollector,
        stacks: &mut StackBuilder,
    ) {
        let Some(listener) = &self.listener else { return };
        listener.verify(|pid| stacks.processes.get(pid).is_some());
        for received in listener.take() {
            self.received(received, now, launches, stacks);
        }
        for waiting in std::mem::take(&mut self.kernels.waiting) {
            self.place(waiting, now, Kernels::is_overdue(&waiting, now), launches, stacks);
        }
        let busy = self.kernels.take(now);
        if !busy.is_empty() {
            stacks.out.send(Record::GpuBusy(busy));
        }
    }

    /// Nothing comes any more but what programs send as they end.
    pub(super) fn finish(&mut self, launches: &mut LaunchCollector, stacks: &mut StackBuilder) {
        let Some(listener) = &self.listener else { return };
        listener.wait(HANG_UP, |pid| stacks.processes.get(pid).is_some());
        self.rejected = listener.rejected();
        let now = energy_trace_system::clock::now();
        self.housekeeping(now, launches, stacks);
        for waiting in std::mem::take(&mut self.kernels.waiting) {
            self.place(waiting, now, true, launches, stacks);
        }
        self.listener = None;
        let busy = self.kernels.take(now);
        stacks.out.send(Record::GpuBusy(busy));
        for program in self.kernels.programs.values().filter(|program| program.tier.cupti != 0) {
            stacks.out.send(Record::KernelTier(program.tier.clone()));
        }
    }

    fn received(
        &mut self,
        received: Received,
        now: KtimeNs,
        launches: &mut LaunchCollector,
        stacks: &StackBuilder,
    ) {
        let Received { connection, pid, message, .. } = received;
        let kernels = &mut self.kernels;
        match message {
            // Who is no target has no business here.
            Message::Frame(Frame::Hello { .. }) if stacks.processes.get(pid).is_none() => {}
            Message::Frame(Frame::Hello { cupti, trouble, .. }) => {
                if kernels.hello(connection, pid, cupti, trouble) {
                    launches.counter.forget_nodes(pid);
                }
            }
            Message::Frame(Frame::Name(number, name)) => kernels.name(connection, number, &name),
            Message::Frame(Frame::Tick(tick)) => self.tick(connection, tick, now),
            Message::Frame(Frame::End) => {
                if let Some(program) = kernels.programs.get_mut(&connection) {
                    program.tier.whole = true;
                }
            }
            Message::Nonsense(why) => {
                if let Some(program) = kernels.programs.get_mut(&connection) {
                    program.trouble = Some(NotTimed::Nonsense(format!("{why:?}")));
                }
            }
            Message::End => {}
        }
    }

    fn tick(&mut self, connection: u64, tick: Tick, now: KtimeNs) {
        let Some(program) = self.kernels.programs.get_mut(&connection) else { return };
        let tier = &mut program.tier;
        (tier.launches, tier.dropped, tier.untimed) = (tick.launches, tick.dropped, tick.untimed);
        tier.cost_ns = tick.cost_ns;
        tier.ran += tick.sums.iter().map(|sum| u64::from(sum.count)).sum::<u64>();
        if self.kernels.waiting.len() > MOST_WAITING {
            self.kernels.overflowed += tick.sums.len() as u64;
            return;
        }
        let waiting = tick.sums.into_iter().map(|sum| Waiting { connection, sum, since: now });
        self.kernels.waiting.extend(waiting);
    }

    /// Gives records to the stacks of their launch; `hopeless`: to none, if it is not known.
    fn place(
        &mut self,
        waiting: Waiting,
        now: KtimeNs,
        overdue: bool,
        launches: &mut LaunchCollector,
        stacks: &mut StackBuilder,
    ) {
        let Waiting { connection, sum, .. } = waiting;
        let parts = match self.kernels.parts(&launches.counter, &waiting, now) {
            Some(parts) => parts,
            None if overdue => self.unplaced(&waiting, stacks),
            None => {
                self.kernels.waiting.push(waiting);
                return;
            }
        };
        let Some(program) = self.kernels.programs.get(&connection) else { return };
        let pid = Pid::new(program.tier.pid);
        let name = program.name(sum.name).to_owned();
        let frame = done_frame(&name, &mut stacks.out);
        let space = stacks.processes.get(pid).map(|process| process.space.mappings());
        let device = launches.index_of(pid, sum.device, space.unwrap_or_default(), &stacks.processes.peeker);
        if device == u32::MAX {
            launches.counter.without_device += u64::from(sum.count);
            return;
        }
        for Part { work, replayed_by, launched, busy_ns, count } in parts {
            let replayed = |by| launches.replays.of(by, work.stack, &mut stacks.out);
            let work = replayed_by.map_or(work, replayed);
            let stack = stacks.out.stack_on(Some(work.stack), frame);
            let (from, until) = (KtimeNs::from_ns(sum.start_ns), KtimeNs::from_ns(sum.end_ns));
            let thread = work.thread;
            self.kernels.add(GpuBusy { device, thread, stack, launched, from, until, count, busy_ns });
        }
    }

    /// Records of a launch that nobody saw: the process's, in no stack.
    fn unplaced(&mut self, waiting: &Waiting, stacks: &mut StackBuilder) -> Vec<Part> {
        let sum = waiting.sum;
        let Some(program) = self.kernels.programs.get_mut(&waiting.connection) else { return vec![] };
        program.tier.unplaced += u64::from(sum.count);
        let pid = Pid::new(program.tier.pid);
        let thread = stacks.thread(pid, Tid::new(pid.get()), None);
        let work = Launcher { thread, stack: no_stack(&mut stacks.out) };
        let launched = KtimeNs::from_ns(sum.start_ns);
        vec![Part { work, replayed_by: None, launched, busy_ns: sum.busy_ns, count: sum.count.into() }]
    }

    /// Why the kernel tier tells nothing of a process, or of any, and what it lost. `refused`: roots below which its library is not found.
    pub(super) fn diagnostics(
        &self,
        refused: Vec<KernelFallback>,
        processes: &Processes,
    ) -> Vec<LaunchDiagnostic> {
        let programs = &self.kernels.programs;
        let mut fallbacks: Vec<KernelFallback> = programs
            .values()
            .filter_map(|program| {
                let (pid, trouble) = (Pid::new(program.tier.pid), program.trouble.clone()?);
                Some(not_timed(processes, pid, trouble))
            })
            .collect();
        let no_reply: Vec<Pid> = self.kernels.no_reply().filter(|_| refused.is_empty()).collect();
        fallbacks.extend(no_reply.iter().map(|pid| not_timed(processes, *pid, NotTimed::NotLoaded)));
        if self.injected && programs.is_empty() && refused.is_empty() && no_reply.is_empty() {
            fallbacks.push(KernelFallback::NotLoaded);
        }
        fallbacks.extend(refused);
        fallbacks.into_iter().map(LaunchDiagnostic::KernelFallback).chain(self.flood()).collect()
    }

    /// What was sent and not taken in.
    fn flood(&self) -> Option<LaunchDiagnostic> {
        let ((messages, refused), records) = (self.rejected, self.kernels.overflowed);
        (messages + records > 0).then_some(LaunchDiagnostic::KernelFlood { messages, records, refused })
    }

    /// Forgets a process that ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.kernels.forget(pid);
        self.listener.iter().for_each(|listener| listener.forget(pid));
    }
}

/// A launch whose call no probe saw: its stack is that of the library's call.
fn unseen_launch(head: EventContext, event: &GpuEvent, launches: &mut LaunchCollector) -> Launch {
    let own_stack = launches.take_stack(head, event);
    let (function, stub, amount, stream, stands_for) = (0, 0, 0, 0, 1);
    let (call, site) = (call::LAUNCH, event.site);
    let launch = Launch { head, call, function, stub, amount, site, stream, own_stack, stands_for };
    launches.counter.count_stack(&launch);
    launch
}

/// Takes the frames of the library, of CUPTI and of the driver off a stack that was taken in the library.
pub(super) fn without_ours(pid: Pid, raw: &WalkedStack, processes: &Processes) -> Option<WalkedStack> {
    let space = &processes.get(pid)?.space;
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

/// The frame of what was done: a kernel, or a mark for a copy or memset.
fn done_frame(name: &str, out: &mut Interner) -> FrameId {
    let mark =
        name.strip_prefix("[copy").map(|which| bare(FrameKind::Special, &format!("[GPU copy{which}"), "", 0));
    let mark = mark.or_else(|| (name == "[memset]").then(|| SyntheticFrame::GpuMemset.frame()));
    match mark {
        Some(mark) => out.frame(mark),
        None => out.frame(bare(FrameKind::Gpu, name, "", 0)),
    }
}

fn not_timed(processes: &Processes, pid: Pid, reason: NotTimed) -> KernelFallback {
    let name = read_name(&pid.to_string());
    let known = processes.get(pid).map_or(name, |process| process.record.name.clone());
    KernelFallback::Process { pid: pid.get(), name: known.trim().to_owned(), reason }
}
