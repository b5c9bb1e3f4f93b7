//! Names of Python frames: code objects read from the process, checked on every sample, and made frames.
//!
//! A code object may be freed and another put in its place: before a cached one is believed, sixteen bytes of it are read again, those
//! of all frames of a sample in one call.

use super::processes::Processes;
use crate::ids::Pid;
use crate::profile::record::{Frame, FrameKind};
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

/// Reads again what changed of the code objects of a sample.
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
    let read = memory.read_pairs(&places, &mut checks);
    for (&address, check) in codes.iter().zip(&checks).take(read) {
        if process.codes.get(&address).is_none_or(|code| !code.is_still(check)) {
            reread(&mut process.codes, &memory, &layout, address);
        }
    }
}

fn reread(
    codes: &mut HashMap<u64, Arc<CodeObject>>,
    memory: &ProcessMemory,
    layout: &CodeLayout,
    address: u64,
) {
    match CodeObject::read(memory, layout, address) {
        Some(code) => codes.insert(address, Arc::new(code)),
        None => codes.remove(&address),
    };
}

/// The frame of a Python function; `None` where its code object cannot be read (any more).
pub(super) fn python_frame(
    processes: &Processes,
    modules: &mut ModuleNames,
    pid: Pid,
    address: u64,
    instruction: u64,
) -> Option<Frame> {
    let known = processes.get(pid)?.codes.get(&address).cloned();
    let code = known.or_else(|| processes.code_of_parent(pid, address))?;
    Some(Frame {
        kind: FrameKind::Python,
        name: code.qualname.clone(),
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
