//! Mapped files and their row tables: read once a file, shared by all processes, in the background.
//!
//! Two threads, so that the reader of events never waits: one reads what a file says of itself (milliseconds), one makes its rows and
//! puts them into a BPF map (half a second for a large library).

use super::reader::hurry;
use super::row_maps::{RowMapError, RowMaps};
use crate::ids::Pid;
use crate::unwind::address_space::{FileKey, Mapping};
use crate::unwind::cfi::{add_entry, build_rows};
use crate::unwind::cpython::detect::{SYMBOLS, may_hold_interpreter};
use crate::unwind::elf::{ElfError, ElfFacts, path_of, read_eh_frame};
use crate::unwind::vdso;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tracer_ebpf::wire::CodeMapping;

/// Where a file's row table stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Being built.
    Pending,
    /// In the map, under this number.
    Ready(u32),
    /// There will be none.
    Absent,
    /// There was no room for it.
    Refused,
}

/// A mapped file.
pub(super) struct MappedFile {
    /// What it says; `None` until it was read, and where it is not ELF.
    pub(super) facts: Option<Arc<ElfFacts>>,
    /// Its table.
    table: Table,
}

/// Work for the threads: the file stays open, whatever becomes of its path.
struct Job {
    key: FileKey,
    file: File,
    python: bool,
}

/// What the threads found out.
enum News {
    Facts(FileKey, Option<Arc<ElfFacts>>),
    Table(FileKey, Table),
}

/// All mapped files.
pub(super) struct Files {
    files: HashMap<FileKey, MappedFile>,
    jobs: Sender<Job>,
    news: Receiver<News>,
    /// News to come.
    pending: usize,
}

impl Files {
    /// Starts the threads; they end when this is dropped. Without `maps` no tables are made.
    pub(super) fn start(maps: Option<RowMaps>) -> std::io::Result<Self> {
        let (jobs, files) = channel::<Job>();
        let (found, news) = channel();
        let (rows_jobs, rows_todo) = channel();
        let told = found.clone();
        thread::Builder::new().name("energy-files".into()).spawn(move || {
            hurry();
            read_files(files, &told, &rows_jobs);
        })?;
        thread::Builder::new()
            .name("energy-rows".into())
            .spawn(move || make_tables(rows_todo, maps, &found))?;
        Ok(Self { files: HashMap::new(), jobs, news, pending: 0 })
    }

    /// The file behind a mapping; its reading begins when it is met for the first time.
    pub(super) fn of(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> Option<&MappedFile> {
        let key = if vdso::is_vdso(mapping) { vdso::file_key() } else { mapping.file.clone()? };
        if !self.files.contains_key(&key) {
            let python = may_hold_interpreter(&mapping.path, program);
            self.begin(key.clone(), open(pid, mapping), python);
        }
        self.files.get(&key)
    }

    /// Begins to read a file that a process will map, by its path here.
    pub(super) fn foresee(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let Ok(facts) = file.metadata() else { return };
        // As `/proc/PID/maps` prints it (fs/proc/task_mmu.c). File systems that show another device there have their files read twice.
        let device = format!("{:02x}:{:02x}", libc::major(facts.dev()), libc::minor(facts.dev()));
        let key = FileKey { device, inode: facts.ino() };
        if !self.files.contains_key(&key) {
            self.begin(key, Some(file), true);
        }
    }

    /// Has a file read.
    fn begin(&mut self, key: FileKey, file: Option<File>, python: bool) {
        let queued = file.is_some_and(|file| self.jobs.send(Job { key: key.clone(), file, python }).is_ok());
        self.pending += 2 * usize::from(queued);
        let table = if queued { Table::Pending } else { Table::Absent };
        self.files.insert(key, MappedFile { facts: None, table });
    }

    /// Takes in what the threads found out; true if there was anything. With `wait`, everything that was begun.
    pub(super) fn take_news(&mut self, wait: bool) -> bool {
        let mut any = false;
        while self.pending > 0 {
            let news = if wait { self.news.recv().ok() } else { self.news.try_recv().ok() };
            let Some(news) = news else { break };
            self.pending -= 1;
            any = true;
            let (News::Facts(key, _) | News::Table(key, _)) = &news;
            let Some(file) = self.files.get_mut(key) else { continue };
            match news {
                News::Facts(_, facts) => file.facts = facts,
                News::Table(_, table) => file.table = table,
            }
        }
        any
    }

    /// Whether the threads have work.
    pub(super) const fn is_busy(&self) -> bool {
        self.pending > 0
    }

    /// Files whose table found no room.
    pub(super) fn refused(&self) -> usize {
        self.files.values().filter(|file| file.table == Table::Refused).count()
    }

    /// What the probes must know of a mapping.
    pub(super) fn code_mapping(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> CodeMapping {
        let (start, end) = (mapping.start, mapping.end);
        let mut out = CodeMapping { start, end, bias: 0, table: CodeMapping::NO_INFO, reserved: 0 };
        let Some(file) = self.of(pid, mapping, program) else { return out };
        let bias =
            file.facts.as_ref().and_then(|f| Some(f.bias(start, mapping.offset)?.wrapping_add(f.base)));
        out.table = match (file.table, bias) {
            (Table::Ready(table), Some(_)) => table,
            (Table::Pending, _) => CodeMapping::NO_TABLE,
            _ => CodeMapping::NO_INFO,
        };
        out.bias = bias.unwrap_or(0);
        out
    }
}

/// Opens the file behind a mapping.
pub(super) fn open(pid: Pid, mapping: &Mapping) -> Option<File> {
    if vdso::is_vdso(mapping) {
        return vdso::open_image().inspect_err(|error| log::debug!("no image of the vDSO: {error}")).ok();
    }
    mapping.openable(pid).into_iter().find_map(|path| File::open(path).ok())
}

/// The thread that reads what files say of themselves, and passes them on.
fn read_files(jobs: Receiver<Job>, found: &Sender<News>, rows_jobs: &Sender<(Job, (u64, u64))>) {
    for job in jobs {
        let wanted: &[&str] = if job.python { &SYMBOLS } else { &[] };
        let facts = ElfFacts::read(&path_of(&job.file), wanted)
            .inspect_err(|error| log::debug!("no unwind information: {error}"))
            .ok()
            .map(Arc::new);
        let place = facts.as_ref().map(|facts| (facts.base, facts.entry));
        let mut told = found.send(News::Facts(job.key.clone(), facts)).is_ok();
        told &= match place {
            Some(place) => rows_jobs.send((job, place)).is_ok(),
            None => found.send(News::Table(job.key, Table::Absent)).is_ok(),
        };
        if !told {
            return; // Nobody listens any more.
        }
    }
}

/// The thread that makes row tables.
fn make_tables(jobs: Receiver<(Job, (u64, u64))>, mut maps: Option<RowMaps>, found: &Sender<News>) {
    for (job, place) in jobs {
        let table = maps.as_mut().map_or(Table::Absent, |maps| make_table(&job, place, maps));
        if found.send(News::Table(job.key, table)).is_err() {
            return;
        }
    }
}

fn make_table(job: &Job, place: (u64, u64), maps: &mut RowMaps) -> Table {
    let rows = build(job, place).unwrap_or_else(|error| {
        log::debug!("no unwind rows: {error}");
        Vec::new()
    });
    table_of(&rows, maps)
}

fn table_of(rows: &[u64], maps: &mut RowMaps) -> Table {
    if rows.is_empty() {
        return Table::Absent;
    }
    match maps.add(rows) {
        Ok(table) => Table::Ready(table),
        Err(RowMapError::Full) => Table::Refused,
        Err(error) => {
            log::debug!("no row table: {error}");
            Table::Absent
        }
    }
}

/// Makes the rows of a file, whose lowest address and entry point these are.
fn build(job: &Job, (base, entry): (u64, u64)) -> Result<Vec<u64>, ElfError> {
    let Some(section) = read_eh_frame(&path_of(&job.file))? else { return Ok(Vec::new()) };
    let mut rows = build_rows(&section, base).rows;
    if !rows.is_empty() {
        add_entry(&mut rows, entry.saturating_sub(base));
    }
    Ok(rows)
}
