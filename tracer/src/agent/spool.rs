//! Tables of windows as files of a folder, from which somebody else takes them:
//! `TABLE/date=…/HOST-BOOT-SEQ.parquet`.
//!
//! A file is there whole or not at all. The folder has limits: of what is too much or too old the oldest
//! window goes, with all of its tables; on a disk that is full or nearly so as much of the oldest goes as
//! comes; one that cannot be written loses new ones. Both are counted, and nothing of it ends the agent. A
//! folder is one agent's. Leaves out what tables hold (`export::fleet`), and uploading.

use crate::plan::SpoolPlan;
use energy_trace_export::Object;
use energy_trace_export::fleet::{is_day_of_fleet, is_file_of_fleet};
use energy_trace_model::collections::Order as _;
use energy_trace_report::agent_page::SpoolCounts;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, geteuid};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Folders that are looked into.
const TABLES: [&str; 4] = ["energy", "stacks", "ledger", "work"];
/// Between two looks at what others have taken away.
const LOOK_AGAIN: Duration = Duration::from_mins(10);
/// Of a disk that is smaller than the spool may be one part in so many stays free for others.
const FREE_PART: u64 = 20;
/// Who has the folder's group may read.
const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;
/// Windows that are removed for a new one at the most: where there are more, of another agent or a larger limit, new ones are lost for a while.
const MOST_REMOVED: usize = 1_000;
/// A file in the making.
const PARTIAL: &str = ".partial";

/// Why a window is in no file.
#[derive(Debug, thiserror::Error)]
enum NotWritten {
    #[error("its disk is nearly full")]
    NearlyFull,
    #[error("a window is larger than all of it may be")]
    TooLarge,
    #[error("far more is in it than may be, and is being removed")]
    FarTooMuch,
    #[error(
        "it was removed or replaced, and the agent can write only to the folder that was there when it started: start it again"
    )]
    Replaced,
    #[error("{0}")]
    System(#[from] io::Error),
}

impl NotWritten {
    /// Whether room helps.
    fn is_full(&self) -> bool {
        match self {
            Self::NearlyFull => true,
            Self::System(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::TooLarge | Self::FarTooMuch | Self::Replaced => false,
        }
    }
}

/// Has the folder for this agent alone, for as long as the lock is there: two would count each window twice.
/// Where the system keeps no locks of folders nobody is asked.
///
/// # Errors
/// When another agent has it.
pub(super) fn lock(folder: &Path) -> io::Result<Option<File>> {
    // A pipe that somebody puts in its place would keep who opens it.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder);
    let Ok(opened) = opened else { return Ok(None) };
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another agent writes to the spool {}: name another folder", folder.display()),
        )),
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(opened)),
    }
}

/// Whether the folder can be written to by who writes there; one that is not there may be made.
///
/// # Errors
/// When it cannot: no window would ever be there.
pub(super) fn check(folder: &Path) -> io::Result<()> {
    match access(folder, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => {
            let text =
                format!("cannot write to the spool {} as user {}: {error}", folder.display(), geteuid());
            Err(io::Error::new(io::Error::from(error).kind(), text))
        }
    }
}

/// The tables of a window.
struct Batch {
    modified: SystemTime,
    bytes: u64,
    keys: Vec<String>,
}

/// A folder of tables.
pub(super) struct Spool {
    plan: SpoolPlan,
    /// The folder's own number: the sandbox is around this one, whatever is called so later.
    folder: Option<(u64, u64)>,
    /// The oldest first.
    batches: VecDeque<Batch>,
    /// Of all of them.
    bytes: u64,
    looked: Instant,
    counts: SpoolCounts,
    /// Those removed of which a window that was written tells.
    told: u64,
    /// Whether somebody was told that nothing can be written.
    said: bool,
}

impl Spool {
    /// With what earlier agents have left there, as far as it can be seen.
    pub(super) fn new(plan: SpoolPlan) -> Self {
        let (batches, counts) = (VecDeque::new(), SpoolCounts::default());
        let folder = number_of(&plan.folder);
        let (looked, told, said) = (Instant::now(), 0, false);
        let mut spool = Self { plan, folder, batches, bytes: 0, looked, counts, told, said };
        spool.look();
        spool
    }

    pub(super) const fn counts(&self) -> SpoolCounts {
        self.counts
    }

    /// Windows that were removed, for the next one to tell.
    pub(super) const fn untold(&self) -> u64 {
        self.counts.removed - self.told
    }

    /// Puts a window's tables there, or counts that they are lost.
    pub(super) fn put(&mut self, objects: io::Result<Vec<Object>>) {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.look();
        }
        let removed = self.counts.removed;
        let written = objects.map_err(NotWritten::from).and_then(|objects| self.write(&objects));
        match written {
            Ok(()) => (self.counts.written, self.told) = (self.counts.written + 1, removed),
            Err(why) => {
                self.counts.lost += 1;
                if !std::mem::replace(&mut self.said, true) {
                    let folder = self.plan.folder.display();
                    log::error!(
                        "cannot write to the spool {folder}: {why}; windows are lost and counted until that is mended"
                    );
                }
            }
        }
        self.counts.bytes = self.bytes;
    }

    fn write(&mut self, objects: &[Object]) -> Result<(), NotWritten> {
        if number_of(&self.plan.folder) != self.folder {
            return Err(NotWritten::Replaced);
        }
        let bytes = objects.iter().map(|object| object.bytes.len() as u64).sum();
        if bytes > self.plan.most_bytes {
            return Err(NotWritten::TooLarge);
        }
        if self.needs_room(bytes) {
            // Somebody may have taken some away.
            self.look();
        }
        for _ in 0..MOST_REMOVED {
            if !self.needs_room(bytes) {
                break;
            }
            self.remove_oldest();
        }
        if self.needs_room(bytes) {
            return Err(NotWritten::FarTooMuch);
        }
        self.write_in_place_of_oldest(objects, bytes)?;
        let keys = objects.iter().map(|object| object.key.clone()).collect();
        self.batches.push_back(Batch { modified: SystemTime::now(), bytes, keys });
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// On a full disk in the place of the oldest, as far as it may have been they that filled it: what others
    /// write is not made room for.
    fn write_in_place_of_oldest(&mut self, objects: &[Object], bytes: u64) -> Result<(), NotWritten> {
        let mut freed = 0_u64;
        for _ in 0..MOST_REMOVED {
            let written = match freed < bytes && is_nearly_full(&self.plan)? {
                true => Err(NotWritten::NearlyFull),
                false => self.write_files(objects),
            };
            let Err(full) = written else { return Ok(()) };
            if !full.is_full() || freed > bytes.saturating_mul(2) || self.batches.is_empty() {
                return Err(full);
            }
            freed = freed.saturating_add(self.remove_oldest());
        }
        Err(NotWritten::FarTooMuch)
    }

    fn write_files(&self, objects: &[Object]) -> Result<(), NotWritten> {
        let written = objects.iter().try_for_each(|object| self.write_file(object));
        written.map_err(|error| {
            let keys: Vec<String> = objects.iter().map(|object| object.key.clone()).collect();
            self.remove_files(&keys);
            error.into()
        })
    }

    fn needs_room(&self, bytes: u64) -> bool {
        let too_old = SystemTime::now().checked_sub(self.plan.longest).unwrap_or(UNIX_EPOCH);
        let oldest = self.batches.front();
        oldest.is_some_and(|oldest| {
            oldest.modified < too_old || self.bytes.saturating_add(bytes) > self.plan.most_bytes
        })
    }

    /// How many bytes it had.
    fn remove_oldest(&mut self) -> u64 {
        let Some(oldest) = self.batches.pop_front() else { return 0 };
        self.remove_files(&oldest.keys);
        self.bytes = self.bytes.saturating_sub(oldest.bytes);
        self.counts.removed += 1;
        oldest.bytes
    }

    /// Those that somebody has taken away are no failure.
    fn remove_files(&self, keys: &[String]) {
        for path in keys.iter().map(|key| self.plan.folder.join(key)) {
            let _gone = fs::remove_file(&path);
            // A day's folder goes with its last file.
            let _kept = path.parent().map(fs::remove_dir);
        }
    }

    /// Under another name first, which no uploader takes.
    fn write_file(&self, object: &Object) -> io::Result<()> {
        let path = self.plan.folder.join(&object.key);
        let folder = path.parent().unwrap_or(&self.plan.folder);
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = folder.join(format!(".{name}{PARTIAL}"));
        let _left_by_others = fs::remove_file(&partial);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&partial)?;
        let written = file.write_all(&object.bytes).and_then(|()| fs::rename(&partial, &path));
        written.inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    /// Looks at what is there; what was in the making when an agent ended is removed.
    fn look(&mut self) {
        self.looked = Instant::now();
        let mut found: BTreeMap<(String, String), Batch> = BTreeMap::new();
        for table in TABLES {
            // What a link leads to is somebody else's.
            let is_folder = |day: &DirEntry| day.file_type().is_ok_and(|kind| kind.is_dir());
            for day in entries(&self.plan.folder.join(table)).into_iter().filter(is_folder) {
                for file in entries(&day.path()) {
                    add_file(&mut found, table, &day, &file);
                }
            }
        }
        let mut batches: Vec<Batch> = found.into_values().collect();
        batches.order_by_key(|batch| batch.modified);
        self.bytes = batches.iter().map(|batch| batch.bytes).fold(0, u64::saturating_add);
        self.batches = batches.into();
        self.counts.bytes = self.bytes;
    }
}

/// The device and the number of a folder on it.
fn number_of(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|about| (about.dev(), about.ino()))
}

fn entries(folder: &Path) -> Vec<DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten().collect()
}

/// Files of the same day and name are a window's.
fn add_file(found: &mut BTreeMap<(String, String), Batch>, table: &str, day: &DirEntry, file: &DirEntry) {
    let names = (day.file_name().into_string(), file.file_name().into_string());
    let ((Ok(day), Ok(name)), Ok(about)) = (names, file.metadata()) else { return };
    let in_the_making = name.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL));
    let is_ours = about.is_file() && is_day_of_fleet(&day);
    if is_ours && in_the_making.is_some_and(is_file_of_fleet) {
        let _gone = fs::remove_file(file.path());
        return;
    }
    if !is_ours || !is_file_of_fleet(&name) {
        return;
    }
    let key = format!("{table}/{day}/{name}");
    let modified = about.modified().unwrap_or(UNIX_EPOCH);
    let batch = found.entry((day, name)).or_insert_with(|| Batch { modified, bytes: 0, keys: Vec::new() });
    batch.bytes = batch.bytes.saturating_add(about.size());
    batch.modified = batch.modified.max(modified);
    batch.keys.push(key);
}

/// Less than a twentieth is free, and less than the spool may have.
fn is_nearly_full(plan: &SpoolPlan) -> io::Result<bool> {
    let disk = nix::sys::statvfs::statvfs(&plan.folder)?;
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    Ok(disk.blocks_available() < disk.blocks() / FREE_PART && free < plan.most_bytes)
}

#[cfg(test)]
mod tests {
    use super::{MOST_REMOVED, Object, Spool, SpoolCounts, SpoolPlan, TABLES};
    use nix::mount::{MsFlags, mount};
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    fn window(number: u32) -> Vec<Object> {
        let key = |table| format!("{table}/date=2026-11-28/h-3f2a1b4c99aa-{number:013}.parquet");
        TABLES.map(|table| Object { key: key(table), bytes: vec![7; 75] }).to_vec()
    }

    fn spool(folder: &Path, most_bytes: u64) -> Spool {
        Spool::new(SpoolPlan {
            folder: folder.into(),
            most_bytes,
            longest: Duration::from_hours(1),
            owner: None,
        })
    }

    fn files(folder: &Path, table: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder.join(table).join("date=2026-11-28"))
            .into_iter()
            .flatten()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    const fn counts(written: u64, removed: u64, lost: u64, bytes: u64) -> SpoolCounts {
        SpoolCounts { written, removed, lost, bytes, merged_stacks: 0 }
    }

    /// Windows are written whole; of what is too much the oldest goes with all of its tables, whoever wrote
    /// it, and what somebody has taken away is no longer counted. What was in the making is no file.
    #[test]
    fn limits() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = spool(folder.path(), 1_000);
        (0..2).for_each(|number| first.put(Ok(window(number))));
        assert_eq!(first.counts(), counts(2, 0, 0, 600));
        let partial =
            folder.path().join("energy/date=2026-11-28/.h-3f2a1b4c99aa-0000000000009.parquet.partial");
        fs::write(&partial, "half").unwrap();
        let mut next = spool(folder.path(), 1_000);
        assert!(next.counts() == counts(0, 0, 0, 600) && !partial.exists());
        (2..5).for_each(|number| next.put(Ok(window(number))));
        assert_eq!(next.counts(), counts(3, 2, 0, 900));
        let kept = [2, 3, 4].map(|number| format!("h-3f2a1b4c99aa-{number:013}.parquet"));
        TABLES.iter().for_each(|table| assert_eq!(files(folder.path(), table), kept));
        TABLES.iter().for_each(|table| fs::remove_dir_all(folder.path().join(table)).unwrap());
        next.put(Ok(window(5)));
        assert_eq!(next.counts(), counts(4, 2, 0, 300));
    }

    /// What somebody else put there is neither counted nor removed, however old it is and whatever it is called.
    #[test]
    fn files_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("energy/date=2026-11-28");
        fs::create_dir_all(&day).unwrap();
        let names = [
            "mine.parquet",
            "a-b.parquet",
            "my-data-2026.parquet",
            "x.partial",
            ".x.partial",
            "h-z-0000000000001.parquet",
            "sales-2026-1764556800000.parquet",
        ];
        let saved = folder.path().join("energy/date=2026-11-28.saved");
        fs::create_dir_all(&saved).unwrap();
        let kept = saved.join("h-3f2a1b4c99aa-0000000000001.parquet");
        std::os::unix::fs::symlink(&saved, day.with_file_name("date=2026-11-27")).unwrap();
        for path in names.map(|name| day.join(name)).iter().chain([&kept]) {
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let mut spool = spool(folder.path(), 300);
        (0..3).for_each(|number| spool.put(Ok(window(number))));
        assert_eq!(spool.counts(), counts(3, 2, 0, 300));
        assert!(names.iter().all(|name| day.join(name).exists()) && kept.exists());
    }

    /// What was removed is told by the next window that is written, and once.
    #[test]
    fn removed_are_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = spool(folder.path(), 600);
        let mut put = |objects| {
            let told = spool.untold();
            spool.put(Ok(objects));
            told
        };
        assert_eq!([0, 1, 2].map(|number| put(window(number))), [0; 3]);
        let large = || window(3).into_iter().map(|of| Object { bytes: vec![7; 200], ..of }).collect();
        // It is lost, and tells nobody.
        assert_eq!(put(large()), 1);
        assert_eq!([4, 5].map(|number| put(window(number))), [1, 1]);
    }

    /// Of far too many windows only so many are removed for each new one, which is lost until there is room.
    #[test]
    fn far_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("energy/date=2026-11-28");
        fs::create_dir_all(&day).unwrap();
        let most = u32::try_from(MOST_REMOVED).unwrap();
        (0..most + 2).for_each(|number| {
            fs::write(day.join(format!("a-3f2a1b4c99aa-{number:013}.parquet")), "1").unwrap();
        });
        let mut many = spool(folder.path(), 300);
        many.put(Ok(window(1)));
        assert_eq!(many.counts(), counts(0, MOST_REMOVED as u64, 1, 2));
        many.put(Ok(window(2)));
        assert_eq!(many.counts(), counts(1, MOST_REMOVED as u64 + 2, 1, 300));
    }

    /// What is too old goes, and a window that is larger than all may be is lost.
    #[test]
    fn old_and_large() {
        let folder = tempfile::tempdir().unwrap();
        let mut old = spool(folder.path(), 1_000);
        old.put(Ok(window(0)));
        for table in TABLES {
            let file = folder.path().join(window(0)[0].key.replace("energy", table));
            let then = SystemTime::now() - Duration::from_hours(2);
            fs::File::open(file).unwrap().set_modified(then).unwrap();
        }
        let mut old = spool(folder.path(), 1_000);
        old.put(Ok(window(1)));
        assert_eq!((old.counts(), files(folder.path(), "ledger").len()), (counts(1, 1, 0, 300), 1));
        let mut small = spool(folder.path(), 299);
        small.put(Ok(window(2)));
        assert_eq!(small.counts().lost, 1);
        assert_eq!(files(folder.path(), "energy").len(), 1);
    }

    /// A folder that was removed and made again is another one, and nothing is written there.
    #[test]
    fn made_anew() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("spool");
        fs::create_dir(&folder).unwrap();
        let mut spool = spool(&folder, 1_000);
        spool.put(Ok(window(0)));
        fs::rename(&folder, above.path().join("away")).unwrap();
        spool.put(Ok(window(1)));
        assert!(!folder.exists());
        fs::create_dir(&folder).unwrap();
        spool.put(Ok(window(2)));
        assert_eq!((spool.counts().written, spool.counts().lost), (1, 2));
        assert!(files(&folder, "energy").is_empty());
        let why = spool.write(&window(3)).unwrap_err().to_string();
        assert!(why.contains("start it again"), "{why}");
    }

    /// A folder is one agent's as long as it lives.
    #[test]
    fn one_agent() {
        let folder = tempfile::tempdir().unwrap();
        let first = super::lock(folder.path()).unwrap();
        let second = super::lock(folder.path()).unwrap_err().to_string();
        assert!(first.is_some() && second.contains("another agent writes to the spool"), "{second}");
        drop(first);
        assert!(super::lock(folder.path()).unwrap().is_some());
        assert!(super::lock(&folder.path().join("none")).unwrap().is_none());
    }

    /// A disk of its own of so many bytes; `false`: who is not root has none.
    fn has_disk(place: &Path, flags: MsFlags, size: &str) -> bool {
        mount(Some("none"), place, Some("tmpfs"), flags, Some(size)).is_ok()
    }

    /// On a disk that is smaller than the spool may be the oldest go for the new ones, with all of their
    /// tables; where others fill the rest the spool goes on in what it has.
    #[test]
    fn small_disk() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        if !has_disk(place, MsFlags::empty(), "size=400k") {
            return;
        }
        let mut spool = spool(place, 1 << 30);
        let large = |number| window(number).into_iter().map(|of| Object { bytes: vec![7; 30_000], ..of });
        (0..12).for_each(|number| spool.put(Ok(large(number).collect())));
        let counts = spool.counts();
        assert_eq!((counts.written, counts.lost), (12, 0));
        let kept = TABLES.map(|table| files(place, table));
        assert!((2..=4).contains(&kept[0].len()) && kept[0] == kept[1] && kept[1] == kept[2], "{kept:?}");
        assert_eq!(counts.removed, 12 - kept[0].len() as u64);
        assert_eq!(kept[0].last().unwrap(), "h-3f2a1b4c99aa-0000000000011.parquet");
        let _full = fs::write(place.join("of others"), [0; 400 << 10]);
        (12..14).for_each(|number| spool.put(Ok(large(number).collect())));
        assert_eq!((spool.counts().written, spool.counts().lost), (14, 0));
        assert_eq!(files(place, "ledger").len(), kept[0].len());
        nix::mount::umount(place).unwrap();
    }

    /// A disk that is full or cannot be written loses windows, leaves no half ones, and serves again when
    /// that is mended.
    #[test]
    fn full_and_read_only() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let tmpfs = |flags, size: &str| mount(Some("none"), place, Some("tmpfs"), flags, Some(size));
        if !has_disk(place, MsFlags::empty(), "size=64k") {
            return;
        }
        let mut spool = spool(place, 1 << 20);
        let large = |number| window(number).into_iter().map(|of| Object { bytes: vec![7; 30_000], ..of });
        spool.put(Ok(large(0).collect()));
        assert_eq!((spool.counts().lost, files(place, "energy").len()), (1, 0));
        spool.put(Ok(window(1)));
        tmpfs(MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, "").unwrap();
        spool.put(Ok(window(2)));
        assert_eq!(spool.counts().lost, 2);
        tmpfs(MsFlags::MS_REMOUNT, "").unwrap();
        spool.put(Ok(window(3)));
        assert_eq!((spool.counts().written, files(place, "stacks").len()), (2, 2));
        nix::mount::umount(place).unwrap();
    }
}
