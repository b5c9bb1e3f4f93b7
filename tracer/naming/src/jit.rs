//! Names of code that was made at run time: where a process has written them, and which name a place had when it was seen.
//!
//! A `jit-PID.dump` (`jitdump.rs`) is found by its mapping, which the JIT makes for that purpose, and opened while the process lives; what
//! it does not name a `/tmp/perf-PID.map` (`perf_map.rs`) may. Both are believed only from the process's own user or root, as `perf` has it:
//! anybody may write a file of that name to `/tmp`. The resolver reads them. Code without either is called after what calls it
//! (`made_by.rs`), or its program: `[jit: node]`.

use energy_trace_foreign::files::Root;
use energy_trace_foreign::peeker::{OpenedFile, Peeker};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{FrameId, Pid};
use energy_trace_model::recording::record::Owner;
use energy_trace_model::recording::synthetic_frame::jit_without_name;
use energy_trace_symbols::jitdump::History;
use energy_trace_unwind::address_space::Mapping;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// Letters of a program's name that are shown.
const MOST_LETTERS: usize = 48;
/// Dumps of one process that are kept open.
const MOST_DUMPS: usize = 4;
/// Callers of a place that are kept.
const MOST_CALLERS: usize = 24;

/// A program that runs code made at run time, and the files with the names.
#[derive(Debug)]
pub struct JitProcess {
    /// Its process id as it knows it itself, which is in its files' names.
    own_pid: Pid,
    /// Its user when it was met; `None` where that could not be told.
    user: Option<u32>,
    /// What code without a name is called.
    nameless: String,
    root: Root,
    dumps: Vec<(u64, File)>,
    /// When the mappings were read in which they were looked for last.
    looked_at: Option<KtimeNs>,
    /// The places that were seen.
    places: BTreeMap<u64, JitPlace>,
}

/// A place in such code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JitPlace {
    frame: FrameId,
    first: KtimeNs,
    last: KtimeNs,
    /// Its callers when it was first seen with some, the nearest first.
    callers: Vec<FrameId>,
    /// None is missing before the first one.
    is_called: bool,
}

/// What a frame is called: from each time on, the first from the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitNames {
    /// The frame.
    pub frame: FrameId,
    /// Its name at first.
    pub first: String,
    /// Its names from later moments on, in order: other code was put in the place.
    pub later: Vec<(KtimeNs, String)>,
}

impl JitProcess {
    /// Of a process that lives, and runs this file.
    pub fn new(pid: Pid, program: &str, root: Root) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own_pid = parse_own_pid(&status).unwrap_or(pid);
        Self {
            own_pid,
            user: parse_user(&status),
            nameless: nameless(Path::new(program)),
            root,
            dumps: Vec::new(),
            looked_at: None,
            places: BTreeMap::new(),
        }
    }

    /// What code is called that nothing else names.
    pub fn nameless(&self) -> &str {
        &self.nameless
    }

    /// The frame of a place that was seen, if it was seen before, and whether its callers are known.
    pub fn see(&mut self, address: u64, at: KtimeNs) -> Option<(FrameId, bool)> {
        let place = self.places.get_mut(&address)?;
        place.last = place.last.max(at);
        place.first = place.first.min(at);
        Some((place.frame, place.is_called))
    }

    /// A place that was seen for the first time.
    pub fn add(&mut self, address: u64, at: KtimeNs, frame: FrameId) {
        let place = JitPlace { frame, first: at, last: at, callers: Vec::new(), is_called: false };
        self.places.insert(address, place);
    }

    /// Who called a place, the nearest first; `is_sure`: none is missing before the first.
    pub fn called(&mut self, address: u64, is_sure: bool, callers: &[FrameId]) {
        let Some(place) = self.places.get_mut(&address).filter(|place| !place.is_called) else { return };
        if is_sure || place.callers.is_empty() {
            place.callers = callers.iter().copied().take(MOST_CALLERS).collect();
            place.is_called = is_sure;
        }
    }

    /// Opens the dumps among the mappings of the process, as they were read then, that are not open yet: one may be mapped long after its code.
    pub fn find_dumps(&mut self, pid: Pid, mappings: &[Mapping], read_at: Option<KtimeNs>, peeker: &Peeker) {
        if std::mem::replace(&mut self.looked_at, read_at) == read_at && read_at.is_some() {
            return;
        }
        for mapping in mappings.iter().filter(|mapping| is_dump(&mapping.path)) {
            let Some(key) = &mapping.file else { continue };
            let known = self.dumps.iter().any(|(inode, _)| *inode == key.inode);
            if known || self.dumps.len() >= MOST_DUMPS {
                continue;
            }
            let opened = peeker.open(pid, mapping, false).ok().and_then(Result::ok);
            let is_trusted = |found: &OpenedFile| !found.is_copy && self.trusts(found.owner, found.links);
            self.dumps.extend(opened.filter(is_trusted).map(|opened| (key.inode, opened.file)));
        }
    }

    /// Whether a file may name this process's code: it is its user's or root's, and has no other name by which somebody could have brought it
    /// here.
    fn trusts(&self, owner: u32, links: u64) -> bool {
        (owner == 0 || Some(owner) == self.user) && links <= 1
    }

    /// Whose program it is.
    pub fn owner(&self) -> Owner {
        self.user.map_or(Owner::Several, Owner::of_user)
    }

    /// The names of all places that were seen. `made_by` calls one after its callers, of whom it is told whether they are sure.
    pub fn names(
        &self,
        worker: &Worker,
        made_by: impl Fn(&[FrameId], bool) -> Option<String>,
    ) -> Vec<JitNames> {
        let wanted: Vec<u64> = self.places.keys().copied().collect();
        let label = |what: &str| format!("{what} of process {}", self.own_pid);
        let mut histories: BTreeMap<u64, History> = BTreeMap::new();
        for (_, dump) in &self.dumps {
            match worker.jit_dump(&label("the jitdump"), dump, &wanted) {
                Ok(found) => {
                    histories.extend(found.into_iter().map(|(address, plain)| (address, history(plain))));
                }
                Err(error) => log::debug!("no names from a jitdump of process {}: {error}", self.own_pid),
            }
        }
        let map = self.open_map().and_then(|map| worker.perf_map(&label("the perf map"), &map, &wanted).ok());
        let map: BTreeMap<u64, String> = map.into_iter().flatten().fill_map();
        let names = |(address, place): (&u64, &JitPlace)| {
            let history = histories.get(address);
            let otherwise = map.get(address).cloned().or_else(|| made_by(&place.callers, place.is_called));
            let otherwise = otherwise.as_deref().unwrap_or(&self.nameless);
            names_of(place, history.map_or(&[], Vec::as_slice), otherwise)
        };
        self.places.iter().map(names).collect()
    }

    /// Its perf map; most programs write none.
    fn open_map(&self) -> Option<File> {
        let path = format!("/tmp/perf-{}.map", self.own_pid);
        let map = self.root.open_if(Path::new(&path), false, |found| self.trusts(found.uid(), found.nlink()));
        map.inspect_err(|error| log::debug!("no perf map of process {}: {error}", self.own_pid)).ok()
    }
}

/// What nameless code of a program, or a library, is called. Others choose its file's name: letters that mean something in stacks are left out.
pub(super) fn nameless(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |letter: &char| letter.is_alphanumeric() || "._+-".contains(*letter);
    let plain: String =
        name.split(' ').next().unwrap_or_default().chars().filter(is_plain).take(MOST_LETTERS).collect();
    jit_without_name(&plain)
}

fn history(plain: Vec<(u64, Option<String>)>) -> History {
    plain.into_iter().map(|(at, name)| (KtimeNs::from_ns(at), name.map(Into::into))).collect()
}

/// The process id that a process knows itself by: the last of `NSpid` (Documentation/filesystems/proc.rst, v6.1).
fn parse_own_pid(status: &str) -> Option<Pid> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok().map(Pid::new)
}

/// The effective user: the second of `Uid`.
fn parse_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a path is `…/jit-PID.dump`.
fn is_dump(path: &str) -> bool {
    let Some(path) = path.strip_suffix(".dump") else { return false };
    let number = path.rsplit('/').next().and_then(|name| name.strip_prefix("jit-"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The names of a place between its first and its last sample. `otherwise` names it before its history begins and in gaps.
fn names_of(place: &JitPlace, history: &[(KtimeNs, Option<Arc<str>>)], otherwise: &str) -> JitNames {
    let name = |name: &Option<Arc<str>>| name.as_deref().unwrap_or(otherwise).to_owned();
    let before = history.partition_point(|(at, _)| *at <= place.first);
    let first = history[..before].last().map_or_else(|| otherwise.to_owned(), |(_, n)| name(n));
    let mut later: Vec<(KtimeNs, String)> = Vec::new();
    for (at, found) in history[before..].iter().take_while(|(at, _)| *at <= place.last) {
        let found = name(found);
        let last = later.last().map_or(&first, |(_, name)| name);
        if *last != found {
            later.push((*at, found));
        }
    }
    JitNames { frame: place.frame, first, later }
}

#[cfg(test)]
mod tests {
    use super::{JitPlace, JitProcess, is_dump, nameless, names_of, parse_own_pid, parse_user};
    use energy_trace_foreign::files::Root;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{FrameId, Pid};
    use energy_trace_symbols::jitdump::History;
    use std::os::unix::fs::MetadataExt as _;

    fn names(first: u64, last: u64, history: &[(u64, Option<&str>)]) -> (String, Vec<(u64, String)>) {
        let at = KtimeNs::from_ns;
        let (frame, callers) = (FrameId::new(0), Vec::new());
        let place = JitPlace { frame, first: at(first), last: at(last), callers, is_called: false };
        let history: History = history.iter().map(|&(ns, name)| (at(ns), name.map(Into::into))).collect();
        let found = names_of(&place, &history, "[jit]");
        (found.first, found.later.into_iter().map(|(at, name)| (at.as_ns(), name)).collect())
    }

    /// Code without names is its program's, whose file may be gone, or have a name that means harm.
    #[test]
    fn code_of_a_program() {
        let named = |path: &str| nameless(std::path::Path::new(path));
        assert_eq!(named("/usr/bin/node"), "[jit: node]");
        assert_eq!(named("/usr/bin/php8.2 (deleted)"), "[jit: php8.2]");
        assert_eq!(named("/tmp/a;b]\u{1b}[2J"), "[jit: ab2J]");
        assert_eq!(named(""), "[jit]");
    }

    /// The name is the one of the time of the samples; only a change between the first and the last of them is told.
    #[test]
    fn names_by_time() {
        let history = [(10, Some("f")), (20, Some("g")), (30, Some("g")), (40, None)];
        assert_eq!(names(12, 15, &history), ("f".into(), vec![]));
        assert_eq!(names(20, 35, &history), ("g".into(), vec![]));
        assert_eq!(names(12, 22, &history), ("f".into(), vec![(20, "g".into())]));
        assert_eq!(names(35, 50, &history), ("g".into(), vec![(40, "[jit]".into())]));
        assert_eq!(names(5, 12, &history), ("[jit]".into(), vec![(10, "f".into())]));
        assert_eq!(names(5, 12, &[]), ("[jit]".into(), vec![]));
    }

    /// A dump is known by its name, whatever folder it is in.
    #[test]
    fn dumps_by_name() {
        assert!(is_dump("/root/.debug/jit/x/jit-12.dump"));
        for other in ["/tmp/jit-.dump", "/tmp/jit-a.dump", "/tmp/jit-12.dump.so", "jit-12"] {
            assert!(!is_dump(other), "{other}");
        }
    }

    /// The effective user and the innermost process id are those of the kernel's text.
    #[test]
    fn status_of_a_process() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t77\t5\n";
        assert_eq!((parse_user(status), parse_own_pid(status)), (Some(1001), Some(Pid::new(5))));
        assert_eq!((parse_user(""), parse_own_pid("NSpid:\t\n")), (None, None));
    }

    /// Another user's file names nobody's code, nor does one with a second name; the user's own and root's do.
    #[test]
    fn whose_files_are_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "").unwrap();
        let process = |user| JitProcess {
            user,
            own_pid: Pid::new(1),
            nameless: nameless(std::path::Path::new("")),
            root: Root::default(),
            dumps: Vec::new(),
            looked_at: None,
            places: std::collections::BTreeMap::new(),
        };
        let found = |uid: u32| {
            std::os::unix::fs::chown(&path, Some(uid), None).unwrap();
            std::fs::metadata(&path).unwrap()
        };
        let trusts = |user, file: u32| process(user).trusts(found(file).uid(), found(file).nlink());
        assert!(trusts(Some(1001), 1001) && trusts(Some(1001), 0));
        assert!(!trusts(Some(0), 1001) && !trusts(None, 1001));
        std::fs::hard_link(&path, folder.path().join("second")).unwrap();
        assert_eq!(found(0).nlink(), 2);
        assert!(!trusts(Some(0), 0));
    }
}
