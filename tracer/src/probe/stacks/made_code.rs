//! Proves guesses: where code that was made at run time (oneDNN's kernels) was interrupted, its own code says how far above its stack pointer the
//! caller's is. Where that is what the scan of the stack has found, the caller is no guess.
//!
//! The code is read from the process, looked into by the resolver, and compared again with what the process has whenever it is relied on. Leaves
//! out what the code means (`energy_trace_unwind::made_code`).

use crate::foreign::owner_of_process;
use crate::peeker::{Peeker, digest};
use crate::resolver::Worker;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::made_code::{LARGEST, MadeFunction};
use energy_trace_unwind::merge::RawStack;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use tracer_ebpf::wire::end;

/// Questions that one process is worth: a network has some hundred kernels.
const MOST_ASKED: u32 = 1024;
/// Questions without an answer that it is worth: other run-times' code begins at no page.
const MOST_UNANSWERED: u32 = 32;
/// Bytes of code, and of what it says, that are kept of all processes: any program can make as much code as it likes.
pub(super) const MOST_KEPT: usize = 64 << 20;

/// What is known of code that was made at run time.
pub(crate) struct MadeCode {
    worker: Arc<Worker>,
    processes: BTreeMap<Pid, Functions>,
    /// Bytes above which nothing more is asked.
    most_kept: usize,
}

/// Functions of one process.
#[derive(Default)]
struct Functions {
    /// By where each begins, with what tells its code from other code.
    known: BTreeMap<u64, (MadeFunction, u64)>,
    asked: u32,
    unanswered: u32,
}

impl MadeCode {
    /// Nothing yet; this worker will look into code, of which about so many bytes may be kept.
    pub(crate) const fn new(worker: Arc<Worker>, most_kept: usize) -> Self {
        Self { worker, processes: BTreeMap::new(), most_kept }
    }

    /// The stack without its first guess, where that is the caller of code which proves it; its first frame is in that mapping.
    pub(crate) fn prove(
        &mut self,
        pid: Pid,
        raw: &RawStack,
        mapping: &Mapping,
        peeker: &Peeker,
    ) -> Option<RawStack> {
        let ([leaf, gap], _) = raw.native.split_first_chunk()?;
        if raw.guess_depth == 0 || gap.pc != u64::from(end::NO_UNWIND_INFO) {
            return None;
        }
        let depth = self.depth(pid, mapping, leaf.pc, peeker)?;
        (depth == u32::from(raw.guess_depth)).then(|| without_first_guess(raw))
    }

    /// How far the caller's stack pointer is above that of an instruction.
    fn depth(&mut self, pid: Pid, mapping: &Mapping, at: u64, peeker: &Peeker) -> Option<u32> {
        let functions = self.processes.entry(pid).or_default();
        if let Known::Function(depth) = functions.known(pid, at, peeker) {
            return depth;
        }
        if functions.is_asked_enough() || self.kept() >= self.most_kept {
            return None;
        }
        self.processes.get_mut(&pid)?.ask(pid, mapping, at, (&self.worker, peeker))
    }

    /// Bytes that are kept of all processes.
    fn kept(&self) -> usize {
        self.processes.values().map(Functions::bytes).sum()
    }

    /// Forgets a process.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }
}

/// What is known of the function that an address is in.
enum Known {
    /// Its depth there, where its code is as it was looked into and says so.
    Function(Option<u32>),
    Nothing,
}

impl Functions {
    fn known(&mut self, pid: Pid, at: u64, peeker: &Peeker) -> Known {
        let before = self.known.range(..=at).next_back().filter(|(_, (function, _))| at < function.end);
        let Some((&begin, (function, code))) = before else { return Known::Nothing };
        match peeker.is_still(pid, begin, function.end.saturating_sub(begin), *code) {
            Err(_) => Known::Function(None),
            Ok(true) => Known::Function(function.depth(at)),
            Ok(false) => {
                self.known.remove(&begin);
                Known::Nothing
            }
        }
    }

    const fn is_asked_enough(&self) -> bool {
        self.asked >= MOST_ASKED || self.unanswered >= MOST_UNANSWERED
    }

    fn ask(&mut self, pid: Pid, mapping: &Mapping, at: u64, whom: (&Worker, &Peeker)) -> Option<u32> {
        self.asked += 1;
        let Some((function, code)) = ask(pid, mapping, at, whom) else {
            self.unanswered += 1;
            return None;
        };
        let depth = function.depth(at);
        self.known.insert(function.begin, (function, code));
        depth
    }

    fn bytes(&self) -> usize {
        self.known.values().map(|(function, _)| size_of::<Self>() + function.bytes()).sum()
    }
}

/// The function that an address is in, with what tells its code from other code.
fn ask(
    pid: Pid,
    mapping: &Mapping,
    at: u64,
    (worker, peeker): (&Worker, &Peeker),
) -> Option<(MadeFunction, u64)> {
    let start = mapping.start.max(at.saturating_sub(LARGEST));
    let length = mapping.end.min(at.saturating_add(LARGEST)).checked_sub(start)?;
    let code = peeker.bytes(pid, start, length).ok()??;
    let mut file = File::from(memfd_create("code", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(&code).ok()?;
    let label = format!("code that process {} made", pid.get());
    let function = worker.made_function((&label, owner_of_process(pid)), &file, start, at).ok()??;
    let part = function.begin.checked_sub(start)?..function.end.checked_sub(start)?;
    let code = code.get(usize::try_from(part.start).ok()?..usize::try_from(part.end).ok()?)?;
    Some((function, digest(code)))
}

/// The stack whose first gap, behind its first frame, is none.
fn without_first_guess(raw: &RawStack) -> RawStack {
    let mut proved = raw.clone();
    let gap = proved.native.remove(1);
    if let Some(leaf) = proved.native.first_mut() {
        leaf.cfa = gap.cfa;
    }
    proved.guessed = proved.guessed.saturating_sub(1);
    proved.guess_depth = 0;
    proved
}

#[cfg(test)]
mod tests {
    use super::{MOST_KEPT, MadeCode};
    use crate::peeker::Peeker;
    use crate::resolver::Resolver;
    use energy_trace_model::ids::Pid;
    use energy_trace_unwind::address_space::Mapping;
    use energy_trace_unwind::merge::RawStack;
    use memmap2::MmapMut;
    use std::sync::Arc;
    use tracer_ebpf::native::NativeFrame;
    use tracer_ebpf::wire::end;

    /// A guess of this depth at the caller of an address.
    fn guess(at: u64, guess_depth: u16) -> RawStack {
        let native = [(at, 0), (u64::from(end::NO_UNWIND_INFO), 0x5000), (0x4000, 0x6000)];
        let native = native.map(|(pc, cfa)| NativeFrame { pc, cfa }).to_vec();
        RawStack { native, guessed: 1, guess_depth, ..RawStack::default() }
    }

    /// Anonymous memory.
    fn memory(start: u64, bytes: u64) -> Mapping {
        Mapping { start, end: start + bytes, offset: 0, file: None, path: String::new() }
    }

    /// A guess is proved where the code says the same, by the code that is there now.
    #[test]
    fn guesses_that_code_proves() {
        let mut page = MmapMut::map_anon(4096).unwrap();
        let (at, pid) = (page.as_ptr() as u64 + 1, Pid::new(std::process::id()));
        let memory = memory(at - 1, 4096);
        let (resolver, peeker) = (Resolver::start(false).unwrap(), Peeker::start().unwrap());
        let mut made = MadeCode::new(Arc::new(resolver.worker(false)), MOST_KEPT);
        page[..4].copy_from_slice(&[0x50, 0x90, 0x58, 0xc3]); // push %rax; nop; pop %rax; ret
        let proved = made.prove(pid, &guess(at, 16), &memory, &peeker).unwrap();
        let expected = [(at, 0x5000), (0x4000, 0x6000)].map(|(pc, cfa)| NativeFrame { pc, cfa });
        assert_eq!((proved.native, proved.guessed), (expected.to_vec(), 0));
        assert_eq!(made.prove(pid, &guess(at, 24), &memory, &peeker), None);
        page[..4].copy_from_slice(&[0x90, 0x90, 0x90, 0xc3]);
        assert_eq!(made.prove(pid, &guess(at, 16), &memory, &peeker), None);
        assert!(made.prove(pid, &guess(at, 8), &memory, &peeker).is_some());
    }

    /// Of a program that makes ever more code no more is kept than was allowed: what is known goes on to prove guesses, and nothing is asked.
    #[test]
    fn code_without_end() {
        let mut pages = MmapMut::map_anon(2 * 4096).unwrap();
        let (at, pid) = (pages.as_ptr() as u64 + 1, Pid::new(std::process::id()));
        let memory = memory(at - 1, 2 * 4096);
        for page in [0, 4096] {
            pages[page..page + 4].copy_from_slice(&[0x50, 0x90, 0x58, 0xc3]);
        }
        let (resolver, peeker) = (Resolver::start(false).unwrap(), Peeker::start().unwrap());
        let proves = |most_kept| {
            let mut made = MadeCode::new(Arc::new(resolver.worker(false)), most_kept);
            [at, at + 4096, at].map(|at| made.prove(pid, &guess(at, 16), &memory, &peeker).is_some())
        };
        assert_eq!(proves(MOST_KEPT), [true; 3]);
        assert_eq!(proves(1), [true, false, true]);
    }
}
