//! The processes that were met: who they are, their threads, their memory, their interpreter.
//!
//! One `Process` is one program in one process: after an `exec` that follows samples another one begins under the same pid.

use super::commands::{Commands, size};
use super::eval_frame::EvalFrame;
use super::frame_cache::FrameCache;
use super::process::{Process, is_this_program, new_process, program_of, read_group, read_name};
use super::young::{Children, Young, YoungProcesses};
use crate::records::RecordSender;
use crate::tables::files::Files;
use crate::tables::mapping_pool::Pool;
use energy_trace_bpf::decode::{Comm, EventContext};
use energy_trace_bpf::process_maps::Maps;
use energy_trace_foreign::files::owner_of_process;
use energy_trace_foreign::peeker::{Peeker, TargetMemory};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, ProcessKey, ThreadKey, Tid};
use energy_trace_model::recording::record::{self, Record, Runtime, Unwinding};
use energy_trace_unwind::address_space::{AddressSpace, Mapping};
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::detect::{Finding, Interpreter, find, other_python};
use energy_trace_unwind::cpython::thread_places::{libc_of, read_places};
use energy_trace_unwind::hotspot::{may_hold_hotspot, read_layout};
use energy_trace_unwind::v8::{self, is_of_v8, may_hold_v8};
use foldhash::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tracer_ebpf::arch;
use tracer_ebpf::wire::{AddressSpace as Block, CodeMapping, MAX_PLACES};

/// The process id of those that stand for others: the idle task's, which is never told of.
const NOWHERE: Pid = Pid::new(0);

/// Between two looks at what changes seldom in an interpreter.
const LOOK_AGAIN_NS: u64 = 50_000_000;

/// Who may be met, and what is looked for of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A program, and what it starts: all at once.
    Targets,
    /// A whole machine: command lines at once, mappings of those that are sampled.
    Machine,
    /// A whole machine, always on: both of those that are sampled.
    Always,
    /// The same for an agent: who is over soon and was not sampled is not met.
    Agent,
}

/// All of them.
pub(crate) struct Processes {
    pub(crate) by_pid: HashMap<Pid, Process>,
    /// Those that an agent has not met.
    pub(crate) young: YoungProcesses,
    pub(crate) files: Files,
    /// Looks into them.
    pub(crate) peeker: Peeker,
    pub(crate) commands: Commands,
    pool: Pool,
    unwinding: Unwinding,
    pub(crate) scope: Scope,
    /// Whether spans that threads work for are looked for.
    pub(crate) finds_contexts: bool,
    /// Those that were sampled, of a whole machine.
    pub(crate) sampled: HashSet<Pid>,
    /// Those of them of whom it was not looked yet who they are.
    not_looked_at: Vec<Pid>,
    /// Of whom it is known that they have ended before their turn comes: there is nothing to be read of them.
    pub(crate) ending: HashSet<Pid>,
    /// Those that were gone when they were met: nothing tells of their end any more.
    pub(crate) met_late: Vec<Pid>,
    /// Processes whose mappings found no room in the pool, or are too many.
    pub(crate) without_room: HashSet<Pid>,
    pub(super) next_process: u32,
    next_thread: u32,
}

impl Processes {
    /// Of nobody yet.
    pub(crate) fn new(files: Files, peeker: Peeker, unwinding: Unwinding, scope: Scope) -> Self {
        Self {
            by_pid: HashMap::default(),
            young: YoungProcesses::default(),
            files,
            peeker,
            commands: Commands::default(),
            pool: Pool::default(),
            unwinding,
            scope,
            finds_contexts: false,
            sampled: HashSet::new(),
            not_looked_at: Vec::new(),
            ending: HashSet::new(),
            met_late: Vec::new(),
            without_room: HashSet::new(),
            next_process: 0,
            next_thread: 0,
        }
    }

    /// Frames have other numbers from now on.
    pub(crate) fn forget_frames(&mut self) {
        self.by_pid.values_mut().for_each(|process| process.frames = FrameCache::default());
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// Whether something was told of a process with this number, and not of its end.
    pub(crate) fn is_known(&self, pid: Pid) -> bool {
        self.by_pid.contains_key(&pid) || self.young.has(pid)
    }

    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut Process> {
        self.by_pid.get_mut(&pid)
    }

    /// The mappings of all processes that were read, and when.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = (Pid, KtimeNs, &[Mapping])> {
        self.by_pid.iter().filter_map(|(&pid, p)| Some((pid, p.read_at?, p.space.mappings())))
    }

    /// The memory of a process whose probes do not know yet where evaluation frames end.
    pub(crate) fn without_eval_frame(&self, pid: Pid) -> Option<&AddressSpace> {
        let process = self.by_pid.get(&pid).filter(|p| p.eval.is_none() && p.interpreter.is_some())?;
        Some(&process.space)
    }

    /// Now they do.
    pub(crate) fn learn_eval_frame(&mut self, pid: Pid, learned: EvalFrame, maps: &mut Maps) {
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        process.eval = Some(learned);
        if let Some(interpreter) = &mut process.interpreter {
            interpreter.layout.learn_eval_frame(learned.cfa, learned.fp);
            maps.set_python(pid, process.record.key, interpreter);
        }
    }

    /// Tells the probes what was learned of an interpreter.
    pub(crate) fn tell_python(&self, pid: Pid, maps: &mut Maps) {
        if let Some(process) = self.by_pid.get(&pid)
            && let Some(interpreter) = &process.interpreter
        {
            maps.set_python(pid, process.record.key, interpreter);
        }
    }

    /// Whether all evaluations of a thread belong to one chain of Python frames: neither greenlets, by the name of their library, nor
    /// sub-interpreters are there.
    pub(crate) fn has_one_chain(&self, pid: Pid) -> bool {
        let Some(process) = self.by_pid.get(&pid) else { return false };
        let now = energy_trace_system::clock::now();
        if let Some((at, one)) = process.one_chain.get()
            && now.ns_since(at) < LOOK_AGAIN_NS
        {
            return one;
        }
        let greenlets = process.space.mappings().iter().any(|m| m.path.contains("greenlet"));
        let memory = TargetMemory::of(&self.peeker, pid);
        let alone = |interpreter: Interpreter| !interpreter.has_sub_interpreters(&memory);
        let one = !greenlets && process.interpreter.is_some_and(alone);
        process.one_chain.set(Some((now, one)));
        one
    }

    /// Tells the probes which variables name the state that runs in a thread, once that can be seen.
    pub(crate) fn find_thread_variables(&mut self, pid: Pid, maps: &mut Maps) {
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        let Some(interpreter) = process.interpreter.as_mut().filter(|found| found.tls_block != 0) else {
            return;
        };
        let now = energy_trace_system::clock::now();
        if now.ns_since(process.variables_at) < LOOK_AGAIN_NS {
            return;
        }
        process.variables_at = now;
        if interpreter.find_thread_variables(&TargetMemory::of(&self.peeker, pid)) {
            maps.set_python(pid, process.record.key, interpreter);
        }
    }

    /// The process, made known now if it was not.
    pub(crate) fn get_or_insert(&mut self, pid: Pid, out: &RecordSender) -> &mut Process {
        self.meet(pid, out);
        match self.by_pid.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let name = read_name(&pid.to_string());
                self.met_late.extend(name.is_empty().then_some(pid));
                let key = next_key(&mut self.next_process);
                let New { command, owner, launcher } =
                    self.scope.look_at(pid, &self.peeker, &mut self.commands);
                let record = record::Process { key, pid, parent: None, name, command, runtime: None };
                out.send(Record::Process(record.clone()));
                let mut process = new_process(record, owner, launcher);
                process.group = told_group(pid, key, process.group, out);
                place.insert(process)
            }
        }
    }

    /// A stack was taken in a process.
    pub(crate) fn note_sample(&mut self, pid: Pid, out: &RecordSender) {
        let process = self.get_or_insert(pid, out);
        process.samples += 1;
        if process.samples == 1 && self.scope != Scope::Targets {
            self.sampled.insert(pid);
            if matches!(self.scope, Scope::Always | Scope::Agent) {
                self.not_looked_at.push(pid);
            }
        }
    }

    /// Looks who was sampled and not looked at before. Of most it is known by now that they have ended.
    pub(super) fn look_late(&mut self, out: &RecordSender) {
        std::mem::take(&mut self.not_looked_at).into_iter().for_each(|pid| self.look_late_at(pid, out));
    }

    fn look_late_at(&mut self, pid: Pid, out: &RecordSender) {
        let Some(process) = self.by_pid.get_mut(&pid).filter(|process| !process.has_ended) else { return };
        let New { command, owner, launcher } = look_at(pid, &self.peeker, &mut self.commands);
        (process.owner, process.launcher, process.command_bytes) = (owner, launcher, size(&command));
        if !command.is_empty() {
            process.record.command = command;
            out.send(Record::Process(process.record.clone()));
        }
    }

    /// A program begins in a process.
    fn begin(
        &mut self,
        pid: Pid,
        name: String,
        New { command, owner, launcher }: New,
        parent: Option<Pid>,
        out: &RecordSender,
    ) {
        let key = next_key(&mut self.next_process);
        let parent_key = parent.and_then(|p| self.by_pid.get(&p)).map(|p| p.record.key);
        let record = record::Process { key, pid, parent: parent_key, name, command, runtime: None };
        out.send(Record::Process(record.clone()));
        self.by_pid.insert(pid, Process { parent, ..new_process(record, owner, launcher) });
    }

    /// A target made a process: it starts as its parent's copy. Of the parent the probes may have known less then than is known now.
    pub(crate) fn fork(&mut self, head: EventContext, pid: Pid, maps: &mut Maps, out: &RecordSender) {
        if self.scope == Scope::Agent {
            return self.fork_young(head, pid, out);
        }
        self.copy(head.pid, pid, out);
        let Some(child) = self.by_pid.get_mut(&pid) else { return };
        if let Some(block) = &child.block {
            maps.point_space(pid, **block);
        }
        child.hotspot = child.hotspot.filter(|layout| maps.set_hotspot(pid, layout));
        child.context = child.context.filter(|variable| maps.set_context(pid, *variable));
        self.tell_python(pid, maps);
    }

    /// A process begins as a copy of its parent.
    fn copy(&mut self, parent: Pid, pid: Pid, out: &RecordSender) {
        let Some(origin) = self.by_pid.get(&parent) else {
            self.get_or_insert(pid, out);
            return;
        };
        let (name, bytes) = (origin.record.name.clone(), origin.command_bytes);
        let runtime = origin.record.runtime.clone();
        let (space, block, interpreter) = (origin.space.clone(), origin.block.clone(), origin.interpreter);
        let (refused, eval, read_at) = (origin.refused, origin.eval, origin.read_at);
        let (owner, launcher, group) = (origin.owner, origin.launcher, Arc::clone(&origin.group));
        let command = self.commands.share(owner, bytes, &name);
        let (hotspot, has_v8, context) = (origin.hotspot, origin.has_v8, origin.context);
        let (reads, uploads, has_news) = (origin.reads, origin.uploads, origin.has_news);
        self.begin(pid, name, New { command, owner, launcher }, Some(parent), out);
        if let Some(child) = self.by_pid.get_mut(&pid) {
            child.command_bytes = bytes;
            child.group = group;
            child.record.runtime = runtime;
            (child.space, child.block, child.interpreter, child.refused) =
                (space, block, interpreter, refused);
            (child.eval, child.read_at) = (eval, read_at);
            (child.hotspot, child.has_v8, child.context) = (hotspot, has_v8, context);
            (child.reads, child.uploads, child.has_news) = (reads, uploads, has_news);
        }
    }

    /// Nobody has to know it yet, but its parent: who has children is not over soon, and they may be in another control group than who is above.
    fn fork_young(&mut self, head: EventContext, pid: Pid, out: &RecordSender) {
        self.meet(head.pid, out);
        self.by_pid.contains_key(&pid).then(|| self.forget(pid));
        let parent = self.by_pid.get(&head.pid).map(|parent| (parent.record.key, parent.block.clone()));
        let before = self.young.add(pid, head.pid, parent, head.at).and_then(|young| young.block);
        self.release(before);
    }

    /// A young process became another program; whether it was one. The probes have taken its mappings from it.
    pub(crate) fn exec_young(&mut self, pid: Pid, program: Comm) -> bool {
        let Some(young) = self.young.get_mut(pid) else { return false };
        young.program = Some(program);
        let block = young.block.take();
        self.release(block);
        true
    }

    /// A process is young no more, if it was.
    pub(crate) fn meet(&mut self, pid: Pid, out: &RecordSender) {
        let Some(Young { parent, origin, program, mut block, .. }) = self.young.take(pid) else { return };
        let runs = self.by_pid.get(&parent).map(|parent| parent.record.key);
        if program.is_none() && runs.is_some() && runs == origin {
            self.copy(parent, pid, out);
            // Its probes go by the mappings that its parent had at the fork.
            self.with(pid, |child| {
                child.hotspot = None;
                std::mem::swap(&mut child.block, &mut block);
            });
        } else {
            let name = program.map_or_else(|| read_name(&pid.to_string()), Comm::text);
            let new = New { command: vec![name.clone()], ..New::nobody() };
            self.begin(pid, name, new, Some(parent), out);
            self.tell_group(pid, Some(parent), out);
        }
        self.release(block);
    }

    /// Forgets young processes of whom nothing comes any more.
    pub(crate) fn forget_young(&mut self, now: KtimeNs, maps: &mut Maps) {
        for (pid, young) in self.young.take_gone(now) {
            if young.program.is_none() && young.block.is_some() {
                maps.remove_program(pid);
            }
            self.release(young.block);
        }
    }

    /// The thread for which a process's CPU time up to this moment counts.
    pub(crate) fn owner_of_time(&mut self, pid: Pid, at: KtimeNs, out: &RecordSender) -> ThreadKey {
        match self.young.children_with(pid, at) {
            Some(of) => self.stand_in(of, at, out),
            None => self.thread(pid, Tid::new(pid.get()), None, out),
        }
    }

    /// The thread that stands for young processes of one parent.
    fn stand_in(&mut self, of: Children, now: KtimeNs, out: &RecordSender) -> ThreadKey {
        if let Some(thread) = self.young.stand_in(of, now) {
            return thread;
        }
        let parent = &self.get_or_insert(of.0, out).record;
        let (parent, name) = (parent.key, of.1.map_or_else(|| parent.name.clone(), Comm::text));
        let (process, thread) = (next_key(&mut self.next_process), ThreadKey::new(self.next_thread));
        self.next_thread += 1;
        let (pid, tid) = (NOWHERE, Tid::new(NOWHERE.get()));
        let (parent, command) = (Some(parent), vec![name.clone()]);
        out.send(Record::Process(record::Process {
            key: process,
            pid,
            parent,
            name: name.clone(),
            command,
            runtime: None,
        }));
        out.send(Record::Thread(record::Thread { key: thread, process, tid, name }));
        self.young.put_stand_in(of, thread, now);
        thread
    }

    /// A process became another program.
    pub(crate) fn exec(&mut self, pid: Pid, name: String, at: KtimeNs, out: &RecordSender) {
        self.files.forget_made(pid);
        self.sampled.remove(&pid);
        let mut new = self.scope.look_at(pid, &self.peeker, &mut self.commands);
        if new.command.is_empty() {
            new.command.push(name.clone()); // None would be its parent's.
        }
        match self.by_pid.get_mut(&pid) {
            // The launcher's few instructions before the command's own are the command's to the reader.
            Some(process) if process.samples == 0 || process.launcher => {
                let New { command, owner, launcher } = new;
                let record = record::Process { name, command, runtime: None, ..process.record.clone() };
                out.send(Record::Process(record.clone()));
                let old = std::mem::replace(process, new_process(record, owner, launcher));
                process.threads = old.threads;
                process.parent = old.parent;
                process.group = told_group(pid, process.record.key, old.group, out);
                self.release(old.block);
            }
            _ => {
                let old = self.by_pid.remove(&pid);
                let parent = old.as_ref().and_then(|p| p.parent);
                self.begin(pid, name, new, parent, out);
                self.tell_group(pid, parent, out);
                self.release(old.and_then(|p| p.block));
            }
        }
        self.touch(pid, at);
    }

    /// Tells the control group of a program that has begun, where it is not its parent's.
    fn tell_group(&mut self, pid: Pid, parent: Option<Pid>, out: &RecordSender) {
        let parents = parent.and_then(|parent| self.by_pid.get(&parent)).map(|of| Arc::clone(&of.group));
        self.with(pid, |process| {
            process.group = told_group(pid, process.record.key, parents.unwrap_or_default(), out);
        });
    }

    /// A sample met an address.
    pub(crate) fn hit(&mut self, pid: Pid, pc: u64, at: KtimeNs) {
        if let Some(mapping) = self.by_pid.get(&pid).and_then(|process| process.space.find(pc)) {
            self.files.hit(mapping, at);
        }
    }

    /// Whether a sample's process may turn out to hold an interpreter that was not known when it was taken: its files or its mappings
    /// are still to be read. After half a second it is believed to hold none.
    pub(crate) fn may_be_python(&self, head: EventContext, now: KtimeNs) -> bool {
        const PATIENCE_NS: u64 = 500_000_000;
        self.by_pid.get(&head.pid).is_some_and(|process| !process.is_python())
            && (self.files.is_busy() || self.is_older(head))
            && now.ns_since(head.at) < PATIENCE_NS
    }

    pub(crate) fn with(&mut self, pid: Pid, change: impl FnOnce(&mut Process)) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            change(process);
        }
    }

    /// Tells the probes the mappings of a process, where they unwind.
    pub(crate) fn upload(&mut self, pid: Pid, maps: &mut Maps) {
        if self.unwinding == Unwinding::User {
            return;
        }
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        let program = program_of(&process.space);
        let mut mappings = Vec::with_capacity(process.space.mappings().len());
        for mapping in process.space.mappings().iter().take(MAX_PLACES as usize) {
            let known = self.files.code_mapping(pid, mapping, &program);
            mappings.push(if process.is_of_hotspot(mapping) {
                CodeMapping { table: CodeMapping::HOTSPOT, ..known }
            } else if process.has_v8 && is_of_v8(mapping) {
                CodeMapping { table: CodeMapping::V8, ..known }
            } else {
                known
            });
        }
        process.has_news |= std::mem::take(&mut self.files.is_late);
        if process.space.mappings().len() > mappings.len() {
            self.without_room.insert(pid);
        }
        let Some(block) = self.pool.take(owner_of_process(pid), mappings.len()) else {
            self.without_room.insert(pid);
            return;
        };
        let old = process.block.take();
        if maps.set_space(pid, block, &mappings) {
            process.block = Some(Arc::new(block));
            self.files.told(pid);
        }
        self.release(old);
    }

    /// Frees a block once nobody shares it.
    fn release(&mut self, block: Option<Arc<Block>>) {
        if let Some(block) = block.and_then(|b| Arc::try_unwrap(b).ok()) {
            self.pool.give(block);
        }
    }

    /// Looks for CPython among the mapped files.
    pub(crate) fn find_interpreter(&mut self, pid: Pid, maps: &mut Maps, out: &RecordSender) {
        let unsettled = self.by_pid.get_mut(&pid).filter(|p| p.interpreter.is_none() && !p.refused);
        let Some(process) = unsettled else { return };
        let program = program_of(&process.space);
        for mapping in process.space.mappings() {
            let facts = self.files.of(pid, mapping, &program).and_then(|file| file.facts.as_ref());
            let Some(facts) = facts else { continue };
            let memory = TargetMemory::of(&self.peeker, pid);
            process.record.runtime = match find(&memory, mapping, facts).in_time(memory.is_late()) {
                Finding::None => {
                    process.has_news |= memory.is_late();
                    continue;
                }
                Finding::Known(interpreter) => {
                    maps.set_python(pid, process.record.key, &interpreter);
                    let version = interpreter.version;
                    process.interpreter = Some(*interpreter);
                    Some(Runtime::CPython { version: version.to_string() })
                }
                Finding::Refused(runtime) => {
                    process.refused = true;
                    Some(runtime)
                }
            };
            out.send(Record::Process(process.record.clone()));
            return;
        }
        let other = || process.space.mappings().iter().find_map(|mapping| other_python(&mapping.path));
        if process.record.runtime.is_none()
            && let Some(python) = other()
        {
            process.record.runtime = Some(Runtime::NotCPython(python));
            out.send(Record::Process(process.record.clone()));
        }
    }

    /// Tells the probes where the C library of a process with an interpreter keeps a thread's own data, where it has to be asked.
    pub(crate) fn find_thread_places(&mut self, pid: Pid, maps: &mut Maps) {
        if !arch::thread::IS_TOLD {
            return;
        }
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        let Some(interpreter) = process.interpreter.as_mut() else { return };
        let program = program_of(&process.space);
        let places = process.space.mappings().iter().find_map(|mapping| {
            let libc = libc_of(&mapping.path)?;
            let facts = self.files.of(pid, mapping, &program)?.facts.as_ref()?;
            let bias = facts.bias(mapping.start, mapping.offset)?;
            read_places(libc, &TargetMemory::of(&self.peeker, pid), bias, facts)
        });
        if places.is_some_and(|places| interpreter.layout.learn_thread_places(places)) {
            maps.set_python(pid, process.record.key, interpreter);
        }
    }

    /// Looks for a HotSpot that has made its interpreter.
    pub(crate) fn find_hotspot(&mut self, pid: Pid, maps: &mut Maps) {
        let unknown = |process: &&mut Process| process.hotspot.is_none() && arch::hotspot::IS_KNOWN;
        let Some(process) = self.by_pid.get_mut(&pid).filter(unknown) else { return };
        let Some(mapping) = process.space.mappings().iter().find(|mapping| may_hold_hotspot(&mapping.path))
        else {
            return;
        };
        let program = program_of(&process.space);
        let facts = self.files.of(pid, mapping, &program).and_then(|file| file.facts.as_ref());
        let layout = facts.and_then(|facts| {
            let bias = facts.bias(mapping.start, mapping.offset)?;
            read_layout(&TargetMemory::of(&self.peeker, pid), &facts.hotspot, bias)
        });
        process.hotspot = layout.filter(|layout| maps.set_hotspot(pid, layout));
    }

    /// Looks for the thread-local variable by which a process publishes the spans that its threads work for.
    pub(crate) fn find_context(&mut self, pid: Pid, maps: &mut Maps) {
        let is_wanted = |process: &&mut Process| self.finds_contexts && process.context.is_none();
        let Some(process) = self.by_pid.get_mut(&pid).filter(is_wanted) else { return };
        let program = program_of(&process.space);
        let memory = TargetMemory::of(&self.peeker, pid);
        let place = process.space.mappings().iter().find_map(|mapping| {
            let facts = self.files.of(pid, mapping, &program)?.facts.as_ref()?;
            facts.context.as_ref()?.place(&memory, facts.bias(mapping.start, mapping.offset)?)
        });
        process.context = place.filter(|variable| maps.set_context(pid, *variable));
    }

    /// The same, now and then: the loader says where a library's variable is some time after the library was mapped.
    pub(crate) fn find_late_context(&mut self, pid: Pid, maps: &mut Maps) {
        let now = energy_trace_system::clock::now();
        let is_due = |process: &&mut Process| now.ns_since(process.context_at) >= LOOK_AGAIN_NS;
        if let Some(process) = self.by_pid.get_mut(&pid).filter(is_due) {
            process.context_at = now;
            self.find_context(pid, maps);
        }
    }

    /// Looks for a V8 among the mapped files.
    pub(crate) fn find_v8(&mut self, pid: Pid) {
        let unknown = |process: &&mut Process| !process.has_v8 && arch::v8::IS_KNOWN;
        let Some(process) = self.by_pid.get_mut(&pid).filter(unknown) else { return };
        let program = program_of(&process.space);
        let may_hold = |mapping: &&Mapping| may_hold_v8(&mapping.path, &program);
        process.has_v8 = process.space.mappings().iter().filter(may_hold).any(|mapping| {
            let facts = self.files.of(pid, mapping, &program).and_then(|file| file.facts.as_ref());
            facts.is_some_and(|facts| facts.symbol(v8::SYMBOL).is_some())
        });
    }

    /// The thread, made known now if it was not. `name` is the kernel's name for it, where the event tells it.
    pub(crate) fn thread(
        &mut self,
        pid: Pid,
        tid: Tid,
        name: Option<String>,
        out: &RecordSender,
    ) -> ThreadKey {
        let next = ThreadKey::new(self.next_thread);
        let process = self.get_or_insert(pid, out);
        let process_key = process.record.key;
        match process.threads.get_mut(&tid) {
            Some((key, known)) => {
                let key = *key;
                if let Some(name) = name.filter(|n| n != known) {
                    known.clone_from(&name);
                    out.send(Record::Thread(record::Thread { key, process: process_key, tid, name }));
                }
                key
            }
            None => {
                let name = name.unwrap_or_else(|| read_name(&format!("{pid}/task/{tid}")));
                process.threads.insert(tid, (next, name.clone()));
                out.send(Record::Thread(record::Thread { key: next, process: process_key, tid, name }));
                self.next_thread += 1;
                next
            }
        }
    }

    /// A thread has ended: its name by then is told. An agent does not tell of those beside the first.
    pub(crate) fn thread_ended(
        &mut self,
        head: EventContext,
        name: impl FnOnce() -> String,
        out: &RecordSender,
    ) {
        let is_first = head.tid.get() == head.pid.get();
        if self.scope != Scope::Agent || is_first {
            self.thread(head.pid, head.tid, Some(name()), out);
        }
        if self.scope == Scope::Agent && is_first {
            self.with(head.pid, |process| process.has_ended = true);
        }
    }

    /// Forgets a process that is gone. What is known of it is in the recording.
    pub(crate) fn forget(&mut self, pid: Pid) {
        let block = self.by_pid.remove(&pid).and_then(|process| process.block);
        self.sampled.remove(&pid);
        self.peeker.forget(pid);
        self.files.forget_made(pid);
        self.release(block);
    }

    /// Where the code objects that are remembered take more than this many bytes, those of the process that has most are forgotten.
    pub(crate) fn bound_codes(&mut self, most: usize) {
        if self.by_pid.values().map(|p| p.codes.bytes()).sum::<usize>() > most
            && let Some(process) = self.by_pid.values_mut().max_by_key(|p| p.codes.bytes())
        {
            process.codes.clear();
            process.frames.forget_python();
        }
    }

    /// What the parent of a process has at the address of a code object: the child is gone, and began as the parent's copy.
    pub(crate) fn code_of_parent(&self, pid: Pid, address: u64) -> Option<&Arc<CodeObject>> {
        let child = self.by_pid.get(&pid)?;
        let code = self.by_pid.get(&child.parent?)?.codes.last(address)?;
        child.codes.agrees(address, code).then_some(code)
    }
}

/// What is found out of a program that is met now.
struct New {
    command: Vec<String>,
    owner: u32,
    launcher: bool,
}

impl New {
    /// Nobody that was looked at.
    const fn nobody() -> Self {
        Self { command: Vec::new(), owner: u32::MAX, launcher: false }
    }
}

impl Scope {
    /// Who it is, where that is looked for when it is met.
    fn look_at(self, pid: Pid, peeker: &Peeker, commands: &mut Commands) -> New {
        match self {
            Self::Targets | Self::Machine => look_at(pid, peeker, commands),
            Self::Always | Self::Agent => New::nobody(),
        }
    }
}

/// Who it is; nobody in particular where no answer comes.
fn look_at(pid: Pid, peeker: &Peeker, commands: &mut Commands) -> New {
    let program = peeker.program(pid).unwrap_or_default();
    let owner = program.owner.unwrap_or(u32::MAX);
    let command = commands.take(owner, program.command, program.is_cut);
    New { command, owner, launcher: is_this_program(program.file) }
}

/// The path of a process's control group, which is told where it is another than `known`: its parent's, or what was told.
fn told_group(pid: Pid, key: ProcessKey, known: Arc<str>, out: &RecordSender) -> Arc<str> {
    let path = read_group(pid);
    // Whose group nobody tells is in the root's.
    if path.is_empty() || *path == *known || (known.is_empty() && path == "/") {
        return known;
    }
    out.send(Record::ControlGroup(key, path.clone()));
    path.into()
}

pub(super) fn next_key(next: &mut u32) -> ProcessKey {
    let key = ProcessKey::new(*next);
    *next += 1;
    key
}
