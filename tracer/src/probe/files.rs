//! Mapped files and their row tables: read once a file, shared by all processes, built in the background.
//!
//! Rows of a large library take half a second to make; the reader of events must not wait that long.

use super::object::Maps;
use crate::ids::Pid;
use crate::unwind::address_space::{FileKey, Mapping};
use crate::unwind::cfi::{Rows, build_rows};
use crate::unwind::cpython::detect::{SYMBOLS, may_hold_interpreter};
use crate::unwind::elf::{ElfError, ElfFacts, path_of, read_eh_frame};
use crate::unwind::vdso;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tracer_ebpf::rows::Rule;
use tracer_ebpf::wire::CodeMapping;

/// Where a file's row table stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Being built.
    Pending,
    /// In the map: number and chunks.
    Ready(u32, u32),
    /// There will be none.
    Absent,
}

/// A mapped file.
pub(super) struct MappedFile {
    /// What it says; `None` where it could not be read or is not ELF.
    pub(super) facts: Option<Arc<ElfFacts>>,
    /// Its table.
    pub(super) table: Table,
    /// Its rows, kept for a file that may hold the interpreter.
    rows: Option<Vec<u64>>,
    python: bool,
}

/// Work for the builder: the file stays open, whatever becomes of its path.
struct Job {
    key: FileKey,
    file: File,
    base: u64,
}

struct Built {
    key: FileKey,
    rows: Result<Rows, ElfError>,
}

/// All mapped files.
pub(super) struct Files {
    files: HashMap<FileKey, MappedFile>,
    jobs: Sender<Job>,
    built: Receiver<Built>,
    pending: usize,
}

impl Files {
    /// Starts the builder; it ends when this is dropped.
    pub(super) fn start() -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (done, built) = channel();
        thread::Builder::new().name("energy-rows".into()).spawn(move || {
            for job in todo {
                let rows = build(&job);
                if done.send(Built { key: job.key, rows }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { files: HashMap::new(), jobs, built, pending: 0 })
    }

    /// The file behind a mapping, read when it is met for the first time.
    pub(super) fn of(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> Option<&MappedFile> {
        let key = if vdso::is_vdso(mapping) { vdso::file_key() } else { mapping.file.clone()? };
        if !self.files.contains_key(&key) {
            let opened = open(pid, mapping);
            let file = self.meet(key.clone(), opened, may_hold_interpreter(&mapping.path, program));
            self.files.insert(key.clone(), file);
        }
        self.files.get(&key)
    }

    fn meet(&mut self, key: FileKey, opened: Option<File>, python: bool) -> MappedFile {
        let absent = MappedFile { facts: None, table: Table::Absent, rows: None, python };
        let Some(file) = opened else { return absent };
        let wanted: &[&str] = if python { &SYMBOLS } else { &[] };
        let facts = match ElfFacts::read(&path_of(&file), wanted) {
            Ok(facts) => facts,
            Err(error) => {
                log::debug!("no unwind information: {error}");
                return absent;
            }
        };
        let queued = self.jobs.send(Job { key, file, base: facts.base }).is_ok();
        self.pending += usize::from(queued);
        let table = if queued { Table::Pending } else { Table::Absent };
        MappedFile { facts: Some(Arc::new(facts)), table, rows: None, python }
    }

    /// Puts finished tables into the map; true if any became ready.
    pub(super) fn take_built(&mut self, maps: &mut Maps, wait: bool) -> bool {
        let mut any = false;
        while self.pending > 0 {
            let built = if wait { self.built.recv().ok() } else { self.built.try_recv().ok() };
            let Some(built) = built else { break };
            self.pending -= 1;
            any = true;
            let Some(file) = self.files.get_mut(&built.key) else { continue };
            file.table = table_of(&built.rows, maps);
            file.rows = built.rows.ok().filter(|_| file.python).map(|rows| rows.rows);
        }
        any
    }

    /// How far below the CFA the function at `pc` saved its caller's `rbp` (0: it did not); `None` where that is not known.
    pub(super) fn saved_rbp(&mut self, pid: Pid, mapping: &Mapping, pc: u64) -> Option<u32> {
        let file = self.of(pid, mapping, "")?;
        let facts = file.facts.as_ref()?;
        let svma = pc.wrapping_sub(facts.bias(mapping.start, mapping.offset)?);
        let place = u32::try_from(svma.checked_sub(facts.base)?).ok()?;
        let rows = file.rows.as_ref()?;
        let after = rows.partition_point(|row| row >> 32 <= u64::from(place));
        let rule = Rule((rows.get(after.checked_sub(1)?)? & 0xffff_ffff) as u32);
        u32::try_from(-rule.rbp()).ok()
    }

    /// What the probes must know of a mapping.
    pub(super) fn code_mapping(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> CodeMapping {
        let mut out = CodeMapping {
            start: mapping.start,
            end: mapping.end,
            bias: 0,
            table: CodeMapping::NO_INFO,
            chunks: 0,
        };
        let Some(file) = self.of(pid, mapping, program) else { return out };
        let Some(facts) = &file.facts else { return out };
        let Some(bias) = facts.bias(mapping.start, mapping.offset) else { return out };
        out.bias = bias.wrapping_add(facts.base);
        (out.table, out.chunks) = match file.table {
            Table::Pending => (CodeMapping::NO_TABLE, 0),
            Table::Ready(table, chunks) => (table, chunks),
            Table::Absent => (CodeMapping::NO_INFO, 0),
        };
        out
    }
}

fn open(pid: Pid, mapping: &Mapping) -> Option<File> {
    if vdso::is_vdso(mapping) {
        return vdso::open_image().inspect_err(|error| log::debug!("no image of the vDSO: {error}")).ok();
    }
    mapping.openable(pid).into_iter().find_map(|path| File::open(path).ok())
}

fn build(job: &Job) -> Result<Rows, ElfError> {
    let section = read_eh_frame(&path_of(&job.file))?;
    Ok(section.map(|section| build_rows(&section, job.base)).unwrap_or_default())
}

fn table_of(rows: &Result<Rows, ElfError>, maps: &mut Maps) -> Table {
    let rows = match rows {
        Ok(rows) if !rows.rows.is_empty() => &rows.rows,
        Ok(_) => return Table::Absent,
        Err(error) => {
            log::debug!("no unwind rows: {error}");
            return Table::Absent;
        }
    };
    match maps.rows.add(rows) {
        Ok((table, chunks)) => Table::Ready(table, chunks),
        Err(error) => {
            log::debug!("no row table: {error}");
            Table::Absent
        }
    }
}
