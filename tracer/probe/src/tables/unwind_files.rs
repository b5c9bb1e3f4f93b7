//! Rules of the files that processes have mapped, one address at a time: for what user space unwinds itself.
//!
//! A file is opened when a walk first needs it and stays open; a resolver's worker keeps it too and looks the rules up: workers of their
//! own for the files of each user (`lanes.rs`). Nobody waits for a file that takes its time: a walk ends there as long as its rules are not to be had. Leaves out
//! whole tables (`files`) and the walk (package `unwind`).

use super::drop_elsewhere;
use super::files::{Mapped, open};
use super::lanes::{FileFinding, KeptFile, Lanes};
use energy_trace_foreign::files::{Pool, Room, owner_of_file, owner_of_process};
use energy_trace_foreign::peeker::{Peeker, TargetMemory};
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Owner;
use energy_trace_system::host::open_files;
use energy_trace_unwind::address_space::{AddressSpace, FileKey, Mapping};
use energy_trace_unwind::cfi::FullRules;
use energy_trace_unwind::cpython::memory::Source as _;
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
type CachedRule = (u32, u64, Rule);

/// A file that is unwound through.
struct UnwindFile {
    file: Arc<File>,
    path: String,
    /// Who may have written it: whose worker keeps it.
    owner: Owner,
    is: Is,
}

/// Where it stands.
enum Is {
    /// Its worker is looking into it.
    Asked,
    /// There are rules.
    Kept(KeptFile),
    /// There will be none: it is no ELF file, or cost a worker.
    Useless,
}

/// The files, by what names them.
pub(crate) struct UnwindFiles {
    lanes: Lanes,
    numbers: HashMap<FileKey, u32>,
    /// By number, which no other file has later.
    files: HashMap<u32, UnwindFile>,
    next: u32,
    kept: Vec<Option<CachedRule>>,
    /// Rules in full of all files.
    full: FullRules,
    /// How often something was found out of a file.
    news: u64,
    /// Whose programs the open files are for, by number.
    pool: Pool<u32>,
}

impl UnwindFiles {
    pub(crate) fn new(resolver: Resolver) -> Self {
        Self {
            lanes: Lanes::new(resolver),
            numbers: HashMap::new(),
            files: HashMap::new(),
            next: 0,
            kept: vec![None; KEPT],
            full: FullRules::default(),
            news: 0,
            pool: Pool::new(open_files::for_unwinding()),
        }
    }

    /// Counts up with each file of which something was found out: then a walk that ended there may go on.
    pub(crate) fn news(&mut self) -> u64 {
        self.collect(None);
        self.news
    }

    /// The number of the file behind a mapping; why there is none: it is memory without a file, or is not open yet.
    fn number(&mut self, pid: Pid, mapping: &Mapping, peeker: &Peeker) -> Result<u32, u8> {
        let key = key_of(mapping).ok_or(end::NO_UNWIND_INFO)?;
        if let Some(&number) = self.numbers.get(key) {
            return Ok(number);
        }
        let opened = open(pid, mapping, false, peeker).map_err(|_| end::NOT_READY)?;
        // Gone with its process: another one may still have it.
        let opened = opened.ok_or(end::NO_UNWIND_INFO)?;
        let number = self.next;
        match self.pool.add(owner_of_process(pid), number) {
            Room::None => return Err(end::NO_UNWIND_INFO),
            Room::Instead(_, other) => self.close(&[other]),
            Room::Free => (),
        }
        let owner = owner_of_file(&opened.file);
        let (file, path) = (Arc::new(opened.file), mapping.path.clone());
        self.next = number.checked_add(1).ok_or(end::NO_UNWIND_INFO)?;
        self.files.insert(number, UnwindFile { file, path, owner, is: Is::Asked });
        self.numbers.insert(key.clone(), number);
        self.keep(number);
        Ok(number)
    }

    /// Nothing is asked any more.
    pub(crate) fn finish(&mut self) {
        self.lanes.end();
    }

    /// Has a file looked into, and waits a moment for what comes of it.
    fn keep(&mut self, number: u32) {
        let Some(file) = self.files.get_mut(&number) else { return };
        let asked = self.lanes.keep(file.owner, number, &file.path, &file.file);
        file.is = if asked { Is::Asked } else { Is::Useless };
        let owner = file.owner;
        self.collect(Some(owner));
    }

    /// Takes in what workers found out; where a file of this user was asked about just now, a moment is waited for it.
    fn collect(&mut self, of: Option<Owner>) {
        let found = self.lanes.collect(of);
        self.take_in(found);
    }

    /// Waits a moment for what workers find out; false where nothing is awaited, or whoever made it has no time left.
    pub(crate) fn wait(&mut self) -> bool {
        let found = self.lanes.wait();
        let waited = found.is_some();
        self.take_in(found.unwrap_or_default());
        waited
    }

    fn take_in(&mut self, found: Vec<FileFinding>) {
        for news in found {
            self.news += 1;
            let (number, is) = match news {
                FileFinding::Kept(number, kept) => (number, kept.map_or(Is::Useless, Is::Kept)),
                FileFinding::Rule(number, _, None) => (number, Is::Useless),
                FileFinding::Rule(number, svma, Some((rule, full))) => {
                    let rule = full.map_or(rule, |full| self.full.number(full));
                    self.remember((number, svma, rule));
                    continue;
                }
            };
            if let Some(file) = self.files.get_mut(&number) {
                file.is = is;
            }
        }
    }

    /// Closes files that no process maps any more: as long as one is open, a file that was deleted takes room on its disk, and what it lies on
    /// cannot be unmounted.
    pub(crate) fn forget_unmapped(&mut self, mapped: &Mapped<'_>) {
        let is_asked = |number: &u32| self.files.get(number).is_some_and(|file| matches!(file.is, Is::Asked));
        let gone = self.numbers.iter().filter(|(key, number)| !mapped.contains_key(key) && !is_asked(number));
        let gone: Vec<u32> = gone.map(|(_, number)| *number).collect();
        self.close(&gone);
        self.pool.retain(|number| self.files.contains_key(number));
    }

    /// Closes files, also in their workers; one is opened again when it is needed.
    fn close(&mut self, numbers: &[u32]) {
        let (mut kept, mut open) = (Vec::new(), Vec::new());
        for &number in numbers {
            let Some(UnwindFile { file, is, .. }) = self.files.remove(&number) else { continue };
            open.push(file);
            if let Is::Kept(of) = is {
                kept.push((number, of));
            }
        }
        if !open.is_empty() {
            self.numbers.retain(|_, number| self.files.contains_key(number));
            self.lanes.forget(&kept);
            drop_elsewhere(open);
        }
    }

    fn remember(&mut self, kept: CachedRule) {
        if let Some(slot) = self.kept.get_mut(place_of(kept.1)) {
            *slot = Some(kept);
        }
    }

    /// The rule of a file at an address (SVMA). A file over which a worker is lost is not asked about again.
    fn ask(&mut self, number: u32, svma: u64) -> Result<Rule, u8> {
        let Some(file) = self.files.get_mut(&number) else { return Err(end::NO_UNWIND_INFO) };
        let Is::Kept(kept) = &file.is else { return Err(end::NO_UNWIND_INFO) };
        match self.lanes.rule(kept, (&file.path, number), svma) {
            Ok(Some((rule, full))) => Ok(full.map_or(rule, |full| self.full.number(full))),
            Ok(None) => {
                self.keep(number);
                Err(end::NOT_READY)
            }
            Err(code) => {
                if code != end::NOT_READY {
                    file.is = Is::Useless;
                }
                Err(code)
            }
        }
    }

    /// The rule at an address of a process, or a `wire::end` why there is none.
    pub(crate) fn rule(
        &mut self,
        pid: Pid,
        space: &AddressSpace,
        pc: u64,
        peeker: &Peeker,
    ) -> Result<Rule, u8> {
        let mapping = space.find(pc).ok_or(end::UNMAPPED)?;
        let number = self.number(pid, mapping, peeker)?;
        let svma = match self.svma(number, mapping, pc) {
            Err(end::NOT_READY) => {
                self.collect(None);
                self.svma(number, mapping, pc)
            }
            known => known,
        }?;
        if let Some(Some((of, at, rule))) = self.kept.get(place_of(svma))
            && (*of, *at) == (number, svma)
        {
            return Ok(*rule);
        }
        let rule = self.ask(number, svma)?;
        self.remember((number, svma, rule));
        Ok(rule)
    }

    /// Where an address of a mapping lies in its file's own addresses.
    fn svma(&self, number: u32, mapping: &Mapping, pc: u64) -> Result<u64, u8> {
        match self.files.get(&number).map(|file| &file.is) {
            Some(Is::Kept(kept)) => {
                let bias = kept.facts.bias(mapping.start, mapping.offset).ok_or(end::NO_UNWIND_INFO)?;
                Ok(pc.wrapping_sub(bias))
            }
            Some(Is::Asked) => Err(end::NOT_READY),
            Some(Is::Useless) | None => Err(end::NO_UNWIND_INFO),
        }
    }

    /// Eight bytes of code at an address of a process, from the file: what the file maps cannot have changed since.
    pub(crate) fn code(
        &mut self,
        pid: Pid,
        space: &AddressSpace,
        address: u64,
        peeker: &Peeker,
    ) -> Option<u64> {
        let mapping = space.find(address)?;
        let number = self.number(pid, mapping, peeker).ok()?;
        let file = self.files.get(&number)?;
        let mut bytes = [0; 8];
        let at = address.wrapping_sub(mapping.start).checked_add(mapping.offset)?;
        file.file.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }

    /// How far below the CFA the function at `pc` saved its caller's frame pointer (0: it did not); `None` where that is not known.
    pub(crate) fn saved_fp(
        &mut self,
        pid: Pid,
        space: &AddressSpace,
        pc: u64,
        peeker: &Peeker,
    ) -> Option<u32> {
        let rule = self.rule(pid, space, pc, peeker).ok()?;
        u32::try_from(-rule.fp()).ok().filter(|_| rule.kind() != rule::FULL)
    }
}

/// The place of an address's rule among those that are kept.
const fn place_of(svma: u64) -> usize {
    (svma.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize
}

/// The rules of one process, for a walk.
pub(crate) struct ProcessRules<'a> {
    pub(crate) pid: Pid,
    pub(crate) space: &'a AddressSpace,
    pub(crate) files: &'a std::cell::RefCell<UnwindFiles>,
    /// Its memory as it is now.
    pub(crate) live: &'a TargetMemory<'a>,
    /// Those of the interrupted code.
    pub(crate) registers: &'a [u64; register::COUNT],
    /// Where its HotSpot keeps what is needed, if it has one.
    pub(crate) hotspot: Option<&'a HotspotLayout>,
    /// It has a V8.
    pub(crate) has_v8: bool,
    /// The rule of an address of code that was made at run time, where that code has told it.
    pub(crate) made: &'a dyn Fn(u64) -> Option<Rule>,
}

impl Tables for ProcessRules<'_> {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        if self.hotspot.is_some_and(|layout| layout.holds(pc)) {
            return Ok(Rule(rule::HOTSPOT << 28));
        }
        if self.has_v8 && self.space.find(pc).is_some_and(is_of_v8) {
            return Ok(Rule(rule::V8 << 28));
        }
        if let Some(rule) = (self.made)(pc) {
            return Ok(rule);
        }
        self.files.borrow_mut().rule(self.pid, self.space, pc, self.live.peeker())
    }

    fn hotspot_caller(&mut self, walk: &NativeWalk, memory: &impl Memory) -> Result<NativeWalk, u8> {
        let layout = self.hotspot.ok_or(end::NO_UNWIND_INFO)?;
        hotspot::caller(walk, layout, &CopyAndHeaps { copy: memory, live: self.live, walk })
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
    live: &'a TargetMemory<'a>,
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

#[cfg(test)]
mod tests {
    use super::{Mapped, Peeker, Pid, UnwindFiles};
    use energy_trace_foreign::resolver::Resolver;
    use energy_trace_unwind::vdso::key_of;
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// How many of this process's open files are this one.
    fn open_here(path: &Path) -> usize {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        files
            .filter(|file| std::fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|to| to == path))
            .count()
    }

    fn within_a_minute(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A program's file is open while it is mapped, and closed, in the worker's process too, when no process maps it any more; what is used again is
    /// opened again.
    #[test]
    fn unmapped_files_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("sleeps");
        std::fs::copy("/bin/sleep", &path).unwrap();
        let mut program = Command::new(&path).arg("600").spawn().unwrap();
        let (pid, peeker) = (Pid::new(program.id()), Peeker::start().unwrap());
        let mut space = None;
        within_a_minute(|| {
            space = peeker.mappings(pid, None).ok().flatten();
            space.as_ref().is_some_and(|space| space.mappings().iter().any(|m| Path::new(&m.path) == path))
        });
        let space = space.unwrap();
        let mapping = space.mappings().iter().find(|m| Path::new(&m.path) == path).unwrap();
        let mut files = UnwindFiles::new(Resolver::start(false).unwrap());
        let rule = |files: &mut UnwindFiles| {
            within_a_minute(|| files.rule(pid, &space, mapping.start, &peeker) != Err(super::end::NOT_READY));
        };
        rule(&mut files);
        assert_eq!(open_here(&path), 1);
        files.forget_unmapped(&Mapped::from([(key_of(mapping).unwrap(), (pid, mapping))]));
        assert_eq!(open_here(&path), 1);
        files.forget_unmapped(&Mapped::new());
        within_a_minute(|| open_here(&path) == 0);
        assert!(files.files.is_empty() && files.numbers.is_empty());
        rule(&mut files);
        assert_eq!((open_here(&path), files.files.len()), (1, 1));
        program.kill().and_then(|()| program.wait()).unwrap();
    }
}
