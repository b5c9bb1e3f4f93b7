//! Turns events into records: who ran when, and stacks with what can be known while the process lives.
//!
//! One instance, on the reader's thread. Leaves out reading the ring buffer (`reader`) and native names (`symbolize/`).

use super::decode::{Event, Head, decode_event};
use super::eval_frame::EvalFrames;
use super::interner::Interner;
use super::object::Maps;
use super::processes::Processes;
use super::python_frames::{ModuleNames, python_frame, refresh_codes};
use crate::clock::KtimeNs;
use crate::ids::{FrameId, Pid, StackId, ThreadKey};
use crate::profile::record::{
    Frame, FrameKind, Occupant, PythonLoss, Record, Sample, Slice, Verdict, Wait, Wake,
};
use crate::symbolize::JIT;
use crate::unwind::merge::{Merged, RawStack, eval_frames, merge};
use crate::unwind::seam::settle;
use crate::unwind::vdso::is_vdso;
use std::collections::HashMap;

/// How long a process is remembered after it ended: its last slices may still be on their way.
const GRACE_NS: u64 = 2_000_000_000;
/// Records that are kept back at most before they are sent on.
const BATCH: usize = 512;

pub(super) struct Collector {
    pub(super) maps: Maps,
    pub(super) processes: Processes,
    pub(super) out: Interner,
    modules: ModuleNames,
    eval_frames: EvalFrames,
    slices: Vec<Slice>,
    samples: Vec<Sample>,
    waits: Vec<Wait>,
    wakes: Vec<Wake>,
    /// Where each thread last began to wait.
    waited_in: HashMap<ThreadKey, StackId>,
    ended: HashMap<Pid, KtimeNs>,
    /// Events that could not be read: none, unless the build is inconsistent.
    pub(super) damaged: u64,
    /// Frames of Python functions whose code object was gone.
    pub(super) nameless: u64,
    pub(super) sampled: u64,
    /// Frames in code that was made at run time: the process and the address.
    pub(super) jit: HashMap<FrameId, (Pid, u64)>,
}

impl Collector {
    pub(super) fn new(maps: Maps, processes: Processes, out: Interner) -> Self {
        Self {
            maps,
            processes,
            out,
            modules: ModuleNames::default(),
            eval_frames: EvalFrames::default(),
            slices: Vec::new(),
            samples: Vec::new(),
            waits: Vec::new(),
            wakes: Vec::new(),
            waited_in: HashMap::new(),
            ended: HashMap::new(),
            damaged: 0,
            nameless: 0,
            sampled: 0,
            jit: HashMap::new(),
        }
    }

    /// Takes in one event.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        match decode_event(bytes) {
            Some(Event::Sample(head, comm, stack)) => self.sample(head, comm.text(), &stack),
            Some(Event::Slice(head, start)) => self.slice(head, start),
            Some(Event::Fork(head, child)) => {
                self.ended.remove(&child);
                self.processes.fork(head.pid, child, &mut self.maps, &self.out);
            }
            Some(Event::Exec(head, comm)) => {
                self.processes.meet(head.pid, &self.out);
                self.processes.exec(head.pid, comm.text(), head.at, &self.out);
            }
            Some(Event::Exit(head, comm)) => {
                self.processes.thread(head.pid, head.tid, Some(comm.text()), &self.out);
                self.ended.insert(head.pid, head.at);
            }
            Some(Event::Mmap(head)) => self.processes.touch(head.pid, head.at),
            Some(Event::Wait(head, comm, stack)) => self.wait(head, comm.text(), &stack),
            Some(Event::WaitAgain(head)) => self.wait_again(head),
            Some(Event::Wake(head, pid, tid)) => {
                let waker = self.processes.thread(pid, tid, None, &self.out);
                let thread = self.processes.thread(head.pid, head.tid, None, &self.out);
                self.wakes.push(Wake { at: head.at, thread, waker });
            }
            None => self.damaged += 1,
        }
        if self.slices.len() + self.samples.len() + self.waits.len() + self.wakes.len() >= BATCH {
            self.flush();
        }
    }

    fn slice(&mut self, head: Head, start: KtimeNs) {
        let who = if head.pid.get() == 0 {
            Occupant::Other
        } else {
            Occupant::Target(self.processes.thread(head.pid, head.tid, None, &self.out))
        };
        self.slices.push(Slice { cpu: head.cpu, who, start, end: head.at });
    }

    fn sample(&mut self, head: Head, comm: String, raw: &RawStack) {
        self.sampled += 1;
        self.processes.meet(head.pid, &self.out).samples += 1;
        let thread = self.processes.thread(head.pid, head.tid, Some(comm), &self.out);
        let interpreter = self.processes.get(head.pid).and_then(|p| p.interpreter);
        let settled = interpreter.map(|i| settle(raw, i.layout.seam, |pc| i.is_eval(pc)));
        let (frames, mut verdict) = merge(settled.as_deref().unwrap_or(raw));
        if self.processes.get(head.pid).is_some_and(|p| p.refused) {
            verdict = Verdict::PythonLost(PythonLoss::UnknownVersion);
        }
        if frames.iter().any(|f| matches!(f, Merged::Python { .. })) {
            refresh_codes(&mut self.processes, head.pid, &frames);
        }
        self.learn_eval_frame(head.pid, raw);
        let ids: Vec<FrameId> = frames.iter().map(|&frame| self.frame(head, frame)).collect();
        if let Some(stack) = self.out.stack(&ids) {
            self.samples.push(Sample { at: head.at, cpu: head.cpu, thread, stack, verdict });
        }
    }

    /// A Python thread goes to sleep.
    fn wait(&mut self, head: Head, comm: String, raw: &RawStack) {
        let thread = self.processes.thread(head.pid, head.tid, Some(comm), &self.out);
        let (frames, _) = merge(raw);
        refresh_codes(&mut self.processes, head.pid, &frames);
        let ids: Vec<FrameId> = frames.iter().map(|&frame| self.frame(head, frame)).collect();
        if let Some(stack) = self.out.stack(&ids) {
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
        let Some((interpreter, space)) = self.processes.unlearned(pid) else { return };
        let space = space.clone();
        for (distance, pc) in eval_frames(raw) {
            if let Some(learned) =
                self.eval_frames.observe(pid, &space, &mut self.processes.files, distance, pc)
            {
                let mut layout = interpreter.layout.walker(interpreter.runtime);
                (layout.eval_cfa, layout.eval_rbp) = (learned.cfa, learned.rbp);
                self.maps.set_python(pid, &layout);
                self.processes.learned(pid);
                return;
            }
        }
    }

    fn frame(&mut self, head: Head, frame: Merged) -> FrameId {
        let frame = match frame {
            Merged::Kernel(address) => bare(FrameKind::Kernel, "", "", address),
            Merged::Mark(mark) => bare(FrameKind::Special, mark, "", 0),
            Merged::Native(pc) => self.native_frame(head, pc),
            Merged::Python { code, instruction } => {
                match python_frame(&self.processes, &mut self.modules, head.pid, code, instruction) {
                    Some(frame) => frame,
                    None => {
                        self.nameless += 1;
                        log::debug!("no code object at {code:#x} in process {}", head.pid);
                        bare(FrameKind::Special, "[unknown: Python function that is gone]", "", 0)
                    }
                }
            }
        };
        let made_at_run_time = (frame.module == JIT).then_some(frame.address);
        let id = self.out.frame(frame);
        if let Some(address) = made_at_run_time {
            self.jit.entry(id).or_insert((head.pid, address));
        }
        id
    }

    /// Normalised while the process lives: the file and the place in it, not the address.
    fn native_frame(&mut self, head: Head, pc: u64) -> Frame {
        let mapping = self.processes.get(head.pid).and_then(|p| p.space.find(pc));
        match mapping {
            Some(m) if m.file.is_some() || is_vdso(m) => {
                bare(FrameKind::Native, "", &m.path, pc.wrapping_sub(m.start).wrapping_add(m.offset))
            }
            Some(m) if m.path.is_empty() || m.path.starts_with("//anon") => {
                bare(FrameKind::Native, "", JIT, pc)
            }
            Some(m) => bare(FrameKind::Native, &m.path.clone(), &m.path.clone(), 0),
            None => {
                self.processes.strange_address(head.pid, head.at);
                bare(FrameKind::Special, "[unknown: unmapped address]", "", 0)
            }
        }
    }

    /// Looks at all processes that are known and waits for the tables of what they have mapped.
    pub(super) fn ready_tables(&mut self) {
        let now = KtimeNs::now();
        self.processes.refresh(&mut self.maps, &self.out, false, now);
        self.processes.files.take_news(true);
        self.processes.refresh(&mut self.maps, &self.out, true, now);
    }

    /// What is done between two looks at the ring buffer.
    pub(super) fn rest(&mut self, now: KtimeNs) {
        let news = self.processes.files.take_news(false);
        self.processes.refresh(&mut self.maps, &self.out, news, now);
        self.forget_ended(now);
        self.flush();
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
            }
        }
    }

    /// Sends what was kept back.
    pub(super) fn flush(&mut self) {
        if !self.slices.is_empty() {
            self.out.send(Record::Slices(std::mem::take(&mut self.slices)));
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

/// A frame without lines.
fn bare(kind: FrameKind, name: &str, module: &str, address: u64) -> Frame {
    Frame {
        kind,
        name: name.into(),
        module: module.into(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address,
    }
}
