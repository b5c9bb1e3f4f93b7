//! Names of Python frames: code objects read from the process, checked on every sample, and made frames.
//!
//! A code object may be freed and another put in its place: before a cached one is believed, sixteen bytes of it are read again, those
//! of all frames of a sample in one call. One that differs is read anew; where that fails its name is lost and counted, for what was read
//! before is certainly not it: the name or the line table is another. A process that has ended cannot be asked: a name is given only to
//! samples from before the last time that its code object was found to be still the same. What was read before and not checked since was
//! seen to be wrong (a thread's last milliseconds under load, in memory that an import had freed), and is lost and counted too.

use super::process::Process;
use super::processes::Processes;
use crate::clock::KtimeNs;
use crate::ids::Pid;
use crate::profile::record::{Frame, FrameKind};
use crate::unwind::cpython::class_name::{MethodName, find_name};
use crate::unwind::cpython::code::CodeObject;
use crate::unwind::cpython::layout::CodeLayout;
use crate::unwind::cpython::memory::ProcessMemory;
use crate::unwind::cpython::module_name::module_of;
use crate::unwind::merge::Merged;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What was learned of files: the module of each.
#[derive(Default)]
pub(super) struct ModuleNames {
    by_file: HashMap<(Pid, String), String>,
}

impl ModuleNames {
    fn of(&mut self, pid: Pid, file: &str) -> &str {
        self.by_file.entry((pid, file.to_owned())).or_insert_with(|| {
            let root = format!("/proc/{pid}/root");
            module_of(file, |path| {
                path.is_absolute() && Path::new(&format!("{root}{}", path.display())).exists()
            })
        })
    }

    /// Forgets a process that is gone.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.by_file.retain(|(p, _), _| *p != pid);
    }
}

/// Reads again what changed of the code objects of a sample, and finds the classes of methods that do not know their own.
pub(super) fn refresh_codes(processes: &mut Processes, pid: Pid, frames: &[Merged]) {
    let Some(process) = processes.get_mut(pid) else { return };
    let Some(interpreter) = process.interpreter else { return };
    let layout = interpreter.layout.code;
    let mut codes: Vec<u64> = frames.iter().filter_map(code_of).collect();
    codes.sort_unstable();
    codes.dedup();
    let memory = ProcessMemory::of(pid);
    let places: Vec<u64> = codes.iter().map(|&c| CodeObject::check_address(&layout, c)).collect();
    let mut checks = vec![[0; 16]; codes.len()];
    let now = KtimeNs::now(); // Before the check: what is true of the code object then is true of samples until then.
    let mut done = 0;
    while let (Some(places), Some(checks)) = (places.get(done..), checks.get_mut(done..))
        && !places.is_empty()
    {
        let read = memory.read_pairs(places, checks);
        for (&address, check) in codes.iter().skip(done).zip(checks.iter()).take(read) {
            if process.codes.get(&address).is_none_or(|code| !code.is_still(check)) {
                reread(process, &memory, &layout, address);
            }
            process.checked.insert(address, now);
        }
        done += read + 1; // One that cannot be read is passed over.
    }
    if layout.copies.is_some() {
        reread_copies(process, &memory, &layout, frames);
    }
    if layout.classes.is_some() {
        find_classes(process, &memory, &layout, frames);
    }
}

fn reread(process: &mut Process, memory: &ProcessMemory, layout: &CodeLayout, address: u64) {
    let old = match CodeObject::read(memory, layout, address) {
        Some(code) => process.codes.insert(address, Arc::new(code)),
        None => process.codes.remove(&address),
    };
    // Methods are only found of a code object that was read: a first reading has none to forget.
    if old.is_some() {
        process.methods.retain(|&(code, _), _| code != address);
    }
}

/// Reads again what runs in a copy of its bytecode that was made since.
fn reread_copies(process: &mut Process, memory: &ProcessMemory, layout: &CodeLayout, frames: &[Merged]) {
    for frame in frames {
        let &Merged::Python { code, instruction, .. } = frame else { continue };
        if process.codes.get(&code).is_some_and(|object| object.lacks(instruction)) {
            reread(process, memory, layout, code);
        }
    }
}

/// Finds the names of methods with their classes, once for each code object and class.
fn find_classes(process: &mut Process, memory: &ProcessMemory, layout: &CodeLayout, frames: &[Merged]) {
    for frame in frames {
        let &Merged::Python { code, class, .. } = frame else { continue };
        if class == 0 || process.methods.contains_key(&(code, class)) {
            continue;
        }
        let Some(object) = process.codes.get(&code).filter(|object| object.is_method) else { continue };
        match find_name(memory, layout, code, class, &object.qualname) {
            Some(MethodName::Exact(name)) => {
                let named = Arc::new(object.with_qualname(name));
                process.codes.insert(code, named);
            }
            Some(MethodName::Guess(name)) => {
                process.methods.insert((code, class), name);
            }
            None => (),
        }
    }
}

/// The frame of a Python function in a sample taken at `at`, by its code object, instruction and class; `None` where the code object cannot be read (any more).
pub(super) fn python_frame(
    processes: &Processes,
    modules: &mut ModuleNames,
    pid: Pid,
    at: KtimeNs,
    (address, instruction, class): (u64, u64, u64),
) -> Option<Frame> {
    let process = processes.get(pid)?;
    let known = match process.checked.get(&address) {
        Some(&checked) if checked < at => return None,
        _ => process.codes.get(&address).cloned(),
    };
    let method = process.methods.get(&(address, class));
    let code = known.or_else(|| processes.code_of_parent(pid, address))?;
    Some(Frame {
        kind: FrameKind::Python,
        name: method.unwrap_or(&code.qualname).clone(),
        module: modules.of(pid, &code.file).to_owned(),
        file: code.file.clone(),
        line: code.line_at(instruction),
        first_line: code.first_line,
        address: 0,
    })
}

const fn code_of(frame: &Merged) -> Option<u64> {
    match frame {
        Merged::Python { code, .. } => Some(*code),
        _ => None,
    }
}
