//! One program in one process: what is kept of it, and what `/proc` says of it.
//!
//! Leaves out what becomes of it as events come (`registry.rs`).

use super::code_objects::CodeObjects;
use super::commands::size;
use super::eval_frame::EvalFrame;
use super::frame_cache::FrameCache;
use super::maps_budget::Credit;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, ThreadKey, Tid};
use energy_trace_model::recording::record;
use energy_trace_names::shown::exact_lines;
use energy_trace_names::workload::path_in;
use energy_trace_unwind::address_space::{AddressSpace, Mapping};
use energy_trace_unwind::cpython::detect::Interpreter;
use foldhash::HashMap;
use std::cell::Cell;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};
use tracer_ebpf::thread_context::ThreadVariable;
use tracer_ebpf::wire::{AddressSpace as Block, HotspotLayout};

/// A program in a process.
pub(crate) struct Process {
    pub(crate) record: record::Process,
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) interpreter: Option<Interpreter>,
    pub(crate) refused: bool,
    /// Where its HotSpot keeps what is needed, once the probes know.
    pub(crate) hotspot: Option<HotspotLayout>,
    /// Where its threads have their span's record, once the probes know; when that was last looked for.
    pub(crate) context: Option<ThreadVariable>,
    pub(crate) context_at: KtimeNs,
    /// It has a V8.
    pub(crate) has_v8: bool,
    /// It is this program, about to execute the command.
    pub(crate) launcher: bool,
    /// Bytes of its command line, which may be its parent's.
    pub(crate) command_bytes: usize,
    /// The user that it belongs to, where that could be told.
    pub(crate) owner: u32,
    /// The path of its control group, when that was last read.
    pub(crate) group: Arc<str>,
    /// Whether all its evaluations belong to one chain of frames, when that was asked last.
    pub(crate) one_chain: Cell<Option<(KtimeNs, bool)>>,
    /// When thread-local variables of its interpreter were last looked for.
    pub(crate) variables_at: KtimeNs,
    /// Where its evaluation frames end, once that is known; then its probes know too.
    pub(crate) eval: Option<EvalFrame>,
    pub(crate) codes: CodeObjects,
    pub(crate) frames: FrameCache,
    pub(crate) samples: u64,
    pub(crate) threads: HashMap<Tid, (ThreadKey, String)>,
    pub(crate) parent: Option<Pid>,
    pub(crate) block: Option<Arc<Block>>,
    /// When its mappings were read.
    pub(crate) read_at: Option<KtimeNs>,
    /// Its mappings may have changed.
    pub(crate) dirty: bool,
    /// Its first thread has ended, and an agent looks at it no more.
    pub(crate) has_ended: bool,
    /// When to read its mappings once more: the event of a mapping comes before the mapping.
    pub(crate) again: Option<KtimeNs>,
    /// Time for reads of its mappings (`maps_budget.rs`).
    pub(crate) reads: Credit,
    /// Time for telling the probes of new tables.
    pub(crate) uploads: Credit,
    /// A file that it maps has a table, or other facts, that the probes were not told of.
    pub(crate) has_news: bool,
    /// When its mappings were last read for an unmapped address: not again for each one.
    pub(crate) read_for_pc_at: KtimeNs,
}

impl Process {
    /// Whether it holds a CPython, be it one that cannot be read.
    pub(crate) const fn is_python(&self) -> bool {
        self.interpreter.is_some() || self.refused
    }

    /// Whether its HotSpot makes the code of a mapping.
    pub(crate) fn is_of_hotspot(&self, mapping: &Mapping) -> bool {
        let heaps = self.hotspot.iter().flat_map(|layout| layout.heaps);
        mapping.is_anonymous()
            && heaps.into_iter().any(|heap| heap.start < mapping.end && mapping.start < heap.end)
    }

    /// Takes in its mappings as they were read at `now`.
    pub(crate) fn set_space(&mut self, space: AddressSpace, now: KtimeNs) {
        if *self.space != space {
            self.frames.forget_addresses();
            self.space = Arc::new(space);
        }
        self.read_at = Some(now);
    }
}

/// A program that is met now.
pub(crate) fn new_process(record: record::Process, owner: u32, launcher: bool) -> Process {
    Process {
        owner,
        group: Arc::default(),
        command_bytes: size(&record.command),
        one_chain: Cell::new(None),
        variables_at: KtimeNs::default(),
        space: Arc::default(),
        interpreter: None,
        refused: false,
        hotspot: None,
        context: None,
        context_at: KtimeNs::default(),
        has_v8: false,
        launcher,
        eval: None,
        read_at: None,
        codes: CodeObjects::default(),
        frames: FrameCache::default(),
        samples: 0,
        threads: HashMap::default(),
        parent: None,
        block: None,
        dirty: true,
        has_ended: false,
        again: None,
        reads: Credit::default(),
        uploads: Credit::default(),
        has_news: false,
        read_for_pc_at: KtimeNs::default(),
        record,
    }
}

/// Whether a process runs the same file as this one, by its device and inode.
pub(crate) fn is_this_program(file: Option<(u64, u64)>) -> bool {
    static THIS: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    let own = || std::fs::metadata("/proc/self/exe").ok().map(|found| (found.dev(), found.ino()));
    file.is_some() && *THIS.get_or_init(own) == file
}

/// The path of the program: the first file that is mapped as code.
pub(crate) fn program_of(space: &AddressSpace) -> String {
    space.mappings().iter().find(|m| m.file.is_some()).map(|m| m.path.clone()).unwrap_or_default()
}

/// Bytes of a control group's path that are kept: those of pods and jobs have 200.
const LONGEST_GROUP: usize = 1024;
/// Bytes of `/proc/PID/cgroup` that are read: a line for each hierarchy.
const MOST_OF_GROUPS: u64 = 16 << 10;

/// The path of a process's control group, by the hierarchy that says most; empty where it is gone. It is the kernel's own memory.
pub(crate) fn read_group(pid: Pid) -> String {
    let mut groups = Vec::new();
    let file = File::open(format!("/proc/{pid}/cgroup"));
    if file.and_then(|file| file.take(MOST_OF_GROUPS).read_to_end(&mut groups)).is_err() {
        return String::new();
    }
    let groups = exact_lines(&groups);
    let mut path = path_in(&groups).unwrap_or_default().to_owned();
    if path.len() > LONGEST_GROUP {
        path.truncate(path.floor_char_boundary(LONGEST_GROUP));
        path.truncate(path.rfind('/').unwrap_or_default());
    }
    path
}

/// The kernel's name for a process or thread, which is the kernel's own memory; empty where it is gone. `of`: its folder in `/proc`.
pub(crate) fn read_name(of: &str) -> String {
    std::fs::read(format!("/proc/{of}/comm"))
        .map(|b| String::from_utf8_lossy(&b).trim_end().to_owned())
        .unwrap_or_default()
}
