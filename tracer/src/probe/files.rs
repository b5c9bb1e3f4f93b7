//! Mapped files and their row tables: read once a file, shared by all processes, in the background.
//!
//! Two threads, so that the reader of events never waits: one reads what a file says of itself (milliseconds), one makes its rows and
//! puts them into a BPF map (half a second for a large library).

use super::row_maps::{RowMapError, RowMaps};
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
use tracer_ebpf::rows::{Rule, rule};
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
    /// Its rows, kept for a file that may hold the interpreter.
    rows: Option<Rows>,
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
    Table(FileKey, Table, Option<Rows>),
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
    /// Starts the threads; they end when this is dropped.
    pub(super) fn start(maps: RowMaps) -> std::io::Result<Self> {
        let (jobs, files) = channel::<Job>();
        let (found, news) = channel();
        let (rows_jobs, rows_todo) = channel();
        let told = found.clone();
        thread::Builder::new()
            .name("energy-files".into())
            .spawn(move || read_files(files, &told, &rows_jobs))?;
        thread::Builder::new()
            .name("energy-rows".into())
            .spawn(move || make_tables(rows_todo, maps, &found))?;
        Ok(Self { files: HashMap::new(), jobs, news, pending: 0 })
    }

    /// The file behind a mapping; its reading begins when it is met for the first time.
    pub(super) fn of(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> Option<&MappedFile> {
        let key = if vdso::is_vdso(mapping) { vdso::file_key() } else { mapping.file.clone()? };
        if !self.files.contains_key(&key) {
            let opened = open(pid, mapping);
            let python = may_hold_interpreter(&mapping.path, program);
            let queued =
                opened.is_some_and(|file| self.jobs.send(Job { key: key.clone(), file, python }).is_ok());
            self.pending += 2 * usize::from(queued);
            let table = if queued { Table::Pending } else { Table::Absent };
            self.files.insert(key.clone(), MappedFile { facts: None, table, rows: None });
        }
        self.files.get(&key)
    }

    /// Takes in what the threads found out; true if there was anything. With `wait`, everything that was begun.
    pub(super) fn take_news(&mut self, wait: bool) -> bool {
        let mut any = false;
        while self.pending > 0 {
            let news = if wait { self.news.recv().ok() } else { self.news.try_recv().ok() };
            let Some(news) = news else { break };
            self.pending -= 1;
            any = true;
            let (News::Facts(key, _) | News::Table(key, ..)) = &news;
            let Some(file) = self.files.get_mut(key) else { continue };
            match news {
                News::Facts(_, facts) => file.facts = facts,
                News::Table(_, table, rows) => (file.table, file.rows) = (table, rows),
            }
        }
        any
    }

    /// Files whose table found no room.
    pub(super) fn refused(&self) -> usize {
        self.files.values().filter(|file| file.table == Table::Refused).count()
    }

    /// How far below the CFA the function at `pc` saved its caller's `rbp` (0: it did not); `None` where that is not known.
    pub(super) fn saved_rbp(&mut self, pid: Pid, mapping: &Mapping, pc: u64) -> Option<u32> {
        let file = self.of(pid, mapping, "")?;
        let facts = file.facts.as_ref()?;
        let svma = pc.wrapping_sub(facts.bias(mapping.start, mapping.offset)?);
        let place = u32::try_from(svma.checked_sub(facts.base)?).ok()?;
        let rows = &file.rows.as_ref()?.rows;
        let after = rows.partition_point(|row| row >> 32 <= u64::from(place));
        let rule = Rule((rows.get(after.checked_sub(1)?)? & 0xffff_ffff) as u32);
        u32::try_from(-rule.rbp()).ok().filter(|_| rule.kind() != rule::FULL)
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

fn open(pid: Pid, mapping: &Mapping) -> Option<File> {
    if vdso::is_vdso(mapping) {
        return vdso::open_image().inspect_err(|error| log::debug!("no image of the vDSO: {error}")).ok();
    }
    mapping.openable(pid).into_iter().find_map(|path| File::open(path).ok())
}

/// The thread that reads what files say of themselves, and passes them on.
fn read_files(jobs: Receiver<Job>, found: &Sender<News>, rows_jobs: &Sender<(Job, u64)>) {
    for job in jobs {
        let wanted: &[&str] = if job.python { &SYMBOLS } else { &[] };
        let facts = ElfFacts::read(&path_of(&job.file), wanted)
            .inspect_err(|error| log::debug!("no unwind information: {error}"))
            .ok()
            .map(Arc::new);
        let base = facts.as_ref().map(|facts| facts.base);
        let mut told = found.send(News::Facts(job.key.clone(), facts)).is_ok();
        told &= match base {
            Some(base) => rows_jobs.send((job, base)).is_ok(),
            None => found.send(News::Table(job.key, Table::Absent, None)).is_ok(),
        };
        if !told {
            return; // Nobody listens any more.
        }
    }
}

/// The thread that makes row tables.
fn make_tables(jobs: Receiver<(Job, u64)>, mut maps: RowMaps, found: &Sender<News>) {
    for (job, base) in jobs {
        let rows = build(&job, base).unwrap_or_else(|error| {
            log::debug!("no unwind rows: {error}");
            Rows::default()
        });
        let table = table_of(&rows, &mut maps);
        if found.send(News::Table(job.key, table, job.python.then_some(rows))).is_err() {
            return;
        }
    }
}

fn table_of(rows: &Rows, maps: &mut RowMaps) -> Table {
    if rows.rows.is_empty() {
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

fn build(job: &Job, base: u64) -> Result<Rows, ElfError> {
    let section = read_eh_frame(&path_of(&job.file))?;
    Ok(section.map(|section| build_rows(&section, base)).unwrap_or_default())
}
