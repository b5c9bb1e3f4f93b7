//! Mapped files and their row tables: read once a file, shared by all processes, in the background.
//!
//! Two threads, so that the reader of events never waits: one reads what a file says of itself (milliseconds), one makes its rows and
//! puts them into a BPF map (half a second for a large library). Each asks a worker of its own: nothing of a file is parsed here.

use super::eviction::{Resident, victims};
use super::fair_queue::FairQueue;
use super::generated_rows::{GeneratedTable, GeneratedTables, RowsOf, SentRows};
use energy_trace_bpf::row_maps::{RowMapError, RowMaps, is_one_chunk};
use energy_trace_foreign::files::{SeenFile, file_key, owner_of_process};
use energy_trace_foreign::peeker::{OpenedFile, Peeker, Unanswered};
use energy_trace_foreign::resolver::{Resolver, Worker};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Owner;
use energy_trace_system::host::open_files;
use energy_trace_system::host::urgency;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use energy_trace_unwind::cfi::Rows;
use energy_trace_unwind::cpython::detect::{SYMBOLS, may_hold_interpreter};
use energy_trace_unwind::cpython::thread_places::{self, libc_of};
use energy_trace_unwind::elf::ElfFacts;
use energy_trace_unwind::hotspot::{self, may_hold_hotspot};
use energy_trace_unwind::v8::{self, may_hold_v8};
use energy_trace_unwind::vdso::{self, key_of};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tracer_ebpf::rows::MAX_FULL_RULES;
use tracer_ebpf::wire::CodeMapping;

/// Who waits for files looks up so often.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Between two searches of room for one file.
const TRY_AGAIN_NS: u64 = 100_000_000;

/// Where a file's row table stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Being built.
    Pending,
    /// In the map, under this number.
    Ready(u32),
    /// There will be none.
    Absent,
    /// There was no room for it yet.
    Refused,
    /// It was dropped to make room for another one.
    Dropped,
}

/// A mapped file.
pub(crate) struct MappedFile {
    /// What it says; `None` until it was read, and where it cannot be.
    pub(crate) facts: Option<Arc<ElfFacts>>,
    /// Its table.
    table: Table,
    /// Bytes of its table, once that is known.
    bytes: usize,
    /// When a sample last met it; zero: never.
    hit: KtimeNs,
    /// When room for it was last looked for.
    tried: KtimeNs,
    /// Whose program was the first to map it.
    owner: Owner,
}

/// Work for the threads: the file stays open, whatever becomes of its path.
struct Job {
    key: FileKey,
    /// What it is called in messages.
    path: String,
    file: File,
    wanted: Wanted,
    /// Whose program was the first to map it.
    owner: Owner,
}

/// Symbols to look for in a file.
type Wanted = &'static [&'static str];

/// Those of what a program itself may be: a Python, or with a V8.
const OF_PROGRAMS: [&str; SYMBOLS.len() + 1] = {
    let mut all = [v8::SYMBOL; SYMBOLS.len() + 1];
    let mut at = 0;
    while at < SYMBOLS.len() {
        all[at] = SYMBOLS[at];
        at += 1;
    }
    all
};

fn wanted_of(path: &str, program: &str) -> Wanted {
    if may_hold_interpreter(path, program) {
        &OF_PROGRAMS
    } else if may_hold_hotspot(path) {
        &[hotspot::TABLE]
    } else if may_hold_v8(path, program) {
        &[v8::SYMBOL]
    } else if libc_of(path).is_some() {
        &thread_places::SYMBOLS
    } else {
        &[]
    }
}

/// Work for the thread that makes tables.
enum TableJob {
    /// Make one: the file, its lowest address and its entry point.
    Make(Job, (u64, u64)),
    /// Drop one.
    Drop(u32),
}

impl TableJob {
    /// Whose program it is for. What is dropped makes room for what follows.
    fn owner(&self) -> Option<Owner> {
        match self {
            Self::Make(job, _) => Some(job.owner),
            Self::Drop(_) => None,
        }
    }
}

/// Rows of code that a process of this owner made, in this version.
struct GeneratedRows {
    pid: Pid,
    owner: Owner,
    number: u32,
    rows: Vec<RowsOf>,
}

/// The tables in the kernel, where any are made: two threads add to them.
type SharedMaps = Option<Mutex<RowMaps>>;

/// What the threads found out.
enum FileUpdate {
    Facts(FileKey, Option<Arc<ElfFacts>>),
    Table(FileKey, TableOutcome),
    TableOutcome(Pid, u32, Vec<GeneratedTable>),
}

/// What became of a table.
struct TableOutcome {
    table: Table,
    bytes: usize,
}

/// Files that are known: of more those are forgotten that no process maps.
const MOST_FILES: usize = 4_000;

/// Living processes that map a file, one for each.
pub(crate) type Mapped<'a> = HashMap<&'a FileKey, (Pid, &'a Mapping)>;

/// All mapped files.
pub(crate) struct Files {
    files: HashMap<FileKey, MappedFile>,
    /// How many may be known.
    most_files: usize,
    jobs: Sender<Job>,
    updates: Receiver<FileUpdate>,
    table_jobs: Sender<TableJob>,
    generated_jobs: Sender<GeneratedRows>,
    /// FileUpdate to come.
    pending: usize,
    /// Files that wait to be read, open, by whose program they are for; how many may, and whether one more could not.
    waiting: HashMap<Owner, usize>,
    most_waiting: usize,
    left_out: bool,
    /// Files that need a table and have none.
    wanted: Vec<FileKey>,
    /// Tables of code that processes made, and those that have new ones.
    made: GeneratedTables,
    generated_news: HashSet<Pid>,
    /// Work that waits until the probes know which mappings lost their table.
    deferred: Vec<TableJob>,
    /// Bytes that all tables may take, and what they take.
    capacity: usize,
    used: usize,
    /// Tables that were dropped to make room.
    pub(crate) dropped: u64,
    /// The process that waits to become the command, and our own program, which it has mapped until then: it is not read for it.
    held: Option<(Pid, FileKey)>,
    /// Opens mapped files.
    peeker: Peeker,
    /// A file could not be opened in time, and is to be asked for again.
    pub(crate) is_late: bool,
}

impl Files {
    /// Starts the threads; they end when this is dropped. Without `maps` no tables are made.
    pub(crate) fn start(maps: Option<RowMaps>, resolver: &Resolver, peeker: Peeker) -> std::io::Result<Self> {
        let (jobs, files) = channel::<Job>();
        let (found, updates) = channel();
        let (rows_jobs, rows_todo) = channel();
        let (updates_from_files, capacity) = (found.clone(), maps.as_ref().map_or(0, RowMaps::capacity));
        let table_jobs = Sender::clone(&rows_jobs);
        let (generated_jobs, generated_todo) = channel();
        let (generated_found, maps) = (found.clone(), Arc::new(maps.map(Mutex::new)));
        let maps_of_files = Arc::clone(&maps);
        let (for_facts, for_rows) = (resolver.worker(true), resolver.worker(false));
        thread::Builder::new().name("energy-files".into()).spawn(move || {
            urgency::raise();
            read_files(files, &updates_from_files, &rows_jobs, &for_facts);
        })?;
        thread::Builder::new()
            .name("energy-rows".into())
            .spawn(move || make_tables(rows_todo, &maps_of_files, &found, &for_rows))?;
        thread::Builder::new().name("energy-made-row".into()).spawn(move || {
            urgency::raise();
            make_made_tables(generated_todo, &maps, &generated_found);
        })?;
        Ok(Self {
            files: HashMap::new(),
            most_files: MOST_FILES,
            jobs,
            updates,
            table_jobs,
            generated_jobs,
            pending: 0,
            waiting: HashMap::new(),
            most_waiting: open_files::for_readers(),
            left_out: false,
            wanted: Vec::new(),
            made: GeneratedTables::default(),
            generated_news: HashSet::new(),
            deferred: Vec::new(),
            capacity,
            used: 0,
            dropped: 0,
            held: None,
            peeker,
            is_late: false,
        })
    }

    /// The file behind a mapping; its reading begins when it is met for the first time.
    pub(crate) fn of(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> Option<&MappedFile> {
        let key = key_of(mapping)?;
        if !self.files.contains_key(key) {
            if self.held.as_ref().is_some_and(|(held, own)| (*held, own) == (pid, key)) {
                return None;
            }
            let (wanted, owner) = (wanted_of(&mapping.path, program), owner_of_process(pid));
            if self.waiting.get(&owner).is_some_and(|files| *files >= self.most_waiting) {
                self.left_out = true;
                return None;
            }
            match open(pid, mapping, false, &self.peeker) {
                Ok(opened) => {
                    let file = opened.map(|opened| opened.file);
                    self.begin(key.clone(), &mapping.path, file, (owner, wanted));
                }
                Err(why) => self.is_late |= why == Unanswered::Late,
            }
        }
        self.files.get(key)
    }

    /// Whether the code in a mapping was made at run time: in memory without a file, or where its file is no ELF file or has no code there.
    /// `None` while that is not known.
    pub(crate) fn is_made(&self, mapping: &Mapping) -> Option<bool> {
        let Some(key) = mapping.file.as_ref().filter(|_| !mapping.is_anonymous()) else {
            return Some(mapping.is_anonymous());
        };
        let file = self.files.get(key)?;
        match &file.facts {
            Some(facts) => Some(!facts.has_code_in(mapping.offset, mapping.end - mapping.start)),
            None => (file.table != Table::Pending).then_some(false),
        }
    }

    /// This process waits to become the command: what it runs until then is ours.
    pub(crate) fn hold(&mut self, pid: Pid) {
        let own = std::fs::metadata("/proc/self/exe").ok();
        self.held = own.map(|own| (pid, file_key(&own)));
    }

    /// Begins to read a file that a process will map.
    pub(crate) fn prefetch(&mut self, seen: &SeenFile) {
        let Ok(file) = seen.open() else { return };
        // Where `maps` shows another device the file is read twice.
        if !self.files.contains_key(&seen.key) {
            let path = seen.path().display().to_string();
            self.begin(seen.key.clone(), &path, Some(file), (Owner::Root, &OF_PROGRAMS));
        }
    }

    /// Whether files that were left out, as many others waited, may be asked for again. Says so once.
    pub(crate) fn takes_more(&mut self) -> bool {
        let room = self.waiting.values().all(|files| *files < self.most_waiting);
        room && std::mem::take(&mut self.left_out)
    }

    /// Has a file read, for a program of this owner.
    fn begin(&mut self, key: FileKey, path: &str, file: Option<File>, (owner, wanted): (Owner, Wanted)) {
        let job = file.map(|file| Job { key: key.clone(), path: path.to_owned(), file, wanted, owner });
        let queued = job.is_some_and(|job| self.jobs.send(job).is_ok());
        self.pending += 2 * usize::from(queued);
        *self.waiting.entry(owner).or_default() += usize::from(queued);
        let table = if queued { Table::Pending } else { Table::Absent };
        let never = KtimeNs::default();
        self.files.insert(key, MappedFile { facts: None, table, bytes: 0, hit: never, tried: never, owner });
    }

    /// Takes in what the threads found out; gives the files that it is about.
    pub(crate) fn drain_updates(&mut self) -> HashSet<FileKey> {
        self.take_updates(|updates| updates.try_recv().ok())
    }

    /// The same of everything that was begun, as long as it is to `go_on`.
    pub(crate) fn await_updates(&mut self, go_on: &mut dyn FnMut() -> bool) -> HashSet<FileKey> {
        self.take_updates(|updates| {
            while go_on() {
                match updates.recv_timeout(LOOK_UP) {
                    Err(RecvTimeoutError::Timeout) => {}
                    other => return other.ok(),
                }
            }
            None
        })
    }

    fn take_updates(
        &mut self,
        mut next: impl FnMut(&Receiver<FileUpdate>) -> Option<FileUpdate>,
    ) -> HashSet<FileKey> {
        let mut about = HashSet::new();
        while self.pending > 0 {
            let Some(updates) = next(&self.updates) else { break };
            self.pending -= 1;
            match updates {
                FileUpdate::Facts(key, facts) => {
                    about.insert(key.clone());
                    if let Some(file) = self.files.get_mut(&key) {
                        file.facts = facts;
                    }
                }
                FileUpdate::Table(key, made) => {
                    about.insert(key.clone());
                    self.take_table(key, &made);
                }
                FileUpdate::TableOutcome(pid, number, tables) => {
                    let unwanted = self.made.made(pid, number, tables);
                    self.deferred.extend(unwanted.into_iter().map(TableJob::Drop));
                    self.generated_news.insert(pid);
                }
            }
        }
        about
    }

    fn take_table(&mut self, key: FileKey, made: &TableOutcome) {
        let Some(file) = self.files.get_mut(&key) else { return };
        (file.table, file.bytes) = (made.table, made.bytes);
        let waiting = self.waiting.entry(file.owner).or_default();
        *waiting = waiting.saturating_sub(1);
        match made.table {
            Table::Ready(_) => self.used += made.bytes,
            Table::Refused => self.wanted.push(key),
            _ => (),
        }
    }

    /// Whether new rows of code that a process made can be taken in now.
    pub(crate) fn takes_made_rows(&self, pid: Pid) -> bool {
        self.made.takes_rows(pid)
    }

    /// Has tables made of code that a process made, from this version of its rows.
    pub(crate) fn make_rows(&mut self, pid: Pid, number: u32, rows: Vec<RowsOf>) {
        let owner = owner_of_process(pid);
        if self.capacity > 0 && self.made.begin(pid, owner, &rows) {
            let job = GeneratedRows { pid, owner, number, rows };
            self.pending += usize::from(self.generated_jobs.send(job).is_ok());
        }
    }

    /// The rows of code that a process made of which the probes were told last.
    pub(crate) fn told_rows(&self, pid: Pid) -> Option<SentRows> {
        self.made.last_told(pid)
    }

    /// Whether there are tables of code that a process made of which the probes are not told. Says so once.
    pub(crate) fn has_made_news(&mut self, pid: Pid) -> bool {
        self.generated_news.remove(&pid)
    }

    /// The probes know the mappings of a process.
    pub(crate) fn told(&mut self, pid: Pid) {
        let old = self.made.told(pid, energy_trace_system::clock::now());
        self.deferred.extend(old.into_iter().map(TableJob::Drop));
    }

    /// A process is another program, or gone.
    pub(crate) fn forget_made(&mut self, pid: Pid) {
        self.held.take_if(|(held, _)| *held == pid);
        self.generated_news.remove(&pid);
        let gone = self.made.forget(pid);
        self.deferred.extend(gone.into_iter().map(TableJob::Drop));
    }

    /// A sample met a file: its table is in use, or needed.
    pub(crate) fn hit(&mut self, mapping: &Mapping, at: KtimeNs) {
        let Some(key) = key_of(mapping) else { return };
        let Some(file) = self.files.get_mut(key) else { return };
        file.hit = at;
        let missing = matches!(file.table, Table::Refused | Table::Dropped);
        if missing && at.ns_since(file.tried) > TRY_AGAIN_NS {
            file.tried = at;
            self.wanted.push(key.clone());
        }
    }

    /// Whether a file needs a table for which room must be made.
    pub(crate) const fn is_over_budget(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Takes room from tables that are needed less for those that are wanted. Gives the files whose mappings must be told to the probes, who
    /// must know before `apply_pending`.
    pub(crate) fn make_room(&mut self, mapped: &Mapped<'_>, now: KtimeNs) -> HashSet<FileKey> {
        let mut changed = HashSet::new();
        for key in std::mem::take(&mut self.wanted) {
            let Some(file) = self.files.get(&key) else { continue };
            let Some(place) = file.facts.as_ref().map(|facts| (facts.base, facts.entry)) else { continue };
            let Some(&(pid, mapping)) = mapped.get(&key) else { continue };
            let (needed, owner) = ((self.used + file.bytes).saturating_sub(self.capacity), file.owner);
            let demanded = file.hit != KtimeNs::default();
            let gone = victims(self.residents(mapped), needed, demanded, now);
            log::debug!("{}: a table of {} bytes, {needed} to free: {gone:?}", mapping.path, file.bytes);
            let Some(gone) = gone else { continue };
            let Ok(Some(opened)) = open(pid, mapping, false, &self.peeker) else { continue };
            for victim in gone {
                self.drop_table(&victim);
                changed.insert(victim);
            }
            let path = mapping.path.clone();
            let job = Job { key: key.clone(), path, file: opened.file, wanted: &[], owner };
            self.deferred.push(TableJob::Make(job, place));
            if let Some(file) = self.files.get_mut(&key) {
                file.table = Table::Pending;
            }
        }
        changed
    }

    /// Whether more files are known than should be.
    pub(crate) fn are_many(&self) -> bool {
        self.files.len() > self.most_files
    }

    /// Forgets files that no process maps, and their tables, of which no probe is told any more.
    pub(crate) fn forget_unmapped(&mut self, mapped: &Mapped<'_>) {
        let (used, deferred) = (&mut self.used, &mut self.deferred);
        self.files.retain(|key, file| {
            let is_kept = file.table == Table::Pending || mapped.contains_key(key);
            if let (false, Table::Ready(table)) = (is_kept, file.table) {
                *used = used.saturating_sub(file.bytes);
                deferred.push(TableJob::Drop(table));
            }
            is_kept
        });
        // Not again at once.
        self.most_files = MOST_FILES.max(2 * self.files.len());
    }

    fn residents(&self, mapped: &Mapped<'_>) -> Vec<Resident> {
        let resident = |(key, file): (&FileKey, &MappedFile)| Resident {
            key: key.clone(),
            bytes: file.bytes,
            hit: file.hit,
            mapped: mapped.contains_key(key),
        };
        let ready = self.files.iter().filter(|(_, file)| matches!(file.table, Table::Ready(_)));
        ready.map(resident).collect()
    }

    fn drop_table(&mut self, key: &FileKey) {
        let Some(file) = self.files.get_mut(key) else { return };
        if let Table::Ready(table) = std::mem::replace(&mut file.table, Table::Dropped) {
            self.used = self.used.saturating_sub(file.bytes);
            self.dropped += 1;
            self.deferred.push(TableJob::Drop(table));
        }
    }

    /// The probes know: now tables are dropped, and made.
    pub(crate) fn apply_pending(&mut self) {
        for job in self.deferred.drain(..) {
            let makes = !matches!(job, TableJob::Drop(_));
            self.pending += usize::from(self.table_jobs.send(job).is_ok() && makes);
        }
    }

    /// How many files have no table for want of room.
    pub(crate) fn without_room(&self) -> usize {
        let missing = |file: &&MappedFile| matches!(file.table, Table::Refused | Table::Dropped);
        self.files.values().filter(missing).count()
    }

    /// How many tables there are, and their bytes.
    pub(crate) fn in_memory(&self) -> (usize, usize) {
        let ready = self.files.values().filter(|file| matches!(file.table, Table::Ready(_))).count();
        (ready, self.used)
    }

    /// Whether the threads have work.
    pub(crate) const fn is_busy(&self) -> bool {
        self.pending > 0
    }

    /// What the probes must know of a mapping: the table of its file, or that of code that was made there.
    pub(crate) fn code_mapping(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> CodeMapping {
        let of_file = self.file_mapping(pid, mapping, program);
        let made = self.made.mapping(pid, mapping).filter(|_| of_file.table == CodeMapping::NO_INFO);
        made.map_or(of_file, |made| made.put_into(of_file))
    }

    fn file_mapping(&mut self, pid: Pid, mapping: &Mapping, program: &str) -> CodeMapping {
        let (start, end) = (mapping.start, mapping.end);
        let mut out = CodeMapping { start, end, bias: 0, table: CodeMapping::NO_INFO, one_chunk: 0 };
        let Some(file) = self.of(pid, mapping, program) else { return out };
        out.one_chunk = u32::from(is_one_chunk(file.bytes));
        let bias =
            file.facts.as_ref().and_then(|f| Some(f.bias(start, mapping.offset)?.wrapping_add(f.base)));
        out.table = match (file.table, bias) {
            (Table::Ready(table), Some(_)) => table,
            (Table::Pending | Table::Refused | Table::Dropped, _) => CodeMapping::NO_TABLE,
            _ => CodeMapping::NO_INFO,
        };
        out.bias = bias.unwrap_or(0);
        out
    }
}

/// Opens the file behind a mapping; `None` where there is none. `or_here`: where the process has ended, the one at its path.
pub(crate) fn open(
    pid: Pid,
    mapping: &Mapping,
    or_here: bool,
    peeker: &Peeker,
) -> Result<Option<OpenedFile>, Unanswered> {
    if vdso::is_vdso(mapping) {
        let image = vdso::open_image().inspect_err(|error| log::debug!("no image of the vDSO: {error}"));
        let opened = |file| OpenedFile { file, identity: (0, 0), owner: 0, links: 1, is_copy: true };
        return Ok(image.ok().map(opened));
    }
    let opened = peeker.open(pid, mapping, or_here)?;
    let opened = opened.inspect_err(|error| log::debug!("{} of process {pid}: {error}", mapping.path));
    Ok(opened.ok())
}

/// The thread that reads what files say of themselves, and passes them on.
fn read_files(
    jobs: Receiver<Job>,
    found: &Sender<FileUpdate>,
    rows_jobs: &Sender<TableJob>,
    worker: &Worker,
) {
    for job in FairQueue::over(jobs, |job: &Job| Some(job.owner)) {
        let facts = (worker.facts(&job.path, &job.file, job.wanted))
            .inspect_err(|error| log::debug!("no unwind information of {}: {error}", job.path))
            .ok()
            .map(Arc::new);
        let place = facts.as_ref().map(|facts| (facts.base, facts.entry));
        let mut is_received = found.send(FileUpdate::Facts(job.key.clone(), facts)).is_ok();
        is_received &= match place {
            Some(place) => rows_jobs.send(TableJob::Make(job, place)).is_ok(),
            None => found.send(FileUpdate::Table(job.key, TableOutcome::ABSENT)).is_ok(),
        };
        if !is_received {
            return; // Nobody listens any more.
        }
    }
}

/// The thread that makes row tables of files.
fn make_tables(jobs: Receiver<TableJob>, maps: &SharedMaps, found: &Sender<FileUpdate>, worker: &Worker) {
    for job in FairQueue::over(jobs, TableJob::owner) {
        let made = match job {
            TableJob::Make(job, place) => {
                FileUpdate::Table(job.key.clone(), make_table(&job, place, maps, worker))
            }
            TableJob::Drop(table) => {
                let dropped = maps.as_ref().map_or(Ok(()), |maps| locked(maps).remove(table));
                dropped.unwrap_or_else(|error| log::debug!("a row table stays: {error}"));
                continue;
            }
        };
        if found.send(made).is_err() {
            return;
        }
    }
}

/// The thread that makes those of code that was made at run time: such code runs at once, and does not wait until large libraries are read.
fn make_made_tables(jobs: Receiver<GeneratedRows>, maps: &SharedMaps, found: &Sender<FileUpdate>) {
    for GeneratedRows { pid, number, rows, .. } in
        FairQueue::over(jobs, |job: &GeneratedRows| Some(job.owner))
    {
        let made = maps.as_ref().map(|maps| generated_tables(rows, &mut locked(maps))).unwrap_or_default();
        if found.send(FileUpdate::TableOutcome(pid, number, made)).is_err() {
            return;
        }
    }
}

fn locked(maps: &Mutex<RowMaps>) -> MutexGuard<'_, RowMaps> {
    maps.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_table(job: &Job, (base, entry): (u64, u64), maps: &SharedMaps, worker: &Worker) -> TableOutcome {
    let Some(maps) = maps else { return TableOutcome::ABSENT };
    let rows = worker.rows(&job.path, &job.file, base, entry).unwrap_or_else(|error| {
        log::debug!("no unwind rows of {}: {error}", job.path);
        Rows::default()
    });
    let (table, bytes) = table_of(rows, &mut locked(maps), MAX_FULL_RULES);
    TableOutcome { table, bytes }
}

fn generated_tables(rows: Vec<RowsOf>, maps: &mut RowMaps) -> Vec<GeneratedTable> {
    let make = |mut of: RowsOf| {
        let (rows, full) = (std::mem::take(&mut of.rows), std::mem::take(&mut of.full).into_rules());
        GeneratedTable::new(&of, table_of(Rows { rows, full, ..Rows::default() }, maps, MAX_FULL_RULES / 2))
    };
    rows.into_iter().filter_map(make).collect()
}

/// What becomes of rows, and the bytes of their table. Where there are so many rules in full of all already, none are added.
fn table_of(rows: Rows, maps: &mut RowMaps, most_full: u32) -> (Table, usize) {
    if rows.rows.is_empty() {
        return (Table::Absent, 0);
    }
    match maps.add(rows, most_full) {
        Ok((table, bytes)) => (Table::Ready(table), bytes),
        Err(RowMapError::Full(bytes)) => (Table::Refused, bytes),
        Err(error) => {
            log::warn!("no row table: {error}");
            (Table::Absent, 0)
        }
    }
}

impl TableOutcome {
    const ABSENT: Self = Self { table: Table::Absent, bytes: 0 };
}

#[cfg(test)]
mod tests {
    use super::{FileKey, Files, Mapped, Mapping, Pid, SeenFile, Table};
    use energy_trace_foreign::peeker::Peeker;
    use energy_trace_foreign::resolver::Resolver;

    /// Of too many files those that no process maps are forgotten, once they have been read.
    #[test]
    fn files_without_end() {
        let (resolver, peeker) = (Resolver::start(false).unwrap(), Peeker::start().unwrap());
        let mut files = Files::start(None, &resolver, peeker).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let path = folder.path().join(name);
            std::fs::copy("/bin/true", &path).unwrap();
            files.prefetch(&SeenFile::look(&path).unwrap());
        }
        files.most_files = 2;
        files.forget_unmapped(&Mapped::new());
        assert_eq!(files.files.len(), 3, "they are being read");
        let mut looks = 0;
        files.await_updates(&mut || {
            looks += 1;
            looks < 200
        });
        let kept: FileKey = files.files.keys().next().unwrap().clone();
        let (start, end, offset, path) = (0, 1, 0, String::new());
        let mapping = Mapping { start, end, offset, file: Some(kept.clone()), path };
        files.forget_unmapped(&Mapped::from([(&kept, (Pid::new(1), &mapping))]));
        assert_eq!(files.files.keys().collect::<Vec<_>>(), [&kept]);
        assert!(files.files.values().all(|file| file.table != Table::Pending) && !files.are_many());
    }
}
