//! Turns events into records: who ran when, and stacks with what can be known while the process lives.
//!
//! One instance, on the reader's thread. Leaves out reading the ring buffer (`reader`) and native names (`symbolize/`).

use super::background::Strangers;
use super::pauses::{Pauses, Turn};
use crate::probe::bpf::decode::{Event, Head, decode_event};
use crate::probe::bpf::process_maps::Maps;
use crate::probe::gpu::calls::GpuCalls;
use crate::probe::processes::eval_frame::EvalFrames;
use crate::probe::processes::registry::Processes;
use crate::probe::stacks::interner::Interner;
use crate::probe::stacks::libraries::Libraries;
use crate::probe::stacks::python_frames::{ModuleNames, Thread, refresh_codes, see_codes};
use crate::probe::stacks::raw_stacks::RawStacks;
use crate::resolver::Worker;
use crate::symbolize::JitProcess;
use crate::unwind::merge::{Merged, RawStack, eval_frames, merge};
use crate::unwind::seam::settle;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, ProcessKey, StackId, ThreadKey};
use energy_trace_model::recording::record::{
    Occupant, PythonLoss, Record, Sample, Slice, Unseen, Verdict, Wait, Wake,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tracer_ebpf::wire::end;

/// How long a process is remembered after it ended: its last slices may still be on their way.
const GRACE_NS: u64 = 2_000_000_000;
/// So long after the last news of a process it counts as calm.
const CALM_NS: u64 = 1_000_000_000;
/// Records that are kept back at most before they are sent on.
const BATCH: usize = 512;

pub(crate) struct Collector {
    pub(crate) maps: Maps,
    pub(crate) processes: Processes,
    pub(crate) out: Interner,
    /// What user space unwinds.
    pub(crate) raw: RawStacks,
    pub(crate) modules: ModuleNames,
    eval_frames: EvalFrames,
    slices: Vec<Slice>,
    strangers: Strangers,
    /// Where targets ran and could not be seen, and how many samples their time should bring.
    pub(crate) pauses: Pauses,
    unseen: Vec<Unseen>,
    samples: Vec<Sample>,
    /// Samples of processes that may turn out to be Python.
    held: Vec<(Head, ThreadKey, RawStack)>,
    /// Launches on GPUs.
    pub(crate) gpu: GpuCalls,
    waits: Vec<Wait>,
    wakes: Vec<Wake>,
    /// Where each thread last began to wait.
    waited_in: foldhash::HashMap<ThreadKey, StackId>,
    ended: HashMap<Pid, KtimeNs>,
    /// Events that could not be read: none, unless the build is inconsistent.
    pub(crate) damaged: u64,
    /// Frames of Python functions whose code object was gone.
    pub(crate) nameless: u64,
    pub(crate) sampled: u64,
    /// When there last was something to read of a process soon: a new function, a mapping, a process, a call of a GPU library.
    stirred: KtimeNs,
    /// Since when there can be samples, for the log.
    since: KtimeNs,
    /// How many tables were last told of.
    said: usize,
    /// The files of frames, open.
    pub(crate) libraries: Libraries,
    /// Programs with code that was made at run time.
    pub(crate) jit: HashMap<ProcessKey, JitProcess>,
    /// Looks into files for this thread.
    pub(crate) worker: Arc<Worker>,
}

impl Collector {
    pub(crate) fn new(maps: Maps, processes: Processes, out: Interner, worker: Worker) -> Self {
        let worker = Arc::new(worker);
        Self {
            maps,
            processes,
            out,
            raw: RawStacks::new(Arc::clone(&worker)),
            modules: ModuleNames::default(),
            eval_frames: EvalFrames::default(),
            slices: Vec::new(),
            strangers: Strangers::default(),
            pauses: Pauses::new(1, crate::clock::now()),
            unseen: Vec::new(),
            samples: Vec::new(),
            held: Vec::new(),
            gpu: GpuCalls::default(),
            waits: Vec::new(),
            wakes: Vec::new(),
            waited_in: foldhash::HashMap::default(),
            ended: HashMap::new(),
            damaged: 0,
            nameless: 0,
            sampled: 0,
            stirred: crate::clock::now(),
            since: crate::clock::now(),
            said: 0,
            libraries: Libraries::new(Arc::clone(&worker)),
            jit: HashMap::new(),
            worker,
        }
    }

    /// From now on so many samples a second are to be expected.
    pub(crate) fn expect(&mut self, hz: u32, since: KtimeNs) {
        self.pauses = Pauses::new(hz, since);
    }

    /// Takes in one event.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let event = decode_event(bytes);
        if let Some(at) = event.as_ref().and_then(Event::stirs) {
            self.stir(at);
        }
        match event {
            Some(Event::Sample(head, comm, stack)) => self.sample(head, comm.text(), &stack),
            Some(Event::Slice(head, start, ran_ns)) => self.slice(head, start, ran_ns),
            Some(Event::Stranger(head, start, comm)) => {
                self.slices.push(self.strangers.slice(head, start, comm, &self.out));
            }
            Some(Event::Fork(head, child)) => {
                self.ended.remove(&child);
                self.processes.fork(head.pid, child, &mut self.maps, &self.out);
            }
            Some(Event::Exec(head, comm)) => {
                self.release(head.at, Some(head.pid));
                self.processes.meet(head.pid, &self.out);
                self.processes.exec(head.pid, comm.text(), head.at, &self.out);
            }
            Some(Event::Exit(head, comm)) => {
                self.processes.thread(head.pid, head.tid, Some(comm.text()), &self.out);
                self.ended.insert(head.pid, head.at);
                self.pauses.exit(head.tid);
            }
            Some(Event::Mmap(head)) => self.processes.touch(head.pid, head.at),
            Some(Event::Raw(capture)) => self.raw.keep(&capture),
            Some(Event::Wait(head, comm, stack)) => self.wait(head, comm.text(), &stack),
            Some(Event::WaitAgain(head)) => self.wait_again(head),
            Some(Event::Wake(head, pid, tid)) => {
                let waker = self.processes.thread(pid, tid, None, &self.out);
                let thread = self.processes.thread(head.pid, head.tid, None, &self.out);
                self.wakes.push(Wake { at: head.at, thread, waker });
            }
            Some(Event::Gpu(head, event)) => self.gpu_call(head, &event),
            Some(Event::GpuStack(head, comm, stack)) => self.gpu_stack(head, comm.text(), &stack),
            Some(Event::GpuName(head, function, name)) => {
                self.gpu.launches.set_name(head.pid, function, name);
            }
            Some(Event::Codes(head, sights)) => see_codes(&mut self.processes, head, &sights),
            None => self.damaged += 1,
        }
        if self.slices.len() + self.samples.len() + self.waits.len() + self.wakes.len() >= BATCH {
            self.flush();
        }
    }

    fn slice(&mut self, head: Head, start: KtimeNs, ran_ns: u64) {
        let turn = Turn { cpu: head.cpu, tid: head.tid, start, end: head.at, ran_ns };
        self.unseen.extend(self.pauses.turn(turn));
        let who = Occupant::Target(self.processes.thread(head.pid, head.tid, None, &self.out));
        self.slices.push(Slice { cpu: head.cpu, who, start, end: head.at });
    }

    fn sample(&mut self, head: Head, comm: String, raw: &RawStack) {
        self.sampled += 1;
        self.pauses.sample(head.cpu, head.at);
        if self.sampled == 1 {
            self.say_first(head, raw);
        }
        self.processes.meet(head.pid, &self.out).samples += 1;
        let thread = self.processes.thread(head.pid, head.tid, Some(comm), &self.out);
        let unwound = self.raw.unwind(head, raw, &mut self.processes);
        let raw = unwound.as_ref().unwrap_or(raw);
        if raw.python_end == end::NO_INTERPRETER && self.processes.may_be_python(head, crate::clock::now()) {
            self.held.push((head, thread, raw.clone()));
        } else {
            self.record(head, thread, raw);
        }
    }

    /// Records samples that waited for word of an interpreter, or of one process in any case.
    fn release(&mut self, now: KtimeNs, of: Option<Pid>) {
        for (head, thread, raw) in std::mem::take(&mut self.held) {
            if of != Some(head.pid) && self.processes.may_be_python(head, now) {
                self.held.push((head, thread, raw));
            } else {
                self.record(head, thread, &raw);
            }
        }
    }

    fn record(&mut self, head: Head, thread: ThreadKey, raw: &RawStack) {
        let (stack, verdict) = self.whole_stack(head, raw);
        if let Some(stack) = stack {
            self.samples.push(Sample { at: head.at, cpu: head.cpu, thread, stack, verdict });
        }
    }

    /// The stack with native and Python frames in their places, and how whole it is.
    pub(crate) fn whole_stack(&mut self, head: Head, raw: &RawStack) -> (Option<StackId>, Verdict) {
        let interpreter = self.processes.get(head.pid).and_then(|p| p.interpreter);
        let one_chain = || self.processes.has_one_chain(head.pid);
        let settled = interpreter.map(|i| settle(raw, i.layout.seam, |pc| i.is_eval(pc), one_chain));
        let (frames, mut verdict) = merge(settled.as_deref().unwrap_or(raw));
        if raw.python_end == end::NO_INTERPRETER
            && interpreter.is_some_and(|i| raw.native.iter().any(|frame| i.is_eval(frame.pc)))
        {
            verdict = Verdict::PythonLost(PythonLoss::NotReady);
        }
        if self.processes.get(head.pid).is_some_and(|p| p.refused) {
            verdict = Verdict::PythonLost(PythonLoss::UnknownVersion);
        }
        if frames.iter().any(|f| matches!(f, Merged::Python { .. })) {
            refresh_codes(&mut self.processes, head, &frames);
        }
        self.learn_eval_frame(head.pid, raw);
        self.processes.find_thread_variables(head.pid, &mut self.maps);
        let ids: Vec<FrameId> = frames.iter().map(|&frame| self.frame(head, Thread::Ran, frame)).collect();
        (self.out.stack(head.tid, Thread::Ran, &ids), verdict)
    }

    /// A Python thread goes to sleep.
    fn wait(&mut self, head: Head, comm: String, raw: &RawStack) {
        let thread = self.processes.thread(head.pid, head.tid, Some(comm), &self.out);
        let (frames, _) = merge(raw);
        refresh_codes(&mut self.processes, head, &frames);
        let ids: Vec<FrameId> = frames.iter().map(|&frame| self.frame(head, Thread::Slept, frame)).collect();
        if let Some(stack) = self.out.stack(head.tid, Thread::Slept, &ids) {
            self.waited_in.insert(thread, stack);
            self.waits.push(Wait { at: head.at, thread, stack });
        }
    }

    fn wait_again(&mut self, head: Head) {
        let thread = self.processes.thread(head.pid, head.tid, None, &self.out);
        if let Some(&stack) = self.waited_in.get(&thread) {
            self.waits.push(Wait { at: head.at, thread, stack });
        }
    }

    /// Learns from whole stacks, until this process's probes know.
    fn learn_eval_frame(&mut self, pid: Pid, raw: &RawStack) {
        let Some(space) = self.processes.unlearned(pid) else { return };
        for (distance, pc) in eval_frames(raw) {
            let saved_rbp = || self.raw.saved_rbp(pid, space, pc);
            if let Some(learned) = self.eval_frames.observe(space, distance, pc, saved_rbp) {
                self.processes.learn_eval_frame(pid, learned, &mut self.maps);
                return;
            }
        }
    }

    /// Looks at all processes that are known and waits for the tables of what they have mapped.
    pub(crate) fn ready_tables(&mut self) {
        let now = crate::clock::now();
        self.processes.refresh(&mut self.maps, &self.out, HashSet::new(), now);
        let news = self.processes.files.take_news(true);
        self.processes.refresh(&mut self.maps, &self.out, news, now);
        self.since = crate::clock::now();
    }

    /// Whether news of files is on its way.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.processes.files.is_busy()
    }

    /// Something is to be read of a process, and more may follow.
    pub(crate) fn stir(&mut self, at: KtimeNs) {
        self.stirred = self.stirred.max(at);
    }

    /// Whether nothing is to be read of any process soon, so that it does no harm to come late.
    pub(crate) const fn is_calm(&self, now: KtimeNs) -> bool {
        now.ns_since(self.stirred) > CALM_NS
    }

    /// What is done between two looks at the ring buffer.
    pub(crate) fn rest(&mut self, now: KtimeNs) {
        let news = self.processes.files.take_news(false);
        self.processes.refresh(&mut self.maps, &self.out, news, now);
        self.release(now, None);
        self.rest_gpu(now);
        self.say_tables();
        self.forget_ended(now);
        self.flush();
    }

    /// With `-v`: what the tables take, whenever all that were begun are there.
    fn say_tables(&mut self) {
        let (tables, bytes) = self.processes.files.in_memory();
        if !self.processes.files.is_busy() && std::mem::replace(&mut self.said, tables) != tables {
            let (mib, ms) = (bytes as f64 / f64::from(1 << 20), self.ms_of(crate::clock::now()));
            log::info!("unwind tables: {tables} in {mib:.1} MiB, {ms:.1} ms after the start");
        }
    }

    /// With `-v`: when the first sample came, and from where.
    fn say_first(&self, head: Head, raw: &RawStack) {
        let space = self.processes.get(head.pid).map(|process| &process.space);
        let place = |pc: u64| space.and_then(|s| s.find(pc)).map_or("unknown code", |m| m.path.as_str());
        let outermost = raw.native.last().map_or("the kernel", |frame| place(frame.pc));
        let ms = self.ms_of(head.at);
        log::info!("first sample: {ms:.1} ms after the start, outermost frame in {outermost}");
    }

    fn ms_of(&self, at: KtimeNs) -> f64 {
        at.as_ns().saturating_sub(self.since.as_ns()) as f64 / 1e6
    }

    fn forget_ended(&mut self, now: KtimeNs) {
        let over: Vec<(Pid, KtimeNs)> = self
            .ended
            .iter()
            .filter(|(_, at)| now.ns_since(**at) > GRACE_NS)
            .map(|(&pid, &at)| (pid, at))
            .collect();
        for (pid, at) in over {
            self.ended.remove(&pid);
            if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
                self.maps.remove_process(pid, at.as_ns());
                self.processes.forget(pid);
                self.modules.forget(pid);
                self.gpu.forget(pid);
                self.gpu.kernels.forget(pid);
            }
        }
    }

    /// Sends all that was kept back; nothing comes any more.
    pub(crate) fn finish(&mut self) {
        // Later than any waits.
        self.release(KtimeNs::from_ns(u64::MAX), None);
        self.finish_gpu();
        self.flush();
    }

    /// Sends what was kept back.
    pub(crate) fn flush(&mut self) {
        if !self.slices.is_empty() {
            self.out.send(Record::Slices(std::mem::take(&mut self.slices)));
        }
        if !self.unseen.is_empty() {
            self.out.send(Record::Unseen(std::mem::take(&mut self.unseen)));
        }
        if !self.samples.is_empty() {
            self.out.send(Record::Samples(std::mem::take(&mut self.samples)));
        }
        if !self.waits.is_empty() {
            self.out.send(Record::Waits(std::mem::take(&mut self.waits)));
        }
        if !self.wakes.is_empty() {
            self.out.send(Record::Wakes(std::mem::take(&mut self.wakes)));
        }
    }
}
