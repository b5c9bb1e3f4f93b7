//! Builds stacks: native, kernel and Python frames in their places, numbered by where they are in a process, for as long as that means the same.
//!
//! Nearly all frames of a sample were in one before: their numbers are remembered by address (`frame_cache.rs`). Leaves out the names of
//! native functions, which are found at the end (`naming.rs`).

use super::generated_code::{GeneratedCode, MOST_KEPT, ProcessAtSample, guessed};
use super::interner::{Interner, ThreadState, bare};
use super::libraries::Libraries;
use super::python_frames::{ModuleNames, Refreshed, code_at, name_frame, refresh_codes};
use super::ranges::Ranges;
use super::spans::Spans;
use super::stack_copies::{StackCopies, Unwound, Waiting};
use crate::activity::Activity;
use crate::processes::eval_frame::EvalFrames;
use crate::processes::process::{Process, program_of};
use crate::processes::registry::Processes;
use crate::records::RecordSender;
use energy_trace_bpf::decode::{Comm, EventContext};
use energy_trace_bpf::process_maps::Maps;
use energy_trace_foreign::files::owner_of_process;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::{Resolver, Worker};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::recording::record::{Frame, FrameKind, PythonLoss, StackStatus};
use energy_trace_model::recording::synthetic_frame::{JIT_MODULE, SyntheticFrame};
use energy_trace_naming::JitProcess;
use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::anchoring::resolve_anchors;
use energy_trace_unwind::merge::{Merged, WalkedStack, eval_frames, merge, python_alone};
use energy_trace_unwind::v8::is_of_v8;
use energy_trace_unwind::vdso::is_vdso;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use tracer_ebpf::wire::end;

/// All that is needed to make stacks of what the probes walked.
pub(crate) struct StackBuilder {
    pub(crate) maps: Maps,
    pub(crate) processes: Processes,
    pub(crate) out: Interner,
    /// What user space unwinds.
    pub(crate) raw: StackCopies,
    generated_code: GeneratedCode,
    modules: ModuleNames,
    eval_frames: EvalFrames,
    /// The files of frames, open.
    pub(crate) libraries: Libraries,
    /// Programs with code that was made at run time.
    pub(crate) jit: HashMap<ProcessKey, JitProcess>,
    /// The stack that is being made has such code whose callers are not known yet.
    calls_wanted: bool,
    /// Ranges that targets mark.
    pub(crate) ranges: Ranges,
    /// Spans that their threads work for.
    pub(crate) spans: Spans,
    /// Frames of Python functions whose code object was gone.
    pub(crate) nameless: u64,
    /// Whether something is to be read of processes soon.
    pub(crate) activity: Activity,
    /// Looks into files before the start and at the end.
    pub(crate) worker: Arc<Worker>,
    /// The same for the thread that takes events in.
    pub(crate) hasty: Arc<Worker>,
}

impl StackBuilder {
    pub(crate) fn new(
        maps: Maps,
        processes: Processes,
        out: Interner,
        resolver: &Resolver,
    ) -> std::io::Result<Self> {
        let hasty = Arc::new(resolver.worker(true).hasty());
        Ok(Self {
            maps,
            processes,
            out,
            raw: StackCopies::new(resolver.clone()),
            generated_code: GeneratedCode::start(resolver.worker(true), MOST_KEPT)?,
            modules: ModuleNames::default(),
            eval_frames: EvalFrames::default(),
            libraries: Libraries::new(Arc::clone(&hasty)),
            jit: HashMap::new(),
            calls_wanted: false,
            ranges: Ranges::default(),
            spans: Spans::default(),
            nameless: 0,
            activity: Activity::new(energy_trace_system::clock::now()),
            worker: Arc::new(resolver.worker(true)),
            hasty,
        })
    }

    /// Where records are sent.
    pub(crate) const fn records(&self) -> &RecordSender {
        &self.out.records
    }

    /// The thread of an event; `name` is the kernel's name for it, where the event has it.
    pub(crate) fn thread(&mut self, pid: Pid, tid: Tid, name: Option<String>) -> ThreadKey {
        self.processes.thread(pid, tid, name, &self.out.records)
    }

    /// A stack was taken in a thread of a process; `comm` is the thread's name.
    pub(crate) fn sampled_thread(&mut self, head: EventContext, comm: String) -> ThreadKey {
        self.processes.note_sample(head.pid, &self.out.records);
        self.thread(head.pid, head.tid, Some(comm))
    }

    /// The number of the span that a thread works for, by its record; 0: none.
    pub(crate) fn span(&mut self, head: EventContext, comm: Comm, record: &[u8]) -> u32 {
        if !self.processes.finds_contexts {
            return 0;
        }
        self.processes.find_late_context(head.pid, &mut self.maps);
        let thread = self.thread(head.pid, head.tid, Some(comm.text()));
        let Self { spans, out, processes, hasty, .. } = self;
        let ask = || attribute_names(head.pid, &processes.peeker, hasty);
        spans.number((head.pid, thread, head.at), record, out, ask)
    }

    /// Unwinds in user space what the probes sent a copy of, and checks it against code that was made at run time.
    pub(crate) fn unwind(&mut self, head: EventContext, raw: &WalkedStack) -> Unwound {
        match self.raw.unwind(head, raw, (&mut self.processes, &self.generated_code)) {
            Unwound::AsItIs => self.check(head.pid, head.at, raw).map_or(Unwound::AsItIs, Unwound::Walked),
            Unwound::Walked(walked) => {
                Unwound::Walked(self.check(head.pid, head.at, &walked).unwrap_or(walked))
            }
            Unwound::Later(capture) => Unwound::Later(capture),
        }
    }

    /// The same of a stack that is wanted at once: files are waited for as long as their users have time left. `None`: it stands as it is.
    pub(crate) fn unwind_now(&mut self, head: EventContext, raw: &WalkedStack) -> Option<WalkedStack> {
        match self.unwind(head, raw) {
            Unwound::AsItIs => None,
            Unwound::Walked(walked) => Some(walked),
            Unwound::Later(mut capture) => {
                let walked = self.raw.walk_now(&mut capture, raw, (&self.processes, &self.generated_code));
                Some(self.check(head.pid, head.at, &walked).unwrap_or(walked))
            }
        }
    }

    /// The same of what was put off; `None`: not yet.
    pub(crate) fn unwind_again(
        &mut self,
        capture: &mut Waiting,
        raw: &WalkedStack,
        (pid, now): (Pid, KtimeNs),
    ) -> Option<WalkedStack> {
        let walked = self.raw.try_again(capture, raw, (&self.processes, &self.generated_code), now)?;
        Some(self.check(pid, capture.at(), &walked).unwrap_or(walked))
    }

    /// A stack that was taken at this time, as far as code that was made at run time confirms it; `None`: it stands as it is.
    pub(crate) fn check(&mut self, pid: Pid, at: KtimeNs, raw: &WalkedStack) -> Option<WalkedStack> {
        let whose = process_at(&self.processes, pid, at)?;
        let checked = self.generated_code.check(whose, raw, |pc| made_at(&self.processes, pid, pc));
        if self.processes.files.takes_made_rows(pid)
            && let Some((number, rows)) = self.generated_code.rows(whose)
        {
            self.processes.files.make_rows(pid, number, rows);
        }
        checked
    }

    /// The code that decides, once it was looked into, on what is guessed in a stack.
    pub(crate) fn guessed_code(&self, pid: Pid, raw: &WalkedStack) -> Vec<u64> {
        guessed(raw).filter(|&pc| made_at(&self.processes, pid, pc).is_some()).collect()
    }

    /// Whether some of this code may still be found out.
    pub(crate) fn awaits_code(&mut self, head: EventContext, code: &[u64]) -> bool {
        let whose = process_at(&self.processes, head.pid, head.at);
        whose.is_some_and(|whose| code.iter().any(|&at| self.generated_code.is_open(whose, at)))
    }

    /// The stack with native and Python frames in their places, and how whole it is.
    pub(crate) fn whole_stack(
        &mut self,
        head: EventContext,
        raw: &WalkedStack,
    ) -> (Option<StackId>, StackStatus) {
        let interpreter = self.processes.get(head.pid).and_then(|p| p.interpreter);
        let one_chain = || self.processes.has_one_chain(head.pid);
        let anchored =
            interpreter.map(|i| resolve_anchors(raw, i.layout.anchoring, |pc| i.is_eval(pc), one_chain));
        let (mut frames, mut status) = merge(anchored.as_deref().unwrap_or(raw));
        self.drop_trampolines(head.pid, &mut frames);
        if raw.python_end == end::NO_INTERPRETER
            && interpreter.is_some_and(|i| raw.native.iter().any(|frame| i.is_eval(frame.pc)))
        {
            status = StackStatus::PythonLost(PythonLoss::NotReady);
        }
        if self.processes.get(head.pid).is_some_and(|p| p.refused) {
            status = StackStatus::PythonLost(PythonLoss::UnknownVersion);
        }
        if frames.iter().any(|f| matches!(f, Merged::Python { .. })) {
            self.refresh_codes(head, &frames);
        }
        self.learn_eval_frame(head.pid, raw);
        self.processes.find_thread_variables(head.pid, &mut self.maps);
        (self.stack(head, ThreadState::Running, &frames), status)
    }

    /// Whether all native frames are in mappings that are known.
    pub(crate) fn are_mapped(&self, pid: Pid, raw: &WalkedStack) -> bool {
        let process = self.processes.get(pid);
        process.is_some_and(|p| raw.native.iter().all(|frame| p.space.find(frame.pc).is_some()))
    }

    /// The stack in which a Python thread goes to sleep, and whether all of its functions have a name.
    pub(crate) fn sleeping_stack(
        &mut self,
        head: EventContext,
        raw: &WalkedStack,
    ) -> Option<(StackId, bool)> {
        let (frames, nameless) = (python_alone(raw), self.nameless);
        self.refresh_codes(head, &frames);
        let stack = self.stack(head, ThreadState::Asleep, &frames)?;
        Some((stack, self.nameless == nameless))
    }

    /// Takes out the functions that CPython makes for perf (`-X perf`), one for each of Python's: made at run time, they call the evaluation
    /// whose place a run of Python frames has taken.
    fn drop_trampolines(&self, pid: Pid, frames: &mut Vec<Merged>) {
        let mut is_python = false;
        frames.retain(|frame| {
            let below = std::mem::replace(&mut is_python, matches!(frame, Merged::Python { .. }));
            !matches!(frame, Merged::Native(pc) if below && self.mapping(pid, *pc).is_some_and(Mapping::is_anonymous))
        });
    }

    fn refresh_codes(&mut self, head: EventContext, frames: &[Merged]) {
        let Refreshed { wants, news } = refresh_codes(&mut self.processes, head, frames);
        if wants {
            self.processes.tell_python(head.pid, &mut self.maps);
        }
        if news {
            self.activity.mark_active(head.at);
        }
    }

    fn stack(&mut self, head: EventContext, state: ThreadState, frames: &[Merged]) -> Option<StackId> {
        let mut ids: Vec<FrameId> = frames.iter().map(|&frame| self.frame(head, frame)).collect();
        if std::mem::take(&mut self.calls_wanted) {
            self.note_calls(head.pid, frames, &ids);
        }
        if !ids.is_empty() {
            self.ranges.add(head.range, &mut self.out, &mut ids);
            self.spans.add(head.span, &mut ids);
        }
        self.out.stack((self.libraries.owners.of(head.pid), head.tid), state, &ids)
    }

    /// Notes who called code that was made at run time: where it gets no name, they say what it is.
    fn note_calls(&mut self, pid: Pid, frames: &[Merged], ids: &[FrameId]) {
        let Some(process) = self.processes.get(pid) else { return };
        let Some(names) = self.jit.get_mut(&process.record.key) else { return };
        for (at, frame) in frames.iter().enumerate() {
            let Merged::Native(pc) = frame else { continue };
            let is_sure = !matches!(frames.get(at + 1), None | Some(Merged::Mark(_)));
            names.called(*pc, is_sure, ids.get(at + 1..).unwrap_or_default());
        }
    }

    /// Learns from whole stacks, until this process's probes know.
    fn learn_eval_frame(&mut self, pid: Pid, raw: &WalkedStack) {
        let Some(space) = self.processes.without_eval_frame(pid) else { return };
        for (distance, pc) in eval_frames(raw) {
            let saved_fp = || self.raw.saved_fp(pid, space, pc, &self.processes.peeker);
            if let Some(learned) = self.eval_frames.observe(space, distance, pc, saved_fp) {
                self.processes.learn_eval_frame(pid, learned, &mut self.maps);
                return;
            }
        }
    }

    /// Forgets a process that ended at this time and is gone.
    pub(crate) fn forget(&mut self, pid: Pid, ended: KtimeNs) {
        self.maps.remove_process(pid, ended.as_ns());
        self.processes.forget(pid);
        self.modules.forget(pid);
        self.spans.forget(pid);
        self.generated_code.forget(pid);
        self.libraries.owners.forget(pid);
    }

    /// The number of a frame in a stack.
    fn frame(&mut self, head: EventContext, frame: Merged) -> FrameId {
        match frame {
            Merged::Native(pc) | Merged::Kernel(pc) => self.address_frame(head, frame, pc),
            Merged::Mark(mark) => self.out.frame(mark.frame()),
            Merged::Python { code, instruction, class } => {
                self.python_frame(head, (code, instruction, class))
            }
        }
    }

    fn address_frame(&mut self, head: EventContext, frame: Merged, address: u64) -> FrameId {
        if let Some((id, hit)) = self.processes.get_mut(head.pid).and_then(|p| p.frames.at(address, head.at))
        {
            if hit {
                self.processes.hit(head.pid, address, head.at);
            }
            return id;
        }
        let (id, lasting) = match frame {
            Merged::Native(pc) => match self.is_jit(head, pc) {
                (true, _) => (self.jit_frame(head, pc), false),
                (false, is_sure) => {
                    let frame = self.native_frame(head, pc);
                    let lasting = is_sure && frame.kind == FrameKind::Native;
                    (self.out.frame(frame), lasting)
                }
            },
            _ => (self.out.frame(bare(FrameKind::Kernel, "", "", address)), true),
        };
        if lasting && let Some(process) = self.processes.get_mut(head.pid) {
            process.frames.put(address, id, head.at);
        }
        id
    }

    fn python_frame(&mut self, head: EventContext, place: (u64, u64, u64)) -> FrameId {
        let Some(code) = code_at(&self.processes, head, place.0) else {
            self.nameless += 1;
            self.activity.mark_active(head.at); // Others may follow, and are read in time then.
            log::debug!("nothing shows what was at {:#x} in process {}", place.0, head.pid);
            return self.out.frame(SyntheticFrame::PythonGone.frame());
        };
        // What is known of classes and objects is of the one that is there now.
        let is_there = |p: &&Process| p.codes.last(place.0).is_some_and(|last| Arc::ptr_eq(last, code));
        let process = self.processes.get(head.pid).filter(is_there);
        let named = process.and_then(|p| p.codes.names.at((place.0, place.2), head.at));
        let on = named.or_else(|| process.and_then(|p| p.codes.called_on(place.0, place.2)).flatten());
        // What says nothing is no other place.
        let place = if on.is_some() || code.is_method { place } else { (place.0, place.1, 0) };
        // An object's name is true of a time only.
        let cached = process.filter(|_| named.is_none());
        if let Some(id) = cached.and_then(|p| p.frames.python(place, code)) {
            return id;
        }
        let method = process.and_then(|p| p.codes.method(place.0, place.2));
        let is_final = named.is_none() && (method.is_some() || !code.is_method);
        let (code, on) = (Arc::clone(code), on.cloned());
        let frame = name_frame(&code, method, place.1, self.modules.of(head.pid, &code));
        let id = self.out.python_frame(self.libraries.owners.of(head.pid), frame, on);
        if is_final && let Some(process) = self.processes.get_mut(head.pid) {
            process.frames.put_python(place, code, id);
        }
        id
    }

    /// Whether an address is in code that was made at run time, and whether that is sure: until its file was looked into, one that is only
    /// memory is believed to be such. Mappings are read again where it is in none.
    fn is_jit(&mut self, head: EventContext, pc: u64) -> (bool, bool) {
        if self.mapping(head.pid, pc).is_none() {
            self.processes.note_unmapped_pc(head, pc);
        }
        let Some(mapping) = self.mapping(head.pid, pc) else { return (false, true) };
        let is_made = self.processes.files.is_made(mapping);
        (is_made.unwrap_or_else(|| mapping.is_memory_file()), is_made.is_some())
    }

    fn mapping(&self, pid: Pid, pc: u64) -> Option<&Mapping> {
        self.processes.get(pid)?.space.find(pc)
    }

    /// A frame of its own for each program and address: what is there, and when, is the program's business.
    fn jit_frame(&mut self, head: EventContext, pc: u64) -> FrameId {
        let Some(process) = self.processes.get(head.pid) else {
            return self.out.frame(bare(FrameKind::Native, "", JIT_MODULE, pc));
        };
        let (roots, peeker) = (&mut self.libraries.roots, &self.processes.peeker);
        let mut root = || roots.of(peeker.root(head.pid).ok().flatten());
        let names = (self.jit.entry(process.record.key))
            .or_insert_with(|| JitProcess::new(head.pid, &program_of(&process.space), root()));
        names.find_dumps(head.pid, process.space.mappings(), process.read_at, peeker);
        let (frame, is_called) = names.see(pc, head.at).unwrap_or_else(|| {
            let frame = self.out.new_frame(bare(FrameKind::Native, names.nameless(), JIT_MODULE, pc));
            names.add(pc, head.at, frame);
            (frame, false)
        });
        self.calls_wanted |= !is_called;
        frame
    }

    /// Normalised while the process lives: the file and the place in it, not the address.
    pub(crate) fn native_frame(&mut self, head: EventContext, pc: u64) -> Frame {
        self.processes.hit(head.pid, pc, head.at);
        let mapping = self.processes.get(head.pid).and_then(|p| p.space.find(pc));
        match mapping {
            Some(m) if m.file.is_some() || is_vdso(m) => {
                let module = self.libraries.module_of(head.pid, m, &self.processes.peeker);
                bare(FrameKind::Native, "", &module, pc.wrapping_sub(m.start).wrapping_add(m.offset))
            }
            Some(m) => bare(FrameKind::Native, &m.path.clone(), &m.path.clone(), 0),
            None => {
                self.processes.note_unmapped_pc(head, pc);
                SyntheticFrame::UnmappedAddress.frame()
            }
        }
    }
}

/// What a process calls the attributes of its spans; `None`: it does not say.
fn attribute_names(pid: Pid, peeker: &Peeker, worker: &Worker) -> Option<Vec<String>> {
    let context = peeker.context(pid).ok()??;
    let mut file = File::from(memfd_create("context", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(&context).ok()?;
    let label = format!("what process {pid} says of its spans");
    worker.attribute_names((&label, owner_of_process(pid)), &file).ok()
}

/// A process when a stack was taken in it.
fn process_at(processes: &Processes, pid: Pid, at: KtimeNs) -> Option<ProcessAtSample<'_>> {
    let (key, peeker) = (processes.get(pid)?.record.key, &processes.peeker);
    Some(ProcessAtSample { pid, key, peeker, at, told: processes.files.told_rows(pid) })
}

/// The mapping of an address of code that was made at run time, and by no virtual machine whose frames are known.
fn made_at(processes: &Processes, pid: Pid, pc: u64) -> Option<&Mapping> {
    let process = processes.get(pid)?;
    let mapping = process.space.find(pc).filter(|mapping| processes.files.is_made(mapping) == Some(true))?;
    let is_others = process.is_of_hotspot(mapping) || process.has_v8 && is_of_v8(mapping);
    (!is_others).then_some(mapping)
}
