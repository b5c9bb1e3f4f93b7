//! Names of Python frames: code objects read from the process, checked on every sample, and made frames.
//!
//! A code object may be freed and another put in its place: before a cached one is believed of a sample that is younger than the last
//! look at it, what tells it from others is read again, of all frames of a sample together. One that differs is read anew. What is
//! read is true of a sample only where the same was there when it was taken (`code_objects.rs`): a name without that evidence is
//! lost and counted. Such names were seen to be wrong: in a thread's last milliseconds under load, and where the recorder came to read
//! them a hundred milliseconds later.

use crate::processes::process::Process;
use crate::processes::registry::Processes;
use energy_trace_bpf::decode::{CodeSight, EventContext};
use energy_trace_foreign::peeker::{Known, Peeker, Seen};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_unwind::cpython::class_name::MethodName;
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::layout::CodeLayout;
use energy_trace_unwind::cpython::module_name::module_by_path;
use energy_trace_unwind::cpython::receiver::Named;
use energy_trace_unwind::merge::Merged;
use std::collections::HashMap;
use std::sync::Arc;
use tracer_ebpf::wire::ToldCode;

/// Files whose modules are remembered.
const MOST_FILES: usize = 4096;
/// Bytes of code objects of all processes together that are remembered.
const MOST_CODE_BYTES: usize = 64 << 20;

/// What was learned of files: the module of each, by its own word, for functions of it that nobody saw run.
#[derive(Default)]
pub(crate) struct ModuleNames {
    by_file: HashMap<(Pid, String), String>,
}

impl ModuleNames {
    pub(crate) fn of(&mut self, pid: Pid, code: &CodeObject) -> String {
        let known = |names: &Self| names.by_file.get(&(pid, code.file.clone())).cloned();
        let Some(module) = &code.module else {
            return known(self).unwrap_or_else(|| module_by_path(&code.file));
        };
        if !code.file.starts_with('<') && known(self).as_ref() != Some(module) {
            if self.by_file.len() >= MOST_FILES {
                self.by_file.clear();
            }
            self.by_file.insert((pid, code.file.clone()), module.clone());
        }
        module.clone()
    }

    /// Forgets a process that is gone.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.by_file.retain(|(p, _), _| *p != pid);
    }
}

/// What a stack's code objects were found to be.
#[derive(Default)]
pub(crate) struct Refreshed {
    /// The probes are to look at more of code objects.
    pub(crate) wants: bool,
    /// Some were not known before.
    pub(crate) news: bool,
}

/// Reads again what changed of the code objects of a sample, and finds the classes of methods that do not know their own.
pub(crate) fn refresh_codes(processes: &mut Processes, head: EventContext, frames: &[Merged]) -> Refreshed {
    let peeker = processes.peeker.clone();
    let Some(process) = processes.get_mut(head.pid) else { return Refreshed::default() };
    let Some(interpreter) = process.interpreter else { return Refreshed::default() };
    let layout = interpreter.layout.code;
    let look = ProcessView { pid: head.pid, peeker: &peeker, layout: &layout };
    let mut codes: Vec<u64> = frames.iter().filter_map(code_of).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.retain(|&code| process.codes.must_look(code, head.at)); // What was looked at since is true of it.
    let news = codes.iter().any(|&code| process.codes.last(code).is_none());
    let now = energy_trace_system::clock::now(); // Before the check: what is true of the code object then is true of samples until then.
    look.at_codes(process, &codes, (head.at, now));
    for &code in &codes {
        process.codes.name_told(code, frames.iter().filter_map(code_of), head.at);
    }
    if layout.copies.is_some() {
        look.again_at_copies(process, frames);
    }
    if layout.classes.is_some() {
        look.for_classes(process, frames);
    }
    let mut wants = layout.sees_receivers && look.for_receivers(process, (head.at, now), frames);
    if process.codes.take_turns() {
        wants |= process.interpreter.as_mut().is_some_and(|i| i.layout.want_turns());
    }
    if !codes.is_empty() {
        processes.bound_codes(MOST_CODE_BYTES);
    }
    Refreshed { wants, news }
}

/// A look into a process with this layout.
struct ProcessView<'a> {
    pid: Pid,
    peeker: &'a Peeker,
    layout: &'a CodeLayout,
}

impl ProcessView<'_> {
    /// Sees which code objects of a sample of `at` are what they were, and reads the others; with them, which of those that samples held lately
    /// are. Without an answer nothing is known of them.
    fn at_codes(&self, process: &mut Process, codes: &[u64], (at, now): (KtimeNs, KtimeNs)) {
        if codes.is_empty() {
            return;
        }
        let mut all = codes.to_vec();
        all.extend(process.codes.recent(at).iter().filter(|code| codes.binary_search(code).is_err()));
        let check = |&address: &u64| {
            let check = process.codes.last(address).map(|code| code.check());
            Known { address, check, globals: process.codes.globals(address) }
        };
        let mut known: Vec<Known> = all.iter().map(check).collect();
        while !known.is_empty() {
            let seen = self.peeker.codes(self.pid, self.layout, &known).unwrap_or_default();
            if seen.is_empty() {
                return;
            }
            for (Known { address, check, .. }, seen) in known.drain(..seen.len().min(known.len())).zip(seen) {
                match (seen, check) {
                    (Seen::Same, Some(check)) => drop(process.codes.is_still(address, &check, now)),
                    // What was true of another is asked by the sample that holds it.
                    (Seen::Other(code), _) if codes.binary_search(&address).is_ok() => {
                        process.codes.put(address, code.map(|code| *code), now);
                    }
                    (Seen::Other(_) | Seen::Unread | Seen::Same, _) => (),
                }
            }
        }
    }

    /// Reads again what runs in a copy of its bytecode that was made since.
    fn again_at_copies(&self, process: &mut Process, frames: &[Merged]) {
        for frame in frames {
            let &Merged::Python { code, instruction, .. } = frame else { continue };
            let Some(old) = process.codes.last(code).filter(|object| object.lacks(instruction)) else {
                continue;
            };
            let old = Arc::clone(old);
            let known = Known { address: code, check: None, globals: 0 };
            let seen = self.peeker.codes(self.pid, self.layout, &[known]).unwrap_or_default();
            if let Some(Seen::Other(Some(again))) = seen.into_iter().next()
                && again.is_still(&old.check())
            {
                process.codes.improve(code, again.named_as(&old));
            }
        }
    }

    /// Finds the names of methods with their classes, once for each code object and class.
    fn for_classes(&self, process: &mut Process, frames: &[Merged]) {
        for frame in frames {
            let &Merged::Python { code, class, .. } = frame else { continue };
            if class == 0 || process.codes.method(code, class).is_some() {
                continue;
            }
            let Some(object) = process.codes.last(code).filter(|object| object.is_method) else { continue };
            match self.peeker.method_name(self.pid, self.layout, (code, class), &object.qualname) {
                Ok(Some(MethodName::Exact(name))) => {
                    let named = object.with_qualname(name);
                    process.codes.improve(code, named);
                }
                Ok(Some(MethodName::Guess(name))) => process.codes.put_method(code, class, name),
                Ok(None) | Err(_) => (),
            }
        }
    }

    /// Finds on what functions were called, once for each code object and class that the probes sent; of objects with a name for what they run
    /// that name, which is looked at for each sample. True: the probes are to send more: classes that told something once, and such objects.
    fn for_receivers(&self, process: &mut Process, times: (KtimeNs, KtimeNs), frames: &[Merged]) -> bool {
        let mut wants = false;
        for frame in frames {
            let &Merged::Python { code, class: first, .. } = frame else { continue };
            let Some(object) = process.codes.last(code).filter(|object| object.may_tell) else { continue };
            if object.on_named {
                let object = Arc::clone(object);
                wants |= process.interpreter.as_mut().is_some_and(|i| i.layout.want_object(code));
                let read = || self.peeker.named(self.pid, self.layout, &object, first).ok().flatten();
                let is_still = |named: &Named| {
                    self.peeker.is_still_named(self.pid, self.layout, &object, named).unwrap_or(false)
                };
                process.codes.names.see((code, first), times, is_still, read);
            } else if first != 0 && process.codes.called_on(code, first).is_none() {
                let Ok(on) = self.peeker.called_on(self.pid, self.layout, object, first) else { continue };
                if let (Some(_), Some(interpreter)) = (&on, &mut process.interpreter) {
                    wants |= interpreter.layout.want_class(code);
                }
                process.codes.put_called_on(code, first, on);
            }
        }
        wants
    }
}

/// The probes saw code objects of a process: their addresses, what tells them from others, and their globals. True: some are still to be
/// read.
pub(crate) fn note_code_objects(processes: &mut Processes, head: EventContext, sights: &[CodeSight]) -> bool {
    let Some(process) = processes.get_mut(head.pid) else { return true };
    let mut news = false;
    for &CodeSight { address, check, globals } in sights {
        news |= process.codes.see(address, (check, globals), head.at);
    }
    news
}

/// What new ones of them say of themselves.
pub(crate) fn note_told_codes(processes: &mut Processes, head: EventContext, told: &[ToldCode]) {
    let Some(process) = processes.get_mut(head.pid) else { return };
    let Some(layout) = process.interpreter.map(|interpreter| interpreter.layout.code) else { return };
    for told in told {
        if let Some(object) = CodeObject::told(&layout, told) {
            process.codes.tell(told.address, object, head.at);
        }
    }
}

/// The code object at an address in a stack; `None` where nothing shows which one it was.
pub(crate) fn code_at(processes: &Processes, head: EventContext, address: u64) -> Option<&Arc<CodeObject>> {
    let codes = &processes.get(head.pid)?.codes;
    match codes.last(address) {
        None => {
            let own = codes.at(address, head.at);
            let whole = own.filter(|own| !own.is_told());
            whole.or_else(|| processes.code_of_parent(head.pid, address)).or(own)
        }
        Some(_) => codes.at(address, head.at),
    }
}

/// The frame of a Python function, under the name of its class's method if that was found.
pub(crate) fn name_frame(
    code: &CodeObject,
    method: Option<&String>,
    instruction: u64,
    module: String,
) -> Frame {
    Frame {
        kind: FrameKind::Python,
        name: method.unwrap_or(&code.qualname).clone(),
        module,
        file: code.file.clone(),
        line: code.line_at(instruction),
        first_line: code.first_line,
        address: 0,
    }
}

const fn code_of(frame: &Merged) -> Option<u64> {
    match frame {
        Merged::Python { code, .. } => Some(*code),
        _ => None,
    }
}
