//! Frames of stacks get their numbers: by where they are in a process, for as long as that means the same.
//!
//! Nearly all frames of a sample were in one before: their numbers are remembered by address (`frame_cache.rs`). Leaves out the names of
//! native functions, which are found at the end (`symbolize/`).

use super::python_frames::{Thread, code_at, name_frame};
use crate::probe::bpf::decode::Head;
use crate::probe::collect::collector::Collector;
use crate::symbolize::{JIT, JitProcess};
use crate::unwind::address_space::Mapping;
use crate::unwind::merge::Merged;
use crate::unwind::vdso::is_vdso;
use energy_trace_model::ids::{FrameId, Pid};
use energy_trace_model::recording::record::{Frame, FrameKind};
use std::sync::Arc;

impl Collector {
    /// The number of a frame in a stack of this thread.
    pub(crate) fn frame(&mut self, head: Head, thread: Thread, frame: Merged) -> FrameId {
        match frame {
            Merged::Native(pc) | Merged::Kernel(pc) => self.address_frame(head, frame, pc),
            Merged::Mark(mark) => self.out.frame(bare(FrameKind::Special, mark, "", 0)),
            Merged::Python { code, instruction, class } => {
                self.python_frame(head, thread, (code, instruction, class))
            }
        }
    }

    fn address_frame(&mut self, head: Head, frame: Merged, address: u64) -> FrameId {
        if let Some((id, hit)) = self.processes.get_mut(head.pid).and_then(|p| p.frames.at(address, head.at))
        {
            if hit {
                self.processes.hit(head.pid, address, head.at);
            }
            return id;
        }
        let (id, lasting) = match frame {
            Merged::Native(pc) if self.is_jit(head.pid, pc) => (self.jit_frame(head, pc), false),
            Merged::Native(pc) => {
                let frame = self.native_frame(head, pc);
                let lasting = frame.kind == FrameKind::Native;
                (self.out.frame(frame), lasting)
            }
            _ => (self.out.frame(bare(FrameKind::Kernel, "", "", address)), true),
        };
        if lasting && let Some(process) = self.processes.get_mut(head.pid) {
            process.frames.put(address, id, head.at);
        }
        id
    }

    fn python_frame(&mut self, head: Head, thread: Thread, place: (u64, u64, u64)) -> FrameId {
        let Some(code) = code_at(&self.processes, head, thread, place.0) else {
            self.nameless += 1;
            self.stir(head.at); // Others may follow, and are read in time then.
            log::debug!("nothing shows what was at {:#x} in process {}", place.0, head.pid);
            return self.out.frame(bare(
                FrameKind::Special,
                "[unknown: Python function that is gone]",
                "",
                0,
            ));
        };
        let process = self.processes.get(head.pid);
        if let Some(id) = process.and_then(|p| p.frames.python(place, code)) {
            return id;
        }
        let method = process.and_then(|p| p.codes.method(place.0, place.2));
        let settled = method.is_some() || !code.is_method;
        let code = Arc::clone(code);
        let id =
            self.out.python_frame(name_frame(&code, method, place.1, self.modules.of(head.pid, &code.file)));
        if settled && let Some(process) = self.processes.get_mut(head.pid) {
            process.frames.put_python(place, code, id);
        }
        id
    }

    /// Whether an address is in memory that is no file: code that was made at run time.
    fn is_jit(&self, pid: Pid, pc: u64) -> bool {
        self.processes.get(pid).and_then(|p| p.space.find(pc)).is_some_and(Mapping::is_anonymous)
    }

    /// A frame of its own for each program and address: what is there, and when, is the program's business.
    fn jit_frame(&mut self, head: Head, pc: u64) -> FrameId {
        let Some(process) = self.processes.get(head.pid) else {
            return self.out.frame(bare(FrameKind::Native, "", JIT, pc));
        };
        let roots = &mut self.libraries.roots;
        let names = (self.jit.entry(process.record.key))
            .or_insert_with(|| JitProcess::new(head.pid, roots.of(head.pid)));
        if let Some(frame) = names.see(pc, head.at) {
            return frame;
        }
        names.find_dumps(head.pid, process.space.mappings());
        let frame = self.out.new_frame(bare(FrameKind::Native, "", JIT, pc));
        names.add(pc, head.at, frame);
        frame
    }

    /// Normalised while the process lives: the file and the place in it, not the address.
    pub(crate) fn native_frame(&mut self, head: Head, pc: u64) -> Frame {
        self.processes.hit(head.pid, pc, head.at);
        let mapping = self.processes.get(head.pid).and_then(|p| p.space.find(pc));
        match mapping {
            Some(m) if m.file.is_some() || is_vdso(m) => {
                let module = self.libraries.module_of(head.pid, m);
                bare(FrameKind::Native, "", &module, pc.wrapping_sub(m.start).wrapping_add(m.offset))
            }
            Some(m) => bare(FrameKind::Native, &m.path.clone(), &m.path.clone(), 0),
            None => {
                self.processes.strange_address(head.pid, head.at);
                bare(FrameKind::Special, "[unknown: unmapped address]", "", 0)
            }
        }
    }
}

/// A frame without lines.
pub(crate) fn bare(kind: FrameKind, name: &str, module: &str, address: u64) -> Frame {
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
