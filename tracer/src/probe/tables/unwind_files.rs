//! Rules of the files that processes have mapped, one address at a time: for what user space unwinds itself.
//!
//! A file is opened when a walk first needs it and stays open; a resolver's worker keeps it too and looks the rules up. Leaves out whole
//! tables (`files`) and the walk (package `unwind`).

use super::files::open;
use crate::foreign::{Pool, Room, owner_of_process};
use crate::host::open_files;
use crate::resolver::{ResolveError, Worker, question};
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::{AddressSpace, FileKey, Mapping};
use energy_trace_unwind::cfi::FullRules;
use energy_trace_unwind::cpython::memory::{ProcessMemory, Source as _};
use energy_trace_unwind::elf::ElfFacts;
use energy_trace_unwind::v8::is_of_v8;
use energy_trace_unwind::vdso::key_of;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use tracer_ebpf::hotspot;
use tracer_ebpf::hotspot_layout::HotspotLayout;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{NativeWalk, Tables};
use tracer_ebpf::rows::{FullRule, Rule, rule};
use tracer_ebpf::v8;
use tracer_ebpf::wire::{end, register};

/// Rules that are kept: a walk asks for the same return addresses again and again.
const KEPT: usize = 1 << 14;

/// A rule that is kept: the file's number, the address (SVMA).
type Kept = (u32, u64, Rule);

/// A file that is unwound through.
struct UnwindFile {
    file: File,
    facts: ElfFacts,
    path: String,
    /// Of the worker that keeps it.
    generation: u32,
}

/// The files, by what names them.
pub(crate) struct UnwindFiles {
    worker: Arc<Worker>,
    numbers: HashMap<FileKey, u32>,
    /// By number; `None` for what is no ELF file, could not be opened, or cost a worker.
    files: Vec<Option<UnwindFile>>,
    kept: Vec<Option<Kept>>,
    /// Rules in full of all files.
    full: FullRules,
    /// Whose programs the open files are for, by number.
    pool: Pool<u32>,
}

impl UnwindFiles {
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self {
            worker,
            numbers: HashMap::new(),
            files: Vec::new(),
            kept: vec![None; KEPT],
            full: FullRules::default(),
            pool: Pool::new(open_files::for_unwinding()),
        }
    }

    /// The number of the file behind a mapping; `None` for memory without a file.
    fn number(&mut self, pid: Pid, mapping: &Mapping) -> Option<u32> {
        let key = key_of(mapping)?;
        if let Some(&number) = self.numbers.get(key) {
            return Some(number);
        }
        let Some(opened) = open(pid, mapping) else {
            // Gone with its process: another one may still have it.
            log::debug!("cannot open {} of process {pid}", mapping.path);
            return None;
        };
        let number = u32::try_from(self.files.len()).ok()?;
        match self.pool.add(owner_of_process(pid), number) {
            Room::None => return None,
            Room::Instead(_, other) => self.close(other),
            Room::Free => (),
        }
        let kept = self.worker.keep(&mapping.path, &opened, number);
        let facts = kept.inspect_err(|error| log::debug!("no unwind information: {error}")).ok();
        let (path, generation) = (mapping.path.clone(), self.worker.generation());
        self.files.push(facts.map(|facts| UnwindFile { file: opened, facts, path, generation }));
        self.numbers.insert(key.clone(), number);
        Some(number)
    }

    /// Closes a file for another one; it is opened again when it is needed.
    fn close(&mut self, number: u32) {
        self.numbers.retain(|_, known| *known != number);
        if let Some(file) = self.files.get_mut(number as usize) {
            *file = None;
        }
    }

    /// The rule of a file at an address (SVMA). A file over which a worker is lost is not asked about again.
    fn ask(&mut self, number: u32, svma: u64) -> Result<Rule, u8> {
        let place = self.files.get_mut(number as usize).ok_or(end::NO_UNWIND_INFO)?;
        let Some(file) = place else { return Err(end::NO_UNWIND_INFO) };
        match file.rule(&self.worker, number, svma) {
            Ok((rule, full)) => Ok(full.map_or(rule, |full| self.full.number(full))),
            Err(error) => {
                log::debug!("no rule of {}: {error}", file.path);
                *place = None;
                Err(end::NO_UNWIND_INFO)
            }
        }
    }

    /// The rule at an address of a process, or a `wire::end` why there is none.
    pub(crate) fn rule(&mut self, pid: Pid, space: &AddressSpace, pc: u64) -> Result<Rule, u8> {
        let mapping = space.find(pc).ok_or(end::UNMAPPED)?;
        let number = self.number(pid, mapping).ok_or(end::NO_UNWIND_INFO)?;
        let file = self.files.get(number as usize).and_then(Option::as_ref);
        let file = file.ok_or(end::NO_UNWIND_INFO)?;
        let bias = file.facts.bias(mapping.start, mapping.offset).ok_or(end::NO_UNWIND_INFO)?;
        let svma = pc.wrapping_sub(bias);
        let place = (svma.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
        if let Some(Some((of, at, rule))) = self.kept.get(place)
            && (*of, *at) == (number, svma)
        {
            return Ok(*rule);
        }
        let rule = self.ask(number, svma)?;
        if let Some(slot) = self.kept.get_mut(place) {
            *slot = Some((number, svma, rule));
        }
        Ok(rule)
    }

    /// Eight bytes of code at an address of a process, from the file: what the file maps cannot have changed since.
    pub(crate) fn code(&mut self, pid: Pid, space: &AddressSpace, address: u64) -> Option<u64> {
        let mapping = space.find(address)?;
        let number = self.number(pid, mapping)?;
        let file = self.files.get(number as usize)?.as_ref()?;
        let mut bytes = [0; 8];
        let at = address.wrapping_sub(mapping.start).checked_add(mapping.offset)?;
        file.file.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// How far below the CFA the function at `pc` saved its caller's `rbp` (0: it did not); `None` where that is not known.
    pub(crate) fn saved_rbp(&mut self, pid: Pid, space: &AddressSpace, pc: u64) -> Option<u32> {
        let rule = self.rule(pid, space, pc).ok()?;
        u32::try_from(-rule.rbp()).ok().filter(|_| rule.kind() != rule::FULL)
    }
}

impl UnwindFile {
    /// Asks the worker, which is told of the file again where it is not the one that was told.
    fn rule(
        &mut self,
        worker: &Worker,
        number: u32,
        svma: u64,
    ) -> Result<(Rule, Option<FullRule>), ResolveError> {
        if self.generation != worker.generation() {
            worker.keep(&self.path, &self.file, number)?;
            self.generation = worker.generation();
        }
        worker.rule(&self.path, number, svma).map(question::rule)
    }
}

/// The rules of one process, for a walk.
pub(crate) struct ProcessRules<'a> {
    pub(crate) pid: Pid,
    pub(crate) space: &'a AddressSpace,
    pub(crate) files: &'a std::cell::RefCell<UnwindFiles>,
    /// Those of the interrupted code.
    pub(crate) registers: &'a [u64; register::COUNT],
    /// Where its HotSpot keeps what is needed, if it has one.
    pub(crate) hotspot: Option<&'a HotspotLayout>,
    /// It has a V8.
    pub(crate) has_v8: bool,
}

impl Tables for ProcessRules<'_> {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        if self.hotspot.is_some_and(|layout| layout.holds(pc)) {
            return Ok(Rule(rule::HOTSPOT << 28));
        }
        if self.has_v8 && self.space.find(pc).is_some_and(is_of_v8) {
            return Ok(Rule(rule::V8 << 28));
        }
        self.files.borrow_mut().rule(self.pid, self.space, pc)
    }

    fn hotspot_caller(&mut self, walk: &NativeWalk, memory: &impl Memory) -> Result<NativeWalk, u8> {
        let layout = self.hotspot.ok_or(end::NO_UNWIND_INFO)?;
        hotspot::caller(walk, layout, &CopyAndHeaps { copy: memory, live: ProcessMemory::of(self.pid), walk })
    }

    fn v8_caller(&mut self, walk: &NativeWalk, memory: &impl Memory) -> Result<NativeWalk, u8> {
        v8::caller(walk, self, memory)
    }

    fn full(&mut self, index: u32) -> Option<FullRule> {
        self.files.borrow().full.get(index)
    }

    fn interrupted(&mut self, number: u32) -> Option<u64> {
        self.registers.get(register::of_dwarf(number)).copied()
    }
}

/// A copy of a stack, and what a HotSpot keeps of its code: that is read in the process, where it stays as it is for seconds.
struct CopyAndHeaps<'a, Copy> {
    copy: &'a Copy,
    live: ProcessMemory,
    walk: &'a NativeWalk,
}

impl<Copy: Memory> Memory for CopyAndHeaps<'_, Copy> {
    fn read_word(&self, address: u64) -> Option<u64> {
        /// Above the stack pointer, memory is taken for the stack, which has changed since it was copied.
        const STACK: u64 = 8 << 20;
        let is_stack = address.wrapping_sub(self.walk.sp) < STACK;
        self.copy.read_word(address).or_else(|| if is_stack { None } else { self.live.word(address) })
    }

    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        self.copy.read_frame(address, bytes, out)
    }
}
